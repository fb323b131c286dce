"""Reads by majority: what speaks for each linearizable read that a leader answers (Raft thesis, 6.4 and 6.4.1).

    read-without-majority  too few voters had answered a round of messages that began after the read came, and no lease
                           held either
    read-below-commit      its read index is below what the leader knew to be committed when it came
    read-before-noop       its read index is below the first entry of the leader's term: what is committed of earlier
                           terms was not known yet
    lease-after-handover   a leader that had asked another member to take over still trusted its lease
    lease-too-long         a leader took its lease to last longer than a majority of the voters had promised
    answered-unsent-round  a voter answered a round of a term that its leader had not sent yet

A leader that answers too early is seldom found out by its clients: they see a stale value only if another leader was
elected meanwhile and committed something. Here the messages count that left and reached it, in its own term, and not
what it made of them: learners that count as voters, a round that was under way when the read came, answers of an
earlier term show at the first read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from splitbrain.checkers.consensus.electorates import Electorates, surplus, voters_of, with_electorates
from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.quantities import counted

_FACT: Final = "#"
"""Begins the name of a fact in `counted` that is not the id of a member."""

_AGE: Final = "#age:"

_NEEDED: Final = ("#index", "#commit", "#sent", "#unsent")

_EVER: Final = 2**62
"""Longer than any run, in ns."""

_FORM: Final = "n1=5 n2=4 #index=17 #commit=17 #sent=5 #unsent=0 and so on"


class ReadMajority(OfOneRun):
    """Judges every row of event "read"; `counted_index` and `counted` as in `splitbrain.cluster.readfacts`. No options.

    The first entry of a term is known by the row of event "first" of the same node. A lease is not judged while it may
    be one of the configuration before: the majorities of both overlap. The figures: `reads` judged, `on_lease` (those
    of them that were answered on a lease alone), `closest` (the least number of voters beyond a majority in any of the
    others, None without them), and `broken` (findings).
    """

    name = "read-majority"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run.

        Raises:
            HistoryFormatError: a row does not say what speaks for a read in the form above.
        """
        refuse_options(self.name, options)
        judged = list(_reads(telemetry))
        found = [finding for read in judged for finding in read.findings()]
        asked = [read.surplus for read in judged if not read.on_lease]
        return verdict_of(
            self.name,
            algorithm="row by row",
            found=found,
            otherwise=_praise(judged),
            figures={
                "reads": len(judged),
                "on_lease": len(judged) - len(asked),
                "closest": min(asked, default=None),
                "broken": len(found),
            },
        )


def _reads(telemetry: pa.Table) -> Iterator[_Read]:
    """The reads, each with the first entry of its leader's term where that is known."""
    began: dict[tuple[str | None, str, int, int | None], int | None] = {}
    for row, electorates in with_electorates(telemetry, "first", "read"):
        place = (row.group, row.node, row.life)
        if row.event == "first":
            began[*place, row.log_term] = row.log_index
        elif row.event == "read" and row.counted_index is not None and row.counted is not None:
            yield _Read.of(row, began.get((*place, row.term)), electorates)


