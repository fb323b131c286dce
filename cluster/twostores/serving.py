"""Operations of clients on entities, answered by the store in force (M2K-1).

A client sends what it would send to a cluster with the tree alone. An answer of the tables has term 0, which no term of
consensus has.

A node whose feature flag is disabled needs no majority to know that the tables are in force: the flag is enabled only
once every member has noted that it changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import msgspec

from splitbrain.cluster.entities.errors import EntityError
from splitbrain.cluster.entities.store import Operation, encoded
from splitbrain.cluster.errors import ClientError, InvalidRequestError, UnavailableError
from splitbrain.cluster.migration.dispatch import FallbackStore, Known, OutOfTimeError
from splitbrain.cluster.migration.marker import NONE, Marker
from splitbrain.cluster.migration.shell import TreeSwitch
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.runtime import Clock
from splitbrain.cluster.tables.entities.operations import OPERATIONS
from splitbrain.cluster.tables.entities.projected import PROJECTED
from splitbrain.cluster.tables.entities.store import TablesStore
from splitbrain.cluster.tables.hosted import HostedReplica
from splitbrain.cluster.tables.replica import ReplicaTables
from splitbrain.cluster.tree import Aborted, LookUp, Transact, TransactRead, Value
from splitbrain.cluster.twostores.tree import Member, NodeStore, OwnMember
from splitbrain.cluster.wire import Failure, LocalQuery, Outcome, TransactAuto

PROGRESS_MS: Final = 50
"""So long a call waits before it looks again which store is in force."""

GOES_ON_MS: Final = 1_000
"""So long it waits for the marker to change before it asks a store again: an attempt of 101 (M2K-1)."""

_MS: Final = 1_000_000

Body: TypeAlias = Transact | TransactRead | TransactAuto | LocalQuery | LookUp


def wanted_of(body: object) -> Body | None:
    """What an operation on entities wants; None for any other request."""
    match body:
        case Transact(name, version) | TransactRead(name, version) | TransactAuto(name, version):
            return body if Operation(name, version) in OPERATIONS else None
        case LocalQuery(TransactRead(name, version)):
            return body if Operation(name, version) in OPERATIONS else None
        case LookUp(table):
            return body if table in PROJECTED else None
        case _:
            return None


class Serving:
    """See the module.

    Args:
        node: its name.
        member: of the tree.
        replica: of the tables; None if the node has none.
        replicas: the nodes that have one.
        clock: of the node.
        may_change: whether the feature flag was enabled, or may be, as far as this node knows.
        saw: is given each marker that a call met.
        repeats_all: see `FallbackStore`.
    """

    def __init__(
        self,
        node: str,
        member: Member,
        replica: HostedReplica | None,
        replicas: Sequence[str],
        clock: Clock,
        may_change: Callable[[], bool],
        saw: Callable[[Marker], None],
        *,
        repeats_all: bool,
    ) -> None:
        self._node = node
        self._member = member
        self._replica = replica
        self._replicas = tuple(replicas)
        self._clock = clock
        self._may_change = may_change
        self._saw = saw
        self._repeats_all = repeats_all
        self.known = Known()

    async def serve(self, body: Body, timeout_ms: int, answer: Answering) -> None:
        """Carry out an operation on entities, and answer it."""
        call = _Call(
            *(self._member, self._replica, self._replicas, self._clock, timeout_ms),
            *(self._may_change, self._saw, self._node),
        )
        store = FallbackStore(call.tables, call.tree, call, self.known, repeats_all=self._repeats_all)
        outcome: Outcome
        term: int | None
        try:
            outcome = Value(encoded(await _carried_out(store, body)))
            term = call.tree.term
        except EntityError as error:
            outcome = Aborted(encoded(list(error.reason))) if error.reason else _failure(error)
            term = error.term
        except ClientError as error:
            outcome, term = _failure(error), error.term
        answer(term or 0, outcome, 0)


class _Call:
    """One call: the two stores, and which of them is in force, for as long as it has time."""

    def __init__(
        self,
        member: Member,
        replica: HostedReplica | None,
        replicas: Sequence[str],
        clock: Clock,
        timeout_ms: int,
        may_change: Callable[[], bool],
        saw: Callable[[Marker], None],
        node: str,
    ) -> None:
        self._clock = clock
        self._ends_ns = clock.monotonic_ns() + timeout_ms * _MS
        self._may_change = may_change
        self._saw = saw
        self._replica = replica
        self._replicas = replicas
        self._node = node
        self.tree = NodeStore(member, self._left_ms)
        self.tables = TablesStore(self)
        left_ms = self._left_ms
        self._switch = TreeSwitch(NodeStore(member, left_ms), self.progress, OwnMember(member, left_ms))
        self._marker = NONE

    def _left_ms(self) -> int:
        return max(1, (self._ends_ns - self._clock.monotonic_ns()) // _MS)

    async def run(self, procedure: str, arguments: Sequence[Any]) -> Any:
        """Carry out a procedure of the tables (`RunsProcedures`)."""
        if self._replica is None:
            others = ", ".join(self._replicas)
            raise UnavailableError(f"unavailable: {self._node} has no tables, which are in force: ask one of {others}.")
        self.tree.term = None
        return await ReplicaTables(self._replica, self._replicas, self._left_ms()).run(procedure, arguments)

    async def look(self) -> Marker:
        """See `Switch`."""
        if not self._may_change():
            return NONE
        self._marker = await self._switch.look()
        self._saw(self._marker)
        return self._marker

    def look_here(self) -> Awaitable[Marker]:
        """See `Switch`."""
        return self._switch.look_here()

    def note_written(self, marker: Marker) -> Awaitable[bool]:
        """See `Switch`."""
        return self._switch.note_written(marker)

    async def progress(self) -> None:
        """See `Switch`."""
        before, until_ns = self._marker, min(self._ends_ns, self._clock.monotonic_ns() + GOES_ON_MS * _MS)
        while True:
            left_ns = until_ns - self._clock.monotonic_ns()
            if left_ns <= 0:
                break
            await self._clock.sleep(min(left_ns, PROGRESS_MS * _MS))
            with suppress(ClientError):
                if await self.look() != before or before.tree_is_in_force:
                    return
        if self._clock.monotonic_ns() >= self._ends_ns:
            raise OutOfTimeError


async def _carried_out(store: FallbackStore, body: Body) -> Any:
    match body:
        case Transact(name, version, data):
            return await store.change(Operation(name, version), _decoded(data))
        case TransactAuto(name, version, data):
            return await store.change(Operation(name, version), _decoded(data))
        case TransactRead(name, version, data) | LocalQuery(TransactRead(name, version, data)):
            return await store.ask(Operation(name, version), _decoded(data))
        case LookUp(table, key):
            return await store.records(table, None if key is None else _decoded(key))
        case _:
            raise AssertionError("no operation on entities was taken for one")


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.msgpack.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequestError(f"what the operation is given makes no sense: {error}") from error


def _failure(error: ClientError) -> Failure:
    words = str(error).removeprefix("unavailable: ").removeprefix("invalid_request: ")
    if isinstance(error, InvalidRequestError):
        return Failure("invalid_request", True, words)
    return Failure("unavailable" if error.definite else "timeout", error.definite, words)
