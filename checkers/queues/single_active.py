"""Queues with a single active consumer: one consumer at a time is given messages, in the order of their publishers.

    starved      an acknowledged value never came out, although consumers waited for it (`.starved`)
    shared       a consumer was given a message between two that another one was given, which had not ended meanwhile
    order        a message came out for the first time after a later one of its publisher
    unexpected   a message came out that no client had put in by then, or whose put certainly failed

When the system gave a message to a consumer is known only roughly: the client may learn of it later. The client has one
message at a time (a prefetch of 1), so the system gave it after the client had acknowledged the one before, and before
the client reported it. All rules need no more than that.

`shared`: in the messages of one publisher, in the order in which they were put in, stands the order in which consumers
were active; and so it does in messages of which each was given after the one before had been reported. A consumer may
stop being active because it leaves, fails, or can no longer be reached by the others. So one that comes, goes and comes
again is convicted only if none of its ops failed or had an unknown outcome in between, and if neither faults were in
force nor had been in the `settle_s` before: others, in the order of one publisher, are counted as `unexplained`. Nor is
one for which a consumer of a higher priority may have come between, and left, given anything or not: the priority is
the value that `consume` is called with.

A consumer has a message until it reports it. So it is `shared` as well if meanwhile another one was given a later one
of the same publisher: the next one, of any priority, waits until the one before has settled what it has.

`order`: a message that was given before, to a client that never learned of it, may come late, and is then marked as
redelivered. One that is not so marked may not. But for a queue that starves its consumers nothing is said about loss:
that is for the checker `queue`.
"""

from __future__ import annotations

import itertools
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding, answer
from splitbrain.checkers.durations import nanoseconds
from splitbrain.checkers.queues.calm import Calm
from splitbrain.checkers.queues.reading import NEVER, Functions, Reading, read
from splitbrain.checkers.queues.starved import WAIT_S, Ending, endings, starved
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import Calls, client_calls, ints, is_equal
from splitbrain.results.columns import array
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

SETTLE_S: Final = 15.0
"""How long after a fault the system may still hand over because of it."""

_MOST_SEVERE_FIRST: Final = ("unexpected", "starved", "shared", "order")


