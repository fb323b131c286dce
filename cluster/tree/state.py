"""The tree as a data structure: nodes by path, what changed of them, what keeps them, and the state hash.

A tree node has a payload or none, a `payload_version` that counts changes of it, a `child_list_version` that counts
commands that added or removed a direct child, and children by name (KH-1). Payloads are opaque bytes and compared as
such: a comparison of decoded values would call 1, 1.0 and true the same.

Each operation is `begin`, changes, `settle`; a transaction has several of them. The tree notes what each node was
before it was first touched. From that follow: that a list's version rises once in an operation, how a transaction is
undone, which conditions have to be looked at again, and what triggers and projections see. So an operation costs as
much as the nodes that it touches, in a tree of any size.

Rules differ by the version of the state machine (`splitbrain.cluster.raft.versions`):

- 1: a parent that was created since a command needed it stays when its last child goes.
- 2: such a parent is implicit. The command that leaves it without children and without a payload removes it as well,
  and so on upwards (D14; as Khepri since 0.17). A node that a command named itself is explicit, and stays. Nodes that
  are there when version 2 comes into force are explicit: it is not known why they were created.
- 3: there are the commands that are not plain (`splitbrain.cluster.tree.messages`). A log of an earlier version has
  none that is carried out: a program of that version takes them for no commands at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Self

import msgspec

from splitbrain.cluster.bugs import M53, M55, NO_BUGS, Bugs
from splitbrain.cluster.tree.keepwhile import Watchers, unmet
from splitbrain.cluster.tree.messages import KeepWhile
from splitbrain.cluster.tree.nodes import (
    HASH_BYTES,
    HASH_MASK,
    Before,
    Node,
    content_of,
    kept_in,
    kept_share,
    share,
)
from splitbrain.cluster.tree.paths import Path
from splitbrain.cluster.tree.payloads import Payload, Properties
from splitbrain.cluster.tree.slices import NODES_PER_SLICE, InSlices, at_once, dumped_in_slices

NEWEST_VERSION: Final = 3
"""The latest version of the state machine that this program understands."""

IMPLICIT_PARENTS_GO: Final = 2
"""The version from which on implicit parents are removed."""

PATTERNS_COME: Final = 3
"""The version from which on there are commands that are not plain."""


class TreeState:
    """The nodes after the commands that were applied so far.

    Args:
        watched: parents whose direct children are watched: what changes of them is noted, and their shares are summed.

    Attributes:
        root: the node that always exists.
        touched: paths of the watched nodes that were changed, added or removed since someone last emptied this list.
        version: of the state machine, whose rules hold from now on. It is no part of the hash, nor of a dump.
        removed: the nodes that the operation under way removed, as they were last.
        expired: those of them that went because nothing kept them any more.
    """

    def __init__(self, watched: Iterable[Path] = (), version: int = 1, bugs: Bugs = NO_BUGS) -> None:
        self.touched: list[Path] = []
        self.version = version
        self._bugs = bugs
        self._bumps_payload_version = M55 not in bugs
        self.removed: dict[Path, Properties] = {}
        self.expired: dict[Path, None] = {}
        self._sums: dict[Path, int] = dict.fromkeys(watched, 0)
        self._watchers = Watchers()
        self._changes: dict[Path, Before | None] = {}  # of the operation
        self._earlier: dict[Path, Before | None] = {}  # of the operations before it in the same transaction
        self._written: dict[Path, None] = {}
        self._hash = 0
        self._size = 1
        self.root = Node((), None, is_watched=False)
        self._count(self.root)

    @property
    def hash(self) -> int:
        """Below 2**128; equal for equal trees."""
        return self._hash

    @property
    def state_hash(self) -> str:
        """The same in 32 hexadecimal digits."""
        return f"{self._hash:0{2 * HASH_BYTES}x}"

    @property
    def size(self) -> int:
        """The number of nodes, the root included."""
        return self._size

    # --- to look at it --------------------------------------------------------------------------------------------

    def find(self, path: Path) -> Node | None:
        """The node at a path, None if there is none."""
        node = self.root
        for name in path:
            child = node.children.get(name)
            if child is None:
                return None
            node = child
        return node

    def properties(self, path: Path) -> Properties | None:
        """Those of a node, None if there is none."""
        found = self.find(path)
        return None if found is None else found.properties()

    def properties_before(self, path: Path) -> Properties | None:
        """Those that a node had before the command under way, None if there was none."""
        for changes in (self._earlier, self._changes):
            if path in changes:
                before = changes[path]
                return None if before is None else before.properties()
        return self.properties(path)

    def changes(self) -> dict[Path, Before | None]:
        """The nodes that the command under way touched, each as it was before it; None for one that was not there."""
        return {**self._changes, **self._earlier} if self._earlier else self._changes

    def below(self, parent: Path) -> Iterator[tuple[Path, Properties]]:
        """The direct children of a node, if there is such a node."""
        found = self.find(parent)
        if found is not None:
            yield from ((child.path, child.properties()) for child in found.children.values())

    def sum_below(self, parent: Path) -> int:
        """The sum, modulo 2**128, of the shares of the direct children of a watched parent."""
        return self._sums[parent]

    def contents(self) -> Iterator[tuple[Path, Properties]]:
        """All nodes with their paths, parents before their children, and these by name."""
        return ((node.path, node.properties()) for node in self.nodes())

    def nodes(self) -> Iterator[Node]:
        """All nodes, parents before their children, and these by name: not in the order in which they were made."""
        pending = [self.root]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(node.children[name] for name in sorted(node.children, reverse=True))

    def kept_nodes(self) -> Iterator[Node]:
        """All nodes that are kept by something, in the same order."""
        return (node for node in self.nodes() if node.is_implicit or node.keep_while)

    # --- to change it ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A command begins."""
        self._earlier = {}
        self._forget_operation()

    def next_operation(self) -> None:
        """Another operation of the same transaction begins."""
        # What it was before the first of them that touched it; not copied, as there may be thousands of operations.
        for path, before in self._changes.items():
            self._earlier.setdefault(path, before)
        self._forget_operation()

    def put(self, path: Path, payload: Payload, keep_while: tuple[KeepWhile, ...] | None = None) -> Node:
        """Set the payload of a node, which is created, with its missing parents, if there is none.

        `keep_while`, with absolute and compiled paths, replaces what the node was kept by; None leaves it.
        """
        node = self.root
        for depth, name in enumerate(path, start=1):
            child = node.children.get(name)
            if child is None:
                node = self._grow(node, path, depth, payload)
                self._written[path] = None
                break
            node = child
        else:
            self._touch(node)
            if node.payload != payload:
                node.payload = payload
                node.payload_version += self._bumps_payload_version
                self._count(node)
        if keep_while is not None:
            self._set_kept(node, keep_while, is_implicit=False)
        return node

    def delete(self, node: Node) -> None:
        """Remove a node and all below it; of the root, which stays, the payload and the children."""
        if not node.path:
            self._clear_root()
            return
        parent = self.find(node.path[:-1])
        assert parent is not None, "a node that is in the tree has a parent"
        self._lose_child(parent, node)

    def settle(self) -> None:
        """Remove what nothing keeps any more, and what nothing keeps after that, and so on (KH-7)."""
        if not self._watchers and not any(map(self._is_needless, self._changes)):
            return  # as after nearly every command
        concerned: Iterable[Path] = [path for path, before in self._changes.items() if self._differs(path, before)]
        while True:
            ending = self._unkept(concerned)
            if not ending:
                return
            known = len(self.removed)
            for path in ending:
                node = self.find(path)
                if node is not None:  # else it went with a node above it
                    self.delete(node)
            gone = list(islice(self.removed, known, None))
            self.expired.update(dict.fromkeys(gone))
            if M53 in self._bugs:
                return
            concerned = [*gone, *(path[:-1] for path in ending)]

    def undo(self, *, restores: bool = True) -> None:
        """Have nothing of the command under way happened; without `restores` only the nodes that it made go."""
        changes = self.changes()
        for path in sorted(changes, key=len, reverse=True):
            if changes[path] is None:
                self._detach(path)
        for path in sorted(changes, key=len):
            before = changes[path]
            if before is not None and restores:
                self._restore(path, before)
        self.begin()

    # --- as bytes -------------------------------------------------------------------------------------------------

    def dump(self) -> bytes:
        """All of the state; equal bytes for equal trees."""
        return at_once(self.dump_in_slices())

    def dump_in_slices(self) -> InSlices[bytes]:
        """The same, with pauses."""
        return dumped_in_slices(self.root, self._size)

    @classmethod
    def load(cls, data: bytes, watched: Iterable[Path] = (), version: int = 1, bugs: Bugs = NO_BUGS) -> Self:
        """The tree whose `dump` this is; nothing counts as touched.

        Raises:
            msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
        """
        return at_once(cls.load_in_slices(data, watched, version, bugs))

    @classmethod
    def load_in_slices(
        cls, data: bytes, watched: Iterable[Path] = (), version: int = 1, bugs: Bugs = NO_BUGS
    ) -> InSlices[Self]:
        """The same, with pauses."""
        tree = cls(watched, version, bugs)
        for number, kept in enumerate(kept_in(data), start=1):
            if number % NODES_PER_SLICE == 0:
                yield
            path, node = kept.path, tree.root
            if path:
                parent = tree.find(path[:-1])
                if parent is None:
                    raise msgspec.ValidationError(f"node {path} has no parent")
                node = parent.children[path[-1]] = tree._new(path, None, is_implicit=kept.is_implicit)
            node.payload, node.payload_version = kept.payload, kept.payload_version
            node.child_list_version = kept.child_list_version
            if kept.keep_while:
                tree._keep(node, kept.keep_while, is_implicit=False)
            tree._count(node)
        tree.touched.clear()
        return tree

    def recomputed_state_hash(self) -> str:
        """The state hash from scratch: what `state_hash` must equal."""
        total = 0
        pending = [self.root]
        while pending:
            node = pending.pop()
            total += share(content_of(node)) + kept_share(node.path, node.keep_while, is_implicit=node.is_implicit)
            pending.extend(node.children.values())
        return f"{total & HASH_MASK:0{2 * HASH_BYTES}x}"

    # --- parts ----------------------------------------------------------------------------------------------------

    def _forget_operation(self) -> None:
        self._changes = {}
        self._written = {}
        self.removed = {}
        self.expired = {}

    def _touch(self, node: Node) -> None:
        if node.path not in self._changes:
            self._changes[node.path] = node.as_it_is()

    def _new(self, path: Path, payload: Payload, *, is_implicit: bool) -> Node:
        node = Node(path, payload, is_watched=path[:-1] in self._sums, is_implicit=is_implicit)
        self._hash = (self._hash + node.kept_hash) & HASH_MASK
        self._size += 1
        return node

    def _grow(self, parent: Node, path: Path, depth: int, payload: Payload) -> Node:
        """Add the nodes of `path` from `depth` down below an existing parent, the only one whose child list changed."""
        self._touch(parent)
        self._bump(parent)
        node = parent
        notes_implicit = self.version >= IMPLICIT_PARENTS_GO
        for end in range(depth, len(path) + 1):
            is_named = end == len(path)
            above = path[:end]
            child = self._new(above, payload if is_named else None, is_implicit=notes_implicit and not is_named)
            self._changes.setdefault(above, None)
            node.children[path[end - 1]] = child
            self._count(child)
            node = child
        return node

    def _lose_child(self, parent: Node, node: Node) -> None:
        self._touch(parent)
        self._remove_all(node)
        del parent.children[node.path[-1]]
        self._bump(parent)

    def _bump(self, parent: Node) -> None:
        """Its list of children changed: that counts once in an operation (KH-1, D16), and not if it is new."""
        before = self._changes[parent.path]
        if before is not None and before.child_list_version == parent.child_list_version:
            parent.child_list_version += 1
        self._count(parent)

    def _remove_all(self, top: Node) -> None:
        pending = [top]
        while pending:
            node = pending.pop()
            self._touch(node)
            self.removed[node.path] = node.properties()
            self._written.pop(node.path, None)
            self._discount(node)
            pending.extend(node.children.values())

    def _clear_root(self) -> None:
        root = self.root
        self._touch(root)
        self.removed[()] = root.properties()
        if root.payload is not None:
            root.payload = None
            root.payload_version += 1
        for child in list(root.children.values()):
            self._remove_all(child)
        if root.children:
            root.children = {}
            self._bump(root)
        self._count(root)

    def _unkept(self, concerned: Iterable[Path]) -> list[Path]:
        """Which nodes nothing keeps any more, among those that depend on nodes that changed; in the order of paths."""
        found: dict[Path, None] = {}
        for path in concerned:
            node = self.find(path)
            if node is not None and node.is_needless:
                found[path] = None
            if self._watchers:
                for watcher in self._watchers.of(path):
                    if watcher not in found and self._is_unkept(watcher):
                        found[watcher] = None
        return sorted(found)

    def _is_needless(self, path: Path) -> bool:
        node = self.find(path)
        return node is not None and node.is_needless

    def _differs(self, path: Path, before: Before | None) -> bool:
        node = self.find(path)
        return before is None or node is None or node.properties() != before.properties()

    def _is_unkept(self, path: Path) -> bool:
        node = self.find(path)
        return node is not None and unmet(self.root, node, is_new=path in self._written) is not None

    def _set_kept(self, node: Node, keep_while: tuple[KeepWhile, ...], *, is_implicit: bool) -> None:
        self._touch(node)
        self._keep(node, keep_while, is_implicit=is_implicit)

    def _keep(self, node: Node, keep_while: tuple[KeepWhile, ...], *, is_implicit: bool) -> None:
        self._watchers.remove(node.path, node.keep_while)
        self._watchers.add(node.path, keep_while)
        node.keep_while, node.is_implicit = keep_while, is_implicit
        kept = kept_share(node.path, keep_while, is_implicit=is_implicit)
        self._hash = (self._hash - node.kept_hash + kept) & HASH_MASK
        node.kept_hash = kept

    def _detach(self, path: Path) -> None:
        node = self.find(path)
        parent = self.find(path[:-1])
        if node is not None and parent is not None:
            assert not node.children, "what was below it was not there before, either"
            del parent.children[path[-1]]
            self._discount(node)

    def _restore(self, path: Path, before: Before) -> None:
        node = self.find(path)
        if node is None:
            parent = self.find(path[:-1])
            assert parent is not None, "parents are restored before their children"
            node = parent.children[path[-1]] = self._new(path, None, is_implicit=False)
        node.payload, node.payload_version = before.payload, before.payload_version
        node.child_list_version = before.child_list_version
        self._keep(node, before.keep_while, is_implicit=before.is_implicit)
        self._count(node)

    def _count(self, node: Node) -> None:
        now = share(content_of(node))
        self._hash = (self._hash - node.hash + now) & HASH_MASK
        if node.is_watched:
            self._note(node, now - node.hash)
        node.hash = now

    def _discount(self, node: Node) -> None:
        """Take a node out of the hash, of the sums, and of the conditions."""
        self._hash = (self._hash - node.hash - node.kept_hash) & HASH_MASK
        self._size -= 1
        if node.keep_while:
            self._watchers.remove(node.path, node.keep_while)
        if node.is_watched:
            self._note(node, -node.hash)

    def _note(self, node: Node, change: int) -> None:
        parent = node.path[:-1]
        self._sums[parent] = (self._sums[parent] + change) & HASH_MASK
        self.touched.append(node.path)
