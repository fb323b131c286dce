"""Everything that a report shows of a run, read from its folder. What is missing is reported, not guessed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from splitbrain.results.arrow import HISTORY_SCHEMA, TELEMETRY_SCHEMA, recovered_note
from splitbrain.results.calls import Calls, client_calls, ints
from splitbrain.results.damage import OfAnother, standing_damage
from splitbrain.results.errors import HistoryFormatError, RunNotFoundError
from splitbrain.results.faults import RunEvents, run_events
from splitbrain.results.judgement import Judgement
from splitbrain.results.loaded import LoadedRun
from splitbrain.results.rundir import RunDir


@dataclass(frozen=True, kw_only=True)
class RunView:
    """A run as the report sees it.

    Attributes:
        run: its folder.
        document: test.json.
        judgement: verdict.json, None if the run was not judged yet.
        running: whether its controller is still alive.
        cut_short: whether the history ends before the run came to its end.
        history: the ops; empty where there are none.
        telemetry: of the nodes.
        calls: client ops, invocation beside completion.
        events: phases, faults and the harness's own ops.
        marks: how often each coverage mark was reached, by name; None if they were not counted.
        notes: what is missing or damaged, in words.
    """

    run: RunDir
    document: dict[str, Any]
    judgement: Judgement | None
    running: bool
    cut_short: bool
    history: pa.Table
    telemetry: pa.Table
    calls: Calls
    events: RunEvents
    marks: dict[str, int] | None
    notes: list[str] = field(default_factory=list[str])

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes, in the test's order, with any that only the history knows after them."""
        named = [str(node) for node in self.document.get("nodes", ())]
        met = sorted({str(node) for node in self.history["node"].unique().to_pylist() if node is not None})
        return list(dict.fromkeys([*named, *met]))


def rows_of(view: RunView, indexes: Sequence[int]) -> list[int]:
    """Positions in `calls` of the client ops whose invocation or completion has one of these indexes, in order."""
    wanted = np.asarray(indexes, dtype=np.int64)
    chosen = np.flatnonzero(np.isin(ints(view.history, "index"), wanted))
    hit = np.isin(view.calls.invoke, chosen) | np.isin(view.calls.complete, chosen)
    return np.flatnonzero(hit).tolist()


def load(run_dir: Path) -> RunView:
    """Read a run.

    Raises:
        RunNotFoundError: this is not the folder of a run.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: test.json or verdict.json is damaged.
    """
    run = RunDir(run_dir)
    document, judgement = run.read_test(), run.read_verdicts()
    notes: list[str] = []
    history = _history(run, notes)
    try:
        telemetry = run.telemetry()
    except HistoryFormatError as problem:
        telemetry = TELEMETRY_SCHEMA.empty_table()
        notes.append(f"The nodes' telemetry cannot be read: {problem}")
    try:
        marks = run.read_marks()
    except HistoryFormatError as problem:
        marks = None
        notes.append(f"The coverage marks cannot be read: {problem}")
    loaded = LoadedRun(folder=run, document=document, history=history, telemetry=telemetry, marks=marks)
    return _view(loaded, judgement, notes)


def view_of(run: LoadedRun, judgement: Judgement | None) -> RunView:
    """The same of a run that was read, and of its verdict."""
    return _view(run, judgement, [*_unfinished(run.history), *run.problems])


def _view(run: LoadedRun, judgement: Judgement | None, notes: list[str]) -> RunView:
    history = run.history
    cut_short = recovered_note(history) is not None
    damage = standing_damage(run.folder.path, None if judgement is None else judgement.made_from)
    if damage is not None:
        before = "" if isinstance(damage, OfAnother) else " Its verdict is of what was there before."
        notes.append(f"This run {damage}.{before}")
    try:
        calls, events = client_calls(history), run_events(history)
    except HistoryFormatError as problem:
        notes.append(f"The history cannot be shown: {problem}")
        history = HISTORY_SCHEMA.empty_table()
        calls, events = client_calls(history), run_events(history)
    return RunView(
        run=run.folder,
        document=run.document,
        judgement=judgement,
        running=run.folder.is_running(),
        cut_short=cut_short,
        history=history,
        telemetry=run.telemetry,
        calls=calls,
        events=events,
        marks=run.marks,
        notes=notes,
    )


def _history(run: RunDir, notes: list[str]) -> pa.Table:
    try:
        history = run.history(checked=True)
    except RunNotFoundError:
        notes.append("This run has no history: nothing was recorded.")
    except HistoryFormatError as problem:
        notes.append(f"The history cannot be read: {problem}")
    else:
        notes += _unfinished(history)
        return history.combine_chunks()
    return HISTORY_SCHEMA.empty_table()


def _unfinished(history: pa.Table) -> list[str]:
    note = recovered_note(history)
    return [] if note is None else [f"The history is not complete: splitbrain {note}."]
