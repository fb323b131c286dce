"""`splitbrain hunt`: simulate seeds on all cores until a checker finds a violation."""

from __future__ import annotations

import contextlib
import itertools
import math
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from splitbrain.harness.cli import completing, options, parsing
from splitbrain.results.errors import EXIT_HARNESS_ERROR, UsageError
from splitbrain.results.text import encoded

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.compose import RunOptions
    from splitbrain.harness.campaigns.hunting.findings import Finding
    from splitbrain.harness.campaigns.hunting.search import Limits
    from splitbrain.harness.campaigns.hunting.smaller import Smaller
    from splitbrain.harness.campaigns.hunting.tally import Tally
    from splitbrain.harness.campaigns.hunting.trial import Trial
    from splitbrain.harness.campaigns.interrupts import Interrupts
    from splitbrain.harness.campaigns.swarm import Asked
    from splitbrain.harness.campaigns.workers import Workers
    from splitbrain.harness.cli.answers.runs import HuntAnswer


SEED_END = 2**62
"""The first seed is below this limit, so that the seeds that follow are valid too."""

SHRINK_BUDGET_S = 120.0
"""`splitbrain shrink` can continue from what a hunt came to in this time."""

REQUESTS_MAX = 3
"""So many requests end a search that heard none of them, as they end a run; nothing is left of it then."""


