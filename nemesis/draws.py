"""Figures of faults: how many messages are lost, by how much a clock jumps, how many sectors rot.

They are drawn when an op is scheduled and stand in its request. Only + - * / and powers of whole numbers: what a
simulation draws must be the same on every machine.
"""

from __future__ import annotations

from harness.rng import Rng


def share(rng: Rng, low: float, high: float) -> float:
    """A number between `low` and `high`, every one as likely, to three digits."""
    return round(low + (high - low) * rng.random(), 3)


def magnitude(rng: Rng, low: int, high: int) -> int:
    """A whole number between `low` and `high`, every power of ten as likely: small ones matter as much as others."""
    decades = [low]
    while decades[-1] * 10 < high:
        decades.append(decades[-1] * 10)
    start = rng.choice(decades)
    return rng.between(start, min(10 * start, high))


def signed(rng: Rng, figure: int) -> int:
    """The figure, or as much below zero."""
    return figure if rng.random() < 0.5 else -figure
