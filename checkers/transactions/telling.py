"""Long chains in a sentence: its first and last parts, and how many are between them.

A cycle is as long as it is: nothing is left out of a witness, only of what is said about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from splitbrain.results.quantities import counted

TOLD: Final = 8
"""Parts of a chain that a sentence has at most: half of them from its beginning, half from its end."""


def told(steps: Sequence[str], first: str) -> str:
    """A cycle in words.

    Args:
        steps: a sentence for each.
        first: the transaction that it begins and ends with.
    """
    between = f"And so on: {counted(len(steps) - TOLD, 'step')} more, which the witness has."
    return " ".join([*_ends(steps, between), f"So {first} would come before itself."])


def told_way(names: Sequence[str]) -> str:
    """Transactions that come one before the other."""
    return " < ".join(_ends(names, f"... {len(names) - TOLD} more ..."))


def _ends(parts: Sequence[str], between: str) -> Sequence[str]:
    half = TOLD // 2
    return parts if len(parts) <= TOLD else [*parts[:half], between, *parts[-half:]]
