"""Figures of a run for trends and comparisons: how much it did and how fast, how available it was, how it recovered.

`figures.json` lies beside `verdict.json` and is written with it. It is a function of what the run recorded and of its
verdicts; for a run that was judged before there was such a file it is computed when it is needed.

An op is *answered* as in the quorum-progress analysis: it is ok, or it failed because the state said so. Where that
checker judged the run, availability and recovery are its figures (Q9, Q4): it knows which functions need a quorum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.results.answering import spoke_of_a_state
from splitbrain.results.arrivals import arrivals
from splitbrain.results.atomic import replace_file
from splitbrain.results.availability import availability
from splitbrain.results.calls import OPEN, Bools, Calls, client_calls, is_equal, seconds
from splitbrain.results.counts import total_counts
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.faults import FaultOp, RunEvents, run_events
from splitbrain.results.judgement import Judgement
from splitbrain.results.loaded import LoadedRun, load
from splitbrain.results.notes import Usable
from splitbrain.results.plainfile import DOCUMENT_BYTES, refuse_others
from splitbrain.results.rundir import RunDir
from splitbrain.results.values import NOT_JSON

FIGURES: Final = "figures.json"
"""The name of the file."""

FORMAT: Final[Literal[2]] = 2
"""The version of the file. One of another version is computed again: everything that it holds can be. In the first one
availability counted the seconds in which ops began, whether or not one was completed in them."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """How soon the system answered after one operation of the nemesis.

    Attributes:
        fault: its kind, e.g. "partition".
        action: "start" or "stop" (the fault is healed).
        target: who was hit, in words.
        time_s: when, in seconds since the test began.
        first_s: seconds until some node answered an op that was invoked after it; None if none did before the next
            operation of the nemesis.
        majority_s: seconds until a majority of the test's nodes had answered one each.
        all_s: seconds until every node had.
    """

    fault: str
    action: str
    target: str
    time_s: float
    first_s: float | None
    majority_s: float | None
    all_s: float | None


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""A number of things: a file that says another is damaged. The tables of a store hold no larger one."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run.

    Attributes:
        duration_s: from the beginning of the test to its last event.
        ops: client ops; `ok`, `fail` and `info` count how they ended.
        ok_per_s: ok ops a second, over the run but its quiet phase.
        latency_ms: p50, p95, p99 and max of ok ops, from invocation to completion; empty if there are none.
        due_latency_ms: the same from when ops were due by the schedule of the test; empty where they had none.
        offered_per_s: ops a second that were due by it; None where there was none.
        achieved_per_s: ops a second that were begun, of these.
        available_time: the share of the seconds with an op due or in progress in which one was answered, 0 to 1; None
            without ops (`splitbrain.results.availability`).
        available_ops: the share of ops that were answered, 0 to 1.
        recoveries: one for each nemesis op that hit a node, in order.
        healed_s: how long the harness waited after it had healed everything until every node was usable; None if it
            was not seen.
        leader_changes: leaders elected after the first one of each group; None where nodes report no roles.
        marks: how often each coverage mark was reached, zeros included; None where they were not counted.
        format: the version of this shape.
    """

    duration_s: float
    ops: Count
    ok: Count
    fail: Count
    info: Count
    ok_per_s: float
    latency_ms: dict[str, float]
    available_time: float | None
    available_ops: float | None
    recoveries: tuple[Recovery, ...]
    healed_s: float | None
    leader_changes: Count | None
    marks: dict[str, Count] | None
    due_latency_ms: dict[str, float] = {}
    offered_per_s: float | None = None
    achieved_per_s: float | None = None
    format: Literal[2] = FORMAT


def figures(
    history: pa.Table,
    telemetry: pa.Table,
    verdicts: Sequence[Mapping[str, Any]],
    nodes: Sequence[str],
    marks: Mapping[str, int] | None,
) -> Figures:
    """The figures of a run.

    Args:
        history: the whole history, sorted by index.
        telemetry: of the nodes; may be empty.
        verdicts: as in verdict.json; none if the run was not judged.
        nodes: all nodes of the test.
        marks: counts of the coverage marks.

    Raises:
        HistoryFormatError: the ops of a process do not alternate.
    """
    calls, events = client_calls(history), run_events(history)
    counts = total_counts(calls, events)
    judged = _part(_of(verdicts, "quorum-progress"), "figures")
    told_load = _part(_part(_of(verdicts, "stats"), "figures"), "load") or counts["load"] or {}
    answered = _Answered(calls, nodes)
    shares = _part(_part(judged, "availability"), "cluster")
    if (
        "silent" not in shares
    ):  # not judged, or by a version that counted other seconds (`splitbrain.results.availability`)
        shares = answered.shares(events.end_ns)
    return Figures(
        duration_s=counts["duration_s"],
        ops=counts["ops"],
        ok=counts["ok"],
        fail=counts["fail"],
        info=counts["info"],
        ok_per_s=counts["ok_per_s"],
        latency_ms=counts["latency_ms"].get("ok", {}),
        available_time=shares["time"],
        available_ops=shares["ops"],
        recoveries=_recoveries(judged.get("recovery"), answered, events, len(nodes)),
        healed_s=_healed_s(events),
        leader_changes=leader_changes(telemetry),
        marks=None if marks is None else dict(marks),
        due_latency_ms=counts["due_latency_ms"].get("ok", {}),
        offered_per_s=told_load.get("offered_per_s"),
        achieved_per_s=told_load.get("achieved_per_s"),
    )


