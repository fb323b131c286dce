"""The worked cases of the analysis, told by hand: each as a correct system answers, and as a broken one does."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.checkers.quorum.story import FIVE, Story, between, named, rules, window


def split(*groups: str) -> Story:
    """Clients are answered everywhere for 2 s; then links between the groups are cut until 12 s; it ends at 16 s."""
    story = Story()
    story.ask("12345", 0.0, 2.0)
    story.fault(2.0, 2.1, cut=between(*groups))
    story.fault(12.0, 12.1, action="stop")
    story.ask("12345", 12.2, 16.0)
    return story


def test_1_three_progress_and_two_are_silent() -> None:
    story = split("123", "45")
    story.ask("123", 3.0, 11.9)
    story.ask("45", 3.0, 11.0, "info", takes_s=1.0, every_s=1.0)
    verdict = story.judged()
    assert (verdict.valid, rules(verdict)) == ("true", ())
    seen = window(verdict, 2.1)
    assert (seen["capable"], seen["possibly_served"], seen["cores"]) == (named("123"), named("123"), [named("123")])
    assert seen["Q3"] == "held"
    assert verdict.figures["rules"]["Q3"] == "held"


@pytest.mark.parametrize("node", ["4", "5"])
def test_1_an_answer_on_the_wrong_side_violates_q2(node: str) -> None:
    story = split("123", "45")
    story.ask("123", 3.0, 11.9)
    story.ask(node, 5.0, 5.1)
    verdict = story.judged()
    assert (verdict.valid, rules(verdict)) == ("false", ("Q2",))
    assert f"n{node} answered op" in verdict.sentence


def test_1_a_compare_that_did_not_match_is_an_answer_and_a_refusal_is_none() -> None:
    refused = split("123", "45")
    refused.ask("123", 3.0, 11.9)
    refused.ask("4", 5.0, 6.0, "fail", error="no leader")
    assert refused.judged().valid == "true"
    matched = split("123", "45")
    matched.ask("123", 3.0, 11.9)
    matched.ask("4", 5.0, 6.0, "fail", error="mismatch")
    assert rules(matched.judged()) == ("Q2",)


@pytest.mark.parametrize(
    "error",
    [
        "not_found: queue 'q2': there is no such entity.",
        "precondition_failed",
        "resource_locked: q",
        "conflict: others",
    ],
)
def test_1_what_a_node_says_of_a_state_is_progress_but_proves_no_quorum(error: str) -> None:
    """A majority that only says what is not there is well; in a minority that may be the node's own, older state."""
    story = split("123", "45")
    story.ask("123", 3.0, 11.9, "fail", error=error)
    story.ask("4", 5.0, 6.0, "fail", error=error)
    verdict = story.judged()
    assert verdict.valid == "true"
    assert verdict.figures["rules"]["Q3"] == "held"
    lost = split("123", "45")
    lost.ask("123", 3.0, 11.9, "fail", error=f"no leader; {error}")
    assert rules(lost.judged()) == ("Q3",)


def test_1_an_op_that_began_before_the_cut_or_ended_after_it_may_be_answered() -> None:
    story = split("123", "45")
    story.ask("123", 3.0, 11.9)
    story.ask("4", 1.95, 2.0, takes_s=3.0)
    story.ask("5", 11.5, 11.6, takes_s=0.7)
    assert story.judged().valid == "true"


@pytest.mark.parametrize("silent", ["1", "123"])
def test_1_a_node_of_the_only_core_that_is_silent_violates_q3(silent: str) -> None:
    story = split("123", "45")
    story.ask(silent, 3.0, 11.0, "info", takes_s=0.5, every_s=0.5)
    story.ask("".join(set("123") - set(silent)), 3.0, 11.9)
    verdict = story.judged()
    assert (verdict.valid, rules(verdict)) == ("false", ("Q3",))


def test_2_two_and_two_and_one_is_halted_and_silent() -> None:
    story = split("12", "34", "5")
    story.ask("12345", 3.0, 11.0, "info", takes_s=1.0, every_s=1.0)
    verdict = story.judged()
    assert (verdict.valid, window(verdict, 2.1)["possibly_capable"]) == ("true", [])


@pytest.mark.parametrize("node", "12345")
def test_2_any_answer_violates_q1(node: str) -> None:
    story = split("12", "34", "5")
    story.ask(node, 6.0, 6.1)
    assert rules(story.judged()) == ("Q1",)


def bridge() -> Story:
    story = Story()
    story.ask("12345", 0.0, 2.0)
    story.fault(2.0, 2.1, cut=between("12", "45"))
    story.fault(12.0, 12.1, action="stop")
    story.ask("12345", 12.2, 16.0)
    return story


