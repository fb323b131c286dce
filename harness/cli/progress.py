"""Live progress of a run: elapsed time, operations, the fault in force, the leader.

On a terminal one status line is redrawn four times a second. Elsewhere (CI, a pipe) a plain line goes to standard error
every ten seconds, so that a log shows that the run makes progress. Work after the run (`during`) may block for long: a
thread shows it, after two seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from splitbrain.harness.campaigns.leaders import Leaders
from splitbrain.results.history import HARNESS, NEMESIS, Op
from splitbrain.results.nemesisop import said
from splitbrain.results.quantities import counted

_REDRAW_S = 0.25
_PLAIN_S = 10.0
_QUIET_S = 2.0

BEHIND_SHOWN_NS = 1_000_000_000
"""The least delay of ops that is shown: no client was free when they were due."""


class Progress:
    """Counts what the runner reports through `observe`, and shows it."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.title = title
        self.leaders: Leaders | None = None
        self.phase = "starting"
        self.faults: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.behind_ns = 0
        self._started = time.monotonic()
        self._shown = self._started
        self._live = Live(console=self.console, refresh_per_second=4, transient=True) if sys.stderr.isatty() else None

    def __enter__(self) -> Progress:
        """Show the line."""
        if self._live is not None:
            self._live.start()
        else:
            self._print()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Remove the line from a terminal."""
        if self._live is not None:
            self._live.stop()

    def observe(self, op: Op) -> None:
        """Count an op that was recorded."""
        if op.process == NEMESIS:
            self._observe_fault(op)
        elif op.process == HARNESS:
            if op.f == "phase" and isinstance(op.value, dict):
                self.behind_ns = 0
                self.phase = str(op.value.get("phase"))  # pyright: ignore[reportUnknownArgumentType]
        else:
            self.counts[op.type] += 1
            if op.due is not None:
                self.behind_ns = op.time - op.due
        self.show()

    def up(self, seconds: float) -> None:
        """Print a line that stays: the time from the first step of deploying until every node answered."""
        self.console.print(f"{self.title}  up in {seconds:.1f} s", highlight=False, soft_wrap=True)

    def enter(self, phase: str) -> None:
        """Show a phase that is not recorded ("judging")."""
        self.phase = phase
        self.show(now=True)

    @contextmanager
    def during(self, phase: str, hint: str = "") -> Generator[Callable[[str], None]]:
        """Show a phase that does not call `observe`; gives a function to call with the current step.

        Args:
            phase: its name.
            hint: a line that stays, printed once the phase takes long.
        """
        self.leaders = None  # following the nodes' files is not thread-safe
        ended = threading.Event()

        def watch() -> None:
            wait_s = _QUIET_S
            while not ended.wait(wait_s):
                if hint and wait_s == _QUIET_S:
                    self.console.print(hint, highlight=False, soft_wrap=True, markup=False)
                wait_s = _PLAIN_S if self._live is None else _REDRAW_S
                self.show(now=True)

        def show_step(what: str) -> None:
            self.phase = f"{phase}: {what}"

        self.enter(phase)
        thread = threading.Thread(target=watch, name="progress", daemon=True)
        thread.start()
        try:
            yield show_step
        finally:
            ended.set()
            thread.join()

    def show(self, *, now: bool = False) -> None:
        """Redraw the line if it is due."""
        elapsed = time.monotonic() - self._shown
        if not now and elapsed < (_REDRAW_S if self._live is not None else _PLAIN_S):
            return
        self._shown = time.monotonic()
        if self._live is not None:
            self._live.update(Text(self._line()))
        else:
            self._print()

    def _print(self) -> None:
        self.console.print(self._line(), highlight=False, soft_wrap=True)

    def _line(self) -> str:
        elapsed = f"{self.title}  {time.monotonic() - self._started:5.1f} s  {self.phase:8}"
        if not self.counts:
            return elapsed
        counts = self.counts
        fault = ", ".join(self.faults.values()) or "none"
        leader = self.leaders.leader() if self.leaders is not None else None
        ended = f"{counts['ok']} ok, {counts['fail']} fail, {counts['info']} info"
        late = f"{self.behind_ns / 1e9:.1f} s behind --rate  " if self.behind_ns >= BEHIND_SHOWN_NS else ""
        return (
            f"{elapsed}  {counted(counts['invoke'], 'op')} ({ended})  {late}"
            f"fault: {fault}{f'  leader: {leader}' if leader is not None else ''}"
        )

    def _observe_fault(self, op: Op) -> None:
        if op.type == "invoke":
            return
        done = said(op.value)
        fault = op.f if done.fault is None else done.fault
        if done.action == "start" and (done.is_hit or not done.target):
            self.faults[fault] = f"{fault} {done.target}".strip()
        else:
            self.faults.pop(fault, None)
