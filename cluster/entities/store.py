"""What entities need of a store, so that a second one can take the place of the tree: tables (DB-7).

An entity's module has two parts. Functions that read and write within one transaction are registered with the store,
and named by clients: `Operation`. Functions with a `MetadataStore` as their first argument are what callers use; they
check what a caller gives, name an operation, and make a typed answer or error of what comes back. A second store
brings functions of its own under the same names, and tables of the same names; callers do not see which one answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from splitbrain.cluster.entities.errors import error_of_abort
from splitbrain.cluster.errors import InvalidRequestError, OutcomeUnknownError, UnavailableError
from splitbrain.cluster.tree import Aborted, LookUp, Refused, Result, Transact, TransactRead, Tree, Value

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder()


class Operation(NamedTuple):
    """A registered function: what it does is one transaction."""

    name: str
    version: int


class MetadataStore(Protocol):
    """The store of entities, as one of its clients sees it."""

    async def change(self, operation: Operation, data: Any) -> Any:
        """Carry out an operation that may write; what it gives.

        Raises:
            EntityError: it refuses; nothing was changed.
            ClientError: it got no result.
        """
        ...

    async def ask(self, operation: Operation, data: Any) -> Any:
        """Carry out an operation that only reads; linearizable."""
        ...

    async def records(self, table: str, key: Any = None) -> Sequence[Sequence[Any]]:
        """The records of a key in a table of a projection, all without a key, as the member that is asked holds it.

        Raises:
            UnavailableError: it does not know yet (KH-15).
        """
        ...


class LocalStore:
    """A tree in this process as a store: for tests and benchmarks, and beside a member's own tree.

    Args:
        tree: with the functions of `splitbrain.cluster.entities.functions`.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    async def change(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`."""
        return value_of(self._tree.execute(Transact(*operation, encoded(data))))

    async def ask(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`."""
        return value_of(self._tree.query(TransactRead(*operation, encoded(data))))

    async def records(self, table: str, key: Any = None) -> Sequence[Sequence[Any]]:
        """See `MetadataStore`."""
        return value_of(self._tree.look_up(LookUp(table, None if key is None else encoded(key))))


def encoded(value: Any) -> bytes:
    """A value as the store takes it.

    Raises:
        InvalidRequestError: msgpack cannot carry it.
    """
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequestError(f"invalid_value: {error}.") from error


def value_of(result: Result, term: int | None = None) -> Any:
    """What an operation or a look-up gave.

    Raises:
        EntityError: it refused.
        ClientError: it gave no result.
    """
    match result:
        case Value(data):
            return _decoder.decode(data)
        case Aborted(reason):
            known = error_of_abort(_decoder.decode(reason), term)
            raise known or InvalidRequestError("aborted: the transaction was aborted for an unknown reason.", term)
        case Refused("unavailable" | "unknown_projection" as reason, detail=detail):
            raise UnavailableError(f"{reason}: {detail}.", term)
        case Refused(reason, detail=detail):
            raise InvalidRequestError(f"{reason}: {detail}.", term)
        case _:
            raise OutcomeUnknownError(f"the answer does not fit the request: {type(result).__name__}.", term)
