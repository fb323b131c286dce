"""One test of a hunt: composed, simulated and judged, without a trace on the disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from splitbrain.checkers import engine, kernels
from splitbrain.checkers.verdict import CheckerSpec, Outcome, Verdict, reasons
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.words import sentences
from splitbrain.harness.contract.test import Test
from splitbrain.harness.running.simulate import Simulated, simulate
from splitbrain.results.arrow import client_ops
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.figures import figures
from splitbrain.results.judgement import plain_verdict
from splitbrain.results.runfigures import RunFigures, run_figures
from splitbrain.results.signatures import Signature, anonymous, families, setting_of, signatures_of

SENTENCES_MAX = 5

REPEATED_EVERY: Final = 20
_REPEATED: Final = 7
"""Of so many consecutive seeds one is run again in another process; not the first, so that a hunt begins at once."""


SEARCH_S: Final = 10.0
"""CPU seconds that linearizability of one key may take in a hunt; a run that takes more is inconclusive there.

Many ops that crashed at the same time can take any number. With the limit of a single run, a minute a key, one seed
took as long as a hundred others (counters whose leader was cut off again and again), and nearly what a trial may.
"""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """How one test went.

    Attributes:
        options: what `splitbrain run` needs to repeat it.
        outcome: as of a run.
        kind: what was found, in words for people and for counting: the checkers of its signatures with their anomalies,
            or the error of the harness; "" if nothing was.
        signatures: of its violations, the leading one first; that of the error otherwise.
        sentences: what is worth saying of it.
        harness_error: what went wrong in the harness, None if nothing did.
        reason: why it is inconclusive: the code of the root cause; "" if it is not.
        simulated_s: how much virtual time passed, in seconds.
        cpu_s: how much CPU time that took, judging included, compilation left out, in seconds.
        ops: how many ops clients invoked.
        marks: how often each coverage mark was reached, zeros included.
        fingerprint: of the streams of randomness at the end.
        history_hash: of the history's content.
        repeatable: whether it can be run again safely: it came to its end.
        record: of a test that is repeated, every op of the history, and every line of each node's telemetry.
        difference: how a repetition differed from it, None if there was none, or it was the same.
        figures: of the run, where they were asked for.
    """

    options: RunOptions
    outcome: Outcome
    kind: str = ""
    signatures: tuple[Signature, ...] = ()
    sentences: tuple[str, ...] = ()
    harness_error: str | None = None
    reason: str = ""
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    ops: int = 0
    marks: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    fingerprint: str = ""
    history_hash: str = ""
    repeatable: bool = True
    record: tuple[bytes, ...] = ()
    difference: str | None = None
    figures: RunFigures | None = None


def is_repeated(seed: int) -> bool:
    """Whether a hunt runs the test of this seed again, in a process with another hash seed."""
    return seed % REPEATED_EVERY == _REPEATED


def carry_out(options: RunOptions, *, measured: bool = False) -> Trial:
    """Simulate and judge a test. Errors are recorded in the trial.

    Args:
        options: what the test is composed of.
        measured: whether the trial gets the figures of the run.
    """
    began_s = kernels.cpu_s()
    try:
        test = compose(options)
        simulated = simulate(test, world=options.world)
        failure = None if simulated.failure is None else str(simulated.failure)
        verdicts = engine.judge(simulated.history, hurried(test.workload.checkers), simulated.telemetry, weaker=False)
    except SplitbrainError as error:
        return broken(options, str(error), cpu_s=kernels.cpu_s() - began_s)
    cpu_s = kernels.cpu_s() - began_s
    outcome, error = engine.judged_outcome(verdicts, failure)
    signatures = signatures_in(verdicts, simulated.history)
    if error is not None and not signatures:
        signatures = (Signature.of_error(error),)
    return Trial(
        options=options,
        outcome=outcome,
        kind=families(signatures) if outcome is Outcome.VIOLATION else anonymous(error or ""),
        signatures=signatures,
        sentences=tuple(sentences(verdicts, None, signatures)[:SENTENCES_MAX]),
        harness_error=error,
        reason=next((reason.code for reason in reasons(verdicts)), "") if outcome is Outcome.INCONCLUSIVE else "",
        simulated_s=simulated.simulated_s,
        cpu_s=cpu_s,
        ops=client_ops(simulated.history),
        marks=dict(simulated.marks),
        fingerprint=simulated.fingerprint,
        history_hash=simulated.history_hash,
        record=tuple(_record(simulated)) if is_repeated(options.seed) else (),
        figures=_figures(test, simulated, verdicts, cpu_s) if measured else None,
    )


def _figures(test: Test, simulated: Simulated, verdicts: Sequence[Verdict], cpu_s: float) -> RunFigures | None:
    """The figures of a run; None if its history is damaged: its verdicts say so."""
    plain = [plain_verdict(verdict) for verdict in verdicts]
    try:
        found = figures(
            simulated.history, simulated.telemetry, plain, [str(node) for node in test.nodes], simulated.marks
        )
    except SplitbrainError:
        return None
    speed = simulated.simulated_s / cpu_s if cpu_s > 0 else None
    return run_figures(found, sum(verdict.seconds for verdict in verdicts), speed)


def signatures_in(verdicts: Sequence[Verdict], history: pa.Table) -> tuple[Signature, ...]:
    """The signatures of the violations of a run, the leading one first."""
    guilty = [plain_verdict(verdict) for verdict in verdicts if verdict.valid == "false"]
    return signatures_of(guilty, setting_of(history)) if guilty else ()


def hurried(specs: Sequence[CheckerSpec]) -> tuple[CheckerSpec, ...]:
    """The same checkers, none with more time for a search than a hunt has (`SEARCH_S`)."""
    return tuple(_hurried(spec) if spec.name == "linearizable" else spec for spec in specs)


def _hurried(spec: CheckerSpec) -> CheckerSpec:
    limit_s = min(SEARCH_S, spec.options.get("time_limit_s", SEARCH_S))
    return msgspec.structs.replace(spec, options={**spec.options, "time_limit_s": limit_s})


def _record(simulated: Simulated) -> Iterator[bytes]:
    for op in simulated.ops:
        yield b"op " + msgspec.json.encode(op)
    for node, lines in simulated.lines.items():
        for time_ns, line in lines:
            yield f"telemetry of {node} at {time_ns / 1e9:.6f} s ".encode() + line


def broken(options: RunOptions, error: str, *, cpu_s: float = 0.0, repeatable: bool = True) -> Trial:
    """The trial of a test that the harness could not run, or not to its end."""
    return Trial(
        options=options,
        outcome=Outcome.HARNESS_ERROR,
        kind=anonymous(error),
        signatures=(Signature.of_error(error),),
        harness_error=error,
        cpu_s=cpu_s,
        repeatable=repeatable,
    )
