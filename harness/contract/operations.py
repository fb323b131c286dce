"""The groups of operations that a session may have, by name, and whether a session has them."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, TypeVar, cast

from splitbrain.harness.contract.brokers import (
    ClassicQueues,
    ExpiringQueues,
    LimitedQueues,
    MaintainedReplicas,
    Migration,
    OwnedQueues,
    Queues,
    ShortStreams,
    SingleActive,
    Streams,
    Topology,
)
from splitbrain.harness.contract.sessions import (
    Collections,
    Counters,
    CreatedKeys,
    FeatureFlags,
    FencedReads,
    Formation,
    KeyValue,
    LeaseLocks,
    Locks,
    Predicates,
    ProjectedRecords,
    ReadModes,
    Session,
    Transactions,
    Trees,
    Triggers,
)
from splitbrain.results import plugins
from splitbrain.results.errors import ProtocolError, UnknownNameError, UsageError

AnySession = TypeVar("AnySession", bound=Session)
SomeSession = TypeVar("SomeSession", bound=Session, covariant=True)


@dataclass(frozen=True)
class OperationGroup(Generic[SomeSession]):
    """A group of operations that a session may have.

    Attributes:
        name: as systems and workloads name it; "module:attribute" for a group of another package, where this value is.
        protocol: what a session with these operations can be asked.
    """

    name: str
    protocol: type[SomeSession]


CREATIONS: Final = OperationGroup("creations", CreatedKeys)
KEY_VALUE: Final = OperationGroup("key-value", KeyValue)
READ_MODES: Final = OperationGroup("read-modes", ReadModes)
FENCED_READS: Final = OperationGroup("fenced-reads", FencedReads)
COLLECTIONS: Final = OperationGroup("collections", Collections)
COUNTERS: Final = OperationGroup("counters", Counters)
TRIGGERS: Final = OperationGroup("triggers", Triggers)
TREES: Final = OperationGroup("trees", Trees)
PROJECTIONS: Final = OperationGroup("projections", ProjectedRecords)
LOCKS: Final = OperationGroup("locks", Locks)
LEASE_LOCKS: Final = OperationGroup("lease-locks", LeaseLocks)
TRANSACTIONS: Final = OperationGroup("transactions", Transactions)
PREDICATES: Final = OperationGroup("predicates", Predicates)
TOPOLOGY: Final = OperationGroup("topology", Topology)
OWNED_QUEUES: Final = OperationGroup("owned-queues", OwnedQueues)
MIGRATION: Final = OperationGroup("migration", Migration)
QUEUES: Final = OperationGroup("queues", Queues)
SINGLE_ACTIVE: Final = OperationGroup("single-active", SingleActive)
LIMITED_QUEUES: Final = OperationGroup("limited-queues", LimitedQueues)
MAINTAINED_REPLICAS: Final = OperationGroup("maintained-replicas", MaintainedReplicas)
EXPIRING_QUEUES: Final = OperationGroup("expiring-queues", ExpiringQueues)
CLASSIC_QUEUES: Final = OperationGroup("classic-queues", ClassicQueues)
STREAMS: Final = OperationGroup("streams", Streams)
SHORT_STREAMS: Final = OperationGroup("short-streams", ShortStreams)
FEATURE_FLAGS: Final = OperationGroup("feature-flags", FeatureFlags)
FORMATION: Final = OperationGroup("formation", Formation)

GROUPS: Final[Mapping[str, OperationGroup[Session]]] = {
    group.name: group
    for group in (
        *(
            CREATIONS,
            KEY_VALUE,
            READ_MODES,
            FENCED_READS,
            COLLECTIONS,
            COUNTERS,
            TRIGGERS,
            TREES,
            PROJECTIONS,
            LOCKS,
            LEASE_LOCKS,
            TRANSACTIONS,
            PREDICATES,
            TOPOLOGY,
            OWNED_QUEUES,
            MIGRATION,
            QUEUES,
            SINGLE_ACTIVE,
            LIMITED_QUEUES,
            MAINTAINED_REPLICAS,
            EXPIRING_QUEUES,
            CLASSIC_QUEUES,
            STREAMS,
            SHORT_STREAMS,
            FEATURE_FLAGS,
            FORMATION,
        ),
    )
}
"""The groups that splitbrain has itself, by name."""


def group_named(name: str) -> OperationGroup[Session]:
    """The group of operations of that name: one of `GROUPS`, or that of another package.

    Raises:
        UnknownNameError: there is none.
        UsageError: that of another package cannot be imported, or is none.
    """
    if name in GROUPS:
        return GROUPS[name]
    if not plugins.is_plugin("operations", name):
        raise UnknownNameError("group of operations", name, GROUPS)
    found: Any = plugins.find("operations", name, GROUPS)
    if not isinstance(found, OperationGroup):
        raise UsageError(
            f"operations {name!r} is {found!r:.80}, not an OperationGroup (splitbrain.harness.contract.operations)."
        )
    return cast("OperationGroup[Session]", found)


def included(operations: Collection[str]) -> frozenset[str]:
    """These groups of operations, and those whose operations they include: "creations" where there is "key-value".

    Raises:
        UnknownNameError, UsageError: as `group_named`.
    """
    protocols = {above for name in operations for above in group_named(name).protocol.__mro__}
    return frozenset(operations) | {group.name for group in GROUPS.values() if group.protocol in protocols}


@cache
def calls(protocol: type[Session]) -> Mapping[str, bool]:
    """The methods of a protocol by name, those of `Session` left out, and of each whether it is awaited."""
    return {
        name: inspect.iscoroutinefunction(method)
        for name, method in inspect.getmembers(protocol, inspect.isfunction)
        if not name.startswith("_") and name not in vars(Session)
    }


def lacking(session: object, group: OperationGroup[Session]) -> list[str]:
    """The methods of the group that a session, or a class of sessions, does not have."""
    return [name for name in calls(group.protocol) if not callable(getattr(session, name, None))]


def need(session: Session, group: OperationGroup[AnySession], system: str) -> AnySession:
    """The session, as one that has the operations of the group.

    Args:
        session: as `System.connect` returned it.
        group: what is needed of it.
        system: the system's name, for the error.

    Raises:
        ProtocolError: it does not have them.
    """
    missing = lacking(session, group)
    if missing:
        raise ProtocolError(
            f"system {system!r}: its sessions lack {', '.join(missing)} of the operations {group.name!r}. Give them "
            f"these methods, or use a workload that does not need {group.name!r}."
        )
    return cast("AnySession", session)
