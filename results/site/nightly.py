"""Nights of a store, for the site: read once, and again only when their files change."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from splitbrain.results import nights, runfigures
from splitbrain.results.changes import Change
from splitbrain.results.errors import RunNotFoundError, SplitbrainError, UsageError
from splitbrain.results.nightcomparison import Quantiles, quantiles_of
from splitbrain.results.nights import Night
from splitbrain.results.nighttables import Cell, Figure, Group, NightTable, figures_in
from splitbrain.results.site.beneath import is_name, read
from splitbrain.results.site.rows import DOCUMENT_MAX
from splitbrain.results.values import NOT_JSON

NIGHTS_MAX: Final = 60
"""The largest number of nights that are shown: the latest ones."""

VERSIONS_MAX: Final = 6
"""The largest number of versions in a picture."""

WIDTH: Final = 380
HEIGHT: Final = 130
_LEFT: Final = 10
_TOP: Final = 16
_BOTTOM: Final = 10

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Shown(msgspec.Struct, frozen=True):
    """A night: its document and the table of its figures; None for what is not there, or cannot be read."""

    name: str
    night: Night | None
    table: NightTable | None


class Nights:
    """The nights of a store. Threads may share it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[str, tuple[_Stamp, Shown]] = {}
        self._quantiles: dict[tuple[str, Figure, Group, str], Quantiles | None] = {}
        self._lock = threading.Lock()

    def latest(self) -> list[Shown]:
        """The latest nights, the oldest first; those that have not come to their end are left out."""
        with self._lock:
            return [self._shown(name) for name in self._names()[-NIGHTS_MAX:]]

    def find(self, name: str) -> Shown:
        """A night by its name.

        Raises:
            RunNotFoundError: there is no such night, or it has not come to its end.
        """
        if not is_name(name) or name not in self._names():
            raise RunNotFoundError(f"there is no night {name!r} in the store that has come to its end.")
        with self._lock:
            return self._shown(name)

    def _names(self) -> list[str]:
        try:
            listed = os.listdir(self.root / nights.FOLDER)
        except OSError:
            return []  # no night yet
        ended = (name for name in listed if os.path.lexists(self.root / nights.FOLDER / name / nights.FILE))
        return sorted(name for name in ended if name.isprintable())

    def _shown(self, name: str) -> Shown:
        paths = ((nights.FOLDER, name, nights.FILE), (runfigures.FOLDER, f"{name}.parquet"))
        stamp = tuple(_stamp(self.root.joinpath(*path)) for path in paths)
        known = self._known.get(name)
        if known is None or known[0] != stamp:
            known = (stamp, Shown(name, self._night(paths[0]), self._table(name, paths[1])))
            self._known[name] = known
            self._quantiles.clear()
        return known[1]

    def _night(self, path: Sequence[str]) -> Night | None:
        if _too_large(self.root.joinpath(*path)):
            return None
        try:
            return nights.decode(read(self.root, path), "/".join(path))
        except (OSError, SplitbrainError):
            return None

    def _table(self, name: str, path: Sequence[str]) -> NightTable | None:
        if _too_large(self.root.joinpath(*path)):
            return None
        try:
            return NightTable(name, runfigures.parse(read(self.root, path), "/".join(path)))
        except (OSError, SplitbrainError):
            return None

    def quantiles(self, table: NightTable, figure: Figure, group: Group, cell: str) -> Quantiles | None:
        """A figure of the runs of a version, or of one of its cells (`WORKLOAD/NEMESIS`), kept."""
        key = (table.name, figure, group, cell)
        if key not in self._quantiles:
            values = [
                table.series(figure, each).values
                for each in table.cells
                if each.group == group and cell in ("", short(each))
            ]
            self._quantiles[key] = quantiles_of(figure, values)
        return self._quantiles[key]


def short(cell: Cell) -> str:
    """Workload and nemesis of a cell."""
    return f"{cell.workload}/{cell.nemesis}"


def _too_large(path: Path) -> bool:
    found = _stamp(path)
    return found is not None and found[1] > DOCUMENT_MAX


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


# --- the page of trends -----------------------------------------------------------------------------------------------


class Dot(msgspec.Struct, frozen=True):
    """A night in a picture: where its median is, and its quartiles; None where they are infinite."""

    night: str
    x: float
    y: float
    found: Quantiles


class Line(msgspec.Struct, frozen=True):
    """A version in a picture.

    Attributes:
        version: its name.
        number: of its colour.
        dots: the oldest night first.
        band: the corners of the area between the quartiles.
    """

    version: str
    number: int
    dots: list[Dot]
    band: str

    @property
    def points(self) -> str:
        """The points of a line through the dots."""
        return " ".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in self.dots)


