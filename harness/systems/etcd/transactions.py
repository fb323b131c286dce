"""Transactions on etcd: reads at one revision, and writes under the condition that nothing of it changed since.

etcd carries out a request of several operations at once (`Txn`), but no operation in it can use what another one read.
So a transaction that writes what follows from its reads has two requests, as in etcd's own `concurrency.STM` with
`SerializableSnapshot`: one reads all keys at one revision, the other compares their revisions and writes. Where the
comparison fails another transaction was in between, and nothing happened: it is tried again while its time lasts.

Micro-operations are carried out here, on what was read, so that a transaction reads what it wrote itself. Each key is
written at most once in a request: etcd refuses more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from splitbrain.harness.contract.sessions import Answer, Change, DefiniteError, Mop
from splitbrain.harness.systems.etcd.messages import (
    Compare,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnAnswer,
)
from splitbrain.harness.systems.etcd.optimistic import Optimistic

WRITES: Final = ("w", "append")


class Read(msgspec.Struct, frozen=True):
    """A key as it was read: its value, None if there is none, and the revision of its last change, 0 if none."""

    value: Any = None
    revision: int = 0


class EtcdTransactions(Optimistic):
    """Transactions on keys."""

    async def transact(self, mops: Sequence[Mop]) -> Answer:
        """Do reads and writes in their order; the mops with their reads."""
        keys = used_first(mops)
        writes = any(f in WRITES for f, _, _ in mops)
        if not writes:
            read = await self._read(keys, serializable=self._serializable)
            return Answer(carried_out(mops, _values(read))[0])
        check_time = self._deadline()
        while True:
            read = await self._read(keys)
            done, written = carried_out(mops, _values(read))
            committed = await self._write(read, written)
            if committed.succeeded:
                return Answer(done, committed.header.raft_term or None)
            check_time()

    async def update(self, keys: Sequence[str], change: Change) -> Answer:
        """Read keys, and write what follows from them; what was read."""
        check_time = self._deadline()
        while True:
            read = await self._read(keys)
            values = _values(read)
            written = change(values)
            if written is None:
                raise DefiniteError("aborted")
            if not written:
                return Answer(values)
            committed = await self._write(read, written)
            if committed.succeeded:
                return Answer(values, committed.header.raft_term or None)
            check_time()

    async def _read(self, keys: Sequence[str], *, serializable: bool = False) -> dict[str, Read]:
        """Keys at one revision."""
        if not keys:
            return {}
        _, found = await self._ranges([RangeRequest(_name(key), serializable=serializable) for key in keys])
        return {
            key: Read(msgspec.json.decode(each.kvs[0].value), each.kvs[0].mod_revision) if each.kvs else Read()
            for key, each in zip(keys, found, strict=True)
        }

    async def _write(self, read: Mapping[str, Read], written: Mapping[str, Any]) -> TxnAnswer:
        """Write, if what was read is as it was."""
        unchanged = [Compare(key=_name(key), target="MOD", mod_revision=each.revision) for key, each in read.items()]
        puts = [
            RequestOp(request_put=PutRequest(_name(key), msgspec.json.encode(value))) for key, value in written.items()
        ]
        return await self._commit(unchanged, puts)


def used_first(mops: Sequence[Mop]) -> list[str]:
    """The keys whose value matters: those that are read, or appended to, before they are written."""
    found: dict[str, bool] = {}
    for f, key, _ in mops:
        found.setdefault(key, f != "w")
    return [key for key, used in found.items() if used]


def carried_out(mops: Sequence[Mop], held: Mapping[str, Any]) -> tuple[list[Mop], dict[str, Any]]:
    """The micro-operations with what they read, and what they leave in the keys that they write.

    Args:
        mops: in their order.
        held: values by key, those of keys that do not matter may be missing.
    """
    now, written, done = dict(held), dict[str, Any](), list[Mop]()
    for f, key, value in mops:
        if f in WRITES:
            now[key] = written[key] = value if f == "w" else [*(now.get(key) or ()), value]
        done.append([f, key, value if f in WRITES else now.get(key)])
    return done, written


def _values(read: Mapping[str, Read]) -> dict[str, Any]:
    return {key: each.value for key, each in read.items()}


def _name(key: str) -> bytes:
    return f"transactions/{quote(key, safe='')}".encode()
