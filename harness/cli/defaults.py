"""Defaults of options that a file has for a folder (`splitbrain.harness.campaigns.configured`).

A table is named as its command and has options as they are written without dashes: `[run] nodes = 5`,
`[cluster.up] nodes = 3`. Options of `SHARED` may stand above all tables, for every command that has them. The command
line overrides all of it. A table is checked when its command runs: to check all of them all commands would be imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import click

from splitbrain.results.errors import SplitbrainError, UsageError

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.configured import Configured

SHARED: Final = (
    *("store", "jobs", "checker-time", "checker-memory", "master"),
    *("known-hosts", "ssh-key", "ssh-user"),
)
"""Options that concern the machine and not the test, and mean the same in every command that has them."""

LEFT_OUT: Final = "SPLITBRAIN_NO_CONFIG"
"""The environment variable that leaves the file out."""

_NEVER: Final[Mapping[str, str]] = {"yes": "it confirms one command: give it there"}
_META: Final = "splitbrain.defaults"
_Steps = tuple[str, ...]


def configured(ctx: click.Context) -> Configured | None:
    """The file in force, None if there is none or it is left out. It is read once for a command line.

    Raises:
        UsageError: it cannot be read.
    """
    root = ctx.find_root()
    if _META not in root.meta:
        root.meta[_META] = None
        if not root.params.get("no_config"):
            from splitbrain.harness.campaigns.configured import find

            found = find()
            if found is not None:
                _check_top(found, root)
            root.meta[_META] = found
    return root.meta[_META]


def default_map(command: click.Command, name: str, parent: click.Context | None) -> dict[str, Any] | None:
    """What a file says of a command: values by the names of its parameters, None if it says nothing.

    Args:
        command: the command.
        name: as it is called.
        parent: the context of the group that it is in.

    Raises:
        UsageError: a name or a value is wrong; the message has file and line.
    """
    if parent is None:
        return None
    found = configured(parent)
    if found is None:
        return None
    steps = (*_steps(parent), name)
    table: Any = found.table
    for number, step in enumerate(steps):
        table = cast("dict[str, Any]", table).get(step, {})
        if not isinstance(table, dict):
            raise _no_table(found, steps[: number + 1])
    own = cast("dict[str, Any]", table)
    known = {_written(each): each for each in command.params if isinstance(each, click.Option)}
    inner = set(command.list_commands(parent)) if isinstance(command, click.Group) else set[str]()
    values: dict[str, Any] = {}
    context = click.Context(command, info_name=name, parent=parent, resilient_parsing=True)
    for key, given in found.table.items():
        if key in SHARED and key in known:
            values[str(known[key].name)] = _value(found, (key,), known[key], given, context)
    for key, given in own.items():
        if key in inner and isinstance(given, dict):
            continue
        if key in inner:
            raise _no_table(found, (*steps, key))
        if key not in known:
            raise found.refuse((*steps, key), _no_such(f"splitbrain {' '.join(steps)}", key, [*known, *inner]))
        if key in _NEVER:
            raise found.refuse((*steps, key), f"{key} cannot have a default: {_NEVER[key]}.")
        values[str(known[key].name)] = _value(found, (*steps, key), known[key], given, context)
    return values


def places(ctx: click.Context) -> dict[str, str]:
    """Where the defaults of a command stand that a file has: a file and a line by the name of the parameter."""
    found = configured(ctx)
    if found is None or ctx.default_map is None:
        return {}
    steps = _steps(ctx)
    table: Any = found.table
    for step in steps:
        table = cast("dict[str, Any]", table).get(step, {})
    return {
        str(each.name): found.where((*steps, key) if (key := _written(each)) in table else (key,))
        for each in ctx.command.params
        if isinstance(each, click.Option) and each.name in ctx.default_map
    }


def explained(error: UsageError, ctx: click.Context, words: Sequence[str] = ()) -> UsageError:
    """An error that says where a refused value stands, if a file has it and not the command line.

    Args:
        error: the error.
        ctx: of the command.
        words: of the command line, where the context does not know yet what they give.
    """
    text = str(error)
    given = {
        name for name in ctx.params if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT_MAP
    }
    for each in ctx.command.params:
        if any(word.partition("=")[0] in each.opts for word in words):
            given.add(str(each.name))
    for name, where in places(ctx).items():
        if name in given or where in text:
            continue
        value = ctx.params.get(name)
        if f"--{name.replace('_', '-')} " in text or (isinstance(value, str) and value and repr(value) in text):
            error.args = (f"{text} (it stands in {where})",)
            break
    return error


def _check_top(found: Configured, root: click.Context) -> None:
    """Refuse names at the top that are neither commands nor shared options."""
    assert isinstance(root.command, click.Group)
    commands = root.command.list_commands(root)
    for key, given in found.table.items():
        if isinstance(given, dict):
            if key not in commands:
                raise found.refuse((key,), f"there is no command {key!r}. {_meant(key, commands)}")
        elif key in commands:
            raise _no_table(found, (key,))
        elif key not in SHARED:
            hint = _meant(key, [*SHARED, *commands])
            raise found.refuse(
                (key,), f"{key} is not an option of all commands: write it below a command, such as [run]. {hint}"
            )


def _no_table(found: Configured, steps: _Steps) -> UsageError:
    heading = ".".join((*found.section, *steps))
    return found.refuse(steps, f"{steps[-1]} is a command, so this is a table: write [{heading}].")


def _no_such(command: str, key: str, known: Iterable[str]) -> str:
    return f"{command} has no option {key!r}. {_meant(key, known)}"


def _meant(key: str, known: Iterable[str]) -> str:
    import difflib  # for a mistake only

    names = sorted(known)
    close = difflib.get_close_matches(key.replace("_", "-"), names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(names) or 'none'}."


def _steps(ctx: click.Context) -> _Steps:
    """The names of the commands that lead to a context, without that of the program."""
    names: list[str] = []
    each = ctx
    while each.parent is not None:
        names.insert(0, str(each.info_name))
        each = each.parent
    return tuple(names)


def _written(parameter: click.Parameter) -> str:
    """An option as it is written without dashes."""
    return max(parameter.opts, key=len).lstrip("-")


def _value(found: Configured, steps: _Steps, option: click.Option, given: Any, ctx: click.Context) -> Any:
    """A value as click takes it.

    Raises:
        UsageError: it is of another type.
    """
    key = steps[-1]

    def refused(wanted: str) -> UsageError:
        return found.refuse(steps, f"{key} = {given!r}: give {wanted}.")

    if option.is_flag:
        if not isinstance(given, bool):
            raise refused("true or false")
        return given
    several: list[Any] | None = cast("list[Any]", given) if isinstance(given, list) else None
    values: list[Any] = [given] if several is None else several
    whole = isinstance(option.type, click.types.IntParamType)
    numeric = whole or isinstance(option.type, click.types.FloatParamType)
    types = int if whole else int | float if numeric else str | int | float
    wanted = "a whole number" if whole else "a number" if numeric else "a text, a number or a list of them"
    for each in values:
        if isinstance(each, bool) or not isinstance(each, types):
            raise refused(wanted)
    if several is not None and not option.multiple and (numeric or not several):
        raise refused(wanted)
    taken: Any = values[0] if values else None
    if option.multiple:
        taken = tuple(map(str, values))
    elif not numeric:
        taken = ",".join(map(str, values))
    try:
        option.type_cast_value(ctx, taken)
    except click.BadParameter as error:
        raise found.refuse(steps, f"{key} = {given!r}: {error.message}") from error
    except SplitbrainError as error:
        raise found.refuse(steps, str(error)) from error
    return taken
