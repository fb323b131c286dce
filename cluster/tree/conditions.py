"""Conditions on tree nodes: what they are as data, and whether they hold (KH-3).

A condition is sent by clients and stands in the log, so it is data, its depth and number are limited, and it means the
same on every member. `failing` gives the innermost condition that does not hold, for the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from splitbrain.cluster.tree.datapattern import DataPattern, DataPatternError, compile_pattern
from splitbrain.cluster.tree.paths import THIS, name_text
from splitbrain.cluster.tree.payloads import Procedure, Properties
from splitbrain.cluster.tree.regex import RegexError, compile_regex

MAX_CONDITION_DEPTH: Final = 16
MAX_CONDITIONS: Final = 256
"""In one pattern."""

Relation: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]


class Compare(msgspec.Struct, frozen=True, array_like=True):
    """A number must stand in this relation to the one given."""

    relation: Relation
    number: int


Number: TypeAlias = int | Compare
"""What a version or a length is compared with: a number that it must equal, or a relation."""


class IfNameMatches(msgspec.Struct, frozen=True, array_like=True, tag="if_name_matches"):
    """A regular expression is found in the node's name; None: any name (`*`)."""

    regex: str | None = None


class IfPathMatches(msgspec.Struct, frozen=True, array_like=True, tag="if_path_matches"):
    """The same, of nodes at any depth below (`**`)."""

    regex: str | None = None


class IfHasPayload(msgspec.Struct, frozen=True, array_like=True, tag="if_has_payload"):
    """Whether the node has a payload is as given."""

    yes: bool


class IfHasData(msgspec.Struct, frozen=True, array_like=True, tag="if_has_data"):
    """Whether the node's payload is data is as given."""

    yes: bool


class IfHasProcedure(msgspec.Struct, frozen=True, array_like=True, tag="if_has_procedure"):
    """Whether the node's payload is a stored procedure is as given."""

    yes: bool


class IfDataMatches(msgspec.Struct, frozen=True, array_like=True, tag="if_data_matches"):
    """The node has data that match a pattern (`splitbrain.cluster.tree.datapattern`), and all guards hold."""

    pattern: bytes
    guards: bytes = b""


class IfNodeExists(msgspec.Struct, frozen=True, array_like=True, tag="if_node_exists"):
    """Whether the node exists is as given."""

    yes: bool


class IfPayloadVersion(msgspec.Struct, frozen=True, array_like=True, tag="if_payload_version"):
    """The version of the payload."""

    number: Number


class IfChildListVersion(msgspec.Struct, frozen=True, array_like=True, tag="if_child_list_version"):
    """The version of the list of children."""

    number: Number


class IfChildListLength(msgspec.Struct, frozen=True, array_like=True, tag="if_child_list_length"):
    """The number of direct children."""

    number: Number


class IfNot(msgspec.Struct, frozen=True, array_like=True, tag="if_not"):
    """The condition does not hold."""

    condition: Component


class IfAll(msgspec.Struct, frozen=True, array_like=True, tag="if_all"):
    """All conditions hold; of none that is true."""

    conditions: tuple[Component, ...]


class IfAny(msgspec.Struct, frozen=True, array_like=True, tag="if_any"):
    """One of the conditions holds; of none that is false."""

    conditions: tuple[Component, ...]


Condition: TypeAlias = (
    IfNameMatches
    | IfPathMatches
    | IfHasPayload
    | IfHasData
    | IfHasProcedure
    | IfDataMatches
    | IfNodeExists
    | IfPayloadVersion
    | IfChildListVersion
    | IfChildListLength
    | IfNot
    | IfAll
    | IfAny
)
Component: TypeAlias = (
    str
    | IfNameMatches
    | IfPathMatches
    | IfHasPayload
    | IfHasData
    | IfHasProcedure
    | IfDataMatches
    | IfNodeExists
    | IfPayloadVersion
    | IfChildListVersion
    | IfChildListLength
    | IfNot
    | IfAll
    | IfAny
)
"""A step of a pattern: a name, a special component, or a condition. A name alone is the condition that it is equal."""

