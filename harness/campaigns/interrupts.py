"""Requests to end: Ctrl-C, SIGTERM, a terminal that was closed. Started work is then ended cleanly."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress


@contextmanager
def on_interrupt(
    note: Callable[[], object], around: Callable[[], AbstractContextManager[object]] = nullcontext
) -> Generator[None]:
    """Call `note` at every SIGINT and SIGTERM while the context lasts, and at the first SIGHUP.

    A SIGHUP that is ignored (nohup) stays ignored. After the first SIGHUP others are ignored, also after the context: a
    closed terminal may send several. Output for a closed terminal is discarded. What is done at a signal is done inside
    `around`.
    """
    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
    hung_up = False

    def ask(_: int, __: object) -> None:
        with around():
            note()

    def hang_up(_: int, __: object) -> None:
        nonlocal hung_up
        hung_up = True
        with around():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            _let_go(terminals)
            note()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        for number, handler in before.items():
            if number != signal.SIGHUP or not hung_up:
                signal.signal(number, handler)


def _let_go(terminals: list[int]) -> None:
    """Let descriptors of terminals that are gone lead nowhere; else each line printed to them would be an error."""
    gone = [descriptor for descriptor in terminals if not os.isatty(descriptor)]
    if gone:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in gone:
            os.dup2(nowhere, descriptor)
        os.close(nowhere)


def write_line(line: str) -> None:
    """Write a line to standard error from a signal handler: past Python's buffer, which may be in use just then."""
    start = "\r\x1b[2K" if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{start}{line}\n".encode())


class Interrupts:
    """Whether a command that simulates many runs was asked to end."""

    def __init__(self) -> None:
        self.seen = False

    @contextmanager
    def heard(self, answer: str = "") -> Generator[None]:
        """Take note of who asks for an end while the context lasts; a second one gets it by KeyboardInterrupt.

        Args:
            answer: a line for standard error, written at once at the first request.
        """

        def note() -> None:
            if self.seen:
                raise KeyboardInterrupt
            self.seen = True
            if answer:
                write_line(answer)

        with on_interrupt(note):
            yield
