"""The definitions and rules of the quorum-progress analysis, spelt out naively: what the checker is compared with.

Everything is tried out: subsets by enumeration, stretches of time as lists of instants at which something changes, ops
one by one. Nothing is shared with the checker but the history. Times are nanoseconds. For safety rules (Q1, Q2, Q8)
what is uncertain counts as open and up, for progress rules (Q3) as cut and down.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, Final

from splitbrain.results.history import HARNESS, NEMESIS

Node = str
Link = tuple[str, str]
Row = Mapping[str, Any]
Config = frozenset[str]

DECIDED = ("mismatch", "exists", "held", "not the owner")
"""What the state itself answers with a `fail`."""

DIED_WITHIN = 3_000_000_000
"""A node that is found dead may have died so long ago."""


@dataclass(frozen=True)
class Op:
    """A client op. `end`: None if it never ended; `answered`: by a quorum; `served`: that, or of some state."""

    index: int
    node: Node | None
    begin: int
    end: int | None
    answered: bool
    served: bool
    term: int | None


@dataclass(frozen=True)
class State:
    """How links and nodes are: what is listed neither as shut nor as doubtful is open, or up."""

    cut: frozenset[Link] = frozenset()
    lossy: frozenset[Link] = frozenset()
    down: frozenset[Node] = frozenset()
    odd: frozenset[Node] = frozenset()

    def link(self, a: Node, b: Node, *, possibly: bool) -> bool:
        """Whether a and b are linked both ways."""
        shut = self.cut if possibly else self.cut | self.lossy
        return a == b or ((a, b) not in shut and (b, a) not in shut)

    def up(self, node: Node, *, possibly: bool) -> bool:
        """Whether the node is up."""
        return node not in (self.down if possibly else self.down | self.odd)


@dataclass(frozen=True)
class Window:
    """A stretch without changes, and what the definitions make of it."""

    start: int
    end: int
    state: State
    configs: frozenset[Config]
    nodes: tuple[Node, ...]

    def majority_around(self, n: Node, config: Config, *, possibly: bool) -> bool:
        """Whether n is a voter, up, and linked with a majority of up voters, itself included."""
        at = self.state
        reached = [v for v in config if at.up(v, possibly=possibly) and at.link(n, v, possibly=possibly)]
        return n in config and at.up(n, possibly=possibly) and len(reached) >= len(config) // 2 + 1

    @property
    def capable(self) -> set[Node]:
        """For every configuration."""
        return {n for n in self.nodes if all(self.majority_around(n, c, possibly=False) for c in self.configs)}

    @property
    def possibly_capable(self) -> set[Node]:
        """For some configuration, with what is uncertain counted as open and up."""
        return {n for n in self.nodes if any(self.majority_around(n, c, possibly=True) for c in self.configs)}

    @property
    def possibly_served(self) -> set[Node]:
        """Linked, possibly, with a possibly capable node. Who is down all the time is served by nobody."""
        capable, at = self.possibly_capable, self.state
        up = [n for n in self.nodes if at.up(n, possibly=True)]
        return {n for n in up if any(at.link(n, y, possibly=True) for y in capable)}

    @property
    def cores(self) -> set[frozenset[Node]]:
        """The largest sets of voters that are up, pairwise linked, and a majority of every configuration."""
        voters = [n for n in self.nodes if any(n in c for c in self.configs) and self.state.up(n, possibly=False)]
        found = {
            frozenset(some)
            for size in range(1, len(voters) + 1)
            for some in combinations(voters, size)
            if all(self.state.link(a, b, possibly=False) for a, b in combinations(some, 2))
            and all(len(c & set(some)) >= len(c) // 2 + 1 for c in self.configs)
        }
        return {core for core in found if not any(core < other for other in found)}


@dataclass
class Judgement:
    """What the rules say.

    Attributes:
        windows: in the order of time.
        ops: for each of Q1, Q2, Q8 and Q10 the indexes (of invocations) of the ops that violate it.
        progress: for each window the result of Q3.
        recovery: Q4: per nemesis op (by the index of its invocation) and node the nanoseconds to the first answer.
        converged: Q7: "held", "violated" or "not judged".
        availability: Q9: per node, and for None the cluster, the shares of seconds and of ops that were answered.
    """

    windows: list[Window]
    ops: dict[str, set[int]] = field(default_factory=lambda: {rule: set[int]() for rule in ("Q1", "Q2", "Q8", "Q10")})
    progress: list[str] = field(default_factory=list[str])
    recovery: dict[int, dict[Node, int | None]] = field(default_factory=dict[int, dict[Node, int | None]])
    converged: str = "not judged"
    availability: dict[Node | None, tuple[float | None, float | None]] = field(
        default_factory=dict[Node | None, tuple[float | None, float | None]]
    )


@dataclass(frozen=True)
class Change:
    """An op of the nemesis, or the harness's healing; `completed` is None if it was never seen to end.

    `after` is the index of its completion, `state` what is wrong from then on.
    """

    index: int
    after: int
    invoked: int
    completed: int | None
    state: State


class Run:
    """A run as plain lists."""

    def __init__(self, history: Sequence[Row], telemetry: Sequence[Row], options: Mapping[str, Any]) -> None:
        self.nodes: tuple[Node, ...] = tuple(options["nodes"])
        self.bound = round(options["recovery_bound_s"] * 1e9)
        self.timeout = round(options["op_timeout_s"] * 1e9)
        self.attempts: int = options["attempts"]
        self.lease = round(options.get("lease_s", 0.0) * 1e9)
        self.offset = round(options.get("clock_offset_s", 0.0) * 1e9)
        self.history, self.telemetry = history, telemetry
        groups: Collection[str] = options.get("groups", ())
        self.answering = [row for row in telemetry if not groups or row["group"] in groups]
        self.begin = 0
        self.end = max(event["time"] for event in history)
        quiet = [event["time"] for event in self.harness("phase") if event["value"] == {"phase": "quiet"}]
        self.quiet: int | None = quiet[0] if quiet else None
        self.ops = list(self._ops())
        self.changes = list(self._changes())
        self.stalls = [
            (event["time"] - event["value"]["gap_ms"] * 1_000_000, event["time"]) for event in self.harness("stall")
        ]

    def harness(self, *fs: str) -> list[Row]:
        """What the harness said of this kind."""
        return [event for event in self.history if event["process"] == HARNESS and event["f"] in fs]

    @property
    def healed(self) -> Row | None:
        """Since when all is well; nobody knows where a node was lost and the system did not recover."""
        recovered = [event for event in self.harness("recovered") if event["value"]["seconds"] is not None]
        if not recovered and self.harness("crash", "halt"):
            return None
        return next(iter([*self.harness("healed"), *recovered]), None)

    def _ops(self) -> Iterator[Op]:
        for place, event in enumerate(self.history):
            if event["process"] < 0 or event["type"] != "invoke":
                continue
            later = (other for other in self.history[place + 1 :] if other["process"] == event["process"])
            done = next(later, None)
            answered = done is not None and (
                done["type"] == "ok" or (done["type"] == "fail" and done["error"] in DECIDED)
            )
            end, term = (None, None) if done is None else (done["time"], done["term"])
            spoke = done is not None and done["type"] == "fail" and (done["error"] or "").split(":")[0] == "not_found"
            yield Op(event["index"], event["node"], event["time"], end, answered, answered or spoke, term)

    def _changes(self) -> Iterator[Change]:
        taken: set[int] = set()
        for place, event in enumerate(self.history):
            index, time, later = event["index"], event["time"], self.history[place + 1 :]
            if event["process"] == HARNESS and event["f"] == "phase" and event["value"] == {"phase": "heal"}:
                done = self.healed or next((row for row in later if row["f"] == "recovered"), None)
                state = self._told(None) if self.healed is None else State()
            elif event["process"] == NEMESIS and event["type"] == "invoke":
                fits = (
                    row
                    for row in later
                    if row["process"] == NEMESIS and row["type"] != "invoke" and row["f"] == event["f"]
                )
                done = next((row for row in fits if row["index"] not in taken), None)
                taken |= set() if done is None else {done["index"]}
                state = self._told(None if done is None else done["value"])
            else:
                continue
            yield Change(
                index, index if done is None else done["index"], time, None if done is None else done["time"], state
            )

    def _told(self, value: Mapping[str, Any] | None) -> State:
        """What a completion tells; what it does not tell is uncertain."""
        said = value or {}
        everywhere = frozenset((a, b) for a in self.nodes for b in self.nodes if a != b)
        odd = frozenset(str(node) for part in ("disks", "clocks", "cpus", "clients") for node in said.get(part, ()))
        cut, lossy = (frozenset((str(a), str(b)) for a, b in said.get(name, ())) for name in ("cut", "links"))
        down = frozenset(str(node) for part in ("down", "paused") for node in said.get(part, ()))
        return State(
            cut=cut,
            lossy=lossy if "cut" in said else everywhere,
            down=down,
            odd=odd if "down" in said else frozenset(self.nodes),
        )

    def state_at(self, time: int) -> State:
        """What the last change that ended by then left behind."""
        over = [(c.completed, c.after, c) for c in self.changes if c.completed is not None and c.completed <= time]
        return max(over, key=lambda change: change[:2])[2].state if over else State()

    def unstable(self) -> list[tuple[int, int]]:
        """The spans in which a fault changes something. The clock that times them times the clients' ops as well."""
        return [(c.invoked, self.end + 1 if c.completed is None else c.completed) for c in self.changes]

    def configs_at(self, time: int) -> frozenset[Config]:
        """Every voter set that a node holds of a group then: what it said last of it, or will say first."""
        held: dict[tuple[Node, Any], Config] = {}
        for row in self.answering:
            holder = (row["node"], row["group"])
            if row["voters"] and (row["time"] <= time or holder not in held):
                held[holder] = frozenset(row["voters"])
        return frozenset(held.values()) or frozenset({frozenset(self.nodes)})

    def windows(self) -> list[Window]:
        """The stretches between unstable spans, split where the configurations in force change."""
        spans = self.unstable()
        turns = [
            row["time"]
            for row in self.answering
            if row["voters"] and self.configs_at(row["time"]) != self.configs_at(row["time"] - 1)
        ]
        spans += [(turn - self.offset, turn + self.offset) for turn in turns]
        last = self.end if self.quiet is None else self.quiet
        instants = {self.begin, last} | {instant for span in spans for instant in span}
        within = sorted(instant for instant in instants if self.begin <= instant <= last)
        return [self.window(a, b) for a, b in pairwise(within) if not any(x <= a and b <= y for x, y in spans if x < y)]

    def window(self, start: int, end: int) -> Window:
        """The stretch, taken as one without changes."""
        state = self.state_at(start)
        told = [c.completed for c in self.changes if c.completed is not None]
        ended: set[Node] = set()
        for event in self.harness("crash", "halt"):
            until = min((time for time in told if time > event["time"]), default=self.end)
            if event["time"] - DIED_WITHIN < end and start < until:
                ended.add(event["value"]["node"])
        state = State(state.cut, state.lossy, state.down, state.odd | ended)
        return Window(start, end, state, self.configs_at(start), self.nodes)


