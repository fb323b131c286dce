"""Parts that other packages bring: installed under an entry point, or named as module:attribute."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import sys
import sysconfig
from collections.abc import Collection, Iterable
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from operator import itemgetter
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


_INSTALLED: Final = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
"""Where packages are installed, and Python's own library."""

_code: Final[dict[str, str]] = {}
"""Digests of the code of parts that were found in this process, by the name of the package or module."""


_package: Final[dict[str, str]] = {}
"""By the name of a part that was found in this process, the package or module that it is from."""


def code(parts: Collection[str] | None = None) -> dict[str, str]:
    """A digest of the code of each package that these parts came from: 16 hexadecimal digits by its name.

    A run is a function of this code too, so a replay compares it. It is that of the moment at which the part was found.

    Args:
        parts: names; others than those of parts that were found in this process do not matter. None for all of those.
    """
    packages = {package for part, package in _package.items() if parts is None or part in parts}
    return {package: digest for package, digest in _code.items() if package in packages}


@cache
def installed(kind: Kind) -> dict[str, EntryPoint]:
    """The parts of this kind that installed packages bring, by name."""
    from importlib.metadata import entry_points  # reads what is installed: only for names that are not our own

    return {found.name: found for found in sorted(entry_points(group=GROUPS[kind]), key=lambda found: found.name)}


def origin(entry: EntryPoint) -> str:
    """The package that brings an installed part, and where the part is in it."""
    return entry.value if entry.dist is None else f"package {entry.dist.name}, {entry.value}"


def hidden(kind: Kind, own: Collection[str]) -> list[str]:
    """A sentence on each installed part of this kind that no name leads to: splitbrain has one of that name.

    Args:
        kind: of the parts.
        own: the names that splitbrain has itself.
    """
    return [
        f"the {kind} {name!r} ({origin(entry)}) is hidden: splitbrain has a {kind} of that name. Give its entry point "
        f"another name, or name it as {entry.value}."
        for name, entry in installed(kind).items()
        if name in own
    ]


def _refuse_twice(kind: Kind, name: str) -> None:
    """Refuse a name that two packages give to a part.

    Raises:
        UsageError: so it is; it names both.
    """
    from importlib.metadata import entry_points

    found = sorted(origin(entry) for entry in entry_points(group=GROUPS[kind]) if entry.name == name)
    if len(found) > 1:
        raise UsageError(
            f"{kind} {name!r} is brought by two packages: {'; '.join(found)}. Uninstall one, or name the {kind} as "
            "module:attribute."
        )


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
    if name in installed(kind):
        _refuse_twice(kind, name)
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
    _package[name] = module.partition(".")[0]
    _keep_code(_package[name])
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
    for file, place in sorted(sources(name).items(), key=itemgetter(1)):
        with contextlib.suppress(OSError):  # removed since it was imported
            content = file.read_bytes()
            digest.update(f"{place} {len(content)} ".encode() + content)
    _code[name] = digest.hexdigest()


def sources(name: str) -> dict[Path, str]:
    """The files of a package or of a module that stands alone, with their names inside of it; none if there is none.

    A module that stands alone comes with what it imports from its own folder. It is not imported for that.

    Args:
        name: of a package or module that is in no other one.
    """
    module = sys.modules.get(name)
    folders: Iterable[str] | None = getattr(module, "__path__", None)
    file: str | None = getattr(module, "__file__", None)
    if module is None:
        try:
            spec = find_spec(name)
        except (ImportError, ValueError):
            spec = None
        folders, file = (None, None) if spec is None else (spec.submodule_search_locations, spec.origin)
    if folders is not None:
        return _of_package(folders)
    return {} if file is None else _of_module(Path(file))


def _of_package(folders: Iterable[str]) -> dict[Path, str]:
    """One without `__init__.py` may be spread over several folders."""
    return {
        file: file.relative_to(folder).as_posix()
        for folder in folders
        for file in Path(folder).rglob("*.py")
        if file.is_file()
    }


def _of_module(file: Path) -> dict[Path, str]:
    found: dict[Path, str] = {}
    ahead = [file]
    while ahead:
        module = ahead.pop()
        if module in found or not module.is_file():
            continue
        found[module] = module.relative_to(file.parent).as_posix()
        if str(file.parent) in _INSTALLED:
            break  # what lies beside it belongs to other packages
        for name in _imported(module):
            beside = file.parent / name
            ahead += [beside.with_suffix(".py"), *beside.rglob("*.py")]
    return found


def _imported(file: Path) -> set[str]:
    """The first parts of the names of the modules that a file imports, splitbrain apart."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (OSError, SyntaxError, ValueError):
        return set()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.partition(".")[0] for name in names} - {"splitbrain"}


def _of_its_code(error: Exception) -> str:
    return f"{type(error).__name__}: {error}. Correct its code (--debug before the command shows where)."
