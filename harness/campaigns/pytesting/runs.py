"""The object behind the fixture `splitbrain`: it runs a test as `splitbrain run` does, and fails or skips."""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from splitbrain.checkers.verdict import Outcome, Verdict, reasons
from splitbrain.harness.campaigns.compose import backend_of, command_line, compose
from splitbrain.harness.campaigns.pytesting.combining import Combination, run_options
from splitbrain.harness.campaigns.record import run_and_judge
from splitbrain.results.arrow import from_table
from splitbrain.results.calls import OPEN, client_calls
from splitbrain.results.columns import array
from splitbrain.results.errors import HarnessError, UsageError
from splitbrain.results.findings import findings_of, moments_of, op_indexes
from splitbrain.results.history import Op
from splitbrain.results.reasons import Code
from splitbrain.results.signatures import leading_first
from splitbrain.results.stores import STORE
from splitbrain.results.text import clip

if TYPE_CHECKING:
    import pyarrow as pa

    from splitbrain.harness.campaigns.judging import Conclusion
    from splitbrain.harness.contract.test import Backend, Test

WITNESS_MAX: Final = 12
"""Ops of a witness that are shown; the report has all."""


_OP: Final = "  op "
"""How a line on an op of a witness begins."""


class Splitbrain:
    """Runs consistency tests within a test of pytest.

    Attributes:
        options: of a run, by the marker and the command line.
        seed: of this test.
        store: where runs go.
    """

    def __init__(self, chosen: Combination, given: Any, item: pytest.Item, root: Path, began_s: float) -> None:
        self.options = dict(chosen.options)
        self.seed = chosen.seed
        self.store = root / (given.splitbrain_store or STORE)
        self._backend: str | None = given.splitbrain_backend
        self._chosen, self._item, self._began_s = chosen, item, began_s

    def run(
        self, test: Test | None = None, backend: Backend | str | None = None, *, check: bool = True, **options: Any
    ) -> Conclusion:
        """Run a test and judge it; the run is stored. A violation fails the test of pytest.

        Args:
            test: a test; None for one of the options. A test has a seed of its own, which is kept.
            backend: where its nodes live; a name as of `splitbrain run` for a test of the options, which
                `--splitbrain-backend` overrides; for another test a simulation if left out.
            check: whether a violation fails the test, and an inconclusive run skips it (or fails it, by the marker).
            options: as of `splitbrain run`, besides those of the marker.

        Raises:
            UsageError: an option is wrong, or there are options or the name of a backend beside a test.
            HarnessError: the harness failed.
        """
        if test is not None and options:
            raise UsageError(f"{', '.join(options)}: a test has its options already: leave them out.")
        if isinstance(backend, str):
            if test is not None:
                raise UsageError(f"backend={backend!r}: a test needs a backend itself, such as LocalBackend().")
            options["backend"], backend = backend, None
        if self._backend is not None and "backend" in options:
            options["backend"] = self._backend
        budget_s = self._chosen.budget_s
        if budget_s is not None and time.monotonic() - self._began_s >= budget_s:
            pytest.skip(f"the budget of {budget_s:g} s is spent")
        if test is None:
            chosen = run_options({**self.options, **options}, options.pop("seed", self.seed))
            test, backend = compose(chosen), backend or backend_of(chosen)
            again = command_line(chosen, self.store)
        else:
            from splitbrain.harness.backends.sim import SimBackend

            backend = backend or SimBackend()
            name = self._item.nodeid.partition("[")[0]
            again = shlex.join(["pytest", name, "--splitbrain-seed", str(test.seed)])
        conclusion = run_and_judge(test, backend, self.store, notes={"command": again})
        self._record(conclusion, again, test.seed)
        if Code.INTERRUPTED in [reason.code for reason in reasons(conclusion.verdicts)]:
            raise KeyboardInterrupt
        if check:
            self._check(conclusion, again)
        return conclusion

    def with_seed(self, test: Test) -> Test:
        """The test, with the seed of this test of pytest."""
        return dataclasses.replace(test, seed=self.seed)

    def _record(self, conclusion: Conclusion, again: str, seed: int) -> None:
        """Leave what a CI service shows among the properties of JUnit."""
        judgement = conclusion.run.read_verdicts()
        signatures = [] if judgement is None else judgement.signatures
        named = {
            "outcome": conclusion.outcome.value,
            "seed": str(seed),
            "report": str(conclusion.report),
            "command": again,
            **({"replay": replay} if (replay := replay_command(conclusion)) else {}),
            **({"signature": signatures[0]} if signatures else {}),
        }
        self._item.user_properties += list(named.items())

    def _check(self, conclusion: Conclusion, again: str) -> None:
        """Fail or skip the test as the outcome says."""
        if conclusion.outcome is Outcome.VIOLATION:
            pytest.fail(violation_text(conclusion, again), pytrace=False)
        if conclusion.outcome is Outcome.HARNESS_ERROR:
            raise HarnessError(f"{conclusion.harness_error} (report {conclusion.report}; again: {again})")
        if conclusion.outcome is Outcome.INCONCLUSIVE:
            said = conclusion.sentences()
            why = f"{said[0] if said else 'Inconclusive.'} (report {conclusion.report})"
            if self._chosen.inconclusive == "fail":
                pytest.fail(f"{why}\nagain   {again}", pytrace=False)
            pytest.skip(why)


