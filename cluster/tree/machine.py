"""The tree as a state machine: nodes, triggers and projections, changed by commands alone.

    tree = Tree(functions=FUNCTIONS, version=3)
    result = tree.execute(PutNodes(parse_pattern("/:users/alice"), payload))
    result = tree.query(GetNodes(parse_pattern("/:users/*"), many=True))

Every command gives a result, also one that makes no sense: what has been committed must be applied alike on every
member. A command that is refused changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, get_args

import msgspec

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.tree.functions import NO_FUNCTIONS, Functions
from splitbrain.cluster.tree.messages import (
    AskMachine,
    AskNode,
    Children,
    ClearNodes,
    Command,
    CountNodes,
    DeleteNodes,
    Export,
    Get,
    GetNodes,
    InvalidCommand,
    LookUp,
    PlainCommand,
    Projections,
    PutNodes,
    Query,
    Refused,
    RegisterProjection,
    RegisterTrigger,
    Result,
    RunProcedure,
    RunTriggered,
    Transact,
    TransactRead,
    TransactStored,
    Triggered,
    UnregisterProjections,
    UnregisterTriggers,
    Value,
)
from splitbrain.cluster.tree.nodes import HASH_BYTES, HASH_MASK
from splitbrain.cluster.tree.paths import Path
from splitbrain.cluster.tree.payloads import Properties
from splitbrain.cluster.tree.plain import execute_plain, query_plain
from splitbrain.cluster.tree.projections import ProjectionTables
from splitbrain.cluster.tree.reads import ask, ask_in_slices
from splitbrain.cluster.tree.slices import InSlices, at_once
from splitbrain.cluster.tree.state import PATTERNS_COME, TreeState
from splitbrain.cluster.tree.transactions import run_procedure, stored, transact, transact_stored
from splitbrain.cluster.tree.transfer import exported_in_slices
from splitbrain.cluster.tree.triggers import MAX_PENDING, Event, Triggers
from splitbrain.cluster.tree.writes import execute_write

_PLAIN: Final = frozenset(get_args(PlainCommand))
"""Looked up by type, since nearly every command is one of them: to match them last took as long as a put."""

_encoder = msgspec.msgpack.Encoder(order="deterministic")


class Tree:
    """The state after the commands that were applied so far.

    Args:
        watched: parents whose direct children are watched: what changes of them is noted, and their shares are summed.
        version: of the state machine, whose rules hold.
        functions: those that transactions, procedures and projections may name.
        bugs: what is broken on purpose.

    Attributes:
        state: the nodes.
        triggers: those that are registered, and what they are to run.
        projections: those that are registered, with their tables.
    """

    def __init__(
        self,
        watched: Iterable[Path] = (),
        version: int = 1,
        functions: Functions = NO_FUNCTIONS,
        bugs: Bugs = NO_BUGS,
    ) -> None:
        self.state = TreeState(watched, version, bugs)
        self.triggers = Triggers(bugs)
        self.projections = ProjectionTables(functions, bugs)
        self._functions = functions

    @property
    def version(self) -> int:
        """The version of the state machine, whose rules hold from now on. It is no part of the hash, nor of a dump."""
        return self.state.version

    @version.setter
    def version(self, version: int) -> None:
        self.state.version = version

    @property
    def hash(self) -> int:
        """Below 2**128; equal for equal states."""
        return (self.state.hash + self.triggers.hash + self.projections.hash) & HASH_MASK

    @property
    def state_hash(self) -> str:
        """The same in 32 hexadecimal digits."""
        return f"{self.hash:0{2 * HASH_BYTES}x}"

    # --- commands and queries -------------------------------------------------------------------------------------

    def execute(self, command: Command | RunTriggered) -> Result:
        """Carry out a command."""
        if type(command) in _PLAIN:
            self.state.begin()
            return self._followed_up(execute_plain(self.state, command))  # pyright: ignore[reportArgumentType]
        if self.version < PATTERNS_COME:
            return InvalidCommand(f"there is no such command before version {PATTERNS_COME} of the state machine")
        self.state.begin()
        return self._followed_up(self._execute(command))

    def _execute(self, command: Command | RunTriggered) -> Result:
        match command:
            case PutNodes() | ClearNodes() | DeleteNodes():
                return execute_write(self.state, command)
            case Transact(name, version, data):
                return transact(self.state, self._functions, name, version, data, may_write=True)
            case TransactStored(path, data):
                return transact_stored(self.state, self._functions, path, data, may_write=True)
            case RegisterTrigger():
                return self.triggers.register(command)
            case UnregisterTriggers(ids):
                return self.triggers.unregister(ids)
            case RegisterProjection():
                return self.projections.register(command, self.state)
            case UnregisterProjections():
                return self.projections.unregister(command)
            case RunTriggered(number):
                return self._run_triggered(number)
            case _:
                return execute_plain(self.state, command)

    def _followed_up(self, result: Result, chain: int = 0) -> Result:
        """Tell triggers and projections what changed; with more events than there is room for nothing happened."""
        if not self.triggers.notice(self.state, chain):
            self.state.undo()
            return Refused("limit_reached", detail=f"more than {MAX_PENDING:,} events wait to be carried out")
        self.projections.update(self.state)
        return result

    def _run_triggered(self, number: int) -> Result:
        """Carry out what is first in the queue; the results in a list."""
        results: list[list[object]] = []
        for event in self.triggers.take(number):
            self.state.begin()
            result = self._followed_up(self._run_event(event), event.chain + 1)
            results.append([event.number, result])
        self.state.begin()  # all of it was followed up
        return Value(_encoder.encode(results))

    def _run_event(self, event: Event) -> Result:
        said = {"action": event.action, "path": event.path, "trigger": event.trigger, "number": event.number}
        arguments = _encoder.encode(said)
        procedure = stored(self.state, event.procedure)
        if isinstance(procedure, Refused):
            return procedure  # what is not there, or is no procedure, is ignored
        return run_procedure(self.state, self._functions, procedure, arguments, may_write=True)

    def query(self, query: Query) -> Result:
        """Answer a query from the state as it is."""
        match query:
            case Get() | Children():
                return query_plain(self.state, query)
            case GetNodes() | CountNodes() | AskNode():
                return ask(self.state, query)
            case TransactRead(name, version, data):
                return transact(self.state, self._functions, name, version, data, may_write=False)
            case RunProcedure(path, data):
                return transact_stored(self.state, self._functions, path, data, may_write=False)
            case Projections():
                return self.projections.registered()
            case Triggered():
                return Value(_encoder.encode(self.triggers.registered()))
            case Export():
                return at_once(exported_in_slices(self.state, query))
            case AskMachine():
                return InvalidCommand("this group has a tree, which answers no questions of other state machines")

    def query_in_slices(self, query: Query) -> InSlices[Result]:
        """The same, with pauses if the query looks at many nodes."""
        if isinstance(query, GetNodes | CountNodes):
            return (yield from ask_in_slices(self.state, query))
        if isinstance(query, Export):
            return (yield from exported_in_slices(self.state, query))
        return self.query(query)

    @property
    def is_building(self) -> bool:
        """Whether there is something to do for `build`."""
        return not self.projections.is_built

    def build(self) -> None:
        """Go on building projections, for about 10 ms."""
        self.projections.build(self.state)

    def look_up(self, query: LookUp) -> Result:
        """Look into a table of a projection, as it is on this member."""
        return at_once(self.look_up_in_slices(query))

    def look_up_in_slices(self, query: LookUp) -> InSlices[Result]:
        """The same, with pauses if all records of many are wanted."""
        return self.projections.look_up_in_slices(query.table, query.key)

    # --- to look at it --------------------------------------------------------------------------------------------

    @property
    def touched(self) -> list[Path]:
        """Paths of the watched nodes that were changed, added or removed since someone last emptied this list."""
        return self.state.touched

    def properties(self, path: Path) -> Properties | None:
        """Those of a node, None if there is none."""
        return self.state.properties(path)

    def below(self, parent: Path) -> Iterator[tuple[Path, Properties]]:
        """The direct children of a node, if there is such a node."""
        return self.state.below(parent)

    def sum_below(self, parent: Path) -> int:
        """The sum, modulo 2**128, of the shares of the direct children of a watched parent."""
        return self.state.sum_below(parent)

    def contents(self) -> Iterator[tuple[Path, Properties]]:
        """All nodes with their paths, parents before their children, and these by name."""
        return self.state.contents()

    # --- as bytes -------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The number of nodes, the root included."""
        return self.state.size

    def dump(self) -> bytes:
        """The nodes; equal bytes for equal trees. Triggers and projections have dumps of their own."""
        return self.state.dump()

    def dump_in_slices(self) -> InSlices[bytes]:
        """The same, with pauses."""
        return self.state.dump_in_slices()

    @classmethod
    def load(
        cls,
        data: bytes,
        watched: Iterable[Path] = (),
        version: int = 1,
        functions: Functions = NO_FUNCTIONS,
        bugs: Bugs = NO_BUGS,
        *,
        triggers: bytes | None = None,
        projections: bytes | None = None,
    ) -> Tree:
        """The tree whose dumps these are; nothing counts as touched, and building of projections begins.

        Raises:
            msgspec.DecodeError: these bytes are no dumps (msgspec.ValidationError is one).
        """
        loaded = cls.load_in_slices(data, watched, version, functions, bugs, triggers=triggers, projections=projections)
        return at_once(loaded)

    @classmethod
    def load_in_slices(
        cls,
        data: bytes,
        watched: Iterable[Path] = (),
        version: int = 1,
        functions: Functions = NO_FUNCTIONS,
        bugs: Bugs = NO_BUGS,
        *,
        triggers: bytes | None = None,
        projections: bytes | None = None,
    ) -> InSlices[Tree]:
        """The same, with pauses."""
        tree = cls(watched, version, functions, bugs)
        tree.state = yield from TreeState.load_in_slices(data, watched, version, bugs)
        if triggers is not None:
            tree.triggers = Triggers.load(triggers, bugs)
        if projections is not None:
            tree.projections = ProjectionTables.load(projections, functions, tree.state, bugs)
            tree.projections.build(tree.state)
        return tree

    def recomputed_state_hash(self) -> str:
        """The state hash from scratch: what `state_hash` must equal."""
        nodes = int(self.state.recomputed_state_hash(), 16)
        return f"{(nodes + self.triggers.hash + self.projections.hash) & HASH_MASK:0{2 * HASH_BYTES}x}"
