"""Building the telemetry of a run by hand and at random, as tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from splitbrain.results.arrow import TELEMETRY_SCHEMA


def row(time_s: float, node: str, event: str = "commit", *, life: int = 1, **fields: Any) -> dict[str, Any]:
    """A row; `fields` are columns. The group is "g" unless said otherwise."""
    return {"time": round(time_s * 1e9), "node": node, "life": life, "event": event, "group": "g", **fields}


def told(*rows: dict[str, Any]) -> pa.Table:
    """The rows as a table; what they leave out is null."""
    full = [{name: each.get(name) for name in TELEMETRY_SCHEMA.names} for each in rows]
    return pa.Table.from_pylist(full, schema=TELEMETRY_SCHEMA)


@st.composite
def telemetries(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Few nodes, terms, indexes and hashes, so that they meet; a node's lives follow each other."""
    lives: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    small = st.sampled_from([0, 1, 2, 2, 3, None])
    for number in range(draw(st.integers(2, 10))):
        node = draw(st.sampled_from(["n1", "n1", "n2"]))
        event = draw(st.sampled_from(["start", "role", "role", "commit", "commit", "rebuild"]))
        lives[node] = lives.get(node, 0) + (event == "start")
        rows.append(
            row(
                number,
                node,
                event,
                life=lives[node],
                group="g" if draw(st.integers(0, 7)) else None,
                term=draw(small),
                role=draw(st.sampled_from(["leader", "leader", "follower", None])),
                commit_index=draw(small),
                applied_index=draw(small),
                chain_hash=draw(st.sampled_from(["a", "a", "a", "b", None])),
                state_hash=draw(st.sampled_from(["x", "x", "x", "y", None])),
            )
        )
    return rows
