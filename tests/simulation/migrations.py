"""Many simulated migrations, each with a fault at one step: `python -m tests.simulation.migrations COUNT [FIRST]`.

FIRST is the seed of the first run, 1 by default; each further run has the next seed. In each run clients of three nodes
declare, delete and look at entities, and ask for the migration. One fault is injected at a step of the migration or of
the change of its feature flag: a node is killed, loses its power, is paused, or is cut off. Or a node has a full disk
during the whole run. After the fault is healed, each client looks at all entities before a
client asks for the migration again: these looks show on which store the migration ended. Then the migration is carried
out, and each client looks once more.

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
from splitbrain.workloads.migration import WEIGHTS, in_the_end, ops
from tests.cli.test_arguments import OPTIONS

NODES: Final = ("n1", "n2", "n3")
STEPS: Final = ("claiming", "clearing", "copying", "closing", "draining", "retiring", "finishing")
WAYS: Final = ("kill", "power", "pause", "cut", "disk-full")
AT_FLAG: Final = "flag"
"""Each member marks the flag, so the node that is hit need not be the one that copies the entities."""

BEGINS_S: Final = 0.05
ENDS_S: Final = 2.6
LATEST_US: Final = 60_000
S: Final = 1_000_000_000


class Case(NamedTuple):
    """One run: its fault, the step at which the fault is injected, and the ops of the nemesis."""

    seed: int
    way: str
    step: str
    faults: tuple[ScriptedFault, ...]


def case(seed: int) -> Case:
    """The run of a seed."""
    rng = Rng(seed)
    way, step = rng.choice(WAYS), rng.choice((*STEPS, AT_FLAG, AT_FLAG))
    if way == "disk-full":
        starts = _fault(BEGINS_S, "start-disk", {"spec": "one", "spoil": {"full": True}})
        return Case(seed, way, "whole", (starts, _fault(ENDS_S, "stop-disk", None)))
    moment: dict[str, Any] = {"mark": f"migration {step}"}
    if step == AT_FLAG:
        moment = {"mark": "flag marked", "node": rng.choice(NODES), "after_us": rng.below(LATEST_US)}
    wanted = {"moments": [moment], "inject": way, "within_ms": 2_400}
    starts = _fault(BEGINS_S, "await-moment", wanted)
    return Case(seed, way, step, (starts, _fault(ENDS_S, "stop-moment", None)))


def _fault(at_s: float, f: str, value: Any) -> ScriptedFault:
    return ScriptedFault(at_ns=round(at_s * S), f=f, value=complete(f, value, NODES))


def run(one: Case, bug: str = "") -> Simulated:
    """Carry it out."""
    given = {
        "backend": "sim",
        "workload": "migration",
        "nemesis": "disk-full" if one.way == "disk-full" else "moment",
        "nodes": "3",
        "concurrency": "2n",
        "time_limit": 3.0,
        "rate": 60.0,
        "seed": one.seed,
        "bug": bug,
        "scheduled": one.faults,
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
    return any(
        op.process < 0
        and op.f in ("await-moment", "start-disk")
        and op.type == "ok"
        and not op.value["evidence"].get("waits")
        for op in left.ops
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
            print(f"seed {seed}: {one.way} at {one.step}: {verdict.valid}: {problem}", flush=True)
        if os.environ.get("SPLITBRAIN_EACH"):
            print(seed, one.way, one.step, hit, where, msgspec.json.encode(verdict.figures).decode(), flush=True)
    print(f"{'fault':10} {'step':10} {'tree':>6} {'tables':>6} {'other':>6}")
    for way, step in sorted({key[:2] for key in ended}):
        counts = [ended[way, step, where] for where in ("tree", "tables")]
        other = sum(found for key, found in ended.items() if key[:2] == (way, step)) - sum(counts)
        print(f"{way:10} {step:10} {counts[0]:6} {counts[1]:6} {other:6}")
    print(f"{count} migrations, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
