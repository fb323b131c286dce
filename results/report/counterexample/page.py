"""The page around the picture: the sentence, the ends of all orders, the witness, and the data for the script."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import numpy as np
import pyarrow as pa
from markupsafe import Markup

from splitbrain.results.calls import Ints
from splitbrain.results.quantities import counted
from splitbrain.results.report.counterexample import drawing
from splitbrain.results.report.counterexample.scene import OPS_MAX, Scene, op_words, scene
from splitbrain.results.report.letters import BOLD, OTHER, PLAIN
from splitbrain.results.templates import environment
from splitbrain.results.text import clip, visible

_FOLDER: Final = Path(__file__).parent
_STEPS_IN_WORDS: Final = 12
_LISTED: Final = 60
_STATES: Final = 6

_EFFORT: Final = 2
"""Of the compression, 1 to 9: from here on, time grows much faster than size shrinks."""


def render(history: pa.Table, evidence: Mapping[str, Any], sentence: str, source: str, most: int = OPS_MAX) -> str:
    """The page; arguments as those of `write_counterexample`, and how many ops are kept at most.

    Raises:
        HistoryFormatError: the evidence is not of this history.
    """
    drawn = scene(history, evidence, most)
    view = drawing.first_view(drawn)
    pages = environment([_FOLDER, _FOLDER.parent], clip=clip)
    script = (_FOLDER / "counterexample.js").read_text(encoding="utf-8")
    css = "".join((folder / name).read_text(encoding="utf-8") for folder, name in _STYLES)
    return pages.get_template("counterexample.html.j2").render(
        css=Markup(css),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=_packed(drawn, view),
        picture=drawing.draw(drawn, view),
        sentence=sentence,
        facts=_facts(drawn, evidence, source),
        failing=op_words(drawn, drawn.failing),
        ends=_ends(evidence),
        witness=_rows(evidence, "witness"),
        minimal=bool(cast("dict[str, Any]", evidence.get("witness") or {}).get("minimal")),
        pending=_rows(evidence, "pending"),
        left_out=_left_out(drawn, view, evidence),
    )


_STYLES: Final = (
    (_FOLDER.parent, "report.css"),
    (_FOLDER.parent, "plots.css"),
    (_FOLDER, "counterexample.css"),
)


def _facts(drawn: Scene, evidence: Mapping[str, Any], source: str) -> list[tuple[str, str]]:
    prefix = evidence["prefix"]
    smallest = "" if evidence.get("prefix_is_smallest", True) else " at most"
    facts: list[tuple[str, Any]] = [
        ("History", source),
        ("Key", evidence["key"]),
        ("Model", evidence.get("model")),
        ("Ops of this key", f"{len(drawn.bars.begin) + drawn.bars.left_out:,}"),
        ("Smallest impossible prefix", f"{prefix['ops']:,} ops{smallest}, up to op {prefix['last_index']}"),
    ]
    states = cast("list[str]", evidence.get("possible_states") or [])
    if states:
        more = max(evidence.get("possible_states_count", len(states)), len(states)) - _STATES
        listed = ", ".join(clip(state, 40) for state in states[:_STATES])
        listed += f" and {more} more" if more > 0 else "" if evidence.get("every_state", True) else ", perhaps others"
        facts.append(("Possible states at its end", listed))
    return [(name, clip(value, 200)) for name, value in facts if value is not None]


# --- in words ---------------------------------------------------------------------------------------------------------


def _ends(evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each final path in words: its last steps, and why the failing op cannot follow."""
    final = cast("dict[str, Any]", evidence.get("final_paths") or {})
    found: list[dict[str, Any]] = []
    for path in final.get("paths", []):
        steps = cast("list[dict[str, Any]]", path["steps"])
        found.append(
            {
                "ends": clip(path["ends"]),
                "before": max(len(steps) - _STEPS_IN_WORDS, 0),
                "begins": clip(
                    path["begins"] if len(steps) <= _STEPS_IN_WORDS else steps[-_STEPS_IN_WORDS - 1]["state"]
                ),
                "steps": _changes(steps[-_STEPS_IN_WORDS - 1 :], path["begins"], len(steps) > _STEPS_IN_WORDS),
                "then": clip(path["then"], 400),
            }
        )
    return found


