"""`splitbrain analyze` of a pushed store: the same where the runs are behind an address."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from splitbrain.harness.cli import afar, options
from splitbrain.harness.cli.analyzed import print_run, print_sums, print_table, summed
from splitbrain.results.errors import EngineError
from splitbrain.results.quantities import counted

if TYPE_CHECKING:
    from splitbrain.checkers.isolation.limits import Limits
    from splitbrain.harness.campaigns.afar import OnJudgedThere
    from splitbrain.harness.campaigns.many import Judged, Paged
    from splitbrain.results.remote.copies import Copies
    from splitbrain.results.remote.runs import RemoteRun


class Engine(msgspec.Struct, frozen=True):
    """What is to judge: `--engine`, `--master` and `--conf`."""

    name: str
    master: str
    conf: Mapping[str, str]


def analyze(
    address: str,
    references: Sequence[str],
    engine: Engine,
    checker_time: float | None,
    checker_memory: int | None,
    paged: Paged,
    *,
    again: bool,
    as_json: bool,
) -> int:
    """Judge pushed runs that are new or changed, and print what all of them were judged to be; the exit code.

    Raises:
        SplitbrainError: no run is there, or the store cannot be read or written.
    """
    from splitbrain.checkers.verdict import worst
    from splitbrain.harness.campaigns.rejudging import advising_on_interrupt
    from splitbrain.results.report import REPORT

    began_s = time.monotonic()
    given = [*references, *(["--again"] if again else [])]
    with (
        advising_on_interrupt(shlex.join(["splitbrain", "analyze", "--store", address, *given])),
        afar.opened(address) as copies,
    ):
        runs = afar.chosen(copies.store, references)
        limits = options.limits_of(checker_time, checker_memory)

        def print_one(run: RemoteRun, found: Judged) -> None:
            there = copies.store.place.below(run.folder)
            print_run(found, {"run": there, "report": f"{there}/{REPORT}"})

        on_judged = print_one if as_json else None
        known: dict[RemoteRun, Judged] = {}
        if not again:
            runs, known = _unchanged(copies, runs, limits, on_judged)
        rest = [run for run in runs if run not in known]
        by = options.engine_for(engine.name, len(rest)) if rest else "inline"
        limits = options.limits_of(checker_time, checker_memory, at_once=1 if by == "inline" else 0)
        spark = None if by == "inline" else engine
        judged = known | dict(zip(rest, _judge(copies, rest, spark, limits, on_judged, paged), strict=True))
        in_order = [judged[run] for run in runs]
        if as_json:
            print_sums(in_order, time.monotonic() - began_s, copies.said)
        else:
            print_table(in_order)
    click.echo(summed(in_order), err=as_json)
    return worst(each.outcome for each in in_order).exit_code


def _unchanged(
    copies: Copies, runs: list[RemoteRun], limits: Limits, on_judged: OnJudgedThere | None
) -> tuple[list[RemoteRun], dict[RemoteRun, Judged]]:
    from splitbrain.harness.campaigns.afar import nothing_more, unchanged_there
    from splitbrain.harness.cli.steps import Steps

    done: list[None] = []
    with Steps(len(runs)) as steps:
        steps.describe("looking for what has changed")

        def show() -> None:
            done.append(None)
            steps.reach(len(done))

        return unchanged_there(copies, runs, limits, show, _warn, on_judged or nothing_more)


def _judge(
    copies: Copies,
    runs: list[RemoteRun],
    wanted: Engine | None,
    limits: Limits,
    on_judged: OnJudgedThere | None,
    paged: Paged,
) -> list[Judged]:
    """Judge runs; if Spark does not start, and was not asked for, without it."""
    from splitbrain.harness.campaigns.afar import judge_there_one_by_one, judge_there_with_spark, nothing_more
    from splitbrain.harness.campaigns.many import alone_with
    from splitbrain.harness.cli.steps import Steps

    if not runs:
        return []
    with contextlib.ExitStack() as stack:
        steps = stack.enter_context(Steps(len(runs)))
        steps.describe("judging runs")
        if wanted is not None:
            from splitbrain.checkers.spark.hot_keys import Sizes
            from splitbrain.checkers.spark.session import is_local, session

            with steps.aside():
                click.echo(f"starting Spark ({wanted.master}) for {counted(len(runs), 'run')}", err=True)
            try:
                spark = stack.enter_context(session(wanted.master, options=wanted.conf))
            except EngineError as error:
                if wanted.name != "auto":
                    raise
                _warn(f"{error} The runs are judged one by one, without Spark.")
                limits = alone_with(limits)
            else:
                sizes = Sizes() if is_local(wanted.master) else None
                return judge_there_with_spark(
                    copies, runs, spark, steps.reach, _warn, limits, sizes, on_judged, paged=paged
                )
        return judge_there_one_by_one(copies, runs, steps.reach, _warn, limits, on_judged or nothing_more, paged=paged)


def _warn(line: str) -> None:
    click.echo(line, err=True)