def judge(history: Sequence[Row], telemetry: Sequence[Row], options: Mapping[str, Any]) -> Judgement:
    """Judge a run, given as the rows of its tables; `options` are those of the checker."""
    run = Run(history, telemetry, options)
    said = Judgement(run.windows())
    _silence(run, said)
    _start_up(run, said)
    _superseded(run, said)
    for window in said.windows:
        said.progress.append(_progress(run, window))
    _recovery(run, said)
    said.converged = _converged(run)
    for node in (None, *run.nodes):
        said.availability[node] = _availability([op for op in run.ops if node in (None, op.node)], run.end)
    return said


def _silence(run: Run, said: Judgement) -> None:
    """Q1 and Q2; in a halted window an answer is a matter of Q1 alone."""
    for op in run.ops:
        for window in said.windows:
            inside = op.end is not None and window.start + run.lease <= op.begin and op.end <= window.end
            if not (op.answered and inside):
                continue
            if not window.possibly_capable:
                said.ops["Q1"].add(op.index)
            elif op.node in run.nodes and op.node not in window.possibly_served:
                said.ops["Q2"].add(op.index)


def _start_up(run: Run, said: Judgement) -> None:
    """Q8: an op from after a stop that leaves no majority, answered before the invocation of the start that makes one.

    The run is taken apart at every instant at which anything changes. In a part who may be up is who was not seen down
    at its beginning or, if something changes in it, at the end of what changes. An op that lies in parts without a
    majority of any configuration was answered by no node that may. Where a leader is left, it may have a lease.
    """
    spans = run.unstable()
    reports = [(row["time"] - run.offset, row["time"] + run.offset) for row in run.answering if row["voters"]]
    instants = {run.begin, run.end} | {instant for span in (*spans, *reports) for instant in span}
    within = sorted(instant for instant in instants if run.begin <= instant <= run.end)
    dark: list[list[int]] = []
    for a, b in pairwise(within):
        states = [run.state_at(a)]
        states += [change.state for change, (x, y) in zip(run.changes, spans, strict=True) if x <= a and b <= y]
        configs = {*run.configs_at(a)}
        for x, y in reports:
            if x <= a and b <= y:
                configs |= run.configs_at(x + run.offset) | run.configs_at(x + run.offset - 1)
        up = {n for n in run.nodes if any(state.up(n, possibly=True) for state in states)}
        if any(len(config & up) >= len(config) // 2 + 1 for config in configs):
            continue
        if dark and dark[-1][1] == a:
            dark[-1][1] = b
        else:
            dark.append([a, b])
    for op in run.ops:
        if op.answered and op.end is not None and any(x + run.lease <= op.begin and op.end <= y for x, y in dark):
            said.ops["Q8"].add(op.index)


def _superseded(run: Run, said: Judgement) -> None:
    """Q10: a leader has committed once its commit index is beyond where its log ended when it was elected.

    Where it does not tell that, once its commit index moves on. Who tells it twice is believed the first time. Which
    group answered is not told: it may be any.
    """
    known: set[tuple[Any, ...]] = set()
    first: dict[Any, list[tuple[int, int]]] = {row["group"]: [] for row in run.answering if row["role"] is not None}
    for place, elected in enumerate(run.answering):
        if elected["role"] != "leader" or elected["term"] is None:
            continue
        log_end = elected["commit_index"] if elected["last_index"] is None else elected["last_index"]
        who = tuple(elected[column] for column in ("node", "group", "life", "term"))
        if log_end is None or who in known:
            continue
        known.add(who)
        for row in run.answering[place:]:
            same = all(row[column] == elected[column] for column in ("node", "group", "life", "term", "role"))
            if same and row["commit_index"] is not None and row["commit_index"] > log_end:
                first[elected["group"]].append((row["time"], elected["term"]))
    for op in run.ops:
        term = op.term if op.answered else None
        if (
            term is not None
            and first
            and all(
                any(op.begin > time + run.offset and later > term for time, later in committed)
                for committed in first.values()
            )
        ):
            said.ops["Q10"].add(op.index)


MOMENT: Final = 1_000_000_000
"""Silence of less is none of a cluster that stands still."""


def _progress(run: Run, window: Window) -> str:
    """Q3. A window in which no op can be late enough after its start and soon enough before its end is too short."""
    cores = window.cores
    outsiders = window.possibly_capable - {node for core in cores for node in core}
    if not cores or outsiders or window.end - window.start <= run.bound + run.timeout:
        return "not judged"
    if any(begin < window.end and window.start < end for begin, end in run.stalls):
        return "stalled"
    asked = [op for op in run.ops if window.start + run.bound <= op.begin <= window.end - run.timeout]
    results: set[str] = set()
    for core in cores:
        sent = {node: [op for op in asked if op.node == node] for node in core}
        if any(_silent(run, window, node, ops) for node, ops in sent.items()):
            results.add("silent")
        elif all(_answers(run, window, node) for node in sent):
            return "held"
        else:
            results.add("too few")
    if results != {"silent"}:
        room = window.end - run.timeout - (window.start + run.bound)
        return "too few ops" if room >= min(MOMENT, run.timeout) else "not judged"
    members = {node for core in cores for node in core}
    took = [op.end - op.begin for op in asked if op.served and op.end is not None and op.node in members]
    late = len(took) >= run.attempts and 2 * statistics.median(took) > run.timeout
    return "overloaded" if late else "violated"


def _silent(run: Run, window: Window, node: Node, asked: Sequence[Op]) -> bool:
    """Whether a node got enough ops, over more than a moment, and has answered nothing since the bound was over."""
    if len(asked) < run.attempts or _answers(run, window, node):
        return False
    return max(op.begin for op in asked) - min(op.begin for op in asked) >= min(MOMENT, run.timeout)


def _answers(run: Run, window: Window, node: Node) -> bool:
    """Whether a node answered anything since the bound was over, of what it could have answered in time."""
    return any(
        op.served and op.end is not None and op.end >= window.start + run.bound
        for op in run.ops
        if op.node == node and window.start <= op.begin <= window.end - run.timeout
    )


def _recovery(run: Run, said: Judgement) -> None:
    """Q4: until the next op of the nemesis; what was asked before all of the fault was in force says nothing of it."""
    nemesis = {event["index"] for event in run.history if event["process"] == NEMESIS}
    ops = [change for change in run.changes if change.index in nemesis and change.completed is not None]
    for place, change in enumerate(ops):
        until = ops[place + 1].invoked if place + 1 < len(ops) else run.end
        said.recovery[change.index] = {}
        for node in run.nodes:
            times = [
                op.end - change.invoked
                for op in run.ops
                if op.node == node and op.served and op.end is not None
                if change.completed is not None and change.completed <= op.begin and op.end <= until
            ]
            said.recovery[change.index][node] = min(times, default=None)


def _converged(run: Run) -> str:
    """Q7, from when all is healed and the last client op was invoked or ended."""
    if run.healed is None:
        return "not judged"
    quiet = run.quiet
    if quiet is None:
        quiet = max([run.healed["time"], *(event["time"] for event in run.history if event["process"] >= 0)])
    instants = sorted({quiet, run.end, *(instant for stall in run.stalls for instant in stall if instant > quiet)})
    awake = [
        (begin, end)
        for begin, end in pairwise(instants)
        if not any(since <= begin and end <= until for since, until in run.stalls)
    ]
    over = sum(end - begin for begin, end in awake) >= run.bound
    results = {
        _met([row for row in run.telemetry if row["group"] == group], run.nodes, over=over)
        for group in {row["group"] for row in run.telemetry}
    }
    return next(how for how in ("violated", "held", "not judged") if how in {*results, "not judged"})


def _met(rows: Sequence[Row], nodes: Collection[Node], *, over: bool) -> str:
    """Whether the last words of the members of a group agree."""
    members: Collection[Node] = nodes
    most = 0
    for row in rows:
        if row["voters"] and (row["commit_index"] or 0) >= most:
            members, most = row["voters"], row["commit_index"] or 0
    last = {row["node"]: row for row in rows if row["applied_index"] is not None}
    if any(node not in last for node in members):
        return "not judged"
    states = {last[node]["state_hash"] for node in members} - {None}
    if len({last[node]["applied_index"] for node in members}) == 1 and len(states) <= 1:
        return "held"
    apart = len({last[node]["applied_index"] for node in members}) > 1
    return "violated" if over or not apart else "not judged"


def _availability(ops: Sequence[Op], end: int) -> tuple[float | None, float | None]:
    """Q9: shares of the seconds in which ops were in progress that were served, and of the ops that were answered."""
    if not ops:
        return None, None
    in_progress: dict[int, list[Op]] = {}
    served: set[int] = set()
    for op in ops:
        for second in range(op.begin // SECOND, _second_of_end(op, end) + 1):
            in_progress.setdefault(second, []).append(op)
        if op.served:
            served.add(_second_of_end(op, end))
    for second, found in in_progress.items():
        if all(op.served and op.end is not None and op.end - op.begin <= SECOND for op in found):
            served.add(second)

    def length(seconds: Iterable[int]) -> int:
        return sum(min(SECOND, max(1, end - second * SECOND)) for second in seconds)

    return length(served) / length(in_progress), sum(op.served for op in ops) / len(ops)


SECOND = 1_000_000_000


def _second_of_end(op: Op, end: int) -> int:
    return max(op.begin, (end if op.end is None else op.end) - 1) // SECOND
