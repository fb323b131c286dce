"""A function for transactions on the objects of a small universe, and for predicate reads of them."""

from __future__ import annotations

from typing import Any

from splitbrain.cluster.tree import Functions, Transaction


def functions() -> Functions:
    """The function."""
    found = Functions()
    found.add("objects", 1, objects)
    return found


def objects(tx: Transaction, data: Any) -> Any:
    """Do reads and writes of the objects below a path in order: `[path, [[f, key, value], ...]]`.

    f is one of "r", "rp", "w", "insert" and "delete"; the key of "rp" is a predicate: "true", ["=", value] or
    ["mod", divisor, rest]. For each, what was read (of "rp" a mapping from keys to values), or what was written.
    """
    universe, steps = data
    done: list[Any] = []
    for f, key, value in steps:
        if f == "rp":
            done.append(_matching(tx, universe, key))
        elif f == "r":
            done.append(tx.value(tx.get(universe + "/" + key)))
        elif f == "w" or f == "insert":
            tx.put(universe + "/" + key, value)
            done.append(value)
        elif f == "delete":
            tx.delete(universe + "/" + key)
            done.append(None)
        else:
            tx.abort("micro-operations on objects are r, rp, w, insert and delete")
    return done


def _matching(tx: Transaction, universe: Any, predicate: Any) -> Any:
    found: dict[str, Any] = {}
    for node in tx.get_many(universe + "/*"):
        value = tx.value(node)
        if value is not None and _matches(predicate, value):
            found[node.path[-1]] = value
    return found


def _matches(predicate: Any, value: Any) -> bool:
    if predicate == "true":
        return True
    if predicate[0] == "=":
        return value == predicate[1]
    return value % predicate[1] == predicate[2]
