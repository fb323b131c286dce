"""How themes and workloads are spread over the seeds of a hunt: evenly, and not by luck.

If each seed drew its theme and its workload by itself, of thirty seeds some would meet a theme four times, and several
themes would not be met at all. A hunt of a minute is no longer than that. So seeds come in rounds. A round has each
theme as often as its weight says, the open draw beside them, and each workload at least once. The order of themes is
nearly the same in all rounds, so that none is far from its next turn; which workload meets which theme is drawn anew.

A round is a function of its number and of what is spread: a seed's place needs no other seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil
from typing import Final, NamedTuple

from splitbrain.harness.contract.rng import Rng, Streams

OPEN_SHARE: Final = 1 / 3
"""The share of seeds that draw from everything."""

BLOCK: Final = 6
"""Seeds that follow each other, within which the order of themes is drawn for each round."""

FIRST_SEED: Final = 1
"""Hunts begin there: a round begins there too."""


class Part(NamedTuple):
    """What is spread: a theme, how often it is in a round, and the workloads that it can have.

    `bearing`: those beside which its tests are what the theme says, if not all are. It gets one of them from a test
    that draws from everything, in exchange for its own; if none of these has one, from another test that can have it.
    """

    theme: str
    weight: int
    workloads: tuple[str, ...]
    bearing: tuple[str, ...] = ()


class Place(NamedTuple):
    """What a seed has in its round."""

    theme: str
    workload: str


def place(seed: int, parts: tuple[Part, ...], everything: Part, preferred: tuple[str, ...]) -> Place:
    """What a seed has.

    Args:
        seed: of the test.
        parts: the themes; there may be none.
        everything: the open draw, with all the workloads; its weight does not matter.
        preferred: workloads that fill what is left of a round once each workload is in it.
    """
    size = len(_order(parts, everything))
    number, index = divmod(seed - FIRST_SEED, size)
    return round_of(number, parts, everything, preferred)[index]


@lru_cache(maxsize=64)
def round_of(number: int, parts: tuple[Part, ...], everything: Part, preferred: tuple[str, ...]) -> tuple[Place, ...]:
    """What the seeds of a round have, in their order; arguments as for `place`."""
    rng = Streams(number)["round of seeds"]
    order = list(_order(parts, everything))
    for begin in range(0, len(order), BLOCK):
        block = order[begin : begin + BLOCK]
        rng.shuffle(block)
        order[begin : begin + BLOCK] = block
    workloads = _workloads(rng, order, preferred)
    for index, part in enumerate(order):
        if part.bearing and workloads[index] not in part.bearing:
            bears = [at for at, other in enumerate(order) if _bears(other, workloads[index])]
            open_first = sorted(bears, key=lambda at: order[at] != everything)
            _exchange(workloads, index, open_first, part.bearing)
    return tuple(Place(part.theme, workload) for part, workload in zip(order, workloads, strict=True))


def _bears(part: Part, workload: str) -> bool:
    return workload in part.workloads and (not part.bearing or workload in part.bearing)


def _exchange(workloads: list[str], index: int, others: Sequence[int], wanted: Sequence[str]) -> None:
    """Exchange the workload of a place for that of the first of these others that has a wanted one, if one has."""
    found = next((at for at in others if workloads[at] in wanted), None)
    if found is not None:
        workloads[index], workloads[found] = workloads[found], workloads[index]


@lru_cache(maxsize=64)
def _order(parts: tuple[Part, ...], everything: Part) -> tuple[Part, ...]:
    """The themes of a round as they follow each other in all rounds, but for the order within blocks.

    What is there twice has its two turns half a round apart.
    """
    rng = Streams(0)["order of themes"]
    themed = sum(part.weight for part in parts)
    counts = [(part, part.weight) for part in parts]
    counts.append((everything, max(1, round(themed * OPEN_SHARE / (1 - OPEN_SHARE)))))
    turns = [
        ((turn + rng.random()) / count, index, part)
        for index, (part, count) in enumerate(counts)
        for turn in range(count)
    ]
    once = [part for _, _, part in sorted(turns, key=lambda turn: turn[:2])]
    return tuple(once * ceil(len(everything.workloads) / len(once)))


def _workloads(rng: Rng, order: Sequence[Part], preferred: Sequence[str]) -> list[str]:
    """A workload for each place: those first that can have few of them; each time one that had the fewest places."""
    chosen = [""] * len(order)
    times = {workload: 0 for part in order for workload in part.workloads}
    places = list(range(len(order)))
    rng.shuffle(places)
    for index in sorted(places, key=lambda index: len(order[index].workloads)):
        able = list(order[index].workloads)
        rng.shuffle(able)
        chosen[index] = min(able, key=lambda workload: (times[workload], workload not in preferred))
        times[chosen[index]] += 1
    return chosen
