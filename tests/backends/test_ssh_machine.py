"""Directories of runs on hosts: which of them are left over, and what is taken from them."""

from __future__ import annotations

import dataclasses
import fcntl
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import pytest

from splitbrain.harness.backends.shared import ownership
from splitbrain.harness.backends.ssh import machine
from splitbrain.harness.backends.ssh.connection import Connection, Done, HostError
from splitbrain.harness.backends.ssh.inventory import Host
from splitbrain.harness.backends.ssh.machine import Leftover

LOOK = Path(machine.__file__).with_name("look.py")
AGENTS = Path(machine.__file__).parents[1]


# --- what is left over ------------------------------------------------------------------------------------------------


def seen(folder: Path) -> list[Leftover]:
    """What a look at a host tells whose directories of runs are in a folder."""
    argv = [sys.executable, "-I", str(LOOK), f"{folder}/splitbrain-*"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    return msgspec.convert(json.loads(done.stdout)["leftovers"], list[Leftover])


def test_an_upload_that_broke_off_before_it_named_its_owner_is_seen(tmp_path: Path) -> None:
    (tmp_path / "splitbrain-aB3dE6gH9j").mkdir()
    removed_halfway = tmp_path / "splitbrain-0123456789"
    (removed_halfway / "agent").mkdir(parents=True)
    assert [(found.path[-10:], found.owner, found.in_use) for found in seen(tmp_path)] == [
        ("0123456789", "", False),
        ("aB3dE6gH9j", "", False),
    ]


def test_what_only_looks_like_a_run_is_not_seen(tmp_path: Path) -> None:
    for name in ("splitbrain-notes", "splitbrain-aB3dE6gH9j-old", "splitbrain-aB3dE6gH9"):
        (tmp_path / name).mkdir()
    others = tmp_path / "splitbrain-somebodyel"
    others.mkdir()
    if os.geteuid() == 0:
        os.chown(others, 12345, 12345)
    else:
        others.rmdir()
    assert seen(tmp_path) == []


def leftover(owner: str, age_s: float, *, in_use: bool = False) -> Leftover:
    return Leftover("/var/tmp/splitbrain-0123456789", owner, in_use, age_s)


@pytest.mark.parametrize(
    ("changes", "age_s", "abandoned"),
    [
        ({"started": 1}, 1, True),
        ({}, 1e6, False),
        ({"started": 1, "boot": "0" * 32}, 1, False),
        ({"started": 1, "boot": "0" * 32}, machine.ABANDONED_AFTER_S + 1, True),
        ({"started": 1, "pid_namespace": 1}, 1, False),
        ({"started": 1, "pid_namespace": 1}, machine.ABANDONED_AFTER_S + 1, True),
    ],
    ids=["dead", "alive", "elsewhere", "elsewhere, old", "another PID namespace", "another PID namespace, old"],
)
def test_a_directory_is_abandoned_once_its_controller_is_dead_or_cannot_be_asked_for_long(
    changes: dict[str, Any], age_s: float, abandoned: bool
) -> None:
    marker = dataclasses.replace(ownership.this_controller(), **changes).marker
    assert machine.is_abandoned(leftover(marker, age_s)) == abandoned
    assert not machine.is_abandoned(leftover(marker, age_s, in_use=True)), "an agent lives there"


@pytest.mark.parametrize("owner", ["", "0f3a-boot splitbrain-agent:1:2:3"], ids=["none", "of an earlier version"])
def test_a_directory_whose_owner_cannot_be_told_is_abandoned_by_its_age(owner: str) -> None:
    assert not machine.is_abandoned(leftover(owner, machine.ABANDONED_AFTER_S - 1))
    assert machine.is_abandoned(leftover(owner, machine.ABANDONED_AFTER_S + 1))


def test_somebody_who_only_looks_does_not_count_as_an_agent(tmp_path: Path) -> None:
    home = tmp_path / "splitbrain-0123456789"
    home.mkdir()
    descriptor = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        assert [found.in_use for found in seen(tmp_path)] == [False]
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert [found.in_use for found in seen(tmp_path)] == [True]
    finally:
        os.close(descriptor)


def test_an_agent_bears_that_somebody_looks_at_its_directory_while_it_starts(tmp_path: Path) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    started = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(AGENTS), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    let_go = threading.Timer(0.7, os.close, [held])
    let_go.start()
    output, errors = started.communicate(b'{"id": 1, "op": "log_end"}\n', timeout=30)
    let_go.join()
    assert started.returncode == 0, errors
    assert json.loads(output) == {"id": 1, "ok": ""}


_SERVE = """
import sys
sys.path.append(sys.argv.pop(1))
from agent import remote
remote.isolate = lambda freezer: False
remote.Freezer = lambda: None
remote.main([sys.argv[1], "serve", "marker"])
"""


# --- what is taken from them ------------------------------------------------------------------------------------------


class Sending:
    """A connection to a host that sends an archive, whatever it is asked for."""

    host = Host("n1", "10.0.0.1", 22)

    def __init__(self, *entries: tuple[tarfile.TarInfo, bytes]) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for entry, data in entries:
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        self._packed = packed.getvalue()

    def fetch(self, command: str, sink: IO[bytes]) -> Done:
        sink.write(self._packed)
        return Done(0, "", "")


def file(name: str, data: bytes = b"data", mode: int = 0o600) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.uid, entry.mtime = mode, 0, 1_000_000
    return entry, data


def special(name: str, kind: bytes, to: str = "") -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = kind, to, 0o700
    return entry, b""


def collect(into: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> None:
    machine.collect(cast(Connection, Sending(*entries)), "/var/tmp/splitbrain-0123456789", into)


@pytest.fixture(params=["as it is", "as in 3.11.0"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 got filters of archives in 3.11.4; Debian 12 has 3.11.2."""
    if request.param != "as it is":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)

        def extract_all(archive: tarfile.TarFile, path: Path) -> None:
            raise AssertionError("nothing is extracted without a filter")

        monkeypatch.setattr(tarfile.TarFile, "extractall", extract_all)


@pytest.mark.usefixtures("python")
def test_log_and_data_are_laid_out_as_plain_files_of_whoever_runs_the_test(tmp_path: Path) -> None:
    deep = "data/" + "/".join(f"folder-{number:030}" for number in range(8)) + "/wal"
    collect(
        tmp_path,
        file("log", b"said"),
        special("data/", tarfile.DIRTYPE),
        special("data/empty", tarfile.DIRTYPE),
        file("data/su", b"x", 0o4777),
        file(deep, bytes(300_000)),
    )
    assert (tmp_path / "log").read_bytes() == b"said"
    assert (tmp_path / "log").stat().st_mtime == 1_000_000
    assert (tmp_path / deep).stat().st_size == 300_000
    assert (tmp_path / "data/empty").is_dir()
    assert (tmp_path / "data/su").stat().st_mode & 0o7111 == 0
    assert os.access(tmp_path / "log", os.R_OK)


@pytest.mark.parametrize(
    "name", ["/etc/cron.d/x", "../x", "data/../../x", "data/..", "ssh.log", "logs/x", "data//etc/x", "data/./x", ""]
)
def test_a_host_cannot_place_anything_that_was_not_asked_for(tmp_path: Path, name: str) -> None:
    into = tmp_path / "nodes" / "n1"
    into.mkdir(parents=True)
    with pytest.raises(HostError, match=r"n1 .*log and data came broken: .* was not asked for"):
        collect(into, file(name))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.usefixtures("python")
def test_links_and_devices_are_left_out_and_lead_nowhere(tmp_path: Path) -> None:
    into, outside = tmp_path / "into", tmp_path / "outside"
    into.mkdir()
    outside.mkdir()
    collect(
        into,
        special("data/link", tarfile.SYMTYPE, str(outside)),
        special("data/hard", tarfile.LNKTYPE, "/etc/passwd"),
        special("data/pipe", tarfile.FIFOTYPE),
        special("data/device", tarfile.CHRTYPE),
        file("data/link/x"),
    )
    assert sorted(str(path.relative_to(into)) for path in into.rglob("*")) == ["data", "data/link", "data/link/x"]
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "entries", [[file("data"), file("data/x")], [special("data/x", tarfile.DIRTYPE), file("data/x")]]
)
def test_an_archive_that_contradicts_itself_is_the_hosts_error(
    tmp_path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    with pytest.raises(HostError, match=r"n1 .*log and data came broken"):
        collect(tmp_path, *entries)
