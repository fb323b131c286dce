"""Did this test test anything? Reasons why a run proves too little, whatever the other checkers say.

A pass means something only if clients got work done, if the faults that were asked for really took place while clients
were at work, and if the controller itself was awake to record it. Never a violation: reasons make a run inconclusive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec
import numpy as np
import pyarrow as pa

from checkers.verdict import Partition, Verdict
from results.calls import client_calls, seconds
from results.counts import window_counts
from results.errors import UsageError
from results.faults import Happenings, happenings


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run must show.

    Attributes:
        fs: the functions that clients invoke.
        min_ok: ok ops that each of them needs; a number for all, or one for each function (1 for those left out).
        faults: whether faults belong to the test; a list names the kinds of which each must have taken place.
        max_stall_share: share of the run for which the controller may have been stalled.
    """

    fs: tuple[str, ...] = ()
    min_ok: int | dict[str, int] = 1
    faults: bool | tuple[str, ...] = False
    max_stall_share: float = 0.05

    def floor(self, f: str) -> int:
        """The least number of ok ops of `f`."""
        return self.min_ok if isinstance(self.min_ok, int) else self.min_ok.get(f, 1)


class Coverage:
    """Finds reasons why a run is inconclusive; its options are the fields of `Options`.

    The figures: `ok` per function, `stalled_s`, `recovery_s`, and `windows`: when each fault was in force, how the
    client ops ended that were invoked in it, and how many under way in it ended, and were answered.
    """

    name = "coverage"
    partition: Partition = "run"

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Look at one run."""
        wanted = _options(options)
        calls, around = client_calls(history), happenings(history)
        windows = [window_counts(calls, window) for window in around.windows]
        ok = {f: int(np.count_nonzero(calls.are(f) & calls.ended("ok"))) for f in wanted.fs}
        reasons = (
            *_too_few(ok, wanted),
            *_faults(around, windows, wanted),
            *_crashes(around),
            *_recovery(around),
            *_controller(around, wanted),
        )
        sentence = (
            f"Inconclusive: {reasons[0]}"
            if reasons
            else (
                f"The run tested what it was meant to: {len(windows)} fault windows, client ops in each of them."
                if windows
                else "The run tested what it was meant to (no faults were asked for)."
            )
        )
        if len(reasons) > 1:
            sentence += f" ({len(reasons) - 1} more reasons)"
        recovery = _recovery_seconds(around)
        figures: dict[str, Any] = {
            "ok": ok,
            "stalled_s": _stalled_s(around),
            "windows": windows,
            **({} if recovery is None else {"recovery_s": recovery}),
        }
        return Verdict(
            checker=self.name,
            valid="true",
            algorithm="coverage",
            sentence=sentence,
            inconclusive=reasons,
            figures=figures,
        )

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """A run is one partition: there is one verdict."""
        (verdict,) = verdicts
        return verdict


def _options(options: Mapping[str, Any]) -> Options:
    try:
        return msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"checker coverage: {error}; it takes {', '.join(Options.__struct_fields__)}.") from None


def _too_few(ok: Mapping[str, int], wanted: Options) -> Iterator[str]:
    for f, count in ok.items():
        if count < wanted.floor(f):
            yield (
                f"only {count} ok ops of {f!r}, at least {wanted.floor(f)} are needed."
                if count
                else f"no op of {f!r} was ok, at least {wanted.floor(f)} are needed."
            )


def _faults(around: Happenings, windows: list[dict[str, Any]], wanted: Options) -> Iterator[str]:
    for op in around.fault_ops:
        if not op.verified:
            yield f"the nemesis op {op.invoke.f!r} at {seconds(op.invoke.time):.3f} s was not verified: {op.error}"
    kinds = dict.fromkeys(window.fault for window in around.windows if window.start.verified)
    if wanted.faults and not kinds:
        yield "no fault took place although the test asks for faults."
    elif isinstance(wanted.faults, tuple):
        for kind in wanted.faults:
            if kind not in kinds:
                yield f"no fault of kind {kind!r} took place although the test asks for it."
    for kind in kinds:
        bit = [window.bit for window in around.windows if window.fault == kind]
        if all(did is False for did in bit):
            yield f"no fault of kind {kind!r} did anything: what it counted stayed 0 in all {len(bit)} windows."
    for window in windows:
        if not window["ended"]:
            nothing = "none of the client ops under way" if window["under_way"] else "no client op was under way"
            yield (
                f"{nothing} during the {window['fault']} of {window['start_s']:.3f} s to {window['end_s']:.3f} s "
                f"({window['target']}){' ever ended' if window['under_way'] else ''}."
            )


def _crashes(around: Happenings) -> Iterator[str]:
    for op in around.of_harness("crash"):
        value = cast("dict[str, Any]", op.value or {})
        log = value.get("log")
        yield (
            f"node {value.get('node')} ended by itself before {seconds(op.time):.3f} s "
            f"({value.get('exit', 'nobody knows how')}){f'; its log ends with: {log}' if log else ''}."
        )


def _recovery(around: Happenings) -> Iterator[str]:
    if not around.phases:
        return
    recovered = around.of_harness("recovered")
    if not recovered:
        yield "the run ended before it was seen whether the system recovers."
    elif _recovery_seconds(around) is None:
        value = cast("dict[str, Any]", recovered[0].value or {})
        missing = ", ".join(str(node) for node in value.get("missing", ()))
        yield f"the system did not recover in time after everything was healed{f': {missing}' if missing else ''}."


def _recovery_seconds(around: Happenings) -> float | None:
    recovered = around.of_harness("recovered")
    value = recovered[0].value if recovered else None
    found = cast("dict[str, Any]", value).get("seconds") if isinstance(value, dict) else None
    return None if found is None else float(found)


def _controller(around: Happenings, wanted: Options) -> Iterator[str]:
    stalled_s, duration_s = _stalled_s(around), seconds(around.end_ns)
    if stalled_s > wanted.max_stall_share * duration_s:
        yield (
            f"the controller was stalled for {stalled_s:.3f} s of {duration_s:.1f} s: the machine was too busy, or "
            f"slept."
        )
    for op in around.of_harness("interrupted"):
        yield f"the run was interrupted at {seconds(op.time):.3f} s."


def _stalled_s(around: Happenings) -> float:
    gaps = [
        cast("dict[str, Any]", op.value).get("gap_ms", 0)
        for op in around.of_harness("stall")
        if isinstance(op.value, dict)
    ]
    return round(sum(gaps) / 1000, 6)
