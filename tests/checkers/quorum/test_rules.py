"""What the worked cases leave open: starts after a full stop, convergence, recovery, availability, unstable spans."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from splitbrain.checkers.quorum.checker import QuorumProgress
from splitbrain.checkers.quorum.configurations import Configurations
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import HISTORY_SCHEMA, TELEMETRY_SCHEMA, to_table
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.history import NEMESIS
from splitbrain.results.reasons import Code
from tests.checkers.quorum.story import FIVE, OPTIONS, Story, between, named, rules, window
from tests.checkers.support import SECOND, Script
from tests.checkers.telemetry import row, told


def stopped() -> Story:
    """All are stopped at 2 s; n1 is started at 6 s, n2 at 8 s, n3 at 10 s."""
    story = Story()
    story.ask("12345", 0.0, 2.0)
    story.fault(2.0, 2.1, fault="kill", down="12345")
    story.fault(6.0, 6.5, fault="kill", action="stop", down="2345")
    story.fault(8.0, 8.5, fault="kill", action="stop", down="345")
    story.fault(10.0, 10.5, fault="kill", action="stop", down="45")
    story.ask("123", 11.0, 20.0)
    return story


def test_answers_from_the_start_that_makes_a_majority_on_are_fine() -> None:
    story = stopped()
    story.ask("1", 10.1, 10.4)
    assert stopped().judged().valid == "true"
    assert story.judged().valid == "true"


@pytest.mark.parametrize(
    ("begin_s", "takes_s", "broken"),
    [
        (6.1, 0.05, ("Q8",)),  # while n1 is being started: no window
        (6.4, 0.3, ("Q8",)),  # across the end of the start
        (7.0, 0.1, ("Q1", "Q8")),  # between the starts
        (9.0, 0.5, ("Q1", "Q8")),
        (9.5, 0.7, ()),  # answered while the third is being started
        (1.9, 4.0, ()),  # invoked before the stop
    ],
)
def test_an_answer_before_a_majority_was_started_violates_q8(
    begin_s: float, takes_s: float, broken: tuple[str, ...]
) -> None:
    story = stopped()
    story.ask("1", begin_s, begin_s + 0.1, takes_s=takes_s)
    assert rules(story.judged()) == broken


def ended(rows: dict[str, tuple[int, str]], end_s: float) -> Story:
    """Healed and recovered at 5 s, load until 6 s; then the nodes tell applied index and state, and the run ends."""
    story = Story()
    story.note(4.0, "phase", {"phase": "heal"})
    story.note(5.0, "recovered", {"seconds": 1.0})
    story.ask("12345", 0.0, 6.0)
    for node, (applied, state) in rows.items():
        story.tell(6.5, node, applied_index=applied, commit_index=applied, state_hash=state, voters=list(FIVE))
    story.note(end_s, "phase", {"phase": "end"})
    return story


def test_members_that_meet_have_converged() -> None:
    verdict = ended(dict.fromkeys(FIVE, (9, "a")), 7.0).judged()
    assert (verdict.valid, verdict.figures["rules"]["Q7"]) == ("true", "held")


@pytest.mark.parametrize(("odd", "broken"), [((8, "a"), ("Q7",)), ((9, "b"), ("Q6", "Q7"))])
def test_members_that_do_not_meet_within_the_bound_violate_q7(odd: tuple[int, str], broken: tuple[str, ...]) -> None:
    rows = {**dict.fromkeys(FIVE, (9, "a")), "n3": odd}
    verdict = ended(rows, 9.0).judged()
    assert rules(verdict) == broken
    assert "n3" in verdict.sentence


def test_members_that_do_not_meet_before_the_bound_is_over_are_not_judged() -> None:
    verdict = ended({**dict.fromkeys(FIVE, (9, "a")), "n3": (8, "a")}, 7.0).judged()
    assert (verdict.valid, verdict.figures["rules"]["Q7"]) == ("true", "not judged")


def test_a_node_that_is_no_member_any_more_need_not_meet() -> None:
    story = ended(dict.fromkeys(named("1245"), (9, "a")), 9.0)
    story.tell(6.0, "n3", applied_index=5, commit_index=5, state_hash="z")
    story.tell(7.0, "n1", applied_index=9, commit_index=9, state_hash="a", voters=named("1245"))
    assert story.judged().figures["rules"]["Q7"] == "held"


def test_recovery_is_told_per_node_from_the_fault_and_from_the_heal() -> None:
    story = Story()
    story.fault(2.0, 2.5, cut=between("123", "45"))
    story.ask("12", 3.0, 9.9)
    story.ask("3", 4.0, 9.9)
    story.fault(10.0, 10.1, action="stop")
    story.ask("12345", 10.2, 14.0)
    started, healed = story.judged().figures["recovery"]
    assert (started["action"], healed["action"]) == ("start", "stop")
    assert started["nodes"] == {"n1": 1.01, "n2": 1.01, "n3": 2.01, "n4": None, "n5": None}
    assert healed["nodes"] == dict.fromkeys(FIVE, 0.21)


def test_availability_is_a_figure_unless_the_test_sets_a_floor() -> None:
    story = Story()
    story.ask("12345", 0.0, 3.0)
    story.ask("12345", 3.0, 5.0, "info", takes_s=0.5, every_s=0.5)
    verdict = story.judged()
    assert verdict.figures["availability"]["cluster"] == {
        "time": 0.6,
        "ops": round(150 / 170, 6),
        "silent": [[3, 5]],
    }
    assert rules(story.judged(availability=0.5)) == ()
    assert rules(story.judged(availability=0.7)) == ("Q9",)


def test_too_few_ops_are_neither_progress_nor_silence() -> None:
    story = Story()
    story.ask("1234", 0.0, 9.0)
    story.ask("5", 0.0, 9.0, "info", takes_s=0.9, every_s=5.0)
    verdict = story.judged()
    assert (verdict.valid, verdict.figures["rules"]["Q3"]) == ("true", "too few ops")
    assert verdict.inconclusive


@pytest.mark.parametrize(("end_s", "broken"), [(3.6, ()), (4.6, ("Q3",))])
def test_silence_of_a_moment_is_none(end_s: float, broken: tuple[str, ...]) -> None:
    """Ops count from 2 s on, until 1 s before the window's end: a slow node may stand still for half a second."""
    story = Story()
    story.ask("1234", 0.0, end_s)
    story.ask("5", 0.0, 1.9)
    story.ask("5", 2.0, end_s, "info", takes_s=0.05)
    story.fault(end_s, end_s + 0.1, cut=between("12345"))
    verdict = story.judged()
    assert rules(verdict) == broken
    assert window(verdict, 0.0)["Q3"] == ("violated" if broken else "not judged")


