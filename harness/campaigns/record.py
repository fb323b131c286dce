"""Recording a test, on real nodes or simulated ones, and judging what it left: the procedure of one run."""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from splitbrain.harness.campaigns.display import Display, Displays, silent
from splitbrain.results.errors import ProtocolError, RunEndedError, SplitbrainError

if TYPE_CHECKING:
    from splitbrain.checkers.isolation.limits import Limits
    from splitbrain.checkers.spark.session import Spark
    from splitbrain.harness.campaigns.judging import Conclusion
    from splitbrain.harness.campaigns.runlog import RunLog
    from splitbrain.harness.contract.deployments import Deployment
    from splitbrain.harness.contract.observing import Observable
    from splitbrain.harness.contract.realtime import RealClock
    from splitbrain.harness.contract.test import Backend, Test
    from splitbrain.harness.running.runner import RunSummary
    from splitbrain.results.rundir import RunDir

T = TypeVar("T")

_END_LIMIT_S: Final = 2.0

MASTER: Final = "local[*]"
"""Spark's master, unless another is asked for."""

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def run_and_judge(
    test: Test,
    backend: Backend,
    store: Path,
    *,
    engine: str = "inline",
    master: str = MASTER,
    notes: Mapping[str, Any] = NOTHING,
    displays: Displays = silent,
    limits: Limits | None = None,
) -> Conclusion:
    """Run a test and judge it with every checker that applies, by the procedure of `splitbrain run`.

    The run is in the store: history, telemetry, plan, figures, verdicts, report, the controller's log.

    Args:
        test: the test.
        backend: where its nodes live.
        store: where the run's folder goes.
        engine: who judges: "inline" in this process, or "spark".
        master: Spark's.
        notes: as for `record`.
        displays: makes what shows how it goes.
        limits: of each checker's time and memory; None for the default ones.

    With Spark, the session starts when the heal phase begins: a JVM that starts during the faults would disturb
    elections on a small machine, one that starts afterwards would keep people waiting.

    Raises:
        SplitbrainError: the test could not be run, or what it left could not be judged.
    """
    from splitbrain.checkers import stored
    from splitbrain.checkers.isolation.limits import DEFAULT
    from splitbrain.harness.campaigns.documents import keep_plan
    from splitbrain.harness.campaigns.judges import with_judges
    from splitbrain.harness.campaigns.judging import judge_run
    from splitbrain.harness.campaigns.rejudging import advising_on_interrupt, command_for
    from splitbrain.results.loaded import finish

    test = with_judges(test, backend)
    with contextlib.ExitStack() as stack, displays(f"{test.name} seed {test.seed}") as display:
        pending = stack.enter_context(_spark_in_background(master)) if engine == "spark" else None
        at_heal = pending.start if pending is not None else None
        run, summary = record(test, backend, store, display, at_heal=at_heal, notes=notes)
        stack.callback(run.release)
        error = str(summary.failure) if summary.failure is not None else None
        again = command_for(run.path)
        kept = f"judging takes long; the run is kept, and can be judged again:  {again}"
        spark = _no_spark if pending is None else pending.result
        with display.during("judging", kept) as progress, advising_on_interrupt(again):
            loaded = finish(run)
            keep_plan(loaded, test)
            return judge_run(
                stored.as_needed(loaded),
                engine_name=engine,
                spark=spark,
                harness_error=error,
                progress=progress,
                limits=limits or DEFAULT,
            )


def record(
    test: Test,
    backend: Backend,
    store: Path,
    display: Display,
    *,
    at_heal: Callable[[], None] | None = None,
    notes: Mapping[str, Any] = NOTHING,
) -> tuple[RunDir, RunSummary]:
    """Run a test and keep its history in the store; nothing is judged.

    This process keeps the run locked: until its verdict is stored, or this process ends, others see it as in progress.

    Args:
        test: the test.
        backend: where its nodes live.
        store: where its folder goes.
        display: shows how it goes.
        at_heal: called once when the heal phase begins.
        notes: what `test.json` shall say besides (see `splitbrain.results.store.Store.find` on "derived_from").

    Raises:
        SplitbrainError: it could not be run.
    """
    from splitbrain.harness.backends.sim import SimBackend

    if isinstance(backend, SimBackend):
        from splitbrain.harness.campaigns.simulated import record_simulated

        return record_simulated(test, backend.world, store, display, at_heal, notes)
    backend.check(test)
    return _carried_out(_record(test, backend, store, display, at_heal, notes))


