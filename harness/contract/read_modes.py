"""Read modes: what a system is asked to promise of its reads.

A test has one of `ReadMode` for all its reads, never both. Sessions with the operations `read-modes` have several
kinds of reads at once, each with a promise of its own (`ReadPromise`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

ReadMode: TypeAlias = Literal["linearizable", "serializable"]

LINEARIZABLE: Final = "linearizable"
"""A read sees every op that ended before it began."""

SERIALIZABLE: Final = "serializable"
"""A read is answered by one node from what it has, and may be stale (etcd's word for it)."""

READ: Final = "read"
READ_LEADER: Final = "read-leader"
READ_LOCAL: Final = "read-local"
READ_AFTER: Final = "read-after"
READ_FENCED: Final = "read-fenced"

LOOK_UP: Final = "read-projected"
"""Of a record in a table that the node of the client has (operations `projections`)."""

SESSION_READS: Final = (READ, READ_LEADER, READ_LOCAL, READ_AFTER, READ_FENCED)
"""Kinds of reads that one session may mix (operations `read-modes`), by the functions of their ops."""

Linearizable: TypeAlias = Literal["always", "one leader", "never"]


@dataclass(frozen=True, kw_only=True)
class ReadPromise:
    """What a system promises of one kind of its reads.

    Attributes:
        line: who answers, and from what.
        linearizable: whether such reads are linearizable, with all writes and with each other; "one leader": as long as
            one leader leads all the time.
        follows: functions of the same session than whose versions such a read never returns an older one; "write"
            stands for every change (read your writes), other names for reads (monotonic reads).
        same_term: whether that holds only among answers of one term.
        needs_quorum: whether a node that reaches no majority cannot answer.
    """

    line: str
    linearizable: Linearizable = "never"
    follows: tuple[str, ...] = ()
    same_term: bool = False
    needs_quorum: bool = False


def answered_alone(reads: Mapping[str, ReadPromise]) -> frozenset[str]:
    """The functions that a node answers without a majority (`Elections.local`)."""
    return frozenset(f for f, promise in reads.items() if not promise.needs_quorum)
