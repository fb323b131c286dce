"""Whether the event loop of a run still turns: code of a plug-in that blocks it is named, and broken off.

A client that sleeps or computes without an await stops all of a run: ops do not end, faults are not healed, and
requests to end are not heard. A thread asks the loop for a sign of life and, where none comes, looks at what the main
thread does. Only code of plug-ins is broken off: that of the harness may wait for a slow machine.
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

from splitbrain.harness.campaigns.interrupts import on_interrupt, write_line
from splitbrain.harness.running.blocked import BlockedError
from splitbrain.harness.running.runner import END_NOW, Stop
from splitbrain.results.reasons import ADVICE_FOR_BLOCKED

if TYPE_CHECKING:
    import asyncio

WARN_S: Final = 5.0
"""After this time without a turn of the loop the line that blocks it is named."""

BREAK_S: Final = 20.0
"""After this time it is broken off. What is only slow, such as the import of a large library, ends before."""

HEARD_S: Final = 1.0
"""From this time on a request to end breaks it off at once: the loop does not hear it."""

BREAKS: Final = 3
"""Code that goes on after having been broken off so many times is ended together with the process."""

_LOOK_S: Final = 0.25

_LIBRARIES: Final = frozenset(
    """bcrypt click cryptography docker llvmlite msgspec nacl numba numpy paramiko pyarrow py4j pyspark requests
    splitbrain urllib3 websocket""".split()  # noqa: SIM905 - names, one behind the other
)
"""Who the harness calls, and itself: a loop that waits there is not blocked by a plug-in."""

_ENDED: Final = (
    "splitbrain: ended. The event loop was stuck{where}, and heard no request to end. What was recorded is kept: "
    "splitbrain analyze judges it; splitbrain clean removes what is left of the nodes."
)


class Turns:
    """Watches the event loop of a run, from a thread of its own.

    Args:
        loop: the loop, which runs in the main thread.
        stop: asked to end the run when something was broken off.
        say: gets a line for people as soon as something blocks; called from another thread.
        end: ends the process with an exit code, as `os._exit` does.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stop: Stop,
        say: Callable[[str], object],
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._loop = loop
        self._stop = stop
        self._say = say
        self._end = end
        self._over = threading.Event()
        self._turned = True
        self._still_s = 0.0
        self._next_break_s = BREAK_S
        self._breaks = 0
        self._breaking = False
        self._unheard = 0

    @contextmanager
    def watched(self) -> Generator[None]:
        """Watch while the context lasts, and pass requests to end (signals) on to the run."""
        thread = threading.Thread(target=self._watch, name="turns", daemon=True)
        with on_interrupt(self._requested):
            thread.start()
            try:
                yield
            finally:
                self._over.set()
                thread.join()

    def _turn(self) -> None:
        self._turned = True

    def _watch(self) -> None:
        """Until the context ends; time in which this process did not run at all does not count."""
        warned, before = False, time.monotonic()
        while not self._over.wait(_LOOK_S):
            before, passed_s = time.monotonic(), min(time.monotonic() - before, 2 * _LOOK_S)
            if self._turned:
                self._turned, warned = False, False
                self._still_s, self._next_break_s, self._breaks, self._unheard = 0.0, BREAK_S, 0, 0
                try:
                    self._loop.call_soon_threadsafe(self._turn)
                except RuntimeError:  # closed
                    return
                continue
            self._still_s += passed_s
            if not warned and self._still_s >= WARN_S:
                warned = self._warn()
            if self._still_s >= self._next_break_s:
                self._next_break_s += BREAK_S
                self._break()

    def _warn(self) -> bool:
        where = blocking(_frame_of_main())
        if where is not None:
            self._say(
                f"{self._what(where)}, and nothing else happens meanwhile. It is broken off in "
                f"{BREAK_S - self._still_s:.0f} s, or at Ctrl-C. {ADVICE_FOR_BLOCKED}"
            )
        return where is not None

    def _what(self, where: str) -> str:
        return f"{where} has blocked the event loop for {self._still_s:.0f} s"

    def _break(self) -> None:
        """Have the main thread look (`_requested`): only there can its code be broken off, and only by a signal."""
        where = blocking(_frame_of_main())
        if where is None:
            return
        if self._breaks >= BREAKS:
            self._give_up(where)
        self._breaks += 1
        self._breaking = True
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _requested(self) -> None:
        """In the main thread, at a signal: of a person, or of `_break`.

        Raises:
            BlockedError: code of a plug-in blocks the loop; this ends it.
        """
        ours, self._breaking = self._breaking, False
        stuck = not self._turned and self._still_s >= (BREAK_S if ours else HEARD_S)
        where = blocking(inspect.currentframe()) if stuck else None
        if not ours:
            self._loop.call_soon_threadsafe(self._stop.request)
            self._unheard += stuck
            if self._unheard >= END_NOW:
                self._give_up(where)
        if where is None:
            return
        what = self._what(where)
        if ours:
            for _ in range(2):  # without the final phase: there the same clients would block again
                self._loop.call_soon_threadsafe(self._stop.request, what)
        raise BlockedError(what)

    def _give_up(self, where: str | None) -> None:
        write_line(_ENDED.format(where=f" in {where}" if where else ""))
        self._end(255)


def _frame_of_main() -> FrameType | None:
    """What the main thread does now: its innermost frame."""
    return sys._current_frames().get(threading.main_thread().ident or 0)  # pyright: ignore[reportPrivateUsage]


def blocking(frame: FrameType | None) -> str | None:
    """The line of a plug-in that keeps the event loop from turning, in words; None if no plug-in does.

    Args:
        frame: the innermost frame of the thread of the loop. The innermost code that is neither Python's nor that of a
            library that the harness calls decides.
    """
    frame = _interrupted(frame)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == "splitbrain":
            return None
        if package not in _LIBRARIES and package not in sys.stdlib_module_names:
            return f"{frame.f_code.co_filename}, line {frame.f_lineno}, in {frame.f_code.co_name}"
        frame = frame.f_back
    return None


def _interrupted(frame: FrameType | None) -> FrameType | None:
    """The frame that a signal interrupted, if this one is that of a handler, or is called by it."""
    found, caller = frame, frame
    while caller is not None:
        if caller.f_globals.get("__name__") == on_interrupt.__module__:
            found = caller.f_back
        caller = caller.f_back
    return found
