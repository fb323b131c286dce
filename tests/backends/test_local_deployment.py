"""Nodes and links of the local backend do what is asked, in both ways of carrying links."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from splitbrain.harness.backends.local import Links
from splitbrain.harness.contract.nodes import Link
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.results.errors import BackendError, NodeStartError, UnknownNodeError, UsageError
from tests.backends.support import (
    GossipSystem,
    all_links,
    ask,
    beats,
    deployed,
    start_all,
    until_silent,
    wait_until_gone,
)

pytestmark = pytest.mark.cluster


# --- nodes --------------------------------------------------------------------------------------------------------


def test_a_node_is_started_killed_and_started_again_as_a_new_process(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path) as deployment:
            assert (await deployment.status("n1")).state == "stopped"
            assert (await deployment.status("n1")).life == 0
            first = await deployment.start("n1")
            assert (first.state, first.life, first.evidence["listening"]) == ("running", 1, True)
            first_pid = (await ask(deployment, "n1"))["pid"]
            assert first_pid == first.evidence["pid"]
            assert (await deployment.start("n1")).life == 1
            assert (await ask(deployment, "n1"))["pid"] == first_pid, "a running node is left alone"

            killed = await deployment.kill("n1")
            assert (killed.state, killed.evidence) == ("stopped", {"exit": "SIGKILL"})
            assert (await deployment.kill("n1")).state == "stopped"
            with pytest.raises(DefiniteError, match="n1 cannot be reached"):
                await deployment.dial("n1")

            second = await deployment.start("n1")
            assert (second.state, second.life) == ("running", 2)
            assert (await ask(deployment, "n1"))["pid"] == second.evidence["pid"] != first_pid

    asyncio.run(run())
    assert (tmp_path / "nodes/n1/log").read_text().count("n1 listens") == 2, "the log goes on over lives"


@pytest.mark.slow
def test_a_paused_node_does_nothing_until_it_is_resumed(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path) as deployment:
            await start_all(deployment)
            await until_silent(deployment, [])
            paused = await deployment.pause("n2")
            assert (paused.state, paused.evidence["stat"]) == ("paused", "T")
            assert (await deployment.status("n2")).state == "paused"
            connection = await deployment.dial("n2")  # the kernel still takes connections
            with connection, pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await asyncio.get_running_loop().sock_recv(connection, 1)
            heard = (await ask(deployment, "n1"))["heard"]["n2"]
            await asyncio.sleep(0.2)
            assert (await ask(deployment, "n1"))["heard"]["n2"] == heard
            assert (await deployment.resume("n2")).state == "running"
            await until_silent(deployment, [])

    asyncio.run(run())


def test_a_paused_node_can_be_killed(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path) as deployment:
            await deployment.start("n1")
            await deployment.pause("n1")
            assert (await deployment.kill("n1")).state == "stopped"
            assert (await deployment.pause("n1")).state == "stopped", "what does not run cannot be paused"
            assert (await deployment.resume("n1")).state == "stopped"

    asyncio.run(run())


@pytest.mark.slow
def test_a_wrapper_script_is_killed_and_paused_together_with_the_server_in_it(links: Links, tmp_path: Path) -> None:
    wrapper = ("/bin/sh", "-c", f"{sys.executable} -S -c 'import time; time.sleep(60)' & echo $! >child; wait")

    async def run() -> None:
        async with deployed(links, tmp_path, GossipSystem("tcp", wrapper), nodes=("n1",)) as deployment:
            await deployment.start("n1")
            child = int((tmp_path / "nodes/n1/child").read_text())
            host_pid = child if links == "proxy" else _host_pid(child)
            await deployment.pause("n1")
            assert _stat(host_pid) == "T"
            await deployment.resume("n1")
            assert _stat(host_pid) in ("S", "R")
            await deployment.kill("n1")
            await asyncio.sleep(0.1)
            assert _stat(host_pid) is None

    asyncio.run(run())


def test_what_a_node_leaves_behind_when_it_ends_is_killed(links: Links, tmp_path: Path) -> None:
    ends = ("/bin/sh", "-c", f"{sys.executable} -S -c 'import time; time.sleep(60)' {tmp_path} & exit 4")

    async def run() -> None:
        async with deployed(links, tmp_path, GossipSystem("tcp", ends), nodes=("n1",)) as deployment:
            with pytest.raises(NodeStartError, match="exit code 4"):
                await deployment.start("n1")
            assert wait_until_gone(str(tmp_path)) == {}

    asyncio.run(run())


def _stat(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return None


def _host_pid(inner: int) -> int:
    """The pid here of a process that has another one in a PID namespace below, its command being ours."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = Path(f"/proc/{name}/status").read_text()
            command = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        pids = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
        if len(pids) > 1 and pids[-1] == str(inner) and b"time.sleep(60)" in command and b"/bin/sh" not in command:
            return int(name)
    raise AssertionError(f"no process {inner} in any PID namespace")


