"""`splitbrain.log`: what the controller did in a run, one line each, to read beside the nodes' logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO

from splitbrain.results.history import NEMESIS, Op
from splitbrain.results.nemesisop import said
from splitbrain.results.values import canonical_json


class RunLog:
    """Writes down phases, faults, stalls and crashes as they are recorded, and how the run ended.

    Args:
        path: the file.
        left_out: what was asked for and is left out.
    """

    def __init__(self, path: Path, left_out: Sequence[str] = ()) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8")
        for line in left_out:
            self.write(f"left out: {line}")

    def observe(self, op: Op) -> None:
        """Log an op, unless it is a client's or an invocation."""
        if op.process >= 0 or op.type == "invoke":
            return
        is_fault = op.process == NEMESIS and isinstance(op.value, dict)
        what = said(op.value).target if is_fault else canonical_json(op.value)
        error = f"  {op.error}" if op.error else ""
        self.write(f"{op.time / 1e9:10.4f} s  {op.f} {op.type}  {what}{error}")

    def write(self, line: str) -> None:
        """Add a line, flushed at once for readers that follow the file."""
        self._file.write(line + "\n")
        self._file.flush()

    def close(self) -> None:
        """No more lines."""
        self._file.close()