def test_a_window_that_leaves_less_than_a_moment_is_not_judged_whatever_the_load_unless_all_answered() -> None:
    """No number of ops would be enough, so that more of them is no advice; answers of all are progress nevertheless."""

    def result(end_s: float, answering: str) -> tuple[str, list[str]]:
        story = Story()
        story.ask(answering, 0.0, end_s)
        story.fault(end_s, end_s + 0.1, cut=between("12345"))
        verdict = story.judged()
        return window(verdict, 0.0)["Q3"], [reason.code.value for reason in verdict.inconclusive]

    assert result(3.9, "1234") == ("not judged", ["no-occasion"])
    assert result(4.1, "1234") == ("too few ops", ["too-few-ops"])
    assert result(3.9, "12345") == ("held", [])


def test_a_node_that_answers_late_is_not_silent() -> None:
    """Under a load that is too high ops of before the bound are answered behind it, and many are given up."""
    story = Story()
    story.ask("1234", 0.0, 9.0)
    story.ask("5", 2.1, 9.0, "info", takes_s=0.9, every_s=1.0)
    assert rules(story.judged()) == ("Q3",)
    story.ask("5", 1.9, 2.0, takes_s=0.5)
    assert window(story.judged(), 0.0)["Q3"] == "held"


@pytest.mark.parametrize(("takes_s", "result"), [(0.49, "violated"), (0.51, "overloaded")])
def test_silence_is_none_where_the_answers_of_others_take_half_an_op_timeout(takes_s: float, result: str) -> None:
    """A node whose requests take one step more than the leader's has answers that come after the timeout only."""
    story = Story()
    story.ask("1234", 0.0, 9.0, takes_s=takes_s, every_s=0.6)
    story.ask("5", 0.0, 9.0, "info", takes_s=0.99, every_s=1.0)
    verdict = story.judged()
    assert window(verdict, 0.0)["Q3"] == result
    assert (verdict.valid, bool(verdict.inconclusive)) == (("false", False) if result == "violated" else ("true", True))


