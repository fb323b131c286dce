"""Consistency models by their definitions, on small histories: tried on every order of the transactions that committed.

All models of the lattice proscribe G0, so that the versions of all keys are in one order of transactions. For each such
order, and each choice of those of unknown outcome, three kinds of definitions are tried:

*   which cycles the graph of dependencies may not have (Adya, 1999, and Adya, Liskov and O'Neil, 2000; cycles with
    edges of sessions and of real time as Elle has them);
*   which transactions of the order must be visible to a reader (Cerone, Bernardi and Gotsman, 2015; Biswas and Enea,
    2019), those of sessions with the order of sessions as well;
*   of snapshot isolation both, which agree.

`forward-consistent-view` is that without a clock: transactions may all have started before any committed, so that it
proscribes what `consistent-view` does. `monotonic-snapshot-read` has no definition here. Serial orders, of sessions and
in real time, are in `brute_force`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

Mops: TypeAlias = tuple[tuple[str, str, Any], ...]
Pairs: TypeAlias = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Txn:
    """A transaction: who made it, when, how it ended, and its (f, key, value); a read of a list has a tuple."""

    process: int
    invoked: int
    completed: int
    type: Any
    mops: Mops


@dataclass(frozen=True)
class Read:
    """A read of what others wrote: by which transaction, where in it, of which key; None if there was nothing."""

    reader: int
    at: int
    key: str
    value: int | None


class Outcome:
    """The transactions that committed, by number, what they read from which, and what orders them by itself."""

    def __init__(self, committed: Sequence[Txn]) -> None:
        self.committed = committed
        self.count = len(committed)
        self.writer = {v: at for at, txn in enumerate(committed) for f, _, v in txn.mops if f != "r"}
        self.final = {(at, k): v for at, txn in enumerate(committed) for f, k, v in txn.mops if f != "r"}
        self.place = {v: at for txn in committed for at, (f, _, v) in enumerate(txn.mops) if f != "r"}
        self.written = [{key for f, key, _ in txn.mops if f != "r"} for txn in committed]
        self.keys = sorted({key for txn in committed for _, key, _ in txn.mops})
        self.lists = any(f == "append" or isinstance(v, tuple) for txn in committed for f, _, v in txn.mops)
        self.longest: dict[str, tuple[int, ...]] = {}
        self.reads: list[Read] = []
        for at, txn in enumerate(committed):
            for place, (f, key, value) in enumerate(txn.mops if txn.type == "ok" else ()):
                if f == "r":
                    self._read(at, place, key, value)
        seen = [(self.writer[each.value], each) for each in self.reads if each.value is not None]
        others = [(source, each) for source, each in seen if source != each.reader]
        self.intermediate = any(self.final[source, each.key] != each.value for source, each in others)
        self.wr = frozenset((source, each.reader) for source, each in others)
        every = list(itertools.permutations(range(self.count), 2))
        self.sessions = frozenset((a, b) for a, b in every if self._in_session(a, b))
        self.realtime = frozenset((a, b) for a, b in every if self._in_time(a, b))

    def _read(self, at: int, place: int, key: str, value: Any) -> None:
        if isinstance(value, tuple):
            seen = cast("tuple[int, ...]", value)
            if len(seen) > len(self.longest.get(key, ())):
                self.longest[key] = seen
            value = seen[-1] if seen else None
        own = any(f != "r" and k == key for f, k, _ in self.committed[at].mops[:place])
        if not own or self.lists:
            self.reads.append(Read(at, place, key, value))

    def _in_session(self, a: int, b: int) -> bool:
        one, other = self.committed[a], self.committed[b]
        return one.type == "ok" and one.process == other.process and one.invoked < other.invoked

    def _in_time(self, a: int, b: int) -> bool:
        one, other = self.committed[a], self.committed[b]
        return one.type == "ok" and one.completed < other.invoked


class Execution:
    """An outcome with an order of its transactions, and with what follows from it."""

    def __init__(self, outcome: Outcome, order: Sequence[int]) -> None:
        self.outcome = outcome
        self.rank = {at: place for place, at in enumerate(order)}
        self.chains = {key: self._chain(key, order) for key in outcome.keys}
        self.ww = frozenset(
            (outcome.writer[a], outcome.writer[b])
            for chain in self.chains.values()
            for a, b in itertools.pairwise(chain)
            if outcome.writer[a] != outcome.writer[b]
        )
        found = [(read, after, self._overwriter(read, after)) for read, after in self._overwritten()]
        self.antidependencies = [(read, after, other) for read, after, other in found if other != read.reader]
        self.rw = frozenset((read.reader, other) for read, _, other in self.antidependencies)
        self.dependencies = self.ww | outcome.wr

    @property
    def follows(self) -> bool:
        """Whether the versions of each key are in this order."""
        return all(self.rank[a] < self.rank[b] for a, b in self.ww)

    def _chain(self, key: str, order: Sequence[int]) -> tuple[int, ...]:
        """The versions of a key: what was read of a list first, then what follows from the order."""
        outcome = self.outcome
        known = outcome.longest.get(key, ())
        written = [v for at in order for f, k, v in outcome.committed[at].mops if f != "r" and k == key]
        if outcome.lists:
            return (*known, *(v for v in written if v not in known))
        return tuple(v for v in written if outcome.final[outcome.writer[v], key] == v)

    def _overwritten(self) -> Iterator[tuple[Read, int]]:
        """Reads of what was overwritten, with the place of the next version."""
        for read in self.outcome.reads:
            chain = self.chains[read.key]
            if read.value is None or read.value in chain:
                after = 0 if read.value is None else chain.index(read.value) + 1
                if after < len(chain):
                    yield read, after

    def _overwriter(self, read: Read, after: int) -> int:
        return self.outcome.writer[self.chains[read.key][after]]

    @cached_property
    def reach(self) -> Pairs:
        """Which transactions depend on which, by any number of steps."""
        return closure(self.dependencies)

    def writes(self, at: int, key: str) -> bool:
        """Whether a transaction wrote a key."""
        return (at, key) in self.outcome.final


# --- cycles -----------------------------------------------------------------------------------------------------------


def closure(edges: Pairs) -> Pairs:
    """What can be reached."""
    found = set(edges)
    for middle in {a for a, _ in edges}:
        into = [a for a, b in found if b == middle]
        found.update((a, d) for c, d in tuple(found) if c == middle for a in into)
    return frozenset(found)


def acyclic(edges: Pairs) -> bool:
    """Whether no way leads back."""
    return all(a != b for a, b in closure(edges))


def _snapshots(execution: Execution, order: Pairs) -> bool:
    """No cycle but those in which two antidependencies follow each other."""
    ways = execution.dependencies | order
    return acyclic(ways | {(a, c) for a, b in ways for b2, c in execution.rw if b == b2})


def _cursor(execution: Execution) -> bool:
    """G-cursor: of one key, what a transaction read was overwritten before it wrote."""
    outcome = execution.outcome
    return not any(
        execution.writes(read.reader, read.key)
        and execution.chains[read.key].index(outcome.final[read.reader, read.key]) > after
        for read, after, _ in execution.antidependencies
    )


def _monotonic(execution: Execution) -> bool:
    """G-monotonic: a transaction that has seen an effect of another one reads what that one overwrote."""
    outcome = execution.outcome
    for read, _, other in execution.antidependencies:
        rest = frozenset(edge for edge in execution.dependencies if read.reader not in edge)
        met = {other, *(b for a, b in closure(rest) if a == other)}
        earlier = [each for each in outcome.reads if each.reader == read.reader and each.at <= read.at]
        if any(each.value is not None and outcome.writer[each.value] in met for each in earlier):
            return False
        for chain in execution.chains.values():
            mine = [v for v in chain if outcome.writer[v] == read.reader and outcome.place[v] < read.at]
            before = [chain[chain.index(v) - 1] for v in mine if chain.index(v)]
            if any(outcome.writer[v] in met for v in before):
                return False
    return True


def _updates(execution: Execution) -> bool:
    """G-update: no cycle of transactions that write, and at most one that only reads."""
    writers = {at for at, _ in execution.outcome.final}
    edges = execution.dependencies | execution.rw
    return all(
        acyclic(frozenset((a, b) for a, b in edges if {a, b} <= writers | {reader}))
        for reader in range(execution.outcome.count)
    )


def _single(execution: Execution) -> bool:
    return all((b, a) not in execution.reach for a, b in execution.rw)


NONE: Final[Pairs] = frozenset()


def _committed_reads(execution: Execution, order: Pairs = NONE) -> bool:
    ways = closure(execution.dependencies | order) if order else execution.reach
    return not execution.outcome.intermediate and all(a != b for a, b in ways)


# --- visibility -------------------------------------------------------------------------------------------------------

Sees: TypeAlias = Callable[[Execution, Pairs], Pairs]
"""Which transactions must be visible to which, by a level; given wr, and the order of sessions if it counts."""


def _as_seen(execution: Execution, base: Pairs, sees: Sees) -> bool:
    """Whether each read gives the last of what is visible to its transaction."""
    outcome, rank = execution.outcome, execution.rank
    if outcome.intermediate or not all(rank[a] < rank[b] for a, b in base):
        return False
    visible = sees(execution, base)
    return all(
        not execution.writes(other, read.key) or _not_after(execution, other, read)
        for read in outcome.reads
        for other, reader in visible
        if reader == read.reader and other != reader
    )


def _not_after(execution: Execution, other: int, read: Read) -> bool:
    """Whether what another transaction wrote is no later than what was read."""
    if read.value is None:
        return False
    source = execution.outcome.writer[read.value]
    return execution.rank[other] <= execution.rank[source]


def _direct(execution: Execution, base: Pairs) -> Pairs:
    return base


def _causal(execution: Execution, base: Pairs) -> Pairs:
    return closure(base)


def _conflicting(execution: Execution) -> Pairs:
    written = execution.outcome.written
    return frozenset((a, b) for a, b in _all_before(execution) if written[a] & written[b])


def _all_before(execution: Execution) -> Pairs:
    return frozenset(
        (a, b) for a, b in itertools.permutations(execution.rank, 2) if execution.rank[a] < execution.rank[b]
    )


def _updated(execution: Execution, base: Pairs) -> Pairs:
    return base | _conflicting(execution)


def _parallel(execution: Execution, base: Pairs) -> Pairs:
    return closure(base | _conflicting(execution))


def _prefixes(execution: Execution, base: Pairs) -> Pairs:
    before = _all_before(execution)
    return base | {(a, c) for a, b in before for b2, c in base if b == b2}


def _snapshot(execution: Execution, base: Pairs) -> Pairs:
    return _prefixes(execution, base | _conflicting(execution))


def _monotonic_atomic(execution: Execution, sessions: Pairs) -> bool:
    """Biswas and Enea's read committed: what a read has shown of a transaction, later ones show, or something newer."""
    outcome, rank = execution.outcome, execution.rank
    base = outcome.wr | sessions
    if outcome.intermediate or not all(rank[a] < rank[b] for a, b in base):
        return False
    for first, second in itertools.permutations(outcome.reads, 2):
        if first.reader != second.reader or first.at >= second.at or first.value is None:
            continue
        other = outcome.writer[first.value]
        if other != first.reader and execution.writes(other, second.key) and not _not_after(execution, other, second):
            return False
    return True


