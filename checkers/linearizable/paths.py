"""Final paths: the orders in which the last ops can have taken effect, up to the op that fits into none of them.

The frontier knows which configurations are possible, not how they came about. So the search is run once more on all but
the last events, and those are replayed here in plain Python by the same rule (expand when an op returns, and only what
lacks it), each configuration with the one that it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.linearizable.decoding import Configuration
from splitbrain.checkers.linearizable.depth_first import DepthFirst
from splitbrain.checkers.linearizable.encoding import events, rows_until
from splitbrain.checkers.linearizable.limits import Clock, Limits
from splitbrain.checkers.linearizable.ops import OPEN, Ops
from splitbrain.checkers.linearizable.search import Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import Special

WINDOWS: Final = (120, 60, 30, 12, 1)
"""Numbers of events before the violation that are tried for a replay, the longest first."""

EXPANSIONS: Final = 10_000
"""Configurations that are expanded in a window before a shorter one is tried."""

PATHS: Final = 10


@dataclass(frozen=True)
class Path:
    """One order.

    Attributes:
        begins: the state in which it begins.
        already: ops under way at its beginning that had taken effect by then.
        steps: (op, state after it), in order.
    """

    begins: Any
    already: list[int]
    steps: list[tuple[int, Any]]

    @property
    def ends(self) -> Any:
        """The state in which the failing op cannot take effect."""
        return self.steps[-1][1] if self.steps else self.begins


@dataclass(frozen=True)
class Paths:
    """Orders since an event, one per state in which they end.

    Attributes:
        since: row of the event.
        paths: those that use the fewest crashed ops first.
        states: how many different states these orders end in.
        every: whether they begin in every configuration that was possible, and not in one of them.
    """

    since: int
    paths: list[Path]
    states: int
    every: bool = True


def find(ops: Ops, stepper: Stepper, failing: int, limits: Limits) -> Paths | None:
    """The final paths of a prefix that ends with the return of op `failing`; None if there are too many to list.

    Args:
        ops: the partition.
        stepper: as it was used to find the violation.
        failing: the op whose return ends the smallest failing prefix.
        limits: time for the whole, memory for each search on what comes before the paths.
    """
    deadline = limits.clock() + limits.time_s
    until = int(ops.completed[failing])
    rows = _event_rows(ops, stepper, until)
    for window in WINDOWS:
        since = int(rows[max(len(rows) - 1 - window, 0)])
        if limits.clock() >= deadline:
            break
        known = _configurations_before(ops, stepper, since, until, limits, deadline)
        if known is None:
            continue
        starts, every = known
        try:
            found = _Replay(ops, stepper, failing, since, deadline, limits.clock).run(starts)
        except _TooManyError:
            continue
        if found.states:
            return replace(found, every=every)
    return None


def _event_rows(ops: Ops, stepper: Stepper, until: int) -> npt.NDArray[np.int64]:
    """Rows of all invocations, and of the completions of ops that did not crash, in order."""
    said = ~(ops.crashed & stepper.observer[ops.transition])
    ends = ops.completed[~ops.crashed & (ops.completed != OPEN)]
    return rows_until(until, ops.invoked[said], ends)


def _configurations_before(
    ops: Ops, stepper: Stepper, row: int, until: int, limits: Limits, deadline: float
) -> tuple[Sequence[Configuration], bool] | None:
    """Configurations that are possible before the event in `row`, and whether they are all; None at a limit.

    Each search gets half of the time that is left, so that there is some for another way, or for a later row.
    """
    if row <= int(ops.invoked[0]):
        return [Configuration(0, (), (), ())], True
    if not _half(limits, deadline).can_read(2 * int(np.searchsorted(ops.invoked, row))):
        return None
    problem = events(ops, stepper.observer, until_row=until)
    stop = int(np.searchsorted(_event_rows(ops, stepper, until), row))
    search = Search(problem, stepper, _half(limits, deadline), remember=True, stop=stop)
    result = search.run()
    if result.answer == "linearizable":
        return search.configurations(result), result.complete
    one = _one_configuration_before(ops, stepper, row, until, _half(limits, deadline))
    return None if one is None else ([one], False)


def _half(limits: Limits, deadline: float) -> Limits:
    return replace(limits, time_s=(deadline - limits.clock()) / 2)


def _one_configuration_before(ops: Ops, stepper: Stepper, row: int, until: int, limits: Limits) -> Configuration | None:
    """One of many: that of an explanation which goes on from `row` to the violation in row `until`."""
    number = np.flatnonzero(ops.invoked < until)
    under_way = ~ops.crashed[number] & (ops.completed[number] >= until)
    # What is under way at the violation, the failing op included, becomes optional as if it had crashed: then there is
    # an order.
    before = replace(
        ops,
        invoked=ops.invoked[number],
        completed=np.where(under_way, OPEN, ops.completed[number]),
        crashed=ops.crashed[number] | under_way,
        transition=ops.transition[number],
    )
    arm = DepthFirst(before, stepper, limits)
    if arm.run().answer != "linearizable":
        return None
    order = number[arm.order()].tolist()
    state, done, used = stepper.states.known[0], list[int](), list[int]()
    for op in order:
        if ops.invoked[op] >= row:
            break
        what = ops.transitions[int(ops.transition[op])]
        state = stepper.model.step(state, what.f, what.value, what.result)
        if ops.crashed[op]:
            used.append(op)
        elif ops.completed[op] >= row:
            done.append(op)
    return Configuration(stepper.states.number(state), tuple(done), (), tuple(used))


class _TooManyError(Exception):
    """There are more configurations than a replay in Python can look at, or than there is time for."""


@dataclass(frozen=True)
class _Node:
    """A configuration, and how it came about: by `taken` ops in order, after `parent`.

    `done` and `free` are sets of ops as bits. A free op may have taken effect unseen, right before another that
    overwrote it, or may still take effect.
    """

    state: Any
    done: int
    free: int
    parent: _Node | None
    taken: tuple[int, ...]


_Key: TypeAlias = tuple[Any, int, int]


class _Replay:
    def __init__(self, ops: Ops, stepper: Stepper, failing: int, since: int, deadline: float, clock: Clock) -> None:
        self._ops = ops
        self._stepper = stepper
        self._failing = failing
        self._since = since
        self._deadline = deadline
        self._clock = clock
        self._until = int(ops.completed[failing])
        self._observer = stepper.observer
        in_play = (ops.invoked < self._until) & (ops.crashed | (ops.completed >= since))
        self._in_play: list[int] = np.flatnonzero(in_play & ~(ops.crashed & self._observer[ops.transition])).tolist()
        self._bit = {op: 1 << place for place, op in enumerate(self._in_play)}
        self._crashed = sum(self._bit[op] for op in self._in_play if ops.crashed[op])
        self._mutators: list[int] = []
        self._observers: list[int] = []
        self._classes: dict[int, list[int]] = {}
        self._next: dict[tuple[Any, int], Any] = {}
        self._expanded = 0

    def run(self, starts: Iterable[Configuration]) -> Paths:
        """Replay the events of the window from every configuration that it can have begun with."""
        frontier = [self._start(configuration) for configuration in starts]
        for op in self._in_play:
            if self._ops.invoked[op] < self._since:
                self._call(op)
        for row, op in self._window():
            if row == int(self._ops.invoked[op]):
                self._call(op)
                frontier = self._observe(frontier, op) if op in self._observers else frontier
            else:
                tried, frontier = self._return(frontier, op)
                if op == self._failing:
                    return self._paths(tried)
        raise AssertionError("the failing op does not return")

    def _start(self, known: Configuration) -> _Node:
        done = sum(self._bit[op] for op in [*known.done, *known.used])
        free = sum(self._bit[op] for op in known.free)
        return _Node(self._stepper.states.known[known.state], done, free, None, ())

    def _window(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for op in self._in_play:
            rows = [int(self._ops.invoked[op])]
            rows += [] if self._ops.crashed[op] else [int(self._ops.completed[op])]
            found += [(row, op) for row in rows if self._since <= row <= self._until]
        return sorted(found)

    def _call(self, op: int) -> None:
        transition = int(self._ops.transition[op])
        if self._ops.crashed[op]:
            self._classes.setdefault(transition, []).append(op)
        else:
            (self._observers if self._observer[transition] else self._mutators).append(op)

    def _step(self, state: Any, op: int) -> Any:
        transition = int(self._ops.transition[op])
        key = (state, transition)
        if key not in self._next:
            what = self._ops.transitions[transition]
            self._next[key] = self._stepper.model.step(state, what.f, what.value, what.result)
        return self._next[key]

    def _possible(self, state: Any, op: int) -> bool:
        return self._step(state, op) is not Special.IMPOSSIBLE

    def _observe(self, frontier: list[_Node], op: int) -> list[_Node]:
        bit = self._bit[op]
        return [
            _Node(node.state, node.done | bit, node.free, node, (op,)) if self._possible(node.state, op) else node
            for node in frontier
        ]

    def _return(self, frontier: list[_Node], op: int) -> tuple[list[_Node], list[_Node]]:
        """What was tried to bring `op` about, and those in which it has taken effect."""
        bit = self._bit[op]
        seen = _Seen(self._crashed)
        queue = [node for node in frontier if seen.is_new(node)]
        through: list[_Node] = []
        place = 0
        while place < len(queue):
            node = queue[place]
            place += 1
            if node.done & bit:
                through.append(node)
                continue
            if node.free & bit:
                through.append(_Node(node.state, node.done | bit, node.free & ~bit, node, ()))
            queue += [child for child in self._children(node) if seen.is_new(child)]
            self._expanded += 1
            if self._expanded > EXPANSIONS or self._clock() > self._deadline:
                raise _TooManyError
        for called in (self._mutators, self._observers):
            if op in called:
                called.remove(op)
        return queue, self._distinct(through)

    def _distinct(self, nodes: list[_Node]) -> list[_Node]:
        seen = _Seen(self._crashed)
        return [node for node in nodes if seen.is_new(node)]

    def _children(self, node: _Node) -> list[_Node]:
        found: list[_Node] = []
        for op in self._mutators:
            if not node.done & self._bit[op]:
                found += self._child(node, op)
        for of_class in self._classes.values():
            # Of identical crashed ops the earliest: it is possible wherever a later one is.
            unused = next((op for op in of_class if not node.done & self._bit[op]), None)
            if unused is not None and self._step(node.state, unused) != node.state:
                found += self._child(node, unused)
        return found

    def _child(self, node: _Node, op: int) -> list[_Node]:
        state = self._step(node.state, op)
        if state is Special.IMPOSSIBLE:
            return []
        seen = [o for o in self._observers if not node.done & self._bit[o] and self._possible(state, o)]
        done = node.done | self._bit[op] | sum(self._bit[o] for o in seen)
        return [_Node(state, done, node.free & ~self._bit[op], node, (op, *seen))]

    def _paths(self, tried: list[_Node]) -> Paths:
        """One path per state, of those that use the fewest crashed ops the first."""
        by_state: dict[Any, _Node] = {}
        # The sort is stable: of equals the one that was found first, which is the same in each run.
        for node in sorted(tried, key=lambda node: (node.done & self._crashed).bit_count()):
            by_state.setdefault(node.state, node)
        return Paths(self._since, [self._path(node) for node in [*by_state.values()][:PATHS]], len(by_state))

    def _path(self, node: _Node) -> Path:
        steps: list[tuple[int, Any]] = []
        at = node
        while at.parent is not None:
            steps += [(op, at.state) for op in reversed(at.taken)]
            at = at.parent
        steps.reverse()
        stepped = {op for op, _ in steps}
        already = [op for op in self._in_play if node.done & self._bit[op] and op not in stepped]
        return Path(at.state, already, steps)


class _Seen:
    """Configurations that were met. Of two that differ in crashed ops only, the one that used fewer can do it all."""

    def __init__(self, crashed: int) -> None:
        self._crashed = crashed
        self._met: dict[_Key, list[int]] = {}

    def is_new(self, node: _Node) -> bool:
        """Whether no configuration met so far can do everything that this one can; records this one."""
        used = node.done & self._crashed
        met = self._met.setdefault((node.state, node.done & ~self._crashed, node.free), [])
        if any(before & ~used == 0 for before in met):
            return False
        met.append(used)
        return True
