"""Functions on the values of nodes: to read several at one moment, and to move and to exchange them."""

from __future__ import annotations

from typing import Any, Final

from splitbrain.cluster.tree import Functions, Refused, Transaction

FUNCTIONS: Final = Functions()


@FUNCTIONS.register("values", version=1)
def values(tx: Transaction, data: Any) -> Any:
    """The values of the nodes at these paths, None where there is none."""
    return [tx.value(tx.get(path)) for path in data]


@FUNCTIONS.register("move", version=1)
def move(tx: Transaction, data: Any) -> Any:
    """Move the value at `data["from"]` to `data["to"]`, where no node may be; the value.

    Aborts with "no source" or "target exists".
    """
    source, target = data["from"], data["to"]
    found = tx.get(source)
    if isinstance(found, Refused):
        tx.abort("no source")
    if tx.exists(target):
        tx.abort("target exists")
    value = tx.value(found)
    tx.delete(source)
    tx.put(target, value)
    return value


@FUNCTIONS.register("exchange", version=1)
def exchange(tx: Transaction, data: Any) -> Any:
    """Exchange the values of the nodes at two paths; both, as they are afterwards. Aborts with the path of none."""
    found = [tx.get(path) for path in data]
    for path, node in zip(data, found, strict=True):
        if isinstance(node, Refused):
            tx.abort(path)
    first, second = [tx.value(node) for node in found]
    tx.put(data[0], second)
    tx.put(data[1], first)
    return [second, first]
