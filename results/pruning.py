"""Which runs of a store may go, and their removal.

A run goes if it is of an outcome that was named, and is older than allowed, or not among the newest of its test, or
among the oldest of a store that is too large; or if it is older than runs of its outcome may be. What something refers
to stays (`splitbrain.results.references`). A run that is under way never goes, and neither does one whose state
is unknown; violations, and runs that were not judged (which may be violations), go only where they are named.

A run is renamed before its files are removed: it is whole or gone for everyone who looks at the store meanwhile. What
an interrupted removal left is removed by the next one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from splitbrain.results.damage import standing_damage
from splitbrain.results.errors import HarnessError, SplitbrainError
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import CREATING, Store

VIOLATION: Final = "violation"
UNJUDGED: Final = "unjudged"
KEPT_BY_DEFAULT: Final = frozenset({VIOLATION, UNJUDGED})
OUTCOMES: Final = ("pass", "inconclusive", "harness-error", VIOLATION, UNJUDGED)

_REMOVING: Final = ".removing-"
_STAMP: Final = "%Y%m%dT%H%M%S.%fZ"
_BLOCK_BYTES: Final = 512
_ABANDONED_S: Final = 86_400.0
"""A folder that is filled for so long and has not got its name yet never will: a run is brought here in seconds."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What may go; a limit that is None takes no run away.

    Attributes:
        outcomes: runs of these only (`OUTCOMES`).
        tests: of these tests only; of all if empty.
        older_than_s: runs that began longer ago than that.
        keep: all but this number of the newest of each test; those that stay for their outcome count.
        max_bytes: the oldest, until the store is no larger.
        ages: by outcome, how long such runs stay, in seconds; None: for ever, whatever the other limits say. An outcome
            that is named here need not be among `outcomes`.
    """

    outcomes: frozenset[str] = frozenset(OUTCOMES) - KEPT_BY_DEFAULT
    tests: frozenset[str] = frozenset()
    older_than_s: float | None = None
    keep: int | None = None
    max_bytes: int | None = None
    ages: dict[str, float | None] = {}


class Candidate(msgspec.Struct, frozen=True):
    """A run of the store, as far as it matters here.

    Attributes:
        path: its folder.
        test: the name of its test.
        outcome: one of `OUTCOMES`; None for a run that never goes: it is under way, or its state is unknown.
        began_s: when it began, in seconds since the Unix epoch.
        size_bytes: the room that its files take on the disk; holes take none.
    """

    path: str
    test: str
    outcome: str | None
    began_s: float
    size_bytes: int


def candidates(store: Store) -> list[Candidate]:
    """All runs of a store, oldest first. Changes nothing."""
    return [_candidate(run) for run in store.runs() if not run.path.is_symlink()]


def choose(runs: Sequence[Candidate], limits: Limits, now_s: float) -> list[Candidate]:
    """Those that go, oldest first.

    Args:
        runs: all runs of the store, oldest first.
        limits: what may go.
        now_s: the time, in seconds since the Unix epoch.
    """
    named = [run for run in runs if not limits.tests or run.test in limits.tests]
    lasting = {outcome for outcome, age_s in limits.ages.items() if age_s is None}
    allowed = [run for run in named if run.outcome in limits.outcomes and run.outcome not in lasting]
    going = {
        run.path for run in allowed if limits.older_than_s is not None and run.began_s < now_s - limits.older_than_s
    }
    going |= {run.path for run in named if _is_past(run, limits.ages, now_s)}
    if limits.keep is not None:
        older = set(_beyond(runs, limits.keep))
        going |= {run.path for run in allowed if run.path in older}
    if limits.max_bytes is not None:
        left = sum(run.size_bytes for run in runs if run.path not in going)
        for run in allowed:
            if left > limits.max_bytes and run.path not in going:
                going.add(run.path)
                left -= run.size_bytes
    return [run for run in runs if run.path in going]


def _is_past(run: Candidate, ages: Mapping[str, float | None], now_s: float) -> bool:
    """Whether a run is older than runs of its outcome may be."""
    age_s = None if run.outcome is None else ages.get(run.outcome)
    return age_s is not None and run.began_s < now_s - age_s


def remove(run: Candidate) -> None:
    """Remove a run.

    Raises:
        HarnessError: it is under way by now, something is mounted in it, or it cannot be removed.
    """
    path = Path(run.path)
    if RunDir(path).is_running():
        raise HarnessError(f"{path} is under way and cannot be removed.")
    mounted = next((place for place in _folders(path) if os.path.ismount(place)), None)
    if mounted is not None:
        raise HarnessError(f"{path} stays: a file system is mounted at {mounted} (splitbrain clean removes leftovers).")
    aside = path.with_name(f"{_REMOVING}{path.name}")
    try:
        path.rename(aside)
        shutil.rmtree(aside)
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    except FileNotFoundError:  # another process removed it
        pass
    except OSError as error:
        raise HarnessError(f"{path} cannot be removed: {error.strerror} ({error.filename}).") from error


def remove_interrupted(store: Store) -> None:
    """Remove what an earlier removal left when it was interrupted; and runs that a killed process was bringing here.

    These are as large as the run, seen by nothing else, and never get its name.
    """
    for path in store.root.glob(f"test=*/{_REMOVING}run=*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in store.root.glob(f"test=*/{CREATING}*"):
        with contextlib.suppress(OSError):  # another process removed it, or it has its name by now
            if path.stat().st_mtime < time.time() - _ABANDONED_S:
                shutil.rmtree(path)


def _candidate(run: RunDir) -> Candidate:
    return Candidate(str(run.path), run.test_name, _outcome(run), _began_s(run), size_bytes(run.path))


def _outcome(run: RunDir) -> str | None:
    try:
        if run.is_running():
            return None
        judgement = run.read_verdicts()
        noted = standing_damage(run.path, None if judgement is None else judgement.made_from)
        if noted is None:
            run.read_test()
    except (SplitbrainError, OSError):  # a newer version wrote it, or it is damaged
        return None
    outcome = UNJUDGED if judgement is None else judgement.outcome.replace(" ", "-")
    return standing(outcome, damaged=noted is not None)


def standing(outcome: str, *, damaged: bool) -> str | None:
    """The outcome that the rules see, of `OUTCOMES`; None for an outcome that they do not know.

    A run that was damaged after it was judged counts as not judged, since it may be a violation. A violation stays one.
    """
    if outcome not in OUTCOMES:
        return None
    return UNJUDGED if damaged and outcome != VIOLATION else outcome


def _began_s(run: RunDir) -> float:
    """By the run's name, which says when it began; a folder of another name is as old as its test.json."""
    began = began_s(run.name)
    if began is not None:
        return began
    document = run.path / "test.json"
    return (document if os.path.exists(document) else run.path).stat().st_mtime


def began_s(name: str) -> float | None:
    """When the run of this name began, in seconds since the Unix epoch; None if the name does not say that."""
    try:
        return datetime.strptime(name.partition("Z-")[0] + "Z", _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _beyond(runs: Sequence[Candidate], keep: int) -> Iterator[str]:
    """The runs that are not among the `keep` newest of their tests. One that cannot be read takes no place."""
    by_test: defaultdict[str, list[str]] = defaultdict(list)
    for run in runs:
        if run.outcome is not None:
            by_test[run.test].append(run.path)
    for paths in by_test.values():
        yield from paths[: max(0, len(paths) - keep)]


def size_bytes(path: Path) -> int:
    """The room that the files below a folder take on the disk. Links are not followed."""
    return sum(found.st_blocks * _BLOCK_BYTES for found in _stats(path))


def _stats(path: Path) -> Iterator[os.stat_result]:
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                found = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
            if stat.S_ISREG(found.st_mode):
                yield found


def _folders(path: Path) -> Iterable[str]:
    return (folder for folder, _, _ in os.walk(path))
