"""Figures of faults: how many messages are lost, by how much a clock jumps, how long a pause lasts.

They are drawn when an op is scheduled and stored in its request. Only + - * / and powers of whole numbers are used:
what a simulation draws must be the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from splitbrain.harness.contract.magnitudes import Bounds
from splitbrain.harness.contract.rng import Rng
from splitbrain.results.errors import UsageError

PAUSE_MS: Final = Bounds(0, 60_000, "ms")
"""A pause between two steps of one nemesis op."""

PAUSES_MS: Final = Bounds(0, 20_000, "ms")
"""The limit of all pauses of one nemesis op: the op times out after half a minute, and its steps take time too."""

STEPS_MAX: Final = 1000
"""The largest number of steps of one nemesis op."""


def share(rng: Rng, low: float, high: float) -> float:
    """A number between `low` and `high`, uniform, to three digits."""
    return round(low + (high - low) * rng.random(), 3)


def magnitude(rng: Rng, low: int, high: int) -> int:
    """A whole number between `low` and `high`, log-uniform: every power of ten is equally likely."""
    decades = [low]
    while decades[-1] * 10 < high:
        decades.append(decades[-1] * 10)
    start = rng.choice(decades)
    return rng.between(start, min(10 * start, high))


def signed(rng: Rng, figure: int) -> int:
    """The figure, or its negative."""
    return figure if rng.random() < 0.5 else -figure


def check_pauses(name: str, pauses_ms: Sequence[int]) -> None:
    """Refuse pauses that are not possible.

    Raises:
        UsageError: a pause is not valid.
    """
    for pause_ms in pauses_ms:
        problem = PAUSE_MS.problem(name, pause_ms, whole=True)
        if problem is not None:
            raise UsageError(problem)
    problem = PAUSES_MS.problem(f"{name}, together,", sum(pauses_ms), whole=True)
    if problem is not None:
        raise UsageError(problem)
