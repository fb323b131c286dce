"""Slow tests in parts of about the same size: one commit runs one part, `make test-all` runs them all."""

from __future__ import annotations

import re
import zlib

import pytest


def is_in(part: str, nodeid: str) -> bool:
    """Whether a slow test belongs to a part.

    Args:
        part: which, and of how many: `0/3`, `1/3`, `2/3`.
        nodeid: the test. Of each family of tests about as many are in every part.

    Raises:
        pytest.UsageError: there is no such part.
    """
    named = re.fullmatch(r"(\d+)/(\d+)", part)
    if named is None or int(named[1]) >= int(named[2]):
        raise pytest.UsageError(f"SPLITBRAIN_SLOW_PART={part}: give which part, from 0, of how many, for example 0/3.")
    return zlib.crc32(nodeid.encode()) % int(named[2]) == int(named[1])