class _Read(NamedTuple):
    """A read that a leader answered, and what speaks for it."""

    row: Row
    needed: int
    answered: dict[str, int]
    """The newest round of the term that each voter had answered."""
    facts: dict[str, int]
    began: int | None
    """The first entry of the term."""
    electorates: Electorates

    @classmethod
    def of(cls, row: Row, began: int | None, electorates: Electorates) -> _Read:
        said = _pairs(row)
        answered = {name: value for name, value in said.items() if not name.startswith(_FACT)}
        facts = {name: value for name, value in said.items() if name.startswith(_FACT)}
        return cls(row, row.counted_index or 0, answered, facts, began, electorates)

    @property
    def holders(self) -> list[str]:
        """The voters that had answered the round that it needed."""
        return [voter for voter, newest in self.answered.items() if newest >= self.needed]

    @property
    def surplus(self) -> int:
        """How many more voters had done so than a majority; negative if it was none."""
        return surplus(self.holders, self.answered, self.electorates)

    @property
    def left_ns(self) -> int | None:
        """How long after the read came a lease ends, by what a majority promised; None if it promised nothing yet."""
        lease = self.facts.get("#lease")
        ages = sorted(age for name, age in self.facts.items() if name.startswith(_AGE))
        place = len(self.answered) // 2
        return lease - ages[place] if lease is not None and place < len(ages) else None

    @property
    def is_of_voters_before(self) -> bool:
        """Whether a lease may stand on the voters before these."""
        return self.facts.get("#changed", _EVER) < self.facts.get("#lease", 0)

    @property
    def on_lease(self) -> bool:
        """Whether nothing but a lease speaks for it."""
        return self.surplus < 0 and (self.is_of_voters_before or (self.left_ns or 0) > 0)

    def findings(self) -> Iterator[dict[str, Any]]:
        """What is wrong with it."""
        facts, index = self.facts, self.facts["#index"]
        on_lease = self.on_lease
        if self.surplus < 0 and not on_lease:
            yield self._finding("read-without-majority", "Read without a majority", self._who_answered())
        if index < facts["#commit"]:
            yield self._finding(
                "read-below-commit",
                "Read below the commit index",
                f" as of entry {index}, although it had committed entry {facts['#commit']} when the read came",
            )
        if self.began is not None and index < self.began:
            yield self._finding(
                "read-before-noop",
                "Read before the first entry of the term was committed",
                f" as of entry {index}, although its term begins with entry {self.began}",
            )
        if facts["#unsent"]:
            yield self._finding(
                "answered-unsent-round",
                "Answer to a round that was not sent",
                f", and in this term had got {counted(facts['#unsent'], 'answer')} to rounds that it had not sent yet",
            )
        yield from self._findings_of_lease(on_lease=on_lease)

    def _findings_of_lease(self, *, on_lease: bool) -> Iterator[dict[str, Any]]:
        left, allowed = self.facts.get("#left", 0), max(self.left_ns or 0, 0)
        if self.facts.get("#handed") and (on_lease or left > 0):
            how = " by its lease" if on_lease else f" and took its lease to last {_ms(left)} more"
            yield self._finding(
                "lease-after-handover",
                "Lease trusted after a handover",
                f"{how}, although it had asked another member to take over in this term",
            )
        elif left > allowed and not self.is_of_voters_before:
            yield self._finding(
                "lease-too-long",
                "Lease too long",
                f" and took its lease to last {_ms(left)} more; by what a majority of the voters "
                f"{', '.join(self.answered)} had answered, it lasted {_ms(allowed)} more",
            )

    def _who_answered(self) -> str:
        by = f"only {', '.join(self.holders)}" if self.holders else "no voter"
        lease = ""
        if "#lease" in self.facts:
            left = self.left_ns
            ended = (
                "no lease had begun" if left is None else f"no lease held: the last one had ended {_ms(-left)} before"
            )
            lease = f", and {ended}"
        voters = voters_of(self.answered, self.electorates)
        return (
            f", and {by} of the voters {', '.join(voters)} had answered round {self.needed} of its term, the "
            f"first that began after the read came, or a later one{lease}"
        )

    def _finding(self, anomaly: str, name: str, what: str) -> dict[str, Any]:
        row = self.row
        return {
            "anomaly": anomaly,
            "sentence": (
                f"{name}: {row.node}{of_group(row.group)} answered a read in term {row.term} ({row.at}){what}."
            ),
            "by": row.node,
            "row": row.shown(),
        }


def _pairs(row: Row) -> dict[str, int]:
    """What `counted` holds.

    Raises:
        HistoryFormatError: it is damaged, or a fact is missing.
    """
    try:
        pairs = [each.rsplit("=", 1) for each in (row.counted or "").split()]
        said = {name: int(value) for name, value in pairs}
    except ValueError:
        said = {}
    if "" in said or not set(_NEEDED) <= said.keys():
        raise HistoryFormatError(
            "telemetry.parquet", f"column 'counted' holds {row.counted!r} {row.at}, expected {_FORM}"
        )
    return said


def _ms(duration_ns: int) -> str:
    return f"{duration_ns / 1e6:.0f} ms"


def _praise(judged: list[_Read]) -> str:
    if not judged:
        return "Nothing was judged: no leader reported what speaks for a read."
    on_lease = sum(read.on_lease for read in judged)
    held = f", {on_lease} of them by a lease" if on_lease else ""
    return f"{counted(len(judged), 'read')} of leaders had been confirmed by a majority of the voters{held}."
