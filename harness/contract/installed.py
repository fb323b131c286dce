"""Where a machine has what a system's nodes run (`Capabilities.programs`)."""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple


class Release(NamedTuple):
    """The release of a system that a machine has.

    Attributes:
        name: of the system and the release, such as "RabbitMQ 3.10.8".
        setting: the setting of the system that says which release a test is about.
        value: what it must be for a test of this one; None if there is no such value.
    """

    name: str
    setting: str
    value: int | None


def installed(program: str) -> str | None:
    """The path of a program, or of a file that is named by its path (a Java archive); None if it is not there."""
    if os.path.isabs(program):
        return program if os.path.exists(program) else None
    return shutil.which(program)
