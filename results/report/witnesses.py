"""Witnesses of isolation anomalies as graphs: transactions in boxes on a ring, and why one comes before the next.

A picture is read without a script: a box has what its transaction did, where, when and under which faults; an edge has
its kind and key, and its reason as a title. A box leads to its op. What an edge rests on is dashed.

A witness is one cycle of a few boxes, so that its layout is a ring: no two edges of it cross. The circular layout of
networkx puts points on such a ring, too, but it knows nothing of boxes and their heights, and its other layouts cross
edges; so no library of graphs is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from markupsafe import Markup

from splitbrain.results.faults import Window
from splitbrain.results.report.letters import cut, cut_code
from splitbrain.results.report.svg import FONT, LANE_FONT, WIDTH, fault_style, number, picture, tag
from splitbrain.results.witness import Edge, Transaction, Witness, located, witnesses_of

DRAWN_MAX: Final = 6
"""The largest number of witnesses of a verdict that are drawn."""

BOXES_MAX: Final = 10
"""The largest number of transactions in a picture; a larger witness is told in its sentence only."""

_OPS_MAX: Final = 8
_BOX: Final = 250.0
_LINE: Final = 16.0
_PAD: Final = 8.0
_BOW: Final = 46.0
"""How far an edge is bent to its left, so that two edges between the same boxes are apart."""


class _Box(NamedTuple):
    """A transaction and where it is: its centre and its height."""

    transaction: Transaction
    faults: list[str]
    x: float
    y: float
    height: float


def witness_pictures(evidence: Any, history: pa.Table, windows: Sequence[Window], prefix: str) -> list[Markup]:
    """The pictures of the witnesses in a verdict's evidence.

    Args:
        evidence: of a verdict.
        history: of the run.
        windows: of faults.
        prefix: what the ids of the pictures begin with; no two on a page are the same.
    """
    found = [each for each in witnesses_of(evidence) if each.edges and len(each.transactions) <= BOXES_MAX]
    drawn = [located(each, history) for each in found[:DRAWN_MAX]]
    return [draw(each, windows, f"{prefix}-{place}") for place, each in enumerate(drawn, 1)]


def draw(witness: Witness, windows: Sequence[Window], id: str) -> Markup:
    """One witness as a picture."""
    boxes, height = _boxes(witness.transactions, windows)
    parts = [_edge(boxes, edge, dashed=False) for edge in witness.edges]
    drawn = {(edge.source, edge.target, edge.kind, edge.key) for edge in witness.edges}
    parts += [
        _edge(boxes, edge, dashed=True)
        for edge in witness.premises
        if (edge.source, edge.target, edge.kind, edge.key) not in drawn and edge.source != edge.target
    ]
    lines = [part for line, _ in parts for part in line]
    labels = [part for _, label in parts for part in label]
    shown = [_shown(box) for box in boxes.values()]
    whole = [*lines, *shown, *labels]
    return picture(height, f"{witness.anomaly}: {witness.sentence}", whole, id=id, role="group")


# --- boxes ------------------------------------------------------------------------------------------------------------


def _boxes(transactions: Sequence[Transaction], windows: Sequence[Window]) -> tuple[dict[str, _Box], float]:
    """The boxes by name, and the height of the picture."""
    faults = [_faults(each, windows) for each in transactions]
    heights = [_height(each, len(found)) for each, found in zip(transactions, faults, strict=True)]
    count, tallest = len(transactions), max(heights)
    radius_x = (WIDTH - _BOX) / 2 - 10
    radius_y = 0.0 if count < 3 else max(tallest * 0.75, 34.0 * count)
    middle = radius_y + tallest / 2 + _BOW
    boxes: dict[str, _Box] = {}
    for place, transaction in enumerate(transactions):
        angle = math.pi * (1 + 2 * place / count)
        x, y = WIDTH / 2 + radius_x * math.cos(angle), middle + radius_y * math.sin(angle)
        boxes[transaction.name] = _Box(transaction, faults[place], x, y, heights[place])
    return boxes, 2 * middle


def _faults(transaction: Transaction, windows: Sequence[Window]) -> list[str]:
    """Kinds of faults that were in force while a transaction ran."""
    begin, end = transaction.invoked_ns, transaction.completed_ns
    if begin is None:
        return []
    last = math.inf if end is None else end
    return list(dict.fromkeys(each.fault for each in windows if each.begin_ns <= last and each.end_ns >= begin))


def _height(transaction: Transaction, faults: int) -> float:
    ops = min(len(transaction.ops), _OPS_MAX) + (len(transaction.ops) > _OPS_MAX)
    return _PAD * 2 + _LINE * (1 + (transaction.invoked_ns is not None) + ops + (faults > 0))


def _shown(box: _Box) -> Markup:
    transaction = box.transaction
    left, top = box.x - _BOX / 2, box.y - box.height / 2
    who = f"process {transaction.process}" + (f" on {transaction.node}" if transaction.node else "")
    lines = [(f"{transaction.name}: {who}, {transaction.ended}", "lane", LANE_FONT)]
    if transaction.invoked_ns is not None:
        lines.append((_times(transaction), "", FONT))
    lines += [(op, "op", FONT) for op in transaction.ops[:_OPS_MAX]]
    if len(transaction.ops) > _OPS_MAX:
        lines.append((f"and {len(transaction.ops) - _OPS_MAX} more", "", FONT))
    parts = [tag("rect", class_="txn", x=left, y=top, width=_BOX, height=box.height, rx=5)]
    for place, (words, style, size) in enumerate(lines):
        y = top + _PAD + _LINE * (place + 0.75)
        shown = (cut_code if style == "op" else cut)(words, _BOX - 2 * _PAD, size)
        parts.append(tag("text", shown, class_=style or "when", x=left + _PAD, y=y))
    x = left + _PAD
    for fault in box.faults:
        y = top + box.height - _PAD - _LINE
        words = cut(fault, 70, FONT)
        parts.append(tag("rect", class_=fault_style(fault), x=x, y=y + 2, width=74, height=_LINE - 1, rx=3))
        parts.append(tag("text", words, class_="on", x=x + 4, y=y + 13))
        x += 80
        if x + 74 > left + _BOX:
            break
    return tag("a", tag("title", f"op {transaction.index}"), *parts, href=f"#op-{transaction.index}")


def _times(transaction: Transaction) -> str:
    begin = (transaction.invoked_ns or 0) / 1e9
    if transaction.completed_ns is None:
        return f"op {transaction.index}, from {begin:.3f} s"
    return f"op {transaction.index}, {begin:.3f} s to {transaction.completed_ns / 1e9:.3f} s"


# --- edges ------------------------------------------------------------------------------------------------------------


def _edge(boxes: dict[str, _Box], edge: Edge, *, dashed: bool) -> tuple[list[Markup], list[Markup]]:
    """The line of an edge with its arrow, and its label."""
    one, other = boxes[edge.source], boxes[edge.target]
    dx, dy = other.x - one.x, other.y - one.y
    length = math.hypot(dx, dy) or 1.0
    bow = _BOW * (1.7 if dashed else 1.0)
    bend = ((one.x + other.x) / 2 + dy / length * bow, (one.y + other.y) / 2 - dx / length * bow)
    begin, end = _rim(one, bend), _rim(other, bend)
    style = f"edge edge-{edge.kind}" + (" premise" if dashed else "")
    data = f"M{_point(begin)}Q{_point(bend)} {_point(end)}"
    middle = tuple((begin[axis] + 2 * bend[axis] + end[axis]) / 4 for axis in (0, 1))
    words = edge.kind if edge.key is None else f"{edge.kind} {edge.key}"
    reason = tag("title", edge.reason)
    line = tag("path", reason, class_=style, d=data)
    label = tag("text", cut(words, 140, LANE_FONT), class_="edge-name", x=middle[0], y=middle[1], text_anchor="middle")
    return [line, tag("path", class_=f"arrow arrow-{edge.kind}", d=_arrow(bend, end))], [label]


def _rim(box: _Box, towards: tuple[float, float]) -> tuple[float, float]:
    """Where the line from the centre of a box to a point leaves the box."""
    dx, dy = towards[0] - box.x, towards[1] - box.y
    scale = min(_BOX / 2 / abs(dx) if dx else math.inf, box.height / 2 / abs(dy) if dy else math.inf, 1.0)
    return box.x + dx * scale, box.y + dy * scale


def _arrow(before: tuple[float, float], tip: tuple[float, float]) -> str:
    dx, dy = tip[0] - before[0], tip[1] - before[1]
    length = math.hypot(dx, dy) or 1.0
    ux, uy = dx / length, dy / length
    left = (tip[0] - 9 * ux + 4 * uy, tip[1] - 9 * uy - 4 * ux)
    right = (tip[0] - 9 * ux - 4 * uy, tip[1] - 9 * uy + 4 * ux)
    return f"M{_point(tip)}L{_point(left)}L{_point(right)}z"


def _point(point: tuple[float, float]) -> str:
    return f"{number(point[0])} {number(point[1])}"
