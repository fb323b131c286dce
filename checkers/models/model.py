"""What a model is: an initial state, and what each op makes of a state."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import msgspec

from splitbrain.results.errors import UsageError
from splitbrain.results.values import canonical_json

State: TypeAlias = Hashable


class Special(Enum):
    """Values that are none of JSON's."""

    IMPOSSIBLE = "impossible"
    UNKNOWN = "unknown"
    ANY = "any"


IMPOSSIBLE: Final = Special.IMPOSSIBLE
"""What `step` answers where the op cannot have that result in that state."""

UNKNOWN: Final = Special.UNKNOWN
"""The result of an op that crashed: any result that the model allows."""


class JsonObject(msgspec.Struct, frozen=True):
    """A JSON object in hashable form: its items, sorted by key."""

    items: tuple[tuple[str, Hashable], ...]


class JsonScalar(msgspec.Struct, frozen=True):
    """A JSON scalar that Python would take for equal to a whole number: true, false, 1.0."""

    text: str


def frozen(value: Any) -> Hashable:
    """A JSON value in hashable form: lists as tuples, objects as `JsonObject`.

    Equality is Python's, so that 1, 1.0 and true are one value: see `apart`.
    """
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return JsonObject(tuple(sorted((key, frozen(item)) for key, item in items)))
    return cast(Hashable, value)


def is_built_in(model: Model) -> bool:
    """Whether a model is of this package: what is known of those by name does not hold for a user's of that name."""
    return type(model).__module__.startswith("splitbrain.checkers.")


def apart(value: Hashable) -> Hashable:
    """A frozen value in which 1, 1.0 and true are three values.

    The latter two are each a `JsonScalar` (`splitbrain.results.values`).
    """
    if isinstance(value, tuple):
        return tuple(map(apart, cast("tuple[Hashable, ...]", value)))
    if isinstance(value, JsonObject):
        return JsonObject(tuple((key, apart(item)) for key, item in value.items))
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return JsonScalar(canonical_json(value))
    return value


class Model(Protocol):
    """A sequential, deterministic object.

    A model may have more members:

        owned = True
            Ops have an owner: where an invocation has no value, the op's process is its value.
        opaque = frozenset({"read"})
            Values are only compared. In all arguments, and in the results of these functions, 1, 1.0 and true are then
            three values (`apart`), as `splitbrain.results.values` says; the results of the others are answers such as
            True. Without it all are Python's: a model that computes with numbers.
        overwrites(f, value, result) -> bool
            Whether the op is possible in every state, leads from all of them to the same one and reveals nothing of
            the state before (a put). Leaving it out is always right; what it says must be true.
        facts(f, value, result) -> Facts | None
            What an op sees and leaves, place by place, from which violations are proven in linear time (`Facts`). None
            if it is unknown. Leaving it out is always right; what it says must be true.
        signature(calls) -> Callable[[State], Hashable]
            By what states differ for a history with these calls, each (f, value, result): the function must give equal
            signatures only to states from which the calls are possible in the same orders. Fewer states are searched.
        at_first(place) -> Hashable
            What a place of the facts holds at first. If it is left out, any value may be there.

    Attributes:
        name: as given to `--model`, without a parameter.
        fs: the functions that it knows; a history with any other is refused.
    """

    name: str
    fs: frozenset[str]

    def init(self) -> State:
        """The state before the first op."""
        ...

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """The state after an op, IMPOSSIBLE if the op cannot be answered with that result in that state.

        Pure: equal arguments give equal answers. With the result UNKNOWN every result is allowed.
        """
        ...

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """Whether the op leaves *every* state as it is (a read), so that the search need not branch on it.

        False is always right, and slower where the model has too many states to see it for itself. True must be true:
        a step that contradicts it is an error.
        """
        ...


@dataclass(frozen=True)
class Facts:
    """What an op says of the places of an object, if it takes effect (names of places are the model's own).

    A place comes to hold a value only by an op that `leaves` it there. So the facts of every op must name all that it
    may leave, also if it crashed; what it sees and misses need not be complete. A dequeue of 3 sees true in the place
    3, an enqueue of 3 leaves it there. An op that only takes away need not say so, where nothing sees that it is gone.

    Attributes:
        sees: the value that a place held just before.
        misses: a value that a place did not hold just before.
        leaves: the value that a place holds just after.
    """

    sees: Mapping[Hashable, Hashable] = field(default_factory=dict[Hashable, Hashable])
    misses: Mapping[Hashable, Hashable] = field(default_factory=dict[Hashable, Hashable])
    leaves: Mapping[Hashable, Hashable] = field(default_factory=dict[Hashable, Hashable])


class Assignment(msgspec.Struct, frozen=True):
    """A transition of an object that holds one value: a guard, and what the value becomes.

    Attributes:
        requires: the value that must be held, or ANY.
        refuses: a value that must not be held, or UNKNOWN for none.
        becomes: the new value, or ANY if it stays.
    """

    requires: Hashable = Special.ANY
    refuses: Hashable = Special.UNKNOWN
    becomes: Hashable = Special.ANY


class AssignmentModel:
    """An object that holds one value; each op is an `Assignment`. The search needs no table for these."""

    name: str
    fs: frozenset[str]
    initial: Hashable = None

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        """The guard and the effect of an op."""
        raise UsageError(
            f"model {type(self).__name__!r} derives from AssignmentModel and has no method `assignment`: write one."
        )

    def init(self) -> State:
        """The initial value."""
        return self.initial

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """Apply the assignment where its guard holds."""
        assignment = self.assignment(f, value, result)
        if assignment.requires is not Special.ANY and state != assignment.requires:
            return IMPOSSIBLE
        if assignment.refuses is not Special.UNKNOWN and state == assignment.refuses:
            return IMPOSSIBLE
        return state if assignment.becomes is Special.ANY else assignment.becomes

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """Whether nothing is assigned, or only the value that is held anyway."""
        assignment = self.assignment(f, value, result)
        return assignment.becomes is Special.ANY or (
            assignment.requires is not Special.ANY and assignment.requires == assignment.becomes
        )


class Addition(msgspec.Struct, frozen=True):
    """A transition of an object that holds a number: what is added, and what the sum must be then.

    Attributes:
        amount: may be negative.
        requires: the sum afterwards, or ANY.
    """

    amount: int | float = 0
    requires: int | float | Literal[Special.ANY] = Special.ANY


def whole(number: int | float) -> int | float:
    """The number, as an int if it is whole: equal sums are one state, and from there must go on alike.

    A sum of 2**53 as a float is equal to the int, but stays the same if 1 is added.
    """
    return int(number) if isinstance(number, float) and number.is_integer() else number


class AdditiveModel:
    """An object that holds a number; each op is an `Addition`. The search needs no table for these."""

    name: str
    fs: frozenset[str]
    initial: int | float = 0

    def addition(self, f: str, value: Any, result: Any) -> Addition:
        """The amount and the guard of an op."""
        raise UsageError(
            f"model {type(self).__name__!r} derives from AdditiveModel and has no method `addition`: write one."
        )

    def init(self) -> State:
        """The number at the beginning."""
        return self.initial

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """Add where the sum is as required."""
        addition = self.addition(f, value, result)
        total = whole(cast("int | float", state) + addition.amount)
        return total if addition.requires is Special.ANY or total == addition.requires else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """Whether nothing is added."""
        return self.addition(f, value, result).amount == 0