def replay_command(conclusion: Conclusion) -> str:
    """Repeats a stored run; "" for one of a test that a program made: only that program can."""
    if not conclusion.run.read_test().get("options"):
        return ""
    return shlex.join(["splitbrain", "replay", str(conclusion.run.path)])


def violation_text(conclusion: Conclusion, again: str) -> str:
    """A violation for the output of a test: sentences, the witness, the signature, and how to repeat it."""
    judgement = conclusion.run.read_verdicts()
    lines = conclusion.sentences()
    history = conclusion.run.history()
    for verdict in leading_first(conclusion.verdicts, lambda each: each.checker, conclusion.signatures):
        if verdict.valid == "false" and (shown := list(_witness(verdict, history))):
            lines += [f"witness of {verdict.checker}:", *shown]
            if shown[0].startswith(_OP):  # reports of nodes alone do not show what clients saw
                break
    if judgement is not None and judgement.signatures:
        lines.append(f"signature  {judgement.signatures[0]}")
    lines.append(f"report     {conclusion.report}")
    if replay := replay_command(conclusion):
        lines.append(f"replay     {replay}")
    return "\n".join([*lines, f"again      {again}"])


def _witness(verdict: Verdict, history: pa.Table) -> Iterator[str]:
    """The ops on which the first finding rests, or the reports of nodes."""
    findings = findings_of(verdict.evidence)
    indexes = (findings[0].ops if findings else None) or op_indexes(verdict.evidence)
    calls = client_calls(history)
    wanted = np.array(indexes, np.int64)
    hit = np.isin(calls.invoke, wanted) | np.isin(calls.complete, wanted)
    for invoke, complete in zip(calls.invoke[hit][:WITNESS_MAX], calls.complete[hit], strict=False):
        rows = [int(row) for row in (invoke, complete) if row != OPEN]
        yield f"{_OP}{_line(*from_table(history.take(array(rows))))}"
    if hit.sum() > WITNESS_MAX:
        yield f"  and {hit.sum() - WITNESS_MAX} more ops: see the report"
    if not hit.any():
        for moment in (findings[0].moments if findings else list(moments_of(verdict.evidence)))[:WITNESS_MAX]:
            yield f"  {moment.node} at {moment.time_s:.4f} s: {moment.words}"


def _line(invoke: Op, complete: Op | None = None) -> str:
    last = complete or invoke
    key = "" if last.key is None else f" key {clip(last.key, 20)}"
    asked = "" if invoke.value is None and invoke.mops is None else f" {_value(invoke)}"
    answered = "" if complete is None else f" -> {_value(complete)}"
    error = "" if last.error is None else f" ({clip(last.error, 60)})"
    where = "" if last.node is None else f" on {last.node}"
    until = "open" if complete is None else f"{complete.time / 1e9:.4f} s {complete.type}"
    when = f"{invoke.time / 1e9:.4f} s to {until}"
    return f"{invoke.index}  {when}  process {invoke.process}{where}  {invoke.f}{key}{asked}{answered}{error}"


def _value(op: Op) -> str:
    return clip(op.value if op.mops is None else [[mop.f, mop.key, mop.values or mop.value] for mop in op.mops], 100)
