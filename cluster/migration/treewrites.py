"""How a migration writes to the tree: registered functions, each of which looks at the marker in its own transaction.

A process that lost its migration, since others took it for dead, so writes nothing more: also not what is still on its
way to the tree.
"""

# A transaction reads values of any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Final

from splitbrain.cluster.entities.needs import found_or_none
from splitbrain.cluster.entities.paths import THERE
from splitbrain.cluster.entities.store import Operation
from splitbrain.cluster.migration.marker import PATH
from splitbrain.cluster.tree import Functions

READ: Final = Operation("migration_marker", 1)
SWAP: Final = Operation("migration_swap", 1)
WRITE: Final = Operation("migration_write", 1)
CLEAR: Final = Operation("migration_clear", 1)


def read_marker(tx: Any, data: Any) -> Any:  # noqa: ARG001 - as every operation
    """The marker, None before the first migration."""
    return found_or_none(tx, PATH)


def swap_marker(tx: Any, data: Any) -> Any:
    """Change the marker if it is as expected; whether it was, and the one that is there now."""
    found = found_or_none(tx, PATH)
    if found != data["expected"]:
        return [False, found]
    tx.put(PATH, data["wanted"])
    return [True, data["wanted"]]


def write(tx: Any, data: Any) -> Any:
    """Write what converters said, in order; False, and no change, if the marker is another one."""
    if found_or_none(tx, PATH) != data["marker"]:
        return False
    for each in data["writes"]:
        path = each["path"]
        if each["do"] == "delete":
            tx.delete(path)
        elif each["do"] == "unbind":
            _unbind(tx, path, each["value"]["arguments"])
        elif all(map(tx.exists, each["needs"])):
            kept = [(needed, THERE) for needed in each["needs"]]
            if each["do"] == "bind":
                _bind(tx, each, kept)
            else:
                kept = kept + [(other, THERE) for other in each["if_there"] if tx.exists(other)]
                tx.put(path, each["value"], keep_while=kept)
    return True


def clear(tx: Any, data: Any) -> Any:
    """Remove all that a migration has written; False, and no change, if the marker is another one."""
    if found_or_none(tx, PATH) != data["marker"]:
        return False
    for root in data["roots"]:
        tx.delete(root)
    return True


def _bind(tx: Any, each: Any, kept: Any) -> None:
    path, value = each["path"], each["value"]
    found = found_or_none(tx, path)
    arguments = [] if found is None else [other for other in found["arguments"] if other != value["arguments"]]
    tx.put(path, {**value, "arguments": sorted([*arguments, value["arguments"]])}, keep_while=kept)
    source = each["needs"][0]
    exchange = found_or_none(tx, source)
    if exchange["auto_delete"]:
        # From now on it goes with its last binding.
        tx.put(source, exchange, keep_while=[(each["vhost"], THERE), (path[:4], THERE)])


def _unbind(tx: Any, path: Any, arguments: Any) -> None:
    found = found_or_none(tx, path)
    if found is None:
        return
    left = [other for other in found["arguments"] if other != arguments]
    if left:
        tx.put(path, {**found, "arguments": left})
    else:
        tx.delete(path)


FUNCTIONS: Final = ((READ, read_marker), (SWAP, swap_marker), (WRITE, write), (CLEAR, clear))


def add_functions(functions: Functions) -> None:
    """Register them.

    Raises:
        FunctionRefusedError: there are functions of these names already.
    """
    for operation, function in FUNCTIONS:
        functions.add(operation.name, operation.version, function)
