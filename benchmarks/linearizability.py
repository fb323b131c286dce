"""How fast histories are judged, beside Porcupine: `python benchmarks/linearizability.py --porcupine CHECKOUT`.

The rows are fixed (`linearizability_histories` makes them from a seed): registers of one key, many keys, crashed ops,
queues and stacks. Each history is one file of JSON lines that both engines read. Both run here, one after the other,
each in processes of its own, Porcupine with GOMAXPROCS=1. Without `--porcupine` its columns stay empty.

    verdict s   CPU seconds until the answer is known: ours as the verdict has it (`seconds`), Porcupine's of its check
    judging s   ours alone: CPU seconds of all that the library does with the columns of the file, with the failing
                prefix and the witness of a violation
    check MiB   by how much the memory grew while it judged
    whole       CPU seconds, wall seconds and peak memory of the whole process, `splitbrain check` in our case

The checks are measured in a process that has loaded the compiled kernels, as a hunt and `splitbrain analyze` have: what
it costs to start one is in the whole processes alone, which judge small histories without those kernels.

`>` marks an engine that had no answer after 30 CPU seconds; it counts as 30 s. Porcupine's runner stops at that.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.linearizability_histories import (
    Container,
    Event,
    Registers,
    Strings,
    Thing,
    history,
    lines,
    never_written,
    swapped_answers,
    swapped_texts,
)
from benchmarks.porcupine_runner import Porcupine, Process, measured

TIMEOUT_S: Final = 30.0
SMALL: Final = 2_000
"""The largest number of ops of the rows that `--quick` keeps."""

Spoil = Callable[[Sequence[Event]], list[Event]]


@dataclass(frozen=True)
class Row:
    """A history: what it is called, the model, and how it is made."""

    name: str
    model: str
    thing: Callable[[], Thing]
    clients: int
    ops: int
    crashes: float = 0.0
    bad: Spoil | None = None

    def write(self, path: Path, seed: int) -> None:
        """Make the history."""
        made = history(self.thing(), clients=self.clients, ops=self.ops, seed=seed, crashes=self.crashes)
        path.write_bytes(lines(self.bad(made) if self.bad is not None else made))


@dataclass(frozen=True)
class Published:
    """A history of Porcupine's own tests, from its checkout."""

    name: str
    source: Path
    model: str = "kv"
    ops: int = 2_024
    bad: bool = True

    def write(self, path: Path, seed: int) -> None:
        """The same history as JSON lines."""
        from splitbrain.results.formats import read_history

        ops = read_history(self.source, "porcupine")
        path.write_bytes(lines([Event(op.process, op.type, op.f, op.value, op.key) for op in ops]))


def _swapped(f: str, apart: int) -> Spoil:
    return lambda made: swapped_answers(made, f, apart)


def _rows(checkout: Path | None) -> Iterator[Row | Published]:
    for clients, ops in ((5, 1_000), (5, 10_000), (10, 1_000), (10, 10_000), (10, 100_000), (20, 10_000), (40, 10_000)):
        yield from _both("register", "cas-register", lambda: Registers(5), clients, ops, never_written)
    yield Row("register, 1,000 values", "cas-register", lambda: Registers(1_000), 40, 100_000)
    yield from _both("50 registers", "cas-register", lambda: Registers(5, keys=50), 50, 50_000, never_written)
    yield from _both("10 strings", "kv", lambda: Strings(10), 50, 2_000, swapped_texts)
    if checkout is not None:
        yield Published("Porcupine's c50-ok", checkout / "test_data/kv/c50-ok.txt", ops=1_712, bad=False)
        yield Published("Porcupine's c50-bad", checkout / "test_data/kv/c50-bad.txt")
    for clients, ops, crashes in ((10, 1_000, 0.05), (10, 10_000, 0.03), (40, 10_000, 0.03), (20, 100_000, 0.03)):
        yield from _both("register", "cas-register", lambda: Registers(5), clients, ops, never_written, crashes)
    yield Row("register", "cas-register", lambda: Registers(5), 40, 100_000, 0.03)
    fifo, stack = _swapped("dequeue", 15), _swapped("pop", 15)
    yield from _both("queue, unique", "fifo-queue", lambda: Container(None), 10, 1_000, fifo)
    yield from _both("queue, unique", "fifo-queue", lambda: Container(None), 10, 400, fifo, 0.05)
    yield from _both("queue, 3 values", "fifo-queue", lambda: Container(3), 5, 200, _swapped("dequeue", 5))
    yield from _both("queue, 3 values", "fifo-queue", lambda: Container(3), 10, 400, fifo)
    yield from _both("stack, unique", "stack", lambda: Container(None, stack=True), 10, 400, stack, 0.05)
    # Of ten clients, few values and a stack there is an order for almost any answers: exchanges do not make it wrong.
    yield Row("stack, 3 values", "stack", lambda: Container(3, stack=True), 10, 400)
    yield from _both("stack, 3 values", "stack", lambda: Container(3, stack=True), 5, 400, _swapped("pop", 10))


