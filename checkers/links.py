"""Links: nodes that run, and that no fault keeps apart, connect to each other in time.

    not-connected  for far longer than it takes to connect, a node had no connection to another member, although both
                   ran and no fault was in force

Clients see that late, or not at all: of five nodes one may be deaf to another for ever while the other three are a
majority. It takes the loss of one more until a leader is missing, and runs are seldom so long.

A node says which links it wants and which are up (rows of event "link"). A link that it takes for up, and over which
nothing comes, is not judged here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from splitbrain.checkers.consensus.counts import counts_of, node_of
from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.rows import Row, rows
from splitbrain.checkers.consensus.troubles import stalls
from splitbrain.checkers.coverage.outages import calm
from splitbrain.checkers.durations import refuse_others
from splitbrain.checkers.verdict import OfOneRun, Verdict, Whole
from splitbrain.results.clocks import clocks_of
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import RunEvents, run_events
from splitbrain.results.quantities import counted

LIMIT_S: Final = 5.0
"""How long two nodes may be without a connection. A cluster of ours needs 0.7 s after a heal, however long the cut was;
the rest is for machines that are slow.
"""

_NEVER: Final = 1 << 62
"""The beginning of a life in which a node wrote nothing."""

_ENDS: Final = ("delete", "stop", "new-member")
"""Events after which a node wants no links, or others."""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Attributes: limit_s is how long two nodes may be without a connection, in seconds."""

    limit_s: Annotated[float, msgspec.Meta(gt=0, lt=86_400)] = LIMIT_S


class Links(OfOneRun):
    """Judges every stretch in which a node has no connection to a member, by rows of event "link".

    Its options are the fields of `Options`. In such a row `counted` names each node to which this one wants a link,
    with 1 if it is up: `n2=1 n3=0`. Members are those of the node's last row that says `members`. Of a stretch those
    parts count in which the run had no fault in force, the controller was not stalled, and both nodes wrote rows before
    and after, in one life each, in which both say that both are members. Not judged are nodes whose clock a run that
    estimated clocks does not know; errors of the others add to the limit. The figures: `stretches` judged, `longest_s`
    of their parts, and `broken`.
    """

    name = "links"
    partition: Whole = "whole run"
    counts_ops = True
    needs_telemetry = True

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run: its nemesis ops, and the telemetry of its nodes.

        Raises:
            HistoryFormatError: a row does not say what was counted in the form `n2=1`.
            UsageError: an option is wrong.
        """
        events = run_events(history)
        clocks = clocks_of(events)
        # By its clock a stretch may begin and end otherwise than the other node's life and the fault beside it.
        limit_ns = round((_options(options).limit_s + 2 * clocks.error_s) * 1e9)
        quiet = list(_quiet(events))
        parts = [
            part
            for lives in _of_groups(telemetry)
            for stretch in _stretches(lives)
            if clocks.knows(stretch.life.node) and clocks.knows(node_of(stretch.peer))
            for part in _parts(stretch, lives, quiet)
        ]
        found = [_not_connected(part) for part in parts if part.long_ns > limit_ns]
        longest_ns = max((part.long_ns for part in parts), default=0)
        return verdict_of(
            self.name,
            algorithm="row by row",
            found=found,
            otherwise=_praise(parts, longest_ns),
            figures={"stretches": len(parts), "longest_s": round(longest_ns / 1e9, 3), "broken": len(found)},
        )


def _options(options: Mapping[str, Any]) -> Options:
    refuse_others("links", options, ("limit_s",))
    try:
        return msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"checker links: {error}; it takes limit_s, a number of seconds.") from None


class _Life:
    """One life of a node: when it wrote rows, which members it knew, and what it said of its links."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.begin_ns, self.end_ns = _NEVER, 0
        self.members: list[tuple[int, frozenset[str]]] = []
        self.said: list[Row] = []  # those rows from which it follows what is down

    def step(self, row: Row) -> None:
        """Take the life's next row."""
        if row.event == "end":
            return
        self.begin_ns = min(self.begin_ns, row.time)
        self.end_ns = max(self.end_ns, row.time)

    def knew(self, begin_ns: int, end_ns: int, members: frozenset[str]) -> bool:
        """Whether all that it said of its members, until a time and since another, has these in it."""
        first = bisect_right(self.members, begin_ns, key=lambda said: said[0])
        last = bisect_right(self.members, end_ns, key=lambda said: said[0])
        said = self.members[max(0, first - 1) : last]
        return bool(said) and all(members <= known for _, known in said)


_Times = TypeVar("_Times", "_Life", "_Span")


class _Stretch(NamedTuple):
    """A time in which a member of a life had no connection to another one."""

    life: _Life
    mine: str
    peer: str
    begin_ns: int
    end_ns: int
    row: Row


class _Span(NamedTuple):
    """A time in which nothing kept nodes apart."""

    begin_ns: int
    end_ns: int


class _Part(NamedTuple):
    """A part of it in which nothing was in the way."""

    stretch: _Stretch
    begin_ns: int
    end_ns: int

    @property
    def long_ns(self) -> int:
        return self.end_ns - self.begin_ns


