"""A system of another package passes pyright in strict mode, and a mistake in what it declares does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN = Path(__file__).with_name("own_system.py")


def problems(folder: Path, text: str) -> list[str]:
    """What pyright says of a file with this text, in a folder of its own."""
    (folder / "own_system.py").write_text(text)
    (folder / "pyrightconfig.json").write_text(
        json.dumps({"include": ["own_system.py"], "typeCheckingMode": "strict", "extraPaths": [str(ROOT)]})
    )
    words = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return [found["message"] for found in json.loads(ran.stdout)["generalDiagnostics"]]


@pytest.mark.slow
def test_the_least_system_passes(tmp_path: Path) -> None:
    assert problems(tmp_path, OWN.read_text()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "instead", "problem"),
    [
        ("Capabilities()", 'Capabilities(imune={"kill": "it cannot die"})', 'No parameter named "imune"'),
        ("Capabilities()", 'Capabilities(immune={"killing": "it cannot die"})', "killing"),
        ("    capabilities = Capabilities()\n", "", '"capabilities" is not present'),
        ('    name = "shop"\n', "    name = None\n", '"name"'),
    ],
)
def test_a_mistake_does_not(tmp_path: Path, written: str, instead: str, problem: str) -> None:
    found = problems(tmp_path, OWN.read_text().replace(written, instead))
    assert any(problem in message for message in found), found
