"""Copies of runs of a remote store, in a folder of this machine that mirrors it: there they are judged and drawn.

What was pushed is compared with the digests of the manifest: a file that was cut off or changed on its way, or in the
store, is named as damaged. A copy lives as long as its `with` block.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from splitbrain.results.checksums import CHECKSUMS
from splitbrain.results.errors import HistoryFormatError, RemoteConnectionError, RemoteStoreError, SplitbrainError
from splitbrain.results.madefrom import FILES, digest
from splitbrain.results.remote.runs import Kept, RemoteRun, RemoteStore, of_all
from splitbrain.results.rundir import RunDir
from splitbrain.results.telemetry import places

VERDICT: Final = "verdict.json"
_PAGES: Final = ("report.html", "counterexample.html")
_PREFIX: Final = "splitbrain-copies-"


class Copies:
    """Copies of some runs of a store.

    Attributes:
        store: the store.
        root: the folder that mirrors it, as far as there are copies.
    """

    def __init__(self, store: RemoteStore, root: Path) -> None:
        self.store = store
        self.root = root

    def of(self, run: RemoteRun) -> RunDir:
        """The folder of the copy of a run, whatever is in it."""
        return RunDir(self.root / run.folder)

    def fetch(self, run: RemoteRun, *, whole: bool = False) -> RunDir:
        """A copy of what judging a run reads and of its verdict; or of all its files.

        A file that is damaged, or is not there, is missing in the copy, and an error says so.

        Raises:
            HistoryFormatError: a file is damaged.
            RemoteStoreError: the store cannot be read.
        """
        manifest, copy = self.store.manifest(run), self.of(run)
        raw = _raw_telemetry(manifest.document)
        for name, kept in manifest.files.items():
            if whole or name in FILES or name in raw or name in ("plan.json", CHECKSUMS):
                self._pushed(run, name, kept)
        if whole:
            self._made(run, manifest.files)
        else:
            self.fetch_made(run, (VERDICT,))
        return copy

    def sketch(self, run: RemoteRun, names: Sequence[str] = (VERDICT,)) -> RunDir:
        """A copy of test.json, which the manifest has, and of files that were made from the run, if they are there.

        Raises:
            SplitbrainError: the store cannot be read.
        """
        copy, document = self.of(run), self.store.manifest(run).document
        copy.path.mkdir(parents=True, exist_ok=True)
        test = copy.path / "test.json"
        if not test.exists():
            test.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        self.fetch_made(run, names)
        return copy

    def fetch_made(self, run: RemoteRun, names: Iterable[str]) -> None:
        """Copies of files that were made from the run, as they are now, if they are there.

        Raises:
            RemoteStoreError: the store cannot be read.
        """
        for name in names:
            to = self.of(run).path / name
            try:
                content = self.store.objects.read(f"{run.folder}/{name}")
            except FileNotFoundError:
                to.unlink(missing_ok=True)
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(content)

    def drop(self, run: RemoteRun) -> None:
        """Remove the copy of a run."""
        shutil.rmtree(self.of(run).path, ignore_errors=True)

    def publish(self, run: RemoteRun, names: Sequence[str]) -> None:
        """Put what was made from a run beside it, in this order; what the copy has not, is left as it is.

        Raises:
            RemoteStoreError: the store cannot be written.
        """
        copy = self.of(run).path
        for name in names:
            if (copy / name).is_file():
                self.store.objects.send(f"{run.folder}/{name}", copy / name)

    def remove_pages(self, run: RemoteRun) -> None:
        """Remove the pages and plots that are beside a run.

        Raises:
            RemoteStoreError: the store cannot be read or written.
        """
        for each in self.store.objects.listed(run.folder, deep=True):
            name = RemoteStore.name_in(run, each)
            if is_page(name):
                self.store.objects.remove(each.path)

    def made(self, run: RemoteRun) -> list[str]:
        """What was made in the copy of a run: all that was not pushed with it. Its verdict comes last."""
        copy, pushed = self.of(run).path, {*self.store.manifest(run).files, *FILES}
        names = [path.relative_to(copy).as_posix() for path in sorted(copy.rglob("*")) if path.is_file()]
        found = [name for name in names if name not in pushed and not is_transient(name)]
        return sorted(found, key=lambda name: name == VERDICT)

    def _pushed(self, run: RemoteRun, name: str, kept: Kept) -> None:
        where, to = f"{run.folder}/{name}", self.of(run).path / name
        if to.exists() and digest(to) == kept.digest:
            return
        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.store.objects.fetch(where, to)
        except FileNotFoundError:
            raise HistoryFormatError(
                self.store.place.below(where), "was pushed, and is not there any more: push the run again"
            ) from None
        except OSError as error:
            raise RemoteStoreError(
                f"{to} cannot be written, a copy of {self.store.place.below(where)}: {error.strerror}. Make room "
                "there, or set TMPDIR."
            ) from error
        if digest(to) != kept.digest:
            to.unlink()
            raise HistoryFormatError(
                self.store.place.below(where), "damaged: it is not what was pushed: push the run again"
            )

    def _made(self, run: RemoteRun, pushed: Iterable[str]) -> None:
        known = set(pushed)
        there = [RemoteStore.name_in(run, each) for each in self.store.objects.listed(run.folder, deep=True)]
        self.fetch_made(run, [name for name in there if name not in known])

    def said(self, text: str) -> str:
        """A text that names files of the copies, with the addresses of what they are copies of."""
        return text.replace(str(self.root), str(self.store.place).rstrip("/"))

    @contextlib.contextmanager
    def named(self) -> Generator[None]:
        """A context whose errors name addresses instead of copies."""
        try:
            yield
        except SplitbrainError as error:
            error.args = tuple(self.said(each) if isinstance(each, str) else each for each in error.args)
            raise


@contextlib.contextmanager
def copies_of(store: RemoteStore) -> Generator[Copies]:
    """A folder for copies of runs, for the length of the block.

    Raises:
        RemoteStoreError: none can be made here.
    """
    _sweep()
    try:
        root = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    except OSError as error:
        raise RemoteStoreError(
            f"there is no place for copies of runs: {tempfile.gettempdir()}: {error.strerror}. Set TMPDIR."
        ) from error
    try:
        yield Copies(store, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def is_page(name: str) -> bool:
    """Whether a file of a run's folder is a page, or a plot of one: it is made from the run and its verdict."""
    return name in _PAGES or name.startswith("plots/")


def is_transient(name: str) -> bool:
    """Whether a file of a run's folder is of use only on its own machine: a lock, or a file being written."""
    return name == "controller.lock" or any(part.startswith(".") for part in name.split("/"))


def sketches(copies: Copies, runs: Sequence[RemoteRun], names: Sequence[str], show: Callable[[], None]) -> None:
    """`Copies.sketch` of many runs at once; those that cannot be read are left out.

    Raises:
        RemoteConnectionError: the service does not answer.
    """

    def one(run: RemoteRun) -> None:
        try:
            copies.sketch(run, names)
        except RemoteConnectionError:
            raise
        except SplitbrainError:
            copies.drop(run)
        show()

    of_all(one, runs)


def _raw_telemetry(document: dict[str, Any]) -> set[str]:
    """The files of nodes that judging may read: the sources of a table of telemetry without rows."""
    sources: Any = document.get("telemetry")
    if not isinstance(sources, dict):
        return set()
    named = cast("dict[Any, Any]", sources)
    return {place for node, source in named.items() for place in places(str(source), f"nodes/{node}")}


def _sweep() -> None:
    """Remove the copies of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)
