"""Parts that other packages bring: installed under an entry point, or named as module:attribute."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from splitbrain.results.errors import SplitbrainError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind: TypeAlias = Literal["workload", "nemesis", "system", "checker", "model", "backend", "operations"]

GROUPS: Final[dict[Kind, str]] = {
    "workload": "splitbrain.workloads",
    "nemesis": "splitbrain.nemeses",
    "system": "splitbrain.systems",
    "checker": "splitbrain.checkers",
    "model": "splitbrain.models",
    "backend": "splitbrain.backends",
    "operations": "splitbrain.operations",
}
"""The group of entry points of each kind of part."""


@cache
def installed(kind: Kind) -> dict[str, EntryPoint]:
    """The parts of this kind that installed packages bring, by name."""
    from importlib.metadata import entry_points  # reads what is installed: only for names that are not our own

    return {found.name: found for found in sorted(entry_points(group=GROUPS[kind]), key=lambda found: found.name)}


def is_plugin(kind: Kind, name: str) -> bool:
    """Whether the name is module:attribute, or that of an installed part."""
    return ":" in name or name in installed(kind)


def find(kind: Kind, name: str, known: Iterable[str]) -> Any:
    """What another package brings under a name.

    Args:
        kind: of the part.
        name: module:attribute, or the name of an entry point in the group of the kind.
        known: names that splitbrain has itself, for the error.

    Raises:
        UnknownNameError: no package brings a part of that name.
        UsageError: it cannot be imported.
    """
    if not is_plugin(kind, name):
        raise UnknownNameError(kind, name, [*known, *installed(kind)])
    location = installed(kind)[name].value if name in installed(kind) else name
    module, _, attributes = location.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"{kind} {name!r} cannot be imported: {error}. Give module:attribute.") from error
    except SplitbrainError:
        raise
    except Exception as error:
        raise UsageError(f"{kind} {name!r} cannot be imported: {_of_its_code(error)}") from error
    return found


def made(kind: Kind, name: str, found: Any, **wanted: Any) -> Any:
    """Call what was found, with those of the wanted arguments that it takes.

    Raises:
        UsageError: it is not callable, wants other arguments, or fails.
    """
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{kind} {name!r} is {found!r:.80}: it is no {kind}, and does not make one.") from error
    taken = {key: value for key, value in wanted.items() if key in signature.parameters}
    try:
        signature.bind(**taken)
    except TypeError as error:
        raise UsageError(f"{kind} {name!r}: {error}; it is called with {', '.join(wanted) or 'nothing'}.") from error
    try:
        return found(**taken)
    except SplitbrainError:
        raise
    except Exception as error:
        raise UsageError(f"{kind} {name!r} cannot be made: {_of_its_code(error)}") from error


def _of_its_code(error: Exception) -> str:
    return f"{type(error).__name__}: {error}. Correct its code (--debug before the command shows where)."
