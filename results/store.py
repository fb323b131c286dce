"""The store: where runs are kept, how a run is written, found again and recovered after a crash.

    STORE/test=<name>/run=<UTC time>-<seed>/
        test.json           all it takes to repeat the run; there from the first moment of the folder's existence
        controller.lock     locked by the controller as long as it lives
        history.wal         the history while the run is under way (`splitbrain.results.wal`)
        history.parquet     the history afterwards
        plan.json           what a replay does again: ops, fault schedule, seeds; where the run has a plan
        marks.json          how often the run reached each coverage mark, zeros included; where marks are counted
        checksums.json      digests of what was recorded, once the run is finished (`splitbrain.results.checksums`)
        figures.json        figures for trends (`splitbrain.results.figures`), written with the verdict
        damage.json         that the run cannot be judged as it is (`splitbrain.results.damage`)
        telemetry.parquet, verdict.json, report.html, plots/, nodes/<node>/, splitbrain.log

The names of the folders are Hive partitions. Every file is written aside and renamed: it is whole or absent. The
write-ahead file goes only after the history that was made from it is on the disk.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias, TypeVar, cast

import msgspec
import pyarrow as pa

from splitbrain.results import arrow, wal
from splitbrain.results.atomic import replace_file
from splitbrain.results.checksums import read_checksums, renewing, verify, write_checksums
from splitbrain.results.damage import forget_damage
from splitbrain.results.errors import (
    HarnessError,
    HistoryFormatError,
    RunNotFoundError,
    SplitbrainError,
    StoreVersionError,
    UsageError,
)
from splitbrain.results.madefrom import FORMAT as MADE_FROM
from splitbrain.results.madefrom import Basis, is_other, seal
from splitbrain.results.plainfile import DOCUMENT_BYTES, refuse_others
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import reasons_of
from splitbrain.results.soundness import sound_history, sound_telemetry
from splitbrain.results.stores import is_run
from splitbrain.results.values import NOT_JSON

FORMAT: Final = 1
"""The version of test.json and verdict.json. A higher one is refused, never touched."""

RunStatus: TypeAlias = Literal["running", "crashed", "empty", "recorded", "recovered", "complete"]
"""Where a run stands.

running: its controller is alive. crashed: the controller is gone, the history still a write-ahead file. empty: the
controller is gone and nothing was recorded. recorded: the history is whole, and not judged yet. recovered: the same
with a history recovered after a crash. complete: judged.
"""

T = TypeVar("T")

_TEST_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,+@-]{0,120}")


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What verdict.json holds.

    Attributes:
        outcome: "pass", "violation", "inconclusive" or "harness error".
        engine: who judged: "inline" or "spark".
        harness_error: what went wrong in the harness, None if nothing did.
        verdicts: one object per checker, with the fields of `splitbrain.checkers.verdict.Verdict`; `valid` is true,
            false or "unknown".
        reasons: why the run proves too little, by all verdicts, root causes first: each a
            `splitbrain.results.reasons.Reason` with code, class, sentence and advice. Empty where it proves enough, and
            in files of older versions.
        signatures: by what a violation is known again (`splitbrain.results.signatures`), the leading one first. Empty
            where nothing is violated, and in files of older versions.
        made_from: what they were made from (`splitbrain.results.madefrom.record_of`); None if that is not known, or
            does not matter because they are to be made again: a checker broke.
        format: the version of this shape.
    """

    outcome: str
    engine: str
    harness_error: str | None
    verdicts: list[dict[str, Any]]
    reasons: list[dict[str, Any]] = msgspec.field(default_factory=list[dict[str, Any]])
    signatures: list[str] = msgspec.field(default_factory=list[str])
    made_from: Any = None
    format: int = FORMAT


class _Versioned(msgspec.Struct):
    format: Annotated[int, msgspec.Meta(ge=1)]


class _Test(msgspec.Struct):
    """Fields of test.json on whose types pages and checkers rely; each may be missing."""

    test: str = ""
    seed: int | None = None
    start: str = ""
    start_wall_ns: int | None = None
    began_wall_ns: int | None = None
    nodes: list[str] = []
    bugs: list[Any] = []
    checkers: list[Any] = []
    simulation: dict[str, Any] | None = None
    versions: dict[str, Any] | None = None
    git: dict[str, Any] | None = None


