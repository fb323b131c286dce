"""Patterns: paths with conditions in them (KH-2, KH-3), their text, and what they match.

A pattern is a tuple of components: names, conditions, and `.`, `..` and `/` for the node itself, its parent and the
root. As text it is in Khepri's Unix-like syntax: `/:atom/binary/*/**`. Everything that looks at the tree takes patterns
that were compiled: absolute, without the special components, simplified, and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import unquote

from splitbrain.cluster.errors import InvalidPathError
from splitbrain.cluster.tree.conditions import (
    MAX_CONDITIONS,
    Component,
    IfAll,
    IfNameMatches,
    IfPathMatches,
    count_conditions,
    descends,
    holds,
    invalid_part,
    simplified,
    target,
)
from splitbrain.cluster.tree.paths import (
    MAX_DEPTH,
    MAX_NAME_LENGTH,
    MAX_SHOWN,
    PARENT,
    ROOT,
    SPECIALS,
    THIS,
    Path,
    symbol,
    text_name,
)
from splitbrain.cluster.tree.payloads import Properties

Pattern: TypeAlias = tuple[Component, ...]
"""A path that may have conditions, or special components, in it; an absolute one from the root down."""

ANY_CHILD: Final = IfNameMatches()
"""`*`: any node, one level down."""

ANY_BELOW: Final = IfPathMatches()
"""`**`: any node, at any depth."""

_PUNCTUATION: Final = frozenset("\\.^$*+?{}[]|()")


# --- as text ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def parse_pattern(text: str) -> Pattern:
    """The pattern that a text stands for.

    One that does not begin with a slash is relative: it begins with `.` or `..`. A slash at the end does not count.

    Raises:
        InvalidPathError: a name in it is no text in percent encoding.
    """
    if text in ("", "/"):
        return ()
    is_absolute = text.startswith("/")
    parts = (text[1:] if is_absolute else text).split("/")
    if not parts[-1]:
        parts.pop()
    components = tuple(parse_component(part) for part in parts)
    if is_absolute or components[0] in (THIS, PARENT):
        return components
    return (THIS, *components)


def parse_component(text: str) -> Component:
    """The component that a part of a text, between slashes, stands for.

    Raises:
        InvalidPathError: it is no text in percent encoding.
    """
    match text:
        case "." | "/":
            return text
        case ".." | "^":
            return PARENT
        case "*":
            return ANY_CHILD
        case "**":
            return ANY_BELOW
        case _ if "*" in text:
            literals = ("".join(map(_literal, _decoded(part))) for part in text.split("*"))
            return IfNameMatches(f"^{'.*'.join(literals)}$")
        case _:
            return symbol(_decoded(text[1:])) if text.startswith(":") else text_name(_decoded(text))


def _literal(character: str) -> str:
    return f"\\{character}" if character in _PUNCTUATION else character


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidPathError(f"{text[:MAX_SHOWN]!r} has a percent encoding that is no UTF-8.") from None


def format_pattern(pattern: Sequence[Component]) -> str:
    """A pattern as text; of one without conditions the inverse of `parse_pattern`."""
    components = list(pattern)
    prefix = "/"
    if components and components[0] == ROOT:
        del components[0]
    elif components and components[0] in (THIS, PARENT):
        prefix = ""
        if components[0] == THIS and len(components) > 1 and components[1] != "":
            del components[0]
    if not components:
        return "/"
    ending = "/" if components[-1] == "" else ""
    return prefix + "/".join(map(format_component, components)) + ending


def format_component(component: Component) -> str:
    """A component as text; a condition that has no other syntax in angle brackets."""
    if isinstance(component, str):
        return component
    if component == ANY_CHILD:
        return "*"
    return "**" if component == ANY_BELOW else f"<{component!r}>"


# --- relative to absolute -----------------------------------------------------------------------------------------


def realpath(pattern: Sequence[Component]) -> Pattern:
    """The pattern without special components: relative ones begin at the root, and the root is its own parent."""
    found: list[Component] = []
    for component in pattern:
        if component == ROOT:
            found.clear()
        elif component == PARENT:
            del found[-1:]
        elif component != THIS:
            found.append(component)
    return tuple(found)


def abspath(pattern: Sequence[Component], base: Sequence[Component]) -> Pattern:
    """A pattern as seen from a node: a relative one begins at `base`."""
    if pattern and pattern[0] in (THIS, PARENT):
        return (*base, *pattern)
    return tuple(pattern)


def combined(pattern: Sequence[Component], conditions: Sequence[Component]) -> Pattern:
    """The pattern whose last component has to meet these conditions, too.

    Raises:
        InvalidPathError: it is the root, which has no component (D17).
    """
    if not pattern:
        raise InvalidPathError("The root has no name to put a condition on: put and delete are for it, nothing else.")
    *before, last = pattern
    inner = last.conditions if isinstance(last, IfAll) else (last,)
    return (*before, IfAll((*inner, *conditions)))


# --- compiled -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def compiled(pattern: Pattern) -> Pattern:
    """The pattern as the tree looks at it.

    Raises:
        InvalidPathError: it is not in order, too deep or too long; the message says what of it.
    """
    problem = pattern_problem(pattern)
    if problem is not None:
        raise InvalidPathError(problem)
    found: list[Component] = []
    for component in realpath(tuple(map(_globbed, pattern))):
        plain = simplified(component)
        special = target(plain) if not isinstance(plain, str) else None
        if special in SPECIALS:
            _refine(found, special, plain)
        else:
            found.append(plain)
    return tuple(found)


def _globbed(component: Component) -> Component:
    return parse_component(component) if isinstance(component, str) and "*" in component else component


def _refine(found: list[Component], special: str, condition: Component) -> None:
    """Put a condition on a special component where it belongs: on the component before, or on the root."""
    assert isinstance(condition, IfAll), "only if_all has a special component and something else"
    conditions = tuple(inner for inner in condition.conditions if inner != special)
    if special == ROOT:
        found.clear()
    elif special == PARENT:
        del found[-1:]
    if not found:
        found.append(IfAll((THIS, *conditions)))
        return
    found[-1] = simplified(combined((found[-1],), conditions)[0])


def pattern_problem(pattern: Sequence[Component]) -> str | None:
    """What is wrong with a pattern, None if it is in order."""
    if len(pattern) > MAX_DEPTH:
        return f"A path has at most {MAX_DEPTH} names, not {len(pattern)}."
    for component in pattern:
        found = invalid_part(component)
        if found is not None:
            return f"invalid_path: {found[1]}."
        if isinstance(component, str) and not _is_short_name(component):
            return f"A name has at most {MAX_NAME_LENGTH} characters, and no slash."
    if count_conditions(pattern) > MAX_CONDITIONS:
        return f"A path has at most {MAX_CONDITIONS} conditions."
    return None


def _is_short_name(component: str) -> bool:
    # In percent encoding a character may take three.
    return component == ROOT or (len(component) <= 3 * MAX_NAME_LENGTH and "/" not in component)


def loosened(pattern: Pattern) -> Pattern:
    """The compiled pattern with any node below in the place of any child at its end: M54."""
    return (*pattern[:-1], ANY_BELOW) if pattern[-1:] == (ANY_CHILD,) else pattern


def exact_path(pattern: Pattern) -> Path | None:
    """The only path that a compiled pattern can match; None if that cannot be said, or there may be several."""
    names: list[str] = []
    for component in pattern:
        name = component if isinstance(component, str) else target(component)
        if name is None:
            return None
        if name not in SPECIALS:
            names.append(name)
    return tuple(names)


def matches_path(pattern: Pattern, path: Path, found_at: Callable[[Path], Properties | None]) -> bool:
    """Whether a compiled pattern matches the path of a node, as for triggers and projections (KH-13, KH-14).

    A node that is not there matches nothing.

    Every name on the way has to match, also below `**`: unlike `splitbrain.cluster.tree.walk`, which descends through
    names that do not.

    Args:
        pattern: what is asked for.
        path: of the node.
        found_at: gives the properties of nodes; it is asked about those on the way that a condition is put on.
    """
    if found_at(path) is None:
        return False
    if pattern and target(pattern[0]) in SPECIALS:
        if not holds(pattern[0], ROOT, found_at(())):
            return False
        pattern = pattern[1:]
    reached = [0]
    for depth, name in enumerate(path, start=1):
        following: dict[int, None] = {}
        for at in reached:
            if at == len(pattern):
                continue
            component = pattern[at]
            if component == name or (not isinstance(component, str) and holds(component, name, found_at(path[:depth]))):
                following[at + 1] = None
                if descends(component):
                    following[at] = None
        reached = list(following)
    return len(pattern) in reached
