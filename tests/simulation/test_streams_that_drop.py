"""Streams whose beginnings are dropped under load, with faults: what is left is judged, and nothing is wrong."""

from __future__ import annotations

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from splitbrain.results.arrow import from_table
from tests.cli.test_arguments import OPTIONS


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_streams_that_drop_their_beginnings_keep_all_promises_about_the_rest(seed: int) -> None:
    given = {
        "workload": "short-stream",
        "backend": "sim",
        "nodes": "3",
        "time_limit": 20.0,
        "seed": seed,
        "interval": 3.0,
    }
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    left = simulate(test)
    assert left.failure is None
    judges = tuple(spec for spec in test.workload.checkers if spec.name == "stream")
    (found,) = engine.judge(left.history, judges, left.telemetry)
    assert found.valid == "true", found.sentence
    assert found.figures["dropped"] > 10
    assert found.figures["acknowledged"] > 100
    (strict,) = engine.judge(left.history, (CheckerSpec("stream"),), left.telemetry)
    assert strict.anomalies == ("lost",), "streams of the workload `stream` keep all"
    said = {
        op.key
        for op in from_table(left.history)
        if (op.f, op.type) == ("fetch", "ok") and op.value.get("first") is not None
    }
    assert said == {"st0", "st1"}, "one is too long, the other too old"
