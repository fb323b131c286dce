"""Live progress of a hunt: a status line on a terminal; elsewhere a plain line every ten seconds."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.live import Live
from rich.text import Text

from splitbrain.harness.campaigns.hunting.tally import SECONDS_PER_HOUR, Tally
from splitbrain.results.quantities import counted

_REDRAW_S = 0.25
_PLAIN_S = 10.0


class HuntProgress:
    """Shows what a hunt has tried so far."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.title = title
        self.phase = "starting"
        self._tally: Tally | None = None
        self._began = self._shown = time.monotonic()
        self._live = Live(console=self.console, refresh_per_second=4, transient=True) if sys.stderr.isatty() else None

    def __enter__(self) -> HuntProgress:
        """Show the line."""
        if self._live is not None:
            self._live.start()
        self._show()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Remove the line from a terminal."""
        if self._live is not None:
            self._live.stop()

    def enter(self, phase: str) -> None:
        """Set the phase ("canary"); rates count from here."""
        self.phase = phase
        self._tally = None
        self._began = time.monotonic()
        self._show()

    def show(self, tally: Tally) -> None:
        """Redraw the line if it is due."""
        self._tally = tally
        if time.monotonic() - self._shown >= (_REDRAW_S if self._live is not None else _PLAIN_S):
            self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        wall_s = self._shown - self._began
        line = f"{self.title}  {self.phase:8}  {wall_s:5.1f} s"
        if self._tally is not None and self._tally.runs:
            line = f"{line}  {progress_line(self._tally, wall_s)}"
        if self._live is not None:
            self._live.update(Text(line))
        else:
            self.console.print(line, highlight=False, soft_wrap=True)


def progress_line(tally: Tally, wall_s: float, runs: str = "") -> str:
    """The number of runs and their rate, their outcomes, and the coverage marks that they reached.

    Args:
        tally: of the runs.
        wall_s: how long they took, in seconds.
        runs: what to say of their number instead of the number alone.
    """
    outcomes = ", ".join(f"{count} {outcome.value}" for outcome, count in tally.outcomes.most_common())
    pace = f"{tally.runs / wall_s:.1f}/s" if wall_s > 0 else "-/s"
    speed = f"{tally.simulated_s / tally.cpu_s:.0f} s per CPU second" if tally.cpu_s > 0 else "-"
    runs = runs or counted(tally.runs, "run")
    return (
        f"{runs} ({pace})  {tally.simulated_s / SECONDS_PER_HOUR:.2f} simulated hours ({speed})  "
        f"{outcomes}  marks {tally.reached} of {len(tally.marks)}"
    )
