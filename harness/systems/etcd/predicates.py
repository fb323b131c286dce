"""Transactions on the objects of a universe in etcd: each object is a key below the universe's prefix.

A predicate read is a range over that prefix, of which the client keeps what matches: etcd selects by keys only. A
transaction that writes what may follow from its reads has two requests, as others have (`transactions`): all reads at
one revision, then the writes, if nothing that was read has changed. Of a range that takes two conditions. No key in it
may be newer than the revision of the read, which shows what was inserted or written; and each key that was found must
still have its revision, which shows what was deleted, as a condition on a range asks nothing of keys that are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from splitbrain.harness.contract.sessions import Answer, DefiniteError, Mop
from splitbrain.harness.systems.etcd.messages import (
    Compare,
    DeleteRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
)
from splitbrain.harness.systems.etcd.optimistic import Optimistic

READS: Final = ("r", "rp")
CHANGES: Final = ("insert", "w", "delete")


class Seen(msgspec.Struct, frozen=True):
    """What was read at one revision.

    Attributes:
        values: of the objects that exist, by key.
        conditions: they hold as long as all that was read is as it was.
    """

    values: Mapping[str, Any] = {}
    conditions: tuple[Compare, ...] = ()


class EtcdPredicates(Optimistic):
    """Transactions on objects."""

    async def in_universe(self, universe: str, steps: Sequence[Mop]) -> Answer:
        """Do reads and writes of objects in their order; the steps with their reads.

        Raises:
            DefiniteError: nothing of it is ever seen.
            IndefiniteError: the answer to the writes is missing.
        """
        for f, _, _ in steps:
            if f not in READS and f not in CHANGES:
                raise DefiniteError(f"there is no step {f!r}, only r, rp, insert, w and delete")
        prefix = f"objects/{quote(universe, safe='')}/".encode()
        if all(f in READS for f, _, _ in steps):
            seen = await self._read(prefix, steps, serializable=self._serializable)
            return Answer(carried_out(steps, seen.values)[0])
        check_time = self._deadline()
        while True:
            seen = await self._read(prefix, steps)
            done, changed = carried_out(steps, seen.values)
            changes = [_change(_name(prefix, key), value) for key, value in changed.items()]
            committed = await self._commit(seen.conditions, changes)
            if committed.succeeded:
                return Answer(done, committed.header.raft_term or None)
            check_time()

    async def _read(self, prefix: bytes, steps: Sequence[Mop], *, serializable: bool = False) -> Seen:
        """What the steps read of others: the whole universe if one of them reads by a predicate."""
        if any(f == "rp" for f, _, _ in steps):
            wanted = [RangeRequest(prefix, _after(prefix), serializable=serializable)]
        else:
            keys = [_name(prefix, key) for key in read_first(steps)]
            wanted = [RangeRequest(key, serializable=serializable) for key in keys]
        if not wanted:
            return Seen()
        revision, answers = await self._ranges(wanted)
        found = [kv for each in answers for kv in each.kvs]
        revisions = {kv.key: kv.mod_revision for kv in found}
        missing = {each.key: 0 for each in wanted if not each.range_end and each.key not in revisions}
        return Seen(
            {kv.key.removeprefix(prefix).decode(): msgspec.json.decode(kv.value) for kv in found},
            (
                *(_none_newer(each, revision) for each in wanted if each.range_end),
                *(Compare(key=key, target="MOD", mod_revision=each) for key, each in (revisions | missing).items()),
            ),
        )


def read_first(steps: Sequence[Mop]) -> list[str]:
    """The objects that are read by their key before the transaction itself has changed them."""
    found: dict[str, bool] = {}
    for f, key, _ in steps:
        if f != "rp":
            found.setdefault(key, f == "r")
    return [key for key, read in found.items() if read]


def carried_out(steps: Sequence[Mop], held: Mapping[str, Any]) -> tuple[list[Mop], dict[str, Any]]:
    """The steps with what they read, and what they leave in the objects that they change, None where they delete.

    Args:
        steps: in their order.
        held: values of the objects that exist, by key.
    """
    now, changed, done = dict(held), dict[str, Any](), list[Mop]()
    for f, key, value in steps:
        read = value
        if f == "rp":
            read = {each: held for each, held in sorted(now.items()) if held is not None and matches(key, held)}
        elif f == "r":
            read = now.get(key)
        else:
            now[key] = changed[key] = None if f == "delete" else value
        done.append([f, key, read])
    return done, changed


def matches(predicate: Any, value: int) -> bool:
    """Whether the value of an object matches: "true", `["=", value]` or `["mod", divisor, rest]`."""
    if predicate == "true":
        return True
    name, *wanted = predicate
    return value == wanted[0] if name == "=" else value % wanted[0] == wanted[1]


def _none_newer(read: RangeRequest, revision: int) -> Compare:
    return Compare(key=read.key, range_end=read.range_end, target="MOD", result="LESS", mod_revision=revision + 1)


def _change(name: bytes, value: Any) -> RequestOp:
    if value is None:
        return RequestOp(request_delete_range=DeleteRequest(name))
    return RequestOp(request_put=PutRequest(name, msgspec.json.encode(value)))


def _name(prefix: bytes, key: str) -> bytes:
    return prefix + key.encode()


def _after(prefix: bytes) -> bytes:
    """The first key behind all that begin with `prefix`."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
