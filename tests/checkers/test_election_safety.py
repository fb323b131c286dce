from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.consensus import ElectionSafety
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import UsageError
from tests.checkers.telemetry import row, telemetries, told


def judge(*rows: dict[str, Any]) -> Verdict:
    return ElectionSafety().check(told(*rows), {})


def leads(time_s: float, node: str, term: int, **fields: Any) -> dict[str, Any]:
    return row(time_s, node, "role", role="leader", term=term, **fields)


def test_two_nodes_that_led_one_term_are_named_with_when_and_in_which_life() -> None:
    verdict = judge(
        row(0, "n1", "start", role="follower", term=6),
        leads(1.5, "n1", 7),
        leads(2.5, "n1", 7),
        row(2.6, "n1", "role", role="follower", term=7),
        leads(3, "n4", 7, life=2),
    )
    assert (verdict.valid, verdict.anomalies) == ("false", ("two-leaders",))
    assert verdict.sentence == (
        "Two leaders: term 7 of group 'g' was led by n1 in life 1, seen from 1.500 s to 2.500 s and by n4 in life 2, "
        "seen at 3.000 s."
    )
    [finding] = verdict.evidence["findings"]
    assert (finding["group"], finding["term"]) == ("g", 7)
    assert finding["leaders"] == [
        {"node": "n1", "life": 1, "first_s": 1.5, "last_s": 2.5, "rows": 2},
        {"node": "n4", "life": 2, "first_s": 3.0, "last_s": 3.0, "rows": 1},
    ]


@pytest.mark.parametrize("role", ["pre_candidate", "candidate", "leader"])
def test_ra7_m08_a_learner_that_stands_or_leads_is_named(role: str) -> None:
    fields: dict[str, Any] = {"term": 4, "voters": ["n1", "n2"], "members": "n1 n2 n3#1"}
    verdict = judge(
        row(0, "n3", "start", role="follower", term=3),
        row(1, "n3", "role", role=role, **fields),
        row(2, "n3", "role", role=role, **{**fields, "term": 5}),
    )
    assert (verdict.valid, verdict.anomalies) == ("false", ("learner-stands",))
    assert len(verdict.evidence["findings"]) == 1, "once for each life"
    assert "n3" in verdict.sentence
    assert "only n1, n2 vote" in verdict.sentence


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "follower", "voters": ["n1", "n2"], "members": "n1 n2 n3#1"},
        {"role": "leader", "voters": ["n1", "n3"], "members": "n1 n2 n3#1"},
        {"role": "leader", "voters": ["n1", "n2"], "members": "n1 n2"},
        {"role": "leader", "voters": ["n1", "n2"]},
    ],
    ids=["it follows", "it votes", "it leads until its removal is committed", "members are not reported"],
)
def test_ra7_who_votes_or_is_no_member_is_no_learner_that_stands(fields: dict[str, Any]) -> None:
    assert judge(row(1, "n3", "role", term=4, **fields)).valid == "true"


def test_a_node_that_leads_the_same_term_again_after_a_restart_was_elected_twice() -> None:
    verdict = judge(leads(1, "n1", 3), leads(2, "n1", 3, life=2), leads(3, "n1", 4, life=2))
    assert (verdict.valid, verdict.anomalies) == ("false", ("elected-twice",))
    assert "term 3 of group 'g' was led by n1 in more than one life" in verdict.sentence


def test_a_node_that_leads_the_same_term_again_after_another_role_in_it_was_elected_twice() -> None:
    verdict = judge(
        leads(1, "n1", 3),
        row(1.2, "n1", "role", role=None, term=3),  # tells no role
        row(1.3, "n1", "role", role="follower", term=3, group="other"),
        row(1.4, "n2", "role", role="follower", term=3),
        leads(1.5, "n1", 3),
        row(2, "n1", "role", role="follower", term=3),
        leads(3, "n1", 3),
    )
    assert (verdict.valid, verdict.anomalies, verdict.figures["broken"]) == ("false", ("elected-twice",), 1)
    assert verdict.sentence == (
        "Elected twice: term 3 of group 'g' was led by n1 again after it had another role in that term: "
        "n1 in life 1, seen from 1.000 s to 1.500 s; n1 in life 1, seen at 3.000 s."
    )
    assert [(led["life"], led["first_s"], led["rows"]) for led in verdict.evidence["findings"][0]["leaders"]] == [
        (1, 1.0, 2),
        (1, 3.0, 1),
    ]


