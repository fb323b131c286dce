"""Telemetry row by row, and how these checkers speak of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from splitbrain.checkers.verdict import Verdict
from splitbrain.results.calls import seconds
from splitbrain.results.errors import UsageError
from splitbrain.results.reasons import Code, Reason

LISTED: Final = 20
"""How many findings go into a verdict's evidence."""


class Row(NamedTuple):
    """What these checkers read of a row of `splitbrain.results.arrow.TELEMETRY_SCHEMA`, in the order of its columns."""

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

    @property
    def at(self) -> str:
        """When, and in which life of the node, in words."""
        return f"at {self.time / 1e9:.3f} s in life {self.life}"

    def shown(self) -> dict[str, Any]:
        """The row as evidence: what it says, without what it leaves open."""
        told = {name: value for name, value in self._asdict().items() if value is not None and name != "time"}
        return {"time_s": seconds(self.time), **told}


def rows(telemetry: pa.Table) -> Iterator[Row]:
    """The rows of a table, in its order."""
    columns = [telemetry.column(name).to_pylist() for name in Row._fields]
    return map(Row._make, zip(*columns, strict=True))


def of_group(group: str | None) -> str:
    """A group in words, with the blank before it; nothing where the system has no groups."""
    return "" if group is None else f" of group {group!r}"


def refuse_options(checker: str, options: Mapping[str, Any]) -> None:
    """A checker without options takes none.

    Raises:
        UsageError: there are some.
    """
    if options:
        raise UsageError(f"checker {checker} takes no options, not {', '.join(map(repr, options))}.")


def untold(verdict: Verdict) -> Verdict:
    """The verdict; an "unknown" gets its reason: the nodes did not tell what it takes to judge them."""
    if verdict.valid != "unknown":
        return verdict
    return msgspec.structs.replace(verdict, inconclusive=(Reason(Code.NO_TELEMETRY, verdict.sentence),))
