"""Queues in a slow world: an op takes long there, and is answered all the same."""

from __future__ import annotations

from collections import Counter

import pytest

from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from tests.cli.test_arguments import OPTIONS


@pytest.mark.slow
def test_ops_on_queues_are_answered_where_messages_take_a_quarter_of_a_second() -> None:
    given = {"backend": "sim", "workload": "queue", "nemesis": "none", "seed": 1, "nodes": "5", "world": "globe"}
    more = {"time_limit": 12.0, "rate": 50.0, "concurrency": "10n", "op_timeout": 5.0}
    left = simulate(compose(RunOptions.of(**{**OPTIONS, **given, **more})))
    assert left.failure is None
    ended = Counter(op.type for op in left.ops if op.f in ("enqueue", "dequeue") and op.type != "invoke")
    assert ended["ok"] > 0.9 * ended.total(), ended