def _carried_out(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, but work that swallows its cancellation, such as that of a client, holds nothing up."""
    from splitbrain.harness.running.blocked import BlockedError
    from splitbrain.results.reasons import ADVICE_FOR_BLOCKED

    runner = asyncio.Runner()
    try:
        return runner.run(work)
    except BlockedError as error:
        raise ProtocolError(f"{error}. {ADVICE_FOR_BLOCKED}") from error
    finally:
        if runner.run(_all_ended()):
            runner.close()
        else:
            loop = runner.get_loop()
            loop.set_exception_handler(_no_complaint)
            loop.close()
            asyncio.set_event_loop(None)


def _no_complaint(_loop: asyncio.AbstractEventLoop, _context: dict[str, Any]) -> None:
    """The loop would complain of each task that is left."""


async def _all_ended() -> bool:
    """Cancel all that goes on; whether it ended within a bounded time."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    return not tasks or not (await asyncio.wait(tasks, timeout=_END_LIMIT_S))[1]


async def _record(
    test: Test,
    backend: Backend,
    store: Path,
    display: Display,
    at_heal: Callable[[], None] | None,
    notes: Mapping[str, Any],
) -> tuple[RunDir, RunSummary]:
    from splitbrain.harness.campaigns.documents import document_of_deployed, keep_surroundings, telemetry_of
    from splitbrain.harness.campaigns.leaders import LeaderPoll, LeaderWatch
    from splitbrain.harness.campaigns.runlog import RunLog
    from splitbrain.harness.campaigns.turns import Turns
    from splitbrain.harness.contract.clock import Runtime
    from splitbrain.harness.contract.realtime import RealClock
    from splitbrain.harness.contract.rng import Streams
    from splitbrain.harness.running.lifecycle import run
    from splitbrain.harness.running.runner import Stop
    from splitbrain.results.history import HARNESS, Op
    from splitbrain.results.store import Store

    clock = RealClock()
    folders: list[RunDir] = []
    logs: list[RunLog] = []
    stop = Stop()
    deployed_ns = 0

    def folder() -> RunDir:
        nonlocal deployed_ns
        document = document_of_deployed(test, store, notes)
        folders.append(Store(store).create(test.name, test.seed, document, time.time_ns()))
        logs.append(RunLog(folders[-1].log_path, test.nemesis.left_out))
        deployed_ns = clock.now_ns()
        return folders[-1]

    def began(started_ns: int) -> None:
        found = folders[-1]
        up_s, sources = (started_ns - deployed_ns) / 1e9, telemetry_of(test, found)
        times = {
            "began_wall_ns": clock.wall_ns(started_ns),
            "began_mono_ns": started_ns,
            "up_s": round(up_s, 3),
        }
        found.amend_test(**times, telemetry=sources)
        display.up(up_s)
        logs[-1].write(f"up in {up_s:.1f} s")

    async def beside(deployment: Deployment) -> None:
        found = folders[-1]
        keep_surroundings(found, deployment)
        files = {node: found.path / path for node, path in telemetry_of(test, found).items()}
        watch, asked = LeaderWatch(files), test.system.capabilities.observation
        if asked is not None:
            display.leaders = watch
            await _ask(asked, deployment, files, clock, logs[-1])
            return
        if watch.any_exists():
            display.leaders = watch
            return
        display.leaders = poll = LeaderPoll()
        await poll.ask(test, deployment)

    def observe(op: Op) -> None:
        display.observe(op)
        logs[-1].observe(op)
        if at_heal is not None and op.process == HARNESS and op.f == "phase" and op.value["phase"] == "heal":
            at_heal()

    try:
        with Turns(asyncio.get_running_loop(), stop, partial(_say, logs)).watched():
            summary = await run(
                test,
                backend=backend,
                folder=folder,
                runtime=Runtime(clock=clock, streams=Streams(test.seed)),
                observe=observe,
                began=began,
                beside=beside,
                stop=stop,
            )
    except BaseException as error:
        for log in logs:
            log.close()
        _give_up(folders, error)
        raise
    if summary.failure is not None:
        logs[-1].write("".join(traceback.format_exception(summary.failure)))
    logs[-1].close()
    return folders[-1], summary


def _say(logs: Sequence[RunLog], line: str) -> None:
    """Print a line while the run goes on, and write it into the log of the run."""
    from splitbrain.harness.campaigns.interrupts import write_line

    write_line(f"splitbrain: {line}")
    for log in logs:
        log.write(line)


def _give_up(folders: Sequence[RunDir], error: BaseException) -> None:
    """Hold runs no more that came to no end; of one that was ended at once, the error gets the command to judge it."""
    from splitbrain.harness.campaigns.rejudging import with_advice

    for found in folders:
        found.release()
    if isinstance(error, RunEndedError) and folders:
        raise with_advice(error, folders[-1].path) from None


async def _ask(
    system: Observable, deployment: Deployment, files: Mapping[str, Path], clock: RealClock, log: RunLog
) -> None:
    """Write the telemetry of nodes that write none; an error that ends it early is logged."""
    from splitbrain.harness.campaigns.polling import write_telemetry

    try:
        await write_telemetry(system, deployment, files, clock)
    except Exception:
        log.write(f"the nodes are not asked for telemetry any more:\n{traceback.format_exc()}")


class _PendingSpark:
    """A Spark session that starts in a thread on request."""

    def __init__(self, start: Callable[[], Spark]) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="spark")
        self._start = start
        self._future: Future[Spark] | None = None

    def start(self) -> None:
        """Begin to start, once."""
        if self._future is None:
            self._future = self._pool.submit(self._start)

    def result(self) -> Spark:
        """The session, when it is up."""
        self.start()
        assert self._future is not None
        return self._future.result()

    def close(self) -> None:
        """Wait for the thread."""
        if self._future is not None:
            with contextlib.suppress(SplitbrainError):
                self._future.result()
        self._pool.shutdown()


@contextlib.contextmanager
def _spark_in_background(master: str) -> Generator[_PendingSpark]:
    from splitbrain.checkers.spark.session import session

    with contextlib.ExitStack() as stack:
        pending = _PendingSpark(lambda: stack.enter_context(session(master)))
        try:
            yield pending
        finally:
            pending.close()


def _no_spark() -> Spark:
    raise AssertionError("the inline engine asked for Spark")
