"""Progress of a command that reads and judges files, shown on standard error once it takes long.

On a terminal one line is redrawn, from two seconds on. Elsewhere (CI, a pipe) a plain line after two seconds, and then
every ten, shows the current step.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TextIO

_QUIET_S: Final = 2.0
_REDRAW_S: Final = 0.25
_PLAIN_S: Final = 10.0


class Steps:
    """The steps of a command: `enter` names the next one. A thread shows it, because the work itself may block."""

    def __init__(self, count: int, file: TextIO | None = None) -> None:
        self._count = count
        self._file = sys.stderr if file is None else file
        self._live = self._file.isatty()
        self._started = time.monotonic()
        self._done = 0
        self._what = ""
        self._shown = ""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Steps:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()
        with self._lock:
            self._clear()

    def enter(self, what: str) -> None:
        """Begin a step."""
        with self._lock:
            self._done += bool(self._what)
            self._what = what

    def reach(self, done: int) -> None:
        """Set the number of finished steps."""
        with self._lock:
            self._done = done

    def describe(self, what: str) -> None:
        """Replace the text of the current step."""
        with self._lock:
            self._what = what

    @contextmanager
    def aside(self) -> Generator[None]:
        """Let the caller print while the line is cleared."""
        with self._lock:
            self._clear()
            yield

    def _watch(self) -> None:
        wait_s = _QUIET_S
        while not self._ended.wait(wait_s):
            wait_s = _REDRAW_S if self._live else _PLAIN_S
            with self._lock:
                self._show()

    def _show(self) -> None:
        done = f"  ({self._done}/{self._count})" if self._count > 1 else ""
        line = f"{self._what}{done}  {time.monotonic() - self._started:.0f} s"
        if self._live:
            self._file.write(f"\r\x1b[2K{line}")
        else:
            self._file.write(f"{line}\n")
        self._shown = line
        self._file.flush()

    def _clear(self) -> None:
        if self._live and self._shown:
            self._file.write("\r\x1b[2K")
            self._file.flush()
            self._shown = ""
