"""The rows of the table of runs: read once, and again only when the files behind them change.

A run that is half written, damaged, or stored by a newer splitbrain has a row as well, which says so.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from splitbrain.results.checksums import CHECKSUMS
from splitbrain.results.damage import DAMAGE, noted_damage, standing_damage
from splitbrain.results.errors import RunNotFoundError, SplitbrainError
from splitbrain.results.figures import FIGURES, Figures
from splitbrain.results.madefrom import is_other
from splitbrain.results.reasons import reasons_of
from splitbrain.results.rundir import RunDir
from splitbrain.results.signatures import leading_first
from splitbrain.results.site.beneath import read
from splitbrain.results.values import NOT_JSON
from splitbrain.results.versioned import FORMAT

STATES: Final = (
    "violation",
    "harness error",
    "inconclusive",
    "pass",
    "running",
    "crashed",
    "recovered",
    "recorded",
    "empty",
    "damaged",
)
"""What a row's `state` can be, the most severe first: a judged run's outcome, else where the run stands."""

SAYS_MAX: Final = 1000
"""Characters of a sentence that a row keeps: a value in it may be a megabyte long, and there are many rows."""

OPTION_MAX: Final = 200
"""Characters of an option that a row keeps."""

DOCUMENT_MAX: Final = 32 << 20
"""Bytes of a JSON file that is read: one that is larger takes memory that all readers of the store need."""

_WATCHED: Final = (
    "test.json",
    "verdict.json",
    FIGURES,
    "history.parquet",
    "history.wal",
    "telemetry.parquet",
    "marks.json",
    DAMAGE,
    "controller.lock",
)
_SAYING: Final = (*_WATCHED[:5], DAMAGE, CHECKSUMS)
"""Those from which a row is made; a write-ahead file by being there."""

Stamp: TypeAlias = tuple[tuple[int, int, int] | None, ...]
"""Time, size and number of each file that says something of a run."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A run, in one line.

    Attributes:
        test: the name of its test.
        run: its own name.
        state: one of `STATES`.
        says: the sentence that matters most, empty if there is none.
        start: when it began, ISO 8601.
        seed: its root seed.
        workload, nemesis, system, backend, bug: the options that it was run with.
        duration_s, ops, ok_per_s, p99_ms, available, recovery_s, leader_changes: from its figures, None without them;
            `recovery_s` is the longest that a majority of nodes took to answer after an operation of the nemesis.
        marks: how many coverage marks it reached.
    """

    test: str
    run: str
    state: str
    says: str = ""
    start: str = ""
    seed: int | None = None
    workload: str = ""
    nemesis: str = ""
    system: str = ""
    backend: str = ""
    bug: str = ""
    duration_s: float | None = None
    ops: int | None = None
    ok_per_s: float | None = None
    p99_ms: float | None = None
    available: float | None = None
    recovery_s: float | None = None
    leader_changes: int | None = None
    marks: int | None = None

    @property
    def name(self) -> str:
        """Test and run, as commands take it."""
        return f"{self.test}/{self.run}"

    @property
    def parts(self) -> tuple[str, str]:
        """The run's folder, relative to the store."""
        return (f"test={self.test}", f"run={self.run}")


class _Test(msgspec.Struct):
    options: dict[str, Any] = {}
    start: str = ""
    seed: int | None = None
    format: int = FORMAT


class _Verdict(msgspec.Struct):
    checker: str = ""
    valid: bool | str = "unknown"
    sentence: str = ""
    inconclusive: list[Any] = []


class _Judged(msgspec.Struct):
    outcome: str
    harness_error: str | None = None
    verdicts: list[_Verdict] = []
    signatures: list[str] = []
    made_from: Any = None
    format: int = FORMAT


