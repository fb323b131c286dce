"""How a client says which tree nodes it means: paths, patterns and conditions (KH-2, KH-3).

await client.get_nodes("/queues/*", when=if_data({"durable": True}))
await client.put_nodes("/queues/orders", {"durable": True}, when=IfNodeExists(False))
await client.put_nodes("/queues/orders", 1, keep_while={"/vhosts/main": IfNodeExists(True)})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from splitbrain.cluster.commands import encode_value
from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.tree import (
    ANY,
    Compare,
    Component,
    Condition,
    IfAll,
    IfAny,
    IfChildListLength,
    IfChildListVersion,
    IfDataMatches,
    IfHasData,
    IfHasPayload,
    IfHasProcedure,
    IfNameMatches,
    IfNodeExists,
    IfNot,
    IfPathMatches,
    IfPayloadVersion,
    KeepWhile,
    Pattern,
    combined,
    format_path,
    parse_pattern,
    pattern_problem,
    variable,
)

__all__ = [
    "ANY",
    "Compare",
    "Component",
    "Condition",
    "IfAll",
    "IfAny",
    "IfChildListLength",
    "IfChildListVersion",
    "IfDataMatches",
    "IfHasData",
    "IfHasPayload",
    "IfHasProcedure",
    "IfNameMatches",
    "IfNodeExists",
    "IfNot",
    "IfPathMatches",
    "IfPayloadVersion",
    "KeptBy",
    "Pattern",
    "Where",
    "condition_of",
    "format_path",
    "if_data",
    "kept_by",
    "pattern_of",
    "variable",
]

Where: TypeAlias = str | Sequence[Component]
"""A pattern, or its text (`/queues/*`)."""

KeptBy: TypeAlias = Mapping[str, Condition] | Mapping[str | Pattern, Condition] | None
"""What keeps a node: patterns, maybe relative to it (`.`, `^`), each with a condition that has to hold."""


def if_data(pattern: Any, *guards: Sequence[Any]) -> IfDataMatches:
    """The node has data that match: equal values, but for `ANY` and `variable(name)` in the pattern.

    A guard is [name, argument, ...], e.g. [">", variable("n"), 3]; see `splitbrain.cluster.tree.datapattern`.
    """
    return IfDataMatches(encode_value(pattern), encode_value(guards) if guards else b"")


def pattern_of(where: Where, when: Condition | None = None) -> Pattern:
    """The pattern, with a condition on the last component.

    Raises:
        InvalidPathError: the text is no path, or the condition is for the root.
        InvalidRequestError: the pattern is too long or too deep.
    """
    pattern = parse_pattern(where) if isinstance(where, str) else tuple(where)
    if when is not None:
        pattern = combined(pattern, (when,))
    problem = pattern_problem(pattern)
    if problem is not None:
        raise InvalidRequestError(problem)
    return pattern


def kept_by(given: KeptBy) -> tuple[KeepWhile, ...] | None:
    """What is sent for what keeps a node.

    Raises:
        InvalidPathError: a text is no path.
        InvalidRequestError: a pattern or a condition is too long or too deep.
    """
    if given is None:
        return None
    return tuple(KeepWhile(pattern_of(path), pattern_of((condition,))[0]) for path, condition in given.items())


def condition_of(text: str) -> Condition:
    """The condition that JSON stands for: its name and arguments, e.g. `["if_payload_version", 3]`.

    Raises:
        InvalidRequestError: it stands for none.
    """
    try:
        match msgspec.json.decode(text):
            case ["if_data_matches", pattern, *guards]:
                return if_data(pattern, *guards)
            case found:
                return msgspec.convert(found, Condition)  # pyright: ignore[reportReturnType, reportArgumentType]
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise InvalidRequestError(
            f"{text:.200} is no condition ({error}): give its name and arguments as JSON, e.g. "
            '["if_node_exists", true] or ["if_payload_version", ["ge", 3]].'
        ) from error
