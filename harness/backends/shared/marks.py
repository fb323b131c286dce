"""Moments of real nodes: each node appends the marks that it passes to a file, which is read again and again.

So a fault is late by the time between two looks and by that of its injection; the node goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from splitbrain.harness.contract.moments import Act, Moment, Moments, Passed
from splitbrain.harness.contract.nodes import NodeCommand, NodeId

POLL_S: Final = 0.005
"""The interval between two looks."""

FILE: Final = "marks"

MOMENT_HOW: Final = "marks are read from a file of the node every 5 ms: the node has gone on by then"


class MarksFiles:
    """The files in which nodes report their marks.

    Args:
        variable: the environment variable that names a node its file.
        folders: of the nodes; no fault of their disks hits these.
    """

    def __init__(self, variable: str, folders: Mapping[NodeId, Path]) -> None:
        self._variable = variable
        self._files = {node: folder / FILE for node, folder in folders.items()}

    def reported(self, node: NodeId, command: NodeCommand) -> NodeCommand:
        """The command of a node that reports its marks."""
        return msgspec.structs.replace(command, env={**command.env, self._variable: str(self._files[node])})

    async def at_moment(self, moments: Sequence[Moment], act: Act, within_ns: int) -> Passed | None:
        """Wait for the first of some moments and act on its node, as of `HearsMarks`."""
        waits, places = Moments(), {node: _size(file) for node, file in self._files.items()}
        wait = waits.wait(moments)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + within_ns / 1e9
        while loop.time() < end_s:
            for node, mark in self._news(places):
                found = waits.passed(node, mark).get(wait)
                if found is not None:
                    await asyncio.sleep(found.moment.after_us / 1e6)
                    await act(node)
                    return found
            await asyncio.sleep(POLL_S)
        return None

    def _news(self, places: dict[NodeId, int]) -> Iterator[tuple[NodeId, str]]:
        """Marks that were reported since the last look, those of one node in their order."""
        for node, file in self._files.items():
            if _size(file) == places[node]:
                continue
            with file.open("rb") as opened:
                opened.seek(places[node])
                whole, _, _ = opened.read().rpartition(b"\n")
            if whole:
                places[node] += len(whole) + 1
                yield from ((node, line.decode(errors="replace")) for line in whole.split(b"\n"))


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
