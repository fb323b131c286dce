"""Commit by majority: what a leader commits, a majority of the voters had acknowledged as durable (Raft, 5.3).

    committed-without-majority  a leader committed an entry, and by its own count too few voters had acknowledged it
    committed-earlier-term      a leader committed up to an entry of an earlier term because a majority had it (5.4.2)

A leader that commits too early is seldom found out by its clients: replication brings the entry to the others a moment
later, and it is lost only if a fault comes in between. By what the leader itself counted each early commit shows at
once: learners that count as voters, a leader that counts itself before its own sync, half of an even number that passes
for a majority.

An entry of an earlier term may be on a majority and still be overwritten by another leader (Raft, figure 8): it is
committed only with an entry of the leader's own term behind it.

The writer of a stream is held to the same: entries are its messages, by offset, and terms its epochs. What it confirmed
to a publisher counts as committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from splitbrain.checkers.consensus.counts import counts_of
from splitbrain.checkers.consensus.electorates import Electorates, surplus, voters_of, with_electorates
from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options, rows_of_streams
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.quantities import counted


class CommitMajority(OfOneRun):
    """Judges every row of event "commit" with a `counted_index`. No options.

    Such a row names, in `counted`, each voter of the configuration that was in force when the leader committed that
    index, and how much of the log it had acknowledged: `n1=17 n2=17 n3=12`, the leader itself as far as its own log is
    durable. Where the leader says who its `voters` are, a majority of these counts, too. Its `log_term`, if it has one,
    is the term of the entry. The figures: `commits` judged, `closest` (the least number of voters beyond a majority in
    any of them, None without commits), and `broken`.
    """

    name = "commit-majority"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run.

        Raises:
            HistoryFormatError: a row does not say what was counted in the form above.
        """
        refuse_options(self.name, options)
        # Voters of a stream are those that its writer lists: the coordinator gives them to it.
        of_streams = ((row, ()) for row in rows_of_streams(telemetry))
        commits = [
            _Commit(row, row.counted_index, counts_of(row), electorates)
            for row, electorates in (*with_electorates(telemetry, "commit"), *of_streams)
            if row.event == "commit" and row.counted_index is not None and row.counted is not None
        ]
        found = [_finding(commit) for commit in commits if commit.surplus < 0]
        found += [_of_earlier_term(commit) for commit in commits if commit.is_of_earlier_term]
        return verdict_of(
            self.name,
            algorithm="row by row",
            found=found,
            otherwise=_praise(len(commits)),
            figures={
                "commits": len(commits),
                "closest": min((commit.surplus for commit in commits), default=None),
                "broken": len(found),
            },
        )


class _Commit(NamedTuple):
    """What a leader counted when it committed an index."""

    row: Row
    entry: int
    acknowledged: dict[str, int]
    electorates: Electorates

    @property
    def holders(self) -> list[str]:
        """The voters that had acknowledged it."""
        return [voter for voter, index in self.acknowledged.items() if index >= self.entry]

    @property
    def is_of_earlier_term(self) -> bool:
        """Whether the entry is known to be of an earlier term than that of the leader."""
        of, led = self.row.log_term, self.row.term
        return self.row.log_index == self.entry and of is not None and led is not None and of < led

    @property
    def surplus(self) -> int:
        """How many more voters had acknowledged it than a majority; negative if it was none."""
        return surplus(self.holders, self.acknowledged, self.electorates)

    @property
    def voters(self) -> list[str]:
        """The nodes that are said to have acknowledged it, or not to have."""
        return voters_of(self.acknowledged, self.electorates)


def _finding(commit: _Commit) -> dict[str, Any]:
    row, holders = commit.row, commit.holders
    by = f"only {', '.join(holders)}" if holders else "no voter"
    return {
        "anomaly": "committed-without-majority",
        "sentence": (
            f"Committed without a majority: {row.node}{of_group(row.group)} committed entry {commit.entry} in term "
            f"{row.term} ({row.at}), and {by} of the voters {', '.join(commit.voters)} had acknowledged it."
        ),
        "by": row.node,
        "row": row.shown(),
    }


def _of_earlier_term(commit: _Commit) -> dict[str, Any]:
    row = commit.row
    return {
        "anomaly": "committed-earlier-term",
        "sentence": (
            f"Committed an earlier term: {row.node}{of_group(row.group)} led term {row.term} and committed up to entry "
            f"{commit.entry} of term {row.log_term} ({row.at}), with no entry of its own term behind it: a "
            "majority that has it does not keep another leader from overwriting it."
        ),
        "by": row.node,
        "row": row.shown(),
    }


def _praise(commits: int) -> str:
    if not commits:
        return "Nothing was judged: no leader reported what it counted for a commit."
    return f"{counted(commits, 'commit')} of leaders had been acknowledged by a majority of the voters."
