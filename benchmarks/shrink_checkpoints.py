"""Whether shrinking would gain by checkpoints of the simulation: `python benchmarks/shrink_checkpoints.py`.

usage: shrink_checkpoints.py [--bugs M02,M09,...] [--budget 15]

A candidate of a shrinking search does the same as the best plan so far until the first op or fault in which they
differ. With a checkpoint just before, its run could begin there. This measures both sides of such a trade:

    shared       the share of all simulated time that lies before that first difference: of candidates that only end
                 earlier, and of all others
    simulating   the share of a candidate's CPU time that its simulation takes; the rest composes and judges, and no
                 checkpoint saves that
    fork_ms      a checkpoint that needs no support by the code is a process that waits: the CPU time of a fork of a
                 simulation that is under way; and of the rest of the run in its child, which copies pages, and without

Each bug is hunted with the default draw until its first violation, which is then shrunk. One line of JSON for each, and
a last one for all.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns import planned, shrinking
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.hunting.trial import carry_out
from splitbrain.harness.campaigns.swarm import asked_for, draw
from splitbrain.harness.campaigns.warm import warm_up
from splitbrain.harness.running.plan import Plan, encode, plan_of
from splitbrain.harness.running.simulate import simulate
from splitbrain.nemesis import shrink
from splitbrain.results.history import Op

BUGS: Final = ("M02", "M09", "M19", "M22", "M27", "M33")
SEEDS_MOST: Final = 60
ENDING: Final = "end of the run"
SAMPLED: Final = 10
"""Of so many candidates one is played again, to see where its time goes."""


def failing(bug: str) -> RunOptions:
    """The first drawn test that finds a bug.

    Raises:
        SystemExit: none of many does.
    """
    asked = asked_for(
        workload=None, nemesis=None, nodes=None, system="metadata", bug=bug, world="swarm", consistency_model=""
    )
    for seed in range(1, SEEDS_MOST + 1):
        options = draw(seed, asked)
        if carry_out(options).outcome is Outcome.VIOLATION:
            return options
    raise SystemExit(f"{bug}: none of {SEEDS_MOST} drawn tests finds it")


def differ_ns(one: Plan, other: Plan) -> int:
    """When two plans do something else for the first time, in nanoseconds of the run; 0 if they never do the same."""
    if one.nodes != other.nodes or one.placement != other.placement or one.options != other.options:
        return 0
    ends_ns = min(one.end_ns, other.end_ns)
    for ours, theirs in ((one.ops, other.ops), (one.faults, other.faults)):
        at = next((at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
        at = min(len(ours), len(theirs)) if at is None else at
        ends_ns = min([ends_ns, *(each.at_ns for each in (*ours[at : at + 1], *theirs[at : at + 1]))])
    return ends_ns


class Shared:
    """What candidates have in common with the best plan at that moment."""

    def __init__(self) -> None:
        self.candidates = 0
        self.total_ns = 0
        self.shared_ns = 0

    def note(self, best: Plan, candidate: Plan) -> None:
        """Count a candidate."""
        self.candidates += 1
        self.total_ns += candidate.end_ns
        self.shared_ns += differ_ns(best, candidate)

    def row(self) -> dict[str, float]:
        """For the output; times in seconds of simulations."""
        share = self.shared_ns / self.total_ns if self.total_ns else 0.0
        return {"candidates": self.candidates, "simulated_s": round(self.total_ns / 1e9, 1), "shared": round(share, 3)}


class Search:
    """The candidates of one search."""

    def __init__(self) -> None:
        self.ending = Shared()
        self.others = Shared()
        self.sample: list[Plan] = []

    def note(self, doing: str, best: Plan, candidate: Plan) -> None:
        """Count a candidate."""
        (self.ending if doing == ENDING else self.others).note(best, candidate)
        if (self.ending.candidates + self.others.candidates) % SAMPLED == 0:
            self.sample.append(candidate)


@contextlib.contextmanager
def noting(found: Search) -> Generator[None]:
    """Count the candidates of the searches within."""
    searching: Any = shrink._Search  # pyright: ignore[reportPrivateUsage]
    first: Callable[[Any, Iterator[Plan | None]], int | None] = searching._first

    def noted(search: Any, candidates: Iterator[Plan | None]) -> int | None:
        judge: Callable[[Iterator[Plan]], Plan | None] = search._judge
        best = search.best

        def seen(given: Iterator[Plan]) -> Iterator[Plan]:
            for candidate in given:
                found.note(search._doing, best, candidate)
                yield candidate

        def noting_judge(given: Iterator[Plan]) -> Plan | None:
            return judge(seen(given))

        search._judge = noting_judge
        try:
            return first(search, candidates)
        finally:
            search._judge = judge

    searching._first = noted
    try:
        yield
    finally:
        searching._first = first


def shrunk(options: RunOptions, budget_s: float) -> tuple[Search, float]:
    """The candidates of a shrinking search, and how many CPU seconds the search took."""
    test = compose(options)
    plan = plan_of(simulate(test).ops, test)
    failure = shrinking.Failure(shrinking.for_simulation(plan, "benchmark"), (), "benchmark")
    found, before_s = Search(), _of_children_s()
    with noting(found):
        shrinking.smallest(failure, jobs=1, budget_s=budget_s, go_on=lambda: True, show=lambda _: None)
    return found, _of_children_s() - before_s


def simulating(sample: Sequence[Plan]) -> float:
    """The share of CPU time that simulations take, of plans that are played."""
    simulated_s, all_s = 0.0, 0.0
    for plan in sample:
        options = shrinking.options_of(plan.options, "benchmark")
        began_s = time.process_time()
        planned.play(planned.Task(0, options, encode(plan)))
        all_s += time.process_time() - began_s
        test = planned.test_of(options, plan)
        began_s = time.process_time()
        simulate(test, world=options.world)
        simulated_s += time.process_time() - began_s
    return simulated_s / all_s if all_s else 0.0


def _of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Halves:
    """Notes when half of a run's ops are there, and copies the process there if asked."""

    def __init__(self, half: int, *, forks: bool) -> None:
        self._left = half
        self._forks = forks
        self.fork_s = 0.0
        self.began_s = 0.0
        self.is_copy = False

    def __call__(self, _op: Op) -> None:
        """One op more."""
        self._left -= 1
        if self._left:
            return
        if self._forks:
            loop = asyncio.get_running_loop()
            before_s = time.process_time()
            child = os.fork()
            self.fork_s = time.process_time() - before_s
            self.is_copy = child == 0
            if child:
                os.waitpid(child, 0)
            else:
                asyncio._set_running_loop(loop)  # it is noted by the process: a copy has none
        self.began_s = time.process_time()


