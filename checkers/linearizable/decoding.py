"""Rows of the frontier in terms of ops, for those who explain a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.linearizable.encoding import Problem
from splitbrain.checkers.linearizable.frontier import CALL, CALL_OBSERVER, CRASH, STATE, U64, Crashed, Program
from splitbrain.results.columns import distinct

OpNumbers: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Configuration:
    """One explanation of everything so far, as far as the future can depend on it.

    Attributes:
        state: number of the model's state.
        done: ops under way that have taken effect.
        free: overwrites under way that may have taken effect unseen, or may do so yet for all to see.
        used: crashed ops that have taken effect, the earliest of each class of identical ones.
    """

    state: int
    done: OpNumbers
    free: OpNumbers
    used: OpNumbers


def decode(
    rows: U64, event: int, problem: Problem, program: Program, crashed: Crashed, words: int
) -> list[Configuration]:
    """The configurations of `rows`, which are possible after the first `event` events."""
    live = _live(problem, event)
    classes = _classes(problem, program, event)
    return [_configuration(row.tolist(), live, classes, crashed, words) for row in rows]


def _configuration(
    row: list[int], live: dict[int, int], classes: dict[int, npt.NDArray[np.int32]], crashed: Crashed, words: int
) -> Configuration:
    done: list[int] = []
    free: list[int] = []
    for slot, op in live.items():
        at, bit = 1 + (slot >> 6), 1 << (slot & 63)
        if row[at] & bit:
            (free if row[at + words] & bit else done).append(op)
    used: list[int] = []
    for transition, members in classes.items():
        word = int(crashed.word[transition])
        if word >= 0:
            field = (1 << int(crashed.bits[word])) - 1
            uses = row[1 + 2 * words + word] >> int(crashed.shift[transition]) & field
            used += members[:uses].tolist()
    return Configuration(row[0] & int(STATE), tuple(sorted(done)), tuple(sorted(free)), tuple(sorted(used)))


def _live(problem: Problem, event: int) -> dict[int, int]:
    """The op in each slot after some events."""
    live: dict[int, int] = {}
    events = problem.events
    for kind, slot, op in zip(
        events.kind[:event].tolist(), events.slot[:event].tolist(), problem.op[:event].tolist(), strict=True
    ):
        if kind in (CALL, CALL_OBSERVER):
            live[slot] = op
        elif kind != CRASH:
            del live[slot]
    return live


def _classes(problem: Problem, program: Program, event: int) -> dict[int, npt.NDArray[np.int32]]:
    """The ops of each class of crashed ones, by invocation."""
    events = np.flatnonzero(program.kind[:event] == CRASH)
    of = program.transition[events]
    return {int(transition): problem.op[events[of == transition]] for transition in distinct(of)}
