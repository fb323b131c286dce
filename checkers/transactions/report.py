"""Findings on a history in words and data."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.columns import transactions_of
from splitbrain.checkers.transactions.judging import Expected, Findings, Workload, judge_transactions


@dataclass(frozen=True)
class Judged:
    findings: Findings
    unverified: tuple[str, ...] = ()


def judged(
    history: pa.Table, workload: Workload, expected: Expected, assumptions: Assumptions, source: str = "history"
) -> Judged:
    transactions = transactions_of(history, source)
    return Judged(judge_transactions(transactions, workload, expected, assumptions, source))
