"""Sentences on long chains of transactions: the first and the last parts, and the number of those between them.

The sentence leaves parts out; the witness has them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from splitbrain.results.quantities import counted

PARTS: Final = 8
"""The largest number of parts of a chain that a sentence has: half from its beginning, half from its end."""


def cycle_sentence(steps: Sequence[str], first: str) -> str:
    """The sentence on a cycle.

    Args:
        steps: a sentence on each step.
        first: the transaction where the cycle begins and ends.
    """
    between = f"And so on: {counted(len(steps) - PARTS, 'step')} more, which the witness has."
    return " ".join([*_ends(steps, between), f"So {first} would come before itself."])


def path_words(names: Sequence[str]) -> str:
    """Transactions of a path, in its order: "T1 < T2 < T3"."""
    return " < ".join(_ends(names, f"... {len(names) - PARTS} more ..."))


def _ends(parts: Sequence[str], between: str) -> Sequence[str]:
    half = PARTS // 2
    return parts if len(parts) <= PARTS else [*parts[:half], between, *parts[-half:]]
