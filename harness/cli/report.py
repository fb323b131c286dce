"""`splitbrain report`: build the page of a run again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from splitbrain.harness.cli import afar, completing, options, parsing
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.text import encoded


@click.command("report", cls=parsing.Command)
@click.argument(
    "runs",
    nargs=-1,
    metavar="[RUN]...",
    shell_complete=completing.run,
)
@options.stored_anywhere
@options.as_json
@click.pass_context
def command(ctx: click.Context, runs: tuple[str, ...], store: str, as_json: bool) -> None:
    """Build the report pages of runs again, from what is stored. Without a RUN: of the latest run. If a run cannot be
    read, the other pages are still built.

    The verdict stays as it is: `splitbrain analyze RUN` judges again.
    """
    parsing.refuse_twice("RUN", runs)
    there = afar.addressed(ctx, store, runs)
    pages, problems = _write_there(*there) if there is not None else _write_here(ctx, runs, store)
    if as_json or pages:
        click.echo(encoded(pages).decode() if as_json else "\n".join(pages))
    ctx.exit(max((problem.exit_code for problem in problems), default=0))


def _write_here(ctx: click.Context, runs: Sequence[str], store: str) -> tuple[list[str], list[SplitbrainError]]:
    """Write pages into the folders of runs: where they are, and why some are not."""
    from splitbrain.results.atomic import alone_in
    from splitbrain.results.collecting import collect_telemetry
    from splitbrain.results.report import write_report
    from splitbrain.results.store import Store

    options.check_store(ctx, runs)
    pages: list[str] = []
    problems: list[SplitbrainError] = []
    for reference in runs or ("latest",):
        try:
            run = Store(Path(store)).find(reference)
            if not run.is_running():
                with alone_in(run.path):
                    collect_telemetry(run)
            pages.append(str(write_report(run.path)))
        except SplitbrainError as error:
            problems.append(error)
            click.echo(f"splitbrain: {error}", err=True)
    return pages, problems


def _write_there(address: str, runs: Sequence[str]) -> tuple[list[str], list[SplitbrainError]]:
    """The same of pushed runs: the pages are put beside them."""
    from splitbrain.results.remote.pages import write_report_there

    pages: list[str] = []
    problems: list[SplitbrainError] = []
    with afar.opened(address) as copies:
        for reference in runs or ("latest",):
            try:
                pages.append(write_report_there(copies, copies.store.find(reference)))
            except SplitbrainError as error:
                problems.append(error)
                click.echo(f"splitbrain: {copies.said(str(error))}", err=True)
    return pages, problems
