"""What happens to a node's process: started, killed, paused, limited, always with what engine and kernel say of it.

`ContainerNode` is a node as its deployment controls it: what changes it happens one after another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from splitbrain.harness.backends.agent import syscalls
from splitbrain.harness.backends.docker.engine import ContainerState, Engine, short
from splitbrain.harness.backends.docker.nodes import NODE_PORT, Containers, Node, ended_how
from splitbrain.harness.backends.shared.deployed import LastWords, log_end, log_text, shown_end
from splitbrain.harness.contract.nodes import NodeCommand, NodeStatus
from splitbrain.results.errors import BackendError, NodeStartError

LISTENS_WITHIN_S = 5.0
"""How long a start waits for the node to listen. A node that needs longer has started all the same."""
POLL_S = 0.02
CLOSE_GRACE_S = 1.0
"""How long a node may take to end in good order when its deployment is closed."""


class Runners:
    """The containers in which nodes run. Nothing here takes the lock `Node.changing`: the caller holds it."""

    def __init__(self, engine: Engine, containers: Containers, last_words: LastWords = None) -> None:
        self._engine = engine
        self._containers = containers
        self._last_words = last_words

    async def start(self, node: Node, command: NodeCommand) -> None:
        """Start a stopped node.

        Raises:
            NodeStartError: it cannot be run.
        """
        try:
            await self._containers.prepare(node, command)
            await self._engine.start(node.runner)
        except BackendError as error:
            raise NodeStartError(f"{node.name} cannot be started: {error}") from None
        node.life += 1
        node.signalled = False

    async def until_it_listens(self, node: Node, logged: int) -> NodeStatus:
        """Wait until a node that was started listens, ends, or has had LISTENS_WITHIN_S. Needs no lock.

        Args:
            node: the node.
            logged: how long its log was before the start.

        Raises:
            NodeStartError: it ended by itself.
        """
        life = node.life
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LISTENS_WITHIN_S
        while not (listening := syscalls.listens(node.keeper_pid, NODE_PORT)) and loop.time() < deadline:
            if (await self.status(node)).state != "running" or node.life != life:
                break
            await asyncio.sleep(POLL_S)
        status = await self.status(node)
        if status.state == "stopped" and node.life == life and not node.signalled:
            raise NodeStartError(
                f"{node.name} ended at once ({status.evidence['exit']}); its log, {node.log}, ends with: "
                f"{log_end(node.log, logged)}"
            )
        return msgspec.structs.replace(status, evidence={**status.evidence, "listening": listening})

    async def kill(self, node: Node) -> NodeStatus:
        """End every process of the node with SIGKILL and wait until the kernel has ended them."""
        node.signalled = True
        if node.runner:
            await self._count_throttled(node)
            await self._engine.kill(node.runner)
        return await self.status(node)

    async def stop(self, node: Node, grace_s: float) -> NodeStatus:
        """End the node in good order, within the grace or by SIGKILL; the evidence says "killed" then."""
        if not node.runner or not (await self._engine.state(node.runner)).has_processes:
            return await self.status(node)
        node.signalled = True
        await self._count_throttled(node)
        await self._engine.unpause(node.runner)  # a frozen process cannot act on SIGTERM
        await self._engine.stop(node.runner, max(1, round(grace_s)))
        status = await self.status(node)
        if status.evidence.get("exit") != "SIGKILL":
            return status
        return msgspec.structs.replace(status, evidence={**status.evidence, "killed": True})

    async def pause(self, node: Node) -> NodeStatus:
        """Freeze every process of the node (control group freezer); a stopped node stays stopped.

        Raises:
            BackendError: the kernel does not show the node's processes as frozen.
        """
        if node.runner:
            await self._engine.pause(node.runner)
        status = await self.status(node)
        if status.state == "paused" and status.evidence.get("frozen") is False:
            raise BackendError(f"{node.name} was paused, but the kernel does not show its processes as frozen.")
        return status

    async def resume(self, node: Node) -> NodeStatus:
        """Let a paused node run again."""
        if node.runner:
            await self._engine.unpause(node.runner)
        return await self.status(node)

    async def throttle(self, node: Node, share: float | None) -> Mapping[str, Any]:
        """Give the node this share of one CPU, or no limit; returns how often the limit so far throttled it
        ("throttled").
        """
        await self._count_throttled(node)
        did = {} if node.share is None else {"throttled": node.throttled}
        node.share = share
        if node.runner:
            await self._engine.limit_cpu(node.runner, share)
        node.throttled = 0
        await self._count_throttled(node, sign=-1)
        return did

    async def status(self, node: Node) -> NodeStatus:
        """The status of the node from engine and kernel: the first pid, its state letter, whether it is frozen; how it
        ended.

        For a process that ended by itself also the line of its log that says why.
        """
        if not node.runner or node.life == 0:
            return NodeStatus("stopped", node.life)
        state = await self._engine.state(node.runner)
        if state.has_processes:
            return NodeStatus("paused" if state.status == "paused" else "running", node.life, _seen(node, state))
        evidence: dict[str, Any] = {"container": short(node.runner), "exit": ended_how(state)}
        if not node.signalled:
            evidence["by_itself"] = True
            evidence["log"] = shown_end(log_text(node.log), self._last_words)
        return NodeStatus("stopped", node.life, evidence)

    async def _count_throttled(self, node: Node, sign: int = 1) -> None:
        """Add the kernel's count of this life of the process; the count ends with the process."""
        if node.share is not None and node.runner:
            state = await self._engine.state(node.runner)
            if state.has_processes:
                node.throttled += sign * throttled(state.pid)


