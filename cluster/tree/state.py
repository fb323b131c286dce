"""The metadata tree: a deterministic state machine of named nodes with payloads and versions, modelled on Khepri.

A tree node has a payload or none, a `payload_version` that counts changes of it, a `child_list_version` that counts
commands that added or removed a direct child, and children by name (KH-1). Payloads are opaque bytes and compared as
such: a comparison of decoded values would call 1, 1.0 and true the same.

Commands change the tree, queries look at it; both target exactly one node (KH-5). Every command gives a result, also
one that makes no sense: what has been committed must be applied alike on every member.

Rules differ by the version of the state machine (`splitbrain.cluster.raft.versions`):

- 1: a parent that was created since a command needed it stays when its last child goes.
- 2: such a parent is implicit. The command that leaves it without children and without a payload removes it as well,
  and so on upwards (D14; as Khepri since 0.17). A node that a command named itself is explicit, and stays. Nodes that
  are there when version 2 comes into force are explicit: it is not known why they were created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from splitbrain.cluster.tree.messages import (
    Command,
    CompareAndSwap,
    Create,
    Delete,
    Done,
    Get,
    Increment,
    InvalidCommand,
    ManyNodesDenied,
    MismatchingNode,
    Names,
    NodeNotFound,
    Properties,
    Put,
    Query,
    Result,
    Update,
)
from splitbrain.cluster.tree.nodes import HASH_BYTES, HASH_MASK, Node, content_of, kept_in, share
from splitbrain.cluster.tree.paths import Path, is_pattern

NEWEST_VERSION: Final = 2
"""The latest version of the state machine that this program understands."""

IMPLICIT_PARENTS_GO: Final = 2
"""The version from which on implicit parents are removed."""

_encoder = msgspec.msgpack.Encoder()
_integer_decoder = msgspec.msgpack.Decoder(int)


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
        self._root = Node((), None, is_watched=False)
        self._hash = 0
        self._count(self._root)

    @property
    def hash(self) -> int:
        """Below 2**128; equal for equal trees."""
        return self._hash

    @property
    def state_hash(self) -> str:
        """The same in 32 hexadecimal digits."""
        return f"{self._hash:0{2 * HASH_BYTES}x}"

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

    def _done(self, node: Node) -> Done:
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
            [(*content_of(node), True) if node.is_implicit else content_of(node) for node in self._nodes()]
        )

    @classmethod
    def load(cls, data: bytes, watched: Iterable[Path] = (), version: int = 1) -> Tree:
        """The tree whose `dump` this is; nothing counts as touched.

        Raises:
            msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
        """
        tree = cls(watched, version)
        for kept in kept_in(data):
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

    def _new(self, path: Path, payload: bytes | None, *, is_implicit: bool) -> Node:
        node = Node(path, payload, is_watched=path[:-1] in self._sums, is_implicit=is_implicit)
        self._hash = (self._hash + node.implicit_hash) & HASH_MASK
        return node

    def _nodes(self) -> Iterator[Node]:
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
            total += share(content_of(node)) + node.implicit_hash
            pending.extend(node.children.values())
        return f"{total & HASH_MASK:0{2 * HASH_BYTES}x}"

    def _find(self, path: Path) -> Node | None:
        node = self._root
        for name in path:
            child = node.children.get(name)
            if child is None:
                return None
            node = child
        return node

    def _put(self, path: Path, payload: bytes | None) -> Node:
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

    def _grow(self, parent: Node, path: Path, depth: int, payload: bytes | None) -> Node:
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

    def _lost_child(self, parent: Node) -> None:
        parent.child_list_version += 1
        self._count(parent)

    def _remove_unneeded(self, node: Node) -> Node:
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

    def _count(self, node: Node) -> None:
        now = share(content_of(node))
        self._hash = (self._hash - node.hash + now) & HASH_MASK
        if node.is_watched:
            self._note(node, now - node.hash)
        node.hash = now

    def _discount(self, top: Node) -> None:
        pending = [top]
        while pending:
            node = pending.pop()
            self._hash = (self._hash - node.hash - node.implicit_hash) & HASH_MASK
            if node.is_watched:
                self._note(node, -node.hash)
            pending.extend(node.children.values())

    def _note(self, node: Node, change: int) -> None:
        parent = node.path[:-1]
        self._sums[parent] = (self._sums[parent] + change) & HASH_MASK
        self.touched.append(node.path)


def _integer(payload: bytes | None) -> int | None:
    """The whole number that a payload is, None if it is none."""
    try:
        return None if payload is None else _integer_decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
