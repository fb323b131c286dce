"""What a picture of a violation shows: ops by rank, one possible order of them and its ends, faults, what is marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from splitbrain.results.calls import OPEN, Ints
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.faults import Window, run_events
from splitbrain.results.report.counterexample.ops import Bars, bars
from splitbrain.results.text import clip

OPS_MAX: Final = 100_000
PATHS_MAX: Final = 20
FAULTS_MAX: Final = 2_000
STATE_MAX: Final = 200
"""The largest number of characters of a state that are shown."""


@dataclass(frozen=True)
class Path:
    """An order in which the last ops can have taken effect until the op that fits nowhere.

    Attributes:
        begins: the state when the order begins, in words.
        already: ops under way then that had taken effect already.
        steps: ops in order.
        states: the state after each step, in words.
        points: where on the axis of ranks each step stands: within its op, in order.
    """

    begins: str
    already: list[int]
    steps: list[int]
    states: list[str]
    points: list[float]

    @property
    def ends(self) -> str:
        """The state at the end."""
        return self.states[-1] if self.states else self.begins


@dataclass(frozen=True)
class Fault:
    """A fault window on the axis of ranks."""

    kind: str
    words: str
    target: str
    begin: float
    end: float
    verified: bool


@dataclass(frozen=True)
class Scene:
    """Everything that is drawn.

    Attributes:
        bars: the ops.
        failing: the op that cannot be placed.
        witness: ops that contradict each other.
        since: rank at which the paths begin.
        paths: possible orders from there, the first is the one that is drawn.
        faults: by their beginnings.
        faults_left_out: how many there are beyond those.
    """

    bars: Bars
    failing: int
    witness: list[int]
    since: int
    paths: list[Path]
    faults: list[Fault]
    faults_left_out: int

    @property
    def kinds(self) -> list[str]:
        """The kinds of faults, by their first appearance."""
        return list(dict.fromkeys(fault.kind for fault in self.faults))


def scene(history: pa.Table, evidence: Mapping[str, Any], most: int = OPS_MAX) -> Scene:
    """The picture of a linearizability violation.

    Args:
        history: the whole history, sorted by index, nemesis ops included.
        evidence: that of the verdict (`docs/verdicts.md`).
        most: ops that are kept, around the failing one.

    Raises:
        HistoryFormatError: the evidence is not of this history.
    """
    around = int(evidence["failing_op"]["invoked_index"])
    ops = bars(history, evidence["key"], around, most)
    failing = ops.at([around])
    if not failing:
        raise HistoryFormatError("history", f"has no invocation at op {around}, which the verdict's evidence names.")
    listed = cast("dict[str, Any]", evidence.get("witness") or {}).get("ops", [])
    witness = ops.at([int(op["invoked_index"]) for op in listed])
    stored = cast("dict[str, Any]", evidence.get("final_paths") or {})
    since = int(np.searchsorted(ops.index, int(stored.get("since_index", 0))))
    windows = run_events(history).windows
    near = [window for window in windows if _ranks(ops, window)[1] >= 0]
    return Scene(
        bars=ops,
        failing=failing[around],
        witness=list(witness.values()),
        since=since,
        paths=[_path(ops, since, path) for path in stored.get("paths", [])[:PATHS_MAX]],
        faults=[_fault(ops, window) for window in near[:FAULTS_MAX]],
        faults_left_out=max(len(near) - FAULTS_MAX, 0),
    )


def _path(ops: Bars, since: int, stored: Mapping[str, Any]) -> Path:
    indexes = [int(step["invoked_index"]) for step in stored["steps"]]
    already = [int(op["invoked_index"]) for op in stored.get("already", [])]
    numbers = ops.at([*indexes, *already])
    drawn = [(numbers[index], step) for index, step in zip(indexes, stored["steps"], strict=True) if index in numbers]
    steps = [op for op, _ in drawn]
    return Path(
        begins=clip(stored["begins"], STATE_MAX),
        already=[numbers[index] for index in already if index in numbers],
        steps=steps,
        states=[clip(step["state"], STATE_MAX) for _, step in drawn],
        points=points([int(ops.begin[op]) for op in steps], since),
    )


def points(begins: Sequence[int], since: int) -> list[float]:
    """Where steps take effect: as early as order and invocations allow, those between two events evenly apart."""
    floors: list[int] = []
    for begin in begins:
        floors.append(max(begin, floors[-1] if floors else since))
    found: list[float] = []
    for position, floor in enumerate(floors):
        first = floors.index(floor)
        found.append(floor + (position - first + 1) / (floors.count(floor) + 1))
    return found


def _ranks(ops: Bars, window: Window) -> tuple[float, float]:
    """A window of time on the axis of ranks; negative if it ended before the first event that is kept."""
    return _rank(ops.time_ns, window.begin_ns), _rank(ops.time_ns, window.end_ns)


def _rank(time_ns: Ints, at: int) -> float:
    return int(np.searchsorted(time_ns, at)) - 0.5


def _fault(ops: Bars, window: Window) -> Fault:
    begin, end = _ranks(ops, window)
    words = f"{window.fault}: {window.target} ({window.begin_ns / 1e9:.3f} s to {window.end_ns / 1e9:.3f} s)"
    if not window.start.verified:
        words += f", not verified: {window.start.error}"
    return Fault(window.fault, clip(words, 300), clip(window.target, 80), begin, end, window.start.verified)


# --- in words ---------------------------------------------------------------------------------------------------------


def op_words(scene: Scene, op: int) -> str:
    """An op for a person: what, who, where, when."""
    bars = scene.bars
    begin, end = int(bars.begin[op]), int(bars.end[op])
    node = f" on {clip(bars.node[op], 40)}" if bars.node[op] else ""
    span = f"op {bars.index[begin]}" + (f"-{bars.index[end]}" if end != OPEN else "")
    fate = ("", ", failed: it did not happen", ", outcome unknown: it may have happened at any time since, or never")
    about = f"{span}, process {bars.process[op]}{node}{times(bars, op)}{fate[bars.kind[op]]}"
    return f"{bars.text(op)} ({about})"


def times(bars: Bars, op: int) -> str:
    """When an op began and ended, with a comma before; "" where the history has no times."""
    begin, end = int(bars.time_ns[bars.begin[op]]), int(bars.end[op])
    if begin < 0:
        return ""
    ended = f"{bars.time_ns[end] // 1000 / 1e6:.4f} s" if end != OPEN else "never completed"
    return f", {begin // 1000 / 1e6:.4f} s to {ended}"
