"""One key's history in segments: where it may be cut, what a segment does to the state, and how segments compose.

At a *quiescent* point nothing is under way, and nothing that crashed before may still take effect. Every op before it
took effect before every op after it, so that the only thing that passes is the state: the history is linearizable
exactly if there is a state at each cut through which its segments are. What a segment makes of every state that it may
begin in is a relation; relations are computed apart from each other, in any order and anywhere, and composed in order.

Which states a segment may begin in is decided without its past:

- An `AssignmentModel` compares the value that it holds with those in the guards of the segment's ops, and with nothing
  else. Any two values that no guard mentions are therefore alike: the same ops are possible from both, and both are
  replaced by the same value at the first assignment, or stay until the end. One symbol, SAME, stands for all of them,
  and at the end for "as it was at the beginning".
- A closed table lists all states that the whole history can reach.
- A model with any other states is not cut.

Few of the states in which a segment could begin matter for long: the first read is possible in one of them, and the
first write makes all of them alike. So searches from different states are compared after some events, those that have
come to the same frontier go on as one, and a segment costs hardly more than its part of the whole history.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from splitbrain.checkers import kernels
from splitbrain.checkers.linearizable.encoding import Problem, events
from splitbrain.checkers.linearizable.frontier import CRASH
from splitbrain.checkers.linearizable.occasions import could_be_wrong
from splitbrain.checkers.linearizable.ops import I64, OPEN, B, Ops, Transition, read_ops
from splitbrain.checkers.linearizable.search import Limits, Result, Search
from splitbrain.checkers.linearizable.transitions import Stepper, assignments, steps_by_assignment
from splitbrain.checkers.long_histories import LongHistory
from splitbrain.checkers.models import Assignment, Model, Special, State

SEGMENT_ROWS: Final = 40_000
"""The least number of rows of a segment, two per op. A segment is the work of a task, so it should be worth one."""

FIRST_PIECE: Final = 64
"""The least number of ops of a segment's first piece; each next one is twice as long once few states are left."""

FIRST_PROBE: Final = 128
"""Events after which the searches from different states are compared for the first time."""

PROBE_GROWTH: Final = 4
"""How many times as many events lie before the next comparison: all before the last cost a third of that."""

MOST_BEGINNINGS: Final = 256
"""A segment that could begin in more states is not worth being judged by itself."""

MOST_APART: Final = 16
"""Nor is one that is to be searched to its end from more states than this."""

COLUMNS: Final = ("index", "process", "type", "f", "value")
"""The columns of a history that cuts and relations depend on."""


class Unchanged(Enum):
    """The state in which a segment began, whichever of those that it does not mention that was."""

    SAME = "same"


SAME: Final = Unchanged.SAME
States: TypeAlias = frozenset[State]