IMPLICIT: Final = IfAny((IfChildListLength(Compare("gt", 0)), IfHasPayload(True)))
"""What keeps a parent that was created only because a command needed it (D14)."""


# --- whether they hold --------------------------------------------------------------------------------------------


def failing(condition: Component, name: str, found: Properties | None) -> Component | None:
    """The innermost condition that does not hold of a node; None if all do.

    Args:
        condition: in order, as `condition_problem` says.
        name: of the node; the root's is "/".
        found: the node, None if there is none: then only names, and conditions on being there, may hold.
    """
    match condition:
        case IfNot(inner):
            return condition if holds(inner, name, found) else None
        case IfAll(conditions):
            for inner in conditions:
                failed = failing(inner, name, found)
                if failed is not None:
                    return failed
            return None
        case IfAny(conditions):
            return None if any(holds(inner, name, found) for inner in conditions) else condition
        case _:
            return None if _holds_alone(condition, name, found) else condition


def holds(condition: Component, name: str, found: Properties | None) -> bool:
    """Whether a condition holds of a node; see `failing`."""
    return failing(condition, name, found) is None


def _holds_alone(condition: Component, name: str, found: Properties | None) -> bool:
    match condition:
        case str():
            return condition in (name, THIS)
        case IfNameMatches(regex) | IfPathMatches(regex):
            return regex is None or compile_regex(regex).found_in(name_text(name))
        case IfNodeExists(yes):
            return yes == (found is not None)
        case _:
            return found is not None and _holds_of(condition, found)


def _holds_of(condition: Component, found: Properties) -> bool:
    match condition:
        case IfHasPayload(yes):
            return yes == (found.payload is not None)
        case IfHasData(yes):
            return yes == isinstance(found.payload, bytes)
        case IfHasProcedure(yes):
            return yes == isinstance(found.payload, Procedure)
        case IfDataMatches(pattern, guards):
            return isinstance(found.payload, bytes) and compile_pattern(pattern, guards).matches(found.payload)
        case IfPayloadVersion(number):
            return compares(found.payload_version, number)
        case IfChildListVersion(number):
            return compares(found.child_list_version, number)
        case IfChildListLength(number):
            return compares(found.child_list_length, number)
        case _:
            raise AssertionError(f"{condition!r} holds, or not, whether or not the node is there")


def compares(value: int, wanted: Number) -> bool:
    """Whether a number is as wanted."""
    if not isinstance(wanted, Compare):
        return value == wanted
    match wanted.relation:
        case "eq":
            return value == wanted.number
        case "ne":
            return value != wanted.number
        case "lt":
            return value < wanted.number
        case "le":
            return value <= wanted.number
        case "gt":
            return value > wanted.number
        case "ge":
            return value >= wanted.number


# --- what they may match ------------------------------------------------------------------------------------------


def siblings(component: Component) -> tuple[str, ...] | None:
    """The names that a component can only match, sorted; None if that cannot be said without looking at nodes.

    `if_all` ignores conditions within it that cannot be resolved; `if_any` needs all of them; `if_not` never says it.
    """
    match component:
        case str():
            return (component,)
        case IfAll(conditions):
            known = [names for names in map(siblings, conditions) if names is not None]
        case IfAny(conditions):
            known = [names for names in map(siblings, conditions) if names is not None]
            if len(known) != len(conditions):
                return None
        case _:
            return None
    return tuple(sorted({name: None for names in known for name in names})) or None


def target(component: Component) -> str | None:
    """The one name that a component can only match; None if there may be several, or that cannot be said."""
    if isinstance(component, str):
        return component
    if isinstance(component, IfAny):  # of several conditions it never targets one node
        return target(component.conditions[0]) if len(component.conditions) == 1 else None
    names = siblings(component)
    return names[0] if names is not None and len(names) == 1 else None


