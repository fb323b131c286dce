"""Histories in other tools' formats, read into ours.

A reader takes the lines of a file and yields ops; `read_history` numbers them. Where a format has no times, `time` is
-1. A failed cas that a format records as *an answer* (the compare did not match) becomes an `ok` cas with the value
False; where it cannot be told from a refusal it stays a `fail`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from results.errors import HistoryFormatError, UnknownNameError, UsageError
from results.history import Op

Reader: TypeAlias = Callable[[Iterable[str], str], Iterator[Op]]

FORMATS: Final = {
    "compact": "one call or return a line: c ID CLIENT F A B, r ID ok|fail VALUE",
    "jsonl": "one op a line, as JSON with the fields of our history",
    "porcupine": "Porcupine's test logs: Jepsen console logs of a cas-register, or maps of a key-value store",
}
"""Name: what it looks like."""


def read_history(path: str | Path, name: str) -> list[Op]:
    """The history in a file, indexes from 0.

    Raises:
        UnknownNameError: there is no format of that name.
        UsageError: the file cannot be opened.
        HistoryFormatError: a line is not what the format has there, or the file was cut off inside one.
    """
    if name not in FORMATS:
        raise UnknownNameError("format", name, FORMATS)
    read: Reader = importlib.import_module(f"results.formats.{name}").read
    try:
        with open(path, encoding="utf-8") as file:
            return [msgspec.structs.replace(op, index=index) for index, op in enumerate(read(file, str(path)))]
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise HistoryFormatError(str(path), f"not text: {error.reason} at byte {error.start}.") from error


def whole_lines(lines: Iterable[str], source: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1, without line ends; empty ones are left out.

    Raises:
        HistoryFormatError: the last line has no end. Its value may have lost digits, so it is not trusted.
    """
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            raise HistoryFormatError(
                source,
                f"the file ends in the middle of a line, after {line[-40:]!r}. Get the "
                f"whole file, or end its last line if it is whole.",
                line=number,
            )
        if line.strip():
            yield number, line.strip()


class OpenOps:
    """The ops under way while a file is read, by process.

    In these formats a process may act again after an op that never completed: that op is closed as `info` first.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._open: dict[int, Op] = {}

    def invoke(self, op: Op) -> Iterator[Op]:
        """The invocation, after the crash of whatever its process had open."""
        crashed = self._open.get(op.process)
        if crashed is not None:
            yield crashed.complete("info", error="never completed")
        self._open[op.process] = op
        yield op

    def take(self, process: int, f: str, line: int) -> Op:
        """The invocation that a completion belongs to.

        Raises:
            HistoryFormatError: the process has no such op open.
        """
        op = self._open.pop(process, None)
        if op is None:
            raise HistoryFormatError(
                self._source, f"process {process} completes {f!r}, which it did not invoke.", line=line
            )
        if op.f != f:
            raise HistoryFormatError(
                self._source, f"process {process} completes {f!r}, but its open op is {op.f!r}.", line=line
            )
        return op
