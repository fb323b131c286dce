"""MN-3: databases that lost each other and ran on run apart, and say so, until one of them restarts.

    unnoticed   two nodes lost each other, both ran on, and once they saw each other again one did not say that the
                other one runs apart from it
    forgotten   a node said that another one runs apart from it, and then for long that it does not, although both ran
                on and it saw it all the time

What their tables hold is for others to judge. A node is taken to run on while all that it reported in one life says so.
The first takes time: it is judged where all nodes saw all others for as long, and no op of the nemesis came.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from splitbrain.checkers.consensus.findings import Finding
from splitbrain.checkers.strategies.calm import Calm
from splitbrain.checkers.strategies.sights import RUNNING, Sight, words_of
from splitbrain.checkers.strategies.verdicts import Run, run_of, verdict
from splitbrain.checkers.verdict import OfOneRun, Verdict, Whole
from splitbrain.results.quantities import counted

SAYS_NS: Final = 10_000_000_000
"""So long a node may take to say it: one that another node still counts as a replica waits for 5 s (ONE_SIDED_MS). Of
one that it has just found again it may forget it for a moment, until that says that it runs (MN-3: all or none)."""


class StrategyApart(OfOneRun):
    """Judges each pair of nodes that lost each other. No options.

    Unknown: no link was cut, or no node said that another one runs apart from it. The figures: `apart`, the nodes that
    said so; `cuts` and `broken`.
    """

    name = "strategy-apart"
    partition: Whole = "whole run"
    counts_ops = True

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run: its nemesis ops, and the telemetry of its nodes.

        Raises:
            HistoryFormatError: a row does not say what it counts in the form `n1=17`.
        """
        run = run_of(self.name, history, telemetry, options)
        runs = _Runs(run)
        calm = Calm(run)
        found: list[Finding] = []
        for stretch in runs.every:
            found += [*_unnoticed(run, runs, calm, stretch), *_forgotten(run, runs, stretch)]
        apart = sorted({each.node for each in run.reported.sights if each.is_whole and each.apart})
        praise = f"{counted(len(apart), 'node')} said that others ran apart from them, until one of each two restarted."
        occasion = None if apart else "no node said that another one runs apart from it."
        return verdict(self.name, run, found, praise, {"apart": len(apart)}, occasion)


class _Runs:
    """Stretches of whole rows of one life of a node in which its database ran.

    That of the last life of a node lasts to the end of the run: one that has nothing to report writes no rows.
    """

    def __init__(self, run: Run) -> None:
        self.end_ns = max([run.events.end_ns, *(each.time for each in run.reported.sights[-1:])])
        self.every: list[list[Sight]] = []
        self._by_node: dict[str, list[tuple[int, int, list[Sight]]]] = {}
        lives = sorted(filter(None, run.reported.lives), key=lambda life: life[0].time)
        last = {life[0].node: life for life in lives}
        for life in lives:
            stretch: list[Sight] = []
            for each in life:
                if each.event in ("answers", "decides"):
                    continue
                if each.row.role != RUNNING:
                    self._end(stretch, each.time)
                    stretch = []
                elif each.is_whole:
                    stretch.append(each)
            goes_on = last[life[0].node] is life
            self._end(stretch, self.end_ns if goes_on else max((each.time for each in stretch), default=0))
        for stretches in self._by_node.values():
            stretches.sort(key=lambda each: each[0])

    def _end(self, stretch: list[Sight], end_ns: int) -> None:
        if stretch:
            self.every.append(stretch)
            self._by_node.setdefault(stretch[0].node, []).append((stretch[0].time, end_ns, stretch))

    def over(self, node: str, begin_ns: int, end_ns: int) -> Sequence[Sight] | None:
        """The rows of a node's stretch that covers a time up to its last row; None if it did not run on so long."""
        stretches = self._by_node.get(node, [])
        place = bisect.bisect_right(stretches, begin_ns, key=lambda each: each[0]) - 1
        if place < 0 or stretches[place][1] < end_ns:
            return None
        return stretches[place][2]


def _unnoticed(run: Run, runs: _Runs, calm: Calm, rows: Sequence[Sight]) -> Iterator[Finding]:
    lost: dict[str, Sight] = {}
    known: set[str] = set()
    for each in rows:
        for other in known - each.alive:
            lost.setdefault(other, each)
        for other in sorted(each.alive & lost.keys()):
            before = lost.pop(other)
            end_ns = each.time + SAYS_NS
            both = runs.over(other, before.time, end_ns)
            own = runs.over(each.node, before.time, end_ns)
            if both is None or own is None or not _lost(both, each.node, before.time, each.time + SAYS_NS):
                continue
            said = any(other in row.apart for row in rows if before.time <= row.time <= end_ns)
            if not said and calm.lasts(each.time, end_ns, runs.end_ns):
                words = (
                    f"Unnoticed: {each.node} and {other} had lost each other ({before.row.at}), and both ran on; "
                    f"{each.node} saw {other} again ({each.row.at}), and did not say in {SAYS_NS / 1e9:g} s that "
                    "it runs apart"
                )
                yield run.finding("unnoticed", words, before, each)
        known |= each.alive


def _lost(rows: Sequence[Sight], other: str, begin_ns: int, end_ns: int) -> bool:
    """Whether a node did not see another one for a moment of that time, or since before it."""
    at = [each for each in rows if each.time <= begin_ns][-1:]
    return any(other not in each.alive for each in [*at, *(one for one in rows if begin_ns < one.time <= end_ns)])


def _forgotten(run: Run, runs: _Runs, rows: Sequence[Sight]) -> Iterator[Finding]:
    said: dict[str, Sight] = {}
    for place, each in enumerate(rows):
        for other in sorted(said.keys() - each.apart):
            before, end_ns = said.pop(other), each.time + SAYS_NS
            soon = [row for row in rows[place:] if row.time <= end_ns]
            excused = any(other in row.apart or other not in row.alive for row in soon)
            both = all(runs.over(node, before.time, end_ns) is not None for node in (each.node, other))
            if both and not excused:
                words = (
                    f"Forgotten: {each.node} said that {other} runs apart from it ({before.row.at}), and says so no "
                    f"more ({each.row.at}), only of {words_of(each.apart)}; both ran on"
                )
                yield run.finding("forgotten", words, before, each)
        for other in said.keys() - each.alive:
            del said[other]
        for other in each.apart & each.alive:
            said.setdefault(other, each)