@click.command("hunt", cls=parsing.Command)
@click.option(
    "-w",
    "--workload",
    metavar="NAME[,NAME...]",
    help="Each seed draws one of these.  [default: all of splitbrain list workloads]",
    shell_complete=completing.several(completing.parts("workloads")),
)
@click.option(
    "--nemesis",
    metavar="NAME[,NAME...]",
    help="Each seed draws some of these.  [default: all that can be simulated and that a correct system tolerates, "
    "without moment]",
    shell_complete=completing.several(completing.parts("nemeses")),
)
@click.option(
    "--system",
    default="metadata",
    show_default=True,
    metavar="NAME",
    help="What is tested.",
    shell_complete=completing.one(completing.parts("systems")),
)
@click.option(
    "--bug",
    default="",
    callback=parsing.named,
    metavar="ID[,ID...]",
    help="Switch bugs of the system on, in every run.",
    shell_complete=completing.several(completing.of_system("bugs")),
)
@click.option(
    "--settings",
    callback=parsing.named,
    metavar="NAME=N[,NAME=N...]",
    help="Numbers that nodes are started with (splitbrain list settings), in every run.  [default: drawn]",
    shell_complete=completing.several(completing.of_system("settings"), "="),
)
@click.option(
    "--consistency-model",
    default="",
    callback=parsing.named,
    metavar="NAME[,NAME...]",
    help="As in splitbrain run, in every run; only workloads that are judged by such models are drawn.",
    shell_complete=completing.several(completing.parts("consistency models")),
)
@click.option("-n", "--nodes", metavar="N[,N...]", help="Each seed draws one of these numbers.  [default: 3,4,5,6,7]")
@click.option(
    "--world",
    default="swarm",
    show_default=True,
    metavar="NAME",
    help="As in splitbrain run; with swarm each seed draws its own.",
    shell_complete=completing.one(completing.parts("worlds")),
)
@click.option("-c", "--concurrency", metavar="N|Nn", help="Client processes, in every run.  [default: drawn]")
@click.option("--rate", type=float, metavar="HZ", help="Operations per second, in every run.  [default: drawn]")
@click.option("--burst", type=int, metavar="N", help="Operations at once, in every run.  [default: drawn]")
@click.option("--sharing", type=int, metavar="N", help="As in splitbrain run, in every run.  [default: drawn]")
@click.option(
    "--time-limit", type=float, metavar="SECONDS", help="Simulated time with faults.  [default: drawn, 12 to 60]"
)
@click.option(
    "--interval", type=float, metavar="SECONDS", help="Mean time between nemesis operations. [default: drawn]"
)
@click.option("--overlap", type=float, metavar="P", help="As in splitbrain run, in every run.  [default: drawn]")
@click.option("--op-timeout", type=float, metavar="SECONDS", help="As in splitbrain run.  [default: drawn]")
@click.option(
    "--recovery",
    type=float,
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="As in splitbrain run, in every run.",
)
@click.option(
    "--seed", type=int, metavar="N", help="The first seed; each next seed is one higher.  [default: drawn, printed]"
)
@click.option(
    "--budget",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="CPU time of each worker process after which no new seed starts: about that long on an idle machine.",
)
@click.option("--runs", type=int, metavar="N", help="The largest number of seeds.")
@click.option("--jobs", type=int, metavar="N", help="Worker processes.  [default: one per core]")
@click.option("--keep-going", is_flag=True, help="Do not stop at a violation; count each kind of violation.")
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Shrink the first violation.")
@click.option(
    "--shrink-budget",
    type=float,
    metavar="SECONDS",
    help=f"Limit of CPU time of each worker process while shrinking.  [default: {SHRINK_BUDGET_S:g}]",
)
@click.option(
    "--canary/--no-canary",
    default=None,
    help="First find a known bug.  [default: --canary, without --bug]",
)
@options.store
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    seed: int | None,
    budget: float,
    runs: int | None,
    jobs: int | None,
    keep_going: bool,
    shrink: bool,
    shrink_budget: float | None,
    canary: bool | None,
    store: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Simulate seed after seed on all cores until a checker finds a violation; then shrink it.

    Each seed draws its own test, within the given options: nodes, clients, load, faults and their rate. Options that
    are given are the same in every run. Each finding is run once more and stored with its report; its history must be
    the same, byte for byte. The same code and seed give the same finding.

    \b
    Examples:
      splitbrain hunt                                          one minute, all kinds of tests
      splitbrain hunt --budget 3600 --keep-going               an hour, all kinds of violations
      splitbrain hunt --bug M23 --workload register            how long until a bug is found?
      splitbrain hunt --nemesis power,disk --nodes 3,5         crashes only, on small clusters
      splitbrain hunt --seed 1 --runs 200 --budget 600         the same 200 tests every night

    One seed in twenty is run again in a process with another hash seed, which the budget does not count: both runs must
    be the same.

    Short random runs often test too little to pass. They count as inconclusive. The exit code is 2 only if every run of
    the hunt was inconclusive; it is 1 after a violation, 255 after a harness error, else 0.

    Ctrl-C ends the hunt at once with what was found. Each hunt writes its figures to STORE/hunts, for trends.
    """
    from splitbrain.harness.campaigns.swarm import asked_for

    _check(seed, budget, runs, shrink_budget)
    if shrink_budget is not None and not shrink:
        raise UsageError("--shrink-budget has no effect with --no-shrink: remove one of them.")
    if keep_going and runs == 1:
        raise UsageError("--keep-going has no effect with --runs 1: remove one of them.")
    for name in ("interval", "overlap"):
        if given["nemesis"] is not None and given["nemesis"].strip() == "none" and given[name] is not None:
            raise UsageError(f"--{name} {given[name]:g}: it has no effect with --nemesis none: remove it.")
    asked = asked_for(**given)
    first = secrets.randbelow(2**31) if seed is None else seed

    from splitbrain.harness.campaigns.hunting import findings
    from splitbrain.harness.campaigns.hunting.search import Limits, ending
    from splitbrain.harness.campaigns.interrupts import Interrupts
    from splitbrain.harness.campaigns.jobs import cores
    from splitbrain.harness.cli.hunting.answer import Hunted, document_of, show

    processes = cores(jobs)
    findings.folder(Path(store))
    limits = Limits(budget_s=budget, runs=runs, keep_going=keep_going)
    canary_first = not asked.bug if canary is None else canary
    interrupts = Interrupts()
    with interrupts.heard(last=math.inf):  # an interrupted hunt writes its figures, too
        tally, wall_s = _hunt(asked, first, limits, processes, canary_first, interrupts)
        how = Hunted(asked, limits, ending(tally, limits, interrupts), wall_s)
        kept = findings.keep(tally, Path(store), interrupts)
        smaller = _smaller(kept, Path(store), processes, shrink_budget, interrupts) if shrink else None
        document = document_of(how, first, tally, kept, smaller, store)
        figures = findings.record(Path(store), document, first)
        with interrupts.heard(last=REQUESTS_MAX):
            if as_json:
                answer: HuntAnswer = {**document, "file": str(figures)}
                click.echo(msgspec.json.format(encoded(answer)).decode())
            else:
                show(tally, how, kept, smaller, figures, store)
    ctx.exit(_exit_code(tally, kept))


def _check(seed: int | None, budget: float, runs: int | None, shrink_budget: float | None) -> None:
    """Refuse numbers that are out of bounds.

    Raises:
        UsageError: a number is out of bounds.
    """
    from splitbrain.harness.contract.test import TIME_MAX_S, check_number

    check_number("budget", budget, TIME_MAX_S)
    if shrink_budget is not None:
        check_number("shrink budget", shrink_budget, TIME_MAX_S)
    if runs is not None and not 1 <= runs <= SEED_END:
        raise UsageError(f"--runs {runs}: give 1 to {SEED_END}.")
    if seed is not None and not 0 <= seed < SEED_END:
        raise UsageError(f"--seed {seed}: give a whole number from 0 to {SEED_END - 1}.")


def _hunt(
    asked: Asked, first: int, limits: Limits, jobs: int, canary_first: bool, interrupts: Interrupts
) -> tuple[Tally, float]:
    """Run the canary if it is enabled, then the hunt; what was tried, and for how many seconds."""
    from splitbrain.checkers import kernels
    from splitbrain.harness.campaigns import canary
    from splitbrain.harness.campaigns.hunting.repeating import HASH_SEED, OTHER_HASH_SEED
    from splitbrain.harness.campaigns.hunting.search import TRIAL_LIMIT_S, search
    from splitbrain.harness.campaigns.hunting.trial import carry_out
    from splitbrain.harness.campaigns.swarm import draw
    from splitbrain.harness.campaigns.warm import warm_up
    from splitbrain.harness.campaigns.workers import Workers
    from splitbrain.harness.cli.hunting.progress import HuntProgress

    def crew(jobs: int, hash_seed: int) -> Workers[RunOptions, Trial]:
        return Workers(
            carry_out, jobs, prepare=warm_up, limit_s=TRIAL_LIMIT_S, clock=kernels.cpu_s, hash_seed=hash_seed
        )

    with (
        interrupts.heard(last=REQUESTS_MAX),
        HuntProgress(f"hunt from seed {first}") as progress,
        crew(jobs, HASH_SEED) as workers,
        contextlib.ExitStack() as ending,
    ):
        again = crew(1, OTHER_HASH_SEED)  # its process starts with the first test that is repeated
        ending.callback(again.stop)
        if canary_first:
            progress.enter("canary")
            canary.check(workers, interrupts, progress.show)
        progress.enter("hunting")
        began = time.monotonic()
        candidates = (draw(seed, asked) for seed in itertools.count(first))
        tally = search(workers, candidates, limits, interrupts=interrupts, show=progress.show, again=again)
        return tally, time.monotonic() - began


def _smaller(
    kept: list[Finding], store: Path, jobs: int, budget_s: float | None, interrupts: Interrupts
) -> Smaller | None:
    """The first violation, shrunk until the search ends or is interrupted; interrupted twice, nothing is kept of it."""
    from splitbrain.harness.campaigns.hunting.smaller import Smaller, shrink_first
    from splitbrain.harness.cli.progress import Progress
    from splitbrain.harness.cli.shrink import shown_steps

    try:
        with interrupts.breaking():
            return shrink_first(
                kept,
                store,
                jobs=jobs,
                budget_s=SHRINK_BUDGET_S if budget_s is None else budget_s,
                go_on=lambda: not interrupts.seen,
                steps=lambda title: shown_steps(title, interrupts),
                displays=Progress,
            )
    except KeyboardInterrupt:
        return Smaller(problem="it was interrupted.")


def _exit_code(tally: Tally, kept: list[Finding]) -> int:
    """The exit code. A finding that could not be repeated is a harness error."""
    from splitbrain.checkers.verdict import Outcome

    if any(finding.problem is not None for finding in kept) and tally.outcome is not Outcome.VIOLATION:
        return EXIT_HARNESS_ERROR
    return tally.outcome.exit_code
