"""A node in a container as its deployment controls it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from splitbrain.harness.backends.docker.nodes import Node
from splitbrain.harness.backends.docker.runners import Runners
from splitbrain.harness.contract.nodes import NodeCommand, NodeStatus
from splitbrain.results.errors import BackendError, NodeStartError


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

    async def stop(self) -> None:
        """End the node in good order, within a second or by SIGKILL."""
        async with self._node.changing:
            await self._runners.stop(self._node)

    async def status(self) -> NodeStatus:
        """The status of the node from engine and kernel: the first pid, its state letter, whether it is frozen; how it
        ended.

        For a process that ended by itself also the last line of its log.
        """
        return await self._runners.status(self._node)

    async def throttle(self, share: float | None) -> Mapping[str, Any]:
        """Give the node this share of one CPU, or no limit; returns how often the limit so far throttled it.

        What a process that ended by itself had counted is lost.
        """
        async with self._node.changing:
            return await self._runners.throttle(self._node, share)
