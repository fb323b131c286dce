"""Telemetry of nodes that write none: asked for, and written, during a run (`splitbrain.harness.running.polled`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.observing import Observable, Observed, Seen
from splitbrain.harness.contract.realtime import RealClock
from splitbrain.harness.running.polled import poll

FILE = "telemetry.jsonl"
"""In the folder of each node."""


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """A raw line (`splitbrain.results.telemetry`), with what the node said behind it."""

    wall: int
    at: int
    event: str


async def write_telemetry(
    system: Observable, deployment: Deployment, files: Mapping[NodeId, Path], clock: RealClock
) -> None:
    """Ask the nodes until cancelled, and append what they say to their files.

    Args:
        system: knows how to ask.
        deployment: the nodes.
        files: for each node that is to be asked its raw telemetry; made here.
        clock: the run's.
    """
    opened: dict[NodeId, BinaryIO] = {}
    try:
        for node, path in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            opened[node] = path.open("ab", buffering=0)
        await poll(
            system,
            deployment,
            tuple(files),
            clock,
            lambda node, seen: _append(opened[node], line_of(seen, clock.wall_ns(seen.at_ns))),
        )
    finally:
        for file in opened.values():
            file.close()


def line_of(seen: Seen, wall_ns: int) -> bytes:
    """The raw line of an answer that arrived at a Unix time (in nanoseconds); it ends with a newline."""
    stamp = msgspec.json.encode(_Line(wall_ns, seen.at_ns, seen.event))
    said = msgspec.json.encode(seen.said)
    return stamp[:-1] + (b"," + said[1:] if seen.said != Observed() else b"}") + b"\n"


def _append(file: BinaryIO, line: bytes) -> None:
    file.write(line)