# --- where to cut -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How the history of a key is cut.

    Attributes:
        cuts: the history's index at which each segment but the first begins, ascending; none if it is not cut.
        why_not: why it is not cut, as the end of a sentence; empty if it is.
        ops: how many ops clients invoked.
        judged: how many of them may have happened.
        crashed: how many of them crashed.
        vocabulary: the transitions of the whole history, where the states that a segment may begin in depend on them
            (a closed table); else None.
        exercised: whether any op could have been wrong.
    """

    cuts: tuple[int, ...]
    why_not: str
    ops: int
    judged: int
    crashed: int
    vocabulary: list[Transition] | None = None
    exercised: bool = True


def plan(
    table: pa.Table, model: Model, *, functions: Collection[str] | None = None, segment_rows: int = SEGMENT_ROWS
) -> Plan:
    """Where to cut the history of one key.

    Args:
        table: its rows by index; only `COLUMNS` are looked at.
        model: what it is judged by.
        functions: those that are judged; None for all.
        segment_rows: rows of a segment, at least; but the last one may have fewer.

    Raises:
        HistoryFormatError, UsageError: as `read_ops` and `Stepper`.
    """
    ops = read_ops(table, model, functions)
    stepper = Stepper(model, ops.transitions, cells=Limits.cells)
    assigned = steps_by_assignment(model)
    invoked, judged, crashed = ops.called, len(ops.invoked), int(np.count_nonzero(ops.crashed))
    exercised = could_be_wrong(ops, model)
    whole = Plan((), "", invoked, judged, crashed, None if assigned else ops.transitions, exercised)
    # States that one segment cannot distinguish, another one may: a table made smaller by signatures is not cut.
    if not assigned and (stepper.mode != "closed table" or hasattr(model, "signature")):
        return replace(whole, why_not=f"a segment could begin in any state of the model {model.name!r}")
    rows = quiescent(ops, stepper.observer)
    rows_of_clients = _table(ops)
    count = rows_of_clients.num_rows
    # Equal lengths: a short rest would cost a task of its own.
    distance = count // max(1, count // segment_rows)
    chosen = _spaced(rows, distance)
    if len(chosen) == 0:
        return replace(whole, why_not=_why_not(ops, stepper.observer, rows, distance))
    index = rows_of_clients.column("index").to_numpy()
    return replace(whole, cuts=tuple(int(cut) for cut in index[chosen]))


def _table(ops: Ops) -> pa.Table:
    """The rows of clients: segments are parts of tables."""
    if isinstance(ops.table, LongHistory):
        raise AssertionError("a long history is not cut")
    return ops.table


def quiescent(ops: Ops, observer: B) -> I64:
    """Rows (of `ops.table`, not the first) before which nothing is under way and no crashed op may still take effect.

    A crashed op that observes changes nothing whenever it happens, so it never matters. Failed ops did not happen, but
    count as under way: no op then has its rows on both sides of a cut, except a crashed one that does not matter.
    """
    types = _table(ops).column("type").to_numpy()
    change = np.where(types == "invoke", 1, -1)
    ignored = ops.crashed & observer[ops.transition]
    change[ops.invoked[ignored]] = 0
    change[ops.completed[ignored & (ops.completed != OPEN)]] = 0
    free = np.cumsum(change)[:-1] == 0
    mutators = ops.invoked[ops.crashed & ~ignored]
    if len(mutators):
        free[mutators[0] :] = False
    return (np.flatnonzero(free) + 1).astype(np.int64)


def _spaced(rows: I64, distance: int) -> list[int]:
    """The first of `rows` that is `distance` or more from the beginning, the first so far from that one, and so on."""
    chosen: list[int] = []
    at = 0
    while (place := int(np.searchsorted(rows, at + max(1, distance)))) < len(rows):
        at = int(rows[place])
        chosen.append(at)
    return chosen


def _why_not(ops: Ops, observer: B, rows: I64, distance: int) -> str:
    mutators = ops.invoked[ops.crashed & ~observer[ops.transition]]
    if len(mutators) and int(mutators[0]) < distance:
        index = ops.cell("index", int(mutators[0]))
        return f"op {index} crashed and may have taken effect at any later time"
    if len(rows) == 0:
        return "at no moment was nothing under way"
    return f"at no moment after its first {distance} rows was nothing under way"


def rows_of(table: pa.Table) -> pa.Table:
    """The rows of a segment, without completions whose invocations are in an earlier one: crashed observers'."""
    processes = table.column("process").to_numpy()
    first = np.unique(processes, return_index=True)[1]
    orphans = first[table.column("type").to_numpy()[first] != "invoke"]
    return table if len(orphans) == 0 else table.take(np.delete(np.arange(table.num_rows), orphans))


# --- what a segment does ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Relation:
    """The states in which a part of a history may end, by the state in which it begins.

    Attributes:
        named: by state; no states where the part is impossible from there.
        other: for every state that is not named; SAME stands for that state.
    """

    named: Mapping[State, States]
    other: States

    def after(self, state: State) -> States:
        """The states in which the part may end that begins in `state`."""
        found = self.named.get(state)
        if found is not None:
            return found
        return frozenset(state if end is SAME else end for end in self.other)

    def image(self, states: Iterable[State]) -> States:
        """The states in which the part may end that begins in one of `states`."""
        return frozenset[State]().union(*map(self.after, states))


class UndecidedError(Exception):
    """A limit was reached before a relation was known; the text says which, as in "ran out of time"."""


@dataclass(frozen=True)
class Segment:
    """What became of a segment.

    Attributes:
        relation: what it does to the state.
        ops: how many ops it has that may have happened.
        peak: the largest frontier of any search.
        expanded: configurations that were expanded, in all searches.
        searches: how many searches it took.
        concurrency: how many ops were under way at once, at most (crashed ones not counted).
        seconds: CPU time.
    """

    relation: Relation
    ops: int
    peak: int
    expanded: int
    searches: int
    concurrency: int
    seconds: float


def segment(
    table: pa.Table,
    model: Model,
    vocabulary: list[Transition] | None,
    limits: Limits,
    functions: Collection[str] | None = None,
) -> Segment:
    """Work out the relation of a segment.

    Args:
        table: its rows by index, as between two cuts of a `Plan`.
        model: what the history is judged by.
        vocabulary: as in the plan.
        limits: for the segment.
        functions: those that are judged; None for all.

    Raises:
        UndecidedError: a limit was reached.
        HistoryFormatError, UsageError: as `read_ops` and `Stepper`.
    """
    ops = read_ops(rows_of(table), model, functions)
    if vocabulary is not None:
        ops = _renumbered(ops, vocabulary)
    return _Working(ops, Stepper(model, ops.transitions, cells=limits.cells), limits).run()


