"""The events of a run beside its client ops: phases, faults, recovery, stalls. Read from nemesis and harness ops.

What the value of a nemesis op says is in `splitbrain.results.nemesisop`. A fault is in force from the completion of its
start to the invocation of its stop: between those two it certainly is.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property

import msgspec
import pyarrow as pa

from splitbrain.results.arrow import own_ops
from splitbrain.results.calls import ints
from splitbrain.results.history import HARNESS, NEMESIS, Op
from splitbrain.results.nemesisop import Said, said
from splitbrain.results.notes import N, PhaseBegan, notes_of
from splitbrain.results.once import once


class FaultOp(msgspec.Struct, frozen=True, dict=True):
    """A nemesis op: its invocation, and its completion where there is one."""

    invoke: Op
    completion: Op | None

    @cached_property
    def said(self) -> Said:
        """What was asked for, overlaid with what was done."""
        return said(self.invoke.value, self.completion.value if self.completion else None)

    @property
    def fault(self) -> str:
        """The kind of fault; the op's function where it does not say."""
        return self.invoke.f if self.said.fault is None else self.said.fault

    @property
    def verified(self) -> bool:
        """Whether the fault was seen to take effect (or, for a stop, to be gone)."""
        return self.completion is not None and self.completion.type == "ok"

    @property
    def error(self) -> str | None:
        """Why it was not verified, None if it was."""
        if self.verified:
            return None
        return (self.completion.error if self.completion else "it was never completed") or "it was not verified"

    @property
    def bit(self) -> bool | None:
        """Whether its evidence shows that the fault did anything, as a whole or on a node; None if it does not say."""
        return self.said.evidence.bit

    @property
    def hit(self) -> bool:
        """Whether it hit a node: an op that finds no node to hit puts no fault in force.

        An op that failed before it had a target may have hit one.
        """
        return self.said.is_hit or not (self.verified or self.said.target)


class Window(msgspec.Struct, frozen=True):
    """A stretch of the run in which a fault was in force.

    Attributes:
        fault: its kind, e.g. "partition".
        start: the op that injected it.
        stop: the op that healed it, None if no op did.
        begin_ns: when it was certainly in force.
        end_ns: until when it certainly was.
    """

    fault: str
    start: FaultOp
    stop: FaultOp | None
    begin_ns: int
    end_ns: int

    @property
    def bit(self) -> bool | None:
        """Whether the fault was counted to do anything while it was in force; None without counters."""
        said = [op.bit for op in (self.start, self.stop) if op is not None and op.bit is not None]
        return any(said) if said else None

    @property
    def target(self) -> str:
        """The nodes that were hit, in words."""
        return self.start.said.target or self.start.said.shape


class Phase(msgspec.Struct, frozen=True):
    """A phase of the run: "faults", "heal", "final" or "quiet"."""

    name: str
    begin_ns: int
    end_ns: int


class RunEvents(msgspec.Struct, frozen=True):
    """The run events: everything beside the client ops, in the order of time.

    Attributes:
        phases: with their ends; empty where the history has none (an imported one).
        fault_ops: every nemesis op.
        windows: when which fault was in force, by their beginnings.
        harness: ops that the harness recorded about itself.
        end_ns: time of the last event of the run.
    """

    phases: tuple[Phase, ...]
    fault_ops: tuple[FaultOp, ...]
    windows: tuple[Window, ...]
    harness: tuple[Op, ...]
    end_ns: int

    @property
    def quiet_ns(self) -> int | None:
        """When the load was over and the harness waited for replicas to meet; None if it did not."""
        return next((phase.begin_ns for phase in self.phases if phase.name == "quiet"), None)

    def of_harness(self, f: str) -> list[Op]:
        """The harness's ops of one function."""
        return [op for op in self.harness if op.f == f]

    def notes(self, f: str, form: type[N]) -> list[tuple[Op, N]]:
        """The same with their values, of the form that belongs to the function (`splitbrain.results.notes`).

        Raises:
            HistoryFormatError: a note is damaged.
        """
        return notes_of(self.harness, f, form)


def run_events(history: pa.Table) -> RunEvents:
    """Read a history that is sorted by index. The answer is shared (`once`): read it only.

    Raises:
        HistoryFormatError: a note of a phase is damaged.
    """
    return once(history, _run_events)


def _run_events(history: pa.Table) -> RunEvents:
    times = ints(history, "time")
    end_ns = int(times.max()) if len(times) else 0
    ops = own_ops(history)
    harness = tuple(op for op in ops if op.process == HARNESS)
    fault_ops = tuple(_pair([op for op in ops if op.process == NEMESIS]))
    recovered = next((op.time for op in harness if op.f == "recovered"), end_ns)
    return RunEvents(
        phases=tuple(_phases(harness, end_ns)),
        fault_ops=fault_ops,
        windows=tuple(sorted(_windows(fault_ops, recovered), key=lambda window: window.begin_ns)),
        harness=harness,
        end_ns=end_ns,
    )


def _pair(ops: list[Op]) -> list[FaultOp]:
    """Invocations in their order, each with its completion; one without is kept as it is.

    Our nemesis does one thing at a time. In an imported history ops may overlap: a completion belongs to the first
    invocation of its kind that has none yet.
    """
    found: list[FaultOp] = []
    waiting: dict[str, deque[int]] = {}
    for op in ops:
        if op.type == "invoke":
            waiting.setdefault(op.f, deque()).append(len(found))
            found.append(FaultOp(op, None))
        elif waiting.get(op.f):
            place = waiting[op.f].popleft()
            found[place] = FaultOp(found[place].invoke, op)
        else:
            found.append(FaultOp(op, op))  # an imported history: a nemesis op without an invocation
    return found


def _phases(harness: tuple[Op, ...], end_ns: int) -> list[Phase]:
    marks = [(note.phase, op.time) for op, note in notes_of(harness, "phase", PhaseBegan)]
    ends = [*(time for _, time in marks[1:]), end_ns][: len(marks)]
    return [Phase(name, begin, end) for (name, begin), end in zip(marks, ends, strict=True)]


def _windows(fault_ops: tuple[FaultOp, ...], recovered_ns: int) -> list[Window]:
    """A window ends where its fault is stopped, or replaced by another of its kind, or at the latest at recovery.

    That of a fault that is over when its op ends is the op itself.
    """
    found: list[Window] = []
    open_by_fault: dict[str, FaultOp] = {}
    for op in fault_ops:
        fault, action = op.fault, op.said.action
        if action == "start" and not op.hit:
            continue
        begun = open_by_fault.pop(fault, None) if action in ("start", "stop") else None
        if begun is not None:
            found.append(_window(fault, begun, op, op.invoke.time))
        if op.said.over:
            found.append(Window(fault, op, None, op.invoke.time, (op.completion or op.invoke).time))
        elif action == "start":
            open_by_fault[fault] = op
    return found + [_window(fault, op, None, recovered_ns) for fault, op in open_by_fault.items()]


def _window(fault: str, start: FaultOp, stop: FaultOp | None, end_ns: int) -> Window:
    begin = (start.completion or start.invoke).time
    return Window(fault, start, stop, begin, max(begin, end_ns))
