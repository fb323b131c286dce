"""What `benchmarks/containers.py` found, as a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

F = Literal["write", "read"]
Fault = Literal["kill -9", "isolation"]

SYSTEMS: Final = ("metadata", "etcd")
LOADS: Final[tuple[tuple[F, int], ...]] = (("write", 1), ("read", 1), ("write", 10), ("read", 10))
FAULTS: Final[tuple[Fault, ...]] = ("kill -9", "isolation")

UP_GOAL_S: Final = 10.0
GOAL_NODES: Final = 5
IMAGES_GOAL_S: Final = 180.0


@dataclass(frozen=True)
class Load:
    """What one load came to. `busy` is the share of one CPU that the clients' process had."""

    ops_per_s: float
    p50_ms: float
    p99_ms: float
    busy: float
    failed: int
    syncs_per_op: float | None


@dataclass
class Round:
    """What one deployment came to; failovers in seconds, each with how much of it went by until the fault was there."""

    up_s: float
    loads: dict[tuple[F, int], Load] = field(default_factory=dict[tuple[F, int], Load])
    failovers: dict[Fault, list[tuple[float, float]]] = field(default_factory=dict[Fault, list[tuple[float, float]]])


def table(rounds: dict[tuple[int, str], list[Round]]) -> list[str]:
    """Everything that was measured, as markdown."""
    columns = list(rounds.values())
    head = [f"{name}, {size} nodes" for size, name in rounds]
    lines = [_row("", head), _row("---", ["---"] * len(head))]
    lines.append(_row("up, s: median (worst)", [_median_worst([each.up_s for each in column]) for column in columns]))
    for f, clients in LOADS:
        loads = [[each.loads[f, clients] for each in column] for column in columns]
        who = "1 client" if clients == 1 else f"{clients} clients"
        lines.append(_row(f"{f}s, {who}: ops/s (range)", [_range([x.ops_per_s for x in column]) for column in loads]))
        latency = [
            f"{_median([x.p50_ms for x in column]):.1f} / {_median([x.p99_ms for x in column]):.1f}" for column in loads
        ]
        lines.append(_row("p50 / p99, ms", latency))
        lines.append(_row("clients' CPU", [f"{_median([x.busy for x in column]):.0%}" for column in loads]))
        if (failed := [sum(x.failed for x in column) for column in loads]) != [0] * len(loads):
            lines.append(_row("not ok", [str(each) for each in failed]))
        if all(x.syncs_per_op is not None for column in loads for x in column):
            syncs = [_median([x.syncs_per_op or 0.0 for x in column]) for column in loads]
            lines.append(_row("leader's syncs per op", [f"{each:.2f}" for each in syncs]))
    for fault in FAULTS:
        found = [[each for one in column for each in one.failovers[fault]] for column in columns]
        count = len(found[0])
        row = [_median_worst([whole for whole, _ in column]) for column in found]
        lines.append(_row(f"failover after {fault}, s: median (worst) of {count}", row))
    return lines


def remarks(rounds: dict[tuple[int, str], list[Round]]) -> list[str]:
    """What the table does not say."""
    of = {
        fault: _median([part for column in rounds.values() for one in column for _, part in one.failovers[fault]])
        for fault in FAULTS
    }
    lines = [f"Of a failover, {of['kill -9']:.2f} s is the engine's kill, {of['isolation']:.2f} s the cut (medians)."]
    for (size, name), column in rounds.items():
        if size == GOAL_NODES:
            worst = max(one.up_s for one in column)
            row = f"goal {UP_GOAL_S:g} s: {against(worst, UP_GOAL_S)}"
            lines.append(f"Start to first op, {name}, {size} nodes: at worst {worst:.1f} s ({row}).")
    return lines


def _row(first: str, cells: list[str]) -> str:
    return "| " + " | ".join([first, *cells]) + " |"


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _median_worst(values: Sequence[float]) -> str:
    return f"{_median(values):.2f} ({max(values):.2f})"


def _range(values: Sequence[float]) -> str:
    return f"{_median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def against(found: float, most: float) -> str:
    """Whether a goal was met."""
    return "met" if found < most else "MISSED"
