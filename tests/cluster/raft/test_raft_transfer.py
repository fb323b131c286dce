"""Leadership that is handed over (RA-31), and a cluster that is shrunk to one member by force (RA-32)."""

from __future__ import annotations

import pytest

from splitbrain.cluster.bugs import M18, M26, M27, Bugs
from splitbrain.cluster.raft import Config, Raft
from splitbrain.cluster.raft.effects import (
    AppendLog,
    Apply,
    Persist,
    ReadReady,
    Rejected,
    RoleChanged,
    ShrunkByForce,
    TransferBegun,
    TransferRefusal,
)
from splitbrain.cluster.raft.events import (
    Change,
    ElectionTimeout,
    ForceShrink,
    HeartbeatTick,
    Propose,
    Read,
    Received,
    Transfer,
    Written,
)
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import AppendRefusal, AppendReply, PreVoteReply, TimeoutNow, Vote, VoteReply
from tests.cluster.raft.simulation import Simulation
from tests.cluster.raft.single import append, leader, member, messages, only, pre_vote, ready_leader, vote, written
from tests.cluster.support import both

THREE = ("n1", "n2", "n3")
LEASES = Config(lease_reads=True)
MS = 1_000_000


# --- RA-31 --------------------------------------------------------------------------------------------------------


def test_ra31_the_leader_asks_a_member_that_has_all_entries_to_stand() -> None:
    raft = ready_leader(voters=THREE)
    effects = raft.handle(Transfer("ref", "n2"))
    assert messages(effects, to="n2") == [TimeoutNow(1)]
    assert only(TransferBegun, effects) == [TransferBegun("ref")]


def test_ra31_who_is_asked_stands_at_once_and_without_a_pre_vote() -> None:
    raft = member(1, term=1)
    append(raft, term=1, prev=(1, 1), commit=1)
    effects = raft.handle(Received("n2", TimeoutNow(1)))
    assert only(Vote, messages(effects)) == [Vote(2, 1, 1, transfers=True)] * 4
    for peer in ("n3", "n4"):
        raft.handle(Received(peer, VoteReply(2, True)))
    assert raft.role == "leader"


def test_ra31_a_request_of_an_earlier_leader_is_ignored() -> None:
    raft = member(1, term=1)
    append(raft, term=2, prev=(1, 1))
    raft.handle(Received("n2", TimeoutNow(1)))
    assert (raft.role, raft.term) == ("follower", 2)


@pytest.mark.parametrize(
    ("to", "reason"), [("n9", "not_member"), ("n4", "non_voter"), ("n2", "not_up_to_date"), ("n3", "not_up_to_date")]
)
def test_ra31_who_cannot_lead_is_not_asked(to: str, reason: TransferRefusal) -> None:
    raft = ready_leader(voters=THREE)
    written(raft, raft.handle(Change("join", "n4", joins=True, role="learner")))
    raft.handle(Received("n2", AppendReply(1, 0, 2, 2)))
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, AppendRefusal(1, 0, 2, 1, 1)))
    raft.handle(Received("n3", AppendRefusal(1, 0, 2, 0)))
    if to == "n2":
        raft = leader(voters=THREE)  # no follower has answered yet
    assert raft.handle(Transfer("ref", to)) == [Rejected("ref", "n1", reason)]


def test_ra31_to_the_leader_itself_nothing_is_to_do() -> None:
    assert ready_leader(voters=THREE).handle(Transfer("ref", "n1")) == [TransferBegun("ref")]


def test_ra31_a_follower_refuses() -> None:
    assert member().handle(Transfer("ref", "n2")) == [Rejected("ref", None, "not_leader")]


