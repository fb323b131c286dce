"""Cuts of any shape, lossy links, kills and restarts, under each strategy: in the end all nodes serve again, nothing is
locked or in doubt, and of any two nodes both or neither count the other one as a replica.

Not that those that share tables hold the same: where two nodes in doubt can ask different third ones, one may commit
and the other give up (docs/tables.md).
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.cluster.tables.strategies import STRATEGIES, strategy_named
from tests.cluster.tables.simulation import Cluster
from tests.cluster.tables.test_tables_random import random_request

NAMES = ["n1", "n2", "n3", "n4"]


def disturb(cluster: Cluster, rng: random.Random) -> None:
    fault = rng.choice(["halves", "one way", "pair", "loss", "heal", "kill", "start", "start"])
    if fault == "halves":
        shuffled = rng.sample(cluster.names, len(cluster.names))
        at = rng.randint(1, len(shuffled) - 1)
        cluster.partition(shuffled[:at], shuffled[at:])
    elif fault in ("one way", "pair"):
        a, b = rng.sample(cluster.names, 2)
        cluster.cut |= {(a, b)} if fault == "one way" else {(a, b), (b, a)}
    elif fault == "loss":
        cluster.loss = rng.choice([0.02, 0.2])
    elif fault == "heal":
        cluster.heal()
    else:
        there = [name for name in cluster.names if cluster.members[name].machine is not None]
        if fault == "kill" and there:
            cluster.kill(rng.choice(there))
        elif fault == "start" and len(there) < len(cluster.names):
            cluster.start(rng.choice([name for name in cluster.names if name not in there]))


def run(seed: int, strategy: str) -> Cluster:
    rng = random.Random(seed)
    nodes = ["n1", "n2"] if strategy.startswith("pause-if-all-down") else []
    cluster = Cluster(NAMES, seed, lambda: strategy_named(strategy, nodes), tick_ms=500)
    for _ in range(40):
        for _ in range(rng.randint(0, 4)):
            random_request(cluster, rng)
        if rng.random() < 0.5:
            disturb(cluster, rng)
        cluster.run(rng.choice([5, 50, 300, 900]))
    cluster.heal()
    for name in NAMES:
        if cluster.members[name].machine is None:
            cluster.start(name)
    cluster.run(75_000)
    return cluster


def check(cluster: Cluster, strategy: str) -> None:
    assert cluster.all_run(), cluster.phases()
    for name in NAMES:
        database = cluster.node(name).database
        assert cluster.node(name).alive == frozenset(NAMES)
        assert database.participant.locks.transactions() == [], name
        assert database.participant.in_doubt() == [], name
        for other in database.active():
            assert name in cluster.node(other).database.active(), (name, other)
        apart = set(NAMES) - set(database.active())
        assert apart <= set(database.partitions), name
        if strategy.endswith("autoheal"):
            assert not apart
        assert cluster.members[name].disk.encoded() == database.tables.encoded()
        assert cluster.members[name].listens


@pytest.mark.sampled(4)
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize("seed", [1, 2, 5001, 5030, 5052, 10_025, 10_057, 10_075, 220_643])
def test_after_any_faults_all_serve_and_agree_on_who_shares_tables(seed: int, strategy: str) -> None:
    """Seeds that once ended with locks of nodes that are gone, or with nodes that disagree on who shares tables."""
    check(run(seed, strategy), strategy)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), strategy=st.sampled_from(sorted(STRATEGIES)))
def test_after_any_faults_from_any_seed(seed: int, strategy: str) -> None:
    check(run(seed, strategy), strategy)
