"""The local backend works for root and for a plain user, with and without user namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.local import Links
from tests import plain_user

pytestmark = pytest.mark.cluster


def _exercise(command: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        command, cwd=plain_user.ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _program(links: str, folder: Path) -> list[str]:
    return ["-m", "tests.backends.controller", links, str(folder / "run")]


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


@pytest.mark.slow
def test_everything_works_for_the_user_of_the_tests(links: Links) -> None:
    with plain_user.folder() as folder:
        seen = _exercise([sys.executable, *_program(links, folder)], dict(os.environ))
    assert seen == _everything_works(os.getuid(), links)


@pytest.mark.slow
def test_everything_works_for_a_plain_user(links: Links) -> None:
    if (problem := plain_user.problem()) is not None:
        pytest.skip(problem)
    with plain_user.folder() as folder:
        command = plain_user.as_plain_user(_program(links, folder))
        if links == "namespaces" and (reason := _namespaces_problem_of_a_plain_user()):
            pytest.skip(f"namespaces do not work for a plain user here: {reason}")
        seen = _exercise(command, plain_user.environment())
    assert seen == _everything_works(plain_user.NOBODY, links)


def _namespaces_problem_of_a_plain_user() -> str:
    program = (
        "from splitbrain.harness.backends.local.support import namespaces_problem; print(namespaces_problem() or '')"
    )
    done = subprocess.run(
        plain_user.as_plain_user(["-c", program]), env=plain_user.environment(), stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode().strip()
