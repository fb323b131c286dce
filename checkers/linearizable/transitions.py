"""A model as integers: states are interned, transitions numbered, and steps known in one of four forms.

An `AssignmentModel` needs no table at all, nor does an `AdditiveModel` of whole numbers. A model whose reachable states
are few is closed: every state is found and every cell computed beforehand, which also proves which ops are observers
(Knossos' memoisation). Every other model is asked lazily, for the cells that the search comes by, within a budget.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from itertools import islice
from typing import Any, Final, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.kernels import cpu_s, plainly
from splitbrain.checkers.linearizable.frontier import (
    ANY,
    ASSIGNMENTS,
    CLOSED,
    I32,
    IMPOSSIBLE,
    KEEP,
    LAZY,
    NEVER,
    SUMS,
    Steps,
    find_cell,
    move_cells,
    step,
)
from splitbrain.checkers.linearizable.frontier import UNKNOWN as MISSING
from splitbrain.checkers.linearizable.limits import Clock, Deadline
from splitbrain.checkers.linearizable.ops import Transition, show
from splitbrain.checkers.models import (
    UNKNOWN,
    AdditiveModel,
    Assignment,
    AssignmentModel,
    Model,
    Special,
    State,
    examined,
)
from splitbrain.results.errors import ModelError, UsageError
from splitbrain.results.text import clip

CLOSURE_CELLS: Final = 4_096
"""The largest number of cells that are computed beforehand; a model with more is evaluated lazily."""

CLOSURE_STATES: Final = 32
"""A model with more states than these and two for each transition is taken to have no end of them."""

CLOSURE_S: Final = 0.25
"""CPU seconds of a closure after which a slow model is asked lazily, by those that have a clock to look at."""

ENTRY_BYTES: Final = 200
"""What a state takes in the list and the dictionary of states, beside itself."""

MEASURED: Final = 64
"""Elements of a state that are measured; the others are taken to be as large on average."""

CELL_BYTES: Final = 12

SUMS_MAX: Final = 1 << 20
"""The largest number of sums of an additive model that are numbered beforehand."""

_NO_I32: Final[I32] = np.zeros(1, np.int32)


class TooManyCellsError(Exception):
    """The lazy table reached its budget."""


class OutOfMemoryError(Exception):
    """What a search needs exceeds the limit."""


class States:
    """States by number, in the order in which they were met.

    Attributes:
        known: the states; of those that a model need not distinguish, the one that was met first.
        several: numbers that stand for several states.
        bytes: about what they take. Elements that states share are counted for each of them.
    """

    def __init__(self, model: Model, transitions: Sequence[Transition] = ()) -> None:
        self.model = model
        self.known: list[Any] = []
        self.several: set[int] = set()
        self.bytes = 0
        self._number: dict[Any, int] = {}
        self._signature = _signature(model, transitions)

    def number(self, state: Any) -> int:
        """The number of a state, a new one if it is new.

        Raises:
            UsageError: the state is not hashable.
        """
        try:
            known_by = state if self._signature is None else self._signature(state)
            found = self._number.get(known_by)
        except TypeError as error:
            raise UsageError(
                f"model {self.model.name!r} has the state {state!r}, which is not hashable: use tuples and frozensets."
            ) from error
        if found is None:
            found = self._number[known_by] = len(self.known)
            self.known.append(state)
            self.bytes += _size(state) + ENTRY_BYTES
        elif self._signature is not None and self.known[found] != state:
            self.several.add(found)
        return found


def _signature(model: Model, transitions: Sequence[Transition]) -> Callable[[State], Hashable] | None:
    """What distinguishes states, where the model says it."""
    make = getattr(model, "signature", None)
    if make is None:
        return None
    try:
        return make([(t.f, t.value, t.result) for t in transitions])
    except Exception as error:
        raise UsageError(
            f"model {model.name!r} failed on its signature: {type(error).__name__}: {error}. Correct or remove it."
        ) from error


def _size(state: Any) -> int:
    """About the bytes of a state: its own, and those of the elements of a tuple or a frozenset."""
    own = sys.getsizeof(state)
    if not isinstance(state, tuple | frozenset) or not state:
        return own
    count = len(cast("Sized", state))
    measured = min(count, MEASURED)
    return own + sum(map(sys.getsizeof, islice(cast("Iterable[Any]", state), measured))) * count // measured


class Stepper:
    """Steps of one model on the transitions of one partition.

    Attributes:
        states: every state met so far; number 0 is the initial one.
        observer: by transition, whether it is known to change no reachable state.
        overwrite: by transition, whether it is known to be possible in every reachable state, with one next state.
        alike: by transition, the first that is known to be the same in every reachable state.
        memory_bytes: the limit on `bytes`, as far as that grows by `fill`.
        steps: what the kernel steps with; replaced as a lazy table grows.
    """

    def __init__(
        self,
        model: Model,
        transitions: list[Transition],
        *,
        cells: int,
        memory_bytes: int = 1 << 30,
        closure_s: float = math.inf,
        clock: Clock = cpu_s,
        ops: Sequence[int] | None = None,
    ) -> None:
        """Prepare the steps of `model`.

        Args:
            model: what steps.
            transitions: on what.
            cells: cells in a lazy table, at most.
            memory_bytes: what states and a lazy table may take together.
            closure_s: CPU seconds after which a model is no longer closed, but asked lazily.
            clock: counts them.
            ops: how many ops have each transition, if none has more: it bounds the sums of an additive model.
        """
        self.model = model
        self.transitions = transitions
        self.states = States(model, transitions)
        self._ask = examined(model)
        self.states.number(model.init())
        self.observer: npt.NDArray[np.bool_] = np.zeros(len(transitions), np.bool_)
        self.overwrite: npt.NDArray[np.bool_] = np.zeros(len(transitions), np.bool_)
        self.alike: I32 = np.arange(len(transitions), dtype=np.int32)
        self._target: dict[int, int] = {}
        self._budget = cells
        self.memory_bytes = memory_bytes
        self._filled = 0
        if steps_by_assignment(model):
            self.steps = self._assignments(model)
        else:
            self.steps = self._sums(ops) or self._closed(closure_s, clock) or self._lazy()

    @property
    def mode(self) -> str:
        """How steps are known, in words."""
        return {ASSIGNMENTS: "assignments", SUMS: "sums", CLOSED: "closed table", LAZY: "lazy table"}[self.steps.mode]

    @property
    def bytes(self) -> int:
        """What states and the table of steps take."""
        arrays = [each for each in self.steps if isinstance(each, np.ndarray)]
        return self.states.bytes + sum(each.nbytes for each in arrays)

    def fill(self, state: int, transitions: list[int]) -> None:
        """Compute the cells of `state` for those transitions that are missing.

        Raises:
            TooManyCellsError: the table is at its budget.
            OutOfMemoryError: states and the table take more than they may.
            UsageError: the model failed, or contradicts itself.
        """
        width = self.steps.width
        for transition in transitions:
            key = state * width + transition
            at = find_cell(self.steps.cell_key, key)
            if self.steps.cell_key[at] == key:
                continue
            following = self._step(state, transition)
            self._confirm(state, transition, following)
            if self.states.bytes + CELL_BYTES * self.steps.cell_key.size > self.memory_bytes:
                raise OutOfMemoryError
            self.steps.cell_key[at] = key
            self.steps.cell_next[at] = following
            self._filled += 1
            # At most half full: places are probed one after the other, and an empty one ends the search.
            if 2 * self._filled > self.steps.cell_key.size:
                self._grow()

    def following(self, state: int, transition: int) -> int:
        """The number of the state after a transition, IMPOSSIBLE if there is none; for those who ask one by one.

        Raises:
            TooManyCellsError, OutOfMemoryError, UsageError: as `fill`.
        """
        found = plainly(step, self.steps, state, transition)
        if found == MISSING:
            self.fill(state, [transition])
            found = plainly(step, self.steps, state, transition)
        return int(found)

    def confirm_observers(self, transitions: Iterable[int]) -> None:
        """Ask the model whether ops that it says observe really change no state that the search met.

        The search never steps a crashed observer, for it says nothing: that the model was right about it is seen here.

        Raises:
            UsageError: the model failed, or contradicts itself.
        """
        if self.steps.mode == LAZY:
            claimed = [transition for transition in transitions if self.observer[transition]]
            for state in range(len(self.states.known) if claimed else 0):
                for transition in claimed:
                    self._confirm(state, transition, self._step(state, transition))

    def _confirm(self, state: int, transition: int, following: int) -> None:
        """Refuse a step that contradicts what the model says of its ops."""
        target = self._target.setdefault(transition, following)
        if self.overwrite[transition] and (following != target or following == IMPOSSIBLE):
            raise ModelError(
                f"model {self.model.name!r} says that {self.transitions[transition]} overwrites, yet what it leaves "
                f"depends on the state, as in {clip(show(self.states.known[state]))}: correct the model's "
                "`overwrites`.",
                transition,
            )
        if self.observer[transition] and following not in (state, IMPOSSIBLE):
            raise ModelError(
                f"model {self.model.name!r} says that {self.transitions[transition]} observes, yet it "
                f"changes the state {clip(show(self.states.known[state]))}: correct the model's `observes`.",
                transition,
            )

    def _step(self, state: int, transition: int) -> int:
        what = self.transitions[transition]
        try:
            following = self._ask(self.states.known[state], what.f, what.value, what.result)
        except UsageError:
            raise
        except Exception as error:
            raise ModelError(
                f"model {self.model.name!r} failed on {what} in the state {clip(show(self.states.known[state]))}: "
                f"{type(error).__name__}: {error}",
                transition,
            ) from error
        return IMPOSSIBLE if following is Special.IMPOSSIBLE else self.states.number(following)

    def _assignments(self, model: AssignmentModel) -> Steps:
        requires = np.full(len(self.transitions), ANY, np.int32)
        becomes = np.full(len(self.transitions), KEEP, np.int32)
        for t, assignment in enumerate(assignments(model, self.transitions)):
            if assignment.requires is not Special.ANY:
                if assignment.refuses is not Special.UNKNOWN and assignment.refuses == assignment.requires:
                    raise ModelError(
                        f"model {model.name!r} requires and refuses {show(assignment.requires)} for "
                        f"{self.transitions[t]}: correct the model's `assignment`.",
                        t,
                    )
                requires[t] = self.states.number(assignment.requires)
            elif assignment.refuses is not Special.UNKNOWN:
                requires[t] = -2 - self.states.number(assignment.refuses)
            if assignment.becomes is not Special.ANY:
                becomes[t] = self.states.number(assignment.becomes)
            # To leave the value that it requires changes nothing.
            self.observer[t] = becomes[t] in (KEEP, requires[t])
        self.overwrite = (requires == ANY) & (becomes != KEEP)
        self.alike = _first_alike(np.stack([requires, becomes], axis=1))
        return Steps(ASSIGNMENTS, len(requires), requires, becomes, _NO_I32, np.full(1, -1, np.int64), _NO_I32)

    def _sums(self, ops: Sequence[int] | None) -> Steps | None:
        """Steps that add; None if the model is not additive, its numbers are not whole, or its sums too many.

        Sums are numbered modulo how many there are: so the initial one is 0, and those below it come last.
        """
        initial = self.states.known[0]
        if ops is None or not adds(self.model) or type(initial) is not int:
            return None
        try:
            additions = [self.model.addition(t.f, t.value, t.result) for t in self.transitions]
        except Exception:
            return None  # the first step that is asked for says what is wrong
        amounts = [addition.amount for addition in additions]
        if any(type(amount) is not int for amount in amounts):
            return None
        most = sum(times * max(int(amount), 0) for times, amount in zip(ops, amounts, strict=True))
        least = sum(times * min(int(amount), 0) for times, amount in zip(ops, amounts, strict=True))
        if most - least >= SUMS_MAX:
            return None
        count = most - least + 1
        for number in range(1, count):
            self.states.number(initial + (number if number <= most else number - count))
        sums = {state: number for number, state in enumerate(self.states.known)}
        guards = [a.requires if a.requires is Special.ANY else sums.get(a.requires, NEVER) for a in additions]
        requires = np.array([ANY if guard is Special.ANY else guard for guard in guards], np.int32)
        becomes = np.array([int(amount) % count for amount in amounts], np.int32)
        self.observer = becomes == 0
        self.alike = _first_alike(np.stack([requires, becomes], axis=1))
        modulus = np.array([count], np.int32)
        return Steps(SUMS, len(requires), requires, becomes, modulus, np.full(1, -1, np.int64), _NO_I32)

    def _closed(self, seconds: float, clock: Clock) -> Steps | None:
        """The whole table, found by closure from the initial state; None if it is large, has no end, or takes too long.

        A history of few ops is judged in less time than it takes to close a large table of which it needs a corner.
        """
        width = len(self.transitions)
        rows: list[list[int]] = []
        deadline = Deadline(clock, seconds)
        # Breadth first: states are numbered as they are met, so that the next row is that of the next number.
        while len(rows) < len(self.states.known):
            states = len(self.states.known)
            if states * width > CLOSURE_CELLS or states > CLOSURE_STATES + 2 * width:
                return None
            row: list[int] = []
            for t in range(width):
                if deadline.has_passed():
                    return None
                row.append(self._step(len(rows), t))
            rows.append(row)
        dense = np.array(rows, np.int32).reshape(len(rows), width)
        own = np.arange(len(rows), dtype=np.int32)[:, None]
        self.observer = np.asarray(((dense == own) | (dense == IMPOSSIBLE)).all(axis=0), np.bool_)
        self.overwrite = np.asarray(
            (dense[0] != IMPOSSIBLE) & (dense == dense[0]).all(axis=0) & ~self.observer, np.bool_
        )
        self.alike = _first_alike(dense.T)
        return Steps(CLOSED, width, _NO_I32, _NO_I32, dense.reshape(-1), np.full(1, -1, np.int64), _NO_I32)

    def _lazy(self) -> Steps:
        self.observer = np.array([self.model.observes(t.f, t.value, t.result) for t in self.transitions], np.bool_)
        overwrites = getattr(self.model, "overwrites", _says_nothing)
        self.overwrite = np.array([overwrites(t.f, t.value, t.result) for t in self.transitions], np.bool_)
        self.overwrite &= ~self.observer
        size = 1 << 12
        return Steps(
            LAZY,
            len(self.transitions),
            _NO_I32,
            _NO_I32,
            _NO_I32,
            np.full(size, -1, np.int64),
            np.zeros(size, np.int32),
        )

    def _grow(self) -> None:
        if self._filled >= self._budget:
            raise TooManyCellsError
        old = self.steps
        size = 2 * old.cell_key.size
        if self.bytes + CELL_BYTES * size > self.memory_bytes:
            raise OutOfMemoryError
        key, following = np.full(size, -1, np.int64), np.zeros(size, np.int32)
        move_cells(old.cell_key, old.cell_next, key, following)
        self.steps = old._replace(cell_key=key, cell_next=following)


def _says_nothing(*_: Any) -> bool:
    """What a model says of its overwrites that has no `overwrites`."""
    return False


def _first_alike(rows: npt.NDArray[np.int32]) -> I32:
    """The number of the first row that equals each row."""
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first[inverse.reshape(-1)].astype(np.int32)


def steps_by_assignment(model: Model) -> TypeGuard[AssignmentModel]:
    """Whether a model's steps are its assignments: not if a subclass has a `step` of its own."""
    return isinstance(model, AssignmentModel) and type(model).step is AssignmentModel.step


def adds(model: Model) -> TypeGuard[AdditiveModel]:
    """Whether a model's steps are its additions: not if a subclass has a `step` or an `observes` of its own."""
    if not isinstance(model, AdditiveModel):
        return False
    own = type(model)
    return own.step is AdditiveModel.step and own.observes is AdditiveModel.observes


def assignments(model: AssignmentModel, transitions: list[Transition]) -> list[Assignment]:
    """The assignment of each transition.

    Raises:
        UsageError: the model cannot make sense of a value.
    """
    found: list[Assignment] = []
    for number, what in enumerate(transitions):
        try:
            assignment = model.assignment(what.f, what.value, what.result)
        except Exception as error:
            answered = "" if what.result is UNKNOWN else f" and result {show(what.result)}"
            raise ModelError(
                f"model {model.name!r} cannot make sense of {what.f} with value {show(what.value)}{answered}: "
                f"{type(error).__name__}: {error}",
                number,
            ) from error
        found.append(assignment)
    return found
