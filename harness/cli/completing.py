"""What the shell offers for a value: names of parts, runs, nights, files. Shells ask at every press of a key.

So nothing is imported that a name needs: names of our own parts are in `names.json`, which `tools/reference.py` writes;
those of installed packages are in their metadata. Runs are read from the names of their folders.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from splitbrain.results import places, plugins
from splitbrain.results.stores import STORE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

NAMES: Final = Path(__file__).parent / "names.json"

RUNS_MAX: Final = 100
"""The latest runs are offered; older ones once their name is begun."""

_INSTALLED: Final[Mapping[str, plugins.Kind]] = {
    "workloads": "workload",
    "nemeses": "nemesis",
    "systems": "system",
    "checkers": "checker",
    "models": "model",
    "backends": "backend",
}

Complete: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]"
Named: TypeAlias = Iterable[tuple[str, str]]
"""Names, each with a line that says what it is."""

_Source: TypeAlias = Callable[[click.Context], Named]


@functools.cache
def names() -> dict[str, dict[str, Any]]:
    """What there is of each kind, each name with its line; bugs, settings and levels of isolation by system."""
    return json.loads(NAMES.read_bytes())


def parts(kind: str) -> _Source:
    """The names of a kind, those of installed packages too."""

    def found(_: click.Context) -> Named:
        more = plugins.installed(_INSTALLED[kind]) if kind in _INSTALLED else ()
        return {**dict.fromkeys(more, "of an installed package"), **names()[kind]}.items()

    return found


def of_system(kind: str) -> _Source:
    """What the system has that the command line names: its bugs, settings or levels of isolation."""

    def found(ctx: click.Context) -> Named:
        return names()[kind].get(ctx.params.get("system") or "metadata", {}).items()

    return found


def one(source: _Source, *, closed: bool = True) -> Complete:
    """Complete one name.

    Args:
        source: gives what there is.
        closed: whether the name is all of the value.
    """

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        return [_item(name, line, closed) for name, line in source(ctx) if name.startswith(incomplete)]

    return complete


def several(source: _Source, ending: str = "") -> Complete:
    """Complete the last name of a list with commas; names that are in the list already are not offered.

    Args:
        source: gives what there is.
        ending: follows each name.
    """

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        before, comma, last = incomplete.rpartition(",")
        there = {each.partition(":")[0].partition("=")[0] for each in before.split(",")}
        return [
            _item(f"{before}{comma}{name}{ending}", line, closed=False)
            for name, line in source(ctx)
            if name.startswith(last) and name not in there
        ]

    return complete


def file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Leave it to the shell to complete the name of a file."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def folder(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Leave it to the shell to complete the name of a folder."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def run(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete a run of the store: `latest`, or its name; else a file or folder, such as a plan."""
    return _or_file([("latest", "the latest run"), *_runs(ctx)], ctx, parameter, incomplete)


def run_or_plan(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The same, and the plans of the current folder."""
    plans = [(name, "a plan") for name in _names_in(Path(), ".json") if _is_plan(Path(name))]
    return _or_file([("latest", "the latest run"), *_runs(ctx), *plans], ctx, parameter, incomplete)


def compared(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete one side of a comparison: a run, a test, a night, a folder."""
    tests = [(each.removeprefix("test="), "all runs of a test") for each in _folders(_store(ctx), "test=")]
    found = [("latest", "the latest run"), *tests, *_runs(ctx), *_nights(ctx)]
    return _or_file(found, ctx, parameter, incomplete)


def run_or_night(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete a run of the store or one of its nights."""
    return _or_file([("latest", "the latest run"), *_runs(ctx), *_nights(ctx)], ctx, parameter, incomplete)


def matrix(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the matrix file of a night: a TOML file of the current folder with axes, or any file."""
    files = [(name, "") for name in _names_in(Path(), ".toml") if _has_axes(Path(name))]
    return _or_file(files, ctx, parameter, incomplete)


def _or_file(
    found: Named, ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    items = [_item(name, line, closed=True) for name, line in found if name.startswith(incomplete)]
    return items or file(ctx, parameter, incomplete)


def _item(value: str, line: str, closed: bool) -> CompletionItem[str]:
    from click.shell_completion import CompletionItem

    return CompletionItem(value, help=line or None, open=not closed)


def _store(ctx: click.Context) -> Path:
    given = ctx.params.get("store") or STORE
    return Path(STORE if places.is_address(given) else given)


def _runs(ctx: click.Context) -> list[tuple[str, str]]:
    """The runs of the store, the latest first, each with the test that it is of."""
    store = _store(ctx)
    found = [
        (name.removeprefix("run="), test.removeprefix("test="))
        for test in _folders(store, "test=")
        for name in _folders(store / test, "run=")
    ]
    return sorted(found, reverse=True)[:RUNS_MAX]


def _nights(ctx: click.Context) -> list[tuple[str, str]]:
    """The nights of the store, the latest first."""
    found = _folders(_store(ctx) / "nights", "")
    latest = [("night:latest", "the latest night")] if found else []
    return [*latest, *((f"night:{name}", "a night") for name in reversed(found))]


def _folders(folder: Path, prefix: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(each.name for each in entries if each.name.startswith(prefix) and each.is_dir())
    except OSError:
        return []


def _names_in(folder: Path, suffix: str) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(suffix))


def _has_axes(path: Path) -> bool:
    try:
        return b"[axes]" in path.read_bytes()
    except OSError:
        return False


def _is_plan(path: Path) -> bool:
    try:
        with path.open("rb") as opened:
            return b'"format"' in opened.read(200)
    except OSError:
        return False
