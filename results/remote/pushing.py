"""Bringing finished runs into a remote store, and back.

A run is there with its manifest, which is written last: a push that is killed before leaves nothing that is listed,
and the next push writes everything again. Two that push the same run at once write the same files under the same
names, so it does not matter who is last.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.results import madefrom
from splitbrain.results.atomic import alone_in
from splitbrain.results.damage import standing_damage
from splitbrain.results.errors import DamagedRunError, HarnessError, HistoryFormatError, UsageError
from splitbrain.results.figures import FIGURES
from splitbrain.results.plainfile import refuse_names_that_are_no_text
from splitbrain.results.remote.copies import VERDICT, copies_of, is_page, is_transient
from splitbrain.results.remote.objects import Found
from splitbrain.results.remote.runs import (
    RECORDED,
    Kept,
    Manifest,
    RemoteRun,
    RemoteStore,
    identity_of,
    recorded_name,
    remote_name,
)
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import CREATING

Became: TypeAlias = Literal["new", "mended", "judged", "there"]
"""What a push did.

new: the run was not listed. mended: it was, and a file of it was missing. judged: it was there, without the verdict
that it has here. there: nothing.
"""

_MADE: Final = (VERDICT, FIGURES)
_TRIES: Final = 3


class Pushed(msgspec.Struct, frozen=True):
    """A run that is in the store now.

    Attributes:
        run: as the store lists it.
        became: what was done for it.
        bytes: how much was sent.
    """

    run: RemoteRun
    became: Became
    bytes: int


class _Files(msgspec.Struct, frozen=True):
    """The files of a run's folder: what was recorded, and what was made from that."""

    recorded: dict[str, Kept]
    made: list[str]


