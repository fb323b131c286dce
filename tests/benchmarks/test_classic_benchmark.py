"""The benchmark of classic queues does what it says, in small."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
@pytest.mark.parametrize("how", [[], ["--body", "20"], ["--body", "20", "--mixed"]])
def test_cq_9_it_publishes_recovers_and_converts_all(tmp_path: Path, how: list[str]) -> None:
    command = [sys.executable, "benchmarks/classic_index.py", "--messages", "100", "--queues", "4", *how]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("100 messages of 4 queues")
    assert [line.split()[0] for line in lines[2:5]] == ["publish", "recover", "convert"]
    assert re.search(r"this is [\d.]+ times that", lines[5])
    assert list(tmp_path.iterdir()) == []
