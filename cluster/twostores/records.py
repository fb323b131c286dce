"""Records of the tables by which a node acts while they are in force; see `splitbrain.cluster.entities.inforce`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from splitbrain.cluster.commands import decode_value
from splitbrain.cluster.entities.paths import MAINTENANCE, OPERATOR_POLICIES, POLICIES, QUEUES
from splitbrain.cluster.migration.marker import PATH, marker_of
from splitbrain.cluster.tables.entities import layout
from splitbrain.cluster.tables.hosted import HostedReplica
from splitbrain.cluster.tables.records import Item
from splitbrain.cluster.tree import Path, Tree

_COMPONENTS: Final[Mapping[Path, str]] = {POLICIES: layout.POLICY, OPERATOR_POLICIES: layout.OPERATOR_POLICY}


class RecordsOfTables:
    """See the module.

    Args:
        replica: of the tables.
    """

    def __init__(self, replica: HostedReplica) -> None:
        self._replica = replica

    @property
    def changes(self) -> int:
        """How often this replica's records have changed."""
        return self._replica.changes

    def below(self, tree: Tree, path: Path) -> Sequence[Any] | None:
        """What the tables have instead of a path of the tree; None once the tree is in force."""
        found = tree.properties(PATH)
        marker = decode_value(found.payload) if found is not None and isinstance(found.payload, bytes) else None
        if marker_of(marker).tree_is_in_force:
            return None
        table, prefix = _place_of(path)
        tables = self._replica.database.tables
        return [value for key in tables.keys(table, prefix) for value in tables.read(Item(table, key))]


def _place_of(path: Path) -> tuple[str, str]:
    """The table of what is below a path, and how its keys begin."""
    if path == MAINTENANCE:
        return layout.MAINTENANCE, ""
    if path == QUEUES:
        return layout.QUEUE, ""
    return layout.PARAMETERS, layout.key(path[-1], _COMPONENTS[path[:-1]], "")
