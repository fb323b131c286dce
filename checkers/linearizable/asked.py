"""What ops ask for: of many crashed assignments, those few that can help.

Take a linearization that uses as few crashed ops as can be. Each of them is followed by an op that would come out
otherwise without it: one that requires the value that it leaves, or one that refuses the value that was there before.
That op has been called when the crashed one takes effect, for what returns next has yet to take effect itself. So what
is *asked for* in a configuration is what ops under way require; and what a crashed op requires that is left, and leaves
what is asked for. No other crashed assignment need be tried.

To get away from a value that is refused, any other would do. But an op under way that refuses it can as a rule wait for
the next op that changes the state, which saves the crashed one. Anything is asked for only if it cannot wait, as it is
what returns next, or if the next one may be an overwrite that leaves the same value.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.kernels import inlined
from splitbrain.checkers.linearizable.frontier import ANY, ASSIGNMENTS, I32, I64, KEEP, Int, Steps
from splitbrain.checkers.linearizable.ops import B

# Registers.
_EPOCH: Final = 0
COUNT: Final = 1
_REFUSED: Final = 2
_RETURNS: Final = 3
_REGISTERS: Final = 4


class Asked(NamedTuple):
    """The values that are asked for in one configuration.

    first: by value, the first class of crashed ops that leaves it, classes being sorted by that; one entry more. Empty
    if steps are no assignments, or not such simple ones: then nothing is known of what is asked for.
    values, at: the values, COUNT of them; and by value the epoch in which it was asked for last.
    """

    first: I32
    values: I32
    at: I64
    m: I64


def is_indexed(steps: Steps) -> bool:
    """Whether steps show what is asked for: assignments of which none refuses a value and leaves another."""
    return steps.mode == ASSIGNMENTS and not bool(((steps.requires < ANY) & (steps.becomes != KEEP)).any())


def asked_for(steps: Steps, class_transition: I32) -> Asked:
    """Nothing asked for yet; classes of crashed ops are sorted by what they leave if `is_indexed`."""
    m = np.zeros(_REGISTERS, np.int64)
    if not is_indexed(steps) or len(class_transition) == 0:
        return Asked(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64), m)
    values = 1 + max(int(steps.requires.max(initial=0)), int(steps.becomes.max(initial=0)))
    first = np.searchsorted(steps.becomes[class_transition], np.arange(values + 1)).astype(np.int32)
    return Asked(first, np.zeros(values, np.int32), np.zeros(values, np.int64), m)


@inlined
def ask(asked: Asked, value: Int) -> None:
    """Add a value, unless it is there."""
    m = asked.m
    if asked.at[value] != m[_EPOCH]:
        asked.at[value] = m[_EPOCH]
        asked.values[m[COUNT]] = value
        m[COUNT] += 1


@inlined
def _ask_for_op(asked: Asked, steps: Steps, state: Int, transition: Int) -> None:
    requires = steps.requires[transition]
    if requires >= 0:
        if requires != state:
            ask(asked, requires)
    elif requires == -2 - state:
        asked.m[_REFUSED] = 1
    elif steps.becomes[transition] == state:
        asked.m[_RETURNS] = 1


@inlined
def ask_for_all(asked: Asked, steps: Steps, state: Int, transition: I32, following: I32, due: Int) -> bool:
    """Begin with what ops under way ask for; whether anything is.

    Args:
        asked: what is asked for.
        steps: of the model.
        state: the state: its own value is never asked for.
        transition: by live op.
        following: the two lists of ops under way, whose heads are behind the ops.
        due: the op that returns next.
    """
    m = asked.m
    m[_EPOCH] += 1
    m[COUNT] = m[_REFUSED] = m[_RETURNS] = 0
    _ask_for_op(asked, steps, state, transition[due])
    if m[_REFUSED] != 0:
        return True
    for head in range(transition.size, transition.size + 2):
        op = np.int64(following[head])
        while op != head:
            _ask_for_op(asked, steps, state, transition[op])
            op = np.int64(following[op])
    return m[_REFUSED] != 0 and m[_RETURNS] != 0


def spread(steps: Steps, class_transition: I32, states: I64, left: B) -> B:
    """By value, whether assignments of classes that are left lead to it from any of some states, or it is one of them.

    A shortest way goes through no value twice, and so needs no class twice.
    """
    requires, becomes = steps.requires[class_transition], steps.becomes[class_transition]
    values = 1 + max(int(steps.requires.max(initial=0)), int(steps.becomes.max(initial=0)))
    reached = np.zeros(values, np.bool_)
    reached[states] = True
    while True:
        leads = left & ((requires == ANY) | reached[requires]) & ~reached[becomes]
        if not leads.any():
            return reached
        reached[becomes[leads]] = True
