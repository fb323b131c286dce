"""Terms, votes and elections (RA-5, RA-6, RA-8, RA-9, RA-17, D12)."""

from __future__ import annotations

import pytest

from splitbrain.cluster.marks import counted
from splitbrain.cluster.raft import Config, InvariantError, Raft, Recovered
from splitbrain.cluster.raft.effects import (
    AppendLog,
    Apply,
    Dropped,
    Persist,
    ReadReady,
    Rejected,
    RoleChanged,
    Send,
    StartElectionTimer,
    StartHeartbeat,
    StopElectionTimer,
    StopHeartbeat,
    Voted,
)
from splitbrain.cluster.raft.events import ElectionTimeout, HeartbeatTick, Propose, Read, Received, Start
from splitbrain.cluster.raft.messages import (
    Append,
    AppendRefusal,
    AppendReply,
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
    pre_vote,
    ready_leader,
    vote,
    written,
)


def silent(*log_terms: int, term: int | None = None) -> Raft:
    """A member whose own timer has run out once."""
    raft = member(*log_terms, term=term)
    raft.handle(ElectionTimeout())
    return raft


# --- pre-vote -------------------------------------------------------------------------------------------------


def test_ra5_asking_for_pre_votes_raises_no_term_and_stores_nothing() -> None:
    raft = member(1, 1, term=3)
    effects = raft.handle(ElectionTimeout())
    assert only(Persist, effects) == []
    assert (raft.term, raft.voted_for, raft.role) == (3, None, "pre_candidate")
    assert [(send.to, send.message) for send in only(Send, effects)] == [
        (peer, PreVote(3, 1, 2, 1)) for peer in ("n2", "n3", "n4", "n5")
    ]
    assert only(StartElectionTimer, effects)


def test_ra5_granting_a_pre_vote_changes_nothing() -> None:
    raft = silent(1, term=2)
    effects = raft.handle(Received("n4", PreVote(9, 5, 8, 8)))
    assert effects == [Send("n4", PreVoteReply(2, 5, True))]
    assert (raft.term, raft.voted_for) == (2, None)
    assert pre_vote(raft, "n5", 9, 8, 8).granted, "a pre-vote is not a promise: another may have one too"


def test_ra5_a_node_that_hears_a_leader_refuses_pre_votes() -> None:
    raft = silent(1, term=2)
    append(raft, term=2, prev=(1, 1))
    assert not pre_vote(raft, "n4", 9, 8, 8).granted
    raft.handle(ElectionTimeout())
    assert pre_vote(raft, "n4", 9, 8, 8).granted


def test_ra5_a_node_that_just_started_does_not_help_to_depose_a_leader_it_has_not_heard_yet() -> None:
    assert not pre_vote(member(1), "n4", 9, 8, 8).granted


@pytest.mark.parametrize(
    ("term", "last_index", "last_term", "granted"),
    [(4, 3, 2, True), (4, 1, 3, True), (4, 2, 2, False), (4, 9, 1, False), (3, 3, 2, False), (5, 3, 2, True)],
)
def test_ra5_pre_votes_go_to_logs_and_terms_that_are_not_behind(
    term: int, last_index: int, last_term: int, granted: bool
) -> None:
    raft = silent(1, 2, 2, term=4)
    assert pre_vote(raft, "n2", term, last_index, last_term).granted is granted


def test_ra5_pre_votes_count_once_each_and_only_for_the_current_attempt() -> None:
    raft = silent(1)
    stale = PreVoteReply(1, 1, True)
    raft.handle(ElectionTimeout())
    for peer in ("n2", "n3", "n4", "n5"):
        raft.handle(Received(peer, stale))
    assert raft.role == "pre_candidate"
    for _ in range(3):
        raft.handle(Received("n2", PreVoteReply(1, 2, True)))
    raft.handle(Received("n3", PreVoteReply(1, 2, False)))
    assert raft.role == "pre_candidate"
    raft.handle(Received("n4", PreVoteReply(1, 2, True)))
    assert raft.role == "candidate"


def test_ra5_a_leader_asked_for_a_pre_vote_refuses_and_speaks_up() -> None:
    raft = ready_leader(1)
    sent = messages(raft.handle(Received("n3", PreVote(raft.term - 1, 4, 9, 9))), to="n3")
    assert [reply.granted for reply in only(PreVoteReply, sent)] == [False]
    assert len(only(Append, sent)) == 1
    assert raft.role == "leader"


