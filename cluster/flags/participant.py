"""A member's part in changes of feature flags: what it agrees to, accepts, and learns. Pure: record in, record out.

It is a participant of the change: it marks the flag, does what that takes, and says so. And it is an acceptor of the
decision: it takes part in the latest attempt that it has heard of, and says what it accepted in earlier ones.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from splitbrain.cluster.flags.messages import (
    Accept,
    Accepted,
    Decided,
    Mark,
    Marked,
    Message,
    Outbid,
    Prepare,
    Promise,
    Refused,
)
from splitbrain.cluster.flags.record import Ballot, OpId, Pending, Record, Vote
from splitbrain.cluster.flags.registry import Registry
from splitbrain.cluster.raft.messages import NodeId


class Step(NamedTuple):
    """What came of a message.

    Attributes:
        record: what is to be durable now, before the answer is sent.
        answer: to the sender.
    """

    record: Record
    answer: Message


def first_ballot(op: OpId) -> Ballot:
    """The controller's own attempt."""
    return Ballot(0, op.controller)


def decision_known(record: Record, op: OpId, flag: str) -> Decided | None:
    """How a change was decided, if it is known here.

    A flag that is enabled was decided to be, and stays: whichever change it was that enabled it.
    """
    if record.of(op) is not None or op.number > record.closed.get(op.controller, 0):
        return None
    return Decided(op, flag, flag in record.enabled)


def marked(record: Record, asked: Mark, registry: Registry, members: tuple[NodeId, ...], *, is_ready: bool) -> Step:
    """The controller asks for agreement.

    Args:
        record: what is durable.
        asked: for what.
        registry: the flags that this member knows.
        members: those in the configuration that is in force here.
        is_ready: whether what the change takes is done here.
    """
    op = asked.op
    known = decision_known(record, op, asked.flag)
    if known is not None:
        return Step(record, known)
    present = record.of(op)
    if present is not None and present.promised > first_ballot(op):
        return Step(record, Refused(op, "taken_over", "another member finishes the change"))
    if present is not None:
        return Step(record, Marked(op, is_ready))
    refusal = _refusal(record, asked, registry, members)
    if refusal is not None:
        return Step(record, refusal)
    pending = Pending(op, asked.flag, asked.members, True, first_ballot(op))
    return Step(structs.replace(record, pending=(*record.pending, pending)), Marked(op, is_ready))


def _refusal(record: Record, asked: Mark, registry: Registry, members: tuple[NodeId, ...]) -> Refused | None:
    op, flag = asked.op, asked.flag
    if not record.synchronised:
        return Refused(op, "not_synchronised", "the member has not taken over yet which flags are enabled")
    if record.pending:
        return Refused(op, "busy", f"{record.pending[0].flag} is being changed by {record.pending[0].op.controller}")
    if flag not in registry:
        return Refused(op, "unsupported", f"its program does not know {flag}")
    if not set(members) <= set(asked.members):
        return Refused(op, "members_changed", f"it knows other members: {', '.join(members)}")
    missing = [name for name in registry[flag].depends_on if name not in record.enabled]
    if missing:
        return Refused(op, "failed", f"{flag} depends on {', '.join(missing)}, which is not enabled here")
    return None


def promised(record: Record, asked: Prepare) -> Step:
    """A member that takes over begins an attempt."""
    known = decision_known(record, asked.op, asked.flag)
    if known is not None:
        return Step(record, known)
    pending = record.of(asked.op) or _unmarked(asked)
    if asked.ballot < pending.promised:
        return Step(record, Outbid(asked.op, pending.promised))
    kept = _kept(record, structs.replace(pending, promised=asked.ballot))
    return Step(kept, Promise(asked.op, asked.ballot, pending.vote))


def accepted(record: Record, asked: Accept) -> Step:
    """An attempt proposes how to decide."""
    known = decision_known(record, asked.op, asked.flag)
    if known is not None:
        return Step(record, known)
    pending = record.of(asked.op) or _unmarked(asked)
    if asked.ballot < pending.promised:
        return Step(record, Outbid(asked.op, pending.promised))
    voted = structs.replace(pending, promised=asked.ballot, vote=Vote(asked.ballot, asked.enable))
    return Step(_kept(record, voted), Accepted(asked.op, asked.ballot))


def _unmarked(asked: Prepare | Accept) -> Pending:
    """Of a change that the member has not agreed to: it will not, since a later attempt than the first began."""
    return Pending(asked.op, asked.flag, asked.members, False, first_ballot(asked.op))


def _kept(record: Record, pending: Pending) -> Record:
    others = tuple(each for each in record.pending if each.op != pending.op)
    return structs.replace(record, pending=(*others, pending))


def closed(record: Record, decided: Decided) -> Record:
    """The record once a decision is known."""
    op = decided.op
    enabled = {*record.enabled, decided.flag} if decided.enable else set(record.enabled)
    return structs.replace(
        record,
        enabled=tuple(sorted(enabled)),
        pending=tuple(each for each in record.pending if each.op != op),
        closed={**record.closed, op.controller: max(op.number, record.closed.get(op.controller, 0))},
    )
