"""`splitbrain analyze`: judge stored runs, all at once; those that have not changed since they were judged are not."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from splitbrain.harness.cli import afar, completing, options, parsing
from splitbrain.harness.cli.analyzed import print_run, print_sums, print_table, summed
from splitbrain.results.errors import EngineError, RunNotFoundError, UsageError
from splitbrain.results.quantities import counted

if TYPE_CHECKING:
    from splitbrain.checkers.isolation.limits import Limits
    from splitbrain.harness.campaigns.many import Judged, OnJudged, Paged
    from splitbrain.results.rundir import RunDir
    from splitbrain.results.store import Store

STARTED: Final = "Spark is up"
"""The beginning of the line that says that judging begins."""


@click.command("analyze", cls=parsing.Command)
@click.argument(
    "runs",
    nargs=-1,
    metavar="[RUN]...",
    shell_complete=completing.run,
)
@options.stored_anywhere
@options.engine_of_runs
@options.limits
@click.option("--again", is_flag=True, help="Judge also the runs of which nothing has changed since they were judged.")
@click.option(
    "--pages",
    "paged",
    type=click.Choice(["failing", "all", "none"]),
    default=None,
    help="Which runs get a report page: all but those that pass, all, or none. splitbrain report and splitbrain serve "
    "make the others.  [default: failing; all of the runs that are named]",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON line for each run as it is judged, and one of sums."
)
@click.pass_context
def command(
    ctx: click.Context,
    runs: tuple[str, ...],
    store: str,
    engine: str,
    master: str,
    checker_time: float | None,
    checker_memory: int | None,
    again: bool,
    conf: Mapping[str, str],
    paged: Paged | None,
    as_json: bool,
) -> None:
    """Judge stored runs that are new or changed: of a store, or those named; many of them with the Spark pipeline.

    A run has changed if its files have, its checkers or their code, or if a limit is lower than the one that sufficed.
    Of other runs the verdict stands, and counts for the exit code as if it was made now; --again makes it again. A
    verdict that could not be made (a checker broke, or met a limit) is tried again each time.

    --json prints a line for each run as soon as it is judged, and a last one with the sums (docs/schema.md).

    A RUN is the path of its folder, its name, the beginning of its name, or "latest"; or the address of a pushed run.
    If the controller of a run was killed, the run is recovered first: every operation that was flushed is judged. A
    damaged run is listed with the file and the cause, and counts as a harness error; the other runs are still judged.
    So is a run with a checker that breaks, ends its process, or needs more than its limits: what the other checkers
    found is kept. Runs that are still in progress are listed and skipped.
    """
    if engine == "auto" and (options.chosen(ctx, "master") or conf):
        engine = "spark"
    options.check_master(ctx, engine, master)
    conf = conf if engine != "inline" or options.given(ctx, "conf") else {}
    options.check_conf(engine, conf)
    options.limits_of(checker_time, checker_memory)

    from splitbrain.checkers.verdict import worst
    from splitbrain.harness.campaigns.rejudging import advising_on_interrupt
    from splitbrain.results.store import Store
    from splitbrain.results.stores import is_run

    parsing.refuse_twice("RUN", runs)
    paged = paged or ("all" if runs else "failing")
    there = afar.addressed(ctx, store, runs)
    if there is not None:
        from splitbrain.harness.cli.analyze_there import Engine, analyze

        chosen_engine = Engine(engine, master, conf)
        ctx.exit(analyze(*there, chosen_engine, checker_time, checker_memory, paged, again=again, as_json=as_json))
    options.check_store(ctx, runs)
    chosen = _choose(Store(Path(store)), runs)
    where = [] if runs and all(map(is_run, runs)) else ["--store", store]
    may_fall_back = engine == "auto"
    given = ["--again"] if again else []
    task = _Task(paged, print_run if as_json else _print_nothing)
    began_s = time.monotonic()
    with advising_on_interrupt(shlex.join(["splitbrain", "analyze", *runs, *where, *given])):
        unchanged = [] if again else _unchanged(chosen, options.limits_of(checker_time, checker_memory), task.on_judged)
        known = {each.run.path for each in unchanged}
        rest = [run for run in chosen if run.path not in known]
        engine = options.engine_for(engine, len(rest)) if rest else "inline"
        limits = options.limits_of(checker_time, checker_memory, at_once=1 if engine == "inline" else 0)
        spark = None if engine == "inline" else _Spark(master, conf, may_fall_back)
        judged = _judge(rest, unchanged, task, limits, spark)
    if not judged:
        raise RunNotFoundError(f"there is no run to judge any more: {counted(len(chosen), 'run')} removed meanwhile.")
    order = {run.path: place for place, run in enumerate(chosen)}
    judged.sort(key=lambda each: order[each.run.path])
    if as_json:
        print_sums(judged, time.monotonic() - began_s)
    else:
        print_table(judged)
    click.echo(summed(judged), err=as_json)
    ctx.exit(worst(each.outcome for each in judged).exit_code)


def _choose(store: Store, references: Sequence[str]) -> list[RunDir]:
    """The selected runs: each named one, or all runs of the store that have something to judge.

    Raises:
        RunNotFoundError: there is no such run.
        UsageError: a named run is in progress.
    """
    if not references:
        found = [run for run in store.folders() if is_over(run)]
        if not found:
            raise RunNotFoundError(f"there is no run to judge in the store {store.root}.")
        return found
    named: dict[Path, RunDir] = {}
    for reference in references:
        run = store.find(reference)
        path = run.path.resolve()
        if path in named:
            raise UsageError(f"RUN {reference} is run {run.name}, which is given twice: give it once.")
        named[path] = run
    for run in named.values():
        if _standing(run) == "running":
            raise UsageError(f"run {run.name} of test {run.test_name} is still in progress: wait for it, or stop it.")
    return list(named.values())


def is_over(run: RunDir) -> bool:
    """Whether there is something to judge; if not, a line says so. Damage is found later."""
    standing = _standing(run)
    if standing in ("running", "empty"):
        why = "is in progress" if standing == "running" else "recorded nothing"
        click.echo(f"left out: {run.test_name}/{run.name} {why}", err=True)
        return False
    return True


def _standing(run: RunDir) -> str:
    """ "running", "empty", or "over". A damaged run has a standing too."""
    from splitbrain.checkers.stored import or_unjudged

    if or_unjudged(run.path, run.is_running) is True:
        return "running"
    began = or_unjudged(run.path, lambda: run.recorded() or "began_wall_ns" in run.read_test())
    return "empty" if began is False else "over"


class _Task(msgspec.Struct, frozen=True):
    """What is done with the runs beside judging them: which get pages, and what is called with each."""

    paged: Paged
    on_judged: OnJudged


class _Spark(msgspec.Struct, frozen=True):
    """The Spark that was asked for; `may_be_left`: it was not by name, and can be done without."""

    master: str
    conf: Mapping[str, str]
    may_be_left: bool


def _print_nothing(_: Judged) -> None:
    """Print nothing before all runs are judged: the table comes at the end."""


def _unchanged(runs: list[RunDir], limits: Limits, on_judged: OnJudged) -> list[Judged]:
    """What those of the runs were judged to be of which nothing has changed since."""
    from splitbrain.harness.campaigns.many import unchanged
    from splitbrain.harness.cli.steps import Steps

    with Steps(len(runs)) as steps:
        steps.describe("looking for what has changed")
        found: list[Judged] = []
        for number, run in enumerate(runs, 1):
            known = unchanged(run, limits)
            if known is not None:
                found.append(known)
                on_judged(known)
            steps.reach(number)
    return found


def _judge(
    runs: list[RunDir],
    unchanged: list[Judged],
    task: _Task,
    limits: Limits,
    wanted: _Spark | None,
) -> list[Judged]:
    """Judge runs; if Spark does not start, and was not asked for, without it."""
    from splitbrain.harness.campaigns.many import alone_with, judge_in_batches, judge_one_by_one
    from splitbrain.harness.cli.steps import Steps

    began_s = time.monotonic()
    with contextlib.ExitStack() as stack:
        steps = Steps(len(runs))

        def show(done: int) -> None:
            steps.reach(done)
            if done == len(runs) or wanted is not None:
                with steps.aside():
                    click.echo(
                        f"judged {done} of {counted(len(runs), 'run')} in {time.monotonic() - began_s:.0f} s", err=True
                    )

        one_by_one = partial(
            judge_one_by_one, runs, show, _warn, unchanged, limits=limits, on_judged=task.on_judged, paged=task.paged
        )
        if wanted is None:
            stack.enter_context(steps).describe("judging runs" if runs else "looking at pages")
            return one_by_one()
        from splitbrain.checkers.spark.session import session
        from splitbrain.harness.campaigns.jobs import cores

        click.echo(f"starting Spark ({wanted.master}) for {counted(len(runs), 'run')}", err=True)
        stack.enter_context(steps).describe("starting Spark")
        try:
            spark = stack.enter_context(session(wanted.master, options=wanted.conf))
        except EngineError as error:
            if not wanted.may_be_left:
                raise
            _warn(f"{error} The runs are judged one by one, without Spark.")
            return one_by_one(limits=alone_with(limits))
        with steps.aside():
            click.echo(f"{STARTED} after {spark.start_s:.1f} s", err=True)
        steps.describe("judging runs")
        began_s = time.monotonic()
        return judge_in_batches(
            runs, spark, cores(None), show, _warn, unchanged, limits=limits, on_judged=task.on_judged, paged=task.paged
        )


def _warn(line: str) -> None:
    click.echo(line, err=True)
