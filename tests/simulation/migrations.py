"""Many simulated migrations, each with a fault at one step: `python -m tests.simulation.migrations COUNT [FIRST]`.

FIRST is the seed of the first run, 1 by default; each further run has the next seed. In each run clients of three or
five nodes declare, delete and look at entities, and ask for the migration. One fault is injected at a step of the
migration, or of the controller that changes its feature flag: a node is killed, loses its power, is paused, is cut off,
or finds its disk full. Seeds that follow each other take the steps in turn, then the faults, then the numbers of nodes,
so that all of them are hit equally often. After the fault is healed, each client looks at all entities before a client
asks for the migration again: these looks show on which store the migration ended. Then the migration is carried out,
and each client looks once more.

The tick time of the tables is longer than any fault: a longer partition loses what they acknowledged, with or without a
migration (MN-9), and would hide what the migration loses. Hunts of the workload have both.

No nemesis fills a disk at a moment. So the run is simulated twice: first with a pause at the step, which says when
which node passes it; then with the disk of that node full from that time on.

Prints how many migrations ended on which store, by fault and step. The exit code is 1 if an entity was lost, if a
deleted one returned, or if two stores answered. With SPLITBRAIN_EACH=1 it prints a line on each run.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections import Counter
from typing import Any, Final, NamedTuple

import msgspec

from splitbrain.checkers.migration import MigrationChecker
from splitbrain.checkers.verdict import Verdict
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.generators import final, invoke, sequence
from splitbrain.harness.generators.script import ScriptedFault
from splitbrain.harness.running.simulate import Simulated, simulate
from splitbrain.nemesis.requests import complete
from splitbrain.results.history import Op
from splitbrain.workloads.migration import WEIGHTS, in_the_end, ops
from tests.cli.test_arguments import OPTIONS

COUNTS: Final = (3, 5)
STEPS: Final = ("claiming", "clearing", "copying", "closing", "draining", "retiring", "finishing")
OF_MEMBERS: Final = ("marked", "callback done", "change closed")
"""Each member passes these for the flag, so the node that is hit need not be the one that copies the entities."""

OF_CONTROLLER: Final = ("inventory taken", "lock taken", "change proposed", "change decided")
ALL_STEPS: Final = (*STEPS, *OF_CONTROLLER, *OF_MEMBERS)
WAYS: Final = ("kill", "power", "pause", "cut", "disk-full")

BEGINS_S: Final = 0.05
ENDS_S: Final = 4.6
WITHIN_MS: Final = 4_400
LATEST_US: Final = 60_000
TICK_MS: Final = 20_000
"""The tick time of the tables, longer than any fault: those that take each other for down lose what they acknowledged,
with or without a migration (MN-9)."""

S: Final = 1_000_000_000


class Case(NamedTuple):
    """One run: its fault, the step at which the fault is injected, how many nodes, and the ops of the nemesis."""

    seed: int
    way: str
    step: str
    size: int
    faults: tuple[ScriptedFault, ...]


def case(seed: int) -> Case:
    """The run of a seed."""
    turn, at = divmod(seed - 1, len(ALL_STEPS))
    step, way = ALL_STEPS[at], WAYS[(turn + at) % len(WAYS)]
    count = COUNTS[(turn // len(WAYS) + at) % len(COUNTS)]
    return Case(seed, way, step, count, _at_step(seed, "pause" if way == "disk-full" else way, step, count))


def _nodes(count: int) -> tuple[str, ...]:
    return tuple(f"n{number}" for number in range(1, count + 1))


def _at_step(seed: int, way: str, step: str, count: int) -> tuple[ScriptedFault, ...]:
    rng = Rng(seed)
    moment: dict[str, Any] = {"mark": f"migration {step}" if step in STEPS else f"flag {step}"}
    if step in OF_MEMBERS:
        moment |= {"node": rng.choice(_nodes(count)), "after_us": rng.below(LATEST_US)}
    wanted = {"moments": [moment], "inject": way, "within_ms": WITHIN_MS}
    starts = _fault(BEGINS_S, "await-moment", wanted, count)
    return (starts, _fault(ENDS_S, "stop-moment", None, count))


def _when_full(one: Case) -> Case:
    """The same with a full disk at the time and on the node of its step; unchanged if no node passes it."""
    passed = _hit(_simulated(one, "moment", ""))
    if passed is None:
        return one
    node = next(name for name in _nodes(one.size) if name in passed.value["evidence"])
    starts = _fault(
        BEGINS_S + passed.value["evidence"]["waited_ms"] / 1000,
        "start-disk",
        {
            "spec": "one",
            "order": [node, *(each for each in _nodes(one.size) if each != node)],
            "spoil": {"full": True},
        },
        one.size,
    )
    return one._replace(faults=(starts, _fault(ENDS_S, "stop-disk", None, one.size)))


def _fault(at_s: float, f: str, value: Any, count: int) -> ScriptedFault:
    return ScriptedFault(at_ns=round(at_s * S), f=f, value=complete(f, value, _nodes(count)))


def run(one: Case, bug: str = "") -> Simulated:
    """Carry it out."""
    if one.way != "disk-full":
        return _simulated(one, "moment", bug)
    full = _when_full(one)
    return _simulated(full, "moment" if full is one else "disk-full", bug)


def _simulated(one: Case, nemesis: str, bug: str) -> Simulated:
    given = {
        "backend": "sim",
        "workload": "migration",
        "nemesis": nemesis,
        "nodes": str(one.size),
        "concurrency": "2n",
        "time_limit": 5.0,
        "rate": 60.0,
        "seed": one.seed,
        "bug": bug,
        "scheduled": one.faults,
        "settings": f"net-tick-ms={TICK_MS}",
    }
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    looks = final(invoke("look-at-entities"))
    workload = dataclasses.replace(
        test.workload,
        generator=ops({**WEIGHTS, "migrate": 14, "roll-back": 2}),
        final_generator=sequence(looks, in_the_end(), looks),
    )
    return simulate(dataclasses.replace(test, workload=workload))


def ended_on(left: Simulated) -> str:
    """The store that answered last after the fault was healed, and before a client asked for the migration again.

    A migration that was decided may be finished between two looks; that no two stores answer is the checker's business.
    """
    begun = next((op.index for op in left.ops if op.f == "phase" and op.value == {"phase": "final"}), 0)
    migrated = next((op.index for op in left.ops if op.f == "migrate" and op.index > begun), len(left.ops))
    first = [op for op in left.ops if op.f == "look-at-entities" and op.type == "ok" and begun < op.index < migrated]
    return str(first[-1].value["store"]) if first else "no answer"


def was_hit(left: Simulated) -> bool:
    """Whether the fault struck."""
    return _hit(left) is not None


def _hit(left: Simulated) -> Op | None:
    """The op that injected the fault."""
    return next(
        (
            op
            for op in left.ops
            if op.process < 0
            and op.f in ("await-moment", "start-disk")
            and op.type == "ok"
            and not op.value["evidence"].get("waits")
        ),
        None,
    )


def judged(left: Simulated) -> Verdict:
    """What the checker says."""
    return MigrationChecker().check(left.history, {})


def main(count: int, first: int) -> int:
    """Run so many migrations from the seed `first` on, and print the table; the exit code."""
    ended: Counter[tuple[str, str, str]] = Counter()
    wrong = 0
    for seed in range(first, first + count):
        one = case(seed)
        left = run(one)
        verdict = judged(left)
        hit = was_hit(left)
        where = ended_on(left)
        ended[one.way, one.step if hit else "not hit", where] += 1
        problem = left.failure or (verdict.sentence if verdict.valid != "true" else None)
        if problem is not None:
            wrong += verdict.valid == "false" or left.failure is not None
            print(f"seed {seed}: {one.way} at {one.step}, {one.size} nodes: {verdict.valid}: {problem}", flush=True)
        if os.environ.get("SPLITBRAIN_EACH"):
            print(
                seed,
                one.way,
                one.step,
                one.size,
                hit,
                where,
                msgspec.json.encode(verdict.figures).decode(),
                flush=True,
            )
    print(f"{'fault':10} {'step':16} {'tree':>6} {'tables':>6} {'other':>6}")
    for way, step in sorted({key[:2] for key in ended}):
        counts = [ended[way, step, where] for where in ("tree", "tables")]
        other = sum(found for key, found in ended.items() if key[:2] == (way, step)) - sum(counts)
        print(f"{way:10} {step:16} {counts[0]:6} {counts[1]:6} {other:6}")
    print(f"{count} migrations, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
