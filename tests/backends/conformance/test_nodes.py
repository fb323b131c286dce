"""Nodes are started, killed, paused and resumed as asked, and the evidence says what became of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from splitbrain.harness.contract.deployments import StopsInGoodOrder
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.results.errors import BackendError, NodeStartError, UnknownNodeError, UsageError
from tests.backends.conformance.adapters import REAL
from tests.backends.conformance.measures import LINK, SETTLES_S, WITHIN_S, is_well, stores
from tests.backends.conformance.nodes import Nodes
from tests.backends.conformance.rows import Row

pytestmark = pytest.mark.cluster
real = pytest.mark.parametrize("row", REAL, indirect=True)

FAILS = ("sh", "-c", "echo an old line; echo no quorum file >&2; exit 3")
_CHECK_FILE = "grep -qx 'as laid' {data}/etc/conf || exit 9; echo changed > {data}/etc/conf; "
# With libfaketime, time.sleep fails in Python 3.11 and later (EINVAL, its issue 426).
_LISTEN = "import os, select, socket; listening = socket.create_server(('{host}', {port})); "
ENDS_LATER = (
    "{python}",
    "-c",
    _LISTEN + "select.select([], [], [], 0.3); print('out of luck', flush=True); os.kill(os.getpid(), 11)",
)
_SERVES = _LISTEN + "import signal; {how}select.select([], [], [])"
IGNORES_SIGTERM = ("{python}", "-c", _SERVES.replace("{how}", "signal.signal(signal.SIGTERM, signal.SIG_IGN); "))
ENDS_BY_SIGTERM = ("{python}", "-c", _SERVES.replace("{how}", ""))
NEEDS_A_FILE = (
    "sh",
    "-c",
    _CHECK_FILE + f'exec {{python}} -c "{_LISTEN} select.select([], [], [])"',
)


@pytest.mark.slow
def test_a_node_is_killed_and_started_again_as_a_new_process_with_its_data(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        deployment = nodes.deployment
        await is_well(nodes, LINK)
        size = await stores(nodes)
        first = await deployment.status("n1")
        assert first.state == "running"
        assert (await deployment.start("n1")).life == first.life, "a running node is left alone"
        if nodes.seen.pids == "node":
            assert (await nodes.ask("n1", "pid"))["pid"] == first.evidence["pid"]
        killed = await deployment.kill("n1")
        assert (killed.state, killed.evidence.get("by_itself")) == ("stopped", None)
        assert nodes.seen.killed.items() <= killed.evidence.items()
        if nodes.seen.pids == "machine":
            assert not Path(f"/proc/{first.evidence['pid']}").exists()
        assert (await deployment.kill("n1")).state == "stopped", "a node that ended can be killed"
        with pytest.raises(DefiniteError):
            await deployment.dial("n1")
        await is_well(nodes, ("n2", "n3"))
        second = await deployment.start("n1")
        assert (second.state, second.life) == ("running", first.life + 1)
        if nodes.seen.pids:
            assert second.evidence["pid"] != first.evidence["pid"]
        assert (await nodes.ask("n1", "read"))["size"] == size, "a kill loses nothing"
        await is_well(nodes, LINK)

    row.measure(measure)


@pytest.mark.slow
def test_a_paused_node_does_nothing_until_it_is_resumed(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        deployment = nodes.deployment
        with await nodes.line("n1") as line:
            line.send({"do": "time"})
            await line.answer()
            paused = await deployment.pause("n1")
            assert paused.state == "paused"
            assert nodes.seen.paused.items() <= paused.evidence.items()
            assert (await deployment.pause("n1")).state == "paused", "what is paused stays paused"
            assert (await deployment.status("n1")).state == "paused"
            line.send({"do": "time"})
            answer = asyncio.ensure_future(line.answer())
            await is_well(nodes, ("n2", "n3"))
            await asyncio.sleep(SETTLES_S)
            assert not answer.done()
            resumed = await deployment.resume("n1")
            assert resumed.state == "running"
            assert resumed.evidence.get("frozen", False) is False
            async with asyncio.timeout(WITHIN_S):
                await answer
        await is_well(nodes, LINK)

    row.measure(measure)


@real
def test_the_kernel_of_a_paused_node_takes_connections(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        await nodes.deployment.pause("n2")
        with await nodes.line("n2") as line:
            line.send({"do": "time"})
            answer = asyncio.ensure_future(line.answer())
            await asyncio.sleep(0.2)
            assert not answer.done()
            await nodes.deployment.resume("n2")
            async with asyncio.timeout(WITHIN_S):
                await answer

    row.measure(measure)


def test_a_paused_node_can_be_killed_and_what_ended_is_neither_paused_nor_resumed(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        await nodes.deployment.pause("n1")
        assert (await nodes.deployment.kill("n1")).state == "stopped"
        assert (await nodes.deployment.pause("n1")).state == "stopped"
        assert (await nodes.deployment.resume("n1")).state == "stopped"
        assert (await nodes.deployment.start("n1")).state == "running"

    row.measure(measure)


WRITES_AT_ITS_STOP = 7
"""Bytes that a node writes when it is stopped in good order."""


@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
def test_a_node_that_is_stopped_in_good_order_writes_what_it_wants_to_before_it_ends(row: Row, *, paused: bool) -> None:
    async def measure(nodes: Nodes) -> None:
        deployment = nodes.deployment
        assert isinstance(deployment, StopsInGoodOrder)
        before = await nodes.ask("n1", "append")
        life = (await deployment.status("n1")).life
        if paused:
            await deployment.pause("n1")
        ended = await deployment.stop("n1")
        assert (ended.state, ended.life) == ("stopped", life)
        assert not {"killed", "by_itself"} & ended.evidence.keys()
        assert (await deployment.stop("n1")).state == "stopped", "what is stopped stays so"
        assert "by_itself" not in (await deployment.status("n1")).evidence
        await is_well(nodes, ("n2", "n3"))
        assert (await deployment.start("n1")).life == life + 1
        assert (await nodes.ask("n1", "read"))["size"] == before["size"] + WRITES_AT_ITS_STOP

    row.needs("stop")
    row.measure(measure)


@real
@pytest.mark.parametrize(
    ("program", "seen"),
    [(IGNORES_SIGTERM, {"exit": "SIGKILL", "killed": True}), (ENDS_BY_SIGTERM, {"exit": "SIGTERM"})],
    ids=["ignores it", "has no handler"],
)
def test_a_node_that_does_not_stop_within_the_grace_is_killed(row: Row, program: Any, seen: dict[str, Any]) -> None:
    async def measure(nodes: Nodes) -> None:
        await nodes.deployment.kill("n3")
        nodes.system.programs["n3"] = program
        await nodes.deployment.start("n3")
        async with asyncio.timeout(WITHIN_S):
            ended = await cast(Any, nodes.deployment).stop("n3", 0.3)
        assert ended.state == "stopped"
        found = {name: ended.evidence[name] for name in ("exit", "killed", "by_itself") if name in ended.evidence}
        assert found == seen
        await nodes.restore("n3")

    row.needs("stop")
    row.measure(measure)


@real
@pytest.mark.slow
def test_a_node_that_ends_at_once_is_an_error_with_the_end_of_its_log(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        await nodes.deployment.kill("n3")
        nodes.system.programs["n3"] = FAILS
        for _ in range(2):
            with pytest.raises(NodeStartError) as raised:
                await nodes.deployment.start("n3")
            message = str(raised.value)
            assert message.startswith("n3 ended at once (exit code 3)")
            assert message.endswith(": an old line | no quorum file"), "the lines of the last life, and only those"
            assert "\n" not in message
        evidence = (await nodes.deployment.status("n3")).evidence
        assert {"exit": "exit code 3", "by_itself": True, "log": "no quorum file"}.items() <= evidence.items()
        await nodes.restore("n3")

    row.measure(measure)


@real
@pytest.mark.slow
def test_a_program_that_is_not_there_is_an_error(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        life = (await nodes.deployment.kill("n3")).life
        nodes.system.programs["n3"] = ("/nowhere/server",)
        if nodes.seen.refuses_programs:
            with pytest.raises(NodeStartError, match=r"n3 cannot be started with '/nowhere/server': .*No such file"):
                await nodes.deployment.start("n3")
            assert (await nodes.deployment.status("n3")).life == life, "it counts as not started"
        else:
            with pytest.raises(NodeStartError, match=r"n3 ended at once \(exit code 127\).*/nowhere/server"):
                await nodes.deployment.start("n3")
        await nodes.restore("n3")

    row.measure(measure)


@real
@pytest.mark.slow
def test_a_node_that_ends_by_itself_says_so_with_the_last_line_of_its_log(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        await nodes.deployment.kill("n3")
        nodes.system.programs["n3"] = ENDS_LATER
        await nodes.deployment.start("n3")
        async with asyncio.timeout(WITHIN_S):
            while (status := await nodes.deployment.status("n3")).state == "running":
                await asyncio.sleep(0.05)
        assert {"exit": "SIGSEGV", "by_itself": True, "log": "out of luck"}.items() <= status.evidence.items()
        await nodes.restore("n3")

    row.measure(measure)


@real
@pytest.mark.slow
def test_files_are_laid_into_the_data_directory_before_each_start_and_nowhere_else(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        nodes.system.programs["n3"] = NEEDS_A_FILE
        nodes.system.files["n3"] = {"etc/conf": b"as laid\n"}
        for _ in range(2):
            await nodes.deployment.kill("n3")
            assert (await nodes.deployment.start("n3")).state == "running"
        await nodes.deployment.kill("n3")
        nodes.system.files["n3"] = {"../x": b""}
        with pytest.raises(NodeStartError, match="must lie in its data directory"):
            await nodes.deployment.start("n3")
        await nodes.restore("n3")

    row.measure(measure)


def test_a_name_that_is_no_node_is_refused(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        for what in (nodes.deployment.start, nodes.deployment.kill, nodes.deployment.status):
            with pytest.raises(UnknownNodeError, match=r"no node 'n9'.*n1, n2, n3"):
                await what("n9")

    row.measure(measure)


@real
def test_a_link_that_is_none_is_refused(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        with pytest.raises(UnknownNodeError):
            await nodes.deployment.cut(frozenset({("n1", "n9")}))
        for what in (nodes.deployment.passes([("n1", "n1")]), nodes.deployment.cut(frozenset({("n1", "n1")}))):
            with pytest.raises(UsageError, match="no link to itself"):
                await what
        assert all((await nodes.deployment.passes(nodes.links)).values())

    row.measure(measure)


@real
@pytest.mark.slow
def test_a_close_lets_nodes_end_in_good_order_and_leaves_logs_and_data_and_nothing_else(
    row: Row, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with row.apart(tmp_path) as nodes:
            deployment = nodes.deployment
            status = await deployment.status("n1")
            assert (status.state, status.life) == ("stopped", 0)
            started = await deployment.start("n1")
            assert (started.state, started.life, started.evidence["listening"]) == ("running", 1, True)
            await deployment.pause("n1")
            assert row.adapter.traces(deployment, tmp_path) != []
        await deployment.close()
        assert row.adapter.traces(deployment, tmp_path) == []
        with pytest.raises(BackendError, match="deployment is closed"):
            await deployment.cut(frozenset())

    asyncio.run(scenario())
    assert (tmp_path / "nodes/n1/log").read_text().endswith("n1 stops\n"), "a paused node too"
    assert (tmp_path / "nodes/n1/data/written").exists()
