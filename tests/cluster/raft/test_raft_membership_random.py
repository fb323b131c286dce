"""Members that join and leave while the world loses, repeats and delays messages, cuts links and kills members: one
leader per term, logs that match, leaders that have all that is committed, and the same commands applied everywhere.

A member that left is wiped and never comes back; who joins has nothing on its disk.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.cluster.bugs import M13, M47, NO_BUGS, Bugs
from splitbrain.cluster.marks import counted
from splitbrain.cluster.raft import Config, InvariantError
from splitbrain.cluster.raft.events import MemberRole
from tests.cluster.raft.simulation import PropertyError, Simulation
from tests.cluster.raft.test_raft_random import FAULTS, LEASES, OUTAGES, SMALL, check_answers, disturb, recover

MEMBERS_MAX = 6
MACHINES_MAX = 12


def change_members(sim: Simulation) -> None:
    """Ask a node that leads, or still believes so, for a change; wipe those that the committed configuration lacks."""
    rng = sim.rng
    *before, last = sim.configurations()
    for name in {name: None for members in before for name in members if name not in last}:
        if name not in sim.retired and rng.random() < 0.3:
            sim.retire(name)
    leading = [name for name in sim.names if (raft := sim.members[name].raft) is not None and raft.role == "leader"]
    if not leading:
        return
    asked = rng.choice(leading)
    members = sim.raft(asked).members
    if len(members) < MEMBERS_MAX and rng.random() < 0.7:
        others = [name for name in sim.names if name not in members and name not in sim.retired]
        known = len(sim.names) >= MACHINES_MAX or rng.random() < 0.3
        if not known:
            others = [f"n{len(sim.names) + 1}"]
            sim.create(others[0])
            if rng.random() < 0.7:
                sim.start(others[0])  # else when the world is healed
        if others:
            role: MemberRole = rng.choice(("voter", "voter", "promotable", "promotable", "learner"))
            sim.change(asked, rng.choice(others), joins=True, role=role)
    elif (learners := [*sim.raft(asked).configuration.learners]) and rng.random() < 0.3:
        sim.change(asked, rng.choice(learners), joins=True)
    else:
        sim.change(asked, rng.choice(members), joins=False)


def cut_off_leader(sim: Simulation) -> None:
    """Leave the leader with a minority of those that it takes for members; what it appends now others may overwrite."""
    leader = sim.leader()
    if leader is not None:
        others = [name for name in sim.raft(leader).members if name != leader]
        sim.cut.clear()
        sim.isolate(leader, *sim.rng.sample(others, sim.rng.randint(0, len(others) // 2)))


def torment(sim: Simulation, steps: int, faults: Sequence[str], trouble: float, share: float) -> None:
    """Clients at every node; faults, and changes of members, in so many of the steps."""
    for _ in range(steps):
        if sim.rng.random() < trouble:
            if sim.rng.random() < 0.3:
                cut_off_leader(sim)
            else:
                disturb(sim, faults)
        if sim.rng.random() < share:
            change_members(sim)
        name = sim.leader() if sim.rng.random() < 0.5 else sim.rng.choice(sim.names)
        if name is not None and sim.members[name].raft is not None:
            draw = sim.rng.random()
            if draw < 0.6:
                sim.propose(name)
            elif draw < 0.95:
                sim.read(name)
            else:
                sim.transfer(name, sim.rng.choice(sim.names))
        sim.run(sim.rng.randint(1, 20))


def run_one(
    seed: int,
    bugs: Bugs = NO_BUGS,
    nodes: int = 4,
    steps: int = 1500,
    config: Config | None = None,
    faults: Sequence[str] = FAULTS,
    trouble: float = 0.008,
    share: float = 0.03,
    write_ms: int = 40,
    snapshots: float = 0.0,
) -> Simulation:
    sim = Simulation(
        seed,
        nodes,
        bugs=bugs,
        drop=0.03,
        duplicate=0.03,
        delay_ms=30,
        write_ms=write_ms,
        config=config,
        snapshots=snapshots,
    )
    torment(sim, steps, faults, trouble, share)
    recover(sim, calm_ms=10_000)  # a majority may need somebody who joined, and has the whole log to take over
    check_answers(sim)
    return sim


@pytest.mark.slow
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    nodes=st.sampled_from([1, 2, 3, 4, 4, 5]),
    small=st.booleans(),
    faults=st.sampled_from([FAULTS, OUTAGES]),
    share=st.sampled_from([0.005, 0.03, 0.2]),
)
def test_safety_always_and_liveness_after_repair_while_members_change(
    seed: int, nodes: int, small: bool, faults: Sequence[str], share: float
) -> None:
    run_one(seed, nodes=nodes, config=SMALL if small else None, faults=faults, share=share)


def run_where_they_meet(seed: int, bugs: Bugs = NO_BUGS) -> None:
    run_one(
        seed,
        bugs,
        nodes=(1, 2, 3, 4, 5)[seed % 5],
        config=(None, SMALL, LEASES)[seed % 3],
        faults=(FAULTS, OUTAGES, HARSH)[seed // 3 % 3],
        trouble=(0.008, 0.05)[seed % 2],
        share=(0.01, 0.05, 0.2)[seed % 7 % 3],
        snapshots=(0.02, 0.1, 0.4)[seed // 5 % 3],
        write_ms=(40, 150)[seed // 2 % 2],
        steps=800,
    )


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 30))])
def test_safety_and_liveness_where_members_snapshots_and_slow_disks_meet(seed: int) -> None:
    run_where_they_meet(seed)


@pytest.mark.slow
def test_ra16_the_same_torment_finds_a_durable_index_that_a_truncation_leaves_as_it_was() -> None:
    found: list[str] = []
    for seed in range(60):
        try:
            run_where_they_meet(seed, Bugs([M13.id]))
        except PropertyError as error:
            found.append(str(error).partition(":")[0])
            if len(found) == 2:
                break
    assert set(found) == {"durable means kept"}


HARSH = ("leader's side", "leader's side", "heal", "halves", "kill leader", "restart")
"""What strikes while changes are under way."""


@pytest.mark.slow
def test_the_torment_reaches_what_it_is_meant_to_reach() -> None:
    with counted() as marks:
        sims = [run_one(seed, steps=1000, faults=HARSH, trouble=0.015, share=0.1) for seed in range(20)]
    configurations = [configuration for sim in sims for configuration in sim.configurations()]
    assert {len(members) for members in configurations} >= set(range(1, MEMBERS_MAX))
    assert len(configurations) > 120
    for mark in ("change of members refused", "change of members taken back", "leader left", "learner became a voter"):
        assert marks[mark] >= 4, f"{mark} is hardly ever reached: {marks[mark]} times"
    assert sum(len(sim.retired) for sim in sims) > 20


@pytest.mark.slow
def test_the_same_torment_finds_changes_that_overlap() -> None:
    found: list[str] = []
    for seed in range(20):
        try:
            run_one(seed, Bugs([M47.id]), steps=1000, faults=HARSH, trouble=0.06, share=0.3)
        except InvariantError:
            found.append("invariant")
        except PropertyError as error:
            found.append(str(error).partition(":")[0])
        except AssertionError:
            pass  # that nobody can lead any more shows it as well, and proves less
    assert len(found) >= 8, f"M47 was found in {len(found)} of 20 runs"
    assert set(found) <= {"election safety", "leader completeness", "state machine safety", "log matching", "invariant"}
