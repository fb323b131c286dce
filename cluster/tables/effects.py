"""What a node of the table store wants done. Its shell does it in this order."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from splitbrain.cluster.tables.coordinator import End
from splitbrain.cluster.tables.messages import Frame
from splitbrain.cluster.tables.observed import Observed
from splitbrain.cluster.tables.records import Change, Contents


class SendFrame(msgspec.Struct, frozen=True):
    """Send a frame to a node; it may be lost."""

    to: str
    frame: Frame


class LogChanges(msgspec.Struct, frozen=True):
    """Append what was committed to the journal."""

    changes: tuple[Change, ...]


class LogActive(msgspec.Struct, frozen=True):
    """Append to the journal which replicas are up."""

    active: tuple[str, ...]


class ReplaceAll(msgspec.Struct, frozen=True):
    """Begin the journal anew, with these tables and replicas."""

    contents: Contents
    active: tuple[str, ...]


class Reply(msgspec.Struct, frozen=True):
    """Answer a request: once everything before this effect is durable, if that changed something."""

    request: int
    end: End


class Listen(msgspec.Struct, frozen=True):
    """Serve clients from now on; or do not, and end their connections, as RabbitMQ does when it pauses."""

    on: bool


class Say(msgspec.Struct, frozen=True):
    """A line for the log."""

    line: str


Effect: TypeAlias = SendFrame | LogChanges | LogActive | ReplaceAll | Reply | Listen | Say | Observed
