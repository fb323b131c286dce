"""Where a simulated process prints: into the log of its node, line by line."""

from __future__ import annotations

import io
from collections.abc import Callable


class LogLines(io.TextIOBase):
    """Standard output, and standard error, of one process.

    Args:
        line: takes each complete line, without its end.
    """

    def __init__(self, line: Callable[[str], None]) -> None:
        super().__init__()
        self._line = line
        self._begun = ""

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str, /) -> int:
        """Take text; what follows the last newline waits for its own."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._line(line)
        return len(text)
