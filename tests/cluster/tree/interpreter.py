"""The registered functions of the conformance cases: what their transactions, procedures and projections do.

They are held to the rules of all registered functions (`splitbrain.cluster.tree.determinism`).
"""

# JSON has no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from splitbrain.cluster.tree import NO_PAYLOAD, FoundNode, Functions, Nodes, Procedure, Transaction

FUNCTIONS = Functions()


def _payload(op: Any) -> Any:
    if "data" in op["payload"]:
        return op["payload"]["data"]
    given = op["payload"]["is"]
    return NO_PAYLOAD if given is None else Procedure(given[1], given[2], given[3])


def _write(tx: Transaction, op: Any) -> Any:
    name, path, returns, kept = op["op"], op["path"], op["returns"], op["keep_while"]
    if name in ("clear_payload", "clear_many_payloads"):
        clear = tx.clear if name == "clear_payload" else tx.clear_many
        return clear(path, returns=returns)
    if name in ("delete", "delete_many"):
        delete = tx.delete if name == "delete" else tx.delete_many
        return delete(path, returns=returns)
    value = _payload(op)
    if name == "compare_and_swap":
        return tx.compare_and_swap(path, op["pattern"], value, keep_while=kept, returns=returns)
    put = {"put": tx.put, "put_many": tx.put_many, "create": tx.create, "update": tx.update}[name]
    return put(path, value, keep_while=kept, returns=returns)


def _nodes(tx: Transaction, op: Any) -> tuple[FoundNode, ...]:
    return tx.get_many(op["path"], returns=op["returns"], one_only=op["one_only"], include_root=op["include_root"])


def _read(tx: Transaction, op: Any) -> Any:
    name = op["op"]
    if name == "get":
        return tx.get_nodes(op["path"], returns=op["returns"]) if op.get("adv") else tx.get(op["path"])
    if name == "get_or":
        found = tx.get(op["path"])
        has_value = isinstance(found, FoundNode) and found.payload is not None
        return found if has_value else ["default", op["default"]]
    if name in ("get_many", "get_many_or"):
        nodes = _nodes(tx, op)
        return Nodes(nodes, len(nodes))
    if name == "count":
        return ["value", tx.count(op["path"], include_root=op["include_root"])]
    if name == "is_empty":
        return ["value", tx.is_empty()]
    if name == "is_transaction":
        return ["value", True]
    asked = {"exists": tx.exists, "has_data": tx.has_data, "is_sproc": tx.is_procedure}[name]
    return ["value", asked(op["path"])]


def _called(tx: Transaction, fun: Any) -> None:
    """What a callback that does not return does."""
    if isinstance(fun, dict) and "abort" in fun:
        tx.abort(fun["abort"])
    if isinstance(fun, dict) and "throw" in fun:
        raise ValueError(fun["throw"])


def _fold(tx: Transaction, op: Any) -> Any:
    nodes = tx.get_many(op["path"])
    for node in nodes:
        _called(tx, op["fun"])
        if op["op"] == "foreach":
            was = tx.value(node)
            tx.put(node.path, "foreach_value2" if was == "foreach_value1" else "foreach_value1")
    return ["done"] if op["op"] == "foreach" else ["folded", op["op"], Nodes(nodes, len(nodes))]


def _operate(tx: Transaction, op: Any) -> Any:
    name = op["op"]
    if name == "abort":
        return tx.abort(op["reason"])
    if name in ("fold", "foreach", "map", "filter"):
        return _fold(tx, op)
    if name in (
        "get",
        "get_or",
        "get_many",
        "get_many_or",
        "count",
        "is_empty",
        "is_transaction",
        "exists",
        "has_data",
        "is_sproc",
    ):
        return _read(tx, op)
    return _write(tx, op)


@FUNCTIONS.register("conformance.ops", version=1)
def transaction(tx: Transaction, data: Any) -> Any:
    """Carry out operations; the result of the last one, or a given value."""
    result: Any = None
    for op in data["ops"]:
        result = _operate(tx, op)
    returns = data["returns"]
    return ["last", result] if returns == "last" else ["given", returns["value"]]


@FUNCTIONS.register("conformance.stored", version=1)
def stored(tx: Transaction, data: Any, arguments: Any) -> Any:
    """A stored procedure."""
    if "tx" in data:
        return transaction(tx, data["tx"])
    if "raises" in data:
        raise ValueError("as asked")
    if "report" in data:
        return {"report": data["report"], "as": data.get("as"), "event": arguments}
    return data.get("returns")


def _shown(name: str) -> Any:
    return name[1:] if name.startswith(":") else {"$bin": name}


@FUNCTIONS.register("conformance.pair", version=1)
def pair(path: tuple[str, ...], value: Any) -> Any:
    """The record of a simple projection."""
    return [{"$list": [_shown(name) for name in path]}, value]


@FUNCTIONS.register("conformance.elements", version=1)
def elements(table: Any, path: tuple[str, ...], before: Any, after: Any) -> None:
    """A record for each element of a list."""
    key = {"$list": [_shown(name) for name in path]}
    for element in [] if before is None else before["value"]["$list"]:
        table.delete_record([key, element])
    for element in [] if after is None else after["value"]["$list"]:
        table.insert([key, element])


@FUNCTIONS.register("conformance.every_table", version=1)
def every_table(tables: Any, path: tuple[str, ...], before: Any, after: Any) -> None:
    """The same record in each table."""
    key = {"$list": [_shown(name) for name in path]}
    for table in tables if isinstance(tables, list) else [tables]:
        table.delete(key)
        if after is not None and after["has_data"]:
            table.insert([key, after["value"]])


@FUNCTIONS.register("conformance.raises", version=1)
def raises(path: tuple[str, ...], value: Any) -> Any:
    """A function that fails."""
    raise ValueError("as asked")
