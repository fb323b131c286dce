"""Commands that change the tree, queries that look at it, and their results: what stands in the log and on the wire."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from splitbrain.cluster.tree.paths import Path

# --- commands and queries -----------------------------------------------------------------------------------------


class Put(msgspec.Struct, frozen=True, array_like=True, tag="put"):
    """Set the payload of a node, which is created, with its missing parents, if there is none (KH-4)."""

    path: Path
    payload: bytes | None


class Create(msgspec.Struct, frozen=True, array_like=True, tag="create"):
    """Put, on condition that the node does not exist."""

    path: Path
    payload: bytes | None


class Update(msgspec.Struct, frozen=True, array_like=True, tag="update"):
    """Put, on condition that the node exists."""

    path: Path
    payload: bytes | None


class CompareAndSwap(msgspec.Struct, frozen=True, array_like=True, tag="cas"):
    """Put, on condition that the node exists and has exactly the payload `expected`."""

    path: Path
    expected: bytes
    payload: bytes | None


class Delete(msgspec.Struct, frozen=True, array_like=True, tag="delete"):
    """Remove a node and everything below it; explicit parents stay. No error if there is none.

    Of the root, which always exists, the payload and the children are removed.
    """

    path: Path


class Increment(msgspec.Struct, frozen=True, array_like=True, tag="increment"):
    """Add to the payload of a node, a whole number in msgpack; a missing node counts as 0, and is created."""

    path: Path
    by: int


class Get(msgspec.Struct, frozen=True, array_like=True, tag="get"):
    """Query the properties of a node."""

    path: Path


class Children(msgspec.Struct, frozen=True, array_like=True, tag="children"):
    """Query the names of a node's direct children."""

    path: Path


class Project(msgspec.Struct, frozen=True, array_like=True, tag="project"):
    """Look up the record of a node in a projection, as the member that is asked holds it."""

    projection: str
    path: Path


Command: TypeAlias = Put | Create | Update | CompareAndSwap | Delete | Increment
Query: TypeAlias = Get | Children


# --- results ------------------------------------------------------------------------------------------------------


class Properties(msgspec.Struct, frozen=True, array_like=True):
    """What a tree node looks like from outside."""

    payload: bytes | None
    payload_version: int
    child_list_version: int
    child_list_length: int


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """The command was carried out, or the query found its node. `properties` is None where no node is left."""

    properties: Properties | None


class Names(msgspec.Struct, frozen=True, array_like=True, tag="names"):
    """Names of direct children, sorted."""

    names: tuple[str, ...]


class NodeNotFound(msgspec.Struct, frozen=True, array_like=True, tag="node_not_found"):
    """There is no node at the path."""

    path: Path


class MismatchingNode(msgspec.Struct, frozen=True, array_like=True, tag="mismatching_node"):
    """The node at the path does not meet the condition; `properties` are those of the node that was found."""

    path: Path
    properties: Properties


class ManyNodesDenied(msgspec.Struct, frozen=True, array_like=True, tag="possibly_matching_many_nodes_denied"):
    """The path is a pattern."""

    path: Path


class InvalidCommand(msgspec.Struct, frozen=True, array_like=True, tag="invalid_command"):
    """The bytes are no command of this version."""

    problem: str


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag="forgotten"):
    """A copy of a command came after its client had said that no copy would; it had no effect."""

    number: int


class TooManyRefs(msgspec.Struct, frozen=True, array_like=True, tag="too_many_refs"):
    """There is no room to keep the result of the command, which therefore was not carried out."""

    limit: str


Result: TypeAlias = (
    Done | Names | NodeNotFound | MismatchingNode | ManyNodesDenied | InvalidCommand | Forgotten | TooManyRefs
)

_encoder = msgspec.msgpack.Encoder()


def encode_command(command: msgspec.Struct) -> bytes:
    """A command as it stands in the log (`splitbrain.cluster.dedup.LogCommand`)."""
    return _encoder.encode(command)
