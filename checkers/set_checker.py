"""Is a grow-only set linearizable? Exact, and near linear in the size of the history and of what was read.

Jepsen's `set` and `set-full` judge each element by itself, and so miss anomalies between elements. This checker also
demands that the reads form a chain in which the order of the adds agrees with real time.

Names: an element is *known* from the moment at which its first add was acknowledged or the first read that holds it
was answered, whichever comes first. Every read that begins later must hold it.

    lost            known, and missing from the read that began last of those that matter: it does not come back
    stale           known, missing from a read, present in one that began later
    unexpected      read, although no add of it had been invoked when the read was answered (or only adds that failed)
    duplicate       twice in one read
    causal-reverse  a read holds y and misses x, although x was known before the add of y was invoked
    long-fork       two reads, each of which misses an element that the other holds

Why this is exact. Order the reads by inclusion (that is what the absence of a long fork permits), and put every add
between the last read without its element and the first with it; adds of unread elements come last. Such an order
breaks real time only if some op ends before another one begins that has to come earlier, and the four kinds of pairs
(read or add before read or add) are the first four rules above and causal-reverse. Adds that failed never happened;
adds whose outcome is unknown may have happened at any time after they were invoked, or never.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers.by_key import function_option
from splitbrain.checkers.partitions import by_key
from splitbrain.checkers.verdict import Partition, Valid, Verdict
from splitbrain.results.calls import Calls, Ints, client_calls, ints, is_equal, place, seconds
from splitbrain.results.columns import array, numbers
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

NEVER: Final = np.iinfo(np.int64).max
"""Later than every op."""

_LISTED: Final = 20
"""The largest number of findings of one kind in the evidence; figures count them all."""

_MOST_SEVERE_FIRST: Final = ("lost", "stale", "unexpected", "causal-reverse", "long-fork", "duplicate")


_UNTESTED: Final = Reason(
    Code.NO_OCCASION, "No read began after an element was acknowledged, or read: nothing could be missing."
)


class Read(msgspec.Struct, frozen=True):
    """One answered read: rows of its invocation and completion, and the codes of the elements that it holds, once."""

    invoke: int
    complete: int
    elements: Ints
    duplicates: tuple[int, ...] = ()


class Adds(msgspec.Struct, frozen=True):
    """Every element that was ever added or read; code = position. Times are rows; NEVER where it did not happen.

    Attributes:
        names: the elements, ascending.
        begun: first invocation of an add that did not certainly fail.
        acknowledged: first acknowledgement.
        failed: whether some add of it failed.
    """

    names: Ints
    begun: Ints
    acknowledged: Ints
    failed: Ints


class Finding(msgspec.Struct, frozen=True):
    """One anomaly, in words, with the rows of the ops that prove it."""

    anomaly: str
    sentence: str
    element: int
    rows: tuple[int, ...]


class SetChecker:
    """Judges adds of whole numbers to a set, and reads of the whole set.

    Options: `add` and `read`, the functions' names (default "add" and "read"). An add's value is the element, a read's
    the list of elements in any order. Ops with different keys are about different sets.
    """

    name = "set"
    partition: Partition = "run"
    keys_apart = True

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return tuple(function_option(self.name, options, name) for name in ("add", "read"))

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run; each key is a set of its own."""
        add, read = (function_option(self.name, options, name) for name in ("add", "read"))
        relevant = is_equal(history, "f", add) | is_equal(history, "f", read)
        table = history.filter(array(relevant & (ints(history, "process") >= 0))).combine_chunks()
        parts: dict[str | None, pa.Table] = {part["key"][0].as_py(): part for part in by_key(table)}
        if len(parts) <= 1:
            return _judge(table, add, read, next(iter(parts), None))
        keys = sorted(parts, key=lambda key: (key is not None, key or ""))
        return self.merge([_judge(parts[key].combine_chunks(), add, read, key) for key in keys], options)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """The sets of one run: the first broken one speaks, then the first that was never read."""
        found = list(verdicts)
        if len(found) == 1:
            return found[0]
        decisive = next((v for valid in ("false", "unknown") for v in found if v.valid == valid), None)
        totals = Counter[str]()
        for verdict in found:
            totals.update(verdict.figures)
        anomalies = {anomaly: None for verdict in found for anomaly in verdict.anomalies}
        untested = all(verdict.inconclusive for verdict in found)
        return Verdict(
            checker=self.name,
            valid=decisive.valid if decisive else "true",
            algorithm="element intervals",
            sentence=decisive.sentence if decisive else f"All {len(found)} sets are linearizable.",
            inconclusive=decisive.inconclusive if decisive else (_UNTESTED,) if untested else (),
            anomalies=tuple(anomalies),
            evidence=decisive.evidence if decisive else {},
            figures=dict(totals),
            seconds=sum(verdict.seconds for verdict in found),
        )


