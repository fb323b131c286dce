"""Commands that follow each other to the leader without a wait, and what comes back (RA-18, reply mode "notify").

    pipeline = client.pipeline()                    # of a client of the leader
    for number in range(100):
        pipeline.send(put(f"/jobs/{number}", None), number)
    while pipeline.waits:
        for settled in await pipeline.settled(): ...     # AppliedCommand(correlation=0, ...), ...

Commands that were applied are named in the order of the log, several at once. A node that does not lead rejects a
command, and says who leads: it is for the caller to go on there. What another leader made of commands that were under
way is not known then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS, error_of, once
from splitbrain.cluster.channel import Channel
from splitbrain.cluster.commands import Command
from splitbrain.cluster.dedup import Ref
from splitbrain.cluster.errors import ClientError
from splitbrain.cluster.tree_node import TreeNode, tree_node
from splitbrain.cluster.wire import Answer, Failure, Priority, Request


class AppliedCommand(msgspec.Struct, frozen=True):
    """The leader applied a command.

    Attributes:
        correlation: of the command.
        result: its tree node afterwards, or the error that it came to.
    """

    correlation: Any
    result: TreeNode | ClientError


class UnappliedCommand(msgspec.Struct, frozen=True):
    """A command was rejected, or what becomes of it is not known.

    Attributes:
        correlation: of the command.
        error: why; `error.definite` says whether it is certain that it is never applied.
        leader: the member that leads instead, if the node knows it.
    """

    correlation: Any
    error: ClientError
    leader: str | None = None


SettledCommand: TypeAlias = AppliedCommand | UnappliedCommand


class Pipeline:
    """Commands that are under way on one connection. Made by `Client.pipeline`."""

    def __init__(self, channel: Channel, group: str) -> None:
        self._channel = channel
        self._group = group
        self._correlations: dict[int, Any] = {}
        self._batches: asyncio.Queue[tuple[SettledCommand, ...]] = asyncio.Queue()

    @property
    def waits(self) -> bool:
        """Whether `settled` has something to give, now or later."""
        return bool(self._correlations) or not self._batches.empty()

    def send(
        self,
        command: Command,
        correlation: Any,
        *,
        ref: Ref | None = None,
        priority: Priority = "normal",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Send a command.

        Args:
            command: what is wanted.
            correlation: comes back with the result; anything.
            ref: with it the command is carried out once, however often it is sent.
            priority: as of `Client.execute`.
            timeout_ms: after so long the node gives up.

        Raises:
            UnavailableError: the connection is broken.
            InvalidRequestError: the command is too long.
        """
        wanted = Request(0, timeout_ms, once(command, ref), "notify", self._group, priority)
        self._correlations[self._channel.post(wanted, self)] = correlation

    async def settled(self) -> tuple[SettledCommand, ...]:
        """The next commands with a result, those that came together; each command once. Waits until there are some."""
        return await self._batches.get()

    # --- for the channel --------------------------------------------------------------------------------------

    def answered(self, answers: Sequence[Answer]) -> None:
        """Take answers."""
        self._batches.put_nowait(tuple(_settled(self._correlations.pop(answer.id), answer) for answer in answers))

    def failed(self, request_id: int, error: ClientError) -> None:
        """Take note that there will be no answer."""
        self._batches.put_nowait((UnappliedCommand(self._correlations.pop(request_id), error),))


def _settled(correlation: Any, answer: Answer) -> SettledCommand:
    if not answer.index:
        leader = answer.outcome.leader if isinstance(answer.outcome, Failure) else None
        return UnappliedCommand(correlation, error_of(answer.outcome, answer.term), leader)
    try:
        return AppliedCommand(correlation, tree_node(answer))
    except ClientError as error:
        return AppliedCommand(correlation, error)
