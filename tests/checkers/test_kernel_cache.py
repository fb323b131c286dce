"""Compiled kernels are used again exactly as long as nothing that they were made of has changed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numba  # pyright: ignore[reportMissingTypeStubs]
import pytest

from splitbrain.checkers import kernel_cache
from splitbrain.results.errors import EngineError

ROOT = Path(__file__).parents[2]

PARTS = """
from typing import NamedTuple
from splitbrain.checkers.kernels import inlined

STEP = 1

class Pair(NamedTuple):
    a: int
    b: int

@inlined
def following(number):
    return number + STEP
"""

KERNEL = """
import parts
from parts import Pair
from splitbrain.checkers.kernels import kernel

@kernel
def twice(number):
    return later(Pair(number, number).a)

@kernel
def later(number):
    return parts.following(parts.following(number))
"""

ASK = """
import kernels_of_a_test as k
twice = k.twice.compiled
print(twice(10), sum(twice.stats.cache_hits.values()), sum(twice.stats.cache_misses.values()))
"""

ASK_IF_KEPT = """
import kernels_of_a_test as k
from splitbrain.checkers.kernel_cache import is_kept
print(is_kept(k.twice.py_func))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "kernels_of_a_test.py").write_text(KERNEL)
    return tmp_path


def answer(folder: Path, cache: str = "cache") -> str:
    """What the kernel answers in a new process, how often it was found compiled, how often not."""
    return asked(folder, cache).stdout.strip()


def asked(folder: Path, cache: str, script: str = ASK) -> subprocess.CompletedProcess[str]:
    """A new process that uses the kernel, and keeps compiled code in a folder; beside the kernel's own if unnamed."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", "NUMBA_CACHE_DIR": cache and str(folder / cache)}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=True
    )


@pytest.mark.slow
def test_a_kernel_is_compiled_again_when_something_of_another_file_changed_and_only_then(folder: Path) -> None:
    assert answer(folder) == "12 0 1"
    assert answer(folder) == "12 1 0"
    parts = folder / "parts.py"
    os.utime(parts, (1, 1))
    assert answer(folder) == "12 1 0"
    parts.write_text(PARTS.replace("STEP = 1", "STEP = 5"))
    assert answer(folder) == "20 0 1"
    parts.write_text(PARTS.replace("number + STEP", "number * 3"))
    assert answer(folder) == "90 0 1"
    parts.write_text(PARTS)
    assert answer(folder) == "12 0 1"
    parts.write_text(PARTS.replace("a: int\n    b: int", "b: int\n    a: int"))
    assert answer(folder) == "12 0 1"


@pytest.mark.slow
@pytest.mark.parametrize("compiled_in", ["cache", ""], ids=["in the user's folder", "beside the code"])
def test_a_kernel_is_kept_from_when_it_was_compiled_until_it_changes(folder: Path, compiled_in: str) -> None:
    def is_kept() -> str:
        return asked(folder, "cache", ASK_IF_KEPT).stdout.strip()

    assert is_kept() == "False"
    answer(folder, compiled_in)
    assert is_kept() == "True"
    (folder / "parts.py").write_text(PARTS.replace("STEP = 1", "STEP = 5"))
    assert is_kept() == "False"


@pytest.mark.slow
def test_what_was_compiled_beside_the_code_serves_those_who_cannot_write_there(folder: Path) -> None:
    """As after an installation by another user: what is new goes elsewhere, and nothing is compiled twice."""
    assert answer(folder, "") == "12 0 1"
    assert answer(folder, "of another user") == "12 1 0"
    (folder / "parts.py").write_text(PARTS.replace("STEP = 1", "STEP = 5"))
    assert answer(folder, "of another user") == "20 0 1"
    assert answer(folder, "of another user") == "20 1 0"


@pytest.mark.slow
def test_a_line_says_that_kernels_are_compiled_and_only_then(folder: Path) -> None:
    assert asked(folder, "cache").stderr.count("compiling those kernels of the checkers") == 1
    assert asked(folder, "cache").stderr == ""


def test_a_users_own_kernels_are_in_the_cache_folder_by_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = kernel_cache.users_folder()
    assert folder.is_relative_to(tmp_path / "splitbrain")
    assert numba.__version__ in folder.name
    assert folder.stat().st_mode & 0o077 == 0


def test_a_user_without_a_home_has_a_folder_that_no_other_user_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert kernel_cache.users_folder().is_relative_to(tmp_path)
    (taken,) = tmp_path.glob("splitbrain-kernels-*")
    taken.chmod(0o777)
    with pytest.raises(EngineError):
        kernel_cache.users_folder()
