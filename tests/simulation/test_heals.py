"""Faults that would outlast a run are over when they are healed: the cluster meets and answers again in time."""

from __future__ import annotations

import pytest

from tests.simulation.scripted import Fault, judged

HARSH = {
    "delay": ("packet", '{"scope": "all", "disturb": {"delay_ms": 60000}}'),
    "jitter": ("packet", '{"scope": "all", "disturb": {"jitter_ms": 60000}}'),
    "reorder": ("packet", '{"scope": "all", "disturb": {"delay_ms": 60000, "reorder": 0.5}}'),
    "duplicate": ("packet", '{"scope": "all", "disturb": {"delay_ms": 60000, "duplicate": 0.5}}'),
    "rate": ("packet", '{"scope": "all", "disturb": {"rate_kbit": 1}}'),
    "hold": ("packet", '{"scope": "all", "disturb": {"held": true}}'),
    "mtu": ("packet", '{"scope": "all", "disturb": {"mtu": 80}}'),
    "disk": ("disk", '{"spec": "minority", "spoil": {"slow_ms": 60000}}'),
    "cpu": ("cpu", '{"spec": "all", "share": 0.01}'),
    "drift": (
        "clock",
        (
            '{"spec": "all", "skew": {"n1": {"drift_ppm": -500000}, "n2": {"drift_ppm": 500000},'
            ' "n3": {"drift_ppm": -500000}, "n4": {"drift_ppm": -400000}, "n5": {"drift_ppm": 400000}}}'
        ),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARSH)
def test_a_fault_that_is_healed_at_three_seconds_does_not_outlive_its_end(name: str) -> None:
    kind, request = HARSH[name]
    of = judged((Fault(1.0, f"start-{kind}", request), Fault(3.0, f"stop-{kind}")), seed=3)
    assert of.verdict.valid != "false", of.verdict.anomalies
    assert of.rules["Q7"] == "held"
    answered = [op.time for op in of.left.ops if op.process >= 0 and op.type == "ok" and op.time > 3_000_000_000]
    assert len([time for time in answered if time < 8_000_000_000]) >= 20
