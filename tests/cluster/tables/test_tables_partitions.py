"""What partitions do to the table store, without a strategy and under each: MN-1 to MN-9."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.cluster.tables.coordinator import Done, GivenUp
from splitbrain.cluster.tables.strategies import Autoheal, Ignore, PauseIfAllDown, PauseMinority, Strategy
from splitbrain.cluster.tables.strategies.autoheal import NotHealing
from tests.cluster.tables.simulation import TICK_MS, Cluster, Request

THREE = ["n1", "n2", "n3"]
FOUR = ["n1", "n2", "n3", "n4"]
FIVE = ["n1", "n2", "n3", "n4", "n5"]
DETECTED_MS = TICK_MS * 5 // 4 + 100
"""After so long every node has noticed a partition, and done something about it."""


def values(cluster: Cluster, key: str = "k") -> dict[str, object]:
    return {name: cluster.ask(name, "read", "t", key) for name in cluster.serving()}


@pytest.mark.parametrize("tick_ms", [400, 1000, 3000])
def test_mn_1_a_write_blocks_for_the_tick_time_and_then_succeeds_on_both_sides(tick_ms: int) -> None:
    cluster = Cluster(THREE, tick_ms=tick_ms)
    cluster.partition(["n1"], ["n2", "n3"])
    here, there = cluster.request("n1", "write", "t", "k", 1), cluster.request("n2", "write", "t", "k", 2)
    cluster.run(2 * tick_ms)
    for request in (here, there):
        assert isinstance(request.end, Done)
        assert tick_ms * 0.75 <= request.ended_ms - request.begun_ms <= tick_ms * 1.25 + 100
    assert values(cluster) == {"n1": 1, "n2": 2, "n3": 2}


def test_mn_1_a_write_that_is_given_up_while_it_blocks_is_nowhere() -> None:
    cluster = Cluster(THREE)
    cluster.partition(["n1"], ["n2", "n3"])
    given_up = cluster.request("n1", "write", "t", "k", 1, timeout_ms=300)
    cluster.run(600)
    assert given_up.end == GivenUp("timeout")
    cluster.run(3000)
    cluster.heal()
    cluster.run(3000)
    assert values(cluster) == dict.fromkeys(THREE)


def test_mn_1_a_read_does_not_block_and_may_be_old() -> None:
    cluster = Cluster(THREE)
    cluster.ask("n1", "write", "t", "k", 1)
    cluster.partition(["n1"], ["n2", "n3"])
    assert cluster.ask("n1", "read", "t", "k", within_ms=50) == 1
    cluster.run(DETECTED_MS)
    cluster.ask("n2", "write", "t", "k", 2)
    assert cluster.ask("n1", "read", "t", "k", within_ms=50) == 1


def test_mn_3_both_sides_diverge_and_say_so_until_one_restarts_and_copies_the_other() -> None:
    cluster = Cluster(THREE)
    cluster.partition(["n1"], ["n2", "n3"])
    cluster.run(DETECTED_MS)
    cluster.ask("n1", "write", "t", "k", "lost")
    cluster.ask("n2", "write", "t", "k", "kept")
    cluster.heal()
    cluster.run(20_000)
    assert values(cluster) == {"n1": "lost", "n2": "kept", "n3": "kept"}
    partitions = {name: sorted(cluster.node(name).database.partitions) for name in THREE}
    assert partitions == {"n1": ["n2", "n3"], "n2": ["n1"], "n3": ["n1"]}
    cluster.kill("n1")
    cluster.run(300)
    cluster.start("n1")
    cluster.run(2000)
    assert values(cluster) == dict.fromkeys(THREE, "kept")
    assert all(not cluster.node(name).database.partitions for name in THREE)
    assert cluster.members["n1"].disk.encoded() == cluster.members["n2"].disk.encoded()


def test_mn_3_a_node_that_others_outlived_waits_for_them_and_one_that_outlived_them_serves() -> None:
    cluster = Cluster(THREE)
    cluster.ask("n1", "write", "t", "k", 1)
    for name in THREE:
        cluster.kill(name)
        cluster.run(300)
        if name != "n3":
            cluster.ask("n3", "write", "t", "k", name)
    cluster.start("n1")
    cluster.start("n2")
    cluster.run(10_000)
    assert cluster.serving() == []
    cluster.start("n3")
    cluster.run(3000)
    assert values(cluster) == dict.fromkeys(THREE, "n2")


def test_mn_3_after_all_were_killed_at_once_they_serve_what_they_had_once_all_are_back() -> None:
    cluster = Cluster(THREE)
    cluster.ask("n2", "write", "t", "k", 1)
    cluster.run(100)
    for name in THREE:
        cluster.kill(name)
    cluster.run(500)
    cluster.start("n2")
    cluster.start("n3")
    cluster.run(5000)
    assert cluster.serving() == []
    cluster.start("n1")
    cluster.run(3000)
    assert values(cluster) == dict.fromkeys(THREE, 1)


def test_mn_4_ignore_heals_nothing_by_itself() -> None:
    cluster = Cluster(THREE, strategy=Ignore)
    cluster.partition(["n1", "n2"], ["n3"])
    cluster.run(DETECTED_MS)
    cluster.ask("n1", "write", "t", "k", 1)
    cluster.ask("n3", "write", "t", "k", 3)
    cluster.heal()
    cluster.run(110_000)
    assert values(cluster) == {"n1": 1, "n2": 1, "n3": 3}


# --- MN-5 ---------------------------------------------------------------------------------------------------------


def test_mn_5_a_minority_pauses_and_takes_over_the_majority_s_tables_afterwards() -> None:
    cluster = Cluster(FIVE, strategy=PauseMinority)
    cluster.partition(["n1", "n2"], ["n3", "n4", "n5"])
    cluster.run(DETECTED_MS)
    assert cluster.serving() == ["n3", "n4", "n5"]
    assert [name for name in FIVE if cluster.members[name].listens] == ["n3", "n4", "n5"]
    assert cluster.request("n1", "read", "t", "k").end == GivenUp("stopped")
    cluster.ask("n4", "write", "t", "k", 1)
    cluster.heal()
    cluster.run(5000)
    assert values(cluster) == dict.fromkeys(FIVE, 1)
    assert all(cluster.members[name].listens for name in FIVE)


def test_mn_5_both_halves_of_an_equal_split_pause() -> None:
    cluster = Cluster(FOUR, strategy=PauseMinority)
    cluster.ask("n1", "write", "t", "k", 1)
    cluster.partition(["n1", "n2"], ["n3", "n4"])
    cluster.run(DETECTED_MS)
    assert cluster.serving() == []
    cluster.heal()
    cluster.run(8000)
    assert values(cluster) == dict.fromkeys(FOUR, 1)


def test_mn_5_in_a_cluster_of_two_any_failure_pauses_the_other() -> None:
    cluster = Cluster(["n1", "n2"], strategy=PauseMinority)
    cluster.kill("n2")
    cluster.run(300)
    assert cluster.phases() == {"n1": "stopped", "n2": "down"}


def test_mn_5_nodes_that_were_stopped_count_as_those_out_of_reach() -> None:
    cluster = Cluster(FIVE, strategy=PauseMinority)
    for name in ("n1", "n2", "n3"):
        cluster.kill(name)
        cluster.run(300)
    assert cluster.phases() == {"n1": "down", "n2": "down", "n3": "down", "n4": "stopped", "n5": "stopped"}


def test_mn_5_a_node_that_starts_without_a_majority_does_not_serve() -> None:
    cluster = Cluster(FIVE, strategy=PauseMinority)
    cluster.partition(["n1", "n2"], ["n3", "n4", "n5"])
    cluster.run(DETECTED_MS)
    for name in ("n1", "n2"):
        cluster.kill(name)
    cluster.run(200)
    cluster.start("n1")
    cluster.start("n2")
    cluster.run(5000)
    assert cluster.serving() == ["n3", "n4", "n5"]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([THREE, FOUR, FIVE]))
def test_mn_5_once_a_partition_is_noticed_no_minority_and_no_half_serves(seed: int, names: list[str]) -> None:
    rng = random.Random(seed)
    cluster = Cluster(names, seed, PauseMinority)
    for _ in range(3):
        shuffled = rng.sample(names, len(names))
        sides = [shuffled[: (at := rng.randint(1, len(names) - 1))], shuffled[at:]]
        cluster.partition(*sides)
        if rng.random() < 0.3:
            cluster.kill(killed := rng.choice(names))
            cluster.run(50)
            cluster.start(killed)
        cluster.run(DETECTED_MS)
        for _ in range(20):
            cluster.run(100)
            for side in sides:
                if 2 * len(side) <= len(names):
                    assert not set(cluster.serving()) & set(side), (sides, cluster.phases())
        cluster.heal()
        cluster.run(rng.randint(0, 6000))


# --- MN-6 ---------------------------------------------------------------------------------------------------------


def preferring(*nodes: str, recover: Callable[[], Strategy] = Ignore) -> Callable[[], Strategy]:
    return lambda: PauseIfAllDown(nodes, recover())


def test_mn_6_nodes_that_see_none_of_the_list_pause_even_if_they_are_the_majority() -> None:
    cluster = Cluster(FIVE, strategy=preferring("n1", "n2"))
    cluster.partition(["n1", "n2"], ["n3", "n4", "n5"])
    cluster.run(DETECTED_MS)
    assert cluster.serving() == ["n1", "n2"]
    cluster.ask("n1", "write", "t", "k", 1)
    cluster.heal()
    cluster.run(5000)
    assert values(cluster) == dict.fromkeys(FIVE, 1)


def test_mn_6_if_the_list_is_split_both_sides_go_on_and_with_ignore_stay_apart() -> None:
    cluster = Cluster(FOUR, strategy=preferring("n1", "n3"))
    cluster.partition(["n1", "n2"], ["n3", "n4"])
    cluster.run(DETECTED_MS)
    assert cluster.serving() == FOUR
    cluster.ask("n2", "write", "t", "k", 2)
    cluster.heal()
    cluster.run(20_000)
    assert values(cluster) == {"n1": 2, "n2": 2, "n3": None, "n4": None}


def test_mn_6_if_the_list_is_split_with_autoheal_one_side_restarts() -> None:
    cluster = Cluster(FOUR, strategy=preferring("n1", "n3", recover=Autoheal), clients={"n2": 3})
    cluster.partition(["n1", "n2"], ["n3", "n4"])
    cluster.run(DETECTED_MS)
    cluster.ask("n2", "write", "t", "k", 2)
    cluster.ask("n3", "write", "t", "k", 3)
    cluster.heal()
    cluster.run(10_000)
    assert values(cluster) == dict.fromkeys(FOUR, 2)


# --- MN-7 ---------------------------------------------------------------------------------------------------------


def healed(names: list[str], sides: list[list[str]], clients: dict[str, int], seed: int = 0) -> Cluster:
    """After a partition into these sides, in which the first node of each wrote its name."""
    cluster = Cluster(names, seed, Autoheal, clients=clients)
    cluster.partition(*sides)
    cluster.run(DETECTED_MS)
    for side in sides:
        cluster.ask(side[0], "write", "t", "k", side[0])
    cluster.heal()
    cluster.run(12_000)
    return cluster


@pytest.mark.parametrize(
    ("sides", "clients", "winner"),
    [
        ([["n1"], ["n2", "n3"]], {"n1": 2, "n2": 1}, "n1"),  # clients before nodes
        ([["n1"], ["n2", "n3"]], {"n1": 1, "n3": 1}, "n2"),  # then nodes
        ([["n1", "n2"], ["n3", "n4"]], {}, "n3"),  # then the list that sorts last
        ([["n2", "n3"], ["n1", "n4"]], {}, "n2"),
        ([["n1", "n2"], ["n3"], ["n4"]], {"n3": 5, "n4": 5}, "n4"),  # of three
    ],
)
def test_mn_7_the_partition_with_most_clients_then_nodes_then_the_last_one_wins(
    sides: list[list[str]], clients: dict[str, int], winner: str
) -> None:
    names = sorted(name for side in sides for name in side)
    cluster = healed(names, sides, clients)
    assert values(cluster) == dict.fromkeys(names, winner)
    losers = {name for side in sides if winner not in side for name in side}
    restarted = {name for name in names if any("restarts to heal" in line for line in cluster.members[name].lines)}
    assert restarted == losers


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**9))
def test_mn_7_after_any_partitions_and_kills_one_partition_is_left_in_the_end(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(FOUR, seed, Autoheal, clients={name: rng.randint(0, 2) for name in FOUR})
    for _ in range(3):
        shuffled = rng.sample(FOUR, 4)
        at = rng.randint(1, 3)
        cluster.partition(shuffled[:at], shuffled[at:])
        cluster.run(rng.randint(200, 2500))
        for name in cluster.serving():
            cluster.request(name, "write", "t", "k", rng.randint(0, 9), timeout_ms=2000)
        cluster.run(100)
        cluster.heal()
        cluster.run(rng.randint(0, 4000))
        if rng.random() < 0.3:
            cluster.kill(killed := rng.choice(FOUR))
            cluster.run(rng.randint(0, 500))
            cluster.start(killed)
    cluster.run(75_000)  # longer than a loser waits for a winner that is gone
    assert cluster.all_run(), cluster.phases()
    assert len(set(map(str, values(cluster).values()))) == 1
    for name in FOUR:
        assert cluster.node(name).database.partitions == {}
        assert len({cluster.node(each).database.tables.encoded() for each in FOUR}) == 1


def test_mn_7_nothing_begins_while_a_node_is_out_of_reach() -> None:
    cluster = Cluster(THREE, strategy=Autoheal)
    cluster.partition(["n1"], ["n2"], ["n3"])
    cluster.run(DETECTED_MS)
    cluster.partition(["n1", "n2"], ["n3"])
    cluster.run(10_000)
    assert cluster.node("n1").database.partitions == {"n2": None}
    assert not any("restarts" in line for name in THREE for line in cluster.members[name].lines)
    cluster.heal()
    cluster.run(10_000)
    assert all(cluster.node(name).database.partitions == {} for name in THREE)


# --- MN-8, MN-9 -----------------------------------------------------------------------------------------------------


def partial(cluster: Cluster) -> None:
    """n1 and n2 lose each other; both see n3."""
    cluster.cut = {("n1", "n2"), ("n2", "n1")}
    cluster.run(DETECTED_MS + 500)


def test_mn_8_ignore_makes_a_partial_partition_whole() -> None:
    cluster = Cluster(THREE, strategy=Ignore)
    partial(cluster)
    lines = [line for name in THREE for line in cluster.members[name].lines]
    assert any("partial partition" in line for line in lines)
    assert any("disconnects" in line for line in lines)
    cluster.run(3000)
    active = {name: cluster.node(name).database.active() for name in THREE}
    for name, others in active.items():
        assert all(name in active[other] for other in others), active
    assert len(set(active.values())) > 1


def test_mn_8_pause_minority_pauses_until_all_nodes_are_back() -> None:
    cluster = Cluster(THREE, strategy=PauseMinority)
    partial(cluster)
    paused = [name for name, phase in cluster.phases().items() if phase == "stopped"]
    assert paused
    assert set(paused) <= {"n1", "n2"}
    cluster.run(5000)
    assert [name for name, phase in cluster.phases().items() if phase == "stopped"] == paused
    cluster.heal()
    cluster.run(5000)
    assert cluster.all_run()


@pytest.mark.parametrize("strategy", [Ignore, PauseMinority, Autoheal])
def test_mn_9_each_strategy_loses_acknowledged_writes(strategy: Callable[[], Strategy]) -> None:
    """Under pause_minority only what the minority acknowledged before it noticed: the decision never left it."""
    lost: list[str] = []
    for seed in range(40):
        cluster = Cluster(THREE, seed, strategy)
        writes: list[Request] = []
        for number in range(6):
            writes.append(cluster.request("n1", "insert", "t", "k", number, timeout_ms=3000))
            cluster.run(cluster.rng.randint(5, 25))
        cluster.partition(["n1"], ["n2", "n3"])
        cluster.run(DETECTED_MS)
        if cluster.node("n1").database.phase == "running":
            writes.append(cluster.request("n1", "insert", "t", "k", 99))
        cluster.run(100)
        cluster.heal()
        cluster.run(6000)
        acknowledged = {each.arguments[2] for each in writes if isinstance(each.end, Done)}
        found = {name: set(cluster.ask(name, "read_all", "t", "k")) for name in cluster.serving()}
        lost += [f"{seed}: {name}" for name, there in found.items() if not acknowledged <= there]
        if lost:
            break
    assert lost


def test_an_autoheal_that_is_done_is_back_where_it_began() -> None:
    strategies: list[Autoheal] = []

    def make() -> Strategy:
        strategies.append(Autoheal())
        return strategies[-1]

    cluster = Cluster(THREE, strategy=make)
    cluster.partition(["n1"], ["n2", "n3"])
    cluster.run(DETECTED_MS)
    cluster.heal()
    cluster.run(12_000)
    assert [each.state for each in strategies] == [NotHealing()] * 3
