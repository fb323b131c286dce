"""Replicas must be equal at equal applied index: the same hashes, on all nodes and in all their lives.

What a replica derives from its state, in projections, must be equal to what that state says.

    divergence        two hash chains differ at one index: different entries were applied (Raft's state machine safety)
    non-determinism   the chains agree and the states differ: the same entries led to different states
    snapshot          a state that was written down, or taken over, is not that of the entry for which it stands
    projection        a node's projections do not hold what its own state says that they should

A node that writes its state down, or takes one over, says for which entry it stands (rows of events "checkpoint" and
"snapshot"). What others load from that, at a start or from the leader, must be what was written down there.

A hash chain covers everything that was applied up to its index. So two replicas that diverged differ at every later
index: the first index of disagreement that was seen is at or after the entry that caused it. (The idea is that of
etcd's hash check and of TigerBeetle's state checker.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any, TypeAlias

import pyarrow as pa

from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.matching import STATES
from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options, rows
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.once import once
from splitbrain.results.quantities import counted

Place: TypeAlias = tuple[str | None, int]
"""A group, and an index in its log."""

Hashes: TypeAlias = tuple[str | None, str | None]
"""A chain hash and a state hash."""

Sightings: TypeAlias = dict[Hashes, dict[tuple[str, int], Row]]
"""For each pair of hashes that was reported at a place, and each node and life that reported it: the row of a state
that was written down, else the first one."""

_HASH_SHOWN = 12
_LOADED = ("start", "snapshot")
"""Events of rows whose state was not applied, but loaded."""


class ReplicaAgreement(OfOneRun):
    """Judges every row with an applied index and a chain hash or a state hash, or hashes of projections. No options.

    The figures: `indexes` that were reported, `compared` (at least two nodes reported a hash of the same kind; index 0,
    where nothing is applied, does not count), `highest_compared`, `nodes`, `broken` indexes, `projections`: rows in
    which a node's projections were compared with its state, and `snapshots`: states that were written down or taken
    over. If several nodes reported rows and no two can be compared, the verdict is unknown.
    """

    name = "replica-agreement"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run."""
        refuse_options(self.name, options)
        return once(telemetry, type(self)._judge)

    @classmethod
    def _judge(cls, telemetry: pa.Table) -> Verdict:
        """The verdict, which the checker of quorum progress needs as well."""
        places: dict[Place, Sightings] = {}
        nodes: dict[str, None] = {}
        projections, lost = 0, list[Row]()
        snapshots, misnamed = 0, list[Row]()
        for row in rows(telemetry):
            nodes[row.node] = None
            if row.projection_hash is not None and row.projected_hash is not None:
                projections += 1
                if row.projection_hash != row.projected_hash:
                    lost.append(row)
            if row.event in STATES and row.log_index is not None and row.applied_index is not None:
                snapshots += 1
                if row.log_index != row.applied_index or _has_other_chain(row):
                    misnamed.append(row)
            hashes = (row.chain_hash, row.state_hash)
            if row.applied_index is not None and hashes != (None, None):
                seen = places.setdefault((row.group, row.applied_index), {}).setdefault(hashes, {})
                if row.event == "checkpoint" or (row.node, row.life) not in seen:
                    seen[row.node, row.life] = row
        compared = [place for place, sightings in places.items() if place[1] > 0 and _comparable(sightings)]
        broken = {place: found for place, sightings in places.items() if (found := list(_anomalies(sightings)))}
        findings = [*_first_of_each(places, compared, broken), *_misnamed(misnamed), *_projections(lost)]
        return verdict_of(
            cls.name,
            unknown=not compared and len(nodes) > 1,
            algorithm="hashes by index",
            found=findings,
            otherwise=_praise(compared, len(nodes)),
            figures={
                "indexes": len(places),
                "compared": len(compared),
                "highest_compared": max((index for _, index in compared), default=0),
                "nodes": len(nodes),
                "broken": len(broken),
                "projections": projections,
                "snapshots": snapshots,
            },
        )


def _has_other_chain(row: Row) -> bool:
    """Whether the hash chain in a state that was written down is not that of what was applied."""
    return None not in (row.log_hash, row.chain_hash) and row.log_hash != row.chain_hash


def _comparable(sightings: Sightings) -> bool:
    """Whether two nodes reported a hash of the same kind."""
    by_chain = {node for (chain, _), seen in sightings.items() if chain is not None for node, _ in seen}
    by_state = {node for (_, state), seen in sightings.items() if state is not None for node, _ in seen}
    return len(by_chain) > 1 or len(by_state) > 1


def _anomalies(sightings: Sightings) -> Iterator[tuple[str, Hashes, Hashes]]:
    """What is wrong at one place, with two pairs of hashes that show it."""
    for one, other in combinations(sightings, 2):
        if _is_misloaded(sightings[one], sightings[other]):
            yield "snapshot", one, other
            continue
        chains_known = one[0] is not None and other[0] is not None
        if chains_known and one[0] != other[0]:
            yield "divergence", one, other
        elif one[1] is not None and other[1] is not None and one[1] != other[1]:
            yield ("non-determinism" if chains_known else "divergence"), one, other


