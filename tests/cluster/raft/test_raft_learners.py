"""Members that do not vote: they are sent the log, count for nothing, and become voters once they have caught up."""

from __future__ import annotations

import pytest

from splitbrain.cluster.bugs import M08, M21, M52, Bugs
from splitbrain.cluster.marks import counted
from splitbrain.cluster.raft import Entry, Raft, Recovered
from splitbrain.cluster.raft.effects import AppendLog, Apply, Effect, Persist, Rejected, SendChunk
from splitbrain.cluster.raft.events import Change, Compacted, ElectionTimeout, MemberRole, Propose, Received, Start
from splitbrain.cluster.raft.membership import Configuration, encode_configuration
from splitbrain.cluster.raft.messages import (
    Append,
    AppendRefusal,
    AppendReply,
    PreVote,
    SnapshotReply,
    TimeoutNow,
    Vote,
    VoteReply,
)
from tests.cluster.raft.single import append, entries, member, messages, only, ready_leader, vote, written
from tests.cluster.support import both

THREE = ("n1", "n2", "n3")


def reply(raft: Raft, sender: str, matched: int) -> list[Effect]:
    return raft.handle(Received(sender, AppendReply(raft.term, 0, matched, matched)))


def join(raft: Raft, role: MemberRole, node: str = "n4") -> list[Effect]:
    """`node` joins, which a majority has."""
    effects = raft.handle(Change("ref", node, joins=True, role=role))
    written(raft, effects)
    return [*effects, *reply(raft, "n2", raft.last_index)]


def learner(bugs: Bugs | None = None) -> Raft:
    """n1, a learner that has the whole log."""
    configuration = encode_configuration(Configuration(("n2", "n3", "n4"), {"n1": None}))
    log = (*entries(1), Entry(2, 1, "config", configuration))
    raft = Raft("n1", ("n2", "n3", "n4"), Recovered(1, None, log), bugs=bugs or Bugs())
    raft.handle(Start())
    return raft


# --- RA-7 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["learner", "promotable"])
def test_ra7_a_learner_is_sent_the_log_and_does_not_count_for_a_majority(role: MemberRole) -> None:
    raft = ready_leader(voters=THREE)
    effects = raft.handle(Change("ref", "n4", joins=True, role=role))
    assert raft.configuration == Configuration(THREE, {"n4": 2 if role == "promotable" else None})
    assert only(Append, messages(effects, to="n4"))
    written(raft, effects)
    assert not only(Apply, reply(raft, "n4", 2)), "the leader and a learner are no majority of three voters"
    (applied,) = only(Apply, reply(raft, "n2", 2))
    assert applied.refs == {2: "ref"}, "two of three voters are a majority"


@both(M08)
def test_ra7_m08_a_learner_does_not_stand_for_election(bugs: Bugs, broken: bool) -> None:
    raft = learner(bugs)
    effects = raft.handle(ElectionTimeout())
    assert bool(only(PreVote, messages(effects))) == broken
    assert raft.role == ("pre_candidate" if broken else "follower")


@both(M08)
def test_ra7_m08_a_learner_does_not_stand_when_it_is_asked_to(bugs: Bugs, broken: bool) -> None:
    raft = learner(bugs)
    append(raft, term=1, prev=(2, 1), sender="n2")
    raft.handle(Received("n2", TimeoutNow(1)))
    assert raft.role == ("candidate" if broken else "follower")
    raft.handle(Received("n2", VoteReply(2, True)))
    assert raft.role == ("leader" if broken else "follower"), "with its own vote that of n2 is a majority of three"


def test_a_candidate_does_not_ask_learners_for_votes() -> None:
    log = (*entries(1), Entry(2, 1, "config", encode_configuration(Configuration(THREE, {"n4": None}))))
    raft = Raft("n1", THREE, Recovered(1, None, log))
    raft.handle(Start())
    with counted() as counts:
        effects = raft.handle(ElectionTimeout())
    assert (counts["candidate beside a learner"], counts["removed member stood"]) == (1, 0)
    assert (len(messages(effects, to="n2")), messages(effects, to="n4")) == (1, [])


def test_a_member_knows_by_which_entry_it_is_a_voter_also_of_the_configuration_before() -> None:
    gone = Entry(2, 1, "config", encode_configuration(Configuration(("n2", "n3"))))
    later = Entry(3, 1, "config", encode_configuration(Configuration(("n2", "n3", "n4"))))
    known = [Raft("n1", THREE, Recovered(1, None, log)) for log in (entries(1), (*entries(1), gone))]
    assert [(raft.configured_at, raft.voter_by) for raft in known] == [(0, 0), (2, 0)]
    assert Raft("n1", THREE, Recovered(1, None, (*entries(1), gone, later))).voter_by is None
    assert Raft("n4", THREE, Recovered(1, None, (*entries(1), gone, later))).voter_by == 3


def test_a_learner_votes_if_it_is_asked() -> None:
    """Who asks takes it for a voter, and may be right: a learner may not know of its promotion (etcd's raft)."""
    raft = learner()
    assert vote(raft, "n2", 2, 2, 1).granted


