"""What a node has on disk of feature flags: which are enabled, and what it has said about changes under way.

name     := "flags"
file     := "SBFF" version:u32 checksum:u32 body           CRC-32 of the body
body     := a MessagePack map (`Record`)
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from splitbrain.cluster.log.whole import Form
from splitbrain.cluster.raft.messages import NodeId

FLAGS: Final = "flags"

_FORM: Final = Form(b"SBFF", 1)


class OpId(NamedTuple):
    """One change of one flag.

    Attributes:
        number: rises from change to change of a controller, over all its lives.
        controller: the member that began it.
    """

    number: int
    controller: NodeId


class Ballot(NamedTuple):
    """One attempt to decide a change; attempts are ordered. The controller's own is the first."""

    number: int
    proposer: NodeId


class Vote(NamedTuple):
    """What a member accepted."""

    ballot: Ballot
    enable: bool


class Pending(msgspec.Struct, frozen=True):
    """A change of which a member does not know yet how it was decided.

    Attributes:
        op: which it is.
        flag: its name.
        members: those that take part, sorted.
        marked: whether the flag changes here: the member has agreed to it. Without, it has only been asked how
            the change was decided.
        promised: the attempt that it takes part in.
        vote: what it accepted last.
    """

    op: OpId
    flag: str
    members: tuple[NodeId, ...]
    marked: bool
    promised: Ballot
    vote: Vote | None = None


class Record(msgspec.Struct, frozen=True):
    """All of it.

    Attributes:
        enabled: flags, sorted.
        pending: changes that are not decided, as far as is known here.
        closed: by controller the number of its last change that was decided, as far as is known here.
        last_op: the number of this member's own last change.
        synchronised: whether it has taken over what the cluster had enabled before it joined (FF-3).
    """

    enabled: tuple[str, ...] = ()
    pending: tuple[Pending, ...] = ()
    closed: dict[NodeId, int] = {}
    last_op: int = 0
    synchronised: bool = False

    def of(self, op: OpId) -> Pending | None:
        """What is pending of a change."""
        return next((each for each in self.pending if each.op == op), None)


def is_changing(record: Record, flag: str) -> bool:
    """Whether a member has agreed to a change of the flag that is not decided, as far as it knows."""
    return any(pending.marked and pending.flag == flag for pending in record.pending)


def encode_record(record: Record) -> bytes:
    """The content of the file."""
    return _FORM.encode(record)


def decode_record(content: bytes) -> Record:
    """What a file holds.

    Raises:
        StorageError: it is damaged, or of another version.
    """
    return _FORM.decode(content, FLAGS, Record)
