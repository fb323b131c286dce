"""What a verdict was made from: hashes of what was read, who judged by which code, and with which limits.

The record lies in verdict.json, beside the verdicts, and is written with them. A verdict whose record is that of what
is there now need not be made again. Every doubt counts against it: a record that is missing, damaged, of another
version or of another verdict is none.

Files are compared by their content, always. Neither a time of change nor a size can hide a change: a
restored file, a copied store and a clock that was put back are all compared alike.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from splitbrain.results.errors import HistoryFormatError, SplitbrainError
from splitbrain.results.plainfile import DOCUMENT_BYTES, refuse_others

FORMAT: Final = 1
"""The version of the record. One of another version is no record."""

FILES: Final = ("test.json", "history.wal", "history.parquet", "telemetry.parquet", "marks.json")
"""What judging a run reads, relative to its folder, whether or not it is there. Of a finished run there is no
history.wal: one that appears is a change."""

_DIGEST_BYTES: Final = 16


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What a verdict is a function of. The engine is not part of it: both give the same verdicts.

    Attributes:
        inputs: a digest of the content of each file that was read, by its name relative to the run's folder; None for
            a file that was not there.
        checkers: who judged, as test.json names them: name and options.
        code: a digest of the code that judged, or its version, by the name of the package; None where it is not known,
            and then no other code is the same.
        limits: of each checker: `cpu_s` and `stuck_s` in seconds, `memory_mb` in MiB, None for the machine's share.
    """

    inputs: dict[str, str | None]
    checkers: list[Any]
    code: dict[str, str | None]
    limits: dict[str, float | None]


class MadeFrom(Basis, frozen=True, kw_only=True):
    """The record in verdict.json.

    Attributes:
        judged: when, as an ISO date and time in UTC.
        seal: a digest of the rest of verdict.json: the record is of that, and of nothing that was put in its place.
        format: the version of this shape.
    """

    judged: str
    seal: str
    format: int = FORMAT


def record_of(judgement: msgspec.Struct) -> MadeFrom | None:
    """The record in what verdict.json holds (`splitbrain.results.judgement.Judgement`).

    None if there is none, or if it is not one of exactly this verdict.
    """
    try:
        found = msgspec.convert(getattr(judgement, "made_from", None), MadeFrom)
    except msgspec.ValidationError:
        return None
    return found if found.format == FORMAT and found.seal == seal(judgement) else None


def seal(judgement: msgspec.Struct) -> str:
    """A digest of all that verdict.json says, its record apart."""
    return _digest_of(msgspec.structs.replace(judgement, made_from=None))


def _digest_of(said: Any) -> str:
    return hashlib.blake2b(msgspec.json.encode(said), digest_size=_DIGEST_BYTES).hexdigest()


def is_other(document: Mapping[str, Any]) -> bool:
    """Whether the content of a verdict.json is another than that which its record was written with; False if it has no
    record of this version, and so nothing to be compared with."""
    made: Any = document.get("made_from")
    try:
        found = msgspec.convert(made, MadeFrom)
    except msgspec.ValidationError:
        return False
    return found.format == FORMAT and found.seal != _digest_of({**document, "made_from": None})


def inputs(folder: Path, names: Sequence[str]) -> dict[str, str | None] | None:
    """A digest of each of these files of a run; None if one of them cannot be read."""
    try:
        return {name: digest(folder / name) for name in names}
    except (OSError, SplitbrainError):
        return None


def digest(path: Path) -> str | None:
    """A digest of the content of a file; None if there is no such file.

    Raises:
        HistoryFormatError: it is no plain file, or a link that leads nowhere.
        OSError: it cannot be read.
    """
    refuse_others(path, DOCUMENT_BYTES if path.suffix == ".json" else None)  # to read one without end takes hours
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, _new).hexdigest()
    except FileNotFoundError:
        if os.path.lexists(path):
            raise HistoryFormatError(str(path), "cannot be read: it is a link that leads nowhere") from None
        return None


def _new() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=_DIGEST_BYTES)


def are_within(names: Mapping[str, Any]) -> bool:
    """Whether all of these are names of files inside of a folder: a record may have come from anywhere."""
    paths = [PurePosixPath(name) for name in names]
    return not any(path.is_absolute() or ".." in path.parts or "\0" in str(path) for path in paths)


def hold_with(before: Mapping[str, float | None], now: Mapping[str, float | None]) -> bool:
    """Whether a verdict for which these limits sufficed would be the same with others: so it is if none is smaller.

    A share of the machine and a number are not compared: then it would have to be found out.
    """
    if set(before) != set(now):
        return False
    for name, limit in now.items():
        was = before[name]
        if limit != was and (limit is None or was is None or limit < was):
            return False
    return True