def _of_groups(telemetry: pa.Table) -> Iterator[dict[str, list[_Life]]]:
    """For each group whose members say something of links, the lives of the nodes in it, in the order of time.

    Each group counts the lives of a node from its own beginning, so rows of another one do not say which process wrote
    them.
    """
    every = list(rows(telemetry))
    for group in {row.group: None for row in every if row.event == "link"}:
        yield _lives([row for row in every if row.group == group])


def _lives(own: Sequence[Row]) -> dict[str, list[_Life]]:
    """The lives of each node in a group, by its rows."""
    lives: dict[tuple[str, int], _Life] = {}
    for row in own:
        life = lives.setdefault((row.node, row.life), _Life(row.node))
        life.step(row)
        if row.members is not None:
            life.members.append((life.end_ns, frozenset(row.members.split())))
        if (row.event == "link" and row.counted is not None) or row.event in _ENDS or row.members is not None:
            life.said.append(row)
    by_node: dict[str, list[_Life]] = {}
    for life in lives.values():
        if life.begin_ns < _NEVER:
            by_node.setdefault(life.node, []).append(life)
    return {node: sorted(of_node, key=lambda life: life.end_ns) for node, of_node in by_node.items()}


def _stretches(lives: Mapping[str, list[_Life]]) -> Iterator[_Stretch]:
    for life in (life for own in lives.values() for life in own):
        yield from _of_life(life)


def _of_life(life: _Life) -> Iterator[_Stretch]:
    members: frozenset[str] = frozenset()
    up: dict[str, int] | None = None
    mine: str | None = None
    since: dict[str, Row] = {}
    for row in life.said:
        if row.event == "link":
            up = counts_of(row)
        if row.members is not None:
            members = frozenset(row.members.split())
        before, mine = mine, next((member for member in members if node_of(member) == life.node), None)
        down = _without(members, mine, up) if row.event not in _ENDS else frozenset[str]()
        for peer in [peer for peer in since if peer not in down or before != mine]:
            begin = since.pop(peer)
            yield _Stretch(life, before or "", peer, begin.time, row.time, begin)
        since = dict.fromkeys(sorted(down), row) | since
    for peer, begin in since.items():
        yield _Stretch(life, mine or "", peer, begin.time, life.end_ns, begin)


def _without(members: frozenset[str], mine: str | None, up: Mapping[str, int] | None) -> frozenset[str]:
    """The members to which a node has no connection; none as long as it says nothing of links, or is no member."""
    if mine is None or up is None:
        return frozenset()
    return frozenset(member for member in members if member != mine and not up.get(node_of(member)))


def _parts(stretch: _Stretch, lives: Mapping[str, list[_Life]], quiet: Sequence[_Span]) -> Iterator[_Part]:
    both = frozenset((stretch.mine, stretch.peer))
    for other in _within(lives.get(node_of(stretch.peer), []), stretch.begin_ns, stretch.end_ns):
        begin_ns, end_ns = max(stretch.begin_ns, other.begin_ns), min(stretch.end_ns, other.end_ns)
        for span in _within(quiet, begin_ns, end_ns):
            part = _Part(stretch, max(begin_ns, span.begin_ns), min(end_ns, span.end_ns))
            if other.knew(part.begin_ns, part.end_ns, both):
                yield part


def _within(times: Sequence[_Times], begin_ns: int, end_ns: int) -> Iterator[_Times]:
    """Those of some times, which follow each other, of which a part lies between two moments."""
    for at in range(bisect_right(times, begin_ns, key=lambda each: each.end_ns), len(times)):
        if times[at].begin_ns >= end_ns:
            return
        yield times[at]


def _quiet(events: RunEvents) -> Iterator[_Span]:
    """The spans of a run without a fault in which the controller was not stalled, in the order of time."""
    stalled = sorted(stalls(events))
    for begin_ns, end_ns, _ in calm(events, 0, events.end_ns + 1):
        at_ns = begin_ns
        for stalled_from, stalled_to in stalled:
            if at_ns < stalled_from < end_ns:
                yield _Span(at_ns, stalled_from)
            at_ns = max(at_ns, min(stalled_to, end_ns))
        if at_ns < end_ns:
            yield _Span(at_ns, end_ns)


def _not_connected(part: _Part) -> dict[str, Any]:
    stretch = part.stretch
    begin_s, end_s, long_s = part.begin_ns / 1e9, part.end_ns / 1e9, part.long_ns / 1e9
    return {
        "anomaly": "not-connected",
        "sentence": (
            f"Not connected: {stretch.life.node} had no connection to {stretch.peer} from {begin_s:.3f} s to "
            f"{end_s:.3f} s, although both ran and no fault was in force for these {long_s:.3f} s."
        ),
        "by": stretch.life.node,
        "rows": [stretch.row.shown()],
    }


def _praise(parts: list[_Part], longest_ns: int) -> str:
    if not parts:
        return "Nothing was judged: no node that reports its links was without one while no fault was in force."
    return (
        f"In {counted(len(parts), 'stretch', 'stretches')} without a connection and without a fault nodes connected in "
        f"{longest_ns / 1e9:.3f} s at most."
    )
