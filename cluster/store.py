"""The state machine of a node: the tree, results by ref, and the hash chain over everything that was applied to it.

It has versions, as rules of the tree change (`splitbrain.cluster.tree`). A log begins with version 1, and a no-op in it
that carries a later one is a step like others: what follows is applied by the rules of that version, on every member.

Beside the state it holds projections of it (`splitbrain.cluster.projection`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self, get_args

import msgspec
from msgspec import structs

from splitbrain.cluster.bugs import M31, M32, M35, M36, M37, M39, M95, NO_BUGS, Bugs
from splitbrain.cluster.chain import EMPTY, chained
from splitbrain.cluster.dedup import DropRefs, LogCommand, Protected, Table, decode_command
from splitbrain.cluster.machine import AppendCommand, MachineEffect, WithEffects
from splitbrain.cluster.projection import PROJECTIONS, Projection
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.messages import OLDEST
from splitbrain.cluster.raft.versions import version_of
from splitbrain.cluster.tree import (
    HASH_MASK,
    NO_FUNCTIONS,
    PATTERNS_COME,
    Command,
    Done,
    Functions,
    InSlices,
    InvalidCommand,
    NodeNotFound,
    Path,
    PlainCommand,
    Properties,
    Put,
    Query,
    Result,
    RunTriggered,
    Tree,
    at_once,
    encode_command,
)

_HASH_BYTES: Final = 16

_PLAIN: Final = frozenset(get_args(PlainCommand))

LARGE: Final = 20_000
"""Nodes of a tree that takes more than some 30 ms to be written down."""

_M35_INTERVAL: Final = 64
"""With M35 each node writes its own name at one entry in so many."""


_DUMP_VERSION: Final = 3


class _Dump(msgspec.Struct, frozen=True):
    """A dump of version 1, which said no version, has no `refs`; `version` is that of its format.

    Version 3 has triggers and projections; it is written once there may be any, so that programs that know of none read
    what there was before.
    """

    applied_index: int
    chain: bytes
    tree: bytes
    version: int = 1
    refs: bytes | None = None
    machine: int = OLDEST
    triggers: bytes | None = None
    projections: bytes | None = None


class Store:
    """What a node has applied so far.

    Args:
        node: name of the node.
        bugs: what is broken on purpose.
        functions: those that transactions, procedures and projections may name.

    Attributes:
        applied_index: index of the last applied entry, 0 at first.
    """

    def __init__(self, node: str = "", bugs: Bugs = NO_BUGS, functions: Functions = NO_FUNCTIONS) -> None:
        self.applied_index: int = 0
        self._node = node
        self._bugs = bugs
        self._functions = functions
        self._tree = Tree(PROJECTIONS.values(), functions=functions, bugs=bugs)
        self._by_parent = {parent: Projection() for parent in PROJECTIONS.values()}
        self._refs = Table(bugs)
        self._chain = EMPTY
        self._ignores_refs = M31 in bugs
        self._writes_its_name = M35 in bugs
        self._fails_where_none_is = M36 in bugs

    @property
    def chain(self) -> tuple[int, bytes]:
        """The applied index, and the hash chain up to there."""
        return self.applied_index, self._chain

    @property
    def chain_hash(self) -> str:
        """32 hexadecimal digits; equal on two nodes at the same index if and only if they applied the same entries."""
        return self._chain.hex()

    @property
    def version(self) -> int:
        """The version of the state machine that is in force."""
        return self._tree.version

    @property
    def state_hash(self) -> str:
        """32 hexadecimal digits; equal for equal trees and results."""
        return _hex(self._tree.hash + self._refs.hash)

    @property
    def releases_itself(self) -> bool:
        """No: its node writes down its state."""
        return False

    @property
    def first_needed(self) -> int | None:
        """The first entry of the log that a state needs which lets it go itself, counted anew; None if not known."""
        return None

    @property
    def withheld(self) -> int:
        """How much those have of it whose nodes it takes for down: nothing, if it gives that to others."""
        return 0

    def begin_leading(self) -> Sequence[MachineEffect]:
        """A new leader goes on with what triggers have asked for."""
        return self._run_triggered()

    def apply(self, entry: Entry) -> Result | WithEffects | None:
        """Apply the next entry; a no-op gives no result, but may put a later version into force."""
        assert entry.index == self.applied_index + 1, f"entry {entry.index} applied after {self.applied_index}"
        self._chain = chained(self._chain, entry)
        self.applied_index = entry.index
        if entry.kind != "command":
            if entry.kind == "noop" and entry.data:
                self._change_version(self.version, version_of(entry))
            if entry.kind == "noop" and M95 in self._bugs:
                self._tree.triggers.take_all()
            return None
        command, was_waiting = decode_command(entry.data), self._tree.triggers.last is not None
        result = self._carry_out(command, entry.index)
        if self._tree.state.touched:
            self._project()
        if self._writes_its_name and entry.index % _M35_INTERVAL == 0:
            self._tree.execute(Put(("written-by",), self._node.encode()))
        if self._fails_where_none_is and isinstance(result, NodeNotFound):
            raise LookupError(f"entry {entry.index}: there is no node to change")
        if self._tree.triggers.last is not None and not (was_waiting and isinstance(command, Command | Protected)):
            return WithEffects(result, self._run_triggered())
        return result

    def _run_triggered(self) -> tuple[MachineEffect, ...]:
        """Have the leader put into the log that what waits is carried out; one such entry at a time is enough."""
        last = self._tree.triggers.last
        return () if last is None else (AppendCommand(encode_command(RunTriggered(last))),)

    def _change_version(self, old: int, new: int) -> None:
        """The step from a version to a later one, or none.

        Of the tree nothing is converted: its version says by which rules it changes from here on.
        """
        if new > old:
            self._tree.version = new

    def _carry_out(self, command: LogCommand | InvalidCommand, index: int) -> Result:
        if type(command) in _PLAIN:  # nearly all are, and would be matched last
            return self._tree.execute(command)  # pyright: ignore[reportArgumentType]
        match command:
            case Protected():
                return self._once(command, index)
            case DropRefs(records):
                self._refs.drop(records)
                return Done(None)
            case InvalidCommand():
                return command
            case _:
                return self._tree.execute(command)

    def _once(self, protected: Protected, index: int) -> Result:
        is_known = self.version >= PATTERNS_COME or isinstance(protected.command, PlainCommand)
        if self._ignores_refs or not is_known:
            return self._tree.execute(protected.command)
        known = self._refs.answer(protected.ref)
        if known is not None:
            return known
        result = self._tree.execute(protected.command)
        self._refs.keep(protected.ref, result, index)
        return result

    def _project(self) -> None:
        """Bring projections up to what the last command changed."""
        tree = self._tree
        for path in tree.touched:
            self._by_parent[path[:-1]].update(path, tree.properties(path))
        tree.touched.clear()

    def dump(self) -> bytes:
        """All of the state, for a snapshot; equal bytes for equal stores."""
        return at_once(self.dump_in_slices())

    def dump_in_slices(self) -> InSlices[bytes]:
        """The same, with pauses."""
        tree = yield from self._tree.dump_in_slices()
        index = self.applied_index - 1 if M37 in self._bugs else self.applied_index
        refs = None if M32 in self._bugs else self._refs.dump()
        dump = _Dump(index, self._chain, tree, 2, refs, self.version)
        if self.version >= PATTERNS_COME:
            triggers, projections = self._tree.triggers.dump(), self._tree.projections.dump()
            dump = structs.replace(dump, version=_DUMP_VERSION, triggers=triggers, projections=projections)
        return msgspec.msgpack.encode(dump)

    @classmethod
    def load(cls, data: bytes, node: str = "", bugs: Bugs = NO_BUGS, functions: Functions = NO_FUNCTIONS) -> Self:
        """The store whose `dump` this is.

        Raises:
            msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
        """
        return at_once(cls.load_in_slices(data, node, bugs, functions))

    @classmethod
    def load_in_slices(
        cls, data: bytes, node: str = "", bugs: Bugs = NO_BUGS, functions: Functions = NO_FUNCTIONS
    ) -> InSlices[Self]:
        """The same, with pauses."""
        dump = msgspec.msgpack.decode(data, type=_Dump)
        if dump.version > _DUMP_VERSION:
            raise msgspec.ValidationError(f"a dump of version {dump.version}, later than this program's")
        store = cls(node, bugs, functions)
        store.applied_index, store._chain = dump.applied_index, dump.chain
        store._tree = yield from Tree.load_in_slices(
            dump.tree,
            PROJECTIONS.values(),
            dump.machine,
            functions,
            bugs,
            triggers=dump.triggers,
            projections=dump.projections,
        )
        for parent in PROJECTIONS.values():
            store._by_parent[parent] = yield from Projection.built_in_slices(store._tree.below(parent))
        if dump.refs is not None:
            store._refs = Table.load(dump.refs, bugs)
        return store

    def reset(self, dump: bytes | None) -> Self:
        """This store as it was at its snapshot, or in the beginning."""
        if dump is None:
            return type(self)(self._node, self._bugs, self._functions)
        return at_once(self.reset_in_slices(dump))

    def reset_in_slices(self, dump: bytes) -> InSlices[Self]:
        """The same with a snapshot, with pauses; this store stays as it is."""
        store = yield from type(self).load_in_slices(dump, self._node, self._bugs, self._functions)
        if M39 in self._bugs and self.applied_index:
            store._by_parent = self._by_parent
            store._tree.projections.keep_tables_of(self._tree.projections)
        return store

    @property
    def tree(self) -> Tree:
        """The tree; it is changed by `apply` alone."""
        return self._tree

    def projected(self, projection: str, path: Path) -> Properties | None:
        """The record of a node in a projection that there is, None if it has none."""
        return self._by_parent[PROJECTIONS[projection]].find(path)

    @property
    def projection_hash(self) -> str:
        """32 hexadecimal digits: what the projections hold."""
        return _hex(sum(projection.hash for projection in self._by_parent.values()))

    @property
    def projected_hash(self) -> str:
        """The same, from the tree: what they should hold."""
        return _hex(sum(map(self._tree.sum_below, PROJECTIONS.values())))

    @property
    def refs(self) -> Table:
        """The results of commands that carry a ref."""
        return self._refs

    @property
    def is_large(self) -> bool:
        """Whether it takes long to write it down."""
        return self._tree.size > LARGE

    @property
    def is_building(self) -> bool:
        """Whether projections are not built yet."""
        return not self._tree.projections.is_built

    def build(self) -> None:
        """Go on building projections, for about 10 ms."""
        self._tree.build()

    def query(self, query: Query) -> Result:
        """Answer a query from what was applied so far."""
        return self._tree.query(query)

    def query_in_slices(self, query: Query) -> InSlices[Result]:
        """The same, with pauses if it looks at many nodes."""
        return self._tree.query_in_slices(query)


def _hex(number: int) -> str:
    return f"{number & HASH_MASK:0{2 * _HASH_BYTES}x}"
