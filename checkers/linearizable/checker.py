"""The checker "linearizable": per key, ops take effect one at a time, each between its call and its return."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from checkers import kernels, models
from checkers.linearizable import evidence
from checkers.linearizable.deciders import Decision, decide
from checkers.linearizable.encoding import Problem, events
from checkers.linearizable.ops import Ops, read_ops, show
from checkers.linearizable.portfolio import search
from checkers.linearizable.search import Limits, Result
from checkers.linearizable.transitions import CLOSURE_S, Stepper
from checkers.models import Model
from checkers.verdict import Partition, Valid, Verdict
from results.arrow import to_table
from results.errors import EngineError, ModelError, UsageError
from results.history import Op

ANOMALY: Final = "nonlinearizable"
KEYS_SHOWN: Final = 100

EXPLAIN_S: Final = 4.0
"""CPU seconds for finding the failing prefix of what a decider has proven impossible already."""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the checker.

    Attributes:
        model: name of the model, or `module:attribute`.
        time_limit_s: CPU seconds per key; then the answer is "unknown".
        memory_limit_mb: configurations, and states of the model, per key; then the answer is "unknown".
        witness_time_s: CPU seconds for making the witness of a violation small.
    """

    model: str
    time_limit_s: float = 60.0
    memory_limit_mb: int = 1024
    witness_time_s: float = 2.0

    def __post_init__(self) -> None:
        """Refuse limits with which nothing can be judged."""
        if not (math.isfinite(self.time_limit_s) and math.isfinite(self.witness_time_s)):
            raise ValueError("limits must be finite")
        if self.time_limit_s <= 0 or self.memory_limit_mb <= 0 or self.witness_time_s < 0:
            raise ValueError("limits must be positive")


