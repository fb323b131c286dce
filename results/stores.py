"""Whether a folder can be a store: found out before anything is begun for it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from results.errors import UsageError


def check_path(name: str) -> None:
    """Refuse what can be no folder.

    Raises:
        UsageError: it has no name, or it or what it is in is no folder.
    """
    if not name.strip():
        raise UsageError("--store names no folder: leave it out, or name one (. is the current folder).")
    try:
        found = _nearest(Path(name))
        is_folder = found.is_dir()
    except (OSError, ValueError) as error:
        raise UsageError(f"--store {name!r} cannot be a folder: {_why(error)}.") from error
    if not is_folder:
        raise UsageError(f"--store {name!r}: {found} is no folder. Choose another.")


def check_there(folder: Path) -> None:
    """Refuse a store from which runs are to be read and that is not there.

    Raises:
        UsageError: there is none.
    """
    if not folder.is_dir():
        raise UsageError(f"--store {str(folder)!r}: there is no such store.")


def check_writable(folder: Path) -> None:
    """Refuse a store into which nothing can be put: found by trying, which leaves nothing behind.

    Raises:
        UsageError: nothing can.
    """
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".trying-", dir=_nearest(folder)))
    except OSError as error:
        raise UsageError(f"cannot write to the store {folder}: {_why(error)}. Choose another with --store.") from error


def _nearest(path: Path) -> Path:
    """The path itself or the nearest above it that is there, whatever it is."""
    absolute = path.absolute()
    return next(each for each in (absolute, *absolute.parents) if os.path.lexists(each))


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
