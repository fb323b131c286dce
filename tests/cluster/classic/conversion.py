"""A crash at every write and sync of a conversion (CQ-4, CQ-8): `python -m tests.cluster.classic.conversion MESSAGES`.

A queue is made, of files of version 1 and with a journal. Then it is converted, at once or by counts that are written
down, and behind each change of the disk what a kill or a loss of power there could leave is opened: every file is whole
and of one version, each message is there once, and its count is the old or the new one. For a small queue that is
exhaustive: each moment, and each byte at which an append may end. For a large one moments are drawn.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, Literal, TypeAlias

from splitbrain.cluster.classic import Index, Record, record
from splitbrain.cluster.classic.framing import decode_header
from splitbrain.cluster.classic.packed import ENTRIES
from splitbrain.cluster.classic.segments import MAGIC, number_of
from tests.cluster.classic.disk import Image, MemoryDisk, done
from tests.cluster.classic.support import opened

Way: TypeAlias = Literal["at once", "by counts"]

COUNT: Final = 7
"""The new count of messages whose count changes."""
EVERY: Final = 5
"""One of so many gets a new count."""

Expected: TypeAlias = dict[int, tuple[Record, bool, bool]]


def row(number: int) -> Record:
    body = b"%d" % number if number % 3 == 0 else b""
    expiry = None if number % 2 else 10**12 + number
    return record(number.to_bytes(16, "big"), 100 + number % 50, expiry=expiry, body=body)


def made(messages: int) -> tuple[Image, Expected]:
    """A queue of version 1: segments of several flushes, messages of all states, and a journal with some of each."""
    disk = MemoryDisk()
    index = opened(disk)
    for first, last in ((0, messages // 2), (messages // 2, messages)):
        done(index.publish_all((row(number) for number in range(first, last)), persistent=first == 0))
        done(index.flush())
        done(index.deliver(range(first, last, 4)))
        done(index.ack(range(first, last, 8)))
        done(index.flush())
    # In the journal: messages, and what happened to those of segments.
    rest = range(messages, messages + 10)
    done(index.publish_all(row(number) for number in rest))
    done(index.ack([messages, messages // 2 + 1]))
    done(index.deliver([messages + 1, messages // 2 + 2]))
    done(index.sync())
    return disk.killed(), {seq: tuple(found) for seq, *found in done(index.read())}  # type: ignore[misc]


def by_counts(index: Index, expected: Expected) -> Callable[[], Coroutine[Any, Any, None]]:
    async def work() -> None:
        for seq in list(expected)[::EVERY]:
            await index.recount(seq, expected[seq][0].counted(COUNT))
        await index.flush()

    return work


class Crashes:
    """Opens what crashes leave, and compares it.

    Attributes:
        tried: images that were opened.
        versions: for each segment how often it was found in which version.
    """

    def __init__(self, expected: Expected, way: Way, seed: int, share: float) -> None:
        self.tried = 0
        self.versions: Counter[tuple[str, int]] = Counter()
        self._expected = expected
        self._counted = frozenset(list(expected)[::EVERY]) if way == "by counts" else frozenset[int]()
        self._rng = random.Random(seed)
        self._share = share

    def at(self, disk: MemoryDisk) -> None:
        """Try all that a crash at this moment may leave; with a share below 1 one of it, at some moments."""
        if self._share < 1:
            if self._rng.random() < self._share:
                self.check(self._one_of(disk.images(self._rng)))
            return
        for image in disk.images(self._rng):
            self.check(image)

    def _one_of(self, images: Iterator[Image]) -> Image:
        """One of them, each as likely; two are in memory at most."""
        chosen: Image = {}
        for number, image in enumerate(images, 1):
            if self._rng.randrange(number) == 0:
                chosen = image
        return chosen

    def check(self, image: Image) -> None:
        """The image is the queue, in whichever versions.

        Raises:
            AssertionError: it is not.
            CorruptStorageError: a file is not whole.
        """
        self.tried += 1
        for name, content in image.items():
            if number_of(name) is not None:
                header = decode_header(content, name, MAGIC)
                self.versions[name, header.version if header and len(content) >= header.base else 0] += 1
        index = opened(image)
        found = done(index.read())
        assert [each.seq for each in found] == list(self._expected), "a message is lost, or there twice"
        for seq, stored, persistent, delivered in found:
            before, was_persistent, was_delivered = self._expected[seq]
            assert (persistent, delivered) == (was_persistent, was_delivered), f"message {seq}"
            new = COUNT if seq in self._counted else 0
            assert stored in (before, before.counted(new)), f"message {seq}: {stored}"
        index.close()


def crashed(messages: int, way: Way, *, seed: int = 0, share: float = 1.0, torn: bool = False) -> Crashes:
    """Convert a queue, with a crash at every moment, or at a share of them.

    Args:
        messages: of the queue.
        way: how it is converted.
        seed: of what is torn, and which moments are chosen.
        share: of the moments.
        torn: whether files are converted in place (M79).
    """
    image, expected = made(messages)
    disk = MemoryDisk(image, torn=torn)
    index = opened(disk)
    crashes = Crashes(expected, way, seed, share)
    disk.watch = crashes.at
    done(index.convert() if way == "at once" else by_counts(index, expected)())
    disk.watch = None
    crashes.check(disk.killed())
    assert set(index.versions.values()) == {2}
    return crashes


def share_of(messages: int) -> float:
    """The share of moments of which about 20 are tried: there are seven for each segment that is converted."""
    return min(1.0, 20 / (7 * (messages / ENTRIES + 2)))


def main() -> None:
    messages = int(sys.argv[1])
    for way in ("at once", "by counts"):
        begun = time.perf_counter()
        found = crashed(messages, way, share=1.0 if messages <= 200 else share_of(messages))
        print(f"{way}: {found.tried} images of {messages:,} messages, all whole ({time.perf_counter() - begun:.0f} s)")


if __name__ == "__main__":
    main()