def test_ra5_a_pre_vote_of_a_higher_term_does_not_depose_a_leader() -> None:
    raft = ready_leader(1)
    raft.handle(Received("n3", PreVote(raft.term + 5, 4, 9, 9)))
    assert raft.role == "leader"


def test_a_refusal_teaches_a_pre_candidate_the_higher_term() -> None:
    raft = silent(1, term=2)
    effects = raft.handle(Received("n2", PreVoteReply(6, 1, False)))
    assert (raft.term, raft.role) == (6, "follower")
    assert effects[0] == Persist(6, None)


def test_an_election_that_nobody_won_is_followed_by_a_pre_vote_not_by_a_higher_term() -> None:
    raft = silent(1)
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, PreVoteReply(1, 1, True)))
    assert (raft.role, raft.term) == ("candidate", 2)
    effects = raft.handle(ElectionTimeout())
    assert (raft.role, raft.term) == ("pre_candidate", 2)
    assert {type(message) for message in messages(effects)} == {PreVote}


# --- votes ----------------------------------------------------------------------------------------------------


def test_ra6_term_and_vote_are_stored_before_the_vote_is_sent() -> None:
    raft = member(1)
    effects = raft.handle(Received("n2", Vote(5, 1, 1)))
    assert effects[0] == Persist(5, "n2")
    assert Send("n2", VoteReply(5, True)) in effects[1:]
    assert only(StartElectionTimer, effects)


def test_ra6_a_candidate_stores_its_own_vote_before_it_asks_for_others() -> None:
    raft = silent(1)
    raft.handle(Received("n2", PreVoteReply(1, 1, True)))
    effects = raft.handle(Received("n3", PreVoteReply(1, 1, True)))
    assert effects[0] == Persist(2, "n1")
    assert messages(effects) == [Vote(2, 1, 1)] * 4


def test_ra6_one_vote_per_term_also_after_a_restart() -> None:
    raft = member(1)
    assert vote(raft, "n2", 5, 1, 1).granted
    assert not vote(raft, "n3", 5, 9, 4).granted
    assert vote(raft, "n2", 5, 1, 1).granted, "the same candidate may ask again"
    restarted = member(1, term=5, voted_for="n2")
    assert not vote(restarted, "n3", 5, 9, 4).granted
    assert vote(restarted, "n3", 6, 9, 4).granted


@pytest.mark.parametrize(
    ("last_index", "last_term", "granted"), [(3, 2, True), (2, 2, False), (1, 3, True), (9, 1, False), (4, 2, True)]
)
def test_ra6_votes_go_to_logs_that_are_not_behind(last_index: int, last_term: int, granted: bool) -> None:
    raft = member(1, 2, 2)
    assert vote(raft, "n2", 5, last_index, last_term).granted is granted
    assert raft.term == 5


def test_ra6_a_vote_of_a_past_term_is_refused() -> None:
    raft = member(1, term=5)
    assert vote(raft, "n2", 4, 9, 4) == VoteReply(5, False)
    assert raft.voted_for is None


def test_a_candidate_asks_again_whoever_has_not_granted_its_vote_and_nobody_once_the_election_is_over() -> None:
    raft = silent(1)
    for peer in ("n2", "n3"):
        effects = raft.handle(Received(peer, PreVoteReply(1, 1, True)))
    assert only(StartHeartbeat, effects)
    raft.handle(Received("n2", VoteReply(2, True)))
    again = raft.handle(HeartbeatTick())
    assert [send.to for send in only(Send, again)] == ["n3", "n4", "n5"]
    assert messages(again) == [Vote(2, 1, 1)] * 3
    lost = append(raft, term=2, prev=(1, 1), sender="n3")
    assert only(StopHeartbeat, lost)
    assert raft.handle(HeartbeatTick()) == []


def test_a_candidate_that_nobody_answers_in_time_asks_no_more() -> None:
    raft = silent(1)
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, PreVoteReply(1, 1, True)))
    assert only(StopHeartbeat, raft.handle(ElectionTimeout()))
    assert raft.handle(HeartbeatTick()) == []