@pytest.mark.parametrize("core", ["123", "345"])
def test_3_one_side_of_a_bridge_must_progress_and_the_other_need_not(core: str) -> None:
    story = bridge()
    story.ask(core, 3.0, 11.9)
    story.ask("".join(set("12345") - set(core)), 3.0, 11.0, "info", takes_s=0.5, every_s=0.5)
    verdict = story.judged()
    assert (verdict.valid, window(verdict, 2.1)["Q3"]) == ("true", "held")
    assert window(verdict, 2.1)["capable"] == list(FIVE)
    assert window(verdict, 2.1)["cores"] == [named("123"), named("345")]


def test_3_silence_in_both_cores_of_a_bridge_violates_q3() -> None:
    story = bridge()
    story.ask("24", 3.0, 11.0, "info", takes_s=0.5, every_s=0.5)
    story.ask("135", 3.0, 11.9)
    verdict = story.judged()
    assert rules(verdict) == ("Q3",)
    assert "n2 of the core n1 n2 n3 answered none" in verdict.sentence
    assert "n4 of the core n3 n4 n5 answered none" in verdict.sentence


@pytest.mark.parametrize("how", ["ok", "info"])
def test_4_a_majority_ring_has_no_core_and_anything_goes(how: str) -> None:
    ring = {frozenset(pair) for pair in (("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n5"), ("n5", "n1"))}
    story = Story()
    story.fault(2.0, 2.1, cut=[link for link in permutations(FIVE, 2) if frozenset(link) not in ring])
    story.ask("12345", 3.0, 11.0, "ok" if how == "ok" else "info", takes_s=0.5, every_s=0.5)
    story.fault(12.0, 12.1, action="stop")
    story.ask("12345", 12.2, 20.0)
    verdict = story.judged()
    seen = window(verdict, 2.1)
    assert (verdict.valid, seen["capable"], seen["cores"], seen["Q3"]) == ("true", list(FIVE), [], "not judged")


def heard_by_all() -> Story:
    """n1 is heard by all and hears nobody, from 2 s to 12 s."""
    story = Story()
    story.ask("12345", 0.0, 2.0)
    story.fault(2.0, 2.1, cut=[(other, "n1") for other in FIVE[1:]])
    story.fault(12.0, 12.1, action="stop")
    return story


def test_5_a_leader_that_hears_nobody_falls_silent_and_the_others_progress() -> None:
    story = heard_by_all()
    story.ask("1", 3.0, 11.0, "info", takes_s=0.5, every_s=0.5)
    story.ask("2345", 4.0, 11.9)
    verdict = story.judged()
    assert (verdict.valid, window(verdict, 2.1)["cores"]) == ("true", [named("2345")])


def test_5_a_leader_that_keeps_the_others_from_an_election_violates_q3() -> None:
    story = heard_by_all()
    story.ask("12345", 3.0, 11.0, "info", takes_s=0.5, every_s=0.5)
    assert rules(story.judged()) == ("Q3",)


def test_5_an_answer_of_the_leader_that_hears_nobody_violates_q2() -> None:
    story = heard_by_all()
    story.ask("2345", 4.0, 11.9)
    story.ask("1", 6.0, 6.1)
    assert rules(story.judged()) == ("Q2",)


def superseded(term: int, invoked_s: float, takes_s: float = 0.01) -> Story:
    """n1 leads term 1 and is paused from 2 s to 8 s; n2 is elected in term 2 and commits at 4 s; n1 answers."""
    story = Story()
    story.tell(0.0, "n1", event="role", role="leader", term=1, commit_index=4, last_index=4)
    story.tell(0.5, "n1", role="leader", term=1, commit_index=5)
    story.ask("12345", 0.0, 2.0, term=1)
    story.fault(2.0, 2.1, fault="pause", paused="1")
    story.tell(3.5, "n2", event="role", role="leader", term=2, commit_index=9, last_index=9)
    story.tell(4.0, "n2", role="leader", term=2, commit_index=10)
    story.ask("2345", 4.5, 7.9, term=2)
    story.fault(8.0, 8.1, fault="pause", action="stop")
    story.ask("1", invoked_s, invoked_s + 0.1, term=term, takes_s=takes_s)
    story.ask("2345", 8.2, 12.0, term=2)
    return story


def test_6_an_answer_of_a_superseded_leader_for_a_later_op_violates_q10() -> None:
    verdict = superseded(term=1, invoked_s=8.2).judged()
    assert rules(verdict) == ("Q10",)
    assert "n1 answered op" in verdict.sentence
    assert "after n2 had committed as leader of term 2 at 4.000 s" in verdict.sentence


