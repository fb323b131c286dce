"""What a cluster in memory leaves behind, as a run leaves it: telemetry, and a history with its partitions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from splitbrain.results.history import HARNESS, NEMESIS
from tests.checkers.support import Script
from tests.checkers.telemetry import row, told
from tests.cluster.tables.simulation import Cluster


def telemetry(cluster: Cluster, strategy: str, listed: tuple[str, ...] = ()) -> pa.Table:
    """What its nodes reported, and the start of each process, which the shell of a node writes."""
    rows: list[dict[str, Any]] = []
    begun: dict[tuple[str, int], None] = {}
    for time_ms, node, life, seen in cluster.observed:
        if (node, life) not in begun:
            begun[node, life] = None
            counted = f"net_tick_ms={cluster.tick_ms} nodes={len(cluster.names)}"
            rows.append(start(time_ms / 1000, node, strategy, counted, listed, life=life))
        rows.append(
            row(
                time_ms / 1000,
                node,
                seen.event,
                life=life,
                role=seen.role,
                members=" ".join(seen.members),
                counted=" ".join(f"{other}={number}" for other, number in seen.counted.items()),
                applied_count=seen.count,
                leader=seen.leader,
                raised_by=seen.raised_by,
                group=None,
            )
        )
    return told(*rows)


def start(
    time_s: float, node: str, strategy: str, counted: str, listed: tuple[str, ...] = (), life: int = 1
) -> dict[str, Any]:
    """The row of a process that begins."""
    about = {"role": "stopped", "members": " ".join(listed), "counted": counted, "raised_by": strategy, "group": None}
    return row(time_s, node, "start", life=life, **about)


def history(cluster: Cluster) -> pa.Table:
    """Its partitions as ops of the nemesis."""
    script = Script()
    for time_ms, links in cluster.cuts:
        partition(script, time_ms / 1000, links)
    script.event(HARNESS, "info", "over", {}, time_s=cluster.now_ms / 1000)
    return script.table()


def partition(script: Script, time_s: float, links: list[tuple[str, str]]) -> None:
    """An op of the nemesis that cuts these links and no others; none heals all."""
    value: dict[str, Any] = {"fault": "partition", "action": "start" if links else "stop", "target": "n1"}
    done = {**value, "cut": [list(link) for link in links], "down": [], "paused": []}
    script.event(NEMESIS, "invoke", "partition", value, time_s=time_s)
    script.event(NEMESIS, "ok", "partition", done, time_s=time_s)
