"""Every way to judge a history must agree with the definition, on any number of small random histories.

    python -m tests.checkers.linearizable.agreement --histories 1000000

The definition (brute force over all orders, on models that were written a second time: `independent`) judges beside
the frontier, the frontier on a model whose kind it cannot see, the second arm, the portfolio, and whichever specialised
decider says that its preconditions hold. A disagreement is printed with its seed and its history.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

import msgspec

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import warm_up
from splitbrain.checkers.linearizable.deciders import decide
from splitbrain.checkers.linearizable.depth_first import DepthFirst
from splitbrain.checkers.linearizable.encoding import events
from splitbrain.checkers.linearizable.ops import read_ops
from splitbrain.checkers.linearizable.portfolio import search
from splitbrain.checkers.linearizable.prechecks import refuted
from splitbrain.checkers.linearizable.search import Limits, Result, Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import Model
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op
from tests.checkers.linearizable import independent
from tests.checkers.linearizable.small_histories import VOCABULARIES, small_history
from tests.checkers.linearizable.support import Table

CHUNK = 500
LIMITS = Limits(time_s=60.0)


@dataclass
class Tally:
    """What was compared, by vocabulary, and what disagreed."""

    verdicts: Counter[tuple[str, str, bool]] = field(default_factory=Counter[tuple[str, str, bool]])
    crashed: int = 0
    disagreements: list[str] = field(default_factory=list[str])

    def add(self, other: Tally) -> None:
        """Take in what another process compared."""
        self.verdicts.update(other.verdicts)
        self.crashed += other.crashed
        self.disagreements += other.disagreements

    def judged(self, name: str, judge: str) -> tuple[int, int]:
        """Valid and invalid histories of a vocabulary that a judge has judged."""
        return self.verdicts[name, judge, True], self.verdicts[name, judge, False]


def judgements(history: Sequence[Op], model: Model) -> Iterator[tuple[str, bool | str]]:
    """Who says what of a history; a text where a judge has no answer."""
    ops = read_ops(to_table(list(history)), model)
    stepper = Stepper(model, ops.transitions, cells=LIMITS.cells)
    yield "frontier", _answer(Search(events(ops, stepper.observer), stepper, LIMITS).run())
    hidden = Stepper(Table(model), ops.transitions, cells=LIMITS.cells)
    yield "frontier, tabulated", _answer(Search(events(ops, hidden.observer), hidden, LIMITS).run())
    yield "depth-first", _answer(_depth_first(DepthFirst(ops, hidden, LIMITS)))
    yield "portfolio", _answer(search(ops, stepper, LIMITS))
    decided = decide(ops, model)
    if decided is not None:
        algorithm, decision = decided
        yield algorithm, decision.valid
    found = refuted(ops, model)
    if found is not None:
        yield found[0], found[1].valid


def _depth_first(arm: DepthFirst) -> Result:
    while (result := arm.advance(1.0)) is None:
        pass
    return result


def _answer(result: Result) -> bool | str:
    return {"linearizable": True, "violation": False}.get(result.answer, result.answer)


def compare(name: str, seed: int, tally: Tally) -> None:
    """Judge the history of a seed by everybody."""
    vocabulary = VOCABULARIES[name]
    history = small_history(random.Random(f"{name} number {seed}"), vocabulary)
    model = models.model(vocabulary.model)
    legal = independent.legal(vocabulary.model, history)
    tally.verdicts[name, "definition", legal] += 1
    tally.crashed += any(op.type == "info" for op in history)
    for judge, answer in judgements(history, model):
        if isinstance(answer, bool):
            tally.verdicts[name, judge, answer] += 1
        if answer is not legal:
            lines = "\n".join(f"    {msgspec.json.encode(op).decode()}" for op in history)
            tally.disagreements.append(f"{name}, seed {seed}: {judge} says {answer}, the definition {legal}\n{lines}")


def compared(chunk: tuple[int, int]) -> Tally:
    """Histories from the first number to before the last, vocabularies in turn; a new one leaves the others' alone."""
    tally = Tally()
    names = list(VOCABULARIES)
    for number in range(*chunk):
        compare(names[number % len(names)], number // len(names), tally)
    return tally


def run(histories: int, seed: int, processes: int) -> Iterator[Tally]:
    """What was compared so far, after each chunk."""
    warm_up()
    chunks = [(at, min(at + CHUNK, seed + histories)) for at in range(seed, seed + histories, CHUNK)]
    total = Tally()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for tally in pool.map(compared, chunks):
            total.add(tally)
            yield total


def table(tally: Tally) -> Iterator[str]:
    """Valid and invalid histories by vocabulary and judge, as Markdown."""
    common = ("definition", "frontier", "frontier, tabulated", "depth-first", "portfolio")
    yield "| histories | valid | invalid | decided specially: valid | invalid | by |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name in VOCABULARIES:
        valid, invalid = tally.judged(name, "definition")
        special = sorted({judge for of, judge, _ in tally.verdicts if of == name and judge not in common})
        decided = [sum(tally.verdicts[name, judge, answer] for judge in special) for answer in (True, False)]
        yield f"| {name} | {valid} | {invalid} | {decided[0]} | {decided[1]} | {', '.join(special)} |"


def main(arguments: Iterable[str] | None = None) -> int:
    """Compare, with progress; the exit code is 1 if anything disagreed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed; every history has one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    began = time.monotonic()
    tally, done = Tally(), 0
    for tally in run(chosen.histories, chosen.seed, chosen.processes):
        done = min(done + CHUNK, chosen.histories)
        rate = done / (time.monotonic() - began)
        sys.stderr.write(
            f"\r{done} of {chosen.histories} histories, {rate:.0f} a second, {len(tally.disagreements)} bad "
        )
        sys.stderr.flush()
    sys.stderr.write("\n")
    sys.stdout.write("\n".join(table(tally)) + "\n")
    sys.stdout.write(f"{done} histories, {tally.crashed} with crashed ops, {len(tally.disagreements)} disagreements\n")
    for each in tally.disagreements[:20]:
        sys.stdout.write(each + "\n")
    return 1 if tally.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
