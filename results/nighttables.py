"""Nights as tables of figures in memory, by which trends are drawn and changes are found.

A figure of a run is a number. Of recovery there is one for each kind of operation of the nemesis: the median over the
operations of the run. One that was not followed by an answer before the next operation counts as infinitely long: a
system that no longer answers must not look faster. The nemesis now and then acts so soon again that nobody could have
answered; that is so in all nights.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from splitbrain.results import runfigures
from splitbrain.results.shifts import Values


class Figure(NamedTuple):
    """A figure of runs.

    Attributes:
        name: what it is called in documents: it stays the same.
        words: what it is, for people.
        unit: empty for a number.
        machine: it depends on the machine also where nodes are simulated.
        mean: nights are compared by means: it is a count, or a share, that is mostly the same.
    """

    name: str
    words: str
    unit: str = ""
    machine: bool = False
    mean: bool = False

    @property
    def label(self) -> str:
        """Words and unit."""
        return f"{self.words} ({self.unit})" if self.unit else self.words


_Column = Callable[[Mapping[str, Values]], Values]


def _of(name: str) -> _Column:
    return lambda columns: columns[name]


PLAIN: Final[tuple[tuple[Figure, _Column], ...]] = (
    (Figure("ok_per_s", "throughput", "ok/s"), _of("ok_per_s")),
    (Figure("p50_ms", "latency, median", "ms"), _of("p50_ms")),
    (Figure("p95_ms", "latency, 95th percentile", "ms"), _of("p95_ms")),
    (Figure("p99_ms", "latency, 99th percentile", "ms"), _of("p99_ms")),
    (Figure("max_ms", "latency, largest", "ms"), _of("max_ms")),
    (Figure("unavailable", "time without an answer", "%", mean=True), lambda found: 100 * (1 - found["available"])),
    (Figure("healed_s", "until usable after all was healed", "s"), _of("healed_s")),
    (Figure("leader_changes", "leader changes", mean=True), _of("leader_changes")),
    (Figure("marks", "coverage marks reached", mean=True), _of("marks")),
    (
        Figure("checking", "cost of checking", "CPU ms for 1,000 ops", machine=True),
        lambda found: _over(1e6 * found["checking_s"], found["ops"]),
    ),
    (Figure("sim_speed", "simulated time for each CPU second", "s", machine=True), _of("sim_s_per_cpu_s")),
)
"""Figures that a run of any kind has."""

_COLUMNS: Final = (
    "ok_per_s",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "max_ms",
    "available",
    "healed_s",
    "leader_changes",
    "marks",
    "checking_s",
    "ops",
    "sim_s_per_cpu_s",
)
_UNTIL: Final = {"first": "first answer", "majority": "a majority answers"}


def _over(one: Values, other: Values) -> Values:
    return np.divide(one, other, out=np.full_like(one, np.nan), where=other > 0)


class Cell(NamedTuple):
    """What a run was about, as in the matrix of a night."""

    workload: str
    nemesis: str
    system: str
    version: str
    backend: str
    bug: str

    @property
    def group(self) -> Group:
        """Those with which it is compared as a whole."""
        return Group(self.system, self.version, self.backend, self.bug)

    @property
    def name(self) -> str:
        """As in the matrix."""
        return "/".join(self)


class Group(NamedTuple):
    """All workloads and nemeses of a version of a system on a backend."""

    system: str
    version: str
    backend: str
    bug: str

    @property
    def name(self) -> str:
        """In the order of the axes."""
        return "/".join(self)

    @property
    def simulated(self) -> bool:
        """Whether its runs are a function of code and seed."""
        return self.backend == "sim"


class Series(NamedTuple):
    """A figure of the runs of a cell in a night."""

    seeds: NDArray[np.int64]
    values: Values


class NightTable:
    """The runs of a night with their figures."""

    def __init__(self, name: str, table: pa.Table) -> None:
        """Take a table with the columns of `splitbrain.results.runfigures.SCHEMA`."""
        self.name = name
        self.runs = table.num_rows
        self._table = table

    @property
    def revision(self) -> str:
        """Of splitbrain's sources; empty if it is not known."""
        found = self._table["revision"][0].as_py() if self.runs else None
        return found or ""

    def rows(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """All runs with some of their columns."""
        return self._table.select(list(names)).to_pylist()

    @cached_property
    def cells(self) -> dict[Cell, NDArray[np.int64]]:
        """The cells that were run, each with its rows."""
        rows: dict[Cell, list[int]] = {}
        named = zip(*(self._table[name].to_pylist() for name in Cell._fields), strict=True)
        for number, parts in enumerate(named):
            rows.setdefault(Cell(*(part or "" for part in parts)), []).append(number)
        return {cell: np.asarray(rows[cell], dtype=np.int64) for cell in sorted(rows)}

    @cached_property
    def figures(self) -> dict[Figure, Values]:
        """Each figure of all runs; NaN where a run has none."""
        columns = {name: _floats(self._table[name]) for name in _COLUMNS}
        found = {figure: of(columns) for figure, of in PLAIN}
        return {figure: values for figure, values in {**found, **self._recoveries()}.items() if not _empty(values)}

    @cached_property
    def seeds(self) -> NDArray[np.int64]:
        """The seed of each run."""
        return np.asarray(self._table["seed"].to_pylist(), dtype=np.int64)

    @cached_property
    def _sampled(self) -> NDArray[np.bool_]:
        return np.asarray([why != "failed" for why in self._table["why"].to_pylist()], dtype=np.bool_)

    @cached_property
    def _series(self) -> dict[tuple[Figure, Cell], Series]:
        return {}

    def series(self, figure: Figure, cell: Cell) -> Series:
        """A figure of the runs of a cell that have it, each seed once; without runs that were chosen since they failed.

        What is extreme once is less so when it is run again: such runs would look like a change.
        """
        known = self._series.get((figure, cell))
        if known is None:
            known = self._series[figure, cell] = self._found(figure, cell)
        return known

    def _found(self, figure: Figure, cell: Cell) -> Series:
        values, rows = self.figures.get(figure), self.cells.get(cell)
        if values is None or rows is None:
            return Series(np.empty(0, np.int64), np.empty(0))
        rows = rows[~np.isnan(values[rows]) & self._sampled[rows]]
        seeds = self.seeds[rows]
        _, places = np.unique(seeds, return_index=True)
        rows = rows[np.sort(places)]
        return Series(self.seeds[rows], values[rows])

    def _recoveries(self) -> dict[Figure, Values]:
        took: dict[tuple[str, str, str], dict[int, list[float]]] = {}
        for number, listed in enumerate(self._table["recoveries"].to_pylist()):
            for each in listed or ():
                for until in _UNTIL:
                    seconds = each[f"{until}_s"]
                    place = (each["fault"] or "", each["action"] or "", until)
                    took.setdefault(place, {}).setdefault(number, []).append(
                        float("inf") if seconds is None else float(seconds)
                    )
        found: dict[Figure, Values] = {}
        for place, by_run in sorted(took.items()):
            values = np.full(self.runs, np.nan)
            for number, seconds in by_run.items():
                values[number] = statistics.median_high(seconds)
            found[recovery_figure(*place)] = values
        return found


def recovery_figure(fault: str, action: str, until: str) -> Figure:
    """How soon the system answers after a kind of operation of the nemesis.

    Args:
        fault: its kind.
        action: "start", or "stop" where it is healed.
        until: "first" or "majority".
    """
    what = f"{fault} is healed" if action == "stop" else fault
    return Figure(f"recovery/{fault}/{action}/{until}", f"after {what}: {_UNTIL[until]}", "s")


def _floats(column: Any) -> Values:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _empty(values: Values) -> bool:
    return bool(np.isnan(values).all())


def read_nights(files: Iterable[Path]) -> list[NightTable]:
    """The nights of some files, in their order.

    Raises:
        HistoryFormatError: one is damaged.
    """
    return [NightTable(path.stem, runfigures.read(path)) for path in files]


def figures_in(nights: Sequence[NightTable]) -> list[Figure]:
    """All figures that a run of these nights has, in the order in which they are shown."""
    found = {figure: None for night in nights for figure in night.figures}
    plain = [figure for figure, _ in PLAIN if figure in found]
    return [*plain, *sorted(figure for figure in found if figure not in plain)]
