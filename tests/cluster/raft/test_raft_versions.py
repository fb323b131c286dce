"""Versions of the state machine: raised once all members support them, and applied by nobody who does not (RA-43)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.cluster.raft import Entry, InvariantError, Raft, Recovered
from splitbrain.cluster.raft.effects import (
    AppendLog,
    Apply,
    Effect,
    InstallSnapshot,
    Rejected,
    SendChunk,
    ShrunkByForce,
    TransferBegun,
)
from splitbrain.cluster.raft.events import (
    Change,
    Compacted,
    ElectionTimeout,
    Event,
    ForceShrink,
    HeartbeatTick,
    Received,
    Start,
    Transfer,
    Written,
)
from splitbrain.cluster.raft.membership import Configuration, encode_configuration, encode_configurations
from splitbrain.cluster.raft.messages import (
    Append,
    AppendRefusal,
    AppendReply,
    PreVote,
    PreVoteReply,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
    Vote,
    VoteReply,
)
from splitbrain.cluster.raft.versions import Versions, encode_version, version_of
from tests.cluster.raft.simulation import Simulation
from tests.cluster.raft.single import append, messages, only
from tests.cluster.raft.test_raft_random import FAULTS, OUTAGES, SMALL, check_answers, recover, torment

THREE = ("n1", "n2", "n3")
RAISED = Entry(2, 1, "noop", encode_version(2))
"""The entry that puts version 2 into force, behind the no-op of term 1."""


def log(*more: Entry) -> tuple[Entry, ...]:
    return (Entry(1, 1, "noop"), *more)


def member(version: int, *entries: Entry, voters: Sequence[str] = THREE) -> Raft:
    raft = Raft("n1", voters, Recovered(max((e.term for e in entries), default=0), None, entries), version=version)
    raft.handle(Start())
    return raft


def leader(version: int, *entries: Entry, voters: Sequence[str] = THREE) -> Raft:
    """n1, elected, whose no-op is committed by n2; nobody has said yet which version it supports."""
    raft = member(version, *entries, voters=voters)
    asked = only(PreVote, messages(raft.handle(ElectionTimeout())))
    raft.handle(Received("n2", PreVoteReply(raft.term, asked[0].token, True)))
    raft.handle(Received("n2", VoteReply(raft.term, True)))
    assert raft.role == "leader"
    raft.handle(Written(raft.last_index, raft.term, 0))
    return raft


def says(raft: Raft, sender: str, version: int, durable: int | None = None) -> list[Effect]:
    at = raft.last_index if durable is None else durable
    return raft.handle(Received(sender, AppendReply(raft.term, 0, at, at, version)))


def appended(raft: Raft, event: Event) -> list[Entry]:
    return [entry for effect in only(AppendLog, raft.handle(event)) for entry in effect.entries]


# --- the leader ---------------------------------------------------------------------------------------------------


def test_ra43_a_leader_raises_the_version_once_all_members_have_said_that_they_support_it() -> None:
    raft = leader(2)
    says(raft, "n2", 2)
    assert appended(raft, HeartbeatTick()) == [], "a majority supports it, and n3 has said nothing"
    says(raft, "n3", 2)
    assert appended(raft, HeartbeatTick()) == [RAISED]
    assert (raft.version, raft.newest_version) == (1, 2)
    assert appended(raft, HeartbeatTick()) == [], "once"
    raft.handle(Written(2, 1, 0))
    (applied,) = only(Apply, says(raft, "n2", 2))
    assert applied.entries == (RAISED,)
    assert raft.version == 2


def test_ra43_one_member_that_does_not_support_it_holds_it_up_until_it_is_upgraded() -> None:
    raft = leader(2)
    says(raft, "n2", 2)
    says(raft, "n3", 1)
    assert appended(raft, HeartbeatTick()) == []
    says(raft, "n3", 2)
    assert appended(raft, HeartbeatTick()) == [RAISED]


def test_ra43_what_a_member_says_last_counts() -> None:
    raft = leader(2)
    says(raft, "n2", 2)
    says(raft, "n3", 2)
    raft.handle(Received("n3", AppendRefusal(1, 0, 1, 0, 0, 1)))
    assert appended(raft, HeartbeatTick()) == []


def test_ra43_the_version_is_the_highest_that_all_support() -> None:
    raft = leader(4)
    says(raft, "n2", 3)
    says(raft, "n3", 2)
    assert [version_of(entry) for entry in appended(raft, HeartbeatTick())] == [2]


def test_ra43_a_learner_holds_it_up_as_well_and_a_member_that_leaves_does_not() -> None:
    raft = leader(2)
    says(raft, "n2", 2)
    raft.handle(Change("ref", "n4", joins=True, role="learner"))
    raft.handle(Written(2, 1, 0))
    says(raft, "n2", 2)
    says(raft, "n3", 2)
    assert appended(raft, HeartbeatTick()) == []
    raft.handle(Change("ref", "n4", joins=False))
    assert [entry.kind for entry in appended(raft, HeartbeatTick())] == ["noop"]


def test_ra43_nothing_is_raised_before_the_no_op_of_the_term_is_committed() -> None:
    raft = leader(2)
    says(raft, "n2", 2, durable=0)
    says(raft, "n3", 2, durable=0)
    assert appended(raft, HeartbeatTick()) == []


def test_ra43_a_member_that_is_alone_leads_with_its_own_version() -> None:
    raft = member(2, voters=("n1",))
    assert appended(raft, ElectionTimeout()) == [Entry(1, 1, "noop", encode_version(2))]


def test_ra43_the_no_op_of_a_term_carries_the_version_of_the_log() -> None:
    raft = member(3, *log(RAISED))
    asked = only(PreVote, messages(raft.handle(ElectionTimeout())))
    raft.handle(Received("n2", PreVoteReply(1, asked[0].token, True)))
    assert appended(raft, Received("n2", VoteReply(2, True))) == [Entry(3, 2, "noop", encode_version(2))]


def test_ra29_ra43_a_learner_that_does_not_support_the_version_is_not_promoted() -> None:
    raft = leader(2, *log(RAISED))
    says(raft, "n2", 2)
    raft.handle(Change("ref", "n4", joins=True, role="promotable"))
    raft.handle(Written(4, 2, 0))
    says(raft, "n2", 2)
    says(raft, "n4", 1)
    assert "n4" not in raft.configuration.voters
    says(raft, "n4", 2)
    assert "n4" in raft.configuration.voters


def test_ra31_ra43_leadership_is_not_handed_to_a_member_that_could_not_lead() -> None:
    raft = leader(2, *log(RAISED))
    says(raft, "n3", 1)
    assert raft.handle(Transfer("ref", "n3")) == [Rejected("ref", "n1", "version_not_supported")]
    says(raft, "n3", 2)
    assert only(TransferBegun, raft.handle(Transfer("ref", "n3")))


# --- a member that does not support what is in force --------------------------------------------------------------


def test_ra43_it_appends_and_answers_and_stops_applying_before_what_it_does_not_understand() -> None:
    raft = member(1, *log())
    after = Entry(3, 1, "command", b"x")
    effects = append(raft, RAISED, after, term=1, prev=(1, 1), commit=3)
    assert [entry for effect in only(Apply, effects) for entry in effect.entries] == [Entry(1, 1, "noop")]
    assert (raft.commit_index, raft.applied_index, raft.is_outdated) == (3, 1, True)
    (done,) = only(AppendLog, effects)
    (reply,) = only(AppendReply, messages(raft.handle(done.done)))
    assert (reply.durable, reply.version) == (3, 1)
    assert only(Apply, append(raft, Entry(4, 1, "command"), term=1, prev=(3, 1), commit=4)) == []


def test_ra43_it_is_not_outdated_while_the_version_is_not_committed() -> None:
    raft = member(1, *log())
    append(raft, RAISED, term=1, prev=(1, 1), commit=1)
    assert (raft.is_outdated, raft.newest_version, raft.version) == (False, 2, 1)


def test_ra43_it_applies_again_when_a_later_leader_took_the_version_back() -> None:
    raft = member(1, *log())
    append(raft, RAISED, term=1, prev=(1, 1), commit=1)
    other = Entry(2, 2, "noop")
    effects = append(raft, other, term=2, prev=(1, 1), commit=2, sender="n3")
    assert [effect.entries for effect in only(Apply, effects)] == [(other,)]
    assert (raft.is_outdated, raft.newest_version) == (False, 1)


def test_ra43_upgraded_it_applies_what_it_had_left() -> None:
    raft = Raft("n1", THREE, Recovered(1, None, log(RAISED, Entry(3, 1, "command", b"x"))), version=2)
    raft.handle(Start())
    (applied,) = only(Apply, append(raft, term=1, prev=(3, 1), commit=3))
    assert len(applied.entries) == 3


def test_ra43_it_does_not_stand_for_election_not_even_when_it_is_asked_to() -> None:
    raft = member(1, *log())
    append(raft, RAISED, term=1, prev=(1, 1))
    raft.handle(Received("n2", TimeoutNow(1)))
    assert raft.role == "follower"
    assert messages(raft.handle(ElectionTimeout())) == []
    assert (raft.role, raft.leader) == ("follower", None)


def test_ra32_ra43_it_cannot_be_made_the_only_member() -> None:
    raft = member(1, *log(RAISED))
    assert only(Rejected, raft.handle(ForceShrink("ref"))) == [Rejected("ref", None, "version_not_supported")]
    raft = member(2, *log(RAISED))
    assert only(ShrunkByForce, raft.handle(ForceShrink("ref")))
    assert raft.votes == ((raft.node, raft.term),), "its own vote is the majority"


# --- votes (RA-5) -------------------------------------------------------------------------------------------------


def committed(version: int) -> Raft:
    """n1, which knows that version 2 is in force, and has not heard a leader for long."""
    raft = member(version, *log(RAISED))
    append(raft, term=1, prev=(2, 1), commit=2)
    raft.handle(ElectionTimeout())
    return raft


@pytest.mark.parametrize(("mine", "theirs", "granted"), [(2, 1, False), (2, 2, True), (1, 1, False), (1, 2, True)])
def test_ra5_ra43_votes_are_for_candidates_that_support_the_version_in_force(
    mine: int, theirs: int, granted: bool
) -> None:
    (reply,) = only(PreVoteReply, messages(committed(mine).handle(Received("n2", PreVote(1, 1, 2, 1, theirs)))))
    assert reply.granted is granted
    (vote,) = only(VoteReply, messages(committed(mine).handle(Received("n2", Vote(5, 2, 1, False, theirs)))))
    assert vote.granted is granted


def test_ra5_ra43_a_member_of_the_old_version_votes_for_one_that_was_upgraded_first() -> None:
    """Or no one could be elected of two, if the one that was upgraded has the longer log."""
    raft = member(1, *log())
    append(raft, term=1, prev=(1, 1), commit=1)
    raft.handle(ElectionTimeout())
    (vote,) = only(VoteReply, messages(raft.handle(Received("n2", Vote(5, 2, 1, False, 2)))))
    assert vote.granted


# --- snapshots (RA-42) --------------------------------------------------------------------------------------------


def chunk(version: int) -> SnapshotChunk:
    configurations = encode_configurations([(0, Configuration(THREE))])
    return SnapshotChunk(1, 0, 5, 1, configurations, 0, 3, b"abc", version)


def test_ra42_ra43_a_snapshot_of_a_later_version_is_refused_without_harm() -> None:
    raft = member(1, *log())
    effects = raft.handle(Received("n2", chunk(2)))
    assert only(InstallSnapshot, effects) == []
    assert messages(effects) == [SnapshotReply(1, 0, 5, 0, 1)]
    assert (raft.commit_index, raft.last_index) == (0, 1)
    assert only(Apply, append(raft, Entry(2, 1, "command"), term=1, prev=(1, 1), commit=2)), "it goes on"


def test_ra42_ra43_a_snapshot_brings_the_version_with_it() -> None:
    raft = member(2, *log())
    (installed,) = only(InstallSnapshot, raft.handle(Received("n2", chunk(2))))
    assert (installed.version, raft.version, raft.version_at(5)) == (2, 2, 2)


def test_ra43_a_snapshot_is_not_sent_to_a_member_that_said_it_does_not_understand_it() -> None:
    raft = leader(2, *log(RAISED))
    says(raft, "n2", 2)
    raft.handle(Compacted(raft.commit_index))
    refused = AppendRefusal(raft.term, 0, 2, 0, 0, 1)
    assert only(SendChunk, raft.handle(Received("n3", refused))) == []
    for _ in range(30):
        effects = raft.handle(HeartbeatTick())
        raft.handle(Received("n2", AppendReply(raft.term, 0, raft.last_index, raft.last_index, 2)))
        assert only(SendChunk, effects) == []
        assert only(Append, messages(effects, to="n3")), "it hears its leader"
    raft.handle(Received("n3", AppendRefusal(raft.term, 0, raft.commit_index, 0, 0, 2)))
    assert only(SendChunk, raft.handle(HeartbeatTick())), "it was upgraded"


# --- the record of versions ---------------------------------------------------------------------------------------


def test_ra43_a_no_op_without_data_is_of_version_1_and_nonsense_ends_the_node() -> None:
    assert encode_version(1) == b""
    assert version_of(Entry(1, 1, "noop")) == 1
    assert version_of(Entry(1, 1, "noop", encode_version(7))) == 7
    with pytest.raises(InvariantError, match="no-op 3 of term 2"):
        version_of(Entry(3, 2, "noop", b"\xc1"))


@given(st.data())
def test_ra43_versions_are_those_that_a_search_of_the_log_finds(data: st.DataObject) -> None:
    supported, base = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    versions, entries = Versions(supported, 0, base), list[Entry]()
    for _ in range(data.draw(st.integers(0, 12))):
        if entries and data.draw(st.booleans()):
            cut = data.draw(st.integers(1, len(entries)))
            del entries[cut - 1 :]
            versions.truncate(cut)
            continue
        index = len(entries) + 1
        kind = data.draw(st.sampled_from(["noop", "command"]))
        last = max([base, *(version_of(entry) for entry in entries if entry.kind == "noop")])
        version = data.draw(st.integers(last, 5))
        new = Entry(index, 1, "noop", encode_version(version)) if kind == "noop" else Entry(index, 1, "command", b"x")
        entries.append(new)
        versions.append([new])

    def at(index: int) -> int:
        return max([base, *(version_of(entry) for entry in entries[:index] if entry.kind == "noop")])

    assert [versions.at(index) for index in range(len(entries) + 1)] == [at(i) for i in range(len(entries) + 1)]
    assert versions.current == at(len(entries))
    assert versions.understands_all == (at(len(entries)) <= supported)
    for index in range(1, len(entries) + 1):
        assert (index <= versions.understood) == (at(index) <= supported)


# --- a rolling upgrade under faults -------------------------------------------------------------------------------


def upgrade(sim: Simulation, name: str) -> None:
    """End a member, as it may be already, and start it with version 2."""
    if sim.members[name].raft is not None:
        sim.kill(name)
    sim.members[name].version = 2
    sim.start(name)


def roll_back(sim: Simulation, name: str, last: str, faults: Sequence[str]) -> bool:
    """Upgrade the last member while one that was upgraded is down, start that as it was before, and upgrade it in the
    end; whether it was outdated meanwhile."""
    sim.heal()
    sim.run(2_000)
    sim.kill(name)
    sim.members[name].version = 1
    upgrade(sim, last)
    sim.run(2_000)
    sim.heal()
    sim.run(1_000)
    was_outdated = sim.raft(name).is_outdated
    torment(sim, 100, faults)
    upgrade(sim, name)
    return was_outdated


def rolling_upgrade(seed: int, nodes: int, *, rollback: bool = False) -> tuple[Simulation, bool]:
    """The run, and whether a member that had been rolled back was outdated."""
    faults = OUTAGES if seed % 3 == 0 else FAULTS
    config, snapshots = SMALL if seed % 2 else None, (0.0, 0.05, 0.3)[seed % 3]
    sim = Simulation(
        seed, nodes, drop=0.03, duplicate=0.03, delay_ms=30, write_ms=40, config=config, snapshots=snapshots
    )
    torment(sim, 80, faults)
    first, *others = sim.rng.sample(sim.names, nodes)
    for name in [first, *others[:-1]]:
        upgrade(sim, name)
        torment(sim, 60, faults)
    was_outdated = False
    if rollback and nodes > 2:
        was_outdated = roll_back(sim, first, others[-1], faults)
    for name in others[-1:]:
        upgrade(sim, name)
        torment(sim, 60, faults)
    recover(sim)
    assert sim.run(10_000, until=lambda: all(sim.raft(name).version == 2 for name in sim.names)), "not raised"
    recover(sim)
    check_answers(sim)
    return sim, was_outdated


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), nodes=st.sampled_from([1, 2, 3, 4, 5]), rollback=st.booleans())
def test_ra43_a_rolling_upgrade_under_faults_is_safe_and_ends_with_the_new_version(
    seed: int, nodes: int, rollback: bool
) -> None:
    sim, _ = rolling_upgrade(seed, nodes, rollback=rollback)
    noops = [version_of(entry) for entry in sim.committed if entry.kind == "noop"]
    assert noops == sorted(noops), "a version in force never goes back"
    assert noops[-1] == 2


def test_ra43_members_that_are_rolled_back_become_outdated_and_do_no_harm() -> None:
    outdated = [rolling_upgrade(seed, (3, 5)[seed % 2], rollback=True)[1] for seed in range(8)]
    assert sum(outdated) >= 2, "the runs reach what they are meant to reach"


def test_ra43_configurations_and_commands_say_nothing_of_versions() -> None:
    data = encode_configuration(Configuration(THREE))
    versions = Versions(1, 0, 1)
    versions.append([Entry(1, 1, "config", data), Entry(2, 1, "command", encode_version(2))])
    assert versions.current == 1
