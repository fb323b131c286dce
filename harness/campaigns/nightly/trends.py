"""The figures of a night as a table, and what has changed since the nights before."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from splitbrain.harness.campaigns.nightly.cells import Cell
from splitbrain.results import nighttables, runfigures
from splitbrain.results.changes import Trends, trends_of
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.nights import Night, Ran
from splitbrain.results.nighttables import NightTable

LOOKED_AT: Final = 30
"""How many nights before are read: a cell need not be in each of them."""


def row_of(night: Night, run: Ran, cell: Cell, store: Path, fixed: Collection[int]) -> dict[str, Any]:
    """The row of a run in the table of its night; `fixed` are seeds that every night has."""
    what = {
        **msgspec.structs.asdict(cell),
        "night": night.name,
        "began": datetime.fromisoformat(night.began),
        "revision": night.revision,
        "cell": run.cell,
        "seed": run.seed,
        "why": "fixed" if run.seed in fixed else run.why,
        "outcome": run.outcome,
        "folder": "" if run.run is None else os.path.relpath(run.run, store),
    }
    return runfigures.row(run.figures, what)


def since(before: Sequence[Night], written: Path) -> Trends:
    """What has changed.

    Args:
        before: earlier nights, the oldest first; one without a table says nothing.
        written: the table of tonight.
    """
    tables: list[NightTable] = []
    problems: list[str] = []
    for night in before[-LOOKED_AT:]:
        path = written.with_name(f"{night.name}.parquet")
        if not path.exists():
            continue
        try:
            tables += nighttables.read_nights([path])
        except HistoryFormatError as error:
            problems.append(str(error))
    [tonight] = nighttables.read_nights([written])
    known = [change for night in before for change in night.trends.changes]
    return msgspec.structs.replace(trends_of(tonight, tables, known), problems=tuple(problems))