def _seen(node: Node, state: ContainerState) -> dict[str, Any]:
    process = syscalls.process_state(state.pid)
    evidence: dict[str, Any] = {"container": short(node.runner), "pid": state.pid}
    if process is not None:
        evidence["stat"] = process[0]
    freezer = frozen(state.pid)
    return evidence if freezer is None else {**evidence, "frozen": freezer}


# --- one change at a time ---------------------------------------------------------------------------------------------


class ContainerNode:
    """One node: what changes it happens one after another (`Node.changing`)."""

    def __init__(self, runners: Runners, node: Node) -> None:
        self._runners = runners
        self._node = node

    async def start(
        self, command: NodeCommand, prepare: Callable[[NodeCommand], Awaitable[Mapping[str, str]]]
    ) -> NodeStatus:
        """Start the node's container; returns when the node listens, at the latest after five seconds.

        Args:
            command: how.
            prepare: called right before a start: what variables the node needs beside its own. Not if it runs already.

        Raises:
            NodeStartError: it could not be run, or it ended at once.
        """
        node = self._node
        async with node.changing:
            status = await self._runners.status(node)
            if status.state != "stopped":
                return status
            logged = node.log.stat().st_size
            try:
                variables = await prepare(command)
            except BackendError as error:
                raise NodeStartError(f"{node.name} cannot be started: {error}") from None
            await self._runners.start(node, msgspec.structs.replace(command, env={**command.env, **variables}))
        return await self._runners.until_it_listens(node, logged)

    async def kill(self) -> NodeStatus:
        """End every process of the node with SIGKILL and wait until the kernel has ended them."""
        async with self._node.changing:
            return await self._runners.kill(self._node)

    async def pause(self) -> NodeStatus:
        """Freeze every process of the node (control group freezer); a stopped node stays stopped.

        Raises:
            BackendError: the kernel does not show the node's processes as frozen.
        """
        async with self._node.changing:
            return await self._runners.pause(self._node)

    async def resume(self) -> NodeStatus:
        """Let a paused node run again."""
        async with self._node.changing:
            return await self._runners.resume(self._node)

    async def stop(self, grace_s: float) -> NodeStatus:
        """End the node in good order, within the grace (whole seconds, one at least) or by SIGKILL."""
        async with self._node.changing:
            return await self._runners.stop(self._node, grace_s)

    async def status(self) -> NodeStatus:
        """The status of the node from engine and kernel: the first pid, its state letter, whether it is frozen; how it
        ended.

        For a process that ended by itself also the line of its log that says why.
        """
        return await self._runners.status(self._node)

    async def throttle(self, share: float | None) -> Mapping[str, Any]:
        """Give the node this share of one CPU, or no limit; returns how often the limit so far throttled it.

        What a process that ended by itself had counted is lost.
        """
        async with self._node.changing:
            return await self._runners.throttle(self._node, share)


# --- control groups ---------------------------------------------------------------------------------------------------

_PROC = Path("/proc")


def frozen(pid: int, proc: Path = _PROC) -> bool | None:
    """Whether the container of a process is frozen; None if this machine does not show it."""
    state = _read(proc, pid, "freezer", "freezer.state")
    if state is not None:
        return state.strip() == "FROZEN"
    events = _read(proc, pid, "", "cgroup.events")
    return None if events is None else "frozen 1" in events.splitlines()


def throttled(pid: int, proc: Path = _PROC) -> int:
    """In how many periods the container of a process ran into its quota of CPU time since it was started."""
    text = _read(proc, pid, "cpu", "cpu.stat") or _read(proc, pid, "", "cpu.stat") or ""
    counts = dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line)
    return int(counts.get("nr_throttled", 0))


def _read(proc: Path, pid: int, controller: str, name: str) -> str | None:
    """A file of the group that a process is in, in the hierarchy of a controller ("" for version 2)."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
        mounts = [line.split() for line in (proc / "self" / "mounts").read_text().splitlines()]
        groups = [(controllers.split(","), path) for _, controllers, path in (line.split(":", 2) for line in lines)]
        path = next(path for controllers, path in groups if controller in controllers)
        place = next(
            mount[1]
            for mount in mounts
            if (mount[2] == "cgroup" and controller in mount[3].split(",") if controller else mount[2] == "cgroup2")
        )
        return Path(place, path.lstrip("/"), name).read_text()
    except (OSError, StopIteration):
        return None
