"""`splitbrain nightly`: a matrix of tests within a budget, and one answer for each violation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from splitbrain.harness.cli import completing, options, parsing
from splitbrain.results.errors import UsageError

if TYPE_CHECKING:
    from splitbrain.results.nights import Night


MARKS_SHOWN: Final = 6
CHANGES_SHOWN: Final = 10


@click.command("nightly", cls=parsing.Command)
@click.argument(
    "matrix",
    metavar="MATRIX.toml",
    shell_complete=completing.matrix,
)
@click.option("--budget", metavar="TIME", help="How long it may take, such as 90s, 30m or 8h.  [default: the matrix's]")
@click.option(
    "--baseline",
    callback=parsing.named,
    metavar="FILE",
    help="Violations that are known.  [default: the matrix's]",
    shell_complete=completing.file,
)
@click.option("--strict", is_flag=True, help="Known violations count for the exit code and for JUnit.")
@click.option("--resume", is_flag=True, help="Continue the latest night of this matrix that did not come to its end.")
@click.option("--seed", type=int, metavar="N", help="From which fresh seeds are drawn.  [default: drawn]")
@click.option("--jobs", type=int, metavar="N", help="Processes that simulate.  [default: one per core]")
@click.option(
    "--junit",
    callback=parsing.named,
    metavar="FILE",
    help="Write the JUnit XML there as well.",
    shell_complete=completing.file,
)
@click.option(
    "--summary",
    callback=parsing.named,
    metavar="FILE",
    help="Append the Markdown summary to this file.",
    shell_complete=completing.file,
)
@options.store
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    matrix: str,
    budget: str | None,
    baseline: str | None,
    strict: bool,
    resume: bool,
    seed: int | None,
    jobs: int | None,
    junit: str | None,
    summary: str | None,
    store: str,
    as_json: bool,
) -> None:
    """Run a matrix of tests within a budget, and say of each violation whether it is new, known or flaky.

    The file has the axes (workloads, nemeses, systems, versions, backends, bugs), what to leave out, weights, seeds and
    limits (docs/nightly.md). Every cell gets its share of the time; cells that got no run come first in the next night.
    What fails is kept, replayed and, in simulation, shrunk. The night leaves night.json, junit.xml, summary.md and
    night.html in STORE/nights/NAME.

    \b
    Examples:
      splitbrain nightly nightly.toml
      splitbrain nightly nightly.toml --budget 8h --resume --junit junit.xml
      splitbrain nightly nightly.toml --baseline known.toml --summary "$GITHUB_STEP_SUMMARY"

    The exit code is 1 for a violation that is not known, 255 if a run failed in the harness or a system could not be
    deployed, 2 if no run proved anything, else 0. Ctrl-C ends the night; it can be resumed, also after kill -9.
    """
    from splitbrain.harness.campaigns.interrupts import Interrupts
    from splitbrain.harness.campaigns.jobs import cores
    from splitbrain.harness.campaigns.nightly import output
    from splitbrain.harness.campaigns.nightly.cells import SEED_END
    from splitbrain.harness.campaigns.nightly.matrix import load_matrix
    from splitbrain.harness.campaigns.nightly.night import NightPlan, run_night
    from splitbrain.harness.cli.steps import Steps
    from splitbrain.results import nightmarkdown, quantities
    from splitbrain.results.baseline import Baseline

    if seed is not None and not 0 <= seed < SEED_END:
        raise UsageError(f"--seed {seed}: give a whole number from 0 to {SEED_END - 1}.")
    found = load_matrix(Path(matrix))
    budget_s = found.budget_s if budget is None else quantities.age("--budget", budget)
    if not budget_s > 0:
        raise UsageError(f"--budget {budget}: give more than 0.")
    if resume and seed is not None:
        raise UsageError(f"--seed {seed}: a night that is resumed has its seed: remove --seed, or --resume.")
    for option, file in (("--junit", junit), ("--summary", summary)):
        if file is not None:
            _check_file(option, Path(file))
    known = Path(baseline) if baseline is not None else found.baseline
    if strict and known is None:
        raise UsageError("--strict: without a baseline nothing is known: add --baseline, or remove it.")
    plan = NightPlan(
        matrix=found,
        store=Path(store),
        baseline=Baseline() if known is None else Baseline.load(known),
        jobs=cores(jobs),
        budget_s=budget_s,
        strict=strict,
        resume=resume,
        seed=seed,
    )
    interrupts = Interrupts()
    with interrupts.heard("ending: what runs is ended cleanly; --resume continues the night"), Steps(1) as steps:
        night, folder = run_night(plan, interrupts, steps.describe, _warn)
    if junit is not None:
        output.put(Path(junit), (folder / output.JUNIT).read_bytes())
    if summary is not None:
        _append(Path(summary), nightmarkdown.document(night))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(night)).decode())
    else:
        show(night, folder)
    ctx.exit(night.exit_code)


def _warn(line: str) -> None:
    click.echo(f"splitbrain: {line}", err=True)


def _check_file(option: str, path: Path) -> None:
    """Refuse a file that cannot be written, before the night and not after it."""
    from splitbrain.results.stores import check_path, check_writable

    if path.is_dir():
        raise UsageError(f"{option} {path}: this is a folder: name a file.")
    check_path(str(path.parent), option)
    check_writable(path.parent, option)


def _append(path: Path, text: str) -> None:
    """Add to a file, as CI services want their summaries."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"--summary {path}: it cannot be written: {error.strerror}.") from error


