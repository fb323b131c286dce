"""Changes of members, one rule at a time (RA-8, RA-28, RA-30), and what becomes of a cluster that breaks one."""

from __future__ import annotations

import pytest

from splitbrain.cluster.bugs import M48, M50, NO_BUGS, Bugs
from splitbrain.cluster.marks import counted
from splitbrain.cluster.raft import Config, Entry, InvariantError, Raft, Recovered
from splitbrain.cluster.raft.effects import (
    AppendLog,
    Apply,
    Dropped,
    Effect,
    MembersChanged,
    Rejected,
    RoleChanged,
    StartElectionTimer,
    TruncateLog,
)
from splitbrain.cluster.raft.events import (
    Change,
    ElectionTimeout,
    HeartbeatTick,
    Propose,
    Read,
    Received,
    Start,
    Written,
)
from splitbrain.cluster.raft.membership import ChangeRefusal, Configuration, decode_configuration, encode_configuration
from splitbrain.cluster.raft.messages import Append, AppendRefusal, AppendReply, PreVote, PreVoteReply, Vote, VoteReply
from tests.cluster.raft.simulation import PropertyError, Simulation
from tests.cluster.raft.single import append, entries, leader, messages, only, pre_vote, ready_leader, vote, written

THREE = ("n1", "n2", "n3")


def configuration(index: int, term: int, *members: str) -> Entry:
    return Entry(index, term, "config", encode_configuration(Configuration(members)))


def reply(raft: Raft, sender: str, matched: int) -> list[Effect]:
    return raft.handle(Received(sender, AppendReply(raft.term, 0, matched, matched)))


# --- what a leader may begin -----------------------------------------------------------------------------------------


def test_ra28_a_change_is_in_force_when_it_is_appended_and_answered_when_it_is_committed() -> None:
    raft = ready_leader(voters=THREE)
    effects = raft.handle(Change("ref", "n4", joins=True))
    (appended,) = only(AppendLog, effects)
    four = Configuration(("n1", "n2", "n3", "n4"))
    assert [(entry.kind, decode_configuration(entry)) for entry in appended.entries] == [("config", four)]
    assert only(MembersChanged, effects) == [MembersChanged(four)]
    assert raft.members == ("n1", "n2", "n3", "n4")
    raft.handle(appended.done)
    assert not only(Apply, reply(raft, "n2", 2)), "two of four are no majority"
    (applied,) = only(Apply, reply(raft, "n3", 2))
    assert applied.refs == {2: "ref"}


def test_who_joins_counts_for_the_majority_and_is_sent_the_whole_log() -> None:
    raft = ready_leader(1, 1, voters=THREE)
    effects = raft.handle(Change("ref", "n4", joins=True))
    (probe,) = only(Append, messages(effects, to="n4"))
    assert probe.prev_index == raft.log.last_index
    answer = raft.handle(Received("n4", AppendRefusal(raft.term, 0, probe.prev_index, 0)))
    (whole,) = only(Append, messages(answer, to="n4"))
    assert [entry.index for entry in whole.entries] == [1, 2, 3, 4]
    written(raft, effects)
    reply(raft, "n2", 4)
    assert only(Apply, reply(raft, "n4", 4))


def test_ra28_no_change_begins_while_the_one_before_is_not_committed() -> None:
    raft = ready_leader(voters=THREE)
    effects = raft.handle(Change("first", "n4", joins=True))
    second = Change("second", "n5", joins=True)
    assert raft.handle(second) == [Rejected("second", "n1", "change_not_permitted")]
    written(raft, effects)
    reply(raft, "n2", 2)
    reply(raft, "n3", 2)
    assert only(MembersChanged, raft.handle(second))


def test_ra28_no_change_begins_before_the_no_op_of_the_term_is_committed() -> None:
    raft = leader(voters=THREE)
    change = Change("ref", "n4", joins=True)
    assert raft.handle(change) == [Rejected("ref", "n1", "change_not_permitted")]
    raft.handle(Written(1, 1, 0))
    reply(raft, "n2", 1)
    assert only(MembersChanged, raft.handle(change))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Change("ref", "n2", joins=True), "already_member"),
        (Change("ref", "n9", joins=False), "not_member"),
    ],
)
def test_ra28_changes_that_make_no_sense_are_refused(change: Change, reason: ChangeRefusal) -> None:
    assert ready_leader(voters=THREE).handle(change) == [Rejected("ref", "n1", reason)]


