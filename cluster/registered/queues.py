"""Functions that make and remove the record of a quorum queue (`splitbrain.cluster.queuegroups.records`)."""

from __future__ import annotations

from typing import Any, Final

from splitbrain.cluster.entities.paths import MAINTENANCE
from splitbrain.cluster.tree import Functions, Transaction

FUNCTIONS: Final = Functions()

_KEPT: Final = 16
"""Changes of members that a record names although they have ended."""


def _is_draining(tx: Transaction, node: str) -> bool:
    path = (*MAINTENANCE, node)
    return tx.exists(path) and tx.value(tx.get(path))["state"] == "draining"


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


@FUNCTIONS.register("declare_queue", version=2)
def declare_queue_with_target(tx: Transaction, data: Any) -> Any:
    """The same of `[name, config, dead_letter_to, candidates, size, most, target]`: None or how many live replicas."""
    target = data[6]
    made, record = declare_queue(tx, data[:6])
    if made and target is not None:
        record = {**record, "target": target}
        tx.put("/quorum_queues/" + data[0], record)
    return [made, record]


@FUNCTIONS.register("declare_queue", version=3)
def declare_queue_where_work_is_taken_on(tx: Transaction, data: Any) -> Any:
    """The same of `[..., target, nodes]`, the names of the tree nodes of the candidates' nodes.

    A candidate whose node is being drained becomes no member: there may be fewer than `size`, and the leader adds
    others later. Aborts with "draining" if the node of every candidate is being drained, and there is no such queue.
    """
    candidates, nodes = data[3], data[7]
    able = [member for member, node in zip(candidates, nodes, strict=True) if not _is_draining(tx, node)]
    if not able and not tx.exists("/quorum_queues/" + data[0]):
        tx.abort("draining")
    return declare_queue_with_target(tx, [*data[:3], able, *data[4:7]])


@FUNCTIONS.register("begin_queue_change", version=1)
def begin_queue_change(tx: Transaction, data: Any) -> Any:
    """Begin a change of members: `[name, group, last, kind, member, by, node, minds_draining]`; the outcome and number.

    `last` is the number of the last change that the caller knows of, None if that does not matter; `node` is the tree
    node's name of the member's node. Nothing is done, and the outcome says why, if another change is under way
    ("under_way") or has been since ("outdated"), if who joins is a member already ("already_member") or is being
    drained ("draining"), or if who leaves is no member ("not_member").
    """
    name, group, last, kind, member, by, node, minds_draining = data
    path = "/quorum_queues/" + name
    found = tx.value(tx.get(path))
    if found is None or found["group"] != group:
        return ["no_queue", 0]
    number = found.get("last_change", 0)
    if found.get("change") is not None:
        return ["under_way", number]
    if last is not None and last != number:
        return ["outdated", number]
    grows = kind == "grow"
    if (member in found["members"]) == grows:
        return ["already_member" if grows else "not_member", number]
    if grows and minds_draining and _is_draining(tx, node):
        return ["draining", number]
    change = {"number": number + 1, "kind": kind, "member": member, "by": by}
    members = [*found["members"], member] if grows else found["members"]
    last_declared, rewritten = tx.value(tx.get("/quorum_queues"))
    tx.put("/quorum_queues", [last_declared, rewritten + 1])
    tx.put(path, {**found, "members": members, "change": change, "last_change": number + 1})
    return ["begun", number + 1]


@FUNCTIONS.register("end_queue_change", version=1)
def end_queue_change(tx: Transaction, data: Any) -> Any:
    """End the change of members of a number: `[name, group, number, outcome, members of now]`; whether that did it."""
    name, group, number, outcome, members = data
    path = "/quorum_queues/" + name
    found = tx.value(tx.get(path))
    if found is None or found["group"] != group:
        return False
    change = found.get("change")
    if change is None or change["number"] != number:
        return False
    ended = [*found.get("changes", []), {**change, "outcome": outcome}][-_KEPT:]
    last, rewritten = tx.value(tx.get("/quorum_queues"))
    tx.put("/quorum_queues", [last, rewritten + 1])
    tx.put(path, {**found, "members": members, "change": None, "changes": ended})
    return True


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
