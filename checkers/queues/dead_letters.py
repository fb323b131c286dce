"""What queues give up: each dead letter is one for a reason that it can have, and nothing vanishes on the way.

    vanished     a message was in the queue, no consumer was done with it, and it was no dead letter
    beyond       a message was delivered more often than the delivery limit allows, or once it was a dead letter
    reason       a dead letter is one for a reason that it cannot have: "rejected" without a consumer that rejected it,
                 "expired" in a queue without a time or before that was over, "delivery_limit" with too few deliveries,
                 or another word
    late         a message was delivered to a take that began when its time to wait was over
    duplicated   a dead letter came out twice, where that is refused
    unexpected   a message came out, or was a dead letter, that no client had put in by then, or whose put had failed

An acknowledgement may be lost, as may a rejection: so a message whose consumer was done with it may be delivered again,
and may then expire or exceed the limit. Queues that publish dead letters at least once may publish one twice. A
consumer that was given up may have been given one message that it never reported; it has not rejected it, since clients
do that where they report it. What a dead letter for the limit lacks of deliveries is charged to such consumers as in
`poison`.

A message is as old as the clock of the leader says that took it, and leaders have different clocks. So `late`, and
whether one expired too early, is judged only where no fault changed a clock, and one node led from the put on: the put
was answered so fast that it was not sent again, so that its answer names the term of its entry; and in that same term
the queue answered the take, or an op that began later than the dead letter was read.

Sources: RabbitMQ's guides "Dead Letter Exchanges" and "Quorum Queues" ("Poison Message Handling", "Dead Lettering").
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, Self, cast

import msgspec
import pyarrow as pa

from splitbrain.checkers.by_key import Finding, answer
from splitbrain.checkers.durations import DAY_S, seconds_of
from splitbrain.checkers.queues import letters
from splitbrain.checkers.queues.letter_rules import Judge
from splitbrain.checkers.queues.letters import ACKNOWLEDGED, NEVER, REJECTED, RETURNED, Fate, Queue, named, read
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import ints
from splitbrain.results.columns import array
from splitbrain.results.faults import run_events
from splitbrain.results.nemesisop import own_fields
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Reason

LATE_S: Final = 0.25
"""How much later than its time to wait a message may be delivered: clocks do not go at exactly the same rate."""

AT_ONCE_S: Final = 0.4
"""A put that was answered within this was sent once: publishers send again after half a second at the earliest."""

CLOCK: Final = "clock"
"""What names a fault of clocks: in the function of an op, or as what another fault injects."""


class DeadLetters(OfOneRun):
    """Judges ops that put whole numbers into queues (`enqueue`), take from them (`consume`), and read dead letters.

    The key of an op names the queue, also of one that reads its dead letters (`collect`). A `consume` answers null or
    `{"value": 7, "did": "reject"}`, where `did` is "ack", "reject" (for good) or "return" (to the queue); a `collect`
    null or `{"value": 7, "reason": "rejected"}`. Options: `limit` (required), `slack` (default 0), `ttl_s` (by queue
    how long a message may wait in it; none by default), `duplicates` ("allowed", the default, or "refused"), `settle_s`
    (default 0): how long before the last questions nothing more may have happened; and the functions' names.
    """

    name = "dead-letter"
    partition: Partition = "run"
    counts_ops = True

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        rules = Rules.of(self.name, options)
        return rules.enqueue, rules.consume, rules.collect

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is wrong.
            HistoryFormatError: a value or an answer makes no sense, or a value was put into one queue twice.
        """
        rules = Rules.of(self.name, options)
        start = time.process_time()
        table = history.filter(array(ints(history, "process") >= 0)).combine_chunks()
        judge = _Judge(table, read(table, rules, Taken), rules, timed=not _clocks_were_changed(history))
        return msgspec.structs.replace(judge.verdict(self.name), seconds=round(time.process_time() - start, 6))


