"""The verdict of a checker that lists findings: the first one speaks for all, and only some are kept."""

from __future__ import annotations

import pytest

from splitbrain.checkers.consensus.findings import LISTED, Finding, verdict_of
from splitbrain.checkers.verdict import Verdict


def found(count: int) -> list[Finding]:
    return [{"anomaly": "odd" if number % 2 else "even", "sentence": f"Found {number}."} for number in range(count)]


def verdict(count: int, *, unknown: bool = False, left_out: str = "") -> Verdict:
    return verdict_of(
        "c", algorithm="a", found=found(count), otherwise="None.", figures={}, unknown=unknown, left_out=left_out
    )


@pytest.mark.parametrize(
    ("count", "sentence"),
    [(1, "Found 0."), (2, "Found 0. (2 findings in all.)"), (30, "Found 0. (30 findings in all.)")],
)
def test_the_first_finding_speaks_for_all_and_so_many_are_kept(count: int, sentence: str) -> None:
    said = verdict(count)
    assert (said.valid, said.sentence) == ("false", sentence)
    assert said.anomalies == ("even", "odd")[:count]
    assert said.evidence == {"findings": found(count)[:LISTED]}


def test_what_was_found_is_a_violation_also_where_the_rest_is_unknown() -> None:
    said = verdict(1, unknown=True, left_out=" (One was left out.)")
    assert (said.valid, said.sentence) == ("false", "Found 0. (One was left out.)")


def test_without_findings_a_verdict_has_no_evidence() -> None:
    assert (verdict(0).valid, verdict(0).sentence, verdict(0).evidence) == ("true", "None.", {})
    unknown = verdict(0, unknown=True)
    assert unknown.valid == "unknown"
    assert unknown.inconclusive