class Mark(msgspec.Struct, frozen=True):
    """A change point: where it stands, and what changed."""

    x: float
    change: Change


class Picture(msgspec.Struct, frozen=True):
    """A figure over the nights: its name and label, a line for each version, change points, and the range."""

    figure: str
    label: str
    lines: list[Line]
    marks: list[Mark]
    low: float
    high: float


class TrendsOfNights(msgspec.Struct, frozen=True, kw_only=True):
    """The page of trends.

    Attributes:
        of: system, backend and bug that is shown, joined by slashes; `offered_of` are all.
        cell: the cell that is shown, empty for all; `offered_cells` are all.
        versions: those that are shown.
        nights: the oldest first.
        pictures: one for each figure.
        changes: change points of what is shown, the latest first.
        more_versions: how many versions are not shown.
    """

    of: str
    offered_of: list[str]
    cell: str
    offered_cells: list[str]
    versions: list[str]
    nights: list[Shown]
    pictures: list[Picture]
    changes: list[Change]
    more_versions: int


def trends_of_nights(found: Nights, query: Mapping[str, str]) -> TrendsOfNights:
    """The trends of a store.

    Args:
        found: its nights.
        query: `of`, a system with backend and bug, such as "metadata/sim/none", without which it is that of most runs;
            `cell`, a workload and a nemesis, such as "register/kill", without which it is all cells.

    Raises:
        UsageError: these do not exist.
    """
    listed = found.latest()
    tables = [each.table for each in listed if each.table is not None and each.table.runs]
    counts: dict[str, int] = {}
    for table in tables:
        for cell, rows in table.cells.items():
            counts[_of(cell.group)] = counts.get(_of(cell.group), 0) + len(rows)
    of = _chosen("of", query.get("of", ""), sorted(counts)) or max(counts, key=lambda name: counts[name], default="")
    cells = {cell for table in tables for cell in table.cells if _of(cell.group) == of}
    names = sorted({short(cell) for cell in cells})
    cell = _chosen("cell", query.get("cell", ""), names)
    groups = sorted({each.group for each in cells if cell in ("", short(each))})
    shown = groups[:VERSIONS_MAX]
    changes = [
        change
        for each in listed
        if each.night is not None
        for change in each.night.trends.changes
        if change.place.group in shown and (not (cell and change.workload) or cell == _cell_of(change))
    ]
    pictures = [
        picture
        for figure in figures_in(tables)
        if (picture := _picture(found, figure, listed, shown, cell, changes)) is not None
    ]
    return TrendsOfNights(
        of=of,
        offered_of=sorted(counts),
        cell=cell,
        offered_cells=names,
        versions=[group.version for group in shown],
        nights=listed,
        pictures=pictures,
        changes=changes[::-1],
        more_versions=len(groups) - len(shown),
    )


def _cell_of(change: Change) -> str:
    return f"{change.workload}/{change.nemesis}"


def _of(group: Group) -> str:
    return f"{group.system}/{group.backend}/{group.bug}"


def _chosen(name: str, asked: str, offered: Sequence[str]) -> str:
    if asked and asked not in offered:
        raise UsageError(f"no night has {name} {asked[:80]!r}: there are {', '.join(offered[:20]) or 'none'}.")
    return asked


def _picture(
    found: Nights,
    figure: Figure,
    listed: Sequence[Shown],
    groups: Sequence[Group],
    cell: str,
    changes: Sequence[Change],
) -> Picture | None:
    places = {each.name: _x(number, len(listed)) for number, each in enumerate(listed)}
    values: dict[Group, list[tuple[str, Quantiles]]] = {}
    for group in groups:
        for each in listed:
            seen = None if each.table is None else found.quantiles(each.table, figure, group, cell)
            if seen is not None and seen.median is not None:
                values.setdefault(group, []).append((each.name, seen))
    if not values:
        return None
    single = len(values) == 1
    ends = [
        value
        for dots in values.values()
        for _, seen in dots
        for value in ((seen.low, seen.median, seen.high) if single else (seen.median,))
        if value is not None
    ]
    low, high = min(ends), max(ends)

    def y(value: float) -> float:
        room = HEIGHT - _TOP - _BOTTOM
        return _TOP + room / 2 if high == low else _TOP + room * (high - value) / (high - low)

    lines: list[Line] = []
    for group, dots in values.items():
        placed = [Dot(name, places[name], y(seen.median or 0.0), seen) for name, seen in dots]
        lines.append(Line(group.version, groups.index(group), placed, _band(placed, y) if single else ""))
    marks = [
        Mark(places[change.since], change)
        for change in changes
        if change.figure == figure.name and change.since in places
    ]
    return Picture(figure.name, figure.label, lines, marks, low, high)