def test_ra31_nothing_is_appended_while_the_successor_may_be_elected_and_later_again() -> None:
    raft = ready_leader(voters=THREE)
    raft.handle(Transfer("ref", "n2"))
    assert raft.handle(Propose("p", b"x")) == [Rejected("p", "n1", "busy")]
    for _ in range(Config().election_max_ms // Config().heartbeat_ms + 1):
        raft.handle(HeartbeatTick())
        for peer in ("n2", "n3"):
            raft.handle(Received(peer, AppendReply(1, 0, 1, 1)))
    assert only(AppendLog, raft.handle(Propose("p", b"x"))), "the successor was not elected: the leader goes on"


@pytest.mark.parametrize("to", ["n3", "n1"])
def test_ra31_a_second_transfer_is_refused_until_the_first_is_over(to: str) -> None:
    """Nothing takes back what the first was asked: both would stand in one term, and split the votes."""
    raft = ready_leader(voters=THREE)
    raft.handle(Transfer("first", "n2"))
    assert raft.handle(Transfer("second", to)) == [Rejected("second", "n1", "transfer_under_way")]
    for _ in range(Config().election_max_ms // Config().heartbeat_ms + 1):
        raft.handle(HeartbeatTick())
        for peer in ("n2", "n3"):
            raft.handle(Received(peer, AppendReply(1, 0, 1, 1)))
    assert only(TransferBegun, raft.handle(Transfer("third", to))), "the first was not elected"


def test_ra31_the_same_transfer_again_is_answered_and_does_not_last_longer() -> None:
    """A client that had no answer asks again. It must not keep commands waiting for ever by that."""
    raft = ready_leader(voters=THREE)
    raft.handle(Transfer("first", "n2"))
    for _ in range(Config().election_max_ms // Config().heartbeat_ms + 1):
        assert raft.handle(Transfer("again", "n2")) == [TransferBegun("again")]
        raft.handle(HeartbeatTick())
        for peer in ("n2", "n3"):
            raft.handle(Received(peer, AppendReply(1, 0, 1, 1)))
    assert only(AppendLog, raft.handle(Propose("p", b"x")))


def test_ra31_members_do_not_change_while_the_successor_may_be_elected() -> None:
    """Of the voters those that have the change would refuse the successor, which has not."""
    raft = ready_leader(voters=THREE)
    written(raft, raft.handle(Change("join", "n4", joins=True, role="promotable")))
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, AppendReply(1, 0, 2, 2)))
    raft.handle(Transfer("ref", "n2"))
    assert only(Rejected, raft.handle(Change("leave", "n3", joins=False))) == [
        Rejected("leave", "n1", "change_not_permitted")
    ]
    caught_up = Received("n4", AppendReply(1, 0, 2, 2))
    assert not only(AppendLog, raft.handle(caught_up)), "a learner is promoted later"
    for _ in range(Config().election_max_ms // Config().heartbeat_ms + 1):
        raft.handle(HeartbeatTick())
        for peer in ("n2", "n3"):
            raft.handle(Received(peer, AppendReply(1, 0, 2, 2)))
    assert only(AppendLog, raft.handle(caught_up)), "the successor was not elected: the leader goes on"


def test_ra31_leadership_goes_where_it_is_sent_in_a_cluster() -> None:
    sim = Simulation(1, 5)
    sim.run(5_000, until=lambda: sim.leader() is not None)
    sim.run(500)
    for _ in range(10):
        before = sim.leader()
        assert before is not None
        to = sim.rng.choice([name for name in sim.names if name != before])
        request = sim.transfer(before, to)
        assert sim.run(300, until=lambda to=to: sim.leader() == to), f"{before} did not hand over to {to}"
        sim.run(300)
        assert request.outcome == "ok"


# --- RA-32 --------------------------------------------------------------------------------------------------------


def test_ra32_a_node_alone_leads_with_what_it_has_after_a_forced_shrink() -> None:
    raft = member(1, 1, term=1)
    effects = raft.handle(ForceShrink("ref"))
    assert effects[0] == Persist(2, "n1")
    assert only(ShrunkByForce, effects) == [ShrunkByForce("ref")]
    assert only(RoleChanged, effects) == [RoleChanged("leader", 2, "n1")]
    assert raft.configuration == Configuration(("n1",))
    applied = [entry for apply in only(Apply, written(raft, effects)) for entry in apply.entries]
    assert [entry.kind for entry in applied] == ["command", "command", "config", "noop"]


def test_ra32_clients_of_a_leader_that_is_shrunk_learn_that_the_outcome_is_unknown() -> None:
    raft = ready_leader(voters=THREE)
    raft.handle(Propose("p", b"x"))
    kinds = [type(effect).__name__ for effect in raft.handle(ForceShrink("ref"))]
    assert "Dropped" in kinds
    assert raft.role == "leader"


def test_ra32_a_lost_majority_is_replaced_and_the_cluster_grows_again() -> None:
    sim = Simulation(3, 3)
    sim.run(5_000, until=lambda: sim.leader() is not None)
    leader = sim.leader()
    assert leader is not None
    written = [sim.propose(leader) for _ in range(5)]
    sim.run(500)
    assert all(request.outcome == "ok" for request in written)
    stays, *lost = [name for name in sim.names if len(sim.members[name].applied) == len(sim.committed)]
    for name in sim.names:
        if name != stays:
            sim.retire(name)
    assert len(lost) == 2
    sim.run(5_000)
    assert sim.leader() != stays or sim.raft(stays).role != "leader"
    request = sim.force_shrink(stays)
    sim.run(500)
    assert (request.outcome, sim.leader()) == ("ok", stays)
    sim.create("n4")
    sim.start("n4")
    joined = sim.change(stays, "n4", joins=True, role="promotable")
    assert sim.run(3_000, until=lambda: sim.raft(stays).configuration == Configuration((stays, "n4")))
    sim.run(1_000)
    assert joined.outcome == "ok"
    assert sim.members["n4"].applied == sim.committed


# --- leases, and a higher term --------------------------------------------------------------------------------------


def leaseholder(bugs: Bugs | None = None, config: Config = LEASES) -> Raft:
    """A leader of three at 1,000 ms, whose last round n2 has confirmed."""
    raft = leader(voters=THREE, config=config, bugs=bugs or Bugs())
    raft.handle(Written(1, 1, 0))
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, AppendReply(1, 0, 1, 1)))
    raft.handle(HeartbeatTick(1_000 * MS))
    raft.handle(Received("n2", AppendReply(1, int(config.lease_reads), 1, 1)))
    return raft


