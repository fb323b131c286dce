"""Functions for transactions of micro-operations, and for those that read, compute, and write if nothing changed since.

What a client does by itself between its reads and its writes cannot be a function. So it reads values with their
versions (`versions`), computes, and has the writes carried out under the condition that the versions are the same
(`conditional`): optimistic concurrency control. Versions count changes of a payload, and begin anew where a node was
deleted: of what is deleted they are no proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from splitbrain.cluster.bugs import M90, M91, M94, NO_BUGS, Bugs
from splitbrain.cluster.tree import Functions, Refused, Transaction, Value


def functions(bugs: Bugs = NO_BUGS) -> Functions:
    """The functions, or what is broken on purpose instead."""
    found = Functions()
    found.add("mops", 1, mops)
    found.add("versions", 1, versions)
    found.add("conditional", 1, _conditional(bugs))
    return found


def mops(tx: Transaction, data: Any) -> Any:
    """Do reads, writes and appends in order: `[[f, path, value], ...]`, f one of "r", "w", "append".

    For each, what was read (None if there is none), or what was written or appended.
    """
    done: list[Any] = []
    for f, path, value in data:
        if f == "r":
            done.append(tx.value(tx.get(path)))
            continue
        if f == "w":
            tx.put(path, value)
        elif f == "append":
            held = tx.value(tx.get(path))
            tx.put(path, [value] if held is None else [*held, value])
        else:
            tx.abort("micro-operations are r, w and append")
        done.append(value)
    return done


def versions(tx: Transaction, data: Any) -> Any:
    """For each of these paths the value, and its version: None and 0 where there is none."""
    found: list[Any] = []
    for path in data:
        node = tx.get(path)
        found.append([None, 0] if isinstance(node, Refused) else [tx.value(node), node.payload_version])
    return found


def conditional(tx: Transaction, data: Any) -> Any:
    """Write, if versions are the same: `[[path, version, writes, value], ...]`, a version of None for any.

    Aborts with "conflict" where one is not.
    """
    for path, version, writes, value in data:
        if version is not None and _version(tx, path) != version:
            tx.abort("conflict")
        if writes:
            tx.put(path, value)
    return True


def _version(tx: Transaction, path: str) -> Any:
    node = tx.get(path)
    return 0 if isinstance(node, Refused) else node.payload_version


# --- what is broken on purpose --------------------------------------------------------------------------------------


def _conditional(bugs: Bugs) -> Any:
    for bug, broken in ((M90, _unvalidated), (M91, _half_validated), (M94, _never_tried_again)):
        if bug in bugs:
            return broken
    return conditional


def _unvalidated(tx: Transaction, data: Any) -> Any:
    for path, _, writes, value in data:
        if writes:
            tx.put(path, value)
    return True


def _half_validated(tx: Transaction, data: Any) -> Any:
    for place, (path, version, writes, value) in enumerate(data):
        if place % 2 == 0 and version is not None and _version(tx, path) != version:
            tx.abort("conflict")
        if writes:
            tx.put(path, value)
    return True


def mixed(outcome: Any, here: Sequence[Any]) -> Any:
    """The first of the values that a query of the leader gave, and the others of what it gave here, if it gave any."""
    if not here or not isinstance(outcome, Value) or not isinstance(here[0], Value):
        return outcome
    found, other = (msgspec.msgpack.decode(each.data) for each in (outcome, here[0]))
    if not isinstance(found, list) or not isinstance(other, list):
        return outcome
    return Value(msgspec.msgpack.encode([*found[:1], *other[1:]]))


def _never_tried_again(tx: Transaction, data: Any) -> Any:
    if all(version is None or _version(tx, path) == version for path, version, _, _ in data):
        for path, _, writes, value in data:
            if writes:
                tx.put(path, value)
    return True
