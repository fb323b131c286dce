"""Queues and stacks: what goes in comes out once.

`dequeue` and `pop` return a value, or null where they saw that there was none; so null cannot be put in. One that
crashed took any value that was there.
"""

from __future__ import annotations

import bisect
from collections.abc import Hashable
from typing import Any, Final, TypeAlias, cast

from splitbrain.checkers.models.model import IMPOSSIBLE, UNKNOWN, Facts, Special, State

_QUEUE: Final = frozenset({"enqueue", "dequeue"})

_Values: TypeAlias = tuple[Hashable, ...]


class FifoQueue:
    """A queue, first in, first out."""

    name = "fifo-queue"
    fs = _QUEUE
    opaque = frozenset({"dequeue"})

    def init(self) -> State:
        """Empty."""
        return ()

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """The state is the values, the next one first."""
        values = cast(_Values, state)
        if f == "enqueue":
            return (*values, _put(value))
        return values[1:] if _takes(values[:1], result) else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """A dequeue does that found nothing."""
        return f == "dequeue" and result is None

    def facts(self, f: str, value: Any, result: Any) -> Facts:
        """What is taken was there, and had been put there."""
        return _passage(f == "enqueue", value, result)

    def at_first(self, place: Hashable) -> Hashable:
        """No value is there."""
        return False


class Stack:
    """A stack, last in, first out."""

    name = "stack"
    fs = frozenset({"push", "pop"})
    opaque = frozenset({"pop"})

    def init(self) -> State:
        """Empty."""
        return ()

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """The state is the values, the next one last."""
        values = cast(_Values, state)
        if f == "push":
            return (*values, _put(value))
        return values[:-1] if _takes(values[-1:], result) else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """A pop does that found nothing."""
        return f == "pop" and result is None

    def facts(self, f: str, value: Any, result: Any) -> Facts:
        """What is taken was there, and had been put there."""
        return _passage(f == "push", value, result)

    def at_first(self, place: Hashable) -> Hashable:
        """No value is there."""
        return False


class PriorityQueue:
    """A queue, smallest value first.

    Values are numbers, which compare by size, or strings, or lists that compare item by item.
    """

    name = "priority-queue"
    fs = _QUEUE

    def init(self) -> State:
        """Empty."""
        return ()

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """The state is the values, ascending."""
        values = cast("tuple[Any, ...]", state)
        if f == "enqueue":
            at = bisect.bisect_right(values, _ordered(_put(value)))
            return (*values[:at], value, *values[at:])
        return values[1:] if _takes(values[:1], _ordered(result)) else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """A dequeue does that found nothing."""
        return f == "dequeue" and result is None

    def facts(self, f: str, value: Any, result: Any) -> Facts:
        """What is taken was there, and had been put there."""
        return _passage(f == "enqueue", value, result)

    def at_first(self, place: Hashable) -> Hashable:
        """No value is there."""
        return False


_Layers: TypeAlias = tuple[frozenset[tuple[Hashable, int]], ...]


class UnorderedQueue:
    """A bag of values, of which dequeue returns any.

    A dequeue that crashed took one unknown value: every value that was there is possible. Instead of trying
    each, the state keeps the values in layers, a new one since each such dequeue. The i-th dequeue took something from
    the first i layers. That can be so as long as these hold at least i values together, for every i (Hall's condition,
    for sets that contain one another). Where they hold exactly i, all of them are gone. And since a value of an older
    layer serves more of these dequeues, one that is seen to leave is taken from the newest layer that has it.
    """

    name = "unordered-queue"
    fs = _QUEUE
    opaque = frozenset({"dequeue"})

    def init(self) -> State:
        """Empty."""
        return (frozenset[tuple[Hashable, int]](),)

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """The state is a tuple of layers, each with the count of every value in it."""
        layers = cast(_Layers, state)
        if f == "enqueue":
            return (*layers[:-1], _counted(layers[-1], _put(value), 1))
        empty = layers == self.init()
        if result is None:
            return layers if empty else IMPOSSIBLE
        if result is UNKNOWN:
            return layers if empty else _certain((*layers, frozenset()))
        for at in reversed(range(len(layers))):
            if any(held == result for held, _ in layers[at]):
                return _certain((*layers[:at], _counted(layers[at], result, -1), *layers[at + 1 :]))
        return IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """A dequeue does that found nothing."""
        return f == "dequeue" and result is None

    def facts(self, f: str, value: Any, result: Any) -> Facts:
        """What is taken was there, and had been put there."""
        return _passage(f == "enqueue", value, result)

    def at_first(self, place: Hashable) -> Hashable:
        """No value is there."""
        return False


def _counted(layer: frozenset[tuple[Hashable, int]], value: Hashable, change: int) -> frozenset[tuple[Hashable, int]]:
    counts = dict(layer)
    counts[value] = counts.get(value, 0) + change
    return frozenset((held, count) for held, count in counts.items() if count)


def _certain(layers: _Layers) -> _Layers:
    """The layers without those whose values are certainly gone: i layers that hold i values."""
    held, gone = 0, 0
    for i, layer in enumerate(layers[:-1], 1):
        held += sum(count for _, count in layer)
        if held == i:
            gone = i
    return layers[gone:]


def _passage(put: bool, value: Any, result: Any) -> Facts:
    if put:
        return Facts(leaves={_put(value): True})
    return Facts() if result is None or result is UNKNOWN else Facts(sees={result: True})


def _put(value: Any) -> Any:
    if value is None:
        raise TypeError("null cannot be put in: it stands for empty")
    return value


def _ordered(value: Any) -> Any:
    """The value; true and false have no place among numbers, though Python gives them one."""
    if isinstance(value, bool):
        raise TypeError("true and false have no order: a priority queue takes numbers, strings, or lists of them")
    for item in cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ():
        _ordered(item)
    return cast(Any, value)


def _takes(following: _Values, result: Any) -> bool:
    """Whether a dequeue can have that result where `following` is the next value, or nothing."""
    return result is UNKNOWN or following == (() if result is None else (result,))
