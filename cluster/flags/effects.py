"""What the machine of feature flags wants done. Its shell does it once the record is durable."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from splitbrain.cluster.flags.messages import Message
from splitbrain.cluster.flags.record import OpId
from splitbrain.cluster.raft.messages import NodeId

Failed: TypeAlias = Literal[
    "unknown_flag",
    "experimental",
    "not_synchronised",
    "missing_nodes",
    "unsupported",
    "busy",
    "undone",
    "timeout",
]
"""Why a flag was not enabled; but "timeout" says that it may have been, or will be."""


class Send(msgspec.Struct, frozen=True):
    """Send a message to a member; it may be lost."""

    to: NodeId
    message: Message


class RunCallback(msgspec.Struct, frozen=True):
    """Do what enabling a flag takes on this node, and say so by `Flags.callback_done`; it may have been done before.

    Attributes:
        flag: its name.
        op: the change; None where the node joins.
    """

    flag: str
    op: OpId | None


class UndoCallback(msgspec.Struct, frozen=True):
    """Undo it: the flag stays disabled."""

    flag: str


class Answer(msgspec.Struct, frozen=True):
    """Answer a request: the flag is enabled, or why it is not."""

    request: int
    failed: Failed | None = None
    detail: str = ""
    enabled: bool = True


class StopNode(msgspec.Struct, frozen=True):
    """The node cannot be a part of this cluster."""

    why: str


class Say(msgspec.Struct, frozen=True):
    """A line for the log."""

    line: str


Effect: TypeAlias = Send | RunCallback | UndoCallback | Answer | StopNode | Say