# --- reading the history ------------------------------------------------------------------------------------------


def _judge(table: pa.Table, add: str, read: str, key: str | None) -> Verdict:
    start = time.process_time()
    verdict = _judge_one(table, add, read, key)
    return msgspec.structs.replace(verdict, seconds=round(time.process_time() - start, 6))


def _judge_one(table: pa.Table, add: str, read: str, key: str | None) -> Verdict:
    calls = client_calls(table)
    reads = _reads(calls, read)
    adds = _adds(calls, add, reads)
    coded = [msgspec.structs.replace(r, elements=np.searchsorted(adds.names, r.elements)) for r in reads]
    figures = _figures(calls, add, adds, coded)
    if not coded:
        attempted = int(np.count_nonzero(calls.are(read)))
        sentence = (
            f"The set was never read: none of {counted(attempted, 'read')} was answered."
            if attempted
            else ("The set was never read: no read was invoked.")
        )
        reason = Reason(Code.NEVER_OK if attempted else Code.NOT_EXERCISED, sentence)
        return Verdict(
            checker="set",
            valid="unknown",
            key=key,
            algorithm="element intervals",
            sentence=sentence,
            inconclusive=(reason,),
            figures=figures,
        )
    judge = _Judge(table, adds, coded)
    findings = judge.findings()
    counts = Counter(finding.anomaly for finding in findings)
    anomalies = tuple(anomaly for anomaly in _MOST_SEVERE_FIRST if counts[anomaly])
    figures.update({anomaly: counts[anomaly] for anomaly in _MOST_SEVERE_FIRST})
    valid: Valid = "false" if findings else "true"
    sentence = _first(findings, anomalies).sentence if findings else _praise(figures)
    return Verdict(
        checker="set",
        valid=valid,
        key=key,
        algorithm="element intervals",
        sentence=sentence,
        inconclusive=() if judge.is_tested else (_UNTESTED,),
        anomalies=anomalies,
        evidence=_evidence(table, findings, anomalies),
        figures=figures,
    )


def _reads(calls: Calls, f: str) -> list[Read]:
    """Answered reads in the order of their invocations, elements not coded yet."""
    chosen = np.flatnonzero(calls.are(f) & calls.ended("ok"))
    values = calls.table["value"]
    decode = msgspec.json.Decoder(list[int]).decode
    reads: list[Read] = []
    for call in chosen.tolist():
        row = int(calls.complete[call])
        try:
            listed = np.asarray(decode(values[row].as_py() or "[]"), dtype=np.int64)
        except (msgspec.DecodeError, OverflowError) as error:
            raise HistoryFormatError(
                "history",
                f"op {calls.table['index'][row].as_py()}: a read of a set answers a list of whole numbers ({error}).",
            ) from None
        elements, times = np.unique(listed, return_counts=True)
        twice = tuple(elements[times > 1].tolist())
        reads.append(Read(int(calls.invoke[call]), row, elements, twice))
    return reads


