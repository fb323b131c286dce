"""What the switches of votes, terms and members break, beside the same steps without them."""

from __future__ import annotations

from splitbrain.cluster.bugs import M03, M04, M05, M06, M07, M10, M38, M46, M49, M51, Bugs
from splitbrain.cluster.raft import Raft, Recovered
from splitbrain.cluster.raft.effects import MembersChanged, Persist, Voted
from splitbrain.cluster.raft.events import Change, ElectionTimeout, HeartbeatTick, Received, Start
from splitbrain.cluster.raft.membership import Configuration, encode_configuration, encode_configurations
from splitbrain.cluster.raft.messages import (
    AppendReply,
    Entry,
    PreVote,
    PreVoteReply,
    SnapshotChunk,
    SnapshotReply,
    Vote,
    VoteReply,
)
from tests.cluster.raft.single import FIVE, entries, member, messages, only, pre_vote, ready_leader, vote, written
from tests.cluster.support import both


@both(M03)
def test_m03_votes_for_a_shorter_log(bugs: Bugs, broken: bool) -> None:
    assert vote(member(1, 2, bugs=bugs), "n2", 3, 1, 1).granted == broken


@both(M04)
def test_m04_writes_a_pre_vote_down_as_a_vote(bugs: Bugs, broken: bool) -> None:
    raft = member(1, term=1, bugs=bugs)
    raft.handle(ElectionTimeout())
    effects = raft.handle(Received("n2", PreVote(1, 7, 1, 1)))
    assert messages(effects) == [PreVoteReply(1, 7, True)]
    assert only(Persist, effects) == ([Persist(1, "n2")] if broken else [])
    assert only(Voted, effects) == ([Voted(1, "n2")] if broken else [])


@both(M05)
def test_m05_two_that_stand_refuse_each_other(bugs: Bugs, broken: bool) -> None:
    raft = member(1, term=1, bugs=bugs)
    raft.handle(ElectionTimeout())
    assert raft.role == "pre_candidate"
    assert pre_vote(raft, "n2", 1, 1, 1).granted != broken


@both(M06)
def test_m06_raises_its_term_without_asking(bugs: Bugs, broken: bool) -> None:
    raft = member(1, term=1, bugs=bugs)
    raft.handle(ElectionTimeout())
    raft.handle(ElectionTimeout())
    assert (raft.role, raft.term) == (("candidate", 3) if broken else ("pre_candidate", 1))


@both(M07)
def test_m07_bows_to_a_node_that_is_no_member(bugs: Bugs, broken: bool) -> None:
    raft = ready_leader(bugs=bugs)
    raft.handle(Received("n6", PreVote(9, 1, 9, 9)))
    raft.handle(Received("n6", Vote(1, 9, 9)))
    assert raft.role == "leader", "nothing in these ends a term"
    raft.handle(Received("n6", Vote(9, 9, 9)))
    assert raft.role == ("follower" if broken else "leader")


@both(M10)
def test_m10_counts_one_node_twice(bugs: Bugs, broken: bool) -> None:
    raft = member(1, term=1, bugs=bugs)
    raft.handle(ElectionTimeout())
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, PreVoteReply(1, 1, True)))
    for _ in range(2):
        raft.handle(Received("n2", VoteReply(2, True)))
        raft.handle(HeartbeatTick())
    assert raft.role == ("leader" if broken else "candidate")


@both(M38)
def test_m38_keeps_the_members_from_before_the_snapshot(bugs: Bugs, broken: bool) -> None:
    raft = member(1, bugs=bugs)
    configurations = encode_configurations([(0, Configuration(FIVE)), (5, Configuration(("n1", "n2")))])
    raft.handle(Received("n2", SnapshotChunk(2, 0, 7, 2, configurations, 0, 1, b"s")))
    assert raft.log.base_index == 7
    assert raft.members == (FIVE if broken else ("n1", "n2"))


@both(M49)
def test_m49_forgets_changes_of_members_at_a_restart(bugs: Bugs, broken: bool) -> None:
    log = [*entries(1), Entry(2, 1, "config", encode_configuration(Configuration(("n1", "n2"))))]
    raft = Raft("n1", FIVE, Recovered(1, None, log), bugs=bugs)
    raft.handle(Start())
    assert raft.members == (FIVE if broken else ("n1", "n2"))


def test_a_change_of_members_is_in_force_at_once_in_a_node_that_has_m49() -> None:
    raft = ready_leader(bugs=Bugs([M49.id]))
    written(raft, raft.handle(Change("ref", "n6", joins=True)))
    assert "n6" in raft.members


@both(M46)
def test_m46_listens_to_no_one_else_while_it_receives_a_snapshot(bugs: Bugs, broken: bool) -> None:
    raft = member(1, bugs=bugs)
    configurations = encode_configurations([(0, Configuration(FIVE))])
    (reply,) = messages(raft.handle(Received("n2", SnapshotChunk(2, 0, 7, 2, configurations, 0, 9, b"part"))))
    assert reply == SnapshotReply(2, 0, 7, 4)
    raft.handle(ElectionTimeout())
    answered = messages(raft.handle(Received("n3", Vote(5, 9, 5))))
    assert bool(answered) != broken
    assert raft.term == (2 if broken else 5)
    raft.handle(Received("n2", SnapshotChunk(2, 0, 7, 2, configurations, 4, 9, b"whole")))
    assert (raft.log.base_index == 7) == broken, "the leader of an earlier term is not obeyed"


@both(M51)
def test_m51_takes_a_member_in_that_left(bugs: Bugs, broken: bool) -> None:
    raft = ready_leader(bugs=bugs)
    written(raft, raft.handle(Change("leave", "n5", joins=False)))
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, AppendReply(raft.term, 0, 2, 2)))
    assert bool(only(MembersChanged, raft.handle(Change("join", "n5", joins=True)))) == broken
