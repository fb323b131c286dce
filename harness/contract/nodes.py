"""Nodes and the links between them: names, places, commands, and what they and the operating system say of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

NodeId: TypeAlias = str


Link: TypeAlias = tuple[NodeId, NodeId]
"""A directed link (source, destination)."""


Address: TypeAlias = tuple[str, int]


class NodePlace(msgspec.Struct, frozen=True):
    """Where a backend puts one node.

    Attributes:
        node: its name.
        data_dir: a directory that outlives the node's process, as the node sees it.
        listen: the address on which the node serves peers and clients.
        peers: for every other node, the address under which this node reaches it (a proxy's, on some backends).
        home: where the node's program comes from: this machine's files and interpreter ("here"); a container of
            `Capabilities.image` ("image"); a machine on which `Capabilities.uploads` were laid ("host").
        home_dir: the directory on such a machine that holds the uploads; "" for the other homes.
    """

    node: NodeId
    data_dir: str
    listen: Address
    peers: Mapping[NodeId, Address]
    home: Literal["here", "image", "host"] = "here"
    home_dir: str = ""


class NodeCommand(msgspec.Struct, frozen=True):
    """How to run a node: arguments, extra environment, and files to lay into its data directory before each start."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    files: Mapping[str, bytes] = {}


class NodeView(msgspec.Struct, frozen=True):
    """What a node says of itself when asked.

    Attributes:
        node: its name.
        role: in the words of its system.
        term: its current term.
        leader: the leader of that term, if it knows one.
        commit_index: index of the last entry that it knows to be committed.
        applied_index: index of the last entry that it applied.
        received_bytes: how much of a snapshot has come, while the rest is under way; 0 for a system that does not say.
        queue_leaders: the nodes that lead a queue each, as far as it knows; none for a system that does not say.
        store_leader: the leader of the group that holds the metadata; None if that is `leader`, or unknown.
    """

    node: NodeId
    role: str
    term: int
    leader: NodeId | None
    commit_index: int = 0
    applied_index: int = 0
    received_bytes: int = 0
    queue_leaders: tuple[NodeId, ...] = ()
    store_leader: NodeId | None = None


class NodeStatus(msgspec.Struct, frozen=True):
    """The state of a node's process as the operating system reports it.

    `life` counts starts from 1; 0 means never started. `evidence` holds what was seen (pid, state letter, ...).
    """

    state: Literal["running", "paused", "stopped"]
    life: int
    evidence: Mapping[str, Any] = {}


class ClockOffset(msgspec.Struct, frozen=True):
    """How far the clocks of a node's host are ahead of the controller's, in nanoseconds.

    Attributes:
        mono_ns: CLOCK_MONOTONIC, which no fault bends. Between two machines any number.
        wall_ns: the wall clock of the host itself; a clock fault of the node comes on top.
        error_ns: how far either may be from the truth.
    """

    mono_ns: int = 0
    wall_ns: int = 0
    error_ns: int = 0
