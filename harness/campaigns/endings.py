"""How far the record of a run goes that did not come to its end, and what of it another run of its seed repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
import numpy as np

from splitbrain.results.arrow import history_hash, recovered_note
from splitbrain.results.calls import ints
from splitbrain.results.faults import run_events

if TYPE_CHECKING:
    import pyarrow as pa

    from splitbrain.results.rundir import RunDir

How: TypeAlias = Literal["interrupted", "killed", "running", "empty"]


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run was ended early.

    Attributes:
        how: "interrupted" by Ctrl-C or a signal; "killed" where the controller died; "running" for
            one that is alive; "empty" for a run that recorded nothing.
        at_ns: when, since the test began; of a killed one, when its record ends.
        rows: the number of rows, from the first, that every run of the seed has.
        beginning: the hash (`splitbrain.results.arrow.history_hash`) of these rows.
    """

    how: How
    at_ns: int
    rows: int
    beginning: str

    @property
    def sentence(self) -> str:
        """How the run ended, in words that more can follow."""
        at_s = f"{self.at_ns / 1e9:.1f} s"
        return {
            "interrupted": f"the run was interrupted at {at_s}",
            "killed": f"the controller of the run was killed or crashed at about {at_s}",
            "running": f"the run is still in progress, at {at_s}",
            "empty": "the run was ended early",
        }[self.how]


def cut_of(run: RunDir, history: pa.Table) -> Cut | None:
    """Where a simulated run was ended early; None for one that came to its end.

    Args:
        run: the run.
        history: what it recorded.

    Raises:
        HistoryFormatError: the lock of its controller cannot be read.
    """
    times = ints(history, "time")
    for asked in run_events(history).of_harness("interrupted")[:1]:
        # Other rows of that instant may be the interrupt's own doing.
        return _cut("interrupted", asked.time, int(np.argmax(times >= asked.time)), history)
    if not len(times):
        return _cut("empty", 0, 0, history)
    if recovered_note(history) is None:
        return None
    return _cut("running" if run.is_running() else "killed", int(times[-1]), len(times), history)


def _cut(how: How, at_ns: int, rows: int, history: pa.Table) -> Cut:
    return Cut(how=how, at_ns=at_ns, rows=rows, beginning=history_hash(history.slice(0, rows)))
