"""What the metadata say of queues: a record for each, which one transaction makes and one removes (QQ-8).

    /quorum_queues          the number of the queue that was declared last, which no other queue has or will have; and
                            how many records were rewritten
    /quorum_queues/NAME     the record

As a number and its record come in one command, a node that has applied a number has applied what became of its record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from splitbrain.cluster.commands import decode_value
from splitbrain.cluster.queues import QueueConfig
from splitbrain.cluster.tree import Children, Names, Path, Tree

PATH: Final[Path] = ("quorum_queues",)

DECLARE: Final = ("declare_queue", 3)
FORGET: Final = ("forget_queue", 1)
REWRITE: Final = ("rewrite_queue_members", 1)
NAME_LEADER: Final = ("name_queue_leader", 1)
BEGIN_CHANGE: Final = ("begin_queue_change", 1)
END_CHANGE: Final = ("end_queue_change", 1)
"""Registered functions, with their versions (`splitbrain.cluster.registered.queues`)."""

DELIVERY_LIMIT: Final = 20
"""Where a declaration says none (D18)."""

GROUP_SIZE: Final = 3

_NAME: Final = re.compile("[A-Za-z0-9._-]{1,128}")


ChangeKind: TypeAlias = Literal["grow", "shrink"]
"""A member joins, or leaves."""

Author: TypeAlias = Literal["automation", "operator"]


class Change(msgspec.Struct, frozen=True):
    """A change of the members of a queue, of which there is one at a time.

    Attributes:
        number: 1 for the first of the queue.
        kind: of change.
        member: who joins or leaves.
        by: who began it.
        outcome: "done", or why it came to nothing; None while it is under way.
    """

    number: int
    kind: ChangeKind
    member: str
    by: Author
    outcome: str | None = None


class QueueRecord(msgspec.Struct, frozen=True):
    """A queue, as it was declared.

    Attributes:
        group: that replicates it.
        founders: ids of the members with which the group began.
        members: ids of those that take part, or are about to, or have just left.
        size: how many there are to be.
        config: of its machine.
        dead_letter_to: name of the queue that gets dead letters, None for none.
        leader: id of the member that led it when it was noted last; None: none was yet (QQ-9).
        target: how many live replicas it is to have, as it was declared; None: that is left to policies (CMR-1).
        last_change: the number of the change of members that began last, 0 if none has.
        change: the one that is under way.
        changes: the last ones that have ended, the oldest first.
    """

    group: str
    founders: tuple[str, ...]
    members: tuple[str, ...]
    size: int
    config: QueueConfig
    dead_letter_to: str | None = None
    leader: str | None = None
    target: int | None = None
    last_change: int = 0
    change: Change | None = None
    changes: tuple[Change, ...] = ()


def name_problem(name: str) -> str | None:
    """What is wrong with the name of a queue, None if it is in order."""
    if _NAME.fullmatch(name):
        return None
    return f"a queue has a name of 1 to 128 letters, digits, dots, dashes and underscores, unlike {name!r}"


def record_of(value: Any) -> QueueRecord:
    """The record that stands in the metadata.

    Raises:
        msgspec.ValidationError: it is none.
    """
    return msgspec.convert(value, QueueRecord)


def last_number(tree: Tree) -> int:
    """The number of the queue that was declared last, 0 if none ever was."""
    found = tree.properties(PATH)
    return 0 if found is None or not isinstance(found.payload, bytes) else int(decode_value(found.payload)[0])


def records_in(tree: Tree) -> Iterator[tuple[str, QueueRecord]]:
    """All queues with their names, sorted."""
    found = tree.query(Children(PATH))
    for name in found.names if isinstance(found, Names) else ():
        record = record_at(tree, name)
        if record is not None:
            yield name, record


def record_at(tree: Tree, name: str) -> QueueRecord | None:
    """The record of a queue, None if there is no such queue."""
    found = tree.properties((*PATH, name))
    if found is None or not isinstance(found.payload, bytes):
        return None
    return record_of(decode_value(found.payload))
