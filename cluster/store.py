"""The state machine of a node: the tree, results by ref, and the hash chain over everything that was applied to it."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from splitbrain.cluster.bugs import M31, M32, M35, M36, M37, NO_BUGS, Bugs
from splitbrain.cluster.dedup import DropRefs, Protected, Table, decode_command
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.tree import Done, InvalidCommand, NodeNotFound, Put, Query, Result, Tree

_HASH_BYTES: Final = 16
_HASH_MASK: Final = (1 << (8 * _HASH_BYTES)) - 1
_EMPTY_CHAIN: Final = bytes(_HASH_BYTES)

_M35_INTERVAL: Final = 64
"""With M35 each node writes its own name at one entry in so many."""


_DUMP_VERSION: Final = 2


class _Dump(msgspec.Struct, frozen=True):
    """A dump of version 1, which said no version, has no `refs`."""

    applied_index: int
    chain: bytes
    tree: bytes
    version: int = 1
    refs: bytes | None = None


class Store:
    """What a node has applied so far.

    Args:
        node: name of the node.
        bugs: what is broken on purpose.

    Attributes:
        applied_index: index of the last applied entry, 0 at first.
    """

    def __init__(self, node: str = "", bugs: Bugs = NO_BUGS) -> None:
        self.applied_index: int = 0
        self._node = node
        self._bugs = bugs
        self._tree = Tree()
        self._refs = Table(bugs)
        self._chain = _EMPTY_CHAIN
        self._ignores_refs = M31 in bugs

    @property
    def chain_hash(self) -> str:
        """32 hexadecimal digits; equal on two nodes at the same index if and only if they applied the same entries."""
        return self._chain.hex()

    @property
    def state_hash(self) -> str:
        """32 hexadecimal digits; equal for equal trees and results."""
        return f"{(self._tree.hash + self._refs.hash) & _HASH_MASK:0{2 * _HASH_BYTES}x}"

    def apply(self, entry: Entry) -> Result | None:
        """Apply the next entry; a no-op gives no result."""
        assert entry.index == self.applied_index + 1, f"entry {entry.index} applied after {self.applied_index}"
        head = f"{entry.index} {entry.term} {entry.kind} ".encode()
        self._chain = blake2b(self._chain + head + entry.data, digest_size=_HASH_BYTES).digest()
        self.applied_index = entry.index
        if entry.kind != "command":
            return None
        result = self._carry_out(entry)
        if M35 in self._bugs and entry.index % _M35_INTERVAL == 0:
            self._tree.execute(Put(("written-by",), self._node.encode()))
        if M36 in self._bugs and isinstance(result, NodeNotFound):
            raise LookupError(f"entry {entry.index}: there is no node to change")
        return result

    def _carry_out(self, entry: Entry) -> Result:
        command = decode_command(entry.data)
        match command:
            case Protected():
                return self._once(command, entry.index)
            case DropRefs(records):
                self._refs.drop(records)
                return Done(None)
            case InvalidCommand():
                return command
            case _:
                return self._tree.execute(command)

    def _once(self, protected: Protected, index: int) -> Result:
        if self._ignores_refs:
            return self._tree.execute(protected.command)
        known = self._refs.answer(protected.ref)
        if known is not None:
            return known
        result = self._tree.execute(protected.command)
        self._refs.keep(protected.ref, result, index)
        return result

    def dump(self) -> bytes:
        """All of the state, for a snapshot; equal bytes for equal stores."""
        index = self.applied_index - 1 if M37 in self._bugs else self.applied_index
        refs = None if M32 in self._bugs else self._refs.dump()
        return msgspec.msgpack.encode(_Dump(index, self._chain, self._tree.dump(), _DUMP_VERSION, refs))

    @classmethod
    def load(cls, data: bytes, node: str = "", bugs: Bugs = NO_BUGS) -> Store:
        """The store whose `dump` this is.

        Raises:
            msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
        """
        dump = msgspec.msgpack.decode(data, type=_Dump)
        if dump.version > _DUMP_VERSION:
            raise msgspec.ValidationError(f"a dump of version {dump.version}, later than this program's")
        store = cls(node, bugs)
        store.applied_index, store._chain, store._tree = dump.applied_index, dump.chain, Tree.load(dump.tree)
        if dump.refs is not None:
            store._refs = Table.load(dump.refs, bugs)
        return store

    def reset(self, dump: bytes | None) -> Store:
        """This store as it was at its snapshot, or in the beginning."""
        return Store(self._node, self._bugs) if dump is None else Store.load(dump, self._node, self._bugs)

    @property
    def refs(self) -> Table:
        """The results of commands that carry a ref."""
        return self._refs

    def query(self, query: Query) -> Result:
        """Answer a query from what was applied so far."""
        return self._tree.query(query)
