"""The matrix file of a night: axes and what to leave out, weights, seeds, and limits. docs/nightly.md describes it."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from splitbrain.harness.backends.catalogue import BACKENDS
from splitbrain.harness.campaigns.compose import RunOptions
from splitbrain.harness.campaigns.nightly.cells import AXES, NO_BUG, SEED_END, Cell, options_of_cell
from splitbrain.harness.contract.listed import names
from splitbrain.harness.systems import catalogue as systems
from splitbrain.nemesis import catalogue as nemeses
from splitbrain.results import plugins, quantities
from splitbrain.results.errors import SplitbrainError, UnknownNameError, UsageError
from splitbrain.results.tomlfile import TomlFile
from splitbrain.workloads import catalogue as workloads

FORMAT: Final = 1

NO_FAULTS: Final = "none"

CELLS_MAX: Final = 100_000
"""More combinations than that are a mistake."""

RUNS_MAX: Final = 1_000_000

_Named = str | tuple[str, ...]
_Count = Annotated[int, msgspec.Meta(ge=1, le=RUNS_MAX)]


class Pattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Some cells: those that have one of the values on each axis that is named."""

    workload: _Named = ()
    nemesis: _Named = ()
    system: _Named = ()
    version: _Named = ()
    backend: _Named = ()
    bug: _Named = ()

    def matches(self, cell: Cell) -> bool:
        """Whether a cell is one of them."""
        return all(not (named := self.values(axis)) or getattr(cell, axis) in named for axis in AXES)

    def values(self, axis: str) -> tuple[str, ...]:
        """Those that are named on an axis."""
        return _listed(getattr(self, axis))


def _listed(named: _Named) -> tuple[str, ...]:
    return (named,) if isinstance(named, str) else named


