"""The nodes' telemetry: from the raw lines that each node appended to one table per run.

A raw line is a JSON object: `wall` (nanoseconds since the Unix epoch), `event`, and as far as they apply `mono`, `at`,
`group`, `term`, `role`, `leader`, `commit`, `applied`, `voters`, `chain`, `state`, `last`, `projection`, `projected`,
`count`, `log_index`, `log_term`, `log`, `raised_by`, `members`, `counted_index`, `counted`.
In an event "vote" `leader` is the node that it voted for in `term`. In the event "role" of a new leader `last` is the
index at which its log ended when it was elected, before it appended anything; in the event "start" that at which the
log ends which the node recovered (and `leader` its vote in `term`); in any other event that up to which the node has
said that its log is durable. `projection` is a hash of what the node holds in tables that it derives from its state,
`projected` the hash of what its state says that they should hold. `count` is how many entries the process applied.

`log_index`, `log_term` and `log` are index and term of an entry of the log, and a hash of the log up to it, the same as
`chain` once the entry is applied. In the event "cut" that entry is the last one of those that were taken out of the
log, in "first" it is the first of its term in the log, and in "checkpoint" and "snapshot" the one for which a state
stands that was written down or taken over. `raised_by` is the member (not the node) whose message raised the term, in
an event "role", and `members` are those in force, in the table with blanks between them. `counted` is what a leader
counted when it committed the entry at `counted_index`: for each voter the last entry that it had acknowledged as
durable, in the table `n1=17 n2=17 n3=12`; in an event "acked" it is the highest index that each follower had said is
durable, in messages of the leader's term that came before that commit. In an event "role" it is, with terms in place of
indexes, whose votes a new leader counted, or whom a candidate has asked. In an event "timeout" (the election timer of a
node ran out) `counted_index` is the entry of the configuration in force, and `counted` that of the newest one that has
the node's member as a voter, of that one and the one before: `n1=17`. In an event "members" `counted_index` is the
entry of the configuration in force, and `counted` the node's `commit_index` and the entry of the configuration before
(`before_index`) when it was appended, and voters: 1 for a former one, 2 for a new one, 3 for one that stays. In events
"first" and "log" `counted_index` is the entry of the configuration that the log up to `log_index` puts into force, and
`counted` its members: 1 for a voter, 0 for a learner, `n1=1 n2=1 n3=0`.
In an event "start" it is the longest election timeout, `election_max_ms=1200`.
In an event "busy" it is `pending=3 most=4096 handing_over_ms=17`: why a leader refused a command.
In an event "released" it is `let_go=17 needed=18 base=9 withheld=0`: up to which entry
a state that keeps things in the log lets that go, the first entry that it needs, how much is gone already, and how many
messages those have whose nodes it takes for down.
In an event "checkpoint" it is `base=9 there=1`: the entry behind which the log in memory begins, and whether the node
has the state there, which a follower is sent that lacks what is before.
In an event "version" `counted_index` is a version of the state machine that a leader puts into force, and `counted` the
one that each other member said it understands: `n2=2 n3=0`.
In an event "link" it says of each node to which this one wants a link whether there is one: `n2=1 n3=0`.
In an event "read" `counted_index` is the round of messages that a read
needed, and `counted` what speaks for the read (`splitbrain.cluster.readfacts`).

Lines of the table store have other events, with `event`, `role`, `members`, `counted`, `count`, `leader` and
`raised_by` as in `splitbrain.cluster.tables.observed`. Where a node has a member of consensus beside its tables, their
lines have the group `:tables`, which is the name of no group of consensus. Lines of a writer of a stream have a group
of the stream, `:stream 3` (`splitbrain.cluster.streams.promises`).

Up to three clocks say when a line was written; the first of these that can be read counts. `at` is
CLOCK_MONOTONIC of the controller, in lines that it writes for nodes which it asks. `mono` is CLOCK_MONOTONIC of the
node's host: no fault bends it, and how far it is ahead of the controller's is known (`splitbrain.results.clocks`).
`wall` is what the node takes for the time, which differs from host to host and in a node whose clock has a fault.

While the data directory of a node is a file system of its own (faults of disks and of power), the raw file lies beside
it, where no fault hits it, and is moved to its place at the end (`splitbrain.harness.backends.shared.disks`). A
controller that was killed leaves it there (`lies`).

A node that is killed leaves a torn line; its next life appends right behind it. Such lines are counted and left out,
what follows on the same line is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, cast

import msgspec
import pyarrow as pa

from splitbrain.results.arrow import TELEMETRY_SCHEMA, compute
from splitbrain.results.columns import array
from splitbrain.results.columns import text as literal
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.values import NOT_JSON

CONSENSUS_CHECKERS: Final = (
    "election-safety",
    "leader-completeness",
    "log-matching",
    "replica-agreement",
    "commit-monotonic",
    "durability",
    "removed-members",
    "commit-majority",
    "read-majority",
    "acknowledged",
    "votes",
    "candidacy",
    "member-changes",
    "versions",
    "links",
)
"""The checkers that judge it by the rules of consensus: of every system that names no others."""

STRATEGY_CHECKERS: Final = (
    "strategy-apart",
    "strategy-down",
    "strategy-ignore",
    "strategy-pause-minority",
    "strategy-pause-if-all-down",
    "strategy-autoheal",
)
"""Those that judge it by what a strategy for partitions promises."""

TRACE_CHECKERS: Final = CONSENSUS_CHECKERS + STRATEGY_CHECKERS
"""All checkers that judge it."""

TABLES: Final = ":tables"
"""The group of rows that the tables of a node report, beside those of its groups of consensus."""

OF_STREAMS: Final = ":stream "
"""The groups of rows that writers of streams report begin so; the number of the stream follows."""

TERM_OF_TABLES: Final = 0
"""The term of what they answer to clients: no term of consensus is 0."""

ASIDE: Final = "aside"
"""The folder of a node for files that no fault of its disk may hit, if its own folder cannot be used."""

DELETED: Final = "delete"
"""The event of a row with which a node forgets its member of a group."""

_LINE_START: Final = b'{"wall"'


_Wall: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
_Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Raw(msgspec.Struct, frozen=True):
    wall: _Wall
    event: str
    mono: _Wall | None = None
    at: _Wall | None = None
    group: str | None = None
    term: _Int64 | None = None
    role: str | None = None
    leader: str | None = None
    commit: _Int64 | None = None
    applied: _Int64 | None = None
    voters: tuple[str, ...] | None = None
    chain: str | int | None = None
    state: str | int | None = None
    last: _Int64 | None = None
    projection: str | None = None
    projected: str | None = None
    count: _Int64 | None = None
    log_index: _Int64 | None = None
    log_term: _Int64 | None = None
    log: str | None = None
    raised_by: str | None = None
    members: tuple[str, ...] | None = None
    counted_index: _Int64 | None = None
    counted: dict[str, _Int64] | None = None


class _Row(NamedTuple):
    place_ns: int
    """The time, or that of an earlier row of the node if its clock was set back in between: rows are sorted by it."""
    time_ns: int
    node: str
    life: int
    raw: _Raw


class Collected(msgspec.Struct, frozen=True):
    """The telemetry of one run.

    Attributes:
        table: rows of `TELEMETRY_SCHEMA`, by time; rows of one node are in the order in which it wrote them, even if
            its clock was set back meanwhile.
        unreadable: for each node that has any, how many lines were torn or damaged.
    """

    table: pa.Table
    unreadable: dict[str, int]


class Start(msgspec.Struct, frozen=True):
    """When a test began, by the clocks of who reads the nodes' lines; times in the table are relative to that.

    Attributes:
        wall_ns: nanoseconds since the Unix epoch.
        mono_ns: what the controller's CLOCK_MONOTONIC showed; None if that is not known.
        ahead_ns: for each node how far CLOCK_MONOTONIC of its host is ahead of the controller's, where that is known.
    """

    wall_ns: int
    mono_ns: int | None = None
    ahead_ns: Mapping[str, int] = {}


def of_consensus(telemetry: pa.Table) -> pa.Table:
    """The rows of groups of consensus: all but those of tables and of copies of streams beside them."""
    groups = telemetry["group"]
    of_others = compute.or_(compute.equal(groups, literal(TABLES)), compute.starts_with(groups, OF_STREAMS))
    if not compute.any(of_others).as_py():
        return telemetry
    return telemetry.filter(compute.invert(compute.fill_null(of_others, False)))


def of_lasting_groups(telemetry: pa.Table) -> pa.Table:
    """The rows of groups that no node deleted (event "delete"): clients of a run use a group that lasts."""
    deleted = telemetry.filter(compute.equal(telemetry["event"], literal(DELETED)))["group"]
    if not len(deleted):
        return telemetry
    return telemetry.filter(compute.invert(compute.is_in(telemetry["group"], value_set=compute.unique(deleted))))


def lies(path: Path, node_dir: Path) -> Path:
    """Where the raw telemetry of a node is: in its place, or still beside a file system that was never taken down.

    Args:
        path: its place at the end of a run.
        node_dir: the folder of the node in the run's.
    """
    beside = (node_dir / path.name, node_dir / ASIDE / path.name)
    return next((place for place in beside if place.is_file()), path)


def places(source: str, node_dir: str) -> list[str]:
    """All names, relative to a run's folder, under which `lies` looks for the raw telemetry of a node.

    Args:
        source: its place at the end of a run.
        node_dir: the folder of the node.
    """
    name = Path(source).name
    return [source, f"{node_dir}/{name}", f"{node_dir}/{ASIDE}/{name}"]


def collect(sources: Mapping[str, Path], start: Start) -> Collected:
    """Read the raw telemetry of all nodes.

    Args:
        sources: for each node its raw file; one that does not exist has no rows.
        start: when the test began.

    `life` counts a node's "start" events of a group: its first process is life 1.

    Raises:
        HistoryFormatError: a file is there that cannot be read.
    """
    rows: list[_Row] = []
    unreadable: dict[str, int] = {}
    for node, path in sources.items():
        try:
            lines = path.read_bytes().splitlines()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise HistoryFormatError(str(path), f"cannot be read: {error.strerror}") from error
        events, bad = _parse(lines)
        if bad:
            unreadable[node] = bad
        rows += _rows(node, ((_since(start, node, raw), raw) for raw in events))
    return Collected(_table(rows), unreadable)


def _since(start: Start, node: str, raw: _Raw) -> int:
    """How long after the start a node wrote a line, in nanoseconds, by the best clock in the line."""
    if start.mono_ns is not None and raw.at is not None:
        return raw.at - start.mono_ns
    if start.mono_ns is not None and raw.mono is not None and node in start.ahead_ns:
        return raw.mono - start.ahead_ns[node] - start.mono_ns
    return raw.wall - start.wall_ns


def table_of(lines: Mapping[str, Sequence[tuple[int, bytes]]]) -> pa.Table:
    """The telemetry of nodes whose raw lines are in memory, each with its true time, not that of the node's clock.

    Args:
        lines: for each node, in the order in which it wrote them: nanoseconds since the test began, and the raw line.

    Lines that make no sense are left out, as in `collect`.
    """
    rows: list[_Row] = []
    for node, written in lines.items():
        rows += _rows(node, ((time_ns, raw) for time_ns, line in written for raw in _parse([line])[0]))
    return _table(rows)


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
        except NOT_JSON:
            bad += 1
            second = line.rfind(_LINE_START)
            if second > 0:
                again, _ = _parse([line[second:]])
                events += again
    return events, bad


def _rows(node: str, events: Iterable[tuple[int, _Raw]]) -> Iterable[_Row]:
    """One node's rows, with the lives to which they belong; a start of no group is one of all of them."""
    starts: dict[str | None, int] = {None: 0}
    place_ns = None
    for time_ns, raw in events:
        starts[raw.group] = starts.get(raw.group, 0) + (raw.event == "start")
        life = starts[raw.group] if raw.group is None else starts[None] + starts[raw.group]
        place_ns = time_ns if place_ns is None else max(place_ns, time_ns)
        yield _Row(place_ns, time_ns, node, life, raw)


