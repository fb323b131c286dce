"""Who leads, as the nodes' own telemetry says while a run is under way; asking the nodes would disturb them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec


class _Line(msgspec.Struct, frozen=True):
    role: str | None = None
    term: int | None = None


class LeaderWatch:
    """Follows the raw telemetry files of the nodes (see `results.telemetry`)."""

    def __init__(self, sources: Mapping[str, Path]) -> None:
        """`sources`: for each node the file to which it appends; it need not exist yet."""
        self._sources = dict(sources)
        self._read = dict.fromkeys(self._sources, 0)
        self._roles: dict[str, tuple[str, int]] = {}

    def leader(self) -> str:
        """The node that led in the highest term any node was heard to lead in, with that term; "?" before the first."""
        for node, path in self._sources.items():
            self._follow(node, path)
        leading = [(term, node) for node, (role, term) in self._roles.items() if role == "leader"]
        if not leading:
            return "?"
        term, node = max(leading)
        return f"{node} (term {term})"

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
            except msgspec.MsgspecError:
                continue
            if said.role is not None and said.term is not None:
                self._roles[node] = (said.role, said.term)
