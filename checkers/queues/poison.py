"""Messages that kill their consumers: each is delivered as often as the queue allows, and is then a dead letter.

    unexpected   a message came out, or was a dead letter, that no client had put in by then, or whose put had failed
    beyond       a message was delivered more often than the delivery limit allows, or once it was a dead letter
    early        a dead letter had not been delivered as often as the limit allows
    reason       a dead letter is one for another reason than `delivery_limit`
    vanished     a message was in the queue, and neither a consumer is done with it, nor was it a dead letter

With a limit of N a message is given back N times, and so is delivered 1 + N times (`slack` more, if the system says
so); with the next failure it is a dead letter. A consumer that was given up may have been given one message that it
never reported: those that a dead letter lacks are charged to such consumers, one each. As a dead letter that was read
at some time needs consumers that had begun by then, the earliest are charged first: that decides exactly whether there
are enough (Hall's condition, for sets that contain each other). Before that the message had all deliveries that it may
have, reported or not: so one that begins behind it is beyond the limit.

A message that was delivered once too often, dead-lettered twice, or settled and then a dead letter, may be all right:
an acknowledgement may be lost, and a queue that promises dead letters at least once may publish one again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers.by_key import Finding, answer
from splitbrain.checkers.queues.letter_rules import Judge
from splitbrain.checkers.queues.letters import ACKNOWLEDGED, NEVER, RETURNED, Fate, Rules, named, read
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import ints
from splitbrain.results.columns import array
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

DELIVERY_LIMIT: Final = "delivery_limit"


class Poison(OfOneRun):
    """Judges ops that put whole numbers into queues (`enqueue`), take from them (`consume`), and read dead letters.

    The key of an op names the queue, also of one that reads its dead letters (`collect`). A `consume` answers null or
    `{"value": 7, "died": true}`, where `died` says that the consumer ended without settling the message; a `collect`
    answers null or `{"value": 7, "reason": "delivery_limit"}`. Options: `limit` (required), `slack` (default 0),
    `settle_s` (default 0): how long before the last questions nothing more may have happened; and the functions' names.
    """

    name = "poison"
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
        verdict = _Judge(table, read(table, rules, Taken), rules).verdict(self.name)
        return msgspec.structs.replace(verdict, seconds=round(time.process_time() - start, 6))


class Taken(msgspec.Struct, frozen=True):
    """The answer of a `consume`."""

    value: int
    died: bool = False

    @property
    def did(self) -> str:
        """A message whose consumer died goes back to its queue."""
        return RETURNED if self.died else ACKNOWLEDGED


def certain(fate: Fate, allowed: int) -> int:
    """How often a message was delivered at least: deliveries that are known, and those before it was a dead letter."""
    row = fate.limit_letter
    lacking = max(0, allowed - fate.begun_before(row)) if row != NEVER else 0
    return len(fate.deliveries) + lacking


class _Judge(Judge[Rules]):
    def broken(self) -> Mapping[str, Iterable[Finding]]:
        return {
            "vanished": self.vanished(),
            "beyond": self._beyond(),
            "early": self._early(),
            "reason": self._reason(),
            "unexpected": self.unexpected(),
        }

    def _beyond(self) -> Iterator[Finding]:
        allowed = self.rules.allowed + self.rules.slack
        for name, value, fate in self.each():
            if not fate.deliveries or certain(fate, self.rules.allowed) <= allowed:
                continue
            count, last = len(fate.deliveries), fate.deliveries[-1].ended
            if count > allowed:
                first, how = fate.deliveries[0].ended, f"was delivered {count} times"
            else:
                first = fate.limit_letter
                how = f"was a dead letter at {answer(self.table, first)}, and was delivered again"
            yield Finding(
                "beyond",
                f"Beyond the limit: {named(value, name)} {how}, the last time to {answer(self.table, last)}. A "
                f"delivery limit of {self.rules.limit} allows {allowed} deliveries.",
                (first, last),
            )

    def _early(self) -> Iterator[Finding]:
        for name, queue in self.queues.items():
            for row, value, known, unknown in self.too_few(queue):
                yield Finding(
                    "early",
                    f"Early: {named(value, name)} was a dead letter at {answer(self.table, row)}, and had "
                    f"been delivered {counted(known, 'time')}. A delivery limit of {self.rules.limit} has it delivered "
                    f"{counted(self.rules.allowed, 'time')} before, and {counted(unknown, 'consumer')} of unknown "
                    "outcome cannot have had all that dead letters lack.",
                    (row,),
                )

    def _reason(self) -> Iterator[Finding]:
        for name, value, fate in self.each():
            for row, reason in fate.letters:
                if reason != DELIVERY_LIMIT:
                    said = f"{named(value, name)} is a dead letter for the reason {reason!r}"
                    said += f", not {DELIVERY_LIMIT!r}, says {answer(self.table, row)}"
                    yield Finding("reason", f"Wrong reason: {said}.", (row,))

    # --- what was tested ----------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        fates = [fate for _, _, fate in self.each()]
        return {
            "deaths": sum(taken.did == RETURNED for fate in fates for taken in fate.deliveries),
            "settled": sum(fate.did(ACKNOWLEDGED) for fate in fates),
            "most_deliveries": max((len(fate.deliveries) for fate in fates), default=0),
        }

    def untested(self, figures: Mapping[str, Any]) -> list[Reason]:
        if figures["deaths"]:
            return []
        return [Reason(Code.NO_OCCASION, "No consumer died of a message: delivery limits were not tested.")]

    def praise(self, figures: Mapping[str, Any]) -> str:
        return (
            f"{counted(figures['deaths'], 'consumer')} died of what they were given, "
            f"{counted(figures['most_deliveries'], 'time')} at most of one message, as a delivery limit of "
            f"{self.rules.limit} allows: {counted(figures['dead_letters'], 'message')} came out as dead letters, and "
            f"{figures['settled']} were settled; none vanished."
        )
