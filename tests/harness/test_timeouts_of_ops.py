"""Ops of several requests have more time, and what judges progress knows of it."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.judges import with_judges

OPTIONS: dict[str, Any] = {
    "nemesis": "none",
    "system": "metadata",
    "backend": "sim",
    "bug": "",
    "nodes": "3",
    "concurrency": "2n",
    "rate": 100.0,
    "time_limit": 8.0,
    "interval": None,
    "op_timeout": 1.5,
    "recovery": 10.0,
    "seed": 1,
}


@pytest.mark.parametrize(("workload", "longest_s"), [("register", 1.5), ("projections", 6.0)])
def test_progress_is_judged_by_the_longest_timeout_of_the_ops(workload: str, longest_s: float) -> None:
    test = with_judges(compose(RunOptions.of(**OPTIONS, workload=workload)), SimBackend())
    [spec] = [spec for spec in test.workload.checkers if spec.name == "quorum-progress"]
    assert spec.options["op_timeout_s"] == longest_s
    assert test.timeout_s("write") == 1.5


@pytest.mark.parametrize(("op_timeout_s", "request_ms"), [(0.5, 1500), (2.0, 1500), (5.0, 3750)])
def test_requests_have_more_time_where_ops_have_more(op_timeout_s: float, request_ms: int) -> None:
    test = compose(RunOptions.of(**{**OPTIONS, "op_timeout": op_timeout_s}, workload="register"))
    assert test.request_timeout_ms == request_ms
