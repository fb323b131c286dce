"""Swizzling: cut nodes off one after the other, and reconnect them one after the other in another order.

FoundationDB calls it swizzle-clogging and found that it finds bugs that simple partitions do not: every intermediate
topology lasts for a moment, and nodes come back in another order than they went.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.harness.contract.nodes import Link, NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.nemesis.draws import check_pauses
from splitbrain.nemesis.grudges import all_links
from splitbrain.results.errors import UsageError

SHAPE: Final = "swizzle"
"""The shape in ops of a swizzle."""

LASTS_MS: Final = 2_000
"""The longest time of all steps of one direction."""

PAUSE_MIN_MS: Final = 50
"""The shortest pause between two steps."""


class Swizzle(msgspec.Struct, frozen=True):
    """The steps of a swizzle, as in the request of its op.

    Attributes:
        nodes: the nodes that are cut off from all others, in this order.
        pauses_ms: the pauses between those steps.
        heal_nodes: the same nodes, in the order in which they come back.
        heal_pauses_ms: the pauses between those steps.
    """

    nodes: tuple[NodeId, ...]
    pauses_ms: tuple[int, ...]
    heal_nodes: tuple[NodeId, ...]
    heal_pauses_ms: tuple[int, ...]


def draw(nodes: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """A random subset of at least two nodes, and both orders and all pauses."""
    cut = rng.sample(nodes, rng.between(2, len(nodes)))
    back = rng.sample(cut, len(cut))
    return {
        "nodes": cut,
        "pauses_ms": _pauses(len(cut), rng),
        "heal_nodes": back,
        "heal_pauses_ms": _pauses(len(cut), rng),
    }


def check(swizzle: Swizzle, known: Sequence[NodeId]) -> None:
    """Refuse steps that are not possible.

    Raises:
        UsageError: they cut off no node, or nodes that are not in the test, or a pause is not valid.
    """
    strangers = [node for node in (*swizzle.nodes, *swizzle.heal_nodes) if node not in known]
    if strangers or not swizzle.nodes:
        raise UsageError(f"a swizzle of {', '.join(strangers) or 'no nodes'}: the nodes are {', '.join(known)}.")
    for name, pauses_ms in (("pauses_ms", swizzle.pauses_ms), ("heal_pauses_ms", swizzle.heal_pauses_ms)):
        check_pauses(name, pauses_ms)


def cut_off(gone: Sequence[NodeId], nodes: Sequence[NodeId]) -> frozenset[Link]:
    """The links that are cut while these nodes are cut off: all of theirs, both ways."""
    return frozenset(link for link in all_links(nodes) if link[0] in gone or link[1] in gone)


def steps(nodes: Sequence[NodeId], pauses_ms: Sequence[int]) -> list[tuple[Sequence[NodeId], NodeId, int | None]]:
    """Step by step: the nodes that had their turn, the one that has it now, and the pause after it (None: the last)."""
    pauses = [*pauses_ms, *[PAUSE_MIN_MS] * len(nodes)][: len(nodes) - 1]
    return [(nodes[: i + 1], node, pause) for i, (node, pause) in enumerate(zip(nodes, [*pauses, None], strict=True))]


def _pauses(steps: int, rng: Rng) -> list[int]:
    longest = max(PAUSE_MIN_MS, LASTS_MS // max(1, steps - 1))
    return [rng.between(PAUSE_MIN_MS, longest) for _ in range(steps - 1)]
