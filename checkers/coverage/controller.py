"""Reasons that come from the run itself: its controller, its nodes, its recovery."""

from __future__ import annotations

from collections.abc import Iterator

from splitbrain.checkers.coverage.options import Options
from splitbrain.results.calls import seconds
from splitbrain.results.faults import RunEvents
from splitbrain.results.notes import Ended, Interrupted, NodeEnded, Stalled, Usable
from splitbrain.results.reasons import ADVICE_FOR_BLOCKED, Code, Reason


def of_controller(events: RunEvents, wanted: Options) -> Iterator[Reason]:
    """Whether the controller reached the end of the run, and was not stalled."""
    if wanted.cut_short is not None:
        yield Reason(
            Code.CONTROLLER_KILLED,
            f"the controller of this run was killed or crashed at about {seconds(events.end_ns):.3f} s, before the end "
            f"of the run (splitbrain {wanted.cut_short}).",
            "Run it again: only the recorded part could be judged.",
        )
    elif wanted.ended and not events.notes("ended", Ended):
        yield Reason(
            Code.HISTORY_CUT,
            f"the history stops at {seconds(events.end_ns):.3f} s, before the end of the run: its last rows are lost.",
            "Run it again, or bring back the whole history: only what is left of it could be judged.",
        )
    for op, asked in events.notes("interrupted", Interrupted):
        at = f"{seconds(op.time):.3f} s"
        if not asked.why:
            yield Reason(Code.INTERRUPTED, f"the run was interrupted at {at}.", "Run it again, to its end.")
        elif asked.requests == 1:
            yield Reason(Code.CLIENT_FAILED, f"the run was ended at {at}: {asked.why}.", ADVICE_FOR_BLOCKED)
    stall_s, duration_s = stalled_s(events), seconds(events.end_ns)
    if stall_s > wanted.max_stall_share * duration_s:
        yield Reason(
            Code.MACHINE_BUSY,
            f"the controller was stalled for {stall_s:.3f} s of {duration_s:.1f} s: the machine was too busy, or was "
            f"suspended.",
            "Run it again on a machine with less load, or with a lower --rate and fewer clients.",
        )


def of_nodes(events: RunEvents) -> Iterator[Reason]:
    """Nodes that ended although no fault stopped them."""
    for op, ended in events.notes("crash", NodeEnded):
        log = f"; its log ends with: {ended.log}" if ended.log else ""
        yield Reason(
            Code.NODE_ENDED,
            f"node {ended.node} ended by itself before {seconds(op.time):.3f} s ({ended.how}){log}.",
        )


def of_recovery(events: RunEvents) -> Iterator[Reason]:
    """Whether the system was usable once everything was healed."""
    if not events.phases:
        return
    recovered = events.notes("recovered", Usable)
    if not recovered:
        yield Reason(Code.RECOVERY_NOT_SEEN, "the run ended before recovery could be checked.")
    elif recovery_s(events) is None:
        missing = ", ".join(recovered[0][1].missing)
        yield Reason(
            Code.NO_RECOVERY,
            f"the system did not recover in time after everything was healed{f': {missing}' if missing else ''}.",
            "If the system may take that long, set a longer --recovery.",
        )


def recovery_s(events: RunEvents) -> float | None:
    """Seconds from the heal until the system was usable; None if it was not usable, or that was not checked."""
    recovered = events.notes("recovered", Usable)
    return recovered[0][1].seconds if recovered else None


def stalled_s(events: RunEvents) -> float:
    """For how many seconds the controller was stalled."""
    return round(sum(stall.gap_ms for _, stall in events.notes("stall", Stalled)) / 1000, 6)
