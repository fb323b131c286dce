"""The local backend works for root and for a plain user, with and without user namespaces."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from harness.backends.local import Links

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
NOBODY = 65534


@pytest.fixture
def open_folder() -> Generator[Path, None, None]:
    """A folder that a plain user may write to; pytest's own are for the user who runs it."""
    folder = Path(tempfile.mkdtemp(prefix="splitbrain-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def _site_packages() -> str:
    return os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))


@functools.cache
def _as_nobody() -> tuple[list[str], dict[str, str]] | str:
    """Command prefix and environment that run this project as a plain user, or why that cannot be done."""
    if os.geteuid() != 0:
        return "only root can become another user"
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return "setpriv is not installed"
    prefix = [setpriv, "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(ROOT), _site_packages()]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [sys.executable, *(f"{folder}/{version}" for folder in ("/usr/bin", "/usr/local/bin"))]
    # It must be able to start itself: setpriv's own exec still has root's capabilities.
    works = "import subprocess, sys, tests.backends.support; subprocess.run([sys.executable, '-c', ''], check=True)"
    for interpreter in candidates:
        try:
            tried = subprocess.run(
                [*prefix, interpreter, "-c", works],
                cwd="/", env=environment, capture_output=True, text=True, check=False,
            )
        except OSError:
            continue
        if tried.returncode == 0:
            return [*prefix, interpreter], environment
    return f"uid {NOBODY} can read no {version} with this project and its dependencies (tried {', '.join(candidates)})"


def _exercise(links: str, folder: Path, prefix: list[str], environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [*prefix, "-m", "tests.backends.controller", links, str(folder / "run"), "exercise"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _everything_works(uid: int, links: str) -> dict[str, Any]:
    return {
        "uid": uid,
        "links": links,
        "silent": [["n1", "n2"]],
        "not passing": [["n1", "n2"]],
        "dropped": [[["n1", "n2"], True]],
        "heals": True,
        "states": ["paused", "running", "stopped", "running"],
    }


def test_everything_works_for_the_user_of_the_tests(links: Links, open_folder: Path) -> None:
    seen = _exercise(links, open_folder, [sys.executable], dict(os.environ))
    assert seen == _everything_works(os.getuid(), links)


def test_everything_works_for_a_plain_user(links: Links, open_folder: Path) -> None:
    found = _as_nobody()
    if isinstance(found, str):
        pytest.skip(found)
    prefix, environment = found
    if links == "namespaces" and (problem := _namespaces_problem_of_nobody(prefix, environment)):
        pytest.skip(f"namespaces do not work for a plain user here: {problem}")
    assert _exercise(links, open_folder, prefix, environment) == _everything_works(NOBODY, links)


def _namespaces_problem_of_nobody(prefix: list[str], environment: dict[str, str]) -> str:
    program = "from harness.backends.local.backend import namespaces_problem; print(namespaces_problem() or '')"
    done = subprocess.run([*prefix, "-c", program], cwd="/", env=environment, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().strip()
