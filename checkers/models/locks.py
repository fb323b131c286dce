"""Locks and semaphores: who may go on."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeAlias, cast

from splitbrain.checkers.models.model import IMPOSSIBLE, UNKNOWN, Assignment, AssignmentModel, Special, State
from splitbrain.results.errors import UsageError

_LOCK: Final = frozenset({"acquire", "release"})
_FREE: Final = "free"


class Mutex(AssignmentModel):
    """A lock that is held or free, and that anyone may release."""

    name = "mutex"
    fs = _LOCK
    initial = _FREE

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        """Acquire requires a free lock, release a held one."""
        if f == "acquire":
            return Assignment(requires=_FREE, becomes="held")
        return Assignment(requires="held", becomes=_FREE)


class OwnerMutex(AssignmentModel):
    """A lock that only its holder releases; `hold` asks if it still is.

    A hold that answers false ends the ownership: the owner found that it lost the lock, and stopped. One that crashed
    may have ended it. The owner is the op's value, or its process where that is null.
    """

    name = "owner-mutex"
    fs = _LOCK | {"hold"}
    initial = _FREE
    owned = True
    opaque = frozenset[str]()

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        """Acquire requires a free lock, hold and release one that is held by the same owner."""
        held = ("held", value)
        if f == "hold":
            return Assignment(requires=held, becomes=_FREE if result is UNKNOWN or result is False else Special.ANY)
        return Assignment(requires=_FREE, becomes=held) if f == "acquire" else Assignment(requires=held, becomes=_FREE)


class ReentrantMutex:
    """A lock that its holder may acquire again, and releases as often.

    The parameter says how often it can be acquired at most. The owner is the op's value, or its process where that is
    null.
    """

    name = "reentrant-mutex"
    fs = _LOCK
    owned = True
    opaque = frozenset[str]()
    parameter = "times"

    def __init__(self, times: Hashable = None) -> None:
        self._times = times if times is None else _whole(self.name, "how often it can be acquired", times)

    def init(self) -> State:
        """Free."""
        return _FREE

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """Count the acquisitions of the holder; no other client gets in before they are all released."""
        holder, count = (value, 0) if state == _FREE else cast("tuple[str, Hashable, int]", state)[1:]
        if holder != value:
            return IMPOSSIBLE
        if f == "acquire":
            return IMPOSSIBLE if count == self._times else ("held", value, count + 1)
        if count == 0:
            return IMPOSSIBLE
        return _FREE if count == 1 else ("held", value, count - 1)

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """Nothing does."""
        return False


_Fenced: TypeAlias = tuple[Hashable, int | None]


class FencedMutex:
    """A lock that only its holder releases; acquire returns a growing token.

    Tokens are whole numbers. A token that no op saw (the acquire crashed, or its result is null) takes one up all the
    same. The owner is the op's value, or its process where that is null.
    """

    name = "fenced-mutex"
    fs = _LOCK
    owned = True
    opaque = frozenset[str]()

    def init(self) -> State:
        """Free, and no token given yet."""
        return (_FREE, None)

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """The state is the holder, and the least that the last token can be (null where nothing bounds it)."""
        holder, last = cast(_Fenced, state)
        if f == "release":
            return (_FREE, last) if holder == ("held", value) else IMPOSSIBLE
        if holder != _FREE:
            return IMPOSSIBLE
        if result is UNKNOWN or result is None:
            return (("held", value), None if last is None else last + 1)
        token = _token(result)
        return (("held", value), token) if last is None or token > last else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """Nothing does."""
        return False


class Semaphore:
    """Permits that are taken and returned; 1, or as many as the parameter says.

    An op is about one permit, or as many as its value says. More than were taken are never returned.
    """

    name = "semaphore"
    fs = _LOCK
    parameter = "permits"

    def __init__(self, permits: Hashable = 1) -> None:
        self.permits = _whole(self.name, "the number of permits", permits)

    def init(self) -> State:
        """All permits are free."""
        return self.permits

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """The state is the number of free permits."""
        free = cast(int, state)
        amount = 1 if value is None else value
        if type(amount) is not int or amount < 1:
            raise TypeError("a semaphore's value is the number of permits, a whole number from 1, or null for one")
        after = free - amount if f == "acquire" else free + amount
        return after if 0 <= after <= self.permits else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """Nothing does."""
        return False


def _token(result: Any) -> int:
    if type(result) is not int:
        raise TypeError("a fencing token is a whole number")
    return result


def _whole(model: str, what: str, given: Any) -> int:
    if type(given) is not int or given < 1:
        raise UsageError(f"model {model!r} takes {what}, a whole number from 1, as in {model}(2); not {given!r}.")
    return given