def copied(options: RunOptions) -> tuple[float, float, float]:
    """CPU seconds: of a fork at half of a run, of the other half without one, and in the child of one."""
    test = compose(options)
    half = len(simulate(test).ops) // 2
    alone = Halves(half, forks=False)
    simulate(test, observe=alone)
    alone_s = time.process_time() - alone.began_s
    reading, writing = os.pipe()
    forked = Halves(half, forks=True)
    ended = simulate(test, observe=forked)
    assert ended.failure is None, ended.failure
    if forked.is_copy:
        os.close(reading)
        os.write(writing, f"{time.process_time() - forked.began_s}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        return forked.fork_s, alone_s, float(pipe.read())


def main() -> None:
    """Measure one bug after the other."""
    parser = argparse.ArgumentParser(usage=(__doc__ or "").partition("usage: ")[2].partition("\n\n")[0])
    parser.add_argument("--bugs", default=",".join(BUGS))
    parser.add_argument("--budget", type=float, default=15.0)
    given = parser.parse_args()
    warm_up()
    rows: list[dict[str, Any]] = []
    for bug in given.bugs.split(","):
        options = failing(bug)
        fork_s, alone_s, child_s = copied(options)
        found, cpu_s = shrunk(options, given.budget)
        rows.append(
            {
                "bug": bug,
                "cpu_s": round(cpu_s, 1),
                "ending": found.ending.row(),
                "others": found.others.row(),
                "simulating": round(simulating(found.sample), 3),
                "fork_ms": round(1_000 * fork_s, 1),
                "half_run_s": round(alone_s, 2),
                "half_run_in_a_copy_s": round(child_s, 2),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    print(json.dumps({part: _together([row[part] for row in rows]) for part in ("ending", "others")}))


def _together(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    simulated_s = sum(part["simulated_s"] for part in parts)
    shared_s = sum(part["simulated_s"] * part["shared"] for part in parts)
    return {
        "candidates": sum(part["candidates"] for part in parts),
        "simulated_s": round(simulated_s, 1),
        "shared": round(shared_s / simulated_s, 3) if simulated_s else 0.0,
    }


if __name__ == "__main__":
    main()
