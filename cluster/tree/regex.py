"""Regular expressions for names, matched in time linear in the name, and alike on every member.

A pattern comes through the log, so it must cost no member more than it costs the client to send. Python's `re`
backtracks: `(a*)*b` takes hours on thirty characters. RE2 does not, but what it and `re` take for a letter follows the
Unicode tables of the program, which differ between members that run different versions; and a node needs nothing but
msgspec now. Names are short and patterns of names simple, so there is one small automaton instead (Glushkov, 1961;
in bits after Navarro and Raffinot, 2001): a bit for each position of the pattern, one step for each character.

The syntax: characters; `.`; `[a-z]` and `[^a-z]`; `\\d \\w \\s` and their opposites, of ASCII; `\\` before punctuation;
`(...)` and `(?:...)`; `|`; `* + ?` and `{m}`, `{m,}`, `{m,n}`; `^` at the beginning and `$` at the end of the whole or
of an alternative that is not in a group. A pattern is found anywhere in the name (unanchored), as in Khepri.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NoReturn, TypeAlias

MAX_LENGTH: Final = 256
"""Characters of a pattern."""

MAX_POSITIONS: Final = 256
"""Characters and classes of a pattern, each as often as it is repeated by number."""

MAX_NESTING: Final = 16
"""Groups within groups."""

_MAX_STEPS_KEPT: Final = 1024

_Range: TypeAlias = tuple[str, str]

_CLASSES: Final[dict[str, tuple[_Range, ...]]] = {
    "d": (("0", "9"),),
    "w": (("a", "z"), ("A", "Z"), ("0", "9"), ("_", "_")),
    "s": ((" ", " "), ("\t", "\r")),
}
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t"}


class RegexError(ValueError):
    """A pattern is none of this syntax; the message says why and where."""


@dataclass(frozen=True, slots=True)
class _Class:
    """The characters that one position takes."""

    ranges: tuple[_Range, ...]
    negated: bool = False

    def takes(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self.ranges) != self.negated


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the pattern: whether it matches nothing at all, and the positions at which it begins and ends."""

    nullable: bool
    first: int
    last: int


_NOTHING: Final = _Part(True, 0, 0)


