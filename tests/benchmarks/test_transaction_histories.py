"""The histories that the benchmark of transactions judges have what their level promises, and lack what it does not."""

from __future__ import annotations

import pytest

from benchmarks.transaction_histories import Shape, history
from splitbrain.checkers.transactions import ListAppend, RwRegister


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("level", "registers", "valid", "anomalies"),
    [
        ("serial", False, "true", set[str]()),
        ("serial", True, "true", set[str]()),
        ("snapshot", False, "false", {"G2-item"}),
        ("none", False, "false", {"G1a", "G1c"}),
    ],
)
def test_a_level_has_its_anomalies(level: str, registers: bool, valid: str, anomalies: set[str]) -> None:
    checker = RwRegister() if registers else ListAppend()
    verdict = checker.check(history(Shape(2000, level=level, registers=registers)), {})
    assert verdict.valid == valid
    assert {each.removesuffix("-realtime").removesuffix("-process") for each in verdict.anomalies} >= anomalies
