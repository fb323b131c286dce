"""When client ops were due, and whether the requested load was reached.

A test asks for ops by a schedule (`--rate`). An op that finds no client free begins later than it was due, and a
latency from its invocation leaves out that wait: the slower the system, the fewer ops see it (coordinated omission;
Tene, "How NOT to Measure Latency", 2013). So an op has two latencies, from its invocation and from when it was due.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from splitbrain.results.calls import OPEN, Bools, Calls, Ints, ints
from splitbrain.results.columns import numbers, valid
from splitbrain.results.faults import RunEvents

Floats: TypeAlias = npt.NDArray[np.float64]

NEVER: Final = 2**62
"""The end of an op that did not end."""

SHORT: Final = 0.95
"""An achieved rate below this share of the requested rate is reported in a sentence."""


class Arrivals(msgspec.Struct, frozen=True):
    """Client ops, in the order of their invocations; one element per op in each array, times in ns of the test.

    Attributes:
        due: when it was due; its invocation where no schedule asked for it.
        begun: when it was invoked.
        ended: when it was completed; NEVER for an op without a completion.
        scheduled: whether a schedule asked for it.
    """

    due: Ints
    begun: Ints
    ended: Ints
    scheduled: Bools

    @property
    def latency_ms(self) -> Floats:
        """Milliseconds from invocation to completion; of an op without a completion the number means nothing."""
        return (self.ended - self.begun) / 1e6

    @property
    def due_latency_ms(self) -> Floats:
        """Milliseconds from when it was due to completion, likewise."""
        return (self.ended - self.due) / 1e6


def arrivals(calls: Calls) -> Arrivals:
    """When the ops of a history were due, began and ended."""
    begun = ints(calls.table, "time")[calls.invoke]
    if not len(begun):
        return Arrivals(begun, begun, begun, np.zeros(0, dtype=np.bool_))
    column: Any = calls.table["due"]
    scheduled = valid(column)[calls.invoke]
    stored = numbers(column, null=NEVER)[calls.invoke]
    times = ints(calls.table, "time")
    # An imported history may say anything: an op is due when it begins at the latest, and does not end before that.
    return Arrivals(
        due=np.minimum(stored, begun),
        begun=begun,
        ended=np.where(calls.complete == OPEN, NEVER, np.maximum(times[calls.complete], begun)),
        scheduled=scheduled,
    )


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The load that a test asks for.

    Attributes:
        rate: ops a second of all clients together; None if that is not known.
        time_limit_s: for how long, from the beginning of the faults phase; None likewise.
        burst: how many ops are due at once.
    """

    rate: float | None = None
    time_limit_s: float | None = None
    burst: int = 1


class Load(msgspec.Struct, frozen=True):
    """Whether the schedule was kept.

    Attributes:
        asked_per_s: the rate that the test asked for; that of the schedule where the test does not say.
        offered_per_s: ops a second that were due; lower than asked where the workload had nothing to do meanwhile.
        achieved_per_s: ops a second that were begun, over the time in which ops were due.
        begun: how many were.
        never_begun: how many more were due by the end, and found no client free.
        behind_s: how long an op waited for a free client, at most.
    """

    asked_per_s: float
    offered_per_s: float
    achieved_per_s: float
    begun: int
    never_begun: int
    behind_s: float

    def document(self) -> dict[str, Any]:
        """As JSON, with `short` and `sentence`."""
        return {**msgspec.structs.asdict(self), "short": self.short, "sentence": self.sentence()}

    @property
    def short(self) -> bool:
        """Whether clearly less was achieved than requested, by two ops at least."""
        wanted = self.begun * self.asked_per_s / self.achieved_per_s
        return self.achieved_per_s < SHORT * self.asked_per_s and self.begun <= wanted - 2

    def sentence(self) -> str | None:
        """A sentence that says why the rate was not achieved; None if it was."""
        if not self.short:
            return None
        problem = f"The rate was too low: {self.asked_per_s:g} ops a second requested, {self.achieved_per_s:.3g} begun"
        late = f"ops began up to {self.behind_s:.3g} s late" if self.behind_s > 1 / self.asked_per_s else ""
        never = f"{self.never_begun:,} that were due never began" if self.never_begun else ""
        if late or never:
            waited = " and ".join(each for each in (late, never) if each)
            return (
                f"{problem}, since no client was free: {waited}. Give more clients (--concurrency), or a lower --rate."
            )
        return f"{problem}, since the workload had no more to do."


def load(found: Arrivals, events: RunEvents, asked: Asked) -> Load | None:
    """The load of a run; None where fewer than two ops were due by a schedule."""
    due, begun = found.due[found.scheduled], found.begun[found.scheduled]
    count = len(due)
    if count < 2:
        return None
    first_ns, last_ns = int(due.min()), int(due.max())
    interval_ns = max(1.0, (last_ns - first_ns) / max(count - asked.burst, 1))
    next_ns = asked.burst * interval_ns
    end_ns = max(_due_until_ns(begun, events, asked), last_ns + next_ns)
    later = -count % asked.burst + asked.burst * int((end_ns - last_ns - 1) / next_ns)
    missed = 0 if _idle(found, int(begun.max()), end_ns) else later
    offered = (count + missed) * 1e9 / (end_ns - first_ns)
    return Load(
        asked_per_s=round(1e9 / interval_ns, 3) if asked.rate is None else asked.rate,
        offered_per_s=round(offered, 3),
        achieved_per_s=round(count * 1e9 / (end_ns - first_ns), 3),
        begun=count,
        never_begun=missed,
        behind_s=round(int((begun - due).max()) / 1e9, 6),
    )


def _due_until_ns(begun: Ints, events: RunEvents, asked: Asked) -> int:
    """Until when ops were due: the time limit, or the moment at which the run was interrupted.

    If the faults phase ended before that, the workload had no more ops after the last one that began.
    """
    faults = next((phase for phase in events.phases if phase.name == "faults"), None)
    if faults is None or asked.time_limit_s is None:
        return int(begun.max())
    stops = [op.time for op in events.of_harness("interrupted")]
    until_ns = min([faults.begin_ns + round(asked.time_limit_s * 1e9), *stops])
    ended_by_itself = faults is not events.phases[-1] and faults.end_ns < until_ns
    return int(begun.max()) if ended_by_itself else min(until_ns, events.end_ns)


def _idle(found: Arrivals, last_begun_ns: int, end_ns: float) -> bool:
    """Whether a client was free, and received no op, after the last op began."""
    return bool(np.any((found.ended > last_begun_ns) & (found.ended < end_ns)))
