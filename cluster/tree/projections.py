"""Projections that are registered by command: tables of a part of the tree, on every member (KH-14, KH-15).

Which there are is a part of the state; what they hold is not, and follows from the tree. So each member builds them
when they are registered, and anew when it starts and when it takes over a snapshot. That is done in slices, between
which the member applies entries; until it is done, a look-up answers "unavailable", never "not found".

A node is projected when its payload changes, and when it comes or goes: conditions on nodes above it count at that
moment. A function that fails is counted, and leaves the tables as they were; the command succeeds all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from splitbrain.cluster.bugs import M54, M56, NO_BUGS, Bugs
from splitbrain.cluster.errors import InvalidPathError
from splitbrain.cluster.tree.datapattern import DataPatternError, decoded
from splitbrain.cluster.tree.functions import Functions
from splitbrain.cluster.tree.messages import (
    Nodes,
    Refused,
    Registered,
    RegisterProjection,
    Result,
    UnregisterProjections,
    Value,
)
from splitbrain.cluster.tree.nodes import HASH_MASK, Node, hashed
from splitbrain.cluster.tree.paths import Path
from splitbrain.cluster.tree.patternindex import PatternIndex
from splitbrain.cluster.tree.patterns import compiled, loosened, matches_path
from splitbrain.cluster.tree.payloads import Payload, Properties
from splitbrain.cluster.tree.slices import InSlices, at_once
from splitbrain.cluster.tree.state import TreeState
from splitbrain.cluster.tree.tables import Table

MAX_PROJECTIONS: Final = 256
MAX_TABLES: Final = 8
MAX_NAME_LENGTH: Final = 255

NODES_PER_SLICE: Final = 2_000
"""Nodes that are looked at in one slice of building: about 10 ms."""

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(list[RegisterProjection])


class _Projection:
    """One projection, with its tables.

    Attributes:
        registration: what it is, with a compiled path.
        pattern: which nodes it is of.
        tables: by name.
        failures: how often its function failed on this member.
    """

    def __init__(self, registration: RegisterProjection, call: Callable[..., Any] | None, bugs: Bugs) -> None:
        self.registration = registration
        self.pattern = registration.path if M54 not in bugs else loosened(registration.path)
        self.tables: dict[str, Table] = {name: Table(kind) for name, kind in registration.tables}
        self.failures = 0
        self._call = call
        self._waiting: list[Node] = []  # nodes that building still has to look at, with all below them
        self._seen: dict[Path, None] = {}  # those that it need not look at any more
        self.is_built = False

    def begin_building(self, root: Node) -> None:
        self._waiting, self._seen, self.is_built = [root], {}, False

    def build(self, tree: TreeState, most: int) -> int:
        """Look at so many nodes more, at most; how many there were."""
        looked_at = 0
        while self._waiting and looked_at < most:
            node = self._waiting.pop()
            self._waiting.extend(node.children.values())
            looked_at += 1
            if node.path not in self._seen and tree.find(node.path) is node:
                self._seen[node.path] = None
                if matches_path(self.pattern, node.path, tree.properties):
                    self._project(node.path, None, node.properties())
        if not self._waiting and not self.is_built:
            self.is_built = True
            self._seen = {}
        return looked_at

    def changed(self, path: Path, before: Properties | None, after: Properties | None) -> None:
        """A node that matched before or matches now; None where it did not, or was not there."""
        if not self.is_built:
            if path not in self._seen:
                before = None  # it was not projected yet
            self._seen[path] = None
        if (before is None) != (after is None) or _payload(before) != _payload(after):
            self._project(path, before, after)

    def _project(self, path: Path, before: Properties | None, after: Properties | None) -> None:
        for table in self.tables.values():
            table.begin()
        failed = True
        try:
            self._carry_out(path, before, after)
            failed = False
        except Exception:  # a function that fails is its author's business, and the command goes on (KH-14)
            self.failures += 1
        finally:
            for table in self.tables.values():
                table.end(undo=failed)

    def _carry_out(self, path: Path, before: Properties | None, after: Properties | None) -> None:
        if self.registration.kind == "extended":
            assert self._call is not None, "only a copy has no function"
            tables = list(self.tables.values())
            self._call(tables[0] if len(tables) == 1 else tables, path, _as_data(before), _as_data(after))
            return
        (table,) = self.tables.values()
        old, new = self._record(path, before), self._record(path, after)
        if old is not None:
            table.delete_record(old)
        if new is not None:
            table.insert(new)

    def _record(self, path: Path, found: Properties | None) -> Sequence[Any] | None:
        if found is None or not isinstance(found.payload, bytes):
            return None
        value = decoded(found.payload)
        record: Any = value if self._call is None else self._call(path, value)
        return record if isinstance(record, (list, tuple)) and record else None  # pyright: ignore[reportUnknownVariableType]


def _payload(found: Properties | None) -> Payload:
    return None if found is None else found.payload


def _as_data(found: Properties | None) -> dict[str, Any] | None:
    """What an extended function is given of a node: its value (None if it has none), and its versions."""
    if found is None:
        return None
    try:
        value = decoded(found.payload) if isinstance(found.payload, bytes) else None
    except DataPatternError:
        value = None
    return {
        "has_data": isinstance(found.payload, bytes),
        "value": value,
        "payload_version": found.payload_version,
        "child_list_version": found.child_list_version,
        "child_list_length": found.child_list_length,
    }


class ProjectionTables:
    """The projections that are registered, with what they hold.

    Args:
        functions: those that are registered.
    """

    def __init__(self, functions: Functions, bugs: Bugs = NO_BUGS) -> None:
        self._functions = functions
        self._bugs = bugs
        self._projections: dict[str, _Projection] = {}
        self._index: PatternIndex[str] = PatternIndex()
        self._hash = 0

    @property
    def hash(self) -> int:
        """The sum, modulo 2**128, of a hash for each registration: of the state, not of what the tables hold."""
        return self._hash

    @property
    def is_built(self) -> bool:
        """Whether all projections are."""
        # Asked after each event of a member, which seldom has any.
        return not self._projections or all(projection.is_built for projection in self._projections.values())

    def registered(self) -> Registered:
        """The projections by name, with their paths."""
        found = sorted(self._projections.items())
        return Registered(tuple((name, projection.registration.path) for name, projection in found))

    def register(self, command: RegisterProjection, tree: TreeState) -> Result:
        """Register a projection; building begins."""
        try:
            pattern = compiled(command.path)
        except InvalidPathError as error:
            return Refused("invalid_path", detail=str(error))
        tables = command.tables or ((command.name, "set"),)
        if command.name in self._projections or any(self.table(name) is not None for name, _ in tables):
            detail = f"there is a projection or a table {command.name!r} already"
            return Refused("projection_already_exists", pattern, detail=detail)
        problem = self._problem(command, len(tables), len({name for name, _ in tables}))
        if problem is not None:
            return problem
        wanted = RegisterProjection(command.name, pattern, command.kind, command.function, tables)
        if command.function is not None and self._functions.find(*command.function, tree.version) is None:
            name, version = command.function
            return Refused("unknown_function", detail=f"no function {name} {version} is registered")
        self._add(wanted, tree)
        self.build(tree, NODES_PER_SLICE)
        return Nodes((), 0)

    def _problem(self, command: RegisterProjection, tables: int, names: int) -> Refused | None:
        if not 0 < len(command.name) <= MAX_NAME_LENGTH:
            return Refused("invalid_options", detail=f"a projection has a name of 1 to {MAX_NAME_LENGTH} characters")
        if (command.function is None) != (command.kind == "copy"):
            return Refused("invalid_options", detail="a projection other than a copy has a function")
        if tables != names or tables > MAX_TABLES or (command.kind != "extended" and tables != 1):
            detail = f"a projection has one table, and an extended one up to {MAX_TABLES} of different names"
            return Refused("invalid_options", detail=detail)
        if len(self._projections) >= MAX_PROJECTIONS:
            return Refused("limit_reached", detail=f"there are at most {MAX_PROJECTIONS} projections")
        return None

    def unregister(self, command: UnregisterProjections) -> Result:
        """Drop projections, all or those of these names; which they were."""
        names = self._projections if command.names is None else command.names
        gone = [name for name in sorted(dict.fromkeys(names)) if name in self._projections]
        dropped = [self._projections.pop(name) for name in gone]
        registrations = [projection.registration for projection in dropped]
        for projection in dropped:
            registration = projection.registration
            self._index.remove(projection.pattern, registration.name)
            self._hash = (self._hash - hashed(["projection", registration])) & HASH_MASK
        return Registered(tuple((registration.name, registration.path) for registration in registrations))

    def update(self, tree: TreeState) -> None:
        """Bring the tables up to what the command that the tree has just carried out changed."""
        if not self._projections:
            return
        for path, old in tree.changes().items():
            names = self._index.matching(path)
            if not names or (M56 in self._bugs and path in tree.expired):
                continue
            before, now = None if old is None else old.properties(), tree.properties(path)
            for name in names:
                projection = self._projections[name]
                pattern = projection.pattern
                was = before if before and matches_path(pattern, path, tree.properties_before) else None
                projection.changed(path, was, now if now and matches_path(pattern, path, tree.properties) else None)

    def build(self, tree: TreeState, most: int = NODES_PER_SLICE) -> bool:
        """Go on building, so many nodes at most; whether there is more to do."""
        for projection in self._projections.values():
            if not projection.is_built:
                most -= projection.build(tree, most)
                if most <= 0:
                    break
        return not self.is_built

    def begin_building(self, tree: TreeState) -> None:
        """Forget what all projections hold; the tree was replaced."""
        for name, projection in list(self._projections.items()):
            self._projections[name] = self._made(projection.registration, tree)

    def keep_tables_of(self, former: ProjectionTables) -> None:
        """With M39: hold what others of the same registrations held."""
        for name, projection in former._projections.items():
            if projection.is_built and name in self._projections:
                self._projections[name] = projection

    def table(self, name: str) -> Table | None:
        """The table of that name, also while it is being built; None if there is none."""
        found = self._with_table(name)
        return None if found is None else found.tables[name]

    def look_up(self, name: str, key: bytes | None) -> Result:
        """The records of a key, or all records, in a `Value`."""
        return at_once(self.look_up_in_slices(name, key))

    def look_up_in_slices(self, name: str, key: bytes | None) -> InSlices[Result]:
        """The same, with pauses if all of many are wanted."""
        found = self._with_table(name)
        if found is None:
            return Refused("unknown_projection", detail=f"there is no projection with a table {name!r}")
        if not found.is_built:
            return Refused("unavailable", detail=f"the projection {found.registration.name!r} is being built")
        table = found.tables[name]
        if key is None:
            return Value((yield from table.encoded_in_slices()))
        try:
            return Value(_encoder.encode(table.lookup(decoded(key))))
        except DataPatternError as error:
            return Refused("invalid_options", detail=f"the key: {error}")

    def failures(self, name: str) -> int:
        """How often the function of a projection failed on this member."""
        return self._projections[name].failures

    def contents_hash(self) -> int:
        """The sum, modulo 2**128, of the hashes of all tables: equal on members that hold the same."""
        tables = [table for projection in self._projections.values() for table in projection.tables.values()]
        return sum(table.hash for table in tables) & HASH_MASK

    def dump(self) -> bytes:
        """The registrations; equal bytes for equal ones."""
        return _encoder.encode([self._projections[name].registration for name in sorted(self._projections)])

    @classmethod
    def load(cls, data: bytes, functions: Functions, tree: TreeState, bugs: Bugs = NO_BUGS) -> ProjectionTables:
        """The projections whose `dump` this is; building begins.

        Raises:
            msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
        """
        projections = cls(functions, bugs)
        for registration in _decoder.decode(data):
            projections._add(registration, tree)
        return projections

    def _add(self, registration: RegisterProjection, tree: TreeState) -> None:
        made = self._projections[registration.name] = self._made(registration, tree)
        self._index.add(made.pattern, registration.name)
        self._hash = (self._hash + hashed(["projection", registration])) & HASH_MASK

    def _made(self, registration: RegisterProjection, tree: TreeState) -> _Projection:
        call = None
        if registration.function is not None:
            found = self._functions.find(*registration.function, tree.version)
            call = None if found is None else found.call
        made = _Projection(registration, call, self._bugs)
        made.begin_building(tree.root)
        return made

    def _with_table(self, name: str) -> _Projection | None:
        return next((found for found in self._projections.values() if name in found.tables), None)
