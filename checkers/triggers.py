"""What changes of counters triggered: each of them at least once, in order, and at rest all of it (KH-13). O(n log n).

    lost         at rest a procedure had run for fewer changes than there were, and `STILL_S` later for no more
    unasked      it had run for more of them than there were
    early        it ran before the change that triggered it was there to be seen
    out-of-order an event was carried out after a later one, without having been before
    priority     of a change "second" ran before "first"
    taken-back   what one answer showed is not what a later one begins with

An answer at rest alone does not show that an event is lost: a leader on a slow disk may be about to carry it out. The
last one of a counter does, if an earlier one had the change already, and no event of the counter was carried out since.

An event that is carried out again counts once: "at least once" allows that. Where no procedure ran, and
no answer at rest shows a change either, triggers were not tested, and the verdict is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.verdict import Partition, Verdict
from splitbrain.results.calls import cell, client_calls
from splitbrain.results.columns import numbers
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

TRIGGERS: Final = ("first", "second")
"""In the order in which they run."""

STILL_S: Final = 8.0
"""Seconds after which an event that is still to be carried out, while nothing of its kind is, counts as lost."""

_JUDGE: Final = by_key.Judge("triggers", "events in order")


class _Found(msgspec.Struct, frozen=True):
    """What an answer shows.

    Attributes:
        changes: of the counter so far.
        runs: event, trigger and changes that the procedure saw.
    """

    changes: int
    runs: list[tuple[int, str, int]]


class _Read(msgspec.Struct, frozen=True):
    """An answer: rows of its invocation and completion, whether it was asked for at rest, and what it shows."""

    invoke: int
    complete: int
    at_rest: bool
    found: _Found


class Triggers:
    """Judges one key: answers to `read-runs`, `{"changes": n, "runs": [[event, trigger, changes seen], ...]}`.

    The value of the invocation says whether it was asked for at rest, after all changes. Option `read_runs` is the
    function's name.
    """

    name = "triggers"
    partition: Partition = "key"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return (options.get("read_runs", "read-runs"),)

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the ops of one key.

        Raises:
            UsageError: an option is wrong, or an answer is none of these.
        """
        f = options.get("read_runs", "read-runs")
        if set(options) - {"read_runs"} or not isinstance(f, str):
            raise UsageError(f"checker triggers takes the option read_runs, the name of a function, not {options!r}.")
        key = cell(history, "key", 0) if history.num_rows else None
        reads = list(_reads(history, f))
        findings = list(_Judging(history, key, reads).findings())
        figures = {
            "keys": 1,
            "answers": len(reads),
            "at_rest": sum(read.at_rest for read in reads),
            "changes": max((read.found.changes for read in reads), default=0),
            "events": max((len({run[0] for run in read.found.runs}) for read in reads), default=0),
            "again": max(
                (len(read.found.runs) - len({run[0] for run in read.found.runs}) for read in reads), default=0
            ),
        }
        exercised = any(read.at_rest and read.found.runs for read in reads)
        return _JUDGE.key(key, history, findings, _praise(figures), figures, exercised=exercised)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """The run: broken keys first; unknown if nothing was triggered for any key, and nothing is lost."""
        run = _JUDGE.run(verdicts, lambda _, totals: _praise(totals))
        if run.valid == "false" or run.figures.get("events"):
            return run
        sentence = (
            f"No procedure ever ran, although counters changed {counted(run.figures.get('changes', 0), 'time')}: "
            "triggers were not tested."
        )
        reason = Reason(Code.NO_OCCASION, sentence)
        return msgspec.structs.replace(
            run, valid="unknown", sentence=sentence, anomalies=(), evidence={}, inconclusive=(reason,)
        )


def _praise(figures: Mapping[str, int]) -> str:
    if not figures.get("events"):
        return "No answer shows that anything was triggered."
    if not figures.get("at_rest"):
        return "What was triggered was never read at rest."
    again = figures.get("again", 0)
    return (
        f"{counted(figures['changes'], 'change')} triggered {counted(figures['events'], 'event')}, each carried out "
        f"once at least and in order; {again or 'none'} more than once."
    )


def _reads(history: pa.Table, f: str) -> Iterator[_Read]:
    calls = client_calls(history)
    chosen = calls.are(f) & calls.ended("ok")
    for invoke, complete in zip(calls.invoke[chosen].tolist(), calls.complete[chosen].tolist(), strict=True):
        try:
            found = msgspec.convert(cell(history, "value", complete), _Found)
        except msgspec.ValidationError as error:
            raise UsageError(f"checker triggers: an answer to {f!r} does not say what ran: {error}.") from None
        yield _Read(invoke, complete, cell(history, "value", invoke) is True, found)


