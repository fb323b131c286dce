"""What only processes of this machine show: children of nodes, proxies from inside, and the end of the agent.

`conformance` has what is asked of every backend.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from splitbrain.harness.backends.local import Links
from splitbrain.results.errors import BackendError, NodeStartError
from tests.backends.support import (
    GossipSystem,
    ask,
    deployed,
    start_all,
    until_silent,
    wait_until_gone,
)

pytestmark = pytest.mark.cluster


# --- nodes --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("session", ["", "import os; os.setsid(); "])
def test_a_wrapper_script_is_killed_and_paused_together_with_the_server_in_it(
    links: Links, tmp_path: Path, session: str
) -> None:
    """A server may lead a session of its own, as every process of PostgreSQL does."""
    sleeps = f"{session}import time; time.sleep(60)"
    wrapper = ("/bin/sh", "-c", f"{sys.executable} -S -c '{sleeps}' & echo $! >child; wait")

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


@pytest.mark.slow
def test_a_node_that_ignores_the_request_to_stop_is_killed_at_the_close(links: Links, tmp_path: Path) -> None:
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    stubborn = GossipSystem("tcp", (sys.executable, "-S", "-c", program))

    async def run() -> float:
        async with deployed(links, tmp_path, stubborn, nodes=("n1",)) as deployment:
            await deployment.start("n1")
            began = time.monotonic()
        return time.monotonic() - began

    assert 1.0 <= asyncio.run(run()) < 50.0, "it would have ended by itself after a minute"


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


# --- the end of the agent -------------------------------------------------------------------------------------------


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
