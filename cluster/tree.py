"""The metadata tree: a deterministic state machine of named nodes with payloads and versions, modelled on Khepri.

A tree node has a payload or none, a `payload_version` that counts changes of it, a `child_list_version` that counts
commands that added or removed a direct child, and children by name (KH-1). Payloads are opaque bytes and compared as
such: a comparison of decoded values would call 1, 1.0 and true the same.

Commands change the tree, queries look at it; both target exactly one node (KH-5). Every command gives a result, also
one that makes no sense: what has been committed must be applied alike on every member.

The state hash is the sum, modulo 2**128, of a hash for every tree node: it does not depend on any order, and a command
costs as much as the nodes that it touched, in a tree of any size (an incremental multiset hash after Bellare
and Micciancio, 1997).

Rules differ by the version of the state machine (`splitbrain.cluster.raft.versions`):

- 1: a parent that was created since a command needed it stays when its last child goes.
- 2: such a parent is implicit. The command that leaves it without children and without a payload removes it as well,
  and so on upwards (D14; as Khepri since 0.17). A node that a command named itself is explicit, and stays. Nodes that
  are there when version 2 comes into force are explicit: it is not known why they were created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from splitbrain.cluster.errors import InvalidPathError

Path: TypeAlias = tuple[str, ...]
"""Names from the root down; the root itself is the empty tuple."""

NEWEST_VERSION: Final = 2
"""The latest version of the state machine that this program understands."""

IMPLICIT_PARENTS_GO: Final = 2
"""The version from which on implicit parents are removed."""

_HASH_BYTES: Final = 16
HASH_MASK: Final = (1 << (8 * _HASH_BYTES)) - 1


def parse_path(text: str) -> Path:
    """The path that `text` ("/a/b/c", "/" for the root) stands for.

    Raises:
        InvalidPathError: it does not begin with a slash, or a name in it is empty.
    """
    if text == "/":
        return ()
    names = tuple(text.split("/"))
    if names[0] or len(names) < 2 or not all(names[1:]):
        raise InvalidPathError(f"{text!r} is not a path: write names separated by single slashes, as in '/a/b/c'.")
    return names[1:]


def format_path(path: Path) -> str:
    """`path` as text; the inverse of `parse_path`."""
    return "/" + "/".join(path)


def is_pattern(path: Path) -> bool:
    """Whether a path may match many nodes: `*` in a name stands for any text (KH-2)."""
    for name in path:  # noqa: SIM110 - on a hot path: a generator takes several times as long
        if "*" in name:
            return True
    return False


# --- commands and queries -----------------------------------------------------------------------------------------


class Put(msgspec.Struct, frozen=True, array_like=True, tag="put"):
    """Set the payload of a node, which is created, with its missing parents, if there is none (KH-4)."""

    path: Path
    payload: bytes | None


class Create(msgspec.Struct, frozen=True, array_like=True, tag="create"):
    """Put, on condition that the node does not exist."""

    path: Path
    payload: bytes | None


class Update(msgspec.Struct, frozen=True, array_like=True, tag="update"):
    """Put, on condition that the node exists."""

    path: Path
    payload: bytes | None


class CompareAndSwap(msgspec.Struct, frozen=True, array_like=True, tag="cas"):
    """Put, on condition that the node exists and has exactly the payload `expected`."""

    path: Path
    expected: bytes
    payload: bytes | None


class Delete(msgspec.Struct, frozen=True, array_like=True, tag="delete"):
    """Remove a node and everything below it; explicit parents stay. No error if there is none.

    Of the root, which always exists, the payload and the children are removed.
    """

    path: Path


class Increment(msgspec.Struct, frozen=True, array_like=True, tag="increment"):
    """Add to the payload of a node, a whole number in msgpack; a missing node counts as 0, and is created."""

    path: Path
    by: int


class Get(msgspec.Struct, frozen=True, array_like=True, tag="get"):
    """Query the properties of a node."""

    path: Path


class Children(msgspec.Struct, frozen=True, array_like=True, tag="children"):
    """Query the names of a node's direct children."""

    path: Path


class Project(msgspec.Struct, frozen=True, array_like=True, tag="project"):
    """Look up the record of a node in a projection, as the member that is asked holds it."""

    projection: str
    path: Path


