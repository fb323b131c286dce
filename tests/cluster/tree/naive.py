"""A model of the tree that is as simple as can be: nested dicts, written from KH-1 to KH-8, D14 and D15 alone.

It looks at the whole tree where the store looks at what a command touched, and copies the whole tree where the store
takes changes back. Values are small integers; a node is a dict of its payload, versions, what keeps it, and children.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str, ...]
Node: TypeAlias = dict[str, Any]
Test: TypeAlias = tuple[str, Any]
"""What a condition asks: ("exists", yes), ("has_payload", yes), ("data", value), ("children", count),
("payload_version", n), ("child_list_version", n), ("not", test), ("all", tests), ("any", tests)."""

Kept: TypeAlias = tuple[tuple[Path, Test], ...]


def new_node(payload: Any, *, implicit: bool) -> Node:
    return {"payload": payload, "pv": 1, "clv": 1, "implicit": implicit, "kept": (), "children": {}}


def holds(test: Test, node: Node | None) -> bool:
    kind, wanted = test
    if kind == "not":
        return not holds(wanted, node)
    if kind == "all":
        return all(holds(inner, node) for inner in wanted)
    if kind == "any":
        return any(holds(inner, node) for inner in wanted)
    if kind == "exists":
        return wanted == (node is not None)
    if node is None:
        return False
    if kind == "has_payload":
        return wanted == (node["payload"] is not None)
    if kind == "data":
        return node["payload"] == wanted
    if kind == "children":
        return len(node["children"]) == wanted
    return {"payload_version": node["pv"], "child_list_version": node["clv"]}[kind] == wanted


def holds_of_nothing(test: Test) -> bool:
    """Of a path that leads nowhere only a condition holds that asks for that."""
    kind, wanted = test
    if kind == "exists":
        return not wanted
    if kind == "not":
        inner = _short(wanted)
        return inner[0] == "exists" and inner[1]
    if kind == "all":
        return bool(wanted) and all(map(holds_of_nothing, wanted))
    return kind == "any" and any(map(holds_of_nothing, wanted))


def _short(test: Test) -> Test:
    """`all` and `any` of one condition are that condition (Khepri compiles them so)."""
    kind, wanted = test
    return _short(wanted[0]) if kind in ("all", "any") and len(wanted) == 1 else test


class Naive:
    """The model."""

    def __init__(self) -> None:
        self.root = new_node(None, implicit=False)

    def find(self, path: Path) -> Node | None:
        node = self.root
        for name in path:
            if name not in node["children"]:
                return None
            node = node["children"][name]
        return node

    def all(self) -> Iterator[tuple[Path, Node]]:
        pending: list[tuple[Path, Node]] = [((), self.root)]
        while pending:
            path, node = pending.pop()
            yield path, node
            pending.extend(((*path, name), child) for name, child in node["children"].items())

    def shape(self) -> dict[Path, tuple[Any, int, int, int]]:
        return {path: (node["payload"], node["pv"], node["clv"], len(node["children"])) for path, node in self.all()}

    # --- operations: what they answer is the reason of a refusal, or the paths that went ------------------------------

    def put(self, path: Path, payload: Any, test: Test | None = None, kept: Kept | None = None) -> str | list[Path]:
        found = self.find(path)
        if test is not None:
            if found is None and not _may_create(test):
                return "node_not_found"
            if found is not None and not holds(test, found):
                return "mismatching_node"
        for watched, condition in kept or ():
            exempt = found is None and watched[: len(path)] == path
            if not exempt and not self._is_met(watched, condition):
                return "keep_while_conditions_not_met"
        return self._operation(lambda: self._put(path, payload, kept))

    def _put(self, path: Path, payload: Any, kept: Kept | None) -> Path | None:
        node, created = self.root, None
        for depth, name in enumerate(path, start=1):
            if name not in node["children"]:
                is_last = depth == len(path)
                node["children"][name] = new_node(payload if is_last else None, implicit=not is_last)
                created = path
            node = node["children"][name]
        if created is None and node["payload"] != payload:
            node["payload"] = payload
            node["pv"] += 1
        if kept is not None:
            node["kept"], node["implicit"] = kept, False
        return created

    def put_children(self, parent: Path, payload: Any) -> str | list[Path]:
        """Put to all children of a node."""

        def change() -> None:
            found = self.find(parent)
            for name in [] if found is None else list(found["children"]):
                self._put((*parent, name), payload, None)

        return self._operation(change)

    def delete(self, path: Path, test: Test | None = None) -> list[Path]:
        found = self.find(path)
        if found is None or (test is not None and not holds(test, found)):
            return []
        return self._operation(lambda: self._delete(path))

    def delete_children(self, parent: Path) -> list[Path]:
        """Remove all children of a node."""

        def change() -> None:
            found = self.find(parent)
            for name in [] if found is None else list(found["children"]):
                self._delete((*parent, name))

        return self._operation(change)

    def _delete(self, path: Path) -> None:
        if path:
            parent = self.find(path[:-1])
            assert parent is not None
            del parent["children"][path[-1]]
            return
        if self.root["payload"] is not None:
            self.root["payload"] = None
            self.root["pv"] += 1
        self.root["children"] = {}

    def transaction(self, operations: list[Callable[[Naive], object]], *, aborts: bool) -> None:
        before = copy.deepcopy(self.root)
        for operation in operations:
            operation(self)
        if aborts:
            self.root = before

    # --- what keeps nodes ---------------------------------------------------------------------------------------------

    def _operation(self, change: Callable[[], Path | None]) -> list[Path]:
        before = copy.deepcopy(self)
        bumped: dict[Path, None] = {}
        touched: set[Path] = set()  # also what the operation made and removed again
        last = copy.deepcopy(self)
        created = change()
        while True:
            self._bump(last, bumped)
            paths = {path for state in (last, self) for path, _ in state.all()}
            touched |= {path for path in paths if last._seen(path) != self._seen(path)}
            last = copy.deepcopy(self)
            ending = [path for path, node in self.all() if path and self._ends(touched, path, node, created)]
            if not ending:
                return sorted(path for path, _ in before.all() if self.find(path) is None)
            for path in sorted(ending):
                if self.find(path) is not None:
                    self._delete(path)

    def _bump(self, last: Naive, bumped: dict[Path, None]) -> None:
        """A list of children that changed has a new version, once in an operation, and not if its node is new."""
        for path, node in self.all():
            old = last.find(path)
            if old is None:
                bumped[path] = None
            elif path not in bumped and list(old["children"]) != list(node["children"]):
                node["clv"] += 1
                bumped[path] = None

    def _ends(self, touched: set[Path], path: Path, node: Node, created: Path | None) -> bool:
        if node["implicit"] and not node["children"] and node["payload"] is None:
            return True
        # Conditions are looked at, all of a node's together, when what one of them watches was touched (khepri_tree).
        if not any(watched in touched for watched, _ in node["kept"]):
            return False
        return not all(
            (path == created and watched[: len(path)] == path) or self._is_met(watched, condition)
            for watched, condition in node["kept"]
        )

    def _seen(self, path: Path) -> object:
        node = self.find(path)
        return None if node is None else (node["payload"], node["pv"], node["clv"], sorted(node["children"]))

    def _is_met(self, watched: Path, condition: Test) -> bool:
        node = self.find(watched)
        return holds_of_nothing(condition) if node is None else holds(condition, node)


def _may_create(test: Test) -> bool:
    kind, wanted = test
    if kind == "exists":
        return not wanted
    if kind == "all":
        return all(map(_may_create, wanted))
    return kind == "any" and any(map(_may_create, wanted))
