"""Which nodes are being drained, as the metadata note it: for those who ask without the entities' own modules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

PATH: Final = (":rabbit", ":maintenance")
"""Below it each node that was drained once has a record (`splitbrain.cluster.entities.records.Maintenance`)."""

ASK: Final = ("maintenance_drained", 1)
"""The registered function that gives their names, of the store in force: tree or tables."""


def drained(records: Iterable[Any]) -> frozenset[str]:
    """Names of the nodes that are being drained, by the values of these records."""
    return frozenset(record["node"] for record in records if record["state"] == "draining")
