"""The store of entities as a client of one node sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS, Asking, error_of
from splitbrain.cluster.client import Client
from splitbrain.cluster.commands import decode_value
from splitbrain.cluster.entities.errors import error_of_abort
from splitbrain.cluster.entities.store import Operation, encoded
from splitbrain.cluster.entities.tables import REGISTER
from splitbrain.cluster.errors import ClientError, StoreRefusedError, TransactionAbortedError, UnavailableError
from splitbrain.cluster.tree import AskNode, LookUp, Nodes, Refused, Registered, Transact, TransactRead, Value
from splitbrain.cluster.wire import Answer, Body, LocalQuery

_LOOKS: Final = 5
"""How often tables are read anew because the member applied something meanwhile."""


class ClientStore(Asking):
    """A `MetadataStore` of one node. Each request is sent once.

    Args:
        client: the connection.
        timeout_ms: after so long the node gives up on a request.

    Attributes:
        term: in which the last request was answered; None before the first.
    """

    def __init__(self, client: Client, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        super().__init__(client._channel, client._group)  # pyright: ignore[reportPrivateUsage]
        self.term: int | None = None
        self._timeout_ms = timeout_ms

    async def change(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`."""
        return _value(await self._answer(Transact(*operation, encoded(data))))

    async def ask(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`."""
        return _value(await self._answer(TransactRead(*operation, encoded(data))))

    async def records(self, table: str, key: Any = None) -> Sequence[Sequence[Any]]:
        """See `MetadataStore`. What was never registered is registered now; the next look-up finds it."""
        answer = await self._answer(LookUp(table, None if key is None else encoded(key)))
        if isinstance(answer.outcome, Refused) and answer.outcome.reason == "unknown_projection":
            await self.register()
            raise UnavailableError(f"unavailable: {answer.outcome.detail} until now: ask again.", answer.term)
        return _value(answer)

    async def register(self) -> None:
        """Have the cluster keep the projections of entities; those that it keeps already stay as they are.

        Raises:
            ClientError: one could not be registered.
        """
        for command in REGISTER:
            answer = await self._answer(command)
            match answer.outcome:
                case Nodes() | Registered() | Refused("projection_already_exists"):
                    pass
                case outcome:
                    raise error_of(outcome, answer.term)

    async def at_one_moment(
        self, operation: Operation, tables: Sequence[str]
    ) -> tuple[Any, Mapping[str, Sequence[Sequence[Any]]]]:
        """What an operation that only reads gives on this member, and all of some tables, of the same state there.

        Raises:
            UnavailableError: the member applied something between the requests each time, or does not know.
        """
        for _ in range(_LOOKS):
            first = await self._answer(LocalQuery(TransactRead(*operation, encoded(None))))
            found = {table: await self.records(table) for table in tables}
            last = await self._answer(LocalQuery(AskNode((), "exists")))
            if first.index == last.index:
                return _value(first), found
        raise UnavailableError("unavailable: the member applied something each time: ask again.", self.term)

    async def _answer(self, body: Body) -> Answer:
        answer = await self._ask(body, self._timeout_ms)
        self.term = answer.term
        return answer


def _value(answer: Answer) -> Any:
    if isinstance(answer.outcome, Value):
        return decode_value(answer.outcome.data)
    raise _error(error_of(answer.outcome, answer.term))


def _error(error: ClientError) -> ClientError:
    """The error of an entity, if it stands for one. A function that a node does not know may be known later."""
    if isinstance(error, TransactionAbortedError):
        return error_of_abort(error.reason, error.term) or error
    if isinstance(error, StoreRefusedError) and error.reason == "unknown_function":
        return UnavailableError(f"{error} All nodes need version 3 of the state machine.", error.term)
    return error
