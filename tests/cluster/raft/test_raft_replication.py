"""Log, replication and commit (RA-11 to RA-16)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.raft import Config, Entry, InvariantError, Log, Raft, Recovered, decode, encode
from splitbrain.cluster.raft.effects import (
    Appended,
    AppendLog,
    Apply,
    CommitAdvanced,
    Dropped,
    Effect,
    Rejected,
    StartElectionTimer,
    TruncateLog,
)
from splitbrain.cluster.raft.events import HeartbeatTick, Propose, ProposeAll, Received, Start, Written
from splitbrain.cluster.raft.messages import (
    Append,
    AppendRefusal,
    AppendReply,
    Message,
    PreVote,
    PreVoteReply,
    Vote,
    VoteReply,
)
from tests.cluster.raft.single import (
    append,
    entries,
    leader,
    member,
    messages,
    only,
    ready_leader,
    vote,
    written,
)

# --- follower -------------------------------------------------------------------------------------------------


def test_ra11_a_follower_reports_entries_only_when_they_are_durable() -> None:
    raft = member()
    effects = append(raft, *entries(1, 1), term=1)
    assert messages(effects) == []
    assert raft.written_index == 0
    replies = messages(written(raft, effects), to="n2")
    assert replies == [AppendReply(1, 0, 2, 2)]


def test_ra11_a_heartbeat_is_answered_at_once_with_what_is_durable_so_far() -> None:
    raft = member()
    effects = append(raft, *entries(1, 1), term=1)
    assert messages(append(raft, term=1, prev=(2, 1))) == [AppendReply(1, 0, 2, 0)]
    written(raft, effects)
    assert messages(append(raft, term=1, prev=(2, 1))) == [AppendReply(1, 0, 2, 2)]


def test_ra11_a_read_round_is_answered_before_the_entries_that_came_with_it_are_durable() -> None:
    raft = member()
    effects = append(raft, *entries(1), term=1, read_round=3)
    assert messages(effects) == [AppendReply(1, 3, 1, 0)]


def test_every_message_of_the_leader_restarts_the_election_timer() -> None:
    raft = member(1)
    assert only(StartElectionTimer, append(raft, term=1, prev=(1, 1)))
    assert only(StartElectionTimer, append(raft, term=1, prev=(7, 1)))


def test_ra13_a_follower_applies_before_it_is_durable_here_and_does_not_say_that_it_is() -> None:
    raft = member()
    pending = append(raft, *entries(1, 1), term=1)
    effects = append(raft, term=1, prev=(2, 1), commit=2)
    assert only(Apply, effects) == [Apply(entries(1, 1), {})]
    assert messages(effects) == [AppendReply(1, 0, 2, 0)]
    assert (raft.applied_index, raft.written_index) == (2, 0)
    assert only(AppendReply, messages(written(raft, pending))) == [AppendReply(1, 0, 2, 2)]


def test_ra14_commit_is_adopted_only_up_to_what_this_leader_validated() -> None:
    raft = member(1, 1, 1, 1)
    append(raft, term=2, prev=(2, 1), commit=4)
    assert raft.commit_index == 2, "entries 3 and 4 may be another leader's"
    append(raft, *entries(2, first=3), term=2, prev=(2, 1), commit=4)
    assert raft.commit_index == 3
    assert raft.log.last_index == 3


def test_ra14_what_one_leader_validated_says_nothing_about_the_next() -> None:
    raft = member()
    written(raft, append(raft, *entries(1, 1, 1), term=1))
    append(raft, term=2, prev=(1, 1), commit=3, sender="n3")
    assert raft.commit_index == 1


def test_ra14_a_durable_tail_that_was_not_compared_is_not_reported() -> None:
    raft = member(1, 1, 1, 1)
    assert messages(append(raft, term=2, prev=(2, 1))) == [AppendReply(2, 0, 2, 2)]


def test_a_follower_applies_what_is_committed_in_order_and_once() -> None:
    raft = member()
    append(raft, *entries(1, 1, 1), term=1)
    effects = append(raft, term=1, prev=(3, 1), commit=2)
    assert effects[1:3] == [CommitAdvanced(2), Apply(entries(1, 1), {})]
    assert only(Apply, append(raft, term=1, prev=(3, 1), commit=2)) == []
    assert only(Apply, append(raft, term=1, prev=(3, 1), commit=1)) == [], "an old message does not lower it"
    assert only(Apply, append(raft, term=1, prev=(3, 1), commit=3)) == [Apply(entries(1, first=3), {})]


def test_ra15_a_missing_entry_is_refused_with_the_end_of_the_log() -> None:
    raft = member(1, 1)
    assert messages(append(raft, *entries(1, first=9), term=1, prev=(8, 1))) == [AppendRefusal(1, 0, 8, 2, 1)]
    assert raft.log.last_index == 2


def test_ra15_a_mismatch_is_refused_with_the_last_entry_on_which_the_logs_can_agree() -> None:
    raft = member(1, 1, 2, 2, 2)
    assert messages(append(raft, term=4, prev=(5, 3))) == [AppendRefusal(4, 0, 5, 4, 2)]
    assert messages(append(raft, term=4, prev=(5, 1))) == [AppendRefusal(4, 0, 5, 2, 1)]


@pytest.mark.parametrize("theirs", [[1] * 1004, [1] * 998 + [2] * 30, [1] * 900, []])
def test_ra15_a_member_that_comes_back_is_soon_sent_what_it_lacks_and_nothing_else(theirs: list[int]) -> None:
    """What it has in common with the new leader is not sent again, whatever the end of its log looks like."""
    raft = leader(*[1] * 1000, *[3] * 20, voters=("n1", "n2", "n3"))
    for i in range(9):
        raft.handle(Propose(i, b""))
    back = Raft("n2", ("n1", "n2", "n3"), Recovered(max(theirs, default=0), None, entries(*theirs)))
    back.handle(Start())
    agree = sum(ours == term for ours, term in zip([1] * 1000, theirs, strict=False))
    under_way = only(Append, messages(raft.handle(HeartbeatTick()), to="n2"))
    refusals, sent = 0, set[int]()
    while under_way:
        sent |= {entry.index for message in under_way for entry in message.entries}
        effects = [effect for message in under_way for effect in back.handle(Received("n1", message))]
        replies = messages([*effects, *written(back, effects)])
        refusals += len(only(AppendRefusal, replies))
        out = [effect for reply in replies for effect in raft.handle(Received("n2", reply))]
        under_way = only(Append, messages(out, to="n2"))
    assert back.log.last_index == raft.log.last_index == 1030
    assert min(sent) == agree + 1
    assert refusals <= 2


def test_a_conflicting_tail_is_replaced() -> None:
    raft = member(1, 1, 1, 1)
    effects = append(raft, *entries(1, 3, 3, first=2), term=3, prev=(1, 1))
    assert only(TruncateLog, effects) == [TruncateLog(3)]
    (appended,) = only(AppendLog, effects)
    assert appended.entries == entries(3, 3, first=3)
    assert [raft.log.term(index) for index in range(1, 5)] == [1, 1, 3, 3]
    assert effects.index(TruncateLog(3)) < effects.index(appended)


def test_an_old_message_does_not_take_away_what_followed_it() -> None:
    raft = member()
    append(raft, *entries(1, 1, 1), term=1)
    effects = append(raft, *entries(1), term=1)
    assert only(TruncateLog, effects) == []
    assert raft.log.last_index == 3


def test_entries_that_are_there_already_are_not_written_again() -> None:
    raft = member(1, 1)
    effects = append(raft, *entries(1, 1, 1), term=1)
    assert [entry.index for effect in only(AppendLog, effects) for entry in effect.entries] == [3]


def test_ra16_truncation_lowers_what_counts_as_written_at_once() -> None:
    raft = member(1, 1, 1, 1)
    effects = append(raft, *entries(3, first=3), term=3, prev=(2, 1))
    assert raft.written_index == 2
    assert messages(append(raft, term=3, prev=(3, 3))) == [AppendReply(3, 0, 3, 2)]
    written(raft, effects)
    assert raft.written_index == 3


def test_ra16_a_report_from_before_a_truncation_does_not_count() -> None:
    raft = member()
    first = append(raft, *entries(1, 1), term=1)
    append(raft, *entries(2, first=2), term=2, prev=(1, 1), sender="n3")
    third = append(raft, *entries(1, 3, first=2), term=3, prev=(1, 1), sender="n2")
    written(raft, first)
    assert raft.written_index == 0, "the same entry was written twice; the first writing was truncated"
    written(raft, third)
    assert raft.written_index == 3


def test_ra15_nothing_committed_is_ever_truncated() -> None:
    raft = member()
    append(raft, *entries(1, 1), term=1)
    append(raft, term=1, prev=(2, 1), commit=2)
    with pytest.raises(InvariantError, match="would truncate from 2, committed up to 2"):
        append(raft, *entries(3, first=2), term=3, prev=(1, 1), sender="n3")


def test_a_leader_without_a_committed_entry_is_not_followed() -> None:
    raft = member()
    append(raft, *entries(1, 1), term=1)
    append(raft, term=1, prev=(2, 1), commit=2)
    with pytest.raises(InvariantError, match="n3 leads term 3 without entry 2 of term 1"):
        append(raft, term=3, prev=(2, 2), sender="n3")


def test_a_leader_that_changes_its_own_entries_is_not_followed() -> None:
    raft = member()
    append(raft, *entries(1, 1), term=2)
    with pytest.raises(InvariantError, match="changed its own entry 2"):
        append(raft, *entries(1, 2), term=2)


# --- leader ---------------------------------------------------------------------------------------------------


def reply(raft_term: int, matched: int, durable: int | None = None) -> AppendReply:
    return AppendReply(raft_term, 0, matched, matched if durable is None else durable)


def test_ra12_commit_needs_a_majority_that_has_it_durably() -> None:
    raft = leader()
    raft.handle(Received("n2", reply(1, 1)))
    raft.handle(Received("n2", reply(1, 1)))
    raft.handle(Received("n3", reply(1, 1, durable=0)))
    assert raft.commit_index == 0
    raft.handle(Received("n3", reply(1, 1)))
    assert raft.commit_index == 0, "two of five, and the leader has not written it"
    raft.handle(Written(1, 1, 0))
    assert raft.commit_index == 1


def test_ra12_a_leader_may_commit_what_it_has_not_written_itself() -> None:
    raft = leader()
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, reply(1, 1)))
    effects = raft.handle(Received("n4", reply(1, 1)))
    assert raft.written_index == 0
    counted = (("n1", 0), ("n2", 1), ("n3", 1), ("n4", 1), ("n5", 0))
    assert only(CommitAdvanced, effects) == [CommitAdvanced(1, counted)]


def test_ra12_entries_of_earlier_terms_are_committed_only_by_one_of_this_term() -> None:
    raft = leader(1, 1)
    for peer in ("n2", "n3", "n4"):
        raft.handle(Received(peer, reply(2, 2)))
    assert raft.commit_index == 0, "Raft, figure 8"
    raft.handle(Written(3, 2, 0))
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, reply(2, 3)))
    assert raft.commit_index == 3


def test_a_proposal_is_answered_where_it_was_made_when_it_is_committed() -> None:
    raft = ready_leader(1)
    effects = raft.handle(Propose("ref", b"data"))
    entry = Entry(3, 2, "command", b"data")
    assert [append.entries for append in only(AppendLog, effects)] == [(entry,)]
    assert messages(effects) == [Append(2, 0, 2, 2, 2, (entry,))] * 4
    assert only(Apply, written(raft, effects)) == []
    assert only(Apply, raft.handle(Received("n2", reply(2, 3)))) == []
    effects = raft.handle(Received("n3", reply(2, 3)))
    counted = (("n1", 3), ("n2", 3), ("n3", 3), ("n4", 2), ("n5", 2))
    assert effects[:2] == [CommitAdvanced(3, counted), Apply((entry,), {3: "ref"})]


def test_a_node_that_does_not_lead_rejects_and_names_the_leader() -> None:
    raft = member(1)
    assert raft.handle(Propose("p", b"")) == [Rejected("p", None, "not_leader")]
    append(raft, term=1, prev=(1, 1))
    assert raft.handle(Propose("p", b"")) == [Rejected("p", "n2", "not_leader")]


def test_a_leader_that_cannot_commit_takes_only_so_many_proposals() -> None:
    raft = leader(config=Config(max_pending=3))
    outcomes = [only(Rejected, raft.handle(Propose(i, b""))) for i in range(4)]
    assert outcomes == [[], [], [Rejected(2, "n1", "busy")], [Rejected(3, "n1", "busy")]]


def of_all(raft: Raft, groups: Sequence[int]) -> tuple[list[Entry], list[Effect]]:
    """What is appended, and every effect, when so many commands come at one time, and then the next ones."""
    effects: list[Effect] = []
    first = 0
    for size in groups:
        commands = [Propose(number, b"%d" % number) for number in range(first, first + size)]
        effects += raft.handle(ProposeAll(commands) if size > 1 else commands[0])
        first += size
    return [entry for each in only(AppendLog, effects) for entry in each.entries], effects


@given(st.lists(st.integers(1, 9), max_size=6), st.integers(1, 40))
def test_commands_that_come_at_one_time_fare_as_if_they_came_one_by_one(groups: list[int], limit: int) -> None:
    together = leader(1, voters=("n1", "n2"), config=Config(max_pending=limit))
    one_by_one = leader(1, voters=("n1", "n2"), config=Config(max_pending=limit))
    appended, effects = of_all(together, groups)
    expected, others = of_all(one_by_one, [1] * sum(groups))
    assert appended == expected
    assert only(Rejected, effects) == only(Rejected, others)
    last = together.log.last_index
    for raft in (together, one_by_one):
        raft.handle(Received("n2", reply(2, last)))
    (applied,), (applied_too,) = (only(Apply, raft.handle(Written(last, 2, 0))) for raft in (together, one_by_one))
    assert applied == applied_too


def test_commands_that_come_at_one_time_are_written_at_once_and_sent_in_one_message() -> None:
    raft = ready_leader(1)
    effects = raft.handle(ProposeAll([Propose("a", b"1"), Propose("b", b"2")]))
    both = (Entry(3, 2, "command", b"1"), Entry(4, 2, "command", b"2"))
    assert only(AppendLog, effects) == [AppendLog(both, Written(4, 2, 0))]
    assert messages(effects) == [Append(2, 0, 2, 2, 2, both)] * 4


def test_each_of_many_commands_is_rejected_by_a_node_that_does_not_lead() -> None:
    raft = member(1)
    append(raft, term=1, prev=(1, 1))
    effects = raft.handle(ProposeAll([Propose("a", b""), Propose("b", b"")]))
    assert effects == [Rejected("a", "n2", "not_leader"), Rejected("b", "n2", "not_leader")]


def streaming(config: Config) -> tuple[int, list[Effect]]:
    """A leader's effects when its only follower agrees up to 0 and 40 entries are to be sent; and its last index."""
    raft = leader(voters=("n1", "n2"), config=config)
    for i in range(39):
        raft.handle(Propose(i, b""))
    return raft.log.last_index, raft.handle(Received("n2", reply(1, 0)))