def _visible(sees: Sees, *, sessions: bool = False) -> Callable[[Execution], bool]:
    def holds(execution: Execution) -> bool:
        outcome = execution.outcome
        base = outcome.wr | outcome.sessions if sessions else outcome.wr
        return _as_seen(execution, base, sees)

    return holds


DEFINITIONS: Final[Mapping[str, Callable[[Execution], bool]]] = {
    "read-uncommitted": lambda each: True,
    "strong-session-read-uncommitted": lambda each: acyclic(each.ww | each.outcome.sessions),
    "strong-read-uncommitted": lambda each: acyclic(each.ww | each.outcome.realtime),
    "read-committed": _committed_reads,
    "strong-session-read-committed": lambda each: _committed_reads(each, each.outcome.sessions),
    "strong-read-committed": lambda each: _committed_reads(each, each.outcome.realtime),
    "cursor-stability": lambda each: _committed_reads(each) and _cursor(each),
    "monotonic-view": lambda each: _committed_reads(each) and _monotonic(each),
    "consistent-view": lambda each: _committed_reads(each) and _single(each),
    "forward-consistent-view": lambda each: _committed_reads(each) and _single(each),
    "update-serializable": lambda each: _committed_reads(each) and _updates(each),
    "repeatable-read": lambda each: not each.outcome.intermediate and acyclic(each.dependencies | each.rw),
    "serializable": lambda each: not each.outcome.intermediate and acyclic(each.dependencies | each.rw),
    "snapshot-isolation": lambda each: _committed_reads(each) and _snapshots(each, NONE),
    "strong-session-snapshot-isolation": lambda each: (
        _committed_reads(each) and _snapshots(each, each.outcome.sessions)
    ),
    "strong-snapshot-isolation": lambda each: _committed_reads(each) and _snapshots(each, each.outcome.realtime),
    "monotonic-atomic-view": lambda each: _monotonic_atomic(each, NONE),
    "strong-session-monotonic-atomic-view": lambda each: _monotonic_atomic(each, each.outcome.sessions),
    "read-atomic": _visible(_direct),
    "strong-session-read-atomic": _visible(_direct, sessions=True),
    "update-atomic": _visible(_updated),
    "causal-cerone": _visible(_causal),
    "strong-session-causal": _visible(_causal, sessions=True),
    "parallel-snapshot-isolation": _visible(_parallel),
    "prefix": _visible(_prefixes),
}
"""Whether an execution in which the versions of each key are in the order keeps a level."""

