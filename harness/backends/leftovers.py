"""What controllers that were killed left on this machine: processes, control groups, mounted volumes.

Sweeps take turns: of two at the same time each would find things that the other is about to remove. Not every removal
waits for its turn. So each removal also accepts that a thing is already gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from splitbrain.harness.backends import diskfiles, ownership
from splitbrain.harness.backends.agent import cgroups, volumes

TURNS_BY: str = "/run"
"""A directory whose lock (flock(2)) is the turn. All users can open it, and nothing needs to be made for that."""
TURN_COMES_WITHIN_S = 30.0
_POLL_S = 0.02


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
            *(() if store is None else diskfiles.sweep(store, _is_left_over, dry_run=dry_run)),
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
