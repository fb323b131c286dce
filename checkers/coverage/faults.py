"""Whether the requested faults took place, had an effect, and had client ops under way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from splitbrain.checkers.coverage.options import Options
from splitbrain.results.calls import seconds
from splitbrain.results.faults import RunEvents
from splitbrain.results.reasons import Code, Reason

_MORE_TIME = "Give it a longer --time-limit, a shorter --interval, or fewer kinds of --nemesis."
_MORE_LOAD = "Give it a higher --rate or more clients, or faults that last longer."


def of_faults(events: RunEvents, windows: Sequence[dict[str, Any]], wanted: Options) -> Iterator[Reason]:
    """The reasons that come from faults.

    Args:
        events: the run events.
        windows: what clients did while each fault was in force (`splitbrain.results.counts.window_counts`).
        wanted: the options, with the faults that the test asks for.
    """
    for op in events.fault_ops:
        if not op.verified:
            yield Reason(
                Code.FAULT_NOT_VERIFIED,
                f"the nemesis op {op.invoke.f!r} at {seconds(op.invoke.time):.3f} s was not verified: {op.error}",
            )
    kinds = dict.fromkeys(window.fault for window in events.windows if window.start.verified)
    yield from _missing(list(kinds), wanted)
    for kind in kinds:
        bit = [window.bit for window in events.windows if window.fault == kind]
        if all(did is False for did in bit):
            yield Reason(
                Code.FAULT_DID_NOT_BITE,
                f"no fault of kind {kind!r} had an effect: its counters stayed 0 in {_all(len(bit))}.",
                "Give it a stronger fault, or one that lasts longer.",
            )
    for window in windows:
        if not window["ended"]:
            yield _unmet(window)


def _all(windows: int) -> str:
    return "its only window" if windows == 1 else f"all {windows} windows"


def _missing(kinds: Sequence[str], wanted: Options) -> Iterator[Reason]:
    if wanted.faults and not kinds:
        yield Reason(Code.NO_FAULT, "no fault took place although the test asks for faults.", _MORE_TIME)
    elif isinstance(wanted.faults, tuple):
        for kind in wanted.faults:
            if kind not in kinds:
                sentence = f"no fault of kind {kind!r} took place although the test asks for it."
                yield Reason(Code.NO_FAULT, sentence, _MORE_TIME)


def _unmet(window: dict[str, Any]) -> Reason:
    nothing = "no client op that was under way ended" if window["under_way"] else "no client op was under way"
    return Reason(
        Code.FAULT_MET_NO_LOAD,
        f"{nothing} during the {window['fault']} from {window['start_s']:.3f} s to {window['end_s']:.3f} s "
        f"({window['target']}).",
        _MORE_LOAD,
    )
