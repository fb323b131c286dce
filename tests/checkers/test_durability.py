"""What a node said is durable is there when it is restarted, unless it was cut off or its disk lost it."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.consensus import Durability
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import NEMESIS, Op
from tests.checkers.support import Script
from tests.checkers.telemetry import row, told


def judge(*rows: dict[str, Any], script: Script | None = None) -> Verdict:
    return Durability().check(to_table([]) if script is None else script.table(), told(*rows), {})


def said(time_s: float, index: int | None, *, event: str = "commit", life: int = 1, node: str = "n1") -> dict[str, Any]:
    return row(time_s, node, event, life=life, last_index=index)


def start(time_s: float, index: int | None, life: int = 2, node: str = "n1") -> dict[str, Any]:
    return row(time_s, node, "start", life=life, last_index=index)


def disk_op(time_s: float, target: str, how: str = "ok", **spoil: Any) -> Script:
    script = Script()
    value = {"fault": "disk", "action": "start", "spec": "minority", "spoil": spoil}
    script.event(NEMESIS, "invoke", "start-disk", value, time_s=time_s)
    script.event(NEMESIS, how, "start-disk", {**value, "target": target}, time_s=time_s + 0.5)  # pyright: ignore[reportArgumentType]
    return script


def test_a_log_that_ends_before_what_was_said_is_durable_is_named_with_both_rows() -> None:
    verdict = judge(start(0, 0, life=1), said(1, 46), said(1.5, 47), start(3, 45))
    assert (verdict.valid, verdict.anomalies) == ("false", ("log-forgotten",))
    assert verdict.sentence == (
        "Log forgotten: n1 of group 'g' had said that its log is durable up to entry 47 (at 1.500 s in life 1), and "
        "recovered a log that ends at 45 (at 3.000 s in life 2)."
    )
    assert verdict.evidence["findings"][0]["missing"] == [46, 47]
    assert verdict.figures == {
        "restarts": 1,
        "images": 0,
        "excused": 0,
        "highest": 47,
        "released": 0,
        "bases": 0,
        "votes": 0,
        "broken": 1,
    }


@pytest.mark.parametrize("recovered", [47, 50])
def test_a_log_that_has_all_of_it_passes_and_may_have_more(recovered: int) -> None:
    verdict = judge(start(0, 0, life=1), said(1, 47), start(3, recovered))
    assert (verdict.valid, verdict.figures["restarts"]) == ("true", 1)
    assert verdict.sentence == "After 1 restart each node had all that it had said is durable."


def released(time_s: float, let_go: int, needed: int, base: int, node: str = "n1", group: str = "g") -> dict[str, Any]:
    counted = f"let_go={let_go} needed={needed} base={base}"
    return row(time_s, node, "released", group=group, last_index=99, counted=counted)


def test_a_log_that_is_let_go_up_to_an_entry_that_is_needed_is_named() -> None:
    verdict = judge(released(1, 16, 17, 0), released(2, 17, 17, 0), released(2.1, 17, 17, 0, "n2"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("needed",))
    assert verdict.sentence == (
        "Needed: n1 of group 'g' lets its log go up to entry 17 (at 2.000 s in life 1), and needs entry 17."
    )
    assert verdict.figures["released"] == 3


def test_a_log_that_is_let_go_before_what_is_needed_passes() -> None:
    assert judge(released(1, 16, 17, 0), released(2, 30, 40, 16), released(3, 30, 31, 30)).valid == "true"


def test_messages_of_consumers_that_are_suspected_are_kept_from_others() -> None:
    rows = [
        row(time_s, "n1", "released", last_index=9, counted=f"let_go=4 needed=5 base=0 withheld={withheld}")
        for time_s, withheld in ((1, 0), (2, 3), (3, 3))
    ]
    assert judge(rows[0]).valid == "true"
    verdict = judge(*rows)
    assert (verdict.anomalies, verdict.figures["broken"]) == (("kept",), 1)
    assert verdict.sentence == (
        "Kept: n1 of group 'g' leaves 3 messages to consumers on nodes that it suspects (at 2.000 s in life 1)."
    )


def test_a_log_that_is_gone_further_than_any_node_said_is_named() -> None:
    verdict = judge(released(1, 16, 17, 0), released(2, 20, 21, 17), released(3, 20, 25, 21))
    assert (verdict.valid, verdict.anomalies) == ("false", ("let-go",))
    assert verdict.sentence.startswith("Let go: the log of n1 of group 'g' is gone up to entry 21 (at 3.000 s in life")
    assert judge(released(1, 16, 17, 0), released(3, 20, 25, 21, group="h")).anomalies == ("let-go",)


def checkpoint(time_s: float, base: int, there: int, node: str = "n1", group: str = "g") -> dict[str, Any]:
    return row(time_s, node, "checkpoint", group=group, last_index=99, counted=f"base={base} there={there}")


def test_a_log_that_begins_behind_a_state_which_is_gone_is_named_once_for_each_member() -> None:
    rows = [checkpoint(1, 8, 1), checkpoint(2, 8, 0), checkpoint(3, 8, 0), checkpoint(4, 8, 1, "n2")]
    verdict = judge(*rows)
    assert (verdict.valid, verdict.anomalies) == ("false", ("base-gone",))
    assert verdict.sentence == (
        "Base gone: the log of n1 of group 'g' begins behind entry 8, and the state there is not on its disk "
        "(at 2.000 s in life 1): a follower that lacks what is before cannot get it."
    )
    assert (verdict.figures["bases"], verdict.figures["broken"]) == (4, 1)
    assert judge(*rows, checkpoint(5, 4, 0, "n2"), checkpoint(5, 4, 0, group="h")).figures["broken"] == 3


def test_a_log_that_begins_behind_a_state_which_is_there_passes_and_a_row_without_that_counts_for_nothing() -> None:
    verdict = judge(checkpoint(1, 0, 1), checkpoint(2, 8, 1), row(3, "n1", "checkpoint", last_index=99))
    assert (verdict.valid, verdict.figures["bases"]) == ("true", 2)


def test_what_an_entry_needed_that_is_applied_again_may_be_gone_as_another_node_said_too() -> None:
    assert judge(released(1, 5, 6, 0), released(2, 40, 41, 0, "n2"), released(3, 5, 6, 40)).valid == "true"


def test_the_newest_row_counts_as_a_log_may_be_cut_off() -> None:
    assert judge(said(1, 47), said(2, 40, event="cut"), start(3, 40)).valid == "true"
    assert judge(said(1, 47), said(2, 40, event="cut"), said(2.1, 44), start(3, 43)).valid == "false"


def test_what_was_recovered_counts_as_said_from_then_on() -> None:
    assert judge(said(1, 47), start(2, 47), start(3, 46, life=3)).valid == "false"


def test_the_log_with_which_a_leader_was_elected_says_nothing_of_its_disk() -> None:
    elected = row(1, "n1", "role", role="leader", term=2, last_index=99)
    assert judge(said(0, 5), elected, start(3, 5)).valid == "true"


def test_each_node_and_each_group_has_its_own_log() -> None:
    assert judge(said(1, 47), start(3, 5, node="n2")).valid == "true"
    other = row(3, "n1", "start", life=2, last_index=5, group="other")
    assert judge(said(1, 47), other).valid == "true"


def test_another_member_of_that_name_has_said_nothing_yet() -> None:
    assert judge(said(1, 47), row(2, "n1", "new-member", life=1), start(3, 0)).valid == "true"


def test_rows_that_say_nothing_are_passed_over() -> None:
    assert judge(said(1, 47), said(2, None), start(3, 46)).valid == "false"
    assert judge(said(1, 47), start(3, None), start(4, 46, life=3)).figures["restarts"] == 0
    verdict = judge(said(1, None), start(3, None))
    assert verdict.sentence == "No node that says what is durable was restarted."


def vote(time_s: float, term: int, candidate: str | None = "n2") -> dict[str, Any]:
    return row(time_s, "n1", "vote", term=term, role="follower", leader=candidate, last_index=0)


def restart(time_s: float, term: int | None, voted_for: str | None = None) -> dict[str, Any]:
    return row(time_s, "n1", "start", life=2, term=term, role="follower", leader=voted_for, last_index=0)


def test_a_vote_that_a_node_does_not_remember_is_named_with_what_it_does_remember() -> None:
    verdict = judge(vote(1, 3, "n2"), vote(2, 4, "n3"), restart(3, 4))
    assert (verdict.valid, verdict.anomalies) == ("false", ("vote-forgotten",))
    assert verdict.sentence == (
        "Vote forgotten: n1 of group 'g' had voted for n3 in term 4 (at 2.000 s in life 1), and recovered term 4 "
        "without a vote (at 3.000 s in life 2)."
    )
    assert verdict.figures["votes"] == 1


@pytest.mark.parametrize(
    ("term", "voted_for", "valid"),
    [
        (4, "n3", "true"),
        (4, "n2", "false"),
        (3, "n3", "false"),
        (0, None, "false"),
        (5, None, "true"),
        (5, "n2", "true"),
        (None, None, "true"),
    ],
)
def test_a_vote_stands_until_its_term_is_over(term: int | None, voted_for: str | None, valid: str) -> None:
    assert judge(vote(2, 4, "n3"), restart(3, term, voted_for)).valid == valid


def test_a_vote_that_names_no_candidate_and_one_of_a_former_member_are_none() -> None:
    assert judge(vote(2, 4, None), restart(3, 4)).valid == "true"
    assert judge(vote(2, 4), row(2.5, "n1", "new-member"), restart(3, 0)).valid == "true"


def test_a_vote_is_remembered_over_several_restarts() -> None:
    later = row(5, "n1", "start", life=3, term=4, role="follower", last_index=0)
    assert judge(vote(2, 4, "n3"), restart(3, 4, "n3"), later).anomalies == ("vote-forgotten",)


@pytest.mark.parametrize("spoil", [{"truncate": 1}, {"rot": 2}, {"wipe": True}])
def test_a_disk_that_lost_data_excuses_its_node_from_then_on(spoil: dict[str, Any]) -> None:
    rows = [said(1, 47), start(3, 45)]
    verdict = judge(*rows, script=disk_op(2, "n1 n4", **spoil))
    assert (verdict.valid, verdict.figures["excused"]) == ("true", 1)
    assert "(1 restart on disks that had lost data left out.)" in verdict.sentence
    assert judge(*rows, script=disk_op(2, "n2, n3", **spoil)).valid == "false", "another node's disk"
    assert judge(*rows, script=disk_op(4, "n1", **spoil)).valid == "false", "its disk lost data only later"
    assert judge(*rows, script=disk_op(2, "n2", "info", **spoil)).valid == "true", "it is not known what it hit"


@pytest.mark.parametrize("spoil", [{"slow_ms": 20}, {"sync_fails": True}, {"full": True}, {"truncate": 0}])
def test_a_disk_that_kept_what_it_had_excuses_nothing(spoil: dict[str, Any]) -> None:
    assert judge(said(1, 47), start(3, 45), script=disk_op(2, "n1", **spoil)).valid == "false"


def test_nemesis_ops_without_a_value_excuse_nothing() -> None:
    ops = [Op(index=0, time=0, process=NEMESIS, type="invoke", f="start-disk", value=None)]
    assert Durability().check(to_table(ops), told(said(1, 47), start(3, 45)), {}).valid == "false"


def test_it_takes_no_options() -> None:
    with pytest.raises(UsageError, match="takes no options"):
        Durability().check(to_table([]), told(), {"strict": True})


def first(time_s: float, index: int, term: int, durable: int = 0) -> dict[str, Any]:
    return row(time_s, "n1", "first", life=1, last_index=durable, log_index=index, log_term=term)


def recovered(time_s: float, index: int, term: int) -> dict[str, Any]:
    return row(time_s, "n1", "start", life=2, last_index=index, log_index=index, log_term=term)


def test_m14_a_log_that_ends_in_an_earlier_term_than_an_entry_that_was_said_to_be_durable_is_named() -> None:
    verdict = judge(first(1, 41, 3, durable=40), said(1.5, 42), recovered(3, 50, 2))
    assert (verdict.valid, verdict.anomalies) == ("false", ("entry-forgotten",))
    assert verdict.sentence == (
        "Entry forgotten: n1 of group 'g' had got entry 41 of term 3 (at 1.000 s in life 1) and said that it is "
        "durable, and recovered a log that ends with entry 50 of term 2 (at 3.000 s in life 2)."
    )


@pytest.mark.parametrize(
    "rows",
    [
        (said(1.5, 42), recovered(3, 50, 3)),
        (said(1.5, 42), recovered(3, 50, 4)),
        (said(1.5, 40), recovered(3, 50, 2)),
        (said(1.5, 42), said(2, 40, event="cut"), said(2.5, 42), recovered(3, 50, 2)),
        (said(1.5, 42), start(3, 50)),
    ],
    ids=["that term", "a later one", "not said yet", "cut off since", "a start that does not tell"],
)
def test_an_entry_that_is_there_or_was_not_promised_or_was_cut_off_is_not_forgotten(rows: Any) -> None:
    assert judge(first(1, 41, 3, durable=40), *rows).valid == "true"


def test_a_snapshot_may_take_the_place_of_an_entry_that_was_said_to_be_durable() -> None:
    rows = [first(1, 41, 3, durable=40), said(1.5, 42)]
    taken = row(2, "n1", "snapshot", last_index=42, log_index=45, log_term=2)
    assert judge(*rows, recovered(3, 50, 2)).anomalies == ("entry-forgotten",)
    assert judge(*rows, taken, recovered(3, 50, 2)).valid == "true"


def test_of_several_terms_of_which_entries_are_durable_the_last_one_counts() -> None:
    rows = [first(1, 41, 3, durable=40), first(1.1, 44, 5, durable=43), said(1.5, 44), first(1.6, 46, 6, durable=45)]
    verdict = judge(*rows, recovered(3, 50, 4))
    assert verdict.anomalies == ("entry-forgotten",)
    assert "had got entry 44 of term 5 (at 1.100 s in life 1)" in verdict.sentence
    assert judge(*rows, recovered(3, 50, 5)).valid == "true", "that of term 6 was never said to be durable"
    both = judge(*rows[:2], said(1.5, 43), recovered(3, 50, 4))
    assert both.valid == "true", "only that of term 3 is durable"


def test_what_the_life_before_the_last_one_said_of_its_entries_is_over() -> None:
    later = row(5, "n1", "start", life=3, last_index=50, log_index=50, log_term=2)
    assert judge(first(1, 41, 3, durable=40), said(1.5, 42), recovered(3, 50, 3), later).valid == "true"


def test_an_entry_that_is_durable_at_its_very_index_counts() -> None:
    assert judge(first(1, 41, 3, durable=40), said(1.5, 41), recovered(3, 50, 2)).anomalies == ("entry-forgotten",)


def test_only_nodes_that_an_op_names_are_excused_and_from_the_moment_at_which_it_began() -> None:
    rows = [said(1, 47), start(2.2, 45)]
    assert judge(*rows, script=disk_op(2, "n1", truncate=1)).figures["excused"] == 1, "it began to lose data at 2 s"
    assert judge(*rows, script=disk_op(2, "n10 n11", truncate=1)).valid == "false", "n10 is not n1"


def test_nodes_that_are_left_out_count_in_no_figure() -> None:
    rows = [row(1, "n2", "vote", term=4, leader="n1", last_index=99), row(3, "n2", "start", life=2, last_index=0)]
    verdict = judge(*rows, said(1, 7), start(3, 7), script=disk_op(2, "n2", wipe=True))
    assert verdict.figures == {
        "restarts": 1,
        "images": 0,
        "excused": 1,
        "highest": 7,
        "released": 0,
        "bases": 0,
        "votes": 0,
        "broken": 0,
    }


def test_what_two_nodes_forgot_are_two_findings() -> None:
    rows = [said(1, 47), said(1, 47, node="n2"), start(3, 45), start(4, 45, node="n2")]
    verdict = judge(*rows)
    assert verdict.figures["broken"] == 2
    assert verdict.sentence.endswith("(2 findings in all.)")


@pytest.mark.parametrize(
    ("term", "log_term", "valid"), [(0, 3, "false"), (2, 3, "false"), (3, 3, "true"), (4, 3, "true")]
)
def test_ra33_m45_a_log_that_ends_in_a_later_term_than_the_recovered_one_is_not_the_nodes_own(
    term: int, log_term: int, valid: str
) -> None:
    verdict = judge(row(1, "n1", "start", group="g1#1", term=term, log_term=log_term, log_index=20))
    assert verdict.valid == valid
    if valid == "false":
        assert verdict.anomalies == ("strange-entries",)
        assert verdict.sentence == (
            f"Strange entries: n1 of group 'g1#1' recovered term {term} and a log that ends with entry 20 of term 3, "
            "in which it never was (at 1.000 s in life 1)."
        )


def test_a_log_of_which_the_disk_lost_data_is_excused_whatever_it_holds() -> None:
    script = disk_op(0, "n1", rot=1)
    assert judge(row(1, "n1", "start", term=1, log_term=3, log_index=20), script=script).valid == "true"


# --- what a node would recover ----------------------------------------------------------------------------------------


def would(time_s: float, index: int, life: int = 1, **columns: Any) -> dict[str, Any]:
    return row(time_s, "n1", "recoverable", life=life, last_index=index, **columns)


def test_what_a_loss_of_power_would_have_left_is_judged_as_a_start() -> None:
    verdict = judge(start(0, 0, life=1), said(1, 47), would(1, 46))
    assert (verdict.valid, verdict.anomalies) == ("false", ("log-forgotten",))
    assert verdict.sentence == (
        "Log forgotten: n1 of group 'g' had said that its log is durable up to entry 47 (at 1.000 s in life 1), and "
        "would have recovered after a loss of power a log that ends at 46 (at 1.000 s in life 1)."
    )
    assert (verdict.figures["restarts"], verdict.figures["images"]) == (0, 1)


def test_a_look_says_nothing_itself_and_ends_no_life() -> None:
    verdict = judge(start(0, 0, life=1), said(1, 47), would(1, 60), said(2, 50), would(2, 50), start(3, 50))
    assert verdict.valid == "true", "entries that a look found, and that were not said to be durable, may be lost"
    assert verdict.sentence == (
        "After 1 restart each node had all that it had said is durable, and would have had it after 2 losses of power "
        "that was only looked at."
    )


def test_without_any_restart_looks_are_judged() -> None:
    verdict = judge(start(0, 0, life=1), said(1, 47), would(1, 47))
    assert verdict.valid == "true"
    assert verdict.sentence == (
        "No node that says what is durable was restarted. It would have had all that it had said is durable after 1 "
        "loss of power that was only looked at."
    )


@pytest.mark.parametrize("last_word", ["end", "stop", "delete"])
def test_looks_before_the_start_of_a_member_are_not_compared(last_word: str) -> None:
    """It may have lost its data between two lives, and says so only when it has started."""
    before = [start(0, 0, life=1), said(1, 47), said(2, 47, event=last_word)]
    assert judge(*before, would(3, 0, life=2), row(4, "n1", "new-member", life=2), start(4, 0)).valid == "true"
    assert judge(*before, start(3, 47), would(3, 0, life=2)).valid == "false"


def test_a_vote_that_would_be_lost_is_named_also_if_it_was_recovered() -> None:
    vote = row(1, "n1", "vote", leader="n2", term=3)
    begin = row(0, "n1", "start", life=1, last_index=0, term=2)
    kept, lost = would(1.1, 0, term=3, leader="n2"), would(1.1, 0, term=3)
    assert judge(begin, vote, kept).valid == "true"
    assert judge(begin, vote, lost).anomalies == ("vote-forgotten",)
    again = row(2, "n1", "start", life=2, last_index=0, term=3, leader="n2")
    assert judge(again, would(2, 0, life=2, term=2, leader="n2")).anomalies == ("vote-forgotten",)


def test_a_node_that_would_not_start_is_named_unless_its_disk_lost_data() -> None:
    refuses = row(2, "n1", "unrecoverable", group="metadata")
    verdict = judge(start(0, 0, life=1), refuses)
    assert verdict.anomalies == ("unrecoverable",)
    assert verdict.sentence == (
        "Unrecoverable: had n1 lost its power at 2.000 s in life 1, it would not have started again; its log says why."
    )
    assert judge(start(0, 0, life=1), refuses, script=disk_op(1, "n1", rot=3)).valid == "true"
    assert judge(start(0, 0, life=1), refuses, script=disk_op(1, "n2", rot=3)).valid == "false"


def test_strange_entries_in_a_look_are_named() -> None:
    assert judge(would(1, 5, term=2, log_index=5, log_term=3)).anomalies == ("strange-entries",)
