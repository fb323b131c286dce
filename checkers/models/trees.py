"""A small tree of named nodes with versions, as the rules say it (KH-1 to KH-8, D14 to D16).

Written from these rules alone: it looks at the whole tree where a store looks at what an op touched.

    put [path, n, condition, keep]   condition null, ["create"], ["update"], ["version", v] or ["swap", n];
                                     keep null or [path, yes]: the node is kept while that exists, or does not; of a
                                     path that ends in * one child has to exist, or none; with [path, yes, d, v]
                                     only one counts of which the first d names lead to a node of payload version v
    delete [path, condition]         a path that ends in * stands for all children; condition null or ["version", v]
    get path                         -> [n, payload version, child list version, number of children], or null
    list                             -> [[path, n, payload version, child list version, number of children], ...]
    txn [[f, path, n], ...]          put, create, update, delete or get, in this order; all of them or none

Paths are `a/b`; n stands for a payload. A put or delete gives `["ok", [[path, n, payload version, child list version,
reason], ...]]`: nodes that were put, with the payload before, and nodes that were removed, with the reason (`explicit`
or `keep_while`). Or it gives why it did nothing: `["node_not_found"]`, `["mismatching_node", payload version]` or
`["keep_while_conditions_not_met"]`. A txn gives `["ok", [n, ...]]`, what its gets found, or `["aborted", step]`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

from splitbrain.checkers.models.model import IMPOSSIBLE, UNKNOWN, Special, State

Path: TypeAlias = tuple[str, ...]
Kept: TypeAlias = tuple[Path, bool] | tuple[Path, bool, int, int]
Removed: TypeAlias = dict[Path, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Attributes:
        payload: its number, None for none.
        payload_version: of it.
        child_list_version: of its list of children.
        is_implicit: whether it was made because a node below it was put, and goes when it has nothing left (D14).
        kept: what keeps it: a path, whose last component may be *, and whether that has to exist; there may be a number
            of its components, and the payload version that the node there has to have.
    """

    payload: Any
    payload_version: int = 1
    child_list_version: int = 1
    is_implicit: bool = False
    kept: Kept | None = None


@dataclass(slots=True)
class _Operation:
    """One operation on a tree (KH-1: a version of a list rises once in it)."""

    nodes: dict[Path, Node]
    before: dict[Path, Node] = field(default_factory=dict[Path, Node])
    removed: Removed = field(default_factory=dict[Path, "tuple[Any, ...]"])

    def begin(self) -> None:
        self.before, self.removed = dict(self.nodes), {}

    def children(self, path: Path) -> list[Path]:
        return sorted(other for other in self.nodes if other[:-1] == path and other)

    def is_met(self, kept: Kept) -> bool:
        """Whether what is to keep a node holds."""
        path, yes, *on = kept
        there = bool(self.children(path[:-1])) if path[-1] == "*" else path in self.nodes
        for depth, version in [on] if on else []:
            there = there and self.nodes[path[:depth]].payload_version == version
        return there == yes

    def put(self, path: Path, payload: Any, kept: Kept | None) -> None:
        for depth in range(1, len(path)):
            if path[:depth] not in self.nodes:
                self.nodes[path[:depth]] = Node(None, is_implicit=True)
                self._list_changed(path[: depth - 1])
        found = self.nodes.get(path)
        if found is None:
            self.nodes[path] = Node(payload, kept=kept)
            self._list_changed(path[:-1])
            return
        version = found.payload_version + (found.payload != payload)
        found = replace(found, payload=payload, payload_version=version)
        self.nodes[path] = found if kept is None else replace(found, kept=kept, is_implicit=False)

    def delete(self, path: Path, reason: str) -> None:
        if path not in self.nodes:
            return
        for other in [other for other in self.nodes if other[: len(path)] == path]:
            gone = self.nodes.pop(other)
            self.removed[other] = (gone.payload, gone.payload_version, gone.child_list_version, reason)
        self._list_changed(path[:-1])

    def settle(self) -> None:
        """Remove what nothing keeps any more, and what nothing keeps after that (KH-7)."""
        while ending := sorted(path for path in self.nodes if self._is_unkept(path)):
            for path in ending:
                self.delete(path, "keep_while")

    def _is_unkept(self, path: Path) -> bool:
        node = self.nodes[path]
        if node.is_implicit and node.payload is None and not self.children(path):
            return True
        return node.kept is not None and not self.is_met(node.kept)

    def _list_changed(self, path: Path) -> None:
        before, now = self.before.get(path), self.nodes.get(path)
        if before is not None and now is not None:
            self.nodes[path] = replace(now, child_list_version=before.child_list_version + 1)


