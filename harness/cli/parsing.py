"""How commands parse options: each at most once, and not empty."""

from __future__ import annotations

from collections.abc import Sequence

import click

from splitbrain.results.errors import UsageError


class _Once(click.Command):
    """Refuses an option given twice. click would silently use the last one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line.

        Raises:
            UsageError: an option is given twice.
        """
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
