"""Requests to end: Ctrl-C, SIGTERM, a terminal that was closed. Started work is then ended cleanly."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FrameType
from typing import Final

_others: Final[list[Callable[[], object]]] = []
"""Called at every request too, whichever context hears it."""

_ALL: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_heard: Final[list[int]] = []
"""The last signal by which the command was asked to end; nothing for a Ctrl-C that Python itself answers."""


@contextmanager
def ends_the_command() -> Generator[None]:
    """A context in which SIGTERM and SIGHUP do what Ctrl-C does, unless what is called in it hears them by itself.

    So every command ends in order at each of them: files that are being written aside are removed, and processes that
    were started are ended. Signals that are ignored stay ignored. Other threads than the main one hear none.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _heard.clear()
    answers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _as_ctrl_c, signal.SIGHUP: _as_ctrl_c}
    before = {number: signal.getsignal(number) for number in answers}
    for number, answer in answers.items():
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, answer)
    try:
        yield
    finally:
        for number, handler in before.items():
            # After a hang-up others are ignored (`on_interrupt`). A handler that is not of Python cannot be set again.
            is_over = number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
            if handler is not None and not is_over:
                signal.signal(number, handler)


@contextmanager
def ignored() -> Generator[None]:
    """A context for what a command says at its end, in which another request would only be an error."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ALL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    _heard[:] = [number]
    answer = signal.getsignal(signal.SIGINT)
    if not callable(answer):
        raise KeyboardInterrupt
    answer(signal.SIGINT, frame)  # an event loop has its own


@contextmanager
def terminated_as_interrupted() -> Generator[None]:
    """A context in which a SIGTERM raises KeyboardInterrupt, also within `on_interrupt`; Ctrl-C is left as it is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _: object) -> None:
        _heard[:] = [number]
        with others_noticing():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def by_signal() -> str:
    """By which signal the command was asked to end, as the end of a sentence; empty for Ctrl-C."""
    return "" if _last() == signal.SIGINT else f" by {signal.Signals(_last()).name}"


def exit_code() -> int:
    """The exit code of a command that was interrupted and has no outcome: that of a shell for its signal."""
    return 128 + _last()


def _last() -> int:
    return _heard[-1] if _heard else signal.SIGINT


@contextmanager
def on_interrupt(
    note: Callable[[], object], around: Callable[[], AbstractContextManager[object]] = nullcontext
) -> Generator[None]:
    """Call `note` at every SIGINT and SIGTERM while the context lasts, and at the first SIGHUP.

    A SIGHUP that is ignored (nohup) stays ignored. After the first SIGHUP others are ignored, also after the context: a
    closed terminal may send several. Output for a closed terminal is discarded. What is done at a signal is done inside
    `around`. Contexts may be nested: the innermost one hears.
    """
    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]

    def ask(number: int, _: object) -> None:
        _heard[:] = [number]
        with around(), others_noticing():
            note()

    def hang_up(number: int, _: object) -> None:
        _heard[:] = [number]
        with around(), others_noticing():
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
            if number != signal.SIGHUP or signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
                signal.signal(number, handler)


@contextmanager
def others_noticing() -> Generator[None]:
    """Around what a handler does: those who wait for requests that others hear get to know of this one."""
    try:
        yield
    finally:
        for notice in _others:
            notice()


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
    """Whether a command that simulates many runs was asked to end.

    Attributes:
        seen: whether it was.
        broken: whether it was during what is, or was last, done within `breaking`.
    """

    def __init__(self) -> None:
        self.seen = self.broken = False
        self._breaks = False

    @contextmanager
    def heard(self, answer: str = "", last: float = 2) -> Generator[None]:
        """Take note of who asks for an end while the context lasts; the last of so many gets it by KeyboardInterrupt.

        Args:
            answer: a line for standard error, written at once at the first request.
            last: how many requests that takes, with those before the context counted as one.
        """
        asked = int(self.seen)

        def note() -> None:
            nonlocal asked
            asked += 1
            if self._breaks or asked >= last:
                self.seen = True
                raise KeyboardInterrupt
            if answer and not self.seen:
                write_line(answer)
            self.seen = True

        breaks, self._breaks = self._breaks, False
        try:
            with on_interrupt(note):
                yield
        finally:
            self._breaks = breaks

    @contextmanager
    def breaking(self) -> Generator[None]:
        """Within `heard`: let the next request break off what is done here, by KeyboardInterrupt.

        What hears requests by itself, as a run does, is not broken off; they are noted (`seen`, `broken`) all the same.
        """
        self._breaks, self.broken = True, False
        _others.append(self._notice)
        try:
            yield
        finally:
            _others.remove(self._notice)
            self._breaks = False

    def _notice(self) -> None:
        self.seen = self.broken = True