def _renumbered(ops: Ops, vocabulary: list[Transition]) -> Ops:
    """The ops with the transitions of the whole history, of which theirs are some.

    They differ if their texts differ: 1 and true are equal to Python, and not to every model.
    """
    place = {repr(transition): number for number, transition in enumerate(vocabulary)}
    own = np.array([place[repr(transition)] for transition in ops.transitions], np.int32)
    return replace(ops, transition=own[ops.transition] if len(own) else ops.transition, transitions=vocabulary)


class _Working:
    """A segment being worked out."""

    def __init__(self, ops: Ops, stepper: Stepper, limits: Limits) -> None:
        self._ops = ops
        self._stepper = stepper
        self._limits = limits
        self._began = kernels.cpu_s()
        self._peak = self._expanded = self._searches = 0

    def run(self) -> Segment:
        if not len(self._ops.invoked):
            return Segment(Relation({}, frozenset({SAME})), 0, 0, 0, 0, 0, 0.0)
        stepper = self._stepper
        if steps_by_assignment(stepper.model):
            begins = [*_beginnings(self._ops, assignments(stepper.model, stepper.transitions)), SAME]
        else:
            begins = stepper.states.known.copy()
        if len(begins) > MOST_BEGINNINGS:
            raise UndecidedError(f"could begin in {len(begins)} states, too many to try")
        problem = events(self._ops, stepper.observer)
        alike = self._alike(problem, [[stepper.states.number(state)] for state in begins])
        if len(alike) > MOST_APART:
            raise UndecidedError(f"would have to be searched from {len(alike)} states")
        ends: dict[State, States] = dict.fromkeys([SAME, *begins], frozenset())
        for numbers in alike:
            result = self._search(problem, numbers[0])
            if result is not None:
                states = frozenset(stepper.states.known[int(state)] for state in np.unique(result.frontier[:, 0]))
                ends.update((stepper.states.known[number], states) for number in numbers)
        return Segment(
            relation=_relation(ends),
            ops=len(self._ops.invoked),
            peak=self._peak,
            expanded=self._expanded,
            searches=self._searches,
            concurrency=problem.slots,
            seconds=kernels.cpu_s() - self._began,
        )

    def _alike(self, problem: Problem, groups: list[list[int]]) -> list[list[int]]:
        """States in which the segment is possible for a while, together where they have come to the same by then.

        Equal frontiers after equal events have one future. Where an op has crashed already they may not look it: what
        was used of crashed ops is not written down in the same way in every search.
        """
        stop, kinds = FIRST_PROBE, problem.events.kind
        while len(groups) > 1 and stop < len(kinds) and not np.any(kinds[:stop] == CRASH):
            found: dict[bytes, list[int]] = {}
            for group in groups:
                result = self._search(problem, group[0], stop)
                if result is not None:
                    found.setdefault(np.unique(result.frontier, axis=0).tobytes(), []).extend(group)
            groups = list(found.values())
            stop *= PROBE_GROWTH
        return groups

    def _search(self, problem: Problem, state: int, stop: int | None = None) -> Result | None:
        """A search from one state, up to an event; None if nothing is possible from there."""
        left = self._limits.time_s - (kernels.cpu_s() - self._began)
        if left <= 0:
            raise UndecidedError("ran out of time")
        result = Search(problem, self._stepper, replace(self._limits, time_s=left), [state], stop=stop).run()
        self._searches += 1
        self._peak = max(self._peak, result.peak)
        self._expanded += result.expanded
        if result.answer == "violation":
            return None
        if result.answer != "linearizable":
            raise UndecidedError(f"ran out of {result.answer}")
        return result


def _beginnings(ops: Ops, of_transition: Sequence[Assignment]) -> set[State]:
    """The values that the first one may be compared with, in some order of the ops.

    Once an op has returned that assigns, no op that begins then comes before it, so that none meets the first value.
    """
    assigns = np.array([each.becomes is not Special.ANY for each in of_transition])
    certain = assigns[ops.transition] & ~ops.crashed
    returned = int(ops.completed[certain].min(initial=ops.table.num_rows))
    found: set[State] = set()
    for transition in np.unique(ops.transition[ops.invoked < returned]):
        each = of_transition[int(transition)]
        found |= {each.requires} - {Special.ANY}
        found |= {each.refuses} - {Special.UNKNOWN}
    return found


def _relation(ends: Mapping[State, States]) -> Relation:
    """The relation with these ends, SAME's for all others; only what differs from those has to be named."""
    rest = Relation({}, ends[SAME])
    return Relation({state: end for state, end in ends.items() if end != rest.after(state)}, rest.other)


# --- all segments together --------------------------------------------------------------------------------------------


def first_impossible(relations: Sequence[Relation], initial: State) -> int | None:
    """The number of the first segment that is impossible from every state that may precede it; None if none is.

    A history is linearizable exactly if there is none; else its smallest failing prefix ends in that segment.
    """
    states: States = frozenset({initial})
    for number, relation in enumerate(relations):
        states = relation.image(states)
        if not states:
            return number
    return None