def test_ra11_a_follower_far_behind_is_sent_batches_without_waiting() -> None:
    last, effects = streaming(Config(max_batch=16))
    sent = only(Append, messages(effects))
    assert [len(message.entries) for message in sent] == [16, 16, 8]
    assert [message.prev_index for message in sent] == [0, 16, 32]
    assert sent[-1].entries[-1].index == last == 40


def test_ra11_no_more_than_the_limit_is_under_way() -> None:
    raft = leader(voters=("n1", "n2"), config=Config(max_batch=16, max_pipeline=20))
    for i in range(39):
        raft.handle(Propose(i, b""))
    assert [len(m.entries) for m in only(Append, messages(raft.handle(Received("n2", reply(1, 0)))))] == [16, 4]
    assert messages(raft.handle(Propose("more", b""))) == []
    assert [len(m.entries) for m in only(Append, messages(raft.handle(Received("n2", reply(1, 16)))))] == [16]


def test_a_follower_that_is_not_known_to_agree_is_sent_one_batch_and_then_empty_probes() -> None:
    raft = leader(voters=("n1", "n2"))
    assert messages(raft.handle(Propose("a", b""))) == []
    for _ in range(5):
        assert [len(message.entries) for message in only(Append, messages(raft.handle(HeartbeatTick())))] == [0]