def _adds(calls: Calls, f: str, reads: Sequence[Read]) -> Adds:
    are_adds = calls.are(f)
    invoke, complete = calls.invoke[are_adds], calls.complete[are_adds]
    failed, acked = calls.ended("fail")[are_adds], calls.ended("ok")[are_adds]
    element = _elements(calls.table, invoke)
    names = np.unique(np.concatenate([element, *(read.elements for read in reads)]))
    code = np.searchsorted(names, element)
    begun = np.full(len(names), NEVER)
    np.minimum.at(begun, code[~failed], invoke[~failed])
    acknowledged = np.full(len(names), NEVER)
    np.minimum.at(acknowledged, code[acked], complete[acked])
    any_failed = np.zeros(len(names), dtype=np.int64)
    any_failed[code[failed]] = 1
    return Adds(names, begun, acknowledged, any_failed)


def _elements(table: pa.Table, rows: Ints) -> Ints:
    try:
        return numbers(table["value"].take(array(rows)).cast(pa.int64()))
    except (pa.ArrowInvalid, ValueError) as error:
        raise HistoryFormatError(
            "history", f"an element that is added to a set must be a whole number ({error})."
        ) from None


def _figures(calls: Calls, f: str, adds: Adds, reads: Sequence[Read]) -> dict[str, Any]:
    are_adds = calls.are(f)
    seen = np.zeros(len(adds.names), dtype=np.bool_)
    for read in reads:
        seen[read.elements] = True
    acknowledged = adds.acknowledged != NEVER
    last = max((read.invoke for read in reads), default=0)
    return {
        "attempted": int(np.count_nonzero(are_adds)),
        "acknowledged": int(np.count_nonzero(acknowledged)),
        "failed": int(np.count_nonzero(are_adds & calls.ended("fail"))),
        "unknown": int(np.count_nonzero(are_adds & calls.ended("info"))),
        "recovered": int(np.count_nonzero(seen & ~acknowledged & (adds.begun != NEVER))),
        "reads": len(reads),
        "unread": int(np.count_nonzero(acknowledged & (adds.acknowledged > last))),
    }


# --- judging ------------------------------------------------------------------------------------------------------


