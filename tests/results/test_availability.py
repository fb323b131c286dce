"""Which seconds count and which are served, against a count of every second by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.results.arrivals import NEVER
from splitbrain.results.availability import SILENT_LISTED, Availability, availability

SECOND = 1_000_000_000

Call = tuple[float, float | None, bool]
"""An op: when it was due and when it was completed, in seconds (None: never), and whether it was answered."""


def found(calls: list[Call], end_s: float) -> Availability:
    due = np.array([round(call[0] * SECOND) for call in calls], dtype=np.int64)
    ended = np.array([NEVER if call[1] is None else round(call[1] * SECOND) for call in calls], dtype=np.int64)
    given_answer = np.array([call[2] for call in calls], dtype=np.bool_)
    return availability(due, ended, given_answer, round(end_s * SECOND))


def steady(begin_s: float, end_s: float, every_s: float = 0.01, takes_s: float = 0.005) -> list[Call]:
    """Ops at a fixed rate, each answered at once."""
    count = round((end_s - begin_s) / every_s)
    return [(begin_s + i * every_s, begin_s + i * every_s + takes_s, True) for i in range(count)]


@pytest.mark.parametrize(
    ("calls", "end_s", "time", "silent"),
    [
        pytest.param([], 5, None, (), id="nobody asked"),
        pytest.param(steady(0, 15), 15, 1.0, (), id="all answered"),
        pytest.param(
            [*steady(0, 5), *((5.0, 10.05, True) for _ in range(10)), *steady(10, 15)],
            15,
            0.666667,
            ((5, 10),),
            id="stuck for 5 of 15 s, and answered then",
        ),
        pytest.param(
            [*steady(0, 5), *((due, 10.05, True) for due, *_ in steady(5, 10)), *steady(10, 15)],
            15,
            0.666667,
            ((5, 10),),
            id="due meanwhile, begun and answered later",
        ),
        pytest.param(
            [*steady(0, 5), (5.0, 7.0, False), (7.0, 9.0, False), (9.0, 11.0, False), *steady(10, 15)],
            15,
            0.666667,
            ((5, 10),),
            id="timed out, one after the other",
        ),
        pytest.param([(0.0, 5.02, True), *steady(5, 10)], 10, 0.5, ((0, 5),), id="an outage at the start"),
        pytest.param(
            [*steady(0, 5), (5.0, None, False)], 10, 0.5, ((5, 10),), id="an outage at the end, no completion"
        ),
        pytest.param(steady(0.999, 30.999, 5.0), 40, 1.0, (), id="one op in 5 s, each across the end of a second"),
        pytest.param([*steady(0, 15, 5.0), (5.5, 5.6, False)], 20, 1.0, (), id="a refusal beside an answer"),
        pytest.param([*steady(0, 15, 5.0), (7.5, 7.6, False)], 20, 0.75, ((7, 8),), id="a refusal by itself"),
        pytest.param([(3.2, 3.3, True), (3.5, 8.5, False)], 9, round(1 / 6, 6), ((4, 9),), id="one op waits"),
        pytest.param([(0.0, 2.5, True)], 3, round(1 / 3, 6), ((0, 2),), id="answered in the second in which it ended"),
        pytest.param([(0.0, 2.0, True)], 3, 0.5, ((0, 1),), id="answered as a second ends"),
        pytest.param([*steady(0, 3), (3.0, 4.25, False)], 4.25, round(3 / 4.25, 6), ((3, 5),), id="a part of a second"),
        pytest.param([*steady(0, 2), (2.5, 3.5, False), *steady(4, 4.5)], 4.5, round(2.5 / 4.5, 6), ((2, 4),), id="2"),
        pytest.param([(-1.0, 2.0, False)], 3, None, (), id="no time is known"),
        pytest.param([(4.0, 2.0, True)], 5, 1.0, (), id="times that go back"),
        pytest.param([(1.0, 2.0**62 / SECOND, False)], 2.0**61 / SECOND, 0.0, None, id="a very long time"),
    ],
)
def test_seconds_count_from_due_to_completion_and_are_served_by_answers(
    calls: list[Call], end_s: float, time: float | None, silent: tuple[tuple[int, int], ...] | None
) -> None:
    seen = found(calls, end_s)
    assert seen.time == time
    assert silent is None or seen.silent == silent


def test_the_longest_silences_are_listed_in_the_order_of_time() -> None:
    calls: list[Call] = [(10.0 * i, 10.0 * i + 1 + i % 8, False) for i in range(SILENT_LISTED + 20)]
    seen = found(calls, 1000)
    assert len(seen.silent) == SILENT_LISTED
    assert list(seen.silent) == sorted(seen.silent)
    lengths = sorted((1 + i % 8 for i in range(SILENT_LISTED + 20)), reverse=True)
    assert sorted((end - begin for begin, end in seen.silent), reverse=True) == lengths[:SILENT_LISTED]


TENTHS = st.integers(0, 120).map(lambda tenths: tenths / 10)
CALLS = st.lists(st.tuples(TENTHS, st.none() | TENTHS, st.booleans()), min_size=1, max_size=12)


@given(CALLS)
def test_it_is_what_a_count_of_every_second_by_itself_gives(calls: list[Call]) -> None:
    whole = [(due, ended if ended is None else max(due, ended), ok and ended is not None) for due, ended, ok in calls]
    touched: dict[int, list[Call]] = {}
    served: set[int] = set()
    for due, ended, ok in whole:
        last = max(round(due * 10), round((13.0 if ended is None else ended) * 10) - 1) // 10
        for second in range(int(due), last + 1):
            touched.setdefault(second, []).append((due, ended, ok))
        if ok:
            served.add(last)
    for second, there in touched.items():
        if all(ok and ended is not None and round(10 * (ended - due)) <= 10 for due, ended, ok in there):
            served.add(second)
    seen = found([(due, ended, ok) for due, ended, ok in whole], 13.0)
    assert seen.time == round(len(served) / len(touched), 6)
    assert {second for begin, end in seen.silent for second in range(begin, end)} == set(touched) - served
    assert seen.ops == round(sum(ok for *_, ok in whole) / len(whole), 6)
