"""Live migration under load: how long it takes, the slowest operation, and how long no change is acknowledged.

    python benchmarks/migration.py [--backend docker|local] [--nodes 5] [--rate 50] [--concurrency 25]
                                   [--queues 1200] [--seconds 30] [--rounds 3]

A cluster is deployed with its entities in the tables, so many queues are declared, and clients of all nodes declare and
delete entities of every kind, and look at them, without faults. After a third of these ops a client asks for the
migration. Each round deploys anew.

Of each round, of the time before the request to migrate, and of the time from it until the load ends:

- the migration: from the request to the first answer of the tree;
- the window: the longest time in which no change of any client was acknowledged;
- the slowest change that was acknowledged, and how many were not done;
- what the checkers say of all answers.

The original for comparison, as `cluster.md` reports it: RabbitMQ 4.0.5 moved 1,244 declares under load in 8.6 s, the
slowest op took 0.55 s, and none was lost (M2K-4). That was another machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from splitbrain import run_and_judge
from splitbrain.harness.campaigns.compose import DEFAULTS, RunOptions, backend_of, compose
from splitbrain.harness.campaigns.judging import Conclusion
from splitbrain.harness.contract.generator import Context
from splitbrain.harness.contract.test import Test
from splitbrain.harness.generators import each, final, invoke, limit, mix, sequence
from splitbrain.results.calls import OPEN, cell, client_calls
from splitbrain.results.history import Op
from splitbrain.results.loaded import load
from splitbrain.workloads.migration import (
    DECLARE,
    DELETE,
    LOOK,
    SECOND_STORE,
    VALUES,
    VHOST,
    declared,
    deleted,
    in_the_end,
)

S: Final = 1e9
BEFORE: Final = 1 / 3
WEIGHTS: Final = (0.58, 0.4, 0.02)
"""Of declares, deletes and looks: the answer to a look has all entities in it."""


class Round(NamedTuple):
    """What one round came to; seconds, of changes that were acknowledged.

    Attributes:
        took: from the request to migrate until the tree gave an answer; None if it never did.
        changes: how many there were before the request.
        window: the longest time between two of them after the request.
        slowest: of those that ended after the request.
        window_before: as `window`, of those before.
        slowest_before: as `slowest`, of those before.
        not_done: changes that were refused, or whose outcome is unknown, after the request.
        outcome: what the checkers say.
    """

    took: float | None
    changes: int
    window: float
    slowest: float
    window_before: float
    slowest_before: float
    not_done: int
    outcome: str


def chosen(given: argparse.Namespace, seed: int) -> RunOptions:
    """The options of one round."""
    options = {
        **DEFAULTS,
        "backend": given.backend,
        "workload": "migration",
        "nemesis": "none",
        "nodes": str(given.nodes),
        "concurrency": str(given.concurrency),
        "rate": given.rate,
        "time_limit": given.seconds + given.queues / given.rate,
        "seed": seed,
    }
    return RunOptions.of(**options)


def composed(options: RunOptions, given: argparse.Namespace) -> Test:
    """The test of one round: first the queues, then the load, and the migration in between."""
    ops = round(given.seconds * given.rate)
    test = compose(options)
    queues = itertools.count()

    def queue(_: Context) -> Op:
        return invoke(DECLARE, ["queue", VHOST, f"m{next(queues)}", VALUES["queue"][0]])

    some = mix(
        declared,
        deleted,
        each(lambda _: invoke(LOOK)),
        weights=WEIGHTS,
    )
    workload = dataclasses.replace(
        test.workload,
        generator=sequence(
            limit(given.queues, each(queue)), limit(round(ops * BEFORE), some), limit(1, invoke("migrate")), some
        ),
        final_generator=sequence(in_the_end(), final(invoke(LOOK))),
        fs=(DECLARE, DELETE, LOOK, "migrate"),
    )
    return dataclasses.replace(test, workload=workload)


def measured(conclusion: Conclusion) -> Round:
    """The figures of one run."""
    history = load(conclusion.run).history
    calls = client_calls(history)
    asked = tree = math.inf
    changes: list[tuple[float, float]] = []
    others: list[float] = []
    for invoke_row, complete_row in zip(calls.invoke.tolist(), calls.complete.tolist(), strict=True):
        f, begun = cell(history, "f", invoke_row), cell(history, "time", invoke_row) / S
        if f == "migrate":
            asked = min(asked, begun)
        if complete_row == OPEN or cell(history, "type", complete_row) != "ok":
            others += [begun] if f in (DECLARE, DELETE) else []
            continue
        ended, value = cell(history, "time", complete_row) / S, cell(history, "value", complete_row)
        if isinstance(value, dict) and value["store"] == SECOND_STORE:
            tree = min(tree, ended)
        if f in (DECLARE, DELETE):
            changes.append((begun, ended))
    before = [each for each in changes if each[1] < asked]
    after = [each for each in changes if each[1] >= asked]
    return Round(
        took=None if tree == math.inf else tree - asked,
        changes=len(before),
        window=window(after),
        slowest=max(ended - begun for begun, ended in after),
        window_before=window(before),
        slowest_before=max(ended - begun for begun, ended in before),
        not_done=sum(begun >= asked for begun in others),
        outcome=str(conclusion.outcome.value),
    )


def window(changes: Sequence[tuple[float, float]]) -> float:
    """The longest time between the ends of two changes that follow each other."""
    answered = sorted(ended for _, ended in changes)
    return max(after - before for before, after in itertools.pairwise(answered))


HEAD: Final = (
    "round",
    "changes before",
    "migration s",
    "window s",
    "slowest s",
    "before: window s",
    "slowest s",
    "not done",
    "verdict",
)


def table(rounds: Sequence[Round]) -> list[str]:
    """A line for each round, and the medians, as Markdown."""
    lines = [f"| {' | '.join(HEAD)} |", f"| {' | '.join('---' for _ in HEAD)} |"]
    for number, one in enumerate(rounds, 1):
        took = "not in time" if one.took is None else f"{one.took:.2f}"
        lines.append(
            f"| {number} | {one.changes:,} | {took} | {one.window:.2f} | {one.slowest:.2f} "
            f"| {one.window_before:.2f} | {one.slowest_before:.2f} | {one.not_done} | {one.outcome} |"
        )
    ended = [one.took for one in rounds if one.took is not None]
    took = f"{statistics.median(ended):.2f}" if ended else ""
    medians = [statistics.median(each) for each in zip(*(one[2:6] for one in rounds), strict=True)]
    lines.append(f"| median | | {took} | {' | '.join(f'{each:.2f}' for each in medians)} | | |")
    return lines


def main() -> None:
    """Measure all rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="docker", choices=("docker", "local"))
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--concurrency", type=int, default=25)
    parser.add_argument("--queues", type=int, default=1200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rounds: list[Round] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, given.rounds + 1):
            options = chosen(given, seed)
            conclusion = run_and_judge(composed(options, given), backend_of(options), Path(folder))
            rounds.append(measured(conclusion))
            print(rounds[-1], file=sys.stderr, flush=True)
    print("\n".join(table(rounds)))


if __name__ == "__main__":
    main()
