"""What happened to the run itself: its controller, its nodes, its recovery."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from splitbrain.checkers.coverage.options import Options
from splitbrain.results.calls import seconds
from splitbrain.results.faults import Happenings
from splitbrain.results.reasons import Code, Reason


def of_controller(around: Happenings, wanted: Options) -> Iterator[Reason]:
    """Whether the controller came to the end of the run, and was awake."""
    if wanted.cut_short is not None:
        yield Reason(
            Code.CONTROLLER_KILLED,
            f"the controller of this run was killed or crashed at about {seconds(around.end_ns):.3f} s, before the run "
            f"came to its end (splitbrain {wanted.cut_short}).",
            "Run it again: what was recorded is judged, and what would have followed is not known.",
        )
    for op in around.of_harness("interrupted"):
        yield Reason(
            Code.INTERRUPTED, f"the run was interrupted at {seconds(op.time):.3f} s.", "Let it come to its end."
        )
    stall_s, duration_s = stalled_s(around), seconds(around.end_ns)
    if stall_s > wanted.max_stall_share * duration_s:
        yield Reason(
            Code.MACHINE_BUSY,
            f"the controller was stalled for {stall_s:.3f} s of {duration_s:.1f} s: the machine was too busy, or "
            f"slept.",
            "Run it again on a machine with less load, or with a lower --rate and fewer clients.",
        )


def of_nodes(around: Happenings) -> Iterator[Reason]:
    """Nodes that ended although nothing ended them."""
    for op in around.of_harness("crash"):
        value = cast("dict[str, Any]", op.value or {})
        log = value.get("log")
        yield Reason(
            Code.NODE_ENDED,
            f"node {value.get('node')} ended by itself before {seconds(op.time):.3f} s "
            f"({value.get('exit', 'how is not known')}){f'; its log ends with: {log}' if log else ''}.",
        )


def of_recovery(around: Happenings) -> Iterator[Reason]:
    """Whether the system was usable once everything was healed."""
    if not around.phases:
        return
    recovered = around.of_harness("recovered")
    if not recovered:
        yield Reason(Code.RECOVERY_NOT_SEEN, "the run ended before it was seen whether the system recovers.")
    elif recovery_s(around) is None:
        value = cast("dict[str, Any]", recovered[0].value or {})
        missing = ", ".join(str(node) for node in value.get("missing", ()))
        yield Reason(
            Code.NO_RECOVERY,
            f"the system did not recover in time after everything was healed{f': {missing}' if missing else ''}.",
            "Give it more time with --recovery, if that is how long it may take.",
        )


def recovery_s(around: Happenings) -> float | None:
    """How long the system took to be usable once everything was healed; None if it was not, or nobody saw it."""
    recovered = around.of_harness("recovered")
    value = recovered[0].value if recovered else None
    found = cast("dict[str, Any]", value).get("seconds") if isinstance(value, dict) else None
    return None if found is None else float(found)


def stalled_s(around: Happenings) -> float:
    """For how many seconds the controller stood still."""
    gaps = [
        cast("dict[str, Any]", op.value).get("gap_ms", 0)
        for op in around.of_harness("stall")
        if isinstance(op.value, dict)
    ]
    return round(sum(gaps) / 1000, 6)
