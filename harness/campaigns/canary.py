"""The canary: a bug that every hunt must find. A pipeline that does not see it would find nothing else either.

Ten quiet nights can mean that nothing is broken, or that the harness is: a nemesis that no longer bites, a checker that
answers "true" to everything, results that get lost between processes. So a hunt first hunts what is certainly there,
with the same workers, simulation and checkers (TigerBeetle's fuzzing fleet has a `canary` that must fail as well).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from splitbrain.harness.campaigns.compose import RunOptions
from splitbrain.harness.campaigns.hunting.search import Limits, search
from splitbrain.harness.campaigns.hunting.tally import Tally
from splitbrain.harness.campaigns.hunting.trial import Trial
from splitbrain.harness.campaigns.interrupts import Interrupts
from splitbrain.harness.campaigns.swarm import Asked, draw
from splitbrain.harness.campaigns.workers import Workers
from splitbrain.results.errors import HarnessError
from splitbrain.results.quantities import counted

BUG: Final = "M23"
CHECKER: Final = "linearizable"
SEEDS: Final = range(1, 9)
BUDGET_S: Final = 60.0

ASKED: Final = Asked(
    workloads=("register",),
    nemeses=("partition-leader", "partition-minority-leader"),
    system="metadata",
    bug=BUG,
    nodes=(5,),
    world="lan",
    concurrency="2n",
    rate=100.0,
    time_limit=12.0,
    interval=2.0,
    op_timeout=2.0,
)
"""A leader that answers reads without a quorum, cut off from the majority while clients still send it requests."""


def check(
    workers: Workers[RunOptions, Trial], interrupts: Interrupts, show: Callable[[Tally], None] | None = None
) -> Tally:
    """Find the canary. All workers are free before and afterwards.

    Returns:
        The trials that it took; after an interrupt there may be no violation among them.

    Raises:
        HarnessError: it was not found.
    """
    tally = search(
        workers, (draw(seed, ASKED) for seed in SEEDS), Limits(budget_s=BUDGET_S), interrupts=interrupts, show=show
    )
    while workers.tasks and not interrupts.seen:
        workers.wait(timeout_s=0.2)
    if not interrupts.seen and not any(CHECKER in kind for kind in tally.kinds):
        raise HarnessError(
            f"the pipeline is broken: the canary was not found. Bug {BUG} was switched on, and "
            f"{counted(tally.runs, 'run')} "
            f"(seeds {SEEDS[0]} to {SEEDS[-1]}) showed {_instead(tally)}. Nothing that a hunt finds, or does not find, "
            f"is reliable until this is fixed."
        )
    return tally


def _instead(tally: Tally) -> str:
    """What was seen instead."""
    ended = [f"{count} {outcome.value}" for outcome, count in tally.outcomes.items()]
    return f"no {CHECKER!r} violation: {'; '.join([', '.join(ended) or 'nothing', *tally.kinds])}"
