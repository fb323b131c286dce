"""What `splitbrain analyze` prints of runs, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from splitbrain.results.quantities import counted

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.many import Judged


def summed(judged: Sequence[Judged]) -> str:
    """How many runs were judged, and since when nothing has changed of the others."""
    since = [each.since for each in judged if each.since is not None]
    said = f"{counted(len(judged) - len(since), 'run')} judged"
    return f"{said}, {len(since)} unchanged since {_date(max(since))}" if since else said


def _date(iso: str) -> str:
    return iso.replace("T", " ").replace("+00:00", " UTC")


def print_table(judged: Sequence[Judged]) -> None:
    """Print a line per run, and how hot keys were judged."""
    from rich.markup import escape
    from rich.table import Table

    from splitbrain.harness.campaigns.words import COLOURS
    from splitbrain.harness.cli.tables import print_whole

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("outcome", "test", "run", "why"):
        table.add_column(column, overflow="fold")
    for each in judged:
        colour = COLOURS[each.outcome]
        names = (escape(each.run.test_name), escape(each.run.name), escape(each.said))
        table.add_row(f"[{colour}]{each.outcome.value}[/]", *names)
    print_whole(table)
    for each in judged:
        for how in each.hot_keys:
            click.echo(f"{each.run.test_name}/{each.run.name}: {how}")
