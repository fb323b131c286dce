"""The nodes' telemetry: from the raw lines that each node appended to one table per run.

A raw line is a JSON object: `wall` (nanoseconds since the Unix epoch), `event`, and as far as they apply `group`,
`term`, `role`, `leader`, `commit`, `applied`, `voters`, `chain`, `state`. A node that is killed leaves a torn line; its
next life appends right behind it. Such lines are counted and left out, what follows on the same line is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from results.arrow import TELEMETRY_SCHEMA

_LINE_START: Final = b'{"wall"'


class _Raw(msgspec.Struct, frozen=True):
    wall: int
    event: str
    group: str | None = None
    term: int | None = None
    role: str | None = None
    leader: str | None = None
    commit: int | None = None
    applied: int | None = None
    voters: tuple[str, ...] | None = None
    chain: str | int | None = None
    state: str | int | None = None


class Collected(msgspec.Struct, frozen=True):
    """The telemetry of one run.

    Attributes:
        table: rows of `TELEMETRY_SCHEMA`, by time, rows of one node in the order in which it wrote them.
        unreadable: for each node that has any, how many lines were torn or damaged.
    """

    table: pa.Table
    unreadable: dict[str, int]


def collect(sources: Mapping[str, Path], start_wall_ns: int) -> Collected:
    """Read the raw telemetry of all nodes.

    Args:
        sources: for each node its raw file; one that does not exist has no rows.
        start_wall_ns: when the test began, in nanoseconds since the Unix epoch; times are relative to that.

    `life` counts a node's "start" events: its first process is life 1.
    """
    rows: list[tuple[int, str, int, _Raw]] = []
    unreadable: dict[str, int] = {}
    for node, path in sources.items():
        if not path.exists():
            continue
        events, bad = _parse(path.read_bytes().splitlines())
        if bad:
            unreadable[node] = bad
        life = 0
        for raw in events:
            life += raw.event == "start"
            rows.append((raw.wall - start_wall_ns, node, life, raw))
    rows.sort(key=lambda row: row[0])
    return Collected(_table(rows), unreadable)


def _parse(lines: Iterable[bytes]) -> tuple[list[_Raw], int]:
    """The events of one node's lines, and how many lines were torn or damaged."""
    decode = msgspec.json.Decoder(_Raw).decode
    events: list[_Raw] = []
    bad = 0
    for line in lines:
        if not line.strip():
            continue
        try:
            events.append(decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            bad += 1
            second = line.rfind(_LINE_START)
            if second > 0:
                again, _ = _parse([line[second:]])
                events += again
    return events, bad


def _table(rows: list[tuple[int, str, int, _Raw]]) -> pa.Table:
    columns: list[list[Any]] = [
        [time for time, _, _, _ in rows],
        [node for _, node, _, _ in rows],
        [raw.group for _, _, _, raw in rows],
        [life for _, _, life, _ in rows],
        [raw.event for _, _, _, raw in rows],
        [raw.term for _, _, _, raw in rows],
        [raw.role for _, _, _, raw in rows],
        [raw.leader for _, _, _, raw in rows],
        [raw.commit for _, _, _, raw in rows],
        [raw.applied for _, _, _, raw in rows],
        [raw.voters for _, _, _, raw in rows],
        [_text(raw.chain) for _, _, _, raw in rows],
        [_text(raw.state) for _, _, _, raw in rows],
    ]
    return pa.Table.from_pydict(dict(zip(TELEMETRY_SCHEMA.names, columns, strict=True)), schema=TELEMETRY_SCHEMA)


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)
