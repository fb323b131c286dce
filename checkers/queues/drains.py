"""Was each queue emptied in the end? Only then is a value lost that never came out.

A queue is drained if every node said that it is empty, asked after the last thing that happened to the queue: after the
end of every op that put something in, took something out, or whose outcome is unknown. A message that a client took
without acknowledging it comes back to the queue once the system has noticed that the client is gone. So the nodes must
also be asked `settle_s` after the last take of unknown outcome. A take that has not ended may be given something at any
later time, and keep it: no question comes after that, so its queue is not drained.

Where no `settle_s` is known, the system may hand a message over for good. Then each dequeue of unknown outcome may have
kept one value, and each such drain any number: as many are missing, and not lost (`kept`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from splitbrain.checkers.queues.reading import Reading, last_row
from splitbrain.results.calls import OPEN, Bools, Ints, ints, seconds
from splitbrain.results.columns import codes
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

_LISTED: Final = 5


def undrained(reading: Reading, settle_s: float) -> dict[int, Reason]:
    """The queues that were not emptied, by number, and why that is not known."""
    calls = reading.calls
    time = ints(calls.table, "time")
    everything = np.arange(len(calls.invoke))
    end = np.where((calls.complete == OPEN) & ~reading.puts, calls.table.num_rows - 1, last_row(calls, everything))
    of_row, names = codes(calls.table["node"])
    node = of_row[calls.invoke]
    nodes = np.unique(node)
    unsure = ~reading.puts & calls.ended("info")
    idle = reading.empty | calls.ended("fail")
    found: dict[int, Reason] = {}
    by_queue = np.argsort(reading.queue, kind="stable")
    starts = np.searchsorted(reading.queue[by_queue], np.arange(len(reading.queues) + 1)).tolist()
    for number, name in enumerate(reading.queues):
        own = by_queue[starts[number] : starts[number + 1]]
        if not np.any(reading.puts[own]):
            continue
        due = _due(end[own[~idle[own]]], time, end[own[unsure[own]]], settle_s)
        begun = calls.invoke[own]
        asked = own[reading.empty[own] & (begun > due[0]) & (time[begun] >= due[1])]
        missing = [names[int(each)] for each in np.setdiff1d(nodes, node[asked])]
        if missing:
            found[number] = _reason(name, missing, reading.drains[own], seconds(int(due[1])))
    return found


def unsure_takes(reading: Reading) -> Ints:
    """By queue how many values takes of unknown outcome can have kept at most: one each; all, where one is a drain."""
    unsure = ~reading.puts & reading.calls.ended("info")
    found = np.bincount(reading.queue[unsure], minlength=len(reading.queues)).astype(np.int64)
    found[reading.queue[unsure & reading.drains]] = np.iinfo(np.int64).max
    return found


def kept(reading: Reading, missing: Ints, unsure: Ints) -> dict[int, Reason]:
    """The queues of which takes of unknown outcome can have kept all that is missing, by number.

    Args:
        reading: the history.
        missing: by queue how many acknowledged values never came out.
        unsure: by queue how many values such takes can have kept.
    """
    return {
        queue: Reason(
            Code.UNDECIDED,
            f"{'The queue' if (name := reading.queues[queue]) is None else f'Queue {name!r}'} lacks "
            f"{counted(int(missing[queue]), 'acknowledged value')}, which takes of unknown outcome can have kept.",
        )
        for queue in np.flatnonzero((missing > 0) & (missing <= unsure)).tolist()
    }


def _due(ends: Ints, time: Ints, unsure: Ints, settle_s: float) -> tuple[int, int]:
    """The row, and the time in nanoseconds, after which a node that finds the queue empty says so for good."""
    row = int(ends.max(initial=-1))
    moment = int(time[row]) if row >= 0 else 0
    last = int(unsure.max(initial=-1))
    return row, max(moment, int(time[last]) + round(settle_s * 1e9)) if last >= 0 else moment


def _reason(queue: str | None, missing: list[str | None], drains: Bools, after_s: float) -> Reason:
    which = "The queue" if queue is None else f"Queue {queue!r}"
    if not np.any(drains):
        return Reason(
            Code.NOT_EXERCISED,
            f"{which} was never drained: what did not come out may still be in it, and is not judged.",
        )
    shown = ", ".join(name or "a client without a node" for name in missing[:_LISTED])
    more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
    return Reason(
        Code.NEVER_OK,
        f"{which} was not drained: {shown}{more} did not find it empty when asked after {after_s:.3f} s. What did not "
        "come out may still be in it.",
    )
