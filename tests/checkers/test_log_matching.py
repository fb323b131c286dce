"""Logs with the same entry are the same up to it; by hand, and on logs that some leaders made or that were spoilt."""

from __future__ import annotations

from itertools import combinations
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.checkers.consensus import LogMatching
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import UsageError
from splitbrain.results.findings import findings_of
from tests.checkers.telemetry import row, telemetries, told

Terms: TypeAlias = tuple[int, ...]
"""A log: the term of each entry, from index 1 on."""


def judge(*rows: dict[str, Any]) -> Verdict:
    return LogMatching().check(told(*rows), {})


def log(
    time_s: float, node: str, index: int, term: int, chain: str, event: str = "log", **fields: Any
) -> dict[str, Any]:
    return row(time_s, node, event, log_index=index, log_term=term, log_hash=chain, **fields)


def test_m19_two_logs_with_an_entry_of_the_same_index_and_term_are_the_same_up_to_it() -> None:
    rows = [log(1, "n1", 64, 3, "a"), log(2, "n2", 64, 3, "a"), log(3, "n1", 128, 3, "b"), log(3, "n3", 128, 4, "x")]
    verdict = judge(*rows)
    assert (verdict.valid, verdict.figures["compared"], verdict.figures["highest_compared"]) == ("true", 1, 64)
    assert verdict.sentence == (
        "Logs are the same up to every entry at which two or more could be compared (1 entry, the highest 64)."
    )
    verdict = judge(*rows, log(4, "n2", 128, 3, "c", life=2))
    assert (verdict.valid, verdict.anomalies) == ("false", ("logs-differ",))
    assert verdict.sentence == (
        "Logs differ: of the log up to entry 128 of term 3 of group 'g' n1 reported b (at 3.000 s in life 1) and n2 "
        "reported c (at 4.000 s in life 2). Logs of two nodes agreed up to entry 64."
    )
    assert [each["node"] for each in verdict.evidence["findings"][0]["logs"]] == ["n1", "n2"]


