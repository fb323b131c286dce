"""Stored runs, each opened by itself: a run that cannot be judged does not affect others.

This is the one way from the folder of a run to its verdicts. Both engines take it: this process goes from folder to
folder, and the workers of Spark get paths.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec
import pyarrow as pa

from splitbrain.checkers import engine
from splitbrain.checkers.isolation.confined import Stopped
from splitbrain.checkers.isolation.judging import Opened
from splitbrain.checkers.isolation.limits import Limits
from splitbrain.checkers.judgecode import code_of
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results import madefrom
from splitbrain.results.arrow import RECOVERED_KEY, read_parquet_head, recovered_note
from splitbrain.results.atomic import alone_in
from splitbrain.results.collecting import collect_telemetry
from splitbrain.results.errors import HistoryFormatError, RunNotFoundError, SplitbrainError
from splitbrain.results.loaded import LoadedRun
from splitbrain.results.loaded import finish as load_finished
from splitbrain.results.loaded import finish_by_summary as load_by_summary
from splitbrain.results.madefrom import Basis
from splitbrain.results.plainfile import refuse_names_that_are_no_text
from splitbrain.results.rundir import RunDir
from splitbrain.results.soundness import refuse_strangers
from splitbrain.results.summarized import SummarizedHistory, summarized
from splitbrain.results.telemetry import places

T = TypeVar("T")

Specs: TypeAlias = tuple[CheckerSpec, ...]


Because: TypeAlias = Literal["files", "unknown", "elsewhere"]


class Unjudged(msgspec.Struct, frozen=True):
    """A run that no checker could judge.

    Attributes:
        why: the file, and what is wrong with it, in one line.
        because: the reason is "files" of the run, so that nothing can judge it as it is; "unknown", where the process
            that read it ended, or what was recorded is gone; or "elsewhere": the version of this program, what the run
            is doing, or this machine.
    """

    why: str
    because: Because = "files"


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
        refuse_names_that_are_no_text(path)
        return work()
    except MemoryError:
        raise
    except SplitbrainError as error:
        said, because = str(error), _because(error)
    except OSError as error:
        said, because = f"{error.filename or path}: {error.strerror or error}", _because(error)
    except Exception as error:
        said, because = f"{path}: cannot be read: {type(error).__name__}: {error}", _because(error)
    line = " ".join(said.split())
    return Unjudged(line if str(path) in line else f"{path}: {line}", because)


def _because(error: Exception) -> Because:
    causes = [cause for cause in (error, error.__cause__) if isinstance(cause, OSError)]
    if any(cause.errno in _OF_MACHINE for cause in causes):
        return "elsewhere"
    if isinstance(error, RunNotFoundError):
        return "unknown"
    return "files" if isinstance(error, HistoryFormatError) or not isinstance(error, SplitbrainError) else "elsewhere"


_OF_MACHINE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM}
)
"""What goes wrong with files that are as they should be: no room, no right, no memory."""


def unread(path: Path, ended: Stopped) -> Unjudged:
    """Why a run cannot be judged whose files, or what is done with them, ended the process that opened it."""
    what = f"the process that was {ended.step or 'beginning'} {ended.why}"
    return Unjudged(what if str(path) in what else f"{path}: {what}", "unknown")


def is_of_others(run: RunDir, found: Unjudged) -> bool:
    """Whether the verdict of a run that cannot be judged, if it has one, was made from other files than those there.

    If it is unknown why the run cannot be judged, a run without a verdict is not said to be damaged.
    """
    try:
        judgement = run.read_verdicts()
        made = None if judgement is None else madefrom.record_of(judgement)
        if judgement is None and found.because == "unknown":
            return False
        if made is None and found.because == "unknown":  # nothing to compare with: only what is gone is damage
            return not (os.path.lexists(run.history_path) or os.path.lexists(run.wal_path))
        if made is None or madefrom.inputs(run.path, tuple(made.inputs)) != made.inputs:
            return True
        # The same files may be refused by code that is stricter than the one that judged them.
        return found.because == "files" and made.code != code_of(engine.specs_of(run.read_test(), str(run.path)))
    except Exception:  # what cannot even be compared is no longer what was judged
        return found.because == "files" or run.recorded()


def loaded(
    run: RunDir, reading: Callable[[str], None] = lambda _: None, document: Mapping[str, Any] | None = None
) -> LoadedRun:
    """A run to be judged in this process: finished, and loaded as far as its checkers need it.

    Args:
        run: its folder.
        reading: called with what is read next, in words.
        document: test.json, if it has been read.

    Raises:
        RunNotFoundError: it is no run, or nothing was recorded.
        UsageError: the run is under way.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: a file of it is damaged.
    """
    known = _document(run, reading) if document is None else dict(document)
    specs = engine.specs_of(known, str(run.path / "test.json"))
    load = load_by_summary if engine.any_by_summary(specs) else load_finished
    with contextlib.nullcontext() if is_finished(run, known) else alone_in(run.path):
        found = load(run, reading, known)
    refuse_strangers(found.telemetry, known, str(run.telemetry_path))
    return found


def loaded_on_basis(
    run: RunDir, limits: Limits, reading: Callable[[str], None] = lambda _: None
) -> tuple[LoadedRun, Basis | None]:
    """The same, with what verdicts on it are made from; None if it was changed while it was read.

    Raises:
        RunNotFoundError, UsageError, StoreVersionError, HistoryFormatError: as `loaded`.
    """
    document = _document(run, reading)
    reading(f"reading all files of {run.path}")
    finished = is_finished(run, document)  # first: another process may finish it while the files are read
    before = basis_of(run, limits, document)
    found = loaded(run, reading, document)
    if finished or before is None:
        return found, before
    # What this process wrote, it has in memory; what was there before must be as it was.
    basis = basis_of(run, limits, document)
    kept = {name: was for name, was in before.inputs.items() if was is not None and name not in _MADE}
    same = basis is not None and all(basis.inputs.get(name, was) == was for name, was in kept.items())
    return found, basis if same else None


_MADE: Final = ("history.wal", "telemetry.parquet")
"""What finishing a run removes, and what it replaces if it has no rows."""


def _document(run: RunDir, reading: Callable[[str], None]) -> dict[str, Any]:
    reading(f"reading {run.path / 'test.json'}")
    return run.read_test()


def is_finished(run: RunDir, document: Mapping[str, Any]) -> bool:
    """Whether the history of a run, and its telemetry if there is any, are in the files from which they are judged."""
    there = not os.path.lexists(run.wal_path) and os.path.lexists(run.history_path)
    return there and (not document.get("telemetry") or os.path.lexists(run.telemetry_path))


def as_needed(run: LoadedRun) -> LoadedRun:
    """A finished run that was loaded as a whole, as far as its checkers need it.

    Raises:
        HistoryFormatError: test.json is damaged, or its history cannot be read.
    """
    found = by_summary(run.folder, specs_of(run))
    return run if found is None else replace(run, history=found.frame, summarized=found)


def basis_of(run: RunDir, limits: Limits, document: Mapping[str, Any]) -> Basis | None:
    """What verdicts on a run, whose test.json is `document`, are made from; None if a part of it cannot be read.

    The files are to be read after this: one that is changed meanwhile is then not that of the basis, and the run is
    judged again the next time.
    """
    try:
        specs = engine.specs_of(document, str(run.path / "test.json"))
        names = [*madefrom.FILES, *_raw_telemetry(run, document)]
    except SplitbrainError:
        return None
    found = madefrom.inputs(run.path, names)
    if found is None:
        return None
    return Basis(inputs=found, checkers=_recorded(specs), code=code_of(specs), limits=_recorded_limits(limits))


def is_basis(run: RunDir, document: Mapping[str, Any], made: Basis, limits: Limits) -> bool:
    """Whether verdicts on a run, made now, would be made from the same, and so be the same.

    Args:
        run: its folder.
        document: its test.json.
        made: what they were made from.
        limits: of each checker. Those of the verdicts sufficed: none that is as large matters.
    """
    return is_basis_of(str(run.path), document, made, limits, lambda: madefrom.inputs(run.path, tuple(made.inputs)))


def is_basis_of(
    where: str,
    document: Mapping[str, Any],
    made: Basis,
    limits: Limits,
    inputs: Callable[[], Mapping[str, str | None] | None],
) -> bool:
    """The same of a run anywhere; `inputs` gives the digests of the files that `made` names, as they are now."""
    if not {*madefrom.FILES} <= {*made.inputs} or not madefrom.are_within(made.inputs):
        return False
    try:
        specs = engine.specs_of(document, f"{where}/test.json")
    except SplitbrainError:
        return False
    if made.checkers != _recorded(specs) or not madefrom.hold_with(made.limits, _recorded_limits(limits)):
        return False
    code = code_of(specs)
    if made.code != code or None in code.values():
        return False
    return inputs() == made.inputs


def _recorded(specs: Specs) -> list[Any]:
    return [msgspec.to_builtins(spec) for spec in specs]


def _recorded_limits(limits: Limits) -> dict[str, float | None]:
    """Limits as they are recorded: the share of a machine's memory depends on the machine and on the engine."""
    return {"cpu_s": limits.cpu_s, "stuck_s": limits.stuck_s, "memory_mb": limits.memory_mb}


