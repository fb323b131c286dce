"""Nights in a pushed store: their files and the tables of their figures, as they are in the store of a machine.

    PREFIX/nights/<night>/       journal.jsonl, junit.xml, summary.md, night.html, and night.json, which is written last
    PREFIX/figures/<night>.parquet

A night is listed if its night.json is there. It is the same night as one here if both journals begin with the same
line; of two journals of one night the longer one is later: a night that was interrupted may be pushed, continued, and
pushed again. Nights of several machines do not replace each other: of the same name, the second is refused.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.results import nights, runfigures
from splitbrain.results.atomic import replace_file
from splitbrain.results.errors import HarnessError, HistoryFormatError, RunNotFoundError, UsageError
from splitbrain.results.plainfile import DOCUMENT_BYTES, refuse_others
from splitbrain.results.remote.runs import RemoteStore

Became: TypeAlias = Literal["new", "longer", "there"]
"""What a push did: it was not listed; it was continued here since, and replaced; nothing."""

JOURNAL: Final = "journal.jsonl"
FILES: Final = (JOURNAL, "junit.xml", "summary.md", "night.html", nights.FILE)
"""What there is of a night, in the order in which it is written."""


class Pushed(msgspec.Struct, frozen=True):
    """A night that is in the store now: its name, what was done for it, and how much was sent."""

    name: str
    became: Became
    bytes: int


def folder_of(name: str) -> str:
    """The folder of a night, below the root of a store."""
    return f"{nights.FOLDER}/{name}"


def figures_of(name: str) -> str:
    """The table of its figures."""
    return f"{runfigures.FOLDER}/{name}.parquet"


def names(store: RemoteStore) -> list[str]:
    """The names of all nights, the oldest first.

    Raises:
        RemoteStoreError: the store cannot be listed.
    """
    found = (each.path.split("/") for each in store.objects.listed(nights.FOLDER, deep=True))
    return sorted(parts[-2] for parts in found if len(parts) == 3 and parts[-1] == nights.FILE)


def push(folder: Path, store: RemoteStore) -> Pushed:
    """Bring a night that has come to its end into a store. One that is there already is left alone.

    Args:
        folder: the night, in the store of this machine.
        store: where to.

    Raises:
        UsageError: the night has not come to its end, or a newer splitbrain wrote it.
        HistoryFormatError: a file of it cannot be read.
        HarnessError: another night of this name is there.
        RemoteStoreError: the store cannot be read or written.
    """
    if nights.read(folder) is None:
        raise UsageError(f"the night {folder.name} has not come to its end: continue it with --resume, then push it.")
    journal = _content(folder / JOURNAL)
    there = _read(store, f"{folder_of(folder.name)}/{JOURNAL}")
    said = _read(store, f"{folder_of(folder.name)}/{nights.FILE}")
    if there is not None and there.partition(b"\n")[0] != journal.partition(b"\n")[0]:
        where = store.place.below(folder_of(folder.name))
        raise HarnessError(f"{where} is another night, and stays: push {folder} to another address.")
    if there is not None and said is not None:
        same = said == _content(folder / nights.FILE)  # it is sent last: after a push that was killed it is older
        if len(there) > len(journal) or (len(there) == len(journal) and same):
            return Pushed(folder.name, "there", 0)
    table = folder.parent.parent / figures_of(folder.name)
    files = {figures_of(folder.name): table} if table.exists() else {}  # one of an older version has none
    files |= {f"{folder_of(folder.name)}/{name}": folder / name for name in FILES if (folder / name).exists()}
    sent = 0
    for path, source in files.items():
        content = _content(source)
        store.objects.write(path, content)
        sent += len(content)
    return Pushed(folder.name, "new" if said is None else "longer", sent)


def _read(store: RemoteStore, path: str) -> bytes | None:
    try:
        return store.objects.read(path)
    except FileNotFoundError:
        return None


def _content(path: Path) -> bytes:
    refuse_others(path, DOCUMENT_BYTES)
    try:
        return path.read_bytes()
    except OSError as error:
        raise HistoryFormatError(str(path), f"cannot be read: {error.strerror}") from error


def pull(name: str, store: RemoteStore, to: Path) -> tuple[Path, bool]:
    """Bring a night into a local store; its folder, and whether it was not there yet.

    Raises:
        RunNotFoundError: there is no such night.
        HistoryFormatError: what is here cannot be read.
        UsageError: the store cannot be written, or another night of this name is here.
        RemoteStoreError: the store cannot be read.
    """
    folder = to / folder_of(name)
    journal = _read(store, f"{folder_of(name)}/{JOURNAL}")
    if journal is None:
        raise RunNotFoundError(f"there is no night {name!r} in {store.place}.")
    if (folder / JOURNAL).exists():
        here = _content(folder / JOURNAL)
        if here.partition(b"\n")[0] != journal.partition(b"\n")[0]:
            raise UsageError(f"{folder} is another night, and stays: pull into another folder with --store.")
        if len(here) >= len(journal):
            return folder, False
    contents = {figures_of(name): _read(store, figures_of(name))}
    contents |= {f"{folder_of(name)}/{each}": _read(store, f"{folder_of(name)}/{each}") for each in FILES[1:]}
    contents[f"{folder_of(name)}/{JOURNAL}"] = journal  # last: its length says that all of it is here
    for path, content in contents.items():
        if content is not None:
            _put(to / path, content)
    return folder, True


def _put(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, lambda aside: aside.write_bytes(content))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}. Choose another folder with --store.") from error


class Copies:
    """Copies of nights of a store, as long as the context is open: what compares nights reads folders."""

    def __init__(self, store: RemoteStore) -> None:
        """Nothing is copied yet."""
        self._store = store
        self._folder = tempfile.TemporaryDirectory(prefix="splitbrain-nights-")

    def __enter__(self) -> Copies:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._folder.cleanup()

    def find(self, reference: str) -> Path | None:
        """The folder of a copy of the night that a reference names; None if it names none, and may name runs.

        Raises:
            RunNotFoundError, UsageError: as `splitbrain.results.nights.chosen`.
            RemoteStoreError: the store cannot be read.
        """
        name = nights.chosen(reference, names(self._store), str(self._store.place))
        return None if name is None else pull(name, self._store, Path(self._folder.name))[0]
