"""A node that joins: what reaches it before the copy of the tables does."""

from __future__ import annotations

from splitbrain.cluster.tables.database import GRACE_MS, Database
from splitbrain.cluster.tables.locks import Tid
from splitbrain.cluster.tables.messages import Announce, AskLock, AskToJoin, Copy, Message
from splitbrain.cluster.tables.records import Item


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
