"""How far replicas were behind, by their telemetry, and how wrong clocks were, by measurements of clock faults."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from splitbrain.results.calls import Ints
from splitbrain.results.notes import CLOCKS, Clocks
from splitbrain.results.report.curves import Series, chart
from splitbrain.results.report.frames import frame_of
from splitbrain.results.report.run_view import RunView
from splitbrain.results.report.stretches import Line

LAG_WORDS: Final = (
    "Replica lag: log entries that any node had reported as committed and a node had not applied, by the last "
    "report of each node. A node that is down reports nothing, and falls behind."
)
OFFSET_WORDS: Final = (
    "Clock offsets: as measured, of the hosts at the start, and of each node before and after each fault of its clock."
)
_GRID: Final = 300
"""Moments at which a lag is looked up."""

_FARTHEST_MS: Final = 1e12
"""Clocks that are farther apart are none: an imported history may hold any number."""


def replica_plots(view: RunView) -> dict[str, Markup]:
    """The pictures by name: those with data."""
    found: dict[str, Markup] = {}
    lags = lags_of(view)
    if lags:
        label = "Replica lag: log entries that each node had yet to apply of those known to be committed"
        found["lag"] = chart(
            frame_of(view.events), [Series(node, [line]) for node, line in lags.items()], label, id="lag"
        )
    offsets = offsets_of(view)
    if any(value for line in offsets.values() for _, value in line):
        label = "Offsets of the nodes' clocks in milliseconds, as measured before and after each fault of clocks"
        series = [Series(node, [line]) for node, line in offsets.items()]
        found["clocks"] = chart(frame_of(view.events), series, label, id="clocks", unit="ms")
    return found


def lags_of(view: RunView) -> dict[str, Line]:
    """By node and time in seconds: the highest commit index that any node had reported, less the node's applied index.

    With several groups it is the largest lag in any of them. A node that is down stays where it was.
    """
    table = view.telemetry
    end_ns = max(view.events.end_ns, 1)
    grid = np.linspace(0, end_ns, _GRID).astype(np.int64)
    rows = sorted(
        (row for row in table.select(["time", "node", "group", "commit_index", "applied_index"]).to_pylist()),
        key=lambda row: row["time"],
    )
    behind: dict[str, Ints] = {}
    for group in dict.fromkeys(row["group"] for row in rows):
        of_group = [row for row in rows if row["group"] == group]
        committed = [row for row in of_group if row["commit_index"] is not None]
        if not committed:
            continue
        times = np.asarray([row["time"] for row in committed], dtype=np.int64)
        highest = np.maximum.accumulate(np.asarray([row["commit_index"] for row in committed], dtype=np.int64))
        most = _at(grid, times, highest)
        for node in view.nodes:
            applied = [row for row in of_group if row["node"] == node and row["applied_index"] is not None]
            if not applied:
                continue
            at = np.asarray([row["time"] for row in applied], dtype=np.int64)
            lag = np.maximum(most - _at(grid, at, np.asarray([row["applied_index"] for row in applied])), 0)
            behind[node] = np.maximum(behind[node], lag) if node in behind else lag
    times_s = (grid / 1e9).tolist()
    return {node: list(zip(times_s, map(float, behind[node]), strict=True)) for node in view.nodes if node in behind}


def _at(grid: Ints, times: Ints, values: Ints) -> Ints:
    """The last reported value at each moment; 0 before the first."""
    place = np.searchsorted(times, grid, side="right") - 1
    return np.where(place >= 0, values[np.maximum(place, 0)], 0)


def offsets_of(view: RunView) -> dict[str, Line]:
    """By node: times in seconds with the offsets in milliseconds that were measured at them."""
    found: dict[str, Line] = {}
    for op, clocks in view.events.notes(CLOCKS, Clocks):
        for node, ahead_s in clocks.walls_s.items():
            _note(found, node, op.time, ahead_s, 1000.0)
    for op in view.events.fault_ops:
        if op.said.fault != "clock" or op.completion is None:
            continue
        for node, (before, after) in op.said.evidence.clocks().items():
            _note(found, node, op.invoke.time, before.offset_ms)
            _note(found, node, op.completion.time, after.offset_ms)
    end_s = view.events.end_ns / 1e9
    lines = {node: sorted(found[node], key=lambda point: point[0]) for node in view.nodes if node in found}
    return {node: [*line, (max(end_s, line[-1][0]), line[-1][1])] for node, line in lines.items()}


def _note(found: dict[str, Line], node: str, time_ns: int, value: Any, factor: float = 1.0) -> None:
    if isinstance(value, (int, float)) and math.isfinite(value) and abs(value * factor) < _FARTHEST_MS:
        found.setdefault(node, []).append((time_ns / 1e9, float(value) * factor))
