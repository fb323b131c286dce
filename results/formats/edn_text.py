r"""EDN, as Clojure prints it, to what JSON can carry; and JSON's values to EDN.

What EDN has and JSON has not becomes:

    keyword, symbol      its name, without the colon: `:read` and "read" are one string
    character            a string of one character
    list, set            a list; that of a set is sorted, so that equal sets are equal lists
    map                  an object; keys become strings, numbers and nil their digits, collections their JSON
    12, 12N, 0xc         a number, of any size
    ratio, 1.5M          a string for a ratio, and for a decimal that would lose digits as a number; else a number
    ##NaN, ##Inf, 1e400  a number for which JSON has no text: see `json_of`
    #tag value           records (`#jepsen.history.Op{...}`), #inst and #uuid: the value; others {"#tag": value}

Two keys of a map that would become one string are refused. `;` comments and `#_` forms are left out.

Sources: the EDN specification (github.com/edn-format/edn), and the Clojure reader for what printers add to it
(`#:ns{...}`, `##Inf`, hexadecimal numbers, octal and Unicode escapes).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from splitbrain.results.values import NotFiniteError, canonical_json

_SPACE: Final = re.compile(r"(?:[\s,]+|;[^\n]*)*")
_TOKEN: Final = re.compile(
    r"""(?P<open>\#?\{|[\[(])|(?P<close>[\])}])
    |"(?P<string>(?:[^"\\]|\\.)*+)"
    |\\(?P<char>[^\s](?:[^\s,\[\](){}"\\;]*))
    |(?P<discard>\#_)
    |(?P<tag>\#(?!\#)[^\s,\[\](){}"\\;]+)
    |(?P<atom>[^\s,\[\](){}"\\;]+)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSING: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)N?")
_HEX: Final = re.compile(r"[+-]?0[xX][0-9a-fA-F]+N?")
_DECIMAL: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?")
_RATIO: Final = re.compile(r"[+-]?[0-9]+/[0-9]+")
_NUMBER_START: Final = re.compile(r"[+-]?[0-9]")
_WORDS: Final = {"nil": None, "true": True, "false": False}
_CHARACTERS: Final = {
    "newline": "\n",
    "space": " ",
    "tab": "\t",
    "return": "\r",
    "backspace": "\b",
    "formfeed": "\f",
}
_ESCAPES: Final = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-7]{1,3}|.)", re.DOTALL)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_PLAIN_TAGS: Final = frozenset({"inst", "uuid"})
_DEPTH_LIMIT: Final = 200
_DIGITS_LIMIT: Final = 4_300
"""Python turns no more digits into a number, or back, and neither does the reader of JSON."""
_TOO_LONG: Final = 10**_DIGITS_LIMIT
_SIGNED_LIMIT: Final = 1 << 63


class EdnError(ValueError):
    """Text that is not EDN; `at` is the offset of what is wrong."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem)
        self.at = at


class _Nothing:
    """What a discarded form leaves: nothing."""


_NOTHING: Final = _Nothing()


def parse(text: str) -> Any:
    """The only form in a text.

    Raises:
        EdnError: there is none, more than one, or one that cannot be read.
    """
    found = [value for _, value in forms(text)]
    if len(found) != 1:
        raise EdnError(f"expected one form, found {len(found)}", 0)
    return found[0]


def forms(text: str) -> Iterator[tuple[int, Any]]:
    """The forms of a text, each with the offset at which it begins.

    Raises:
        EdnError: one cannot be read, or the text ends inside one.
    """
    at = _after_space(text, 0)
    while at < len(text):
        value, end = _form(text, at, 0)
        if not isinstance(value, _Nothing):
            yield at, value
        at = _after_space(text, end)


def elements(text: str, at: int) -> Iterator[tuple[int, Any]]:
    """The elements of the vector or list whose bracket is at `at`, each with its offset; nothing may follow it.

    Raises:
        EdnError: an element cannot be read, the text ends before the bracket is closed, or something follows.
    """
    closing = _CLOSING[text[at]]
    inside = _after_space(text, at + 1)
    while text[inside : inside + 1] != closing:
        if inside == len(text):
            raise EdnError(f"the text ends, and '{text[at]}' is not closed", at)
        value, end = _form(text, inside, 1)
        if not isinstance(value, _Nothing):
            yield inside, value
        inside = _after_space(text, end)
    after = _after_space(text, inside + 1)
    if after < len(text):
        raise EdnError(f"expected the end, found {text[after : after + 40]!r}", after)


def start(text: str) -> int:
    """The offset of the first form, behind white space and comments."""
    return _after_space(text, 0)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _form(text: str, at: int, depth: int) -> tuple[Any, int]:
    """A form and the offset behind it; `_NOTHING` for a discarded one."""
    if depth > _DEPTH_LIMIT:
        raise EdnError(f"nested deeper than {_DEPTH_LIMIT}", at)
    token = _TOKEN.match(text, at)
    if token is None:
        raise EdnError("the text ends in the middle of a string" if text[at : at + 1] == '"' else "the text ends", at)
    end = token.end()
    match token.lastgroup:
        case "open":
            return _collection(text, at, token["open"], end, depth)
        case "string":
            return _unescaped(token["string"], at), end
        case "atom":
            return _atom(token["atom"], at), end
        case "char":
            return _character(token["char"], at), end
        case "discard":
            _, end = _next(text, end, depth, "#_")
            return _NOTHING, end
        case "tag":
            return _tagged(text, at, token["tag"], end, depth)
        case _:
            raise EdnError(f"'{token[0]}' closes nothing", at)


def _next(text: str, at: int, depth: int, after: str) -> tuple[Any, int]:
    """The next form that is not discarded."""
    value: Any = _NOTHING
    while isinstance(value, _Nothing):
        at = _after_space(text, at)
        if at == len(text):
            raise EdnError(f"the text ends after {after!r}", at)
        value, at = _form(text, at, depth + 1)
    return value, at


def _collection(text: str, at: int, opening: str, inside: int, depth: int) -> tuple[Any, int]:
    closing = _CLOSING[opening]
    items: list[Any] = []
    inside = _after_space(text, inside)
    while text[inside : inside + 1] != closing:
        if inside == len(text):
            raise EdnError(f"the text ends, and '{opening}' is not closed", at)
        value, inside = _form(text, inside, depth + 1)
        if not isinstance(value, _Nothing):
            items.append(value)
        inside = _after_space(text, inside)
    if opening == "{":
        return _object(items, at), inside + 1
    return (sorted(items, key=_set_order) if opening == "#{" else items), inside + 1


def _object(items: list[Any], at: int) -> dict[str, Any]:
    if len(items) % 2:
        raise EdnError("a map has a key without a value", at)
    keys = [key if isinstance(key, str) else _name(key) for key in items[::2]]
    found = dict(zip(keys, items[1::2], strict=True))
    if len(found) < len(keys):
        raise EdnError("two keys of a map are one and the same string", at)
    return found


def _set_order(item: Any) -> tuple[bool, float, str]:
    """Numbers by size, the rest by their text."""
    number = isinstance(item, int | float) and not isinstance(item, bool)
    return not number, float(item) if number and math.isfinite(item) else 0.0, _name(item)


def _name(value: Any) -> str:
    """The text that stands for a value where there must be one: JSON, or EDN for a number that JSON has not."""
    try:
        return canonical_json(value)
    except NotFiniteError:
        return written(value)


def _tagged(text: str, at: int, tag: str, end: int, depth: int) -> tuple[Any, int]:
    value, after = _next(text, end, depth, tag)
    name = tag[1:]
    if name.startswith(":"):
        if not isinstance(value, dict):
            raise EdnError(f"expected a map after {tag!r}", at)
        entries = cast("dict[str, Any]", value).items()
        return {key if "/" in key else f"{name[1:]}/{key}": each for key, each in entries}, after
    record = text.startswith("{", _after_space(text, end)) and "." in name
    found: Any = value if name in _PLAIN_TAGS or record else {f"#{name}": value}
    return found, after


def _atom(word: str, at: int) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    if word[0] == ":":
        if len(word) == 1 or word == "::":
            raise EdnError(f"expected a keyword, found {word!r}", at)
        return word.lstrip(":")
    if word in _NOT_FINITE:
        return _NOT_FINITE[word]
    if word.startswith("##"):
        raise EdnError(f"expected ##NaN, ##Inf or ##-Inf, found {word[:40]!r}", at)
    return _number(word, at) if _NUMBER_START.match(word) else word


def _number(word: str, at: int) -> Any:
    number: int | float
    if _INTEGER.fullmatch(word):
        return _exact(word.rstrip("N"), 10, at)
    if _HEX.fullmatch(word):
        return _exact(word.rstrip("N"), 16, at)
    if _RATIO.fullmatch(word):
        return word
    if _DECIMAL.fullmatch(word):
        digits = word.rstrip("M")
        number = float(digits)
        return digits if word.endswith("M") and repr(number) != digits else number
    raise EdnError(f"expected a number, found {word[:40]!r}", at)


_NOT_FINITE: Final = {"##NaN": float("nan"), "##Inf": float("inf"), "##-Inf": float("-inf")}


def _exact(digits: str, base: int, at: int) -> int:
    """A whole number of any size, as in JSON lines."""
    number = int(digits, base) if len(digits) <= _DIGITS_LIMIT else None
    if number is None or abs(number) >= _TOO_LONG:
        raise EdnError(f"a number has more than {_DIGITS_LIMIT:,} digits", at)
    return number


def _character(name: str, at: int) -> str:
    if len(name) == 1:
        return name
    if name in _CHARACTERS:
        return _CHARACTERS[name]
    if re.fullmatch(r"u[0-9a-fA-F]{4}", name):
        return _whole(chr(int(name[1:], 16)), at)
    if re.fullmatch(r"o[0-7]{1,3}", name):
        return chr(int(name[1:], 8))
    raise EdnError(f"expected a character, found '\\{name[:40]}'", at)


def _unescaped(content: str, at: int) -> str:
    if "\\" not in content:
        return content

    def character(found: re.Match[str]) -> str:
        escape = found[1]
        if escape[0] == "u" and len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape[0] in "01234567":
            return chr(int(escape, 8))
        if escape not in _ESCAPES:
            raise EdnError(f"a string has the escape '\\{escape}', which EDN does not know", at)
        return _ESCAPES[escape]

    return _whole(_ESCAPE.sub(character, content), at)


def _whole(text: str, at: int) -> str:
    """`text` with its surrogate pairs joined; one without its other half is no character."""
    if not _SURROGATES.search(text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise EdnError("half of a surrogate pair is not a character", at) from None


# --- in bulk ----------------------------------------------------------------------------------------------------------

_SIMPLE: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NESTED: Final = re.compile(
    r"(?:[\[(\])]|[\s,]|-?(?:0|[1-9][0-9]{0,17})(?![^\s,\[\]()])|:?[a-z][a-z-]*(?![^\s,\[\]()]))*+"
)
_PIECE: Final = re.compile(r"[\[(]|[\])]|[^\s,\[\]()]+")


def json_of(text: str) -> str | None:
    """A form as canonical JSON text; None for nil.

    Numbers, and vectors of numbers and keywords, go from text to text: they are most of what a history holds.

    Raises:
        EdnError: it is not one form.
        NotFiniteError: it holds a number that is not finite.
    """
    if _SIMPLE.fullmatch(text):
        return text if text != "-0" else "0"
    if text == "nil":
        return None
    if text[:1] in ("[", "(") and _NESTED.fullmatch(text):
        translated = _translated(text)
        if translated is not None:
            return translated
    value = parse(text)
    return None if value is None else canonical_json(value)


def _translated(text: str) -> str | None:
    """A vector of simple atoms as JSON; None where the brackets do not fit, or it has something else."""
    out: list[str] = []
    depth = 0
    fresh = True
    for piece in _PIECE.findall(text):
        if piece in "])":
            depth -= 1
            out.append("]")
            if depth < 0:
                return None
            fresh = False
            continue
        if not fresh:
            if depth == 0:
                return None
            out.append(",")
        if piece in "[(":
            depth += 1
            out.append("[")
            fresh = True
            continue
        fresh = False
        if piece[0] == ":":
            out.append(f'"{piece[1:]}"')
        elif piece[0] in "-0123456789":
            out.append("0" if piece == "-0" else piece)
        elif piece in _JSON_WORDS:
            out.append(_JSON_WORDS[piece])
        else:
            out.append(f'"{piece}"')
    mixed = ("(" in text or ")" in text) and ("[" in text or "]" in text)
    return None if depth or mixed else "".join(out)


_JSON_WORDS: Final = {"nil": "null", "true": "true", "false": "false"}


# --- writing ----------------------------------------------------------------------------------------------------------

_KEYWORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9.*+!?_$<>=-]*(?:/[A-Za-z][A-Za-z0-9.*+!?_$<>=-]*)?")
_UNPRINTABLE: Final = re.compile(r'["\\\x00-\x1f\x7f]')
_WRITTEN: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def keyword(name: str) -> str:
    """A name as a keyword; as a string where it has a character that a keyword cannot have."""
    return f":{name}" if _KEYWORD.fullmatch(name) else string(name)


def string(text: str) -> str:
    """A string in quotes."""
    return '"' + _UNPRINTABLE.sub(lambda found: _WRITTEN.get(found[0]) or f"\\u{ord(found[0]):04x}", text) + '"'


def written(value: Any) -> str:
    """What JSON can carry as EDN: strings stay strings, the keys of an object become keywords."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return string(value)
    if isinstance(value, list | tuple):
        return "[" + " ".join(written(item) for item in cast("list[Any]", value)) + "]"
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{keyword(key)} {written(item)}" for key, item in items) + "}"
    if isinstance(value, int):
        return f"{value}N" if not -_SIGNED_LIMIT <= value < _SIGNED_LIMIT else str(value)
    number = float(value)
    if math.isfinite(number):
        return repr(number)
    return "##NaN" if math.isnan(number) else "##Inf" if number > 0 else "##-Inf"


def written_json(text: str | None) -> str:
    """The EDN of a value that is given as JSON text."""
    if text is None:
        return "nil"
    return text if _SIMPLE.fullmatch(text) else written(msgspec.json.decode(text))
