"""Records of entities by which a node itself acts: which nodes are drained, what policies say, and queues.

They are in the tree, unless the node has another store beside it, which is in force (M2K-1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from splitbrain.cluster.commands import decode_value
from splitbrain.cluster.tree import Children, Names, Path, Tree


class Beside(Protocol):
    """A store beside the tree."""

    @property
    def changes(self) -> int:
        """Rises with every change of its records."""
        ...

    def below(self, tree: Tree, path: Path) -> Sequence[Any] | None:
        """The records that the tree would have below a path; None if it is the tree that is in force."""
        ...


class RecordsInForce:
    """The records as this node has them.

    Attributes:
        beside: the store beside the tree; None without one.
    """

    def __init__(self) -> None:
        self.beside: Beside | None = None

    @property
    def changes(self) -> int:
        """Rises with every change outside of the tree."""
        return 0 if self.beside is None else self.beside.changes

    def beside_tree(self, tree: Tree, path: Path) -> Sequence[Any] | None:
        """The records of a path that are in force beside the tree; None if the tree has those that are."""
        return None if self.beside is None else self.beside.below(tree, path)

    def below(self, tree: Tree, path: Path) -> Iterator[Any]:
        """The records below a path."""
        elsewhere = self.beside_tree(tree, path)
        yield from _in_tree(tree, path) if elsewhere is None else elsewhere


def _in_tree(tree: Tree, path: Path) -> Iterator[Any]:
    found = tree.query(Children(path))
    for name in found.names if isinstance(found, Names) else ():
        properties = tree.properties((*path, name))
        if properties is not None and isinstance(properties.payload, bytes):
            yield decode_value(properties.payload)
