"""Looking closer at what failed: it is kept in the store, replayed some times, and shrunk where it was simulated."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from splitbrain.harness.campaigns import shrinking
from splitbrain.harness.campaigns.compose import backend_of, compose
from splitbrain.harness.campaigns.display import Silent
from splitbrain.harness.campaigns.nightly import classify
from splitbrain.harness.campaigns.nightly.tasks import TICK_S, Task, collect
from splitbrain.harness.campaigns.record import run_and_judge
from splitbrain.harness.campaigns.workers import Workers
from splitbrain.harness.running.plan import figures
from splitbrain.results import arrow
from splitbrain.results.baseline import Baseline
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.nights import Entry, Kept, Ran, Replayed, Shrunk
from splitbrain.results.signatures import Signature

KEPT_MAX: Final = 20
"""Simulated violations that are kept of a night: code that is broken in all places must not fill the disk."""

SHRINK_S: Final = 120.0
"""CPU seconds of each process after which the smallest plan so far is taken."""

REAL_SHARE: Final = 0.5
"""The share of the time that replays on real nodes may take: each is as long as its run, and shrinking needs some."""

Doing: TypeAlias = Literal["replaying", "keeping"]

Lanes = Mapping[bool, Workers[Task, Ran]]


class UnderWay(Protocol):
    """A night whose cells have been run."""

    @property
    def runs(self) -> Sequence[Ran]:
        """The runs that ended."""
        ...

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        ...

    @property
    def elapsed_s(self) -> float:
        """Seconds of the night until now."""
        ...

    def entries(self, kind: type[Any]) -> Sequence[Any]:
        """What was done of a kind."""
        ...

    def stamp(self, entry: Entry) -> None:
        """Note what was done."""
        ...

    def repeated(self, run: Ran) -> Task:
        """What repeats a run."""
        ...

    def fits(self, run: Ran, doing: Doing = "replaying") -> bool:
        """Whether replaying a run, or storing it, comes to its end in time."""
        ...

    def kept(self, seconds: float) -> None:
        """Note how long storing a violation took."""
        ...

    def stopped(self) -> bool:
        """Whether it was interrupted."""
        ...

    def is_full(self) -> bool:
        """Whether the store is as large as it may be."""
        ...

    def line(self, what: str) -> None:
        """Show how it goes."""
        ...


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """How closely what failed is looked at.

    Attributes:
        store: where what is kept goes.
        replays: how often each is replayed.
        shrinks: whether what is not known is shrunk.
        jobs: processes that try plans.
        baseline: what is known.
        today: the day for its entries.
    """

    store: Path
    replays: int
    shrinks: bool
    jobs: int
    baseline: Baseline
    today: date


def look(night: UnderWay, lanes: Lanes, wanted: Wanted) -> None:
    """Keep what failed, replay it, and shrink it: what is not known first, and on real nodes before simulated replays.

    Of what is not known that is the first of each cell and leading signature, of what is known of each signature.

    Args:
        night: as far as it has come.
        lanes: the workers that simulate (True), and those that run on real nodes (False); none of them has a task.
        wanted: what is to be done.
    """
    firsts = classify.first_of_each(night.runs)
    new = [run for run in firsts if not _known(run, wanted)]
    known = list({run.signatures[0]: run for run in reversed(firsts) if _known(run, wanted)}.values())
    _keep(night, new, wanted.store)
    _replay(night, lanes, [run for run in new if run.run is not None], wanted.replays, REAL_SHARE)
    if wanted.shrinks:
        _shrink(night, new, wanted)
    _replay(night, lanes, [run for run in new if run.run is None], wanted.replays)
    _keep(night, known, wanted.store)
    _replay(night, lanes, known, wanted.replays)


def _known(run: Ran, wanted: Wanted) -> bool:
    return wanted.baseline.look_up(map(Signature.parse, run.signatures), wanted.today).known


def _replay(night: UnderWay, lanes: Lanes, runs: Sequence[Ran], replays: int, share: float = 1.0) -> None:
    """Replay each as often as that within a share of the time that is left; each once before one is replayed twice."""
    least_s = night.left_s * (1.0 - share)
    due = {(run.cell, run.seed): run for run in runs}
    done = [(each.cell, each.seed) for each in night.entries(Replayed)]
    waiting = [run for number in range(replays) for place, run in due.items() if done.count(place) <= number]
    while not night.stopped():
        rest: list[Ran] = []
        for run in waiting if night.left_s >= least_s else ():
            if not night.fits(run):
                continue
            task = night.repeated(run)
            lane = lanes[task.options.backend == "sim"]
            if lane.free:
                lane.give(task)
            else:
                rest.append(run)
        waiting = rest
        if not any(lane.tasks for lane in lanes.values()):
            return
        for again in collect(lanes, TICK_S):
            first = due[again.cell, again.seed]
            night.stamp(Replayed(cell=first.cell, seed=first.seed, seen=_seen(first, again), run=again.run))
        night.line("replaying")


def _seen(first: Ran, again: Ran) -> bool:
    """Whether what led came up again; with which witness, and during which faults, may differ on real nodes."""
    wanted = Signature.parse(first.signatures[0])
    found = map(Signature.parse, again.signatures)
    return any((each.checker, each.anomaly) == (wanted.checker, wanted.anomaly) for each in found)


def _keep(night: UnderWay, runs: Sequence[Ran], store: Path) -> None:
    """Run simulated violations once more, into the store: their histories must be the same to the byte."""
    known = {(each.cell, each.seed) for each in night.entries(Kept)}
    for run in runs:
        if run.run is not None or (run.cell, run.seed) in known:
            continue
        if night.stopped() or len(night.entries(Kept)) >= KEPT_MAX:
            return
        if not night.fits(run, "keeping"):
            continue
        if night.is_full():
            problem = (
                "it was not stored: the store is as large as it may be (`disk` in the matrix); its seed repeats it."
            )
            night.stamp(Kept(cell=run.cell, seed=run.seed, problem=problem))
            continue
        night.line("keeping what failed")
        options, began_s = night.repeated(run).options, night.elapsed_s
        try:
            conclusion = run_and_judge(compose(options), backend_of(options), store)
        except SplitbrainError as error:
            night.stamp(Kept(cell=run.cell, seed=run.seed, problem=f"it could not be run again: {error}"))
            continue
        problem = None
        if not night.stopped() and arrow.history_hash(conclusion.run.history()) != run.history_hash:
            problem = "the simulation is not deterministic: run again, the same seed gave another history."
        path, report = str(conclusion.run.path), str(conclusion.report)
        night.stamp(Kept(cell=run.cell, seed=run.seed, run=path, report=report, problem=problem))
        night.kept(night.elapsed_s - began_s)


def _shrink(night: UnderWay, runs: Sequence[Ran], wanted: Wanted) -> None:
    """Shrink those that were kept, as long as there is time; each gets an equal share of what is left."""
    kept = {(each.cell, each.seed): each for each in night.entries(Kept)}
    done = {(each.cell, each.seed) for each in night.entries(Shrunk)}
    paths = {(run.cell, run.seed): kept[run.cell, run.seed].run for run in runs if (run.cell, run.seed) in kept}
    due = [run for run in runs if paths.get((run.cell, run.seed)) and (run.cell, run.seed) not in done]
    due = [run for run in due if kept[run.cell, run.seed].problem is None]
    for number, run in enumerate(due):
        if not night.fits(run, "keeping"):  # what is found is stored
            continue
        budget_s = min(SHRINK_S, night.left_s / (len(due) - number))
        path = str(paths[run.cell, run.seed])
        night.stamp(_shrunk(night, run, path, wanted.store, wanted.jobs, budget_s))


def _shrunk(night: UnderWay, run: Ran, path: str, store: Path, jobs: int, budget_s: float) -> Shrunk:
    try:
        failure = shrinking.failure_of(path, store)
        found = shrinking.smallest(
            failure,
            jobs=jobs,
            budget_s=budget_s,
            go_on=lambda: night.fits(run, "keeping"),
            show=lambda step: night.line(f"shrinking ({step.tried} tried)"),
        )
        conclusion = shrinking.store_run(found.after, store, Silent(), failure.source)
    except SplitbrainError as error:
        return Shrunk(cell=run.cell, seed=run.seed, problem=str(error))
    plan, size = str(conclusion.run.plan_path), figures(found.after)
    return Shrunk(
        cell=run.cell,
        seed=run.seed,
        plan=plan,
        replay=f"splitbrain replay {shlex.quote(plan)}",
        report=str(conclusion.report),
        ops=size.ops,
        faults=size.faults,
        problem=shrinking.difference(found.after, conclusion),
    )
