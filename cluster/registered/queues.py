"""Functions that make and remove the record of a quorum queue (`splitbrain.cluster.queuegroups.records`)."""

from __future__ import annotations

from typing import Any, Final

from splitbrain.cluster.tree import Functions, Transaction

FUNCTIONS: Final = Functions()


@FUNCTIONS.register("declare_queue", version=1)
def declare_queue(tx: Transaction, data: Any) -> Any:
    """Make the record of a queue: `[name, config, dead_letter_to, candidates, size, most]`.

    Members are the first candidate, and others in turn from one number to the next. Gives whether there was none, and
    the record that is there now. Aborts with "too_many" if there are `most` queues.
    """
    name, config, dead_letter_to, candidates, size, most = data
    path = "/quorum_queues/" + name
    found = tx.value(tx.get(path))
    if found is not None:
        return [False, found]
    if tx.count("/quorum_queues/*") >= most:
        tx.abort("too_many")
    last = tx.value(tx.get("/quorum_queues"))
    number, rewritten = (1, 0) if last is None else (last[0] + 1, last[1])
    others = candidates[1:]
    begin = number % len(others) if others else 0
    members = [candidates[0], *others[begin:], *others[:begin]][:size]
    record = {
        "group": "queue." + str(number),
        "founders": members,
        "members": members,
        "size": size,
        "config": config,
        "dead_letter_to": dead_letter_to,
    }
    tx.put("/quorum_queues", [number, rewritten])
    tx.put(path, record)
    return [True, record]


@FUNCTIONS.register("forget_queue", version=1)
def forget_queue(tx: Transaction, data: Any) -> Any:
    """Remove the record of `[name, group]`; whether it was there. A later queue of that name stays."""
    name, group = data
    path = "/quorum_queues/" + name
    found = tx.value(tx.get(path))
    if found is None or found["group"] != group:
        return False
    tx.delete(path)
    return True


@FUNCTIONS.register("rewrite_queue_members", version=1)
def rewrite_queue_members(tx: Transaction, data: Any) -> Any:
    """Let the record of a queue name other members: `[name, group, those of before, those of now]`; whether it does.

    Nothing is done if it does not name those of before any more.
    """
    name, group, before, now = data
    path = "/quorum_queues/" + name
    found = tx.value(tx.get(path))
    if found is None or found["group"] != group or found["members"] != before:
        return False
    last, rewritten = tx.value(tx.get("/quorum_queues"))
    tx.put("/quorum_queues", [last, rewritten + 1])
    tx.put(path, {**found, "members": now})
    return True


@FUNCTIONS.register("name_queue_leader", version=1)
def name_queue_leader(tx: Transaction, data: Any) -> Any:
    """Let the record of a queue name its leader: `[name, group, leader]`; whether it did not before."""
    name, group, leader = data
    path = "/quorum_queues/" + name
    found = tx.value(tx.get(path))
    if found is None or found["group"] != group or found.get("leader") == leader:
        return False
    last, rewritten = tx.value(tx.get("/quorum_queues"))
    tx.put("/quorum_queues", [last, rewritten + 1])
    tx.put(path, {**found, "leader": leader})
    return True