def test_m19_a_term_begins_with_the_same_entry_in_every_log() -> None:
    rows = [log(1, "n1", 10, 3, "a", "first"), log(2, "n2", 10, 3, "a", "first"), log(3, "n3", 11, 4, "b", "first")]
    assert (judge(*rows).valid, judge(*rows).figures["terms"]) == ("true", 2)
    verdict = judge(*rows, log(4, "n3", 11, 3, "c", "first"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("logs-differ",))
    assert verdict.sentence == (
        "Logs differ: in one log term 3 of group 'g' begins at entry 10 in that of n1 (at 1.000 s in life 1) and at "
        "entry 11 in that of n3 (at 4.000 s in life 1)."
    )


def test_m20_what_the_leader_of_a_term_sent_stays_until_the_term_ends() -> None:
    assert judge(row(1, "n1", "cut", term=4, log_index=20, log_term=3)).valid == "true"
    verdict = judge(row(1, "n1", "cut", term=4, log_index=20, log_term=4))
    assert (verdict.valid, verdict.anomalies, verdict.figures["cuts"]) == ("false", ("took-back",), 1)
    assert verdict.sentence == (
        "Took back: n1 of group 'g' was in term 4 and removed the end of its log, entry 20 of that same term at 1.000 "
        "s in life 1: its leader had sent that, and does not change it."
    )


def test_a_node_applies_what_its_own_log_holds() -> None:
    def applied(index: int, chain: str) -> dict[str, Any]:
        return row(5, "n1", "hash", applied_index=index, chain_hash=chain)

    held = [log(1, "n1", 64, 3, "a"), log(1, "n1", 70, 3, "b", "role")]
    assert judge(*held, applied(64, "a"), applied(70, "b")).figures["applied"] == 2
    verdict = judge(*held, applied(64, "z"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("applied-otherwise",))
    assert verdict.sentence == (
        "Applied otherwise: n1 of group 'g' reported a for its log up to entry 64 (at 1.000 s in life 1), and after "
        "applying up to there z (at 5.000 s in life 1)."
    )


@pytest.mark.parametrize("event", ["cut", "start", "snapshot", "rebuild", "new-member"])
def test_what_a_node_said_of_a_log_that_it_has_no_more_is_not_held_against_it(event: str) -> None:
    later = row(5, "n1", "hash", applied_index=64, chain_hash="z")
    assert judge(log(1, "n1", 64, 3, "a"), row(2, "n1", event), later).valid == "true"


def test_other_groups_and_states_that_were_written_down_are_none_of_its_concern() -> None:
    rows = [log(1, "n1", 64, 3, "a"), log(2, "n2", 64, 3, "b", group="h"), log(3, "n2", 64, 3, "c", "checkpoint")]
    assert (judge(*rows).valid, judge(*rows).figures["compared"]) == ("true", 0)


def test_a_term_may_begin_elsewhere_in_another_group_and_a_node_has_a_log_in_each() -> None:
    rows = [log(1, "n1", 10, 3, "a", "first"), log(2, "n1", 12, 3, "b", "first", group="h")]
    applied = [row(at, "n1", "hash", applied_index=12, chain_hash="z", group=group) for at, group in ((3, "g"),)]
    verdict = judge(*rows, *applied)
    assert (verdict.valid, verdict.figures["terms"], verdict.figures["applied"]) == ("true", 2, 0)
    cut = row(3, "n1", "cut", term=4, log_index=20, log_term=3, group="g")
    assert judge(*rows, cut, row(4, "n1", "hash", applied_index=12, chain_hash="z", group="h")).anomalies == (
        "applied-otherwise",
    )


def test_a_node_whose_own_log_differs_in_two_lives_is_found_but_no_agreement_with_itself_is_counted() -> None:
    one, again = log(1, "n1", 64, 3, "a"), log(2, "n1", 64, 3, "a", life=2)
    assert judge(one, again).figures["compared"] == 0
    assert judge(one, again).sentence == "Nothing was compared: no two nodes reported their logs up to the same entry."
    differs = judge(one, log(2, "n1", 64, 3, "b", life=2))
    assert (differs.anomalies, differs.figures["compared"]) == (("logs-differ",), 0)


def test_the_lowest_entry_of_those_that_differ_is_named_with_the_last_agreement_of_its_group() -> None:
    agree = [log(1, node, index, 2, "same") for index in (64, 128, 320) for node in ("n1", "n2")]
    elsewhere = [log(1, node, 190, 2, "same", group="h") for node in ("n1", "n2")]
    differ = [log(2, node, index, 3, node) for index in (256, 192) for node in ("n1", "n2")]
    late = [log(3, "n3", 300, 9, "x", "first"), log(3, "n4", 310, 9, "y", "first")]
    verdict = judge(*late, *differ, *agree, *elsewhere)
    assert all(not finding.ops for finding in findings_of(verdict.evidence)), "an entry of a log is no op"
    assert [finding["entry"] for finding in verdict.evidence["findings"]] == [192, 256, 300]
    assert [finding["last_agreed_index"] for finding in verdict.evidence["findings"]] == [128, 128, None]
    assert verdict.sentence.endswith("Logs of two nodes agreed up to entry 128. (3 findings in all.)")


def test_each_thing_that_a_node_said_of_its_log_is_compared_once_with_what_it_applied_there() -> None:
    def applied(time_s: float, index: int, chain: str | None) -> dict[str, Any]:
        return row(time_s, "n1", "hash", applied_index=index, chain_hash=chain)

    held = [log(1, "n1", 64, 3, "a"), log(1, "n1", 128, 3, "b")]
    once = judge(*held, applied(2, 64, "z"), applied(3, 64, "z"))
    assert (once.figures["applied"], once.figures["broken"]) == (1, 1)
    both = judge(*held, applied(2, 64, "a"), applied(3, 128, "z"))
    assert (both.figures["applied"], both.anomalies) == (2, ("applied-otherwise",))
    assert judge(*held, applied(2, 64, None)).valid == "true", "it says no hash"
    newest = judge(*held, log(2, "n1", 64, 3, "c", "role"), applied(3, 64, "z"))
    said = newest.evidence["findings"][-1]["sentence"]
    assert "reported c for its log up to entry 64 (at 2.000 s in life 1)" in said
    applied_already = log(1, "n1", 64, 3, "a", applied_index=64)
    assert judge(applied_already, applied(3, 64, "z")).figures["applied"] == 0, "what it applied is no log behind it"


def test_the_state_for_an_entry_says_nothing_of_the_log_up_to_there() -> None:
    written = log(1, "n1", 70, 3, "c", "checkpoint", applied_index=64)
    assert judge(written, row(5, "n1", "hash", applied_index=70, chain_hash="z")).valid == "true"


def test_what_is_cut_off_is_counted_also_if_it_was_of_an_earlier_term() -> None:
    cuts = [row(at, "n1", "cut", term=4, log_index=20, log_term=term) for at, term in ((1, 3), (2, 2))]
    assert judge(*cuts).figures["cuts"] == 2


@given(telemetries())
def test_old_runs_do_not_say_what_logs_held_and_nothing_is_made_of_that(rows: list[dict[str, Any]]) -> None:
    verdict = judge(*rows)
    assert (verdict.valid, verdict.sentence) == ("true", "Nothing was judged: no node reported what its log holds.")


def test_it_takes_no_options() -> None:
    with pytest.raises(UsageError, match="log-matching takes no options"):
        LogMatching().check(told(row(1, "n1")), {"strict": True})


@st.composite
def cluster_logs(draw: st.DrawFn) -> list[Terms]:
    """Logs that leaders made: each adds entries of its own term to a log that there is, and sends a part to some."""
    logs: list[Terms] = [()] * 3
    for term in range(1, draw(st.integers(1, 5)) + 1):
        leader = draw(st.integers(0, 2))
        logs[leader] += (term,) * draw(st.integers(1, 3))
        for follower in range(3):
            if follower != leader and draw(st.booleans()):
                logs[follower] = logs[leader][: draw(st.integers(0, len(logs[leader])))]
    return logs


def reported(logs: list[Terms]) -> list[dict[str, Any]]:
    """All that nodes can report of their logs; a chain is what it is made of."""
    rows: list[dict[str, Any]] = []
    for number, terms in enumerate(logs):
        for index, term in enumerate(terms, 1):
            event = "first" if term not in terms[: index - 1] else "log"
            rows.append(log(index, f"n{number}", index, term, str(terms[:index]), event))
    return rows


def do_match(one: Terms, other: Terms) -> bool:
    """The property, word by word."""
    return all(
        one[:index] == other[:index]
        for index in range(1, min(len(one), len(other)) + 1)
        if one[index - 1] == other[index - 1]
    )


@given(cluster_logs())
def test_logs_that_leaders_made_match(logs: list[Terms]) -> None:
    assert all(do_match(one, other) for one, other in combinations(logs, 2))
    assert judge(*reported(logs)).valid == "true"


@given(cluster_logs(), st.data())
def test_logs_that_were_spoilt_are_judged_as_the_property_says(logs: list[Terms], data: st.DataObject) -> None:
    """A log whose entry was replaced: by brute force, the first entry of a term counted as well."""
    victim = data.draw(st.sampled_from([k for k, terms in enumerate(logs) if terms]))
    index = data.draw(st.integers(0, len(logs[victim]) - 1))
    low = logs[victim][index - 1] if index else 1
    spoilt = (*logs[victim][:index], data.draw(st.integers(low, logs[victim][index])), *logs[victim][index + 1 :])
    logs[victim] = spoilt
    matches = all(do_match(one, other) for one, other in combinations(logs, 2))
    begins = {term: {terms.index(term) for terms in logs if term in terms} for term in range(6)}
    begin_alike = all(len(places) < 2 for places in begins.values())
    assert (judge(*reported(logs)).valid == "true") == (matches and begin_alike)


def test_ra33_a_group_and_its_successor_of_the_same_name_have_logs_of_their_own() -> None:
    former = [log(1, "n1", 64, 1, "a", group="g1"), log(1, "n2", 64, 1, "a", group="g1")]
    new = [log(2, "n1", 64, 1, "x", group="g1#1"), log(2, "n2", 64, 1, "x", group="g1#1")]
    assert (judge(*former, *new).valid, judge(*former, *new).figures["compared"]) == ("true", 2)
    assert judge(*former, *({**each, "group": "g1"} for each in new)).valid == "false"
    assert judge(*former, *new, log(3, "n3", 64, 1, "a", group="g1#1")).valid == "false", "one has the former one's"
