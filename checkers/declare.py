"""Creating a key if it is absent: exactly one creation wins, and every read returns it. Exact, O(n log n).

    two-winners   two creations of one key were acknowledged
    wrong-value   a read answered something that the winner did not create (or that no op can have created)
    vanished      a read answered "absent" although it began after the key was known to exist
    early         the winner was invoked only after the key was known to exist

Why this is exact: reads of "absent" come first, then the winning creation, then everything else, which needs no
further order. Such an order breaks real time only if the key was known (an acknowledged creation, or a read of it, had
been answered) before a read of "absent", or before the winner itself, was invoked. Creations that failed did not
happen (they lost, or never arrived); one whose outcome is unknown may be the winner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.verdict import Partition, Verdict
from splitbrain.results.calls import Calls, cell, client_calls
from splitbrain.results.columns import array
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

_JUDGE: Final = by_key.Judge("declare", "one winner")


class Event(msgspec.Struct, frozen=True):
    """A creation or a read: rows of its invocation and completion, and the value as JSON text (None: absent)."""

    invoke: int
    complete: int
    value: str | None


class Declare:
    """Judges one key: creations (value: what to create) and reads (answer: the value, null where absent).

    Options: `create` and `read`, the functions' names (default "create" and "read"). A creation that lost to another
    one is a `fail`; its answer is not used as evidence.
    """

    name = "declare"
    partition: Partition = "key"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return tuple(by_key.function_option(self.name, options, name) for name in ("create", "read"))

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the ops of one key."""
        create, read = (by_key.function_option(self.name, options, name) for name in ("create", "read"))
        calls = client_calls(history)
        key = cell(history, "key", 0) if history.num_rows else None
        judge = _Judge(calls, create, read, key)
        figures = {
            "keys": 1,
            "winners": len(judge.won),
            "attempted": int(np.count_nonzero(calls.are(create))),
            "reads": len(judge.reads),
            "never_read": int(not judge.reads),
        }
        findings, exercised = judge.findings(), bool(judge.reads)
        verdict = _JUDGE.key(key, judge.table, findings, judge.praise(), figures, exercised=exercised)
        return verdict if judge.exists else _with_nothing_created(verdict)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """The run: broken keys first. Keys that no op read prove nothing; if no key was read, the run is unknown."""
        found = list(verdicts)
        verdict = _JUDGE.run(found, lambda proven, _: _praise(len(proven)))
        exists = any(each.valid == "true" and not each.inconclusive for each in found)
        return verdict if exists else _with_nothing_created(verdict)


def _praise(keys: int) -> str:
    if not keys:
        return "No key was ever read."
    return f"On each of {counted(keys, 'key')} at most one creation won, and every read agrees with it."


def _with_nothing_created(verdict: Verdict) -> Verdict:
    """A verdict, which proves too little where no key that was read is known to exist."""
    if verdict.valid != "true":
        return verdict
    reason = Reason(Code.NO_OCCASION, "No key that was read was created: no read could have been wrong.")
    return msgspec.structs.replace(verdict, inconclusive=(reason,))


