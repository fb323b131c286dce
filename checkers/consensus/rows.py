"""Telemetry row by row, and the words that these checkers use for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any, Final, NamedTuple, cast

import msgspec
import pyarrow as pa

from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import compute
from splitbrain.results.calls import seconds
from splitbrain.results.errors import UsageError
from splitbrain.results.once import is_kept, once
from splitbrain.results.reasons import Code, Reason
from splitbrain.results.telemetry import OF_STREAMS, TABLES


class Row(NamedTuple):
    """The columns of `splitbrain.results.arrow.TELEMETRY_SCHEMA` that these checkers read, in its order."""

    time: int
    node: str
    group: str | None
    life: int
    event: str
    term: int | None
    role: str | None
    leader: str | None
    commit_index: int | None
    applied_index: int | None
    chain_hash: str | None
    state_hash: str | None
    last_index: int | None = None
    projection_hash: str | None = None
    projected_hash: str | None = None
    applied_count: int | None = None
    log_index: int | None = None
    log_term: int | None = None
    log_hash: str | None = None
    raised_by: str | None = None
    members: str | None = None
    counted_index: int | None = None
    counted: str | None = None

    @property
    def at(self) -> str:
        """The time, and the life of the node if rows of its group say when one begins, in words."""
        return f"at {self.time / 1e9:.3f} s" + (f" in life {self.life}" if self.life else "")

    def shown(self) -> dict[str, Any]:
        """The row as evidence, without empty columns."""
        columns = {name: value for name, value in self._asdict().items() if value is not None and name != "time"}
        return {"time_s": seconds(self.time), **columns}


WOULD_START: Final = "recoverable"
WOULD_NOT_START: Final = "unrecoverable"
"""Events of rows that say what a node would recover after a loss of power at that moment: it has said nothing there."""


def rows(telemetry: pa.Table) -> Iterator[Row]:
    """The rows of groups of consensus, in the table's order, without those of what a node would recover."""
    return iter(once(telemetry, _said)) if is_kept(telemetry) else _without_images(_of_consensus(telemetry))


def every_row(telemetry: pa.Table) -> Iterator[Row]:
    """The rows of groups of consensus, in the table's order."""
    return iter(once(telemetry, _all)) if is_kept(telemetry) else _of_consensus(telemetry)


def rows_of_tables(telemetry: pa.Table) -> Iterator[Row]:
    """The rows of table stores, in the table's order: those of nodes without consensus are of no group."""
    return (row for row in _every_row(telemetry) if row.group is None or row.group == TABLES)


def _said(telemetry: pa.Table) -> tuple[Row, ...]:
    return tuple(_without_images(every_row(telemetry)))


def _all(telemetry: pa.Table) -> tuple[Row, ...]:
    return tuple(_of_consensus(telemetry))


def _of_consensus(telemetry: pa.Table) -> Iterator[Row]:
    return (row for row in _every_row(telemetry) if row.group != TABLES and not _is_of_stream(row))


def rows_of_streams(telemetry: pa.Table) -> Iterator[Row]:
    """The rows of writers of streams, in the table's order."""
    return filter(_is_of_stream, _every_row(telemetry.filter(compute.starts_with(telemetry["group"], OF_STREAMS))))


def _is_of_stream(row: Row) -> bool:
    return row.group is not None and row.group.startswith(OF_STREAMS)


def _without_images(table: Iterator[Row]) -> Iterator[Row]:
    return (row for row in table if row.event not in (WOULD_START, WOULD_NOT_START))


def _every_row(telemetry: pa.Table) -> Iterator[Row]:
    columns = [telemetry.column(name).to_pylist() for name in Row._fields]
    make = cast(Any, tuple).__new__  # as Row._make, in half of the time
    return map(make, repeat(Row), zip(*columns, strict=True))


def of_group(group: str | None) -> str:
    """A group in words, with a blank before it; "" where the system has no groups."""
    if group is not None and group.startswith(OF_STREAMS):
        return f" of stream {group.removeprefix(OF_STREAMS)}"
    return "" if group is None else f" of group {group!r}"


def refuse_options(checker: str, options: Mapping[str, Any]) -> None:
    """Refuse options for a checker that has none.

    Raises:
        UsageError: options were given.
    """
    if options:
        raise UsageError(f"checker {checker} takes no options, not {', '.join(map(repr, options))}.")


def with_reason(verdict: Verdict) -> Verdict:
    """The verdict; an "unknown" gets its reason: the telemetry lacks what this checker needs."""
    if verdict.valid != "unknown":
        return verdict
    return msgspec.structs.replace(verdict, inconclusive=(Reason(Code.NO_TELEMETRY, verdict.sentence),))
