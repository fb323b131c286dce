"""How verdicts and outcomes are put for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from splitbrain.checkers.verdict import Outcome, Verdict, reasons
from splitbrain.results.notes import Clocks
from splitbrain.results.quantities import counted
from splitbrain.results.signatures import leading_first

COLOURS = {
    Outcome.PASS: "green",
    Outcome.VIOLATION: "red",
    Outcome.INCONCLUSIVE: "yellow",
    Outcome.HARNESS_ERROR: "magenta",
}


def sentences(
    verdicts: Sequence[Verdict], harness_error: str | None = None, signatures: Sequence[object] = ()
) -> list[str]:
    """What is worth saying of a run: violations, then what broke in the harness, or else why it proves too little.

    What broke is why it proves too little. Of other reasons root causes come first.

    Args:
        verdicts: one for each checker.
        harness_error: what broke.
        signatures: of its violations: the checker of the leading one has the first sentence.
    """
    guilty = [verdict for verdict in verdicts if verdict.valid == "false"]
    violated = [verdict.sentence for verdict in leading_first(guilty, lambda each: each.checker, signatures)]
    if harness_error:
        rest = [f"Harness error: {harness_error}"]
    else:
        rest = [f"Inconclusive: {str(reason).removeprefix('Unknown: ')}" for reason in reasons(verdicts)]
    return [sentence for sentence in [*violated, *rest] if sentence]


def figures(verdicts: list[Verdict]) -> str:
    """One line on how much a run did: ops by how they ended, and the faults it saw."""
    stats = next((verdict.sentence for verdict in verdicts if verdict.checker == "stats"), "nothing was counted")
    coverage = next((each.figures for each in verdicts if each.checker == "coverage"), dict[str, Any]())
    return f"{stats} {counted(len(coverage.get('windows', ())), 'fault window')}."


CLOCK_ERROR_SHOWN_S = 0.001
"""From more than that on it is said how inexactly a host's clock is known."""


def inexact_clocks(clocks: Clocks) -> str | None:
    """A line on hosts whose clocks are not known exactly; None if all are."""
    worst = {node: error for node, error in clocks.errors_s.items() if error > CLOCK_ERROR_SHOWN_S}
    if not worst:
        return None
    each = ", ".join(f"{node} ±{error * 1000:.1f} ms" for node, error in worst.items())
    return f"clocks  {each}: the times of these nodes' telemetry have this error, and the rules allow for it"


def hot_keys(verdicts: list[Verdict]) -> list[str]:
    """How each key with very many ops was judged: in how many segments, or why in one piece."""
    return [each["how"] for verdict in verdicts for each in verdict.figures.get("hot_keys", ())]
