"""Total queues: every acknowledged value comes out, and nothing else does. O(n log n).

    lost          a value was acknowledged, and never came out, although its queue was drained in the end
    unexpected    a value came out that no client had put into that queue by then, or whose put certainly failed
    duplicated    a value came out more often than the queue promises
    withheld      a value that a client held whose node the others lost did not come out again in time (`.withheld`)
    order         a value came out before an earlier one of the same publisher, which was still in the queue

A value whose put has an unknown outcome may come out or not; one that does is "recovered". (The first two rules, the
drain and the name are those of Jepsen's checker `total-queue`, which counts duplicates and knows no order. It ends the
process of a drain that failed; here the verdict is inconclusive unless every queue was drained, see `drains`.)

This is weaker than a queue that is linearizable: all that such a queue allows passes here; the order between
publishers, and an answer that a queue is empty, are not judged. In return it always answers, and a queue that promises
to deliver a value at least once can be judged by it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers import by_key, durations
from splitbrain.checkers.by_key import Finding, answer, moment
from splitbrain.checkers.queues.apart import Span, apart
from splitbrain.checkers.queues.drains import kept, undrained, unsure_takes
from splitbrain.checkers.queues.order import Firsts, compared, firsts, overtaken
from splitbrain.checkers.queues.reading import NEVER, Functions, Reading, read
from splitbrain.checkers.queues.withheld import withheld
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import client_calls, ints, is_equal, place, seconds
from splitbrain.results.columns import array
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import run_events
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

ALLOWED, FLAGGED, REFUSED = "allowed", "flagged", "refused"
REDELIVERY: Final = (ALLOWED, FLAGGED, REFUSED)
PUBLISHER, NO_ORDER = "publisher", "none"
ORDERS: Final = (PUBLISHER, NO_ORDER)

_ALGORITHM: Final = "set algebra"
_MOST_SEVERE_FIRST: Final = ("lost", "unexpected", "duplicated", "withheld", "order")


class TotalQueue(OfOneRun):
    """Judges ops that put values into queues and take them out; the key of an op names its queue.

    Options: `enqueue`, `dequeue` and `drain`, the functions' names (default as they are called here). `redelivery`:
    "allowed" (the default; a value may come out several times), "flagged" (the second time and later only if the answer
    says so) or "refused". `nodes`: all nodes of the test (none by default; without them `withheld` is not judged).
    `order`: "publisher" (the default) or "none". `settle_s`: how long after a take of unknown outcome what it took may
    be away from its queue, in seconds; without it such a take may have kept it. Values and answers as in `reading`.
    """

    name = "queue"
    partition: Partition = "run"
    counts_ops = True

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        rules = _Rules.of(self.name, options).functions
        return rules.enqueue, rules.dequeue, rules.drain

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is wrong.
            HistoryFormatError: a value is no whole number, or was put into one queue twice.
        """
        rules = _Rules.of(self.name, options)
        start = time.process_time()
        chosen = is_equal(history, "f", rules.functions.enqueue)
        chosen = chosen | is_equal(history, "f", rules.functions.dequeue)
        chosen = chosen | is_equal(history, "f", rules.functions.drain)
        table = history.filter(array(chosen & (ints(history, "process") >= 0))).combine_chunks()
        spans = apart(run_events(history), rules.nodes)
        verdict = _Judge(read(client_calls(table), rules.functions), rules, spans).verdict(self.name)
        return msgspec.structs.replace(verdict, seconds=round(time.process_time() - start, 6))


class _Rules(msgspec.Struct, frozen=True):
    functions: Functions
    redelivery: str
    order: str
    settle_s: float | None
    nodes: tuple[str, ...] = ()

    @classmethod
    def of(cls, checker: str, options: Mapping[str, Any]) -> _Rules:
        functions = Functions(*(by_key.function_option(checker, options, name) for name in Functions.__struct_fields__))
        settle: Any = options.get("settle_s")
        durations.refuse_others(checker, options, ("settle_s",), most=durations.DAY_S)
        chosen = (
            _one_of(checker, options, "redelivery", REDELIVERY),
            _one_of(checker, options, "order", ORDERS),
        )
        nodes: Any = options.get("nodes", ())
        if not isinstance(nodes, Sequence) or not all(isinstance(node, str) for node in cast("Sequence[Any]", nodes)):
            raise UsageError(f"checker {checker}: option 'nodes' must be a list of names, not {nodes!r}.")
        settle_s = None if settle is None else float(settle)
        return cls(functions, *chosen, settle_s=settle_s, nodes=tuple(cast("Sequence[str]", nodes)))


