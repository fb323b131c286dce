"""The judging of one key, in turns: first what takes linear time, then the search, and at last the explanation.

All of it together stays within the key's time limit. What is linear (reading, most deciders) is never cut short. A
decider that searches comes after a short trial of the general search, has a share of the limit, and leaves the rest.
Once there is a verdict, no more time goes into explaining it than went into finding it, or a little.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers.linearizable import evidence
from splitbrain.checkers.linearizable.deciders import Decision, decide, is_searched
from splitbrain.checkers.linearizable.depth_first import DepthFirst, least_bytes
from splitbrain.checkers.linearizable.encoding import Problem, events
from splitbrain.checkers.linearizable.evidence import Explanation, Violation
from splitbrain.checkers.linearizable.limits import EXPLAIN_LEAST_S, Budget, Clock, Limits
from splitbrain.checkers.linearizable.occasions import could_be_wrong
from splitbrain.checkers.linearizable.ops import Ops, read_ops, show
from splitbrain.checkers.linearizable.options import NAME, Options
from splitbrain.checkers.linearizable.portfolio import DEPTH_FIRST_SHARE, Portfolio, search
from splitbrain.checkers.linearizable.prechecks import origins, refuted
from splitbrain.checkers.linearizable.search import Result
from splitbrain.checkers.linearizable.transitions import CLOSURE_S, Stepper
from splitbrain.checkers.long_histories import LongHistory
from splitbrain.checkers.models import Model
from splitbrain.checkers.verdict import Valid, Verdict
from splitbrain.results.errors import EngineError, ModelError, UsageError
from splitbrain.results.reasons import Code, Reason

ANOMALY: Final = "nonlinearizable"

EXPLAIN_S: Final = 2.0
"""CPU seconds for the explanation of a violation, at most, where the options do not say.

Less if the verdict took less, but EXPLAIN_LEAST_S in any case.
"""

TRIAL_S: Final = 0.05
"""CPU seconds of the general search before a decider searches: many histories take it a few milliseconds."""

PREFIX_SHARE: Final = 0.4
"""The largest share of the time for an explanation that the smallest prefix of a decider's violation may take."""