class _Judge:
    """One key, in rows of its table: row order is real-time order."""

    def __init__(self, calls: Calls, create: str, read: str, key: str | None) -> None:
        self.table = calls.table
        self.key = "the key" if key is None else f"key {key!r}"
        self.won = self._events(calls, calls.are(create) & calls.ended("ok"), of_invocation=True)
        self.maybe = self._events(calls, calls.are(create) & calls.ended("info"), of_invocation=True)
        self.reads = self._events(calls, calls.are(read) & calls.ended("ok"), of_invocation=False)

    def _events(self, calls: Calls, chosen: Any, *, of_invocation: bool) -> list[Event]:
        invoke, complete = calls.invoke[chosen].tolist(), calls.complete[chosen].tolist()
        values = self.table["value"].take(array(invoke if of_invocation else complete, pa.int64())).to_pylist()
        return [
            Event(i, c, None if v in (None, "null") else v) for i, c, v in zip(invoke, complete, values, strict=True)
        ]

    def findings(self) -> list[Finding]:
        """All anomalies, the plainest first."""
        return [*self._two_winners(), *self._wrong_values(), *self._vanished()]

    def _two_winners(self) -> Iterable[Finding]:
        if len(self.won) > 1:
            first, second = sorted(self.won, key=lambda event: event.complete)[:2]
            yield Finding(
                "two-winners",
                f"Two winners: {self.key} was created as {first.value} by "
                f"{self._answer(first)}, and as {second.value} by {self._answer(second)}.",
                (first.complete, second.complete),
            )

    def _wrong_values(self) -> Iterable[Finding]:
        """Reads that no possible winner explains."""
        seen = [read for read in self.reads if read.value is not None]
        winner = min(self.won, key=lambda event: event.complete, default=None)
        if winner is not None:
            for read in seen:
                if read.value != winner.value:
                    yield Finding(
                        "wrong-value",
                        f"Wrong value: {self.key} was created as {winner.value} by "
                        f"{self._answer(winner)}, but {self._answer(read)} answered {read.value}.",
                        (winner.complete, read.complete),
                    )
            yield from self._early(winner, seen)
        elif seen:
            yield from self._without_winner(seen)

    def _without_winner(self, seen: Sequence[Event]) -> Iterable[Finding]:
        """No creation was acknowledged, yet the key was read: one of unknown fate must be the winner."""
        first = min(seen, key=lambda read: read.complete)
        for read in seen:
            if read.value != first.value:
                yield Finding(
                    "wrong-value",
                    f"Wrong value: {self._answer(first)} answered {first.value} for "
                    f"{self.key}, but {self._answer(read)} answered {read.value}.",
                    (first.complete, read.complete),
                )
                return
        candidates = [event for event in self.maybe if event.value == first.value]
        if not candidates:
            yield Finding(
                "wrong-value",
                f"Wrong value: {self._answer(first)} answered {first.value} for {self.key}, "
                f"which no op can have created.",
                (first.complete,),
            )
        else:
            yield from self._early(min(candidates, key=lambda event: event.invoke), seen)

    def _early(self, winner: Event, seen: Sequence[Event]) -> Iterable[Finding]:
        first = min((read for read in seen if read.value == winner.value), key=lambda read: read.complete, default=None)
        if first is not None and first.complete < winner.invoke:
            yield Finding(
                "early",
                f"Too early: {self._answer(first)} answered {first.value} for {self.key}, but its "
                f"creation was invoked only at {self._at(winner.invoke)}.",
                (first.complete, winner.invoke),
            )

    def _vanished(self) -> Iterable[Finding]:
        known = min(
            (event for event in (*self.won, *self.reads) if event.value is not None),
            key=lambda event: event.complete,
            default=None,
        )
        if known is None:
            return
        how = "was created" if known in self.won else "was read"
        for read in self.reads:
            if read.value is None and read.invoke > known.complete:
                yield Finding(
                    "vanished",
                    f"Vanished: {self.key} {how} as {known.value} by {self._answer(known)}, but the read "
                    f"that began at {self._at(read.invoke)} found nothing: {self._answer(read)}.",
                    (known.complete, read.invoke, read.complete),
                )

    @property
    def exists(self) -> bool:
        """Whether the key is known to have been created."""
        return bool(self.won) or any(read.value is not None for read in self.reads)

    def praise(self) -> str:
        """What there is to say where nothing is wrong."""
        if not self.reads:
            return f"{self.key} was never read."
        values = {read.value: None for read in self.reads if read.value is not None}
        return f"All {len(self.reads)} reads of {self.key} agree" + (f" on {next(iter(values))}." if values else ".")

    def _at(self, row: int) -> str:
        return by_key.moment(self.table, row)

    def _answer(self, event: Event) -> str:
        return by_key.answer(self.table, event.complete)
