"""Durability: what a node said is durable, and the vote that it gave, are there when it starts again, or would.

    log-forgotten    a node recovered a log that ends before an index which it had said is durable
    entry-forgotten  a node recovered a log that ends in an earlier term than an entry which it had said is durable
    vote-forgotten   a node recovered an earlier term than that of its last vote, or that term without the vote
    strange-entries  a node recovered a log that ends in a later term than the term that it recovered
    needed, let-go   a log was let go up to an entry that was needed (`splitbrain.checkers.consensus.letgo`)
    kept             a queue leaves messages to consumers that it suspects (there)
    base-gone        a log begins behind an entry, and the state there is gone (there)
    unrecoverable    a node would not have started after a loss of power, with what was on its disk at that moment

A node makes a term durable before it appends an entry of it. Entries of a later term are not its own: they are what a
former group of the same name left behind, or its term is lost.

Replication repairs a log that is too short, so that clients seldom see it: it takes the loss of a majority; and a
vote that was forgotten matters only in the next election. The node itself shows both at its next start. A log is also
shorter when another leader's entries took the place of its own, which the node reports before it cuts them off, and
when its disk lost data, which nemesis ops say.

A simulation also asks, while a node runs, what it would recover if it lost its power at that moment (rows of events
"recoverable" and "unrecoverable", `splitbrain.harness.simulation.images`). They are judged as a start would be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa

from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.letgo import bases, bases_gone, released, too_much
from splitbrain.checkers.consensus.rows import (
    WOULD_NOT_START,
    WOULD_START,
    Row,
    every_row,
    of_group,
    refuse_options,
)
from splitbrain.checkers.verdict import OfOneRun, Verdict, Whole
from splitbrain.results.arrow import array
from splitbrain.results.calls import is_equal
from splitbrain.results.faults import FaultOp, run_events
from splitbrain.results.quantities import counted

_LOSSES: Final = ("truncate", "rot", "wipe")
"""Faults of a disk (fields of `splitbrain.harness.contract.faults.DiskFault`) that take what was durable."""


class _Restart(NamedTuple):
    """A start, or what it would have been, and what the node had said before it."""

    start: Row
    said: Row | None
    vote: Row | None
    first: Row | None
    """The first entry of the last term of which it had said that an entry is durable."""


class Durability(OfOneRun):
    """Judges every row of events "start", "recoverable" and "unrecoverable". No options.

    Its `log_term` is compared with its `term`; and of one with a `last_index` behind the first of a node its
    `last_index` is compared with the newest one of the node's life before, in a row of any event but "role" and
    "start"; its `log_term` with that of a row of event "first", if a later row said that this entry is durable, and
    it was not cut off (terms never fall along a log, so that a log with that entry ends in its term or a later one);
    its term and `leader`, which is the vote that the node recovered, with the node's newest row of event "vote". A
    node whose disk lost data by a nemesis op, begun before it started, is left out from then on, and so is one that
    left and came back as another member. Rows of "recoverable" are compared likewise, as long as the member has started
    and not ended. Rows of event "released" are judged each by itself, and so are those of "checkpoint" that say where
    the log begins. The figures: `restarts` judged, `images` (rows of what would have been recovered) judged, `excused`,
    rows of event `released`, those about `bases`, `highest` index that was said to be durable, `votes` compared, and
    findings (`broken`).
    """

    name = "durability"
    partition: Whole = "whole run"
    counts_ops = True
    needs_telemetry = True

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run: its nemesis ops, and the telemetry of its nodes."""
        refuse_options(self.name, options)
        losses = [op for op in run_events(history).fault_ops if _loses(op)]
        all_of_them = list(_restarts(every_row(telemetry)))
        judged = [each for each in all_of_them if not _is_excused(each.start, losses)]
        starts = [each for each in judged if each.start.event == "start"]
        excused = sum(each.start.event == "start" for each in all_of_them) - len(starts)
        recovered = [row for row in _recovered(telemetry) if not _is_excused(row, losses)]
        found = [finding for each in judged for finding in _findings(each)]
        found += [_strange(row) for row in recovered if _is_strange(row)]
        found += [_unrecoverable(row) for row in recovered if row.event == WOULD_NOT_START]
        let_go = released(every_row(telemetry))
        found += too_much(let_go)
        looked_at = bases(every_row(telemetry))
        found += bases_gone(looked_at)
        return verdict_of(
            self.name,
            algorithm="start by start",
            found=found,
            otherwise=_praise(len(starts), len(judged) - len(starts), excused),
            figures={
                "restarts": len(starts),
                "images": len(judged) - len(starts),
                "excused": excused,
                "highest": max((_last(each.said) for each in judged), default=0),
                "released": len(let_go),
                "bases": len(looked_at),
                "votes": sum(each.vote is not None for each in judged),
                "broken": len(found),
            },
        )


def _recovered(telemetry: pa.Table) -> Iterator[Row]:
    """The rows that say what a node recovered, or would have."""
    events = [is_equal(telemetry, "event", event) for event in ("start", WOULD_START, WOULD_NOT_START)]
    return every_row(telemetry.filter(array(np.logical_or.reduce(events))))


def _restarts(table: Iterable[Row]) -> Iterator[_Restart]:
    """What each node had said before each start but its first, and before it was asked what it would recover."""
    members: dict[tuple[str | None, str], _Member] = {}
    for row in table:
        restart = members.setdefault((row.group, row.node), _Member()).take(row)
        if restart is not None:
            yield restart


