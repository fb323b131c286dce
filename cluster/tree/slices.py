"""What takes long on a large tree, in slices: between two of them a node can do something else, and change nothing."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from splitbrain.cluster.tree.nodes import Node, dumped

T = TypeVar("T")
C = TypeVar("C", str, bytes)

InSlices = Generator[None, None, T]
"""Each `next` does a part; the result comes at the end. Nothing may change the tree meanwhile."""

NODES_PER_SLICE: Final = 2_000
"""About 5 ms."""

_NAMES_AT_ONCE: Final = 20_000
"""Names that are sorted in one go: about 10 ms."""

_encoder = msgspec.msgpack.Encoder()


def at_once(steps: InSlices[T]) -> T:
    """The result without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def dumped_in_slices(root: Node, size: int) -> InSlices[bytes]:
    """A list of all nodes (`dumped`) in msgpack, parents before their children, and these by name; `size` of them."""
    slices, parts = list[bytes](), [header_of_list(size)]
    for number, node in enumerate(in_order(root)):
        if node is not None:
            parts.append(_encoder.encode(dumped(node)))
        if node is None or number % NODES_PER_SLICE == 0:
            slices.append(b"".join(parts))  # to join a million at the end would take half a second
            parts = []
            yield
    return b"".join([*slices, *parts])


def in_order(root: Node) -> Iterator[Node | None]:
    """All nodes as `TreeState.nodes` gives them; None after a part that gives none."""
    ways: list[Iterator[Node | None]] = [iter([root])]
    while ways:
        node = next(ways[-1], _END)
        if node is _END:
            ways.pop()
            continue
        yield node
        if node is not None and node.children:
            ways.append(_children(node))


_END: Final = Node((), None, is_watched=False)


def _children(node: Node) -> Iterator[Node | None]:
    children = node.children
    if len(children) <= _NAMES_AT_ONCE:
        yield from (children[name] for name in sorted(children))
        return
    for name in sorted_in_slices(children):
        yield None if name is None else children[name]


def sorted_in_slices(names: Iterable[C]) -> Iterator[C | None]:
    """Names in order; first None after each part of them that was sorted."""
    left, runs = list(names), list[Iterable[C]]()
    for first in range(0, len(left), _NAMES_AT_ONCE):
        runs.append(sorted(left[first : first + _NAMES_AT_ONCE]))
        yield None
    yield from heapq.merge(*runs)


def header_of_list(length: int) -> bytes:
    """What a list of this length begins with in msgpack."""
    if length < 16:
        return bytes([0x90 | length])
    return b"\xdc" + length.to_bytes(2, "big") if length < 65_536 else b"\xdd" + length.to_bytes(4, "big")