def _events(read: _Read) -> int:
    """How many events had been carried out."""
    return len({event for event, *_ in read.found.runs})


def _times(read: _Read, trigger: str) -> int:
    """For how many changes a procedure had run."""
    return len({event for event, name, _ in read.found.runs if name == trigger})


def _invoke(read: _Read) -> int:
    return read.invoke


def _complete(read: _Read) -> int:
    return read.complete


def _longest(known: Sequence[_Read], other: _Read) -> list[_Read]:
    """Of some answers and another one, those with which no other one of them begins."""
    runs = other.found.runs
    if any(each.found.runs[: len(runs)] == runs for each in known):
        return list(known)
    return [*(each for each in known if runs[: len(each.found.runs)] != each.found.runs), other]


def _so_many(read: _Read, trigger: str, times: int) -> str:
    return f"{counted(read.found.changes, 'change')}, and {trigger!r} run for {times} of them"


class _Judging:
    """One key, in rows of its table: row order is real-time order."""

    def __init__(self, table: pa.Table, key: str | None, reads: Sequence[_Read]) -> None:
        self._table = table
        self._counter = "the counter" if key is None else f"counter {key!r}"
        self._reads = reads

    def findings(self) -> Iterator[Finding]:
        """All anomalies."""
        for read in self._reads:
            yield from self._in_one(read)
        yield from self._lost()
        yield from self._taken_back()

    def _in_one(self, read: _Read) -> Iterator[Finding]:
        last, ran = 0, dict.fromkeys(TRIGGERS, 0)
        seen: dict[int, None] = {}
        for event, trigger, changes in read.found.runs:
            if event in seen:
                continue
            seen[event] = None
            if trigger not in ran:
                raise UsageError(f"checker triggers: there is no trigger {trigger!r}, only {', '.join(TRIGGERS)}.")
            ran[trigger] += 1
            if event < last:
                yield self._finding("out-of-order", read, f"event {event} carried out after event {last}")
            if trigger == "second" and ran["second"] > ran["first"]:
                yield self._finding("priority", read, f"event {event}, of 'second', before that of 'first'")
            if changes < ran[trigger]:
                what = f"event {event}, number {ran[trigger]} of {trigger!r}, carried out after {changes} changes"
                yield self._finding("early", read, what)
            last = max(last, event)
        for trigger, times in ran.items():
            if times > read.found.changes:
                yield self._finding("unasked", read, _so_many(read, trigger, times))

    def _lost(self) -> Iterator[Finding]:
        time = numbers(self._table.column("time"))
        at_rest = sorted((read for read in self._reads if read.at_rest), key=lambda read: read.complete)
        for trigger in TRIGGERS if at_rest else ():
            last = at_rest[-1]
            times = _times(last, trigger)
            for read in at_rest[:-1]:
                waited_s = (int(time[last.invoke]) - int(time[read.complete])) / 1e9
                stood_still = waited_s >= STILL_S and _events(last) <= _events(read)
                if stood_still and times < read.found.changes:
                    what = f"{_so_many(last, trigger, times)}, at rest, and as many {waited_s:.1f} s before"
                    yield self._finding("lost", last, what)
                    break

    def _taken_back(self) -> Iterator[Finding]:
        known: list[_Read] = []
        waiting = sorted(self._reads, key=_complete)[::-1]
        for later in sorted(self._reads, key=_invoke):
            while waiting and waiting[-1].complete < later.invoke:
                known = _longest(known, waiting.pop())
            for earlier in known:
                if later.found.runs[: len(earlier.found.runs)] != earlier.found.runs:
                    yield self._taken(earlier, later)
                    break

    def _taken(self, earlier: _Read, later: _Read) -> Finding:
        sentence = (
            f"Taken back: {by_key.answer(self._table, earlier.complete)} showed "
            f"{counted(len(earlier.found.runs), 'run')} for {self._counter}, with which the "
            f"{len(later.found.runs)} that {by_key.answer(self._table, later.complete)} showed do not begin."
        )
        return Finding("taken-back", sentence, (earlier.complete, later.complete))

    def _finding(self, anomaly: str, read: _Read, what: str) -> Finding:
        said = f"{anomaly.capitalize().replace('-', ' ')}: {by_key.answer(self._table, read.complete)} showed {what}"
        return Finding(anomaly, f"{said}, for {self._counter}.", (read.invoke, read.complete))
