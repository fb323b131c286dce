"""Running this project as another, unprivileged user, wherever it and its interpreter are installed.

The checkout and the interpreter may lie below folders that only their owner may enter. In a mount namespace of the
command's own they are bound to a folder that everybody may enter.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOBODY = 65534


def as_plain_user(arguments: Sequence[str]) -> list[str]:
    """A command line that runs this interpreter with `arguments` as user 65534, from this project's root.

    To be run by root with the environment that `environment` gives. Signals sent to the process reach the interpreter:
    everything before it execs.
    """
    base = Path(sys.base_prefix).resolve()
    interpreter = Path(sys.executable).resolve().relative_to(base)
    site = [path for path in sys.path if path.endswith("site-packages")]
    steps = [
        'mkdir -p "$0/python" "$0/project"',
        f'mount --bind {shlex.quote(str(base))} "$0/python"',
        f'mount --bind {shlex.quote(str(ROOT))} "$0/project"',
    ]
    for number, path in enumerate(site):
        steps += [f'mkdir -p "$0/site{number}"', f'mount --bind {shlex.quote(path)} "$0/site{number}"']
    path = ":".join(["$0/project", *(f"$0/site{number}" for number in range(len(site)))])
    steps += [
        f'export PYTHONPATH="{path}" LD_LIBRARY_PATH="$0/python/lib"',
        'cd "$0/project"',
        f'exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups "$0/python/{interpreter}" "$@"',
    ]
    return ["unshare", "--mount", "sh", "-ec", "\n".join(steps), _open_folder(), *arguments]


def environment(**extra: str) -> Mapping[str, str]:
    """The variables of a plain user's process."""
    return {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nonexistent", **extra}


@contextlib.contextmanager
def folder() -> Generator[Path]:
    """A folder that a plain user may write to; pytest's own are for the user who runs it."""
    path = Path(tempfile.mkdtemp(prefix="splitbrain-test-"))
    path.chmod(0o777)
    try:
        yield path
    finally:
        shutil.rmtree(path)


@functools.cache
def _open_folder() -> str:
    """Where things are bound, in the command's own mount namespace only; here it stays empty."""
    folder = Path(tempfile.mkdtemp(prefix="splitbrain-plain-user-"))
    folder.chmod(0o755)
    atexit.register(_remove_empty, folder)
    return str(folder)


def _remove_empty(folder: Path) -> None:
    """Remove the places where things were bound; never what may be bound there."""
    with contextlib.suppress(OSError):
        for place in folder.iterdir():
            place.rmdir()
        folder.rmdir()


@functools.cache
def problem() -> str | None:
    """Why nothing can be run as a plain user here; None if it can."""
    if os.geteuid() != 0:
        return "only root can become another user"
    for tool in ("setpriv", "unshare"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    # It must be able to start itself: setpriv's own exec still has root's capabilities.
    program = "import subprocess, sys, msgspec; subprocess.run([sys.executable, '-c', ''], check=True)"
    tried = subprocess.run(
        as_plain_user(["-c", program]), env=environment(), capture_output=True, text=True, check=False
    )
    return None if tried.returncode == 0 else f"it cannot be done here: {tried.stderr.strip()[-300:]}"
