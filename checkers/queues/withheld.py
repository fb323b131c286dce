"""Messages of consumers that the others lost: they go back at once, so that somebody else gets them.

A client that holds a message (`reading`) acknowledges it later. If its node is cut off by then, that does not get
through. A leader on the other side suspects the node in time (`suspected_s`), and gives back what its consumers have
(QQ-4). What was given back is served before all else (QQ-3). So by when a take is given a message for the first time,
the held one has come out once more; or a take may have had it whose outcome is not known.

That the same leader led for so long is certain where it answered two ops in one term, of which the second began so
long after the end of the first, both while the node was cut off: for a leader that is new the time begins anew. Both
were asked by nodes that the lost one did not reach: so this leader did not either. The second one is that take.
While a node outside may stand still nothing is said: a node that does not run notices no silence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.queues.apart import Span
from splitbrain.checkers.queues.reading import Reading, last_row
from splitbrain.results.calls import ints

LEAST_S: Final = 4.0
"""So long a node that cannot be reached may at least take to be suspected."""

_UNNOTICED_S: Final = 1.375
"""A silence up to this may pass unnoticed: a detector looks each second, and waits for 1.5 times 0.25 s at first."""

_LEEWAY_S: Final = 0.9
"""Until the suspicion is in the log, and the node has said its last."""


def suspected_s(silences: int) -> float:
    """After how long a node is certainly suspected that cannot be reached.

    Args:
        silences: how many there were before that may not have been noticed. A detector waits for 1.5 times the longest
            of them that it knows.
    """
    longest_s = _UNNOTICED_S
    for _ in range(min(silences, 20)):
        longest_s = 1.5 * longest_s + 1
    return max(LEAST_S, longest_s + _LEEWAY_S)


class Withheld(NamedTuple):
    """A message that should have come out again.

    Attributes:
        item: which one.
        row: at which its delivery ended.
        node: of the client that held it.
        span: when the node was cut off.
        first: row at which an op ended that shows who led.
        take: the same of the take that was given another message.
    """

    item: int
    row: int
    node: str
    span: Span
    first: int
    take: int


class _Led(NamedTuple):
    """An op whose answer names a term; `is_new`: it was given a message for the first time. Times and rows."""

    term: int
    begun_ns: int
    ended_ns: int
    row: int
    is_new: bool
    node: str


def withheld(reading: Reading, spans: Mapping[str, Sequence[Span]]) -> Iterator[Withheld]:
    """All that should have come out again, in the order of their deliveries.

    Args:
        reading: the history.
        spans: by node, when it was cut off (`apart`).
    """
    if not any(spans.values()):
        return
    deliveries, table = reading.deliveries, reading.calls.table
    time, nodes = ints(table, "time"), table["node"].to_pylist()
    acknowledged = _acknowledged(reading)
    led, unsure, by_item = _led(reading), _unsure(reading), np.argsort(deliveries.item, kind="stable")
    for at in np.flatnonzero(deliveries.held >= 0).tolist():
        item, row, node = int(deliveries.item[at]), int(deliveries.end[at]), nodes[int(deliveries.begin[at])] or ""
        queue, by = int(reading.items.queue[item]), acknowledged.get(at)
        for span in spans.get(node, ()):
            from_ns = max(span.begin_ns, int(time[row]))
            if from_ns >= span.end_ns or (by is not None and int(time[by]) <= span.begin_ns):
                continue
            meanwhile = _between(led.get(queue, ()), from_ns, span.end_ns)
            shown = _shown((each for each in meanwhile if each.node not in span.within), suspected_s(span.silences))
            if shown is None:
                continue
            first, take = shown
            own = by_item[slice(*np.searchsorted(deliveries.item, (item, item + 1), sorter=by_item))]
            again = (deliveries.end[own] > row) & (deliveries.begin[own] < take)
            kept = any(
                begun < take and int(time[ended]) > span.begin_ns and nodes[begun] not in span.within
                for begun, ended in unsure.get(queue, ())
            )
            if not np.any(again) and not kept:
                yield Withheld(item, row, node, span, first, take)
                break


def _acknowledged(reading: Reading) -> dict[int, int]:
    """By held delivery, the row at which an op began with which the client acknowledged it; not those it never did."""
    process = ints(reading.calls.table, "process")
    begins: dict[int, list[int]] = {}
    for row in np.sort(reading.calls.invoke).tolist():
        begins.setdefault(int(process[row]), []).append(row)
    deliveries = reading.deliveries
    own: dict[int, list[int]] = {}
    for at in np.flatnonzero(deliveries.held >= 0).tolist():
        own.setdefault(int(process[int(deliveries.begin[at])]), []).append(at)
    found: dict[int, int] = {}
    for by, held in own.items():
        for place, at in enumerate(held):
            last = place + int(deliveries.held[at])
            following = bisect_left(begins[by], int(deliveries.end[held[last]])) if last < len(held) else None
            if following is not None and following < len(begins[by]):
                found[at] = begins[by][following]
    return found


def _led(reading: Reading) -> dict[int, list[_Led]]:
    """By queue, the ops whose answers name a term, in the order of their ends."""
    calls, deliveries = reading.calls, reading.deliveries
    time, terms, nodes = ints(calls.table, "time"), calls.table["term"].to_pylist(), calls.table["node"].to_pylist()
    new = set(deliveries.begin[~deliveries.flagged].tolist())
    found: dict[int, list[_Led]] = {}
    for call in np.flatnonzero(calls.ended("ok")).tolist():
        begun, ended = int(calls.invoke[call]), int(calls.complete[call])
        if (term := terms[ended]) is not None:
            led = _Led(term, int(time[begun]), int(time[ended]), ended, begun in new, nodes[begun] or "")
            found.setdefault(int(reading.queue[call]), []).append(led)
    for each in found.values():
        each.sort(key=lambda led: led.ended_ns)
    return found


def _unsure(reading: Reading) -> dict[int, list[tuple[int, int]]]:
    """By queue, begin and end of the takes and drains that may have had a message that they did not report: rows."""
    calls = reading.calls
    takes = np.flatnonzero(~reading.puts & ~calls.ended("ok"))
    ends = last_row(calls, takes).tolist()
    found: dict[int, list[tuple[int, int]]] = {}
    for call, ended in zip(takes.tolist(), ends, strict=True):
        begun = int(calls.invoke[call])
        until = calls.table.num_rows - 1 if ended == begun else ended  # one without an end may be given it at any time
        found.setdefault(int(reading.queue[call]), []).append((begun, until))
    return found


def _between(led: Sequence[_Led], from_ns: int, to_ns: int) -> Iterator[_Led]:
    """The ops that began and ended between these times."""
    for at in range(bisect_left(led, from_ns, key=lambda each: each.ended_ns), len(led)):
        if led[at].ended_ns > to_ns:
            return
        if led[at].begun_ns >= from_ns:
            yield led[at]


def _shown(led: Iterable[_Led], for_s: float) -> tuple[int, int] | None:
    """The rows of the op and of the take that show that one leader led for so long."""
    first: dict[int, _Led] = {}
    for each in led:
        known = first.setdefault(each.term, each)
        if each.is_new and each.begun_ns - known.ended_ns >= for_s * 1e9:
            return known.row, each.row
    return None