@pytest.mark.parametrize(("term", "invoked_s", "takes_s"), [(2, 8.2, 0.01), (1, 3.9, 4.5)])
def test_6_an_answer_in_the_new_term_or_for_an_op_from_before_it_does_not(
    term: int, invoked_s: float, takes_s: float
) -> None:
    assert superseded(term, invoked_s, takes_s).judged().valid == "true"


@pytest.mark.parametrize("offset_s", [0.1, 4.5])
def test_6_clocks_that_may_be_apart_widen_what_is_allowed(offset_s: float) -> None:
    verdict = superseded(term=1, invoked_s=8.2).judged(clock_offset_s=offset_s)
    assert rules(verdict) == (("Q10",) if offset_s < 4.2 else ())


@pytest.mark.parametrize(("error_s", "option_s"), [(0.1, 0.0), (4.5, 0.0), (4.5, 0.1), (0.1, 4.5)])
def test_6_so_do_clocks_that_the_run_itself_could_not_compare_exactly(error_s: float, option_s: float) -> None:
    story = superseded(term=1, invoked_s=8.2)
    errors = {"n1": 0.0, "n2": error_s}
    story.note(0.0, "clocks", {"offsets_s": {"n1": 0.0, "n2": 77.0}, "errors_s": errors, "walls_s": {}})
    verdict = story.judged(clock_offset_s=option_s)
    assert rules(verdict) == (("Q10",) if max(error_s, option_s) < 4.2 else ())
    assert verdict.figures["bounds"]["clock_offset_s"] == max(error_s, option_s)


@pytest.mark.parametrize("unknown", ["n1", "n2"])
def test_6_a_node_of_which_the_run_knows_no_clock_supersedes_none(unknown: str) -> None:
    """Its rows have the times of its own wall clock, which may show anything."""
    story = superseded(term=1, invoked_s=8.2)
    story.note(0.0, "clocks", {"offsets_s": {node: 0.0 for node in FIVE if node != unknown}})
    assert rules(story.judged()) == (("Q10",) if unknown == "n1" else ())


def growth(known_to_all_s: float) -> Story:
    """n1 n2 n3 become n1 to n5 at 4 s on n1 n2 n3 and n4, and later on n5; n5 is cut off from 2 s to 12 s."""
    story = Story()
    for node in FIVE:
        story.tell(0.0, node, voters=named("123"))
    story.fault(2.0, 2.1, cut=between("1234", "5"))
    for node in named("1234"):
        story.tell(4.0, node, voters=named("12345"))
    story.tell(known_to_all_s, "n5", voters=named("12345"))
    story.fault(12.0, 12.1, action="stop")
    story.ask("1234", 2.2, 11.9)
    story.ask("12345", 12.2, 20.0)
    return story


def test_7_both_configurations_are_in_force_until_every_node_holds_the_new_one() -> None:
    verdict = growth(known_to_all_s=14.0).judged()
    assert verdict.valid == "true"
    assert window(verdict, 2.1)["configurations"] == [named("123")]
    assert window(verdict, 4.0)["configurations"] == [named("12345"), named("123")]
    assert window(verdict, 4.0)["cores"] == [named("1234")]
    assert window(verdict, 12.1)["configurations"] == [named("12345"), named("123")]
    assert window(verdict, 14.0)["configurations"] == [named("12345")]
    assert window(verdict, 14.0)["cores"] == [named("12345")]


def test_7_nobody_is_silenced_who_may_hold_a_majority_of_either() -> None:
    story = Story()
    for node in FIVE:
        story.tell(0.0, node, voters=named("123"))
    story.tell(1.0, "n1", voters=named("12345"))
    story.fault(2.0, 2.1, cut=between("12", "345"))
    story.ask("12345", 3.0, 11.9)
    story.fault(12.0, 12.1, action="stop")
    story.ask("12345", 12.2, 13.0)
    verdict = story.judged()
    assert (verdict.valid, window(verdict, 2.1)["cores"]) == ("true", [])
    assert window(verdict, 2.1)["possibly_served"] == list(FIVE)


@pytest.mark.parametrize("how", ["ok", "info"])
def test_8_lossy_links_forbid_nothing_and_demand_nothing(how: str) -> None:
    story = Story()
    story.fault(2.0, 2.1, fault="packet", links=permutations(FIVE, 2))
    story.ask("12345", 3.0, 11.0, "ok" if how == "ok" else "info", takes_s=0.5, every_s=0.5)
    story.fault(12.0, 12.1, fault="packet", action="stop")
    story.ask("12345", 12.2, 20.0)
    verdict = story.judged()
    seen = window(verdict, 2.1)
    assert (verdict.valid, seen["Q3"], seen["capable"], seen["cores"]) == ("true", "not judged", [], [])
    assert seen["possibly_served"] == list(FIVE)
    assert verdict.figures["availability"]["cluster"]["ops"] is not None
