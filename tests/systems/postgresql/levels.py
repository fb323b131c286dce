"""What each level of PostgreSQL shows to the checkers, and what a failover loses: runs of 30 s on this machine.

usage: python -m tests.systems.postgresql.levels [RUNS]        so many runs of each, 5 unless given; 45 s each
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from splitbrain.harness.systems.postgresql.settings import PROMISES
from tests.cli.support import answer, splitbrain

SECONDS: Final = 30

LOSING: Final = ("--nodes", "3", "--read-mode", "serializable", "--workload", "set", "--nemesis", "partition-leader")
"""Asynchronous replication: a primary that is cut off goes on, and a standby is promoted."""


def run(store: Path, *options: str, seconds: float = SECONDS) -> Any:
    """What a run of PostgreSQL on this machine answers."""
    words = ["run", "--json", "--system", "postgresql", "--engine", "inline", "--store", str(store), *options]
    return answer(splitbrain(*words, "--time-limit", str(seconds)))


def at_level(store: Path, level: str, workload: str, *, seconds: float = SECONDS) -> Any:
    """What a run without faults at a level answers."""
    load = ("--nodes", "1", "--concurrency", "10", "--rate", "200", "--nemesis", "none")
    return run(store, "--isolation", level, "--workload", workload, *load, seconds=seconds)


def shown(found: Any, workload: str) -> list[str]:
    """The anomalies that the checker of transactions saw, whether or not the level allows them."""
    [verdict] = [each for each in found["verdicts"] if each["checker"] == workload]
    return sorted({*verdict["anomalies"], *verdict["evidence"].get("tolerated", [])})


def lost(found: Any) -> str:
    """What the checker of sets says of a run."""
    [verdict] = [each for each in found["verdicts"] if each["checker"] == "set"]
    return verdict["sentence"]


def main(arguments: Sequence[str]) -> None:
    """Print a line for each run."""
    count = int(arguments[0]) if arguments else 5
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        for level in PROMISES:
            for number in range(count):
                workload = ("list-append", "rw-register")[number % 2]
                found = at_level(store, level, workload)
                print(f"{level:16} {workload:12} {found['outcome']:12} {', '.join(shown(found, workload)) or 'none'}")
        for _ in range(count):
            found = run(store, *LOSING, "--interval", "8")
            print(f"{'asynchronous':16} {'set':12} {found['outcome']:12} {lost(found)}")


if __name__ == "__main__":
    main(sys.argv[1:])
