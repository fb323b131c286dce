"""Which code judges: digests of this package's own, and of the checkers and models that other packages bring.

Nothing is imported to find that out: the module of a checker may end the process that imports it. A digest is that of
the files, so it holds for this process only if none of them was changed since the process began, and it would be
wrong to say so of others: then there is none.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, cast

from splitbrain.checkers.models.catalogue import is_own
from splitbrain.checkers.registry import CHECKERS
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.results import plugins

_BEGAN_NS: Final = time.time_ns()
"""Code that was loaded before, and code that is loaded later, is that of the files unless one was changed since."""

_NOT_JUDGING: Final = ("results/report/", "results/site/", "results/formats/")
"""They draw pages, serve them, and read histories of other tools. All else of `checkers` and `results` judges."""

_LIBRARIES: Final = ("numpy", "numba", "pyarrow", "msgspec")
"""Verdicts are computed with these."""

_REFERENCE: Final = re.compile(r"(?P<module>[A-Za-z_]\w*)(\.[A-Za-z_]\w*)*:[A-Za-z_][\w.]*(\(.*\))?", re.DOTALL)
"""module:attribute, as a checker or a model is named, also with a parameter."""

_PARAMETER: Final = re.compile(r"\(.*\)$", re.DOTALL)


def code_of(specs: Sequence[CheckerSpec]) -> dict[str, str | None]:
    """A digest or a version of each package whose code decides what these checkers say, by its name.

    None stands for code of which it is not known whether this process has it as its files are now.
    """
    parts = {package for spec in specs for package in _packages(spec)}
    return {**_own(), **{package: _of_package(package) for package in sorted(parts)}}


@cache
def _own() -> Mapping[str, str | None]:
    homes = {"checkers": Path(__file__).parent, "results": Path(plugins.__file__).parent}
    files = {
        file: f"{part}/{file.relative_to(home).as_posix()}"
        for part, home in homes.items()
        for file in home.glob("**/*.py")
    }
    judging = {file: place for file, place in files.items() if not place.startswith(_NOT_JUDGING)}
    versions: dict[str, str | None] = {"splitbrain": _digest(judging), "python": sys.version.partition(" ")[0]}
    for library in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            versions[library] = version(library)
    return versions


@cache
def _of_package(name: str) -> str | None:
    return _digest(_sources(name))


_sources: Final = cache(plugins.sources)


def _digest(files: Mapping[Path, str]) -> str | None:
    """A digest of the content of files and of their places; None if one was changed since this process began."""
    found = hashlib.blake2b(digest_size=8)
    for file, place in sorted(files.items(), key=itemgetter(1)):
        try:
            content = file.read_bytes()
            if file.stat().st_ctime_ns >= _BEGAN_NS:
                return None
        except OSError:
            return None
        found.update(f"{place} {len(content)} ".encode() + content)
    return found.hexdigest() if files else None


def _packages(spec: CheckerSpec) -> Iterator[str]:
    """The packages that are not our own and that a checker, or what its options name, is from."""
    if spec.name not in CHECKERS:
        yield from _named("checker", spec.name)
    for text in _texts(spec.options):
        if ":" in text:
            yield from _named("model", text)
    model = spec.options.get("model")
    if isinstance(model, str) and ":" not in model and not is_own(model):
        yield from _named("model", model)


def _texts(options: Any) -> Iterator[str]:
    """All strings in an option, however deep."""
    if isinstance(options, str):
        yield options
    elif isinstance(options, Mapping):
        for value in cast("Mapping[Any, Any]", options).values():
            yield from _texts(value)
    elif isinstance(options, list | tuple):
        for value in cast("Iterable[Any]", options):
            yield from _texts(value)


def _named(kind: plugins.Kind, text: str) -> Iterator[str]:
    """The package that a text names, if it names a part of one."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        entry = plugins.installed(kind).get(_PARAMETER.sub("", text))
        found = None if entry is None else _REFERENCE.fullmatch(entry.value.partition("[")[0].strip())
    if found is not None and found["module"] != "splitbrain" and _sources(found["module"]):
        yield found["module"]
