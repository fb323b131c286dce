"""What `test_prepare` has compiled in a process of its own, and what does not come to an end."""

from __future__ import annotations

import time


def warm_up() -> None:
    """Wait for ever."""
    while True:
        time.sleep(3600)