def test_a_refusal_moves_the_probe_back_once_however_many_of_its_kind_arrive() -> None:
    raft = ready_leader(1, 1, voters=("n1", "n2", "n3"))
    for i in range(5):
        raft.handle(Propose(i, b""))
    sent = only(Append, messages(raft.handle(Received("n2", AppendRefusal(2, 0, 6, 4, 2))), to="n2"))
    assert [(message.prev_index, len(message.entries)) for message in sent] == [(4, 4)]
    for prev in (5, 6, 7):
        assert messages(raft.handle(Received("n2", AppendRefusal(2, 0, prev, 4, 2))), to="n2") == []
    sent = only(Append, messages(raft.handle(Received("n2", AppendRefusal(2, 0, 4, 3, 2))), to="n2"))
    assert [(message.prev_index, len(message.entries)) for message in sent] == [(3, 5)]


def test_a_refusal_below_what_is_durably_replicated_is_stale() -> None:
    raft = ready_leader(1, 1)
    assert messages(raft.handle(Received("n2", AppendRefusal(2, 0, 2, 0)))) == []
    assert messages(raft.handle(Received("n2", AppendRefusal(2, 0, 3, 0)))) == []


def test_a_lost_message_is_repaired_at_the_next_heartbeat() -> None:
    raft = ready_leader()
    raft.handle(Propose("lost on the way to n2", b""))
    (heartbeat,) = messages(raft.handle(HeartbeatTick()), to="n2")
    assert isinstance(heartbeat, Append)
    assert heartbeat.prev_index == 2
    follower = member(term=1)
    append(follower, *entries(1), term=1)
    (refusal,) = messages(append(follower, term=1, prev=(heartbeat.prev_index, heartbeat.prev_term)))
    (again,) = messages(raft.handle(Received("n2", refusal)), to="n2")
    assert isinstance(again, Append)
    assert [entry.index for entry in again.entries] == [2]


