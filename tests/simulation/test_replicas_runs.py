"""The workload of maintained replicas with the defaults of the command line: replicas are replaced in each run."""

from __future__ import annotations

from collections import Counter

import pytest

from splitbrain.checkers import engine
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from tests.cli.test_arguments import OPTIONS


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_with_the_defaults_replaces_replicas_and_judges_them(seed: int) -> None:
    given = {"workload": "replicas", "backend": "sim", "nodes": "5", "rate": 100.0, "time_limit": 30.0, "seed": seed}
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    left = simulate(test)
    assert left.failure is None
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    (found,) = [verdict for verdict in verdicts if verdict.checker == "replicas"]
    assert found.valid == "true", found.sentence
    assert found.figures["replaced"] > 0
    begun = Counter(op.f for op in left.ops if op.type == "invoke" and op.process >= 0)
    operators = sum(begun[f] for f in ("grow", "shrink"))
    assert 0 < operators < 30.0, "less than one change a second, or the system's own would never have their turn"