def push(run: RunDir, store: RemoteStore) -> Pushed:
    """Bring a finished run into a store. One that is there whole is left alone.

    A verdict that is in the store already stays: a push never replaces one.

    Args:
        run: its folder; it must be finished (`splitbrain.checkers.stored.finish`).
        store: where to.

    Raises:
        UsageError: it is under way, or not finished.
        SplitbrainError: test.json or its verdict cannot be read.
        HarnessError: its files change all the time.
        RemoteStoreError: the store cannot be read or written.
    """
    refuse_names_that_are_no_text(run.path)
    _refuse_unfinished(run)
    with alone_in(run.path):
        document = run.read_test()
        run.verify(*RECORDED)
        judgement = run.read_verdicts()  # a damaged one is named, not sent
        noted = standing_damage(run.path, None if judgement is None else judgement.made_from)
        if noted is not None:
            raise DamagedRunError(f"{run.path} {noted}. Restore it and analyze it again: nothing was sent.")
        files = _files_of(run.path)
        identity = identity_of({name: kept.digest for name, kept in files.recorded.items()})
        there = RemoteRun(run.test_name, remote_name(run.name, identity))
        before = _manifest_before(store, there)
        if before is not None and before.identity != identity:
            raise HarnessError(
                f"{store.place.below(there.folder)} is another run, and stays: push {run.path} to another address."
            )
        if before is not None and _is_whole(store, there, before, since=store.objects.found(there.manifest)):
            return _judged_there(run, store, there, files)
        sent = _sent(run, store, there, files)
        manifest = Manifest(
            test=run.test_name,
            run=there.name,
            recorded_as=recorded_name(run.name, identity),
            identity=identity,
            files=files.recorded,
            document=document,
            pushed=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        for _ in range(_TRIES):
            store.objects.write(there.manifest, msgspec.json.encode(manifest))
            if _is_whole(store, there, manifest):
                return Pushed(there, "new" if before is None else "mended", sent)
            sent += _sent(run, store, there, files)  # somebody removed the run at the same time
    raise HarnessError(
        f"{store.place.below(there.folder)} is not what was sent: is it being removed, or {run.path} changed, at the "
        "same time? Push it once more."
    )


def _manifest_before(store: RemoteStore, there: RemoteRun) -> Manifest | None:
    """The manifest that is there; a damaged one is none, and gets replaced."""
    try:
        return store.manifest_at(there)
    except HistoryFormatError:
        return None


def _refuse_unfinished(run: RunDir) -> None:
    if run.is_running():
        raise UsageError(f"run {run.name} of test {run.test_name} is still in progress: push it when it is over.")
    if os.path.lexists(run.wal_path) or not os.path.lexists(run.history_path):
        raise UsageError(f"run {run.name} of test {run.test_name} is not finished: splitbrain analyze {run.path}")


def _files_of(folder: Path) -> _Files:
    """What is in a run's folder. Links are followed where judging follows them; pipes and sockets stay here."""
    recorded: dict[str, Kept] = {}
    made: list[str] = []
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            relative = path.relative_to(folder).as_posix()
            if is_transient(relative):
                continue
            refuse_names_that_are_no_text(path)
            if relative in _MADE or is_page(relative):
                if path.is_file():  # to send a pipe would wait for ever
                    made.append(relative)
                continue
            followed = relative in RECORDED
            try:
                found = path.stat() if followed else path.lstat()
            except OSError as error:
                raise HistoryFormatError(str(path), f"cannot be read: {error.strerror}") from error
            if not stat.S_ISREG(found.st_mode) and not followed:
                continue
            try:
                digest = madefrom.digest(path)
            except OSError as error:
                raise HistoryFormatError(str(path), f"cannot be read: {error.strerror}") from error
            if digest is not None:
                recorded[relative] = Kept(found.st_size, digest)
    return _Files(recorded, sorted(made, key=lambda name: name == VERDICT))


def _is_whole(store: RemoteStore, run: RemoteRun, manifest: Manifest, since: Found | None = None) -> bool:
    """Whether all files of a manifest are there, by a listing; `since`: and none was written after this one."""
    there = {RemoteStore.name_in(run, each): each for each in store.objects.listed(run.folder, deep=True)}
    for name, kept in manifest.files.items():
        found = there.get(name)
        if found is None or found.bytes != kept.bytes:
            return False
        if since is not None and (since.changed is None or found.changed is None or found.changed > since.changed):
            return False
    return True


def _sent(run: RunDir, store: RemoteStore, there: RemoteRun, files: _Files) -> int:
    """Send all that was recorded, and what was made, if no verdict is there; how many bytes."""
    for name in files.recorded:
        store.objects.send(f"{there.folder}/{name}", run.path / name)
    sent = sum(kept.bytes for kept in files.recorded.values())
    return sent + (0 if _has_verdict(store, there) else _made_sent(run, store, there, files.made))


def _judged_there(run: RunDir, store: RemoteStore, there: RemoteRun, files: _Files) -> Pushed:
    """A run that is there whole; its verdict is sent if there is none."""
    if VERDICT not in files.made or _has_verdict(store, there):
        return Pushed(there, "there", 0)
    return Pushed(there, "judged", _made_sent(run, store, there, files.made))


def _has_verdict(store: RemoteStore, there: RemoteRun) -> bool:
    return any(RemoteStore.name_in(there, each) == VERDICT for each in store.objects.listed(there.folder))


def _made_sent(run: RunDir, store: RemoteStore, there: RemoteRun, names: list[str]) -> int:
    sent = 0
    for name in names:
        store.objects.send(f"{there.folder}/{name}", run.path / name)
        sent += (run.path / name).stat().st_size
    return sent


# --- back -------------------------------------------------------------------------------------------------------------


def pull(run: RemoteRun, store: RemoteStore, to: Path) -> tuple[RunDir, bool]:
    """Bring a run into a local store, under the name that it was recorded with; and whether it was not there yet.

    If another run has that name there, it keeps the name that it has in the remote store.

    Raises:
        HistoryFormatError: a file of it is damaged.
        RemoteStoreError: the store cannot be read.
        UsageError: the local store cannot be written.
    """
    manifest = store.manifest(run)
    own = {name: kept.digest for name, kept in manifest.files.items() if name in RECORDED}
    folder = to / f"test={run.test_name}"
    for name in (manifest.recorded_as, run.name):
        target = folder / f"run={name}"
        if not target.exists():
            break
        if madefrom.inputs(target, tuple(own)) == own:
            return RunDir(target), False
    else:
        raise UsageError(f"{target} is another run, and stays: pull into another folder with --store.")
    with copies_of(store) as copies:
        found = copies.fetch(run, whole=True)
        _moved(found.path, target)
    return RunDir(target), True


def _moved(copy: Path, target: Path) -> None:
    """Move a copy to its place, where it appears whole."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=CREATING, dir=target.parent))
        try:
            shutil.copytree(copy, aside, dirs_exist_ok=True)
            aside.chmod(0o755)
            aside.rename(target)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    except shutil.Error as error:  # it has the errors of all files
        raise UsageError(
            f"{target} cannot be written: {error.args[0][0][2]}. Choose another folder with --store."
        ) from error
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror}. Choose another folder with --store."
        ) from error
