"""The directory of a run on a host: laid out, fetched from, removed, and told from those that others left behind."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import socket
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.backends import agent as agent_package
from harness.backends import ownership
from harness.backends.ssh.agents import AS_ROOT
from harness.backends.ssh.connection import Connection, HostError
from harness.backends.ssh.survey import DIRECTORIES, Leftover

UPLOADS_WITHIN_S: Final = 120.0
ABANDONED_AFTER_S: Final = 3600.0
"""A directory in which no agent lives is left alone for so long if its owner cannot be asked: it may be about to."""


def owner() -> str:
    """How this process marks directories on hosts: the machine, and the process on it."""
    return f"{_machine()} {ownership.this_controller().marker}"


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
        text = owner().encode()
        marked.size = len(text)
        archive.addfile(marked, io.BytesIO(text))
        for name, path in {"agent": Path(agent_package.__path__[0]), **uploads}.items():
            archive.add(path, name, filter=_packed)
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
        command = f"cd {shlex.quote(home)} && {AS_ROOT} tar -cf - $(ls -d log data 2>/dev/null)"
        done = connection.fetch(command, packed)
        if done.code != 0:
            said = " ".join(done.errors.split())[-300:]
            raise HostError(connection.host, f"log and data cannot be fetched (code {done.code}): {said}.")
        packed.seek(0)
        try:
            with tarfile.open(fileobj=packed) as archive:
                archive.extractall(into, filter=_regular)
        except (tarfile.TarError, OSError) as error:
            raise HostError(connection.host, f"log and data came broken: {error}.") from None


def _regular(entry: tarfile.TarInfo, into: str) -> tarfile.TarInfo | None:
    """Plain files and folders, readable by whoever runs the test; a host cannot place anything else here."""
    if not (entry.isreg() or entry.isdir()):
        return None
    safe = tarfile.data_filter(entry, into)
    safe.mode = 0o755 if entry.isdir() else 0o644
    return safe


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

    Agents end with their channel. A controller on another machine cannot be asked: its directory counts as abandoned
    when it has lain there for ABANDONED_AFTER_S.
    """
    if leftover.in_use:
        return False
    machine, _, marker = leftover.owner.partition(" ")
    controller = ownership.parse(marker)
    if machine == _machine() and controller is not None:
        here = ownership.this_controller().pid_namespace == controller.pid_namespace
        if here:
            return not controller.alive
    return leftover.age_s > ABANDONED_AFTER_S


def _machine() -> str:
    """This machine, as long as it is up: its boot, or (where that cannot be read) its name."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return socket.gethostname() or os.uname().nodename
