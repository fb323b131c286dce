"""Change points: which figures of tonight's runs are no longer what they were in the nights before.

**Figures of simulated runs** (but for those that measure the machine) are a function of code and seed: nights of the
same code draw their runs from the same distribution. Tonight is compared with all nights since the figure last
changed, at most `NIGHTS_MAX` of them: run by run, within each cell, seeds that both sides have as pairs, by the test of
`splitbrain.results.shifts`. The last three nights are compared with those before them as well, which finds smaller
changes later. That is done for all cells of a version together, and for each cell.

**Figures of the machine** (real nodes, CPU time) differ from night to night although the code is the same, by more than
runs of a night do: a night is one value, relative to the usual one of each cell. The last two nights are compared with
those before them (at least `MACHINE_NIGHTS_MIN`), by Student's prediction interval for two values.

A night has `ALPHA` for all of its comparisons: a third for figures of all cells, a third for those of single cells, a
third for those of the machine, each divided by the number of comparisons (Bonferroni). So one night in a thousand of
the same code has a change point, whatever number of figures and cells it has. A difference that is certain but small
(`RATIO_MIN`) is none.

Why not E-divisive, as MongoDB and DataStax use it (Daly et al., ICPE 2020; Fleming et al., ICPE 2023): it looks at one
value a night, and needs some nights after a change to see it. Here a night has hundreds of runs: one night is enough.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from splitbrain.results.nighttables import Cell, Figure, Group, NightTable, Series, figures_in
from splitbrain.results.shifts import Shift, Strata, Stratum, Values, joined, least_p, shift

ALPHA: Final = 0.001
"""The probability that a night of unchanged code has a change point."""

RATIO_MIN: Final = 0.05
"""Changes of the median by less than that are none."""

GREATER_MIN: Final = 0.15
"""Where a ratio says nothing (the usual value is 0): by how much more than half of the later values are greater."""

MACHINE_RATIO_MIN: Final = 0.1

NIGHTS_MAX: Final = 10
"""The largest number of nights before that are compared with."""

WINDOWS: Final = (1, 3)
"""How many nights count as the later ones, tonight included."""

MACHINE_NIGHTS_MIN: Final = 5
MACHINE_WINDOW: Final = 2

FEW: Final = 60
"""With more values than that on both sides, there are enough to say something."""

TOO_FEW_MAX: Final = 20


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that has changed.

    Attributes:
        figure: its name; `label` is for people, with the unit.
        system, version, backend, bug: of the cells.
        workload, nemesis: of the cell; empty for all cells.
        since: the first night with the new value.
        until: the last night that was compared, and in which the change was found.
        before, after: the medians (or means) of all runs of both sides; None: infinite, half of them had no answer.
        ratio: of later values to earlier ones, cell by cell; None where that says nothing.
        greater: how often a later value is greater than an earlier one of its cell, 0 to 1; None for the machine.
        p: an upper bound of the probability of such a difference without a change.
        runs_before, runs_after, pairs: how many values were compared, and how many pairs of the same seed.
        nights_before: how many nights they are from.
        cells: names of cells that have changed by themselves.
    """

    figure: str
    label: str
    system: str
    version: str
    backend: str
    bug: str
    since: str
    until: str
    before: float | None
    after: float | None
    ratio: float | None
    p: float
    runs_before: int
    runs_after: int
    nights_before: int
    workload: str = ""
    nemesis: str = ""
    greater: float | None = None
    pairs: int = 0
    cells: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        """What it is about."""
        return Place(self.figure, Group(self.system, self.version, self.backend, self.bug), self.workload, self.nemesis)


class Trends(msgspec.Struct, frozen=True, kw_only=True):
    """What a night says of its figures.

    Attributes:
        nights: how many nights before it had figures.
        compared: how many comparisons were made.
        changes: what has changed, figures of all cells first, each with those that are more certain first.
        too_few: figures of all cells of which there are too few runs, or nights, to see any change; the first ones.
        too_few_more: how many of these are not listed.
        problems: tables of nights that cannot be read.
    """

    nights: int = 0
    compared: int = 0
    changes: tuple[Change, ...] = ()
    too_few: tuple[str, ...] = ()
    too_few_more: int = 0
    problems: tuple[str, ...] = ()


class Place(NamedTuple):
    """A figure of the cells of a version, or of one cell."""

    figure: str
    group: Group
    workload: str = ""
    nemesis: str = ""


