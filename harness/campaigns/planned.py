"""One simulated run for `replay` and `shrink`: of options or of a plan, judged, without a trace on the disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import msgspec

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Outcome, Verdict
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.followable import checked
from splitbrain.harness.campaigns.idle import HOST_OPTIONS
from splitbrain.harness.campaigns.words import sentences
from splitbrain.harness.contract.listed import names
from splitbrain.harness.running import plan as plans
from splitbrain.harness.running.plan import Expectation, Plan
from splitbrain.harness.running.simulate import simulate
from splitbrain.nemesis.requests import needs_of
from splitbrain.results.arrow import history_hash
from splitbrain.results.errors import HistoryFormatError, SplitbrainError, UsageError
from splitbrain.results.findings import evident_ns

if TYPE_CHECKING:
    import pyarrow as pa

    from splitbrain.harness.contract.test import Test
    from splitbrain.results.history import Op
    from splitbrain.results.rundir import RunDir

LIMIT_S = 300.0
"""How long one run may take, in CPU seconds: a hundred times as long as usual."""


class Task(msgspec.Struct, frozen=True):
    """What a worker process is to simulate.

    Attributes:
        number: which of many it is; the answer carries it.
        options: what the test is composed from.
        plan: a plan as the text of its file, None for the run of the options themselves.
        checker: the only one who judges; None for all.
        rows: of how many rows at the beginning of the history the hash is asked for; None for no such hash.
    """

    number: int
    options: RunOptions
    plan: bytes | None = None
    checker: str | None = None
    rows: int | None = None


class Guilt(msgspec.Struct, frozen=True):
    """A violation: its checker, its anomaly, and its key if the checker reports one.

    Attributes:
        evident_ns: when its first finding was complete, in nanoseconds of the run; None where the evidence has no time.
    """

    checker: str
    anomalies: tuple[str, ...]
    key: str | None
    evident_ns: int | None = None


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """How a simulated run went.

    Attributes:
        number: of its task.
        outcome: as of a run.
        guilt: the violations, in the order of the test's checkers.
        sentences: what is worth saying of it.
        harness_error: what went wrong in the harness, None if nothing did.
        history_hash: of the history's content.
        fingerprint: of the streams of randomness at the end.
        beginning: the hash of as many rows as the task asks for; None if it asks for none.
    """

    number: int
    outcome: Outcome
    guilt: tuple[Guilt, ...] = ()
    sentences: tuple[str, ...] = ()
    harness_error: str | None = None
    history_hash: str = ""
    fingerprint: str = ""
    beginning: str | None = None

    def found(self, wanted: Guilt) -> bool:
        """Whether the same checker found an anomaly of the same name."""
        return any(
            each.checker == wanted.checker and any(name in wanted.anomalies for name in each.anomalies)
            for each in self.guilt
        )

    def as_sought(self, wanted: Guilt) -> Guilt:
        """What it was found guilty of, as far as that was sought; it must have `found` it.

        What is sought next is what both have: one type of anomaly would else lead to another, step by step.
        """
        now = next(each for each in self.guilt if each.checker == wanted.checker)
        return msgspec.structs.replace(now, anomalies=tuple(name for name in now.anomalies if name in wanted.anomalies))

    def expectation(self) -> Expectation:
        """What the next run of the same plan must be like."""
        first = self.guilt[0] if self.guilt else Guilt("", (), None)
        return Expectation(
            outcome=cast("Any", self.outcome.value),
            checker=first.checker or None,
            anomalies=first.anomalies,
            key=first.key,
            history=self.history_hash,
            fingerprint=self.fingerprint,
        )


def test_of(options: RunOptions, plan: Plan | None) -> Test:
    """The test that the options describe, scripted if there is a plan: then it needs the faults of the plan.

    Raises:
        UsageError: an option is wrong, or the plan cannot be followed.
    """
    test = compose(options)
    if plan is None:
        return test
    plan = checked(plan, test)
    scripted = plans.scripted(test, plan)
    named = names("--nemesis", options.nemesis)
    needs = frozenset(kind for fault in plan.faults for kind in needs_of(fault.f, fault.value, named))
    return dataclasses.replace(scripted, nemesis=dataclasses.replace(scripted.nemesis, faults=needs, left_out=()))


def play(task: Task, progress: Callable[[str], None] | None = None) -> Played:
    """Simulate and judge. Errors are recorded in the answer.

    Args:
        task: what to simulate.
        progress: called with the current step, in words: often during the simulation, and before each checker.
    """
    say = progress or _ignore

    def observe(op: Op) -> None:
        say(f"simulating, at {op.time / 1e9:.0f} s of its time")

    try:
        test = test_of(task.options, None if task.plan is None else plans.decode(task.plan))
        specs = [spec for spec in test.workload.checkers if task.checker in (None, spec.name)]
        left = simulate(test, world=task.options.world, observe=None if progress is None else observe)
        verdicts = engine.judge(
            left.history, specs, left.telemetry, progress=lambda name: say(f"judging: {name}"), weaker=False
        )
    except SplitbrainError as error:
        return Played(number=task.number, outcome=Outcome.HARNESS_ERROR, harness_error=str(error))
    failure = None if left.failure is None else str(left.failure)
    outcome, error = engine.judged_outcome(verdicts, failure)
    return Played(
        number=task.number,
        outcome=outcome,
        guilt=tuple(guilt_of(verdict, left.history) for verdict in verdicts if verdict.valid == "false"),
        sentences=tuple(sentences(verdicts)),
        harness_error=error,
        history_hash=left.history_hash,
        fingerprint=left.fingerprint,
        beginning=None if task.rows is None else history_hash(left.history.slice(0, task.rows)),
    )


def _ignore(_: str) -> None:
    pass


def play_plan(plan: Plan | str | PathLike[str]) -> Played:
    """Simulate a plan, or the plan in a file, and judge it: a regression test in a line.

    assert not play_plan("tests/regressions/stale-read.json").guilt

    Raises:
        UsageError: the plan cannot be followed, or the file cannot be read.
        HistoryFormatError: the file is damaged.
    """
    plan = plan if isinstance(plan, Plan) else plans.load(plan)
    options = simulated(options_of(plan.options, "plan"))
    test_of(options, plan)
    return play(Task(0, options, plans.encode(plan)))


def guilt_of(verdict: Verdict, history: pa.Table) -> Guilt:
    """What a verdict of "false" on this history says."""
    listed: Sequence[Any] = verdict.evidence.get("failing_keys") or (verdict.key,)
    return Guilt(verdict.checker, verdict.anomalies, listed[0], evident_ns(history, verdict.evidence))


class _Git(msgspec.Struct):
    revision: str
    dirty: bool


class _Simulation(msgspec.Struct):
    fingerprint: str | None = None


class _Repeated(msgspec.Struct):
    """What of a test.json is read to repeat its run. What judging does not read was not looked at until then."""

    options: dict[str, Any] | None = None
    versions: dict[str, str] | None = None
    git: _Git | None = None
    simulation: _Simulation | None = None


def repeated(run: RunDir) -> dict[str, Any]:
    """The test.json of a run that is to be repeated.

    Raises:
        HistoryFormatError: it is damaged.
        SplitbrainError: there is none, or a newer splitbrain wrote it.
    """
    document = run.read_test()
    try:
        msgspec.convert(document, _Repeated)
    except msgspec.ValidationError as error:
        raise HistoryFormatError(str(run.path / "test.json"), f"damaged: {error}") from error
    return document


def options_of(document: Mapping[str, Any], source: str) -> RunOptions:
    """The options that a test.json or a plan holds.

    Raises:
        UsageError: there are none: the test was made by a program that uses splitbrain as a library.
        HistoryFormatError: they are not those of `splitbrain run`, or there is no seed among them.
    """
    if not document:
        raise UsageError(
            f"{source} was made by a program that uses splitbrain as a library: run that program again, with the same "
            "seed."
        )
    strange = [name for name in document if name not in RunOptions.__struct_fields__]
    if strange:
        raise HistoryFormatError(source, f"its options are not those of splitbrain run: {', '.join(strange)}")
    if document.get("seed") is None:
        raise HistoryFormatError(source, "its options have no seed: without one every run would be another")
    try:
        return RunOptions.of(**document)
    except (msgspec.ValidationError, TypeError) as error:
        raise HistoryFormatError(source, f"its options are not those of splitbrain run: {error}") from error


def elsewhere(options: RunOptions, backend: str) -> RunOptions:
    """The same options for another backend, without what was for the one they were for."""
    if backend == options.backend:
        return options
    hosts: dict[str, None] = dict.fromkeys(HOST_OPTIONS)
    return msgspec.structs.replace(options, backend=backend, world="lan", **hosts)


def simulated(options: RunOptions) -> RunOptions:
    """The same options, for simulated nodes."""
    return elsewhere(options, "sim")


def with_revision(found: Mapping[str, str], git: Mapping[str, Any] | None) -> dict[str, str]:
    """Versions of libraries, and the commit of the code among them."""
    if git is None:
        return dict(found)
    return {**found, "git": f"{git['revision']}{' with changes' if git['dirty'] else ''}"}


__all__ = [
    "LIMIT_S",
    "Guilt",
    "Played",
    "Task",
    "elsewhere",
    "guilt_of",
    "options_of",
    "play",
    "play_plan",
    "repeated",
    "simulated",
    "test_of",
    "with_revision",
]