def _both(
    name: str, model: str, thing: Callable[[], Thing], clients: int, ops: int, bad: Spoil, crashes: float = 0.0
) -> Iterator[Row]:
    yield Row(name, model, thing, clients, ops, crashes)
    yield Row(name, model, thing, clients, ops, crashes, bad)


@dataclass(frozen=True)
class Check:
    """What an engine said of a history, and what it cost.

    Attributes:
        valid: its answer; None if it had none.
        verdict_s, judging_s, wall_s, mib: of the check.
        whole: of the process.
    """

    valid: bool | None
    verdict_s: float
    judging_s: float
    wall_s: float
    mib: float
    whole: Process


def ours(model: str, path: Path) -> Check:
    """`splitbrain check` as a whole process, and the check alone in another."""
    limit = ["--time-limit", f"{TIMEOUT_S:g}"]
    program = [sys.executable, "-c", "from splitbrain.harness.cli.main import main; main()"]
    command = [*program, "check", "--no-picture", "--json", "--model", model, *limit, str(path)]
    whole = measured(command, 10 * TIMEOUT_S)
    alone = json.loads(measured([sys.executable, __file__, "--judge", model, str(path)], 10 * TIMEOUT_S).output)
    answer = {"true": True, "false": False, "unknown": None}[str(json.loads(whole.output)[0]["valid"]).lower()]
    return Check(answer, alone["verdict_s"], alone["judging_s"], alone["wall_s"], alone["mib"], whole)


def judged_here(model: str, path: Path) -> dict[str, float]:
    """Judge a file in this process, with all kernels compiled and loaded before it is measured, as a hunt has them."""
    from splitbrain.checkers.engine import judge
    from splitbrain.checkers.verdict import CheckerSpec
    from splitbrain.harness.campaigns.warm import warm_up
    from splitbrain.results.formats import read_table

    table = read_table(path)
    spec = CheckerSpec("linearizable", {"model": model, "time_limit_s": TIMEOUT_S})
    warm_up()
    judge(table.slice(0, 2), [CheckerSpec("linearizable", {"model": model})])
    held = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    began, wall = time.process_time(), time.monotonic()
    [verdict] = judge(table, [spec])
    spent, took = time.process_time() - began, time.monotonic() - wall
    grown = (_memory("VmHWM") - held) / 1024
    return {"verdict_s": verdict.seconds, "judging_s": spent, "wall_s": took, "mib": grown}


def _memory(name: str) -> int:
    """A figure of this process's memory, in KiB: VmRSS now, VmHWM at its peak since that was cleared."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(name))


def theirs(peer: Porcupine, model: str, path: Path) -> Check:
    """Porcupine's answer."""
    whole, said = peer.judge(model, path, TIMEOUT_S)
    valid = {"Ok": True, "Illegal": False}.get(said["answer"])
    return Check(valid, said["cpu_s"], said["cpu_s"], said["wall_s"], said["mib"], whole)


def compare(rows: Sequence[Row | Published], peer: Porcupine | None, seed: int) -> None:
    """Print a row for each history, then what they come to."""
    _say("history", "clients", "ops", "crashed", "", "verdict s", "judging s", "check wall s", "check MiB",
         "whole CPU s", "whole wall s", "whole MiB", "Porcupine: check s", "check wall s", "check MiB",
         "whole CPU s", "whole wall s", "whole MiB", "ratio of verdict s", "of whole CPU s")  # fmt: skip
    _say(*["---"] * 20)
    pairs: list[tuple[str, Check, Check]] = []
    undecided: list[str] = []
    for row in rows:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "history.jsonl"
            row.write(path, seed)
            found = ours(row.model, path)
            other = theirs(peer, row.model, path) if peer is not None else None
        title = _title(row)
        for engine, check in (("ours", found), ("Porcupine", other)):
            if check is not None and check.valid is not None and check.valid != (not row.bad):
                raise SystemExit(f"wrong: {engine} says {check.valid} of {title}")
        if found.valid is None:
            undecided.append(title)
        _say(
            *_described(row),
            *_cells(found, judging=True),
            *(_cells(other) if other else [""] * 6),
            *_ratios(found, other),
        )
        if other is not None:
            pairs.append((title, found, other))
    _sum_up(pairs, undecided)