SNAPSHOT_BY_VISIBILITY: Final = _visible(_snapshot)
"""Snapshot isolation once more: `snapshot-isolation` must come out the same."""


def satisfied(history: Sequence[Txn]) -> dict[str, bool]:
    """For each of DEFINITIONS, whether some outcome and order of the transactions keeps it.

    The history has no anomaly that one transaction shows by itself: the definitions take that for granted.

    Raises:
        AssertionError: the two definitions of snapshot isolation differ.
    """
    found: dict[str, bool] = dict.fromkeys(DEFINITIONS, False)
    by_visibility = False
    for outcome in map(Outcome, outcomes(history)):
        for order in itertools.permutations(range(outcome.count)):
            execution = Execution(outcome, order)
            if not execution.follows:
                continue
            for level, holds in DEFINITIONS.items():
                found[level] = found[level] or holds(execution)
            by_visibility = by_visibility or SNAPSHOT_BY_VISIBILITY(execution)
            if all(found.values()) and by_visibility:
                return found
    assert by_visibility == found["snapshot-isolation"], f"snapshot isolation has two answers: {history}"
    return found


def outcomes(history: Sequence[Txn]) -> Iterator[list[Txn]]:
    """The transactions that committed: those that did for certain, and some of unknown outcome."""
    unknown = [txn for txn in history if txn.type == "info"]
    read = {each for txn in history if txn.type == "ok" for f, _, v in txn.mops if f == "r" for each in _values(v)}
    for size in range(len(unknown) + 1):
        for chosen in itertools.combinations(unknown, size):
            committed = [txn for txn in history if txn.type == "ok" or txn in chosen]
            if read <= {v for txn in committed for f, _, v in txn.mops if f != "r"}:
                yield committed


def _values(read: Any) -> tuple[int, ...]:
    if isinstance(read, tuple):
        return cast("tuple[int, ...]", read)
    return () if read is None else (read,)
