"""What nodes counted: the columns `counted_index` and `counted`, whose meaning depends on the event of a row."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from splitbrain.checkers.consensus.rows import Row, rows
from splitbrain.results.arrow import compute
from splitbrain.results.columns import array
from splitbrain.results.errors import HistoryFormatError

_INCARNATION = "#"
"""Between the name of a node and which life of its data it is, in the id of a member."""


def with_counts(telemetry: pa.Table, *events: str) -> Iterator[Row]:
    """The rows of these events that say what was counted, in the order of the table.

    A row without it is not one that counted nothing, which says so by a text without members.
    """
    said = telemetry.filter(compute.and_(*(telemetry.column(name).is_valid() for name in ("counted_index", "counted"))))
    return rows(said.filter(compute.is_in(said.column("event"), value_set=array(list(events), pa.string()))))


def counts_of(row: Row) -> dict[str, int]:
    """What a row counted, for each member.

    Raises:
        HistoryFormatError: the row does not say so in the form `n1=17 n2#1=12`.
    """
    said = {member: number for member, _, number in (each.rpartition("=") for each in (row.counted or "").split())}
    if not all(member and number.isascii() and number.isdigit() for member, number in said.items()):
        raise HistoryFormatError(
            "telemetry.parquet", f"column 'counted' holds {row.counted!r} {row.at}, expected n1=17 n2=12 and so on"
        )
    return {member: int(number) for member, number in said.items()}


def node_of(member: str) -> str:
    """The node of a member, by its id."""
    return member.partition(_INCARNATION)[0]
