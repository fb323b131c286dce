from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings

from splitbrain.checkers.consensus import CommitMonotonic
from splitbrain.checkers.verdict import Verdict
from tests.checkers.telemetry import row, telemetries, told


def judge(*rows: dict[str, Any]) -> Verdict:
    return CommitMonotonic().check(told(*rows), {})


@pytest.mark.parametrize(
    ("first", "second", "anomaly", "sentence"),
    [
        (
            {"commit_index": 9},
            {"commit_index": 8},
            "commit-went-back",
            "Commit went back: n1 reported commit index 9 at 1.000 s in life 1, then 8 at 2.000 s in life 1.",
        ),
        (
            {"applied_index": 9},
            {"applied_index": 8},
            "applied-went-back",
            "Applied went back: n1 reported applied index 9 at 1.000 s in life 1, then 8 at 2.000 s in life 1.",
        ),
        (
            {"term": 9},
            {"term": 8},
            "term-went-back",
            "Term went back: n1 reported term 9 at 1.000 s in life 1, then 8 at 2.000 s in life 1.",
        ),
        (
            {"event": "role", "term": 9},
            {"event": "start", "term": 8, "life": 2},
            "term-forgotten",
            "Term forgotten: n1 reported term 9 at 1.000 s in life 1, then 8 at 2.000 s in life 2.",
        ),
        (
            {},
            {"commit_index": 8, "applied_index": 9},
            "applied-beyond-commit",
            "Applied beyond commit: n1 had applied index 9 with commit index 8 at 2.000 s in life 1.",
        ),
    ],
)
def test_what_is_taken_back_is_shown_with_the_rows_before_and_after(
    first: dict[str, Any], second: dict[str, Any], anomaly: str, sentence: str
) -> None:
    verdict = judge(row(1, "n1", group=None, **first), row(2, "n1", group=None, **second))
    assert (verdict.valid, verdict.anomalies, verdict.sentence) == ("false", (anomaly,), sentence)
    [finding] = verdict.evidence["findings"]
    assert [r["time_s"] for r in finding["rows"]][-1] == 2.0
    assert verdict.figures["broken"] == {anomaly: 1}


def test_a_new_life_commits_and_applies_anew_and_a_rebuild_applies_anew() -> None:
    verdict = judge(
        row(1, "n1", "commit", term=2, commit_index=9, applied_index=9),
        row(1, "n2", "commit", term=1, commit_index=3, applied_index=3),
        row(2, "n1", "start", life=2, term=2, commit_index=0, applied_index=0),
        row(3, "n1", "commit", life=2, term=2, commit_index=9, applied_index=7),
        row(4, "n1", "rebuild", life=2, term=3, commit_index=9, applied_index=0),
        row(5, "n1", "commit", life=2, term=3, commit_index=9, applied_index=1),
    )
    assert verdict.valid == "true"
    assert verdict.figures == {
        "rows": 6,
        "lives": 3,
        "max_commit": 9,
        "max_applied": 9,
        "max_term": 3,
        "rebuilds": 1,
        "counted": 0,
        "broken": {},
    }


def test_a_node_that_comes_back_as_another_member_may_begin_in_a_lower_term() -> None:
    before, began = row(1, "n1", "role", term=8, commit_index=5), row(4, "n1", "start", life=2, term=0, commit_index=0)
    after = row(5, "n1", "role", life=2, term=9), row(6, "n1", "role", life=3, term=8)
    assert judge(before, began).anomalies == ("term-forgotten",)
    assert judge(before, row(3, "n1", "new-member", term=0, commit_index=0), began).valid == "true"
    assert judge(before, row(3, "n1", "new-member", term=0), began, *after).anomalies == ("term-forgotten",)