def _raw_telemetry(run: RunDir, document: Mapping[str, Any]) -> list[str]:
    """The files of nodes that judging reads beside the table of telemetry: those of a table without rows.

    Raises:
        HistoryFormatError: the table is damaged.
    """
    sources: Any = document.get("telemetry")
    if not isinstance(sources, dict):
        return []
    if os.path.lexists(run.telemetry_path) and read_parquet_head(run.telemetry_path).rows:
        return []
    named = cast("dict[Any, Any]", sources)
    return [place for node, source in named.items() for place in places(str(source), f"nodes/{node}")]


def finish(path: Path) -> None:
    """Finish a history that is still a write-ahead file, and bring telemetry into one table, where that is to be done.

    One process at a time does so: another one finds it done.

    Raises:
        RunNotFoundError: it is no run, or nothing was recorded.
        UsageError: the run is under way.
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: a file of it is damaged.
    """
    run = RunDir(path)
    with contextlib.nullcontext() if is_finished(run, run.read_test()) else alone_in(path):
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
    run.verify("test.json")
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
    telemetry = each.run.telemetry()
    refuse_strangers(telemetry, each.run.read_test(), str(each.run.telemetry_path))
    return engine.Recorded(history, telemetry)


def by_summary(run: RunDir, specs: Specs) -> SummarizedHistory | None:
    """The history of a finished run without its micro-operations, if a checker of it judges by summaries.

    Raises:
        HistoryFormatError: it is damaged.
        StoreVersionError: a newer splitbrain wrote it.
    """
    found = summarized(run.history_path) if engine.any_by_summary(specs) else None
    if found is not None:
        run.verify(run.history_path.name)
    return found


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
