"""Write docs/reference.md and the names that shells complete: what the code knows of commands, options and names.
`make lint` checks both.

usage: tools/reference.py [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from splitbrain.checkers import models
from splitbrain.checkers.registry import CHECKERS
from splitbrain.checkers.transactions import models as consistency
from splitbrain.harness.backends.catalogue import BACKENDS
from splitbrain.harness.cli.completing import NAMES
from splitbrain.harness.cli.main import splitbrain
from splitbrain.harness.contract.operations import GROUPS, OperationGroup, calls
from splitbrain.harness.simulation.worlds import WORLDS
from splitbrain.harness.systems import catalogue as systems
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.nemesis import catalogue as nemeses
from splitbrain.nemesis.kinds import Kind
from splitbrain.nemesis.packet import ALL_LINKS, ONE_LINK, SIDES
from splitbrain.nemesis.partition import SHAPES
from splitbrain.nemesis.targets import SPECS
from splitbrain.results.formats import FORMATS
from splitbrain.workloads import catalogue as workloads

FILE = Path(__file__).parent.parent / "docs" / "reference.md"
HEAD = """# Reference

Made from the code by `tools/reference.py`: do not edit it. `splitbrain list` prints the same names, with those of
installed packages.
"""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name, in the order of the help."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, f"{before}{name} ")
        elif found is not None:
            yield f"{before}{name}", found


def option(of: click.Parameter, context: click.Context) -> tuple[str, str, str]:
    """How an option is written, its default, and its help."""
    names = ", ".join(f"`{name}`" for name in of.opts)
    if not isinstance(of, click.Option):
        return f"`{of.make_metavar(context)}`", "", ""
    value = "" if of.is_flag else f" {of.make_metavar(context)}"
    text, _, default = (of.help or "").removesuffix("]").partition("[default: ")
    if not default and not of.is_flag and isinstance(of.default, str | int | float):
        default = str(of.default)
    return f"{names}{value}", default, " ".join(text.split())


def sections() -> Iterator[tuple[str, str]]:
    """Every section: its heading, and what stands below it."""
    for name, command in commands(splitbrain):
        context = click.Context(command, info_name=f"splitbrain {name}")
        first = " ".join((command.help or "").replace("\b", "").split("\n\n")[0].split())
        rows = [option(each, context) for each in command.params if isinstance(each, click.Option)]
        body = table(("option", "default", "meaning"), rows) if rows else ""
        yield f"splitbrain {name}", f"{first}\n\n{body}".rstrip() + "\n"
    yield "Workloads", table(("name", "needs", "what clients do"), map(_workload, workloads.WORKLOADS.items()))
    rows = ((f"`{name}`", entry.kind.name, entry.line) for name, entry in nemeses.NEMESES.items())
    yield "Nemeses", table(("name", "kind of fault", "what it does"), rows)
    rows = map(_kind, nemeses.KINDS.values())
    yield "Kinds of faults", table(("kind", "starts, stops", "fields of the request", "for example"), rows)
    yield "Shapes of partitions", _list(SHAPES)
    yield "Node specs", _list(SPECS)
    yield "Scopes of links", _list([ALL_LINKS, ONE_LINK, *SIDES])
    yield "Systems", table(("name", "has", "what it is"), map(_system, systems.SYSTEMS.items()))
    rows = (
        (f"`{system}`", f"`{bug}`", line)
        for system in systems.SYSTEMS
        for bug, line in systems.build(system).bugs.items()
    )
    yield "Bugs to switch on", table(("system", "bug", "what it does"), rows)
    rows = (
        (f"`{system}`", f"`{name}`", str(setting.default), setting.line)
        for system in systems.SYSTEMS
        for name, setting in systems.build(system).capabilities.settings.items()
    )
    yield "Settings", table(("system", "setting", "default", "what it is"), rows)
    yield "Marks of the metadata cluster", table(("mark", "passed when"), Metadata.marks.items())
    yield "Operations", table(("group", "protocol", "a session can"), map(_group, GROUPS.values()))
    for heading, entries in (("Backends", BACKENDS), ("Checkers", CHECKERS)):
        yield heading, table(("name", "what it is"), ((f"`{name}`", line) for name, (_, line) in entries.items()))
    yield "Models", table(("name", "functions", "what it is"), map(_model, models.names()))
    for heading, lines in (("Worlds of the simulation", WORLDS), ("Formats of histories", FORMATS)):
        yield heading, table(("name", "what it is"), ((f"`{name}`", line) for name, line in lines.items()))


def _workload(entry: tuple[str, tuple[Any, str]]) -> tuple[str, str, str]:
    name, (_, line) = entry
    return f"`{name}`", ", ".join(sorted(workloads.needs(name))), line


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) + "\n"


def _kind(kind: Kind[Any]) -> tuple[str, str, str, str]:
    fields = map(_field, cast("msgspec.inspect.StructType", msgspec.inspect.type_info(kind.request)).fields)
    shown = ", ".join(
        text for name, text in zip(kind.request.__struct_fields__, fields, strict=True) if name != "order"
    )
    return kind.name, f"`{kind.start_f}`, `{kind.stop_f}`", shown, f"`{kind.example}`"


def _field(field: msgspec.inspect.Field) -> str:
    """A field of a request, with the fields inside it."""
    kind = field.type
    if isinstance(kind, msgspec.inspect.DictType):
        kind = kind.value_type
    inside = (
        f" ({_list(each.name for each in kind.fields).strip()})" if isinstance(kind, msgspec.inspect.StructType) else ""
    )
    return f"`{field.name}`{inside}"


def _group(group: OperationGroup[Any]) -> tuple[str, str, str]:
    return f"`{group.name}`", f"`{group.protocol.__name__}`", _list(calls(group.protocol)).strip()


def _system(entry: tuple[str, tuple[Any, str]]) -> tuple[str, str, str]:
    name, (_, line) = entry
    return f"`{name}`", ", ".join(sorted(systems.operations(name))), line


def _model(name: str) -> tuple[str, str, str]:
    found = models.model(name)
    parameter = models.parameter(found)
    line = (type(found).__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return f"`{name}[({parameter})]`" if parameter else f"`{name}`", ", ".join(sorted(found.fs)), line


def completed() -> dict[str, dict[str, Any]]:
    """The names that shells complete, by kind (`splitbrain.harness.cli.completing`)."""
    built = {name: systems.build(name) for name in systems.SYSTEMS}
    return {
        "workloads": {name: line for name, (_, line) in workloads.WORKLOADS.items()},
        "nemeses": dict(nemeses.descriptions()),
        "systems": {name: line for name, (_, line) in systems.SYSTEMS.items()},
        "backends": {name: line for name, (_, line) in BACKENDS.items()},
        "checkers": {name: line for name, (_, line) in CHECKERS.items()},
        "models": {name: _model(name)[2] for name in models.names()},
        "consistency models": {name: "" for name in consistency.model_names() if consistency.proscribed_by([name])},
        "worlds": dict(WORLDS),
        "formats": dict(FORMATS),
        "bugs": {name: dict(system.bugs) for name, system in built.items()},
        "settings": {
            name: {each: setting.line for each, setting in system.capabilities.settings.items()}
            for name, system in built.items()
        },
        "isolations": {name: dict.fromkeys(system.capabilities.isolations, "") for name, system in built.items()},
        "read modes": {name: dict.fromkeys(system.capabilities.read_modes, "") for name, system in built.items()},
    }


def main(arguments: Sequence[str]) -> int:
    """Write the files, or only say whether they are what they should be."""
    text = HEAD + "".join(f"\n## {heading}\n\n{body}" for heading, body in sections())
    names = msgspec.json.format(msgspec.json.encode(completed()), indent=1).decode() + "\n"
    exit_code = 0
    for file, wanted in ((FILE, text), (NAMES, names)):
        if "--check" not in arguments:
            file.write_text(wanted, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != wanted:
            print(f"{file.name} is not up to date: run tools/reference.py", file=sys.stderr)
            exit_code = 1
    return exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
