"""Commands with patterns (KH-4, KH-5, KH-7): they find their nodes first, then change them, or nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from splitbrain.cluster.errors import InvalidPathError
from splitbrain.cluster.tree.conditions import IfNodeExists, allows_creation, target
from splitbrain.cluster.tree.keepwhile import resolved, unmet_conditions
from splitbrain.cluster.tree.messages import (
    ClearNodes,
    DeleteNodes,
    FoundNode,
    KeepWhile,
    Nodes,
    PutNodes,
    Refused,
    Result,
)
from splitbrain.cluster.tree.nodes import Node
from splitbrain.cluster.tree.paths import Path
from splitbrain.cluster.tree.patterns import Pattern, combined, compiled
from splitbrain.cluster.tree.payloads import Properties
from splitbrain.cluster.tree.reads import shown
from splitbrain.cluster.tree.state import TreeState
from splitbrain.cluster.tree.walk import MAX_VISITED, Missing, PatternRefusedError, find_one, matching, not_found, steps

MAX_RETURNED: Final = 4_096
"""Nodes in the answer to a command; it may be kept with the command's ref."""

MAX_KEEP_WHILE: Final = 64
"""Conditions that keep a node."""

Write: TypeAlias = PutNodes | ClearNodes | DeleteNodes


def execute_write(tree: TreeState, command: Write) -> Result:
    """Carry out a command; one that is refused changes nothing."""
    try:
        pattern = compiled(command.path)
        match command:
            case DeleteNodes():
                return _delete(tree, pattern, command)
            case PutNodes():
                return _put(tree, pattern, command)
            case ClearNodes():
                return _clear(tree, pattern, command)
    except InvalidPathError as error:
        return Refused("invalid_path", detail=str(error))
    except PatternRefusedError as error:
        return error.refused


def _clear(tree: TreeState, pattern: Pattern, command: ClearNodes) -> Result:
    existing = compiled(combined(pattern, (IfNodeExists(True),)))
    put = PutNodes(existing, None, command.many, command.keep_while, command.returns, command.indirect)
    try:
        return _put(tree, existing, put)
    except PatternRefusedError as error:
        if error.refused.reason != "node_not_found":
            raise
        return Nodes((), 0)


def _put(tree: TreeState, pattern: Pattern, command: PutNodes) -> Result:
    if command.keep_while is not None and len(command.keep_while) > MAX_KEEP_WHILE:
        return Refused("invalid_options", pattern, detail=f"a node is kept by at most {MAX_KEEP_WHILE} conditions")
    if not command.many and not all(target(component) is not None for component in pattern):
        return Refused("possibly_matching_many_nodes_denied", pattern)
    paths = list(dict.fromkeys(_targets(tree.root, pattern)))
    kept = {path: _kept(tree, path, command.keep_while) for path in paths}
    before = {path: tree.properties(path) for path in paths}
    for path in paths:
        tree.put(path, command.payload, kept[path])
    after = {path: tree.properties(path) for path in paths}
    tree.settle()
    changed = {path: _old_and_new(before[path], after[path]) for path in paths}
    return _answer(tree, command, changed)


def _old_and_new(before: Properties | None, after: Properties | None) -> Properties:
    """The payload that a node had, with its versions after the put."""
    assert after is not None, "what was just put is there"
    payload = None if before is None else before.payload
    return Properties(payload, after.payload_version, after.child_list_version, after.child_list_length)


def _targets(root: Node, pattern: Pattern) -> Iterator[Path]:
    """The paths to put to.

    Raises:
        PatternRefusedError: what is named does not meet its condition, or is not there and may not be created.
    """
    for step in steps(root, pattern, most=MAX_VISITED):
        match step:
            case Node():
                yield step.path
            case Refused():
                raise PatternRefusedError(step)
            case Missing(parent, at):
                missing = pattern[at:]
                for depth, component in enumerate(missing):
                    if not allows_creation(component) and target(component) is not None:
                        above = tuple(filter(None, map(target, missing[:depth])))
                        raise PatternRefusedError(_not_found_below(parent, pattern, at, above))
                names = [target(component) for component in missing]
                if None not in names:
                    yield (*parent.path, *(name for name in names if name is not None))


def _not_found_below(parent: Node, pattern: Pattern, at: int, above: tuple[str, ...]) -> Refused:
    refused = not_found(parent, pattern, at + len(above))
    return Refused(refused.reason, (*parent.path, *above, refused.path[-1]), refused.is_target, refused.condition)


def _kept(tree: TreeState, path: Path, keep_while: tuple[KeepWhile, ...] | None) -> tuple[KeepWhile, ...] | None:
    """What a node is to be kept by.

    Raises:
        PatternRefusedError: that does not hold now.
    """
    if keep_while is None:
        return None
    conditions = resolved(keep_while, path)
    problem = unmet_conditions(tree.root, conditions, path if tree.find(path) is None else None)
    if problem is None:
        return conditions
    if isinstance(problem, tuple):
        detail = "the path of a condition matches no nodes"
        raise PatternRefusedError(
            Refused("keep_while_conditions_not_met", path, detail=detail, matches_nothing=problem)
        )
    raise PatternRefusedError(Refused("keep_while_conditions_not_met", path, True, problem))


def _delete(tree: TreeState, pattern: Pattern, command: DeleteNodes) -> Result:
    if command.many:
        found = list(matching(tree.root, pattern, most=MAX_VISITED))
    else:
        one = find_one(tree.root, pattern)
        if isinstance(one, Refused) and one.reason == "possibly_matching_many_nodes_denied":
            return one
        found = [one] if isinstance(one, Node) else []
    for node in found:
        if tree.find(node.path) is node:  # else it went with a node above it
            tree.delete(node)
    tree.settle()
    return _answer(tree, command, {})


def _answer(tree: TreeState, command: Write, changed: dict[Path, Properties]) -> Nodes:
    gone = {path: found for path, found in tree.removed.items() if command.indirect or path not in tree.expired}
    count = len({**changed, **gone})
    if command.returns is None:
        return Nodes((), count)
    returns = command.returns
    nodes: dict[Path, FoundNode] = {path: shown(path, found, returns) for path, found in changed.items()}
    for path, found in gone.items():
        reason = "keep_while" if path in tree.expired else "explicit"
        nodes[path] = shown(path, found, returns, reason=reason)
    return Nodes(tuple(nodes[path] for path in sorted(nodes)[:MAX_RETURNED]), count)
