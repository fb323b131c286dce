"""Whether a folder can be a store: found out before anything is begun for it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from splitbrain.results.errors import UsageError

STORE: Final = "store"
"""Where runs are kept, unless another folder is named."""


def check_path(name: str, option: str = "--store") -> None:
    """Refuse what can be no folder; `option` gave the name.

    Raises:
        UsageError: it has no name, or it or what it is in is no folder.
    """
    if not name.strip():
        raise UsageError(f"{option} names no folder: leave it out, or name one (. is the current folder).")
    try:
        str(Path(name).absolute()).encode()  # what is written into a store names its path as text
        found = _nearest(Path(name))
        is_folder = found.is_dir()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{option} {name!r}: its name, or that of a folder above it, is not UTF-8. Rename that, or choose another."
        ) from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{option} {name!r} cannot be a folder: {_why(error)}.") from error
    if not is_folder:
        raise UsageError(f"{option} {name!r}: {found} is no folder. Choose another.")


def is_run(name: str) -> bool:
    """Whether it is the path of a run's folder, damaged or not, rather than the name of a run in a store."""
    # Not those of Path: what this user may not look at is damaged too, and named by what reads it.
    return os.path.isfile(os.path.join(name, "test.json")) or (
        Path(name).name.startswith("run=") and os.path.isdir(name)
    )


def check_there(folder: Path) -> None:
    """Refuse a store from which runs are to be read and that is not there.

    Raises:
        UsageError: there is none.
    """
    if not folder.is_dir():
        raise UsageError(f"--store {str(folder)!r}: there is no such store.")


def check_writable(folder: Path, option: str = "--store") -> None:
    """Refuse a folder into which nothing can be put, such as a store: found by trying, which leaves nothing behind.

    Raises:
        UsageError: nothing can.
    """
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".trying-", dir=_nearest(folder)))
    except OSError as error:
        what = "the store" if option == "--store" else "the folder"
        raise UsageError(f"cannot write to {what} {folder}: {_why(error)}. Choose another with {option}.") from error


def _nearest(path: Path) -> Path:
    """The path itself or the nearest above it that exists: a folder, a file or anything else."""
    absolute = path.absolute()
    return next(each for each in (absolute, *absolute.parents) if os.path.lexists(each))


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
