"""From a recorded run to its verdict, its report and its outcome; the same for one run and for many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from splitbrain.checkers import engine, stored
from splitbrain.checkers.isolation.judging import judge_recorded
from splitbrain.checkers.isolation.limits import DEFAULT, Limits
from splitbrain.checkers.verdict import Outcome, Verdict
from splitbrain.harness.campaigns import words
from splitbrain.harness.campaigns.rejudging import advising_on_interrupt, command_for
from splitbrain.results.atomic import alone_in
from splitbrain.results.clocks import clocks_in
from splitbrain.results.errors import RunNotFoundError
from splitbrain.results.figures import write_figures
from splitbrain.results.findings import all_op_indexes
from splitbrain.results.judgement import Judgement, plain_verdict
from splitbrain.results.loaded import LoadedRun
from splitbrain.results.madefrom import Basis
from splitbrain.results.nodedata import pack_as_asked
from splitbrain.results.notes import Clocks
from splitbrain.results.reasons import reasons_of
from splitbrain.results.report import REPORT, write_page
from splitbrain.results.report.counterexample import COUNTEREXAMPLE, is_drawable, write_counterexample
from splitbrain.results.report.past import Past
from splitbrain.results.report.run_view import view_of
from splitbrain.results.rundir import RunDir

if TYPE_CHECKING:
    from splitbrain.checkers.spark.session import Spark
    from splitbrain.harness.campaigns.answers import ConclusionAnswer, OutcomeName, VerdictAnswer


class Conclusion(msgspec.Struct, frozen=True):
    """How one run was judged.

    Attributes:
        run: its folder.
        outcome: what the verdicts add up to.
        verdicts: one per checker.
        harness_error: what went wrong in the harness, None if nothing did.
        report: its page.
        clocks: what was measured of the clocks of the nodes' hosts.
        signatures: of its violations, the leading one first.
    """

    run: RunDir
    outcome: Outcome
    verdicts: list[Verdict]
    harness_error: str | None
    report: Path
    clocks: Clocks
    signatures: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """What is worth saying of it: of a violation first what the leading signature stands for."""
        return words.sentences(self.verdicts, self.harness_error, self.signatures)


def judge_inline(
    run: RunDir,
    harness_error: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
    *,
    limits: Limits = DEFAULT,
) -> Conclusion:
    """Judge one run on this machine; `progress` is called with the name of each checker before it judges.

    Raises:
        SplitbrainError: the run cannot be read.
        JudgingStoppedError: an interrupt, or too little memory.
    """
    with advising_on_interrupt(command_for(run.path)):
        return _judged_here(*stored.loaded_on_basis(run, limits), harness_error, progress, limits)


def judge_with_spark(
    runs: Sequence[RunDir], spark: Spark, harness_errors: Mapping[Path, str | None] | None = None
) -> list[Conclusion]:
    """Judge any number of runs with one pass of the Spark pipeline, in their order.

    Raises:
        SplitbrainError: a run cannot be read, or Spark failed.
        JudgingStoppedError: an interrupt, or too little memory.
    """
    from splitbrain.checkers.spark.pipeline import judge_runs

    with advising_on_interrupt(", ".join(command_for(run.path) for run in runs)):
        finished = {run.path: stored.loaded_on_basis(run, DEFAULT) for run in runs}
        verdicts = judge_runs(spark.session, list(finished))
        errors = harness_errors or {}
        return [
            _conclude(run, verdicts[path], "spark", errors.get(path), basis) for path, (run, basis) in finished.items()
        ]


def judge_run(
    run: LoadedRun,
    *,
    engine_name: str,
    spark: Callable[[], Spark],
    harness_error: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
    limits: Limits = DEFAULT,
) -> Conclusion:
    """Judge one run with the engine of that name; `spark` gives the session where one is needed.

    This process holds the run: no other one changes its files.

    Raises:
        SplitbrainError: a checker of its test.json is not known, or Spark failed.
    """
    basis = stored.basis_of(run.folder, limits, run.document)
    if engine_name == "spark":
        from splitbrain.checkers.spark.pipeline import judge_runs

        path = run.folder.path
        verdicts = judge_runs(spark().session, [path], limits=msgspec.structs.replace(limits, at_once=0))[path]
        return _conclude(run, verdicts, "spark", harness_error, basis)
    return _judged_here(run, basis, harness_error, progress, limits)


def _judged_here(
    run: LoadedRun,
    basis: Basis | None,
    harness_error: str | None,
    progress: Callable[[str], None],
    limits: Limits,
) -> Conclusion:
    history, specs = stored.as_judged(run), stored.specs_of(run)
    verdicts = judge_recorded(history, specs, run.telemetry, limits=limits, progress=progress)
    return _conclude(run, verdicts, "inline", harness_error, basis)


def _conclude(
    run: LoadedRun, verdicts: list[Verdict], engine_name: str, harness_error: str | None, basis: Basis | None
) -> Conclusion:
    kept = keep_verdicts(run.folder, run.document, verdicts, engine_name, harness_error, basis)
    report = write_pages(run, kept, verdicts)
    clocks, outcome = clocks_in(run.history), Outcome(kept.outcome)
    return Conclusion(run.folder, outcome, verdicts, kept.harness_error, report, clocks, tuple(kept.signatures))


def keep_verdicts(
    run: RunDir,
    document: Mapping[str, Any],
    verdicts: Sequence[Verdict],
    engine_name: str,
    harness_error: str | None = None,
    basis: Basis | None = None,
) -> Judgement:
    """Write the verdicts of a run, whose test.json is `document`; what was written.

    A harness error that is not given is that of the run itself, which an earlier judgement has; a checker that broke
    then may be well now. With its verdicts a run is complete: who held it until then holds it no more.

    Args:
        run: its folder.
        document: its test.json.
        verdicts: one per checker.
        engine_name: who judged.
        harness_error: what went wrong in the run itself.
        basis: what the verdicts were made from. It is not recorded if a checker broke: another time it may not.
    """
    with alone_in(run.path):
        if harness_error is None:
            before = run.read_verdicts()
            harness_error = None if before is None else _error_of_run(before)
        outcome, error = engine.judged_outcome(verdicts, harness_error)
        lasting = basis if engine.crashed(verdicts) is None else None
        kept = run.write_verdicts(verdicts, outcome.value, engine=engine_name, harness_error=error, basis=lasting)
        pack_as_asked(run, document)
    run.release()
    return kept


def _error_of_run(before: Judgement) -> str | None:
    """What went wrong in the run itself, by an earlier judgement; what went wrong in judging is none of it."""
    try:
        broke = engine.crashed(verdicts_of(before))
    except msgspec.ValidationError:
        broke = None
    return None if before.harness_error == broke else before.harness_error


def verdicts_of(judgement: Judgement) -> list[Verdict]:
    """The verdicts that a verdict.json holds.

    Raises:
        ValidationError: one is no verdict.
    """
    return [msgspec.convert({**each, "valid": _word(each.get("valid"))}, Verdict) for each in judgement.verdicts]


def _word(valid: Any) -> Any:
    return "true" if valid is True else "false" if valid is False else valid


def write_pages(
    run: LoadedRun, judgement: Judgement | None, verdicts: Sequence[Verdict], past: Past | None = None
) -> Path:
    """Write what is made from kept verdicts: figures, the picture of a counterexample, the report, whose path it is.

    Args:
        run: what was judged.
        judgement: what its verdict.json holds.
        verdicts: the same.
        past: what other runs show; None: it is looked for.
    """
    run = run.with_ops(index for each in verdicts for index in all_op_indexes(each.evidence))
    write_figures(run, judgement)
    _draw(run, verdicts)
    return write_page(view_of(run, judgement), past)


def _draw(run: LoadedRun, verdicts: Sequence[Verdict]) -> None:
    """Store the picture of a linearizability violation with the run; one of an earlier judgement goes."""
    path = run.folder.path / COUNTEREXAMPLE
    for verdict in verdicts:
        if verdict.valid == "false" and is_drawable(verdict.evidence):
            source = f"{run.folder.test_name}, {run.folder.name}"
            write_counterexample(path, run.history, verdict.evidence, verdict.sentence, source)
            return
    path.unlink(missing_ok=True)


def conclusion_document(conclusion: Conclusion) -> ConclusionAnswer:
    """A conclusion as JSON."""
    verdicts = [plain_verdict(verdict) for verdict in conclusion.verdicts]
    return _document(conclusion.run, conclusion.outcome.value, conclusion.harness_error, conclusion.report, verdicts)


def stored_document(run: RunDir) -> ConclusionAnswer:
    """The same, of a run whose verdicts are kept.

    Raises:
        SplitbrainError: they are there no more, or damaged.
    """
    found = run.read_verdicts()
    if found is None:
        raise RunNotFoundError(f"run {run.name} of test {run.test_name} lost its verdict: analyze it again.")
    return _document(run, found.outcome, found.harness_error, run.path / REPORT, found.verdicts)


def damaged_document(run: RunDir, why: str) -> ConclusionAnswer:
    """The same, of a run that no checker could judge."""
    return _document(run, Outcome.HARNESS_ERROR.value, why, run.path / REPORT, [])


def _document(
    run: RunDir, outcome: str, harness_error: str | None, report: Path, verdicts: list[dict[str, Any]]
) -> ConclusionAnswer:
    return {
        "outcome": cast("OutcomeName", outcome),
        "run": str(run.path),
        "test": run.test_name,
        "report": str(report),
        "harness_error": harness_error,
        "reasons": msgspec.to_builtins(reasons_of(verdicts)),
        "verdicts": cast("list[VerdictAnswer]", verdicts),
    }
