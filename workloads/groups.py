"""How client threads share keys: how many to a key, and who of them reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from splitbrain.harness.generators import Generator, Source, invoke, mix, reserve, sequence

THREADS_MIN: Final = 5
"""Fewer clients of one key seldom get in each other's way."""


def threads_per_key(concurrency: int, nodes: int) -> int:
    """How many client threads work on one key together: two for each node, at least `THREADS_MIN`.

    A few more if the threads cannot be divided so; all of them if there are fewer.
    """
    groups = max(concurrency // max(2 * nodes, THREADS_MIN), 1)
    while concurrency % groups:
        groups -= 1
    return concurrency // groups


FINAL_READS: Final = 300
"""A few seconds' worth; of more keys an evenly spaced share is read."""


def final_reads(keys: int, f: str = "read", value: Any = None) -> Generator:
    """Reads of the keys 0 to `keys` - 1 after all faults: what was acknowledged must have survived.

    The keys are from the whole run, the last ones included, which lived through the last faults.

    Args:
        keys: how many.
        f: the function of the ops.
        value: of each of them.
    """
    return sequence(*(invoke(f, value, key=key) for key in _spread(keys)))


def _spread(keys: int) -> Sequence[str]:
    count = min(keys, FINAL_READS)
    return [str(keys - 1 - place * keys // count) for place in range(count)]


def keys_used(rate: float, time_limit_s: float, ops_per_key: int) -> int:
    """How many keys clients get to at most, when each takes `ops_per_key` ops."""
    return max(1, -(-int(rate * time_limit_s) // ops_per_key))


def readers_apart(threads: int, nodes: int, reads: Source, writes: Source) -> Generator:
    """On every node a thread that only reads; all other threads carry out `writes`.

    A node that is cut off answers no write, and a client that waits for an answer sends nothing else. A separate thread
    keeps reading there, and sees if the node still answers from its old state (Jepsen reserves readers for the same
    reason). With fewer than two threads for each node, all threads draw from both.
    """
    if threads < 2 * nodes:
        return mix(reads, writes)
    return reserve((nodes, reads), rest=writes)
