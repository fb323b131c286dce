from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.stats import Stats
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.history import HARNESS, Op
from tests.checkers.support import Script


def figures(script: Script) -> dict[str, Any]:
    verdict = Stats().check(to_table(script.ops), {})
    assert verdict.valid == "true"
    return verdict.figures


def test_every_op_is_counted_once_by_how_it_ended_and_where() -> None:
    script = Script()
    script.call(0, "read", result=1)
    script.call(1, "write", 2, how="fail", error="no leader")
    script.call(2, "write", 3, how="info", error="timeout")
    script.call(2, "write", 3, how="fail", error="no leader")
    script.event(3, "invoke", "write", 4)
    found = figures(script)
    assert {name: found[name] for name in ("ops", "ok", "fail", "info")} == {"ops": 5, "ok": 1, "fail": 2, "info": 2}
    assert found["info_share"] == 0.4
    assert {f: (c["ok"], c["fail"], c["info"]) for f, c in found["by_f"].items()} == {
        "read": (1, 0, 0),
        "write": (0, 2, 2),
    }
    assert {node: (c["ok"], c["fail"], c["info"]) for node, c in found["by_node"].items()} == {
        "n1": (1, 0, 0),
        "n2": (0, 1, 0),
        "n3": (0, 1, 1),
        "n4": (0, 0, 1),
    }
    assert found["errors"] == [
        {"type": "fail", "error": "no leader", "count": 2},
        {"type": "info", "error": "timeout", "count": 1},
    ]


NONE = {"ok": 0, "fail": 0, "info": 0}


def test_latencies_are_from_invocation_to_completion_in_milliseconds() -> None:
    script = Script()
    for number in range(1, 101):
        script.event(0, "invoke", "read", time_s=number)
        script.event(0, "ok", "read", time_s=number + number / 1000)
    latency = figures(script)["by_f"]["read"]["latency_ms"]
    assert list(latency) == ["ok"]
    assert latency["ok"]["p50"] == pytest.approx(50.5)
    assert latency["ok"]["p99"] == pytest.approx(99.01)
    assert latency["ok"]["max"] == pytest.approx(100)


def test_an_op_belongs_to_the_phase_in_which_it_was_invoked() -> None:
    script = Script()
    script.event(HARNESS, "info", "phase", {"phase": "faults"}, time_s=0)
    script.event(0, "invoke", "add", 1, time_s=1)
    script.event(HARNESS, "info", "phase", {"phase": "final"}, time_s=2)
    script.event(0, "ok", "add", 1, time_s=3)
    script.event(0, "invoke", "read", time_s=4)
    script.event(0, "ok", "read", [1], time_s=5)
    phases = figures(script)["by_phase"]
    assert phases["faults"]["by_f"]["add"]["ok"] == 1
    assert phases["final"]["ok"] == 1
    assert (phases["faults"]["begin_s"], phases["faults"]["end_s"], phases["final"]["end_s"]) == (0, 2, 5)


def test_time_in_which_nobody_asks_for_anything_lowers_no_rate() -> None:
    script = Script()
    script.event(HARNESS, "info", "phase", {"phase": "faults"}, time_s=0)
    script.event(0, "invoke", "add", 1, time_s=1)
    script.event(0, "ok", "add", 1, time_s=2)
    script.event(HARNESS, "info", "phase", {"phase": "quiet"}, time_s=4)
    script.event(HARNESS, "info", "converged", {"seconds": 6}, time_s=10)
    found = figures(script)
    assert (found["ok_per_s"], found["duration_s"]) == (0.25, 10)
    no_latencies: dict[str, Any] = {"latency_ms": {}, "due_latency_ms": {}}
    assert found["by_phase"]["quiet"] == {"begin_s": 4, "end_s": 10, "by_f": {"add": NONE}, **NONE, **no_latencies}


def test_concurrency_counts_ops_in_flight_at_once() -> None:
    script = Script()
    for process in range(3):
        script.event(process, "invoke", "read")
    for process in range(3):
        script.event(process, "ok", "read")
    script.call(0, "read")
    assert figures(script)["max_concurrency"] == 3


def test_an_empty_history_has_figures_too() -> None:
    assert figures(Script())["ops"] == 0


@pytest.mark.parametrize(
    ("ops", "problem"),
    [
        ([("invoke", 0), ("invoke", 0)], "op 1: process 0 invokes while"),
        ([("invoke", 0), ("ok", 1)], "op 1: process 1 completes an op that it never"),
        ([("invoke", 0), ("ok", 0), ("info", 0)], "op 2: process 0 completes"),
    ],
)
def test_a_history_whose_ops_do_not_pair_is_refused(ops: list[Any], problem: str) -> None:
    history = [Op(index=i, time=i, process=p, type=t, f="read") for i, (t, p) in enumerate(ops)]
    with pytest.raises(HistoryFormatError, match=problem):
        Stats().check(to_table(history), {})