class Linearizable:
    """Linearizability (Herlihy and Wing 1990), key by key (it is local), against a sequential model."""

    name = "linearizable"
    partition: Partition = "key"

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the ops of one key, or of a history without keys.

        Raises:
            UsageError: an option is wrong, the model does not know an op, or a model of one's own failed.
            HistoryFormatError: completions do not fit invocations.
        """
        chosen = _options(options)
        key = history.column("key")[0].as_py() if history.num_rows else None
        return _check(history, key, models.model(chosen.model), chosen)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """Violated if any key is, with the sentence of the key that failed first; else unknown if any key is.

        Raises:
            UsageError: an option is wrong.
        """
        model = _options(options).model
        parts = list(verdicts)
        failing = sorted((part for part in parts if part.valid == "false"), key=_failed_at)
        unknown = [part for part in parts if part.valid == "unknown"]
        figures = _sum(parts)
        seconds = sum(part.seconds for part in parts)
        if failing:
            more = f" {len(failing)} of {len(parts)} keys are not linearizable." if len(failing) > 1 else ""
            return Verdict(
                checker=self.name,
                valid="false",
                algorithm=_algorithms(failing),
                anomalies=(ANOMALY,),
                seconds=seconds,
                sentence=failing[0].sentence + more,
                figures=figures,
                evidence={
                    **failing[0].evidence,
                    "failing_keys": [part.key for part in failing[:KEYS_SHOWN]],
                    "failing_keys_count": len(failing),
                    "undecided_keys_count": len(unknown),
                },
            )
        if unknown:
            more = f" {len(unknown)} of {len(parts)} keys are undecided." if len(unknown) > 1 else ""
            return Verdict(
                checker=self.name,
                valid="unknown",
                algorithm=_algorithms(unknown),
                seconds=seconds,
                figures=figures,
                sentence=unknown[0].sentence + more,
                evidence={
                    **unknown[0].evidence,
                    "undecided_keys": [part.key for part in unknown[:KEYS_SHOWN]],
                    "undecided_keys_count": len(unknown),
                },
            )
        keys = f"{len(parts)} {'key' if len(parts) == 1 else 'keys'}"
        return Verdict(
            checker=self.name,
            valid="true",
            algorithm=_algorithms(parts),
            seconds=seconds,
            figures=figures,
            sentence=f"Linearizable as a {model}: {keys}, {figures['ops']} ops.",
        )


def check_ops(ops: Sequence[Op], model: Model | str, **options: Any) -> Verdict:
    """Judge a history, key by key.

    Args:
        ops: the history; ops of negative processes are left out.
        model: the model, or its name.
        options: as `Options`, without the model.

    Raises:
        UsageError, HistoryFormatError: as `Linearizable.check`.
    """
    instance = models.model(model) if isinstance(model, str) else model
    chosen = _options({**options, "model": instance.name})
    by_key: dict[str | None, list[Op]] = {}
    for index, op in enumerate(ops):
        if op.process >= 0:
            by_key.setdefault(op.key, []).append(op if op.index >= 0 else msgspec.structs.replace(op, index=index))
    verdicts = [_check(to_table(of_key), key, instance, chosen) for key, of_key in by_key.items()]
    return verdicts[0] if len(verdicts) == 1 else Linearizable().merge(verdicts, {**options, "model": instance.name})


def _options(options: Mapping[str, Any]) -> Options:
    try:
        return msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"options of the checker 'linearizable': {error}.") from error


def _check(history: pa.Table, key: str | None, model: Model, options: Options) -> Verdict:
    """A specialised decider where one applies, else the search; a violation is explained by the search if it can."""
    limits = Limits(time_s=options.time_limit_s, memory_bytes=options.memory_limit_mb << 20)
    ops = read_ops(history, model)
    try:
        return _judged(key, ops, model, limits, options)
    except ModelError as error:
        first = int(ops.invoked[np.argmax(ops.transition == error.transition)])
        index = ops.table.column("index")[first].as_py()
        raise UsageError(f"op {index}: {error}") from error


def _judged(key: str | None, ops: Ops, model: Model, limits: Limits, options: Options) -> Verdict:
    began = kernels.cpu_s()
    decided = decide(ops, model)
    spent = kernels.cpu_s() - began
    if decided is None:
        return _searched(key, ops, model, limits, options)
    algorithm, decision = decided
    verdict = _verdict("true" if decision.valid else "false", key, algorithm, spent, _figures(ops))
    return verdict if decision.valid else _explained(verdict, ops, model, decision, limits, options)


def _searched(key: str | None, ops: Ops, model: Model, limits: Limits, options: Options) -> Verdict:
    stepper = _stepper(ops, model, limits)
    problem = events(ops, stepper.observer)
    result = search(ops, stepper, limits)
    figures = {
        **_figures(ops),
        "frontier_max": result.peak,
        "expanded": result.expanded,
        "states": len(stepper.states.known),
        "concurrency_max": problem.slots,
        "transitions": stepper.mode,
    }
    if result.answer == "linearizable":
        return _verdict("true", key, result.algorithm, result.seconds, figures)
    if result.answer == "violation":
        verdict = _verdict("false", key, result.algorithm, result.seconds, figures)
        explanation = _explanation(key, ops, problem, stepper, result, limits, options)
        return msgspec.structs.replace(verdict, sentence=explanation.sentence, evidence=explanation.facts)
    explained = int(problem.op[result.event]) if result.event < len(problem.op) else len(ops.invoked)
    return msgspec.structs.replace(
        _verdict("unknown", key, result.algorithm, result.seconds, figures),
        sentence=_undecided(key, ops, result, options, explained),
        evidence={"key": key, "ran_out": result.answer, "explained_ops": explained, "ops": len(ops.invoked)},
    )


def _stepper(ops: Ops, model: Model, limits: Limits) -> Stepper:
    return Stepper(
        model,
        ops.transitions,
        cells=limits.cells,
        memory_bytes=limits.memory_bytes,
        closure_s=min(CLOSURE_S, limits.time_s / 2),
    )


def _explained(
    verdict: Verdict, ops: Ops, model: Model, decision: Decision, limits: Limits, options: Options
) -> Verdict:
    """What a decider found impossible, with the failing prefix that the search finds, if it does within the time."""
    stepper = _stepper(ops, model, limits)
    problem = events(ops, stepper.observer)
    result = search(ops, stepper, replace(limits, time_s=min(limits.time_s, EXPLAIN_S)))
    if result.answer == "linearizable":
        raise EngineError(
            f"the decider {verdict.algorithm!r} calls {len(ops.invoked)} ops impossible, and {result.algorithm!r} "
            f"found an order of them: one of the two is wrong. Please report this with the history."
        )
    explanation = (
        _explanation(verdict.key, ops, problem, stepper, result, limits, options)
        if result.answer == "violation"
        else evidence.explain_decision(verdict.key, ops, model, decision)
    )
    return msgspec.structs.replace(verdict, sentence=explanation.sentence, evidence=explanation.facts)


def _explanation(
    key: str | None,
    ops: Ops,
    problem: Problem,
    stepper: Stepper,
    result: Result,
    limits: Limits,
    options: Options,
) -> evidence.Explanation:
    stepper.confirm_observers(sorted({int(t) for t in ops.transition[ops.crashed]}))
    violation = evidence.Violation(key, ops, problem, stepper, result)
    return evidence.explain(violation, replace(limits, time_s=options.witness_time_s))


def _verdict(valid: Valid, key: str | None, algorithm: str, seconds: float, figures: dict[str, Any]) -> Verdict:
    return Verdict(
        checker=Linearizable.name,
        valid=valid,
        key=key,
        algorithm=algorithm,
        anomalies=(ANOMALY,) if valid == "false" else (),
        figures=figures,
        seconds=seconds,
    )


def _figures(ops: Ops) -> dict[str, Any]:
    return {"ops": len(ops.invoked), "crashed": int(ops.crashed.sum())}


def _undecided(key: str | None, ops: Ops, result: Result, options: Options, explained: int) -> str:
    where = "" if key is None else f" key {show(key)}:"
    ran_out = {
        "time": f"{options.time_limit_s:g} s of CPU time ran out (time_limit_s)",
        "memory": f"{options.memory_limit_mb} MB of configurations and states ran out (memory_limit_mb)",
        "cells": "the model has too many states for the table of its steps",
    }[result.answer]
    return (
        f"Undecided:{where} {ran_out}. Everything before op {explained} of {len(ops.invoked)} is linearizable; "
        f"{result.expanded} configurations had been looked at."
    )


def _algorithms(parts: Iterable[Verdict]) -> str:
    """Who judged, over all keys."""
    return ", ".join(sorted({part.algorithm for part in parts if part.algorithm}))


def _sum(parts: Sequence[Verdict]) -> dict[str, Any]:
    """Figures of a run from those of its keys."""
    figures: dict[str, Any] = {"keys": len(parts)}
    for name in ("ops", "crashed", "expanded"):
        figures[name] = sum(part.figures.get(name, 0) for part in parts)
    for name in ("frontier_max", "concurrency_max"):
        figures[name] = max((part.figures.get(name, 0) for part in parts), default=0)
    return figures


def _failed_at(verdict: Verdict) -> int:
    return verdict.evidence["prefix"]["last_index"]
