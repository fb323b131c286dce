"""How commands take their options: each once, and with a word in it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from splitbrain.results.errors import UsageError


class Command(click.Command):
    """A command that refuses an option given twice: click lets the last one count, and says nothing of the others."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line.

        Raises:
            UsageError: an option is given twice.
        """
        order: list[click.Parameter] = self.make_parser(ctx).parse_args(list(args))[2]
        for parameter in self.params:
            times = sum(each is parameter for each in order)
            if isinstance(parameter, click.Option) and not parameter.multiple and times > 1:
                raise UsageError(f"{'/'.join(_long(parameter))} is given {times} times, and one would count: give one.")
        return super().parse_args(ctx, args)


class Group(click.Group):
    """A group of such commands."""

    command_class = Command


def named(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """For an option that names something (click's `callback`): one that is given names something.

    Raises:
        UsageError: there is nothing but blanks in it.
    """
    source = ctx.get_parameter_source(str(parameter.name))
    if value is not None and not value.strip() and source is not click.core.ParameterSource.DEFAULT:
        raise UsageError(f"{_long(parameter)[0]} {value!r} names nothing: leave it out, or name something.")
    return value


def refuse_twice(what: str, references: Sequence[str]) -> None:
    """Refuse an argument given twice.

    Args:
        what: how the command calls it, for the message ("FILE").
        references: as given.

    Raises:
        UsageError: one of them names nothing, or is there twice.
    """
    for each in references:
        if not each.strip():
            raise UsageError(f"{what} {each!r} names nothing: leave it out, or name one.")
        if references.count(each) > 1:
            raise UsageError(f"{what} {each} is named twice: once is enough.")


def _long(parameter: click.Parameter) -> list[str]:
    """The long names of an option, for messages."""
    return [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--")] or parameter.opts
