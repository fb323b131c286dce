"""Change points of nights: what has moved is found within a night, what has not is left alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from splitbrain.results import runfigures
from splitbrain.results.changes import ALPHA, Change, Trends, prediction_p, student_p, trends_of
from splitbrain.results.nighttables import NightTable
from tests.results.nightsupport import night, rows

MAJORITY = "recovery/kill/start/majority"


def _nights(count: int, seed: int, more: Callable[[int], dict[str, Any]]) -> list[tuple[NightTable, Trends]]:
    """Nights one after the other, each compared with those before it."""
    generator = np.random.default_rng(seed)
    found: list[tuple[NightTable, Trends]] = []
    for number in range(count):
        tonight = night(f"{number:02}", generator, **more(number))
        known = [change for _, trends in found for change in trends.changes]
        found.append((tonight, trends_of(tonight, [table for table, _ in found], known)))
    return found


def _changes(found: Sequence[tuple[NightTable, Trends]]) -> list[list[Change]]:
    return [list(trends.changes) for _, trends in found]


@pytest.mark.parametrize("seed", range(3))
def test_a_slower_election_is_a_change_of_the_first_night_that_has_it_and_of_no_other(seed: int) -> None:
    found = _changes(_nights(7, seed, lambda number: {"runs": 40, "slower": 1.2 if number >= 5 else 1.0}))
    assert [[change.figure for change in changes] for changes in found] == [[], [], [], [], [], [MAJORITY], []]
    [[change]] = [changes for changes in found if changes]
    assert (change.since, change.until, change.workload, change.version) == ("05", "05", "", "default")
    assert change.ratio == pytest.approx(1.2, abs=0.1)
    assert change.p < ALPHA
    assert (change.runs_after, change.nights_before) == (80, 5)


def test_a_cell_that_changed_alone_is_named() -> None:
    cells = [("register", "kill"), *((f"w{number}", "kill") for number in range(9))]
    found = _changes(
        _nights(4, 1, lambda number: {"cells": cells, "runs": 50, "slower": 1.0 + number // 3, "only": "register"})
    )
    assert found[:3] == [[], [], []]
    assert [(each.workload, each.nemesis) for each in found[3]] == [("register", "kill")]


def test_a_change_too_small_for_one_night_is_found_after_three_and_dated_back() -> None:
    found = _changes(_nights(9, 1, lambda number: {"runs": 80, "slower": 1.07 if number >= 6 else 1.0}))
    [change] = [change for changes in found for change in changes]
    assert (change.since, change.until) == ("06", "08")


def test_the_same_seeds_give_pairs_and_say_nothing_where_nothing_changed() -> None:
    (_, trends), (_, slow) = _nights(2, 3, lambda number: {"runs": 60, "fixed": 60, "slower": 1.0 + 0.08 * number})
    assert (trends.nights, trends.changes) == (0, ())
    [change] = slow.changes
    assert (change.figure, change.pairs) == (MAJORITY, 120)
    assert change.ratio == pytest.approx(1.08, abs=1e-3)
    assert change.p < 1e-20


def test_runs_that_were_chosen_since_they_failed_are_no_sample() -> None:
    draw = np.random.default_rng(1)
    listed = rows("1", draw, runs=60)
    chosen = [{**row, "why": "failed", "seed": row["seed"] + 1, "p99_ms": 1e6} for row in listed]
    before = NightTable("0", pa.Table.from_pylist(rows("0", draw, runs=60), runfigures.SCHEMA))
    tonight = NightTable("1", pa.Table.from_pylist([*listed, *chosen], runfigures.SCHEMA))
    assert trends_of(tonight, [before], ()).changes == ()
    as_fresh = [{**row, "why": "fresh"} for row in chosen]
    fresh = NightTable("1", pa.Table.from_pylist([*listed, *as_fresh], runfigures.SCHEMA))
    assert [change.figure for change in trends_of(fresh, [before], ()).changes] == ["p99_ms"]


def test_a_night_of_few_runs_says_that_they_are_too_few() -> None:
    *_, (_, trends) = _nights(3, 4, lambda number: {"runs": 2, "slower": 1.0 + number})
    assert trends.changes == ()
    assert any(each.startswith("after kill: a majority answers (s)") for each in trends.too_few)


@pytest.mark.slow
def test_one_slow_night_of_the_machine_is_no_change_and_two_are() -> None:
    def nights(slow: Sequence[int]) -> list[list[Change]]:
        return _changes(_nights(12, 5, lambda n: {"speed": 5.0 if n in slow else 10.0 + 0.1 * (n % 3)}))

    assert not any(nights([9]))
    *before, [change] = nights([10, 11])
    assert not any(before)
    assert (change.figure, change.since, change.until) == ("sim_speed", "10", "11")
    assert change.ratio == pytest.approx(0.5, abs=0.05)


def test_on_real_nodes_a_night_is_one_value_however_many_runs_it_has() -> None:
    found = _changes(_nights(7, 6, lambda number: {"backend": "local", "slower": 1.0 + 0.5 * (number == 6)}))
    assert found[6] == []


@pytest.mark.slow
def test_nights_of_the_same_code_have_no_change_points() -> None:
    """15 series of ten nights: with one false change point in a thousand nights 0.15 are expected at the most."""
    cells = [(workload, nemesis) for workload in "abc" for nemesis in "xy"]
    false = [
        change
        for seed in range(15)
        for changes in _changes(_nights(10, seed, lambda _: {"cells": cells, "runs": 8, "fixed": 2}))
        for change in changes
    ]
    assert len(false) <= 1, false


@pytest.mark.parametrize(
    ("t", "freedom", "p"), [(12.706, 1, 0.05), (4.303, 2, 0.05), (3.182, 3, 0.05), (2.571, 5, 0.05), (3.250, 9, 0.01)]
)
def test_students_tail_is_that_of_printed_tables(t: float, freedom: int, p: float) -> None:
    assert student_p(t, freedom) == pytest.approx(p, rel=2e-3)


def test_the_prediction_interval_holds_for_normal_values() -> None:
    draw = np.random.default_rng(1)
    far = sum(prediction_p(draw.normal(size=6), draw.normal(size=2)) < 0.05 for _ in range(4000))
    assert 0.035 < far / 4000 < 0.065
