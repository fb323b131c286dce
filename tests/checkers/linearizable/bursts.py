"""Random histories in bursts: between two of them nothing is under way, but for what crashed."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from splitbrain.checkers import models
from splitbrain.checkers.models import IMPOSSIBLE, Model, frozen
from splitbrain.results.history import Op
from tests.checkers.linearizable.small_histories import VOCABULARIES


def bursty_history(
    rng: random.Random, vocabulary: str, *, bursts: int, ops: int, processes: int, lies: float, crashes: float
) -> list[Op]:
    """Bursts of `ops` ops each, which take effect when they complete; some answers lie, some ops crash.

    The completion of an op that crashed is recorded at some later time, in another burst as a rule, or never.
    """
    return _Bursts(rng, vocabulary, lies, crashes).run(bursts, ops, processes)


class _Bursts:
    def __init__(self, rng: random.Random, vocabulary: str, lies: float, crashes: float) -> None:
        self._rng = rng
        self._vocabulary = VOCABULARIES[vocabulary]
        self._lies, self._crashes = lies, crashes
        self._model: Model = models.model(self._vocabulary.model)
        self._state: Any = self._model.init()
        self._used: list[Any] = []
        self._late: list[Op] = []
        self._rows: list[Op] = []

    def run(self, bursts: int, ops: int, processes: int) -> list[Op]:
        idle, successor, fresh = list(range(processes)), processes, 0
        for _ in range(bursts):
            under_way: list[Op] = []
            left = ops
            while left or under_way:
                if self._late and self._rng.random() < 0.2:
                    self._rows.append(self._late.pop(0))
                if left and idle and (not under_way or self._rng.random() < 0.5):
                    under_way.append(self._invoke(idle.pop(), fresh))
                    left -= 1
                    fresh += 1
                    continue
                op = under_way.pop(self._rng.randrange(len(under_way)))
                if self._rng.random() < self._crashes:
                    self._crash(op)
                    idle.append(successor)
                    successor += 1
                else:
                    self._rows.append(self._complete(op))
                    idle.append(op.process)
        return [msgspec.structs.replace(op, index=3 * row, time=row * 1000) for row, op in enumerate(self._rows)]

    def _invoke(self, process: int, fresh: int) -> Op:
        f, value = self._vocabulary.call(self._rng, fresh)
        self._used += [value] if isinstance(value, int | str) else value[1:] if f == "cas" else []
        self._rows.append(Op(process=process, type="invoke", f=f, value=value))
        return self._rows[-1]

    def _complete(self, op: Op) -> Op:
        answers = self._vocabulary.answers(op.f, op.value, self._used)
        if self._rng.random() < self._lies:
            return op.complete("ok", self._rng.choice(answers))
        fits = [answer for answer in answers if self._after(op, answer) is not IMPOSSIBLE]
        if not fits:
            return op.complete("fail", op.value)
        answer = self._rng.choice(fits)
        self._state = self._after(op, answer)
        return op.complete("ok", answer)

    def _crash(self, op: Op) -> None:
        answers = self._vocabulary.answers(op.f, op.value, self._used)
        after = self._after(op, answers[0])
        if after is not IMPOSSIBLE and self._rng.random() < 0.5:
            self._state = after
        if self._rng.random() < 0.7:
            self._late.append(op.complete("info"))

    def _after(self, op: Op, answer: Any) -> Any:
        value = op.process if op.value is None and getattr(self._model, "owned", False) else frozen(op.value)
        return self._model.step(self._state, op.f, value, frozen(answer))