@dataclass(slots=True)
class Regex:
    """A compiled pattern: `found_in(name)`."""

    source: str
    _classes: list[_Class] = field(default_factory=list[_Class])
    _follow: list[int] = field(default_factory=list[int])
    _begins: int = 0  # positions at which a match may begin anywhere
    _begins_once: int = 0  # ... only at the beginning of the name
    _ends: int = 0  # positions at which a match may end anywhere
    _ends_once: int = 0  # ... only at the end of the name
    _always: bool = False  # whether it matches nothing at all, somewhere in every name
    _when_empty: bool = False
    _takes: dict[str, int] = field(default_factory=dict[str, int])
    _steps: dict[int, int] = field(default_factory=dict[int, int])

    def found_in(self, name: str) -> bool:
        """Whether the pattern matches a part of the name."""
        if self._always or (self._when_empty and not name):
            return True
        active = 0
        following = self._begins | self._begins_once
        for character in name:
            active = following & self._positions_of(character)
            if active & self._ends:
                return True
            following = self._after(active) | self._begins
        return bool(active & self._ends_once)

    def _positions_of(self, character: str) -> int:
        found = self._takes.get(character)
        if found is None:
            found = sum(1 << at for at, taken in enumerate(self._classes) if taken.takes(character))
            if len(self._takes) < _MAX_STEPS_KEPT:
                self._takes[character] = found
        return found

    def _after(self, active: int) -> int:
        found = self._steps.get(active)
        if found is None:
            found, left = 0, active
            while left:
                lowest = left & -left
                found |= self._follow[lowest.bit_length() - 1]
                left ^= lowest
            if len(self._steps) < _MAX_STEPS_KEPT:
                self._steps[active] = found
        return found

    # --- what the parser builds it with ---------------------------------------------------------------------------

    def position(self, taken: _Class) -> _Part:
        """A new position."""
        if len(self._classes) >= MAX_POSITIONS:
            raise RegexError(f"the pattern has more than {MAX_POSITIONS} positions, counting repetitions")
        bit = 1 << len(self._classes)
        self._classes.append(taken)
        self._follow.append(0)
        return _Part(False, bit, bit)

    def joined(self, left: _Part, right: _Part) -> _Part:
        """One part after the other."""
        self._link(left.last, right.first)
        return _Part(
            left.nullable and right.nullable,
            left.first | right.first if left.nullable else left.first,
            left.last | right.last if right.nullable else right.last,
        )

    def repeated(self, part: _Part) -> _Part:
        """A part once or more often."""
        self._link(part.last, part.first)
        return part

    def add_alternative(self, part: _Part, *, at_begin: bool, at_end: bool) -> None:
        """The whole pattern, or one of its alternatives outside of groups."""
        if part.nullable:
            self._always |= not (at_begin and at_end)
            self._when_empty = True
        if at_begin:
            self._begins_once |= part.first
        else:
            self._begins |= part.first
        if at_end:
            self._ends_once |= part.last
        else:
            self._ends |= part.last
            self._ends_once |= part.last

    def _link(self, last: int, first: int) -> None:
        while last:
            lowest = last & -last
            self._follow[lowest.bit_length() - 1] |= first
            last ^= lowest


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._regex = Regex(source)

    def parse(self) -> Regex:
        # An alternative that begins or ends anchored shares no position with others: they are separate automata.
        while True:
            at_begin = self._skip("^")
            part = self._sequence(0, ends_with_dollar=True)
            self._regex.add_alternative(part, at_begin=at_begin, at_end=self._skip("$"))
            if self._at == len(self._source):
                return self._regex
            if not self._skip("|"):
                self._fail("this stands where a pattern ends")

    def _sequence(self, depth: int, *, ends_with_dollar: bool) -> _Part:
        part = _NOTHING
        while self._at < len(self._source) and self._peek() not in "|)":
            if self._peek() == "$" and ends_with_dollar:
                break
            part = self._regex.joined(part, self._item(depth))
        return part

    def _group(self, depth: int) -> _Part:
        if depth >= MAX_NESTING:
            self._fail(f"groups are nested more than {MAX_NESTING} deep")
        parts = [self._sequence(depth + 1, ends_with_dollar=False)]
        while self._skip("|"):
            parts.append(self._sequence(depth + 1, ends_with_dollar=False))
        if not self._skip(")"):
            self._fail("a group is not closed")
        whole = parts[0]
        for part in parts[1:]:
            whole = _Part(whole.nullable or part.nullable, whole.first | part.first, whole.last | part.last)
        return whole

    def _item(self, depth: int) -> _Part:
        begin = self._at
        part = self._atom(depth)
        end = self._at
        least, most = self._quantifier()
        if self._at < len(self._source) and self._peek() in "*+?":
            self._fail("a repetition is repeated")
        return self._times(part, (begin, end), depth, least, most)

    def _times(self, part: _Part, span: tuple[int, int], depth: int, least: int, most: int | None) -> _Part:
        """A part that stands in the source at `span`, so often; None: without a limit."""
        if most == 0:
            return _NOTHING
        whole = self._optional(part) if least == 0 else part
        if most is None and least <= 1:
            return self._regex.repeated(whole)
        copies = least if most is None else most
        for number in range(2, copies + 1):
            copy = self._again(span, depth)
            if most is None and number == copies:
                copy = self._regex.repeated(copy)
            whole = self._regex.joined(whole, self._optional(copy) if number > least else copy)
        return whole

    def _again(self, span: tuple[int, int], depth: int) -> _Part:
        kept, self._at = self._at, span[0]
        part = self._atom(depth)
        assert self._at == span[1], "the same source is read alike"
        self._at = kept
        return part

    @staticmethod
    def _optional(part: _Part) -> _Part:
        return _Part(True, part.first, part.last)

    def _quantifier(self) -> tuple[int, int | None]:
        if self._skip("*"):
            return 0, None
        if self._skip("+"):
            return 1, None
        if self._skip("?"):
            return 0, 1
        if not self._skip("{"):
            return 1, 1
        least = self._number()
        most: int | None = least
        if self._skip(","):
            most = None if self._at < len(self._source) and self._peek() == "}" else self._number()
        if not self._skip("}"):
            self._fail("a repetition is {m}, {m,} or {m,n}")
        if most is not None and most < least:
            self._fail("a repetition ends before it begins")
        return least, most

    def _number(self) -> int:
        begin = self._at
        while self._at < len(self._source) and self._peek() in "0123456789":
            self._at += 1
        digits = self._source[begin : self._at]
        if not digits or len(digits) > 3:
            self._fail("a repetition needs a number of at most three digits")
        return int(digits)

    def _atom(self, depth: int) -> _Part:
        character = self._next()
        if character == "(":
            if self._skip("?") and not self._skip(":"):
                self._fail("of groups with '?' there is only (?:...)")
            return self._group(depth)
        if character in "*+?{":
            self._fail("there is nothing to repeat before this")
        if character in "^$":
            self._fail("'^' stands at the beginning and '$' at the end, outside of groups")
        return self._regex.position(self._taken(character))

    def _taken(self, character: str) -> _Class:
        match character:
            case ".":
                return _Class((), negated=True)
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case _:
                return _Class(((character, character),))

    def _escape(self) -> _Class:
        character = self._next()
        if character.lower() in _CLASSES:
            return _Class(_CLASSES[character.lower()], negated=character.isupper())
        literal = _CONTROLS.get(character, character)
        if literal == character and character.isalnum():
            self._fail(f"there is no '\\{character}'")
        return _Class(((literal, literal),))

    def _class(self) -> _Class:
        negated = self._skip("^")
        ranges: list[_Range] = []
        while not (ranges and self._skip("]")):
            low = self._member(ranges)
            if low is None:
                continue
            high = low
            if self._source[self._at : self._at + 1] == "-" and self._source[self._at + 1 : self._at + 2] not in (
                "]",
                "",
            ):
                self._at += 1
                last = self._member(ranges)
                if last is None or last < low:
                    self._fail("a range of characters ends before it begins")
                high = last
            ranges.append((low, high))
        return _Class(tuple(ranges), negated)

    def _member(self, ranges: list[_Range]) -> str | None:
        """A character of a class; a class within it is added at once, and gives None."""
        character = self._next()
        if character != "\\":
            return character
        escaped = self._escape()
        if escaped.negated:
            self._fail("a class cannot contain the opposite of another one")
        if len(escaped.ranges) == 1 and escaped.ranges[0][0] == escaped.ranges[0][1]:
            return escaped.ranges[0][0]
        ranges.extend(escaped.ranges)
        return None

    def _peek(self) -> str:
        return self._source[self._at]

    def _next(self) -> str:
        if self._at >= len(self._source):
            self._fail("the pattern ends too early")
        self._at += 1
        return self._source[self._at - 1]

    def _skip(self, wanted: str) -> bool:
        if self._source[self._at : self._at + 1] != wanted:
            return False
        self._at += 1
        return True

    def _fail(self, problem: str) -> NoReturn:
        raise RegexError(f"{problem}, at character {self._at} of {self._source!r}")


@lru_cache(maxsize=512)
def compile_regex(source: str) -> Regex:
    """The pattern, ready to be searched for.

    Raises:
        RegexError: it is too long, or none of the syntax above.
    """
    if len(source) > MAX_LENGTH:
        raise RegexError(f"a pattern has at most {MAX_LENGTH} characters, not {len(source):,}")
    return _Parser(source).parse()
