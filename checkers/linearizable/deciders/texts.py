"""What texts are composed of: a *base* that was there or was put, and the *pieces* that were appended to it since.

The texts that gets answered are read in the order of a dictionary, so that what is known of the beginning that one has
in common with the text before holds for it too: time is linear in the distinct beginnings, not in the sum of the texts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from splitbrain.checkers.linearizable.deciders.intervals import ends
from splitbrain.checkers.linearizable.ops import Ops, Transition
from splitbrain.checkers.models import UNKNOWN

NONE: Final = -1
NEVER: Final = 1 << 62
"""Later than any row of a history."""


class Store(NamedTuple):
    """The ops of one key of a string store, by what they put, append or answer. Empty appends are none.

    Attributes:
        initial: the string at the beginning, or the one that was put by the last of the ops that are left out.
        left_out: how many ops at the beginning are: puts, each of which returned before anything else was invoked.
        puts, pieces, gets: ops by text, ascending; gets that crashed are none.
        begin, end: rows between which an op took effect, by op; FOREVER for the end of one that crashed.
    """

    initial: str
    left_out: int
    puts: dict[str, list[int]]
    pieces: dict[str, list[int]]
    gets: dict[str, list[int]]
    begin: list[int]
    end: list[int]


def read_store(ops: Ops, initial: str) -> Store | None:
    """The ops by their texts; None if anything is no text."""
    texts: list[str] = []
    for transition in ops.transitions:
        text = _text(transition)
        if text is None:
            return None
        texts.append(text)
    by_f: dict[str, dict[str, list[int]]] = {"put": {}, "append": {}, "get": {}}
    begin, end = ops.invoked.tolist(), ends(ops).tolist()
    of: list[int] = ops.transition.tolist()
    left_out = 0
    while left_out < len(of) and ops.transitions[of[left_out]].f == "put":
        if end[left_out] > (begin[left_out + 1] if left_out + 1 < len(of) else NEVER):
            break
        initial = texts[of[left_out]]
        left_out += 1
    for op in range(left_out, len(of)):
        transition, text = ops.transitions[of[op]], texts[of[op]]
        if transition.f == "append" and not text:
            continue
        if transition.f == "get" and transition.result is UNKNOWN:
            continue
        by_f[transition.f].setdefault(text, []).append(op)
    return Store(initial, left_out, by_f["put"], by_f["append"], by_f["get"], begin, end)


def _text(transition: Transition) -> str | None:
    """What was put, appended or answered: null is the empty string; None for what is no text."""
    getting = transition.f == "get"
    if getting and transition.result is UNKNOWN:
        return ""
    value = transition.result if getting else transition.value
    if value is None:
        return ""
    return value if isinstance(value, str) and transition.f in ("put", "append", "get") else None


@dataclass
class Forest:
    """Strings that must have been under the key, each by a number, with the one that each was appended to.

    Attributes:
        shown: by number, a text that gets answered and of which the string is the beginning.
        length: by number, how much of it.
        parent: by number; NONE for a base.
        numbers: by answered text.
        bases: numbers of the bases.
        places: by piece, the numbers of the strings that end with it.
    """

    shown: list[str] = field(default_factory=list[str])
    length: list[int] = field(default_factory=list[int])
    parent: list[int] = field(default_factory=list[int])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    bases: dict[str, int] = field(default_factory=dict[str, int])
    places: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def add(self, text: str, length: int, parent: int) -> int:
        """The number of a new string, the beginning of a text."""
        number = len(self.shown)
        self.shown.append(text)
        self.length.append(length)
        self.parent.append(parent)
        if parent == NONE:
            self.bases[text[:length]] = number
        else:
            self.places.setdefault(text[self.length[parent] : length], []).append(number)
        return number

    def string(self, number: int) -> str:
        """The string that has a number."""
        return self.shown[number][: self.length[number]]


class Composer:
    """Finds what texts are composed of; texts are read in ascending order.

    By position in the text that was read: how many compositions lead there (0, 1, or 2 for more), the row before which
    none of them can have been there, and where the last piece of one that is possible first begins.
    """

    def __init__(self, store: Store) -> None:
        self._bases = {text: store.begin[ops[0]] for text, ops in store.puts.items()}
        self._bases[store.initial] = NONE
        self._pieces = {text: store.begin[ops[0]] for text, ops in store.pieces.items()}
        self._base_lengths = sorted({len(text) for text in self._bases})
        self._piece_lengths = sorted({len(text) for text in self._pieces})
        self._text = ""
        self._ways = bytearray()
        self._since: list[int] = []
        self._back: list[int] = []
        self._number: list[int] = []

    def read(self, text: str) -> tuple[int, int]:
        """How many compositions a text has (2 for more), and the row before which there can be none."""
        common = in_common(self._text, text) if self._ways else NONE
        more = len(text) - common
        for kept, nothing in ((self._since, NEVER), (self._back, NONE), (self._number, NONE)):
            del kept[common + 1 :]
            kept.extend([nothing] * more)
        del self._ways[common + 1 :]
        self._ways.extend(bytes(more))
        self._text = text
        for length in self._base_lengths:
            if common < length <= len(text):
                since = self._bases.get(text[:length], NEVER)
                if since != NEVER:
                    self._ways[length], self._since[length] = 1, since
        self._extend(text, common)
        return self._ways[-1], self._since[-1]

    def _extend(self, text: str, common: int) -> None:
        """Find what can be composed beyond what is in common."""
        ways, since, back, lengths, pieces = self._ways, self._since, self._back, self._piece_lengths, self._pieces
        if not lengths:
            return
        for at in range(max(0, common + 1 - lengths[-1]), len(text)):
            if not ways[at]:
                continue
            for length in lengths:
                to = at + length
                if to > len(text):
                    break
                began = pieces.get(text[at:to]) if to > common else None
                if began is None:
                    continue
                ways[to] = min(2, ways[to] + ways[at])
                if max(since[at], began) < since[to]:
                    since[to], back[to] = max(since[at], began), at

    def plant(self, forest: Forest) -> None:
        """Add the beginnings of the text that was read, which has one composition."""
        text, number, back = self._text, self._number, self._back
        cuts: list[int] = []
        at = len(text)
        while at != NONE and number[at] == NONE:
            cuts.append(at)
            at = back[at]
        parent = number[at] if at != NONE else NONE
        for cut in reversed(cuts):
            parent = number[cut] = forest.add(text, cut, parent)
        forest.numbers[text] = parent


def in_common(one: str, other: str) -> int:
    """The length of the beginning that two texts have in common."""
    if other.startswith(one):
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
