"""Two nights side by side: which figures moved, which violations are gone or new, what only one of them reached.

Nothing is said to be fixed because it was not seen: a signature that is gone is listed with how likely that is by
chance, if it is as frequent as it was, in as many runs of its cells as there were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np

from splitbrain.results import runfigures
from splitbrain.results.changes import Change, centre, look
from splitbrain.results.errors import RunNotFoundError
from splitbrain.results.nights import FOLDER, Night, chosen, folders, read
from splitbrain.results.nighttables import Figure, Group, NightTable, figures_in, read_nights

CHANCE_MAX: Final = 0.05
"""What is gone is fixed if it would be gone by chance less often than that."""

Says: TypeAlias = Literal["changed", "no change seen", "too few to say"]


class Quantiles(msgspec.Struct, frozen=True):
    """A figure of the runs of a night: how many, the quartiles and the median; None where a value is infinite."""

    runs: int
    low: float | None
    median: float | None
    high: float | None


class FigureOfNights(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of all cells of a version, on both sides.

    Attributes:
        figure: its name; `label` is for people, with the unit.
        group: system, version, backend and bug.
        a, b: None for a night without it.
        says: whether it has changed, by the test of `splitbrain.results.changes`.
    """

    figure: str
    label: str
    group: str
    a: Quantiles | None
    b: Quantiles | None
    says: Says


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Violations with the same leading signature.

    Attributes:
        signature: it.
        sentence: the first one.
        cells: in which it was seen.
        runs_a, runs_b: how many runs showed it.
        tried_a, tried_b: how many runs of these cells there were.
        chance: of what is gone: how likely that is if it is as frequent as it was; else None.
        issue: of its entry in the baseline; `replay`: repeats it.
    """

    signature: str
    sentence: str
    cells: tuple[str, ...]
    runs_a: int
    runs_b: int
    tried_a: int
    tried_b: int
    chance: float | None = None
    issue: str = ""
    replay: str = ""


class CellOfNights(msgspec.Struct, frozen=True, kw_only=True):
    """A cell whose outcomes are not the same: how many runs came out how."""

    name: str
    a: Mapping[str, int]
    b: Mapping[str, int]


class NightComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two nights held against each other.

    Attributes:
        a, b: names.
        revision_a, revision_b: of splitbrain's sources.
        same_matrix: whether the matrix files are the same.
        runs_a, runs_b: how many there were.
        new: violations that only B has.
        fixed: those that only A has, in cells that B ran so often that they would have come up.
        gone: those that only A has, where B has too few runs to say that.
        both: those that both have.
        changes: which figures moved: of all cells, or of a cell.
        figures: all figures of all cells, with what can be said of them.
        compared: how many comparisons were made.
        cells: those with other outcomes, by their share.
        only_a, only_b: names of cells that only this night ran.
        marks_only_a, marks_only_b: coverage marks that only this night reached, of those that the other one says it did
            not.
        notes: what could not be compared.
        kind, format: of this document.
    """

    a: str
    b: str
    revision_a: str
    revision_b: str
    same_matrix: bool
    runs_a: int
    runs_b: int
    new: tuple[Seen, ...]
    fixed: tuple[Seen, ...]
    gone: tuple[Seen, ...]
    both: tuple[Seen, ...]
    changes: tuple[Change, ...]
    figures: tuple[FigureOfNights, ...]
    compared: int
    cells: tuple[CellOfNights, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    marks_only_a: tuple[str, ...]
    marks_only_b: tuple[str, ...]
    notes: tuple[str, ...]
    kind: str = "nights"
    format: int = 1


def find(reference: str, store: Path) -> Path | None:
    """The folder of the night that a reference names; None if it names none, and may name runs.

    Args:
        reference: the folder of a night, its name, or `night:` with its name, the beginning of it, or "latest".
        store: where nights are.

    Raises:
        RunNotFoundError: there is no such night.
        UsageError: there are several.
    """
    path = Path(reference)
    if path.parent.name == FOLDER and path.is_dir():
        return path
    name = chosen(reference, [folder.name for folder in folders(store)], str(store))
    return None if name is None else store / FOLDER / name


def load(folder: Path) -> tuple[Night, NightTable | None]:
    """A night with the table of its figures; None for one of an older version, or whose table was removed.

    Raises:
        RunNotFoundError: the night has not come to its end.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: a file of it is damaged.
    """
    night = read(folder)
    if night is None:
        raise RunNotFoundError(
            f"the night {folder.name} has not come to its end: continue it (splitbrain nightly MATRIX.toml --resume), "
            "or name another."
        )
    path = folder.parent.parent / runfigures.FOLDER / f"{folder.name}.parquet"
    return night, read_nights([path])[0] if path.exists() else None


def compare(a: Night, b: Night, table_a: NightTable | None, table_b: NightTable | None) -> NightComparison:
    """Hold two nights against each other."""
    seen = _seen(a, b)
    gone = [each for each in seen if each.runs_a and not each.runs_b]
    fixed = [each for each in gone if each.chance is not None and each.chance < CHANCE_MAX]
    ran_a, ran_b = ({cell.name for cell in night.cells if cell.runs} for night in (a, b))
    unseen_a, unseen_b = (set(night.not_reached.marks) for night in (a, b))
    sides = ((a, table_a), (b, table_b))
    notes = [f"{night.name}: it has no table of figures" for night, table in sides if not table]
    notes += [f"{night.name}: it was interrupted" for night in (a, b) if night.ended_by == "interrupt"]
    changes, figures, compared = _figures(table_a, table_b) if table_a and table_b else ([], [], 0)
    return NightComparison(
        a=a.name,
        b=b.name,
        revision_a=a.revision,
        revision_b=b.revision,
        same_matrix=a.matrix_digest == b.matrix_digest,
        runs_a=sum(a.outcomes.values()),
        runs_b=sum(b.outcomes.values()),
        new=tuple(each for each in seen if each.runs_b and not each.runs_a),
        fixed=tuple(fixed),
        gone=tuple(each for each in gone if each not in fixed),
        both=tuple(each for each in seen if each.runs_a and each.runs_b),
        changes=tuple(changes),
        figures=tuple(figures),
        compared=compared,
        cells=tuple(_cells(a, b)),
        only_a=tuple(sorted(ran_a - ran_b)),
        only_b=tuple(sorted(ran_b - ran_a)),
        marks_only_a=tuple(sorted(unseen_b - unseen_a)),
        marks_only_b=tuple(sorted(unseen_a - unseen_b)),
        notes=tuple(notes),
    )


def _seen(a: Night, b: Night) -> list[Seen]:
    """Leading signatures of both nights, those of most runs of B first."""
    by_signature: dict[str, None] = {}
    for night in (b, a):
        by_signature |= dict.fromkeys(each.signatures[0] for each in night.violations if each.signatures)
    found = [_one(signature, a, b) for signature in by_signature]
    return sorted(found, key=lambda each: (-each.runs_b, -each.runs_a, each.signature))


def _one(signature: str, a: Night, b: Night) -> Seen:
    of_a, of_b = ([each for each in night.violations if each.signatures[:1] == (signature,)] for night in (a, b))
    cells = dict.fromkeys(each.cell for each in (*of_b, *of_a))
    tried_a, tried_b = (_runs(night, cells) for night in (a, b))
    first = (of_b or of_a)[0]
    chance = (1 - len(of_a) / tried_a) ** tried_b if not of_b and tried_a else None
    return Seen(
        signature=signature,
        sentence=first.sentence,
        cells=tuple(cells),
        runs_a=len(of_a),
        runs_b=len(of_b),
        tried_a=tried_a,
        tried_b=tried_b,
        chance=None if chance is None else float(f"{chance:.3g}"),
        issue=first.issue,
        replay=first.replay,
    )


def _runs(night: Night, cells: Iterable[str]) -> int:
    wanted = set(cells)
    return sum(cell.runs for cell in night.cells if cell.name in wanted)


def _cells(a: Night, b: Night) -> Iterable[CellOfNights]:
    of_a, of_b = ({cell.name: cell for cell in night.cells if cell.runs} for night in (a, b))
    for name in of_a:
        if name in of_b and set(of_a[name].outcomes) != set(of_b[name].outcomes):
            yield CellOfNights(name=name, a=of_a[name].outcomes, b=of_b[name].outcomes)


def _figures(a: NightTable, b: NightTable) -> tuple[list[Change], list[FigureOfNights], int]:
    found = look(b, [a], ())
    moved = {(change.figure, change.place.group) for change in found.changes if not change.workload}
    too_few = {(figure.name, group) for figure, group in found.too_few}
    groups = dict.fromkeys(cell.group for table in (b, a) for cell in table.cells)
    rows: list[FigureOfNights] = []
    for group in groups:
        for figure in figures_in([a, b]):
            of_a, of_b = (quantiles(table, figure, group) for table in (a, b))
            place = (figure.name, group)
            if of_a is None and of_b is None:
                continue
            silent = of_a is None or of_b is None or place in too_few
            says: Says = "changed" if place in moved else "too few to say" if silent else "no change seen"
            rows.append(
                FigureOfNights(figure=figure.name, label=figure.label, group=group.name, a=of_a, b=of_b, says=says)
            )
    return found.changes, rows, found.compared


def quantiles(table: NightTable, figure: Figure, group: Group) -> Quantiles | None:
    """A figure of all runs of a version; None if none has it."""
    values = [table.series(figure, cell).values for cell in table.cells if cell.group == group]
    return quantiles_of(figure, values)


def quantiles_of(figure: Figure, values: Sequence[np.ndarray[tuple[int], np.dtype[np.float64]]]) -> Quantiles | None:
    """The quantiles of values; None of nothing. Of counts the mean stands for the median."""
    every = np.sort(np.concatenate(values)) if values else np.empty(0)
    if not len(every):
        return None
    low, high = (float(np.quantile(every, share, method="higher")) for share in (0.25, 0.75))
    return Quantiles(len(every), *(_shown(value) for value in (low, centre(every, figure), high)))


def _shown(value: float) -> float | None:
    return round(value, 6) if np.isfinite(value) else None
