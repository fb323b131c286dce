"""Stored runs, each opened by itself: a run that cannot be judged does not affect others.

This is the one way from the folder of a run to its verdicts. Both engines take it: this process goes from folder to
folder, and the workers of Spark get paths.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import RECOVERED_KEY, read_parquet_head, recovered_note
from splitbrain.results.collecting import collect_telemetry
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.loaded import LoadedRun, finish_by_summary
from splitbrain.results.loaded import finish as load_finished
from splitbrain.results.store import RunDir
from splitbrain.results.summarized import SummarizedHistory, summarized

T = TypeVar("T")

Specs: TypeAlias = tuple[CheckerSpec, ...]


class Unjudged(msgspec.Struct, frozen=True):
    """A run that no checker could judge.

    Attributes:
        why: the file, and what is wrong with it, in one line.
    """

    why: str


class Ready(msgspec.Struct, frozen=True):
    """A stored run that can be judged: its folder, its checkers, how many rows its history and its telemetry have."""

    run: RunDir
    specs: Specs
    rows: int
    telemetry: int = 0


def or_unjudged(path: Path, work: Callable[[], T]) -> T | Unjudged:
    """The result of `work` on a run, or why it failed: no exception from a damaged file passes this function."""
    try:
        return work()
    except SplitbrainError as error:
        said = str(error)
    except OSError as error:
        said = f"{error.filename or path}: {error.strerror or error}"
    except Exception as error:
        said = f"{path}: cannot be read: {type(error).__name__}: {error}"
    line = " ".join(said.split())
    return Unjudged(line if str(path) in line else f"{path}: {line}")


def loaded(run: RunDir) -> LoadedRun:
    """A run to be judged in this process: finished, and loaded as far as its checkers need it.

    Raises:
        RunNotFoundError: it is no run, or nothing was recorded.
        UsageError: the run is under way.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: a file of it is damaged.
    """
    specs = engine.specs_of(run.read_test(), str(run.path / "test.json"))
    return finish_by_summary(run) if engine.any_by_summary(specs) else load_finished(run)


def finish(path: Path) -> None:
    """Finish a history that is still a write-ahead file, and bring telemetry into one table, where that is to be done.

    Raises:
        RunNotFoundError: it is no run, or nothing was recorded.
        UsageError: the run is under way.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: a file of it is damaged.
    """
    run = RunDir(path)
    if os.path.lexists(run.wal_path) or not os.path.lexists(run.history_path):
        run.finish_history()
    collect_telemetry(run)


def ready(path: Path) -> Ready:
    """Make ready a run that is finished; nothing is written. Of the history and the telemetry only the heads are read.

    Raises:
        RunNotFoundError: it is no run.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: a file of it is damaged.
    """
    run = RunDir(path)
    specs = specs_for(run)
    telemetry = read_parquet_head(run.telemetry_path).rows if os.path.lexists(run.telemetry_path) else 0
    run.read_verdicts()  # one that cannot be read cannot be replaced: what went wrong in the run would be lost
    return Ready(run, specs, read_parquet_head(run.history_path).rows, telemetry)


def specs_for(run: RunDir) -> Specs:
    """The checkers of a run that is finished: those of its test.json; coverage learns if the controller was killed.

    Raises:
        HistoryFormatError: test.json or the history is damaged.
    """
    specs = engine.specs_of(run.read_test(), str(run.path / "test.json"))
    note = read_parquet_head(run.history_path).notes.get(RECOVERED_KEY)
    return engine.cut_short(specs, None if note is None else note.decode())


def specs_of(run: LoadedRun) -> Specs:
    """The checkers of a loaded run: as `specs_for`.

    Raises:
        HistoryFormatError: test.json is damaged.
    """
    specs = engine.specs_of(run.document, str(run.folder.path / "test.json"))
    return engine.cut_short(specs, recovered_note(run.history))


def judge(run: LoadedRun) -> list[Verdict]:
    """One verdict per checker of a loaded run (`splitbrain.checkers.engine.judge_each`).

    Raises:
        HistoryFormatError: test.json is damaged.
    """
    return engine.judge_each(recorded(run), specs_of(run), run.telemetry)


def recorded(run: LoadedRun) -> pa.Table | SummarizedHistory:
    """The history of a loaded run, as checkers are given it."""
    return run.history if run.summarized is None else run.summarized


def judge_ready(each: Ready) -> list[Verdict]:
    """The same of a run that is ready.

    Raises:
        SplitbrainError: its history or its telemetry is damaged.
    """
    history = by_summary(each.run, each.specs)
    return engine.judge_each(each.run.history() if history is None else history, each.specs, each.run.telemetry())


def by_summary(run: RunDir, specs: Specs) -> SummarizedHistory | None:
    """The history of a finished run without its micro-operations, if a checker of it judges by summaries.

    Raises:
        HistoryFormatError: it is damaged.
        StoreVersionError: a newer splitbrain wrote it.
    """
    return summarized(run.history_path) if engine.any_by_summary(specs) else None
