"""A controller, an agent or a host is lost: that is told in one line, and nothing is left behind."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from splitbrain.harness.backends.ssh import links, machine
from splitbrain.results.errors import BackendError
from tests.backends import ssh_support
from tests.backends.conformance.controller import holding_controller
from tests.backends.ssh_support import Hosts, deploy, deployed, running_hosts
from tests.backends.support import start_all
from tests.cli.support import answer, splitbrain

hosts = ssh_support.hosts
pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_clean_tells_what_a_killed_controller_left_on_hosts_and_then_removes_it(hosts: Hosts, tmp_path: Path) -> None:
    with holding_controller("ssh", tmp_path / "killed", hosts.inventory) as (controller, seen):
        homes: dict[str, str] = seen["homes"]
        assert cleaned(hosts, "--dry-run") == [], "it lives: nothing would be removed"
        controller.kill()
    assert hosts.wait_until_clear(but="/var/tmp/splitbrain-") == []
    would = cleaned(hosts, "--dry-run")
    assert all(any(home in line for line in would) for home in homes.values())
    assert {trace.split(": ")[1] for trace in hosts.traces()} == set(homes.values()), "it was only told"
    assert [line.replace("removed", "would remove", 1) for line in cleaned(hosts)] == would
    assert hosts.wait_until_clear() == []
    assert cleaned(hosts) == []


def cleaned(hosts: Hosts, *words: str) -> list[str]:
    """What `splitbrain clean --hosts` says that it removed, or would."""
    entries = ",".join(f"{host.node}={host.user}@{host.name}:{host.port}" for host in hosts.inventory.hosts)
    reached = ["--hosts", entries, "--known-hosts", f"{hosts.folder}/known_hosts", "--ssh-key", f"{hosts.folder}/user"]
    found: list[str] = answer(splitbrain("clean", "--json", *reached, *words))["removed"]
    return found


@pytest.mark.slow
def test_an_agent_that_is_killed_takes_its_node_along_and_is_missed(hosts: Hosts, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with deployed(hosts.inventory, tmp_path) as deployment:
            await start_all(deployment)
            # A child of the agent that ends by itself meanwhile is as dead as the others.
            hosts.on(1, "kill -9 $(ps ax -o pid,args | awk '/[a]gent.remote/ && !/sudo/ {print $1}') || true")
            with pytest.raises(BackendError, match=r"n2 \(.*:22\): the agent ended"):
                await deployment.status("n2")
            of_host = [trace for trace in hosts.traces() if trace.startswith(hosts.addresses[1])]
            assert not [trace for trace in of_host if "gossip" in trace]
            assert (await deployment.status("n1")).state == "running"

    asyncio.run(scenario())
    assert [trace for trace in hosts.traces() if "table" not in trace] == []
    hosts.on(1, "nft delete table inet splitbrain || true")


@pytest.mark.slow
def test_an_agent_that_hears_nothing_for_its_limit_ends_with_its_node_and_its_cuts_although_its_channel_stays(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is shorter here. What serves the connection on the host is stopped: it is neither alive nor closed."""
    quiet_s = 4.0
    with_limit = f"import agent.remote; agent.remote.QUIET_S = {quiet_s}; from agent.remote import main"
    monkeypatch.setattr(machine, "_RUN_AGENT", machine._RUN_AGENT.replace("from agent.remote import main", with_limit))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(machine, "ANSWERS_WITHIN_S", 2.0)
    monkeypatch.setattr(links, "ALIVE_EVERY_S", 0.25)
    sessions = "$(ps ax -o pid,args | awk '/[s]shd[^ ]*: splitbrain/ {print $1}')"

    def left_on_n2() -> list[str]:
        return [trace for trace in hosts.traces() if trace.startswith(f"{hosts.addresses[1]}: ")]

    async def scenario() -> None:
        async with deployed(hosts.of(0, 1), tmp_path) as deployment:
            await start_all(deployment)
            await deployment.cut(frozenset({("n1", "n2")}))
            await asyncio.sleep(1.5 * quiet_s)
            assert (await deployment.status("n2")).state == "running", "a controller that is heard keeps the agent"
            await asyncio.to_thread(hosts.on, 1, f"kill -STOP {sessions}")  # n1's agent goes on to hear its controller
            try:
                with pytest.raises(BackendError, match=r"n2 \(.*:22\): the agent did not answer 'status' within 2 s"):
                    await deployment.status("n2")
                async with asyncio.timeout(120):
                    while any("/var/tmp" not in trace for trace in await asyncio.to_thread(left_on_n2)):
                        await asyncio.sleep(0.2)
                left = await asyncio.to_thread(left_on_n2)
                assert left == [f"{hosts.addresses[1]}: {deployment.homes['n2']}"], "for the next run to sweep"
                assert (await deployment.status("n1")).state == "running"
            finally:
                hosts.on(1, f"kill -CONT {sessions}")

    asyncio.run(scenario())
    assert hosts.wait_until_clear() == []


@pytest.mark.slow
def test_a_host_that_vanishes_is_missed_and_the_others_are_cleared(tmp_path: Path) -> None:
    with running_hosts(2, tmp_path) as found:

        async def scenario() -> None:
            deployment = await deploy(found.inventory, tmp_path / "run")
            await start_all(deployment)
            found.containers[1].pause()  # neither an answer nor the end of a connection comes from it
            with pytest.raises(BackendError, match=r"n2 \(.*:22\): the agent (ended|did not answer)"):
                await deployment.status("n2")
            with pytest.raises(BackendError, match=r"n2 \(.*:22\)"):
                await deployment.close()
            found.containers[1].unpause()

        asyncio.run(scenario())
        of_first = dataclasses.replace(found, addresses=found.addresses[:1], containers=found.containers[:1])
        assert of_first.wait_until_clear() == []
        assert (tmp_path / "run/nodes/n1/log").exists()