def test_the_last_member_stays() -> None:
    raft = ready_leader(voters=("n1",))
    assert raft.handle(Change("ref", "n1", joins=False)) == [Rejected("ref", "n1", "last_member")]


def test_a_member_that_left_never_comes_back() -> None:
    raft = ready_leader(voters=THREE)
    written(raft, raft.handle(Change("leave", "n3", joins=False)))
    assert only(Apply, reply(raft, "n2", 2))
    assert raft.handle(Change("back", "n3", joins=True)) == [Rejected("back", "n1", "was_member")]


def test_a_follower_refuses_a_change() -> None:
    raft = Raft("n1", THREE)
    raft.handle(Start())
    assert raft.handle(Change("ref", "n4", joins=True)) == [Rejected("ref", None, "not_leader")]


def test_a_change_under_way_is_dropped_when_leadership_is_lost() -> None:
    raft = ready_leader(voters=THREE)
    raft.handle(Change("ref", "n4", joins=True))
    effects = raft.handle(Received("n2", Vote(9, 9, 9)))
    assert only(Dropped, effects) == [Dropped("ref")]


# --- leaving ----------------------------------------------------------------------------------------------------------


def test_ra30_a_leader_that_leaves_does_not_count_itself_and_steps_down_when_that_is_committed() -> None:
    raft = ready_leader(voters=("n1", "n2", "n3", "n4"))
    written(raft, raft.handle(Change("ref", "n1", joins=False)))
    assert raft.role == "leader"
    assert not only(Apply, reply(raft, "n2", 2)), "of three others one is no majority"
    effects = reply(raft, "n3", 2)
    (applied,) = only(Apply, effects)
    assert applied.refs == {2: "ref"}
    assert only(RoleChanged, effects) == [RoleChanged("follower", 1, None)]


def test_ra30_a_leader_that_leaves_goes_on_while_only_what_is_before_its_removal_is_committed() -> None:
    raft = ready_leader(voters=("n1", "n2", "n3", "n4"))
    written(raft, raft.handle(Propose("command", b"x")))
    written(raft, raft.handle(Change("ref", "n1", joins=False)))
    for peer in ("n2", "n3"):
        reply(raft, peer, 2)
    assert (raft.commit_index, raft.role) == (2, "leader")
    for peer in ("n2", "n3"):
        reply(raft, peer, 3)
    assert (raft.commit_index, raft.role) == (3, "follower")


def test_ra30_who_left_stands_for_election_no_more() -> None:
    raft = ready_leader(voters=THREE)
    written(raft, raft.handle(Change("ref", "n1", joins=False)))
    reply(raft, "n2", 2)
    reply(raft, "n3", 2)
    assert raft.handle(ElectionTimeout()) == []
    assert raft.role == "follower"


def test_who_may_be_the_only_one_that_knows_of_its_removal_stands_and_does_not_count_its_own_vote() -> None:
    """Thesis, 4.2.2: n1 kept the others from being elected, as its log is longer."""
    stored = Recovered(1, None, (*entries(1), configuration(2, 1, "n2")))
    raft = Raft("n1", ("n1", "n2"), stored)
    raft.handle(Start())
    with counted() as counts:
        assert messages(raft.handle(ElectionTimeout()), to="n2") == [PreVote(1, 1, 2, 1)]
    assert (counts["removed member stood"], counts["candidate beside a learner"]) == (1, 0)
    assert raft.role == "pre_candidate"
    raft.handle(Received("n2", PreVoteReply(1, 1, True)))
    assert raft.role == "candidate"
    raft.handle(Received("n2", VoteReply(2, True)))
    assert raft.role == "leader"
    raft.handle(Received("n2", AppendReply(2, 0, 3, 3)))
    assert (raft.commit_index, raft.role) == (3, "follower")


def test_reads_that_waited_for_who_left_are_answered_by_the_majority_of_the_others() -> None:
    raft = ready_leader(voters=("n1", "n2"))
    assert [type(effect).__name__ for effect in raft.handle(Read("r"))] == ["Send"]
    effects = raft.handle(Change("ref", "n2", joins=False))
    assert "ReadReady" in [type(effect).__name__ for effect in effects]