class Rules(letters.Rules, frozen=True):
    """The rules of a run, from a checker's options.

    Attributes:
        ttl_s: by queue how long a message may wait in it.
        duplicates: "allowed" or "refused".
    """

    ttl_s: Mapping[str, float] = {}
    duplicates: Literal["allowed", "refused"] = "allowed"

    @classmethod
    def of(cls, checker: str, options: Mapping[str, Any]) -> Self:
        """As the options say.

        Raises:
            UsageError: one is wrong.
        """
        waits: Any = options.get("ttl_s", {})
        for queue, value in cast("Mapping[Any, Any]", waits).items() if isinstance(waits, Mapping) else ():
            seconds_of(checker, f"ttl_s of {queue}", value, most=DAY_S)
        return super().of(checker, options)


class Taken(msgspec.Struct, frozen=True):
    """The answer of a `consume`."""

    value: int
    did: Literal["ack", "reject", "return"]


def _clocks_were_changed(history: pa.Table) -> bool:
    """Whether a fault changed a clock: then it is not known how long a message waited by the clock of its node."""
    ops = run_events(history).fault_ops  # not those of the harness, which measures clocks in every run
    return any(CLOCK in op.fault or op.said.clocks or own_fields(op.invoke.value).get("inject") == CLOCK for op in ops)