def test_followers_in_step_are_sent_the_same_object_so_that_it_is_encoded_once() -> None:
    raft = ready_leader()
    sent = messages(raft.handle(Propose("x", b"")))
    assert len(sent) == 4
    assert all(message is sent[0] for message in sent)


def test_a_follower_cannot_have_more_than_the_leader() -> None:
    raft = ready_leader(1)
    with pytest.raises(InvariantError, match="n2 claims to agree with n1 up to 7"):
        raft.handle(Received("n2", reply(2, 7)))


def test_a_vote_counts_the_unwritten_log_of_the_voter_too() -> None:
    raft = member(1)
    append(raft, *entries(1, first=2), term=1, prev=(1, 1))
    assert not vote(raft, "n3", 5, 1, 1).granted


# --- log and wire ---------------------------------------------------------------------------------------------


def test_the_log_refuses_gaps_falling_terms_and_positions_it_does_not_have() -> None:
    log = Log(entries(1, 2))
    for bad in (entries(2, first=4), entries(1, first=3), entries(2, first=2)):
        with pytest.raises(InvariantError):
            log.append(bad)
    for position in (-1, 3):
        with pytest.raises(InvariantError):
            log.term(position)
    for first, last in ((0, 1), (1, 3)):
        with pytest.raises(InvariantError):
            log.slice(first, last)
    for position in (0, 3):
        with pytest.raises(InvariantError):
            log.truncate(position)
    assert (log.last_index, log.last_term) == (2, 2)
    log.truncate(1)
    assert (log.last_index, log.last_term) == (0, 0)


