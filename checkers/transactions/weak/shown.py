"""What the weak levels add to the findings of a graph of dependencies: violations of what models mean by these levels.

Models without sessions are judged with each transaction as a session of its own. Of causal consistency that is done
only if there is a violation whose witness needs the order of a session, since clocks of so many sessions may take the
square of the transactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers.transactions.columns import Transactions
from splitbrain.checkers.transactions.models import canonical
from splitbrain.checkers.transactions.weak.judging import LEVELS, WORK, Level, Weak, judge_weak
from splitbrain.checkers.transactions.weak.sources import ANOMALIES
from splitbrain.checkers.transactions.weak.verify import weak_problems
from splitbrain.checkers.transactions.weak.witness import weak_witness
from splitbrain.results.witness import Witness

_JUDGED_BY: Final[Mapping[str, tuple[Level, bool]]] = MappingProxyType(
    {
        "monotonic-atomic-view": ("read-committed", False),
        "read-atomic": ("read-atomic", False),
        "update-atomic": ("read-atomic", False),
        "causal-cerone": ("causal", False),
        "prefix": ("causal", False),
        "parallel-snapshot-isolation": ("causal", False),
        "strong-session-monotonic-atomic-view": ("read-committed", True),
        "strong-session-read-atomic": ("read-atomic", True),
        "strong-session-causal": ("causal", True),
    }
)
"""By which level models are judged, and whether sessions count. Of stronger models cycles show all that these do."""


@dataclass(frozen=True)
class Shown:
    """What the weak levels show.

    Attributes:
        witnesses: of violations, verified; named "-process" if the order of a session is needed.
        unverified: what is wrong with others, which are left out.
        undecided: why a level was not judged, in a sentence each.
    """

    witnesses: tuple[Witness, ...] = ()
    unverified: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()


def is_weak(models: Sequence[str]) -> bool:
    """Whether one of some models is judged by a weak level.

    Raises:
        UnknownNameError: there is no such model.
    """
    return any(canonical(model) in _JUDGED_BY for model in models)


def weak_shown(history: pa.Table, transactions: Transactions, models: Sequence[str], source: str = "history") -> Shown:
    """Judge registers by the weak levels that some models need.

    Args:
        history: of the transactions.
        transactions: of registers.
        models: names of consistency models.
        source: names the history in errors.

    Raises:
        UnknownNameError: there is no such model.
        HistoryFormatError: the history is not of registers.
    """
    asked = [_JUDGED_BY[model] for model in map(canonical, models) if model in _JUDGED_BY]
    if not asked:
        return Shown()
    place = max(LEVELS.index(level) for level, _ in asked)
    sessions = any(with_sessions for _, with_sessions in asked)
    apart = replace(transactions, process=np.arange(len(transactions), dtype=np.int64))
    collected = _Collected(history)
    for columns, found in _runs(transactions, apart, place, sessions, source):
        collected.take(columns, found, without_sessions=columns is apart)
    if ("causal", False) in asked and collected.only_by_sessions:
        collected.take(apart, judge_weak(apart, "causal", source, WORK), without_sessions=True)
    return collected.shown()


class _Collected:
    """What several runs show, the first witness of each anomaly."""

    def __init__(self, history: pa.Table) -> None:
        self._history = history
        self._witnesses: dict[str, Witness] = {}
        self._unverified: list[str] = []
        self._undecided: list[str] = []
        self.only_by_sessions = False
        """Whether causal consistency is violated, and the witness needs the order of a session."""

    def take(self, columns: Transactions, found: Weak, *, without_sessions: bool) -> None:
        """Add what one run shows."""
        if found.too_large and without_sessions:
            self._undecided.append(f"{found.level} without sessions: its clocks would take too much memory or work.")
        elif found.too_large:
            self._undecided.append(f"{found.level}: its clocks would take more than 1 GiB. Use fewer sessions at once.")
        elif found.valid == "unknown":
            self._undecided.append(
                f"{found.level}: several transactions wrote the same value to a key, and one was read."
            )
        elif found.valid == "false" and found.anomaly in ANOMALIES:
            self._undecided.append(f"{found.level}: {found.anomaly} hides what else there is.")
        elif found.valid == "false":
            # A G1c that the graph does not have, too: there only the first read of a key in a transaction counts.
            witness = _named(weak_witness(self._history, columns, found))
            problems = weak_problems(witness, found.level, self._history)
            self._unverified += problems
            self.only_by_sessions |= found.level == "causal" and witness.anomaly.endswith("-process")
            if not problems:
                self._witnesses.setdefault(witness.anomaly, witness)

    def shown(self) -> Shown:
        """All of it."""
        return Shown(tuple(self._witnesses.values()), tuple(self._unverified), tuple(dict.fromkeys(self._undecided)))


def _runs(
    transactions: Transactions, apart: Transactions, place: int, sessions: bool, source: str
) -> Iterator[tuple[Transactions, Weak]]:
    """The strongest level; only if it is violated, each weaker one that could be, too, the weakest first."""
    strongest = transactions if sessions or LEVELS[place] == "causal" else apart
    last = judge_weak(strongest, LEVELS[place], source)
    if last.valid == "false":
        for level in LEVELS[: place + 1]:
            if level != "causal" and (sessions or level != LEVELS[place]):
                yield apart, judge_weak(apart, level, source)
            if sessions and level != LEVELS[place]:
                yield transactions, judge_weak(transactions, level, source)
    yield strongest, last


def _named(witness: Witness) -> Witness:
    """A witness, its anomaly "-process" if it needs the order of a session."""
    ordered = any(edge.kind == "process" for edge in (*witness.edges, *witness.premises))
    ordered = ordered and not witness.anomaly.endswith("-process")
    return msgspec.structs.replace(witness, anomaly=f"{witness.anomaly}-process") if ordered else witness
