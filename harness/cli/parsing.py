"""How commands parse options: each at most once, not empty, and with the defaults that a file has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import click

from splitbrain.harness.cli import defaults
from splitbrain.results.errors import UsageError


class _Once(click.Command):
    """Refuses an option given twice, of which click would silently use the last one. Takes defaults from a file."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the command, with defaults that a file has.

        Raises:
            UsageError: an option is wrong, or the file.
        """
        try:
            extra.setdefault("default_map", defaults.default_map(self, str(info_name), parent))
        except UsageError:
            if not extra.get("resilient_parsing"):
                raise
        try:
            return super().make_context(info_name, list(args), parent, **extra)
        except UsageError as error:
            asked = click.Context(self, parent, info_name, default_map=extra.get("default_map"))
            raise defaults.explained(error, asked, args) from error.__cause__

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error about a value says so if it is from a file."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise defaults.explained(error, ctx) from error.__cause__

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, each with its default, and where that stands if a file has it."""
        places = defaults.places(ctx)
        for parameter in self.params:
            if isinstance(parameter, click.Option) and parameter.name in places and ctx.default_map is not None:
                value: Any = ctx.default_map[parameter.name]
                listed = isinstance(value, tuple)
                shown = " ".join(map(str, cast("tuple[Any, ...]", value))) if listed else str(value)
                shown = shown.lower() if isinstance(value, bool) else shown
                text = (parameter.help or "").partition("[default: ")[0].rstrip()
                parameter.help = f"{text}  [default: {shown}, by {places[parameter.name]}]"
                parameter.show_default = False
        super().format_options(ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line.

        Raises:
            UsageError: an option is given twice.
        """
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        order: list[click.Parameter] = self.make_parser(ctx).parse_args(list(args))[2]
        for parameter in self.params:
            times = sum(each is parameter for each in order)
            if isinstance(parameter, click.Option) and not parameter.multiple and times > 1:
                raise UsageError(f"{'/'.join(_long(parameter))} is given {times} times: give it once.")
        return super().parse_args(ctx, args)


class Command(_Once):
    """A command that takes each option once."""


class Group(_Once, click.Group):
    """A group of such commands, which takes each option of its own once, too."""

    command_class = Command


def named(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty name; a click `callback` for options that take a name.

    Raises:
        UsageError: the value is blank.
    """
    source = ctx.get_parameter_source(str(parameter.name))
    if value is not None and not value.strip() and source is not click.core.ParameterSource.DEFAULT:
        raise UsageError(f"{_long(parameter)[0]} {value!r} is empty: remove it, or give a value.")
    return value


def refuse_twice(what: str, references: Sequence[str]) -> None:
    """Refuse an argument given twice.

    Args:
        what: the name of the argument, for the message ("FILE").
        references: as given.

    Raises:
        UsageError: one of them is blank, or is given twice.
    """
    for each in references:
        if not each.strip():
            raise UsageError(f"{what} {each!r} is empty: remove it, or give a name.")
        if references.count(each) > 1:
            raise UsageError(f"{what} {each} is given twice: give it once.")


def _long(parameter: click.Parameter) -> list[str]:
    """The long names of an option, for messages."""
    return [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--")] or parameter.opts
