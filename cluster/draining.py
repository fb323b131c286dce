"""Which nodes are being drained, as the metadata note it: for those who read the tree without the entities in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

PATH: Final = (":rabbit", ":maintenance")
"""Below it each node that was drained once has a record (`splitbrain.cluster.entities.records.Maintenance`)."""


def drained(records: Iterable[Any]) -> frozenset[str]:
    """Names of the nodes that are being drained, by the values of these records."""
    return frozenset(record["node"] for record in records if record["state"] == "draining")
