"""Projections: tables beside the tree, held by every member, for reads that need no leader (KH-14, KH-15).

A projection is named, with a version: what it holds, or how, changes only with its name. It holds a record for each
node directly below its parent: a copy of the node's properties. The store updates it with the commands that it applies,
and builds it from the tree behind a snapshot; it is no part of a dump.

Its hash is made of what it holds, as that of the tree is of its nodes: where the two differ, it has lost something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Self

from splitbrain.cluster.tree import HASH_MASK, NODES_PER_SLICE, InSlices, Path, Properties, share

REGISTERS: Final = "registers_v1"

PROJECTIONS: Final[Mapping[str, Path]] = {REGISTERS: ("registers",)}
"""The parent of each projection, by its name; each has a parent of its own."""


class Projection:
    """The records of one projection.

    Attributes:
        hash: the sum, modulo 2**128, of the shares that the tree has for nodes like the records.
    """

    def __init__(self) -> None:
        self.hash: int = 0
        self._records: dict[Path, tuple[Properties, int]] = {}  # with their shares in the hash

    @classmethod
    def built_in_slices(cls, nodes: Iterable[tuple[Path, Properties]]) -> InSlices[Self]:
        """One of these nodes."""
        projection = cls()
        for number, (path, properties) in enumerate(nodes, start=1):
            if number % NODES_PER_SLICE == 0:
                yield
            projection.update(path, properties)
        return projection

    def update(self, path: Path, properties: Properties | None) -> None:
        """A node was changed, added, or removed (None)."""
        _, before = self._records.pop(path, (None, 0))
        after = 0
        if properties is not None:
            content = path, properties.payload, properties.payload_version, properties.child_list_version
            after = share(content)
            self._records[path] = properties, after
        self.hash = (self.hash - before + after) & HASH_MASK

    def find(self, path: Path) -> Properties | None:
        """The record of a node, None if there is none."""
        found = self._records.get(path)
        return None if found is None else found[0]


class CatchingUp:
    """Whether a node that started has applied again what it may have shown before, or what others have.

    Until then a record that it lacks may well be one that there is: a projection answers "unavailable", never "not
    found" (KH-15). It has caught up when it has applied all of the log that it recovered, except for what a leader had
    it cut off, and an entry of a term not before the first whose leader it heard of: that entry follows everything that
    was committed in earlier terms.

    Attributes:
        done: whether it has.
    """

    def __init__(self, last_index: int) -> None:
        """`last_index` is the end of the log that was recovered."""
        self.done = False
        self._last_index = last_index
        self._leaders_term: int | None = None
        self._applied = (0, 0)

    def leader_is_known(self, term: int) -> None:
        """The node knows the leader of a term."""
        if self._leaders_term is None:
            self._leaders_term = term
            self._see()

    def cut(self, last_index: int) -> None:
        """The log was cut off behind an index: nothing of that was ever applied."""
        self._last_index = min(self._last_index, last_index)
        self._see()

    def applied(self, index: int, term: int) -> None:
        """The entry at `index`, of `term`, is applied."""
        if not self.done:
            self._applied = index, term
            self._see()

    def _see(self) -> None:
        index, term = self._applied
        knows_enough = self._leaders_term is not None and term >= self._leaders_term
        self.done = self.done or (knows_enough and index >= self._last_index)