Command: TypeAlias = Put | Create | Update | CompareAndSwap | Delete | Increment
Query: TypeAlias = Get | Children


# --- results ------------------------------------------------------------------------------------------------------


class Properties(msgspec.Struct, frozen=True, array_like=True):
    """What a tree node looks like from outside."""

    payload: bytes | None
    payload_version: int
    child_list_version: int
    child_list_length: int


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """The command was carried out, or the query found its node. `properties` is None where no node is left."""

    properties: Properties | None


class Names(msgspec.Struct, frozen=True, array_like=True, tag="names"):
    """Names of direct children, sorted."""

    names: tuple[str, ...]


class NodeNotFound(msgspec.Struct, frozen=True, array_like=True, tag="node_not_found"):
    """There is no node at the path."""

    path: Path


class MismatchingNode(msgspec.Struct, frozen=True, array_like=True, tag="mismatching_node"):
    """The node at the path does not meet the condition; `properties` are those of the node that was found."""

    path: Path
    properties: Properties


class ManyNodesDenied(msgspec.Struct, frozen=True, array_like=True, tag="possibly_matching_many_nodes_denied"):
    """The path is a pattern."""

    path: Path


class InvalidCommand(msgspec.Struct, frozen=True, array_like=True, tag="invalid_command"):
    """The bytes are no command of this version."""

    problem: str


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag="forgotten"):
    """A copy of a command came after its client had said that no copy would; it had no effect."""

    number: int


class TooManyRefs(msgspec.Struct, frozen=True, array_like=True, tag="too_many_refs"):
    """There is no room to keep the result of the command, which therefore was not carried out."""

    limit: str


Result: TypeAlias = (
    Done | Names | NodeNotFound | MismatchingNode | ManyNodesDenied | InvalidCommand | Forgotten | TooManyRefs
)

_encoder = msgspec.msgpack.Encoder()
_integer_decoder = msgspec.msgpack.Decoder(int)


def encode_command(command: msgspec.Struct) -> bytes:
    """A command as it stands in the log (`splitbrain.cluster.dedup.LogCommand`)."""
    return _encoder.encode(command)


# --- the tree -----------------------------------------------------------------------------------------------------


class _Node:
    """One tree node.

    `hash` is its share of the state hash as it was last counted, `implicit_hash` what comes to that if it is implicit:
    apart, since a projection has the one and not the other.
    """

    __slots__ = (
        "child_list_version",
        "children",
        "hash",
        "implicit_hash",
        "is_watched",
        "path",
        "payload",
        "payload_version",
    )

    def __init__(self, path: Path, payload: bytes | None, *, is_watched: bool, is_implicit: bool = False) -> None:
        self.is_watched = is_watched
        self.implicit_hash = _hashed([path, "implicit"]) if is_implicit else 0
        self.path = path
        self.payload = payload
        self.payload_version = 1
        self.child_list_version = 1
        self.children: dict[str, _Node] = {}
        self.hash = 0

    def properties(self) -> Properties:
        return Properties(self.payload, self.payload_version, self.child_list_version, len(self.children))

    @property
    def is_implicit(self) -> bool:
        """Whether it is there for its children only."""
        return bool(self.implicit_hash)


