"""The tables of a replica as code in its process uses them: procedures, a checkpoint, and the changes behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Protocol

from splitbrain.cluster.errors import InvalidRequestError, UnavailableError
from splitbrain.cluster.tables.database import Database
from splitbrain.cluster.tables.known import problem_of
from splitbrain.cluster.tables.records import Change, Contents
from splitbrain.cluster.tables.wire import Refusal, Result

TIMEOUT_MS: Final = 5_000


class Hosting(Protocol):
    """What hosts a replica in this process (`splitbrain.cluster.tables.hosted.HostedReplica`)."""

    @property
    def on_changes(self) -> Callable[[Sequence[Change]], None]:
        """Is given the changes of each transaction, once this replica has applied them."""
        ...

    @on_changes.setter
    def on_changes(self, take: Callable[[Sequence[Change]], None]) -> None: ...

    @property
    def on_replaced(self) -> Callable[[], None]:
        """Is called when the replica has taken over all tables of another one."""
        ...

    @on_replaced.setter
    def on_replaced(self, call: Callable[[], None]) -> None: ...

    @property
    def database(self) -> Database:
        """The replica."""
        ...

    def begin(
        self, procedure: str, arguments: Sequence[Any], timeout_ms: int, answer: Callable[[Result | Refusal], None]
    ) -> None:
        """Carry out a procedure; `answer` is called once."""
        ...


def _ignored(_: Sequence[Change]) -> None:
    """Take changes that no one asked for."""


def _nothing() -> None:
    """Do nothing."""


class ReplicaTables:
    """See the module. A node has one subscription at a time: a later one, also of another of these, takes its place.

    Args:
        node: the replica.
        members: the names of all nodes.
        timeout_ms: what is not decided after so long is given up.
    """

    def __init__(self, node: Hosting, members: Collection[str], timeout_ms: int = TIMEOUT_MS) -> None:
        self._node = node
        self._members = tuple(sorted(members))
        self._timeout_ms = timeout_ms
        self._has_gap = False
        self._subscriber: Callable[[Sequence[Change]], None] | None = None

    async def run(self, procedure: str, arguments: Sequence[Any]) -> Any:
        """What a procedure returns.

        Raises:
            InvalidRequestError: it makes no sense.
            UnavailableError: it was not carried out, in time or at all.
        """
        problem = problem_of(procedure, arguments)
        if problem is not None:
            raise InvalidRequestError(f"invalid_request: {problem}.")
        answer: asyncio.Future[Result | Refusal] = asyncio.get_running_loop().create_future()

        def take(outcome: Result | Refusal) -> None:
            if not answer.done():
                answer.set_result(outcome)

        self._node.begin(procedure, arguments, self._timeout_ms, take)
        outcome = await answer
        if isinstance(outcome, Refusal):
            raise UnavailableError(f"{outcome.reason}: {outcome.detail}.")
        return outcome.value

    def contents(self) -> Contents:
        """All records, as they are at this moment."""
        return self._node.database.tables.contents()

    def subscribe(self, subscriber: Callable[[Sequence[Change]], None]) -> Callable[[], None]:
        """Have the changes of each transaction from now on, as it is applied here; what ends it."""
        node = self._node
        self._has_gap, self._subscriber = False, subscriber
        node.on_changes, node.on_replaced = subscriber, self._replaced

        def end() -> None:
            # A later subscription, of another migration in this process, goes on.
            if node.on_changes is subscriber:
                node.on_changes, node.on_replaced = _ignored, _nothing

        return end

    def _replaced(self) -> None:
        self._has_gap = True

    def problem(self) -> str | None:
        """Why changes may be missing since the subscription began: then what was copied is worth nothing."""
        database = self._node.database
        if self._subscriber is not None and self._node.on_changes is not self._subscriber:
            return "another migration of this process queues the changes now"
        if self._has_gap:
            return "this replica took over the tables of another one meanwhile"
        if database.partitions:
            return f"{', '.join(sorted(database.partitions))} run apart from this replica"
        missing = sorted(set(self._members) - set(database.active()))
        return f"replicas are missing: {', '.join(missing)}: start them, or join them again" if missing else None