def _table(unordered: list[_Row]) -> pa.Table:
    rows = sorted(unordered, key=lambda row: row.place_ns)
    columns: list[list[Any]] = [
        [row.time_ns for row in rows],
        [row.node for row in rows],
        [row.raw.group for row in rows],
        [row.life for row in rows],
        [row.raw.event for row in rows],
        [row.raw.term for row in rows],
        [row.raw.role for row in rows],
        [row.raw.leader for row in rows],
        [row.raw.commit for row in rows],
        [row.raw.applied for row in rows],
        [row.raw.voters for row in rows],
        [_text(row.raw.chain) for row in rows],
        [_text(row.raw.state) for row in rows],
        [row.raw.last for row in rows],
        [row.raw.projection for row in rows],
        [row.raw.projected for row in rows],
        [row.raw.count for row in rows],
        [row.raw.log_index for row in rows],
        [row.raw.log_term for row in rows],
        [row.raw.log for row in rows],
        [row.raw.raised_by for row in rows],
        [None if row.raw.members is None else " ".join(row.raw.members) for row in rows],
        [row.raw.counted_index for row in rows],
        [None if row.raw.counted is None else _pairs(row.raw.counted) for row in rows],
    ]
    fields = cast("Iterable[Any]", TELEMETRY_SCHEMA)
    arrays = [array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=TELEMETRY_SCHEMA)


def _pairs(of_voters: Mapping[str, int]) -> str:
    return " ".join(f"{voter}={index}" for voter, index in of_voters.items())


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)