def test_a_core_of_which_no_node_answers_is_not_overloaded() -> None:
    story = Story()
    story.ask("12345", 0.0, 1.0, takes_s=0.9, every_s=1.0)
    story.ask("12345", 2.1, 9.0, "info", takes_s=0.99, every_s=1.0)
    assert rules(story.judged()) == ("Q3",)


def test_silence_towards_ops_of_one_moment_is_none() -> None:
    story = Story()
    story.ask("1234", 0.0, 9.0)
    story.ask("5", 4.0, 4.8, "info", takes_s=0.05)
    assert window(story.judged(), 0.0)["Q3"] == "too few ops"


def test_a_stall_of_the_controller_makes_it_no_judge_of_progress() -> None:
    story = Story()
    story.ask("12345", 0.0, 9.0, "info", takes_s=0.5, every_s=0.5)
    assert rules(story.judged()) == ("Q3",)
    story.note(5.0, "stall", {"gap_ms": 700})
    assert story.judged().valid == "true"


def test_what_happens_while_a_fault_changes_things_is_not_judged() -> None:
    story = Story()
    story.fault(2.0, 4.0, cut=between("12", "34", "5"))
    story.ask("12345", 1.0, 3.9)
    story.fault(8.0, 9.0, action="stop")
    story.ask("12345", 8.0, 14.0)
    assert story.judged().valid == "true"


def test_after_an_op_without_an_end_nothing_is_certain() -> None:
    story = Story()
    story.fault(2.0, 2.1, cut=between("12", "34", "5"))
    story.ask("12345", 0.0, 9.0)
    assert rules(story.judged()) == ("Q1",)
    whole = story.history()
    kept = [row["process"] != NEMESIS or row["type"] == "invoke" for row in whole.to_pylist()]
    verdict = QuorumProgress().check(whole.filter(pa.array(kept)), story.telemetry(), OPTIONS)
    assert (verdict.valid, len(verdict.figures["windows"])) == ("true", 1)


@pytest.mark.parametrize("how", ["crash", "halt"])
def test_a_node_that_ended_by_itself_is_neither_demanded_nor_silenced(how: str) -> None:
    story = Story()
    story.ask("1234", 0.0, 14.0)
    story.ask("5", 0.0, 14.0, "info", takes_s=0.5, every_s=0.5)
    assert rules(story.judged()) == ("Q3",)
    story.note(4.0, how, {"node": "n5"})
    verdict = story.judged()
    assert verdict.valid == "true"
    assert window(verdict, 0.0)["uncertain"] == ["n5"]


def test_a_lease_excuses_answers_for_as_long_as_it_lasts() -> None:
    story = Story()
    story.fault(2.0, 2.1, cut=between("12", "34", "5"))
    story.ask("1", 2.5, 2.6)
    assert rules(story.judged()) == ("Q1",)
    assert rules(story.judged(lease_s=1.0)) == ()


def test_unknown_options_are_refused() -> None:
    with pytest.raises(UsageError, match="attempt"):
        Story().judged(attempt=3)


def outsider(silent: str) -> Story:
    """All links of n5 are lossy: it may lead, in no core. Who is silent never answers again."""
    story = Story()
    story.fault(2.0, 2.1, fault="packet", links=between("1234", "5"))
    story.ask("".join(node for node in "1234" if node not in silent), 0.0, 12.0)
    story.ask(silent, 0.0, 2.0)
    story.ask(silent, 2.2, 12.0, "fail", error="no_leader")
    story.note(12.0, "phase", {"phase": "heal"})
    return story


