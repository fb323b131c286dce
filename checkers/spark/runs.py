"""Stored runs that can be judged, and which parts of one its checkers want to see."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from checkers import engine
from checkers.registry import checker
from checkers.verdict import CheckerSpec
from results.arrow import conform, conform_telemetry, read_parquet_head
from results.errors import SplitbrainError, UsageError
from results.store import RunDir

Specs: TypeAlias = tuple[CheckerSpec, ...]

BY_RUN: Final = "run"
BY_KEY: Final = "key"
OF_TELEMETRY: Final = "telemetry"
WHOLE: Final = "whole run"


class Ready(msgspec.Struct, frozen=True):
    """A stored run that can be judged: its folder, its checkers, how many ops it has, how many rows of telemetry."""

    run: RunDir
    specs: Specs
    rows: int
    telemetry: int = 0


def ready(path: Path) -> Ready:
    """Make a run ready: a history that is still a write-ahead file is finished first.

    Raises:
        RunNotFoundError: it is no run, or nothing was recorded.
        UsageError: the run is under way.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: a file of it is damaged.
    """
    run = RunDir(path)
    specs = engine.specs_of(run.read_test(), str(path))
    if not run.history_path.exists():
        run.finish_history()
    head = read_parquet_head(run.history_path)
    conform(head.schema.empty_table(), str(run.history_path))
    return Ready(run, specs, head.rows, _telemetry_rows(run))


def _telemetry_rows(run: RunDir) -> int:
    if not run.telemetry_path.exists():
        return 0
    head = read_parquet_head(run.telemetry_path)
    conform_telemetry(head.schema.empty_table(), str(run.telemetry_path))
    return head.rows


def sort_out(paths: Iterable[Path]) -> tuple[list[Ready], dict[Path, SplitbrainError]]:
    """The runs that can be judged, and why the others cannot: one damaged run does not keep the rest from a verdict."""
    good: list[Ready] = []
    refused: dict[Path, SplitbrainError] = {}
    for path in paths:
        try:
            good.append(ready(path))
        except SplitbrainError as error:
            refused[path] = error
    return good, refused


def wants(spec: CheckerSpec, scope: str) -> bool:
    """Whether a checker judges this kind of group; one that is unknown judges nothing, which its verdict tells."""
    try:
        return checker(spec.name).partition == scope
    except UsageError:
        return False


def scopes(specs: Specs) -> tuple[str, ...]:
    """How the checkers of a run want to see its history: all of it, its keys one by one, or beside its telemetry."""
    return tuple(scope for scope in (BY_RUN, BY_KEY, WHOLE) if any(wants(spec, scope) for spec in specs))
