"""Files that are either whole or absent, also after a crash of the controller."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Generator
from contextvars import ContextVar
from pathlib import Path
from typing import Final


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Give `path` a new content, atomically and durably: `write` fills a file beside it, which then takes its name.

    The name of the file beside it begins with a dot: Spark and other readers of Hive layouts leave such files alone.

    A symbolic link stays, and the file that it leads to is replaced; a device, a pipe or a folder never is.

    Raises:
        OSError: nothing was changed.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    if os.path.lexists(path) and not path.is_file():
        raise OSError(errno.EINVAL, "It is not a plain file", str(path))
    # The number of a process is its own only on its machine, and in its container: others may share the folder.
    aside = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        write(aside)
        _sync(aside)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    _sync(path.parent)


@contextlib.contextmanager
def alone_in(folder: Path) -> Generator[None]:
    """A context in which no other process is that asks for the same folder: what changes several files of it needs one.

    A process that ends lets go. Where the folder cannot be locked (some file systems of networks cannot lock any), and
    where it is not there, nobody is kept waiting. Within the context it may be asked for again.
    """
    held, descriptor, token = _held.get(), None, None
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        found = os.fstat(descriptor)
        place = (found.st_dev, found.st_ino)
        if place not in held:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            token = _held.set(held | {place})
    try:
        yield
    finally:
        if token is not None:
            _held.reset(token)
        if descriptor is not None:
            os.close(descriptor)


_held: Final[ContextVar[frozenset[tuple[int, int]]]] = ContextVar("held", default=frozenset())
"""Device and number of each folder in which this process is alone, where this is read."""


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
