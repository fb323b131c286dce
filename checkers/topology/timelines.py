"""When an entity was certainly there, and when it certainly was not, by the calls that made and removed it.

Times are rows of the history, whose order is that of real time. A call that made an entity did so at one moment between
its invocation and its answer; one of unknown outcome may have done so at any time after its invocation, or never. So
the entity is there throughout an interval if an acknowledged call made it before, and each call that could remove it
was answered before that call began, or begins after the interval. That it is not there follows in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from splitbrain.results.calls import Bools, Ints

NEVER: Final = np.iinfo(np.int64).max
"""Later than every row."""


class Call(NamedTuple):
    """A call that may have had an effect: rows of its invocation and its answer; NEVER where that is unknown."""

    invoke: int
    complete: int

    @property
    def is_certain(self) -> bool:
        """Whether it was acknowledged."""
        return self.complete != NEVER


def holds(setting: Sequence[Call], undoing: Sequence[Call], begin: Ints, end: Ints) -> Bools:
    """In which of these intervals of rows certainly holds what `setting` brings about and `undoing` ends."""
    certain = sorted((call for call in setting if call.is_certain), key=lambda call: call.complete)
    if not certain:
        return np.zeros(len(begin), dtype=np.bool_)
    set_by = np.array([call.complete for call in certain], dtype=np.int64)
    until = _undone(np.array([call.invoke for call in certain], dtype=np.int64), undoing)
    longest = np.array([-1, *np.maximum.accumulate(until)], dtype=np.int64)  # of those that were set before a row
    return longest[np.searchsorted(set_by, begin)] > end


def _undone(begun: Ints, undoing: Sequence[Call]) -> Ints:
    """For calls by their invocations, the first row at which what each brought about may have been ended."""
    others = sorted(undoing, key=lambda call: call.complete)
    invokes = np.array([call.invoke for call in others], dtype=np.int64)
    earliest = np.array([*np.minimum.accumulate(invokes[::-1])[::-1], NEVER], dtype=np.int64)
    return earliest[np.searchsorted(np.array([call.complete for call in others], dtype=np.int64), begun)]
