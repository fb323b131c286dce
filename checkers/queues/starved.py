"""Queues that give nothing although they have something, and consumers wait for it.

It is convicted only if all of the following hold for some time: no fault is in force, or was shortly before; a value is
acknowledged, and never comes out; no consumer of its queue begins, leaves, fails, or is given anything; and behind
`WAIT_S` of that each of them is asked once more, and has been given nothing. One that keeps something to itself would
have reported it by then: so none has the value, and none that might have it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from splitbrain.checkers.queues.calm import Calm
from splitbrain.checkers.queues.reading import NEVER, Reading
from splitbrain.results.calls import OPEN, Calls, ints

WAIT_S: Final = 5.0
"""So long a value may be on its way to a consumer while no fault is in force, or to one that is gone, as its queue does
not know.
"""


class Ending(msgspec.Struct, frozen=True):
    """When a subscription ended, or may have.

    Attributes:
        process: whose.
        queue: of which; None for all of the process.
        begin_ns, end_ns: of the op with which it did; NEVER for an op that did not end.
        for_good: whether the process does nothing more.
    """

    process: int
    queue: str | None
    begin_ns: int
    end_ns: int
    for_good: bool


class Starved(msgspec.Struct, frozen=True):
    """A queue that gives nothing.

    Attributes:
        item: the first value that it had.
        consumers: how many were asked.
        row: of the last answer that there was nothing.
    """

    item: int
    consumers: int
    row: int


class _Poll(msgspec.Struct, frozen=True):
    invoke_ns: int
    complete_ns: int
    row: int


def endings(calls: Calls, leave: str) -> list[Ending]:
    """Of all ops, those that end a subscription: a leave, and what failed or had no known outcome."""
    time, process = ints(calls.table, "time"), ints(calls.table, "process")
    left, broken, unsure = calls.are(leave), ~calls.ended("ok"), calls.ended("info")
    return [
        Ending(
            int(process[row]),
            None if broken[call] else calls.table["key"][row].as_py(),
            int(time[row]),
            NEVER if end == OPEN else int(time[end]),
            bool(unsure[call]),
        )
        for call in np.flatnonzero(left | broken).tolist()
        for row, end in ((int(calls.invoke[call]), int(calls.complete[call])),)
    ]


def starved(reading: Reading, ended: Sequence[Ending], calm: Calm) -> Iterator[Starved]:
    """The queues that give nothing."""
    time = ints(reading.calls.table, "time")
    items, deliveries = reading.items, reading.deliveries
    came = np.zeros(len(items.value), np.bool_)
    came[deliveries.item] = True
    for queue, name in enumerate(reading.queues):
        missing = np.flatnonzero((items.queue == queue) & ~came & (items.acknowledged != NEVER))
        if not len(missing):
            continue
        item = int(missing[np.argmin(items.acknowledged[missing])])
        own = [each for each in ended if each.queue in (name, None)]
        polls = _of_consumers(_polls(reading, queue), own)
        if not polls:
            continue
        last_given = deliveries.end[items.queue[deliveries.item] == queue].max(initial=-1)
        since_ns = max(
            int(time[items.acknowledged[item]]),
            int(time[last_given]) if last_given >= 0 else 0,
            max((each.end_ns for each in own), default=0),
            max(_begun_ns(process, each, own) for process, each in polls.items()),
        )
        last = max((each[-1] for each in polls.values()), key=lambda poll: poll.complete_ns)
        waited_ns = min(each[-1].invoke_ns for each in polls.values()) - since_ns
        if waited_ns >= WAIT_S * 1e9 and calm.covers(since_ns, last.complete_ns):
            yield Starved(item, len(polls), last.row)


def _polls(reading: Reading, queue: int) -> dict[int, list[_Poll]]:
    """By process what it asked the queue for, and was answered."""
    calls, found = reading.calls, dict[int, list[_Poll]]()
    time, process = ints(calls.table, "time"), ints(calls.table, "process")
    for call in np.flatnonzero((reading.queue == queue) & ~reading.puts & calls.ended("ok")).tolist():
        row, end = int(calls.invoke[call]), int(calls.complete[call])
        found.setdefault(int(process[row]), []).append(_Poll(int(time[row]), int(time[end]), end))
    return found


def _of_consumers(polls: Mapping[int, list[_Poll]], own: Sequence[Ending]) -> dict[int, list[_Poll]]:
    """Those of processes that may be consumers at the end: not of those that are gone, or left and came not again."""
    gone = {each.process for each in own if each.for_good}
    left = {each.process: each.begin_ns for each in own if each.queue is not None}
    return {
        process: each
        for process, each in polls.items()
        if process not in gone and each[-1].invoke_ns >= left.get(process, -1)
    }


def _begun_ns(process: int, polls: Sequence[_Poll], own: Sequence[Ending]) -> int:
    """When the subscription that a process has in the end had begun; NEVER if it may not have one."""
    ended_ns = max((each.end_ns for each in own if each.process == process), default=-1)
    return next((poll.complete_ns for poll in polls if poll.invoke_ns >= ended_ns), NEVER)