def test_a_core_is_not_demanded_to_answer_while_a_node_outside_of_it_may_lead_and_keep_it_from_an_election() -> None:
    verdict = outsider("1").judged()
    assert window(verdict, 2.1)["cores"] == [named("1234")]
    assert window(verdict, 2.1)["Q3"] == "not judged"
    assert verdict.valid == "true"


def test_a_core_must_answer_although_a_node_outside_of_it_is_in_trouble_that_cannot_lead() -> None:
    story = outsider("1")
    story.fault(2.2, 2.3, cut=between("1234", "5"))
    verdict = story.judged()
    assert window(verdict, 2.3)["cores"] == [named("1234")]
    assert rules(verdict) == ("Q3",)


def test_an_answer_of_a_node_that_the_test_does_not_know_violates_q1_and_not_q2() -> None:
    def anywhere(*groups: str) -> pa.Table:
        story = Story()
        story.fault(2.0, 2.1, cut=between(*groups))
        story.ask("1", 6.0, 6.1)
        history = story.history()
        return history.set_column(history.schema.get_field_index("node"), "node", pa.nulls(len(history), pa.string()))

    nothing_told = Story().telemetry()
    assert QuorumProgress().check(anywhere("12", "34", "5"), nothing_told, OPTIONS).anomalies == ("Q1",)
    assert QuorumProgress().check(anywhere("123", "45"), nothing_told, OPTIONS).anomalies == ()


def test_a_majority_that_runs_between_two_ops_at_once_may_answer() -> None:
    """Where a kill is invoked in the instant in which a start is complete, there is no window in between."""
    story = Story()
    story.fault(2.0, 2.1, fault="kill", down="12345")
    story.fault(10.0, 10.5, fault="kill", action="stop", down="45")
    story.fault(10.5, 10.6, fault="kill", down="12345")
    story.ask("1", 9.5, 9.6)
    story.ask("1", 10.1, 10.2)
    story.ask("2", 10.45, 10.5, takes_s=0.1)
    story.note(12.0, "phase", {"phase": "heal"})
    verdict = story.judged()
    assert [row["op"] for row in verdict.figures["violations"] if row["rule"] == "Q8"] == [
        op["index"] for op in story.history().to_pylist() if op["type"] == "ok" and op["time"] == 9_510_000_000
    ]


def test_what_is_left_of_a_majority_may_answer_from_a_lease() -> None:
    story = Story()
    story.fault(2.0, 2.1, fault="kill", down="345")
    story.fault(2.5, 3.5, cut=between("1", "2"), down="345")
    story.ask("1", 2.6, 2.7)
    assert rules(story.judged()) == ("Q8",)
    assert rules(story.judged(lease_s=1.0)) == ()


def test_what_holds_after_overlapping_ops_is_what_the_last_completion_told() -> None:
    story = Story()
    story.fault(2.0, 6.0, fault="partition", cut=between("12", "34", "5"))
    story.fault(3.0, 4.0, fault="packet")
    story.ask("1", 7.0, 7.1)
    story.note(9.0, "phase", {"phase": "heal"})
    verdict = story.judged()
    assert [row["start_s"] for row in verdict.figures["windows"]] == [0.0, 6.0]
    assert rules(verdict) == ("Q1",)


def test_a_member_that_learns_of_a_configuration_that_others_hold_and_leaves_one_that_others_hold_splits_nothing() -> (
    None
):
    story = Story()
    for node in FIVE:
        story.tell(0.0, node, voters=named("123"))
    for number, node in enumerate(FIVE):
        story.tell(2.0 + number, node, voters=list(FIVE))
    story.note(9.0, "phase", {"phase": "heal"})
    assert [row["start_s"] for row in story.judged().figures["windows"]] == [0.0, 2.0, 6.0]


def test_a_node_that_tells_no_voters_holds_no_configuration() -> None:
    story = Story()
    for node in named("123"):
        story.tell(0.0, node, voters=named("123"))
    story.tell(0.0, "n4", voters=[])
    story.note(9.0, "phase", {"phase": "heal"})
    (seen,) = story.judged().figures["windows"]
    assert seen["configurations"] == [named("123")]


