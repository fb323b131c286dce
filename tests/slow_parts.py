"""Which tests are slow, of families of them, and slow tests in parts of about the same size.

One commit runs one part, `make test-all` runs them all.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable

import pytest


def mark_rest_of_samples(items: Iterable[pytest.Item]) -> None:
    """Of a test with many cases and the mark `sampled(n)`, mark all cases but each n-th as slow.

    Args:
        items: what was collected, in this order. The first case of each test stays as it is.
    """
    seen = Counter[str]()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is None:
            continue
        test = item.nodeid.partition("[")[0]
        if seen[test] % sampled.args[0]:
            item.add_marker(pytest.mark.slow)
        seen[test] += 1


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