def test_each_vote_is_told_once() -> None:
    raft = member(1)
    assert only(Voted, raft.handle(Received("n2", Vote(5, 1, 1)))) == [Voted(5, "n2")]
    assert only(Voted, raft.handle(Received("n2", Vote(5, 1, 1)))) == [], "the same candidate asked again"
    assert only(Voted, raft.handle(Received("n3", Vote(5, 1, 1)))) == [], "it was refused"
    raft = silent(1)
    for peer in ("n2", "n3"):
        effects = raft.handle(Received(peer, PreVoteReply(1, 1, True)))
    assert only(Voted, effects) == [Voted(2, "n1")]


def test_a_vote_that_comes_in_a_later_term_is_marked_and_a_refusal_is_not() -> None:
    raft = member(1, term=1)
    for attempt in (1, 2):
        raft.handle(ElectionTimeout())
        for peer in ("n2", "n3"):
            raft.handle(Received(peer, PreVoteReply(attempt, attempt, True)))
    assert (raft.role, raft.term) == ("candidate", 3)
    with counted() as counts:
        raft.handle(Received("n2", VoteReply(2, False)))
        assert (counts["vote of an old term ignored"], counts["vote came too late"]) == (1, 0)
        raft.handle(Received("n2", VoteReply(2, True)))
        assert (counts["vote of an old term ignored"], counts["vote came too late"]) == (2, 1)
    assert raft.role == "candidate"


def test_votes_are_counted_once_each_and_only_for_this_term() -> None:
    raft = silent(1)
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, PreVoteReply(1, 1, True)))
    for reply in [VoteReply(2, True), VoteReply(2, True), VoteReply(2, True)]:
        raft.handle(Received("n2", reply))
    raft.handle(Received("n3", VoteReply(1, True)))
    raft.handle(Received("n4", VoteReply(2, False)))
    assert raft.role == "candidate"
    raft.handle(Received("n5", VoteReply(2, True)))
    assert raft.role == "leader"


@pytest.mark.parametrize(("voters", "needed"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (7, 3)])
def test_a_majority_of_voters_elects(voters: int, needed: int) -> None:
    names = [f"n{i + 1}" for i in range(voters)]
    raft = member(voters=names)
    raft.handle(ElectionTimeout())
    for reply in (PreVoteReply(0, 1, True), VoteReply(1, True)):
        for peer in names[1 : 1 + needed]:
            assert raft.role != "leader"
            raft.handle(Received(peer, reply))
    assert raft.role == "leader"


# --- who is listened to ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        Vote(99, 99, 99),
        VoteReply(99, True),
        Append(99, 0, 0, 0, 0),
        AppendReply(99, 0, 0, 0),
        PreVote(99, 1, 99, 99),
        AppendRefusal(99, 0, 1, 0),
        PreVoteReply(99, 1, True),
    ],
)
def test_ra8_a_node_that_is_no_member_is_ignored(message: Vote) -> None:
    raft = ready_leader(1)
    term = raft.term
    assert raft.handle(Received("stranger", message)) == []
    assert (raft.role, raft.term) == ("leader", term)


@pytest.mark.parametrize(
    "message", [Vote(9, 0, 0), VoteReply(9, False), AppendReply(9, 0, 0, 0), AppendRefusal(9, 0, 1, 1)]
)
def test_a_higher_term_of_a_member_deposes_a_leader(message: Vote) -> None:
    raft = ready_leader(1)
    effects = raft.handle(Received("n2", message))
    assert (raft.role, raft.term, raft.leader) == ("follower", 9, None)
    assert effects[0] == Persist(9, None)
    assert only(StopHeartbeat, effects)
    assert only(StartElectionTimer, effects)


def test_a_leader_of_a_past_term_is_told_so() -> None:
    raft = member(1, term=5)
    effects = append(raft, *entries(4, first=2), term=4, prev=(1, 1))
    assert messages(effects, to="n2") == [AppendRefusal(5, 0, 1, 1)]
    assert raft.log.last_index == 1
    assert raft.leader is None


def test_ra17_a_second_leader_in_a_term_is_not_survived() -> None:
    raft = ready_leader(1)
    with pytest.raises(InvariantError, match="n1 leads term 2, and so does n3"):
        append(raft, term=2, sender="n3")
    follower = member(1, term=2)
    append(follower, term=2, prev=(1, 1), sender="n2")
    with pytest.raises(InvariantError, match="two leaders in term 2: n2 and n3"):
        append(follower, term=2, prev=(1, 1), sender="n3")


