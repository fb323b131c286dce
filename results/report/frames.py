"""What stands behind the curves of a run: the windows of its faults, and where its phases begin."""

from __future__ import annotations

from splitbrain.results.faults import RunEvents
from splitbrain.results.report.curves import Band, Frame


def frame_of(events: RunEvents) -> Frame:
    """The whole run, from its beginning to its last event."""
    return Frame(
        events.end_ns / 1e9,
        [
            Band(window.begin_ns / 1e9, window.end_ns / 1e9, f"{window.fault}: {window.target}"[:200])
            for window in events.windows
        ],
        [phase.begin_ns / 1e9 for phase in events.phases],
    )
