"""The leader during a run, for its display.

It comes from the nodes' telemetry. If that is not available (a system without it, hosts from which it is fetched at the
end) the nodes are polled in turn, at most one per second, in the same way as a nemesis finds the leader.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId, NodeView
from splitbrain.harness.contract.test import Test
from splitbrain.results.values import NOT_JSON

PAUSE_S: Final = 1.0
"""Between two questions to nodes."""


class Leaders(Protocol):
    """Something that finds the leader."""

    def leader(self) -> str | None:
        """The node that led in the highest term any node was heard of, with that term; None if that is not known."""
        ...


class _Line(msgspec.Struct, frozen=True):
    role: str | None = None
    term: int | None = None
    group: str | None = None


class LeaderWatch:
    """Follows the raw telemetry files of the nodes (see `splitbrain.results.telemetry`)."""

    def __init__(self, sources: Mapping[str, Path]) -> None:
        """`sources`: for each node the file to which it appends; it need not exist yet."""
        self._sources = dict(sources)
        self._read = dict.fromkeys(self._sources, 0)
        self._roles: dict[str, tuple[str, int]] = {}
        self._groups: dict[str, str | None] = {}
        """Of each node the group with which it began: that of its clients."""

    def any_exists(self) -> bool:
        """Whether any of the files is there."""
        return any(path.exists() for path in self._sources.values())

    def leader(self) -> str | None:
        """The node that led in the highest term any node was heard to lead in, with that term; None if none was."""
        for node, path in self._sources.items():
            self._follow(node, path)
        leading = [(term, node) for node, (role, term) in self._roles.items() if role == "leader"]
        return _newest(leading)

    def _follow(self, node: str, path: Path) -> None:
        try:
            with path.open("rb") as file:
                file.seek(self._read[node])
                data = file.read()
        except OSError:
            return
        whole, newline, _ = data.rpartition(b"\n")
        self._read[node] += len(whole) + len(newline)
        for line in whole.splitlines():
            try:
                said = msgspec.json.decode(line, type=_Line)
            except NOT_JSON:
                continue
            group = self._groups.setdefault(node, said.group)
            if said.role is not None and said.term is not None and said.group == group:
                self._roles[node] = (said.role, said.term)


class LeaderPoll:
    """Asks nodes which leader they follow, one at a time (see `System.view`)."""

    def __init__(self) -> None:
        self._views: dict[NodeId, NodeView] = {}

    async def ask(self, test: Test, deployment: Deployment) -> None:
        """Ask until cancelled. A node that does not answer is heard of no more until it does."""
        for node in itertools.cycle(test.nodes):
            view = await test.system.view(deployment, node)
            if view is None:
                self._views.pop(node, None)
            else:
                self._views[node] = view
            await asyncio.sleep(PAUSE_S)

    def leader(self) -> str | None:
        """The leader of the nodes that are in the highest term; None if none of those asked knows a leader."""
        return _newest([(view.term, view.leader) for view in self._views.values() if view.leader is not None])


def _newest(leading: list[tuple[int, NodeId]]) -> str | None:
    if not leading:
        return None
    term, node = max(leading)
    return f"{node} (term {term})"
