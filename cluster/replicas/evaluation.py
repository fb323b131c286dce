"""What is to be done next about the members of a queue, by the node that leads it (S001; CMR-2, D7).

There is one change at a time, which stands in the record of the queue from its beginning to its end, whether an
operator or the leader began it: so two leaders, or an operator and a leader, cannot change members at the same time,
and each step can be taken again by the next leader. A member is in the record before it is in the group, so that its
node has begun to take part; and it is out of the group before it is out of the record. Its node keeps its data until
the queue is deleted: it may join again, and an old record, which did not name it yet, would look the same.

By itself a leader begins a change, in this order, only if it is not being drained:

1. A member that left the cluster leaves the queue (`auto_remove`).
2. With fewer live replicas than the target one member of the cluster joins that runs and is not being drained, if a
   majority of the voters runs.
3. A member that was down for long leaves once there are enough live ones without it: it was replaced (`auto_remove`).

No member leaves unless a majority of those that are left runs. Replicas beyond the target stay.
"""

from __future__ import annotations

from splitbrain.cluster.bugs import M76, M76B, M76C
from splitbrain.cluster.queuegroups.records import Change
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.replicas.placement import Placement
from splitbrain.cluster.replicas.situation import Situation
from splitbrain.cluster.replicas.steps import Begin, End, HandOver, Join, Leave, Rewrite, Step


def next_step(facts: Situation, placement: Placement) -> Step | None:
    """What is to be done next, None if nothing is."""
    if facts.me in facts.draining:
        handed = _hand_over(facts)
        if handed is not None:
            return handed
    change = facts.record.change
    if change is not None:
        return _go_on(facts, change)
    if facts.me not in facts.draining:
        begun = _begin(facts, placement)
        if begun is not None:
            return begun
    members = _recorded(facts)
    return Rewrite(members) if members != facts.record.members else None


def _hand_over(facts: Situation) -> HandOver | None:
    able = [each for each in facts.group.voters if each in facts.running and each not in facts.draining]
    return HandOver(able[0]) if able else None


# --- a change that is under way ---------------------------------------------------------------------------------------


def _go_on(facts: Situation, change: Change) -> Step | None:
    return _grow(facts, change) if change.kind == "grow" else _shrink(facts, change)


def _grow(facts: Situation, change: Change) -> Step | None:
    member = change.member
    if member in facts.group.voters:
        return _end(facts, change, "done")
    if member in facts.group:  # as a learner, which has no vote: it may go at any time
        has_failed = member in facts.failed or member not in facts.cluster
        return Leave(member) if has_failed else None
    problem = _why_not_there(facts, member)
    if problem is not None:
        return _end(facts, change, problem)
    return Join(member) if facts.has_majority and member in facts.running else None


def _why_not_there(facts: Situation, member: NodeId) -> str | None:
    """Why a member will not join; one that does not run just now may be back in a moment."""
    if member not in facts.cluster:
        return "no_member_of_the_cluster"
    if member in facts.draining and M76 not in facts.bugs:
        return "draining"
    return "not_running" if member in facts.failed else None


def _shrink(facts: Situation, change: Change) -> Step | None:
    member = change.member
    if member not in facts.group:
        return _end(facts, change, "done")
    if member in facts.group.learners:
        return Leave(member)
    if not facts.holds_without(member):
        return _end(facts, change, "no_majority_without_it")
    is_dangling = member not in facts.cluster
    left = sum(1 for each in facts.counted if each != member)
    if left < facts.wanted and not is_dangling and M76C not in facts.bugs:
        return _end(facts, change, "below_target")
    return Leave(member)


def _end(facts: Situation, change: Change, outcome: str) -> End:
    return End(change.number, outcome, _recorded(facts))


def _recorded(facts: Situation) -> tuple[NodeId, ...]:
    """The members of the group, in the order of the record."""
    named = tuple(member for member in facts.record.members if member in facts.group)
    return (*named, *(member for member in facts.group.members if member not in named))


# --- to begin one -----------------------------------------------------------------------------------------------------


def _begin(facts: Situation, placement: Placement) -> Begin | None:
    if M76C in facts.bugs:
        return _remove_dangling(facts) or _remove_failed(facts) or _add(facts, placement)
    return _remove_dangling(facts) or _add(facts, placement) or _remove_failed(facts)


def _remove_dangling(facts: Situation) -> Begin | None:
    if not facts.auto_remove:
        return None
    for member in facts.record.members:  # of others this node's metadata may not know yet that they came
        is_dangling = member in facts.group and member not in facts.cluster
        if is_dangling and len(facts.group.members) > 1 and facts.holds_without(member):
            return Begin("shrink", member)
    return None


def _add(facts: Situation, placement: Placement) -> Begin | None:
    too_few = len(facts.counted) < facts.wanted + (1 if M76B in facts.bugs else 0)
    if not (too_few and facts.has_majority and _may_begin(facts)):
        return None
    candidates = [
        member
        for member in sorted(facts.cluster.voters)
        if member not in facts.group and member in facts.running and (member not in facts.draining or M76 in facts.bugs)
    ]
    return Begin("grow", placement(candidates, facts)) if candidates else None


def _remove_failed(facts: Situation) -> Begin | None:
    if facts.target is None or not facts.auto_remove or not _may_begin(facts):
        return None
    is_replaced = len(facts.counted) >= facts.target or M76C in facts.bugs
    for member in facts.group.voters if is_replaced else ():
        if member in facts.failed and facts.holds_without(member):
            return Begin("shrink", member)
    return None


def _may_begin(facts: Situation) -> bool:
    """A queue without a target follows the cluster at once."""
    return facts.target is None or facts.is_due
