"""Trees over an array of integers: the least of a range, and the first zero after changes to ranges.

A tree of `size` leaves, a power of two, is an array of twice that many; node i has the children 2i and 2i + 1, and the
leaves begin at `size`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.linearizable.ops import I64

FAR: Final = 1 << 60
"""More than any value in a tree."""


def tree(leaves: I64) -> tuple[I64, int]:
    """A tree of minima over the leaves, and its size."""
    size = 1 << max(0, len(leaves) - 1).bit_length()
    nodes = np.full(2 * size, FAR, np.int64)
    nodes[size : size + len(leaves)] = leaves
    level = size
    while level > 1:
        nodes[level // 2 : level] = np.minimum(nodes[level : 2 * level : 2], nodes[level + 1 : 2 * level : 2])
        level //= 2
    return nodes, size


@kernel
def assign(nodes: I64, size: int, leaf: int, value: int) -> None:
    """Give a leaf another value."""
    node = size + leaf
    nodes[node] = value
    while node > 1:
        node >>= 1
        nodes[node] = min(nodes[2 * node], nodes[2 * node + 1])


@kernel
def least(nodes: I64, size: int, first: int, until: int) -> int:
    """The leaf with the least value from `first` until `until`, of which there must be one."""
    left, right = size + first, size + until
    best = left
    while left < right:
        if left & 1:
            if nodes[left] < nodes[best]:
                best = left
            left += 1
        if right & 1:
            right -= 1
            if nodes[right] < nodes[best]:
                best = right
        left >>= 1
        right >>= 1
    while best < size:
        best = 2 * best if nodes[2 * best] == nodes[best] else 2 * best + 1
    return best - size


@kernel
def add(nodes: I64, pending: I64, size: int, first: int, until: int, change: int) -> None:
    """Change all leaves from `first` until `until`, in a tree whose nodes keep what is to be added below them.

    A node's value counts its own `pending`, and not those of the nodes above it.
    """
    if first >= until:
        return
    left, right = size + first, size + until
    while left < right:
        if left & 1:
            nodes[left] += change
            pending[left] += change
            left += 1
        if right & 1:
            right -= 1
            nodes[right] += change
            pending[right] += change
        left >>= 1
        right >>= 1
    # Each node above a changed one is above the first or the last changed leaf.
    _renew(nodes, pending, size + first)
    _renew(nodes, pending, size + until - 1)


@kernel
def _renew(nodes: I64, pending: I64, node: int) -> None:
    while node > 1:
        node >>= 1
        nodes[node] = min(nodes[2 * node], nodes[2 * node + 1]) + pending[node]


@kernel
def first_zero(nodes: I64, pending: I64, size: int, first: int) -> int:
    """The first leaf from `first` on that is zero, in a tree that `add` changes; none is less, and one must be zero."""
    node = size + first
    above = 0
    ancestor = node >> 1
    while ancestor > 0:
        above += pending[ancestor]
        ancestor >>= 1
    while nodes[node] + above != 0:
        while node & 1:
            node >>= 1
            above -= pending[node]
        node += 1
    while node < size:
        above += pending[node]
        node *= 2
        if nodes[node] + above != 0:
            node += 1
    return node - size


def warm_up() -> None:
    """Compile the kernels of this module, or load them from the cache."""
    nodes, size = tree(np.zeros(2, np.int64))
    pending = np.zeros_like(nodes)
    assign(nodes, size, 0, 0)
    least(nodes, size, 0, 1)
    add(nodes, pending, size, 0, 1, 1)
    first_zero(nodes, pending, size, 0)
