"""Ctrl-C in a command that simulates many runs: a first one asks for an end, a second one does not ask."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager


class Interrupts:
    """Whether somebody wants an end."""

    def __init__(self) -> None:
        self.seen = False

    @contextmanager
    def heard(self) -> Generator[None]:
        """Take note of SIGINT and SIGTERM while the context lasts; a second one ends it with KeyboardInterrupt."""

        def note(_: int, __: object) -> None:
            if self.seen:
                raise KeyboardInterrupt
            self.seen = True

        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
