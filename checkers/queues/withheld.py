"""Messages of consumers that the others lost: they go back at once, so that somebody else gets them.

A client that holds a message (`reading`) acknowledges it when it begins its next op. If its node is cut off by then,
that does not get through. A leader on the other side suspects the node within `SUSPECTED_S`, and gives back what its
consumers have (QQ-4). So the message comes out once more, at the latest when its queue is drained.

That the same leader led for so long is certain where it answered two ops in one term, of which the second began so
long after the end of the first, both while the node was cut off: for a leader that is new the time begins anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.queues.apart import Span
from splitbrain.checkers.queues.reading import Reading
from splitbrain.results.calls import ints

SUSPECTED_S: Final = 4.0
"""After so long a node is suspected that cannot be reached: a detector looks each second, and waits for 2 s at most."""


class Withheld(NamedTuple):
    """A message that did not come out again.

    Attributes:
        item: which one.
        row: at which its only delivery ended.
        node: of the client that held it.
        span: when the node was cut off.
        answers: rows at which the two ops ended that show that one leader led for long.
    """

    item: int
    row: int
    node: str
    span: Span
    answers: tuple[int, int]


def withheld(reading: Reading, spans: Mapping[str, Sequence[Span]]) -> Iterator[Withheld]:
    """All that did not come out again, in the order of their deliveries.

    Args:
        reading: the history.
        spans: by node, when it was cut off (`apart`).
    """
    deliveries, table = reading.deliveries, reading.calls.table
    time, process = ints(table, "time"), ints(table, "process")
    nodes = table["node"].to_pylist()
    begins = _begins(reading)
    led = _led(reading)
    for at in np.flatnonzero(deliveries.held).tolist():
        item, row, begun = int(deliveries.item[at]), int(deliveries.end[at]), int(deliveries.begin[at])
        if np.any((deliveries.item == item) & (deliveries.end > row)):
            continue
        own = begins[int(process[begun])]
        following = bisect_left(own, row)
        acknowledged_ns = int(time[own[following]]) if following < len(own) else None
        for span in spans.get(nodes[begun] or "", ()):
            from_ns = max(span[0], int(time[row]))
            if from_ns >= span[1] or (acknowledged_ns is not None and acknowledged_ns <= span[0]):
                continue
            answers = _answers(led.get(int(reading.items.queue[item]), ()), from_ns, span[1])
            if answers is not None:
                yield Withheld(item, row, nodes[begun] or "", span, answers)
                break


def _begins(reading: Reading) -> dict[int, list[int]]:
    """By process, the rows at which its ops began, in order."""
    process = ints(reading.calls.table, "process")
    found: dict[int, list[int]] = {}
    for row in np.sort(reading.calls.invoke).tolist():
        found.setdefault(int(process[row]), []).append(row)
    return found


class _Led(NamedTuple):
    term: int
    begun_ns: int
    ended_ns: int
    row: int


def _led(reading: Reading) -> dict[int, list[_Led]]:
    """By queue, the ops whose answers name a term, in the order of their ends."""
    calls = reading.calls
    time, terms = ints(calls.table, "time"), calls.table["term"].to_pylist()
    found: dict[int, list[_Led]] = {}
    for call in np.flatnonzero(calls.ended("ok")).tolist():
        begun, ended = int(calls.invoke[call]), int(calls.complete[call])
        if (term := terms[ended]) is not None:
            led = _Led(term, int(time[begun]), int(time[ended]), ended)
            found.setdefault(int(reading.queue[call]), []).append(led)
    for each in found.values():
        each.sort(key=lambda led: led.ended_ns)
    return found


def _answers(led: Sequence[_Led], from_ns: int, to_ns: int) -> tuple[int, int] | None:
    """The two ops, with one term, that show one leader for long enough between these times; None if none do."""
    first: dict[int, _Led] = {}
    for each in led:
        if each.begun_ns < from_ns or each.ended_ns > to_ns:
            continue
        known = first.setdefault(each.term, each)
        if each.begun_ns - known.ended_ns >= SUSPECTED_S * 1e9:
            return known.row, each.row
    return None
