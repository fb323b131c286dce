"""Files below a folder, and no others: opened one folder after the other, following no symbolic link.

A check of a path's text, or of what it resolves to, leaves a moment in which a link can take the place of what was
checked. Here the kernel is asked for one name at a time, relative to the folder that is open already (openat with
O_NOFOLLOW), so that no name, link or rename leads elsewhere.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from splitbrain.results.errors import RunNotFoundError

DEPTH_MAX: Final = 32
"""Folders within folders that are looked into: each is open while those in it are, and a process has few of these."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a named pipe that a system left behind must not wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Entry(msgspec.Struct, frozen=True, order=True):
    """Something below the folder.

    Attributes:
        parts: its path.
        size: bytes; 0 for what is no file.
        refused: why it is not served, None if it is.
    """

    parts: tuple[str, ...]
    size: int
    refused: str | None = None

    @property
    def path(self) -> str:
        """The path, with slashes."""
        return "/".join(self.parts)


def is_name(part: str) -> bool:
    """Whether a part of a path is the name of something right there."""
    return part not in ("", ".", "..") and "/" not in part and "\0" not in part


def opened(root: Path, parts: Sequence[str]) -> BinaryIO:
    """A plain file below `root`, open for reading.

    Raises:
        RunNotFoundError: there is no such file, it is not a plain one, or its path leads elsewhere.
    """
    descriptor = _descend(root, parts, _FILE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _nothing(parts)
    return open(descriptor, "rb")


def read(root: Path, parts: Sequence[str]) -> bytes:
    """The content of a plain file below `root`.

    Raises:
        RunNotFoundError: as for `opened`.
    """
    with opened(root, parts) as file:
        return file.read()


def entries(root: Path, parts: Sequence[str], most: int) -> list[Entry]:
    """All that is below a folder, at any depth, in order of its path: at most `most` entries.

    Raises:
        RunNotFoundError: there is no such folder, or its path leads elsewhere.
    """
    found: list[Entry] = []
    for entry in _walk(_descend(root, parts, _FOLDER), ()):
        if len(found) == most:
            break
        found.append(entry)
    return sorted(found, key=lambda entry: entry.parts)


def _descend(root: Path, parts: Sequence[str], flags: int) -> int:
    if not parts or not all(is_name(part) for part in parts):
        raise _nothing(parts)
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _nothing(parts) from error
    for number, part in enumerate(parts, 1):
        try:
            if number == len(parts) and flags == _FILE and not _is_plain(folder, part):
                raise _nothing(parts)
            below = os.open(part, flags if number == len(parts) else _FOLDER, dir_fd=folder)
        except (OSError, ValueError) as error:  # ValueError: a name that the file system cannot spell
            raise _nothing(parts) from error
        finally:
            os.close(folder)
        folder = below
    return folder


def _is_plain(folder: int, name: str) -> bool:
    """Whether a plain file is there, without opening it: that alone does something to a device, and ends the wait of
    the writer of a pipe."""
    return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _walk(folder: int, above: tuple[str, ...]) -> Iterator[Entry]:
    """Everything in an open folder, which is closed at the end; what vanishes meanwhile is left out."""
    try:
        for name in _names(folder):
            parts = (*above, name)
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode) and len(parts) > DEPTH_MAX:
                    yield Entry(parts, 0, "a folder too deep to look into")
                    continue
                if stat.S_ISDIR(found.st_mode):
                    below = os.open(name, _FOLDER, dir_fd=folder)
                    yield from _walk(below, parts)
                    continue
            except FileNotFoundError:
                continue
            except OSError as error:
                yield Entry(parts, 0, error.strerror or "cannot be read")
                continue
            yield _entry(parts, found)
    finally:
        os.close(folder)


def _names(folder: int) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []  # it was removed since it was opened


def _entry(parts: tuple[str, ...], found: os.stat_result) -> Entry:
    if stat.S_ISREG(found.st_mode):
        return Entry(parts, found.st_size)
    return Entry(parts, 0, "a symbolic link" if stat.S_ISLNK(found.st_mode) else "not a plain file")


def _nothing(parts: Sequence[str]) -> RunNotFoundError:
    return RunNotFoundError(f"there is no file {'/'.join(parts)!r} in the store.")