def show(night: Night, folder: Path) -> None:
    """Print what is new, flaky and known, what was not reached, and where the rest is."""
    from splitbrain.checkers.verdict import Outcome
    from splitbrain.harness.campaigns.nightly import output
    from splitbrain.harness.campaigns.words import COLOURS
    from splitbrain.results.nightmarkdown import grouped, headline

    click.secho(night.outcome.upper(), fg=COLOURS[Outcome(night.outcome)], bold=True, nl=False)
    click.echo(f"  {headline(night)}")
    for group in grouped(night.violations):
        first = group[0]
        times = f", {len(group)} runs" if len(group) > 1 else ""
        cells = ", ".join(dict.fromkeys(each.cell for each in group))
        again = f", reproduced {first.seen} of {first.replays}" if first.replays else ""
        click.echo(f"\n{first.classification}: {first.signatures[0]} in {cells}{times}{again}")
        click.echo(first.sentence)
        if first.expired:
            click.echo(f"its entry ({first.issue}, {first.owner}) expired on {first.expires}: it is new again")
        elif first.issue and first.classification != "known":
            click.echo(f"known ({first.issue}), and besides it showed {', '.join(first.uncovered)}")
        elif first.issue:
            click.echo(f"known  {first.issue}, {first.owner}, until {first.expires}")
        if first.report is not None:
            click.echo(f"report  {first.report}")
        click.echo(f"replay  {first.replay}")
        if first.smaller is not None and first.smaller.replay is not None:
            click.echo(f"smaller {first.smaller.replay}")
    for run in night.errors[:10]:
        click.echo(f"\nerror ({run.error_kind}) in {run.cell}: {run.error}")
    click.echo()
    for each in night.fixed:
        click.echo(f"fixed: {each.signature} is gone for {each.nights} nights {each.issue}".rstrip())
    _show_trends(night)
    _show_not_reached(night)
    click.echo(f"page    {folder / output.PAGE}")
    click.echo(f"junit   {folder / output.JUNIT}")


def _show_trends(night: Night) -> None:
    from splitbrain.results.nightmarkdown import change_line
    from splitbrain.results.quantities import counted

    found = night.trends
    for each in found.changes[:CHANGES_SHOWN]:
        click.echo(f"changed: {change_line(each)}")
    if len(found.changes) > CHANGES_SHOWN:
        click.echo(f"changed: {len(found.changes) - CHANGES_SHOWN} more (the page has all)")
    few = len(found.too_few) + found.too_few_more
    if found.nights:
        none = "" if found.changes else "no figure changed, "
        some = f"; too few runs or nights to say of {counted(few, 'figure')}" if few else ""
        click.echo(f"figures {none}{counted(found.compared, 'comparison')} with {counted(found.nights, 'night')}{some}")
    for problem in found.problems:
        click.echo(f"figures of a night cannot be read: {problem}")


def _show_not_reached(night: Night) -> None:
    from splitbrain.results.quantities import counted

    found = night.not_reached
    if found.cells:
        click.echo(f"cells without a run, first in the next night: {', '.join(found.cells)}")
    for each in found.impossible:
        click.echo(f"cannot be run: {each.cell}: {each.why}")
    if found.marks:
        more = (
            f" and {len(found.marks) - MARKS_SHOWN} more (the page has all)" if len(found.marks) > MARKS_SHOWN else ""
        )
        click.echo(f"never reached: {counted(len(found.marks), 'mark')}: {', '.join(found.marks[:MARKS_SHOWN])}{more}")
    if found.reasons:
        click.echo(f"inconclusive because of: {', '.join(f'{code} {count}' for code, count in found.reasons.items())}")
