"""How far the clocks of nodes' hosts are from the controller's: estimated from questions and answers.

Cristian's method (Probabilistic clock synchronization, 1989), as NTP uses it (RFC 5905, sections 8 and 10): a host is
asked what its clock shows; it looked between the question and the answer. If it looked half-way, its clock is ahead by
what it showed less the middle of the two; the truth cannot be further from that than half of the time between. Of
several exchanges the shortest one is the most exact. The two ways need not take equally long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from splitbrain.harness.contract.nodes import ClockOffset, NodeId

EXCHANGES: Final = 16
"""How often a host is asked: enough for one exchange that nothing held up."""


class Exchange(msgspec.Struct, frozen=True):
    """A question and its answer.

    Attributes:
        asked_ns: what the controller's monotonic clock showed before the question was sent.
        mono_ns: what the host's monotonic clock showed when it answered.
        wall_ns: what the host's wall clock showed then.
        answered_ns: what the controller's monotonic clock showed when the answer was there.
    """

    asked_ns: int
    mono_ns: int
    wall_ns: int
    answered_ns: int


def estimate(exchanges: Iterable[Exchange], epoch_ns: int) -> ClockOffset:
    """How far a host's clocks are ahead, from at least one exchange.

    Args:
        exchanges: with the host.
        epoch_ns: how far the controller's wall clock is ahead of its monotonic one.
    """
    best = min(exchanges, key=lambda exchange: exchange.answered_ns - exchange.asked_ns)
    mono_ns = best.mono_ns - (best.asked_ns + best.answered_ns) // 2
    # Rounded up, and one more for the middle, which was rounded down.
    error_ns = (best.answered_ns - best.asked_ns + 1) // 2 + 1
    return ClockOffset(mono_ns, mono_ns + best.wall_ns - best.mono_ns - epoch_ns, error_ns)


def between(first: ClockOffset, last: ClockOffset) -> ClockOffset:
    """How far a clock was ahead at any time between two estimates, if what it gains it gained in one direction.

    What it drifted meanwhile widens the error.
    """
    drifted_ns = abs(last.mono_ns - first.mono_ns)
    return ClockOffset(
        mono_ns=(first.mono_ns + last.mono_ns) // 2,
        wall_ns=(first.wall_ns + last.wall_ns) // 2,
        error_ns=max(first.error_ns, last.error_ns) + (drifted_ns + 1) // 2,
    )


def all_between(
    first: Mapping[NodeId, ClockOffset], last: Mapping[NodeId, ClockOffset]
) -> Mapping[NodeId, ClockOffset]:
    """`between` for every node that is in both."""
    return {node: between(offset, last[node]) for node, offset in first.items() if node in last}


def noted(offsets: Mapping[NodeId, ClockOffset]) -> dict[str, Any]:
    """The value, in seconds, of the op "clocks" that records them (read by `splitbrain.results.clocks`)."""
    return {
        "offsets_s": {node: offset.mono_ns / 1e9 for node, offset in offsets.items()},
        "errors_s": {node: offset.error_ns / 1e9 for node, offset in offsets.items()},
        "walls_s": {node: offset.wall_ns / 1e9 for node, offset in offsets.items()},
    }
