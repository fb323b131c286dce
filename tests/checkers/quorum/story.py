"""Runs told by hand: faults as nemesis ops, clients that ask every node ten times a second, and what nodes tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

import pyarrow as pa

from splitbrain.checkers.quorum.checker import QuorumProgress
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.history import HARNESS, NEMESIS, OpType
from tests.checkers.support import Script
from tests.checkers.telemetry import row, told

FIVE = ("n1", "n2", "n3", "n4", "n5")
OPTIONS: dict[str, Any] = {"nodes": list(FIVE), "recovery_bound_s": 2.0, "op_timeout_s": 1.0, "attempts": 3}


def named(digits: str) -> list[str]:
    """Nodes by their numbers: "13" is n1 and n3."""
    return [f"n{digit}" for digit in digits]


def between(*groups: str) -> list[tuple[str, str]]:
    """Every link between nodes of different groups."""
    place = {node: number for number, group in enumerate(groups) for node in named(group)}
    return [link for link in permutations(place, 2) if place[link[0]] != place[link[1]]]


class Story:
    """A run of five nodes. Times are seconds; events may be told in any order."""

    def __init__(self) -> None:
        self._events: list[tuple[float, int, OpType, str, Any, dict[str, Any]]] = []
        self._rows: list[dict[str, Any]] = []
        self._processes = 0
        self.note(0.0, "phase", {"phase": "faults"})

    def note(self, time_s: float, f: str, value: Any = None) -> None:
        """The harness says something."""
        self._events.append((time_s, HARNESS, "info", f, value, {}))

    def fault(
        self,
        begin_s: float,
        end_s: float,
        *,
        fault: str = "partition",
        action: str = "start",
        cut: Iterable[tuple[str, str]] = (),
        down: str = "",
        paused: str = "",
        links: Iterable[tuple[str, str]] = (),
    ) -> None:
        """An op of the nemesis, and what is wrong after it."""
        asked = {"fault": fault, "action": action}
        did = {
            **asked,
            "target": "somebody",
            "cut": [list(link) for link in cut],
            "down": named(down),
            "paused": named(paused),
            "links": [list(link) for link in links],
        }
        self._events.append((begin_s, NEMESIS, "invoke", f"{action}-{fault}", asked, {}))
        self._events.append((end_s, NEMESIS, "ok", f"{action}-{fault}", did, {}))

    def ask(
        self,
        nodes: str,
        begin_s: float,
        end_s: float,
        how: OpType = "ok",
        *,
        term: int | None = None,
        error: str | None = None,
        takes_s: float = 0.01,
        every_s: float = 0.1,
    ) -> None:
        """Clients write to each of these nodes from `begin_s` to before `end_s`, and are all answered so."""
        for node in named(nodes):
            process = self._processes = self._processes + 1
            for number in range(round((end_s - begin_s) / every_s)):
                time_s = begin_s + number * every_s
                self._events.append((time_s, process, "invoke", "write", number, {"node": node}))
                told = {"node": node, "term": term, "error": error}
                self._events.append((time_s + takes_s, process, how, "write", number, told))

    def tell(self, time_s: float, node: str, **columns: Any) -> None:
        """A node writes a row of telemetry."""
        self._rows.append(row(time_s, node, **columns))

    def history(self) -> pa.Table:
        """The run as a history."""
        script = Script()
        for time_s, process, how, f, value, rest in sorted(self._events, key=lambda event: event[:2]):
            script.event(process, how, f, value, time_s=time_s, **rest)
        return script.table()

    def telemetry(self) -> pa.Table:
        """What the nodes told."""
        return told(*sorted(self._rows, key=lambda each: each["time"]))

    def judged(self, **options: Any) -> Verdict:
        """The verdict."""
        return QuorumProgress().check(self.history(), self.telemetry(), {**OPTIONS, **options})


def window(verdict: Verdict, start_s: float) -> Mapping[str, Any]:
    """The window that begins then."""
    (found,) = [row for row in verdict.figures["windows"] if abs(row["start_s"] - start_s) < 1e-6]
    return found


def rules(verdict: Verdict) -> Sequence[str]:
    """The rules that were violated."""
    return verdict.anomalies
