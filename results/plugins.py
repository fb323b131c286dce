"""Parts that other packages bring: installed under an entry point, or named as module:attribute."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
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


_code: Final[dict[str, str]] = {}
"""Digests of the code of parts that were found in this process, by the name of the package or module."""


def code() -> dict[str, str]:
    """A digest of the code of each package that parts came from so far: 16 hexadecimal digits by its name.

    A run is a function of this code too, so a replay compares it. It is that of the moment at which the part was found.
    """
    return dict(_code)


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
    _keep_code(module.partition(".")[0])
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


def _keep_code(name: str) -> None:
    if name in _code or name == "splitbrain":
        return
    digest = blake2b(digest_size=8)
    for place, content in _sources(name):
        digest.update(f"{place} {len(content)} ".encode() + content)
    _code[name] = digest.hexdigest()


def _sources(name: str) -> Iterator[tuple[str, bytes]]:
    """The files of a package; those of a module that stands alone are its own and what it imported from its folder."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return
    folder = Path(file).parent
    if Path(file).name == "__init__.py":
        files = sorted(folder.rglob("*.py"))
    else:
        loaded = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        files = sorted({Path(each) for each in loaded if each and Path(each).parent == folder})
    for each in files:
        try:
            yield str(each.relative_to(folder)), each.read_bytes()
        except OSError:
            continue  # removed since it was imported


def _of_its_code(error: Exception) -> str:
    return f"{type(error).__name__}: {error}. Correct its code (--debug before the command shows where)."