def _title(row: Row | Published) -> str:
    clients, ops, crashes = _described(row)[1:4]
    return f"{row.name}, {clients} clients, {ops} ops, {crashes or 'none'} crashed, {'bad' if row.bad else 'ok'}"


def _described(row: Row | Published) -> list[str]:
    clients, crashes = (50, 0.0) if isinstance(row, Published) else (row.clients, row.crashes)
    return [row.name, str(clients), f"{row.ops:,}", f"{crashes:.0%}" if crashes else "", "bad" if row.bad else "ok"]


def _cells(check: Check, *, judging: bool = False) -> list[str]:
    mark = ">" if check.valid is None else ""
    whole = check.whole
    return [
        f"{mark}{check.verdict_s:.4f}",
        *([f"{check.judging_s:.3f}"] if judging else []),
        f"{check.wall_s:.3f}",
        f"{check.mib:,.0f}",
        f"{whole.cpu_s:.2f}",
        f"{whole.wall_s:.2f}",
        f"{whole.peak_mib:,.0f}",
    ]


def _ratios(found: Check, other: Check | None) -> list[str]:
    return (
        ["", ""] if other is None else [f"{_ratio(found, other):,.2f}", f"{other.whole.cpu_s / found.whole.cpu_s:,.2f}"]
    )


def _seconds(check: Check) -> float:
    return TIMEOUT_S if check.valid is None else max(check.verdict_s, 1e-6)


def _ratio(found: Check, other: Check) -> float:
    return _seconds(other) / _seconds(found)


def _sum_up(pairs: Sequence[tuple[str, Check, Check]], undecided: Sequence[str]) -> None:
    write = sys.stdout.write
    write(f"\nUndecided by us after {TIMEOUT_S:g} s: {'; '.join(undecided) or 'none'}.\n")
    if not pairs:
        return
    both = [(found, other) for _, found, other in pairs if None not in (found.valid, other.valid)]
    write(f"Geometric mean of the ratios of verdict seconds, {len(pairs)} rows: {_mean(pairs):,.0f}.\n")
    write(f"Over the {len(both)} rows that both finish: {_mean([('', *pair) for pair in both]):,.0f}.\n")
    slow = [(title, found, other) for title, found, other in pairs if other.whole.cpu_s > 1]
    behind = [title for title, found, other in slow if found.whole.cpu_s >= other.whole.cpu_s]
    write(
        f"Porcupine's whole process needs more than 1 CPU s in {len(slow)} rows; ours needs as much or more in: "
        f"{'; '.join(behind) or 'none of them'}.\n"
    )


def _mean(pairs: Sequence[tuple[str, Check, Check]]) -> float:
    return statistics.geometric_mean([_ratio(found, other) for _, found, other in pairs]) if pairs else math.nan


def _say(*cells: object) -> None:
    sys.stdout.write("| " + " | ".join(str(cell) for cell in cells) + " |\n")
    sys.stdout.flush()


def main() -> None:
    """Print the table, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--porcupine", metavar="CHECKOUT", type=Path, help="a checkout of Porcupine's source; needs Go")
    parser.add_argument("--quick", action="store_true", help=f"rows of at most {SMALL:,} ops")
    parser.add_argument("--only", metavar="TEXT", help="rows whose name contains the text")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judge", nargs=2, metavar=("MODEL", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.judge:
        model, path = arguments.judge
        sys.stdout.write(json.dumps(judged_here(model, Path(path))))
        return
    rows: list[Any] = [row for row in _rows(arguments.porcupine) if not arguments.quick or row.ops <= SMALL]
    rows = [row for row in rows if arguments.only is None or arguments.only in _title(row)]
    compare(rows, Porcupine(arguments.porcupine) if arguments.porcupine else None, arguments.seed)


if __name__ == "__main__":
    main()
