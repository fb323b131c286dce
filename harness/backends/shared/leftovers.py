"""What controllers that were killed left on this machine: processes, control groups, mounted volumes, shared memory.

Sweeps take turns: of two at the same time each would find things that the other is about to remove. Not every removal
waits for its turn. So each removal also accepts that a thing is already gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from splitbrain.harness.backends.agent import cgroups, volumes
from splitbrain.harness.backends.shared import disks, ownership

TURNS_BY: str = "/run"
"""A directory whose lock (flock(2)) is the turn. All users can open it, and nothing needs to be made for that."""
TURN_COMES_WITHIN_S = 30.0
_POLL_S = 0.02

SHARED_MEMORY: Final = Path("/dev/shm")
NAMED: Final = 3
"""Files that a line names; of more there is the number."""

_FAKETIME: Final = re.compile(r"(?:sem\.)?faketime_(?:shm|sem)_(\d+)")


class Cleaned(msgspec.Struct, frozen=True):
    """A line for each thing that was removed, or would be; and what could not be looked at, or was left alone."""

    removed: list[str]
    notes: list[str]


def sweep(
    others: Callable[[], Sequence[str]] = tuple, *, store: Path | None = None, dry_run: bool = False
) -> list[str]:
    """Remove it, when it is this process's turn; a line for each thing removed.

    Args:
        others: first removes other things of a backend, and reports them.
        store: where images of disks are looked for as well.
        dry_run: only list what would be removed.
    """
    with _turn():
        return [
            *others(),
            *ownership.sweep(dry_run=dry_run),
            *volumes.sweep(_is_left_over, dry_run=dry_run),
            *cgroups.sweep(_is_left_over, dry_run=dry_run),
            *(() if store is None else disks.sweep_images(store, _is_left_over, dry_run=dry_run)),
        ]


@contextlib.contextmanager
def _turn() -> Generator[None]:
    """Wait until no other sweep runs, with a timeout: any user can hold the lock of a directory."""
    try:
        turn = os.open(TURNS_BY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # there is none here
        yield
        return
    try:
        deadline = time.monotonic() + TURN_COMES_WITHIN_S
        while not _taken(turn) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(turn)


def _taken(turn: int) -> bool:
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_left_over(name: str) -> bool:
    """Whether a name begins with the marker of a controller that is gone."""
    owner = ownership.parse(name.split(".")[0])
    return owner is not None and owner.gone


# --- shared memory of libfaketime -------------------------------------------------------------------------------------


def sweep_faketime(folder: Path, *, dry_run: bool) -> Cleaned:
    """Remove the shared memory of libfaketime in `folder` that no process uses any more.

    Nodes of namespaces have a /dev/shm of their own, which ends with them; those behind proxies leave two files each.
    A file has the pid of its creator in its name, and the creator's children share it: it is removed when the creator
    is gone and no process has mapped it. Files of other users stay.
    """
    found = [(path, _FAKETIME.fullmatch(path.name)) for path in sorted(folder.glob("*faketime_*"))]
    gone = [path for path, match in found if match is not None and not Path(f"/proc/{match[1]}").exists()]
    used: set[str] = _mapped() if gone else set()
    mine: list[Path] = []
    others: list[Path] = []
    for path in gone:
        if path.name in used:
            continue
        with contextlib.suppress(FileNotFoundError):  # another command removed it
            if os.geteuid() not in (0, path.stat().st_uid):
                others.append(path)
                continue
            if not dry_run:
                path.unlink()
            mine.append(path)
    done = "would remove" if dry_run else "removed"
    return Cleaned(
        [f"{done} shared memory of libfaketime in {folder}: {_listed(mine)}"] if mine else [],
        [f"left in {folder}, as it is of another user: {_listed(others)}"] if others else [],
    )


def _mapped() -> set[str]:
    """Names of files that the processes which this user may look at have in their memory."""
    found: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            found |= {line.rpartition("/")[2] for line in maps.read_text(errors="replace").splitlines()}
    return found


def _listed(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(path.name for path in paths[:NAMED]) + more