def test_ra17_a_leader_that_stepped_down_still_knows_that_it_led_the_term() -> None:
    raft = ready_leader(1)
    for _ in range(Config().quorum_ticks):
        raft.handle(HeartbeatTick())
    assert raft.role == "follower"
    with pytest.raises(InvariantError, match="two leaders in term 2"):
        append(raft, term=2, prev=(1, 1), sender="n3")


# --- taking and leaving office --------------------------------------------------------------------------------


def test_ra9_a_leader_begins_its_term_with_a_noop_for_everybody() -> None:
    raft = member(1, 1)
    raft.handle(ElectionTimeout())
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, PreVoteReply(1, 1, True)))
    raft.handle(Received("n2", VoteReply(2, True)))
    effects = raft.handle(Received("n3", VoteReply(2, True)))
    (appended,) = only(AppendLog, effects)
    (noop,) = appended.entries
    assert (noop.index, noop.term, noop.kind) == (3, 2, "noop")
    assert messages(effects) == [Append(2, 0, 0, 2, 1, (noop,))] * 4
    assert only(StopElectionTimer, effects)
    assert only(StartHeartbeat, effects)
    assert effects[-1] == RoleChanged("leader", 2, "n1")


def test_a_pre_candidate_that_hears_the_leader_again_follows_it() -> None:
    raft = silent(1)
    append(raft, term=1, prev=(1, 1))
    assert (raft.role, raft.leader) == ("follower", "n2")
    for peer in ("n3", "n4", "n5"):
        raft.handle(Received(peer, PreVoteReply(1, 1, True)))
    assert raft.role == "follower"


def test_ra1_a_founder_that_has_met_no_one_starts_its_timer_and_stands() -> None:
    raft = Raft("n1", ("n1", "n2", "n3"))
    assert raft.handle(Start())[0] == StartElectionTimer()
    assert only(PreVote, messages(raft.handle(ElectionTimeout())))
    assert raft.role == "pre_candidate"


def test_ra1_who_is_no_founder_waits_until_it_is_taken_in() -> None:
    raft = Raft("n9", ("n1", "n2", "n3"))
    raft.handle(Start())
    assert messages(raft.handle(ElectionTimeout())) == []
    assert raft.role == "follower"


def test_ra3_a_leader_with_nothing_to_send_speaks_to_every_follower_at_each_tick() -> None:
    raft = ready_leader()
    for _ in range(2):
        sent = only(Send, raft.handle(HeartbeatTick()))
        assert [send.to for send in sent] == ["n2", "n3", "n4", "n5"]
        for peer in ("n2", "n3"):
            raft.handle(Received(peer, AppendReply(1, 0, 1, 1)))


def test_ra10_a_leader_that_hears_no_majority_any_more_answers_leader_reads_and_nothing_else() -> None:
    raft = ready_leader()
    for _ in range(raft_ticks := Config().quorum_ticks - 1):
        raft.handle(HeartbeatTick())
    assert (raft.role, raft_ticks) == ("leader", 23)
    assert only(ReadReady, raft.handle(Read("r", "leader"))) == [ReadReady("r", 1)]
    assert not only(ReadReady, raft.handle(Read("s")))
    assert not only(Apply, written(raft, raft.handle(Propose("w", b""))))


def test_d12_a_leader_without_majority_steps_down_after_two_election_timeouts() -> None:
    raft = ready_leader(1)
    config = Config()
    ticks = 2 * config.election_max_ms // config.heartbeat_ms
    for _ in range(ticks - 1):
        effects = raft.handle(HeartbeatTick())
        assert len(only(Append, messages(effects))) == 4
    effects = raft.handle(HeartbeatTick())
    assert raft.role == "follower"
    assert only(StopHeartbeat, effects)
    assert only(StartElectionTimer, effects)
    assert messages(effects) == [], "no heartbeat goes out any more"
    assert raft.handle(HeartbeatTick()) == []


@pytest.mark.parametrize(("heard", "role"), [(("n2", "n3"), "leader"), (("n2",), "follower"), ((), "follower")])
def test_d12_a_leader_stays_only_as_long_as_a_majority_replies(heard: tuple[str, ...], role: str) -> None:
    raft = ready_leader(1)
    for _ in range(60):
        raft.handle(HeartbeatTick())
        for peer in heard:
            raft.handle(Received(peer, AppendReply(2, 0, 2, 2)))
    assert raft.role == role


