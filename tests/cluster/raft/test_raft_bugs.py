"""What each switch breaks, and that nothing is broken unless a switch is on."""

from __future__ import annotations

import pytest

from splitbrain.checkers.registry import CHECKERS
from splitbrain.cluster.bugs import ALL, M01, M02, M09, M15, M17, M23, M80, NO_BUGS, Bugs, UnknownBugError
from splitbrain.cluster.raft import Config, Raft, Recovered
from splitbrain.cluster.raft.effects import AppendLog, Apply, Dropped, Persist, ReadReady, Rebuild
from splitbrain.cluster.raft.events import Compacted, ElectionTimeout, HeartbeatTick, Propose, Read, Received, Start
from splitbrain.cluster.raft.messages import Append, AppendReply, PreVoteReply, Vote, VoteReply
from splitbrain.cluster.raft.state import quorum_of
from tests.cluster.raft.single import FIVE, append, entries, leader, member, messages, only, ready_leader, vote


def test_no_bug_is_on_unless_it_is_named() -> None:
    assert [bug for bug in ALL.values() if bug in NO_BUGS] == []
    assert [bug.id for bug in ALL.values() if bug in Bugs(["M23"])] == ["M23"]


def test_ids_and_lines_are_there_for_every_bug() -> None:
    assert list(ALL) == sorted(ALL)
    assert all(bug.id == key and bug.line and bug.source for key, bug in ALL.items())


def test_every_bug_names_checkers_that_there_are() -> None:
    assert {name for bug in ALL.values() for name in bug.seen_by} <= set(CHECKERS)
    assert all(bug.seen_by for bug in ALL.values())


def test_an_unknown_bug_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownBugError, match=r"no bug is called 'm23'; there are M01, M02, M03"):
        Bugs(["M09", "m23"])


def test_bugs_are_an_immutable_set() -> None:
    bugs = Bugs(["M23", "M09", "M23"])
    assert bugs.ids == ("M09", "M23")
    assert bugs == Bugs(["M09", "M23"])
    assert hash(bugs) == hash(Bugs(["M09", "M23"]))
    with pytest.raises(AttributeError, match="read-only"):
        bugs.ids = ()


def restarted(bugs: Bugs, *log_terms: int, kept: Persist) -> Raft:
    """n1 with what it had stored, after a kill -9."""
    raft = Raft("n1", FIVE, Recovered(kept.term, kept.voted_for, entries(*log_terms)), bugs=bugs)
    raft.handle(Start())
    return raft


@pytest.mark.parametrize(("bugs", "votes_again"), [(NO_BUGS, False), (Bugs([M01.id]), True)])
def test_m01_votes_twice_in_a_term_after_a_restart(bugs: Bugs, votes_again: bool) -> None:
    raft = member(1, term=1, bugs=bugs)
    first = raft.handle(Received("n2", Vote(5, 1, 1)))
    assert only(VoteReply, messages(first)) == [VoteReply(5, True)]
    assert not vote(raft, "n3", 5, 1, 1).granted, "while it lives it knows"
    (kept,) = only(Persist, first)
    assert vote(restarted(bugs, 1, kept=kept), "n3", 5, 1, 1).granted == votes_again


@pytest.mark.parametrize(("bugs", "leads_again_in"), [(NO_BUGS, 3), (Bugs([M02.id]), 1)])
def test_m02_leads_a_term_again_that_is_over(bugs: Bugs, leads_again_in: int) -> None:
    raft = member(1, term=1, bugs=bugs)
    # The others' log must not be older than entry 1 of term 1; this vote is for term 2.
    effects = raft.handle(Received("n2", Vote(2, 1, 1)))
    kept = next(iter(only(Persist, effects)), Persist(0, None))
    raft = restarted(bugs, 1, kept=kept)
    raft.handle(ElectionTimeout())
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, PreVoteReply(raft.term, 1, True)))
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, VoteReply(raft.term, True)))
    assert (raft.role, raft.term) == ("leader", leads_again_in)
    assert raft.log.last_term == leads_again_in


def test_m02_takes_entries_whose_terms_fall_and_recovers_them() -> None:
    raft = member(7, term=0, bugs=Bugs([M02.id]))
    append(raft, *entries(1, first=2), term=1, prev=(1, 7))
    assert raft.log.last_term == 1
    assert restarted(Bugs([M02.id]), 7, 1, kept=Persist(0, None)).term == 0


