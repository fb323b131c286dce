"""Two sides held against each other: medians and ranges, ratios, and what was not the same in the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from splitbrain.results.comparison import Comparison, FigureRow, Side, Spread, Subject, compare, subject_of
from splitbrain.results.figures import Figures, Recovery
from tests.report.sample import sample_run


def figures(ok_per_s: float, *majorities: float | None, marks: dict[str, int] | None = None) -> Figures:
    recoveries = tuple(
        Recovery(fault="kill", action="start", target="n1", time_s=1.0, first_s=None, majority_s=majority, all_s=None)
        for majority in majorities
    )
    return Figures(
        duration_s=10.0,
        ops=0,
        ok=0,
        fail=0,
        info=0,
        ok_per_s=ok_per_s,
        latency_ms={},
        available_time=None,
        available_ops=0.5,
        recoveries=recoveries,
        healed_s=None,
        leader_changes=None,
        marks=marks,
    )


def subject(name: str, found: Figures | None, state: str = "pass", **document: Any) -> Subject:
    return Subject(name=name, state=state, document=document, verdicts=[], figures=found)


def row(found: Comparison, name: str) -> FigureRow:
    [wanted] = [each for each in found.figures if each.name == name]
    return wanted


def test_sets_are_compared_by_medians_and_recoveries_are_pooled() -> None:
    a = Side("A", [subject("t/1", figures(10.0, 1.0, None)), subject("t/2", figures(30.0, 6.0, 2.0))])
    b = Side("B", [subject("t/3", figures(40.0, 8.0))])
    found = compare(a, b)
    rate = row(found, "ok")
    assert (rate.a, rate.b, rate.ratio) == (
        Spread(2, 20.0, 10.0, 30.0, 30.0),
        Spread(1, 40.0, 40.0, 40.0, 40.0),
        2.0,
    )
    recovery = row(found, "kill injected: a majority answers")
    assert (recovery.a, recovery.missing_a, recovery.ratio) == (Spread(3, 2.0, 1.0, 6.0, 6.0, 1), 1, 4.0)
    assert (recovery.pooled, rate.pooled) == (True, False)
    names = {each.name for each in found.figures}
    assert "kill injected: first answer" not in names  # neither side has it
    assert "availability in time" not in names


def test_a_ratio_to_nothing_is_none() -> None:
    found = compare(Side("A", [subject("t/1", figures(0.0))]), Side("B", [subject("t/2", figures(4.0))]))
    assert row(found, "ok").ratio is None


def rates(*values: float) -> Side:
    return Side("", [subject("t/1", figures(value)) for value in values])


@pytest.mark.parametrize(
    ("a", "b", "differs"),
    [
        ((1, 2, 3, 4), (5, 6, 7, 8), True),
        ((5, 6, 7, 8), (1, 2, 3, 4), True),
        ((1, 2, 3, 5), (4, 6, 7, 8), False),  # one value of the one among those of the other
        ((1, 2, 3, 4), (4, 6, 7, 8), False),
        ((1, 2, 3), (5, 6, 7, 8), False),  # too few to tell
        ((1,), (100,), False),
        ((*range(10, 21), 1000), (*range(100, 111), 1), True),  # of twelve, one stray value on each side hides nothing
        ((*range(10, 20), 1000), (*range(100, 110), 1), False),  # of eleven it does
    ],
)
def test_a_difference_is_flagged_where_it_is_larger_than_the_spread(
    a: tuple[float, ...], b: tuple[float, ...], differs: bool
) -> None:
    assert row(compare(rates(*a), rates(*b)), "ok").differs is differs


def test_it_is_said_when_there_are_too_few_runs_to_tell_a_difference() -> None:
    assert "one run on a side" in compare(rates(1), rates(1, 2, 3, 4)).flagged
    assert "3 runs on a side" in compare(rates(1, 2, 3), rates(1, 2, 3, 4)).flagged
    assert compare(rates(1, 2, 3, 4), rates(1, 2, 3, 4)).flagged.startswith("Flagged")


def test_the_p95_of_recovery_times_is_over_all_operations_of_a_side() -> None:
    many = [subject("t/1", figures(1.0, *map(float, range(1, 51)))), subject("t/2", figures(1.0, *range(51, 101)))]
    found = row(compare(Side("A", many), rates(1)), "kill injected: a majority answers").a
    assert found is not None
    assert (found.count, found.p95, found.high) == (100, 95.0, 100.0)


def test_checkers_are_compared_by_name_and_by_the_options_of_those_that_both_have() -> None:
    def checked(*checkers: dict[str, Any]) -> Side:
        return Side("", [subject("t/1", None, checkers=list(checkers))])

    stats: dict[str, Any] = {"name": "stats", "options": {}}
    crashes: dict[str, Any] = {"name": "crashes", "options": {"most": 1}}
    found = compare(
        checked(stats, {"name": "q", "options": {"bound_s": 1, "lease_s": 0}}),
        checked(stats, crashes, {"name": "q", "options": {"bound_s": 2, "lease_s": 0}}),
    )
    assert [(each.what, each.a, each.b) for each in found.tested] == [
        ("checkers", ['["q","stats"]'], ['["crashes","q","stats"]']),
        ("checkers.q.bound_s", ["1"], ["2"]),
    ]


def test_what_differs_in_the_test_is_said_and_seeds_are_apart() -> None:
    a = subject("t/1", None, seed=1, options={"rate": 100.0, "seed": 1, "bug": ""}, versions={"python": "3.11"})
    b = subject("t/2", None, seed=2, options={"rate": 50.0, "seed": 2}, versions={"python": "3.11"}, nodes=["n1"])
    found = compare(Side("A", [a]), Side("B", [b, a]))
    assert [(each.what, each.a, each.b) for each in found.tested] == [
        ("options.rate", ["100.0"], ["100.0", "50.0"]),
        ("nodes", ["none"], ['["n1"]', "none"]),
    ]
    assert found.seeds
    same = compare(Side("A", [a]), Side("B", [a]))
    assert (same.tested, same.seeds) == ([], "")


def test_marks_of_one_side_only_are_named_where_both_counted() -> None:
    a = subject("t/1", figures(1.0, marks={"x": 1, "y": 0, "z": 3}))
    b = subject("t/2", figures(1.0, marks={"x": 1, "y": 2, "z": 0}))
    found = compare(Side("A", [a]), Side("B", [b]))
    assert (found.marks_only_a, found.marks_only_b) == (["z"], ["y"])
    uncounted = compare(Side("A", [a]), Side("B", [subject("t/3", figures(1.0))]))
    assert (uncounted.marks_only_a, uncounted.marks_only_b) == ([], [])


@pytest.mark.slow
def test_outcomes_and_verdicts_of_stored_runs_are_counted(tmp_path: Path) -> None:
    good, bad, thin, none = (
        subject_of(sample_run(tmp_path, state, seed=seed, rate=80.0))
        for seed, state in enumerate(("pass", "violation", "inconclusive", "no history"))
    )
    found = compare(Side("A", [good, thin]), Side("B", [bad, none]))
    assert {(each.name, each.a, each.b) for each in found.outcomes} == {
        ("pass", 1, 0),
        ("inconclusive", 1, 0),
        ("violation", 0, 1),
        ("empty", 0, 1),
    }
    counted = {each.name: (each.a, each.b) for each in found.verdicts}
    assert counted["set: holds"] == (2, 0)
    assert counted["set: violated"] == (0, 1)
    assert counted["coverage: proves too little"] == (1, 0)
    assert found.sentences_a == []
    assert found.sentences_b[0].startswith("Lost: element")
    assert any("nothing was recorded" in note for note in found.notes)
    assert any("not judged yet" in note for note in found.notes)
