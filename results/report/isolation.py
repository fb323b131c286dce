"""Violations of isolation as one HTML page: the witnesses of a verdict, drawn, in sentences, and op by op.

The page needs no network and no script. It has what the report of a run has of such a verdict, for a history that is no
run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from markupsafe import Markup

from splitbrain.results.atomic import replace_file
from splitbrain.results.faults import run_events
from splitbrain.results.quantities import counted
from splitbrain.results.report.witnesses import witness_pictures
from splitbrain.results.templates import environment
from splitbrain.results.text import clip
from splitbrain.results.witness import Transaction, Witness, located, witnesses_of

_FOLDER: Final = Path(__file__).parent
_STYLES: Final = ("report.css", "plots.css")

LISTED_MAX: Final = 40
"""The largest number of witnesses that are listed."""


def write_isolation(path: Path, history: pa.Table, evidence: Mapping[str, Any], sentence: str, source: str) -> None:
    """Write the page.

    Args:
        path: the file.
        history: the whole history, sorted by index, nemesis ops included.
        evidence: that of the verdict, with witnesses under `anomalies`.
        sentence: the verdict's sentence.
        source: what was judged, in words: a file, a run.
    """
    html = render(history, evidence, sentence, source)
    replace_file(path, lambda aside: aside.write_text(html, encoding="utf-8"))


def render(history: pa.Table, evidence: Mapping[str, Any], sentence: str, source: str) -> str:
    """The page; arguments as those of `write_isolation`."""
    found = witnesses_of(evidence)
    shown = [located(each, history) for each in found[:LISTED_MAX]]
    graphs = witness_pictures(evidence, history, run_events(history).windows, "witness")
    css = "".join((_FOLDER / name).read_text(encoding="utf-8") for name in _STYLES)
    return (
        environment([_FOLDER], clip=clip)
        .get_template("isolation.html.j2")
        .render(
            css=Markup(css),
            sentence=sentence,
            facts=_facts(evidence, source),
            graphs=graphs,
            witnesses=shown,
            transactions=_rows(shown),
            left_out=_left_out(found, len(graphs)),
        )
    )


def _facts(evidence: Mapping[str, Any], source: str) -> list[tuple[str, str]]:
    named = {
        "Anomalies": "anomaly_types",
        "Weakest models that it is not": "not",
        "So not these either": "also_not",
        "Has too, and may have": "tolerated",
    }
    listed = [(words, ", ".join(map(str, evidence.get(field, ())))) for words, field in named.items()]
    return [("History", source), *(each for each in listed if each[1])]


def _rows(witnesses: Sequence[Witness]) -> list[dict[str, Any]]:
    """Each transaction of the witnesses once, in the order of their invocations."""
    by_index = {each.index: each for witness in witnesses for each in witness.transactions}
    return [_row(by_index[index]) for index in sorted(by_index)]


def _row(transaction: Transaction) -> dict[str, Any]:
    return {
        "index": transaction.index,
        "who": f"process {transaction.process}" + (f" on {transaction.node}" if transaction.node else ""),
        "ended": transaction.ended,
        "ops": ", ".join(transaction.ops),
        "begin": _moment(transaction.invoked_ns),
        "end": _moment(transaction.completed_ns),
    }


def _moment(time_ns: int | None) -> str:
    return "" if time_ns is None else f"{time_ns / 1e9:.3f} s"


def _left_out(found: Sequence[Witness], drawn: int) -> list[str]:
    with_edges = sum(1 for each in found if each.edges)
    notes: list[str] = []
    if with_edges > drawn:
        notes.append(f"{counted(with_edges - drawn, 'cycle')} of those found, which are not drawn.")
    if len(found) > LISTED_MAX:
        notes.append(f"{counted(len(found) - LISTED_MAX, 'witness', 'witnesses')} of those found.")
    return notes