class _Member:
    """What a node said of its log and its votes in its life so far."""

    def __init__(self) -> None:
        self._said: Row | None = None
        self._vote: Row | None = None
        self._firsts = deque[Row]()
        self._durable: Row | None = None
        self._is_here = False

    def take(self, row: Row) -> _Restart | None:
        """Take the next row; a start behind something that was said is a restart."""
        if row.event == WOULD_START:
            # Before it has started in this life it has not said whether it is still the member that it was.
            return self._restart(row) if self._is_here else None
        if row.event in ("new-member", "cut", "snapshot"):
            self._forget_entries()  # what stays of the log is not certain to have them
        if row.event == "new-member":
            self._said = self._vote = None
        elif row.event == "start":
            return self._starts(row)
        elif row.event == "vote" and row.term is not None and row.leader is not None:
            self._vote = row
        elif row.event != "role" and row.last_index is not None:
            self._says(row, row.last_index)
        if row.event in ("end", "stop", "delete"):
            self._is_here = False
        if row.event == "first" and row.log_index is not None and row.log_term is not None:
            self._firsts.append(row)
        return None

    def _restart(self, row: Row) -> _Restart | None:
        known = row.last_index is not None and (self._said is not None or self._vote is not None)
        return _Restart(row, self._said, self._vote, self._durable) if known else None

    def _starts(self, row: Row) -> _Restart | None:
        restart = self._restart(row)
        self._is_here = True
        if row.leader is not None and row.term is not None:
            self._vote = row  # it goes on with this vote
        self._said = None if row.last_index is None else row
        self._forget_entries()
        return restart

    def _forget_entries(self) -> None:
        self._firsts.clear()
        self._durable = None

    def _says(self, row: Row, durable: int) -> None:
        self._said = row
        while self._firsts and (self._firsts[0].log_index or 0) <= durable:
            self._durable = self._firsts.popleft()


def _findings(restart: _Restart) -> Iterator[dict[str, Any]]:
    start, said, vote, first = restart
    who = f"{start.node}{of_group(start.group)}"
    if said is not None and _last(start) < _last(said):
        yield {
            "anomaly": "log-forgotten",
            "sentence": (
                f"Log forgotten: {who} had said that its log is durable up to entry {_last(said)} ({said.at}), and "
                f"{_recovers(start)} a log that ends at {_last(start)} ({start.at})."
            ),
            "missing": [_last(start) + 1, _last(said)],
            "said": said.shown(),
            "start": start.shown(),
        }
    elif first is not None and start.log_term is not None and start.log_term < (first.log_term or 0):
        yield {
            "anomaly": "entry-forgotten",
            "sentence": (
                f"Entry forgotten: {who} had got entry {first.log_index} of term {first.log_term} ({first.at}) and "
                f"said that it is durable, and {_recovers(start)} a log that ends with entry {start.log_index} of "
                f"term {start.log_term} ({start.at})."
            ),
            "first": first.shown(),
            "start": start.shown(),
        }
    if vote is not None and _is_forgotten(vote, start):
        recovered = f"term {start.term}" + (f" and a vote for {start.leader}" if start.leader else " without a vote")
        yield {
            "anomaly": "vote-forgotten",
            "sentence": (
                f"Vote forgotten: {who} had voted for {vote.leader} in term {vote.term} ({vote.at}), and "
                f"{_recovers(start)} {recovered} ({start.at})."
            ),
            "vote": vote.shown(),
            "start": start.shown(),
        }


def _is_strange(start: Row) -> bool:
    return start.term is not None and start.log_term is not None and start.log_term > start.term


def _strange(start: Row) -> dict[str, Any]:
    return {
        "anomaly": "strange-entries",
        "sentence": (
            f"Strange entries: {start.node}{of_group(start.group)} {_recovers(start)} term {start.term} and a log that "
            f"ends with entry {start.log_index} of term {start.log_term}, in which it never was ({start.at})."
        ),
        "start": start.shown(),
    }


def _unrecoverable(row: Row) -> dict[str, Any]:
    return {
        "anomaly": "unrecoverable",
        "sentence": (
            f"Unrecoverable: had {row.node} lost its power {row.at}, it would not have started again; its log says why."
        ),
        "start": row.shown(),
    }


def _recovers(row: Row) -> str:
    return "recovered" if row.event == "start" else "would have recovered after a loss of power"


def _is_forgotten(vote: Row, start: Row) -> bool:
    if start.term is None or vote.term is None or start.term > vote.term:
        return False
    return start.term < vote.term or start.leader != vote.leader


def _loses(op: FaultOp) -> bool:
    spoil = _mapping(_mapping(op.invoke.value).get("spoil"))
    return any(spoil.get(loss) for loss in _LOSSES)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _is_excused(start: Row, losses: Iterable[FaultOp]) -> bool:
    return any(op.invoke.time < start.time and _may_hit(op, start.node) for op in losses)


def _may_hit(op: FaultOp, node: str) -> bool:
    """Whether the op hit a node, or does not say which it hit."""
    return not op.verified or node in op.said.target.replace(",", " ").split()


def _last(row: Row | None) -> int:
    return 0 if row is None else row.last_index or 0


def _praise(starts: int, images: int, excused: int) -> str:
    left_out = f" ({counted(excused, 'restart')} on disks that had lost data left out.)" if excused else ""
    losses = f"{counted(images, 'loss', 'losses')} of power that was only looked at" if images else ""
    if not starts:
        would = f" It would have had all that it had said is durable after {losses}." if images else ""
        return f"No node that says what is durable was restarted.{would}{left_out}"
    also = f", and would have had it after {losses}" if images else ""
    return f"After {counted(starts, 'restart')} each node had all that it had said is durable{also}.{left_out}"