def test_links_are_known_where_the_backend_could_tell_only_of_links() -> None:
    story = Story()
    story.fault(2.0, 2.1, cut=between("12", "34", "5"))
    story.ask("1", 6.0, 6.1)
    history = story.history()
    values = [None if value is None else value.replace('"down":[],', "") for value in history["value"].to_pylist()]
    place = history.schema.get_field_index("value")
    told = history.set_column(place, "value", pa.array(values, pa.string()))
    verdict = QuorumProgress().check(told, story.telemetry(), OPTIONS)
    assert rules(verdict) == ("Q1",)
    assert window(verdict, 2.1)["uncertain"] == list(FIVE)


def superseded(groups: tuple[str, ...], term: int | None) -> Verdict:
    """In each of the groups n2 commits in term 2 at 2 s; n1 answers in this term at 5 s. "y" has committed nothing."""
    story = Story()
    for group in groups:
        story.tell(1.0, "n2", event="role", group=group, role="leader", term=2, last_index=4)
        story.tell(2.0, "n2", group=group, role="leader", term=2, commit_index=4 if group == "y" else 5)
    story.ask("1", 5.0, 5.1, term=term)
    return story.judged()


@pytest.mark.parametrize(
    ("groups", "term", "result"),
    [
        (("g",), 1, "violated"),
        (("g",), 2, "held"),
        (("g",), None, "not judged"),
        (("g", "h"), 1, "violated"),
        (("g", "y"), 1, "not judged"),
        ((), 1, "not judged"),
    ],
)
def test_q10_is_judged_where_answers_tell_their_term_and_leaders_of_every_group_committed(
    groups: tuple[str, ...], term: int | None, result: str
) -> None:
    assert superseded(groups, term).figures["rules"]["Q10"] == result


def test_members_of_one_group_need_not_meet_those_of_another() -> None:
    story = ended(dict.fromkeys(FIVE, (9, "a")), 9.0)
    for node in named("345"):
        story.tell(6.6, node, group="other", applied_index=4, commit_index=4, state_hash="z", voters=named("345"))
    assert story.judged().figures["rules"]["Q7"] == "held"
    story.tell(6.7, "n5", group="other", applied_index=5, commit_index=5, state_hash="y", voters=named("345"))
    verdict = story.judged()
    assert rules(verdict) == ("Q7",)
    assert "of group 'other'" in verdict.sentence


def test_the_load_is_over_when_its_last_op_is() -> None:
    story = ended({**dict.fromkeys(FIVE, (9, "a")), "n3": (8, "a")}, 9.0)
    assert rules(story.judged()) == ("Q7",)
    story.ask("1", 6.0, 6.1, "info", takes_s=1.5)
    assert story.judged().figures["rules"]["Q7"] == "not judged"


def test_a_stall_is_told_beside_the_rule_and_the_recovery_that_it_touches() -> None:
    story = Story()
    story.ask("12345", 0.0, 14.0)
    story.fault(6.0, 6.1, cut=between("123", "45"))
    story.note(10.0, "stall", {"gap_ms": 700})
    verdict = story.judged()
    assert window(verdict, 6.1)["Q3"] == "stalled"
    assert window(verdict, 0.0)["Q3"] == "held"
    assert [row["stalled"] for row in verdict.figures["recovery"]] == [True]
    alone = Story()
    alone.ask("12345", 0.0, 9.0)
    alone.note(5.0, "stall", {"gap_ms": 700})
    assert alone.judged().figures["rules"]["Q3"] == "stalled"
    assert "the controller was stalled" in alone.judged().inconclusive[0].sentence


def test_while_clocks_leave_open_which_voters_decide_all_of_them_may() -> None:
    rows = [row(0.0, "n1", voters=named("123")), row(4.0, "n1", voters=named("12")), row(5.0, "n1", voters=named("1"))]
    held = Configurations(told(*rows), FIVE, offset_ns=SECOND)
    assert [
        (piece.begin_ns / SECOND, piece.changing, len(piece.configurations)) for piece in held.pieces(0, 9 * SECOND)
    ] == [
        (0, False, 1),
        (3, True, 3),
        (6, False, 1),
    ]


