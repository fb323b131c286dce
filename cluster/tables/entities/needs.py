"""What operations on tables need to be there."""

from __future__ import annotations

from typing import Any, Final

from splitbrain.cluster.entities.errors import NOT_FOUND
from splitbrain.cluster.tables.entities.layout import EXCHANGE, QUEUE, USER, VHOST
from splitbrain.cluster.tables.entities.transaction import TableTransaction

_KINDS: Final = {VHOST: "vhost", USER: "user", EXCHANGE: "exchange", QUEUE: "queue"}


def found_or_abort(tx: TableTransaction, table: str, key: str, name: str) -> Any:
    """The record of a key; without it the operation ends."""
    found = tx.get(table, key)
    if found is None:
        tx.abort([NOT_FOUND, _KINDS[table], name, ""])
    return found
