"""Ops that ended as `fail`, and whose effect another op saw all the same: often it is the client that is wrong."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers.linearizable.ops import Ops, show
from splitbrain.checkers.linearizable.transitions import Transition
from splitbrain.checkers.models import UNKNOWN, AssignmentModel, Special, frozen

ROWS: Final = 200_000
"""Longer histories are not searched: this is a word beside the reason, and no part of the verdict."""
_WORDS: Final = 60


def set_by_failed(ops: Ops, model: AssignmentModel, value: str, until: int) -> str:
    """The first op before this row that failed, and would have set this value, in words; "" if there is none."""
    table = ops.table
    if not isinstance(table, pa.Table) or until > ROWS:
        return ""
    called: dict[int, tuple[str, str | None]] = {}
    columns = (table.column(name).slice(0, until).to_pylist() for name in ("type", "process", "f", "value"))
    for row, (kind, process, f, text) in enumerate(zip(*columns, strict=True)):
        if kind == "invoke":
            called[process] = (f, text)
        elif kind == "fail" and process in called and _would_set(model, *called[process]) == value:
            f, text = called[process]
            what = Transition(f, _decoded(text), UNKNOWN)
            error = str(ops.cell("error", row) or "no error")
            said = error if len(error) <= _WORDS else f"{error[:_WORDS]}..."
            where = ops.cell("node", row) or f"process {process}"
            return f", unless {what} took effect, which {where} ended as fail ({said}; op {ops.cell('index', row)})"
    return ""


def _would_set(model: AssignmentModel, f: str, text: str | None) -> str | None:
    """What this op leaves if it happens, as text; None if nothing, or if the model knows of no such op."""
    try:
        left = model.assignment(f, _decoded(text), UNKNOWN).becomes
    except Exception:  # a model of a user's own, and an op that it was never asked about
        return None
    return None if left is Special.ANY else show(left)


def _decoded(text: str | None) -> Any:
    return None if text is None else frozen(msgspec.json.decode(text))
