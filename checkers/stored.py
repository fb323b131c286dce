"""Stored runs, each opened by itself: a run that cannot be judged does not affect others.

This is the one way from the folder of a run to its verdicts. Both engines take it: this process goes from folder to
folder, and the workers of Spark get paths.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from splitbrain.checkers import engine
from splitbrain.checkers.isolation.confined import Stopped
from splitbrain.checkers.isolation.judging import Opened
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import RECOVERED_KEY, read_parquet_head, recovered_note
from splitbrain.results.collecting import collect_telemetry
from splitbrain.results.errors import HistoryFormatError, SplitbrainError
from splitbrain.results.loaded import LoadedRun
from splitbrain.results.loaded import finish as load_finished
from splitbrain.results.loaded import finish_by_summary as load_by_summary
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
    """A stored run that can be judged.

    Attributes:
        run: its folder.
        specs: its checkers.
        rows: how many its history has.
        telemetry: how many its telemetry has.
        broken: the verdicts, as JSON, of checkers that could not even be loaded, by position.
    """

    run: RunDir
    specs: Specs
    rows: int
    telemetry: int = 0
    broken: dict[int, bytes] = {}


def or_unjudged(path: Path, work: Callable[[], T]) -> T | Unjudged:
    """The result of `work` on a run, or why it failed: no exception from a damaged file passes this function.

    Raises:
        MemoryError: there is too little memory here, which says nothing of the run.
    """
    try:
        return work()
    except SplitbrainError as error:
        said = str(error)
    except MemoryError:
        raise
    except OSError as error:
        said = f"{error.filename or path}: {error.strerror or error}"
    except Exception as error:
        said = f"{path}: cannot be read: {type(error).__name__}: {error}"
    line = " ".join(said.split())
    return Unjudged(line if str(path) in line else f"{path}: {line}")


def unread(path: Path, ended: Stopped) -> Unjudged:
    """Why a run cannot be judged whose files, or what is done with them, ended the process that opened it."""
    what = f"the process that was {ended.step or 'beginning'} {ended.why}"
    return Unjudged(what if str(path) in what else f"{path}: {what}")


def loaded(run: RunDir, reading: Callable[[str], None] = lambda _: None) -> LoadedRun:
    """A run to be judged in this process: finished, and loaded as far as its checkers need it.

    Args:
        run: its folder.
        reading: called with what is read next, in words.

    Raises:
        RunNotFoundError: it is no run, or nothing was recorded.
        UsageError: the run is under way.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: a file of it is damaged.
    """
    reading(f"reading {run.path / 'test.json'}")
    document = run.read_test()
    specs = engine.specs_of(document, str(run.path / "test.json"))
    load = load_by_summary if engine.any_by_summary(specs) else load_finished
    return load(run, reading, document)


def as_needed(run: LoadedRun) -> LoadedRun:
    """A finished run that was loaded as a whole, as far as its checkers need it.

    Raises:
        HistoryFormatError: test.json is damaged, or its history cannot be read.
    """
    found = by_summary(run.folder, specs_of(run))
    return run if found is None else replace(run, history=found.frame, summarized=found)


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


def ready(path: Path, reading: Callable[[str], None] = lambda _: None) -> Ready:
    """Make ready a run that is finished; nothing is written. Of the history and the telemetry only the heads are read.

    Args:
        path: its folder.
        reading: called with what is read next, in words.

    Raises:
        RunNotFoundError: it is no run.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: a file of it is damaged.
    """
    run = RunDir(path)
    reading(f"reading {path / 'test.json'} and the head of {run.history_path}")
    specs = specs_for(run)
    rows = read_parquet_head(run.history_path).rows
    reading(f"reading the head of {run.telemetry_path}")
    telemetry = read_parquet_head(run.telemetry_path).rows if os.path.lexists(run.telemetry_path) else 0
    reading(f"reading {path / 'verdict.json'}")
    run.read_verdicts()  # one that cannot be read cannot be replaced: what went wrong in the run would be lost
    return Ready(run, specs, rows, telemetry)


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


def as_judged(run: LoadedRun) -> pa.Table | SummarizedHistory:
    """The history of a loaded run, as checkers are given it."""
    return run.history if run.summarized is None else run.summarized


def recorded(each: Ready, reading: Callable[[str], None] = lambda _: None) -> engine.Recorded:
    """What a run recorded that is ready.

    Raises:
        SplitbrainError: its history or its telemetry is damaged.
    """
    reading(f"reading {each.run.history_path}")
    history = by_summary(each.run, each.specs)
    if history is None:
        history = each.run.history()
    reading(f"reading {each.run.telemetry_path}")
    return engine.Recorded(history, each.run.telemetry())


def by_summary(run: RunDir, specs: Specs) -> SummarizedHistory | None:
    """The history of a finished run without its micro-operations, if a checker of it judges by summaries.

    Raises:
        HistoryFormatError: it is damaged.
        StoreVersionError: a newer splitbrain wrote it.
    """
    return summarized(run.history_path) if engine.any_by_summary(specs) else None


class OpenedRun(Opened):
    """A run, in the process where it is judged."""

    def __init__(self, path: Path, recorded: engine.Recorded, specs: Specs) -> None:
        self._path = path
        self._recorded = recorded
        self.specs = specs

    def answers(self, position: int) -> Iterator[Verdict]:
        """As `splitbrain.checkers.engine.or_set_up`."""
        return engine.or_set_up(self._recorded, self.specs[position])

    def damaged(self, error: HistoryFormatError) -> Unjudged:
        """As of a run that could not be opened."""

        def fail() -> Unjudged:
            raise error

        return or_unjudged(self._path, fail)
