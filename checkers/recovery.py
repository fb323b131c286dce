"""Liveness: the system is usable within a bound once it was started, and again once everything is healed.

Usable means: every node runs, all follow one leader, a session on each answers a read. The harness checks that once it
has healed everything, and records the result; this checker compares it with a bound. A run that ends cannot refute
"eventually", but it can refute a bound (TigerBeetle's liveness mode does the same).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from splitbrain.checkers.durations import refuse_others
from splitbrain.checkers.verdict import OfOneRun, Partition, Valid, Verdict
from splitbrain.results.calls import seconds
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import RunEvents, run_events
from splitbrain.results.history import Op
from splitbrain.results.notes import NodeEnded, Usable
from splitbrain.results.reasons import Code, Reason


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Attributes: bound_s is how long the healed system may take, in seconds."""

    bound_s: float = 20.0


class Recovery(OfOneRun):
    """Judges the harness ops "started" and "recovered"; its options are the fields of `Options`.

    no-start      the system was not usable within the time that its first start may take, before any fault
    no-recovery   the healed system was not usable within the bound

    The op "started" is there only if the system was not usable, and then alone.

    Unknown: the run ended before that op, or was interrupted before the bound was over, or the harness waited less
    than the bound. The figures: `bound_s`, and `recovery_s` or, if it did not recover, `waited_s`.
    """

    name = "recovery"
    partition: Partition = "run"
    counts_ops = True

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run."""
        bound_s = _options(options).bound_s
        events = run_events(history)
        for note, usable in events.notes("started", Usable):
            return self._not_started(note, usable)
        notes = events.notes("recovered", Usable)
        if not notes:
            sentence = "Unknown: the run ended before recovery could be checked."
            return self._unknown(Code.RECOVERY_NOT_SEEN, sentence)
        note, usable = notes[0]
        recovery_s = usable.seconds
        if recovery_s is None:
            return self._not_in_time(note, usable, events, bound_s)
        figures = {"bound_s": bound_s, "recovery_s": recovery_s}
        if recovery_s <= bound_s:
            sentence = f"Every node was usable {recovery_s:.3f} s after everything was healed (bound: {bound_s:g} s)."
            return self._verdict("true", sentence, figures)
        sentence = (
            f"No recovery within {bound_s:g} s: every node was usable only {recovery_s:.3f} s after everything was "
            f"healed."
        )
        return self._verdict("false", sentence, figures, {"op": note.index, "seconds": recovery_s})

    def _not_started(self, note: Op, usable: Usable) -> Verdict:
        problems, waited_s = usable.of_each(), usable.waited_s
        sentence = f"No start: the nodes were not usable within {waited_s:g} s of their start: {_who(problems)}."
        evidence = {"op": note.index, "problems": problems}
        return self._verdict("false", sentence, {"waited_s": waited_s}, evidence, anomaly="no-start")

    def _not_in_time(self, note: Op, usable: Usable, events: RunEvents, bound_s: float) -> Verdict:
        waited_s = seconds(note.time - _healed_ns(events, note.time))
        figures = {"bound_s": bound_s, "waited_s": waited_s}
        problems = usable.of_each()
        if any(op.index < note.index for op in events.of_harness("interrupted")):
            sentence = "Unknown: the run was interrupted before the recovery bound was over."
            return self._unknown(Code.INTERRUPTED, sentence, figures)
        if waited_s < bound_s:
            sentence = f"Unknown: the harness waited only {waited_s:.3f} s for recovery; the bound is {bound_s:g} s."
            return self._unknown(Code.NO_RECOVERY, sentence, figures, "Set --recovery to at least the bound.")
        if problems and problems.keys() <= _damaged(events):
            sentence = f"Unknown: these nodes do not run, since their disks lost data: {', '.join(problems)}."
            return self._unknown(Code.NO_RECOVERY, sentence, figures)
        sentence = f"No recovery within {bound_s:g} s after everything was healed: {_who(problems)}."
        evidence = {"op": note.index, "time_s": seconds(note.time), "problems": problems}
        return self._verdict("false", sentence, figures, evidence)

    def _unknown(self, code: Code, sentence: str, figures: dict[str, Any] | None = None, advice: str = "") -> Verdict:
        verdict = self._verdict("unknown", sentence, figures)
        return msgspec.structs.replace(verdict, inconclusive=(Reason(code, sentence, advice),))

    def _verdict(
        self,
        valid: Valid,
        sentence: str,
        figures: dict[str, Any] | None = None,
        evidence: dict[str, Any] | None = None,
        anomaly: str = "no-recovery",
    ) -> Verdict:
        return Verdict(
            checker=self.name,
            valid=valid,
            algorithm="bound",
            sentence=sentence,
            anomalies=(anomaly,) if valid == "false" else (),
            figures=figures or {},
            evidence=evidence or {},
        )


def _damaged(events: RunEvents) -> set[str]:
    """Nodes that stopped because their disk lost data."""
    return {halt.node for _, halt in events.notes("halt", NodeEnded) if halt.damaged}


def _options(options: Mapping[str, Any]) -> Options:
    refuse_others("recovery", options, ("bound_s",), above_0=True)
    try:
        return msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"checker recovery: {error}; it takes {', '.join(Options.__struct_fields__)}.") from None


def _healed_ns(events: RunEvents, until_ns: int) -> int:
    """When the harness began to wait, as far as a history shows it: in the heal phase, after the last nemesis op."""
    begun = [phase.begin_ns for phase in events.phases if phase.name == "heal"]
    healed = [op.completion.time for op in events.fault_ops if op.completion and op.completion.time <= until_ns]
    return max([*begun, *healed], default=0)


def _who(problems: Mapping[str, str]) -> str:
    listed = "; ".join(f"{node} {problem}" if problem else node for node, problem in problems.items())
    return listed or "some node is not usable"