# --- RA-28, RA-29 -------------------------------------------------------------------------------------------------


def test_ra29_a_promotable_member_becomes_a_voter_when_its_log_is_durable_up_to_its_target() -> None:
    raft = ready_leader(voters=THREE)
    join(raft, "promotable")
    assert raft.configuration.learners == {"n4": 2}
    reply(raft, "n4", 1)
    assert raft.configuration.learners == {"n4": 2}, "it lacks entry 2"
    (appended,) = only(AppendLog, reply(raft, "n4", 2))
    assert appended.entries == (Entry(3, 1, "config", encode_configuration(Configuration((*THREE, "n4")))),)
    assert raft.configuration == Configuration((*THREE, "n4"))


def test_ra29_what_is_not_durable_yet_does_not_count() -> None:
    raft = ready_leader(voters=THREE)
    join(raft, "promotable")
    raft.handle(Received("n4", AppendReply(1, 0, 2, 1)))
    assert raft.configuration.learners == {"n4": 2}


def test_ra29_a_learner_without_a_target_stays_one_until_it_is_added_as_a_voter() -> None:
    raft = ready_leader(voters=THREE)
    join(raft, "learner")
    reply(raft, "n4", 2)
    assert raft.configuration.learners == {"n4": None}
    join(raft, "voter")
    assert raft.configuration == Configuration((*THREE, "n4"))


def test_ra28_ra29_a_promotion_waits_until_the_change_before_it_is_committed() -> None:
    raft = ready_leader(voters=THREE)
    join(raft, "promotable")
    effects = raft.handle(Change("other", "n3", joins=False))
    assert not only(AppendLog, reply(raft, "n4", 2)), "one change at a time"
    written(raft, effects)
    reply(raft, "n2", 3)
    assert raft.commit_index == 3
    assert only(AppendLog, reply(raft, "n4", 3)), "its next answer asks again, although it says nothing new"
    assert raft.configuration == Configuration(("n1", "n2", "n4"))


@both(M52)
def test_ra29_m52_a_snapshot_promotes_as_well(bugs: Bugs, broken: bool) -> None:
    raft = ready_leader(1, 1, 1, voters=THREE, bugs=bugs)
    raft.handle(Compacted(4))
    effects = join(raft, "promotable")
    (probe,) = only(Append, messages(effects, to="n4"))
    chunks = raft.handle(Received("n4", AppendRefusal(2, 0, probe.prev_index, 0)))
    assert only(SendChunk, chunks)
    raft.handle(Received("n4", SnapshotReply(2, 0, 4, 10)))
    raft.handle(Received("n4", AppendReply(2, 0, 5, 5)))
    assert ("n4" in raft.configuration.voters) != broken
    raft.handle(Received("n4", AppendReply(2, 0, 5, 5)))
    assert ("n4" in raft.configuration.voters) != broken, "an answer to a heartbeat says nothing new"
    written(raft, raft.handle(Propose("x", b"x")))
    reply(raft, "n4", 6)
    assert "n4" in raft.configuration.voters, "the next entry promotes it in any case"


@pytest.mark.parametrize("role", ["learner", "promotable"])
def test_ra28_a_learner_is_a_member_and_may_leave(role: MemberRole) -> None:
    raft = ready_leader(voters=THREE)
    join(raft, role)
    again = Change("again", "n4", joins=True, role="learner")
    assert raft.handle(again) == [Rejected("again", "n1", "already_member")]
    written(raft, raft.handle(Change("leave", "n4", joins=False)))
    reply(raft, "n2", 3)
    assert raft.configuration == Configuration(THREE)
    assert raft.handle(again) == [Rejected("again", "n1", "was_member")]


def test_the_last_voter_stays_although_there_are_learners() -> None:
    raft = ready_leader(voters=("n1",))
    written(raft, raft.handle(Change("ref", "n2", joins=True, role="learner")))
    assert raft.handle(Change("leave", "n1", joins=False)) == [Rejected("leave", "n1", "last_member")]


@both(M21)
def test_m21_a_majority_becomes_smaller_when_a_member_leaves(bugs: Bugs, broken: bool) -> None:
    raft = ready_leader(voters=("n1", "n2", "n3", "n4"), bugs=bugs)
    effects = raft.handle(Change("ref", "n4", joins=False))
    written(raft, effects)
    reply(raft, "n2", 2)
    assert raft.commit_index == (1 if broken else 2)


def test_a_configuration_is_stored_as_before_while_there_are_no_learners() -> None:
    raft = member()
    append(raft, Entry(1, 1, "config", b"\x92\xa2n1\xa2n2"), term=1)
    assert raft.configuration == Configuration(("n1", "n2"))
    assert encode_configuration(Configuration(("n1", "n2"))) == b"\x92\xa2n1\xa2n2"


def test_a_vote_for_a_learner_is_persisted_like_any_other() -> None:
    raft = learner()
    assert only(Persist, raft.handle(Received("n3", Vote(2, 2, 1)))) == [Persist(2, "n3")]