class Index:
    """The rows of a store. Threads may share it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[str, tuple[Stamp, Row]] = {}
        self._lock = threading.Lock()

    def rows(self) -> list[Row]:
        """One row for each run there is now, the latest first."""
        with self._lock:
            known: dict[str, tuple[Stamp, Row]] = {}
            for test, run, problem in _folders(self.root):
                path = f"{self.root}/test={test}/run={run}"
                stamp: Stamp = () if problem else stamp_of(path)
                before = self._known.get(path)
                row = before[1] if before is not None and before[0] == stamp else _row(self.root, test, run, problem)
                known[path] = (stamp, row)
            self._known = known
        found = [_with_life(self.root, row) for _, row in known.values()]
        return sorted(found, key=lambda row: (row.run, row.test), reverse=True)


def refuse_links(run_dir: Path) -> None:
    """See to it that the files of a run that are about to be read by name are plain files, in plain folders.

    Raises:
        RunNotFoundError: one is a link, a pipe, or otherwise not a plain file; or there is no such run.
    """
    for folder in (run_dir.parent, run_dir):
        if not stat.S_ISDIR(_mode(str(folder))):
            raise RunNotFoundError(f"{folder.name} is not a folder of the store.")
    path = str(run_dir)  # paths are strings here: a store of many runs is looked through every other second
    for name in _WATCHED:
        found = _found(f"{path}/{name}")
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise RunNotFoundError(f"{name} of run {run_dir.name} is not a plain file: it is not read.")
        if found is not None and name.endswith(".json") and found.st_size > DOCUMENT_MAX:
            sizes = f"{found.st_size:,} bytes; the limit is {DOCUMENT_MAX:,}"
            raise RunNotFoundError(f"{name} of run {run_dir.name} has {sizes}.")


def _found(path: str) -> os.stat_result | None:
    """What is there, None if there is nothing."""
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _mode(path: str) -> int:
    """What kind of file is there, 0 if there is none."""
    found = _found(path)
    return 0 if found is None else found.st_mode


def _folders(root: Path) -> Iterator[tuple[str, str, str]]:
    """Test, run, and why that folder cannot be one of a run, empty if it can."""
    for test in _named(root, "test="):
        for run in _named(Path(test.path), "run="):
            names = test.name[5:], run.name[4:]
            linked = test.is_symlink() or run.is_symlink()
            if all(name.isprintable() for name in names):  # not so with control characters and bytes that are no text
                yield *names, "This folder is a symbolic link: it is not followed." if linked else ""
            else:
                test_name, run_name = (name.encode("unicode_escape").decode() for name in names)
                yield test_name, run_name, "This folder's name is not the name of a run."


def _named(folder: Path, prefix: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return [each for each in found if each.name.startswith(prefix) and (each.is_dir() or each.is_symlink())]
    except OSError:
        return []  # a store need not exist before its first run, and a run may be removed at any time


def stamp_of(path: str) -> Stamp:
    """What changes when a file that says something of a run changes; the growth of its write-ahead file does not."""
    found: list[tuple[int, int, int] | None] = []
    for name in _SAYING:
        try:
            seen = os.lstat(f"{path}/{name}")
        except OSError:
            found.append(None)
        else:
            # A write-ahead file grows all the time; nothing is read from it, it only has to be there.
            found.append((0, 0, 0) if name == "history.wal" else (seen.st_mtime_ns, seen.st_size, seen.st_ino))
    return tuple(found)


def _row(root: Path, test: str, run: str, problem: str) -> Row:
    """A run's row, as if no controller held it."""
    if problem:
        return Row(test=test, run=run, state="damaged", says=problem)
    parts = (f"test={test}", f"run={run}")
    path = root.joinpath(*parts)
    try:
        refuse_links(path)
        document = _decode(read(root, (*parts, "test.json")), _Test)
        judged = _judged(read(root, (*parts, "verdict.json"))) if (path / "verdict.json").exists() else None
        state = judged.outcome if judged is not None else RunDir(path).status()
        figures = _figures(root, parts) if judged is not None else None
    except Exception as error:  # of any kind: a damaged run costs its own row, not the table
        noted = noted_damage(path)
        says = f"It cannot be read: {error}" if noted is None else f"It {noted}"
        return Row(test=test, run=run, state="damaged", says=says[:SAYS_MAX])
    row = Row(
        test=test,
        run=run,
        state=state if state in STATES else "damaged",
        says=_sentence(judged)
        if state in STATES
        else f"Its outcome is {_text(state)!r}, which this splitbrain does not know.",
        start=_text(document.start),
        seed=document.seed,
        workload=_text(document.options.get("workload")),
        nemesis=_text(document.options.get("nemesis")),
        system=_text(document.options.get("system")),
        backend=_text(document.options.get("backend")),
        bug=_text(document.options.get("bug")),
    )
    noted = standing_damage(path, None if judged is None else judged.made_from)
    if noted is not None:  # its verdict, and its figures, are not those of what is there
        return msgspec.structs.replace(row, state="damaged", says=f"It {noted}"[:SAYS_MAX])
    return row if figures is None else _with_figures(row, figures)


