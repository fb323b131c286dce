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

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec

from splitbrain.results.errors import HarnessError, RunNotFoundError, SplitbrainError, UsageError
from splitbrain.results.rundir import RunDir
from splitbrain.results.stores import is_run
from splitbrain.results.versioned import FORMAT, write_document

CREATING: Final = ".creating-"
"""How the name of a run's folder begins until the run has its own name."""

_TEST_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,+@-]{0,120}")


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
            aside = Path(tempfile.mkdtemp(prefix=CREATING, dir=parent))
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
            write_document(
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
        """Every run of the store, oldest first; also one that cannot be read, or that has lost its test.json.

        What is not listed would be passed over: the latest run would be another one, and no line would say so.

        Raises:
            UsageError: the store cannot be read.
        """
        return [run for run in self.folders() if run.path.name.startswith("run=") and os.path.isdir(run.path)]

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
