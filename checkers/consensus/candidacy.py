"""Candidacy: a voter that knows no leader stands for election in time, and by chance before or after the others (Raft,
5.2 and 9.3; Ongaro's thesis, 4.2.2 and 3.10).

    no-timeout  a node that does not lead and knows no leader waited far longer than its longest election timeout, and
                its timer did not run out
    stood-not   the election timer of a follower ran out, and it did not stand, although it is a voter; or it was one in
                the configuration before, and does not know that the one without it is committed

    waits-on    a leader that asked another member to take over refuses commands for that far longer than its longest
                election timeout
    not-random  election timers of a run ran out after the same time, so that voters which lost their leader stand at
                the same moment, and split the vote

The first two cost clients nothing while another node can be elected. It takes a node with the longest log, or the
loss of another, until there is no leader at all, and runs are seldom so long.

Only rows that a node wrote later in the same life show that it was alive; the last words of a simulated node do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from splitbrain.checkers.consensus.counts import counts_of
from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options, rows
from splitbrain.checkers.consensus.troubles import Troubles
from splitbrain.checkers.verdict import OfOneRun, Verdict, Whole
from splitbrain.results.faults import run_events
from splitbrain.results.quantities import counted

ROWS_SHOWN: Final = 10
"""The largest number of timers that are shown as evidence of what many have in common."""

TIMEOUTS: Final = 5
"""How many of its longest election timeouts a node may wait.

A vote for a candidate starts the timer anew, and so may a second request of the same candidate, until that one's own
timer runs out: two are usual, and the rest is for messages and disks that are slow.
"""

_ELECTION_MAX: Final = "election_max_ms"

_TIMERS_LEAST: Final = 10
"""So many timers at least must have run out before what they have in common is no chance.

Of ten that are spread evenly over half of the longest timeout, eight are as close as `_CLOSE` once in some 10^9 runs.
"""

_ALIKE: Final = 0.75
"""The share of them that a common time needs."""

_CLOSE: Final = 0.01
"""How far apart times are that count as the same, as a share of the longest election timeout."""

_STANDING: Final = ("pre_candidate", "candidate", "leader")

_DECIDES: Final = ("role", "vote", "timeout", "members", "first", "log", "cut", "snapshot")
"""Events of which none can come between a timeout and what a node does about it."""

_BEGINS: Final = ("role", "timeout")

_ENDS: Final = (*_BEGINS, "vote", "stop", "delete")


class Candidacy(OfOneRun):
    """Judges every stretch in which a node does not lead and knows no leader; rows of events "timeout" and "busy".

    No options. A stretch begins with a row of event "role" or "timeout" and ends with the next row of one of these
    events, or of "vote", "stop" or "delete", in the same life. It is judged where the life began with a row that says
    how long its longest election timeout is. Of a stretch the longest part counts in which nothing was wrong with the
    node itself, by the nemesis ops of the run. The times that timers ran, until they ran out, are compared with each
    other. The figures: `stretches` and `timeouts` judged, `longest_s` of the stretches, and `broken`.
    """

    name = "candidacy"
    partition: Whole = "whole run"
    counts_ops = True
    needs_telemetry = True

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run: its nemesis ops, and the telemetry of its nodes.

        Raises:
            HistoryFormatError: a row does not say what was counted in the form `n1=17`.
        """
        refuse_options(self.name, options)
        troubles = Troubles(run_events(history))
        lives: dict[tuple[str | None, str, int], _Life] = {}
        found: list[dict[str, Any]] = []
        for row in rows(telemetry):
            found += lives.setdefault((row.group, row.node, row.life), _Life(troubles)).step(row)
        found += _not_random([ran for life in lives.values() for ran in life.ran])
        stretches = sum(life.stretches for life in lives.values())
        timeouts = sum(life.timeouts for life in lives.values())
        longest = max((life.longest_ns for life in lives.values()), default=0)
        return verdict_of(
            self.name,
            algorithm="row by row",
            found=found,
            otherwise=_praise(stretches, timeouts),
            figures={
                "stretches": stretches,
                "timeouts": timeouts,
                "longest_s": round(longest / 1e9, 3),
                "broken": len(found),
            },
        )


class _Ran(NamedTuple):
    """A timer that ran out: how long it ran, as a share of the longest election timeout and in ns."""

    share: float
    took_ns: int
    row: Row


