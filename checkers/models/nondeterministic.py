"""Models of objects that may choose: one op, several outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from splitbrain.checkers.models.model import IMPOSSIBLE, Special, State
from splitbrain.results.errors import UsageError


class NondeterministicModel:
    """An object whose op may lead to several states, or that may begin in several.

    Derive from it and write `first` and `steps`. The search needs one state per op, so it is given the set of all that
    are possible (the subset construction; Porcupine's NondeterministicModel does so too). A history is linearizable
    if some order of the ops leaves at least one state: that is the same as choosing well at every op.

    Sets can become large: 2 to the number of states at worst. Where an object can be described by a state that leaves
    open what is not known yet, that is the better model (`queues.UnorderedQueue` does so).
    """

    name: str
    fs: frozenset[str]

    def first(self) -> Iterable[State]:
        """The states in which the object may begin."""
        raise _missing(self, "first")

    def steps(self, state: State, f: str, value: Any, result: Any) -> Iterable[State]:
        """The states in which an op may leave `state`, none if it cannot have that result there.

        With the result UNKNOWN, those of every result. Pure, as `Model.step`.
        """
        raise _missing(self, "steps")

    def init(self) -> State:
        """The set of all states in which the object may begin."""
        return frozenset(self.first())

    def step(self, state: State, f: str, value: Any, result: Any) -> State | Special:
        """The set of all states that are possible after the op; IMPOSSIBLE if there is none."""
        possible = cast("frozenset[State]", state)
        following = frozenset(after for each in possible for after in self.steps(each, f, value, result))
        return following or IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """Whether the op leaves every *set* of states as it is.

        False unless overridden, and False even for most reads: a read that rules out some of the states changes the
        set. Only an op that never returns anything and changes nothing observes.
        """
        return False


def _missing(model: NondeterministicModel, method: str) -> UsageError:
    return UsageError(
        f"model {type(model).__name__!r} derives from NondeterministicModel and has no method `{method}`: write one."
    )