@pytest.mark.parametrize(("bugs", "durable"), [(NO_BUGS, 0), (Bugs([M15.id]), 2)])
def test_m15_a_follower_acknowledges_what_is_not_synced(bugs: Bugs, durable: int) -> None:
    raft = member(term=1, bugs=bugs)
    effects = append(raft, *entries(1, 1), term=1)
    assert [reply.durable for reply in only(AppendReply, messages(effects))] == ([durable] if durable else [])
    (appended,) = only(AppendLog, effects)
    replies = only(AppendReply, messages(raft.handle(appended.done)))
    assert [reply.durable for reply in replies] == ([] if durable else [2])


@pytest.mark.parametrize(("bugs", "commit"), [(NO_BUGS, 0), (Bugs([M15.id]), 1)])
def test_m15_a_leader_counts_itself_before_its_own_sync(bugs: Bugs, commit: int) -> None:
    raft = leader(voters=("n1", "n2", "n3"), bugs=bugs)
    raft.handle(Received("n2", AppendReply(1, 0, 1, 1)))
    assert raft.commit_index == commit


def test_m15_leaves_a_single_node_able_to_commit() -> None:
    raft = leader(voters=("n1",), bugs=Bugs([M15.id]))
    assert raft.commit_index == 1
    effects = raft.handle(Propose("ref", b"x"))
    (appended,) = only(AppendLog, effects)
    assert only(Apply, [*effects, *raft.handle(appended.done)])


@pytest.mark.parametrize(
    ("voters", "right", "broken"), [(1, 1, 1), (2, 2, 1), (3, 2, 1), (4, 3, 2), (5, 3, 2), (6, 4, 3)]
)
def test_m09_takes_half_for_a_majority(voters: int, right: int, broken: int) -> None:
    assert quorum_of(voters, NO_BUGS) == right
    assert quorum_of(voters, Bugs([M09.id])) == broken


def test_m17_applies_and_answers_before_anybody_else_has_the_entry() -> None:
    raft = ready_leader(bugs=Bugs([M17.id]))
    (applied,) = only(Apply, raft.handle(Propose("ref", b"x")))
    assert applied.refs == {2: "ref"}
    assert (raft.commit_index, raft.applied_index) == (1, 2)
    assert only(Apply, ready_leader().handle(Propose("ref", b"x"))) == []


def test_m17_takes_back_what_the_next_leader_overwrites() -> None:
    raft = ready_leader(bugs=Bugs([M17.id]))
    raft.handle(Propose("ref", b"x"))
    effects = append(raft, *entries(3, first=2), term=3, prev=(1, 1), commit=1, sender="n2")
    assert only(Dropped, effects) == [], "it was answered"
    assert only(Rebuild, effects)
    (again,) = only(Apply, effects)
    assert [entry.index for entry in again.entries] == [1]
    assert raft.applied_index == 1


def test_m17_takes_back_no_further_than_to_its_snapshot() -> None:
    raft = ready_leader(1, 1, 1, bugs=Bugs([M17.id]))
    raft.handle(Compacted(2))
    raft.handle(Propose("ref", b"x"))
    effects = append(raft, *entries(9, first=5), term=9, prev=(4, 2), commit=4, sender="n2")
    assert only(Rebuild, effects)
    assert [entry.index for entry in only(Apply, effects)[0].entries] == [3, 4]


def test_m23_answers_reads_without_asking_anybody() -> None:
    raft = ready_leader(bugs=Bugs([M23.id]))
    assert raft.handle(Read("r")) == [ReadReady("r", 1)]
    assert only(ReadReady, leader(1, bugs=Bugs([M23.id])).handle(Read("r"))) == [ReadReady("r", 0)]
    assert only(ReadReady, ready_leader().handle(Read("r"))) == []


@pytest.mark.parametrize(("bugs", "role"), [(NO_BUGS, "follower"), (Bugs([M80.id]), "leader")])
def test_m80_stays_leader_without_a_majority_and_goes_on_with_its_heartbeats(bugs: Bugs, role: str) -> None:
    raft = ready_leader(bugs=bugs)
    for _ in range(2 * Config().quorum_ticks):
        raft.handle(HeartbeatTick())
    assert raft.role == role
    assert len(only(Append, messages(raft.handle(HeartbeatTick())))) == (4 if role == "leader" else 0)
