"""Histories in other tools' formats, read into ours, and written from it.

A reader takes a file's text and gives columns (`rows.Rows`); `rows.table_of` makes the history of them. Times are
nanoseconds, -1 where a format has none. Ops are numbered anew, in the order of the file.

A failed cas is an observation (the compare did not match) only in Porcupine's logs and the compact format: there it
becomes an `ok` cas with the value False. In all others `fail` means that the op did not happen.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from splitbrain.results.errors import HistoryFormatError, UnknownNameError, UsageError
from splitbrain.results.history import Op

if TYPE_CHECKING:
    from splitbrain.results.formats.rows import Independent, Rows

Reader: TypeAlias = Callable[[str, str], "Rows"]

FORMATS: Final = {
    "awdit": "AWDIT's tests of isolation: r KEY VALUE or w KEY VALUE a line, ----- and ===== between transactions "
    "and sessions",
    "compact": "one call or return a line: c ID CLIENT F A B, r ID ok|fail VALUE",
    "edn": "Jepsen's, Knossos' and Elle's histories: a vector of op maps, or one after the other",
    "jsonl": "one op a line, as JSON with the fields of our history; or a JSON array of ops (elle-cli)",
    "parquet": "what runs of our own are stored in",
    "plume": "Plume's histories of transactions, which AWDIT reads too: w(KEY,VALUE,SESSION,TRANSACTION) a line",
    "porcupine": "Porcupine's test logs: Jepsen console logs of a cas-register, or maps of a key-value store",
}
"""Name: what it looks like."""

_WITH_TUPLES: Final = frozenset({"edn", "jsonl"})
_PARQUET: Final = b"PAR1"
_HEAD_BYTES: Final = 1 << 16
_STARTS: Final = (
    (re.compile(r'\{\s*"|\[\s*(?:\{\s*"|\]\s*\Z)'), "jsonl"),
    (re.compile(r"(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\s+\S+ - "), "porcupine"),
    (re.compile(r"[rw]\(\d+,"), "plume"),
    (re.compile(r"(?:[-=]+\s+)*[rw]\s+\d+\s+\d+\s*(?:\n|\Z)"), "awdit"),
    (re.compile(r"[cr] -?\d+ "), "compact"),
    (re.compile(r"(?:[\[(]\s*)?(?:#_|(?:#[\w.-]+[\s,]*)?\{[\s,]*:)"), "edn"),
)
_EDN_FILLER: Final = re.compile(r"(?:[\s,]+|;[^\n]*\n?)+")


def read_table(path: str | Path, name: str | None = None, *, independent: Independent = "auto") -> Any:
    """The history in a file, as a table of `splitbrain.results.arrow.HISTORY_SCHEMA`.

    Args:
        path: the file.
        name: its format; recognised by its content if None.
        independent: whether clients' values are `[key value]` (in `edn` and `jsonl`): see
            `splitbrain.results.formats.independent`. "auto" lets the history decide.

    Raises:
        UnknownNameError: there is no format of that name.
        UsageError: the file cannot be opened, or the format names keys apart from values.
        HistoryFormatError: something in the file is not what the format has there, or it was cut off.
    """
    source = str(path)
    if name is not None and name not in FORMATS:
        raise UnknownNameError("format", name, FORMATS)
    name, content = _opened(path, name)
    if independent != "auto" and name not in _WITH_TUPLES:
        raise UsageError(f"{source}: --independent {independent}: {name} has keys apart from values: leave it out.")
    if name == "parquet":
        from splitbrain.results import arrow, soundness

        return soundness.sound_ops(arrow.read_parquet(Path(path), content), source)
    from splitbrain.results.formats.rows import table_of
    from splitbrain.results.soundness import check_own_notes

    read: Reader = importlib.import_module(f"splitbrain.results.formats.{name}").read
    table = table_of(read(_text(content or b"", source), source), source, independent)
    check_own_notes(table, source)
    return table


def read_history(path: str | Path, name: str | None = None, *, independent: Independent = "auto") -> list[Op]:
    """The history in a file, op by op; raises what `read_table` raises."""
    from splitbrain.results.arrow import from_table

    return from_table(read_table(path, name, independent=independent), str(path))


def _opened(path: str | Path, name: str | None) -> tuple[str, bytes | None]:
    """A file's format and all its bytes; None instead of them for a Parquet file that Arrow can open by its path.

    The file is opened once: a pipe gives its bytes only once.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
            found = _recognised(head, str(path)) if name is None else name
            by_path = found == "parquet" and file.seekable()
            return found, None if by_path else head + file.read()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error


_PACKED: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2"}
"""How packed files begin, with the tool that unpacks them."""


def _recognised(head: bytes, source: str) -> str:
    """The format of a history file, by how it begins.

    Raises:
        HistoryFormatError: it is empty, or looks like none of the formats that splitbrain reads.
    """
    if head.startswith(_PARQUET):
        return "parquet"
    for magic, tool in _PACKED.items():
        if head.startswith(magic):
            raise HistoryFormatError(
                source, f"packed with {tool}. Unpack it first: {tool} -dc {source} | splitbrain check -"
            )
    text = head.decode("utf-8-sig", "replace")
    if len(head) < _HEAD_BYTES and not text.strip():
        raise HistoryFormatError(source, "the file is empty: it holds no history.")
    filler = _EDN_FILLER.match(text)
    begin = text if filler is None else text[filler.end() :]
    for start, name in _STARTS:
        if start.match(begin):
            return name
    raise HistoryFormatError(
        source, f"not recognised as a history. Say which --format it is in: {', '.join(sorted(FORMATS))}."
    )


def _text(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise HistoryFormatError(
            source, f"not UTF-8 text: {error.reason} at byte {error.start} of the file.", line=line
        ) from error


def whole_lines(text: str, source: str) -> list[str]:
    """The lines of a text, without line ends.

    Raises:
        HistoryFormatError: the last line has no end. Its value may have lost digits, so it is not trusted.
    """
    lines = text.split("\n")
    last = lines.pop()
    if last.strip():
        raise HistoryFormatError(
            source,
            f"the file ends in the middle of a line, after {last[-40:]!r}. Get the "
            f"whole file, or end its last line if it is whole.",
            line=len(lines) + 1,
        )
    return lines
