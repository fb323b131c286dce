"""The runs of a pushed store: which there are, and what was pushed of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from splitbrain.results import madefrom
from splitbrain.results.errors import (
    HistoryFormatError,
    RunNotFoundError,
    StoreVersionError,
    UsageError,
)
from splitbrain.results.places import PUSHED, place_of
from splitbrain.results.remote.objects import Found, Objects
from splitbrain.results.store import matching
from splitbrain.results.values import NOT_JSON

T = TypeVar("T")
R = TypeVar("R")

FORMAT: Final = 1
"""The version of a manifest. A higher one is refused."""

RECORDED: Final = ("test.json", "history.parquet", "telemetry.parquet", "marks.json", "plan.json")
"""What makes a run this run and no other. Of what else is in its folder, judging packs the nodes' data."""

_NAME_DIGITS: Final = 12
_DIGEST_BYTES: Final = 16
_AT_ONCE: Final = 16
_MANIFESTS_KEPT: Final = 4_096


class Kept(msgspec.Struct, frozen=True):
    """A file as it was pushed: its size, and its digest (`splitbrain.results.madefrom.digest`)."""

    bytes: int
    digest: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to know of a pushed run without opening it; one row a run.

    Attributes:
        test: the name of its test.
        run: its name in the store.
        recorded_as: its name where it was recorded.
        identity: a digest of what was recorded (`RECORDED`).
        files: what was pushed of it, by name relative to its folder; not what is made from that.
        document: its test.json.
        pushed: when, as an ISO date and time in UTC.
        format: the version of this shape.
    """

    test: str
    run: str
    recorded_as: str
    identity: str
    files: dict[str, Kept]
    document: dict[str, Any]
    pushed: str
    format: int = FORMAT


class RemoteRun(msgspec.Struct, frozen=True):
    """A run that is listed.

    Attributes:
        test_name: its test.
        name: its name in the store.
        listed: when its manifest was written, by the clock of the service; None if that is not known.
    """

    test_name: str
    name: str
    listed: datetime | None = None

    @property
    def folder(self) -> str:
        """Its folder, below the root of the store."""
        return f"test={self.test_name}/run={self.name}"

    @property
    def manifest(self) -> str:
        """Its manifest."""
        return f"{PUSHED}/test={self.test_name}/{self.name}.json"


class RemoteStore:
    """The runs behind an address."""

    def __init__(self, address: str) -> None:
        """The store need not exist.

        Raises:
            UsageError: it is no address.
            RemoteStoreError: the library that it needs does not work here.
        """
        place = place_of(address)
        if place is None:
            raise UsageError(f"{address!r} is a folder with runs as they were recorded: name it without file://.")
        self.address = address
        self.place = place
        self.objects = Objects(place)
        self._manifests: dict[RemoteRun, Manifest] = {}

    def runs(self) -> list[RemoteRun]:
        """Every run, oldest first. One listing for any number of them: a thousand take one request.

        Raises:
            RemoteStoreError: it cannot be listed.
        """
        found = [self._run(each) for each in self.objects.listed(PUSHED, deep=True)]
        if not found:
            self.objects.check_there()
        return sorted((run for run in found if run is not None), key=lambda run: (run.name, run.test_name))

    def find(self, reference: str) -> RemoteRun:
        """The run of a reference, as `splitbrain.results.store.Store.find`; also by its address.

        Raises:
            RunNotFoundError: none or several match.
            RemoteStoreError: the store cannot be read.
        """
        if not reference.strip():
            raise RunNotFoundError(f"{reference!r} names no run: give a run's name or address, or latest.")
        return matching(reference, self.runs(), str(self.place), self._is_derived)

    def _is_derived(self, run: RemoteRun) -> bool:
        return "derived_from" in self.manifest(run).document

    def manifest(self, run: RemoteRun) -> Manifest:
        """What was pushed of a run.

        Raises:
            RunNotFoundError: it was removed.
            HistoryFormatError: it is damaged.
            StoreVersionError: a newer splitbrain wrote it.
            RemoteStoreError: it cannot be read.
        """
        found = self._manifests.get(run)
        if found is None:
            found = self.manifest_at(run)
            if found is None:
                raise RunNotFoundError(f"{self.place.below(run.folder)} is no longer there: it was removed.")
            if len(self._manifests) >= _MANIFESTS_KEPT:
                self._manifests.clear()
            self._manifests[run] = found
        return found

    def manifest_at(self, run: RemoteRun) -> Manifest | None:
        """The same as it is now; None if there is none.

        Raises:
            HistoryFormatError, StoreVersionError, RemoteStoreError: as `manifest`.
        """
        where = self.place.below(run.manifest)
        try:
            text = self.objects.read(run.manifest)
        except FileNotFoundError:
            return None
        try:
            found = msgspec.json.decode(text, type=Manifest)
        except NOT_JSON as error:
            raise HistoryFormatError(where, f"damaged: {error}") from error
        if found.format > FORMAT:
            raise StoreVersionError(f"{where} is in format {found.format}: upgrade splitbrain; nothing was changed.")
        if (found.test, found.run) != (run.test_name, run.name) or not madefrom.are_within(found.files):
            raise HistoryFormatError(where, "damaged: it is the manifest of something else")
        if remote_name(found.recorded_as, found.identity) != run.name:  # which leads nowhere else, as a path
            raise HistoryFormatError(where, f"damaged: no run that was recorded as {found.recorded_as!r} has its name")
        return found

    def digests(self, run: RemoteRun, names: Iterable[str]) -> dict[str, str | None] | None:
        """The digest of each of these files, None of one that is not there; None if it is not known.

        They are those that were recorded at the push. So they hold as long as no file was written after the manifest,
        which was written last; the service's listing says that, by the service's clock.

        Raises:
            SplitbrainError: the store cannot be read.
        """
        wanted = set(names)
        manifest = self.manifest(run)
        deep = any("/" in name for name in wanted)
        there = {self.name_in(run, each): each for each in self.objects.listed(run.folder, deep=deep)}
        for name in wanted:
            kept, found = manifest.files.get(name), there.get(name)
            if (kept is None) is not (found is None):
                return None
            if kept is not None and found is not None and not self._is_as_pushed(run, kept, found):
                return None
        return {name: kept.digest if (kept := manifest.files.get(name)) else None for name in wanted}

    def _is_as_pushed(self, run: RemoteRun, kept: Kept, found: Found) -> bool:
        if kept.bytes != found.bytes or run.listed is None or found.changed is None:
            return False
        return found.changed <= run.listed

    @staticmethod
    def name_in(run: RemoteRun, found: Found) -> str:
        """The name of a file relative to its run's folder."""
        return found.path.removeprefix(f"{run.folder}/")

    @staticmethod
    def _run(found: Found) -> RemoteRun | None:
        parts = found.path.split("/")
        if len(parts) != 3 or not parts[1].startswith("test=") or not parts[2].endswith(".json"):
            return None
        return RemoteRun(parts[1].removeprefix("test="), parts[2].removesuffix(".json"), found.changed)


def identity_of(digests: Mapping[str, str]) -> str:
    """The identity of a run with these digests of its files."""
    found = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in RECORDED:
        found.update(f"{name} {digests.get(name, '')}\n".encode())
    return found.hexdigest()


def remote_name(name: str, identity: str) -> str:
    """The name in a store of a run that was recorded, or pulled, as `name`."""
    return f"{recorded_name(name, identity)}_{identity[:_NAME_DIGITS]}"


def recorded_name(name: str, identity: str) -> str:
    """The name that a run was recorded with, from that or from the one that it has in a store."""
    return name.removesuffix(f"_{identity[:_NAME_DIGITS]}")


def of_all(work: Callable[[T], R], items: Sequence[T], at_once: int = _AT_ONCE) -> list[R]:
    """The result of `work` on each, in their order: many at once, since each mostly waits for the service.

    Raises:
        Exception: the first that `work` raises; what has not begun then is not done.
    """
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(at_once, len(items))) as threads:
        waiting = [threads.submit(work, item) for item in items]
        try:
            return [each.result() for each in waiting]
        except BaseException:
            threads.shutdown(wait=True, cancel_futures=True)
            raise
