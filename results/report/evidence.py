"""What a verdict rests on: the ops that its evidence names, its findings, and the times of both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from splitbrain.results.calls import OPEN, cell
from splitbrain.results.findings import Finding, findings_of, op_indexes
from splitbrain.results.reasons import reason_of
from splitbrain.results.report.counterexample import COUNTEREXAMPLE, is_drawable
from splitbrain.results.report.run_view import RunView, rows_of
from splitbrain.results.report.witnesses import witness_pictures
from splitbrain.results.witness import micro_operations

FINDINGS_MAX: Final = 20
"""The largest number of findings of a checker that are listed."""

WITNESS_MAX: Final = 60
"""The largest number of ops of a verdict that are listed."""

_TEXT_MAX: Final = 20_000


def verdicts_of(view: RunView) -> list[dict[str, Any]]:
    """Verdicts, the most severe first, each with the ops that its evidence names."""
    found = view.judgement.verdicts if view.judgement else []
    rank: dict[bool | str, int] = {False: 0, "unknown": 1, True: 2}
    ordered = sorted(found, key=lambda v: (rank.get(v.get("valid", "unknown"), 1), not v.get("inconclusive")))
    return [_verdict(view, verdict, place) for place, verdict in enumerate(ordered, 1)]


def _verdict(view: RunView, verdict: dict[str, Any], place: int) -> dict[str, Any]:
    evidence: Any = verdict.get("evidence")
    guilty = verdict.get("valid") is not True
    findings = findings_of(evidence)[:FINDINGS_MAX] if guilty else []
    indexes = _witness(evidence, findings)[:WITNESS_MAX] if guilty else []
    text = json.dumps(evidence, indent=1, ensure_ascii=False, default=str) if evidence and guilty else ""
    return {
        "checker": verdict.get("checker", "?"),
        "valid": _word(verdict.get("valid")),
        "algorithm": verdict.get("algorithm", ""),
        "sentence": verdict.get("sentence", ""),
        "anomalies": verdict.get("anomalies", ()),
        "inconclusive": [str(reason) for reason in map(reason_of, verdict.get("inconclusive", ()))],
        "seconds": verdict.get("seconds", 0.0),
        "evidence": text[:_TEXT_MAX],
        "evidence_cut": max(len(text) - _TEXT_MAX, 0),
        "witness_indexes": indexes,
        "witness": witness_rows(view, indexes),
        "findings": findings,
        "findings_count": len(findings_of(evidence)) + _left_out(verdict.get("figures")),
        "picture": _picture(view, verdict),
        "graphs": witness_pictures(evidence, view.history, view.events.windows, f"witness-{place}") if guilty else [],
    }


def _left_out(figures: Any) -> int:
    """Findings that the checker itself did not list."""
    left_out = cast("dict[str, Any]", figures).get("left_out") if isinstance(figures, dict) else None
    count = cast("dict[str, Any]", left_out).get("findings") if isinstance(left_out, dict) else None
    return count if isinstance(count, int) else 0


def _picture(view: RunView, verdict: Mapping[str, Any]) -> str | None:
    """The page that draws a verdict's counterexample, where there is one."""
    drawn = verdict.get("valid") is False and is_drawable(verdict.get("evidence") or {})
    return COUNTEREXAMPLE if drawn and (view.run.path / COUNTEREXAMPLE).exists() else None


def _word(valid: Any) -> str:
    return {True: "true", False: "false"}.get(valid, "unknown") if isinstance(valid, bool) else "unknown"


def _witness(evidence: Any, findings: Sequence[Finding]) -> list[int]:
    """A few ops: those that the evidence offers, else those of the first finding that rests on any."""
    offered = isinstance(evidence, dict) and any(name in evidence for name in ("witness", "ops", "failing_op"))
    first = next((finding.ops for finding in findings if finding.ops), None)
    return op_indexes(evidence) if offered or first is None else first


def witness_rows(view: RunView, indexes: Sequence[int]) -> list[dict[str, Any]]:
    """The client ops with these indexes, by invocation, as rows of a table."""
    rows: list[dict[str, Any]] = []
    history = view.history
    for call in rows_of(view, indexes):
        invoke, complete = int(view.calls.invoke[call]), int(view.calls.complete[call])
        ended = complete != OPEN
        kind = cell(history, "type", complete) if ended else "open"
        asked = micro_operations(history, invoke, known=False)
        answered = micro_operations(history, complete, known=True) if kind == "ok" else None
        rows.append(
            {
                **{name: cell(history, name, invoke) for name in ("index", "process", "node", "f", "key")},
                "argument": cell(history, "value", invoke) if asked is None else asked,
                "type": kind,
                "result": (cell(history, "value", complete) if ended else None) if answered is None else answered,
                "end_index": cell(history, "index", complete) if ended else None,
                "term": cell(history, "term", complete) if ended else None,
                "error": cell(history, "error", complete) if ended else "no completion was recorded",
                "invoke_s": cell(history, "time", invoke) / 1e9,
                "complete_s": cell(history, "time", complete) / 1e9 if ended else None,
            }
        )
    return rows
