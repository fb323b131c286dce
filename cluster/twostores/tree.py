"""The tree as the node that asks it sees it: requests to its own member of the metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from splitbrain.cluster.asking import error_of
from splitbrain.cluster.entities.store import Operation, encoded, value_of
from splitbrain.cluster.entities.tables import REGISTER
from splitbrain.cluster.pending import Answering, Wanted
from splitbrain.cluster.tree import LookUp, Refused, Transact, TransactRead
from splitbrain.cluster.wire import Failure, LocalQuery, Outcome


class Member(Protocol):
    """The node's member of the metadata store."""

    def ask(self, body: Wanted, timeout_ms: int, answer: Answering) -> None:
        """Carry out a request, as for a client; `answer` is called once."""
        ...

    def look_up(self, wanted: LookUp, answer: Answering) -> None:
        """Answer from what this member has applied; `answer` is called once."""
        ...


class NodeStore:
    """A `MetadataStore` of the tree. Each request is sent once.

    Args:
        member: the node's.
        timeout_ms: says how long the next request may take.

    Attributes:
        term: in which the last operation was answered; None before the first.
    """

    def __init__(self, member: Member, timeout_ms: Callable[[], int]) -> None:
        self.term: int | None = None
        self._member = member
        self._timeout_ms = timeout_ms

    async def change(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`."""
        return self._value(await self._asked(Transact(*operation, encoded(data))))

    async def ask(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`."""
        return self._value(await self._asked(TransactRead(*operation, encoded(data))))

    async def records(self, table: str, key: Any = None) -> Sequence[Sequence[Any]]:
        """See `MetadataStore`."""
        wanted = LookUp(table, None if key is None else encoded(key))
        return self._value(await _answer(lambda answer: self._member.look_up(wanted, answer)))

    async def register(self) -> None:
        """Have the tree keep the projections of entities.

        Raises:
            ClientError: it is not known that it does.
        """
        for command in REGISTER:
            outcome, term = await self._asked(command)
            known = isinstance(outcome, Refused) and outcome.reason == "projection_already_exists"
            if isinstance(outcome, Failure) or (isinstance(outcome, Refused) and not known):
                raise error_of(outcome, term)

    async def _asked(self, body: Wanted) -> tuple[Outcome, int]:
        return await _answer(lambda answer: self._member.ask(body, self._timeout_ms(), answer))

    def _value(self, answered: tuple[Outcome, int]) -> Any:
        outcome, term = answered
        if isinstance(outcome, Failure):
            raise error_of(outcome, term)
        found = value_of(outcome, term)  # pyright: ignore[reportArgumentType] - what it does not know it refuses
        self.term = term
        return found


class OwnMember(NodeStore):
    """The same as the node's own member has applied it, which may be behind."""

    async def ask(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`."""
        return self._value(await self._asked(LocalQuery(TransactRead(*operation, encoded(data)))))


async def _answer(ask: Callable[[Answering], None]) -> tuple[Outcome, int]:
    answered: asyncio.Future[tuple[Outcome, int]] = asyncio.get_running_loop().create_future()

    def take(term: int, outcome: Outcome, _index: int) -> None:
        if not answered.done():
            answered.set_result((outcome, term))

    ask(take)
    return await answered
