"""Names of groups: each is a cluster of its own, with its own leader, log and state, in the same processes."""

from __future__ import annotations

import re
from typing import Final

METADATA: Final = "metadata"
"""The group of the metadata store, which every node has."""

_NAME: Final = re.compile("[a-z0-9][a-z0-9._-]{0,63}")


def group_problem(name: str) -> str | None:
    """What is wrong with the name of a group, None if it is in order."""
    if _NAME.fullmatch(name):
        return None
    return "a group has a name of 1 to 64 of a-z, 0-9, dot, dash and underscore, which begins with a letter or a digit"
