"""Jepsen's histories: EDN, one vector (or list) of ops, or one op after the other.

    {:index 0, :time 10529279413, :type :invoke, :process 0, :f :write, :value 3}

What is read: :type, :process, :f, :value, :key, :node, :term, :error, :time, :index; other fields are named in the
table's notes. How EDN becomes JSON is described at `edn_text`. Further:

*   `:process :nemesis` is the nemesis (-1), `:process :harness` the harness (-2).
*   `:fail` means "did not happen", that of a cas too.
*   Values that are tuples of independent keys, ops without processes or completions: see `rows.table_of`.
*   A transaction (`:f :txn`, or no :f and micro-operations as the value) keeps its value, and has it as columns too.
*   `:splitbrain/type`, `:splitbrain/value` and `:splitbrain/key` come from our own export: what the op is exactly,
    where Jepsen needs another value. `:splitbrain/due` is when it was due.

Most files have an op a line in a few layouts. Such lines are taken apart by one regular expression for each layout,
and each distinct value is parsed once; everything written in another way goes through the parser. Both read the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.results.arrow import Column, array, compute
from splitbrain.results.columns import flags, numbers
from splitbrain.results.columns import text as text_scalar
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats import edn_text
from splitbrain.results.formats.edn_text import EdnError
from splitbrain.results.formats.edn_transactions import translated
from splitbrain.results.formats.rows import NO_PROCESS, NONE, Bools, Ints, Rows, nothing, texts
from splitbrain.results.formats.transactions import named_transactions, with_mops
from splitbrain.results.history import HARNESS, NEMESIS
from splitbrain.results.keys import key_names
from splitbrain.results.values import NotFiniteError, canonical_json

Match: TypeAlias = Callable[[str], re.Match[str] | None]

_Piece: TypeAlias = tuple[Ints, dict[str, Column]]
"""Lines of one layout, and their fields as EDN texts by name."""

_arrow: Final[Any] = pa

_FIELDS: Final = (
    "type",
    "process",
    "f",
    "value",
    "key",
    "node",
    "term",
    "error",
    "time",
    "index",
    "splitbrain/due",
    "splitbrain/type",
    "splitbrain/value",
    "splitbrain/key",
)
_NAMED_PROCESSES: Final = {"nemesis": NEMESIS, "harness": HARNESS}
_LAYOUTS_LIMIT: Final = 64
_AT_ONCE: Final = 1 << 16
"""Lines whose fields are Python objects at the same time."""

_ATOM: Final = r'[^\s,\[\](){}"\\;#]++(?!#)'
_STRING: Final = r'"[^"\\]*+"'
_INSIDE: Final = r'[^\[\](){}"\\;#]'
_FLAT: Final = rf"(?:\[|\(|\#?\{{)(?:{_INSIDE}|{_STRING})*+[\])}}]"
_NESTED: Final = rf"(?:\[|\(|\#?\{{)(?:{_INSIDE}|{_STRING}|{_FLAT})*+[\])}}]"
_VALUE: Final = rf"(?:\[|\(|\#?\{{)(?:{_INSIDE}|{_STRING}|{_NESTED})*+[\])}}]|{_ATOM}|{_STRING}"
_ENTRY: Final = re.compile(rf":((?!:){_ATOM})[\s,]*+({_VALUE})[\s,]*+")
_OPENING: Final = re.compile(r"(?:\#[A-Za-z][\w-]*+\.[\w.-]*+[\s,]*+)?\{[\s,]*+")
_BLANK: Final = re.compile(r"[\s,]*+(?:;.*)?")


def read(text: str, source: str) -> Rows:
    """The ops of a file; `source` names it in errors.

    Raises:
        HistoryFormatError: it is not EDN, or something in it is not an op.
    """
    found = _line_by_line(text)
    if found is not None:
        try:
            return _rows(*found, source)
        except HistoryFormatError:
            pass  # The parser has the last word, so that a file is refused in one way.
    return read_slowly(text, source)


def read_slowly(text: str, source: str) -> Rows:
    """The same, by the parser alone: what `read` must agree with."""
    return _rows(*_form_by_form(text, source), source)


# --- an op a line -----------------------------------------------------------------------------------------------------


def _line_by_line(text: str) -> tuple[Ints, dict[str, Column]] | None:
    """Lines and fields as EDN texts, if every line holds one op in a layout that a pattern fits; else None."""
    lines = _without_brackets(text)
    if lines is None:
        return None
    layouts: dict[tuple[str, ...], Match] = {}
    pieces: list[_Piece] = []
    for start in range(0, len(lines), _AT_ONCE):
        found = _pieces(lines[start : start + _AT_ONCE], start, layouts)
        if found is None:
            return None
        pieces += found
    return _columns(pieces)


def _pieces(lines: list[str], start: int, layouts: dict[tuple[str, ...], Match]) -> list[_Piece] | None:
    """The fields of some lines, layout by layout; None if a line is in no layout.

    Args:
        lines: the lines.
        start: how many there are before them.
        layouts: those that are known; what these lines bring is added.
    """
    rows: dict[tuple[str, ...], tuple[list[int], list[Any]]] = {}
    match = None
    numbers: list[int] = []
    groups: list[Any] = []
    for number, line in enumerate(lines, start):
        found = match(line) if match is not None else None
        if found is None:
            if _BLANK.fullmatch(line):
                continue
            fitting = _fitting(line, layouts)
            if fitting is None:
                return None
            layout, match = fitting
            numbers, groups = rows.setdefault(layout, ([], []))
            found = match(line)
            if found is None:
                return None
        numbers.append(number)
        groups.append(found.groups())
    return [
        (np.asarray(own, np.int64), dict(zip(layout, map(texts, map(list, zip(*found, strict=True))), strict=True)))
        for layout, (own, found) in rows.items()
    ]


def _fitting(line: str, layouts: dict[tuple[str, ...], Match]) -> tuple[tuple[str, ...], Match] | None:
    """A layout that the line is in, one that is known if possible; None if there is none, or there are too many."""
    for layout, match in layouts.items():
        if match(line) is not None:
            return layout, match
    made = _layout(line)
    if made is None or len(layouts) == _LAYOUTS_LIMIT:
        return None
    layouts[made[0]] = made[1]
    return made


def _without_brackets(text: str) -> list[str] | None:
    """The lines of a file, without the brackets around all ops; None if a bracket is not where one expects it."""
    at = edn_text.start(text)
    if at == len(text) or text[at] not in "[(":
        return text.split("\n")
    end = len(text.rstrip())
    if end - 1 == at or text[end - 1] != ("]" if text[at] == "[" else ")"):
        return None
    lines = f"{text[:at]} {text[at + 1 : end - 1]}".split("\n")
    # A bracket in a comment closes nothing.
    return None if ";" in lines[-1] else lines


def _layout(line: str) -> tuple[tuple[str, ...], Match] | None:
    """The fields of an op in their order, and a pattern for lines like it; None if it is not so simple."""
    start = _OPENING.match(line.strip(" ,\t\r"))
    if start is None:
        return None
    names: list[str] = []
    at, content = start.end(), line.strip(" ,\t\r")
    while content[at : at + 1] != "}":
        entry = _ENTRY.match(content, at)
        if entry is None:
            return None
        names.append(entry[1])
        at = entry.end()
    if at + 1 != len(content) or len(set(names)) < len(names):
        return None
    entries = r"[\s,]*+".join(rf":{re.escape(name)}(?![^\s,\[\](){{}}\"\\;])[\s,]*+({_VALUE})" for name in names)
    return tuple(names), re.compile(rf"[\s,]*+{_OPENING.pattern}{entries}[\s,]*+\}}[\s,]*+").fullmatch


def _columns(pieces: list[_Piece]) -> tuple[Ints, dict[str, Column]]:
    """Columns of EDN texts in the order of the lines, null where a line has no such field."""
    lines = np.concatenate([own for own, _ in pieces] or [np.zeros(0, np.int64)])
    order = np.argsort(lines, kind="stable")
    straight = bool(np.all(lines[1:] > lines[:-1]))
    found: dict[str, Column] = {}
    for name in dict.fromkeys(name for _, columns in pieces for name in columns):
        cells = [columns.pop(name) if name in columns else nothing(len(own)) for own, columns in pieces]
        column: Any = _arrow.concat_arrays(cells)
        found[name] = column if straight else column.take(array(order))
    return lines[order] + 1, found


# --- anything else ----------------------------------------------------------------------------------------------------


def _form_by_form(text: str, source: str) -> tuple[Ints, dict[str, Column]]:
    """Lines and fields as EDN texts, by the parser."""
    breaks = np.asarray([found.start() for found in re.finditer("\n", text)], np.int64)

    def line(at: int) -> int:
        return int(np.searchsorted(breaks, at)) + 1

    lines: list[int] = []
    columns: dict[str, list[Any]] = {}
    try:
        at = edn_text.start(text)
        outer = text[at : at + 1] in ("[", "(")
        for place, form in edn_text.elements(text, at) if outer else edn_text.forms(text):
            if not isinstance(form, dict):
                found = edn_text.written(form)[:60]
                raise HistoryFormatError(source, f"expected an op as a map, found {found}.", line=line(place))
            for name, value in cast("dict[str, Any]", form).items():
                cells = columns.setdefault(name, [])
                cells.extend([None] * (len(lines) - len(cells)))
                cells.append(edn_text.written(value))
            lines.append(line(place))
    except EdnError as error:
        raise HistoryFormatError(source, f"not EDN: {error}.", line=line(error.at)) from error
    for cells in columns.values():
        cells.extend([None] * (len(lines) - len(cells)))
    return np.asarray(lines, np.int64), {name: texts(cells) for name, cells in columns.items()}


# --- fields to columns ------------------------------------------------------------------------------------------------


class _Fields:
    """The fields of a file as EDN texts, and what they become."""

    def __init__(self, line: Ints, columns: dict[str, Column], source: str) -> None:
        self.line = line
        self.columns = columns
        self.source = source

    def json(self, name: str, *, finite: Bools | None = None, explicit_nil: bool = False) -> Column:
        """JSON texts; null where there is no such field, or nil.

        In rows that are `finite`, NaN and the infinities are refused; elsewhere they become strings.
        """
        column = self.columns.get(name)
        if column is None:
            return nothing(len(self.line))
        encoded: Any = compute.dictionary_encode(column)
        distinct: list[str] = encoded.dictionary.to_pylist()
        known: list[str | None] = translated(encoded.dictionary).to_pylist()
        try:
            found = [
                edn_text.json_of(text) if json is None else json for text, json in zip(distinct, known, strict=True)
            ]
        except (EdnError, NotFiniteError):
            found = [self._json(name, text, finite) for text in distinct]
        if explicit_nil:
            found = ["null" if text is None else text for text in found]
        return texts(found).take(encoded.indices)

    def _json(self, name: str, text: str, finite: Bools | None) -> str | None:
        try:
            return edn_text.json_of(text)
        except NotFiniteError as error:
            matches: Any = compute.equal(self.columns[name], text_scalar(text)).fill_null(False)
            rows = flags(matches)
            if finite is None or not (rows & finite).any():
                return canonical_json(text)
            raise HistoryFormatError(
                self.source,
                f":{name} {text[:60]} is not a finite number, and equal to nothing that can be checked. Leave the op "
                f"out, or write a string.",
                line=int(self.line[np.argmax(rows & finite)]),
            ) from error
        except EdnError as error:
            raise self._wrong(name, text, f"cannot be read: {error}") from error

    def _parsed(self, name: str, text: str) -> Any:
        try:
            return edn_text.parse(text)
        except EdnError as error:
            raise self._wrong(name, text, f"cannot be read: {error}") from error

    def _wrong(self, name: str, text: str, problem: str) -> HistoryFormatError:
        row = cast(int, compute.index(self.columns[name], text).as_py())
        return HistoryFormatError(self.source, f":{name} {text[:60]} {problem}.", line=int(self.line[row]))

    def words(self, name: str) -> Column:
        """Texts: a string or a keyword as it is, anything else as JSON."""
        found = self.json(name)
        encoded: Any = compute.dictionary_encode(found)
        plain = [
            cast(str, edn_text.parse(text)) if text.startswith('"') else text for text in encoded.dictionary.to_pylist()
        ]
        return texts(plain).take(encoded.indices)

    def keys(self, name: str) -> Column:
        """Names of keys, different ones for different keys."""
        encoded: Any = compute.dictionary_encode(self.json(name))
        names = key_names([msgspec.json.decode(text) for text in encoded.dictionary.to_pylist()])
        return texts(names).take(encoded.indices)

    def numbers(self, name: str, named: dict[str, int] | None = None) -> Column:
        """Whole numbers, and what named ones stand for; null where there are none."""
        column = self.columns.get(name)
        if column is None:
            return nothing(len(self.line), pa.int64())
        simple: Any = compute.match_substring_regex(column, r"^-?(?:0|[1-9][0-9]{0,17})$")
        if compute.all(simple).as_py():
            return compute.cast(column, pa.int64())
        encoded: Any = compute.dictionary_encode(column)
        found: list[int | None] = []
        for text in encoded.dictionary.to_pylist():
            value = self._parsed(name, text)
            if isinstance(value, str):
                value = (named or {}).get(value, value)
            if value is not None and (type(value) is not int or not -(1 << 63) <= value < 1 << 63):
                expected = " or ".join(["a whole number", *(f":{each}" for each in named or ())])
                raise self._wrong(name, text, f"is not {expected}")
            found.append(value)
        numbers: Any = array(found, pa.int64())
        return numbers.take(encoded.indices)


def _rows(line: Ints, columns: dict[str, Column], source: str) -> Rows:
    fields = _Fields(line, columns, source)
    process: Any = _filled(fields.numbers("process", _NAMED_PROCESSES), NO_PROCESS)
    client = (process >= 0) | (process == NO_PROCESS)
    kind, f, value = fields.words("type"), fields.words("f"), fields.json("value", finite=client)
    if "splitbrain/type" in columns:
        kind = compute.coalesce(fields.words("splitbrain/type"), kind)
    f = named_transactions(f, value)
    ignored = tuple(sorted(name for name in columns if name not in _FIELDS))
    for name in ignored:
        fields.json(name)
    time, index = fields.numbers("time"), fields.numbers("index")
    return Rows(
        line=line,
        process=process,
        type=kind,
        f=f,
        value=value,
        key=fields.keys("key"),
        node=fields.words("node"),
        error=fields.words("error"),
        term=fields.numbers("term"),
        time=_filled(time, NONE),
        index=_filled(index, NONE),
        due=fields.numbers("splitbrain/due"),
        mops=with_mops(f, value),
        exact_key=fields.json("splitbrain/key", explicit_nil=True) if "splitbrain/key" in columns else None,
        exact_value=fields.json("splitbrain/value", explicit_nil=True) if "splitbrain/value" in columns else None,
        tuples=True,
        ignored=ignored,
    )


def _filled(column: Any, empty: int) -> Ints:
    return numbers(column, null=empty).astype(np.int64)