@pytest.mark.parametrize(("offset_s", "broken"), [(2.9, ("Q10",)), (3.0, ())])
def test_an_op_invoked_as_the_leader_committed_by_the_clocks_may_be_answered_in_the_old_term(
    offset_s: float, broken: tuple[str, ...]
) -> None:
    story = Story()
    story.tell(1.0, "n2", event="role", role="leader", term=2, last_index=4)
    story.tell(2.0, "n2", role="leader", term=2, commit_index=5)
    story.ask("1", 5.0, 5.1, term=1)
    assert rules(story.judged(clock_offset_s=offset_s)) == broken


def with_strangers() -> Story:
    """n1 to n3 of a cluster of five: nobody tells how n4 and n5 are. n2 and n3 are stopped from 2 s to 8 s."""
    story = Story()
    for node in named("123"):
        story.tell(0.0, node, voters=list(FIVE))
    story.ask("123", 0.0, 2.0)
    story.fault(2.0, 2.1, fault="kill", down="23")
    story.ask("1", 3.0, 7.9)
    story.fault(8.0, 8.1, action="stop", fault="kill")
    return story


def test_voters_that_are_no_nodes_of_the_test_may_make_a_majority_and_must_not() -> None:
    three = named("123")
    served = with_strangers()
    assert served.judged(nodes=three).valid == "true"  # n1, n4 and n5 may have answered
    assert window(served.judged(nodes=three), 2.1)["uncertain"] == ["n4", "n5"]
    silent = with_strangers()
    silent.ask("1", 8.2, 20.0, "info", takes_s=0.9, every_s=1.0)
    silent.ask("23", 8.2, 20.0)
    assert silent.judged(nodes=three).figures["rules"]["Q3"] == "not judged"  # n4 may lead
    alone = with_strangers()
    alone.fault(9.0, 9.1, fault="kill", down="123")
    alone.ask("1", 9.2, 9.5)
    assert rules(alone.judged(nodes=three)) == ("Q1", "Q8")  # the others are no majority in any case


def test_a_run_that_gave_no_occasion_to_break_a_rule_proves_nothing() -> None:
    empty = QuorumProgress().check(HISTORY_SCHEMA.empty_table(), TELEMETRY_SCHEMA.empty_table(), {"availability": 0.9})
    assert "no rule could be judged" in empty.inconclusive[0].sentence
    asked = Story()
    asked.ask("12345", 0.0, 9.0)
    assert asked.judged().inconclusive == ()  # Q3 held
    silent = Story()
    silent.note(9.0, "phase", {"phase": "heal"})
    silent.tell(1.0, "n1", event="role", role="leader", term=2)
    verdict = silent.judged(availability=0.9)
    assert verdict.figures["rules"]["Q9"] == "not judged"
    assert any("invoked no op that needs a quorum" in reason.sentence for reason in verdict.inconclusive)


def test_no_window_is_judged_if_it_is_not_known_which_nodes_there_are() -> None:
    script = Script()
    script.call(0, "write", 1)
    foreign = to_table([msgspec.structs.replace(op, node=None) for op in script.ops])
    verdict = QuorumProgress().check(foreign, told(), {})
    assert (verdict.valid, verdict.figures["rules"]["Q8"]) == ("true", "not judged")
    assert any("not known which nodes" in reason.sentence for reason in verdict.inconclusive)
    story = Story()
    story.fault(1.0, 1.1, fault="kill", down="1")
    story.ask("2", 2.0, 9.0)
    some = QuorumProgress().check(story.history(), told(), {})
    assert some.anomalies == ()  # clients asked n2 only, and n3 to n5 may be there too
    story.tell(0.5, "n2", voters=["n1", "n2"])
    assert QuorumProgress().check(story.history(), story.telemetry(), {}).anomalies == ("Q1", "Q8")


def test_telemetry_that_tells_neither_roles_nor_indexes_lets_nobody_judge_leaders() -> None:
    story = Story()
    story.ask("12345", 0.0, 9.0)
    story.tell(1.0, "n1", voters=list(FIVE))
    results = story.judged().figures["rules"]
    assert (results["Q5"], results["Q6"]) == ("not judged", "not judged")
    story.tell(2.0, "n1", event="role", role="leader", term=1, commit_index=3)
    results = story.judged().figures["rules"]
    assert (results["Q5"], results["Q6"]) == ("held", "held")


