"""What `splitbrain analyze` prints of runs, wherever they are.

--json prints a line for each run, and a last one with the sums. Lines, and not one document: a reader has the first
verdict after seconds, whether there are ten runs or 100,000, and neither side needs memory for all of them. The shapes
are described in docs/schema.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from splitbrain.results.quantities import counted
from splitbrain.results.text import encoded

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.many import Judged
    from splitbrain.harness.cli.answers.runs import AnalyzedRun, AnalyzedSums

LINES_FORMAT: Final[Literal[2]] = 2
"""The version of the lines. The first one was a single array of runs, printed at the end."""


def print_run(each: Judged, where: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Print what a run was judged to be.

    Args:
        each: the run.
        where: fields that stand for those of its folder, where that is a copy of a run that is somewhere else.

    Raises:
        BrokenPipeError: nobody reads it any more.
    """
    from splitbrain.harness.campaigns.judging import damaged_document, stored_document

    found = damaged_document(each.run, each.said) if each.damaged else stored_document(each.run)
    line: AnalyzedRun = {
        "kind": "run",
        "format": LINES_FORMAT,
        **found,
        "judged": each.since is None,
        "unchanged_since": each.since,
    }
    _print({**line, **where})


def print_sums(judged: Sequence[Judged], seconds: float, named: Callable[[str], str] = str) -> None:
    """Print the sums of an analysis.

    Args:
        judged: what became of each run, pages included.
        seconds: how long it took.
        named: gives a text with the names of folders those of what they are copies of.
    """
    from splitbrain.checkers.verdict import worst

    outcome = worst(each.outcome for each in judged)
    unchanged = sum(each.since is not None for each in judged)
    outcomes = Counter(each.outcome.value for each in judged)
    line: AnalyzedSums = {
        "kind": "sums",
        "format": LINES_FORMAT,
        "runs": len(judged),
        "judged": len(judged) - unchanged,
        "unchanged": unchanged,
        "outcomes": dict(sorted(outcomes.items())),
        "outcome": outcome.value,
        "exit_code": outcome.exit_code,
        "problems": [
            {"run": named(str(each.run.path)), "problem": named(each.problem)}
            for each in judged
            if each.problem is not None
        ],
        "seconds": round(seconds, 3),
    }
    _print({**line})


def _print(document: Mapping[str, Any]) -> None:
    click.echo(encoded(document))  # flushes


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