class _Judge:
    """Everything about one set, in rows of its table: row order is real-time order."""

    def __init__(self, table: pa.Table, adds: Adds, reads: Sequence[Read]) -> None:
        self.table = table
        self.adds = adds
        self.reads = reads
        self.known, self.known_by_read = self._known()
        self.known_in_order = np.sort(self.known)

    def findings(self) -> list[Finding]:
        """All anomalies; those between elements only where no element alone convicts the set."""
        found = [*self._missing(), *self._unexpected(), *self._duplicates()]
        return found or [*self._causal_reverse(), *self._long_fork()]

    @property
    def is_tested(self) -> bool:
        """Whether any read began when an element was known, which it had to hold."""
        return bool(len(self.known)) and int(self.known_in_order[0]) < max(read.invoke for read in self.reads)

    def _known(self) -> tuple[Ints, Ints]:
        """For each element the row at which it was known, and the first read that held it (NEVER if none did)."""
        by_read = np.full(len(self.adds.names), NEVER)
        for read in sorted(self.reads, key=lambda read: -read.complete):
            by_read[read.elements] = read.complete
        return np.minimum(self.adds.acknowledged, by_read), by_read

    def _misses(self, read: Read, before: int | None = None) -> bool:
        """Whether a read misses an element that was known before a row; before the read began by default. Linear."""
        threshold = read.invoke if before is None else before
        due = int(np.searchsorted(self.known_in_order, threshold))
        return due != np.count_nonzero(self.known[read.elements] < threshold)

    def _lacks(self, read: Read, threshold: int) -> Ints:
        """Elements known before row `threshold` that the read misses. Linear in the read where there are none."""
        if not self._misses(read, threshold):
            return np.empty(0, dtype=np.int64)
        missing = self.known < threshold
        missing[read.elements] = False
        return np.flatnonzero(missing)

    def _missing(self) -> Iterable[Finding]:
        """Lost and stale elements."""
        if not any(self._misses(read) for read in self.reads):
            return
        size, count = len(self.adds.names), len(self.reads)
        begun: Ints = np.array([read.invoke for read in self.reads], dtype=np.int64)
        since: Ints = np.searchsorted(begun, self.known).astype(np.int64)  # by element the first read that must hold it
        first, last = since.copy(), np.full(size, count - 1)
        holds, present = np.zeros(size, dtype=np.int64), np.full(size, -1)
        for position, read in enumerate(self.reads):
            present[read.elements] = position
            due = read.elements[since[read.elements] <= position]
            holds[due] += 1
            first[due[first[due] == position]] += 1
        for position in range(count - 1, -1, -1):
            elements = self.reads[position].elements
            last[elements[last[elements] == position]] -= 1
        absences = count - since - holds
        for element in np.flatnonzero(absences).tolist():
            later, absent = count - int(since[element]), int(absences[element])
            lost = present[element] < last[element]
            read = self.reads[int(last[element] if lost and absent < later else first[element])]
            yield (
                self._lost(element, read, absent, later)
                if lost
                else self._stale(element, read, absent, later, self.reads[int(present[element])])
            )

    def _lost(self, element: int, read: Read, absences: int, later: int) -> Finding:
        known, rows = self._known_words(element)
        if absences == later:
            missing = (
                "the only read that began later"
                if later == 1
                else f"every one of the {counted(later, 'read')} that began later, first"
            )
        else:
            missing = f"{absences} of the {counted(later, 'read')} that began later, among them the last of all,"
        return Finding(
            "lost",
            f"Lost: element {self._name(element)} {known} and is missing from {missing} from {self._answer(read)}.",
            self._name(element),
            (*rows, read.complete),
        )

    def _stale(self, element: int, read: Read, absences: int, later: int, back: Read) -> Finding:
        known, rows = self._known_words(element)
        return Finding(
            "stale",
            f"Stale read: element {self._name(element)} {known}, but the read that began at "
            f"{self._at(read.invoke)} and was answered by {self._answer(read)} misses it "
            f"({absences} of {later} later reads do); it is there again at {self._at(back.complete)}.",
            self._name(element),
            (*rows, read.invoke, read.complete, back.complete),
        )

    def _unexpected(self) -> Iterable[Finding]:
        reported = np.zeros(len(self.adds.names), dtype=np.bool_)
        for read in self.reads:
            early = read.elements[self.adds.begun[read.elements] > read.complete]
            for element in early[~reported[early]].tolist():
                reported[element] = True
                begun = int(self.adds.begun[element])
                rows: tuple[int, ...] = (read.complete,)
                if begun != NEVER:
                    why, rows = f"but its add was invoked only at {self._at(begun)}", (read.complete, begun)
                elif self.adds.failed[element]:
                    why = "but every add of it failed: it certainly was not added"
                else:
                    why = "but no op added it"
                yield Finding(
                    "unexpected",
                    f"Unexpected: element {self._name(element)} was read from {self._answer(read)}, {why}.",
                    self._name(element),
                    rows,
                )

    def _duplicates(self) -> Iterable[Finding]:
        reported: dict[int, None] = {}
        for read in self.reads:
            for name in read.duplicates:
                if name not in reported:
                    reported[name] = None
                    yield Finding(
                        "duplicate",
                        f"Duplicate: the read from {self._answer(read)} holds element {name} more than once.",
                        name,
                        (read.complete,),
                    )

    def _causal_reverse(self) -> Iterable[Finding]:
        for read in self.reads:
            if not len(read.elements):
                continue
            newest = int(read.elements[np.argmax(self.adds.begun[read.elements])])
            begun = int(self.adds.begun[newest])
            for element in self._lacks(read, begun)[:1].tolist():
                known, rows = self._known_words(element)
                yield Finding(
                    "causal-reverse",
                    f"Order reversed: element {self._name(element)} {known}, before the add of {self._name(newest)} "
                    f"was invoked at {self._at(begun)}; yet the read from {self._answer(read)} holds "
                    f"{self._name(newest)} and misses {self._name(element)}.",
                    self._name(element),
                    (*rows, begun, read.complete),
                )

    def _long_fork(self) -> Iterable[Finding]:
        ordered = sorted(self.reads, key=lambda read: (len(read.elements), read.complete))
        holds = np.full(len(self.adds.names), -1)
        for position, (small, large) in enumerate(itertools.pairwise(ordered)):
            holds[large.elements] = position
            only_small = small.elements[holds[small.elements] != position]
            if len(only_small):
                only_large = np.setdiff1d(large.elements, small.elements)
                x, y = int(only_small[0]), int(only_large[0])
                yield Finding(
                    "long-fork",
                    f"Fork: the read from {self._answer(small)} holds element {self._name(x)} and misses "
                    f"{self._name(y)}, the read from {self._answer(large)} holds {self._name(y)} and misses "
                    f"{self._name(x)}: no order of the two adds explains both.",
                    self._name(x),
                    (small.complete, large.complete),
                )

    # --- words ----------------------------------------------------------------------------------------------------

    def _name(self, element: int) -> int:
        return int(self.adds.names[element])

    def _at(self, row: int) -> str:
        return f"{seconds(self.table['time'][row].as_py()):.3f} s"

    def _answer(self, row_or_read: Read | int) -> str:
        row = row_or_read.complete if isinstance(row_or_read, Read) else row_or_read
        node = self.table["node"][row].as_py() or f"process {self.table['process'][row].as_py()}"
        return f"{node} at {self._at(row)}"

    def _known_words(self, element: int) -> tuple[str, tuple[int, ...]]:
        """How an element came to be known, and the row that proves it."""
        acknowledged, read = int(self.adds.acknowledged[element]), int(self.known_by_read[element])
        if acknowledged != NEVER and acknowledged <= read:
            term = self.table["term"][acknowledged].as_py()
            words = f"was acknowledged by {self._answer(acknowledged)}"
            return (words if term is None else f"{words} (term {term})"), (acknowledged,)
        return f"was read from {self._answer(read)}", (read,)


