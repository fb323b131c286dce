"""What a run did over time, reduced to what is drawn where runs are held against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from splitbrain.results.arrivals import arrivals
from splitbrain.results.availability import Seconds, seconds_of
from splitbrain.results.calls import OPEN, client_calls
from splitbrain.results.errors import HistoryFormatError, RunNotFoundError
from splitbrain.results.faults import Window, run_events
from splitbrain.results.figures import Recovery, are_answered, figures_of
from splitbrain.results.rundir import RunDir

Floats: TypeAlias = npt.NDArray[np.float64]

RUNS_MAX: Final = 20
"""The largest number of runs of a side that are read, the latest ones; each is a whole history."""


class Track(NamedTuple):
    """A run over time; times in seconds since the test began.

    Attributes:
        name: test and run.
        end_s: its last event.
        windows: when which fault was in force.
        ended_s: when each ok op ended.
        begun_s, latency_ms: when each ok op was invoked, and how long it took from then.
        seconds: which seconds had ops, and which of them were not served (`splitbrain.results.availability`).
        recoveries: how soon the system answered after each operation of the nemesis.
    """

    name: str
    end_s: float
    windows: tuple[Window, ...]
    ended_s: Floats
    begun_s: Floats
    latency_ms: Floats
    seconds: Seconds
    recoveries: tuple[Recovery, ...]


class Tracks(NamedTuple):
    """The runs of a side.

    Attributes:
        runs: those that could be read.
        left_out: how many there are beyond RUNS_MAX.
        problems: why others could not be read, in words.
    """

    runs: list[Track]
    left_out: int = 0
    problems: tuple[str, ...] = ()


def tracks_of(runs: Sequence[RunDir]) -> Tracks:
    """Read the runs of a side; of more than RUNS_MAX the last ones. One without a history is reported, and left out."""
    found: list[Track] = []
    problems: list[str] = []
    for run in runs[-RUNS_MAX:]:
        try:
            found.append(track_of(run))
        except (RunNotFoundError, HistoryFormatError) as problem:
            problems.append(str(problem))
    return Tracks(found, max(len(runs) - RUNS_MAX, 0), tuple(dict.fromkeys(problems)))


def track_of(run: RunDir) -> Track:
    """Read a run.

    Raises:
        RunNotFoundError: nothing was recorded.
        HistoryFormatError: a file of it is damaged.
    """
    history = run.history().combine_chunks()
    calls, events = client_calls(history), run_events(history)
    found = arrivals(calls)
    ok = calls.ended("ok") & (calls.complete != OPEN)
    return Track(
        name=f"{run.test_name}/{run.name}",
        end_s=events.end_ns / 1e9,
        windows=events.windows,
        ended_s=found.ended[ok] / 1e9,
        begun_s=found.begun[ok] / 1e9,
        latency_ms=found.latency_ms[ok],
        seconds=seconds_of(found.due, found.ended, are_answered(calls), events.end_ns),
        recoveries=figures_of(run).recoveries,
    )
