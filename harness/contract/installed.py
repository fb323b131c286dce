"""Where a machine has what a system's nodes run (`Capabilities.programs`)."""

from __future__ import annotations

import os
import shutil


def installed(program: str) -> str | None:
    """The path of a program, or of a file that is named by its path (a Java archive); None if it is not there."""
    if os.path.isabs(program):
        return program if os.path.exists(program) else None
    return shutil.which(program)