def _is_misloaded(one: Mapping[tuple[str, int], Row], other: Mapping[tuple[str, int], Row]) -> bool:
    """Whether one was written down, and the other comes from loading alone."""
    for written, loaded in ((one, other), (other, one)):
        if any(row.event == "checkpoint" for row in written.values()):
            return all(row.event in _LOADED for row in loaded.values())
    return False


def _first_of_each(
    places: Mapping[Place, Sightings],
    compared: Iterable[Place],
    broken: Mapping[Place, list[tuple[str, Hashes, Hashes]]],
) -> list[dict[str, Any]]:
    """The lowest index of each group at which each anomaly shows."""
    found: dict[tuple[str | None, str], dict[str, Any]] = {}
    agreed = [place for place in compared if place not in broken]
    for place in sorted(broken, key=lambda place: place[1]):
        group, index = place
        for anomaly, one, other in broken[place]:
            if (group, anomaly) in found:
                continue
            last_agreed = max((i for g, i in agreed if g == group and i < index), default=None)
            shown = [next(iter(places[place][hashes].values())) for hashes in (one, other)]
            found[group, anomaly] = {
                "anomaly": anomaly,
                "sentence": _sentence(anomaly, shown[0], shown[1], last_agreed),
                "group": group,
                "applied_index": index,
                "last_agreed_index": last_agreed,
                "replicas": [row.shown() for seen in places[place].values() for row in seen.values()],
            }
    return list(found.values())


def _misnamed(rows_found: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """The first row of each node in which a state does not stand for the entry up to which it was applied."""
    of_nodes: dict[tuple[str | None, str], Row] = {}
    for row in rows_found:
        of_nodes.setdefault((row.group, row.node), row)
    for row in of_nodes.values():
        stands_for = f"entry {row.log_index}"
        if row.log_index == row.applied_index:
            chains = [(chain or "")[:_HASH_SHOWN] for chain in (row.log_hash, row.chain_hash)]
            stands_for = f"the log up to there with hash {chains[0]}, and not {chains[1]}"
        yield {
            "anomaly": "snapshot",
            "sentence": (
                f"Snapshot of another entry: {row.node}{of_group(row.group)} has the state of applied index "
                f"{row.applied_index} in one that stands for {stands_for} (event {row.event!r} {row.at})."
            ),
            "group": row.group,
            "applied_index": row.applied_index,
            "last_agreed_index": None,
            "replicas": [row.shown()],
        }


def _projections(lost: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """The first row of each node whose projections differ from its state."""
    of_nodes: dict[tuple[str | None, str], Row] = {}
    for row in lost:
        of_nodes.setdefault((row.group, row.node), row)
    for row in of_nodes.values():
        shown = [(text or "")[:_HASH_SHOWN] for text in (row.projection_hash, row.projected_hash)]
        yield {
            "anomaly": "projection",
            "sentence": (
                f"Projection differs from tree: at applied index {row.applied_index}{of_group(row.group)} what "
                f"{row.node} projects has hash {shown[0]}, and its own state says {shown[1]} "
                f"(event {row.event!r} {row.at})."
            ),
            "group": row.group,
            "applied_index": row.applied_index,
            "last_agreed_index": None,
            "replicas": [row.shown()],
        }


def _sentence(anomaly: str, one: Row, other: Row, last_agreed: int | None) -> str:
    by_chain = None not in (one.chain_hash, other.chain_hash) and one.chain_hash != other.chain_hash
    what = "chain hash" if by_chain else "state hash"
    hashes = [(row.chain_hash if by_chain else row.state_hash) or "" for row in (one, other)]
    reported = f"{one.node} reported {what} {hashes[0][:_HASH_SHOWN]} ({one.at})"
    reported += f", {other.node} {hashes[1][:_HASH_SHOWN]} ({other.at})"
    where = f"at applied index {one.applied_index}{of_group(one.group)}"
    before = (
        "No two nodes agreed at a lower index."
        if last_agreed is None
        else f"Before that, nodes last agreed at index {last_agreed}."
    )
    if anomaly == "snapshot":
        return f"Snapshot differs: {where} a state was written down, and another one loaded: {reported}. {before}"
    if anomaly == "divergence":
        return f"Replicas diverged: {where} {reported}. {before}"
    return f"Non-determinism: {where} the same entries led to different states: {reported}. {before}"


def _praise(compared: list[Place], nodes: int) -> str:
    if compared:
        highest = max(index for _, index in compared)
        figures = f"{counted(len(compared), 'index', 'indexes')}, the highest {highest}"
        return f"Replicas agree at every index at which two or more nodes could be compared ({figures})."
    if nodes < 2:
        return f"Nothing to compare: {'only one node reported hashes' if nodes else 'no node reported anything'}."
    return f"Unknown: no two of the {nodes} nodes reported a hash of the same kind at the same index above 0."
