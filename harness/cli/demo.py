"""`splitbrain demo`: two tests in two minutes, of a correct cluster and of one with a bug."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from splitbrain.harness.cli import options, parsing
from splitbrain.results.errors import EXIT_HARNESS_ERROR

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.compose import RunOptions
    from splitbrain.harness.campaigns.judging import Conclusion
    from splitbrain.results.rundir import RunDir

BUG = "M23"

SEED = 1
"""A drawn seed may kill all nodes for half of the run, which is inconclusive: no first look at what this is."""


@click.command("demo", cls=parsing.Command)
@options.store
@click.option(
    "--time-limit",
    type=float,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each of the two runs has faults.",
)
@click.option(
    "--seed",
    type=int,
    default=SEED,
    show_default=True,
    metavar="N",
    help="Root of all randomness. The default has faults that leave a majority most of the time.",
)
@click.pass_context
def command(ctx: click.Context, store: str, time_limit: float, seed: int) -> None:
    """Run five nodes under partitions and kills twice: without and with a bug switched on; judge both with Spark.

    The first run must pass. In the second a leader answers reads without asking a majority, and the checker must find
    an answer that is older than an acknowledged write. Exit code 0 means that both did.
    """
    from splitbrain.harness.campaigns.compose import RunOptions, backend_of, compose
    from splitbrain.harness.campaigns.record import record
    from splitbrain.harness.cli.progress import Progress

    common: dict[str, Any] = {
        "workload": "register",
        "system": "metadata",
        "backend": "local",
        "nodes": "5",
        "concurrency": "2n",
        "rate": 200.0,
        "time_limit": time_limit,
        "interval": None,
        "op_timeout": 2.0,
        "recovery": 20.0,
        "seed": seed,
    }
    healthy = RunOptions.of(**common, nemesis="partition,kill", bug="")
    broken = RunOptions.of(**{**common, "seed": healthy.seed}, nemesis="partition", bug=BUG)
    tests = [(compose(each), backend_of(each)) for each in (healthy, broken)]
    for test, backend in tests:
        backend.check(test)
    runs: list[RunDir] = []
    errors: dict[Path, str | None] = {}
    for test, backend in tests:
        with Progress(test.name) as progress:
            run, summary = record(test, backend, Path(store), progress)
        if summary.interrupted:
            raise click.Abort
        errors[run.path] = str(summary.failure) if summary.failure is not None else None
        runs.append(run)

    ctx.exit(_show(_judge(runs, errors), [healthy, broken]))


def _judge(runs: list[RunDir], errors: Mapping[Path, str | None]) -> list[Conclusion]:
    """With Spark; in this process where Spark is not installed."""
    from splitbrain.checkers.spark.session import is_installed, session
    from splitbrain.harness.campaigns.judging import judge_inline, judge_with_spark
    from splitbrain.harness.cli.progress import Progress

    if not is_installed():
        click.echo("Spark is not installed (pip install 'splitbrain[spark]'): this process judges", err=True)
        return [judge_inline(run, errors[run.path]) for run in runs]
    with Progress("both runs") as progress, progress.during("Spark") as show_step, session() as spark:
        show_step("judging")
        return judge_with_spark(runs, spark, errors)


def _show(conclusions: list[Conclusion], chosen: list[RunOptions]) -> int:
    """The table, the sentence of the violation, the reports; the exit code."""
    from rich.table import Table

    from splitbrain.checkers.verdict import Outcome
    from splitbrain.harness.campaigns.words import COLOURS, figures
    from splitbrain.harness.cli.tables import print_whole

    expected = [Outcome.PASS, Outcome.VIOLATION]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("cluster", "outcome", "expected", "what was done"):
        table.add_column(column)
    for each, options_, wanted in zip(conclusions, chosen, expected, strict=True):
        table.add_row(
            f"with bug {options_.bug}" if options_.bug else "as it is",
            f"[{COLOURS[each.outcome]}]{each.outcome.value}[/]",
            wanted.value,
            figures(each.verdicts),
        )
    print_whole(table)
    for each in conclusions:
        for sentence in each.sentences():
            click.echo(f"\n{sentence}")
    click.echo()
    for each in conclusions:
        click.echo(f"report  {each.report}")
    if [each.outcome for each in conclusions] == expected:
        return 0
    click.echo(
        f"\nThe demo did not end as expected. Both runs are kept; to repeat them, use the seed {chosen[0].seed}."
    )
    return EXIT_HARNESS_ERROR