class Weight(Pattern, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The share of time of some cells, compared with others; that of a cell without one is 1."""

    weight: Annotated[float, msgspec.Meta(gt=0, le=1000)]


class Seeds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With which seeds a cell is run.

    Attributes:
        failed: first those that failed in the latest night in which the cell was run.
        fixed: then these, every night.
        fresh: then others, drawn, until a limit is met.
    """

    failed: bool = True
    fixed: tuple[Annotated[int, msgspec.Meta(ge=0, lt=SEED_END)], ...] = ()
    fresh: bool = True


class Axes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All values of each axis."""

    workload: _Named
    nemesis: _Named
    system: _Named = AXES["system"]
    version: _Named = AXES["version"]
    backend: _Named = AXES["backend"]
    bug: _Named = AXES["bug"]

    def values(self, axis: str) -> tuple[str, ...]:
        """Those of an axis."""
        return _listed(getattr(self, axis))


class MatrixFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What is in the file. docs/nightly.md says what each field means."""

    axes: Axes
    format: int = FORMAT
    budget: str = "30m"
    runs: _Count | None = None
    replays: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 3
    shrink: bool = True
    disk: str = "2G"
    fixed_after: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    baseline: str | None = None
    real_jobs: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    seeds: Seeds = Seeds()
    options: dict[str, Any] = {}
    versions: dict[str, dict[str, Any]] = {}
    exclude: tuple[Pattern, ...] = ()
    weight: tuple[Weight, ...] = ()


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """A matrix, read and checked.

    Attributes:
        path: of its file.
        digest: of what is in the file: a night is resumed only with the same.
        file: what is in it.
        cells: all combinations but those that are left out, in the order of the file.
        budget_s: how long the night may take, in seconds.
        disk_bytes: how large the store may grow by runs that did not fail.
        baseline: the path of the baseline file, None without one.
    """

    path: Path
    digest: str
    file: MatrixFile
    cells: tuple[Cell, ...]
    budget_s: float
    disk_bytes: int
    baseline: Path | None

    def options(self, cell: Cell, seed: int) -> RunOptions:
        """What a run of a cell is composed of."""
        return options_of_cell(cell, self.options_given(cell), seed)

    def options_given(self, cell: Cell) -> dict[str, Any]:
        """The options that the file has for a cell."""
        return {**_named(self.file.options), **_named(self.file.versions.get(cell.version, {}))}

    def weight(self, cell: Cell) -> float:
        """The product of the weights whose patterns match a cell."""
        found = 1.0
        for each in self.file.weight:
            found *= each.weight if each.matches(cell) else 1.0
        return found


def load_matrix(path: Path) -> Matrix:
    """The matrix of a file.

    Raises:
        UsageError: it cannot be read or is wrong; the message has the line.
    """
    file = TomlFile(path, MatrixFile, FORMAT)
    found = file.value
    _check_options(file)
    for axis in AXES:
        values = found.axes.values(axis)
        if not values or len(set(values)) < len(values) or not all(map(str.strip, values)):
            file.fail(("axes", axis), f"{axis} needs one value or more, each once.")
        for value in values:
            _check_name(file, axis, value)
    for version in found.axes.values("version"):
        if version not in found.versions and version not in AXES["version"]:
            file.fail(("axes", "version"), f"there is no [versions.{version}]: add it, with the options that make it.")
    for name in ("exclude", "weight"):
        for number, pattern in enumerate(getattr(found, name)):
            _check_pattern(file, (name, number), pattern)
    if not (found.seeds.fresh or found.seeds.fixed):
        file.fail(("seeds", "fresh"), "there are no seeds: name some as fixed, or leave fresh out.")
    combined = itertools.product(*(found.axes.values(axis) for axis in AXES))
    cells = list(itertools.starmap(Cell, itertools.islice(combined, CELLS_MAX + 1)))
    if len(cells) > CELLS_MAX:
        file.fail(("axes",), f"these are more than {CELLS_MAX:,} combinations: name fewer values.")
    cells = [cell for cell in cells if not any(each.matches(cell) for each in found.exclude)]
    if not cells:
        file.fail(("exclude",), "every combination is left out: remove a pattern.")
    return Matrix(
        path=path,
        digest=hashlib.blake2b(file.text.encode(), digest_size=16).hexdigest(),
        file=found,
        cells=tuple(cells),
        budget_s=_quantity(file, "budget", found.budget, quantities.age),
        disk_bytes=int(_quantity(file, "disk", found.disk, quantities.size)),
        baseline=None if found.baseline is None else path.parent / found.baseline,
    )


def _named(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the fields of `RunOptions` are called; they are written as on the command line, numbers as numbers."""
    found = {name.replace("-", "_"): value for name, value in options.items()}
    return {name: str(value) if name in _TEXTS and type(value) is int else value for name, value in found.items()}


_TEXTS: Final = ("nodes", "concurrency")
"""Options that are texts, and often a number."""


_OWN: Final = frozenset({*AXES, "seed", "scheduled"})


def _check_options(file: TomlFile[MatrixFile]) -> None:
    known = set(RunOptions.__struct_fields__) - _OWN
    tables: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [(("options",), file.value.options)]
    tables += [(("versions", name), given) for name, given in file.value.versions.items()]
    first = Cell(*(file.value.axes.values(axis)[0] for axis in AXES if file.value.axes.values(axis)))
    for place, given in tables:
        for name in given:
            if name.replace("-", "_") not in known:
                listed = ", ".join(sorted(each.replace("_", "-") for each in known))
                file.fail((*place, name), f"{name} is no option of a run here. There are: {listed}.")
            try:
                options_of_cell(first, _named({name: given[name]}), 0)
            except (SplitbrainError, msgspec.ValidationError) as error:
                file.fail((*place, name), f"{name} = {given[name]!r}: {error}")


def _check_name(file: TomlFile[MatrixFile], axis: str, value: str) -> None:
    """Refuse a part that does not exist or cannot be made: a night would take its cells for impossible ones."""
    try:
        match axis:
            case "workload":
                workloads.needs(value)
            case "nemesis":
                for name in names("--nemesis", value):
                    if value != NO_FAULTS:
                        nemeses.entry(nemeses.weighted(name)[0])
            case "system":
                systems.build(value)
            case "backend":
                if value not in BACKENDS:
                    plugins.find("backend", value, BACKENDS)
            case "bug" if value != NO_BUG:
                known = {bug for system in file.value.axes.values("system") for bug in systems.build(system).bugs}
                for bug in names("--bug", value):
                    if bug not in known:
                        raise UnknownNameError("bug", bug, known)
            case _:
                pass
    except UsageError as error:
        file.fail(("axes", axis), str(error))


def _check_pattern(file: TomlFile[MatrixFile], place: tuple[str, int], pattern: Pattern) -> None:
    named = [axis for axis in AXES if pattern.values(axis)]
    if not named:
        file.fail(place, "it names no axis, and so all cells: name one, such as backend.")
    for axis in named:
        for value in pattern.values(axis):
            if value not in file.value.axes.values(axis):
                known = ", ".join(file.value.axes.values(axis))
                file.fail((*place, axis), f"{value!r} is not on the axis {axis} ({known}): correct it, or remove it.")


def _quantity(file: TomlFile[MatrixFile], name: str, text: str, read: Any) -> float:
    try:
        found = read(name, text)
    except UsageError as error:
        file.fail((name,), str(error))
    if not found > 0:
        file.fail((name,), f"{name} {text!r} is nothing: give more than 0.")
    return found