def test_a_node_that_ends_at_once_is_reported_with_the_end_of_its_log(links: Links, tmp_path: Path) -> None:
    failing = GossipSystem("tcp", ("/bin/sh", "-c", "echo an old line; echo no quorum file >&2; exit 3"))

    async def run() -> None:
        async with deployed(links, tmp_path, failing) as deployment:
            for _ in range(2):
                with pytest.raises(NodeStartError) as raised:
                    await deployment.start("n1")
                message = str(raised.value)
                assert message.startswith("n1 ended at once (exit code 3)")
                assert message.endswith("an old line | no quorum file"), "the last life's lines, and only those"
                assert "\n" not in message
            assert (await deployment.status("n1")).evidence == {
                "exit": "exit code 3",
                "by_itself": True,
                "log": "no quorum file",
            }

    asyncio.run(run())


def test_a_program_that_is_not_there_is_a_start_error_and_the_node_counts_as_never_started(
    links: Links, tmp_path: Path
) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path, GossipSystem("tcp", ("/nowhere/server",))) as deployment:
            with pytest.raises(NodeStartError, match=r"n1 cannot be started with '/nowhere/server': .*No such file"):
                await deployment.start("n1")
            assert (await deployment.status("n1")).life == 0

    asyncio.run(run())


@pytest.mark.slow
def test_files_are_laid_into_the_data_directory_before_a_start(links: Links, tmp_path: Path) -> None:
    reads = ("/bin/sh", "-c", 'cat "$GOSSIP_DATA/etc/conf"; echo changed >"$GOSSIP_DATA/etc/conf"; sleep 30')

    async def run() -> None:
        system = GossipSystem("tcp", reads, {"etc/conf": b"as laid\n"})
        async with deployed(links, tmp_path, system, nodes=("n1",)) as deployment:
            for _ in range(2):
                await deployment.start("n1")
                await deployment.kill("n1")
        with pytest.raises(BackendError, match="must lie in its data directory"):
            async with deployed(links, tmp_path, GossipSystem("tcp", reads, {"../x": b""})) as deployment:
                await deployment.start("n1")

    asyncio.run(run())
    assert (tmp_path / "nodes/n1/log").read_text() == "as laid\nas laid\n"
    assert not (tmp_path / "nodes/n1/x").exists()


def test_closing_lets_nodes_stop_in_good_order_and_leaves_logs_and_data(links: Links, tmp_path: Path) -> None:
    async def run() -> float:
        async with deployed(links, tmp_path) as deployment:
            await start_all(deployment)
            await deployment.pause("n3")
            began = time.monotonic()
        return time.monotonic() - began

    assert asyncio.run(run()) < 1.0, "nobody had to be killed, not even the paused one"
    for node in ("n1", "n2", "n3"):
        assert (tmp_path / f"nodes/{node}/log").read_text().endswith(f"{node} stops\n")
        assert (tmp_path / f"nodes/{node}/data").is_dir()


@pytest.mark.slow
def test_a_node_that_ignores_the_request_to_stop_is_killed_at_the_close(links: Links, tmp_path: Path) -> None:
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    stubborn = GossipSystem("tcp", (sys.executable, "-S", "-c", program))

    async def run() -> float:
        async with deployed(links, tmp_path, stubborn, nodes=("n1",)) as deployment:
            await deployment.start("n1")
            began = time.monotonic()
        return time.monotonic() - began

    assert 1.0 <= asyncio.run(run()) < 4.0


# --- links --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_one_way_cut_stops_one_direction_and_leaves_the_other(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path) as deployment:
            await start_all(deployment)
            await until_silent(deployment, [])
            await deployment.cut(frozenset({("n1", "n2")}))
            await until_silent(deployment, [("n1", "n2")])
            passes = await deployment.passes(all_links(deployment))
            assert [link for link, passed in passes.items() if not passed] == [("n1", "n2")]

    asyncio.run(run())


@pytest.mark.slow
def test_a_topology_replaces_the_one_before_it_whole(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path) as deployment:
            await start_all(deployment)
            isolated_1: list[Link] = [("n1", "n2"), ("n1", "n3"), ("n2", "n1"), ("n3", "n1")]
            isolated_3: list[Link] = [("n1", "n3"), ("n2", "n3"), ("n3", "n1"), ("n3", "n2")]
            for silent in (isolated_1, isolated_3, []):
                await deployment.cut(frozenset(silent))
                await until_silent(deployment, silent)
                passes = await deployment.passes(all_links(deployment))
                assert sorted(link for link, passed in passes.items() if not passed) == silent

    asyncio.run(run())


@pytest.mark.slow
def test_a_cut_survives_the_restart_of_both_its_ends(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path) as deployment:
            await start_all(deployment)
            cut: list[Link] = [("n1", "n2"), ("n2", "n1")]
            await deployment.cut(frozenset(cut))
            for node in ("n1", "n2"):
                await deployment.kill(node)
                await deployment.start(node)
            await until_silent(deployment, cut)
            await deployment.cut(frozenset())
            await until_silent(deployment, [])

    asyncio.run(run())