def _changes(steps: Sequence[Mapping[str, Any]], begins: str, follows: bool) -> list[tuple[str, str]]:
    """Steps in words, each with the state after it where that is another; without the first if it only `follows`."""
    before = [begins, *(step["state"] for step in steps)]
    changes = [
        (clip(step["op"]), clip(step["state"]) if step["state"] != before[number] else "")
        for number, step in enumerate(steps)
    ]
    return changes[1:] if follows else changes


def _rows(evidence: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    listed: Any = evidence.get(name) or []
    if isinstance(listed, dict):
        listed = cast("dict[str, Any]", listed).get("ops", [])
    rows: list[dict[str, Any]] = []
    for op in cast("list[dict[str, Any]]", listed)[:_LISTED]:
        begin, end = op["invoked_ns"], op["completed_ns"]
        rows.append(
            {
                "op": clip(op["op"]),
                "who": clip(f"process {op['process']}" + (f" on {op['node']}" if op.get("node") else "")),
                "index": f"{op['invoked_index']}"
                + (f"-{op['completed_index']}" if op["completed_index"] is not None else ""),
                "type": op["type"],
                "begin": f"{begin / 1e9:.4f} s" if begin is not None and begin >= 0 else "",
                "end": f"{end / 1e9:.4f} s" if end is not None and end >= 0 else "",
            }
        )
    return rows


def _left_out(drawn: Scene, view: drawing.View, evidence: Mapping[str, Any]) -> list[str]:
    """What the page does not show."""
    notes = ["The axis shows events, not time: every invocation and every completion is one step to the right."]
    if drawn.bars.left_out:
        notes.append(f"{drawn.bars.left_out:,} ops of this key, far from the failing one, are not in this file.")
    if view.rows_left_out:
        notes.append(f"{counted(view.rows_left_out, 'process', 'processes')} have no row in the first view.")
    if drawn.faults_left_out:
        notes.append(f"{drawn.faults_left_out} fault windows are not drawn.")
    final = cast("dict[str, Any]", evidence.get("final_paths") or {})
    if not final:
        notes.append("No order is drawn: there are too many, or the violation was proven without any.")
    elif final.get("states_left_out"):
        notes.append(f"Orders that end in {final['states_left_out']} further states are left out.")
    if not final.get("every_beginning", True):
        notes.append(
            f"The orders continue one explanation of what came before op {final['since_index']}; there are more."
        )
    if final.get("ops_before"):
        notes.append(
            f"The order of the {final['ops_before']:,} ops that ended before op {final['since_index']} is not shown."
        )
    pending = evidence.get("pending_count", 0)
    if pending > _LISTED:
        notes.append(
            f"{counted(pending - _LISTED, 'pending op')} {'is' if pending - _LISTED == 1 else 'are'} not listed."
        )
    notes.append("Long values are cut; the history has them whole.")
    return notes


# --- data for the script ----------------------------------------------------------------------------------------------


def _packed(drawn: Scene, view: drawing.View) -> str:
    """All ops as compressed columns; what grows is stored as differences."""
    bars = drawn.bars
    nodes = list(dict.fromkeys(bars.node))
    number = {node: position for position, node in enumerate(nodes)}
    columns: dict[str, Any] = {
        "ranks": bars.ranks,
        "low": view.low,
        "high": view.high,
        "begin": _steps(bars.begin),
        "end": np.where(bars.end < 0, -1, bars.end - bars.begin).tolist(),
        "kind": bars.kind.tolist(),
        "process": bars.process.tolist(),
        "node": [number[node] for node in bars.node],
        "nodes": [clip(node, 40) for node in nodes],
        "label": bars.label.tolist(),
        "labels": bars.labels,
        "time_us": _steps(bars.time_ns // 1000) if len(bars.time_ns) and bars.time_ns.min() >= 0 else None,
        "index": _steps(bars.index),
        "failing": drawn.failing,
        "witness": drawn.witness,
        "since": drawn.since,
        "paths": [
            {"begins": p.begins, "already": p.already, "steps": p.steps, "states": p.states, "points": p.points}
            for p in drawn.paths
        ],
        "widths": [PLAIN, BOLD, OTHER],
        "kinds": [visible(kind) for kind in drawn.kinds],
        "faults": [[drawn.kinds.index(f.kind), f.begin, f.end, f.target, f.words, f.verified] for f in drawn.faults],
    }
    return base64.b64encode(zlib.compress(msgspec.json.encode(columns), _EFFORT)).decode()


def _steps(numbers: Ints) -> Sequence[int]:
    return np.diff(numbers, prepend=0).tolist()
