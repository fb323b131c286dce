"""From a recorded run to its verdict, its report and its outcome; the same for one run and for many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Outcome, Verdict
from splitbrain.harness.campaigns.rejudging import command_for, told_to_analyze
from splitbrain.results.arrow import recovered_note
from splitbrain.results.collecting import collect_telemetry
from splitbrain.results.errors import RunNotFoundError
from splitbrain.results.figures import write_figures
from splitbrain.results.nodedata import pack_as_asked
from splitbrain.results.reasons import reasons_of
from splitbrain.results.report import REPORT, write_report
from splitbrain.results.report.counterexample import COUNTEREXAMPLE, is_drawable, write_counterexample
from splitbrain.results.store import RunDir, plain_verdict

if TYPE_CHECKING:
    from splitbrain.checkers.spark.session import Spark


class Conclusion(msgspec.Struct, frozen=True):
    """How one run was judged.

    Attributes:
        run: its folder.
        outcome: what the verdicts add up to.
        verdicts: one per checker.
        harness_error: what went wrong in the harness, None if nothing did.
        report: its page.
    """

    run: RunDir
    outcome: Outcome
    verdicts: list[Verdict]
    harness_error: str | None
    report: Path


def judge_inline(
    run: RunDir, harness_error: str | None = None, tell: Callable[[str], None] = lambda _: None
) -> Conclusion:
    """Judge one run in this process; `tell` is called with the name of each checker before it judges.

    Raises:
        SplitbrainError: the run cannot be read.
        JudgingStoppedError: an interrupt, or too little memory.
    """
    with told_to_analyze(command_for(run.path)):
        history = run.finish_history()
        collect_telemetry(run)
        specs = engine.cut_short(engine.specs_of(run.read_test(), str(run.path)), recovered_note(history))
        verdicts = engine.judge(history, specs, run.telemetry(), tell=tell)
        return _conclude(run, verdicts, "inline", harness_error)


def judge_with_spark(
    runs: Sequence[RunDir], spark: Spark, harness_errors: Mapping[Path, str | None] | None = None
) -> list[Conclusion]:
    """Judge any number of runs with one pass of the Spark pipeline, in their order.

    Raises:
        SplitbrainError: a run cannot be read, or Spark failed.
        JudgingStoppedError: an interrupt, or too little memory.
    """
    from splitbrain.checkers.spark.pipeline import judge_runs

    with told_to_analyze(", ".join(command_for(run.path) for run in runs)):
        for run in runs:
            run.finish_history()
            collect_telemetry(run)
        verdicts = judge_runs(spark.session, [run.path for run in runs])
        errors = harness_errors or {}
        return [_conclude(run, verdicts[run.path], "spark", errors.get(run.path)) for run in runs]


def judge_run(
    run: RunDir,
    *,
    engine_name: str,
    spark: Callable[[], Spark],
    harness_error: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Conclusion:
    """Judge one run with the engine of that name; `spark` gives the session where one is needed."""
    if engine_name == "spark":
        return judge_with_spark([run], spark(), {run.path: harness_error})[0]
    return judge_inline(run, harness_error, tell)


def _conclude(run: RunDir, verdicts: list[Verdict], engine_name: str, harness_error: str | None) -> Conclusion:
    outcome, error = keep_verdicts(run, verdicts, engine_name, harness_error)
    return Conclusion(run, outcome, verdicts, error, write_pages(run, verdicts))


def keep_verdicts(
    run: RunDir, verdicts: Sequence[Verdict], engine_name: str, harness_error: str | None = None
) -> tuple[Outcome, str | None]:
    """Write the verdicts; the outcome, and the harness error, which is the one of an earlier judgement if not given.

    With its verdicts a run is complete: who held it until then holds it no more.
    """
    if harness_error is None:
        before = run.read_verdicts()
        harness_error = before.harness_error if before is not None else None
    outcome, error = engine.judged_outcome(verdicts, harness_error)
    run.write_verdicts(verdicts, outcome.value, engine=engine_name, harness_error=error)
    pack_as_asked(run)
    run.release()
    return outcome, error


def write_pages(run: RunDir, verdicts: Sequence[Verdict]) -> Path:
    """Write what is made from kept verdicts: figures, the picture of a counterexample, the report, whose path it is."""
    write_figures(run)
    _draw(run, verdicts)
    return write_report(run.path)


def _draw(run: RunDir, verdicts: Sequence[Verdict]) -> None:
    """Store the picture of a linearizability violation with the run; one of an earlier judgement goes."""
    path = run.path / COUNTEREXAMPLE
    for verdict in verdicts:
        if verdict.valid == "false" and is_drawable(verdict.evidence):
            source = f"{run.test_name}, {run.name}"
            write_counterexample(path, run.history(), verdict.evidence, verdict.sentence, source)
            return
    path.unlink(missing_ok=True)


def conclusion_document(conclusion: Conclusion) -> dict[str, Any]:
    """A conclusion as JSON."""
    verdicts = [plain_verdict(verdict) for verdict in conclusion.verdicts]
    return _document(conclusion.run, conclusion.outcome.value, conclusion.harness_error, conclusion.report, verdicts)


def stored_document(run: RunDir) -> dict[str, Any]:
    """The same, of a run whose verdicts are kept.

    Raises:
        SplitbrainError: they are there no more, or damaged.
    """
    found = run.read_verdicts()
    if found is None:
        raise RunNotFoundError(f"run {run.name} of test {run.test_name} lost its verdict: analyze it again.")
    return _document(run, found.outcome, found.harness_error, run.path / REPORT, found.verdicts)


def damaged_document(run: RunDir, why: str) -> dict[str, Any]:
    """The same, of a run that no checker could judge."""
    return _document(run, Outcome.HARNESS_ERROR.value, why, run.path / REPORT, [])


def _document(
    run: RunDir, outcome: str, harness_error: str | None, report: Path, verdicts: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "run": str(run.path),
        "test": run.test_name,
        "report": str(report),
        "harness_error": harness_error,
        "reasons": msgspec.to_builtins(reasons_of(verdicts)),
        "verdicts": verdicts,
    }
