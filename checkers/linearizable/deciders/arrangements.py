"""One arrangement of appends that explains the texts of a string store, where there may be several.

Pieces are matched from the beginning of a text to its end. An append fits if it was not used before, and was not over
before one began that precedes it; of several the one that ended first is tried first. A text goes on from the longest
one before that it begins with, or else from a base. This is a guess: its user must prove that it works
out.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from splitbrain.checkers.linearizable.deciders.texts import NONE, Forest, Store, in_common

EFFORT: Final = 20
"""Pieces that are tried per op, before all texts that are left are given up."""

DEAD_ENDS: Final = 200
"""How often the last piece is taken back, before a text is given up."""


@dataclass(frozen=True)
class Arrangement:
    """The strings that texts are made of, and which append made each from its parent; texts may be missing."""

    forest: Forest = field(default_factory=Forest)
    appended: dict[int, int] = field(default_factory=dict[int, int])


class _Step(NamedTuple):
    """How much of a text there is after an op, and the last invocation among the ops up to it."""

    length: int
    op: int
    latest: int


class _Known(NamedTuple):
    """A text, or a base that was put, from which others go on."""

    length: int
    number: int
    latest: int


def arranged(store: Store) -> Arrangement:
    """An arrangement of all texts for which one was found with bounded effort."""
    return _Arranger(store).run()


class _Arranger:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._found = Arrangement()
        self._used: set[int] = set()
        self._pieces = {text: sorted(ops, key=store.end.__getitem__) for text, ops in store.pieces.items()}
        self._ends = {text: [store.end[op] for op in ops] for text, ops in self._pieces.items()}
        self._lengths = sorted({len(text) for text in store.pieces})
        self._effort = EFFORT * len(store.begin)

    def run(self) -> Arrangement:
        known: list[_Known] = []
        before = ""
        for text in sorted(self._store.gets):
            common = in_common(before, text)
            while known and known[-1].length > common:
                known.pop()
            self._arrange(text, known)
            before = text
        return self._found

    def _arrange(self, text: str, known: list[_Known]) -> None:
        deadline = min(self._store.end[op] for op in self._store.gets[text])
        asked = max(self._store.begin[op] for op in self._store.gets[text])
        for start in (*known[-1:], *self._bases(text)):
            steps = self._steps(text, start, deadline)
            if steps is None:
                continue
            forest, number = self._found.forest, start.number
            if number == NONE:
                base = forest.bases.get(text[: start.length])
                number = forest.add(text, start.length, NONE) if base is None else base
            for step in steps:
                number = forest.add(text, step.length, number)
                self._found.appended[number] = step.op
                self._used.add(step.op)
            forest.numbers[text] = number
            known.append(_Known(len(text), number, max(asked, steps[-1].latest if steps else start.latest)))
            return

    def _bases(self, text: str) -> list[_Known]:
        """Bases that a text may have, the longest first."""
        store = self._store
        puts = [_Known(len(put), NONE, store.begin[ops[0]]) for put, ops in store.puts.items() if text.startswith(put)]
        initial = [_Known(len(store.initial), NONE, NONE)] if text.startswith(store.initial) else []
        return sorted(puts + initial, reverse=True)

    def _steps(self, text: str, start: _Known, deadline: int) -> list[_Step] | None:
        """Appends that lead from one text to another; None if none were found."""
        at, latest, dead_ends = start.length, start.latest, 0
        steps: list[_Step] = []
        taken: set[int] = set()
        untried: list[list[_Step]] = []
        while at < len(text):
            untried.append(self._next(text, at, latest, deadline, taken))
            while untried and not untried[-1]:
                untried.pop()
                dead_ends += 1
                if steps:
                    taken.discard(steps.pop().op)
            self._effort -= 1
            if not untried or dead_ends > DEAD_ENDS or self._effort < 0:
                return None
            step = untried[-1].pop()
            steps.append(step)
            taken.add(step.op)
            at, latest = step.length, step.latest
        return steps

    def _next(self, text: str, at: int, latest: int, deadline: int, taken: set[int]) -> list[_Step]:
        """Appends that fit next, the one that ended first at last."""
        fit: list[tuple[int, _Step]] = []
        for length in self._lengths:
            piece = text[at : at + length]
            ends = self._ends.get(piece)
            if len(piece) < length:
                break
            if ends is None:
                continue
            ops = self._pieces[piece]
            for place in range(bisect_right(ends, latest), len(ops)):
                op = ops[place]
                if op not in self._used and op not in taken and self._store.begin[op] < deadline:
                    fit.append((ends[place], _Step(at + length, op, max(latest, self._store.begin[op]))))
                    break
        fit.sort(reverse=True)
        return [step for _, step in fit]
