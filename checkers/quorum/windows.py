"""Windows: the spans of a run in which links, nodes and voter sets do not change, and the topology in each.

A fault takes effect at some time between the invocation and the completion of its op: that span is unstable. Windows
are the spans between, split where the voter sets in force change. What the completion of a nemesis op reports
(`splitbrain.results.faults`: `cut`, `down`, `paused`, `links`, `disks`, `cpus`, `clocks`, `clients`) holds until the
next op completes; what it does not report is uncertain. While the harness heals, everything is unstable; after that all
links are open and all nodes are up. If the run ends with a quiet phase, in which clients invoke nothing, the last
window ends where that phase begins.

Faults and client ops are both timed by the controller. Only changes of voter sets are widened, by the difference that
the nodes' clocks may have to the controller's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations
from typing import Final

import msgspec
import pyarrow as pa

from splitbrain.checkers.quorum.configurations import Configurations
from splitbrain.checkers.quorum.topology import Link, NodeId, Topology, Voters, topology
from splitbrain.results.faults import FaultOp, RunEvents
from splitbrain.results.history import Op
from splitbrain.results.notes import NodeEnded, PhaseBegan, Usable

DIED_WITHIN_NS: Final = 3_000_000_000
"""A node that was found dead was alive this long before: the harness checks all nodes about every half second."""


class Window(msgspec.Struct, frozen=True):
    """A span, in nanoseconds since the test began, and the topology that holds all through it.

    Attributes:
        begin_ns: its beginning.
        end_ns: its end.
        at: links, nodes and voter sets.
        since: the nemesis or harness op that began it, None for the first one and where voters changed.
    """

    begin_ns: int
    end_ns: int
    at: Topology
    since: Op | None


class Wrong(msgspec.Struct, frozen=True):
    """Nodes and links that are not as they should be."""

    cut: tuple[Link, ...] = ()
    down: tuple[NodeId, ...] = ()
    uncertain_links: tuple[Link, ...] = ()
    uncertain_nodes: tuple[NodeId, ...] = ()


NOTHING_WRONG: Final = Wrong()


class Stretch(msgspec.Struct, frozen=True):
    """A part of the run in which no op of the nemesis, and no healing, begins or ends.

    Attributes:
        begin_ns: its beginning.
        end_ns: its end.
        before: what was wrong when it began.
        changes: what will be wrong after each of the changes that are under way; none in a stable stretch.
        since: the op that reported `before`, None at the beginning of the run.
    """

    begin_ns: int
    end_ns: int
    before: Wrong
    changes: tuple[Wrong, ...]
    since: Op | None

    @property
    def possibly(self) -> tuple[Wrong, ...]:
        """All states that may hold at some time in it."""
        return (self.before, *self.changes)


class NoMajority(msgspec.Struct, frozen=True):
    """A span in which too few nodes run for a majority, in any state of the links."""

    begin_ns: int
    end_ns: int


class _Change(msgspec.Struct, frozen=True):
    begin_ns: int
    end_ns: int
    after: Wrong
    op: Op


def windows(
    events: RunEvents, telemetry: pa.Table, nodes: Sequence[NodeId], begin_ns: int = 0, offset_ns: int = 0
) -> list[Window]:
    """The windows of a run, in the order of time.

    Args:
        events: the run events.
        telemetry: of the nodes, for the voter sets that they hold; may be empty.
        nodes: all nodes of the test.
        begin_ns: when everything was up for the first time.
        offset_ns: how far the nodes' clocks may be from the controller's: a change of voter sets is widened by that at
            both ends.
    """
    return windows_and_no_majority(events, telemetry, nodes, begin_ns, offset_ns)[0]


def windows_and_no_majority(
    events: RunEvents, telemetry: pa.Table, nodes: Sequence[NodeId], begin_ns: int = 0, offset_ns: int = 0
) -> tuple[list[Window], list[NoMajority]]:
    """The windows of a run, and its spans without a majority of running nodes, unstable spans included.

    A span without a majority ends with the invocation of the op that may start one. Arguments as for `windows`.
    """
    held = Configurations(telemetry, nodes, offset_ns)
    dead = _deaths(events)
    found: list[Window] = []
    no_majority: list[NoMajority] = []
    for stretch in stretches(events, nodes, begin_ns):
        for piece in held.pieces(stretch.begin_ns, stretch.end_ns):
            if not stretch.changes and not piece.changing:
                wrong = stretch.before
                strangers = _strangers(nodes, piece.configurations)
                at = topology(
                    (*nodes, *strangers),
                    down=wrong.down,
                    cut=wrong.cut,
                    uncertain_links=(*wrong.uncertain_links, *_links_of(strangers, nodes)),
                    uncertain_nodes=(
                        *wrong.uncertain_nodes,
                        *strangers,
                        *_dead(dead, piece.begin_ns, piece.end_ns),
                    ),
                    configurations=piece.configurations,
                )
                since = stretch.since if piece.begin_ns == stretch.begin_ns else None
                found.append(Window(piece.begin_ns, piece.end_ns, at, since))
            if _majority_may_run(stretch.possibly, piece.configurations):
                continue
            if no_majority and no_majority[-1].end_ns == piece.begin_ns:
                no_majority[-1] = NoMajority(no_majority[-1].begin_ns, piece.end_ns)
            else:
                no_majority.append(NoMajority(piece.begin_ns, piece.end_ns))
    return found, no_majority


def stretches(events: RunEvents, nodes: Sequence[NodeId], begin_ns: int = 0) -> Iterator[Stretch]:
    """The run, split where a change begins or ends; empty stretches are left out."""
    changes = sorted(_changes(events, nodes), key=lambda change: change.begin_ns)
    # Of two that end in the same nanosecond the later row of the history reported the later state.
    ends = sorted(changes, key=lambda change: (change.end_ns, change.op.index))
    end_ns = events.end_ns if events.quiet_ns is None else events.quiet_ns
    moments = {begin_ns, end_ns, *(time for change in changes for time in (change.begin_ns, change.end_ns))}
    now, since = NOTHING_WRONG, None
    begun = ended = 0
    under_way: list[_Change] = []
    for begin, end in pairwise(sorted(moments)):
        while begun < len(changes) and changes[begun].begin_ns <= begin:
            under_way.append(changes[begun])
            begun += 1
        while ended < len(ends) and ends[ended].end_ns <= begin:
            now, since = ends[ended].after, ends[ended].op
            ended += 1
        under_way = [change for change in under_way if change.end_ns > begin]
        if begin_ns <= begin and end <= end_ns:
            yield Stretch(begin, end, now, tuple(change.after for change in under_way), since)


def _changes(events: RunEvents, nodes: Sequence[NodeId]) -> Iterator[_Change]:
    unknown = _all_uncertain(nodes)
    # Past the end: the last stretch, too, has the change under way.
    never_ns = events.end_ns + 1
    for op in events.fault_ops:
        if op.completion is None:
            yield _Change(op.invoke.time, never_ns, unknown, op.invoke)
        else:
            yield _Change(op.invoke.time, op.completion.time, _wrong(op, unknown), op.completion)
    healing = next((op for op, began in events.notes("phase", PhaseBegan) if began.phase == "heal"), None)
    if healing is not None:
        over = _healing_over(events)
        until_ns = never_ns if over is None else over.time
        yield _Change(healing.time, until_ns, unknown if healed_by(events) is None else NOTHING_WRONG, over or healing)


def healed_by(events: RunEvents) -> Op | None:
    """The harness op since which all links are open and all nodes run; None if that is unknown.

    The system may still not serve. If it does not, and nodes ended by themselves, these may have ended again. (A
    history without that op has one of the recovery.)
    """
    recovered = [op for op, usable in events.notes("recovered", Usable) if usable.seconds is not None]
    if not recovered and (events.of_harness("crash") or events.of_harness("halt")):
        return None
    return next(iter((*events.of_harness("healed"), *recovered)), None)


def _healing_over(events: RunEvents) -> Op | None:
    return healed_by(events) or next(iter(events.of_harness("recovered")), None)


def _wrong(op: FaultOp, unknown: Wrong) -> Wrong:
    said = op.said
    knows_links = said.cut is not None and said.links is not None
    return Wrong(
        cut=(said.cut or ()) if knows_links else (),
        down=_once(said.down or (), said.paused or ()),
        uncertain_links=(said.links or ()) if knows_links else unknown.uncertain_links,
        uncertain_nodes=unknown.uncertain_nodes
        if said.down is None
        else _once(said.disks, said.cpus, said.clocks, said.clients),
    )


def _once(*listed: Sequence[NodeId]) -> tuple[NodeId, ...]:
    return tuple(dict.fromkeys(node for nodes in listed for node in nodes))


def _all_uncertain(nodes: Sequence[NodeId]) -> Wrong:
    return Wrong(uncertain_nodes=tuple(nodes), uncertain_links=tuple(permutations(nodes, 2)))


def _strangers(nodes: Sequence[NodeId], configurations: Sequence[Voters]) -> tuple[NodeId, ...]:
    """Voters that are no nodes of the test: their state is unknown, but they count for a majority."""
    return tuple(sorted(frozenset[NodeId]().union(*configurations).difference(nodes)))


def _links_of(strangers: Sequence[NodeId], nodes: Sequence[NodeId]) -> Iterator[Link]:
    for stranger in strangers:
        for node in (*nodes, *strangers):
            if node != stranger:
                yield stranger, node
                yield node, stranger


def _majority_may_run(wrong: Sequence[Wrong], configurations: Sequence[Voters]) -> bool:
    # Only a node that is down in each state that may hold is certainly down.
    down = frozenset[NodeId].intersection(*(frozenset(each.down) for each in wrong))
    return any(len(voters - down) > len(voters) // 2 for voters in configurations)


def _deaths(events: RunEvents) -> list[tuple[int, int, NodeId]]:
    """For nodes that ended by themselves: from when they may have, until the next report of their state, and which."""
    completions = [op.completion.time for op in events.fault_ops if op.completion is not None]
    over = _healing_over(events)
    known = sorted(completions if over is None else [*completions, over.time])
    found: list[tuple[int, int, NodeId]] = []
    for note, ended in (*events.notes("crash", NodeEnded), *events.notes("halt", NodeEnded)):
        place = bisect_right(known, note.time)
        known_ns = known[place] if place < len(known) else events.end_ns
        found.append((note.time - DIED_WITHIN_NS, known_ns, ended.node))
    return found


def _dead(deaths: Sequence[tuple[int, int, NodeId]], begin_ns: int, end_ns: int) -> list[NodeId]:
    return list(dict.fromkeys(node for since, until, node in deaths if since < end_ns and begin_ns < until))
