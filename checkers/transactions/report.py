"""Findings on a history with their witnesses, each verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.by_summary import transactions_by_summary
from splitbrain.checkers.transactions.columns import transactions_of
from splitbrain.checkers.transactions.judging import (
    Expected,
    Findings,
    Workload,
    judge_inference,
    judge_transactions,
    with_further,
)
from splitbrain.checkers.transactions.models import IN_PART, judged_in_part
from splitbrain.checkers.transactions.predicates import (
    PredicateWitnesses,
    infer_predicates,
    predicate_problems,
    universe_of,
)
from splitbrain.checkers.transactions.verify import problems_of
from splitbrain.checkers.transactions.weak import is_weak, weak_shown
from splitbrain.checkers.transactions.witness import Witnesses
from splitbrain.results.columns import numbers
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats.rows import knows_realtime
from splitbrain.results.quantities import counted
from splitbrain.results.summarized import SummarizedHistory


@dataclass(frozen=True)
class Judged:
    """Findings on a history.

    Attributes:
        findings: what it shows.
        witnesses: by type of anomaly, the worst first; up to `inference.CASES` of each.
        unverified: what `verify` found wrong with witnesses; those are left out.
        undecided: what was not judged, and why.
    """

    findings: Findings
    witnesses: dict[str, list[dict[str, Any]]]
    unverified: tuple[str, ...]
    undecided: tuple[str, ...] = ()


def judged(
    history: pa.Table, workload: Workload, expected: Expected, assumptions: Assumptions, source: str = "history"
) -> Judged:
    """Judge a history, and prove what is found.

    Args:
        history: rows of `splitbrain.results.arrow.HISTORY_SCHEMA`, sorted by index.
        workload: of the history.
        expected: models and anomalies that it is judged by.
        assumptions: of registers.
        source: names the history in errors.

    Raises:
        UnknownNameError: a model or an anomaly has an unknown name.
        UsageError: an assumption needs real time, and the history has none.
        HistoryFormatError: the history is not of that workload.
    """
    realtime = knows_realtime(history)
    if workload == "closed-predicate":
        return _of_predicates(history, expected, source, realtime=realtime)
    transactions = transactions_of(history, source)
    findings = judge_transactions(transactions, workload, expected, assumptions, source, realtime=realtime)
    make = Witnesses(findings.inference, findings.derivation, index_of(history))
    witnesses, unverified = verified(shown_by(findings, make), history, problems_of)
    if workload == "list-append":
        return Judged(findings, witnesses, tuple(unverified), not_judged(findings, workload, expected))
    weak = weak_shown(history, transactions, expected.models, source)
    for each in weak.witnesses:
        witnesses.setdefault(each.anomaly, [msgspec.to_builtins(each)])
    findings = with_further(findings, [each.anomaly for each in weak.witnesses], expected)
    undecided = (*weak.undecided, *not_judged(findings, workload, expected))
    return Judged(findings, witnesses, (*unverified, *weak.unverified), undecided)


def not_judged(findings: Findings, workload: Workload, expected: Expected) -> tuple[str, ...]:
    """What was not looked for, and why, except by the weak levels of registers: of those `weak_shown` says it."""
    if workload == "rw-register":
        return (*_left_open(findings), *findings.inference.undecided, *_in_part(expected))
    if not is_weak(expected.models):
        return _in_part(expected)
    return (f"{' and '.join(expected.models)} by sessions and reads, which is done for registers (rw-register) only.",)


def _in_part(expected: Expected) -> tuple[str, ...]:
    """What of some models is not looked for in any history."""
    return tuple(
        f"{model} as a whole: {IN_PART[model][0]} is not looked for. Ask for {IN_PART[model][1]}, which implies it."
        for model in judged_in_part(expected.models)
    )


def _left_open(findings: Findings) -> tuple[str, ...]:
    """That the order of versions was not worked out as far as it follows."""
    if not findings.derivation.saturated.spent:
        return ()
    inference = findings.inference
    keys = counted(len(inference.open_keys) + inference.more_open_keys, "key")
    left = f"the order of versions of {keys}, which may follow from more than was looked at: the allowance was spent. "
    return (left + "Use shorter histories, or more keys with fewer writes of each.",)


def judged_by_summary(history: SummarizedHistory, expected: Expected) -> Judged | None:
    """Judge a stored history of list-append as `judged` does, by the summaries of its lists.

    Witnesses are verified against the lists themselves.

    Returns:
        None if summaries are not enough: a transaction is not as it should be, or a witness that was found with them
        does not hold. Then the table decides.

    Raises:
        UnknownNameError: a model or an anomaly has an unknown name.
    """
    try:
        transactions = transactions_by_summary(history)
        if transactions is None:
            return None
        realtime = knows_realtime(history.frame)
        findings = judge_transactions(transactions, "list-append", expected, realtime=realtime)
        shown = shown_by(findings, Witnesses(findings.inference, findings.derivation, index_of(history.frame)))
        cited = [each.get(end, -1) for one in shown for each in one["transactions"] for end in ("invoked", "completed")]
        witnesses, unverified = verified(shown, history.with_ops(cited) if cited else history.frame, problems_of)
    except (HistoryFormatError, UnicodeDecodeError):
        return None
    return None if unverified else Judged(findings, witnesses, (), not_judged(findings, "list-append", expected))


def _of_predicates(history: pa.Table, expected: Expected, source: str, *, realtime: bool) -> Judged:
    universe = universe_of(history, source)
    findings = judge_inference(infer_predicates(universe), expected, realtime=realtime)
    make = PredicateWitnesses(universe, findings.inference, findings.derivation, index_of(history))
    witnesses, unverified = verified(shown_by(findings, make), history, predicate_problems)
    return Judged(findings, witnesses, tuple(unverified), not_judged(findings, "closed-predicate", expected))


def index_of(history: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Of each row of a history the index of its op."""
    return numbers(history.column("index")).astype(np.int64)


def shown_by(findings: Findings, make: Witnesses) -> list[dict[str, Any]]:
    """All witnesses of what was found."""
    shown = [make.of_case(case) for case in findings.inference.cases]
    return shown + [make.of_cycle(anomaly, cycle) for anomaly, cycle in findings.cycles.named.items()]


def verified(
    shown: list[dict[str, Any]], history: pa.Table, problems_of: Callable[[dict[str, Any], pa.Table], list[str]]
) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """Witnesses by type that prove what they say, and what is wrong with others.

    Args:
        shown: witnesses.
        history: rows of `splitbrain.results.arrow.HISTORY_SCHEMA`, sorted by index.
        problems_of: verifies one.
    """
    witnesses: dict[str, list[dict[str, Any]]] = {}
    unverified: list[str] = []
    for witness in shown:
        problems = problems_of(witness, history)
        unverified += problems
        if not problems:
            witnesses.setdefault(witness["anomaly"], []).append(witness)
    return witnesses, unverified
