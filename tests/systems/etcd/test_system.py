"""How a node of etcd is started, and what it says of itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.harness.campaigns.compose import RunOptions, command_line, compose
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId, NodePlace
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems import catalogue
from splitbrain.harness.systems.etcd import Etcd
from splitbrain.results.errors import BackendError, UsageError
from tests.systems.etcd.conftest import OPTIONS, Running
from tests.systems.etcd.fake_node import fake_node, page, says, silence

TEST = cast(Test, SimpleNamespace(request_timeout_ms=1500, seed=5, bugs=(), settings={}))
PLACE = NodePlace(
    node="n2",
    data_dir="/data",
    listen=("10.0.0.2", 7000),
    peers={"n3": ("10.0.0.3", 7000), "n1": ("10.0.0.1", 7000)},
    home="image",
)


def options_of(place: NodePlace) -> dict[str, str]:
    argv = Etcd().command(TEST, place).argv
    assert argv[0] == "etcd"
    return dict(zip(argv[1::2], argv[2::2], strict=True))


def dialled(node: Any) -> Deployment:
    return cast(Deployment, node)


class TestCommand:
    def test_clients_are_served_where_the_node_lives_and_peers_on_the_port_behind_it(self) -> None:
        options = options_of(PLACE)
        assert options["--listen-client-urls"] == options["--advertise-client-urls"] == "http://10.0.0.2:7000"
        assert options["--listen-peer-urls"] == options["--initial-advertise-peer-urls"] == "http://10.0.0.2:7001"
        assert options["--initial-cluster"] == "n1=http://10.0.0.1:7001,n2=http://10.0.0.2:7001,n3=http://10.0.0.3:7001"
        assert options["--data-dir"] == "/data/etcd"

    def test_every_node_names_the_same_cluster_and_two_tests_two(self) -> None:
        other = NodePlace(
            node="n1",
            data_dir="/data",
            listen=("10.0.0.1", 7000),
            peers={"n2": ("10.0.0.2", 7000), "n3": ("10.0.0.3", 7000)},
            home="image",
        )
        for option in ("--initial-cluster", "--initial-cluster-token"):
            assert options_of(PLACE)[option] == options_of(other)[option]
        again = (
            Etcd()
            .command(
                cast(Test, SimpleNamespace(request_timeout_ms=1500, seed=6, settings={"snapshot-count": 100})), PLACE
            )
            .argv
        )
        assert options_of(PLACE)["--initial-cluster-token"] not in again
        assert again[again.index("--snapshot-count") + 1] == "100"

    def test_nothing_that_makes_etcd_less_safe_is_switched_on(self) -> None:
        assert not [name for name in options_of(PLACE) if "unsafe" in name or "force" in name]

    def test_an_address_of_ipv6_is_put_in_brackets(self) -> None:
        place = NodePlace(node="n1", data_dir="/data", listen=("fd00::1", 7000), peers={}, home="image")
        assert options_of(place)["--listen-client-urls"] == "http://[fd00::1]:7000"

    def test_without_an_etcd_on_this_machine_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        place = NodePlace(node="n1", data_dir="/data", listen=("10.0.0.1", 7000), peers={})
        with pytest.raises(BackendError, match=r"no 'etcd' on this machine .*etcd-server"):
            Etcd().command(TEST, place)

    def test_peers_behind_proxies_are_refused(self) -> None:
        place = NodePlace(
            node="n1", data_dir="/data", listen=("127.0.0.1", 7000), peers={"n2": ("127.0.0.1", 9)}, home="image"
        )
        with pytest.raises(BackendError, match="by the same address"):
            Etcd().command(TEST, place)


class TestView:
    @pytest.mark.slow
    def test_a_node_that_leads_itself_says_so(self, etcd: Running) -> None:
        async def check() -> None:
            view = await Etcd().view(etcd.deployment, "n1")
            assert view is not None
            assert (view.node, view.role, view.leader) == ("n1", "leader", "n1")
            assert view.term >= 1
            assert view.commit_index >= view.applied_index >= 1

        etcd.run(check())

    def test_another_leader_is_named_and_none_is_none(self) -> None:
        members = page({"members": [{"ID": "1", "name": "n1"}, {"ID": "2", "name": "n2"}, {"ID": "3"}]})

        async def leader(status: dict[str, Any]) -> tuple[str, NodeId | None]:
            async with fake_node(says(page({"header": {"member_id": "1"}, **status})), says(members)) as node:
                view = await Etcd().view(dialled(node), "n1")
                assert view is not None
                return view.role, view.leader

        assert asyncio.run(leader({"leader": "2", "raftTerm": "4"})) == ("follower", "n2")
        assert asyncio.run(leader({"raftTerm": "4"})) == ("follower", None)
        assert asyncio.run(leader({"leader": "3", "raftTerm": "4"})) == ("follower", None)  # never started

    def test_a_node_that_says_nothing_or_is_down_has_none(self) -> None:
        async def check() -> None:
            async with fake_node(silence) as node:
                assert await Etcd().view(dialled(node), "n1") is None
            assert await Etcd().view(dialled(node), "n1") is None

        asyncio.run(check())


class TestCatalogue:
    def test_reads_are_linearizable_unless_asked_for_otherwise(self) -> None:
        assert catalogue.build("etcd").name == catalogue.build("etcd", "serializable").name == "etcd"

    @pytest.mark.parametrize(("system", "mode"), [("metadata", "serializable"), ("etcd", "eventual")])
    def test_a_mode_that_a_system_does_not_have_is_refused_with_those_that_it_has(self, system: str, mode: str) -> None:
        with pytest.raises(UsageError, match=f"--read-mode {mode}: reads of system '{system}' are linearizable"):
            catalogue.build(system, mode)

    def test_a_mode_is_part_of_a_tests_name_of_its_options_and_of_the_command_that_repeats_it(self) -> None:
        def composed(**mode: str) -> tuple[str, str]:
            chosen = RunOptions.of(**OPTIONS, **mode)
            test = compose(chosen)
            assert test.options["read_mode"] == mode.get("read_mode", "linearizable")
            return test.name, command_line(chosen)

        name, command = composed()
        assert name == "etcd-register-partition"
        assert "--read-mode" not in command
        name, command = composed(read_mode="serializable")
        assert name == "etcd-serializable-register-partition"
        assert "--read-mode serializable" in command

    def test_a_workload_that_reads_nothing_takes_no_mode(self) -> None:
        with pytest.raises(UsageError, match="workload 'lock' has no reads"):
            compose(RunOptions.of(**{**OPTIONS, "workload": "lock"}, read_mode="serializable"))


def test_it_has_no_telemetry_of_its_own() -> None:
    assert Etcd().telemetry(TEST, Path("n1")) is None