def test_d12_what_a_leader_hears_besides_replies_does_not_keep_it_in_office() -> None:
    raft = ready_leader(1)
    for _ in range(60):
        raft.handle(HeartbeatTick())
        for peer in ("n2", "n3", "n4", "n5"):
            raft.handle(Received(peer, PreVote(1, 1, 1, 1)))
            raft.handle(Received(peer, AppendReply(1, 0, 1, 1)))
    assert raft.role == "follower"


def test_d12_stepping_down_rejects_reads_and_drops_proposals() -> None:
    raft = ready_leader(1)
    raft.handle(Read("read 1"))
    raft.handle(Read("read 2"))
    raft.handle(Propose("write 1", b"x"))
    raft.handle(Propose("write 2", b"y"))
    effects = raft.handle(Received("n2", Vote(9, 0, 0)))
    assert only(Rejected, effects) == [Rejected("read 1", None, "not_leader"), Rejected("read 2", None, "not_leader")]
    assert only(Dropped, effects) == [Dropped("write 1"), Dropped("write 2")]


def test_d12_whoever_stepped_down_helps_the_next_to_be_elected_at_once() -> None:
    raft = ready_leader(1)
    for _ in range(Config().quorum_ticks):
        raft.handle(HeartbeatTick())
    assert pre_vote(raft, "n2", 2, 9, 2).granted


def test_ra5_nobody_is_known_to_lead_a_term_that_has_just_begun() -> None:
    raft = member(1)
    append(raft, term=1, prev=(1, 1))
    vote(raft, "n3", 2)
    assert raft.leader is None
    assert pre_vote(raft, "n4", 2, 1, 1).granted


def test_d12_a_read_that_waits_for_the_noop_is_rejected_too() -> None:
    raft = leader(1)
    raft.handle(Read("early"))
    assert only(Rejected, raft.handle(Received("n2", Vote(9, 0, 0)))) == [Rejected("early", None, "not_leader")]


def test_late_ticks_and_timeouts_of_another_role_do_nothing() -> None:
    raft = ready_leader(1)
    assert raft.handle(ElectionTimeout()) == []
    assert member(1).handle(HeartbeatTick()) == []


def test_a_follower_forgets_its_leader_when_it_falls_silent() -> None:
    raft = member(1)
    append(raft, term=1, prev=(1, 1))
    effects = raft.handle(ElectionTimeout())
    assert effects[-1] == RoleChanged("pre_candidate", 1, None)
    assert raft.leader is None


def test_a_single_node_leads_alone() -> None:
    raft = member(voters=("n1",))
    effects = raft.handle(ElectionTimeout())
    assert effects[0] == Persist(1, "n1")
    assert raft.role == "leader"
    written(raft, effects)
    assert raft.commit_index == 1
    for _ in range(100):
        raft.handle(HeartbeatTick())
    assert raft.role == "leader"


def test_a_member_must_be_told_the_voters_and_recover_what_a_member_stores() -> None:
    with pytest.raises(ValueError, match="n9 must be given the voters, each named once: none"):
        Raft("n9", ())
    with pytest.raises(ValueError, match="each named once"):
        Raft("n1", ("n1", "n2", "n2"))
    with pytest.raises(InvariantError, match="stored term 1, but an entry of term 2"):
        Raft("n1", ("n1",), Recovered(1, None, entries(1, 2)))
    with pytest.raises(InvariantError, match="entry 3 of term 1 cannot follow entry 1"):
        Raft("n1", ("n1",), Recovered(1, None, (*entries(1), *entries(1, first=3))))


def test_a_started_member_reports_its_role_and_runs_its_timer() -> None:
    effects = Raft("n1", ("n1", "n2"), Recovered(4, "n2", entries(3))).handle(Start())
    assert effects == [StartElectionTimer(), RoleChanged("follower", 4, None)]


def test_a_leader_knows_whose_votes_it_counted_and_in_which_terms_they_were_granted() -> None:
    raft = silent(1)
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, PreVoteReply(1, 1, True)))
    assert (raft.role, raft.votes) == ("candidate", (("n1", 2),))
    raft.handle(Received("n5", VoteReply(1, True)))
    raft.handle(Received("n4", VoteReply(2, False)))
    for peer in ("n2", "n2", "n3"):
        raft.handle(Received(peer, VoteReply(2, True)))
    assert (raft.role, raft.votes) == ("leader", (("n1", 2), ("n2", 2), ("n3", 2)))
