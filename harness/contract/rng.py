"""Randomness with a specified algorithm, in streams derived by name from one root seed.

Each part of a run draws from a stream of its own ("workload", "nemesis", "network", ...): one more draw in a workload
does not reshuffle the network, which is what makes shrinking and bisecting possible (spec of the simulation; the idea
is FoundationDB's and madsim's). Only `random.Random.random`, the Mersenne Twister's 53-bit output, is used: Python
guarantees its sequence across versions, and guarantees nothing for `shuffle`, `choice` or `randrange`.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import MutableSequence, Sequence
from typing import TypeVar

T = TypeVar("T")


class Rng:
    """One stream of random numbers."""

    __slots__ = ("random",)

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random
        """A float in [0, 1)."""

    def below(self, n: int) -> int:
        """A whole number in [0, n); n must be between 1 and 2**32."""
        return int(self.random() * n)

    def between(self, low: int, high: int) -> int:
        """A whole number in [low, high], both included."""
        return low + int(self.random() * (high - low + 1))

    def choice(self, items: Sequence[T]) -> T:
        """One of `items`, which must not be empty."""
        return items[int(self.random() * len(items))]

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Shuffle in place (Fisher and Yates)."""
        for i in range(len(items) - 1, 0, -1):
            j = int(self.random() * (i + 1))
            items[i], items[j] = items[j], items[i]

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """`k` different ones of `items`, in random order."""
        pool = list(items)
        self.shuffle(pool)
        return pool[:k]


class Streams:
    """The named streams of a root seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, Rng] = {}

    def __getitem__(self, name: str) -> Rng:
        """The stream of that name: the same object each time, the same sequence for the same seed everywhere."""
        stream = self._streams.get(name)
        if stream is None:
            digest = hashlib.blake2b(f"{self.seed}/{name}".encode(), digest_size=16).digest()
            stream = self._streams[name] = Rng(int.from_bytes(digest, "big"))
        return stream

    def fingerprint(self) -> str:
        """A hash of the state of every stream that was used; it costs each one draw, so take it at the end."""
        digest = hashlib.blake2b(digest_size=8)
        for name in sorted(self._streams):
            digest.update(f"{name} {self._streams[name].random()!r}\n".encode())
        return digest.hexdigest()