class Looked(msgspec.Struct, frozen=True):
    """All comparisons of a night.

    Attributes:
        changes: what has changed, figures of all cells first, each with those that are more certain first.
        too_few: figures of all cells of which too little is known to see any change.
        compared: how many comparisons were made.
    """

    changes: list[Change]
    too_few: list[tuple[Figure, Group]]
    compared: int


def trends_of(tonight: NightTable, before: Sequence[NightTable], known: Iterable[Change]) -> Trends:
    """What has changed, as the document of a night says it.

    Args:
        tonight: the night.
        before: earlier nights, the oldest first.
        known: the changes of earlier nights.
    """
    found = look(tonight, before, known)
    too_few = [f"{figure.label} of {group.name}" for figure, group in found.too_few]
    return Trends(
        nights=len(before),
        compared=found.compared,
        changes=tuple(found.changes),
        too_few=tuple(too_few[:TOO_FEW_MAX]),
        too_few_more=max(0, len(too_few) - TOO_FEW_MAX),
    )


def look(tonight: NightTable, before: Sequence[NightTable], known: Iterable[Change]) -> Looked:
    """Compare a night with those before it; the arguments are those of `trends_of`."""
    nights = [*before, tonight]
    looked = _Look(nights, _starts(known, [night.name for night in nights]))
    by_runs, by_night = looked.questions()
    changes, too_few = _by_runs(looked, by_runs)
    for figure, group in by_night:
        found = looked.machine(figure, group, ALPHA / 3 / len(by_night))
        if isinstance(found, Change):
            changes.append(found)
        elif found:
            too_few.append((figure, group))
    changes.sort(key=lambda each: (bool(each.workload), each.p))
    return Looked(changes, too_few, len(by_runs) + len(by_night))


def _by_runs(looked: _Look, every: Sequence[_Asked]) -> tuple[list[Change], list[tuple[Figure, Group]]]:
    """What has changed of all cells, or else of single ones; and of what there are too few runs."""
    pooled = [each for each in every if each.cell is None]
    single = [each for each in every if each.cell is not None]
    certain: dict[tuple[Figure, Group, int], list[_Asked]] = {}
    for asked in single:
        if _is_change(asked.found(), ALPHA / 3 / len(single)):
            certain.setdefault((asked.figure, asked.group, asked.window), []).append(asked)
    changes: list[Change] = []
    too_few: list[tuple[Figure, Group]] = []
    seen: set[tuple[Figure, Group]] = set()
    for asked in pooled:  # the shortest window first
        place = (asked.figure, asked.group)
        threshold = ALPHA / 3 / len(pooled)
        if place not in seen and _is_change(asked.found(), threshold):
            seen.add(place)
            cells = tuple(each.cell.name for each in certain.get((*place, asked.window), ()) if each.cell)
            changes.append(looked.change(asked, cells))
        elif asked.window == WINDOWS[0] and asked.says_nothing(threshold):
            too_few.append(place)
    cells_seen: set[tuple[Figure, Cell | None]] = set()
    for asked in (each for listed in certain.values() for each in listed):
        if (asked.figure, asked.group) not in seen and (asked.figure, asked.cell) not in cells_seen:
            cells_seen.add((asked.figure, asked.cell))
            changes.append(looked.change(asked, ()))
    return changes, too_few


def _starts(known: Iterable[Change], names: Sequence[str]) -> dict[Place, int]:
    """For each place that has changed before: the number of the night since when it is as it is now."""
    numbers = {name: number for number, name in enumerate(names)}
    found: dict[Place, int] = {}
    for each in known:
        # A change whose night is gone began before all nights that are there, or in the next one that is.
        start = numbers.get(each.since, next((n for n, name in enumerate(names) if name >= each.since), len(names)))
        found[each.place] = max(start, found.get(each.place, 0))
    return found


def _is_change(found: Shift, threshold: float) -> bool:
    if found.p >= threshold:
        return False
    if found.ratio is not None:
        return abs(found.ratio - 1.0) >= RATIO_MIN
    return abs(found.greater - 0.5) >= GREATER_MIN


class _Asked:
    """A comparison of the runs of some nights with those of nights before."""

    def __init__(
        self, figure: Figure, group: Group, cell: Cell | None, window: int, strata: Strata, nights: int
    ) -> None:
        self.figure, self.group, self.cell, self.window = figure, group, cell, window
        self.strata, self.nights = strata, nights
        self._found: Shift | None = None

    def found(self) -> Shift:
        if self._found is None:
            self._found = shift(self.strata, mean=self.figure.mean)
        return self._found

    def says_nothing(self, threshold: float) -> bool:
        """Whether there are too few values to see any change."""
        found = self.found()
        return min(found.before, found.now) < FEW and least_p(self.strata) >= threshold


