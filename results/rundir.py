"""The folder of one run: its history, its documents, where it stands, and its lock."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import pyarrow as pa

from splitbrain.results import arrow, wal
from splitbrain.results.atomic import replace_file
from splitbrain.results.checksums import read_checksums, renewing, verify, write_checksums
from splitbrain.results.damage import forget_damage
from splitbrain.results.errors import HarnessError, HistoryFormatError, RunNotFoundError, SplitbrainError, UsageError
from splitbrain.results.judgement import Judgement, plain_verdict, read_judgement, write_judgement
from splitbrain.results.madefrom import Basis
from splitbrain.results.plainfile import DOCUMENT_BYTES, refuse_others
from splitbrain.results.quantities import counted
from splitbrain.results.soundness import sound_history, sound_telemetry
from splitbrain.results.values import NOT_JSON
from splitbrain.results.versioned import FORMAT, read_document, write_document

RunStatus: TypeAlias = Literal["running", "crashed", "empty", "recorded", "recovered", "complete"]
"""Where a run stands.

running: its controller is alive. crashed: the controller is gone, the history still a write-ahead file. empty: the
controller is gone and nothing was recorded. recorded: the history is whole, and not judged yet. recovered: the same
with a history recovered after a crash. complete: judged.
"""


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
    def is_gone(self) -> bool:
        """Whether it is not there any more: `splitbrain prune` may run at the same time."""
        return not os.path.lexists(self.path)

    @property
    def left_out(self) -> str:
        """What is said of a run that is gone, where all others are handled."""
        return f"left out: {self.test_name}/{self.name} was removed meanwhile"

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
        """The folder for plots; created if missing.

        Raises:
            HistoryFormatError: something else has its name.
        """
        folder = self.path / "plots"
        try:
            folder.mkdir(exist_ok=True)
        except FileExistsError as error:
            raise HistoryFormatError(str(folder), "this is not a folder: remove it") from error
        return folder

    # --- test.json ----------------------------------------------------------------------------------------------

    def read_test(self) -> dict[str, Any]:
        """The document that says how to repeat the run.

        Raises:
            RunNotFoundError: there is none: this is not the folder of a run.
            StoreVersionError: a newer splitbrain wrote it.
            HistoryFormatError: it is damaged.
        """
        document = read_document(self.path / "test.json", dict[str, Any])
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
        read_document(self.path / "test.json", dict[str, Any])
        self._write_test(document)

    def amend_test(self, **fields: Any) -> None:
        """Set fields of the document, which must be there.

        Raises:
            SplitbrainError: it cannot be read (see `read_test`).
        """
        self._write_test({**self.read_test(), **fields})

    def _write_test(self, document: Mapping[str, Any]) -> None:
        with renewing(self.path, "test.json"):
            write_document(self.path / "test.json", {**document, "format": FORMAT})

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
        # A finished run had a history.parquet: without it the run is damaged, and no write-ahead file replaces it.
        self.verify(self.history_path.name)
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
        plain = [plain_verdict(verdict) for verdict in verdicts]
        judged = write_judgement(
            self.path / "verdict.json",
            plain,
            outcome,
            engine=engine,
            harness_error=harness_error,
            signatures=self._signatures(plain),
            basis=basis,
        )
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
        return read_judgement(self.path / "verdict.json")

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