class _Judge(Judge[Rules]):
    """Args: timed: whether to judge when messages expired."""

    def __init__(self, table: pa.Table, queues: Mapping[str | None, Queue], rules: Rules, *, timed: bool) -> None:
        super().__init__(table, queues, rules)
        self.timed = timed
        self.terms: list[int | None] = table["term"].to_pylist()
        self.led_at = self._led_at()

    def _led_at(self) -> Mapping[tuple[str | None, int], int]:
        """By queue and term the last row at which an op began that was answered in that term."""
        led: dict[tuple[str | None, int], int] = {}
        for name, _, fate in self.each():
            puts = [] if fate.acknowledged == NEVER else [(fate.begun, fate.acknowledged)]
            for begun, ended in (*puts, *((taken.begun, taken.ended) for taken in fate.deliveries)):
                term = self.terms[ended]
                if term is not None:
                    led[name, term] = max(begun, led.get((name, term), -1))
        return led

    def _term_of(self, fate: Fate) -> int | None:
        """The term of the entry with a message, if it is certain: its leader said by its clock how old that is."""
        put = fate.acknowledged
        if not self.timed or put == NEVER or self._between_s(fate.begun, put) > AT_ONCE_S:
            return None
        return self.terms[put]

    def broken(self) -> Mapping[str, Iterable[Finding]]:
        return {
            "vanished": self.vanished(),
            "beyond": self._beyond(),
            "reason": self._reason(),
            "late": self._late(),
            "duplicated": self._duplicated(),
            "unexpected": self.unexpected(),
        }

    def _beyond(self) -> Iterator[Finding]:
        allowed = self.rules.allowed + self.rules.slack
        for name, value, fate in self.each():
            taken = fate.deliveries
            if len(taken) > allowed:
                rows = (taken[0].ended, taken[-1].ended)
                yield Finding(
                    "beyond",
                    f"Beyond the limit: {named(value, name)} was delivered {len(taken)} times, the last time to "
                    f"{answer(self.table, rows[1])}. A delivery limit of {self.rules.limit} allows {allowed}.",
                    rows,
                )
            again = next((each for each in taken if each.begun > fate.first_letter), None)
            if again is not None:
                rows = (fate.first_letter, again.ended)
                yield Finding(
                    "beyond",
                    f"Came back: {named(value, name)} was a dead letter at {answer(self.table, rows[0])}, and was "
                    f"delivered to a take that began later: {answer(self.table, rows[1])}.",
                    rows,
                )

    def _reason(self) -> Iterator[Finding]:
        for name, queue in self.queues.items():
            for value, fate in queue.fates.items():
                for row, reason in fate.letters:
                    why = self._impossible(name, fate, row, reason)
                    if why is not None:
                        said = f"{named(value, name)} is a dead letter for the reason {reason!r}, says "
                        yield Finding("reason", f"Wrong reason: {said}{answer(self.table, row)}, but {why}.", (row,))
                        break
            for row, value, known, unknown in self.too_few(queue):
                yield Finding(
                    "reason",
                    f"Wrong reason: {named(value, name)} is a dead letter for the reason 'delivery_limit', says "
                    f"{answer(self.table, row)}, but it had been delivered {counted(known, 'time')} of "
                    f"{self.rules.allowed}, and {counted(unknown, 'take')} of unknown outcome cannot have had all "
                    "that dead letters lack.",
                    (row,),
                )

    def _impossible(self, name: str | None, fate: Fate, row: int, reason: str | None) -> str | None:
        """Why a dead letter cannot have that reason, by itself; None if it can."""
        if reason == "rejected":
            by_then = any(taken.begun < row for taken in fate.deliveries if taken.did == REJECTED)
            return None if by_then else "no consumer had rejected it"
        if reason == "expired":
            ttl_s = self.rules.ttl_s.get(name or "")
            if ttl_s is None:
                return "no message expires in that queue"
            term = self._term_of(fate)
            waited_s = ttl_s if term is None else self._between_s(fate.begun, row)
            # The clocks of nodes may go at another rate than ours, a little.
            if waited_s < ttl_s / 2 and self.led_at[name, term or 0] > row:
                return f"it had been put in {waited_s:.3f} s before, and may wait {ttl_s:g} s"
            return None
        return None if reason == "delivery_limit" else "there is no such reason here"

    def _late(self) -> Iterator[Finding]:
        for name, value, fate in self.each():
            ttl_s, put, term = self.rules.ttl_s.get(name or ""), fate.acknowledged, self._term_of(fate)
            if ttl_s is None or term is None:
                continue
            for taken in fate.deliveries:
                waited_s = self._between_s(put, taken.begun)
                if waited_s > ttl_s + LATE_S and self.terms[taken.ended] == term:
                    yield Finding(
                        "late",
                        f"Late: {named(value, name)} may wait {ttl_s:g} s, was acknowledged by "
                        f"{answer(self.table, put)}, and was delivered to a take that began {waited_s:.3f} s later, in "
                        f"the same term {term}: {answer(self.table, taken.ended)}.",
                        (put, taken.ended),
                    )
                    break

    def _between_s(self, first: int, second: int) -> float:
        return int(self.time[second] - self.time[first]) / 1e9

    def _duplicated(self) -> Iterator[Finding]:
        if self.rules.duplicates == "allowed":
            return
        for name, value, fate in self.each():
            if len(fate.letters) > 1:
                rows = tuple(row for row, _ in fate.letters[:2])
                times = " and ".join(answer(self.table, row) for row in rows)
                yield Finding("duplicated", f"Duplicated: {named(value, name)} was a dead letter at {times}.", rows)

    # --- what was tested ----------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        fates = [fate for _, _, fate in self.each()]
        reasons = [reason for fate in fates for _, reason in fate.letters[:1]]
        return {
            **{f"did_{did}": sum(fate.did(did) for fate in fates) for did in (ACKNOWLEDGED, REJECTED, RETURNED)},
            **{f"letters_{reason}": reasons.count(reason) for reason in ("rejected", "expired", "delivery_limit")},
        }

    def untested(self, figures: Mapping[str, Any]) -> list[Reason]:
        return []

    def praise(self, figures: Mapping[str, Any]) -> str:
        return (
            f"All of {counted(figures['dead_letters'], 'dead letter')} can have the reason that they name: "
            f"{figures['letters_rejected']} were rejected, {figures['letters_expired']} expired, and "
            f"{figures['letters_delivery_limit']} exceeded the delivery limit of {self.rules.limit}; of "
            f"{counted(figures['acknowledged'], 'acknowledged message')} none vanished."
        )
