"""Files of a data directory on their way to another file system and back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from .snapshots import extents

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
