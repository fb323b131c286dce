"""Runs of every shape as a report sees them: few and many nodes and ops, short and long, faults of every kind."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from splitbrain.results.arrow import HISTORY_SCHEMA, TELEMETRY_SCHEMA, to_table
from splitbrain.results.calls import client_calls, ints
from splitbrain.results.faults import run_events
from splitbrain.results.findings import Finding, Moment
from splitbrain.results.history import HARNESS, NEMESIS, Op
from splitbrain.results.report.quorum import Asked, Availability, Figures, QuorumWindow, Recovery, Shares
from splitbrain.results.report.run_view import RunView
from splitbrain.results.rundir import RunDir

KINDS = (
    *("partition", "packet", "kill", "bounce", "power", "pause", "clock", "disk", "membership"),
    "a-kind-of-fault-with-a-long-name",
)


class Shape(NamedTuple):
    """What a run is like.

    Attributes:
        nodes: how many there are.
        seconds: how long it lasts.
        ops: how many client ops there are.
        names: how long the names of nodes and functions are.
        large: whether numbers are as large as they come: terms, indexes, latencies, lags, offsets.
        faults: how many windows there are, of all kinds, one into the other; every third begins where another ends.
    """

    nodes: int = 5
    seconds: float = 30.0
    ops: int = 300
    names: int = 2
    large: bool = False
    faults: int = 20

    @property
    def node_names(self) -> list[str]:
        """All different, of the length asked for."""
        return [f"n{i + 1}".ljust(self.names, "m") for i in range(self.nodes)]


def view_of(shape: Shape) -> RunView:
    """A run of a shape. Nothing is on a disk."""
    ops = [*_phases(shape), *_faults(shape), *_clocks(shape)]
    events = to_table(sorted(ops, key=lambda op: op.time))
    history = pa.concat_tables([events, _clients(shape)]).sort_by("time").combine_chunks()
    first = 10**12 if shape.large else 0
    index = pa.array([first + i for i in range(history.num_rows)], pa.int64())
    history = history.set_column(0, "index", index).cast(HISTORY_SCHEMA)
    return RunView(
        run=RunDir(Path("run=0")),
        document={"nodes": shape.node_names},
        judgement=None,
        running=False,
        cut_short=False,
        history=history,
        telemetry=_telemetry(shape),
        calls=client_calls(history),
        events=run_events(history),
        marks=None,
    )


def findings_of(view: RunView, shape: Shape) -> tuple[list[int], list[Finding]]:
    """Ops to mark, which lie close together, and findings of which many are at one time."""
    invoked = ints(view.history, "index")[view.calls.invoke].tolist()
    middle = invoked[len(invoked) // 2 :][:30]
    findings = [
        Finding(
            rule=("Q1", "Q2", "", "a-long-rule")[i % 4],
            sentence="n1 answered",
            ops=middle[i % 5 : i % 5 + 1],
            moments=[Moment(shape.node_names[i % shape.nodes], shape.seconds * (i // 6) / 8, "told")],
        )
        for i in range(48)
    ]
    return middle, findings


def figures_of(shape: Shape) -> Figures:
    """What quorum progress found, with windows of all lengths and more recoveries than are drawn."""
    names, edges = shape.node_names, [shape.seconds * (i / 24) ** 2 for i in range(25)]
    windows = [
        QuorumWindow(
            start_s=begin,
            end_s=end,
            possibly_served=names[: 1 + i % len(names)],
            nodes={name: Asked(ops=1000, answered=1000 - 100 * (i % 11)) for name in names},
        )
        for i, (begin, end) in enumerate(itertools.pairwise(edges))
    ]
    recovery = [
        Recovery(
            fault=KINDS[i % len(KINDS)],
            action="start",
            target=" ".join(names),
            time_s=shape.seconds * i / 80,
            op=i,
            nodes=dict.fromkeys(names, None if i % 7 == 0 else (100000.0 if shape.large else 0.1) * i),
        )
        for i in range(80)
    ]
    shares = Availability(Shares(1.0, 1.0), {name: Shares(1.0, 1.0) for name in names})
    return Figures(windows=windows, recovery=recovery, availability=shares, bounds={"recovery_s": 5.0})


def _phases(shape: Shape) -> list[Op]:
    at = {"faults": 0.0, "heal": 0.9, "final": 0.902, "quiet": 0.97, "a-phase-with-a-long-name": 0.99, "end": 1.0}
    return [
        Op(process=HARNESS, type="info", f="phase", value={"phase": name}, time=round(part * shape.seconds * 1e9))
        for name, part in at.items()
    ]


def _faults(shape: Shape) -> list[Op]:
    """Windows of all kinds, the lengths of which grow; a third of them abut on the one of their kind before."""
    found: list[Op] = []
    for i in range(shape.faults):
        kind = KINDS[i % len(KINDS)]
        begin = shape.seconds * 0.9 * i / max(shape.faults, 1)
        end = min(begin + shape.seconds * (0.001, 0.02, 0.4)[i % 3], shape.seconds)
        asked = {"fault": kind, "target": " | ".join(shape.node_names)}
        for action, time_s in (("start", begin), *([("stop", end)] if i % 3 else [])):
            value: dict[str, Any] = {
                **asked,
                "action": action,
                "cut": [],
                "down": [],
                "paused": [],
                **_measured(shape, kind),
            }
            for how in ("invoke", "ok" if i % 4 else "info"):
                op = Op(process=NEMESIS, type=how, f=f"{action}-{kind}", value=value, time=round(time_s * 1e9))
                found.append(op)
    return found


def _measured(shape: Shape, kind: str) -> dict[str, Any]:
    if kind != "clock":
        return {}
    ahead = 9e11 if shape.large else 120.0
    return {"evidence": {node: {"after": {"offset_ms": ahead * (-1) ** i}} for i, node in enumerate(shape.node_names)}}


def _clocks(shape: Shape) -> list[Op]:
    value = {"walls_s": dict.fromkeys(shape.node_names, 0.004)}
    return [Op(process=HARNESS, type="info", f="clocks", value=value, time=0)]


def _clients(shape: Shape) -> pa.Table:
    """Ops one after the other on as many processes as there are ops in flight."""
    count, concurrency = shape.ops, 20
    number = np.arange(count)
    begun = (number / max(count, 1) * shape.seconds * 1e9).astype(np.int64)
    gap = shape.seconds * 1e9 * concurrency / max(count, 1)
    took = (gap * (0.05 + 0.9 * (number % 17) / 17)).astype(np.int64)
    names = shape.node_names
    functions = [f"f{i:02}".ljust(shape.names, "W") for i in range(15)]
    columns: dict[str, Any] = dict.fromkeys(HISTORY_SCHEMA.names, pa.nulls(2 * count))
    how = ["fail" if i % 11 == 0 else "info" if i % 13 == 0 else "ok" for i in range(count)]
    columns |= {
        "index": pa.array(np.zeros(2 * count, dtype=np.int64)),
        "time": pa.array([*begun.tolist(), *(begun + took).tolist()]),
        "process": pa.array([i % concurrency + concurrency * i for i in range(count)] * 2, pa.int32()),
        "type": pa.array(["invoke"] * count + how),
        "f": pa.array([functions[i % len(functions)] for i in range(count)] * 2),
        "node": pa.array([names[i % len(names)] for i in range(count)] * 2),
    }
    return pa.table(columns).cast(HISTORY_SCHEMA)


def _telemetry(shape: Shape) -> pa.Table:
    first = 10**15 if shape.large else 0
    rows: list[dict[str, Any]] = []
    for i in range(60):
        leader = shape.node_names[i // 4 % shape.nodes]
        for place, node in enumerate(shape.node_names):
            told = {"group": "g", "life": 1, "event": "role", "term": first + i // 4, "node": node}
            told |= {"role": "leader" if node == leader else "follower", "commit_index": first + 100 * i}
            told |= {"applied_index": max(first // 2 * (place % 2) + 100 * i - 90 * place, 0)}
            rows.append({**dict.fromkeys(TELEMETRY_SCHEMA.names), **told, "time": round(shape.seconds * i / 60 * 1e9)})
    return pa.Table.from_pylist(rows, schema=TELEMETRY_SCHEMA)
