"""Log matching: logs that have the same entry have the same entries up to it (Raft, figure 3 and section 5.3).

    logs-differ         two logs have an entry of the same index and term, and differ before it
    took-back           a node removed entries from its log that the leader of the term in which it was had sent
    applied-otherwise   what a node applied up to an index is not what its own log had held up to there

An entry is known by its index and the term of the leader that made it. Nodes report hashes of their logs up to some
entries, applied or not, so a log that went wrong shows before anything of it is applied. The first entry of a term is
the same in all logs, too. A leader never changes what it appended itself, so what it sent stays until its term ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations
from typing import Any, Final, TypeAlias

import pyarrow as pa

from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options, rows
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.quantities import counted

Entry: TypeAlias = tuple[str | None, int, int]
"""A group, and index and term of an entry."""

Sightings: TypeAlias = dict[str, dict[str, Row]]
"""For each hash that was reported of a log up to an entry: the first row of each node that reported it."""

STATES: Final = ("checkpoint", "snapshot")
"""Events of rows whose log columns tell for which entry a state stands (`replica-agreement`)."""

_HASH_SHOWN = 12
NEW_LOG: Final = ("start", "new-member", "cut", "snapshot", "rebuild")
"""Events after which the log of a node may hold other entries than before."""


class LogMatching(OfOneRun):
    """Judges every row with a `log_index`. No options.

    The figures: `entries` up to which a log was hashed, `compared` (at least two nodes reported a hash), the
    `highest_compared` index, `terms` of which nodes reported the first entry, `applied` (a node applied up to an index
    at which it had reported its log), `cuts`, and `broken`: how many findings there are.
    """

    name = "log-matching"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run."""
        refuse_options(self.name, options)
        entries: dict[Entry, Sightings] = {}
        firsts: dict[tuple[str | None, int], dict[int, Row]] = {}
        nodes: dict[tuple[str | None, str], OwnLog] = {}
        cuts, applied, found = 0, 0, list[dict[str, Any]]()
        for row in rows(telemetry):
            own = nodes.setdefault((row.group, row.node), OwnLog())
            if (said := own.step(row)) is not None:
                applied += 1
                if said.log_hash != row.chain_hash:
                    found.append(_otherwise(said, row))
            if row.event == "cut" and row.log_term is not None:
                cuts += 1
                if row.log_term == row.term:
                    found.append(_took_back(row))
            if row.log_index is None or row.log_term is None or row.log_hash is None or row.event in STATES:
                continue
            sightings = entries.setdefault((row.group, row.log_index, row.log_term), {})
            sightings.setdefault(row.log_hash, {}).setdefault(row.node, row)
            if row.event == "first":
                firsts.setdefault((row.group, row.log_term), {}).setdefault(row.log_index, row)
        compared = {entry: seen for entry, seen in entries.items() if len(set(chain.from_iterable(seen.values()))) > 1}
        found = [*_by_index(_differing(entries, compared), _beginning(firsts)), *found]
        figures = {
            "entries": len(entries),
            "compared": len(compared),
            "highest_compared": max((index for _, index, _ in compared), default=0),
            "terms": len(firsts),
            "applied": applied,
            "cuts": cuts,
            "broken": len(found),
        }
        return verdict_of(
            self.name,
            algorithm="hashes by index and term",
            found=found,
            otherwise=_praise(figures),
            figures=figures,
        )


class OwnLog:
    """What one node reported of its log behind what it has applied.

    Attributes:
        said: by index, the newest row with a hash of the log up to there that still holds.
    """

    def __init__(self) -> None:
        self.said: dict[int, Row] = {}

    def step(self, row: Row) -> Row | None:
        """Take the node's next row; a row with the log up to where the node has applied now, if there is one.

        Rows before that are forgotten.
        """
        if row.event in NEW_LOG:
            self.said.clear()
        said = None
        if row.applied_index is not None and self.said:
            said = self.said.get(row.applied_index) if row.chain_hash is not None else None
            for index in [index for index in self.said if index <= row.applied_index]:
                del self.said[index]
        behind = row.log_index is not None and row.log_index > (row.applied_index or 0)
        if behind and row.log_hash is not None and row.event not in STATES:
            self.said[row.log_index or 0] = row
        return said


def _differing(entries: Mapping[Entry, Sightings], compared: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    agreed: dict[str | None, list[int]] = {}
    for group, index, _ in sorted((entry for entry in compared if len(entries[entry]) == 1), key=lambda each: each[1]):
        agreed.setdefault(group, []).append(index)
    for entry, sightings in entries.items():
        for one, other in combinations(sightings, 2):
            group, index, _ = entry
            place = bisect_left(agreed.get(group, []), index)
            last_agreed = agreed[group][place - 1] if place else None
            shown = [next(iter(sightings[each].values())) for each in (one, other)]
            said = " and ".join(f"{row.node} reported {(row.log_hash or '')[:_HASH_SHOWN]} ({row.at})" for row in shown)
            before = "" if last_agreed is None else f" Logs of two nodes agreed up to entry {last_agreed}."
            yield {
                "anomaly": "logs-differ",
                "sentence": (
                    f"Logs differ: of the log up to entry {index} of term {entry[2]}{of_group(group)} {said}.{before}"
                ),
                "entry": index,
                "last_agreed_index": last_agreed,
                "logs": [row.shown() for row in shown],
            }


def _beginning(firsts: Mapping[tuple[str | None, int], Mapping[int, Row]]) -> Iterator[dict[str, Any]]:
    for (group, term), begins in firsts.items():
        if len(begins) < 2:
            continue
        said = " and ".join(f"at entry {index} in that of {row.node} ({row.at})" for index, row in begins.items())
        yield {
            "anomaly": "logs-differ",
            "sentence": f"Logs differ: in one log term {term}{of_group(group)} begins {said}.",
            "entry": min(begins),
            "last_agreed_index": None,
            "logs": [row.shown() for row in begins.values()],
        }


def _by_index(*findings: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(chain.from_iterable(findings), key=lambda finding: finding["entry"])


def _took_back(cut: Row) -> dict[str, Any]:
    return {
        "anomaly": "took-back",
        "sentence": (
            f"Took back: {cut.node}{of_group(cut.group)} was in term {cut.term} and removed the end of its log, entry "
            f"{cut.log_index} of that same term {cut.at}: its leader had sent that, and does not change it."
        ),
        "logs": [cut.shown()],
    }


def _otherwise(said: Row, row: Row) -> dict[str, Any]:
    return {
        "anomaly": "applied-otherwise",
        "sentence": (
            f"Applied otherwise: {row.node}{of_group(row.group)} reported {(said.log_hash or '')[:_HASH_SHOWN]} for "
            f"its log up to entry {said.log_index} ({said.at}), and after applying up to there "
            f"{(row.chain_hash or '')[:_HASH_SHOWN]} ({row.at})."
        ),
        "logs": [said.shown(), row.shown()],
    }


def _praise(figures: Mapping[str, int]) -> str:
    if not figures["entries"]:
        return "Nothing was judged: no node reported what its log holds."
    if not figures["compared"]:
        return "Nothing was compared: no two nodes reported their logs up to the same entry."
    return (
        f"Logs are the same up to every entry at which two or more could be compared "
        f"({counted(figures['compared'], 'entry', 'entries')}, the highest {figures['highest_compared']})."
    )