class Tree:
    """The state of the store after the commands that were applied so far.

    Args:
        watched: parents whose direct children are watched: what changes of them is noted, and their shares are summed.

    Attributes:
        touched: paths of the watched nodes that were changed, added or removed since someone last emptied this list.
        version: of the state machine, whose rules hold from now on. It is no part of the hash, nor of a dump.
    """

    def __init__(self, watched: Iterable[Path] = (), version: int = 1) -> None:
        self.touched: list[Path] = []
        self.version = version
        self._sums: dict[Path, int] = dict.fromkeys(watched, 0)
        self._root = _Node((), None, is_watched=False)
        self._hash = 0
        self._count(self._root)

    @property
    def hash(self) -> int:
        """Below 2**128; equal for equal trees."""
        return self._hash

    @property
    def state_hash(self) -> str:
        """The same in 32 hexadecimal digits."""
        return f"{self._hash:0{2 * _HASH_BYTES}x}"

    def execute(self, command: Command) -> Result:
        """Carry out a command."""
        if is_pattern(command.path):
            return ManyNodesDenied(command.path)
        match command:
            case Delete(path):
                return self._delete(path)
            case Put(path, payload):
                return self._done(self._put(path, payload))
            case Create(path, payload):
                found = self._find(path)
                if found is not None:
                    return MismatchingNode(path, found.properties())
                return Done(self._put(path, payload).properties())
            case Update(path, payload):
                found = self._find(path)
                if found is None:
                    return NodeNotFound(path)
                return self._done(self._put(path, payload))
            case CompareAndSwap(path, expected, payload):
                found = self._find(path)
                if found is None:
                    return NodeNotFound(path)
                if found.payload != expected:
                    return MismatchingNode(path, found.properties())
                return self._done(self._put(path, payload))
            case Increment(path, by):
                return self._increment(path, by)

    def _done(self, node: _Node) -> Done:
        """The result of a put: that an implicit node lost its payload may have been the end of it."""
        if node.payload is None:
            stays = self._remove_unneeded(node)
            if stays is not node:
                self._lost_child(stays)
                return Done(None)
        return Done(node.properties())

    def query(self, query: Query) -> Result:
        """Answer a query from the state as it is."""
        if is_pattern(query.path):
            return ManyNodesDenied(query.path)
        found = self._find(query.path)
        if found is None:
            return NodeNotFound(query.path)
        if isinstance(query, Get):
            return Done(found.properties())
        # By name: an answer must not depend on the order in which children were made.
        return Names(tuple(sorted(found.children)))

    def properties(self, path: Path) -> Properties | None:
        """Those of a node, None if there is none."""
        found = self._find(path)
        return None if found is None else found.properties()

    def below(self, parent: Path) -> Iterator[tuple[Path, Properties]]:
        """The direct children of a node, if there is such a node."""
        found = self._find(parent)
        if found is not None:
            yield from ((child.path, child.properties()) for child in found.children.values())

    def sum_below(self, parent: Path) -> int:
        """The sum, modulo 2**128, of the shares of the direct children of a watched parent."""
        return self._sums[parent]

    def dump(self) -> bytes:
        """All of the state; equal bytes for equal trees."""
        return _encoder.encode(
            [(*_content(node), True) if node.is_implicit else _content(node) for node in self._nodes()]
        )

    @classmethod
    def load(cls, data: bytes, watched: Iterable[Path] = (), version: int = 1) -> Tree:
        """The tree whose `dump` this is; nothing counts as touched.

        Raises:
            msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
        """
        tree = cls(watched, version)
        for kept in _dump_decoder.decode(data):
            path, node = kept.path, tree._root
            if path:
                parent = tree._find(path[:-1])
                if parent is None:
                    raise msgspec.ValidationError(f"node {path} has no parent")
                node = parent.children[path[-1]] = tree._new(path, None, is_implicit=kept.is_implicit)
            node.payload, node.payload_version = kept.payload, kept.payload_version
            node.child_list_version = kept.child_list_version
            tree._count(node)
        tree.touched.clear()
        return tree

    def _new(self, path: Path, payload: bytes | None, *, is_implicit: bool) -> _Node:
        node = _Node(path, payload, is_watched=path[:-1] in self._sums, is_implicit=is_implicit)
        self._hash = (self._hash + node.implicit_hash) & HASH_MASK
        return node

    def _nodes(self) -> Iterator[_Node]:
        """All nodes, parents before their children, and these by name: not in the order in which they were made."""
        pending = [self._root]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(node.children[name] for name in sorted(node.children, reverse=True))

    def contents(self) -> Iterator[tuple[Path, Properties]]:
        """All nodes with their paths, parents before their children, and these by name."""
        return ((node.path, node.properties()) for node in self._nodes())

    def recomputed_state_hash(self) -> str:
        """The state hash from scratch: what `state_hash` must equal."""
        total = 0
        pending = [self._root]
        while pending:
            node = pending.pop()
            total += share(_content(node)) + node.implicit_hash
            pending.extend(node.children.values())
        return f"{total & HASH_MASK:0{2 * _HASH_BYTES}x}"

    def _find(self, path: Path) -> _Node | None:
        node = self._root
        for name in path:
            child = node.children.get(name)
            if child is None:
                return None
            node = child
        return node

    def _put(self, path: Path, payload: bytes | None) -> _Node:
        node = self._root
        for depth, name in enumerate(path, start=1):
            child = node.children.get(name)
            if child is None:
                return self._grow(node, path, depth, payload)
            node = child
        if node.payload != payload:
            node.payload = payload
            node.payload_version += 1
            self._count(node)
        return node

    def _grow(self, parent: _Node, path: Path, depth: int, payload: bytes | None) -> _Node:
        """Add the nodes of `path` from `depth` down below an existing parent, the only one whose child list changed."""
        parent.child_list_version += 1
        self._count(parent)
        node = parent
        notes_implicit = self.version >= IMPLICIT_PARENTS_GO
        for end in range(depth, len(path) + 1):
            is_named = end == len(path)
            child = self._new(path[:end], payload if is_named else None, is_implicit=notes_implicit and not is_named)
            node.children[path[end - 1]] = child
            self._count(child)
            node = child
        return node

    def _increment(self, path: Path, by: int) -> Result:
        found = self._find(path)
        number = 0 if found is None else _integer(found.payload)
        if number is None:
            assert found is not None
            return MismatchingNode(path, found.properties())
        try:
            payload = _encoder.encode(number + by)
        except OverflowError:
            return InvalidCommand(f"{number} + {by} is no number that msgpack can carry")
        return Done(self._put(path, payload).properties())

    def _delete(self, path: Path) -> Result:
        if not path:
            self._clear_root()
            return Done(self._root.properties())
        parent = self._find(path[:-1])
        node = None if parent is None else parent.children.pop(path[-1], None)
        if parent is not None and node is not None:
            self._discount(node)
            self._lost_child(self._remove_unneeded(parent))
        return Done(None)

    def _lost_child(self, parent: _Node) -> None:
        parent.child_list_version += 1
        self._count(parent)

    def _remove_unneeded(self, node: _Node) -> _Node:
        """Remove an implicit node that has neither children nor a payload, and its parents likewise.

        Returns the first one upwards that stays; if that is another one, it has lost a child.
        """
        while node.is_implicit and not node.children and node.payload is None:
            parent = self._find(node.path[:-1])
            assert parent is not None, "only the root has no parent, and it is explicit"
            del parent.children[node.path[-1]]
            self._discount(node)
            node = parent
        return node

    def _clear_root(self) -> None:
        root = self._root
        if root.payload is not None:
            root.payload = None
            root.payload_version += 1
        if root.children:
            for child in root.children.values():
                self._discount(child)
            root.children = {}
            root.child_list_version += 1
        self._count(root)

    def _count(self, node: _Node) -> None:
        now = share(_content(node))
        self._hash = (self._hash - node.hash + now) & HASH_MASK
        if node.is_watched:
            self._note(node, now - node.hash)
        node.hash = now

    def _discount(self, top: _Node) -> None:
        pending = [top]
        while pending:
            node = pending.pop()
            self._hash = (self._hash - node.hash - node.implicit_hash) & HASH_MASK
            if node.is_watched:
                self._note(node, -node.hash)
            pending.extend(node.children.values())

    def _note(self, node: _Node, change: int) -> None:
        parent = node.path[:-1]
        self._sums[parent] = (self._sums[parent] + change) & HASH_MASK
        self.touched.append(node.path)


Content: TypeAlias = tuple[Path, bytes | None, int, int]
"""What is hashed of a node, and dumped: its path, payload, payload version and child list version.

Behind that a dump has True for a node that is implicit.
"""


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """A node as a dump has it."""

    path: Path
    payload: bytes | None
    payload_version: int
    child_list_version: int
    is_implicit: bool = False


_dump_decoder = msgspec.msgpack.Decoder(list[_Kept])


def share(content: Content) -> int:
    """The share in the state hash of a node with this content."""
    return _hashed(content)


def _hashed(content: object) -> int:
    return int.from_bytes(blake2b(_encoder.encode(content), digest_size=_HASH_BYTES).digest(), "big")


def _content(node: _Node) -> Content:
    return node.path, node.payload, node.payload_version, node.child_list_version


def _integer(payload: bytes | None) -> int | None:
    """The whole number that a payload is, None if it is none."""
    try:
        return None if payload is None else _integer_decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