def test_d12_a_leader_gives_who_joins_as_long_to_answer_as_anybody() -> None:
    raft = ready_leader(voters=("n1",))
    for _ in range(100):
        raft.handle(HeartbeatTick())
    raft.handle(Change("ref", "n2", joins=True))
    ticks = Config().quorum_ticks
    for _ in range(ticks - 1):
        raft.handle(HeartbeatTick())
    assert raft.role == "leader"
    raft.handle(HeartbeatTick())
    assert raft.role == "follower"


# --- who is listened to -----------------------------------------------------------------------------------------------


def test_ra8_a_leader_ignores_who_left_whatever_its_term() -> None:
    raft = ready_leader(voters=THREE)
    raft.handle(Change("ref", "n3", joins=False))
    assert raft.handle(Received("n3", Vote(9, 9, 9))) == []
    assert raft.handle(Received("n3", AppendReply(1, 0, 2, 2))) == []
    assert (raft.role, raft.term) == ("leader", 1)


def test_a_follower_that_does_not_know_a_member_yet_follows_it_and_votes_for_it() -> None:
    raft = Raft("n1", THREE)
    raft.handle(Start())
    append(raft, *entries(4), term=4, sender="n5")
    assert raft.leader == "n5"
    raft.handle(ElectionTimeout())
    assert pre_vote(raft, "n4", 4, 1, 4).granted
    assert vote(raft, "n4", 5, 1, 4).granted


def test_who_is_no_member_yet_waits_and_votes_and_takes_over_the_log() -> None:
    raft = Raft("n4", THREE)
    assert only(StartElectionTimer, raft.handle(Start()))
    assert messages(raft.handle(ElectionTimeout())) == []
    assert (raft.role, raft.term) == ("follower", 0)
    assert vote(raft, "n2", 1, 0, 0).granted
    effects = append(raft, *entries(1), configuration(2, 1, *THREE, "n4"), term=1)
    assert only(MembersChanged, effects) == [MembersChanged(Configuration((*THREE, "n4")))]
    assert len(messages(raft.handle(ElectionTimeout()))) == 3


def test_who_is_no_member_grants_a_pre_vote_once_its_leader_is_silent() -> None:
    raft = Raft("n4", THREE)
    raft.handle(Start())
    append(raft, *entries(1), term=1)
    assert not pre_vote(raft, "n3", 1, 1, 1).granted
    raft.handle(ElectionTimeout())
    assert (raft.leader, pre_vote(raft, "n3", 1, 1, 1).granted) == (None, True)


# --- logs -------------------------------------------------------------------------------------------------------------


def test_ra28_a_follower_that_overwrites_a_change_reverts_to_the_configuration_before() -> None:
    raft = Raft("n1", THREE)
    raft.handle(Start())
    append(raft, *entries(1), configuration(2, 1, *THREE, "n4"), configuration(3, 1, "n1", "n2", "n4"), term=1)
    effects = append(raft, *entries(2, first=3), term=2, prev=(2, 1), sender="n3")
    assert [type(effect) for effect in effects if isinstance(effect, TruncateLog | MembersChanged)] == [
        TruncateLog,
        MembersChanged,
    ]
    assert raft.members == (*THREE, "n4")
    append(raft, *entries(3, first=2), term=3, prev=(1, 1), sender="n3")
    assert raft.members == THREE


@pytest.mark.parametrize("bugs", [NO_BUGS, Bugs([M50.id])])
def test_what_the_log_up_to_an_entry_puts_into_force_is_known_and_at_its_end_what_is_in_force(bugs: Bugs) -> None:
    raft = Raft("n1", THREE, bugs=bugs)
    raft.handle(Start())
    append(raft, *entries(1), configuration(2, 1, *THREE, "n4"), configuration(3, 1, "n1", "n2", "n4"), term=1)
    known = [(at, found.voters) for at, found in map(raft.configured_by, (1, 2, 3))]
    assert known == [(0, THREE), (2, (*THREE, "n4")), (3, ("n1", "n2", "n4"))]
    append(raft, *entries(2, first=2), term=2, prev=(1, 1), sender="n3")
    assert raft.configured_by(2) == (
        (3, Configuration(("n1", "n2", "n4"))) if M50 in bugs else (0, Configuration(THREE))
    )


