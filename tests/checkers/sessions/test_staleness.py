"""How old states were that reads showed: of histories made by hand, and bounds that no order of writes escapes."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest

from splitbrain.checkers.sessions import Sessions
from splitbrain.checkers.sessions.options import options_of
from splitbrain.checkers.sessions.reading import read
from splitbrain.checkers.sessions.staleness import Age, ages, in_words
from splitbrain.results.report.staleness import staleness_of
from tests.checkers.support import Script


class Times:
    """A history whose events happen when it is said; each op has a process of its own."""

    def __init__(self) -> None:
        self._events: list[tuple[float, int, Any]] = []
        self._process = 0

    def op(self, f: str, value: Any, begin_s: float, end_s: float | None, *, how: Any = "ok", key: str = "k") -> None:
        """Without an end it crashed, at some time after all others."""
        process, self._process = self._process, self._process + 1
        asked = value if f == "write" else None
        order = len(self._events)
        self._events.append((begin_s, order, (process, "invoke", f, asked, key)))
        if end_s is not None:
            self._events.append((end_s, order + 1, (process, how, f, value, key)))

    def ages(self, *fresh: str) -> dict[str, Age]:
        script = Script()
        for at, _, (process, how, f, value, key) in sorted(self._events):
            script.event(process, how, f, value, key=key, time_s=at)
        return ages(read(script.table(), options_of({})), fresh)


def test_a_read_of_what_is_current_is_not_old_and_one_that_shows_what_was_overwritten_is() -> None:
    times = Times()
    times.op("write", 1, 1.0, 1.5)
    times.op("write", 2, 3.0, 3.5)
    times.op("read-local", 2, 4.0, 4.1)
    assert times.ages() == {"read-local": Age(1, 0, 0.0, 0.0, 0, 0)}
    times.op("read-local", 1, 10.0, 10.1)
    # The second write took effect between 3.0 and 3.5: the state was over for 6.5 to 7 s.
    assert times.ages() == {"read-local": Age(2, 1, 6.5, 7.0, 1, 1)}


def test_the_value_at_the_beginning_is_as_old_as_the_first_write_is_long_ago() -> None:
    times = Times()
    times.op("read-local", None, 0.5, 0.6)
    assert times.ages()["read-local"] == Age(1, 0, 0.0, 0.0, 0, 0)
    times.op("write", 1, 1.0, 2.0)
    times.op("write", 2, 3.0, 4.0)
    times.op("read-local", None, 9.0, 9.1)
    assert times.ages()["read-local"] == Age(2, 1, 7.0, 8.0, 2, 2)


def test_writes_under_way_together_are_in_either_order() -> None:
    times = Times()
    times.op("write", 1, 1.0, 4.0)
    times.op("write", 2, 2.0, 3.0)
    times.op("read-local", 1, 9.0, 9.1)
    assert times.ages()["read-local"] == Age(1, 0, 0.0, 7.0, 0, 1)


@pytest.mark.parametrize("seen", [True, False])
def test_a_write_of_unknown_outcome_widens_the_bound_until_a_linearizable_read_shows_that_it_had_not_happened(
    seen: bool,
) -> None:
    times = Times()
    times.op("write", 1, 1.0, 1.5)
    times.op("write", 2, 2.0, None)
    if seen:
        times.op("read", 1, 6.0, 6.1)
    times.op("read-local", 1, 8.0, 8.1)
    found = times.ages("read")["read-local"]
    assert found == Age(1, 0, 0.0, 2.0 if seen else 6.0, 0, 1)


def test_a_write_that_certainly_failed_does_not_count_nor_one_of_another_key() -> None:
    times = Times()
    times.op("write", 1, 1.0, 1.5)
    times.op("write", 2, 2.0, 2.5, how="fail")
    times.op("write", 3, 3.0, 3.5, key="other")
    times.op("read-local", 1, 8.0, 8.1)
    assert times.ages()["read-local"] == Age(1, 0, 0.0, 0.0, 0, 0)


def test_a_read_during_which_the_write_took_place_is_not_old() -> None:
    times = Times()
    times.op("write", 1, 1.0, 1.5)
    times.op("write", 2, 3.0, 4.0)
    times.op("read-local", 1, 2.5, 6.0)
    assert times.ages()["read-local"] == Age(1, 0, 0.0, 0.0, 0, 0)


def test_reads_of_a_value_that_several_may_have_written_are_left_out() -> None:
    times = Times()
    times.op("write", 1, 1.0, 1.5)
    times.op("write", 1, 2.0, 2.5)
    times.op("read-local", 1, 3.0, 3.5)
    assert times.ages() == {}


@pytest.mark.parametrize("seed", range(60))
def test_no_order_of_the_writes_makes_a_read_older_than_at_most_or_less_old_than_at_least(seed: int) -> None:
    rng = random.Random(seed)
    times, intervals = Times(), list[tuple[float, float]]()
    for value in range(rng.randint(1, 4)):
        begin = rng.randint(0, 12) + value / 10
        crashed = rng.random() < 0.2
        end = begin + rng.randint(1, 6)
        times.op("write", value, begin, None if crashed else end)
        intervals.append((begin, math.inf if crashed else end))
    shown, asked = rng.randrange(len(intervals)), rng.randint(4, 20) + 0.95
    if intervals[shown][0] > asked:
        return
    times.op("read-local", shown, asked, asked + 0.01)
    found = times.ages()["read-local"]
    # When each may have taken effect: at its edges, in the middle, or, where it crashed, never.
    choices = [
        [begin, begin + 0.5, (begin + end) / 2, end] if end < math.inf else [begin, begin + 3.0, begin + 9.0, math.inf]
        for begin, end in intervals
    ]
    for effects in itertools.product(*choices):
        if effects[shown] > asked:
            continue
        later = [effect for effect in effects if effects[shown] < effect < asked]
        age_s = asked - min(later, default=asked)
        assert found.at_least_s - 1e-3 <= age_s <= found.at_most_s + 1e-3
        assert found.at_least_writes <= len(later) <= found.at_most_writes


def test_of_ops_at_the_same_time_the_order_in_the_history_counts() -> None:
    script = Script()
    for process, how, f, value in (
        (0, "invoke", "read", None),
        (0, "ok", "read", None),
        (0, "invoke", "write", 1),
        (0, "ok", "write", 1),
        (0, "invoke", "write", 2),
        (0, "ok", "write", 2),
        (1, "invoke", "read-local", None),
        (1, "ok", "read-local", None),
    ):
        time_s = 5.0 if f == "read-local" else 1.0
        script.event(process, how, f, value, key="k", time_s=time_s)  # pyright: ignore[reportArgumentType]
    found = ages(read(script.table(), options_of({})), ["read"])
    assert found["read-local"] == Age(1, 1, 4.0, 4.0, 2, 2)


@pytest.mark.parametrize("seed", range(150))
def test_what_a_register_really_showed_lies_within_the_bounds_also_where_much_happens_at_once(seed: int) -> None:
    """Writes of unknown outcome took effect before, or never; `read` shows what is current, `read-local` anything."""
    rng = random.Random(f"at once {seed}")
    script, truth = Script(), dict[str, list[tuple[int, int, int]]]()
    versions: list[tuple[int | None, int]] = [(None, -1)]
    under_way: dict[int, tuple[str, int, int, int | None]] = {}
    now, left, free = 0, rng.randint(4, 16), list(range(3))
    while left or under_way:
        now += rng.choice([0, 0, 1, 5])
        if left and free and rng.random() < 0.5:
            left, process = left - 1, free.pop()
            f = rng.choice(["write", "write", "read", "read-local"])
            value = left if f == "write" else None
            script.event(process, "invoke", f, value, key="k", time_s=now)
            under_way[process] = (f, left, now, None)
        elif under_way:
            process = rng.choice(list(under_way))
            f, value, asked, shown = under_way.pop(process)
            if shown is None:
                happened = f != "write" or rng.random() < 0.9
                if f == "write" and happened:
                    versions.append((value, now))
                last = len(versions) - 1
                shown = rng.randint(0, last) if f == "read-local" else last
                under_way[process] = (f, value, asked, shown if happened else -1)
                continue
            unknown = shown < 0 or (f == "write" and rng.random() < 0.1)
            answer = value if f == "write" else versions[shown][0]
            script.event(process, "info" if unknown else "ok", f, answer, key="k", time_s=now)
            free.append(process + 3 if unknown else process)
            if f != "write":
                later = [at for _, at in versions[shown + 1 :]]
                age = max(0, asked - later[0]) if later else 0
                truth.setdefault(f, []).append((age, sum(at < asked for at in later), sum(at <= asked for at in later)))
    for f, age in ages(read(script.table(), options_of({})), ["read"]).items():
        oldest, fewest, most = (max(each) for each in zip(*truth[f], strict=True))
        assert age.at_least_s <= oldest <= age.at_most_s
        assert age.at_least_writes <= most
        assert fewest <= age.at_most_writes


def test_the_verdict_has_the_figure_says_it_and_the_report_reads_it() -> None:
    script = Script()
    script.call(0, "write", 1, key="k")
    script.call(0, "write", 2, key="k")
    for _ in range(2):
        script.call(1, "read-local", None, 1, key="k")
    verdict = Sessions().check(script.table(), {"follows": {"read-local": []}})
    assert verdict.figures["staleness"]["read-local"]["stale"] == 2
    assert "read-local: at most" in verdict.sentence
    page = staleness_of([{"checker": "session", "figures": verdict.figures}])
    assert page["read-local"].at_most_writes == 1
    assert staleness_of([{"checker": "session", "figures": {"staleness": [1]}}, {"checker": "stats"}]) == {}


def test_nothing_is_said_where_nothing_was_old() -> None:
    assert in_words({"read": Age(5, 0, 0.0, 0.0, 0, 0)}) == ""
