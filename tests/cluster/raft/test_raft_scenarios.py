"""Whole clusters in named situations, on a network that is cut but otherwise in order."""

from __future__ import annotations

import pytest

from splitbrain.cluster.raft import Config
from tests.cluster.raft.simulation import Simulation


def healthy(seed: int, nodes: int = 5, config: Config | None = None) -> tuple[Simulation, str]:
    """A cluster with a leader that has committed something; and the leader's name."""
    sim = Simulation(seed, nodes, delay_ms=3, write_ms=5, config=config)
    assert sim.run(5_000, until=lambda: sim.leader() is not None)
    leader = sim.leader()
    assert leader is not None
    sim.propose(leader)
    sim.run(500)
    assert sim.acknowledged == 2
    return sim, leader


def others(sim: Simulation, *names: str) -> list[str]:
    return [name for name in sim.names if name not in names]


@pytest.mark.parametrize("seed", range(5))
def test_ra5_a_node_that_comes_back_from_isolation_deposes_nobody(seed: int) -> None:
    sim, leader = healthy(seed)
    term = sim.raft(leader).term
    flapping = others(sim, leader)[0]
    for _ in range(4):
        sim.isolate(flapping)
        sim.run(4_000)
        sim.heal()
        sim.run(1_000)
    assert sim.leader() == leader
    assert {sim.raft(name).term for name in sim.names} == {term}


@pytest.mark.parametrize("seed", range(5))
def test_ra5_a_follower_that_cannot_hear_the_leader_deposes_nobody(seed: int) -> None:
    sim, leader = healthy(seed)
    term = sim.raft(leader).term
    sim.cut.add((leader, others(sim, leader)[0]))
    sim.run(10_000)
    assert sim.leader() == leader
    assert sim.raft(leader).term == term


@pytest.mark.parametrize("seed", range(5))
def test_a_leader_without_majority_acknowledges_nothing_and_the_majority_goes_on(seed: int) -> None:
    sim, leader = healthy(seed)
    sim.isolate(leader, others(sim, leader)[0])
    write, read = sim.propose(leader), sim.read(leader)
    sim.run(4_000)
    assert (write.outcome, read.outcome) == ("Dropped", "Rejected")
    assert sim.raft(leader).role != "leader"
    successor = sim.leader()
    assert successor not in (None, leader)
    write, read = sim.propose(successor or ""), sim.read(successor or "")
    sim.run(100)
    assert (write.outcome, read.outcome) == ("ok", "ok")


@pytest.mark.parametrize("seed", range(5))
def test_d12_a_leader_that_is_heard_but_hears_nobody_makes_room_for_another(seed: int) -> None:
    sim, leader = healthy(seed)
    for name in others(sim, leader):
        sim.cut.add((name, leader))
    limit_ms = 2 * sim.config.election_max_ms
    assert sim.run(limit_ms + 50, until=lambda: sim.raft(leader).role != "leader")
    assert sim.run(3 * sim.config.election_max_ms, until=lambda: sim.leader() not in (None, leader))


@pytest.mark.parametrize("seed", range(20))
def test_a_new_leader_takes_over_within_a_few_election_timeouts(seed: int) -> None:
    sim, leader = healthy(seed)
    sim.kill(leader)
    assert sim.run(3 * sim.config.election_max_ms, until=lambda: sim.leader() is not None)


def test_ra11_a_follower_far_behind_is_caught_up_without_sending_anything_twice() -> None:
    sim, leader = healthy(1)
    late = others(sim, leader)[0]
    sim.kill(late)
    for _ in range(1_000):
        sim.propose(leader)
        sim.run(2)
    sim.run(500)
    sim.start(late)
    before = sim.counts["AppendLog"]
    sent = sim.sent["Append"]
    sim.run(1_000)
    assert sim.members[late].applied == sim.committed
    assert len(sim.committed) == 1_002
    # Streaming begins after one round trip; 1001 entries are eight batches of at most 128. Heartbeats: ten times four.
    assert sim.counts["AppendLog"] - before <= 12
    assert sim.sent["Append"] - sent <= 60


def test_ra11_a_member_that_lost_its_unsynced_tail_gets_it_again() -> None:
    sim, leader = healthy(2)
    sim.write_ms = 400
    for _ in range(50):
        sim.propose(leader)
        sim.run(5)
    for name in others(sim, leader)[:2]:
        sim.kill(name)
        sim.start(name)
    sim.write_ms = 5
    sim.run(3_000)
    assert all(sim.members[name].applied == sim.committed for name in sim.names)
    assert len(sim.committed) == 52


@pytest.mark.parametrize("seed", range(5))
def test_a_whole_cluster_killed_and_restarted_keeps_what_it_acknowledged(seed: int) -> None:
    sim, leader = healthy(seed)
    for _ in range(100):
        sim.propose(leader)
        sim.run(3)
    acknowledged = [request.data for request in sim.requests if request.outcome == "ok"]
    assert len(acknowledged) > 50
    for name in sim.names:
        sim.kill(name)
    for name in sim.names:
        sim.start(name)
    assert sim.run(10_000, until=lambda: sim.leader() is not None)
    sim.run(1_500)
    for name in sim.names:
        data = [entry.data for entry in sim.members[name].applied if entry.kind == "command"]
        assert data[: len(acknowledged)] == acknowledged


def test_an_idle_cluster_sends_heartbeats_and_nothing_else() -> None:
    sim, _ = healthy(3)
    before = dict(sim.sent)
    sim.run(10_000)
    sent = {kind: count - before.get(kind, 0) for kind, count in sim.sent.items()}
    assert {kind for kind, count in sent.items() if count} == {"Append", "AppendReply"}
    assert sent["Append"] <= 4 * 101
    assert sent["AppendReply"] <= 4 * 101


def test_many_reads_share_few_rounds() -> None:
    sim, leader = healthy(4)
    before = sim.sent["Append"]
    for _ in range(200):
        sim.read(leader)
    sim.run(90)
    assert all(request.outcome == "ok" for request in sim.requests)
    assert sim.sent["Append"] - before <= 4 * 3
