"""Registers, sets and locks on ZooKeeper, through one session with one node.

A register is a node of the tree; a set is a node with a child for each element; a lock is an ephemeral node, whose
creating transaction is the fencing token (the id of a transaction only grows). The recipe for locks of ZooKeeper's
documentation has sequential nodes, by which clients queue up; here a lock that is held is refused at once, so that one
node is enough. The node of a lock lives as long as the session that made it, which is longer than any run.

A node answers reads from what it has applied. A synced read has a barrier in front of it, after which the node has
applied all that was committed before. `sync` is not quite that: a leader answers it without asking a majority, and so
does one that was superseded and has not noticed it yet. What needs a majority is a change. So the barrier is one that
is always refused, the removal of a node that is never there: the leader proposes the refusal as it proposes changes
(`PrepRequestProcessor`), and the node answers the read behind it once it has applied that.

What needs several requests sends the next one only after an answer that says that the one before changed nothing.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from splitbrain.harness.contract.read_modes import READ, READ_LOCAL
from splitbrain.harness.contract.sessions import Answer, DefiniteError
from splitbrain.harness.systems.zookeeper import records
from splitbrain.harness.systems.zookeeper.connection import Connection
from splitbrain.harness.systems.zookeeper.errors import BAD_VERSION, NO_NODE, NODE_EXISTS, RefusedError
from splitbrain.harness.systems.zookeeper.records import ANY_VERSION, EPHEMERAL, PERSISTENT, Stat

NOTHING: Final = b""
NOWHERE: Final = "/barrier"
"""A node that no client ever makes."""


class ZookeeperSession:
    """One client's session with one node.

    Args:
        connection: to the node.
        synced: whether reads are synced; else the node answers from what it has.
        by_sync: whether the barrier in front of synced reads is `sync`.
    """

    def __init__(self, connection: Connection, *, synced: bool = True, by_sync: bool = False) -> None:
        self._connection = connection
        self._synced = synced
        self._by_sync = by_sync

    async def read(self, key: str) -> Answer:
        """The value of a register, None if there is none."""
        return await self._register(key, synced=self._synced)

    async def read_as(self, key: str, f: str) -> Answer:
        """The value of a register, None if there is none: with a sync (READ), or without (READ_LOCAL).

        Raises:
            DefiniteError: there is no such read.
        """
        if f not in (READ, READ_LOCAL):
            raise DefiniteError(f"ZooKeeper has no read {f!r}")
        return await self._register(key, synced=f == READ)

    async def write(self, key: str, value: Any) -> Answer:
        """Set a register unconditionally."""
        path, encoded = _register_path(key), msgspec.json.encode(value)
        for _ in range(2):
            try:
                await self._connection.ask(records.set_data(path, encoded, ANY_VERSION), changes=True)
            except RefusedError as error:
                _only(error, NO_NODE)
            else:
                return Answer(value)
            if await self._created(path, encoded) is not None:
                return Answer(value)
        raise DefiniteError("the register came and went")

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a register if it holds `expected`; whether it did."""
        path = _register_path(key)
        found = await self._data(path, synced=self._synced)
        if found is None or msgspec.json.decode(found[0]) != expected:
            return Answer(False)
        try:
            request = records.set_data(path, msgspec.json.encode(value), found[1].version)
            await self._connection.ask(request, changes=True)
        except RefusedError as error:
            _only(error, BAD_VERSION)
            return Answer(False)
        return Answer(True)

    async def create(self, key: str, value: Any) -> Answer:
        """Set a register if it does not exist; whether this call did."""
        return Answer(await self._created(_register_path(key), msgspec.json.encode(value)) is not None)

    async def add(self, collection: str, element: int) -> Answer:
        """Put an element into a set; one that is there already stays there."""
        path = f"{_set_path(collection)}/{element}"
        try:
            await self._created(path, NOTHING)
        except RefusedError as error:
            _only(error, NO_NODE)
            await self._prepare(collection)
            await self._created(path, NOTHING)
        return Answer(element)

    async def elements(self, collection: str) -> Answer:
        """All elements of a set, in ascending order."""
        path = _set_path(collection)
        barrier = (self._barrier(path),) if self._synced else ()
        try:
            found = await self._connection.ask(*barrier, records.get_children(path), changes=False)
        except RefusedError as error:
            _only(error, NO_NODE)
            return Answer([])
        return Answer(sorted(int(name) for name in records.children(found)))

    async def lock(self, name: str, owner: int) -> Answer:
        """Take a lock if it is free: the fencing token, None if it is held."""
        made = await self._created(_lock_path(name), msgspec.json.encode(owner), EPHEMERAL)
        return Answer(None if made is None else made.created)

    async def unlock(self, name: str, owner: int) -> Answer:
        """Give a lock back; whether `owner` held it.

        Only an owner removes its lock, so that none of another owner can be there once this one was seen.
        """
        path = _lock_path(name)
        found = await self._data(path, synced=True)
        if found is None or msgspec.json.decode(found[0]) != owner:
            return Answer(False)
        try:
            await self._connection.ask(records.delete(path, ANY_VERSION), changes=True)
        except RefusedError as error:
            _only(error, NO_NODE)
            return Answer(False)
        return Answer(True)

    async def close(self) -> None:
        """Drop the connection. Locks stay as they are."""
        self._connection.close()

    def _barrier(self, path: str) -> records.Request:
        return records.sync(path) if self._by_sync else records.delete(NOWHERE, ANY_VERSION)

    async def _created(self, path: str, content: bytes, flags: int = PERSISTENT) -> Stat | None:
        """The Stat of a node that this made; None if there is one already."""
        try:
            return records.created(await self._connection.ask(records.create(path, content, flags), changes=True))
        except RefusedError as error:
            _only(error, NODE_EXISTS)
            return None

    async def _prepare(self, collection: str) -> None:
        """Make the node of a set; whatever becomes of that, no element is in it.

        Raises:
            DefiniteError: it may not be there.
        """
        try:
            await self._connection.ask(records.create(_set_path(collection), NOTHING, PERSISTENT), changes=False)
        except RefusedError as error:
            _only(error, NODE_EXISTS)

    async def _register(self, key: str, *, synced: bool) -> Answer:
        found = await self._data(_register_path(key), synced=synced)
        return Answer(None if found is None else msgspec.json.decode(found[0]))

    async def _data(self, path: str, *, synced: bool) -> tuple[bytes, Stat] | None:
        """Data and Stat of a node; None if there is none."""
        barrier = (self._barrier(path),) if synced else ()
        try:
            return records.data(await self._connection.ask(*barrier, records.get_data(path), changes=False))
        except RefusedError as error:
            _only(error, NO_NODE)
            return None


def _only(error: RefusedError, code: int) -> None:
    """Raise the error, unless it is the one that is expected."""
    if error.code != code:
        raise error


def _register_path(key: str) -> str:
    return f"/register {key}"


def _set_path(collection: str) -> str:
    return f"/set {collection}"


def _lock_path(name: str) -> str:
    return f"/lock {name}"
