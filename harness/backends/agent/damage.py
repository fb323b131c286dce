"""Damage to the files of a node that is stopped: flipped bits, ends that are cut off, and the loss of all of them.

What is damaged is drawn from a seed; files are drawn evenly, as the shortest may be the one that matters most.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Sequence
from typing import Any

from .datafiles import SECTOR, extents, file_names


def rot(directory: str, count: int, seed: int, spared: Collection[str] = ()) -> list[list[Any]]:
    """Flip one bit in each of `count` different sectors that hold data.

    The last sector of a file comes last: the next append would rewrite and so repair it.

    Args:
        directory: the node's data directory.
        count: how many sectors.
        seed: the same files and the same seed give the same damage.
        spared: files that stay well, relative to the directory.

    Returns:
        [file, offset in bytes, mask of the bit] of each; fewer than asked for if there are fewer sectors.
    """
    draw = random.Random(seed)
    sectors = {name: _sectors(f"{directory}/{name}") for name in file_names(directory) if name not in spared}
    done: list[list[Any]] = []
    for spare in (1, 0):
        while len(done) < count:
            limits = {name: max(1, len(found) - spare) if found else 0 for name, found in sectors.items()}
            taken = {(name, offset // SECTOR) for name, offset, _ in done}
            sound = {
                name: [at for at in found[: limits[name]] if (name, at // SECTOR) not in taken]
                for name, found in sectors.items()
            }
            names = [name for name, found in sound.items() if found]
            if not names:
                break
            name = draw.choice(names)
            start = draw.choice(sound[name])
            end = min(start + SECTOR, os.path.getsize(f"{directory}/{name}"))
            done.append([name, draw.randrange(start, end), 1 << draw.randrange(8)])
    for name, offset, mask in done:
        _flip(f"{directory}/{name}", offset, mask)
    return done


class Rot:
    """Damage that can be undone.

    Attributes:
        places: [file, offset, mask] of every flipped bit.
    """

    def __init__(self, directory: str, count: int, seed: int, spared: Collection[str] = ()) -> None:
        """See `rot`; it is done here."""
        self._directory = directory
        self.places = rot(directory, count, seed, spared)
        self._after = {(name, offset): _byte(f"{directory}/{name}", offset) for name, offset, _ in self.places}

    def heal(self) -> int:
        """Flip the bits back, except where the byte was written since or is gone; how many were flipped back."""
        healed = 0
        for name, offset, mask in self.places:
            path = f"{self._directory}/{name}"
            if os.path.isfile(path) and _byte(path, offset) == self._after[name, offset]:
                _flip(path, offset, mask)
                healed += 1
        return healed


def truncate(directory: str, count: int, seed: int, spared: Collection[str] = ()) -> list[list[Any]]:
    """Cut off the end of `count` files, at a random place within the last sector of each. It cannot be undone.

    Returns:
        [file, bytes before, bytes after] of each; fewer than asked for if fewer files have any content.
    """
    draw = random.Random(seed)
    names = [
        name for name in file_names(directory) if name not in spared and os.path.getsize(f"{directory}/{name}") > 0
    ]
    done: list[list[Any]] = []
    for name in draw.sample(names, min(count, len(names))):
        path = f"{directory}/{name}"
        size = os.path.getsize(path)
        start = (size - 1) // SECTOR * SECTOR
        left = draw.randrange(start, size)
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, left)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        done.append([name, size, left])
    return done


def wipe(directory: str, spared: Collection[str] = ()) -> int:
    """Remove everything in a directory, durably: a loss of power does not restore it. Returns the number of files.

    The directory itself stays, with its mounts.
    """
    count = len([name for name in file_names(directory) if name not in spared])
    for folder, folders, names in os.walk(directory, topdown=False):
        for name in names:
            if os.path.relpath(f"{folder}/{name}", directory) not in spared:
                os.unlink(f"{folder}/{name}")
        for path in (f"{folder}/{name}" for name in folders):
            if os.path.islink(path):
                os.unlink(path)
            elif not os.listdir(path):  # else it holds what is spared
                os.rmdir(path)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return count


def _sectors(path: str) -> Sequence[int]:
    """Where the sectors of a file begin that are not holes."""
    found: list[int] = []
    with open(path, "rb") as file:
        for start, end in extents(file.fileno()):
            found.extend(range(start, end, SECTOR))
    return found


def _byte(path: str, offset: int) -> bytes:
    with open(path, "rb") as file:
        return os.pread(file.fileno(), 1, offset)


def _flip(path: str, offset: int, mask: int) -> None:
    """Flip bits of one byte, durably: a loss of power does not undo it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        byte = os.pread(descriptor, 1, offset)[0]
        os.pwrite(descriptor, bytes([byte ^ mask]), offset)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
