"""A node that joins: what reaches it before the copy of the tables does."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.cluster.tables.database import GRACE_MS, JOIN_AGAIN_MS, Database
from splitbrain.cluster.tables.effects import Effect, Say
from splitbrain.cluster.tables.locks import Tid
from splitbrain.cluster.tables.messages import Announce, AskLock, AskToJoin, Copy, Message, decode_frame
from splitbrain.cluster.tables.records import Item
from tests.cluster.tables.simulation import Cluster


def test_a_lock_that_a_node_asked_for_before_it_went_down_is_not_held_by_one_that_joins_later() -> None:
    sent: list[tuple[str, Message]] = []
    database = Database(
        "n1", ("n1", "n2", "n3"), 1, lambda low, _: low, lambda to, message: sent.append((to, message)), lambda _: None
    )
    database.start(0)
    for peer in ("n2", "n3"):
        database.node_up(peer)
        database.received(peer, Announce(1, "running", ("n2", "n3"), True), 0)
    database.poll(GRACE_MS)
    assert ("n2", AskToJoin(database.run)) in sent
    asked, joins = Tid(1, "n3", 7), Tid(2, "n2", 7)
    database.received("n3", AskLock(asked, 1, Item("registers", "a"), "write"), GRACE_MS)
    database.node_down("n3", GRACE_MS)
    database.received("n2", Copy(joins, database.run, {}, {"n1": database.run, "n2": 1}), GRACE_MS)
    assert database.phase == "running"
    assert database.participant.locks.transactions() == []


def a_node_that_was_copied(replicas: dict[str, int]) -> tuple[Database, list[tuple[str, Message]], Tid]:
    """n1, which has heard of n2 and not yet of n3, right after it asked n2 to join, and was answered."""
    sent: list[tuple[str, Message]] = []
    database = Database(
        "n1", ("n1", "n2", "n3"), 1, lambda low, _: low, lambda to, message: sent.append((to, message)), lambda _: None
    )
    database.start(0)
    database.node_up("n2")
    database.received("n2", Announce(1, "running", ("n2",), True), 0)
    database.poll(20)
    asked = database.run
    assert ("n2", AskToJoin(asked)) in sent
    joins = Tid(2, "n2", 7)
    database.received("n2", Copy(joins, asked, {}, {"n1": asked, **replicas}), 25)
    return database, sent, joins


def test_a_node_serves_no_copy_that_counts_a_replica_of_which_it_has_not_heard() -> None:
    database, sent, _ = a_node_that_was_copied({"n2": 1, "n3": 1})
    assert database.phase == "waiting"
    again = database.run
    assert sent[-1] == ("n2", Announce(again, "waiting", ("n1", "n2", "n3"), False)), "its former run is over for n2"
    database.node_up("n3")
    database.received("n2", Announce(1, "running", ("n2", "n3"), True), 30)
    database.poll(30 + JOIN_AGAIN_MS)
    assert ("n2", AskToJoin(again)) not in sent, "n3 has not said yet what it is"
    database.received("n3", Announce(1, "running", ("n2", "n3"), True), 40 + JOIN_AGAIN_MS)
    database.poll(60 + JOIN_AGAIN_MS)
    assert sent[-1] == ("n2", AskToJoin(again))
    database.received("n2", Copy(Tid(3, "n2", 7), again, {}, {"n1": again, "n2": 1, "n3": 1}), 70 + JOIN_AGAIN_MS)
    assert database.phase == "running"
    assert database.active() == ("n1", "n2", "n3")


def test_a_node_serves_a_copy_of_replicas_that_it_knows() -> None:
    database, _, _ = a_node_that_was_copied({"n2": 1})
    assert database.phase == "running"
    assert database.active() == ("n1", "n2")


@pytest.mark.parametrize("nodes", [3, 5])
def test_nodes_that_start_one_soon_after_the_other_never_run_apart(nodes: int) -> None:
    names = [f"n{number}" for number in range(1, nodes + 1)]
    for seed in range(60 if nodes == 3 else 20):
        cluster = Cluster(names, seed, start=False)
        cluster.slow = {(a, b): cluster.rng.choice((0, 0, 30, 100)) for a in names for b in names if a != b}
        for name in names:
            cluster.after(cluster.rng.randint(0, 300), lambda name=name, cluster=cluster: cluster.start(name))
        cluster.run(5000)
        seen = {name: (cluster.node(name).database.active(), cluster.node(name).database.partitions) for name in names}
        expected: tuple[tuple[str, ...], dict[str, None]] = (tuple(names), {})
        assert seen == dict.fromkeys(names, expected), seed
        assert not any("runs apart" in line for member in cluster.members.values() for line in member.lines), seed


def test_a_replica_that_lost_the_donor_asks_the_node_that_joined_whether_it_has() -> None:
    names = ["n1", "n2", "n3"]
    for seed in range(10):
        cluster = Cluster(names, seed)
        cluster.kill("n1")
        cluster.run(3000)
        copied: list[str] = []
        send = cluster._send  # pyright: ignore[reportPrivateUsage]

        def watched(sender: str, to: str, data: bytes, send: Any = send, copied: list[str] = copied) -> None:
            if sender == "n2" and any(isinstance(message, Copy) for message in decode_frame(data).messages):
                copied.append(to)
            send(sender, to, data)

        cluster._send = watched  # pyright: ignore[reportPrivateUsage]
        cluster.slow["n2", "n3"] = 100  # nothing is lost or cut: the decision only comes later than the donor dies
        cluster.start("n1")
        cluster.run_until(lambda copied=copied: bool(copied), 30_000)
        cluster.run(5)
        cluster.kill("n2")
        cluster.run(300)
        assert {name: cluster.node(name).database.active() for name in ("n1", "n3")} == {
            "n1": ("n1", "n3"),
            "n3": ("n1", "n3"),
        }, seed
        cluster.ask("n3", "write", "registers", "k", seed)
        assert cluster.ask("n1", "read", "registers", "k") == seed


def test_a_node_that_hears_of_no_donor_s_replicas_says_for_which_it_waits_and_asks_another_donor() -> None:
    sent: list[tuple[str, Message]] = []
    said: list[Effect] = []
    names = ("n1", "n2", "n3", "n4", "n5")
    database = Database("n1", names, 1, lambda low, _: low, lambda to, message: sent.append((to, message)), said.append)
    database.start(0)
    database.node_up("n2")
    database.received("n2", Announce(1, "running", ("n2", "n4"), True), 0)
    for now_ms in (20, 40):
        database.poll(now_ms)
    assert said == [Say("waits: n2 has replicas on n4, of which this node hears nothing")]
    database.node_up("n3")
    database.received("n3", Announce(1, "running", ("n2", "n3"), True), 50)
    database.poll(60)
    assert sent[-1] == ("n3", AskToJoin(database.run))