def descends(component: Component) -> bool:
    """Whether a component applies to nodes at any depth."""
    match component:
        case IfPathMatches():
            return True
        case IfNot(condition):
            return descends(condition)
        case IfAll(conditions) | IfAny(conditions):
            return any(map(descends, conditions))
        case _:
            return False


def simplified(component: Component) -> Component:
    """The same condition in short: `if_all` and `if_any` of one are that one; in `if_all` names come first."""
    match component:
        case IfNot(condition):
            return IfNot(simplified(condition))
        case IfAll(conditions):
            inner = [simplified(condition) for condition in conditions]
            ordered = tuple(sorted(inner, key=lambda condition: not isinstance(condition, str)))
            return ordered[0] if len(ordered) == 1 else IfAll(ordered)
        case IfAny(conditions):
            inner = [simplified(condition) for condition in conditions]
            return inner[0] if len(inner) == 1 else IfAny(tuple(inner))
        case _:
            return component


def allows_creation(component: Component) -> bool:
    """Whether a put may create a node that a component names: nothing in it needs the node to be there."""
    match component:
        case str():
            return True
        case IfNodeExists(yes):
            return not yes
        case IfAll(conditions):
            return all(map(allows_creation, conditions))
        case IfAny(conditions):
            return any(map(allows_creation, conditions))
        case _:
            return False


# --- whether they are in order ------------------------------------------------------------------------------------


def invalid_part(component: Any, depth: int = 0) -> tuple[Any, str] | None:
    """The innermost condition that is not in order, and why; None if all are."""
    if depth > MAX_CONDITION_DEPTH:
        return component, f"conditions are nested more than {MAX_CONDITION_DEPTH} deep"
    match component:
        case str():
            problem = None
        case IfNot(condition):
            return invalid_part(condition, depth + 1)
        case IfAll(conditions) | IfAny(conditions):
            found = (invalid_part(condition, depth + 1) for condition in conditions)
            return next((part for part in found if part is not None), None)
        case IfNameMatches(regex) | IfPathMatches(regex):
            problem = _regex_problem(regex)
        case IfHasPayload(yes) | IfHasData(yes) | IfHasProcedure(yes) | IfNodeExists(yes):
            problem = None if isinstance(yes, bool) else f"it needs true or false, not {yes!r}"  # pyright: ignore[reportUnnecessaryIsInstance]
        case IfDataMatches():
            problem = _pattern_problem(component)
        case IfPayloadVersion(number) | IfChildListVersion(number) | IfChildListLength(number):
            problem = _number_problem(number)
        case _:
            problem = f"{component!r} is no condition"
    return None if problem is None else (component, problem)


def count_conditions(components: Sequence[Component]) -> int:
    """How many conditions and names there are in all."""
    total, pending = 0, list(components)
    while pending:
        component = pending.pop()
        total += 1
        match component:
            case IfNot(condition):
                pending.append(condition)
            case IfAll(conditions) | IfAny(conditions):
                pending.extend(conditions)
            case _:
                pass
    return total


def _regex_problem(regex: Any) -> str | None:
    if regex is None:
        return None
    if not isinstance(regex, str):
        return f"it needs a regular expression, not {regex!r}"
    try:
        compile_regex(regex)
    except RegexError as error:
        return str(error)
    return None


def _pattern_problem(condition: IfDataMatches) -> str | None:
    try:
        _: DataPattern = compile_pattern(condition.pattern, condition.guards)
    except DataPatternError as error:
        return str(error)
    return None


def _number_problem(number: Any) -> str | None:
    value: Any = number.number if isinstance(number, Compare) else number
    if not isinstance(value, int) or isinstance(value, bool):
        return f"it needs a whole number, not {value!r}"
    if isinstance(number, Compare) and number.relation not in ("eq", "ne", "lt", "le", "gt", "ge"):
        return f"there is no relation {number.relation!r}"
    return None
