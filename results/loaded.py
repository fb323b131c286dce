"""A stored run with its files in memory, each of them read once: what is judged, drawn and kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from splitbrain.results.collecting import collect_telemetry
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.rundir import RunDir
from splitbrain.results.summarized import SummarizedHistory, summarized


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedRun:
    """What a run left.

    Attributes:
        folder: where it lies.
        document: test.json.
        history: the ops, with the columns of `splitbrain.results.arrow.HISTORY_SCHEMA`.
        telemetry: what the nodes reported (`TELEMETRY_SCHEMA`); empty where the system reports nothing.
        marks: how often each coverage mark was reached, by name; None if they were not counted, or cannot be read.
        summarized: where the history is in a file whose micro-operations were not read; `history` is its frame then.
        problems: why the marks cannot be read, in a sentence. No verdict hangs on them.
    """

    folder: RunDir
    document: dict[str, Any]
    history: pa.Table
    telemetry: pa.Table
    marks: dict[str, int] | None
    summarized: SummarizedHistory | None = None
    problems: tuple[str, ...] = ()

    def with_ops(self, indexes: Iterable[int]) -> LoadedRun:
        """The run in which these ops have their micro-operations.

        Raises:
            HistoryFormatError: the history is damaged.
        """
        if self.summarized is None:
            return self
        try:
            history = self.summarized.with_ops(indexes)
        except HistoryFormatError:  # ops that do not fit each other: a page says so, of the whole table
            history = self.summarized.table
        return replace(self, history=history.combine_chunks())


def finish(
    folder: RunDir, reading: Callable[[str], None] = lambda _: None, document: dict[str, Any] | None = None
) -> LoadedRun:
    """Finish the history, bring the nodes' telemetry into one table, and load the run.

    Args:
        folder: of the run.
        reading: called with what is read next, in words.
        document: test.json, if it has been read.

    Raises:
        RunNotFoundError: it is no run, or nothing was recorded.
        UsageError: the run is under way in another process.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: a file of it is damaged.
    """
    if document is None:
        reading(f"reading {folder.path / 'test.json'}")
        document = folder.read_test()
    reading(f"reading {folder.history_path if folder.history_path.exists() else folder.wal_path}")
    history = folder.finish_history(checked=True)
    reading(f"reading {folder.telemetry_path}, or collecting it from the nodes' files")
    collect_telemetry(folder, document, lambda: history)
    return _loaded(folder, document, history)


def finish_by_summary(folder: RunDir, reading: Callable[[str], None], document: dict[str, Any]) -> LoadedRun:
    """As `finish`, without the micro-operations of a history whose lists have summaries.

    Raises:
        RunNotFoundError, UsageError, StoreVersionError, HistoryFormatError: as `finish`.
    """
    if os.path.lexists(folder.wal_path) or not os.path.lexists(folder.history_path):
        reading(f"reading {folder.history_path if folder.history_path.exists() else folder.wal_path}")
        folder.finish_history(checked=True)
    reading(f"reading {folder.history_path}")
    found = summarized(folder.history_path)
    if found is None:
        return finish(folder, reading, document)
    folder.verify(folder.history_path.name)
    reading(f"reading {folder.telemetry_path}, or collecting it from the nodes' files")
    collect_telemetry(folder, document, lambda: found.frame)
    return replace(_loaded(folder, document, found.frame), summarized=found)


def load(folder: RunDir) -> LoadedRun:
    """Load as much of a run as there is. Changes nothing.

    Raises:
        RunNotFoundError: it is no run, or nothing was recorded.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: a file of it is damaged.
    """
    document = folder.read_test()
    return _loaded(folder, document, folder.history(checked=True))


def _loaded(folder: RunDir, document: dict[str, Any], history: pa.Table) -> LoadedRun:
    marks, problems = None, ()
    try:
        marks = folder.read_marks()
    except HistoryFormatError as problem:
        problems = (f"The coverage marks cannot be read: {problem}",)
    telemetry = folder.telemetry()
    folder.verify("test.json")
    return LoadedRun(
        folder=folder,
        document=document,
        history=history.combine_chunks(),
        telemetry=telemetry,
        marks=marks,
        problems=problems,
    )
