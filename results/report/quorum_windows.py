"""The windows of quorum progress as rows of a table, with the findings that fall into each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from splitbrain.results.findings import Finding
from splitbrain.results.quantities import counted
from splitbrain.results.report.quorum import Figures, QuorumWindow
from splitbrain.results.text import clip

WINDOWS_MAX: Final = 200
"""Windows in the table; those with a finding come in before others."""

_CORES_MAX: Final = 4
_NODES_MAX: Final = 12


def window_rows(figures: Figures, nodes: Sequence[str], findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Rows in the order of time.

    Args:
        figures: of the checker.
        nodes: of the test.
        findings: of all verdicts, numbered from 1 in this order: so the page names them.
    """
    numbered = [(row.number if row.number is not None else place, row) for place, row in enumerate(figures.windows)]
    found: dict[int, list[tuple[int, str]]] = {}
    for number, finding in enumerate(findings, 1):
        if finding.window is not None:
            found.setdefault(finding.window, []).append((number, finding.rule))
    chosen = sorted(numbered, key=lambda pair: pair[0] not in found)[:WINDOWS_MAX]
    return [_row(number, row, nodes, found.get(number, [])) for number, row in sorted(chosen, key=lambda pair: pair[0])]


def _row(number: int, window: QuorumWindow, nodes: Sequence[str], found: list[tuple[int, str]]) -> dict[str, Any]:
    return {
        "number": number,
        "start_s": window.start_s,
        "end_s": window.end_s,
        "how": _how(window),
        "voters": [_named(voters, nodes) for voters in window.configurations],
        "cores": [_named(core, nodes) for core in window.cores[:_CORES_MAX]],
        "more_cores": max(len(window.cores) - _CORES_MAX, 0),
        "silent": _named([node for node in window.nodes if node not in window.possibly_served], nodes),
        "nodes": [(clip(node, 30), asked) for node, asked in list(window.nodes.items())[:_NODES_MAX] if asked.ops],
        "more_nodes": max(len(window.nodes) - _NODES_MAX, 0),
        "rules": [(clip(rule, 10), clip(how, 30)) for rule, how in window.rules.items() if how != "not judged"],
        "findings": found,
    }


def _how(window: QuorumWindow) -> str:
    """Links and nodes in words."""
    states = [
        f"{counted(len(window.cut), 'link')} cut" if window.cut else "",
        f"{counted(len(window.uncertain_links), 'link')} uncertain" if window.uncertain_links else "",
        f"down: {clip(', '.join(window.down), 100)}" if window.down else "",
        f"uncertain: {clip(', '.join(window.uncertain), 100)}" if window.uncertain else "",
    ]
    return "; ".join(filter(None, states)) or "all well"


def _named(chosen: Sequence[str], nodes: Sequence[str]) -> str:
    """Nodes in words: "all" for all of the test's."""
    return "all" if chosen and set(nodes) <= set(chosen) else clip(" ".join(chosen), 120)
