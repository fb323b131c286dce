"""Options in seconds: all checkers refuse the same, in the same words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from splitbrain.checkers import durations
from splitbrain.checkers.engine import check_partition, check_whole
from splitbrain.checkers.registry import checker
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.results.arrow import TELEMETRY_SCHEMA, to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op

LOAD: Mapping[str, Any] = {"rate": 10.0, "time_limit_s": 30.0, "concurrency": 3, "op_timeout_s": 2.0}
OPTIONS: list[tuple[str, Mapping[str, Any], str]] = [
    ("linearizable", {"model": "register"}, "time_limit_s"),
    ("linearizable", {"model": "register"}, "witness_time_s"),
    ("queue", {}, "settle_s"),
    ("single-active", {}, "settle_s"),
    ("single-active", {}, "late_s"),
    ("poison", {"limit": 1}, "settle_s"),
    ("dead-letter", {"limit": 1}, "settle_s"),
    ("dead-letter", {"limit": 1}, "ttl_s of q"),
    ("replicas", {"target": 3}, "settle_s"),
    ("replicas", {"target": 3}, "quiet_s"),
    ("replicas", {"target": 3}, "recovery_s"),
    ("recovery", {}, "bound_s"),
    ("links", {}, "limit_s"),
    ("coverage", {"load": LOAD}, "time_limit_s"),
    ("coverage", {"load": LOAD}, "op_timeout_s"),
    ("coverage", {"load": LOAD}, "recovery_s"),
    *(
        ("quorum-progress", {}, name)
        for name in ("election_timeout_s", "recovery_bound_s", "outage_limit_s", "op_timeout_s", "lease_s")
    ),
    ("quorum-progress", {}, "convergence_bound_s"),
    ("quorum-progress", {}, "clock_offset_s"),
]
"""Checker, its other options, and one that is a number of seconds."""

WRONG: list[Any] = [-1, -0.5, float("nan"), float("inf"), -float("inf"), True, "5", [5], {}, 1e300, 10**400]


def with_value(options: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    if name == "ttl_s of q":
        return {**options, "ttl_s": {"q": value}}
    if "load" in options:
        return {**options, "load": {**options["load"], name: value}}
    return {**options, name: value}


def judge(name: str, options: Mapping[str, Any]) -> None:
    ops = [Op(process=0, type="invoke", f="read", index=0)]
    each: Any = checker(name)
    history, spec = to_table(ops), CheckerSpec(name, dict(options))
    if each.partition == "whole run":
        found = check_whole(each, spec, history, TELEMETRY_SCHEMA.empty_table())
        if getattr(each, "needs_telemetry", False):
            each.check(history, TELEMETRY_SCHEMA.empty_table(), options)
    else:
        found = check_partition(each, spec, history)
    assert "crashes" not in found.evidence


@pytest.mark.parametrize("value", WRONG, ids=lambda value: f"{value!r:.10}")
@pytest.mark.parametrize(("name", "options", "option"), OPTIONS)
def test_what_is_no_number_of_seconds_is_refused_in_the_same_words(
    name: str, options: Mapping[str, Any], option: str, value: Any
) -> None:
    said = rf"^checker {name}: option '{option}' must be a number of seconds (from 0 on|above 0) and at most [0-9,]+"
    with pytest.raises(UsageError, match=said + re.escape(f", not {value!r:.80}.") + "$"):
        judge(name, with_value(options, option, value))


@pytest.mark.parametrize("value", [1, 2.5])
@pytest.mark.parametrize(("name", "options", "option"), OPTIONS)
def test_numbers_of_seconds_are_taken(name: str, options: Mapping[str, Any], option: str, value: float) -> None:
    judge(name, with_value(options, option, value))


@pytest.mark.parametrize(("value", "above_0", "fits"), [(0, False, True), (0, True, False), (1e9, True, True)])
def test_the_least_and_the_most(value: float, above_0: bool, fits: bool) -> None:
    assert durations.is_seconds(value, above_0=above_0) is fits
