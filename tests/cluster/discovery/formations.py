"""Simulated formations of five nodes under faults, so many with each backend, and a table of what came of them.

usage: python -m tests.cluster.discovery.formations [NUMBER [BUG]]

In each run the service is slow, incomplete and down, links are cut, and nodes die, those that have the lock or have
just founded among them (`test_formation_simulated.faults`). Exits with 1 if there were two clusters anywhere, or a node
in none that did not say why.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.cluster.discovery.test_formation_simulated import faults
from tests.cluster.discovery.towns import KINDS, Kind, Town, play


def ended(town: Town) -> str:
    """How a run ended, in words."""
    size = max(len(town.members(name)) for name in town.names)
    return f"{size} nodes" if size else "no cluster, and said why"


def of_kind(kind: Kind, number: int, bugs: Sequence[str]) -> bool:
    """Play the runs of one backend, and print a line; whether all was well."""
    began_s = time.process_time()
    ends: Counter[str] = Counter()
    wrong: dict[int, list[str]] = {}
    gave_up = 0
    for seed in range(1, number + 1):
        town = play(faults, seed, kind, bugs)
        if town.problems():
            wrong[seed] = town.problems()
        ends[ended(town)] += 1
        gave_up += any(town.failure(name) is not None for name in town.names)
    sizes = ", ".join(f"{count} x {words}" for words, count in sorted(ends.items(), reverse=True))
    cpu_s = time.process_time() - began_s
    print(f"| {kind} | {number} | {len(wrong)} | {sizes} | {gave_up} | {cpu_s:.1f} |", flush=True)
    for seed, problems in list(wrong.items())[:3]:
        print(f"seed {seed}: {'; '.join(problems)}", file=sys.stderr)
    return not wrong


def main(words: Sequence[str]) -> int:
    """Play them all; the exit code."""
    number, bugs = int(words[0]) if words else 200, words[1:]
    print("| backend | runs | wrong | members in the end | runs in which a node had given up at the end | CPU s |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    return max([int(not of_kind(kind, number, bugs)) for kind in KINDS])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
