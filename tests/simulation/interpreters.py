"""The Pythons in which a simulation must give the same history."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pythons() -> list[Path]:
    """This interpreter, and those for which `tools/pythons` made an environment."""
    others = sorted(ROOT.glob(".venv-3.*/bin/python"))
    return [Path(sys.executable), *others]
