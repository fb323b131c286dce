"""A leader answers a linearizable read only once a majority confirmed it after it came, or while a lease holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.checkers.consensus import CommitMajority, ReadMajority
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import HistoryFormatError, UsageError
from tests.checkers.telemetry import row, told

MS = 1_000_000
FACTS = "#index=9 #commit=9 #sent=5 #unsent=0"
LEASE = f"n1=5 n2=4 n3=4 {FACTS} #lease={450 * MS} #age:n1=0"


def judge(*rows: dict[str, Any]) -> Verdict:
    return ReadMajority().check(told(*rows), {})


def read(counted: str, needed: int = 5, **fields: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"role": "leader", "term": 3, "counted_index": needed, "counted": counted, **fields}
    return row(2, "n1", "read", **given)


def lease(handed: int = 0, **of: int) -> dict[str, Any]:
    """A read on a lease; in ms how old what n2 and n3 answered is, what the leader took to be left, and so on."""
    names = {"n2": "#age:n2", "n3": "#age:n3", "left": "#left", "changed": "#changed"}
    return read(f"{LEASE} #handed={handed} " + " ".join(f"{names[name]}={ms * MS}" for name, ms in of.items()))


def test_a_read_that_too_few_voters_confirmed_is_found() -> None:
    verdict = judge(read(f"n1=5 n2=5 n3=0 {FACTS}"), read(f"n1=5 n2=4 n3=4 {FACTS}"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("read-without-majority",))
    assert verdict.sentence == (
        "Read without a majority: n1 of group 'g' answered a read in term 3 (at 2.000 s in life 1), and only n1 of the "
        "voters n1, n2, n3 had answered round 5 of its term, the first that began after the read came, or a later one."
    )
    assert verdict.figures == {"reads": 2, "on_lease": 0, "closest": -1, "broken": 1}


@pytest.mark.parametrize(("counted", "valid"), [("n1=5 n2=5 n3=4 n4=4", "false"), ("n1=5 n2=5 n3=6 n4=4", "true")])
def test_half_of_an_even_number_confirms_no_read(counted: str, valid: str) -> None:
    assert judge(read(f"{counted} {FACTS}")).valid == valid


def test_a_read_needs_a_majority_of_the_voters_in_force_and_not_of_those_that_are_listed() -> None:
    five = ["n1", "n2", "n3", "n4", "n5"]
    verdict = judge(read(f"n1=5 n2=5 {FACTS}", voters=five))
    assert verdict.anomalies == ("read-without-majority",)
    assert "only n1, n2 of the voters n1, n2, n3, n4, n5 had answered round 5" in verdict.sentence
    assert judge(read(f"n1=5 n2=5 n3=5 {FACTS}", voters=five)).valid == "true"


def test_a_read_that_does_not_say_what_speaks_for_it_is_not_judged() -> None:
    assert judge({**read(""), "counted": None}).figures["reads"] == 0


def test_a_read_that_nobody_confirmed_is_said_as_such() -> None:
    assert "and no voter of the voters n2, n3 had answered round 5" in judge(read(f"n2=4 n3=0 {FACTS}")).sentence


def test_a_read_index_below_what_was_committed_is_found() -> None:
    verdict = judge(read("n1=5 n2=5 n3=5 #index=8 #commit=9 #sent=5 #unsent=0"))
    assert verdict.anomalies == ("read-below-commit",)
    assert "as of entry 8, although it had committed entry 9 when the read came." in verdict.sentence


def test_a_read_index_below_the_first_entry_of_the_term_is_found() -> None:
    first = row(1, "n1", "first", term=3, log_index=10, log_term=3)
    verdict = judge(first, read(f"n1=5 n2=5 n3=5 {FACTS}"))
    assert verdict.anomalies == ("read-before-noop",)
    assert "as of entry 9, although its term begins with entry 10." in verdict.sentence
    assert judge({**first, "log_index": 9}, read(f"n1=5 n2=5 n3=5 {FACTS}")).valid == "true"


@pytest.mark.parametrize("other", [{"node": "n2"}, {"life": 2}, {"group": "h"}, {"log_term": 2}])
def test_the_first_entry_of_another_log_or_term_does_not_count(other: dict[str, Any]) -> None:
    first = row(1, "n1", "first", term=3, log_index=10, log_term=3)
    assert judge({**first, **other}, read(f"n1=5 n2=5 n3=5 {FACTS}")).valid == "true"


def test_an_answer_to_a_round_that_was_not_sent_is_found() -> None:
    verdict = judge(read("n1=5 n2=7 n3=5 #index=9 #commit=9 #sent=5 #unsent=1"))
    assert verdict.anomalies == ("answered-unsent-round",)
    assert "in this term had got 1 answer to rounds that it had not sent yet." in verdict.sentence


def test_a_lease_holds_while_a_majority_promised_it() -> None:
    verdict = judge(lease(n2=449, left=449 - 448))
    assert (verdict.valid, verdict.figures["on_lease"], verdict.figures["closest"]) == ("true", 1, None)
    assert verdict.sentence == "1 read of leaders had been confirmed by a majority of the voters, 1 of them by a lease."


def test_a_lease_that_is_over_is_found() -> None:
    verdict = judge(lease(n2=450, n3=700))
    assert verdict.anomalies == ("read-without-majority",)
    assert verdict.sentence.endswith("or a later one, and no lease held: the last one had ended 0 ms before.")


def test_a_lease_that_nobody_promised_is_found() -> None:
    verdict = judge(lease())
    assert verdict.anomalies == ("read-without-majority",)
    assert verdict.sentence.endswith("and no lease had begun.")


def test_a_lease_that_the_leader_takes_for_longer_than_it_is_is_found() -> None:
    assert judge(lease(n2=150, n3=400, left=300)).valid == "true"
    verdict = judge(lease(n2=150, n3=400, left=301))
    assert verdict.anomalies == ("lease-too-long",)
    assert "took its lease to last 301 ms more" in verdict.sentence
    assert "had answered, it lasted 300 ms more." in verdict.sentence


def test_a_lease_that_is_over_by_the_leaders_own_count_is_not_too_long() -> None:
    confirmed = f"n1=5 n2=5 n3=4 {FACTS} #lease={450 * MS} #age:n1=0 #age:n2={900 * MS} #left=0 #handed=0"
    assert judge(read(confirmed)).valid == "true"


def test_a_lease_after_a_handover_is_found() -> None:
    verdict = judge(lease(handed=1, n2=10))
    assert verdict.anomalies == ("lease-after-handover",)
    assert judge(lease(handed=1, n2=10, left=440)).anomalies == ("lease-after-handover",)
    confirmed = f"n1=5 n2=5 n3=5 {FACTS} #lease={450 * MS} #handed=1 #age:n1=0 #age:n2=0 #age:n3=0"
    assert judge(read(confirmed)).valid == "true", "it asked a majority"
    assert judge(read(f"{confirmed} #left=1")).anomalies == ("lease-after-handover",)


def test_a_lease_of_the_voters_before_is_not_judged() -> None:
    assert judge(lease(changed=449, left=400)).valid == "true"
    assert judge(lease(changed=450, left=400)).valid == "false"


def test_rows_about_anything_else_are_not_judged() -> None:
    other = row(1, "n1", "commit", role="leader", term=3, counted_index=7, counted="n1=7 n2=7 n3=0")
    verdict = judge(other, read("", counted_index=None))
    assert (verdict.valid, verdict.figures["reads"]) == ("true", 0)
    assert verdict.sentence == "Nothing was judged: no leader reported what speaks for a read."
    assert CommitMajority().check(told(read(f"n1=5 n2=0 n3=0 {FACTS}")), {}).figures["commits"] == 0


@given(st.integers(1, 9), st.dictionaries(st.sampled_from(["n1", "n2", "n3#1", "n4", "n5"]), st.integers(0, 9)))
def test_the_rule_of_reads_is_that_of_the_thesis(needed: int, answered: dict[str, int]) -> None:
    counted = " ".join(f"{voter}={value}" for voter, value in answered.items())
    majority = 2 * sum(value >= needed for value in answered.values()) > len(answered)
    assert (judge(read(f"{counted} {FACTS}", needed)).valid == "true") == majority


@pytest.mark.parametrize("counted", ["n1", f"n1= {FACTS}", f"=7 {FACTS}", f"n1=x {FACTS}", "n1=5 #index=9", ""])
def test_damaged_facts_of_a_read_are_named(counted: str) -> None:
    with pytest.raises(HistoryFormatError, match="column 'counted' holds"):
        judge(read(counted))


def test_the_checker_of_reads_has_no_options() -> None:
    with pytest.raises(UsageError, match="read-majority takes no options"):
        ReadMajority().check(told(), {"x": 1})
