"""Simulated runs of the metadata cluster under a nemesis that follows a script, judged by `quorum-progress`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.generators.script import ScriptedFault
from splitbrain.harness.running.simulate import Simulated, simulate
from splitbrain.nemesis.catalogue import kind_of
from splitbrain.nemesis.requests import complete
from splitbrain.results.arrow import to_table
from splitbrain.results.history import NEMESIS, Op
from tests.cli.test_arguments import OPTIONS

FIVE = ("n1", "n2", "n3", "n4", "n5")


class Fault(NamedTuple):
    """A nemesis op: when it is due, in seconds, its function, and its request in a form that can be hashed."""

    at_s: float
    f: str
    request: str = "{}"


class Judged(NamedTuple):
    """A simulated run, and what the checker said of it."""

    left: Simulated
    options: Mapping[str, Any]
    verdict: Verdict

    @property
    def rules(self) -> Mapping[str, str]:
        """The result of each rule."""
        return self.verdict.figures["rules"]

    def window(self, at_s: float) -> Mapping[str, Any]:
        """The window in which this moment lies."""
        (found,) = [row for row in self.verdict.figures["windows"] if row["start_s"] <= at_s < row["end_s"]]
        return found

    def nemesis(self, f: str) -> Op:
        """How the first nemesis op of this function ended; what heals is done once more when the run heals."""
        return next(op for op in self.left.ops if op.process == NEMESIS and op.f == f and op.type == "ok")

    def doctored(self, change: Callable[[Op], Op]) -> Verdict:
        """The verdict on the same run with another history."""
        history = to_table([change(op) for op in self.left.ops])
        return engine.judge(history, [_checker(self.options)], self.left.telemetry)[0]


@cache
def run(script: tuple[Fault, ...], seed: int, bug: str = "") -> Judged:
    """Five nodes, ten clients that read, write and compare-and-set registers for 16 s, forty ops a second."""
    return judged(script, seed, bug)


def judged(script: tuple[Fault, ...], seed: int, bug: str = "", observe: Callable[[Op], None] | None = None) -> Judged:
    """The same, simulated anew; `observe` sees every op as it is recorded."""
    faults = tuple(
        ScriptedFault(
            at_ns=round(fault.at_s * 1e9), f=fault.f, value=complete(fault.f, msgspec.json.decode(fault.request), FIVE)
        )
        for fault in script
    )
    given = {
        "backend": "sim",
        "nemesis": ",".join(dict.fromkeys(kind_of(fault.f).name for fault in faults)),
        "schedule": "script",
        "scheduled": faults,
        "time_limit": 16.0,
        "rate": 40.0,
        "seed": seed,
        "bug": bug,
    }
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    left = simulate(test, observe=observe)
    assert left.failure is None
    (options,) = [spec.options for spec in test.workload.checkers if spec.name == "quorum-progress"]
    (verdict,) = engine.judge(left.history, [_checker(options)], left.telemetry)
    return Judged(left, options, verdict)


def _checker(options: Mapping[str, Any]) -> CheckerSpec:
    return CheckerSpec("quorum-progress", dict(options))