@pytest.mark.parametrize(
    "message",
    [
        PreVote(1, 2, 3, 4),
        PreVoteReply(1, 2, True),
        Vote(1, 2, 3),
        VoteReply(1, False),
        Append(1, 2, 3, 4, 5),
        Append(1, 2, 3, 4, 5, (Entry(5, 1, "noop"), Entry(6, 1, "command", b"\x00\xff"))),
        AppendReply(1, 2, 3, 4),
        AppendRefusal(1, 2, 3, 4, 5),
    ],
)
def test_a_message_survives_the_wire(message: Message) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "figures",
    [
        {"heartbeat_ms": 0},
        {"heartbeat_ms": 600},
        {"election_min_ms": 1300},
        {"max_batch": 0},
        {"max_pipeline": 0},
        {"max_pending": 0},
    ],
)
def test_figures_with_which_no_leader_could_stay_are_refused(figures: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"heartbeat_ms|max_batch"):
        Config(**figures)  # pyright: ignore[reportArgumentType] - none of them is for lease_reads


# --- RA-18 --------------------------------------------------------------------------------------------------------


def test_ra18_a_command_that_is_answered_on_append_is_answered_at_once_and_never_again() -> None:
    raft = ready_leader()
    effects = raft.handle(Propose("early", b"x", on_append=True))
    assert only(Appended, effects) == [Appended("early", raft.log.last_index)]
    assert raft.commit_index < raft.log.last_index
    committed = written(raft, effects)
    for peer in ("n2", "n3"):
        last = raft.log.last_index
        committed += raft.handle(Received(peer, AppendReply(raft.term, 0, last, last)))
    assert [(apply.entries[-1].data, dict(apply.refs)) for apply in only(Apply, committed)] == [(b"x", {})]


def test_ra18_a_command_that_is_answered_on_append_is_rejected_but_never_dropped() -> None:
    raft = ready_leader()
    raft.handle(Propose("early", b"x", on_append=True))
    raft.handle(Propose("late", b"y"))
    out = raft.handle(Received("n2", Vote(raft.term + 1, 9, raft.term)))
    assert [dropped.ref for dropped in only(Dropped, out)] == ["late"]
    assert [rejected.ref for rejected in only(Rejected, raft.handle(Propose("x", b"", on_append=True)))] == ["x"]