def test_links_are_measured_without_any_node_running(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path) as deployment:
            await deployment.cut(frozenset({("n3", "n1")}))
            passes = await deployment.passes(all_links(deployment))
            assert [link for link, passed in passes.items() if not passed] == [("n3", "n1")]
            assert await deployment.passes([]) == {}

    asyncio.run(run())


def test_measuring_twice_at_once_gives_both_the_truth(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path) as deployment:
            await deployment.cut(frozenset({("n1", "n2")}))
            first, second = await asyncio.gather(
                deployment.passes([("n1", "n2"), ("n2", "n3")]), deployment.passes([("n2", "n1"), ("n1", "n2")])
            )
            assert first == {("n1", "n2"): False, ("n2", "n3"): True}
            assert second == {("n2", "n1"): True, ("n1", "n2"): False}

    asyncio.run(run())


@pytest.mark.slow
def test_swallowed_traffic_is_counted_by_link_and_the_measurements_own_is_not(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path) as deployment:
            await deployment.cut(frozenset({("n1", "n2"), ("n2", "n3")}))
            await deployment.passes(all_links(deployment))
            assert await deployment.dropped() == {("n1", "n2"): 0, ("n2", "n3"): 0}, "nobody sent anything yet"
            await start_all(deployment)
            await beats(deployment)
            before = await deployment.dropped()
            assert before["n1", "n2"] > 0
            assert before["n2", "n3"] > 0
            await deployment.cut(frozenset({("n1", "n2"), ("n3", "n1")}))
            after = await deployment.dropped()
            assert sorted(after) == [("n1", "n2"), ("n3", "n1")]
            assert after["n1", "n2"] >= before["n1", "n2"], "a link that stays cut keeps its count"

    asyncio.run(run())


@pytest.mark.slow
def test_clients_reach_a_node_that_is_cut_off_from_all_peers(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path) as deployment:
            await start_all(deployment)
            await deployment.cut(frozenset(all_links(deployment)))
            for node in deployment.nodes:
                await ask(deployment, node)

    asyncio.run(run())


@pytest.mark.slow
def test_two_deployments_at_once_do_not_disturb_each_other(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path / "a") as one, deployed(links, tmp_path / "b") as other:
            await asyncio.gather(start_all(one), start_all(other))
            await one.cut(frozenset(all_links(one)))
            await one.kill("n1")
            assert not any((await one.passes(all_links(one))).values())
            assert all((await other.passes(all_links(other))).values())
            await until_silent(other, [])
            await one.close()
            await until_silent(other, [])

    asyncio.run(run())


# --- proxies ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_proxy_resets_after_the_heal_what_lost_bytes_and_nothing_else(tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed("proxy", tmp_path) as deployment:
            await start_all(deployment)
            await until_silent(deployment, [])
            before = {node: (await ask(deployment, node))["dialled"] for node in deployment.nodes}
            await deployment.cut(frozenset({("n1", "n2")}))
            await until_silent(deployment, [("n1", "n2")])
            await deployment.cut(frozenset())
            await until_silent(deployment, [])
            after = {node: (await ask(deployment, node))["dialled"] for node in deployment.nodes}
            before["n1"]["n2"] += 1
            assert after == before

    asyncio.run(run())


def test_a_proxy_passes_on_the_last_bytes_before_an_orderly_end(tmp_path: Path) -> None:
    size = 3_000_000

    async def run() -> None:
        received = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            data = await reader.read(-1)
            writer.write(b"%d" % len(data))
            writer.close()
            await writer.wait_closed()
            received.set_result(len(data))

        async with deployed("proxy", tmp_path, nodes=("n1", "n2")) as deployment:
            host, port = deployment.places["n2"].listen
            server = await asyncio.start_server(serve, host, port)
            async with server:
                reader, writer = await asyncio.open_connection(*deployment.places["n1"].peers["n2"])
                writer.write(b"x" * size)
                writer.write_eof()
                assert await reader.read(-1) == b"%d" % size
                assert await received == size
                writer.close()
                await writer.wait_closed()

    asyncio.run(run())


# --- wrong requests, and the end of the agent ----------------------------------------------------------------------


def test_unknown_nodes_and_links_are_refused(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path) as deployment:
            with pytest.raises(UnknownNodeError, match=r"no node 'n9'.*n1, n2, n3"):
                await deployment.start("n9")
            with pytest.raises(UnknownNodeError):
                await deployment.cut(frozenset({("n1", "n9")}))
            with pytest.raises(UsageError, match="no link to itself"):
                await deployment.passes([("n1", "n1")])
            assert all((await deployment.passes(all_links(deployment))).values())

    asyncio.run(run())


@pytest.mark.slow
def test_an_agent_that_is_gone_is_one_clear_line_and_takes_its_nodes_along(links: Links, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(links, tmp_path) as deployment:
            await start_all(deployment)
            os.kill(deployment.agent_pid, 9)
            await asyncio.sleep(0.2)
            with pytest.raises(BackendError, match=r"^the backend's agent ended unexpectedly\.$"):
                await deployment.status("n1")
            assert wait_until_gone(str(tmp_path)) == {}

    asyncio.run(run())
