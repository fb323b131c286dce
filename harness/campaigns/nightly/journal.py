"""The journal of a night: a line for each thing that was done, on the disk before the next is begun.

So a night that was killed is resumed without repeating a run: what is in the journal is done. A last line that was
cut off is dropped. One process at a time writes a journal; others are refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec

from splitbrain.checkers.verdict import Outcome
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.nights import Began, Entry, Kept, Ran, Replayed, Shrunk
from splitbrain.results.plainfile import DOCUMENT_BYTES, refuse_others
from splitbrain.results.signatures import Signature

FILE: Final = "journal.jsonl"

_COUNT_END: Final = 1 << 63
"""What a column of whole numbers cannot hold."""

_decoder = msgspec.json.Decoder(Began | Ran | Kept | Replayed | Shrunk)


def read(path: Path) -> list[Entry]:
    """What a journal holds, without a last line that was cut off.

    Raises:
        HistoryFormatError: a line is damaged, or it is no plain file.
    """
    refuse_others(path, DOCUMENT_BYTES)
    return _parsed(path, path.read_bytes())


def begun(path: Path) -> Began | None:
    """How a journal says that its night began; None if its first line does not say so.

    Raises:
        HistoryFormatError: it is no plain file.
    """
    refuse_others(path, DOCUMENT_BYTES)
    try:
        entry = _decoder.decode(path.read_bytes().partition(b"\n")[0])
    except (msgspec.DecodeError, ValueError):
        return None
    return entry if isinstance(entry, Began) else None


def _parsed(path: Path, content: bytes) -> list[Entry]:
    *lines, _ = content.split(b"\n")  # a last line without an end was cut off: its writer was killed
    found: list[Entry] = []
    for number, line in enumerate(lines, 1):
        try:
            entry = _decoder.decode(line)
            if isinstance(entry, Began):
                datetime.fromisoformat(entry.began)
            elif isinstance(entry, Ran):
                _check(entry)
            found.append(entry)
        except (msgspec.DecodeError, ValueError, UsageError) as error:
            raise HistoryFormatError(str(path), f"line {number} is damaged: {error}") from error
    return found


def _check(run: Ran) -> None:
    """A violation that is no longer known as one would let the night pass; the rest the night could not write down.

    Raises:
        ValueError, UsageError: what the line says of the run cannot be.
    """
    counts = (run.seed, *(() if run.figures is None else msgspec.structs.astuple(run.figures)))
    if any(isinstance(each, int) and abs(each) >= _COUNT_END for each in counts):
        raise ValueError("a number of more than 64 bits")
    if run.run == "":
        raise ValueError("a run without a folder")
    is_violation = Outcome(run.outcome) is Outcome.VIOLATION
    if is_violation and not run.signatures:
        raise ValueError("a violation without a signature")
    for each in run.signatures:
        Signature.parse(each)


class Journal:
    """A journal that is written. A context manager: it is locked while it is open."""

    def __init__(self, path: Path) -> None:
        """Open a journal, or begin it; a last line that was cut off is removed.

        Raises:
            UsageError: another process writes it.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise UsageError(f"the night {path.parent.name} is under way in another process: wait for it.") from None
        try:
            content = path.read_bytes()
            self.entries: list[Entry] = _parsed(path, content)
        except BaseException:
            os.close(self._file)
            raise
        os.ftruncate(self._file, content.rfind(b"\n") + 1)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)

    def append(self, entry: Entry) -> None:
        """Add a line; it is on the disk when this returns.

        Raises:
            UsageError: it cannot be written. The journal stays as it was before, so that the night can be resumed.
        """
        line, end = msgspec.json.encode(entry) + b"\n", os.fstat(self._file).st_size
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):  # a line that was cut off is dropped when the journal is opened again
                os.ftruncate(self._file, end)
            raise UsageError(
                f"cannot write to {self.path}: {error.strerror}. Make room there (splitbrain prune), then continue the "
                "night with --resume: what is in the journal is not done again."
            ) from error
        self.entries.append(entry)

    def of(self, kind: type[Any]) -> list[Any]:
        """The entries of a kind, in order."""
        return [entry for entry in self.entries if isinstance(entry, kind)]