@pytest.mark.parametrize(("at_ms", "holds"), [(1_001, True), (1_449, True), (1_450, False), (9_000, False)])
def test_a_lease_lasts_three_quarters_of_the_shortest_election_timeout(at_ms: int, holds: bool) -> None:
    effects = leaseholder().handle(Read("r", "lease", at_ms * MS))
    assert bool(only(ReadReady, effects)) == holds
    assert bool(messages(effects)) != holds, "without a lease a majority is asked"


@both(M27)
def test_m27_a_lease_ends_while_the_leader_is_paused(bugs: Bugs, broken: bool) -> None:
    assert bool(only(ReadReady, leaseholder(bugs).handle(Read("r", "lease", 9_000 * MS)))) == broken


def test_a_lease_is_not_trusted_any_more_once_leadership_was_handed_over() -> None:
    raft = leaseholder()
    assert only(TransferBegun, raft.handle(Transfer("ref", "n2")))
    assert not only(ReadReady, raft.handle(Read("r", "lease", 1_001 * MS)))


def test_without_the_option_there_is_no_lease() -> None:
    assert not only(ReadReady, leaseholder(config=Config()).handle(Read("r", "lease", 1_001 * MS)))


def test_with_leases_a_member_that_hears_a_leader_neither_votes_nor_follows_the_term() -> None:
    raft = member(1, term=1, config=LEASES)
    append(raft, term=1, prev=(1, 1))
    assert raft.handle(Received("n3", Vote(2, 9, 9))) == []
    assert raft.term == 1
    effects = raft.handle(Received("n3", Vote(2, 9, 9, transfers=True)))
    assert only(VoteReply, messages(effects)) == [VoteReply(2, True)]


def test_with_leases_a_member_that_was_restarted_waits_before_it_votes() -> None:
    """It may have confirmed a round before it stopped."""
    assert member(1, term=1, config=LEASES).handle(Received("n3", Vote(2, 9, 9))) == []


@pytest.mark.parametrize("late", [PreVoteReply(2, 1, False), VoteReply(2, False), AppendReply(2, 0, 1, 1)])
def test_a_lease_outlives_a_higher_term_that_is_met_by_chance(late: PreVoteReply | VoteReply | AppendReply) -> None:
    """n3 is a candidate of term 2, and n1 hears its leader n2 again: a late answer of n3 must not free n1 to vote."""
    raft = member(1, term=1, config=LEASES)
    raft.handle(ElectionTimeout())
    assert messages(append(raft, term=1, prev=(1, 1), read_round=4)) == [AppendReply(1, 4, 1, 1)]
    raft.handle(Received("n3", late))
    assert (raft.term, raft.leader) == (2, None)
    assert messages(raft.handle(Received("n3", Vote(2, 9, 9)))) == []
    assert raft.voted_for is None
    assert not pre_vote(raft, "n3", 2, 9, 9).granted
    raft.handle(ElectionTimeout())
    assert vote(raft, "n3", 2, 9, 9).granted, "nothing that it confirmed is younger than an election timeout"


