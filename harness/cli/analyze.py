"""`splitbrain analyze`: judge stored runs, all at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from harness.cli import options
from results.errors import EXIT_USAGE, RunNotFoundError

if TYPE_CHECKING:
    from checkers.spark.runs import Ready
    from harness.cli.many import Judged
    from results.store import RunDir, Store

STARTED: Final = "Spark is up"
"""How the line begins that tells that judging begins."""


@click.command("analyze")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@options.store
@options.engine
@options.as_json
@click.pass_context
def command(
    ctx: click.Context, runs: tuple[str, ...], store: str, engine: str | None, master: str, as_json: bool
) -> None:
    """Judge stored runs again, all of a store or those named, in one pass of the Spark pipeline.

    A RUN is the path of its folder, its name, the beginning of its name, or "latest". A run whose controller was
    killed is recovered first: every operation that had been flushed is judged. Runs still under way and damaged ones
    are named and left alone.
    """
    from checkers.verdict import Outcome, worst
    from results.store import Store

    chosen, refused = _choose(Store(Path(store)), runs)
    judged = _judge(chosen, engine or "spark", master)
    if as_json:
        _print_json(judged)
    else:
        _print(judged)
    outcome = worst(each.outcome for each in judged)
    ctx.exit(EXIT_USAGE if refused and outcome is not Outcome.VIOLATION else outcome.exit_code)


def _choose(store: Store, references: Sequence[str]) -> tuple[list[Ready], int]:
    """The runs that are meant and can be judged, and how many of a store are damaged. Those are told and left alone.

    Raises:
        RunNotFoundError: there is none.
        SplitbrainError: a run that was named, or the only one, cannot be read.
    """
    from checkers.spark.runs import sort_out

    found = [store.find(reference) for reference in references] or [run for run in store.runs() if _is_over(run)]
    if not found:
        raise RunNotFoundError(f"there is no run to judge in the store {store.root}.")
    good, refused = sort_out(run.path for run in found)
    if refused and (references or not good):
        raise next(iter(refused.values()))
    for error in refused.values():
        click.echo(f"left out: {error}", err=True)
    return good, len(refused)


def _is_over(run: RunDir) -> bool:
    """Whether there is something to judge; if not, that is told."""
    status = run.status()
    if status in ("running", "empty"):
        why = "is under way" if status == "running" else "recorded nothing"
        click.echo(f"left out: {run.test_name}/{run.name} {why}", err=True)
        return False
    return True


def _judge(runs: list[Ready], engine: str, master: str) -> list[Judged]:
    from harness.cli.many import judge_in_batches, judge_one_by_one, page_writers
    from harness.cli.planned import cores

    began_s = time.monotonic()

    def show(done: int) -> None:
        click.echo(f"judged {done} of {len(runs)} runs in {time.monotonic() - began_s:.0f} s", err=True)

    if engine == "inline":
        return judge_one_by_one(runs, show)
    from checkers.spark.session import session

    click.echo(f"starting Spark ({master}) for {len(runs)} runs", err=True)
    with page_writers(len(runs), cores(None)) as pages, session(master) as spark:
        click.echo(f"{STARTED} after {spark.start_s:.1f} s", err=True)
        began_s = time.monotonic()
        return judge_in_batches(runs, spark, pages, show)


def _print_json(judged: list[Judged]) -> None:
    """An array with a document per run, one after the other: all of them at once may be more than fits into memory."""
    from harness.cli.judging import stored_document

    click.echo("[")
    for number, each in enumerate(judged, 1):
        document = msgspec.json.format(msgspec.json.encode(stored_document(each.run)))
        click.echo(f"{document.decode()}{',' if number < len(judged) else ''}")
    click.echo("]")


def _print(judged: list[Judged]) -> None:
    from rich.console import Console
    from rich.table import Table

    from harness.cli.words import COLOURS

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("outcome", "test", "run", "why"):
        table.add_column(column, overflow="fold")
    for each in judged:
        colour = COLOURS[each.outcome]
        table.add_row(f"[{colour}]{each.outcome.value}[/]", each.run.test_name, each.run.name, each.said)
    Console().print(table)
    for each in judged:
        for how in each.hot_keys:
            click.echo(f"{each.run.test_name}/{each.run.name}: {how}")