def test_ra30_recovery_finds_the_last_change_committed_or_not() -> None:
    stored = (*entries(1), configuration(2, 1, *THREE, "n4"), *entries(1, first=3), configuration(4, 1, "n1", "n4"))
    raft = Raft("n1", THREE, Recovered(1, None, stored))
    assert (raft.members, raft.commit_index) == (("n1", "n4"), 0)


NO_VOTER = encode_configuration(Configuration((), {"n1": None}))
TWICE = encode_configuration(Configuration(("n1",), {"n1": None}))


@pytest.mark.parametrize("data", [b"", b"\xc1", encode_configuration(Configuration(())), NO_VOTER, TWICE])
def test_an_entry_that_is_no_configuration_is_not_survived(data: bytes) -> None:
    raft = Raft("n1", THREE)
    raft.handle(Start())
    with pytest.raises(InvariantError, match="entry 1 of term 1"):
        append(raft, Entry(1, 1, "config", data), term=1)


# --- what the rules are for -------------------------------------------------------------------------------------------


def four(bugs: Bugs) -> tuple[Simulation, str, list[str]]:
    """Four members, one of which leads and has committed; it, and the others."""
    sim = Simulation(3, 4, bugs=bugs)
    assert sim.run(10_000, until=lambda: sim.leader() is not None)
    sim.run(1_000)
    first = sim.leader()
    assert first is not None
    return sim, first, [name for name in sim.names if name != first]


def next_leader(sim: Simulation, among: list[str]) -> str:
    assert sim.run(10_000, until=lambda: any(sim.raft(name).role == "leader" for name in among))
    return next(name for name in among if sim.raft(name).role == "leader")


def only_linked(sim: Simulation, *groups: list[str]) -> None:
    sim.cut.clear()
    for group in groups:
        sim.isolate(*group)


@pytest.mark.parametrize("bugs", [NO_BUGS, Bugs([M48.id])])
def test_m48_a_change_before_the_no_op_loses_what_was_committed(bugs: Bugs) -> None:
    """Ongaro's example of 2015: two changes of two terms, each from the same four members, neither knows the other."""
    sim, first, others = four(bugs)
    sim.create("n5")
    sim.start("n5")
    only_linked(sim, [first, "n5"])
    sim.change(first, "n5", joins=True)
    second = next_leader(sim, others)
    late, third = [name for name in others if name != second]
    only_linked(sim, [first, "n5"], [second, third], [late])
    change = sim.change(second, first, joins=False)
    assert change.outcome == (None if bugs.ids else "Rejected")
    sim.run(300)
    assert change.outcome == ("ok" if bugs.ids else "Rejected"), "two of the three that would be left are a majority"
    only_linked(sim, [second, third])
    if bugs.ids:
        with pytest.raises(PropertyError, match="leader completeness"):
            sim.run(10_000)
    else:
        sim.run(10_000)


@pytest.mark.parametrize("bugs", [NO_BUGS, Bugs([M50.id])])
def test_m50_a_change_that_was_cut_off_and_stays_in_force_makes_a_leader_of_a_minority(bugs: Bugs) -> None:
    """A majority of the three that n1 goes on to believe in is none of the four, or five, that there are."""
    sim, first, others = four(bugs)
    only_linked(sim, [first])
    gone = others[0]
    sim.change(first, gone, joins=False)
    second = next_leader(sim, others)
    sim.cut.clear()
    sim.run(2_000)
    assert sim.counts["TruncateLog"] == 1
    assert (gone in sim.raft(first).members) is not bool(bugs.ids)
    helper = next(name for name in others if name not in (gone, second))
    sim.create("n5")
    sim.start("n5")
    only_linked(sim, [first, helper])
    joining = sim.change(second, "n5", joins=True)
    sim.run(400)
    assert joining.outcome == "ok"
    if bugs.ids:
        with pytest.raises(PropertyError, match="leader completeness"):
            sim.run(10_000)
    else:
        sim.run(10_000)
        sim.propose(second)
