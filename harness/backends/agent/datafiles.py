"""Files of a data directory: copied to another file system and back, and remembered, to report later what was lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping

# --- copies -----------------------------------------------------------------------------------------------------------

_PIECE_BYTES = 1 << 20


def show_aside(directory: str, aside: Mapping[str, str]) -> None:
    """Make files of a directory links to where they lie."""
    for name, target in aside.items():
        place = f"{directory}/{name}"
        if not os.path.islink(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(target, place)


def keep_aside(directory: str, aside: Mapping[str, str]) -> None:
    """Put files that lay elsewhere into the directory."""
    for name, target in aside.items():
        if os.path.isfile(target):
            os.makedirs(os.path.dirname(f"{directory}/{name}"), exist_ok=True)
            shutil.move(target, f"{directory}/{name}")


def copy_files(source: str, target: str) -> None:
    """Copy what is in a directory into another, except links where there is something already. Holes stay holes."""
    for entry in sorted(os.scandir(source), key=lambda entry: entry.name):
        to = f"{target}/{entry.name}"
        if entry.is_symlink():
            if not os.path.lexists(to):
                os.symlink(os.readlink(entry.path), to)
        elif entry.is_dir():
            os.makedirs(to, exist_ok=True)
            shutil.copystat(entry.path, to)
            copy_files(entry.path, to)
        elif entry.is_file():
            _copy_file(entry.path, to)


def _copy_file(source: str, target: str) -> None:
    with open(source, "rb") as file, open(target, "wb") as copy:
        copy.truncate(os.fstat(file.fileno()).st_size)
        for start, end in extents(file.fileno()):
            for at in range(start, end, _PIECE_BYTES):
                os.pwrite(copy.fileno(), os.pread(file.fileno(), min(_PIECE_BYTES, end - at), at), at)
    shutil.copystat(source, target)


# --- snapshots --------------------------------------------------------------------------------------------------------

SECTOR = 512


class Snapshot:
    """The content of every regular file below a directory. It is held in memory, holes left out."""

    def __init__(self, directory: str) -> None:
        self._files = {name: list(_pieces(f"{directory}/{name}")) for name in file_names(directory)}
        self._sizes = {name: os.path.getsize(f"{directory}/{name}") for name in self._files}

    def lost(self, directory: str) -> dict[str, int]:
        """Compare with what is there now.

        Returns:
            bytes_lost: how many bytes are gone, or otherwise than they were.
            names_lost: names of files that are gone, or are there again although they were not.
        """
        names = set(file_names(directory))
        lost = 0
        for name, pieces in self._files.items():
            if name in names:
                lost += max(0, self._sizes[name] - os.path.getsize(f"{directory}/{name}"))
                lost += _different(f"{directory}/{name}", pieces)
            else:
                lost += self._sizes[name]
        return {"bytes_lost": lost, "names_lost": len(names ^ set(self._files))}


def file_names(directory: str) -> list[str]:
    """Paths of all regular files below a directory, relative to it, sorted. Links are not followed."""
    found: list[str] = []
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append(os.path.relpath(path, directory))
    return sorted(found)


def extents(descriptor: int) -> Iterator[tuple[int, int]]:
    """The parts of an open file that are not holes: beginning and end, in bytes."""
    size = os.fstat(descriptor).st_size
    end = 0
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError:  # ENXIO: nothing but a hole is left
            return
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end


def _pieces(path: str) -> Iterator[tuple[int, bytes]]:
    with open(path, "rb") as file:
        for start, end in extents(file.fileno()):
            for at in range(start, end, _PIECE_BYTES):
                yield at, os.pread(file.fileno(), min(_PIECE_BYTES, end - at), at)


def _different(path: str, pieces: list[tuple[int, bytes]]) -> int:
    """Bytes that are still within the file and not what they were."""
    count = 0
    with open(path, "rb") as file:
        for at, was in pieces:
            found = os.pread(file.fileno(), len(was), at)
            if was[: len(found)] != found:
                for start in range(0, len(found), SECTOR):
                    old, new = was[start : start + SECTOR], found[start : start + SECTOR]
                    if old != new:
                        count += sum(left != right for left, right in zip(old, new, strict=False))
    return count
