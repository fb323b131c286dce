"""What crashed ops cost: `python benchmarks/crashed_ops.py`.

One cas-register of five values; the part of the ops that crashed may have taken effect at any later moment. "Never
written" is a history with a read at 90 % of a value that no op wrote; "stale" has a read, as late as one is found, of
a value that was written but cannot have been there then. CPU seconds are those of the verdict, median and worst of
several seeds; "judging" is all that the library does, failing prefix and witness included.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.linearizability_histories import Event, Registers, history, never_written
from splitbrain.checkers.linearizable import check_ops
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.history import Op

VALUES: Final = 5
ROWS: Final = (
    (10, 1_000, 0.05),
    (10, 3_000, 0.02),
    (10, 10_000, 0.05),
    (40, 10_000, 0.03),
    (10, 100_000, 0.03),
    (20, 100_000, 0.03),
    (40, 100_000, 0.03),
)
"""Clients, ops, part of the ops that crash."""

LIMIT_S: Final = 30.0


def judged(made: Sequence[Event]) -> tuple[Verdict, float]:
    """The verdict, and the CPU seconds of all that it took."""
    ops = [Op(process=event.process, type=event.type, f=event.f, value=event.value) for event in made]  # pyright: ignore[reportArgumentType]
    began = time.process_time()
    verdict = check_ops(ops, "cas-register", time_limit_s=LIMIT_S)
    return verdict, time.process_time() - began


def stale(made: Sequence[Event]) -> list[Event] | None:
    """The history with a read changed to a value that cannot have been there; None where none is found.

    That it cannot is what a verdict on the history up to there says. Two reads are tried at each of some places.
    """
    changed = list(made)
    for part in (0.8, 0.4, 0.2, 0.1, 0.05, 0.02):
        places = [at for at in range(int(len(made) * part), len(made)) if (made[at].f, made[at].type) == ("read", "ok")]
        for at in places[:2]:
            for value in range(VALUES):
                changed[at] = msgspec.structs.replace(made[at], value=value)
                if judged(changed[: at + 1])[0].valid == "false":
                    return changed
            changed[at] = made[at]
    return None


def row(clients: int, ops: int, crashes: float, seeds: int) -> None:
    """Print the lines of one size."""
    valid = [history(Registers(VALUES), clients=clients, ops=ops, seed=seed, crashes=crashes) for seed in range(seeds)]
    kinds: dict[str, list[list[Event]]] = {"ok": valid, "never written": [never_written(each) for each in valid]}
    if ops <= 10_000:
        kinds["stale"] = [each for each in map(stale, valid) if each is not None]
    for kind, histories in kinds.items():
        found = [judged(each) for each in histories]
        if not found:
            continue
        expected = "true" if kind == "ok" else "false"
        wrong = [verdict.sentence for verdict, _ in found if verdict.valid not in (expected, "unknown")]
        if wrong:
            raise SystemExit(f"wrong: {clients} clients, {ops} ops, {crashes}, {kind}: {wrong[0]}")
        seconds = [verdict.seconds for verdict, _ in found]
        _say(
            clients,
            f"{ops:,}",
            f"{crashes:.0%}",
            kind,
            len(found),
            sum(verdict.valid == "unknown" for verdict, _ in found),
            f"{statistics.median(seconds):.3f}",
            f"{max(seconds):.3f}",
            f"{statistics.median(spent for _, spent in found):.2f}",
        )


def _say(*cells: Any) -> None:
    sys.stdout.write("| " + " | ".join(str(cell) for cell in cells) + " |\n")
    sys.stdout.flush()


def main() -> None:
    """Print the table, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="histories of at most 10,000 ops")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    judged(history(Registers(VALUES), clients=5, ops=100, seed=0))
    _say(
        "clients", "ops", "crashed", "history", "seeds", "undecided", "verdict s, median", "worst", "judging s, median"
    )
    _say(*["---"] * 9)
    for clients, ops, crashes in ROWS:
        if not arguments.quick or ops <= 10_000:
            row(clients, ops, crashes, arguments.seeds)


if __name__ == "__main__":
    main()