class RunDir:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._writer: wal.HistoryWriter | None = None

    def __repr__(self) -> str:
        return f"RunDir({str(self.path)!r})"

    @property
    def name(self) -> str:
        """The run's name, without "run="."""
        return self.path.name.removeprefix("run=")

    @property
    def test_name(self) -> str:
        """The name of its test, without "test="."""
        return self.path.parent.name.removeprefix("test=")

    @property
    def history_path(self) -> Path:
        """Where the finished history is."""
        return self.path / "history.parquet"

    @property
    def wal_path(self) -> Path:
        """Where the history of a run under way is."""
        return self.path / "history.wal"

    @property
    def telemetry_path(self) -> Path:
        """Where the nodes' collected telemetry is."""
        return self.path / "telemetry.parquet"

    @property
    def plan_path(self) -> Path:
        """Where the run's plan is."""
        return self.path / "plan.json"

    @property
    def marks_path(self) -> Path:
        """Where the counts of the coverage marks are."""
        return self.path / "marks.json"

    @property
    def log_path(self) -> Path:
        """Where the controller logs."""
        return self.path / "splitbrain.log"

    def node_dir(self, node: str) -> Path:
        """The folder for the files of a node; created if missing.

        Raises:
            UsageError: a folder cannot have that name.
        """
        if Path(node).name != node or node in (".", ".."):
            raise UsageError(f"{node!r} cannot be the name of a node's folder: it is not a plain folder name.")
        folder = self.path / "nodes" / node
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def plots_dir(self) -> Path:
        """The folder for plots; created if missing."""
        folder = self.path / "plots"
        folder.mkdir(exist_ok=True)
        return folder

    # --- test.json ----------------------------------------------------------------------------------------------

    def read_test(self) -> dict[str, Any]:
        """The document that says how to repeat the run.

        Raises:
            RunNotFoundError: there is none: this is not the folder of a run.
            StoreVersionError: a newer splitbrain wrote it.
            HistoryFormatError: it is damaged.
        """
        document = _read_json(self.path / "test.json", dict[str, Any])
        if document is None:
            raise RunNotFoundError(f"{self.path} is not the folder of a run: it has no test.json.")
        try:
            msgspec.convert(document, _Test)
        except msgspec.ValidationError as error:
            raise HistoryFormatError(str(self.path / "test.json"), f"damaged: {error}") from error
        return document

    def write_test(self, document: Mapping[str, Any]) -> None:
        """Replace the document. Its format is set; a newer one that is there is refused.

        Raises:
            StoreVersionError: a newer splitbrain wrote the one that is there.
        """
        _read_json(self.path / "test.json", dict[str, Any])
        self._write_test(document)

    def amend_test(self, **fields: Any) -> None:
        """Set fields of the document, which must be there.

        Raises:
            SplitbrainError: it cannot be read (see `read_test`).
        """
        self._write_test({**self.read_test(), **fields})

    def _write_test(self, document: Mapping[str, Any]) -> None:
        with renewing(self.path, "test.json"):
            _write_json(self.path / "test.json", {**document, "format": FORMAT})

    # --- history ------------------------------------------------------------------------------------------------

    def history_writer(self) -> wal.HistoryWriter:
        """Begin the history. One writer per run.

        Raises:
            HarnessError: the run has a history already.
        """
        if self.history_path.exists():
            raise HarnessError(f"{self.path} has a history already.")
        self._writer = wal.HistoryWriter(self.wal_path)
        return self._writer

    def finish_history(self, *, checked: bool = False) -> pa.Table:
        """Turn the write-ahead file into history.parquet, and return it. A finished history is just returned.

        What a crash cut off is noted in the file (`splitbrain.results.arrow.recovered_note`).

        Args:
            checked: whether test.json was read before, and is one of this version.

        Raises:
            UsageError: the run is under way in another process.
            RunNotFoundError: nothing was ever recorded.
        """
        if self._writer is not None:
            self._writer.close()
        elif self._lock is None and self.is_running():
            raise UsageError(f"run {self.name} is still under way ({self._controller()}): wait for it, or stop it.")
        if os.path.lexists(self.history_path):
            table = self.history(checked=checked)
            self._finished()  # only now: a history that cannot be read needs its source
            return table
        if not checked:
            self.read_test()
        table = self._from_wal()
        metadata = table.schema.metadata or {}
        notes = {key: metadata[key] for key in (arrow.RECOVERED_KEY, arrow.DAMAGED_KEY) if key in metadata}
        arrow.write_parquet(table, self.history_path, notes)
        self._finished()
        return table

    def _finished(self) -> None:
        """Give a run its checksums as soon as its history is whole, and remove what the history was made from."""
        if not os.path.lexists(self.wal_path):
            return
        if read_checksums(self.path) is None:
            write_checksums(self.path)
        self.wal_path.unlink(missing_ok=True)

    def recorded(self) -> bool:
        """Whether a file shows that the run began, even a broken link."""
        files = (self.history_path, self.wal_path, self.path / "verdict.json")
        return any(os.path.lexists(path) for path in files)

    def history(self, *, checked: bool = False) -> pa.Table:
        """The history: finished, or as much as the write-ahead file of a crashed or running run holds.

        `splitbrain.results.arrow.recovered_note` says whether the run ended normally. Changes nothing.

        Args:
            checked: whether test.json was read before, and is one of this version.

        Raises:
            RunNotFoundError: nothing was ever recorded.
            HistoryFormatError: the file is damaged.
            StoreVersionError: a newer splitbrain wrote it.
        """
        if not checked:
            self.read_test()
        if os.path.lexists(self.history_path):
            table = sound_history(arrow.read_parquet(self.history_path), str(self.history_path))
            self.verify(self.history_path.name)
            return table
        return self._from_wal()

    def verify(self, *names: str) -> None:
        """Refuse files that are not what they were when the run was finished (`splitbrain.results.checksums.FILES`).

        Raises:
            HistoryFormatError: one is another, is gone or was not there; or the checksums are damaged.
            StoreVersionError: a newer splitbrain wrote the checksums.
        """
        verify(self.path, names)

    def _from_wal(self) -> pa.Table:
        self.verify(self.history_path.name)  # of a finished run the history is gone, whatever else is there
        if not os.path.lexists(self.wal_path):
            raise RunNotFoundError(f"run {self.name} of test {self.test_name} has no history: nothing was recorded.")
        content = wal.read(self.wal_path)
        table = sound_history(arrow.to_table(content.ops), str(self.wal_path))
        if content.complete:
            return table
        note = (
            f"recovered {counted(arrow.client_ops(table), 'op')} ({counted(table.num_rows, 'row')}) from the "
            "write-ahead file of a run that did not end normally"
        )
        if content.problem is not None:
            note = f"{note} ({content.problem})"
        metadata = {arrow.RECOVERED_KEY: note.encode()}
        if content.damaged:
            metadata[arrow.DAMAGED_KEY] = f"{self.wal_path}: {content.problem}".encode()
        return table.replace_schema_metadata(metadata)

    # --- plan, marks --------------------------------------------------------------------------------------------

    def write_plan(self, plan: bytes) -> None:
        """Store the plan, byte for byte."""
        with renewing(self.path, self.plan_path.name):
            replace_file(self.plan_path, lambda aside: aside.write_bytes(plan))

    def write_marks(self, counts: Mapping[str, int]) -> None:
        """Store how often each coverage mark was reached, by name; zeros are kept."""
        text = msgspec.json.format(msgspec.json.encode(dict(counts), order="sorted"), indent=2)
        with renewing(self.path, self.marks_path.name):
            replace_file(self.marks_path, lambda aside: aside.write_bytes(text + b"\n"))

    def read_marks(self) -> dict[str, int] | None:
        """How often each coverage mark was reached, by name, sorted; None if nothing counted them.

        Raises:
            HistoryFormatError: the file is damaged.
        """
        refuse_others(self.marks_path, DOCUMENT_BYTES)
        try:
            found = msgspec.json.decode(self.marks_path.read_bytes(), type=dict[str, int])
        except FileNotFoundError:
            found = None
        except OSError as error:
            raise HistoryFormatError(str(self.marks_path), f"cannot be read: {error.strerror}") from error
        except NOT_JSON as error:
            raise HistoryFormatError(str(self.marks_path), f"damaged: {error}") from error
        self.verify(self.marks_path.name)
        return found

    # --- telemetry, verdicts ------------------------------------------------------------------------------------

    def write_telemetry(self, table: pa.Table) -> None:
        """Store the nodes' telemetry (`splitbrain.results.telemetry.collect`)."""
        with renewing(self.path, self.telemetry_path.name):
            arrow.write_parquet(table, self.telemetry_path)

    def telemetry(self) -> pa.Table:
        """The nodes' telemetry; empty where the system has none.

        Raises:
            HistoryFormatError: the file is damaged.
        """
        if os.path.lexists(self.telemetry_path):
            table = sound_telemetry(arrow.read_parquet(self.telemetry_path), str(self.telemetry_path))
        else:
            table = arrow.TELEMETRY_SCHEMA.empty_table()
        self.verify(self.telemetry_path.name)
        return table

    def write_verdicts(
        self,
        verdicts: Sequence[msgspec.Struct],
        outcome: str,
        *,
        engine: str = "inline",
        harness_error: str | None = None,
        basis: Basis | None = None,
    ) -> Judgement:
        """Write verdict.json, and return what it holds.

        Args:
            verdicts: one per checker.
            outcome: what they add up to.
            engine: who judged.
            harness_error: what went wrong in the harness.
            basis: what the verdicts were made from, where they need not be made again as long as it is the same.

        Raises:
            StoreVersionError: a newer splitbrain judged this run.
        """
        path = self.path / "verdict.json"
        _read_json(path, dict[str, Any])
        plain = [plain_verdict(verdict) for verdict in verdicts]
        reasons = msgspec.to_builtins(reasons_of(plain))
        judged = Judgement(
            outcome=outcome,
            engine=engine,
            harness_error=harness_error,
            verdicts=plain,
            reasons=reasons,
            signatures=self._signatures(plain),
        )
        if basis is not None:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            read_again = msgspec.json.decode(msgspec.json.encode(judged), type=Judgement)
            made = {**msgspec.to_builtins(basis), "judged": now, "seal": seal(read_again), "format": MADE_FROM}
            judged = msgspec.structs.replace(judged, made_from=made)
        _write_json(path, judged)
        forget_damage(self.path)
        return judged

    def _signatures(self, plain: Sequence[Mapping[str, Any]]) -> list[str]:
        """By what the violations among these verdicts are known again; a run that cannot be read has no faults."""
        if not any(verdict["valid"] is False for verdict in plain):
            return []
        # They load Arrow's functions, which takes longer than the check of a small file.
        from splitbrain.results.signaturerows import setting_in
        from splitbrain.results.signatures import UNKNOWN, setting_of, signatures_of

        try:
            finished = self.history_path.exists()
            setting = setting_in(self.history_path, plain) if finished else setting_of(self.history())
        except SplitbrainError:
            setting = UNKNOWN
        return [str(each) for each in signatures_of(plain, setting)]

    def read_verdicts(self) -> Judgement | None:
        """What verdict.json says, None if the run was not judged yet.

        Raises:
            StoreVersionError: a newer splitbrain wrote it.
            HistoryFormatError: it is damaged.
        """
        path = self.path / "verdict.json"
        found = _read_json(path, dict[str, Any])
        if found is None:
            return None
        try:
            judgement = msgspec.convert(found, Judgement)
        except NOT_JSON as error:
            raise HistoryFormatError(str(path), f"damaged: {error}") from error
        if is_other(found):
            raise HistoryFormatError(
                str(path),
                "it was damaged or changed since it was written: its seal is another. Restore it from a copy, or "
                f"remove it and judge the run again: splitbrain analyze {shlex.quote(str(self.path))}",
            )
        return judgement

    # --- life ---------------------------------------------------------------------------------------------------

    def status(self) -> RunStatus:
        """Where the run stands (see `RunStatus`). Looks, changes nothing.

        Raises:
            SplitbrainError: a file with that information cannot be read.
        """
        if self.is_running():
            return "running"
        if (self.path / "verdict.json").exists():
            return "complete"
        if self.history_path.exists():
            recovered = arrow.RECOVERED_KEY in arrow.read_parquet_head(self.history_path).notes
            return "recovered" if recovered else "recorded"
        return "crashed" if self.wal_path.exists() else "empty"

    def is_running(self) -> bool:
        """Whether a controller holds this run: this process or another.

        Raises:
            HistoryFormatError: its lock is there and cannot be read.
        """
        if self._lock is not None:
            return True
        try:
            descriptor = os.open(self.path / "controller.lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise HistoryFormatError(str(self.path / "controller.lock"), f"cannot be read: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def release(self) -> None:
        """Release the run: its controller has finished. The end of the controller has the same effect."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def hold(self) -> None:
        """Lock the run for this process until `release`; the file names it for people."""
        path = self.path / "controller.lock"
        self._lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.write(self._lock, f"pid {os.getpid()}\n".encode())

    def _controller(self) -> str:
        try:
            return (self.path / "controller.lock").read_text().strip() or "its controller is alive"
        except OSError:
            return "its controller is alive"


class Store:
    """All runs under one folder."""

    def __init__(self, root: Path) -> None:
        """A store need not exist until something is put into it."""
        self.root = root

    def create(self, test_name: str, seed: int, document: Mapping[str, Any], wall_ns: int) -> RunDir:
        """Make the folder of a new run, with its test.json, and hold it for this process until `release`.

        Args:
            test_name: letters, digits and ``. _ , + @ -``.
            seed: the root seed.
            document: what it takes to repeat the run: options, nodes, checkers (as `CheckerSpec`), ...; versions, git
                revision, seed and start are added.
            wall_ns: when the run begins, in nanoseconds since the Unix epoch.

        Raises:
            UsageError: no folder can have this name, or the store cannot be written.
        """
        if not _TEST_NAME.fullmatch(test_name):
            raise UsageError(f"a test cannot be named {test_name!r}: use letters, digits and . _ , + @ -.")
        start = datetime.fromtimestamp(wall_ns // 1_000_000 / 1000, tz=UTC)
        name = f"{start:%Y%m%dT%H%M%S}.{start.microsecond // 1000:03d}Z-{seed}"
        parent = self.root / f"test={test_name}"
        try:
            parent.mkdir(parents=True, exist_ok=True)
            aside = Path(tempfile.mkdtemp(prefix=".creating-", dir=parent))
            aside.chmod(0o755)
        except OSError as error:
            raise UsageError(
                f"cannot write to the store {self.root}: {error.strerror}. Choose another with --store."
            ) from error
        from splitbrain.results import (
            origin,  # imports what asks programs for their versions: a reader of runs needs none of it
        )

        run = RunDir(aside)
        try:
            run.hold()
            _write_json(
                aside / "test.json",
                {
                    **cast("dict[str, Any]", msgspec.to_builtins(dict(document), str_keys=True)),
                    "format": FORMAT,
                    "test": test_name,
                    "seed": seed,
                    "start": start.isoformat(timespec="milliseconds"),
                    "start_wall_ns": wall_ns,
                    "versions": origin.versions(document),
                    "git": origin.git_revision(),
                    "machine": origin.machine(),
                },
            )
            run.path = _take_name(aside, parent / f"run={name}")
        except BaseException:
            run.release()
            shutil.rmtree(aside, ignore_errors=True)
            raise
        return run

    def folders(self) -> list[RunDir]:
        """Every folder with the name of a run, oldest first, with any content; also folders that cannot be read.

        Raises:
            UsageError: the store cannot be read.
        """
        found: list[RunDir] = []
        for test in _named(self.root, "test="):
            try:
                found += [RunDir(path) for path in _named(test, "run=")]
            except UsageError:
                found.append(RunDir(test))
        return sorted(found, key=lambda run: (run.name, run.test_name))

    def runs(self) -> list[RunDir]:
        """Every run of the store, oldest first."""
        found = [RunDir(path.parent) for path in self.root.glob("test=*/run=*/test.json")]
        return sorted(found, key=lambda run: (run.name, run.test_name))

    def find(self, reference: str) -> RunDir:
        """The run of a reference that a person gave.

        Args:
            reference: the path of its folder; "latest"; its name; the beginning of its name, or of its test's name
                and its name with a slash between them, if that is unique. The latest is no
                run that was derived from another one, such as a replay (`derived_from` in test.json), unless there is
                no other.

        Raises:
            RunNotFoundError: none or several match.
        """
        if not reference.strip():
            raise RunNotFoundError(f"{reference!r} names no run: give a run's name or folder, or latest.")
        if is_run(reference):
            return RunDir(Path(reference).resolve())
        return matching(reference, self.runs(), str(self.root), _is_derived)


class Named(Protocol):
    """A run, by its name and that of its test."""

    @property
    def name(self) -> str:
        """Without "run="."""
        ...

    @property
    def test_name(self) -> str:
        """Without "test="."""
        ...


N = TypeVar("N", bound=Named)


def matching(reference: str, runs: Sequence[N], where: str, is_derived: Callable[[N], bool]) -> N:
    """The run that a reference means, as `Store.find`.

    Args:
        reference: not the path of a folder.
        runs: those of the store, oldest first.
        where: the store, as messages name it.
        is_derived: whether a run was derived from another one.

    Raises:
        RunNotFoundError: none or several match.
    """
    if not runs:
        raise RunNotFoundError(f"there is no run in the store {where}.")
    if reference == "latest":
        return next((run for run in reversed(runs) if not is_derived(run)), runs[-1])
    wanted = reference.strip("/").replace("test=", "").replace("run=", "")
    exact = [run for run in runs if wanted in (run.name, f"{run.test_name}/{run.name}")]
    close = exact or [
        run for run in runs if run.name.startswith(wanted) or f"{run.test_name}/{run.name}".startswith(wanted)
    ]
    if len(close) == 1:
        return close[0]
    if not close:
        raise RunNotFoundError(f"no run {reference!r} in the store {where} (the latest is {runs[-1].name}).")
    names = ", ".join(f"{run.test_name}/{run.name}" for run in close[:4])
    more = f" and {len(close) - 4} more" if len(close) > 4 else ""
    raise RunNotFoundError(f"{reference!r} could be any of {len(close)} runs: {names}{more}. Give a longer name.")


def _is_derived(run: RunDir) -> bool:
    try:
        return "derived_from" in run.read_test()
    except SplitbrainError:
        return False


def plain_verdict(verdict: msgspec.Struct) -> dict[str, Any]:
    """A `splitbrain.checkers.verdict.Verdict` for JSON, with every field; `valid` is true, false or "unknown"."""
    fields = {name: getattr(verdict, name) for name in verdict.__struct_fields__}
    document = cast("dict[str, Any]", msgspec.to_builtins(fields, str_keys=True))
    return {**document, "valid": {"true": True, "false": False}.get(document["valid"], document["valid"])}


def _take_name(aside: Path, target: Path) -> Path:
    """Rename a new run's folder; a second run of the same millisecond and seed gets a number."""
    for attempt in range(1, 1000):
        candidate = target if attempt == 1 else target.with_name(f"{target.name}-{attempt}")
        if candidate.exists():
            continue
        try:
            return aside.rename(candidate)
        except OSError:
            if not candidate.exists():
                raise
    raise HarnessError(f"there are a thousand runs named {target.name}: give each run its own seed.")


def _named(folder: Path, prefix: str) -> list[Path]:
    """The entries of that name in a folder; none if there is no such folder."""
    try:
        return [path for path in folder.iterdir() if path.name.startswith(prefix)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UsageError(f"the folder {folder} cannot be read: {error.strerror}.") from error


# --- JSON files ----------------------------------------------------------------------------------------------------


def _read_json(path: Path, kind: type[T]) -> T | None:
    """A JSON file of this splitbrain's format, None if there is none."""
    refuse_others(path, DOCUMENT_BYTES)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HistoryFormatError(str(path), f"cannot be read: {error.strerror}") from error
    try:
        version = msgspec.json.decode(text, type=_Versioned).format
        if version > FORMAT:
            raise StoreVersionError(
                f"{path} is in format {version}, this splitbrain reads up to {FORMAT}: upgrade "
                f"splitbrain; nothing was changed."
            )
        return msgspec.json.decode(text, type=kind)
    except NOT_JSON as error:
        raise HistoryFormatError(str(path), f"damaged: {error}") from error


def _write_json(path: Path, document: Any) -> None:
    text = msgspec.json.format(msgspec.json.encode(document), indent=2)
    replace_file(path, lambda aside: aside.write_bytes(text + b"\n"))
