"""`splitbrain list`: all parts, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.harness.campaigns import introduced
from splitbrain.harness.cli import options, parsing
from splitbrain.results import plugins
from splitbrain.results.errors import SplitbrainError

if TYPE_CHECKING:
    from splitbrain.harness.contract.settings import Setting
    from splitbrain.harness.contract.test import System

KINDS = ("workloads", "nemeses", "checkers", "models", "systems", "backends", "bugs", "settings", "formats")


@click.command("list", cls=parsing.Command)
@click.argument("kind", type=click.Choice(KINDS), required=False)
@options.as_json
def command(kind: str | None, as_json: bool) -> None:
    """List the available parts: all of them, or those of one KIND.

    Bugs and settings are listed as SYSTEM:NAME; --bug and --settings take the NAME.
    """
    found = {each: dict(_entries(each)) for each in ([kind] if kind else KINDS)}
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
        return
    for each, entries in found.items():
        click.secho(each, bold=True)
        lines = dict(
            _of_model(name, about) if isinstance(about, _Model) else (name, about) for name, about in entries.items()
        )
        width = max((len(name) for name in lines), default=0)
        for name, line in lines.items():
            click.echo(f"  {name:{width}}  {line}")


class _Model(msgspec.Struct, frozen=True):
    """What a user must know to name a model.

    Attributes:
        line: what it is.
        fs: its functions.
        parameter: what may follow the name in parentheses; empty if nothing may.
    """

    line: str
    fs: list[str]
    parameter: str


def _of_model(name: str, about: _Model) -> tuple[str, str]:
    return f"{name}[({about.parameter})]" if about.parameter else name, f"{', '.join(about.fs)}: {about.line}"


def _entries(kind: str) -> Mapping[str, str | _Model]:
    """The name and one line for each."""
    if kind == "workloads":
        from splitbrain.workloads.catalogue import WORKLOADS, needs

        own = {name: f"{line}; needs {_listed(needs(name))}" for name, (_, line) in WORKLOADS.items()}
        return _with_installed("workload", own)
    if kind == "nemeses":
        from splitbrain.nemesis.catalogue import descriptions

        return _with_installed("nemesis", descriptions())
    if kind == "bugs":
        return _of_systems(lambda system: system.bugs)
    if kind == "settings":
        return _of_systems(_settings)
    if kind == "checkers":
        from splitbrain.checkers.registry import CHECKERS

        return _with_installed("checker", {name: line for name, (_, line) in CHECKERS.items()})
    if kind == "models":
        from splitbrain.checkers import models

        own = {
            name: _Model(introduced.first_line(type(model)), sorted(model.fs), models.parameter(model))
            for name, model in ((name, models.model(name)) for name in models.names())
        }
        return _with_installed("model", own)
    if kind == "formats":
        from splitbrain.results.formats import FORMATS

        return FORMATS
    from splitbrain.harness.backends.catalogue import BACKENDS
    from splitbrain.harness.systems.catalogue import SYSTEMS, operations

    if kind == "systems":
        own = {name: f"{line}; has {_listed(operations(name))}" for name, (_, line) in SYSTEMS.items()}
        return _with_installed("system", own)
    return _with_installed("backend", {name: line for name, (_, line) in BACKENDS.items()})


def _listed(groups: frozenset[str]) -> str:
    """Groups of operations."""
    return ", ".join(sorted(groups)) or "no operations"


def _settings(system: System) -> Mapping[str, str]:
    settings = system.capabilities.settings
    return {name: _setting(setting) for name, setting in settings.items()}


def _setting(setting: Setting) -> str:
    choices = f" ({', '.join(setting.words)})" if setting.words else ""
    return f"{setting.line}{choices}  [default: {setting.text(setting.default)}]"


def _of_systems(of: Callable[[System], Mapping[str, str]]) -> dict[str, str]:
    """What all systems have, those of installed packages too; a system that cannot be made has its error instead."""
    from splitbrain.harness.systems.catalogue import SYSTEMS, build

    found: dict[str, str] = {}
    for name in dict.fromkeys([*SYSTEMS, *plugins.installed("system")]):
        try:
            found |= {f"{name}:{each}": line for each, line in of(build(name)).items()}
        except SplitbrainError as error:
            found[f"{name}:"] = str(error)
    return found


def _with_installed(kind: plugins.Kind, own: Mapping[str, str | _Model]) -> dict[str, str | _Model]:
    """Our own parts of this kind, then those that installed packages bring; what ours hide is said on stderr."""
    for line in plugins.hidden(kind, own):
        click.echo(f"warning: {line}", err=True)
    return {**own, **{name: introduced.line(kind, name) for name in plugins.installed(kind) if name not in own}}