def test_a_node_that_was_no_leader_yet_or_steps_down_or_leads_another_term_was_elected_once() -> None:
    verdict = judge(
        row(0, "n1", "role", role="candidate", term=3),
        leads(1, "n1", 3),
        row(2, "n1", "role", role="follower", term=3),
        row(3, "n1", "role", role="follower", term=4),
        leads(4, "n1", 5),
    )
    assert (verdict.valid, verdict.figures["terms"]) == ("true", 2)


def votes(time_s: float, node: str, term: int, candidate: str | None, **fields: Any) -> dict[str, Any]:
    return row(time_s, node, "vote", role="follower", term=term, leader=candidate, **fields)


def test_a_node_that_votes_for_two_candidates_in_a_term_voted_twice_also_across_lives() -> None:
    verdict = judge(votes(1, "n1", 3, "n2"), votes(2, "n1", 3, "n4", life=2), votes(3, "n3", 3, "n2"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("voted-twice",))
    assert verdict.sentence == (
        "Voted twice: n1 voted in term 3 of group 'g' for n2 at 1.000 s in life 1 and for n4 at 2.000 s in life 2."
    )
    assert [vote["candidate"] for vote in verdict.evidence["findings"][0]["votes"]] == ["n2", "n4"]


def test_votes_in_other_terms_and_a_vote_told_again_are_right() -> None:
    verdict = judge(votes(1, "n1", 3, "n2"), votes(2, "n1", 3, "n2", life=2), votes(3, "n1", 4, "n3"))
    assert (verdict.valid, verdict.figures["votes"]) == ("true", 2)


def test_a_vote_that_names_no_candidate_counts_for_nobody() -> None:
    verdict = judge(votes(1, "n1", 3, "n2"), votes(2, "n1", 3, None), votes(3, "n3", 3, None))
    assert (verdict.valid, verdict.figures["votes"]) == ("true", 1)


def test_one_leader_per_term_and_group_is_right_however_many_terms_and_groups() -> None:
    verdict = judge(leads(1, "n1", 1), leads(2, "n2", 2), leads(3, "n1", 3), leads(3, "n3", 3, group="other"))
    assert (verdict.valid, verdict.evidence) == ("true", {})
    figures = {"terms": 4, "leaders": 3, "highest_term": 3, "votes": 0, "majorities": 0, "broken": 0}
    assert verdict.figures == figures


def test_a_pass_in_which_nobody_led_says_so_and_rows_without_roles_prove_nothing() -> None:
    nobody = judge(row(1, "n1", "role", role="follower", term=1))
    assert (nobody.valid, nobody.figures["terms"]) == ("true", 0)
    assert nobody.sentence == "No leader was seen, so no term had two leaders."
    assert judge(row(1, "n1", commit_index=3)).valid == "unknown"


def test_there_are_no_options() -> None:
    with pytest.raises(UsageError, match="takes no options, not 'bound'"):
        ElectionSafety().check(told(leads(1, "n1", 1)), {"bound": 1})


@st.composite
def telemetries_with_votes(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows = draw(telemetries())
    for each in rows:
        if each["event"] == "commit" and draw(st.booleans()):
            each |= {"event": "vote", "leader": draw(st.sampled_from(["n1", "n2", None]))}
    return rows


def _same(one: dict[str, Any], other: dict[str, Any], *names: str) -> bool:
    return all(one[name] == other[name] for name in names)


@pytest.mark.slow
@given(telemetries_with_votes())
@settings(max_examples=200)
def test_it_finds_what_comparing_every_two_rows_finds(rows: list[dict[str, Any]]) -> None:
    told_roles = [r for r in rows if r["role"] is not None and r["term"] is not None]
    by_term: dict[Any, set[bool]] = {}
    double_votes: set[Any] = set()
    for i, j in combinations(range(len(told_roles)), 2):
        one, other = told_roles[i], told_roles[j]
        if not _same(one, other, "group", "term"):
            continue
        if one["role"] == other["role"] == "leader":
            between = [r for r in told_roles[i:j] if _same(r, one, "group", "term", "node", "life")]
            if not _same(one, other, "node", "life") or any(r["role"] != "leader" for r in between):
                by_term.setdefault((one["group"], one["term"]), set()).add(one["node"] != other["node"])
        both_voted = one["event"] == other["event"] == "vote" and one["node"] == other["node"]
        if both_voted and None not in (one["leader"], other["leader"]) and one["leader"] != other["leader"]:
            double_votes.add((one["group"], one["node"], one["term"]))
    expected = {"two-leaders" if True in kinds else "elected-twice" for kinds in by_term.values()}
    expected |= {"voted-twice"} if double_votes else set()
    verdict = judge(*rows)
    assert set(verdict.anomalies) == expected
    assert verdict.figures["broken"] == len(by_term) + len(double_votes)
    assert (verdict.valid == "false") == bool(expected)


def voted(time_s: float, node: str, candidate: str, term: int = 2) -> dict[str, Any]:
    return row(time_s, node, "vote", role="follower", term=term, leader=candidate)


def won(time_s: float, node: str, *voters: str, term: int = 2) -> dict[str, Any]:
    return row(time_s, node, "role", role="leader", term=term, leader=node, voters=list(voters))


def heard(node: str, leader: str | None = "n1", term: int = 2, **fields: Any) -> dict[str, Any]:
    """A later row: by then the node had reported each vote of the term that its leader can have counted."""
    return row(3, node, "role", role="follower", term=term, leader=leader, **fields)


def test_a_leader_has_votes_of_a_majority_of_the_voters_by_its_own_log() -> None:
    votes = [voted(1, "n1", "n1"), voted(1, "n2", "n1"), voted(1, "n9", "n1"), heard("n3"), heard("n4")]
    assert judge(*votes, won(2, "n1", "n1", "n2", "n3")).figures["majorities"] == 1
    assert judge(*votes, won(2, "n1", "n1", "n2", "n3")).valid == "true"
    verdict = judge(*votes, won(2, "n1", "n1", "n2", "n3", "n4"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("minority",))
    assert verdict.sentence == (
        "Elected by a minority: n1 led term 2 of group 'g' (at 2.000 s in life 1), and only n1 and n2 of the voters "
        "n1, n2, n3 and n4 voted for it in that term."
    )
    verdict = judge(*votes, won(2, "n1", "n2", "n3", "n4"))
    assert "and only n2 of the voters n2, n3 and n4 voted for it" in verdict.sentence, "its own vote does not count"
    verdict = judge(*votes, won(2, "n1", "n3"))
    assert "and none of the voters n3 voted for it in that term." in verdict.sentence


def test_a_vote_that_was_durable_and_is_reported_only_at_the_next_start_counts() -> None:
    """The voter was killed between the sync of its vote and its line of telemetry; the candidate had the answer."""
    rows = [voted(1, "n1", "n1"), row(0, "n2", "start"), row(0, "n3", "start"), won(2, "n1", "n1", "n2", "n3")]
    rows.append(heard("n3"))

    def came_back(term: int, leader: str | None) -> dict[str, Any]:
        return row(3, "n2", "start", life=2, role="follower", term=term, leader=leader)

    verdict = judge(*rows, came_back(2, "n1"))
    assert (verdict.valid, verdict.figures["majorities"]) == ("true", 1)
    for other in (came_back(2, "n3"), came_back(2, None), came_back(1, "n1")):
        assert judge(*rows, other, heard("n2", life=2)).anomalies == ("minority",)


def test_a_vote_that_a_voter_did_not_live_to_report_may_have_been_given() -> None:
    """It was killed behind its last row, and its next start, if there is one, says nothing of that term."""
    rows = [voted(1, "n1", "n1"), row(0, "n2", "start", term=1), heard("n3"), won(2, "n1", "n1", "n2", "n3")]

    def came_back(term: int, **fields: Any) -> dict[str, Any]:
        return row(4, "n2", "start", life=2, role="follower", term=term, **fields)

    joins_again = row(3, "n2", "new-member", role="follower", term=0)
    for more in ([], [came_back(3)], [came_back(3, leader="n3")], [joins_again, came_back(0)], [came_back(2)]):
        verdict = judge(*rows, *more)
        assert (verdict.valid, verdict.figures["majorities"]) == ("true", 0)
    last_words = row(3, "n2", "end", role="follower", term=2)
    after = heard("n2", life=2)
    told_all = [heard("n2")], [heard("n2", None, term=3)], [voted(3, "n2", "n2")], [came_back(1), after]
    for more in ([last_words], *told_all, [came_back(2), after]):
        assert judge(*rows, *more).anomalies == ("minority",)
    assert judge(*rows, heard("n2", None)).valid == "true", "it may have voted right behind that row"
    assert judge(*rows, joins_again, came_back(0), heard("n2")).valid == "true", "that is what another member heard"


def test_the_votes_of_another_term_or_group_make_no_majority() -> None:
    known = [voted(1, "n1", "n1"), heard("n2"), heard("n3")]
    assert judge(*known, voted(1, "n2", "n1", term=1), won(2, "n1", "n1", "n2", "n3")).anomalies == ("minority",)
    other = {**voted(1, "n2", "n1"), "group": "h"}
    assert judge(*known, other, won(2, "n1", "n1", "n2", "n3")).anomalies == ("minority",)
    unheard_here = [voted(1, "n1", "n1"), {**row(0, "n2"), "group": "h"}, {**row(0, "n3"), "group": "h"}]
    assert judge(*unheard_here, won(2, "n1", "n1", "n2", "n3")).figures["majorities"] == 0


def test_only_the_row_with_which_a_leader_began_is_asked_for_a_majority() -> None:
    """Later the voters may be others: it was elected by those of its log at that time."""
    begun = [voted(1, "n1", "n1"), voted(1, "n2", "n1"), row(0, "n3"), won(2, "n1", "n1", "n2", "n3")]
    grown = row(3, "n1", "members", role="leader", term=2, leader="n1", voters=["n1", "n2", "n3", "n4"])
    follows = row(4, "n2", "role", role="follower", term=2, voters=["n1", "n2"])
    stood = row(4, "n2", "vote", role="candidate", term=2, leader="n2", voters=["n1", "n2"])
    assert judge(*begun, stood, follows).anomalies == ("voted-twice",), "n2 stood as well, and did not win"
    verdict = judge(*begun, row(0, "n4"), grown, follows)
    assert (verdict.valid, verdict.figures["majorities"]) == ("true", 1)


def test_two_nodes_that_voted_twice_for_the_same_candidates_are_two_findings() -> None:
    cast = [votes(at, node, 3, candidate) for node in ("n1", "n2") for at, candidate in ((1, "n4"), (2, "n5"))]
    verdict = judge(*cast, leads(3, "n4", 3), leads(3, "n5", 3))
    assert (verdict.anomalies, verdict.figures["broken"]) == (("two-leaders", "voted-twice"), 3)
    assert verdict.sentence.endswith("(3 findings in all.)")
    assert [finding["node"] for finding in verdict.evidence["findings"][1:]] == ["n1", "n2"]


def test_the_first_of_several_rows_about_one_vote_is_shown() -> None:
    verdict = judge(votes(1, "n1", 3, "n2"), votes(2, "n1", 3, "n2", life=2), votes(3, "n1", 3, "n4", life=2))
    assert "for n2 at 1.000 s in life 1 and for n4 at 3.000 s in life 2." in verdict.sentence


def test_a_member_that_lost_its_data_and_came_back_as_another_one_has_a_vote_of_its_own() -> None:
    before, again = votes(1, "n3", 5, "n5"), votes(3, "n3", 5, "n2", life=2)
    came_back = row(2, "n3", "new-member", life=2, role="follower", term=0)
    assert judge(before, again).anomalies == ("voted-twice",)
    assert judge(before, came_back, again).valid == "true"
    assert judge(before, {**came_back, "node": "n2"}, again).anomalies == ("voted-twice",)
    assert judge(before, {**came_back, "group": "h"}, again).anomalies == ("voted-twice",)
    assert judge(before, came_back, again, votes(4, "n3", 5, "n1", life=2)).anomalies == ("voted-twice",)


def test_what_a_node_does_in_a_term_in_another_life_ends_no_stretch_of_this_one() -> None:
    """A row of an earlier life may be read late: it says nothing of how often this life led."""
    verdict = judge(leads(1, "n1", 3, life=2), row(2, "n1", "end", role="follower", term=3), leads(3, "n1", 3, life=2))
    assert verdict.valid == "true"


def test_one_term_in_words() -> None:
    assert judge(leads(1, "n1", 4)).sentence == "No term had more than one leader: 1 term had one, 1 node led."


def test_a_majority_is_only_counted_where_votes_are_reported_and_of_voters_that_report() -> None:
    leader = won(2, "n1", "n1", "n2", "n3")
    heard = [row(0, "n2"), row(0, "n3")]
    for rows in (
        [*heard, leader],
        [*heard, voted(1, "n1", "n1", term=1), leader],
        [row(0, "n2"), voted(1, "n1", "n1"), leader],
    ):
        assert (judge(*rows).valid, judge(*rows).figures["majorities"]) == ("true", 0)
