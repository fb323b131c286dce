"""A procedure on one copy of the tables that no other transaction uses: no locks, no votes."""

from __future__ import annotations

from typing import Any

from splitbrain.cluster.tables.procedures import Look, Read, Steps
from splitbrain.cluster.tables.records import Change, Tables


def carried_out(tables: Tables, steps: Steps) -> tuple[Any, list[Change]]:
    """What a procedure returns, and what it changes; nothing is changed yet, nor does it read its own changes."""
    changes: list[Change] = []
    given: Any = None
    try:
        while True:
            step = steps.send(given)
            given = None
            if isinstance(step, Look):
                given = tables
            elif isinstance(step, Read):
                given = tables.read(step.item)
            else:
                changes.append(step)
    except StopIteration as stopped:
        return stopped.value, changes