class _Life:
    """One life of a node in a group."""

    def __init__(self, troubles: Troubles) -> None:
        self.stretches = self.timeouts = self.longest_ns = 0
        self.ran: list[_Ran] = []
        self._troubles = troubles
        self._limit_ns: int | None = None
        self._waits: Row | None = None  # since this row
        self._alive: Row | None = None  # the last row of the stretch
        self._must_stand: Row | None = None  # since its timer ran out with this row
        self._may_not = False  # stand, as its timer ran out, and it did not start it again

    def step(self, row: Row) -> Iterator[dict[str, Any]]:
        """Take the life's next row; what it shows."""
        if row.event == "start":
            self._limit_ns = TIMEOUTS * 1_000_000 * counts_of(row).get(_ELECTION_MAX, 0) or None
        if row.event == "end":
            return
        yield from self._stands(row)
        yield from self._runs_out(row)
        if row.event == "busy":
            yield from self._goes_on(row)

    def _goes_on(self, row: Row) -> Iterator[dict[str, Any]]:
        why, limit_ns = counts_of(row), self._limit_ns
        since_ms = why.get("handing_over_ms")
        if limit_ns is None or since_ms is None or 2 * why.get("pending", 0) >= why.get("most", 0):
            return
        waited_ns = self._troubles.longest_without(row.node, row.time - since_ms * 1_000_000, row.time)
        if waited_ns > limit_ns:
            yield _waits_on(row, waited_ns, limit_ns)

    def _stands(self, row: Row) -> Iterator[dict[str, Any]]:
        timeout = self._must_stand
        if timeout is not None and (row.event in _DECIDES or self._is_late(timeout, row)):
            self._must_stand = None
            stands = row.event == "role" and row.role in _STANDING
            if not stands and not (row.event == "vote" and row.leader == row.node):
                yield _stood_not(timeout, row)
        if row.event == "timeout" and row.counted_index is not None:
            by = max(counts_of(row).values(), default=None)
            self._may_not = by is None or by < row.counted_index <= (row.commit_index or 0)
            if row.role == "follower" and not self._may_not:
                self.timeouts += 1
                self._must_stand = row

    def _is_late(self, timeout: Row, row: Row) -> bool:
        """Whether the node had far more time than it takes to stand for election, when it wrote a row."""
        free_ns = self._troubles.longest_without(row.node, timeout.time, row.time)
        return self._limit_ns is not None and free_ns > self._limit_ns

    def _runs_out(self, row: Row) -> Iterator[dict[str, Any]]:
        if self._waits is not None:
            self._alive = row
        if row.event == "role" and row.leader is not None:
            self._may_not = False
        if row.event not in _ENDS:
            return
        waits, alive, limit_ns = self._waits, self._alive, self._limit_ns
        if waits is not None and alive is not None and limit_ns is not None:
            self.stretches += 1
            if row.event == "timeout":
                took_ns = row.time - waits.time
                self.ran.append(_Ran(TIMEOUTS * took_ns / limit_ns, took_ns, row))
            waited_ns = self._troubles.longest_without(waits.node, waits.time, alive.time)
            self.longest_ns = max(self.longest_ns, waited_ns)
            if waited_ns > limit_ns:
                yield _no_timeout(waits, alive, waited_ns, limit_ns)
        leaderless = row.role != "leader" and (row.leader is None or row.event == "timeout")
        self._waits = row if row.event in _BEGINS and leaderless and not self._may_not else None
        self._alive = None


def _not_random(ran: list[_Ran]) -> Iterator[dict[str, Any]]:
    if len(ran) < _TIMERS_LEAST:
        return
    ran = sorted(ran, key=lambda each: each.share)
    least = math.ceil(_ALIKE * len(ran))
    for first, last in zip(ran, ran[least - 1 :], strict=False):
        if last.share - first.share <= _CLOSE:
            alike = [each for each in ran if first.share <= each.share <= first.share + _CLOSE]
            yield _all_alike(alike, len(ran))
            return


def _all_alike(alike: list[_Ran], of: int) -> dict[str, Any]:
    rows = sorted((each.row for each in alike), key=lambda row: row.time)
    nodes = ", ".join(sorted({row.node for row in rows}))
    least_ns, most_ns = min(each.took_ns for each in alike), max(each.took_ns for each in alike)
    return {
        "anomaly": "not-random",
        "sentence": (
            f"Not random: {len(alike)} of {of} election timers ran out {least_ns / 1e9:.3f} to {most_ns / 1e9:.3f} s "
            f"after they were started, on {nodes}; voters that lost their leader stand at the same moment."
        ),
        "by": nodes,
        "rows": [row.shown() for row in rows[:ROWS_SHOWN]],
    }


def _stood_not(timeout: Row, then: Row) -> dict[str, Any]:
    by = max(counts_of(timeout).values(), default=0)
    vote = f"by entry {by} of its log it is a voter"
    if by < (timeout.counted_index or 0):
        vote = (
            f"{vote}, and entry {timeout.counted_index}, by which it is none any more, was not committed as far as it "
            f"knew (up to {timeout.commit_index})"
        )
    return {
        "anomaly": "stood-not",
        "sentence": (
            f"Stood not: the election timer of {timeout.node}{of_group(timeout.group)} ran out in term {timeout.term} "
            f"({timeout.at}), {vote}, and it did not stand for election."
        ),
        "by": timeout.node,
        "rows": [timeout.shown(), then.shown()],
    }


def _no_timeout(begin: Row, end: Row, waited_ns: int, limit_ns: int) -> dict[str, Any]:
    return {
        "anomaly": "no-timeout",
        "sentence": (
            f"No election timeout: {begin.node}{of_group(begin.group)} did not lead and knew no leader in term "
            f"{begin.term} ({begin.at}), and for {waited_ns / 1e9:.3f} s without a fault of the node its timer did not "
            f"run out; its longest timeout is {limit_ns / TIMEOUTS / 1e9:.3f} s."
        ),
        "by": begin.node,
        "rows": [begin.shown(), end.shown()],
    }


def _waits_on(row: Row, waited_ns: int, limit_ns: int) -> dict[str, Any]:
    return {
        "anomaly": "waits-on",
        "sentence": (
            f"Waits on: {row.node}{of_group(row.group)} had asked another member to take over in term {row.term}, and "
            f"for that refused commands {waited_ns / 1e9:.3f} s later without a fault of the node ({row.at}); its "
            f"longest election timeout is {limit_ns / TIMEOUTS / 1e9:.3f} s."
        ),
        "by": row.node,
        "rows": [row.shown()],
    }


def _praise(stretches: int, timeouts: int) -> str:
    if not stretches and not timeouts:
        return "Nothing was judged: no node that reports its election timeouts was without a leader."
    return (
        f"In {counted(stretches, 'stretch', 'stretches')} without a leader each node's election timer ran out in time, "
        f"and after {counted(timeouts, 'timeout')} followers that may stand for election did."
    )
