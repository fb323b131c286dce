"""Debian from its packages: the image under the base if no registry is used.

`debootstrap` puts a minimal system into a folder, and the engine imports that folder. debootstrap gets no mirror: it
uses its default, so that no host name is needed here.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import docker

from splitbrain.harness.images.connection import ENGINE_FAILURES, one_line
from splitbrain.results.errors import ImageBuildError, UsageError

SUITES: Final = ("bookworm", "trixie")
DEFAULT_SUITE: Final = "trixie"
REPOSITORY: Final = "splitbrain-debian"

_WORKPLACE: Final = Path("/var/tmp")
"""Not /tmp, which is often in memory, or mounted so that nothing in it may be executed."""
_PREFIX: Final = "splitbrain-debian-"

_BOOTSTRAP: Final = ("debootstrap", "--variant=minbase")
_LEFT_OUT: Final = (
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./var/log/*",
    "./usr/share/man/*",
    "./usr/share/locale/*",
    "./usr/share/doc/*",
)
_KEPT_LINES: Final = 3


def reference(suite: str) -> str:
    """What the image of `suite` is called in the engine: its tag ends with a hash of how it is made."""
    recipe = hashlib.sha256(repr((_BOOTSTRAP, _LEFT_OUT)).encode()).hexdigest()[:12]
    return f"{REPOSITORY}:{suite}-{recipe}"


def check_suite(suite: str) -> None:
    """Refuse a suite that is not known.

    Raises:
        UsageError: so it is.
    """
    if suite not in SUITES:
        raise UsageError(f"there is no suite {suite!r} to build from: {', '.join(SUITES)}.")


def bootstrap(client: docker.DockerClient, suite: str, progress: Callable[[str], None]) -> None:
    """Make a minimal Debian of `suite`, as the image `reference(suite)`. `progress` is called with each line of output.

    Raises:
        UsageError: no such suite is known.
        ImageBuildError: debootstrap is missing, or failed, or this user may not use it.
    """
    check_suite(suite)
    if shutil.which("debootstrap") is None:
        raise ImageBuildError(
            "debootstrap is not installed: install it (apt-get install debootstrap), or build from a registry's image "
            "with --base debian:trixie-slim."
        )
    if os.geteuid() != 0:
        raise ImageBuildError(
            "building Debian from its packages needs root: use sudo, or build from a registry's image with "
            "--base debian:trixie-slim."
        )
    with _folder() as root:
        _fill(root, suite, progress)
        progress(f"importing {suite}")
        _import(client, root, suite)


@contextmanager
def _folder() -> Generator[Path]:
    """An empty folder that goes with the context. One that a killed build left behind goes now."""
    for left in sorted(_WORKPLACE.glob(f"{_PREFIX}*")):
        with suppress(OSError), _locked(left):  # One that is in use is locked.
            shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_WORKPLACE) as name, _locked(Path(name)):
        yield Path(name)


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Hold the folder's lock, which ends with this process at the latest.

    Raises:
        BlockingIOError: another process holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _fill(root: Path, suite: str, progress: Callable[[str], None]) -> None:
    """Install the suite's minimal system below `root`."""
    # It has its own mount and PID namespaces: its mounts below `root` always end with it, so that neither the archive
    # nor the removal of `root` can meet a live /proc.
    isolated = (
        "setpriv",
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        *_BOOTSTRAP,
        suite,
        str(root),
    )
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    with _running(isolated, stderr=subprocess.STDOUT) as (process, output):
        for line in output:
            text = line.decode(errors="replace").strip().removeprefix("I: ")
            if text:
                last.append(text)
                progress(text)
        if process.wait() != 0:
            raise ImageBuildError(f"debootstrap of {suite} failed: {' | '.join(last)}")


def _import(client: docker.DockerClient, root: Path, suite: str) -> None:
    exclude = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    tag = reference(suite).rpartition(":")[2]
    archive = ("tar", "-C", str(root), "--one-file-system", "--sort=name", *exclude, "-c", ".")
    with _running(archive) as (process, output):
        try:
            client.api.import_image_from_stream(output, repository=REPOSITORY, tag=tag)
        except ENGINE_FAILURES as error:
            raise ImageBuildError(f"the engine refuses to import {suite}: {one_line(error)}") from error
        if process.wait() != 0:
            raise ImageBuildError(f"{suite} could not be archived: tar ended with code {process.returncode}.")


@contextmanager
def _running(argv: tuple[str, ...], stderr: int | None = None) -> Generator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A process and its output; killed if it still runs when the context ends."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=environment)
    assert process.stdout is not None, "a pipe was asked for"
    try:
        yield process, process.stdout
    finally:
        process.kill()
        while process.stdout.read(1 << 16):
            pass  # Until the pipe is closed: then its child processes have ended too, and its files can be removed.
        process.stdout.close()
        process.wait()
