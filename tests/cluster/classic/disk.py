"""A directory in memory that can say, at each write and sync, what a kill or a loss of power there could leave."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

Image = dict[str, bytes]

SECTOR = 64
"""Small, so that short files already span many."""

EVERY_BYTE = 4_000
"""Of a longer append, a sample of its beginnings is tried."""


def done(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


class _Inode:
    def __init__(self, content: bytes = b"") -> None:
        self.cached = bytearray(content)
        self.durable = content


class _File:
    def __init__(self, disk: MemoryDisk, name: str, inode: _Inode) -> None:
        self._disk, self._name, self._inode = disk, name, inode

    def append(self, data: bytes) -> None:
        before = len(self._inode.cached)
        self._inode.cached += data
        self._disk.passed("append", self._name, self._inode, before)

    async def sync(self) -> None:
        self._inode.durable = bytes(self._inode.cached)
        self._disk.passed("sync", self._name)

    def truncate(self, size: int) -> None:
        del self._inode.cached[size:]
        self._disk.passed("truncate", self._name)

    def close(self) -> None:
        pass


class MemoryDisk:
    """A disk; `watch` is called behind each change with what it was and the file.

    Attributes:
        torn: segments are replaced in place, as a conversion without a file aside would (M79).
        calls: each change, in order.
    """

    def __init__(self, content: Image | None = None, *, torn: bool = False) -> None:
        self.torn = torn
        self.calls: list[str] = []
        self.watch: Callable[[MemoryDisk], None] | None = None
        self._files = {name: _Inode(data) for name, data in (content or {}).items()}
        self._moments = [dict(self._files)]
        self._appended: tuple[str, _Inode, int] | None = None

    def passed(self, what: str, name: str, inode: _Inode | None = None, before: int = 0) -> None:
        self.calls.append(f"{what} {name}")
        self._appended = None if inode is None else (name, inode, before)
        if self.watch is not None:
            self.watch(self)

    def _renamed(self, what: str, name: str) -> None:
        self._moments.append(dict(self._files))
        self.passed(what, name)

    # --- Disk

    def names(self) -> list[str]:
        return sorted(name for name in self._files if not name.endswith(".new"))

    def has(self, name: str) -> bool:
        return name in self._files

    def read(self, name: str) -> bytes | None:
        inode = self._files.get(name)
        return None if inode is None else bytes(inode.cached)

    def open(self, name: str) -> _File:
        if name not in self._files:
            self._files[name] = _Inode()
            self._renamed("create", name)
        return _File(self, name, self._files[name])

    async def replace(self, name: str, data: bytes) -> None:
        in_place = self.torn and name.endswith(".idx")
        file = self.open(name if in_place else name + ".new")
        file.truncate(0)
        for part in (data[: len(data) // 2], data[len(data) // 2 :]) if in_place else (data,):
            file.append(part)
        await file.sync()
        if not in_place:
            self.rename(name + ".new", name)
        await self.sync_names()

    def rename(self, source: str, target: str) -> None:
        self._files[target] = self._files.pop(source)
        self._renamed("rename", target)

    def remove(self, name: str) -> None:
        if self._files.pop(name, None) is not None:
            self._renamed("remove", name)

    async def sync_names(self) -> None:
        self._moments = [dict(self._files)]
        self.passed("sync", "names")

    # --- what a crash leaves

    def killed(self) -> Image:
        """What the end of the process leaves: all that was written."""
        return {name: bytes(inode.cached) for name, inode in self._files.items()}

    def cut(self, rng: random.Random) -> Iterator[Image]:
        """What the end of the process in the middle of the last append leaves."""
        if self._appended is None:
            return
        name, inode, before = self._appended
        size = len(inode.cached) - before
        lengths = range(size) if size <= EVERY_BYTE else sorted(rng.sample(range(size), 20))
        for length in lengths:
            yield {**self.killed(), name: bytes(inode.cached[: before + length])}

    def lost(self, rng: random.Random) -> Iterator[Image]:
        """What a loss of power may leave: changes of names up to any of them; files durable or torn."""
        for names in self._moments:
            yield {name: inode.durable for name, inode in names.items()}
            if any(inode.durable != bytes(inode.cached) for inode in names.values()):
                yield {name: _torn(rng, inode) for name, inode in names.items()}
        yield {name: _torn(rng, inode) for name, inode in self._files.items()}

    def images(self, rng: random.Random) -> Iterator[Image]:
        """All that a crash at this moment may leave."""
        yield self.killed()
        yield from self.cut(rng)
        yield from self.lost(rng)


def _torn(rng: random.Random, inode: _Inode) -> bytes:
    """Some sectors as they were written, others as they were; of any length between."""
    old, new = inode.durable, bytes(inode.cached)
    if old == new:
        return new
    low, high = sorted((len(old), len(new)))
    size = rng.choice([low, high, rng.randint(low, high)])
    old, new = old.ljust(size, b"\0"), new.ljust(size, b"\0")
    parts = [(old if rng.random() < 0.5 else new)[at : min(at + SECTOR, size)] for at in range(0, size, SECTOR)]
    return b"".join(parts)
