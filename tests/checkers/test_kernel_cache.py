"""Compiled kernels are used again exactly as long as nothing that they were made of has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PARTS = """
from typing import NamedTuple
from checkers.kernels import inlined

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
from checkers.kernels import kernel

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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "kernels_of_a_test.py").write_text(KERNEL)
    return tmp_path


def answer(folder: Path) -> str:
    """What the kernel answers in a new process, how often it was found compiled, how often not."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.strip()


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
