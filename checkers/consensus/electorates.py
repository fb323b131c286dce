"""Who votes by what a node said: a majority is one of the voters that it had in force, and not of those it lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, TypeAlias

import pyarrow as pa

from splitbrain.checkers.consensus.counts import node_of
from splitbrain.checkers.consensus.rows import Row, rows
from splitbrain.results.arrow import Column, array, compute
from splitbrain.results.columns import text
from splitbrain.results.telemetry import of_consensus

Electorates: TypeAlias = tuple[frozenset[str], ...]
"""All sets of voters, by the names of their nodes, that a node reported in a life up to some row."""

_BETWEEN: Final = "\0"

_SAY: Final = ("start", "role", "members", "cut", "snapshot")
"""Events of rows that come when other voters are in force."""


def with_electorates(telemetry: pa.Table, *events: str) -> Iterator[tuple[Row, Electorates]]:
    """Rows of these events, and some others, with the voters that their nodes had in force in their lives by then.

    There are none as long as a node says nothing of them.
    """
    of_groups = of_consensus(telemetry)
    wanted: Any = compute.is_in(of_groups["event"], value_set=array([*_SAY, *events], pa.string()))
    said = of_groups.filter(wanted)
    joined: Column = compute.binary_join(said["voters"], text(_BETWEEN))
    kept: dict[tuple[str | None, str, int], dict[str, frozenset[str]]] = {}
    for row, voters in zip(rows(said), joined.to_pylist(), strict=True):
        known = kept.setdefault((row.group, row.node, row.life), {})
        if voters and voters not in known:
            known[voters] = frozenset(voters.split(_BETWEEN))
        yield row, tuple(known.values())


def surplus(holders: Collection[str], listed: Collection[str], electorates: Electorates) -> int:
    """How many more voters there are among some members than a majority needs; negative if they are none.

    Args:
        holders: the members.
        listed: those that the node lists as voters, holders among them.
        electorates: the voters that it had in force at some time: it has to be a majority of one of these, too. A
            member that is not listed is no holder.
    """
    by_list = len(holders) - (len(listed) // 2 + 1)
    nodes = {node_of(member) for member in holders}
    by_voters = [len(nodes & voters) - (len(voters) // 2 + 1) for voters in electorates]
    return min(by_list, max(by_voters, default=by_list))


def voters_of(listed: Collection[str], electorates: Electorates) -> list[str]:
    """The voters of which a majority lacks, for a sentence: those of the list, and those that it leaves out."""
    nodes = {node_of(member) for member in listed}
    others = sorted(electorates[-1] - nodes) if electorates else []
    return [*listed, *others]
