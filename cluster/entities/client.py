"""The store of entities as a client of one node sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from splitbrain.cluster.client import Client, ClientError, StoreRefusedError, TransactionAbortedError, UnavailableError
from splitbrain.cluster.entities.errors import error_of_abort
from splitbrain.cluster.entities.store import Operation
from splitbrain.cluster.entities.tables import PROJECTIONS
from splitbrain.cluster.transaction_client import TransactionResult
from splitbrain.cluster.tree import RegisterProjection

LOOKS: Final = 5
"""How often tables are read anew because the member applied something meanwhile."""


class ClientStore:
    """A `MetadataStore` of one node. Each request is sent once.

    Args:
        client: the connection.
        timeout_ms: after so long the node gives up on a request; or what says so, asked before each request.

    Attributes:
        term: in which the last operation was answered; None before the first.
    """

    def __init__(self, client: Client, timeout_ms: int | Callable[[], int]) -> None:
        self.term: int | None = None
        self._client = client
        self._timeout = timeout_ms
        self._has_registered = False

    @property
    def _timeout_ms(self) -> int:
        return self._timeout() if callable(self._timeout) else self._timeout

    async def change(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`."""
        wanted = self._client.transaction(*operation, data, "write", timeout_ms=self._timeout_ms)
        return (await self._result(wanted)).value

    async def ask(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`."""
        wanted = self._client.transaction(*operation, data, "read", timeout_ms=self._timeout_ms)
        return (await self._result(wanted)).value

    async def records(self, table: str, key: Any = None) -> Sequence[Sequence[Any]]:
        """See `MetadataStore`. What the cluster does not keep it keeps from now on: a later look-up finds it."""
        try:
            return await self._records(table, key)
        except UnavailableError:
            await self._make_known()
            raise

    async def _records(self, table: str, key: Any = None) -> Sequence[Sequence[Any]]:
        found = await (self._client.all_records(table) if key is None else self._client.look_up(table, key))
        self.term = found.term
        return found.records

    async def _make_known(self) -> None:
        if not self._has_registered:
            with suppress(ClientError):  # what counts is that nothing is known now
                await self.register()

    async def register(self) -> None:
        """Have the cluster keep the projections of entities.

        Raises:
            ClientError: one could not be registered.
        """
        there = await self._client.projections(timeout_ms=self._timeout_ms)
        for wanted in PROJECTIONS:
            if wanted.name not in there:
                await self._register(wanted)
        self._has_registered = True

    async def _register(self, wanted: RegisterProjection) -> None:
        try:
            await self._client.register_projection(
                wanted.name, wanted.path, wanted.kind, wanted.function, dict(wanted.tables), timeout_ms=self._timeout_ms
            )
        except StoreRefusedError as error:
            if error.reason != "projection_already_exists":  # another client was first
                raise

    async def at_one_moment(
        self, operation: Operation, tables: Sequence[str]
    ) -> tuple[Any, Mapping[str, Sequence[Sequence[Any]]]]:
        """What an operation that only reads gives on this member, and all of some tables, of the same state there.

        Raises:
            UnavailableError: the member applied something between the requests each time, or does not know.
        """
        for _ in range(LOOKS):
            # All at once: the member answers in turn, mostly before it applies the next entry.
            asked = (self._local(operation), *map(self._records, tables), self._local(operation))
            first, *found, last = await self._all(*asked)
            if first.index == last.index:
                return first.value, dict(zip(tables, found, strict=True))
        raise UnavailableError("unavailable: the member applied something each time: ask again.", self.term)

    async def _all(self, *asked: Awaitable[Any]) -> list[Any]:
        """What they give, or the first of their errors once all have ended."""
        answers = await asyncio.gather(*asked, return_exceptions=True)
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        if any(isinstance(error, UnavailableError) for error in errors):
            await self._make_known()
        if errors:
            raise errors[0]
        return answers

    async def _local(self, operation: Operation) -> TransactionResult:
        wanted = self._client.transaction(*operation, None, "read", read_mode="local", timeout_ms=self._timeout_ms)
        return await self._result(wanted)

    async def _result(self, wanted: Awaitable[TransactionResult]) -> TransactionResult:
        try:
            result = await wanted
        except ClientError as error:
            raise _error(error) from error
        self.term = result.term
        return result


def _error(error: ClientError) -> ClientError:
    """The error of an entity, if it stands for one. A function that a node does not know may be known later."""
    if isinstance(error, TransactionAbortedError):
        return error_of_abort(error.reason, error.term) or error
    if isinstance(error, StoreRefusedError) and error.reason == "unknown_function":
        return UnavailableError(f"{error} All nodes need version 3 of the state machine.", error.term)
    return error