class Judging:
    """Judges the ops of one key.

    Attributes:
        key: the key.
        valid: what is known by now; None before that.
        budget: CPU seconds for all of it.
    """

    def __init__(self, history: pa.Table | LongHistory, model: Model, options: Options, clock: Clock) -> None:
        """Begin with the rows of one key, or of a history without keys; nothing is looked at yet."""
        self.key: str | None = _key(history)
        self.valid: Valid | None = None
        self._history = history
        self._model = model
        self._functions = options.functions
        self._options = options
        self.budget = Budget(options.time_limit_s, clock)
        self._limits = Limits(memory_bytes=options.memory_limit_mb << 20, clock=clock)
        self._ops: Ops | None = None
        self._portfolio: Portfolio | None = None
        self._proof: tuple[str, Decision] | None = None
        self._proof_s = 0.0
        self._result: Result | None = None
        self._stepper: Stepper | None = None
        self._problem: Problem | None = None

    @property
    def memory_bytes(self) -> int:
        """What the search holds between two turns."""
        return 0 if self._portfolio is None or self.valid is not None else self._portfolio.memory_bytes

    @property
    def ends_by(self) -> int:
        """Of a violation, the index in the history of the completion by which it is there."""
        ops = self._read()
        if self._proof is not None:
            row = int(ops.completed[evidence.fails_last(ops, self._proof[1].culprits)])
        elif self._problem is not None:
            row = int(ops.completed[int(self._problem.op[self._answer.event])])
        else:
            raise AssertionError("nothing was searched")
        return ops.cell("index", row)

    def start(self) -> None:
        """Do what takes linear time, or a search of its own for the kind of history.

        Raises:
            UsageError: the model does not know an op, failed, or contradicts itself.
            HistoryFormatError: completions do not fit invocations.
        """
        with self.budget:
            ops = self._read()
            try:
                before = self.budget.spent()
                self._proof = decide(ops, self._model, self.budget, searching=False) or refuted(ops, self._model)
                if self._proof is None and is_searched(self._model):
                    self._search(min(TRIAL_S, self.budget.left()))
                    if self.valid not in ("true", "false"):
                        self._proof = decide(ops, self._model, self.budget, searching=True)
                    if self._proof is not None:
                        self._portfolio = None
                    elif self._portfolio is not None:
                        self._portfolio.limit_time(self.budget.left())
                self._proof_s = self.budget.spent() - before
            except ModelError as error:
                raise self._located(error) from error
        if self._proof is not None:
            self.valid = "true" if self._proof[1].valid else "false"

    def advance(self, seconds: float) -> bool:
        """Search for about this many CPU seconds; whether the work is done.

        Raises:
            UsageError: the model failed, or contradicts itself.
        """
        with self.budget:
            try:
                self._search(seconds)
            except ModelError as error:
                raise self._located(error) from error
        return self.valid is not None

    def verdict(self, *, explained: bool = True) -> Verdict:
        """The answer.

        Args:
            explained: whether time may go into making the evidence of a violation small.

        Raises:
            UsageError: the model failed, or contradicts itself.
        """
        ops = self._read()
        if self._proof is not None:
            algorithm, decision = self._proof
            plain = self._verdict(algorithm, self._proof_s, figures_of(ops))
            if decision.valid:
                return plain
        else:
            plain = self._verdict(self._answer.algorithm, self._answer.seconds, self._figures())
            if self.valid == "true":
                return plain
            if self.valid == "unknown":
                return self._undecided(plain)
        with self.budget:
            try:
                why = self._explained(ops, self.explain_s() if explained else 0.0)
            except ModelError as error:
                raise self._located(error) from error
        return msgspec.structs.replace(plain, sentence=why.sentence, evidence=why.facts)

    def put_off(self) -> Verdict:
        """The verdict on a key on which nothing is known, and for which there is no more time: another is violated."""
        self.valid = "unknown"
        where = "" if self.key is None else f" key {show(self.key)}:"
        return Verdict(
            checker=NAME,
            valid="unknown",
            key=self.key,
            figures=figures_of(self._ops) if self._ops is not None else {},
            sentence=f"Not judged to the end:{where} another key is not linearizable, and that is the verdict.",
            evidence={"key": self.key, "ran_out": "verdict"},
        )

    # --- searching ----------------------------------------------------------------------------------------------------

    def _read(self) -> Ops:
        if self._ops is None:
            self._ops = read_ops(self._history, self._model, self._functions)
        return self._ops

    def _search(self, seconds: float) -> None:
        ops = self._read()
        if self._portfolio is None:
            stepper = self._prepared(ops)
            limits = replace(self._limits, time_s=self.budget.left())
            self._portfolio = Portfolio(ops, stepper, limits, problem=self._problem)
        result = self._portfolio.advance(min(seconds, self.budget.left()))
        if result is not None:
            self._result, self._portfolio = result, None
            answers: dict[str, Valid] = {"linearizable": "true", "violation": "false"}
            self.valid = answers.get(result.answer, "unknown")

    def _prepared(self, ops: Ops) -> Stepper:
        if self._stepper is None:
            self._stepper = Stepper(
                self._model,
                ops.transitions,
                cells=self._limits.cells,
                memory_bytes=self._limits.memory_bytes,
                closure_s=min(CLOSURE_S, self.budget.left() / 2),
                clock=self._limits.clock,
                ops=np.bincount(ops.transition, minlength=len(ops.transitions)).tolist(),
            )
            self._problem = events(ops, self._stepper.observer)
        return self._stepper

    @property
    def _answer(self) -> Result:
        if self._result is None:
            raise AssertionError("the search is not over")
        return self._result

    def _located(self, error: ModelError) -> UsageError:
        ops = self._read()
        first = int(ops.invoked[np.argmax(ops.transition == error.transition)])
        return UsageError(f"op {ops.cell('index', first)}: {error}")

    # --- explaining ---------------------------------------------------------------------------------------------------

    def explain_s(self) -> float:
        """CPU seconds for the explanation of a violation."""
        asked = self._options.witness_time_s
        most = min(EXPLAIN_S, max(EXPLAIN_LEAST_S, self.budget.spent())) if asked is None else asked
        return min(most, self.budget.left())

    def _explained(self, ops: Ops, seconds: float) -> Explanation:
        limits = replace(self._limits, time_s=seconds)
        if self._proof is None:
            return self._explanation(ops, self._answer, limits, None)
        algorithm, decision = self._proof
        budget = Budget(seconds, limits.clock)
        with budget:
            search_it = seconds > 0 and not decision.exact
            result = self._smallest_prefix(ops, algorithm, decision, limits) if search_it else None
            if result is None:
                return evidence.explain_decision(self.key, ops, self._model, decision)
            return self._explanation(ops, result, replace(limits, time_s=budget.left()), decision)

    def _smallest_prefix(self, ops: Ops, algorithm: str, decision: Decision, limits: Limits) -> Result | None:
        """Where the smallest failing prefix ends, of what a decider found impossible; None if that takes too long."""
        until = int(ops.completed[evidence.fails_last(ops, decision.culprits)])
        limits = replace(limits, time_s=limits.time_s * PREFIX_SHARE / 2)
        if not limits.can_read(2 * int(np.searchsorted(ops.invoked, until))):
            return None
        stepper = self._prepared(ops)
        result = search(ops, stepper, limits, until_row=until)
        if result.answer == "linearizable":
            result = search(ops, stepper, limits)
        if result.answer == "linearizable" and algorithm == origins.ALGORITHM and hasattr(self._model, "facts"):
            raise UsageError(
                f"model {self._model.name!r}: its `facts` contradict its steps: {decision.reason}, but there is an "
                f"order of the ops. Correct `facts`, or leave it out."
            )
        if result.answer == "linearizable":
            raise EngineError(
                f"the decider {algorithm!r} calls {len(ops.invoked)} ops impossible, and {result.algorithm!r} "
                f"found an order of them: one of the two is wrong. Please report this with the history."
            )
        if result.answer == "violation":
            return result
        return self._ends_there(ops, stepper, limits, until)

    def _ends_there(self, ops: Ops, stepper: Stepper, limits: Limits, until: int) -> Result | None:
        """That an impossible prefix is the smallest one: without its last event there is a linearization."""
        if least_bytes(ops, until) > limits.memory_bytes // DEPTH_FIRST_SHARE:
            return None
        arm = DepthFirst(ops, stepper, limits, until_row=until - 1)
        while (before := arm.advance(limits.time_s)) is None:
            pass
        if before.answer != "linearizable":
            return None
        return replace(before, answer="violation", complete=False, covering=False)

    def _explanation(self, ops: Ops, result: Result, limits: Limits, decision: Decision | None) -> Explanation:
        stepper = self._prepared(ops)
        if self._problem is None:
            raise AssertionError("a stepper comes with a problem")
        stepper.confirm_observers(sorted({int(t) for t in ops.transition[ops.crashed]}))
        return evidence.explain(Violation(self.key, ops, self._problem, stepper, result), limits, decision)

    # --- verdicts -----------------------------------------------------------------------------------------------------

    def _verdict(self, algorithm: str, seconds: float, figures: dict[str, Any]) -> Verdict:
        if self.valid is None:
            raise AssertionError("there is no answer yet")
        if self.valid == "true":
            figures["exercised"] = int(could_be_wrong(self._read(), self._model))
        return Verdict(
            checker=NAME,
            valid=self.valid,
            key=self.key,
            algorithm=algorithm,
            anomalies=(ANOMALY,) if self.valid == "false" else (),
            figures=figures,
            seconds=seconds,
        )

    def _figures(self) -> dict[str, Any]:
        if self._stepper is None or self._problem is None:
            raise AssertionError("nothing was searched")
        return {
            **figures_of(self._read()),
            "frontier_max": self._answer.peak,
            "expanded": self._answer.expanded,
            "states": len(self._stepper.states.known),
            "concurrency_max": self._problem.slots,
            "transitions": self._stepper.mode,
        }

    def _undecided(self, plain: Verdict) -> Verdict:
        ops, result, problem = self._read(), self._answer, self._problem
        if problem is None:
            raise AssertionError("nothing was searched")
        explained = int(problem.op[result.event]) if result.event < len(problem.op) else len(ops.invoked)
        where = "" if self.key is None else f" key {show(self.key)}:"
        ran_out = {
            "time": f"{self._options.time_limit_s:g} s of CPU time ran out (time_limit_s)",
            "memory": f"{self._options.memory_limit_mb} MB of configurations and states ran out (memory_limit_mb)",
            "cells": "the model has too many states for the table of its steps",
        }[result.answer]
        sentence = (
            f"Undecided:{where} {ran_out}. Everything before op {explained} of the {len(ops.invoked)} that did not "
            f"fail is linearizable; {result.expanded} configurations had been looked at."
        )
        return msgspec.structs.replace(
            plain,
            sentence=sentence,
            inconclusive=(Reason(Code.CHECKER_LIMIT, sentence),),
            evidence={
                "key": self.key,
                "ran_out": result.answer,
                "explained_ops": explained,
                "judged_ops": len(ops.invoked),
            },
        )


def _key(history: pa.Table | LongHistory) -> str | None:
    if isinstance(history, LongHistory):
        return history.key
    return history.column("key")[0].as_py() if history.num_rows else None


def figures_of(ops: Ops) -> dict[str, Any]:
    """What is known of a key without judging it. Of the ops that clients invoked those are judged that did not fail."""
    return {"ops": ops.called, "judged": len(ops.invoked), "crashed": int(ops.crashed.sum())}