class _Look:
    """Some nights, the last of which is looked at."""

    def __init__(self, nights: Sequence[NightTable], starts: Mapping[Place, int]) -> None:
        self.nights, self.starts = nights, starts
        self.last = len(nights) - 1
        self.cells: dict[Group, list[Cell]] = {}
        for cell in nights[-1].cells:
            self.cells.setdefault(cell.group, []).append(cell)

    def questions(self) -> tuple[list[_Asked], list[tuple[Figure, Group]]]:
        """All comparisons by runs, and the figures and groups that are compared by nights."""
        by_runs: list[_Asked] = []
        by_night: list[tuple[Figure, Group]] = []
        for figure in figures_in(self.nights[-1:]):
            for group, cells in self.cells.items():
                if figure.machine or not group.simulated:
                    by_night.append((figure, group))
                    continue
                for window in WINDOWS:
                    by_runs += self._asked(figure, group, cells, window)
        return by_runs, by_night

    def _asked(self, figure: Figure, group: Group, cells: Sequence[Cell], window: int) -> Iterator[_Asked]:
        every: list[Strata] = []
        most = 0
        for cell in cells:
            first = self._first(figure, cell, window)
            if first is None:
                continue
            strata = strata_of(self._values(figure, cell, first, window), self._later(figure, cell, window))
            if len(strata.side("before")) and len(strata.side("now")):
                nights = self.last + 1 - window - first
                most = max(most, nights)
                every.append(strata)
                yield _Asked(figure, group, cell, window, strata, nights)
        if every:
            yield _Asked(figure, group, None, window, joined(every), most)

    def _first(self, figure: Figure, cell: Cell, window: int) -> int | None:
        """The number of the first night that a window is compared with; None if there is none."""
        start = self._start(figure.name, cell)
        split = self.last + 1 - window
        if split <= start:
            return None
        had = [number for number in range(start, split) if cell in self.nights[number].cells]
        return had[-NIGHTS_MAX:][0] if had else None

    def _start(self, figure: str, cell: Cell) -> int:
        places = (Place(figure, cell.group), Place(figure, cell.group, cell.workload, cell.nemesis))
        return max(self.starts.get(place, 0) for place in places)

    def _values(self, figure: Figure, cell: Cell, first: int, window: int) -> Series:
        return latest([night.series(figure, cell) for night in self.nights[first : self.last + 1 - window]])

    def _later(self, figure: Figure, cell: Cell, window: int) -> Series:
        return latest([night.series(figure, cell) for night in self.nights[self.last + 1 - window :]])

    def change(self, asked: _Asked, cells: tuple[str, ...]) -> Change:
        """A comparison that found one."""
        found = asked.found()
        before, now = (_finite(centre(asked.strata.side(side), asked.figure)) for side in ("before", "now"))
        return Change(
            figure=asked.figure.name,
            label=asked.figure.label,
            **asked.group._asdict(),
            workload=asked.cell.workload if asked.cell else "",
            nemesis=asked.cell.nemesis if asked.cell else "",
            since=self.nights[self.last + 1 - asked.window].name,
            until=self.nights[-1].name,
            before=before,
            after=now,
            ratio=None if found.ratio is None else round(found.ratio, 4),
            greater=round(found.greater, 4),
            p=float(f"{found.p:.3g}"),
            runs_before=found.before,
            runs_after=found.now,
            pairs=found.pairs,
            nights_before=asked.nights,
            cells=cells,
        )

    def machine(self, figure: Figure, group: Group, threshold: float) -> Change | bool:
        """A change of a figure of the machine; else whether there are too few nights to say."""
        start = self.starts.get(Place(figure.name, group), 0)
        split = self.last + 1 - MACHINE_WINDOW
        numbers = [number for number in range(start, self.last + 1) if self._has(figure, group, number)]
        earlier = [number for number in numbers if number < split][-NIGHTS_MAX:]
        later = [number for number in numbers if number >= split]
        if len(earlier) < MACHINE_NIGHTS_MIN or len(later) < MACHINE_WINDOW:
            return True
        levels = self._levels(figure, group, earlier, later)
        before, now = levels[: len(earlier)], levels[len(earlier) :]
        if not np.isfinite(levels).all():
            return True
        p, moved = prediction_p(before, now), float(now.mean() - before.mean())
        # Both nights must have moved the same way: one slow night is a busy machine.
        ratios = np.exp(now - before.mean())
        if p >= threshold or not (all(ratios >= 1 + MACHINE_RATIO_MIN) or all(ratios <= 1 - MACHINE_RATIO_MIN)):
            return False
        return Change(
            figure=figure.name,
            label=figure.label,
            **group._asdict(),
            since=self.nights[later[0]].name,
            until=self.nights[-1].name,
            before=_finite(centre(self._pooled(figure, group, earlier), figure)),
            after=_finite(centre(self._pooled(figure, group, later), figure)),
            ratio=round(math.exp(moved), 4),
            p=float(f"{p:.3g}"),
            runs_before=len(self._pooled(figure, group, earlier)),
            runs_after=len(self._pooled(figure, group, later)),
            nights_before=len(earlier),
        )

    def _has(self, figure: Figure, group: Group, number: int) -> bool:
        return any(len(self.nights[number].series(figure, cell).values) for cell in self.cells[group])

    def _pooled(self, figure: Figure, group: Group, numbers: Sequence[int]) -> Values:
        found = [self.nights[number].series(figure, cell).values for number in numbers for cell in self.cells[group]]
        return np.concatenate(found)

    def _levels(self, figure: Figure, group: Group, earlier: Sequence[int], later: Sequence[int]) -> Values:
        """The logarithm of each night's value, relative to the usual one of each cell: the median over the cells."""
        rows: list[list[float]] = []
        for cell in self.cells[group]:
            row = [_log(centre(self.nights[n].series(figure, cell).values, figure)) for n in (*earlier, *later)]
            known = [value for value in row[: len(earlier)] if math.isfinite(value)]
            if known:
                usual = statistics.median(known)
                rows.append([value - usual for value in row])
        if not rows:
            return np.full(len(earlier) + len(later), np.nan)
        columns = zip(*rows, strict=True)
        return np.asarray([_median([value for value in column if math.isfinite(value)]) for column in columns])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else math.nan


