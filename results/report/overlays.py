"""Two sides one over the other on one axis of time: rate, latency, availability, recovery after each fault and heal.

A side of several runs is the median of them in each stretch of time, between the lowest and the highest of them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from splitbrain.results.figures import Recovery
from splitbrain.results.quantities import counted
from splitbrain.results.report.curves import Band, Dot, Frame, Series, chart
from splitbrain.results.report.stretches import Floats, as_points, as_steps, quantile_values, rate_values, step_of
from splitbrain.results.report.svg import fault_style
from splitbrain.results.text import clip
from splitbrain.results.tracks import Track, Tracks

Rows: TypeAlias = npt.NDArray[np.float64]
"""A row for each run, a column for each stretch; NaN where nothing is known."""

RECOVERIES_MAX: Final = 300
"""Operations of the nemesis of a side that have a dot, and a row in the table."""

_SIDES: Final = ("A", "B")


class Overlay(NamedTuple):
    """A picture, and what is said of it."""

    name: str
    picture: Markup
    words: str


class Stretch(NamedTuple):
    """A row of the pictures as a table: a stretch of time with a value of A and of B for each measure, None where there
    is none, and the faults that were in force in it."""

    begin_s: float
    end_s: float
    values: list[tuple[float | None, float | None]]
    faults: tuple[str, str]


class Overlays(NamedTuple):
    """What is drawn of two sides.

    Attributes:
        pictures: those for which anything is known.
        kinds: of faults, with the class of the colour of each.
        measures: what the columns of `stretches` are, with units.
        stretches: the pictures over time as numbers.
        recoveries: those that have a dot, each with its side and run.
        notes: what is not drawn.
    """

    pictures: list[Overlay]
    kinds: list[tuple[str, str]]
    measures: list[str]
    stretches: list[Stretch]
    recoveries: list[tuple[str, str, Recovery]]
    notes: list[str]


class _Measure(NamedTuple):
    """Something that is drawn as a line.

    Attributes:
        name, title, words: as an id, as a heading, and what it is; "{step}" stands for the length of a stretch.
        unit: of its values.
        of: its values of a run, in stretches of a length.
        steps: whether a value is that of its whole stretch.
        logarithmic: whether its scale is.
    """

    name: str
    title: str
    words: str
    unit: str
    of: Callable[[Track, float], Floats]
    steps: bool = True
    logarithmic: bool = False

    def caption(self, step: float) -> str:
        """What is said of its picture."""
        return f"{self.title}: {self.words.format(step=f'{step:g}')}"


def overlays(a: Tracks, b: Tracks) -> Overlays | None:
    """The pictures of two sides; None where neither has a run that can be drawn."""
    sides, runs = (a, b), [*a.runs, *b.runs]
    notes = [
        note
        for side, tracks in zip(_SIDES, sides, strict=True)
        for note in (
            *(f"{side}: a run is not drawn: {problem}" for problem in tracks.problems),
            *([f"{side}: {tracks.left_out:,} earlier runs are not drawn."] if tracks.left_out else []),
        )
    ]
    if not runs:
        return None
    end_s = max(run.end_s for run in runs)
    step = max(step_of(end_s), 1.0)
    lanes = [_lane(side, tracks.runs) for side, tracks in zip(_SIDES, sides, strict=True)]
    shades = [
        band._replace(style="shade")
        for tracks, (_, bands) in zip(sides, lanes, strict=True)
        for band in bands
        if len(tracks.runs) == 1
    ]
    frame = Frame(end_s, shades, lanes=lanes)
    values = [[_rows(tracks.runs, measure, step, end_s) for tracks in sides] for measure in _MEASURES]
    pictures = [
        Overlay(measure.name, _picture(measure, frame, found, step), measure.caption(step))
        for measure, found in zip(_MEASURES, values, strict=True)
        if any(np.isfinite(rows).any() for rows in found)
    ]
    recoveries = [_recoveries(side, tracks.runs) for side, tracks in zip(_SIDES, sides, strict=True)]
    if any(recoveries):
        pictures.append(Overlay("recovery", _recovery_picture(frame, recoveries), RECOVERY_WORDS))
    for side, found in zip(_SIDES, recoveries, strict=True):
        if len(found) > RECOVERIES_MAX:
            notes.append(f"{side}: {len(found) - RECOVERIES_MAX:,} later operations of the nemesis have no dot.")
    return Overlays(
        pictures,
        _kinds(runs),
        [f"{measure.title} ({measure.unit})" for measure in _MEASURES],
        _stretches(sides, values, step, end_s),
        [each for found in recoveries for each in found[:RECOVERIES_MAX]],
        notes,
    )


# --- lines over time --------------------------------------------------------------------------------------------------


def _bins(end_s: float, step: float) -> int:
    """How many stretches there are, the last of which is longer."""
    return max(int(end_s / step + 1e-9), 1)


def _rate(run: Track, step: float) -> Floats:
    return rate_values(run.ended_s, run.end_s, step)


def _p99(run: Track, step: float) -> Floats:
    end_s = _bins(run.end_s, step) * step  # what is left over belongs to the last stretch
    begun_s = np.minimum(run.begun_s, np.nextafter(end_s, 0.0))
    return quantile_values(begun_s, run.latency_ms, end_s, step, 0.99)


def _availability(run: Track, step: float) -> Floats:
    """Of the seconds of each stretch with ops, the share that was served, in percent."""
    edges = np.arange(_bins(run.end_s, step) + 1, dtype=np.float64) * step
    edges[-1] = max(edges[-1], math.ceil(run.end_s))
    asked, silent = (_seconds_in(first, last, edges) for first, last in (run.seconds.asked, run.seconds.silent))
    with np.errstate(invalid="ignore"):
        return np.where(asked > 0, 100 * (1 - silent / np.maximum(asked, 1e-9)), np.nan)


def _seconds_in(first: npt.NDArray[np.int64], last: npt.NDArray[np.int64], edges: Floats) -> Floats:
    """How many seconds of the stretches from `first` to `last` lie between each two edges."""
    if not len(first):
        return np.zeros(len(edges) - 1)
    points = np.column_stack([first, last + 1]).ravel()
    until = np.column_stack([np.cumsum(last + 1 - first) - (last + 1 - first), np.cumsum(last + 1 - first)]).ravel()
    return np.diff(np.interp(edges, points, until))


_MEASURES: Final = (
    _Measure("rate", "Rate", "ok ops per second, in stretches of {step} s.", "ok/s", _rate),
    _Measure(
        "p99",
        "Latency",
        "99th percentile of ok ops from the invocation, in stretches of {step} s with at least three, logarithmic.",
        "ms",
        _p99,
        steps=False,
        logarithmic=True,
    ),
    _Measure(
        "availability",
        "Availability",
        "of the seconds in which an op of any function was due or in progress, the share in which one was "
        "answered, in stretches of {step} s.",
        "%",
        _availability,
    ),
)


def _rows(runs: Sequence[Track], measure: _Measure, step: float, end_s: float) -> Rows:
    rows = np.full((len(runs), _bins(end_s, step)), np.nan)
    for row, run in zip(rows, runs, strict=True):
        found = measure.of(run, step)[: len(row)]
        row[: len(found)] = found
    return rows


def _over_runs(rows: Rows, of: Callable[[Sequence[float]], float]) -> Floats:
    """A number for each stretch, from what the runs have there."""
    columns = ([value for value in column if not math.isnan(value)] for column in rows.T.tolist())
    return np.asarray([of(known) if known else np.nan for known in columns], dtype=np.float64)


def _picture(measure: _Measure, frame: Frame, sides: Sequence[Rows], step: float) -> Markup:
    series: list[Series] = []
    for place, (side, rows) in enumerate(zip(_SIDES, sides, strict=True)):
        draw, end_s = (as_steps if measure.steps else as_points), _end_s(rows, step, frame.end_s)
        of_median, low, high = (draw(_over_runs(rows, of), end_s, step) for of in (statistics.median, min, max))
        areas = list(zip(low, high, strict=True)) if len(rows) > 1 else []
        name = side if len(rows) < 2 else f"{side}, {len(rows)} runs"
        series.append(Series(name, of_median, dashed=place == 1, colour=place, areas=areas))
    label = " ".join([measure.caption(step), *map(_summary, _SIDES, sides)])
    drawn = [each for each in series if each.lines]
    return chart(frame, drawn, label, id=f"over-{measure.name}", unit=measure.unit, logarithmic=measure.logarithmic)


def _end_s(rows: Rows, step: float, end_s: float) -> float:
    """The end of the last stretch of which anything is known."""
    known = np.flatnonzero(np.isfinite(rows).any(axis=0)) if len(rows) else np.zeros(0, dtype=np.int64)
    last = int(known.max()) + 1 if len(known) else 0
    return end_s if last == rows.shape[1] else last * step


def _summary(side: str, rows: Rows) -> str:
    known = _over_runs(rows, statistics.median) if len(rows) else np.zeros(0)
    known = known[np.isfinite(known)]
    if not len(known):
        return f"{side}: nothing is known."
    return f"{side}: from {known.min():.4g} to {known.max():.4g}, in the middle {np.median(known):.4g}."


def _stretches(sides: Sequence[Tracks], values: Sequence[Sequence[Rows]], step: float, end_s: float) -> list[Stretch]:
    medians = [[_over_runs(rows, statistics.median).tolist() for rows in found] for found in values]
    found: list[Stretch] = []
    bins = _bins(end_s, step)
    for i in range(bins):
        begin, end = i * step, (i + 1) * step if i + 1 < bins else max(end_s, (i + 1) * step)
        a, b = (_in_force(tracks.runs, begin, end) for tracks in sides)
        pairs = [tuple(_known(side[i]) for side in measure) for measure in medians]
        found.append(Stretch(begin, end, [(of_a, of_b) for of_a, of_b in pairs], (a, b)))
    return found


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


# --- faults -----------------------------------------------------------------------------------------------------------


def _in_force(runs: Sequence[Track], begin_s: float, end_s: float) -> str:
    kinds = (
        window.fault
        for run in runs
        for window in run.windows
        if window.begin_ns / 1e9 < end_s and window.end_ns / 1e9 > begin_s
    )
    return ", ".join(dict.fromkeys(clip(kind, 40) for kind in kinds))


def _lane(side: str, runs: Sequence[Track]) -> tuple[str, list[Band]]:
    """The faults of a side; of several runs they shine through each other."""
    faded = " faded" if len(runs) > 1 else ""
    bands = [
        Band(
            window.begin_ns / 1e9,
            window.end_ns / 1e9,
            clip(
                f"{run.name}: {window.fault}: {window.target} "
                f"({window.begin_ns / 1e9:.3f} s to {window.end_ns / 1e9:.3f} s)",
                300,
            ),
            fault_style(window.fault) + faded,
        )
        for run in runs
        for window in run.windows
    ]
    return f"faults in {side}", bands


def _kinds(runs: Sequence[Track]) -> list[tuple[str, str]]:
    """Classes of colours with the kinds of faults that have each, by their first appearance."""
    kinds = dict.fromkeys(window.fault for run in runs for window in run.windows)
    groups: dict[str, list[str]] = {}
    for kind in kinds:
        groups.setdefault(fault_style(kind), []).append(clip(kind, 40))
    return [(style, ", ".join(named)) for style, named in groups.items()]


# --- recovery ---------------------------------------------------------------------------------------------------------

RECOVERY_WORDS: Final = (
    "Recovery: seconds from each operation of the nemesis to the answers of a majority of the nodes, at the time of "
    "that operation, with a line from the first node's answer to the last one's. None: no majority answered before the "
    "next operation."
)


def _recoveries(side: str, runs: Sequence[Track]) -> list[tuple[str, str, Recovery]]:
    found = [(side, run.name, recovery) for run in runs for recovery in run.recoveries]
    return sorted(found, key=lambda each: each[2].time_s)


def _recovery_picture(frame: Frame, sides: Sequence[list[tuple[str, str, Recovery]]]) -> Markup:
    series = [
        Series(side, [], dashed=place == 1, colour=place, dots=[_dot(*each) for each in found[:RECOVERIES_MAX]])
        for place, (side, found) in enumerate(zip(_SIDES, sides, strict=True))
    ]
    label = " ".join([RECOVERY_WORDS, *map(_of_recoveries, _SIDES, sides)])
    return chart(frame, [each for each in series if each.dots], label, id="over-recovery", unit="s")


def _dot(side: str, name: str, found: Recovery) -> Dot:
    at = f"{side}, {clip(name, 80)}: {what(found)} at {found.time_s:.3f} s ({clip(found.target, 80)})"
    answers = (("first answer", found.first_s), ("a majority", found.majority_s), ("all", found.all_s))
    said = ", ".join(f"{who} {'never' if took is None else f'after {took:.3f} s'}" for who, took in answers)
    known = [took for _, took in answers if took is not None]
    low, high = (min(known), max(known)) if found.majority_s is not None else (None, None)
    return Dot(found.time_s, found.majority_s, f"{at}: {said}", low, high)


def what(found: Recovery) -> str:
    """The operation of the nemesis, in words."""
    return f"{clip(found.fault, 40)} {'healed' if found.action == 'stop' else 'injected'}"


def _of_recoveries(side: str, found: Sequence[tuple[str, str, Recovery]]) -> str:
    known = [recovery.majority_s for _, _, recovery in found if recovery.majority_s is not None]
    if not known:
        return f"{side}: no majority answered after any of {counted(len(found), 'operation')}."
    middle, longest = statistics.median(known), max(known)
    without = len(found) - len(known)
    operations = counted(len(found), "operation")
    return f"{side}: {operations}, in the middle {middle:.3g} s, at most {longest:.3g} s, {without} without."
