"""What is stored of each entity: the payload of its tree node, which its records in projections repeat.

Names stand in it as they are; in paths and keys they are encoded (`splitbrain.cluster.entities.names`). Arguments are
bytes in one encoding, so that they compare with their types: 1, 1.0 and true are three values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

ExchangeType: TypeAlias = Literal["direct", "fanout", "topic", "headers"]
DestinationKind: TypeAlias = Literal["queue", "exchange"]
NodeState: TypeAlias = Literal["regular", "draining"]
AppliesTo: TypeAlias = Literal["all", "queues", "exchanges"]

NO_ARGUMENTS: Final = b"\x80"
"""None, encoded."""


class Vhost(msgspec.Struct, frozen=True):
    """A virtual host: a space of names of its own."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()


class User(msgspec.Struct, frozen=True):
    """An internal user. The password comes hashed."""

    name: str
    password_hash: str = ""
    tags: tuple[str, ...] = ()


class Permission(msgspec.Struct, frozen=True):
    """What a user may do in a virtual host: regular expressions of names of queues and exchanges."""

    vhost: str
    user: str
    configure: str
    write: str
    read: str


class TopicPermission(msgspec.Struct, frozen=True):
    """Which routing keys of a topic exchange a user may use: regular expressions."""

    vhost: str
    user: str
    exchange: str
    write: str
    read: str


class Exchange(msgspec.Struct, frozen=True):
    """An exchange.

    Attributes:
        vhost: where it is.
        name: of it.
        type: how it routes.
        durable: whether it is to stay when the cluster is started anew.
        auto_delete: whether it goes with its last binding, once it had one.
        internal: whether clients may not publish to it.
        arguments: encoded.
    """

    vhost: str
    name: str
    type: ExchangeType
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: bytes = NO_ARGUMENTS


class Queue(msgspec.Struct, frozen=True):
    """A queue.

    Attributes:
        vhost: where it is.
        name: of it.
        durable: whether it outlives a restart of its node; else it is transient (DB-5).
        auto_delete: whether it goes with its last consumer.
        owner: the connection that it is exclusive to, and goes with (DB-6); None for none.
        node: the cluster node that it lives on; of a transient one with the life of that node, with which it ends
            (`splitbrain.cluster.lives`).
        arguments: encoded.
    """

    vhost: str
    name: str
    durable: bool = True
    auto_delete: bool = False
    owner: str | None = None
    node: str = ""
    arguments: bytes = NO_ARGUMENTS


class Binding(msgspec.Struct, frozen=True):
    """A binding. Two of the same ends and routing key that differ in arguments are two bindings (DB-3)."""

    vhost: str
    source: str
    kind: DestinationKind
    destination: str
    key: str = ""
    arguments: bytes = NO_ARGUMENTS


class Parameter(msgspec.Struct, frozen=True):
    """A runtime parameter of a component in a virtual host."""

    vhost: str
    component: str
    name: str
    value: Any


class GlobalParameter(msgspec.Struct, frozen=True):
    """A runtime parameter of the whole cluster."""

    name: str
    value: Any


class Policy(msgspec.Struct, frozen=True):
    """Settings of the queues and exchanges whose names match.

    Attributes:
        vhost: where it holds.
        name: of it.
        pattern: a regular expression that is found in the names of those that it is for.
        definition: settings by key, e.g. `{"delivery-limit": 10}`.
        priority: of several policies that match, the one of the highest priority counts.
        apply_to: which entities.
    """

    vhost: str
    name: str
    pattern: str
    definition: Mapping[str, Any]
    priority: int = 0
    apply_to: AppliesTo = "all"


class Maintenance(msgspec.Struct, frozen=True):
    """Whether a node of the cluster takes on work."""

    node: str
    state: NodeState
