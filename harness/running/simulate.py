"""A whole test in this process under virtual time: a function of (code, test, seed).

Nothing here touches a file. The history, the telemetry and the marks are returned, or passed on while the simulation
runs, so that a long one needs no more memory than a short one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path  # noqa: TID251 - a name only: nothing is read or written
from typing import Any

import pyarrow as pa

from splitbrain.harness.backends.sim import SimBackend, check_embeddable
from splitbrain.harness.contract import marks
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.test import Test
from splitbrain.harness.running import lifecycle
from splitbrain.harness.running.lifecycle import HistoryFile
from splitbrain.harness.running.runner import RunSummary, Stop, as_harness_error
from splitbrain.harness.simulation.clock import EPOCH_NS, TrueClock
from splitbrain.harness.simulation.guard import forbidden, outside
from splitbrain.harness.simulation.host import Outputs
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.trace import Trace
from splitbrain.results.arrow import history_hash, to_table
from splitbrain.results.errors import SimulationError, SplitbrainError
from splitbrain.results.history import Op
from splitbrain.results.telemetry import table_of


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """The results of a simulation.

    Attributes:
        ops: the history, unless a recorder took it.
        lines: per node its telemetry with true times, in nanoseconds since the simulation began, likewise.
        logs: per node the lines of its log, likewise.
        summary: how the run went; None if it did not come that far.
        failure: what ended it before its time: an error of the harness, of a plug-in, or of a call that a simulation
            forbids.
        marks: how often each coverage mark was reached; those that were not stand there with 0.
        simulated_s: how much virtual time passed, in seconds.
        fingerprint: of the state of all streams of randomness at the end (FoundationDB's "unseed"): two runs of the
            same test with the same seed have the same one, or something broke the rules.
    """

    ops: list[Op]
    lines: dict[NodeId, list[tuple[int, bytes]]]
    logs: dict[NodeId, list[str]]
    summary: RunSummary | None
    failure: SplitbrainError | None
    marks: Mapping[str, int]
    simulated_s: float
    fingerprint: str

    @cached_property
    def history(self) -> pa.Table:
        """The history as a table (`splitbrain.results.arrow.HISTORY_SCHEMA`)."""
        return to_table(self.ops)

    @cached_property
    def history_hash(self) -> str:
        """The hash of the history's content."""
        return history_hash(self.history)

    @cached_property
    def telemetry(self) -> pa.Table:
        """The telemetry as a table (`splitbrain.results.arrow.TELEMETRY_SCHEMA`)."""
        started_ns = self.summary.started_ns if self.summary is not None else 0
        return table_of(
            {node: [(time_ns - started_ns, line) for time_ns, line in lines] for node, lines in self.lines.items()}
        )


def simulate(
    test: Test,
    *,
    world: str | None = None,
    recorder: HistoryFile | None = None,
    outputs: Outputs | None = None,
    observe: Callable[[Op], None] | None = None,
    began: Callable[[int], None] | None = None,
    stop: Stop | None = None,
    trace: Trace | None = None,
) -> Simulated:
    """Run a test in simulation. Errors of the run are in what is returned; its history is kept.

    Args:
        test: what to do; the system must have `Capabilities.simulation`.
        world: what links, disks and clocks are like, by name (`splitbrain.harness.simulation.worlds.WORLDS`); None for
            what the test's options say, or else "lan".
        recorder: takes the history; None to get it back.
        outputs: takes what nodes say; None to get it back.
        observe: called with every op right after it was recorded, outside of the guard.
        began: called with the virtual time at which the history's time is 0.
        stop: asks the run to end early; that makes it another run than the seed's.
        trace: takes every event.

    Raises:
        UsageError: the system cannot be simulated, or there is no such world.
    """
    check_embeddable(test)
    world = world or str(test.options.get("world", "lan"))
    streams = Streams(test.seed)
    kept = _Kept()
    loop = SimLoop(streams["scheduler"], trace=trace)
    runtime = Runtime(clock=TrueClock(loop), streams=streams)
    folder = _Folder(kept if recorder is None else _Outside(recorder))
    summary: RunSummary | None = None
    failure: SplitbrainError | None = None
    with marks.counted() as ours, (test.system.capabilities.count_marks or _no_marks)() as theirs:
        with forbidden() as guard:
            try:
                summary = loop.run(
                    lifecycle.run(
                        test,
                        backend=SimBackend(world, outputs or kept, trace),
                        folder=lambda: folder,
                        runtime=runtime,
                        observe=None if observe is None else _outside(observe),
                        began=None if began is None else _outside(began),
                        stop=stop,
                        # No machine is slow or full here, and no fault was injected yet.
                        blames_system=True,
                    )
                )
            except SystemExit as error:
                failure = SimulationError(f"code inside the simulation asked this process to exit ({error.code}).")
            except Exception as error:
                failure = as_harness_error(error)
        counts = {**ours, **theirs}
    # It precedes all other errors: a client may have caught it, and taken it for an answer of the system.
    if guard.offence is not None:
        failure = guard.offence
    return Simulated(
        ops=kept.ops,
        lines=kept.lines,
        logs=kept.logs,
        summary=summary,
        failure=failure or (summary.failure if summary is not None else None),
        marks=counts,
        simulated_s=loop.now_ns / 1e9,
        fingerprint=streams.fingerprint(),
    )


@contextlib.contextmanager
def _no_marks() -> Generator[Mapping[str, int]]:
    """The counts of a system without its own marks."""
    yield {}


def _outside(call: Callable[[Any], None]) -> Callable[[Any], None]:
    def called(argument: Any) -> None:
        # Files and progress belong to the harness: the guard would refuse them.
        with outside():
            call(argument)

    return called


class _Outside:
    """A recorder that works with real files."""

    def __init__(self, recorder: HistoryFile) -> None:
        self._recorder = recorder
        self.record = recorder.record

    def flush(self) -> None:
        with outside():
            self._recorder.flush()

    def close(self) -> None:
        with outside():
            self._recorder.close()


@dataclass
class _Kept:
    """Everything in memory: a recorder, and where what nodes say goes."""

    ops: list[Op] = field(default_factory=list[Op])
    lines: dict[NodeId, list[tuple[int, bytes]]] = field(default_factory=dict[NodeId, list[tuple[int, bytes]]])
    logs: dict[NodeId, list[str]] = field(default_factory=dict[NodeId, list[str]])

    def record(self, op: Op) -> None:
        self.ops.append(op)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def telemetry(self, node: NodeId, time_ns: int, line: bytes) -> None:
        self.lines.setdefault(node, []).append((time_ns, line))

    def log(self, node: NodeId, time_ns: int, line: str) -> None:
        self.logs.setdefault(node, []).append(log_line(time_ns, line))


def log_line(time_ns: int, line: str) -> str:
    """A line of a node's log as it is stored: virtual seconds since the simulation began, and the line."""
    return f"{time_ns // 10**9:>6}.{time_ns // 1000 % 10**6:06d} {line}"


class _Folder:
    """A folder that does not exist: a simulation writes no files, unless a recorder does."""

    def __init__(self, recorder: HistoryFile) -> None:
        self.path = Path("simulation")
        self._recorder = recorder

    def history_writer(self) -> HistoryFile:
        return self._recorder


def with_true_time(time_ns: int, line: bytes) -> bytes:
    """A raw line of telemetry with its wall time put right: the clocks of simulated nodes are skewed on purpose."""
    if not line.startswith(b'{"wall":'):
        return line
    rest = line.find(b",")
    return b'{"wall":%d' % (EPOCH_NS + time_ns) + line[rest:] if rest > 0 else line
