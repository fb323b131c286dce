"""The table store under random load, kills and restarts, without partitions: serializable, and all replicas alike."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cluster.tables.simulation import Cluster

KEYS = ("a", "b", "c")


def random_request(cluster: Cluster, rng: random.Random) -> None:
    serving = cluster.serving()
    if not serving:
        return
    node, key, value = rng.choice(serving), rng.choice(KEYS), rng.randint(0, 3)
    kind = rng.choice(["read", "write", "compare_and_swap", "create", "insert", "read_all"])
    arguments = {
        "read": (key,),
        "read_all": (key,),
        "compare_and_swap": (key, rng.randint(0, 3), value),
    }.get(kind, (key, value))
    table = "bags" if kind in ("insert", "read_all") else "registers"
    cluster.request(node, kind, table, *arguments, timeout_ms=3000)


def kill_or_start(cluster: Cluster, rng: random.Random) -> None:
    down = [name for name, phase in cluster.phases().items() if phase == "down"]
    if down and rng.random() < 0.6:
        cluster.start(rng.choice(down))
    elif len(cluster.serving()) > 1:
        cluster.kill(rng.choice([name for name in cluster.names if name not in down]))


def run(seed: int, nodes: int, *, kills: float) -> Cluster:
    cluster = Cluster([f"n{number}" for number in range(1, nodes + 1)], seed)
    rng = random.Random(seed + 1)
    for _ in range(120):
        random_request(cluster, rng)
        if rng.random() < kills:
            kill_or_start(cluster, rng)
        cluster.run(rng.choice([0, 1, 5, 40]))
    for name in cluster.names:
        if cluster.members[name].machine is None:
            cluster.start(name)
    cluster.run(8000)
    return cluster


def check_alike(cluster: Cluster) -> None:
    assert cluster.all_run(), cluster.phases()
    for name in cluster.names:
        database = cluster.node(name).database
        assert database.tables.encoded() == cluster.model.tables.encoded(), name
        assert cluster.members[name].disk.encoded() == database.tables.encoded(), f"the disk of {name}"
        assert database.partitions == {}, name
        assert database.active() == tuple(cluster.names)
        assert database.participant.locks.transactions() == [], name
        assert database.participant.in_doubt() == [], name


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([1, 2, 3, 5]))
def test_without_faults_every_transaction_ends_and_they_are_serializable(seed: int, nodes: int) -> None:
    cluster = run(seed, nodes, kills=0.0)
    assert cluster.differences == []
    assert all(request.end is not None for request in cluster.requests)
    check_alike(cluster)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([2, 3, 4]))
@example(0, 4)  # a node that is killed twice in quick succession is no partial partition (MN-8)
def test_with_kills_and_restarts_they_are_serializable_and_all_replicas_end_alike(seed: int, nodes: int) -> None:
    cluster = run(seed, nodes, kills=0.12)
    assert cluster.differences == []
    check_alike(cluster)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([2, 3, 4, 5]), st.sampled_from([0.05, 0.12, 0.3]))
@example(23915293, 3, 0.3)  # kills so quick that the process which asks, or is asked about, is another one (MN-8)
def test_the_same_with_many_more(seed: int, nodes: int, kills: float) -> None:
    cluster = run(seed, nodes, kills=kills)
    assert cluster.differences == []
    check_alike(cluster)


def test_the_model_notices_a_read_that_is_not_serializable() -> None:
    cluster = Cluster(["n1", "n2"])
    cluster.ask("n1", "write", "registers", "a", 1)
    cluster.model.tables.apply([])
    cluster.partition(["n1"], ["n2"])
    cluster.run(2000)
    cluster.ask("n1", "write", "registers", "a", 2)
    cluster.ask("n2", "read", "registers", "a")
    assert len(cluster.differences) == 1
