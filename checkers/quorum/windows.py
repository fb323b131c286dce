"""Windows: the stretches of a run in which neither links nor nodes nor voter sets change, and how they are meanwhile.

A fault changes things somewhere between the invocation and the completion of its op: that span is unstable. Windows lie
between unstable spans, and are split where a node takes on another voter set. What the completion of a nemesis op tells
(`nemesis.effects`: `cut`, `down`, `paused`, `links`, `disks`, `cpus`, `clocks`) holds until the next op; after one
that tells nothing all is uncertain. While the harness heals, everything is unstable; once the system has recovered
all is well. Where the run ends with a quiet phase, in which nobody asks for anything, the last window ends with its
beginning.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, Final, cast

import msgspec
import pyarrow as pa

from checkers.quorum.topology import Link, NodeId, Topology, Voters, topology
from results.faults import FaultOp, Happenings
from results.history import Op

DIED_WITHIN_NS: Final = 3_000_000_000
"""A node that was found dead was alive this long before: the harness looks at all nodes every half second or so."""


class Window(msgspec.Struct, frozen=True):
    """A stretch of time, in nanoseconds since the test began, and the topology that holds all through it.

    Attributes:
        begin_ns: its beginning.
        end_ns: its end.
        at: links, nodes and voter sets.
        since: the nemesis or harness op with which it began, None for the first one and where voters changed.
    """

    begin_ns: int
    end_ns: int
    at: Topology
    since: Op | None


class Settled(msgspec.Struct, frozen=True):
    """What is wrong from `begin_ns` on, until `end_ns`; None where nobody knows."""

    begin_ns: int
    end_ns: int
    wrong: Wrong | None
    since: Op | None


class Wrong(msgspec.Struct, frozen=True):
    """Nodes and links that are not as they should be."""

    cut: tuple[Link, ...] = ()
    down: tuple[NodeId, ...] = ()
    uncertain_links: tuple[Link, ...] = ()
    uncertain_nodes: tuple[NodeId, ...] = ()


NOTHING_WRONG: Final = Wrong()


def windows(
    around: Happenings, telemetry: pa.Table, nodes: Sequence[NodeId], begin_ns: int = 0, offset_ns: int = 0
) -> list[Window]:
    """The windows of a run, in the order of time.

    Args:
        around: what happened beside the client ops.
        telemetry: what the nodes told, for the voter sets that they hold; may be empty.
        nodes: all nodes of the test.
        begin_ns: when everything was up for the first time.
        offset_ns: how far the nodes' clocks may be from the controller's: voter sets are in force that much longer.
    """
    held = Configurations(telemetry, nodes, offset_ns)
    found: list[Window] = []
    for stretch in settled(around, begin_ns):
        wrong = stretch.wrong if stretch.wrong is not None else _all_uncertain(nodes)
        for begin, end in held.split(stretch.begin_ns, stretch.end_ns):
            dead = _dead(around, begin, end)
            at = topology(
                nodes,
                down=wrong.down,
                cut=wrong.cut,
                uncertain_links=wrong.uncertain_links,
                uncertain_nodes=(*wrong.uncertain_nodes, *dead),
                configurations=held.between(begin, end),
            )
            since = stretch.since if begin == stretch.begin_ns else None
            found.append(Window(begin, end, at, since))
    return found


def settled(around: Happenings, begin_ns: int = 0) -> Iterator[Settled]:
    """The stretches between unstable spans, those of no length left out."""
    now: Wrong | None = NOTHING_WRONG
    since: Op | None = None
    for begin, end, after, op in _unstable(around):
        if begin > begin_ns:
            yield Settled(begin_ns, begin, now, since)
        begin_ns, now, since = max(begin_ns, end), after, op
    end_ns = around.end_ns if around.quiet_ns is None else around.quiet_ns
    if end_ns > begin_ns:
        yield Settled(begin_ns, end_ns, now, since)


def _unstable(around: Happenings) -> list[tuple[int, int, Wrong | None, Op]]:
    """Spans in which things change: begin, end, what is wrong afterwards (None: nobody knows), the op."""
    spans = [_of_op(op, around.end_ns) for op in around.fault_ops]
    healing = next((op for op in around.of_harness("phase") if _dict(op.value).get("phase") == "heal"), None)
    if healing is not None:
        recovered = next((op for op in around.of_harness("recovered") if op.time >= healing.time), None)
        well = recovered is not None and _dict(recovered.value).get("seconds") is not None
        until = around.end_ns if recovered is None else recovered.time
        spans.append((healing.time, until, NOTHING_WRONG if well else None, recovered or healing))
    return sorted(spans, key=lambda span: span[:2])


def _of_op(op: FaultOp, end_ns: int) -> tuple[int, int, Wrong | None, Op]:
    if op.completion is None:
        return op.invoke.time, end_ns, None, op.invoke
    told = "cut" in op.value and "down" in op.value
    return op.invoke.time, op.completion.time, _wrong(op) if told else None, op.completion


def _wrong(op: FaultOp) -> Wrong:
    def links(name: str) -> tuple[Link, ...]:
        return tuple((str(source), str(destination)) for source, destination in op.listed(name))

    def listed(*names: str) -> tuple[NodeId, ...]:
        return tuple(dict.fromkeys(str(node) for name in names for node in op.listed(name)))

    return Wrong(
        cut=links("cut"),
        down=listed("down", "paused"),
        uncertain_links=links("links"),
        uncertain_nodes=listed("disks", "cpus", "clocks"),
    )


def _all_uncertain(nodes: Sequence[NodeId]) -> Wrong:
    return Wrong(uncertain_nodes=tuple(nodes), uncertain_links=tuple(permutations(nodes, 2)))


def _dead(around: Happenings, begin_ns: int, end_ns: int) -> list[NodeId]:
    """Nodes that ended by themselves at some time that may be in the window, or before it and not yet told as down."""
    found: list[NodeId] = []
    completions = [op.completion.time for op in around.fault_ops if op.completion is not None]
    recoveries = [op.time for op in around.of_harness("recovered")]
    known = sorted([*completions, *recoveries, around.end_ns])
    for note in (*around.of_harness("crash"), *around.of_harness("halt")):
        place = bisect_right(known, note.time)
        told_ns = known[place] if place < len(known) else around.end_ns
        if note.time - DIED_WITHIN_NS < end_ns and begin_ns < told_ns:
            found.append(str(_dict(note.value).get("node")))
    return list(dict.fromkeys(found))


class Configurations:
    """The voter sets in force: each that some node holds, by what the nodes told last.

    A node that told none yet holds that of all nodes. A node holds its own also while it is down.
    """

    def __init__(self, telemetry: pa.Table, nodes: Sequence[NodeId], offset_ns: int) -> None:
        self._nodes = tuple(nodes)
        self._offset_ns = offset_ns
        self._changes: dict[NodeId, list[tuple[int, Voters]]] = {node: [] for node in nodes}
        columns = (telemetry.column(name).to_pylist() for name in ("time", "node", "voters"))
        for time_ns, node, voters in zip(*columns, strict=True):
            changes = self._changes.get(node)
            if voters is None or changes is None:
                continue
            held = frozenset(cast("list[str]", voters))
            if not changes or changes[-1][1] != held:
                changes.append((time_ns, held))

    def split(self, begin_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
        """The stretch in pieces in which no node changes its voter set; a change takes as long as clocks are apart."""
        moments = sorted(
            time_ns
            for changes in self._changes.values()
            for time_ns, _ in changes[1:]
            if begin_ns - self._offset_ns < time_ns < end_ns + self._offset_ns
        )
        for moment in moments:
            if moment - self._offset_ns > begin_ns:
                yield begin_ns, moment - self._offset_ns
            begin_ns = max(begin_ns, moment + self._offset_ns)
        if end_ns > begin_ns:
            yield begin_ns, end_ns

    def between(self, begin_ns: int, end_ns: int) -> list[Voters]:
        """The voter sets that some node holds at some time in between."""
        found: list[Voters] = []
        for changes in self._changes.values():
            held = [voters for time_ns, voters in changes if time_ns <= begin_ns][-1:] or [
                changes[0][1] if changes else frozenset(self._nodes)
            ]
            later = [voters for time_ns, voters in changes if begin_ns < time_ns < end_ns]
            found += [*held, *later]
        return list(dict.fromkeys(found))


def _dict(value: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
