"""Keys of a string store to which pieces are appended, where the answers of gets show the order of the pieces.

A text that is composed in one way only, of a base and pieces that were appended once each, fixes all that happened
since its base was put: an append of a piece that some get shows is a compare-and-set from the string before it to the
one after it, whose value no other op wrote. What no get shows was hidden by the next put, or came after the last get:
no get can distinguish such an append from a put of something that no get saw. So the key is a register, with values
written once, and its history is linearizable exactly if that of the register is (`zones`).

Where texts can be composed in several ways, or pieces that are alike were appended and shown, any choice that leads to
a legal register proves that the key is legal (`arrangements`); a choice that does not proves nothing. But a text that
no ops can have composed by the time at which it was answered is wrong in any case, and so are more strings that end
with a piece than appends of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from splitbrain.checkers.linearizable.deciders import Decision, zones
from splitbrain.checkers.linearizable.deciders.arrangements import arranged
from splitbrain.checkers.linearizable.deciders.intervals import by_invocation
from splitbrain.checkers.linearizable.deciders.texts import NEVER, Composer, Forest, Store, read_store
from splitbrain.checkers.linearizable.deciders.zones import INITIAL, NONE, Accesses
from splitbrain.checkers.linearizable.ops import Ops, show
from splitbrain.checkers.models import Model

SHOWN: Final = 40
"""Characters at the end of a string by which it is called."""


def decide_appends(ops: Ops, model: Model) -> Decision | None:
    """Whether the ops are those of one key of a string store; time is linear in the distinct texts, but for sorting.

    None if anything is no text, or if texts and times do not show in which order pieces were appended.
    """
    initial = model.init()
    store = read_store(ops, initial) if isinstance(initial, str) else None
    return None if store is None else _Key(ops, store).decide()


class _Key:
    def __init__(self, ops: Ops, store: Store) -> None:
        self._ops = ops
        self._store = store

    def decide(self) -> Decision | None:
        forest = Forest()
        impossible = self._compose(forest) or self._too_often(forest)
        if impossible is not None:
            return impossible
        places, pieces = forest.places.items(), self._store.pieces
        if len(forest.numbers) < len(self._store.gets) or any(len(pieces[piece]) > 1 for piece, _ in places):
            return self._proof_by_example()
        appended = {number: pieces[piece][0] for piece, numbers in places for number in numbers}
        decision = zones.decide(self._ops, self._accesses(forest, appended))
        if decision is None or decision.valid:
            return decision
        shown = {op: self._get_of(forest, number) for number, op in appended.items()}
        culprits = {*decision.culprits, *(shown[op] for op in decision.culprits if op in shown)}
        return self._impossible(culprits, decision.reason)

    def _compose(self, forest: Forest) -> Decision | None:
        """Fill in the forest; the violation that a text was answered which no ops can have composed by then."""
        composer = Composer(self._store)
        for text in sorted(self._store.gets):
            ways, since = composer.read(text)
            get = min(self._store.gets[text], key=self._store.end.__getitem__)
            if since == NEVER:
                return self._impossible((get,), "nothing that was put and appended makes that text")
            if since > self._store.end[get]:
                return self._impossible((get,), "a part of that text was put or appended only later")
            if ways == 1:
                composer.plant(forest)
        return None

    def _too_often(self, forest: Forest) -> Decision | None:
        """The violation that more strings end with a piece than it was appended to."""
        for piece, numbers in forest.places.items():
            appended = len(self._store.pieces[piece])
            if len(numbers) > appended:
                few = numbers[: appended + 1]
                times = "once" if appended == 1 else f"{appended} times"
                strings = ", ".join(_called(forest.string(number)) for number in few)
                reason = f"{show(piece)} was appended {times}, and made each of {strings}"
                return self._impossible((self._get_of(forest, number) for number in few), reason)
        return None

    def _proof_by_example(self) -> Decision | None:
        arrangement = arranged(self._store)
        if len(arrangement.forest.numbers) < len(self._store.gets):
            return None
        decision = zones.decide(self._ops, self._accesses(arrangement.forest, arrangement.appended))
        return decision if decision is not None and decision.valid else None

    def _accesses(self, forest: Forest, appended: Mapping[int, int]) -> Accesses:
        """What each op requires and makes of the string, given which append made a string of the forest."""
        store = self._store
        base = forest.bases.get(store.initial)
        value = [INITIAL if number == base else number + 1 for number in range(len(forest.shown))]
        unseen = len(value) + 1
        requires, becomes = np.full((2, len(self._ops.invoked)), NONE, np.int64)
        for text, gets in store.gets.items():
            requires[gets] = value[forest.numbers[text]]
        for pieces in store.pieces.values():
            becomes[pieces] = unseen
        for text, puts in store.puts.items():
            becomes[puts] = value[forest.bases[text]] if text in forest.bases else unseen
        for number, op in appended.items():
            requires[op], becomes[op] = value[forest.parent[number]], value[number]
        return Accesses(
            requires,
            becomes,
            unseen + 1,
            lambda number: _called(store.initial if number == INITIAL else forest.string(number - 1)),
        )

    def _get_of(self, forest: Forest, number: int) -> int:
        """A get that shows a string, or one that begins with it."""
        return self._store.gets[forest.shown[number]][0]

    def _impossible(self, culprits: Iterable[int], reason: str) -> Decision:
        """With the put that left what is called initial, if there was one."""
        return Decision(False, by_invocation(*culprits, *range(self._store.left_out)[-1:]), reason)


def _called(text: str) -> str:
    return show(text if len(text) <= SHOWN else f"...{text[-SHOWN:]}")
