"""The verdict on queues that have dead letters: the rules that all its checkers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding, answer
from splitbrain.checkers.queues.letters import ACKNOWLEDGED, NEVER, Fate, Queue, Rules, named, undrained
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.calls import ints
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

AnyRules = TypeVar("AnyRules", bound=Rules)


class TooFew(NamedTuple):
    """A dead letter for the delivery limit that lacks more deliveries than takes of unknown outcome can have had.

    Attributes:
        row: when it was first read.
        value: the message.
        known: how many deliveries are known to have begun before.
        unknown: how many takes of unknown outcome began before.
    """

    row: int
    value: int
    known: int
    unknown: int


class Judge(ABC, Generic[AnyRules]):
    """One run, in rows of its table: row order is real-time order. A checker adds its own rules."""

    def __init__(self, table: pa.Table, queues: Mapping[str | None, Queue], rules: AnyRules) -> None:
        self.table = table
        self.queues = queues
        self.rules = rules
        self.time = ints(table, "time")
        self.undrained = undrained(table, queues, rules)

    @abstractmethod
    def broken(self) -> Mapping[str, Iterable[Finding]]:
        """What is wrong by the name of the anomaly, the most severe first."""

    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """Figures besides those of `_shared_figures`."""

    @abstractmethod
    def untested(self, figures: Mapping[str, Any]) -> list[Reason]:
        """Why the run tests too little although messages were acknowledged; nothing where it does not."""

    @abstractmethod
    def praise(self, figures: Mapping[str, Any]) -> str:
        """What to say if nothing is wrong."""

    def verdict(self, checker: str) -> Verdict:
        """What there is to say."""
        found = {name: list(rule) for name, rule in self.broken().items()}
        findings = [finding for each in found.values() for finding in each]
        figures = {**self._shared_figures(), **self.figures(), **{name: len(each) for name, each in found.items()}}
        reasons = self._too_little(figures)
        sentence = findings[0].sentence if findings else reasons[0].sentence if reasons else self.praise(figures)
        return Verdict(
            checker=checker,
            valid="false" if findings else "unknown" if reasons else "true",
            algorithm="counts of deliveries",
            sentence=sentence,
            anomalies=tuple(name for name, each in found.items() if each),
            inconclusive=tuple(reasons),
            evidence=by_key.evidence_of(self.table, findings),
            figures=figures,
        )

    def each(self) -> Iterator[tuple[str | None, int, Fate]]:
        """Every message, with the name of its queue."""
        for name, queue in self.queues.items():
            for value, fate in queue.fates.items():
                yield name, value, fate

    def vanished(self) -> Iterator[Finding]:
        """Messages that were there, and that no consumer was done with, and that are no dead letters."""
        for name, value, fate in self.each():
            was_there = fate.acknowledged != NEVER or fate.deliveries
            if name in self.undrained or not was_there or fate.did(ACKNOWLEDGED) or fate.letters:
                continue
            last = fate.deliveries[-1].ended if fate.deliveries else fate.acknowledged
            times = counted(len(fate.deliveries), "time")
            what = f"was delivered {times}, the last time to" if fate.deliveries else "was acknowledged by"
            yield Finding(
                "vanished",
                f"Vanished: {named(value, name)} {what} {answer(self.table, last)}. No consumer was done with it, "
                "it was no dead letter, and every node found queue and dead letters empty in the end.",
                (last,),
            )

    def unexpected(self) -> Iterator[Finding]:
        """Messages that came out, and that no client had put in by then."""
        for name, value, fate in self.each():
            seen = [*(taken.ended for taken in fate.deliveries), *(row for row, _ in fate.letters)]
            first = min(seen, default=None)
            if first is not None and (fate.failed or first < fate.begun):
                why = "although its put had failed" if fate.failed else "and no client had put it in"
                said = f"{named(value, name)} came out at {answer(self.table, first)}"
                yield Finding("unexpected", f"Unexpected: {said}, {why}.", (first,))

    def too_few(self, queue: Queue) -> Iterator[TooFew]:
        """The dead letters for the delivery limit that were delivered too seldom before.

        Those that were read first are charged first to the takes of unknown outcome that had begun by then.
        """
        charged = 0
        for row, value in sorted((fate.limit_letter, value) for value, fate in queue.fates.items()):
            if row == NEVER:
                break
            known = queue.fates[value].begun_before(row)
            lacks = max(0, self.rules.allowed - known)
            unknown = bisect_left(queue.unknown, row)
            if charged + lacks > unknown:
                yield TooFew(row, value, known, unknown)  # the others are judged without it
            else:
                charged += lacks

    def _shared_figures(self) -> dict[str, Any]:
        fates = [fate for _, _, fate in self.each()]
        return {
            "queues": len(self.queues),
            "drained": len(self.queues) - len(self.undrained),
            "attempted": sum(queue.attempted for queue in self.queues.values()),
            "acknowledged": sum(fate.acknowledged != NEVER for fate in fates),
            "delivered": sum(len(fate.deliveries) for fate in fates),
            "dead_letters": sum(bool(fate.letters) for fate in fates),
            "letters_again": sum(max(0, len(fate.letters) - 1) for fate in fates),
            "unknown": sum(len(queue.unknown) for queue in self.queues.values()),
        }

    def _too_little(self, figures: Mapping[str, Any]) -> list[Reason]:
        if not figures["acknowledged"]:
            return [Reason(Code.NEVER_OK, "No message was acknowledged: nothing could vanish.")]
        found = self.untested(figures)
        if found:
            return found
        found = list(self.undrained.values())
        if not figures["dead_letters"]:
            found.append(Reason(Code.READS_SAW_NOTHING, "No dead letter was read: what is given up was not tested."))
        return found