def _log(value: float) -> float:
    return math.log(value) if value > 0 and math.isfinite(value) else math.nan


def centre(values: Values, figure: Figure) -> float:
    """The median of a figure, or the mean where that says more; NaN of nothing."""
    if not len(values):
        return math.nan
    found = float(values.mean()) if figure.mean else float(np.quantile(values, 0.5, method="higher"))
    return round(found, 6) if math.isfinite(found) else found


def latest(found: Sequence[Series]) -> Series:
    """The values of several nights, each seed once: its latest one."""
    if not found:
        return Series(np.empty(0, np.int64), np.empty(0))
    seeds = np.concatenate([each.seeds for each in found])[::-1]
    values = np.concatenate([each.values for each in found])[::-1]
    _, places = np.unique(seeds, return_index=True)
    return Series(seeds[places], values[places])


def strata_of(before: Series, now: Series) -> Strata:
    """What is compared of a cell: seeds that both sides have as pairs, and the rest."""
    _, old, new = np.intersect1d(before.seeds, now.seeds, assume_unique=True, return_indices=True)
    keep_old, keep_new = (np.ones(len(each.seeds), dtype=np.bool_) for each in (before, now))
    keep_old[old] = keep_new[new] = False
    pairs = Stratum(before.values[old], now.values[new])
    return Strata(pairs, (Stratum(before.values[keep_old], now.values[keep_new]),))


# --- figures of the machine -------------------------------------------------------------------------------------------


def prediction_p(before: Values, now: Values) -> float:
    """The two-sided probability that the mean of later values lies so far from earlier ones, if all are normal."""
    count = len(before)
    spread = float(before.std(ddof=1)) * math.sqrt(1 / len(now) + 1 / count)
    distance = abs(float(now.mean() - before.mean()))
    if spread == 0:
        return 1.0 if distance == 0 else 0.0
    return student_p(distance / spread, count - 1)


def student_p(t: float, freedom: int) -> float:
    """The two-sided tail of Student's distribution (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cos, sin = math.cos(angle), math.sin(angle)
    term, total = (cos, cos) if freedom % 2 else (1.0, 1.0)
    for k in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= (k - 1) / k * cos * cos
        total += term
    if freedom == 1:
        total = 0.0
    return max(0.0, 1.0 - ((angle + sin * total) * 2 / math.pi if freedom % 2 else sin * total))
