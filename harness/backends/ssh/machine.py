"""The directory of a run on a host: created, fetched from, removed, and distinguished from those that others left
behind.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from splitbrain.harness.backends import agent as agent_package
from splitbrain.harness.backends import ownership
from splitbrain.harness.backends.ssh.agents import AS_ROOT
from splitbrain.harness.backends.ssh.connection import Connection, HostError
from splitbrain.harness.backends.ssh.survey import DIRECTORIES, Leftover

UPLOADS_WITHIN_S: Final = 120.0
ABANDONED_AFTER_S: Final = 3600.0
"""A directory in which no agent lives is left alone for so long if its owner cannot be asked: it may be about to."""
_COLLECTED: Final = ("log", "data")


def upload(connection: Connection, uploads: Mapping[str, Path]) -> str:
    """Lay the agent and the system's files into a fresh directory on a host; its path there.

    Raises:
        HostError: it could not be done.
    """
    command = (
        f'umask 022; home=$(mktemp -d {DIRECTORIES}XXXXXXXXXX) && tar -xzf - -C "$home" --no-same-owner '
        '&& printf %s "$home"'
    )
    done = connection.run(command, _archive(uploads), UPLOADS_WITHIN_S)
    if done.code != 0 or not done.output.startswith(DIRECTORIES):
        said = " ".join(done.errors.split())[-300:]
        raise HostError(connection.host, f"the files cannot be laid out there (code {done.code}): {said}.")
    return done.output


def _archive(uploads: Mapping[str, Path]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        marked = tarfile.TarInfo("owner")
        text = ownership.this_controller().marker.encode()
        marked.size = len(text)
        archive.addfile(marked, io.BytesIO(text))
        for name, path in {"agent": Path(agent_package.__path__[0]), **uploads}.items():
            archive.add(path.resolve(), name, filter=_packed)
    return packed.getvalue()


def _packed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "__pycache__" in entry.name.split("/"):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def collect(connection: Connection, home: str, into: Path) -> None:
    """Fetch the node's log and data from a host.

    Raises:
        HostError: they could not be read, or what came is no archive.
    """
    with tempfile.TemporaryFile() as packed:
        command = f"cd {shlex.quote(home)} && {AS_ROOT} tar -cf - $(ls -d {' '.join(_COLLECTED)} 2>/dev/null)"
        done = connection.fetch(command, packed)
        if done.code != 0:
            said = " ".join(done.errors.split())[-300:]
            raise HostError(connection.host, f"log and data cannot be fetched (code {done.code}): {said}.")
        packed.seek(0)
        try:
            with tarfile.open(fileobj=packed) as archive:
                _unpack(archive, into)
        except (tarfile.TarError, OSError) as error:
            raise HostError(connection.host, f"log and data came broken: {error}.") from None


def _unpack(archive: tarfile.TarFile, into: Path) -> None:
    """Create plain files and folders, readable by the user of the test; a host cannot create anything else here.

    By hand, because the filters of `tarfile` came in the middle of Python 3.11 (3.11.4, PEP 706). No link is ever made,
    so none can lead a later entry astray.

    Raises:
        TarError: an entry has a place that was not asked for.
    """
    for entry in archive:
        if not (entry.isreg() or entry.isdir()):
            continue
        top, *below = entry.name.rstrip("/").split("/")
        if top not in _COLLECTED or not {"", ".", ".."}.isdisjoint(below):
            raise tarfile.ReadError(f"{entry.name!r} was not asked for")
        path = into.joinpath(top, *below)
        if entry.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = archive.extractfile(entry)
        assert packed is not None, "it is a plain file"
        with packed, path.open("wb") as file:
            shutil.copyfileobj(packed, file)
        os.utime(path, (entry.mtime, entry.mtime))


def remove(connection: Connection, home: str) -> None:
    """Remove the directory of a run from a host.

    Raises:
        HostError: it could not be removed.
    """
    assert home.startswith(DIRECTORIES), home
    assert "/" not in home.removeprefix(DIRECTORIES), home
    done = connection.run(f"{AS_ROOT} rm -rf --one-file-system -- {shlex.quote(home)}")
    if done.code != 0:
        raise HostError(connection.host, f"{home} cannot be removed: {' '.join(done.errors.split())[-300:]}.")


def is_abandoned(leftover: Leftover) -> bool:
    """Whether the run of a directory is over: no agent lives in it, and its controller is dead.

    Agents end with their channel. A controller on another machine cannot be asked, and an upload that broke off does
    not name one: such a directory counts as abandoned when it has lain there for ABANDONED_AFTER_S.
    """
    if leftover.in_use:
        return False
    controller = ownership.parse(leftover.owner)
    if controller is not None and controller.here:
        return controller.gone
    return leftover.age_s > ABANDONED_AFTER_S