def _judged(text: bytes) -> _Judged:
    found: _Judged = _decode(text, _Judged)
    if is_other(msgspec.json.decode(text)):
        raise ValueError("verdict.json was damaged or changed since it was written: its seal is another")
    return found


def _decode(text: bytes, kind: Any) -> Any:
    found = msgspec.json.decode(text, type=kind)
    if found.format > FORMAT:
        raise ValueError(f"it is in format {found.format}, this splitbrain reads up to {FORMAT}: upgrade splitbrain")
    return found


def _figures(root: Path, parts: tuple[str, ...]) -> Figures | None:
    try:
        return msgspec.json.decode(read(root, (*parts, FIGURES)), type=Figures)
    except (SplitbrainError, *NOT_JSON):
        return None  # computed when the run is opened: that takes its history


def _with_figures(row: Row, figures: Figures) -> Row:
    took = [each.majority_s for each in figures.recoveries if each.majority_s is not None]
    return msgspec.structs.replace(
        row,
        duration_s=figures.duration_s,
        ops=figures.ops,
        ok_per_s=figures.ok_per_s,
        p99_ms=figures.latency_ms.get("p99"),
        available=figures.available_time,
        recovery_s=max(took, default=None),
        leader_changes=figures.leader_changes,
        marks=None if figures.marks is None else sum(count > 0 for count in figures.marks.values()),
    )


def _sentence(judged: _Judged | None) -> str:
    """What says most: the violation, the harness's error, what is unknown, why it proves too little."""
    if judged is None:
        return ""
    guilty = [each for each in judged.verdicts if each.valid is False]
    said = [
        *(each.sentence for each in leading_first(guilty, lambda each: each.checker, judged.signatures)),
        judged.harness_error or "",
        *(str(reason) for reason in reasons_of(msgspec.structs.asdict(each) for each in judged.verdicts)),
    ]
    sentence = next((sentence for sentence in said if sentence), "")
    return sentence if len(sentence) <= SAYS_MAX else f"{sentence[:SAYS_MAX]}..."


def _with_life(root: Path, row: Row) -> Row:
    """The row, running if a controller holds the run now: a lock leaves no trace in a file's time."""
    folder = f"{root}/test={row.test}/run={row.run}"
    if row.state == "damaged" or not stat.S_ISREG(_mode(f"{folder}/controller.lock")):
        return row
    run = RunDir(Path(folder))
    try:
        running = run.is_running()
    except OSError:
        return row
    if running:
        return msgspec.structs.replace(row, state="running", says=row.says or "Under way: it has not ended yet.")
    if row.state == "running":  # it ended since its row was read, and left no file that says more
        return msgspec.structs.replace(row, state=run.status())
    return row


def _text(value: Any) -> str:
    return "" if value is None else str(value)[:OPTION_MAX]