def _first(findings: Sequence[Finding], anomalies: Sequence[str]) -> Finding:
    """Of the most severe kind, the one that was complete first."""
    return min((finding for finding in findings if finding.anomaly == anomalies[0]), key=lambda f: max(f.rows))


def _praise(figures: Mapping[str, Any]) -> str:
    covered = figures["acknowledged"] - figures["unread"]
    sentence = (
        f"Linearizable: {counted(figures['reads'], 'read')} hold every one of {covered} acknowledged elements in time"
    )
    if figures["recovered"]:
        sentence += f", and {figures['recovered']} with unknown outcome"
    return (
        f"{sentence}; {figures['unread']} were acknowledged after the last read began."
        if figures["unread"]
        else f"{sentence}."
    )


def _evidence(table: pa.Table, findings: Sequence[Finding], anomalies: Sequence[str]) -> dict[str, Any]:
    """The ops of the leading finding, and of every kind the elements and sentences of some."""
    if not findings:
        return {}
    leading = _first(findings, anomalies)
    index = ints(table, "index")
    kinds: dict[str, Any] = {}
    for anomaly in anomalies:
        listed = [finding for finding in findings if finding.anomaly == anomaly][:_LISTED]
        kinds[anomaly] = [
            {"element": f.element, "ops": index[list(f.rows)].tolist(), "sentence": f.sentence} for f in listed
        ]
    rows = sorted(set(leading.rows))  # sorted: the set only removes repeats
    return {
        "element": leading.element,
        "ops": index[rows].tolist(),
        "witness": [_brief(place(table, row)) for row in rows],
        "anomalies": kinds,
    }


def _brief(op: dict[str, Any]) -> dict[str, Any]:
    """An op without a long list of elements: evidence points, the history holds."""
    value = op.get("value")
    if isinstance(value, list) and len(value) > _LISTED:  # pyright: ignore[reportUnknownArgumentType]
        return {**op, "value": f"{len(value)} elements"}  # pyright: ignore[reportUnknownArgumentType]
    return op
