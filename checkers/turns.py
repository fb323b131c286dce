"""Judging the keys of a run in turns, so that a hard key does not delay the verdict on a violated one.

First all keys get their linear work, then the undecided ones get turns that grow. The first violation
is the verdict on the run. From then on the other keys have as much time together as the verdict took, or a little, and
one violation is explained: the one that is there first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from splitbrain.checkers.kernels import cpu_s
from splitbrain.checkers.long_histories import LongHistory
from splitbrain.checkers.verdict import Valid, Verdict

TURN_S: Final = 0.1
"""CPU seconds of a key's first turn; each round of turns is twice as long as the one before."""

OTHERS_S: Final = 1.0
"""CPU seconds for all other keys together once one is violated; or as many as that took, if more."""

WITHOUT_END: Final = float("inf")


class Task(Protocol):
    """The judging of one key."""

    @property
    def key(self) -> str | None:
        """The key."""
        ...

    @property
    def valid(self) -> Valid | None:
        """The verdict so far; None before it is known."""
        ...

    @property
    def memory_bytes(self) -> int:
        """The memory that is held between two turns."""
        ...

    @property
    def ends_by(self) -> int:
        """The index in the history of the op at which the violation is complete."""
        ...

    def start(self) -> None:
        """Do the work that takes linear time."""
        ...

    def advance(self, seconds: float) -> bool:
        """Continue for about this many CPU seconds; whether the work is done."""
        ...

    def verdict(self, *, explained: bool = True) -> Verdict:
        """The answer, once `valid` is known; `explained`: whether a violation is worth more time."""
        ...

    def put_off(self) -> Verdict:
        """The verdict "unknown" on a key that gets no more time since another one is violated."""
        ...


@runtime_checkable
class InTurns(Protocol):
    """A checker by key that can judge keys in turns."""

    def begin(self, history: pa.Table | LongHistory, options: Mapping[str, Any], /) -> Task:
        """The judging of one key; as `splitbrain.checkers.verdict.Checker.check` for what it is given.

        Raises:
            UsageError: an option is wrong.
        """
        ...


def judge_in_turns(
    tasks: Sequence[Task],
    broke: Callable[[Task, Exception], Verdict],
    *,
    memory_bytes: int = 1 << 30,
    clock: Callable[[], float] = cpu_s,
) -> list[Verdict]:
    """A verdict for each key, in the order of `tasks`.

    Args:
        tasks: the keys, the smallest first.
        broke: the verdict where a task fails, also by a wrong request.
        memory_bytes: what keys that wait for their next turn may hold together; beyond, a key's turn has no end.
        clock: CPU seconds of this thread.
    """
    return _Turns(tasks, broke, memory_bytes, clock).run()


class _Turns:
    def __init__(
        self,
        tasks: Sequence[Task],
        broke: Callable[[Task, Exception], Verdict],
        memory_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        self._tasks: list[Task | None] = list(tasks)
        self._broke = broke
        self._memory_bytes = memory_bytes
        self._clock = clock
        self._began = clock()
        self._until: float | None = None
        self._verdicts: dict[int, Verdict] = {}
        self._violated: list[int] = []

    def run(self) -> list[Verdict]:
        waiting = [place for place in range(len(self._tasks)) if not self._over() and self._begun(place)]
        turn_s = TURN_S if len(waiting) > 1 or self._violated else WITHOUT_END
        while waiting and not self._over():
            waiting = [place for place in waiting if not self._had_its_turn(place, turn_s)]
            turn_s *= 2
        self._explain()
        for place, task in enumerate(self._tasks):
            if task is not None and place not in self._verdicts:
                self._verdicts[place] = task.put_off()
        return [self._verdicts[place] for place in range(len(self._tasks))]

    def _over(self) -> bool:
        """Whether a violation is known, and the time for the other keys is over."""
        return self._until is not None and self._clock() >= self._until

    def _begun(self, place: int) -> bool:
        """Give a key its linear work; whether it is still undecided."""
        self._guarded(place, lambda task: task.start())
        return not self._settled(place)

    def _had_its_turn(self, place: int, turn_s: float) -> bool:
        """Give a key its turn, if there is time; whether it is decided by then."""
        if self._over():
            return False
        held = sum(task.memory_bytes for task in self._tasks if task is not None)
        seconds = WITHOUT_END if held > self._memory_bytes else turn_s
        if self._until is not None:
            seconds = min(seconds, self._until - self._clock())
        self._guarded(place, lambda task: task.advance(seconds))
        return self._settled(place)

    def _settled(self, place: int) -> bool:
        """Whether a key is decided; a violation is kept until it is known which one is explained."""
        task = self._tasks[place]
        if place in self._verdicts or task is None or task.valid is None:
            return place in self._verdicts
        if task.valid == "false":
            self._violated.append(place)
            if self._until is None:
                now = self._clock()
                self._until = now + max(OTHERS_S, now - self._began)
        else:
            self._answer(place, explained=False)
        return True

    def _explain(self) -> None:
        """The verdicts on violated keys; that which is violated first is worth the time."""
        by_end = sorted(self._violated, key=lambda place: task.ends_by if (task := self._tasks[place]) else 0)
        for position, place in enumerate(by_end):
            self._answer(place, explained=position == 0)

    def _answer(self, place: int, *, explained: bool) -> None:
        def answer(task: Task) -> None:
            self._verdicts[place] = task.verdict(explained=explained)

        self._guarded(place, answer)
        self._tasks[place] = None

    def _guarded(self, place: int, act: Callable[[Task], object]) -> None:
        task = self._tasks[place]
        if task is None:
            return
        try:
            act(task)
        except Exception as error:
            self._verdicts[place] = self._broke(task, error)
            self._tasks[place] = None
