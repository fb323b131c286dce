"""What those who judge quorum progress and those who show it have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RULES: Final[Mapping[str, str]] = {
    "Q1": "no progress without quorum",
    "Q2": "no progress on the wrong side",
    "Q3": "progress with quorum",
    "Q4": "recovery time",
    "Q5": "one leader per term",
    "Q6": "leaders keep what was committed",
    "Q7": "convergence",
    "Q8": "start-up",
    "Q9": "availability",
    "Q10": "superseded leaders",
}
"""The rules by their names."""

RECOVERY_ELECTIONS: Final = 4
"""The largest number of election timeouts of a recovery (votes may split, and members must catch up), unless a
system or a test says otherwise."""
