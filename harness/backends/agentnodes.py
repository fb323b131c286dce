"""Nodes that an agent runs as processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from splitbrain.harness.backends.channel import Asked
from splitbrain.harness.backends.nodelogs import CHARACTERS_SHOWN, last_lines
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodeStatus
from splitbrain.results.errors import BackendError, NodeStartError


class AgentNode:
    """One node that an agent runs.

    Args:
        name: as in the test.
        agent: runs it.
        logged: reads the end of its log.
    """

    def __init__(self, name: NodeId, agent: Asked, logged: Callable[[], Awaitable[str]]) -> None:
        self._name = name
        self._agent = agent
        self._logged = logged

    async def start(
        self, command: NodeCommand, prepare: Callable[[NodeCommand], Awaitable[Mapping[str, str]]], **where: str
    ) -> Mapping[str, Any]:
        """Start the node's process; the agent's answer, as soon as the node listens, after two seconds at the latest.

        Args:
            command: how.
            prepare: called right before a start: returns further variables for the node. Not called if it runs already.
            where: further arguments for the agent.

        Raises:
            NodeStartError: it could not be run.
        """
        env = dict(command.env)
        try:
            if (await self.status()).state == "stopped":
                env |= await prepare(command)
            return await self._agent.ask("start", name=self._name, argv=list(command.argv), env=env, **where)
        except BackendError as error:
            raise NodeStartError(str(error)) from None

    async def kill(self) -> NodeStatus:
        """End the node's processes with SIGKILL and wait until they are reaped."""
        return await self._ask("kill")

    async def pause(self) -> NodeStatus:
        """Stop the node's processes with SIGSTOP and wait until the kernel says so. A stopped node stays stopped."""
        return await self._ask("pause")

    async def resume(self) -> NodeStatus:
        """Let a paused node run again."""
        return await self._ask("resume")

    async def status(self) -> NodeStatus:
        """The status of the node's process from the kernel: pid (in the agent's PID namespace), state letter, exit.

        For a process that ended by itself also the last line of its log.
        """
        status = await self._ask("status")
        if not status.evidence.get("by_itself"):
            return status
        last = last_lines(await self._logged(), 1)
        return msgspec.structs.replace(status, evidence={**status.evidence, "log": last[-CHARACTERS_SHOWN:]})

    async def throttle(self, share: float | None) -> Mapping[str, Any]:
        """Give the node this share of one CPU, or all that it wants: what the kernel counted of the limit before."""
        return await self._agent.ask("throttle", name=self._name, share=share)

    async def _ask(self, op: str) -> NodeStatus:
        return to_status(await self._agent.ask(op, name=self._name))


def to_status(answer: Mapping[str, Any]) -> NodeStatus:
    """The status in what an agent answered."""
    return msgspec.convert(answer, NodeStatus)
