"""What a correct object does, one op at a time: sequential models, in plain Python.

A model has an initial state and a step. Any object with the members of `Model` will do, given as `module:attribute`.
States must be hashable and are compared with `==`. Values come in hashable form (`frozen`): JSON lists as tuples, JSON
objects as `JsonObject`.

A completion's value is the *result* of an op; the result of a crashed op is `UNKNOWN`. Functions and their values:

    read            result: the value read, None where there is none
    write           value: what to write
    cas             value: [expected, new]; result False says that the compare was seen not to match. Only formats that
                    record such an answer (Porcupine's, compact) have it; elsewhere a failed cas is a `fail` and is gone
    create          value: the writer's own id; ok once, the loser's create is a `fail`
    acquire, release
    add             value: an element (of a set) or an amount (of a counter)
    get, put, append   strings, as in Porcupine's key-value store
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, cast

import msgspec

from results.errors import UnknownNameError, UsageError

State: TypeAlias = Hashable


class Special(Enum):
    """Values that are none of JSON's."""

    IMPOSSIBLE = "impossible"
    UNKNOWN = "unknown"
    ANY = "any"


IMPOSSIBLE: Final = Special.IMPOSSIBLE
"""What `step` answers where the op cannot have that result in that state."""

UNKNOWN: Final = Special.UNKNOWN
"""The result of an op that crashed: whatever the model allows."""


class JsonObject(msgspec.Struct, frozen=True):
    """A JSON object in hashable form: its items, sorted by key."""

    items: tuple[tuple[str, Hashable], ...]


def frozen(value: Any) -> Hashable:
    """A JSON value in hashable form: lists as tuples, objects as `JsonObject`.

    Equality is Python's, so that 1, 1.0 and true are one value.
    """
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return JsonObject(tuple(sorted((key, frozen(item)) for key, item in items)))
    return cast(Hashable, value)


class Model(Protocol):
    """A sequential, deterministic object.

    Attributes:
        name: as given to `--model`.
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


def _read(result: Any) -> Assignment:
    return Assignment() if result is UNKNOWN else Assignment(requires=result)


class Register(AssignmentModel):
    """A value that is read and written."""

    name = "register"
    fs = frozenset({"read", "write"})

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        """A read requires what it returned; a write is always possible."""
        return _read(result) if f == "read" else Assignment(becomes=value)


class CasRegister(AssignmentModel):
    """A register with compare-and-set."""

    name = "cas-register"
    fs = frozenset({"read", "write", "cas"})

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        """As a register; a cas requires the expected value, a cas that was seen not to match refuses it.

        A cas that crashed and did not match changed nothing: as if it had not happened, which is allowed anyway.
        """
        if f == "read":
            return _read(result)
        if f == "write":
            return Assignment(becomes=value)
        expected, new = value
        return Assignment(refuses=expected) if result is False else Assignment(requires=expected, becomes=new)


class CreateOnce(AssignmentModel):
    """A name that is declared once: exactly one create succeeds, and every later read returns its value."""

    name = "create-once"
    fs = frozenset({"read", "create"})

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        """A create requires that there is nothing yet."""
        return _read(result) if f == "read" else Assignment(requires=None, becomes=value)


class Mutex(AssignmentModel):
    """A lock that is held or free."""

    name = "mutex"
    fs = frozenset({"acquire", "release"})
    initial = "free"

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        """Acquire requires a free lock, release a held one."""
        if f == "acquire":
            return Assignment(requires="free", becomes="held")
        return Assignment(requires="held", becomes="free")


class GrowSet:
    """A set to which elements are added; a read returns all of them, in any order."""

    name = "set"
    fs = frozenset({"add", "read"})

    def init(self) -> State:
        """The empty set."""
        return frozenset[Hashable]()

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """A read requires exactly the elements that it returned, each once."""
        elements = cast("frozenset[Hashable]", state)
        if f == "add":
            return elements | {value}
        if result is UNKNOWN:
            return elements
        listed = cast("tuple[Hashable, ...]", () if result is None else result)
        return elements if len(listed) == len(elements) and elements.issuperset(listed) else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """A read does."""
        return f == "read"


class Counter:
    """A number to which amounts are added; None counts as 0 in a read."""

    name = "counter"
    fs = frozenset({"add", "read"})

    def init(self) -> State:
        """Zero."""
        return 0

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """An add is always possible; a read requires the sum so far."""
        total = cast(int, state)
        if f == "add":
            return total + value
        return total if result is UNKNOWN or (result or 0) == total else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """A read does."""
        return f == "read"


class KeyValue:
    """One key of a string store: get, put, append (Porcupine's kv model); a missing key is the empty string."""

    name = "kv"
    fs = frozenset({"get", "put", "append"})

    def init(self) -> State:
        """The empty string."""
        return ""

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """Put and append are always possible; a get requires the string."""
        text = cast(str, state)
        if f == "put":
            return value
        if f == "append":
            return text + value
        return text if result is UNKNOWN or (result or "") == text else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """A get does."""
        return f == "get"


_MODELS: dict[str, Callable[[], Model]] = {
    model.name: model for model in (Register, CasRegister, CreateOnce, Mutex, GrowSet, Counter, KeyValue)
}


def names() -> list[str]:
    """Names of all models, sorted."""
    return sorted(_MODELS)


def model(name: str) -> Model:
    """The model of that name, or the one at `module:attribute` (an instance, or a class to be made without arguments).

    Raises:
        UnknownNameError: there is none of that name.
        UsageError: `module:attribute` cannot be imported, or is not a model.
    """
    if ":" in name:
        return _imported(name)
    make = _MODELS.get(name)
    if make is None:
        raise UnknownNameError("model", name, _MODELS)
    return make()


def _imported(location: str) -> Model:
    module, _, attribute = location.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"model {location!r} cannot be imported: {error}. Give module:attribute.") from error
    found = found() if isinstance(found, type) else found
    missing = [member for member in ("name", "fs", "init", "step", "observes") if not hasattr(found, member)]
    if missing:
        raise UsageError(f"{location} is not a model: it lacks {', '.join(missing)}.")
    return cast(Model, found)