class Tree:
    """A small tree of nodes; see the module."""

    name = "tree"
    fs = frozenset({"put", "delete", "get", "list", "txn"})

    def init(self) -> State:
        """No node."""
        return ()

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """The tree afterwards, if the op gives this result."""
        operation = _Operation(dict(cast("tuple[tuple[Path, Node], ...]", state)))
        given = _carry_out(operation, f, value)
        if result is not UNKNOWN and result != given:
            return IMPOSSIBLE
        return state if f in ("get", "list") else tuple(sorted(operation.nodes.items(), key=lambda item: item[0]))

    def result(self, state: State, f: str, value: Any) -> Any:
        """What the op gives in that state, which is the only result that it can have there."""
        return _carry_out(_Operation(dict(cast("tuple[tuple[Path, Node], ...]", state))), f, value)

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """A get and a list do, and what was refused or aborted."""
        refused = isinstance(result, tuple) and cast("tuple[Any, ...]", result)[:1] not in ((), ("ok",))
        return f in ("get", "list") or refused


def _carry_out(operation: _Operation, f: str, value: Any) -> Any:
    match f:
        case "put":
            path, payload, condition, keep = value
            return _put(operation, _path(path), payload, condition, keep)
        case "delete":
            return _delete(operation, *value)
        case "get":
            found = operation.nodes.get(_path(value))
            return None if found is None else _seen(operation, _path(value), found)
        case "list":
            return tuple(
                ("/".join(path), *_seen(operation, path, node)) for path, node in sorted(_items(operation.nodes))
            )
        case _:
            return _transact(operation, value)


def _items(nodes: dict[Path, Node]) -> list[tuple[Path, Node]]:
    return [(path, nodes[path]) for path in sorted(nodes)]


def _seen(operation: _Operation, path: Path, node: Node) -> tuple[Any, ...]:
    return node.payload, node.payload_version, node.child_list_version, len(operation.children(path))


def _put(operation: _Operation, path: Path, payload: Any, condition: Any, keep: Any) -> tuple[Any, ...]:
    found = operation.nodes.get(path)
    refused = _refusal(found, condition)
    if refused is not None:
        return refused
    kept = None if keep is None else cast("Kept", (_path(keep[0]), bool(keep[1]), *keep[2:]))
    if kept is not None and not operation.is_met(kept):
        return ("keep_while_conditions_not_met",)
    operation.begin()
    operation.put(path, payload, kept)
    after = operation.nodes[path]
    operation.settle()
    was = None if found is None else found.payload
    return _changed(operation, {path: (was, after.payload_version, after.child_list_version, None)})


def _refusal(found: Node | None, condition: Any) -> tuple[Any, ...] | None:
    """Why a write with this condition does nothing."""
    if condition is None:
        return None
    kind, *given = condition
    if kind == "create":
        return None if found is None else ("mismatching_node", found.payload_version)
    if found is None:
        return ("node_not_found",)
    holds = {"update": True, "version": [found.payload_version] == given, "swap": [found.payload] == given}[kind]
    return None if holds else ("mismatching_node", found.payload_version)


def _delete(operation: _Operation, text: str, condition: Any) -> tuple[Any, ...]:
    path = _path(text)
    paths = operation.children(path[:-1]) if path[-1:] == ("*",) else [path] if path in operation.nodes else []
    operation.begin()
    for each in paths:
        # Of a delete a condition that does not hold is no error (D15).
        if condition is None or operation.nodes[each].payload_version == condition[1]:
            operation.delete(each, "explicit")
    operation.settle()
    return _changed(operation, {})


def _changed(operation: _Operation, put: Removed) -> tuple[Any, ...]:
    changed = {**put, **operation.removed}
    return "ok", tuple(("/".join(path), *changed[path]) for path in sorted(changed))


def _transact(operation: _Operation, steps: Any) -> tuple[Any, ...]:
    nodes = dict(operation.nodes)
    gets: list[Any] = []
    for number, (f, text, payload) in enumerate(steps):
        path = _path(text)
        if f == "get":
            found = operation.nodes.get(path)
            gets.append(None if found is None else found.payload)
            continue
        if f == "delete":
            result = _delete(operation, text, None)
        else:
            result = _put(operation, path, payload, None if f == "put" else (f,), None)
        if result[0] != "ok":
            operation.nodes = nodes
            return "aborted", number
    return "ok", tuple(gets)


def _path(text: str) -> Path:
    return tuple(text.split("/"))