def test_only_a_row_of_a_changed_role_makes_a_term_known() -> None:
    while_it_was_written = row(2, "n1", "commit", term=9)
    assert judge(row(1, "n1", "role", term=8), while_it_was_written, row(3, "n1", life=2, term=8)).valid == "true"
    assert judge(row(1, "n1", "role", term=8), while_it_was_written, row(3, "n1", life=2, term=7)).valid == "false"


def test_a_flood_of_one_anomaly_does_not_crowd_out_another() -> None:
    flood = [row(time, "n1", commit_index=1, applied_index=time) for time in range(2, 100)]
    verdict = judge(*flood, row(100, "n1", commit_index=0))
    assert verdict.anomalies == ("applied-beyond-commit", "commit-went-back")
    assert {f["anomaly"] for f in verdict.evidence["findings"]} == set(verdict.anomalies)
    assert verdict.sentence.endswith("(99 times in all: applied-beyond-commit, commit-went-back.)")


def test_rows_that_tell_no_index_and_no_term_prove_nothing() -> None:
    verdict = judge(row(1, "n1", "start"), row(2, "n1", "stop"))
    assert verdict.valid == "unknown"


def _sank(rows: list[dict[str, Any]], field: str, *, rebuilt: bool = False) -> bool:
    """Whether a later row of the same node, group and life tells less; a rebuild in between excuses it."""
    for i, j in combinations(range(len(rows)), 2):
        one, other = rows[i], rows[j]
        if any(one[name] != other[name] for name in ("node", "group", "life")):
            continue
        if None in (one[field], other[field]) or other[field] >= one[field]:
            continue
        between = [r for r in rows[i + 1 : j + 1] if r["node"] == one["node"] and r["group"] == one["group"]]
        if not rebuilt or all(r["event"] != "rebuild" for r in between):
            return True
    return False


def _forgotten(rows: list[dict[str, Any]]) -> bool:
    for i, j in combinations(range(len(rows)), 2):
        one, other = rows[i], rows[j]
        if one["event"] != "role" or None in (one["term"], other["term"]) or other["term"] >= one["term"]:
            continue
        if (one["node"], one["group"]) != (other["node"], other["group"]) or other["life"] <= one["life"]:
            continue
        same = [r for r in rows[:j] if all(r[name] == other[name] for name in ("node", "group", "life"))]
        if all(r["term"] is None for r in same):
            return True
    return False


@pytest.mark.slow
@given(telemetries())
@settings(max_examples=300)
def test_it_finds_what_comparing_every_two_rows_finds(rows: list[dict[str, Any]]) -> None:
    beyond = [r for r in rows if None not in (r["applied_index"], r["commit_index"])]
    expected = {
        "commit-went-back": _sank(rows, "commit_index"),
        "applied-went-back": _sank(rows, "applied_index", rebuilt=True),
        "applied-beyond-commit": any(r["applied_index"] > r["commit_index"] for r in beyond),
        "term-went-back": _sank(rows, "term"),
        "term-forgotten": _forgotten(rows),
    }
    assert set(judge(*rows).anomalies) == {anomaly for anomaly, is_there in expected.items() if is_there}


def applies(time_s: float, event: str, index: int, count: int | None, **fields: Any) -> dict[str, Any]:
    return row(time_s, "n1", event, applied_index=index, applied_count=count, **fields)


def test_what_a_life_applies_follows_the_log_entry_by_entry_from_where_it_began() -> None:
    verdict = judge(
        applies(1, "start", 16, 0),
        applies(2, "commit", 20, 4),
        applies(3, "snapshot", 90, 4),  # taken over, not applied
        applies(4, "commit", 91, 5),
        applies(5, "rebuild", 16, 5),
        applies(6, "commit", 91, 80),
        applies(7, "start", 64, 0, life=2),
        applies(8, "commit", 70, 6, life=2),
        applies(9, "commit", 99, None, life=2),
    )
    assert (verdict.valid, verdict.figures["counted"]) == ("true", 4)


