"""Votes: a candidate asks voters only, and leads by votes of a majority, given in its term (Raft, 5.2; thesis, 4.2.1).

    learner-asked     a node asked a member for a vote, or a pre-vote, that is no voter by its own log
    stranger-counted  a leader counted the vote of one that is no voter by its own log
    old-vote-counted  a leader counted a vote that was granted in another term
    too-few-votes     without those a leader had no majority of the voters
    heard-leader      a node stood for election after it had asked, and a majority heard its leader (`.prevotes`)

`election-safety` compares what several nodes say: a vote that was counted wrongly passes there if its voter votes so a
moment later, or if the election is lost. A node that reports its election itself shows it at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from splitbrain.checkers.consensus.counts import counts_of, node_of
from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.prevotes import unseated
from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options, rows
from splitbrain.checkers.verdict import OfOneRun, Verdict, Whole
from splitbrain.results.arrow import compute
from splitbrain.results.clocks import clocks_of
from splitbrain.results.columns import text
from splitbrain.results.faults import run_events
from splitbrain.results.quantities import counted

_STANDING: Final = ("pre_candidate", "candidate")


class Votes(OfOneRun):
    """Judges every row of event "role" that has `voters` and `counted`, and every election before which a node asked.

    No options.

    In the row of a new leader `counted` names the voters whose votes it counted, each with the term of the vote; in the
    row of a candidate it names the members that the candidate asked. Voters are compared by the names of their nodes.
    The figures: `elections` won, `candidacies`, and `broken` (both).
    """

    name = "votes"
    partition: Whole = "whole run"
    counts_ops = True
    needs_telemetry = True

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run: the telemetry of its nodes, and what it knows of their clocks.

        Raises:
            HistoryFormatError: a row does not say what was counted in the form `n1=3 n2#1=3`.
        """
        refuse_options(self.name, options)
        found: list[dict[str, Any]] = []
        broken = elections = candidacies = 0
        for row, voters in _with_voters(telemetry):
            if row.role == "leader":
                elections += 1
                findings = list(_of_leader(row, voters))
            elif row.role in _STANDING:
                candidacies += 1
                findings = list(_of_candidate(row, voters))
            else:
                continue
            broken += bool(findings)
            found += findings
        beside_leaders = list(unseated(telemetry, clocks_of(run_events(history))))
        broken += len(beside_leaders)
        found += beside_leaders
        return verdict_of(
            self.name,
            algorithm="row by row",
            found=found,
            otherwise=_praise(elections, candidacies),
            figures={"elections": elections, "candidacies": candidacies, "broken": broken},
        )


def _with_voters(telemetry: pa.Table) -> Iterator[tuple[Row, list[str]]]:
    roles = telemetry.filter(compute.equal(telemetry.column("event"), text("role")))
    electorates: list[list[str] | None] = roles.column("voters").to_pylist()
    for row, voters in zip(rows(roles), electorates, strict=True):
        if row.counted is not None and row.term is not None and voters:
            yield row, voters


def _of_candidate(row: Row, voters: list[str]) -> Iterator[dict[str, Any]]:
    others = [member for member in counts_of(row) if node_of(member) not in voters]
    if others:
        yield _finding(
            "learner-asked",
            f"Asked without a vote: {row.node}{of_group(row.group)} asked {', '.join(others)} for a vote in term "
            f"{row.term} ({row.at}), and by its own log only {', '.join(voters)} vote.",
            row,
        )


def _of_leader(row: Row, voters: list[str]) -> Iterator[dict[str, Any]]:
    votes = counts_of(row)
    led = f"{row.node} led term {row.term}{of_group(row.group)} ({row.at})"
    strangers = [member for member in votes if node_of(member) not in voters]
    if strangers:
        yield _finding(
            "stranger-counted",
            f"Elected by strangers: {led} and had counted the votes of {', '.join(strangers)}, and by its own log only "
            f"{', '.join(voters)} vote.",
            row,
        )
    old = {member: term for member, term in votes.items() if term != row.term}
    if old:
        granted = [f"{member} granted it in term {term}" for member, term in old.items()]
        yield _finding("old-vote-counted", f"Elected by old votes: {led}, and {', '.join(granted)}.", row)
    right = {node_of(member) for member, term in votes.items() if term == row.term} & set(voters)
    if 2 * len(right) <= len(voters):
        whose = f"only those of {', '.join(sorted(right))}" if right else "none"
        yield _finding(
            "too-few-votes",
            f"Elected without a majority: {led}, and of the votes of {', '.join(voters)} in that term it had counted "
            f"{whose}.",
            row,
        )


def _finding(anomaly: str, sentence: str, row: Row) -> dict[str, Any]:
    return {"anomaly": anomaly, "sentence": sentence, "by": row.node, "row": row.shown()}


def _praise(elections: int, candidacies: int) -> str:
    if not elections and not candidacies:
        return "Nothing was judged: no node reported the members that it asked, or the votes that it counted."
    return (
        f"{counted(candidacies, 'candidacy', 'candidacies')} asked voters only, and {counted(elections, 'election')} "
        "had votes of a majority."
    )