class SingleActive(OfOneRun):
    """Judges ops that put values into queues (`enqueue`), and wait for what the queue gives them (`consume`).

    A consumer begins with its first `consume`, and ends with a `leave`. Options: `enqueue`, `consume` and `leave`, the
    functions' names; `settle_s`, for how long after a fault handovers need no other reason (default 15); `late_s`, how
    much later than usual something may arrive although no fault is in force (0): if it may, no time is without a fault.
    Values and answers are those of the checker `queue`.
    """

    name = "single-active"
    partition: Partition = "run"
    counts_ops = True

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return tuple(by_key.function_option(self.name, options, name) for name in ("enqueue", "consume", "leave"))

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is wrong.
            HistoryFormatError: a value is no whole number, or was put into one queue twice.
        """
        enqueue, consume, leave = (
            by_key.function_option(self.name, options, name) for name in ("enqueue", "consume", "leave")
        )
        calm = Calm.of(self.name, history, options, SETTLE_S)
        if nanoseconds(self.name, options, "late_s", 0.0):
            calm = Calm(())
        start = time.process_time()
        table = history.filter(array(ints(history, "process") >= 0)).combine_chunks()
        chosen = is_equal(table, "f", enqueue) | is_equal(table, "f", consume)
        every = client_calls(table)
        ends, ended = _ends(every, leave), endings(every, leave)
        index = ints(table, "index")[chosen]
        reading = read(client_calls(table.filter(array(chosen)).combine_chunks()), Functions(enqueue, consume, ""))
        verdict = _Judge(reading, _given(reading, ends, index), ended, calm).verdict(self.name)
        return msgspec.structs.replace(verdict, seconds=round(time.process_time() - start, 6))


Consumer: TypeAlias = tuple[int, int]
"""A process, and how many of its subscriptions to the queue had ended before."""


class Given(msgspec.Struct, frozen=True):
    """A message that was given to a consumer.

    Attributes:
        item: which one.
        consumer: to which.
        after, by: rows between which the system gave it.
        flagged: whether it is said to be redelivered.
        priority: of the consumer.
        stayed: whether the consumer began before, and did not end: that it was given the message, it was for all of it.
    """

    item: int
    consumer: Consumer
    after: int
    by: int
    flagged: bool
    priority: int = 0
    stayed: bool = True


_Ends: TypeAlias = dict[tuple[int, str | None], list[int]]
"""By process and queue the indexes of ops with which its subscription ends; None for all queues of the process."""


def _ends(calls: Calls, leave: str) -> _Ends:
    found: _Ends = {}
    table = calls.table
    left, broken = calls.are(leave), ~calls.ended("ok")
    for call in np.flatnonzero(left | broken).tolist():
        row = int(calls.invoke[call])
        key = None if broken[call] else table["key"][row].as_py()
        found.setdefault((table["process"][row].as_py(), key), []).append(table["index"][row].as_py())
    return found


def _given(reading: Reading, ends: _Ends, index: Any) -> list[Given]:
    """All deliveries, in the order in which clients reported them."""
    found: list[Given] = []
    before: dict[tuple[int, int], int] = {}
    process, values = ints(reading.calls.table, "process"), reading.calls.table["value"].to_pylist()
    deliveries, items = reading.deliveries, reading.items
    for at in np.argsort(deliveries.end, kind="stable").tolist():
        item, row = int(deliveries.item[at]), int(deliveries.end[at])
        queue, by = int(items.queue[item]), int(process[row])
        own = [ends.get((by, name), ()) for name in dict.fromkeys((None, reading.queues[queue]))]
        ended = sum(bisect_left(each, index[row]) for each in own)
        after = max(before.get((by, queue), -1), int(items.begun[item]) if items.begun[item] < row else -1)
        priority = _priority(values[int(deliveries.begin[at])])
        stayed = after >= 0 and ended == sum(bisect_left(each, index[after]) for each in own)
        found.append(Given(item, (by, ended), after, row, bool(deliveries.flagged[at]), priority, stayed))
        before[by, queue] = row
    return found


def _highest(reading: Reading) -> dict[int, int]:
    """By queue the highest priority with which something was asked of it."""
    found: dict[int, int] = {}
    takes = ~reading.puts
    asked = reading.calls.table["value"].take(array(reading.calls.invoke[takes])).to_pylist()
    for queue, said in zip(reading.queue[takes].tolist(), asked, strict=True):
        found[queue] = max(_priority(said), found.get(queue, _priority(said)))
    return found


def _priority(said: str | None) -> int:
    """With which a consumer asks, by the value that it is called with; 0 without any."""
    return int(said) if said is not None and said.lstrip("-").isdecimal() else 0


class _Judge:
    """One run, in rows of the table of its ops on queues: row order is real-time order."""

    def __init__(self, reading: Reading, given: Sequence[Given], ended: Sequence[Ending], calm: Calm) -> None:
        self.table = reading.calls.table
        self.reading = reading
        self.items = reading.items
        self.given = given
        self.ended = ended
        self.calm = calm
        self.time = ints(self.table, "time")
        self.counts: Counter[str] = Counter()
        self.reported: set[tuple[int, Consumer, Consumer]] = set()
        self.highest = _highest(reading)
        self.by_item: dict[int, list[Given]] = {}
        for each in given:
            self.by_item.setdefault(each.item, []).append(each)

    def verdict(self, checker: str) -> Verdict:
        rules = (
            *(self._unexpected(), self._starved()),
            *(self._shared(), self._shared_in_time(), self._held(), self._order()),
        )
        findings = [finding for rule in rules for finding in rule]
        self.counts.update(finding.anomaly for finding in findings)
        figures = self._figures()
        reasons = self._too_little(figures)
        sentence = findings[0].sentence if findings else reasons[0].sentence if reasons else self._praise(figures)
        return Verdict(
            checker=checker,
            valid="false" if findings else "unknown" if reasons else "true",
            algorithm="orders of publishers",
            sentence=sentence,
            anomalies=tuple(name for name in _MOST_SEVERE_FIRST if self.counts[name]),
            inconclusive=tuple(reasons),
            evidence=by_key.evidence_of(self.table, findings),
            figures=figures,
        )

    # --- rules ------------------------------------------------------------------------------------------------

    def _unexpected(self) -> Iterator[Finding]:
        for each in self.given:
            begun, said = int(self.items.begun[each.item]), f"{self._named(each.item)} came out at {self._when(each)}"
            if begun > each.by:
                yield Finding("unexpected", f"Unexpected: {said}, and no client had put it in.", (each.by,))
            elif self.items.failed[each.item]:
                yield Finding("unexpected", f"Unexpected: {said}, although its put had failed.", (begun, each.by))

    def _starved(self) -> Iterator[Finding]:
        for each in starved(self.reading, self.ended, self.calm):
            consumers = counted(each.consumers, "consumer")
            acknowledged = int(self.items.acknowledged[each.item])
            sentence = (
                f"Starved: {self._named(each.item)} was acknowledged by {answer(self.table, acknowledged)}, and never "
                f"came out: {consumers} of the queue waited for more than {WAIT_S:g} s, the last one "
                f"until {answer(self.table, each.row)}. None came, left or failed meanwhile, and no fault was in force."
            )
            yield Finding("starved", sentence, (acknowledged, each.row))

    def _shared(self) -> Iterator[Finding]:
        for line in self._lines():
            last: dict[Consumer, tuple[int, Given]] = {}
            first = [self._clean(item) for item in line]
            came = [each for each in first if each is not None]
            for at, each in enumerate(came):
                seen, earlier = last.get(each.consumer, (at, each))
                last[each.consumer] = at, each
                if seen >= at - 1:
                    continue
                other = came[at - 1]
                if self._gives_way(each):
                    continue
                if not self._in_calm(earlier, each):
                    self.counts["unexplained"] += 1
                elif self._is_new(other, each):
                    yield Finding("shared", self._shared_words(earlier, other, each), (earlier.by, other.by, each.by))

    def _shared_in_time(self) -> Iterator[Finding]:
        """The same of messages of any publishers, each given after the one before had been reported."""
        queues: dict[int, list[Given]] = {}
        for each in self.given:
            queues.setdefault(int(self.items.queue[each.item]), []).append(each)
        for given in queues.values():
            came, by = dict[Consumer, list[Given]](), [each.by for each in given]
            for each in given:
                came.setdefault(each.consumer, []).append(each)
            for own in came.values():
                if self._gives_way(own[0]):
                    continue
                for other in given[bisect_right(by, own[0].by) : bisect_right(by, own[-1].after)]:
                    if other.consumer == own[0].consumer or other.after < own[0].by:
                        continue
                    earlier = own[bisect_right(own, other.after, key=lambda each: each.by) - 1]
                    later = own[bisect_left(own, other.by, key=lambda each: each.after)]
                    if self._in_calm(earlier, later) and self._is_new(other, later):
                        sentence = self._shared_in_time_words(earlier, other, later)
                        yield Finding("shared", sentence, (earlier.by, other.by, later.by))

    def _held(self) -> Iterator[Finding]:
        """Messages that one consumer had while another one was given a later one of the same publisher."""
        for line in self._lines():
            first: Given | None = None  # of those that follow in the line the one that was reported first
            for item in reversed(line):
                each = self._clean(item)
                if each is None:
                    continue
                had = first is not None and self._had(each, first) and self._in_calm(each, first)
                if first is not None and had and self._is_new(first, each):
                    yield Finding("shared", self._held_words(each, first), (first.by, each.by))
                if first is None or each.by < first.by:
                    first = each

    def _had(self, each: Given, later: Given) -> bool:
        """Whether the consumer had this message when another one was given a later one."""
        return each.stayed and later.by < each.by and each.consumer != later.consumer

    def _gives_way(self, given: Given) -> bool:
        """Whether others consume from the queue for which the consumer stops being active, and waits."""
        return given.priority < self.highest[int(self.items.queue[given.item])]

    def _is_new(self, other: Given, each: Given) -> bool:
        """Whether it was not said yet that these consumers share their queue."""
        found = (int(self.items.queue[each.item]), each.consumer, other.consumer)
        is_new = found not in self.reported
        self.reported.add(found)
        return is_new

    def _order(self) -> Iterator[Finding]:
        for line in self._lines():
            behind: Given | None = None
            for item in reversed(line):
                own, clean = self.by_item.get(item, []), self._clean(item)
                if clean is not None and behind is not None and behind.by <= min(each.after for each in own):
                    later = int(self.items.value[behind.item])
                    yield Finding(
                        "order",
                        f"Out of order: process {int(self.items.publisher[item])} put {self._named(item)} in before "
                        f"{later}, but {later} came out first, at {self._when(behind)}, and "
                        f"{int(self.items.value[item])} only at {self._when(clean)}, as delivered for the first time.",
                        (behind.by, clean.by),
                    )
                earliest = min(own, key=lambda each: each.by, default=None)
                if earliest is not None and (behind is None or earliest.by < behind.by):
                    behind = earliest

    def _lines(self) -> Iterator[list[int]]:
        """Of each queue and publisher what it put in, acknowledged, in its order."""
        items = self.items
        chosen = np.flatnonzero((items.acknowledged != NEVER) & (items.begun != NEVER))
        lines: dict[tuple[int, int], list[int]] = {}
        for item in chosen[np.argsort(items.begun[chosen], kind="stable")].tolist():
            lines.setdefault((int(items.queue[item]), int(items.publisher[item])), []).append(item)
        yield from lines.values()

    def _clean(self, item: int) -> Given | None:
        """The first delivery, if it is certain which one that is, and that it is not said to be a repetition."""
        own = self.by_item.get(item, [])
        first = next((each for each in own if not each.flagged), None)
        if first is None or any(each is not first and each.after < first.by for each in own):
            return None
        return first

    # --- words ------------------------------------------------------------------------------------------------

    def _shared_words(self, earlier: Given, other: Given, later: Given) -> str:
        values = self.items.value
        publisher = int(self.items.publisher[later.item])
        return (
            f"Shared: process {publisher} put {self._named(earlier.item)}, then {int(values[other.item])}, then "
            f"{int(values[later.item])} in. Process {earlier.consumer[0]} was given the first at "
            f"{self._when(earlier)} and the last at {self._when(later)}, and process {other.consumer[0]} the one "
            f"between, at {self._when(other)}, although the first consumer neither left nor failed, and no fault was "
            "in force."
        )

    def _shared_in_time_words(self, earlier: Given, other: Given, later: Given) -> str:
        values = self.items.value
        return (
            f"Shared: process {earlier.consumer[0]} was given {self._named(earlier.item)}, at {self._when(earlier)}, "
            f"later process {other.consumer[0]} {int(values[other.item])}, at {self._when(other)}, and later process "
            f"{later.consumer[0]} {int(values[later.item])}, at {self._when(later)}, although the first consumer "
            "neither left nor failed, and no fault was in force."
        )

    def _held_words(self, each: Given, other: Given) -> str:
        values = self.items.value
        publisher = int(self.items.publisher[each.item])
        return (
            f"Shared: process {publisher} put {self._named(each.item)} in before {int(values[other.item])}. Process "
            f"{other.consumer[0]} was given the later one by {self._when(other)}, while process {each.consumer[0]} had "
            f"the earlier one, which it acknowledged at {self._when(each)}: it had neither left nor failed, and no "
            "fault was in force."
        )

    def _when(self, given: Given) -> str:
        return answer(self.table, given.by)

    def _named(self, item: int) -> str:
        name = self.reading.queues[int(self.items.queue[item])]
        return f"value {int(self.items.value[item])}" + ("" if name is None else f" of queue {name!r}")

    def _figures(self) -> dict[str, Any]:
        puts = self.reading.puts
        last: dict[int, int] = {}
        handovers = calm = 0
        for each in self.given:
            queue, process = int(self.items.queue[each.item]), each.consumer[0]
            handovers += last.get(queue, process) != process
            last[queue] = process
            calm += self._in_calm(each)
        return {
            "acknowledged": int(np.count_nonzero(puts & self.reading.calls.ended("ok"))),
            "delivered": len(self.by_item),
            "redelivered": sum(each.flagged for each in self.given),
            "calm": calm,
            "consumers": len({(int(self.items.queue[each.item]), each.consumer) for each in self.given}),
            "handovers": handovers,
            "compared_handovers": self._compared_handovers(),
            "compared": sum(max(0, sum(self._clean(item) is not None for item in line) - 1) for line in self._lines()),
            "unexplained": self.counts["unexplained"],
            **{name: self.counts[name] for name in _MOST_SEVERE_FIRST},
        }

    def _compared_handovers(self) -> int:
        """How often another process was given the next value of a publisher, both within one span without a fault."""
        compared = 0
        for line in self._lines():
            came = [each for each in map(self._clean, line) if each is not None]
            compared += sum(
                one.consumer[0] != other.consumer[0] and self._in_calm(one, other)
                for one, other in itertools.pairwise(came)
            )
        return compared

    def _in_calm(self, *given: Given) -> bool:
        """Whether all of these deliveries were within one span without a fault."""
        begin, end = max(0, min(each.after for each in given)), max(each.by for each in given)
        return self.calm.covers(int(self.time[begin]), int(self.time[end]))

    def _too_little(self, figures: Mapping[str, Any]) -> list[Reason]:
        """What was not tested."""
        if not figures["acknowledged"]:
            return [Reason(Code.NEVER_OK, "No value was acknowledged: no consumer had to be given anything.")]
        if not figures["delivered"]:
            return [Reason(Code.READS_SAW_NOTHING, "No value came out: who gets what was not tested.")]
        if not figures["handovers"]:
            return [Reason(Code.NO_OCCASION, "No queue changed its active consumer: that was not tested.")]
        if not figures["compared"]:
            return [Reason(Code.NO_OCCASION, "No two values of one publisher came out: their order was not tested.")]
        if not figures["calm"]:
            return [
                Reason(
                    Code.NO_OCCASION,
                    "No value came out while no fault was in force: whether one consumer was active was not tested.",
                )
            ]
        if not figures["compared_handovers"]:
            return [
                Reason(
                    Code.NO_OCCASION,
                    "No two processes were given values of one publisher, one after the other, while no fault was in "
                    "force: whether one consumer was active was not tested.",
                )
            ]
        return []

    def _praise(self, figures: Mapping[str, Any]) -> str:
        unexplained = figures["unexplained"]
        rest = (
            f" {counted(unexplained, 'delivery', 'deliveries')} {'is' if unexplained == 1 else 'are'} unexplained: a "
            "consumer came again, which a fault may have caused."
        )
        return (
            f"One consumer at a time: {counted(figures['delivered'], 'value')} came out over "
            f"{counted(figures['handovers'], 'handover')}, and none overtook an earlier one of its publisher. "
            f"{counted(figures['compared_handovers'], 'pair')} of values without a fault went to two processes."
            f"{rest if unexplained else ''}"
        )