def test_with_leases_a_member_that_was_restarted_waits_in_its_own_term_too() -> None:
    """It may have met the term after it had confirmed a round in the one before."""
    raft = member(1, term=2, config=LEASES)
    assert raft.handle(Received("n3", Vote(2, 9, 9))) == []
    raft.handle(ElectionTimeout())
    assert vote(raft, "n3", 2, 9, 9).granted


def test_a_member_that_is_to_take_over_with_leases_answers_pre_votes_like_any_candidate() -> None:
    raft = member(1, term=1, config=LEASES)
    append(raft, term=1, prev=(1, 1), commit=1)
    raft.handle(Received("n2", TimeoutNow(1)))
    assert raft.role == "candidate"
    assert pre_vote(raft, "n3", 2, 9, 9).granted


def test_a_reply_to_an_older_round_extends_the_lease_from_the_beginning_of_that_round_only() -> None:
    raft = leaseholder()
    for at_ms in (1_100, 1_200, 1_300):
        raft.handle(HeartbeatTick(at_ms * MS))
    raft.handle(Received("n2", AppendRefusal(1, 2, 1, 0)))  # of 1,100 ms
    assert only(ReadReady, raft.handle(Read("r", "lease", 1_549 * MS)))
    assert not only(ReadReady, raft.handle(Read("s", "lease", 1_550 * MS)))


def test_a_late_answer_never_shortens_a_lease_and_one_of_another_term_never_extends_it() -> None:
    raft = leaseholder()
    raft.handle(HeartbeatTick(1_100 * MS))
    for late in (AppendReply(1, 0, 1, 1), AppendRefusal(1, 1, 1, 0), AppendReply(0, 2, 1, 1)):
        raft.handle(Received("n2", late))
    assert only(ReadReady, raft.handle(Read("r", "lease", 1_449 * MS)))
    assert not only(ReadReady, raft.handle(Read("s", "lease", 1_450 * MS)))


def test_no_lease_survives_a_refusal_of_a_higher_term() -> None:
    raft = leaseholder()
    raft.handle(Received("n2", AppendRefusal(2, 0, 1, 1)))
    assert only(Rejected, raft.handle(Read("r", "lease", 1_001 * MS))) == [Rejected("r", None, "not_leader")]


def test_without_leases_a_vote_is_given_as_ever() -> None:
    raft = member(1, term=1)
    append(raft, term=1, prev=(1, 1))
    assert vote(raft, "n3", 2, 9, 9).granted


def test_ra26_a_leader_read_asks_no_one_and_waits_for_the_no_op() -> None:
    raft = leader(voters=THREE)
    assert raft.handle(Read("r", "leader")) == []
    raft.handle(Written(1, 1, 0))
    effects = raft.handle(Received("n2", AppendReply(1, 0, 1, 1)))
    assert only(ReadReady, effects) == [ReadReady("r", 1)]
    assert raft.handle(Read("s", "leader")) == [ReadReady("s", 1)]


@both(M18)
def test_m18_a_leader_bows_to_a_higher_term(bugs: Bugs, broken: bool) -> None:
    raft = ready_leader(voters=THREE, bugs=bugs)
    raft.handle(Received("n2", AppendRefusal(5, 0, 1, 1)))
    assert (raft.role, raft.term) == (("leader", 1) if broken else ("follower", 5))
    for _ in range(Config().quorum_ticks + 1):
        raft.handle(Received("n2", AppendRefusal(5, 0, 1, 1)))
        raft.handle(HeartbeatTick())
    assert raft.role == ("leader" if broken else "follower")


@both(M26)
def test_m26_an_answer_of_an_earlier_term_confirms_nothing(bugs: Bugs, broken: bool) -> None:
    raft = leader(1, voters=THREE, bugs=bugs)
    last = raft.last_index
    raft.handle(Written(last, raft.term, 0))
    raft.handle(Received("n2", AppendReply(raft.term, 0, last, last)))
    assert not only(ReadReady, raft.handle(Read("r")))
    late = raft.handle(Received("n3", AppendReply(raft.term - 1, 40, 1, 1)))
    assert bool(only(ReadReady, late)) == broken
    assert only(ReadReady, raft.handle(Received("n2", AppendReply(raft.term, 1, last, last)))) or broken
