"""The workload of feature flags: which flags clients ask for, and how often."""

from __future__ import annotations

from collections import Counter
from typing import Any

from splitbrain.cluster.flags.registry import probes
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import flag_count
from splitbrain.harness.generators import Context
from splitbrain.results.history import Op
from splitbrain.workloads.flags import ALONE, EVERY, Enables

TIME_LIMIT_S = 30.0


def asked() -> Counter[int]:
    """How often each flag is asked for, by clients that are free at any time."""
    streams = Streams(1)
    ctx = Context.initial(4, ("n1", "n2"), streams["workload"], streams["nemesis"])
    ctx = ctx.restrict(~ctx.nemesis_bit)
    left: Any = Enables(flag_count(TIME_LIMIT_S))
    found = Counter[int]()
    for step in range(600):
        ctx.time_ns = step * 50_000_000
        op, left = left.op(ctx)
        assert isinstance(op, Op)
        found[op.value] += 1
    return found


def test_most_flags_are_asked_for_several_times_and_one_in_so_many_once_only() -> None:
    found = asked()
    alone = {flag for flag in found if flag % EVERY == ALONE}
    assert len(alone) == flag_count(TIME_LIMIT_S) // EVERY
    assert {found[flag] for flag in alone} == {1}
    assert min(found[flag] for flag in found if flag not in alone) > 1
    assert sorted(found) == list(range(1, flag_count(TIME_LIMIT_S) + 1))


def test_no_flag_depends_on_one_that_is_asked_for_once_only() -> None:
    """A request for the other one would enable it as well."""
    needed = {name for flag in probes(20) for name in flag.depends_on}
    assert needed
    assert not needed & {flag.name for number, flag in enumerate(probes(20), start=1) if number % EVERY == ALONE}
