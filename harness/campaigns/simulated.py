"""Recording a simulated run: the same folder in the store as that of a real one."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec

from splitbrain.harness.campaigns.documents import document_of, telemetry_of
from splitbrain.harness.campaigns.interrupts import on_interrupt, write_line
from splitbrain.harness.campaigns.rejudging import with_advice
from splitbrain.harness.campaigns.runlog import RunLog
from splitbrain.harness.campaigns.turns import blocking
from splitbrain.harness.running.runner import END_NOW, RunSummary, Stop
from splitbrain.harness.running.simulate import Simulated, log_line, simulate, with_true_time
from splitbrain.harness.simulation.clock import EPOCH_NS
from splitbrain.harness.simulation.guard import outside
from splitbrain.results.errors import HarnessError, RunEndedError
from splitbrain.results.history import HARNESS, Op
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.display import Display
    from splitbrain.harness.contract.test import Test


_STUCK: Final = (
    "splitbrain: ended. The simulation was stuck in one event, since {what} computes and awaits nothing: is there a "
    "loop in the program? What was recorded is kept:  splitbrain analyze"
)


def record_simulated(
    test: Test,
    world: str,
    store: Path,
    display: Display,
    at_heal: Callable[[], None] | None,
    notes: Mapping[str, Any],
) -> tuple[RunDir, RunSummary]:
    """Simulate a test and keep its history in the store; nothing is judged, and the run stays held (see `record`).

    Raises:
        SplitbrainError: it could not be run.
    """
    from splitbrain.harness.backends.sim import check_embeddable

    check_embeddable(test)
    run = Store(store).create(test.name, test.seed, document_of(test, store, notes), time.time_ns())
    log = RunLog(run.log_path, test.nemesis.left_out)

    def observe(op: Op) -> None:
        display.observe(op)
        log.observe(op)
        if at_heal is not None and op.process == HARNESS and op.f == "phase" and op.value["phase"] == "heal":
            at_heal()

    def began(started_ns: int) -> None:
        sources = telemetry_of(test, run)
        run.amend_test(began_wall_ns=EPOCH_NS + started_ns, telemetry=sources)

    stop = Stop()
    try:
        with _NodeFiles(test, run) as outputs, _interruptible(stop):
            simulated = simulate(
                test,
                world=world,
                recorder=run.history_writer(),
                outputs=outputs,
                observe=observe,
                began=began,
                stop=stop,
            )
        keep_figures(run, simulated)
    except BaseException:
        run.release()
        raise
    if simulated.failure is not None:
        log.write("".join(traceback.format_exception(simulated.failure)))
    log.close()
    if simulated.summary is None:
        run.release()
        if isinstance(simulated.failure, RunEndedError):
            raise with_advice(simulated.failure, run.path)
        raise simulated.failure or HarnessError("the simulation ended without a result.")
    # What was forbidden inside the simulation is not in the summary: the run went on after it.
    return run, msgspec.structs.replace(simulated.summary, failure=simulated.failure)


def keep_figures(run: RunDir, simulated: Simulated) -> None:
    """Store the other results of a simulation: marks, and what another run of the seed must agree with."""
    figures = {"simulated_s": round(simulated.simulated_s, 3), "fingerprint": simulated.fingerprint}
    run.amend_test(simulation=figures)
    run.write_marks(simulated.marks)


class _NodeFiles:
    """The files that real nodes would have left: their logs, and their telemetry."""

    def __init__(self, test: Test, run: RunDir) -> None:
        self._telemetry: dict[str, BinaryIO] = {}
        self._logs: dict[str, BinaryIO] = {}
        sources = telemetry_of(test, run)
        for node in test.nodes:
            folder = run.node_dir(node)
            folder.mkdir(parents=True, exist_ok=True)
            self._logs[node] = (folder / "log").open("wb")
            if node in sources:
                path = run.path / sources[node]
                path.parent.mkdir(parents=True, exist_ok=True)
                self._telemetry[node] = path.open("wb")

    def __enter__(self) -> _NodeFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (*self._telemetry.values(), *self._logs.values()):
            file.close()

    def telemetry(self, node: str, time_ns: int, line: bytes) -> None:
        """Append a line of telemetry."""
        if node in self._telemetry:
            self._telemetry[node].write(with_true_time(time_ns, line) + b"\n")

    def log(self, node: str, time_ns: int, line: str) -> None:
        """Append a line of a node's log."""
        self._logs[node].write(log_line(time_ns, line).encode(errors="replace") + b"\n")


@contextlib.contextmanager
def _interruptible(stop: Stop, end: Callable[[int], object] = os._exit) -> Generator[None]:
    """Who asks for an end gets it early, between two events.

    A node that computes for ever lets no other event come. The third request ends the process then, as a kill does:
    what was recorded is kept, and is judged by `analyze`.
    """
    asked = 0

    def note() -> None:
        nonlocal asked
        asked += 1
        if asked >= END_NOW and not stop.requests:
            write_line(_STUCK.format(what=blocking(inspect.currentframe()) or "a node"))
            end(255)  # not os._exit: while a node computes, that is the end of the node
        try:
            asyncio.get_running_loop().call_soon(stop.request)
        except RuntimeError:
            stop.request()

    with on_interrupt(note, outside):
        yield
