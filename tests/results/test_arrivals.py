"""Two latencies of an op, and whether the rate that was asked for came about."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.stats import Stats
from splitbrain.results.arrivals import NEVER, Asked, Load, arrivals, load
from splitbrain.results.arrow import to_table
from splitbrain.results.calls import client_calls
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import run_events
from splitbrain.results.history import HARNESS, Op

SECOND = 1_000_000_000


class History:
    """A run with a faults phase from 0 s on, a schedule of ops, and a heal phase from `heal_s` on."""

    def __init__(self, *, heal_s: float | None = None) -> None:
        self._events: list[tuple[float, int, Op]] = []
        self._phase("faults", 0.0)
        if heal_s is not None:
            self._phase("heal", heal_s)
        self._calls = 0

    def _phase(self, name: str, at_s: float) -> None:
        self._add(at_s, Op(process=HARNESS, type="info", f="phase", value={"phase": name}))

    def note(self, f: str, at_s: float) -> None:
        self._add(at_s, Op(process=HARNESS, type="info", f=f, value={}))

    def call(self, due_s: float | None, begun_s: float, ended_s: float | None) -> None:
        due = None if due_s is None else round(due_s * SECOND)
        invoke = Op(process=self._calls, type="invoke", f="read", node="n1", due=due)
        self._calls += 1
        self._add(begun_s, invoke)
        if ended_s is not None:
            self._add(ended_s, invoke.complete("ok"))

    def _add(self, at_s: float, op: Op) -> None:
        self._events.append((at_s, len(self._events), op))

    def table(self) -> Any:
        ordered = sorted(self._events, key=lambda event: event[:2])
        fields = ("process", "type", "f", "value", "node", "due")
        return to_table(
            [
                Op(index=index, time=round(at_s * SECOND), **{name: getattr(op, name) for name in fields})
                for index, (at_s, _, op) in enumerate(ordered)
            ]
        )

    def load(self, rate: float | None = 100.0, time_limit_s: float | None = 10.0, burst: int = 1) -> Load | None:
        table = self.table()
        return load(arrivals(client_calls(table)), run_events(table), Asked(rate, time_limit_s, burst))

    def stats(self, **options: Any) -> tuple[dict[str, Any], str]:
        verdict = Stats().check(self.table(), {"rate": 100.0, "time_limit_s": 10.0, **options})
        return verdict.figures, verdict.sentence


def scheduled(history: History, begin_s: float, end_s: float) -> None:
    """Ops at 100 a second that each take 1 ms."""
    for number in range(round(begin_s * 100), round(end_s * 100)):
        history.call(number / 100, number / 100, number / 100 + 0.001)


def stalled(history: History, begin_s: float, end_s: float) -> None:
    """Ops that were due while the one client waited for the first of them, and begin when it is answered."""
    for number in range(round(begin_s * 100), round(end_s * 100)):
        begun_s = begin_s if number == round(begin_s * 100) else end_s
        history.call(number / 100, begun_s, end_s + 0.001)


def test_an_op_has_a_latency_from_its_invocation_and_one_from_when_it_was_due() -> None:
    history = History()
    history.call(1.0, 3.5, 4.0)
    history.call(None, 5.0, 5.25)
    history.call(6.0, 6.0, None)
    found = arrivals(client_calls(history.table()))
    assert found.scheduled.tolist() == [True, False, True]
    assert found.due.tolist() == [1 * SECOND, 5 * SECOND, 6 * SECOND]
    assert found.ended.tolist()[2] == NEVER
    assert found.latency_ms.tolist()[:2] == [500.0, 250.0]
    assert found.due_latency_ms.tolist()[:2] == [3000.0, 250.0]


def test_an_imported_op_is_due_when_it_begins_at_the_latest() -> None:
    history = History()
    history.call(4.0, 3.0, 3.5)
    assert arrivals(client_calls(history.table())).due.tolist() == [3 * SECOND]


def test_a_stall_is_in_the_latencies_from_due_and_hardly_in_the_others() -> None:
    history = History(heal_s=10.0)
    scheduled(history, 0, 4)
    stalled(history, 4, 9)
    scheduled(history, 9, 10)
    figures, sentence = history.stats()
    assert figures["latency_ms"]["ok"]["p99"] < 100
    assert figures["due_latency_ms"]["ok"]["p99"] > 4800
    assert figures["due_latency_ms"]["ok"]["max"] == 5001
    assert figures["by_node"]["n1"]["due_latency_ms"] == figures["due_latency_ms"]
    assert (
        "The p99 latency of ok ops is 0.001 s; with the time for which they waited for a free client it is 4.9 s."
        in sentence
    )
    assert figures["load"]["behind_s"] == pytest.approx(4.99)
    assert (figures["load"]["achieved_per_s"], figures["load"]["short"]) == (100.0, False)


def test_a_rate_that_is_kept_is_told_by_figures_alone() -> None:
    history = History(heal_s=10.0)
    scheduled(history, 0, 10)
    found = history.load()
    assert found is not None
    assert found == Load(100.0, 100.0, 100.0, 1000, 0, 0.0)
    assert found.sentence() is None
    assert history.stats()[1].endswith("at once.")


def test_ops_that_were_due_by_the_end_and_found_no_client_are_counted_and_told() -> None:
    history = History(heal_s=12.0)
    scheduled(history, 0, 5)
    history.call(5.0, 5.0, 12.0)
    found = history.load()
    assert found is not None
    assert (found.begun, found.never_begun) == (501, 499)
    assert (found.asked_per_s, found.offered_per_s, found.achieved_per_s) == (100.0, 100.0, 50.1)
    assert found.sentence() == (
        "The rate was too low: 100 ops a second requested, 50.1 begun, since no client was free: 499 that were due "
        "never began. Give more clients (--concurrency), or a lower --rate."
    )


def test_a_system_that_is_too_slow_for_the_rate_is_told() -> None:
    history = History(heal_s=10.0)
    for number in range(250):
        history.call(number / 100, number / 25, number / 25 + 0.04)
    found = history.load()
    assert found is not None
    assert (found.never_begun, found.achieved_per_s, found.behind_s) == (750, 25.0, 7.47)
    assert "25 begun, since no client was free: ops began up to 7.47 s late and 750 that were due never" in str(
        found.sentence()
    )


def test_a_workload_that_has_no_more_to_do_fell_short_of_nothing_by_want_of_clients() -> None:
    ended = History(heal_s=4.0)
    scheduled(ended, 0, 3)
    found = ended.load()
    assert found is not None
    assert (found.never_begun, found.short) == (0, False)
    idle = History(heal_s=10.0)
    scheduled(idle, 0, 5)
    assert (found := idle.load()) is not None
    assert (found.never_begun, found.achieved_per_s, found.offered_per_s) == (0, 50.0, 50.0)
    assert str(found.sentence()).endswith("50 begun, since the workload had no more to do.")


def test_what_was_due_after_an_interrupt_is_not_asked_for() -> None:
    history = History(heal_s=5.5)
    scheduled(history, 0, 5)
    history.note("interrupted", 5.0)
    found = history.load()
    assert found is not None
    assert (found.never_begun, found.short) == (0, False)


def test_what_was_due_before_an_interrupt_and_found_no_client_is_counted() -> None:
    history = History(heal_s=5.5)
    scheduled(history, 0, 3)
    history.call(3.0, 3.0, 5.4)
    history.note("interrupted", 5.0)
    found = history.load()
    assert found is not None
    assert (found.begun, found.never_begun) == (301, 199)


def bursts(history: History, begin_s: float, end_s: float) -> None:
    """Fifty ops at each half second, 100 a second."""
    for number in range(round(begin_s * 2), round(end_s * 2)):
        for _ in range(50):
            history.call(number / 2, number / 2, number / 2 + 0.001)


def test_bursts_keep_the_rate_that_they_ask_for() -> None:
    history = History(heal_s=10.0)
    bursts(history, 0, 10)
    assert history.load(burst=50) == Load(100.0, 100.0, 100.0, 1000, 0, 0.0)


def test_bursts_that_found_no_client_are_counted_with_the_rest_of_the_last_one() -> None:
    history = History(heal_s=12.0)
    bursts(history, 0, 5)
    for _ in range(20):
        history.call(5.0, 5.0, 12.0)
    found = history.load(burst=50)
    assert found is not None
    assert (found.begun, found.never_begun) == (520, 480)


def test_one_op_less_is_no_rate_that_fell_short() -> None:
    for begun, short in ((9, False), (8, True)):
        history = History(heal_s=1.0)
        for number in range(begun):
            history.call(number / 10, number / 10, number / 10 + 0.001)
        found = history.load(10.0, 1.0)
        assert found is not None
        assert found.achieved_per_s < 9.5
        assert found.short is short


def test_without_a_schedule_there_is_no_rate_to_compare_with() -> None:
    history = History(heal_s=10.0)
    for number in range(20):
        history.call(None, number / 10, number / 10 + 0.01)
    figures, sentence = history.stats()
    assert figures["load"] is None
    assert figures["due_latency_ms"] == {}
    assert sentence.endswith("at once.")


def test_what_the_test_asked_for_is_the_rate_of_the_schedule_where_nobody_says() -> None:
    history = History(heal_s=10.0)
    scheduled(history, 0, 10)
    found = history.load(None, None)
    assert found is not None
    assert (found.asked_per_s, found.short) == (100.0, False)


def test_an_option_that_the_checker_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match=r"checker stats: .* it takes rate, time_limit_s"):
        Stats().check(to_table([]), {"rates": 1})
