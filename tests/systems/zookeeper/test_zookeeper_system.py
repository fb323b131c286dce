"""How a node of ZooKeeper is started, and which places are refused."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from splitbrain.harness.backends.local import support
from splitbrain.harness.backends.local.support import require_programs
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeCommand, NodePlace
from splitbrain.harness.contract.test import TIME_MAX_S, Test
from splitbrain.harness.systems.zookeeper import Zookeeper, status
from splitbrain.harness.systems.zookeeper.connection import SESSION_MS
from splitbrain.harness.systems.zookeeper.status import Status
from splitbrain.results.errors import BackendError
from tests.systems.zookeeper.conftest import OPTIONS

THREE = ("n1", "n2", "n3")


def composed(**options: Any) -> Test:
    return compose(RunOptions.of(**{**OPTIONS, **options}))


def command(test: Test, name: str = "n2", home: Any = "image", network: str = "10.0.0") -> NodeCommand:
    addresses = {each: (f"{network}.{number}", 7000) for number, each in enumerate(THREE, 1)}
    peers = {each: address for each, address in addresses.items() if each != name and each in test.nodes}
    return test.system.command(test, NodePlace(name, "/data", addresses[name], peers, home))


def lines(made: NodeCommand) -> list[str]:
    return made.files["zoo.cfg"].decode().splitlines()


def test_all_nodes_list_the_same_members_and_each_has_its_own_number() -> None:
    made = [command(composed(), node) for node in THREE]
    listed = [[line for line in lines(each) if line.startswith("server.")] for each in made]
    assert listed == [[f"server.{number}=10.0.0.{number}:7001:7002" for number in (1, 2, 3)]] * 3
    assert [each.files["myid"] for each in made] == [b"1\n", b"2\n", b"3\n"]


def test_one_node_alone_lists_no_members() -> None:
    assert not [line for line in lines(command(composed(nodes="1"), "n1")) if line.startswith("server.")]


def test_settings_reach_the_node() -> None:
    made = command(composed(settings="tick-time=250,sync-limit=8,snap-count=50"))
    assert {"tickTime=250", "syncLimit=8", "initLimit=40"} <= set(lines(made))
    assert "-Dzookeeper.snapCount=50" in made.argv


def test_no_session_ends_within_a_run() -> None:
    assert f"maxSessionTimeout={SESSION_MS}" in lines(command(composed()))
    assert SESSION_MS > 1000 * TIME_MAX_S


def test_proxies_between_nodes_are_refused() -> None:
    with pytest.raises(BackendError, match="--backend docker"):
        command(composed(), network="127.0.0")


@pytest.mark.parametrize("absent", ["java", "/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"])
def test_a_machine_without_one_part_of_zookeeper_is_refused(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def there(program: str) -> str | None:
        return None if program == absent else program

    monkeypatch.setattr(support, "installed", there)
    with pytest.raises(BackendError, match=absent):
        require_programs(composed())


def test_a_node_that_hangs_does_not_hide_whom_a_follower_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(_: object, name: str) -> Status:
        if name == "n3":
            await asyncio.Event().wait()
        return Status("leader" if name == "n2" else "follower", 7)

    class Nodes:
        nodes = THREE

    monkeypatch.setattr(status, "ask", ask)
    monkeypatch.setattr(status, "OTHERS_S", 0.01)
    found = asyncio.run(status.view(cast("Deployment", Nodes()), "n1"))
    assert (found.role, found.leader, found.term) == ("follower", "n2", 7)


@pytest.mark.parametrize(
    ("mode", "local"), [("linearizable", {"read-local"}), ("serializable", {"read", "read-local"})]
)
def test_quorum_progress_is_judged_of_what_a_node_cannot_answer_alone(mode: Any, local: set[str]) -> None:
    elections = Zookeeper(mode).capabilities.elections
    assert elections is not None
    assert elections.local == local
    assert elections.bound_s > elections.timeout_s


@pytest.mark.parametrize(
    ("chosen", "lease_s"), [("barrier=write", 0.0), ("barrier=sync", Zookeeper.election_timeout_s)]
)
def test_only_sync_lets_a_leader_answer_that_has_not_noticed_yet_that_it_is_alone(chosen: str, lease_s: float) -> None:
    test = composed(settings=chosen)
    elections = test.system.capabilities.elections
    assert elections is not None
    assert elections.lease_in_force_s(test.settings) == lease_s


def test_a_leader_that_hears_nothing_may_answer_for_the_sync_limit_of_the_test() -> None:
    """A tick of 2 s and a limit of 10 are 20 s in which it may not have noticed; see `zoo.cfg`."""
    test = composed(settings="tick-time=2000,sync-limit=10,barrier=sync", nemesis="partition")
    [judged] = [spec.options for spec in test.workload.checkers if spec.name == "quorum-progress"]
    assert judged["lease_s"] >= 20
    assert judged["election_timeout_s"] >= 20
    assert judged["recovery_bound_s"] > judged["election_timeout_s"]
