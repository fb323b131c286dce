"""Registers, sets and locks on etcd: a register is a key, a set the keys below a prefix, a lock a key with a lease.

Why a set is many keys and not one that holds all elements: every add is then its own log entry, so that many are in
flight when a fault begins and each must survive by itself. With one key each add replaces the last, all but one of the
adds that overlap are refused, and few are in flight when it matters. That compare-and-set is atomic is what the
registers are for.

One transaction acquires a lock: it creates its key if there is none. Another one releases it: it deletes the key if it
is its owner's. The revision at which the key was created is the fencing token: it only ever grows. etcd's lock service
does the same with a queue of keys, and waits; a waiting request may time out, and its outcome is then unknown, so here
a held lock is refused at once.

An answer has its term if it went through the log. What etcd calls `raft_term` is the term of the last entry that
the node had applied. Before it applied this op's entry it applied the first one of that entry's term, the empty one of
the leader's election, so the term is never older than the entry's: an answer that looks superseded (Q10 of
`splitbrain.checkers.quorum`) is. A read has no entry. A node that received a snapshot reports a term from before that,
until it applies another entry (`applySnapshot` in `etcdserver/server.go` sets none), and reads meanwhile are correct,
but would look superseded: so reads have no term.

The lease of a lock outlives every run. An owner who is paused for longer than a lease has lost the lock without knowing
(Jepsen's analysis of etcd 3.4.3): that is what leases are, and no fault of etcd's. With a lease that cannot run out in
time, two owners at a time are one, a lease that ended early included.

Locks as users run them stand on a lease of seconds that the client keeps alive (`lease_lock`, `leases.KeptLease`). Two
clients may believe then that they hold one lock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.contract.read_modes import READ_LOCAL
from splitbrain.harness.contract.sessions import Answer, Change, DefiniteError, Mop
from splitbrain.harness.systems.etcd.errors import changing_nothing
from splitbrain.harness.systems.etcd.gateway import Gateway
from splitbrain.harness.systems.etcd.leases import KeptLease
from splitbrain.harness.systems.etcd.messages import (
    Answered,
    Compare,
    DeleteRequest,
    LeaseAnswer,
    LeaseRequest,
    PutRequest,
    RangeAnswer,
    RangeRequest,
    RequestOp,
    TxnAnswer,
    TxnRequest,
)
from splitbrain.harness.systems.etcd.predicates import EtcdPredicates
from splitbrain.harness.systems.etcd.transactions import EtcdTransactions

LOCK_LEASE_S: Final = 10_000_000
"""Longer than the longest test (`TIME_MAX_S`)."""


class EtcdSession:
    """One client's connection to one node.

    Args:
        gateway: the connection.
        another: opens another connection to the same node, to keep leases alive.
        clock: gives the times at which they must be renewed, and until when transactions are tried again.
        timeout_ms: how long the latter are.
        serializable: let the node answer reads from what it has itself, however old that is.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        another: Callable[[], Awaitable[Gateway]],
        clock: Clock,
        timeout_ms: int,
        serializable: bool = False,
    ) -> None:
        self._gateway = gateway
        self._another = another
        self._clock = clock
        self._serializable = serializable
        self._transactions = EtcdTransactions(gateway, clock, timeout_ms, serializable=serializable)
        self._predicates = EtcdPredicates(gateway, clock, timeout_ms, serializable=serializable)
        self._lease = 0
        self._kept: KeptLease | None = None
        self._leased: dict[str, KeptLease] = {}

    async def read(self, key: str) -> Answer:
        """The value of a key, None if there is none."""
        return await self._read(key, serializable=self._serializable)

    async def read_as(self, key: str, f: str) -> Answer:
        """The same; `read-local` is serializable, whatever the mode of other reads is."""
        return await self._read(key, serializable=f == READ_LOCAL)

    async def _read(self, key: str, *, serializable: bool) -> Answer:
        answer = await self._range(RangeRequest(_register(key), serializable=serializable))
        value = msgspec.json.decode(answer.kvs[0].value) if answer.kvs else None
        return Answer(value)

    async def write(self, key: str, value: Any) -> Answer:
        """Set a key unconditionally."""
        answer = await self._gateway.call("kv/put", PutRequest(_register(key), _encoded(value)), Answered)
        return Answer(value, _term(answer))

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a key if it holds `expected`; whether it did."""
        name = _register(key)
        holds = Compare(key=name, target="VALUE", value=_encoded(expected))
        answer = await self._txn(holds, RequestOp(request_put=PutRequest(name, _encoded(value))))
        return Answer(answer.succeeded, _term(answer))

    async def create(self, key: str, value: Any) -> Answer:
        """Set a key if it does not exist; whether this call did."""
        answer = await self._create(PutRequest(_register(key), _encoded(value)))
        return Answer(answer.succeeded, _term(answer))

    async def add(self, collection: str, element: int) -> Answer:
        """Put an element into a collection; one that is there already is a definite failure."""
        answer = await self._create(PutRequest(_elements(collection) + str(element).encode(), b"1"))
        if not answer.succeeded:
            raise DefiniteError(f"{element} is in {collection!r} already")
        return Answer(element, _term(answer))

    async def elements(self, collection: str) -> Answer:
        """All elements of a collection, in ascending order."""
        prefix = _elements(collection)
        answer = await self._range(
            RangeRequest(prefix, range_end=_after(prefix), serializable=self._serializable, keys_only=True)
        )
        return Answer(sorted(int(found.key[len(prefix) :]) for found in answer.kvs))

    async def lock(self, name: str, owner: int) -> Answer:
        """Take a lock if it is free: the fencing token, None if it is held."""
        lease = await self._granted()
        answer = await self._create(PutRequest(_lock(name), _encoded(owner), lease))
        return Answer(answer.header.revision if answer.succeeded else None, _term(answer))

    async def unlock(self, name: str, owner: int) -> Answer:
        """Give a lock back; whether `owner` held it."""
        key = _lock(name)
        holds = Compare(key=key, target="VALUE", value=_encoded(owner))
        answer = await self._txn(holds, RequestOp(request_delete_range=DeleteRequest(key)))
        return Answer(answer.succeeded, _term(answer))

    async def lease_lock(self, name: str, owner: int, lease_s: int) -> Answer:
        """Acquire a lock with a lease (in seconds) if it is free: the fencing token, None if it is held."""
        kept = await self._kept_lease(lease_s)
        answer = await self._create(PutRequest(_lock(name), _encoded(owner), kept.lease))
        if answer.succeeded:
            self._leased[name] = kept
        return Answer(answer.header.revision if answer.succeeded else None, _term(answer))

    def lease_holds(self, name: str) -> bool:
        """Whether this client believes that it holds the lock."""
        kept = self._leased.get(name)
        return kept is not None and kept.believed

    async def lease_unlock(self, name: str, owner: int) -> Answer:
        """Give a lock back; whether it was still held. A client that knows of its loss asks no node."""
        held = self.lease_holds(name)
        self._leased.pop(name, None)
        return await self.unlock(name, owner) if held else Answer(False)

    async def transact(self, mops: Sequence[Mop]) -> Answer:
        """Do reads and writes in their order as one transaction; the mops with their reads."""
        return await self._transactions.transact(mops)

    async def update(self, keys: Sequence[str], change: Change) -> Answer:
        """Read keys, and write what follows from them, in one transaction; what was read."""
        return await self._transactions.update(keys, change)

    async def in_universe(self, universe: str, steps: Sequence[Mop]) -> Answer:
        """Do reads and writes of objects, and predicate reads, in their order as one transaction; with the reads."""
        return await self._predicates.in_universe(universe, steps)

    async def close(self) -> None:
        """Drop the connection. Locks stay as they are, those on short leases until these run out."""
        if self._kept is not None:
            await self._kept.close()
        await self._gateway.close()

    async def _range(self, request: RangeRequest) -> RangeAnswer:
        with changing_nothing():
            return await self._gateway.call("kv/range", request, RangeAnswer)

    async def _create(self, put: PutRequest) -> TxnAnswer:
        return await self._txn(Compare(key=put.key, target="CREATE", create_revision=0), RequestOp(request_put=put))

    async def _txn(self, condition: Compare, then: RequestOp) -> TxnAnswer:
        return await self._gateway.call("kv/txn", TxnRequest((condition,), (then,)), TxnAnswer)

    async def _granted(self) -> int:
        """This session's lease. Asking for it takes no lock: where that fails, taking the lock failed definitely."""
        if not self._lease:
            with changing_nothing():
                answer = await self._gateway.call("lease/grant", LeaseRequest(LOCK_LEASE_S), LeaseAnswer)
            self._lease = answer.lease
        return self._lease

    async def _kept_lease(self, lease_s: int) -> KeptLease:
        """The lease that this session keeps alive; a new one if the last one is known to be gone."""
        if self._kept is None or not self._kept.believed:
            if self._kept is not None:
                await self._kept.close()
            with changing_nothing():
                self._kept = await KeptLease.grant(self._gateway, lease_s, self._another, self._clock)
        return self._kept


def _term(answer: Answered) -> int | None:
    """The term of an answer that went through the log. 0 is left out in JSON: nothing was applied yet."""
    return answer.header.raft_term or None


def _encoded(value: Any) -> bytes:
    """A value as JSON: equal values are equal bytes, which is what etcd compares."""
    return msgspec.json.encode(value, order="deterministic")


def _register(key: str) -> bytes:
    return f"registers/{quote(key, safe='')}".encode()


def _elements(collection: str) -> bytes:
    return f"sets/{quote(collection, safe='')}/".encode()


def _lock(name: str) -> bytes:
    return f"locks/{quote(name, safe='')}".encode()


def _after(prefix: bytes) -> bytes:
    """The first key behind all that begin with `prefix`."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