def _of(verdicts: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The verdict of a checker; empty if it did not judge the run."""
    return next((one for one in verdicts if one.get("checker") == name), dict[str, Any]())


def figures_of(run: RunDir) -> Figures:
    """The figures of a stored run: from its file, else computed from as much as there is. Changes nothing.

    Raises:
        RunNotFoundError: nothing was recorded, or this is not the folder of a run.
        HistoryFormatError: a file of it is damaged.
        StoreVersionError: a newer splitbrain wrote it.
    """
    return stored_figures(run.path) or computed_figures(load(run), run.read_verdicts())


def stored_figures(run_dir: Path) -> Figures | None:
    """What figures.json says; None where there is none that this version can use."""
    try:
        refuse_others(run_dir / FIGURES, DOCUMENT_BYTES)
        return msgspec.json.decode((run_dir / FIGURES).read_bytes(), type=Figures)
    except (OSError, *NOT_JSON, HistoryFormatError):
        return None


def write_figures(run: LoadedRun, judgement: Judgement | None) -> Figures:
    """Write figures.json of a run, and return them."""
    found = computed_figures(run, judgement)
    keep_figures(run.folder, found)
    return found


def keep_figures(run: RunDir, found: Figures) -> None:
    """Write figures.json of a run whose figures are known."""
    text = msgspec.json.format(msgspec.json.encode(found), indent=2)
    replace_file(run.path / FIGURES, lambda aside: aside.write_bytes(text + b"\n"))


def computed_figures(run: LoadedRun, judgement: Judgement | None) -> Figures:
    """The figures of a loaded run, by its verdicts; whatever its figures.json says.

    Raises:
        HistoryFormatError: the ops of a process do not alternate.
    """
    verdicts = judgement.verdicts if judgement is not None else ()
    nodes = [str(node) for node in run.document.get("nodes", ())]
    return figures(run.history, run.telemetry, verdicts, nodes, run.marks)


# --- answers ------------------------------------------------------------------------------------------------------


def are_answered(calls: Calls) -> Bools:
    """Which client ops were answered: ok, or failed because the state said so."""
    said = spoke_of_a_state(calls.table)
    spoken = said[calls.complete] if len(said) else np.zeros(0, dtype=np.bool_)
    return (calls.ended("ok") | (calls.ended("fail") & spoken)) & (calls.complete != OPEN)


class _Answered:
    """Which client ops were answered, when, and by whom; one element per op in each array."""

    def __init__(self, calls: Calls, nodes: Sequence[str]) -> None:
        found = arrivals(calls)
        self.nodes = list(nodes)
        self.due, self.begun, self.ended = found.due, found.begun, found.ended
        self.given = are_answered(calls)
        self.at = {node: is_equal(calls.table, "node", node)[calls.invoke] for node in self.nodes}

    def shares(self, end_ns: int) -> dict[str, float | None]:
        """The shares of seconds and of ops."""
        found = availability(self.due, self.ended, self.given, end_ns)
        return {"time": found.time, "ops": found.ops}

    def first_s(self, op: FaultOp, node: str, until_ns: int) -> float | None:
        """Seconds from the invocation of a nemesis op to the node's first answer to an op invoked after it was done."""
        done_ns = (op.completion or op.invoke).time
        found = self.given & self.at[node] & (self.begun >= done_ns) & (self.ended <= until_ns)
        return seconds(int(self.ended[found].min()) - op.invoke.time) if found.any() else None


def _recoveries(judged: Any, answered: _Answered, events: RunEvents, nodes: int) -> tuple[Recovery, ...]:
    rows = cast("list[dict[str, Any]]", judged) if isinstance(judged, list) else _recovery_rows(answered, events)
    return tuple(_recovery(row, nodes) for row in rows)


def _recovery_rows(answered: _Answered, events: RunEvents) -> list[dict[str, Any]]:
    ops = [op for op in events.fault_ops if op.completion is not None and op.hit]
    ends = [*(op.invoke.time for op in ops[1:]), events.end_ns]
    return [
        {
            "fault": op.fault,
            "action": op.said.action or "start",
            "target": op.said.target,
            "time_s": seconds(op.invoke.time),
            "nodes": {node: answered.first_s(op, node, until_ns) for node in answered.nodes},
        }
        for op, until_ns in zip(ops, ends, strict=False)
    ]


def _recovery(row: Mapping[str, Any], nodes: int) -> Recovery:
    """One row, from the seconds that each node took."""
    took = sorted(float(found) for found in _part(row, "nodes").values() if found is not None)

    def until(count: int) -> float | None:
        return took[count - 1] if 0 < count <= len(took) else None

    return Recovery(
        fault=str(row.get("fault", "")),
        action=str(row.get("action", "")),
        target=str(row.get("target", "")),
        time_s=float(row.get("time_s", 0.0)),
        first_s=until(1),
        majority_s=until(nodes // 2 + 1),
        all_s=until(nodes),
    )


def _healed_s(events: RunEvents) -> float | None:
    notes = events.notes("recovered", Usable)
    return notes[0][1].seconds if notes else None


def leader_changes(telemetry: pa.Table) -> int | None:
    """Distinct (group, term) that had a leader, less the first of each group."""
    rows = telemetry.filter(telemetry["role"].is_valid()).select(["group", "term", "role"])
    if not rows.num_rows:
        return None
    led = {(row["group"], row["term"]) for row in rows.to_pylist() if row["role"] == "leader"}
    return len(led) - len({group for group, _ in led})


def _part(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