@pytest.mark.parametrize(
    ("index", "anomaly", "said"),
    [(26, "applied-skipped", "Applied skipped entries"), (24, "applied-twice", "Applied twice")],
)
def test_an_applied_index_that_rises_by_another_number_than_was_applied_is_named(
    index: int, anomaly: str, said: str
) -> None:
    verdict = judge(applies(1, "start", 16, 0), applies(2, "commit", 20, 4), applies(3, "commit", index, 9))
    assert (verdict.valid, verdict.anomalies) == ("false", (anomaly,))
    assert verdict.sentence == (
        f"{said}: n1 of group 'g' applied 5 entries from index 20 at 2.000 s in life 1 to {index} at 3.000 s in life 1."
    )


def test_each_group_of_a_node_has_its_own_indexes_and_terms() -> None:
    rows = [row(1, "n1", "role", term=9, commit_index=9), row(2, "n1", "role", term=1, commit_index=1, group="h")]
    assert judge(*rows).valid == "true"
    verdict = judge(*rows, row(3, "n1", commit_index=8), row(4, "n1", commit_index=0, group="h"))
    assert (verdict.anomalies, verdict.figures["broken"]) == (("commit-went-back",), {"commit-went-back": 2})


def test_a_rebuild_lets_only_the_applied_index_go_back() -> None:
    before = row(1, "n1", term=5, commit_index=9, applied_index=9)
    after = row(2, "n1", "rebuild", term=4, commit_index=8, applied_index=0)
    assert judge(before, after).anomalies == ("commit-went-back", "term-went-back")


def test_what_went_back_goes_on_from_there() -> None:
    """Each step back is one finding, not one for every row until the index is reached again."""
    steps = [row(at, "n1", commit_index=index) for at, index in enumerate((9, 5, 6, 7, 9, 8))]
    assert judge(*steps).figures["broken"] == {"commit-went-back": 2}


@pytest.mark.parametrize(("applied", "valid"), [(9, "true"), (10, "false")])
def test_applied_up_to_the_commit_index_is_fine_and_one_more_is_not(applied: int, valid: str) -> None:
    assert judge(row(1, "n1", commit_index=9, applied_index=applied)).valid == valid


def test_one_entry_more_or_less_than_was_applied_is_named_in_rows_of_any_event() -> None:
    for event in ("commit", "role", "hash", "end"):
        for index, anomaly in ((24, "applied-twice"), (25, None), (26, "applied-skipped")):
            verdict = judge(applies(1, "start", 20, 0), applies(2, event, index, 5))
            assert verdict.anomalies == ((anomaly,) if anomaly else ())


def test_rows_of_all_nodes_that_follow_the_log_are_counted() -> None:
    rows = [{**applies(at, "commit", 20 + at, at), "node": node} for at in (1, 2) for node in ("n1", "n2")]
    assert (judge(*rows).figures["counted"], judge(*rows).figures["lives"]) == (2, 2)


def test_the_highest_announced_term_counts_in_all_later_lives() -> None:
    rows = [row(1, "n1", "role", term=8), row(2, "n1", "role", term=9), row(3, "n1", "start", life=2, term=9)]
    assert judge(*rows, row(4, "n1", "start", life=3, term=8)).anomalies == ("term-forgotten",)
    forgot = judge(rows[0], row(2, "n1", "role", life=2, term=6), row(3, "n1", life=3, term=7))
    assert forgot.figures["broken"] == {"term-forgotten": 2}, "the life before did not know it either"
    again = judge(rows[0], row(2, "n1", life=2, term=6), row(3, "n1", life=2, term=7))
    assert again.figures["broken"] == {"term-forgotten": 1}, "the rest of a life follows from its beginning"


def test_a_new_member_has_announced_nothing_also_in_its_later_lives() -> None:
    before, left = row(1, "n1", "role", term=8), row(2, "n1", "new-member", life=2)
    assert judge(before, left, row(3, "n1", "start", life=2, term=0), row(4, "n1", life=3, term=1)).valid == "true"