def _one_of(checker: str, options: Mapping[str, Any], name: str, known: Sequence[str]) -> str:
    value = options.get(name, known[0])
    if value not in known:
        raise UsageError(f"checker {checker}: option {name!r} must be one of {', '.join(known)}, not {value!r}.")
    return cast(str, value)


class _Judge:
    """One run, in rows of its table: row order is real-time order."""

    def __init__(self, reading: Reading, rules: _Rules, spans: Mapping[str, Sequence[Span]]) -> None:
        self.table = reading.calls.table
        self.reading = reading
        self.items = reading.items
        self.deliveries = reading.deliveries
        self.rules = rules
        self.firsts: Firsts = firsts(reading.deliveries, len(reading.items.value))
        self.undrained = undrained(reading, rules.settle_s or 0.0)
        missing = (self.items.acknowledged != NEVER) & (self.firsts.count == 0)
        self.missing = np.bincount(self.items.queue[missing], minlength=len(reading.queues))
        self.unsure = unsure_takes(reading)
        self.kept = kept(reading, self.missing, self.unsure) if rules.settle_s is None else {}
        self.counts = Counter[str]()
        self.spans = spans

    def verdict(self, checker: str) -> Verdict:
        """What there is to say."""
        findings = {
            name: rule()
            for name, rule in zip(
                _MOST_SEVERE_FIRST,
                (self._lost, self._unexpected, self._duplicated, self._withheld, self._order),
                strict=True,
            )
        }
        leading = [next(rule, None) for rule in findings.values()]
        first = next((finding for finding in leading if finding is not None), None)
        figures = self._figures()
        reasons = self._too_little(figures)
        decided = self._decided(figures)
        sentence = self._praise(figures) if decided else reasons[0].sentence
        if first is not None:
            sentence = first.sentence
        shown = [finding for finding in leading if finding is not None]
        for rule in findings.values():
            shown += [finding for finding, _ in zip(rule, range(by_key.LISTED - 1), strict=False)]
        anomalies = tuple(name for name in _MOST_SEVERE_FIRST if any(f.anomaly == name for f in shown))
        return Verdict(
            checker=checker,
            valid="false" if first is not None else "true" if decided else "unknown",
            algorithm=_ALGORITHM,
            sentence=sentence,
            anomalies=anomalies,
            inconclusive=tuple(reasons),
            evidence=self._evidence(shown),
            figures={**figures, **{name: self.counts[name] for name in _MOST_SEVERE_FIRST}},
        )

    # --- rules ------------------------------------------------------------------------------------------------

    def _lost(self) -> Iterator[Finding]:
        drained = np.ones(len(self.reading.queues), np.bool_)
        drained[[*self.undrained, *self.kept]] = False
        missing = (self.items.acknowledged != NEVER) & (self.firsts.count == 0)
        rows = self.items.acknowledged
        for item in self._count("lost", missing & drained[self.items.queue], rows):
            queue = int(self.items.queue[item])
            own = np.flatnonzero(self.reading.empty & (self.reading.queue == queue))
            last = int(self.reading.calls.complete[own].max())
            row = int(rows[item])
            yield Finding(
                "lost",
                f"Lost: {self._named(item)} was acknowledged by {answer(self.table, row)} and never came out, although "
                f"every node found {self._queue(queue)} empty in the end, the last one at {moment(self.table, last)}."
                f"{self._with_takes(queue)}",
                (row, last),
            )

    def _with_takes(self, queue: int) -> str:
        """How many of the missing values takes of unknown outcome can have kept, if they keep any."""
        takes = int(self.unsure[queue])
        if self.rules.settle_s is not None or not takes:
            return ""
        return (
            f" {counted(int(self.missing[queue]), 'value')} are missing there, of which "
            f"{counted(takes, 'take')} of unknown outcome can have kept one each."
        )

    def _unexpected(self) -> Iterator[Finding]:
        wrong = self.firsts.end < self.items.begun
        wrong |= (self.firsts.count > 0) & self.items.failed
        for item in self._count("unexpected", wrong, self.firsts.end):
            row, begun = int(self.firsts.end[item]), int(self.items.begun[item])
            said = f"{self._named(item)} came out at {answer(self.table, row)}"
            if begun == NEVER:
                yield Finding("unexpected", f"Unexpected: {said}, and no client put it in.", (row,))
            elif row < begun:
                when = moment(self.table, begun)
                yield Finding("unexpected", f"Unexpected: {said}, before it was put in at {when}.", (row, begun))
            else:
                calls = self.reading.calls
                failed = int(calls.complete[calls.invoke == begun][0])
                reason = self.table["error"][failed].as_py() or "no reason given"
                yield Finding(
                    "unexpected",
                    f"Unexpected: {said}, although {answer(self.table, failed)} refused to put it in ({reason}).",
                    tuple(sorted((row, failed))),
                )

    def _duplicated(self) -> Iterator[Finding]:
        if self.rules.redelivery == ALLOWED:
            self.counts["duplicated"] = 0
            return
        deliveries = self.deliveries
        counts = self.firsts.count
        if self.rules.redelivery == FLAGGED:
            counts = np.bincount(deliveries.item[~deliveries.flagged], minlength=len(self.items.value))
        for item in self._count("duplicated", counts > 1, self.firsts.end):
            own = deliveries.item == item
            if self.rules.redelivery == FLAGGED:
                own &= ~deliveries.flagged
            rows = np.sort(deliveries.end[own])[:2].tolist()
            times = " and ".join(answer(self.table, row) for row in rows)
            silent = ", the second time not said to be a repetition" if self.rules.redelivery == FLAGGED else ""
            yield Finding(
                "duplicated",
                f"Duplicated: {self._named(item)} came out {int(counts[item])} times: at {times}{silent}.",
                tuple(dict.fromkeys(rows)),
            )

    def _withheld(self) -> Iterator[Finding]:
        found = list(withheld(self.reading, self.spans))
        self.counts["withheld"] = len(found)
        for each in found:
            begin_s, end_s = seconds(each.span.begin_ns), seconds(each.span.end_ns)
            since = moment(self.table, each.first)
            yield Finding(
                "withheld",
                f"Withheld: {self._named(each.item)} came out at {answer(self.table, each.row)}, to a client that had "
                f"not acknowledged it when its node {each.node} was cut off or stopped, from {begin_s:.3f} to "
                f"{end_s:.3f} s. A leader that led others from {since} on must have given it back, and gave them a new "
                f"message before it: {answer(self.table, each.take)}.",
                (each.row, each.first, each.take),
            )

    def _order(self) -> Iterator[Finding]:
        if self.rules.order == NO_ORDER:
            self.counts["order"] = 0
            return
        count, found = overtaken(self.items, self.deliveries, self.firsts, by_key.LISTED)
        self.counts["order"] = count
        for item, later, own, other in sorted(found, key=lambda each: int(self.deliveries.end[each[2]])):
            before, after = int(self.items.acknowledged[item]), int(self.items.begun[later])
            first, second = int(self.deliveries.end[other]), int(self.deliveries.end[own])
            value = int(self.items.value[later])
            process = int(self.items.publisher[item])
            yield Finding(
                "order",
                f"Out of order: process {process} put {self._named(item)} in (acknowledged at "
                f"{moment(self.table, before)}) before {value} (begun at {moment(self.table, after)}), but {value} "
                f"came out first, at {answer(self.table, first)}, and {int(self.items.value[item])} only at "
                f"{answer(self.table, second)}, as delivered for the first time.",
                tuple(dict.fromkeys((before, after, first, second))),
            )

    def _count(self, anomaly: str, wrong: Any, rows: Any) -> Iterator[int]:
        """The items of an anomaly, in the order of the rows; their number is noted once one is asked for."""
        items = np.flatnonzero(wrong)
        self.counts[anomaly] = len(items)
        yield from items[np.argsort(rows[items], kind="stable")].tolist()

    # --- words ------------------------------------------------------------------------------------------------

    def _queue(self, queue: int) -> str:
        name = self.reading.queues[queue]
        return "the queue" if name is None else f"queue {name!r}"

    def _named(self, item: int) -> str:
        name = self.reading.queues[int(self.items.queue[item])]
        return f"value {int(self.items.value[item])}" + ("" if name is None else f" of queue {name!r}")

    def _figures(self) -> dict[str, Any]:
        puts, items = self.reading.puts, self.items
        ended = {how: int(np.count_nonzero(puts & self.reading.calls.ended(how))) for how in ("ok", "fail", "info")}
        delivered = self.firsts.count > 0
        known = items.begun != NEVER
        return {
            "queues": len(self.reading.queues),
            "drained": len({*items.queue[known].tolist()} - set(self.undrained)),
            "attempted": int(np.count_nonzero(puts)),
            "acknowledged": ended["ok"],
            "failed": ended["fail"],
            "unknown": ended["info"],
            "delivered": int(np.count_nonzero(delivered)),
            "recovered": int(np.count_nonzero(delivered & known & (items.acknowledged == NEVER) & ~items.failed)),
            "repeated": int(np.count_nonzero(self.firsts.count > 1)),
            "redelivered": int(np.count_nonzero(self.deliveries.flagged)),
            "missing": int(np.count_nonzero((items.acknowledged != NEVER) & ~delivered)),
            "ordered": compared(items, self.firsts),
        }

    def _decided(self, figures: Mapping[str, Any]) -> bool:
        return bool(figures["acknowledged"] and figures["delivered"]) and not self.undrained and not self.kept

    def _too_little(self, figures: Mapping[str, Any]) -> list[Reason]:
        """What was not tested."""
        if not figures["attempted"]:
            return [Reason(Code.NOT_EXERCISED, "No value was put into a queue: nothing could be lost.")]
        if not figures["acknowledged"]:
            return [
                Reason(
                    Code.NEVER_OK,
                    f"None of {counted(figures['attempted'], 'value')} was acknowledged: nothing could be lost.",
                )
            ]
        found = [*self.undrained.values(), *(why for queue, why in self.kept.items() if queue not in self.undrained)]
        if not figures["delivered"]:
            found.append(Reason(Code.READS_SAW_NOTHING, "No value came out: what comes out was not tested."))
        elif self.rules.order == PUBLISHER and not figures["ordered"]:
            found.append(
                Reason(
                    Code.NO_OCCASION,
                    "No two acknowledged values of one publisher came out of one queue: their order was not tested.",
                )
            )
        return found

    def _praise(self, figures: Mapping[str, Any]) -> str:
        said = f"Nothing was lost: all of {counted(figures['acknowledged'], 'acknowledged value')} came out"
        if figures["recovered"]:
            said += f", and {figures['recovered']} with unknown outcome"
        if figures["repeated"]:
            said += f"; {figures['repeated']} came out more than once"
        said += f". {counted(figures['drained'], 'queue')} {'was' if figures['drained'] == 1 else 'were'} drained"
        if self.rules.order == PUBLISHER:
            said += ", and no value overtook an earlier one of its publisher"
        return f"{said}."

    def _evidence(self, findings: Sequence[Finding]) -> dict[str, Any]:
        """The ops of the leading finding; sentences and ops of some more of each kind."""
        if not findings:
            return {}
        index = self.table["index"]

        def ops(finding: Finding) -> list[int]:
            return [index[row].as_py() for row in finding.rows]

        return {
            "ops": ops(findings[0]),
            "witness": [place(self.table, row) for row in findings[0].rows],
            "findings": [{"anomaly": f.anomaly, "sentence": f.sentence, "ops": ops(f)} for f in findings],
        }
