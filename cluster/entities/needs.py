"""What operations need to be there: looked up in the transaction that relies on it."""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from splitbrain.cluster.entities.errors import NOT_FOUND
from splitbrain.cluster.tree import Refused


def found_or_abort(tx: Any, path: Any, kind: str, name: str) -> Any:
    """The value of a node; without it the transaction ends."""
    found = tx.get(path)
    if isinstance(found, Refused):
        tx.abort([NOT_FOUND, kind, name, ""])
    return tx.value(found)


def found_or_none(tx: Any, path: Any) -> Any:
    """The value of a node, None if there is none."""
    found = tx.get(path)
    return None if isinstance(found, Refused) else tx.value(found)
