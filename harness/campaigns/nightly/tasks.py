"""What a worker does for a night: one run of a cell, by the procedures of `hunt`, `run` and `replay`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from splitbrain.checkers.verdict import reasons
from splitbrain.harness.campaigns.compose import RunOptions, backend_of, command_line, compose
from splitbrain.harness.campaigns.hunting.trial import carry_out
from splitbrain.harness.campaigns.judging import Conclusion
from splitbrain.harness.campaigns.record import run_and_judge
from splitbrain.harness.campaigns.replaying import original_of, plan_to_repeat
from splitbrain.harness.campaigns.shrinking import store_run
from splitbrain.harness.campaigns.words import sentences
from splitbrain.harness.campaigns.workers import Workers
from splitbrain.results.errors import BackendError, SplitbrainError, SystemUnderTestError
from splitbrain.results.figures import figures_of
from splitbrain.results.nights import ErrorKind, Ran, Why
from splitbrain.results.runfigures import RunFigures, run_figures
from splitbrain.results.signatures import Signature

SENTENCES_MAX: Final = 5

TICK_S: Final = 0.2
"""How long a night waits for a run to end before it looks whether there is something else to do."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is to be done.

    Attributes:
        cell: the name of its cell.
        why: it is done with that seed.
        options: what its test is composed of.
        store: where it goes, if it is stored.
        replayed: the folder of the run that it repeats; None for a run of the options.
    """

    cell: str
    why: Why
    options: RunOptions
    store: str
    replayed: str | None = None

    @property
    def command(self) -> str:
        """Runs the same test again."""
        return command_line(self.options, self.store)


def simulate(task: Task) -> Ran:
    """Simulate and judge; nothing is stored."""
    trial = carry_out(task.options, measured=True)
    return Ran(
        cell=task.cell,
        seed=task.options.seed,
        why=task.why,
        outcome=trial.outcome.value,
        command=task.command,
        signatures=tuple(map(str, trial.signatures)),
        sentences=trial.sentences,
        reason=trial.reason,
        error=trial.harness_error,
        error_kind="harness" if trial.harness_error is not None else "",
        seconds=round(trial.cpu_s, 3),
        history_hash=trial.history_hash,
        marks=dict(trial.marks),
        figures=trial.figures,
    )


def carry_out_really(task: Task) -> Ran:
    """Run and judge on real nodes, or replay a plan on them; the run is stored."""
    began_s = time.monotonic()
    try:
        conclusion = _concluded(task)
    except SplitbrainError as error:
        return broken(task, str(error), kind_of(error), time.monotonic() - began_s)
    seconds = round(time.monotonic() - began_s, 3)
    judgement = conclusion.run.read_verdicts()
    found = [reason.code.value for reason in reasons(conclusion.verdicts)]
    return Ran(
        cell=task.cell,
        seed=task.options.seed,
        why=task.why,
        outcome=conclusion.outcome.value,
        command=task.command,
        signatures=() if judgement is None else tuple(judgement.signatures),
        sentences=tuple(sentences(conclusion.verdicts, None, conclusion.signatures)[:SENTENCES_MAX]),
        reason=found[0] if found and conclusion.outcome.value == "inconclusive" else "",
        error=conclusion.harness_error,
        error_kind="" if conclusion.harness_error is None else "harness",
        seconds=seconds,
        run=str(conclusion.run.path),
        report=str(conclusion.report),
        marks=conclusion.run.read_marks() or {},
        figures=_stored_figures(conclusion),
    )


def _concluded(task: Task) -> Conclusion:
    from splitbrain.harness.campaigns.display import Silent

    store = Path(task.store)
    if task.replayed is not None:
        original = original_of(task.replayed, store)
        return store_run(plan_to_repeat(original), store, Silent(), original.source)
    notes: dict[str, Any] = {"command": task.command}
    return run_and_judge(compose(task.options), backend_of(task.options), store, notes=notes)


def _stored_figures(conclusion: Conclusion) -> RunFigures | None:
    """The figures of a stored run; None if it has none: judging it said why."""
    try:
        return run_figures(figures_of(conclusion.run), sum(verdict.seconds for verdict in conclusion.verdicts))
    except SplitbrainError:
        return None


def broken(task: Task, error: str, kind: ErrorKind, seconds: float = 0.0) -> Ran:
    """A run that the harness could not do, or not to its end."""
    return Ran(
        cell=task.cell,
        seed=task.options.seed,
        why=task.why,
        outcome="harness error",
        command=task.command,
        signatures=(str(Signature.of_error(error)),),
        error=error,
        error_kind=kind,
        seconds=round(seconds, 3),
    )


def kind_of(error: SplitbrainError) -> ErrorKind:
    """What could not be done: bring up the system, or something else."""
    return "deploy" if isinstance(error, BackendError | SystemUnderTestError) else "harness"


def collect(lanes: Mapping[bool, Workers[Task, Ran]], timeout_s: float) -> Iterator[Ran]:
    """The runs that have ended; waits for one, up to so many seconds."""
    busy = [workers for workers in lanes.values() if workers.tasks]
    for workers in busy:
        for report in workers.wait(timeout_s / len(busy)):
            if report.answer is not None:
                yield report.answer
            else:
                yield broken(report.task, f"seed {report.task.options.seed}: {report.problem}", "harness", report.cpu_s)
