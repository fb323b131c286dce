"""`splitbrain replay`: run a stored run or a plan again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.harness.cli import afar, completing, options, parsing
from splitbrain.results.errors import EXIT_HARNESS_ERROR, UsageError
from splitbrain.results.text import encoded

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.endings import Cut
    from splitbrain.harness.campaigns.judging import Conclusion
    from splitbrain.harness.campaigns.planned import Played
    from splitbrain.harness.campaigns.replaying import Original
    from splitbrain.harness.cli.answers.runs import CutAnswer, PlannedReplayAnswer, ReplayAnswer

TIMES_MAX = 100_000


@click.command("replay", cls=parsing.Command)
@click.argument(
    "what",
    metavar="RUN|PLAN",
    shell_complete=completing.run_or_plan,
)
@click.option("--times", type=int, default=1, show_default=True, metavar="N", help="The number of replays.")
@click.option("--jobs", type=int, metavar="N", help="Worker processes, in simulation.  [default: one per core]")
@click.option(
    "--backend",
    metavar="NAME",
    help="Run the plan on this backend.  [default: where it was recorded]",
    shell_complete=completing.one(completing.parts("backends")),
)
@click.option("--keep", is_flag=True, help="Store a simulated replay as a new run, with its report.")
@options.store_or_none
@options.as_json
@click.pass_context
@afar.copied("what")
def command(
    ctx: click.Context,
    what: str,
    times: int,
    jobs: int | None,
    backend: str | None,
    keep: bool,
    store: str,
    as_json: bool,
) -> None:
    """Run a stored run or a plan again.

    In simulation a replay is exact: the history must be the same, byte for byte; if it is not, the cause is named
    (another version of the code, another Python). A run that was ended early is compared up to its end. On real nodes
    the plan is repeated: the same operations and the same faults at the same times. Races of threads and packets are
    not repeatable, so give --times: each replay is kept, and the number of failed ones is printed.

    A RUN is named as in splitbrain analyze; one of a pushed store by its address. A PLAN is a file: the
    output of splitbrain shrink, or the plan.json of a run. A kept replay does not become the "latest" run.

    \b
    Examples:
      splitbrain replay latest
      splitbrain replay tests/regressions/stale-read.json
      splitbrain replay tests/regressions/stale-read.json --times 100
      splitbrain replay latest --backend local --times 5

    The exit code is that of the most severe outcome, or 255 if a simulation of the same code gave another history.
    """
    from splitbrain.harness.campaigns.jobs import cores
    from splitbrain.harness.campaigns.replaying import original_of
    from splitbrain.results.stores import check_writable

    if not 1 <= times <= TIMES_MAX:
        raise UsageError(f"--times {times}: give 1 to {TIMES_MAX:,}.")
    workers = cores(jobs)
    parsing.refuse_twice("RUN|PLAN", [what])
    original = original_of(what, Path(store), backend)
    _refuse_idle(ctx, original, times, keep=keep)
    if keep or original.options.backend != "sim":
        check_writable(Path(store))
    if original.options.backend == "sim":
        ctx.exit(_exactly(original, times, workers, Path(store) if keep else None, as_json))
    ctx.exit(_as_planned(original, times, Path(store), as_json))


def _refuse_idle(ctx: click.Context, original: Original, times: int, *, keep: bool) -> None:
    """Refuse options that have no effect on this replay.

    Raises:
        UsageError: there is such an option.
    """
    backend = original.options.backend
    if backend != "sim" and options.given(ctx, "jobs"):
        raise UsageError(f"--jobs {ctx.params['jobs']}: it is for simulations; {backend} runs one replay at a time.")
    if times == 1 and options.given(ctx, "jobs"):
        raise UsageError(f"--jobs {ctx.params['jobs']}: one replay needs one process: add --times, or remove --jobs.")
    if backend != "sim" and keep:
        raise UsageError(f"--keep: each replay on {backend} is kept anyway: remove it.")
    if backend == "sim" and not keep and Path(ctx.params["what"]).is_file() and options.given(ctx, "store"):
        raise UsageError(
            f"--store {ctx.params['store']}: a plan is not read from a store: add --keep, or remove --store."
        )
    if backend == "sim" and not keep:
        options.check_store(ctx, [ctx.params["what"]])


# --- in simulation ----------------------------------------------------------------------------------------------------


def _exactly(original: Original, times: int, jobs: int, store: Path | None, as_json: bool) -> int:
    from splitbrain.checkers.verdict import worst
    from splitbrain.harness.campaigns.replaying import compare, keep, replay
    from splitbrain.harness.cli.progress import Progress
    from splitbrain.harness.cli.steps import Steps

    with Steps(times) as steps:

        def show(done: int, what: str) -> None:
            steps.reach(done)
            steps.describe(what)

        show(0, f"replaying {original.source}")
        runs = replay(original, times, jobs, show)
    comparison = compare(original, runs)
    kept = None if store is None else keep(original, store, Progress)
    outcome = worst(each.outcome for each in runs)
    if as_json:
        document: ReplayAnswer = {
            "what": original.source,
            "outcome": outcome.value,
            "times": times,
            "same": comparison.same,
            "hashes": dict(comparison.hashes),
            "cut": None if original.cut is None else _cut_document(original.cut),
            "differences": list(comparison.differences),
            "problem": comparison.problem,
            "sentence": comparison.sentence,
            "sentences": list(runs[0].sentences),
            "harness_error": runs[0].harness_error,
            "run": None if kept is None else str(kept.run.path),
            "report": None if kept is None else str(kept.report),
        }
        click.echo(msgspec.json.format(encoded(document)).decode())
    else:
        _say_outcome(outcome.value, runs[0])
        click.echo(comparison.sentence)
        if kept is not None:
            click.echo(f"report  {kept.report}")
    if comparison.problem is not None:
        return EXIT_HARNESS_ERROR
    return outcome.exit_code


def _cut_document(cut: Cut) -> CutAnswer:
    """Where the run was ended early: how, when, and how many rows of its history were compared."""
    return {"how": cut.how, "at_s": cut.at_ns / 1e9, "rows": cut.rows}


def _say_outcome(outcome: str, played: Played) -> None:
    from splitbrain.checkers.verdict import Outcome
    from splitbrain.harness.campaigns.words import COLOURS

    click.secho(outcome.upper(), fg=COLOURS[Outcome(outcome)], bold=True)
    if played.harness_error is not None:
        click.echo(f"Harness error: {played.harness_error}")
    for sentence in played.sentences:
        click.echo(sentence)


# --- on real nodes ----------------------------------------------------------------------------------------------------


def _as_planned(original: Original, times: int, store: Path, as_json: bool) -> int:
    from splitbrain.checkers.verdict import Outcome, worst
    from splitbrain.harness.campaigns.compose import backend_of
    from splitbrain.harness.campaigns.judging import conclusion_document
    from splitbrain.harness.campaigns.planned import test_of
    from splitbrain.harness.campaigns.replaying import plan_to_repeat
    from splitbrain.harness.campaigns.shrinking import store_run
    from splitbrain.harness.cli.progress import Progress

    plan = plan_to_repeat(original)
    backend_of(original.options).check(test_of(original.options, plan))
    conclusions: list[Conclusion] = []
    for number in range(1, times + 1):
        with Progress(f"replay {number} of {times}") as progress:
            conclusions.append(store_run(plan, store, progress, original.source))
        if not as_json:
            click.echo(f"{conclusions[-1].outcome.value:13} {conclusions[-1].report}")
    failed = sum(each.outcome is Outcome.VIOLATION for each in conclusions)
    outcome = worst(each.outcome for each in conclusions)
    if as_json:
        document: PlannedReplayAnswer = {
            "what": original.source,
            "outcome": outcome.value,
            "times": times,
            "failed": failed,
            "runs": [conclusion_document(each) for each in conclusions],
        }
        click.echo(msgspec.json.format(encoded(document)).decode())
    else:
        worst_one = next(each for each in conclusions if each.outcome is outcome)
        for sentence in worst_one.sentences()[:1]:
            click.echo(sentence)
        click.echo(f"failed {failed} of {times}")
    return outcome.exit_code
