"""When no fault can have moved a consumer: none was in force, and none had been for some time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa

from splitbrain.checkers.coverage.outages import calm
from splitbrain.checkers.durations import nanoseconds
from splitbrain.checkers.quorum.windows import DIED_WITHIN_NS
from splitbrain.results.faults import RunEvents, run_events
from splitbrain.results.notes import NodeEnded


class Calm(msgspec.Struct, frozen=True):
    """The spans without a fault.

    Attributes:
        spans: from and to, in nanoseconds, in the order of time.
    """

    spans: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, checker: str, history: pa.Table, options: Mapping[str, Any], settle_s: float) -> Calm:
        """Those of a run: no fault is in force, and none was in the `settle_s` before; none after a node crashed.

        A node that gave up over its disk while a fault was in force is started again by what heals that fault.

        Args:
            checker: for the error.
            history: with the ops of the nemesis and of the harness.
            options: whose `settle_s` is used if there is one.
            settle_s: the default.

        Raises:
            UsageError: the option is wrong.
        """
        settle_ns = nanoseconds(checker, options, "settle_s", settle_s)
        events = run_events(history)
        deaths = [op.time for op, _ in events.notes("crash", NodeEnded)]
        deaths += [op.time for op, _ in events.notes("halt", NodeEnded) if not _is_under_a_fault(events, op.time)]
        end_ns = min((died_ns - DIED_WITHIN_NS for died_ns in deaths), default=events.end_ns)
        found = [
            (begin + settle_ns if after_fault else begin, end)
            for begin, end, after_fault in calm(events, 0, end_ns + 1)
        ]
        return cls(tuple(span for span in found if span[0] < span[1]))

    def since(self, at_ns: int) -> int:
        """When the span began in which a time lies; the time itself if it lies in none."""
        at = bisect_right(self.spans, (at_ns, 2**63)) - 1
        return self.spans[at][0] if at >= 0 and at_ns <= self.spans[at][1] else at_ns

    @property
    def troubles(self) -> list[tuple[int, int]]:
        """The spans between them, in each of which a fault was in force."""
        return [(before[1], after[0]) for before, after in pairwise(self.spans)]

    def longest_trouble(self, begin_ns: int, end_ns: int, back_ns: int) -> int:
        """For how long at most a fault was in force, by the end of a time, that was within that time; 0 if none was.

        Faults between which less than `back_ns` passed without one count as one, and one is felt so much longer.
        """
        longest, from_ns = 0, 0
        for calm_from, calm_to in (*self.spans, (2**62, 2**62)):
            if calm_to - calm_from < back_ns and calm_from < 2**62:
                continue
            until_ns = min(calm_from + back_ns, end_ns)
            if calm_from > from_ns and until_ns > begin_ns and from_ns < end_ns:
                longest = max(longest, until_ns - from_ns)
            from_ns = calm_to
        return longest

    def covers(self, begin_ns: int, end_ns: int) -> bool:
        """Whether a time lies within one span, both ends included."""
        at = bisect_right(self.spans, (begin_ns, 2**63)) - 1
        return at >= 0 and end_ns <= self.spans[at][1]


def _is_under_a_fault(events: RunEvents, found_ns: int) -> bool:
    """Whether a fault may have been in force when a node may have ended that was found dead.

    It may be from when it is injected: a node that reads a damaged file ends before that is verified.
    """
    return any(
        window.start.invoke.time <= found_ns and window.end_ns >= found_ns - DIED_WITHIN_NS for window in events.windows
    )