def _x(number: int, count: int) -> float:
    return WIDTH / 2 if count < 2 else _LEFT + number * (WIDTH - 2 * _LEFT) / (count - 1)


def _band(dots: Sequence[Dot], y: Callable[[float], float]) -> str:
    above = [f"{dot.x:.1f},{y(dot.found.high):.1f}" for dot in dots if dot.found.high is not None]
    below = [f"{dot.x:.1f},{y(dot.found.low):.1f}" for dot in reversed(dots) if dot.found.low is not None]
    return " ".join([*above, *below])


# --- the page of a night ----------------------------------------------------------------------------------------------

ROWS_A_PAGE: Final = 100

JOURNAL: Final = "journal.jsonl"
"""The name of a night's journal."""


class RunOfNight(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a night: how it came out, its figures, its folder if it is stored still, the command that repeats it."""

    cell: str
    seed: int
    outcome: str
    folder: str
    command: str
    ok_per_s: float | None
    p99_ms: float | None
    available: float | None
    recovery_s: float | None
    leader_changes: int | None
    marks: int | None


class RunsOfNight(msgspec.Struct, frozen=True, kw_only=True):
    """The page of a night.

    Attributes:
        name: of the night.
        night: its document, None if it cannot be read.
        cell, outcome: what was asked for, empty for all; with what there is.
        runs: those on the page; `matching` of `total` on all pages.
    """

    name: str
    night: Night | None
    cell: str
    outcome: str
    offered_cells: list[str]
    offered_outcomes: list[str]
    runs: list[RunOfNight]
    matching: int
    total: int
    page: int
    pages: int


def runs_of_night(shown: Shown, root: Path, query: Mapping[str, str]) -> RunsOfNight:
    """The runs of a night, by cells and outcomes.

    Args:
        shown: the night.
        root: the store.
        query: `cell`, `outcome`, `page`.

    Raises:
        UsageError: one of these does not exist.
    """
    table = [] if shown.table is None else shown.table.rows(_NEEDED)
    cells, outcomes = sorted({row["cell"] for row in table}), sorted({row["outcome"] for row in table})
    cell = _chosen("cell", query.get("cell", ""), cells)
    outcome = _chosen("outcome", query.get("outcome", ""), outcomes)
    asked = query.get("page") or "1"
    if not (asked.isascii() and asked.isdigit() and len(asked) < 7):
        raise UsageError(f"{asked!r} is no page: give a number from 1.")
    found = [row for row in table if cell in ("", row["cell"]) and outcome in ("", row["outcome"])]
    pages = max(1, -(-len(found) // ROWS_A_PAGE))
    page = min(max(int(asked), 1), pages)
    commands = _commands(root, shown.name)
    rows = found[(page - 1) * ROWS_A_PAGE : page * ROWS_A_PAGE]
    return RunsOfNight(
        name=shown.name,
        night=shown.night,
        cell=cell,
        outcome=outcome,
        offered_cells=cells,
        offered_outcomes=outcomes,
        runs=[_run(row, root, commands.get((row["cell"], row["seed"]), "")) for row in rows],
        matching=len(found),
        total=len(table),
        page=page,
        pages=pages,
    )


_NEEDED: Final = (
    "cell",
    "seed",
    "outcome",
    "folder",
    "ok_per_s",
    "p99_ms",
    "available",
    "leader_changes",
    "marks",
    "recoveries",
)


class _Line(msgspec.Struct):
    type: str
    cell: str = ""
    seed: int = 0
    command: str = ""


def _commands(root: Path, name: str) -> dict[tuple[str, int], str]:
    """The commands that repeat the runs of a night, as its journal has them; none if it cannot be read."""
    path = (nights.FOLDER, name, JOURNAL)
    if _too_large(root.joinpath(*path)):
        return {}
    try:
        lines = msgspec.json.Decoder(_Line).decode_lines(read(root, path))
    except (OSError, SplitbrainError, *NOT_JSON):
        return {}
    return {(line.cell, line.seed): line.command for line in lines if line.type == "ran"}


def _run(row: Mapping[str, Any], root: Path, command: str) -> RunOfNight:
    took: list[float | None] = [each["majority_s"] for each in row["recoveries"] or ()]
    folder = row["folder"] or ""
    parts = folder.split("/")
    stored = len(parts) == 2 and all(map(is_name, parts)) and (root / folder / "test.json").is_file()
    values = {name: row[name] for name in _NEEDED[:3] + _NEEDED[4:9]}
    longest = max((seconds for seconds in took if seconds is not None), default=None)
    return msgspec.convert(
        {**values, "folder": folder if stored else "", "command": command, "recovery_s": longest}, RunOfNight
    )
