"""What clients ask about the stores of a node that has two (`splitbrain.cluster.twostores`), and what it answers."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

StoreName: TypeAlias = Literal["tables", "tree", "none", "unknown"]
"""The store in force: none while a migration is at its end, unknown where the node cannot say."""

MigrationRefused: TypeAlias = Literal["migration_refused"]


class Migrate(msgspec.Struct, frozen=True, array_like=True, tag="migrate"):
    """Have all entities moved to the tree, and the feature flag enabled that stands for it; answered by a `StoresState`
    once the tree is in force."""


class RollBack(msgspec.Struct, frozen=True, array_like=True, tag="roll_back"):
    """Have the tables in force again, if nothing has changed in the tree; answered by a `StoresState`."""


class StoresQuery(msgspec.Struct, frozen=True, array_like=True, tag="stores"):
    """Query what a node knows of both stores; answered by a `StoresState`."""


class StoresState(msgspec.Struct, frozen=True, array_like=True, tag="stores_state"):
    """Both stores as one node knows them.

    Attributes:
        store: which is in force.
        marker: what the tree says of the migration, "unknown" where the node cannot read it.
        step: of a migration that this node runs now, "" if it runs none.
        written: whether the tree was changed since it is in force: then there is no way back.
        keeps_tables: whether the tables are kept for a rollback.
        flag: the state of the feature flag on this node.
        phase: of the node's replica of the tables: stopped, waiting or running; "none" if it has none.
        replicas: all nodes with a replica, sorted.
        active: those with which this one shares its tables.
        partitions: those that run apart from it.
    """

    store: StoreName
    marker: str
    step: str
    written: bool
    keeps_tables: bool
    flag: str
    phase: str
    replicas: tuple[str, ...]
    active: tuple[str, ...]
    partitions: tuple[str, ...]


def tree_alone(flag: str) -> StoresState:
    """What a node says that has no tables; `flag` is the state of the feature flag on it."""
    return StoresState("tree", "idle", "", False, False, flag, "none", (), (), ())


StoresBody: TypeAlias = Migrate | RollBack | StoresQuery
