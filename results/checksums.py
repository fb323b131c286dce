"""The checksums of a finished run: what was recorded is judged as it was recorded, or not at all.

    STORE/test=<name>/run=<name>/checksums.json

is written when the history of a run is finished, and holds a digest of each recorded file. A file that has another
content afterwards is named before anything is judged from it, whatever its damage hits: a column that says the same
everywhere, or the telemetry of another run, can be sound in itself. Who changes a file through
`splitbrain.results.rundir.RunDir` renews its digest.

A run without the file (under way, put together by hand, of an earlier version) is judged by what its files say.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from splitbrain.results.atomic import alone_in, replace_file
from splitbrain.results.errors import HistoryFormatError, StoreVersionError
from splitbrain.results.madefrom import digest
from splitbrain.results.plainfile import DOCUMENT_BYTES, refuse_others
from splitbrain.results.values import NOT_JSON

CHECKSUMS: Final = "checksums.json"
"""Its name in the folder of a run."""

FORMAT: Final = 1
"""The version of the file. A higher one is refused."""

FILES: Final = ("test.json", "history.parquet", "telemetry.parquet", "marks.json", "plan.json")
"""What has a digest, relative to the run's folder. The files of the nodes have none: no verdict is made from them once
their telemetry is in its table."""

_DIGEST_BYTES: Final = 16


class Checksums(msgspec.Struct, frozen=True):
    """What checksums.json holds.

    Attributes:
        files: a digest of each file (`splitbrain.results.madefrom.digest`), by its name; None for one that the run does
            not have.
        seal: a digest of these.
        format: the version of this shape.
    """

    files: dict[str, str | None]
    seal: str
    format: int = FORMAT


class _Versioned(msgspec.Struct):
    format: int


def write_checksums(folder: Path) -> None:
    """Write the checksums of a run whose files are as they shall stay.

    Raises:
        HistoryFormatError: one of its files is no plain file, or cannot be read.
        OSError: the file cannot be written.
    """
    _write(folder, {name: _digest(folder / name) for name in FILES})


def read_checksums(folder: Path) -> Mapping[str, str | None] | None:
    """The digests of a run's files, by name; None if it has none.

    Raises:
        HistoryFormatError: the file that holds them is damaged.
        StoreVersionError: a newer splitbrain wrote it.
    """
    path = folder / CHECKSUMS
    refuse_others(path, DOCUMENT_BYTES)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        if os.path.lexists(path):
            raise HistoryFormatError(str(path), "cannot be read: it is a link that leads nowhere") from None
        return None
    except OSError as error:
        raise HistoryFormatError(str(path), f"cannot be read: {error.strerror}") from error
    try:
        version = msgspec.json.decode(text, type=_Versioned).format
        if version > FORMAT:
            raise StoreVersionError(
                f"{path} is in format {version}, this splitbrain reads up to {FORMAT}: upgrade splitbrain; nothing "
                "was changed."
            )
        found = msgspec.json.decode(text, type=Checksums)
    except NOT_JSON as error:
        raise HistoryFormatError(str(path), f"damaged: {error}. {_way_on('it')}") from error
    if found.seal != _seal(found.files):
        raise HistoryFormatError(str(path), f"damaged: its own checksum is another. {_way_on('it')}")
    return found.files


def verify(folder: Path, names: Sequence[str]) -> None:
    """Refuse files of a run that are not what they were when it was finished.

    Args:
        folder: of the run.
        names: of `FILES`.

    Raises:
        HistoryFormatError: one is another, is gone or was not there; or the checksums are damaged.
        StoreVersionError: a newer splitbrain wrote the checksums.
    """
    if _first_other(folder, names) is None:
        return
    with alone_in(folder):  # another process may be between two files that belong together
        found = _first_other(folder, names)
    if found is not None:
        _refuse(folder / found[0], *found[1:])


@contextmanager
def renewing(folder: Path, name: str) -> Generator[None]:
    """A context in which a file is replaced, and gets a new digest if the run has checksums.

    In between the file has none: after a process that dies there it is judged by what it says.

    Raises:
        HistoryFormatError: the file is damaged already, or the checksums are.
        StoreVersionError: a newer splitbrain wrote the checksums.
    """
    with alone_in(folder):
        before = read_checksums(folder)
        if before is None:
            yield
            return
        if (other := _first_other(folder, (name,))) is not None:
            _refuse(folder / other[0], *other[1:])
        _write(folder, {each: digest for each, digest in before.items() if each != name})
        try:
            yield
        finally:
            _write(folder, {**before, name: _digest(folder / name)})


def _first_other(folder: Path, names: Sequence[str]) -> tuple[str, str | None, str | None] | None:
    """The first file that is another, with its digest of before and of now; None if there is none."""
    before = read_checksums(folder)
    for name in names if before is not None else ():
        if before is None or name not in before:
            continue
        if (now := _digest(folder / name)) != before[name]:
            return name, before[name], now
    return None


def _refuse(path: Path, before: str | None, now: str | None) -> NoReturn:
    if now is None:
        problem = "it is gone since the run was finished"
    elif before is None:
        problem = "it was not there when the run was finished"
    else:
        problem = "it was damaged or changed since the run was finished: its checksum is another"
    raise HistoryFormatError(str(path), f"{problem}. {_way_on(CHECKSUMS)}")


def _way_on(what: str) -> str:
    return f"Restore it from a copy; if it is meant to be so, remove {what}, and the run is judged as it is"


def _digest(path: Path) -> str | None:
    try:
        return digest(path)
    except OSError as error:
        raise HistoryFormatError(str(path), f"cannot be read: {error.strerror}") from error


def _write(folder: Path, files: Mapping[str, str | None]) -> None:
    found = Checksums(dict(files), _seal(files))
    text = msgspec.json.format(msgspec.json.encode(found), indent=2)
    replace_file(folder / CHECKSUMS, lambda aside: aside.write_bytes(text + b"\n"))


def _seal(files: Mapping[str, str | None]) -> str:
    said = msgspec.json.encode(dict(files), order="sorted")
    return hashlib.blake2b(said, digest_size=_DIGEST_BYTES).hexdigest()