@pytest.mark.parametrize(
    "wrong", [{"recovery_bound_s": float("nan")}, {"lease_s": -1.0}, {"op_timeout_s": 1e300}, {"attempts": 0}]
)
def test_an_option_that_is_no_number_of_seconds_or_ops_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong)).removesuffix("_s").removesuffix("_bound")):
        Story().judged(**wrong)


@pytest.mark.parametrize("cut", [["n1"], [["n1"]], [["n1", "n2", "n3"]], [7], "n1"])
def test_links_that_an_imported_history_tells_in_another_shape_are_uncertain(cut: object) -> None:
    script = Script()
    script.event(NEMESIS, "invoke", "start", time_s=1.0)
    script.event(NEMESIS, "info", "start", {"cut": cut, "down": []}, time_s=2.0)
    script.event(0, "invoke", "write", 1, time_s=9.0)
    verdict = QuorumProgress().check(script.table(), told(), OPTIONS)
    assert len(window(verdict, 2.0)["uncertain_links"]) == 20


def test_a_stall_that_is_longer_than_the_run_until_then_began_with_it() -> None:
    story = Story()
    story.ask("12345", 0.0, 9.0)
    story.note(5.0, "stall", {"gap_ms": 9_000_000})
    assert story.judged().figures["rules"]["Q3"] == "stalled"


@pytest.mark.parametrize("gap", [None, "long", {}, 1e300, -1])
def test_a_stall_of_no_length_is_damage(gap: object) -> None:
    story = Story()
    story.note(5.0, "stall", {"gap_ms": gap})
    with pytest.raises(HistoryFormatError, match="the harness's note 'stall' is damaged"):
        story.judged()


def test_the_sentence_does_not_praise_progress_that_nobody_had_to_make() -> None:
    short, long = Story(), Story()
    short.ask("12345", 0.0, 2.0)
    long.ask("12345", 0.0, 9.0)
    assert short.judged().sentence.startswith("In 1 window no node without a quorum answered; no window ")
    assert long.judged().sentence.endswith("in 1 of them a core had to answer within 2 s, and did.")


def test_a_node_without_telemetry_beside_others_that_left_some_may_have_done_anything() -> None:
    story = Story()
    story.ask("12345", 0.0, 20.0)
    for node in FIVE[:4]:
        story.tell(1.0, node, event="role", role="leader" if node == "n1" else "follower", term=1, last_index=0)
    (reason,) = story.judged().inconclusive
    assert (reason.code, reason.sentence) == (
        Code.NO_TELEMETRY,
        "n5 left no telemetry, and other nodes did: what it did is not known.",
    )
    story.tell(1.0, "n5", event="role", role="follower", term=1)
    assert story.judged().inconclusive == ()
    none = Story()
    none.ask("12345", 0.0, 20.0)
    assert none.judged().inconclusive == ()


def with_standbys(leader: str, others: str, silent: str = "") -> Story:
    """n5 is cut off for 8 seconds. Of the rest `leader` answers, `others` refuse as standbys, and `silent` hang."""
    story = Story()
    story.fault(2.0, 2.1, cut=between("1234", "5"))
    story.ask(leader, 0.0, 10.0)
    story.ask(others, 0.0, 10.0, "fail", error="standby: n1 leads")
    story.ask(silent, 0.0, 10.0, "info", error="timeout: no answer")
    story.ask("5", 0.0, 2.0, "fail", error="standby: n1 leads")
    story.fault(10.0, 10.1, action="stop")
    return story


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        (with_standbys("1", "234"), ()),
        (with_standbys("12", "34"), ()),
        (with_standbys("", "1234"), ("Q3",)),  # none leads
        (with_standbys("1", "23", "4"), ("Q3",)),  # a standby that does not even refuse
        (with_standbys("", "23", "14"), ("Q3",)),
    ],
)
def test_standbys_that_refuse_are_not_silent_as_long_as_one_node_answers(story: Story, broken: tuple[str, ...]) -> None:
    assert rules(story.judged(standbys=True)) == broken
    assert rules(story.judged()) == ("Q3",), "nodes of other systems have to answer"
