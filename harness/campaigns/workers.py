"""Worker processes, each with one task at a time. If one dies, only its own task is lost.

A pool of the standard library breaks as a whole when a process of it is killed, and does not say what it was doing.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, Generic, TypeVar

from splitbrain.checkers.isolation.watched import STUCK_S, Watched, signal_name

Task = TypeVar("Task")
Answer = TypeVar("Answer")

STOP_S: Final = 2.0
"""How long a worker that is asked to end may take before it is killed."""


@dataclass(frozen=True)
class Report(Generic[Task, Answer]):
    """What became of a task.

    Attributes:
        task: as it was given.
        answer: what the work returned; None if there is a problem.
        problem: why there is no answer: an exception, the worker's death, or no end within the limit.
        cpu_s: CPU seconds that it took.
    """

    task: Task
    answer: Answer | None
    problem: str | None
    cpu_s: float


class Workers(Generic[Task, Answer]):
    """A number of processes that do the same work on different tasks. A context manager: all of them end with it.

    Workers do not react to Ctrl-C, which a terminal sends to them as well: their parent handles it. They end with their
    parent, also if it is killed.

    Args:
        work: what is done with a task; a function of a module, since a new process imports it.
        jobs: how many processes.
        prepare: what each process does once, before its first task; no limit counts it.
        limit_s: CPU seconds that a task may take; then its worker is killed. On a busy machine that takes longer.
        stuck_s: after so many seconds of real time a task that waits, and uses no processor, is given up.
        clock: CPU seconds of a process, as a task's are counted; a function of a module, as `work`.
        hash_seed: of Python's hashes in the processes; None: as it comes.

    Attributes:
        jobs: how many processes.
    """

    def __init__(
        self,
        work: Callable[[Task], Answer],
        jobs: int,
        *,
        prepare: Callable[[], None] | None = None,
        limit_s: float,
        stuck_s: float = STUCK_S,
        clock: Callable[[], float] = time.process_time,
        hash_seed: int | None = None,
    ) -> None:
        self.jobs = jobs
        self._in_worker = (work, prepare, clock)
        self._limit_s = limit_s
        self._stuck_s = stuck_s
        self._hash_seed = hash_seed
        self._context = multiprocessing.get_context("spawn")
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, _Busy[Task]] = {}
        self._ended_cpu_s = 0.0

    def __enter__(self) -> Workers[Task, Answer]:
        """Start all workers; they get ready in the background."""
        try:
            while len(self._idle) < self.jobs:
                self._idle.append(self._start())
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        """End all workers, also those that are busy."""
        self.stop()

    @property
    def free(self) -> int:
        """How many tasks can be given now."""
        return self.jobs - len(self._busy)

    @property
    def tasks(self) -> dict[int, Task]:
        """The tasks that are being worked on, by the process id of their worker."""
        return {busy.worker.process.pid or 0: busy.task for busy in self._busy.values()}

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all tasks until now, those that are being worked on included."""
        return self._ended_cpu_s + sum(busy.used_s() for busy in self._busy.values())

    def give(self, task: Task) -> None:
        """Have a free worker do a task; one that died is replaced first."""
        assert self.free, "every worker is busy"
        worker = self._idle.pop() if self._idle else self._start()
        self._busy[worker.connection] = _Busy(worker, task)
        with contextlib.suppress(OSError):  # it died without a task: `wait` reports it
            worker.connection.send(task)

    def wait(self, timeout_s: float) -> list[Report[Task, Answer]]:
        """The results of tasks so far; waits up to `timeout_s` for the first."""
        ready = wait(list(self._busy), timeout_s)
        received = [self._receive(connection) for connection in list(self._busy) if connection in ready]
        reports = [report for report in received if report is not None]
        reports += [report for connection in list(self._busy) if (report := self._given_up(connection)) is not None]
        self._ended_cpu_s += sum(report.cpu_s for report in reports)
        return reports

    def stop(self) -> None:
        """End all workers."""
        workers = [*self._idle, *(busy.worker for busy in self._busy.values())]
        self._idle, self._busy = [], {}
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.bury()

    def _start(self) -> _Worker:
        # Else the first process starts it, and Python lets SIGINT through again while it does so.
        resource_tracker.ensure_running()
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_serve, args=(theirs, *self._in_worker), name="splitbrain-worker", daemon=True
        )
        with _without_interrupts(), _hashing(self._hash_seed):
            process.start()
        theirs.close()  # so that the worker's death is the end of the pipe
        return _Worker(process, ours)

    def _receive(self, connection: Connection) -> Report[Task, Answer] | None:
        """What became of a task; None if its worker has just become ready for it."""
        busy = self._busy[connection]
        try:
            message: _Ready | _Done[Answer] = connection.recv()
        except (EOFError, OSError):
            del self._busy[connection]
            return Report(busy.task, None, busy.worker.bury(), 0.0)
        if isinstance(message, _Ready):
            busy.begins(message.cpu_s)
            return None
        del self._busy[connection]
        self._idle.append(busy.worker)
        return Report(busy.task, message.answer, message.problem, message.cpu_s)

    def _given_up(self, connection: Connection) -> Report[Task, Answer] | None:
        """The report of a task that takes too long, or None if it does not."""
        busy = self._busy[connection]
        used_s = busy.used_s()
        if used_s > self._limit_s:
            problem = f"it did not come to an end within {self._limit_s:g} CPU seconds and was given up."
        elif busy.still_s() > self._stuck_s:
            problem = f"it used no processor for {self._stuck_s:g} s and was given up."
        else:
            return None
        del self._busy[connection]
        busy.worker.process.kill()
        busy.worker.bury()
        return Report(busy.task, None, problem, used_s)


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    is_ready: bool = False

    def watched(self) -> Watched:
        """The process as it is seen from here, from now on."""
        return Watched(self.process.pid or 0)

    def bury(self) -> str:
        """Wait until the process has ended, and kill it if necessary; returns how it ended."""
        self.connection.close()
        self.process.join(STOP_S)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        code = self.process.exitcode or 0
        if code >= 0:
            return f"its worker process ended with exit code {code}."
        return f"its worker process was ended by {signal_name(-code)}."


class _Busy(Generic[Task]):
    """A worker with a task, which begins once the worker is ready."""

    def __init__(self, worker: _Worker, task: Task) -> None:
        self.worker = worker
        self.task = task
        self._watched = worker.watched()
        self._began_cpu_s: float | None = None
        if worker.is_ready:
            self.begins(self._watched.cpu_s())

    def begins(self, cpu_s: float) -> None:
        """The worker is ready, after so many CPU seconds of its own."""
        self.worker.is_ready = True
        self._began_cpu_s = cpu_s

    def used_s(self) -> float:
        """CPU seconds of the task until now."""
        return 0.0 if self._began_cpu_s is None else max(0.0, self._watched.cpu_s() - self._began_cpu_s)

    def still_s(self) -> float:
        """Seconds of real time since it was last seen to use the processor, or to want it."""
        return self._watched.still_s()


@contextlib.contextmanager
def _without_interrupts() -> Generator[None]:
    """A process started now is born with SIGINT and SIGHUP blocked, and never sees one, not even while it imports.

    One that arrives meanwhile is delivered to this process afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _hashing(seed: int | None) -> Generator[None]:
    """A process started now has this hash seed."""
    if seed is None:
        yield
        return
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before


# --- in the worker --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ready:
    """The worker is prepared, after so many CPU seconds."""

    cpu_s: float


@dataclass(frozen=True)
class _Done(Generic[Answer]):
    answer: Answer | None
    problem: str | None
    cpu_s: float


def _serve(
    connection: Connection,
    work: Callable[[Task], Answer],
    prepare: Callable[[], None] | None,
    clock: Callable[[], float],
) -> None:
    """Do one task after the other until the parent has ended."""
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to all; the parent decides
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    if prepare is not None:
        prepare()
    connection.send(_Ready(time.process_time()))
    while True:
        try:
            task: Task = connection.recv()
        except EOFError:
            return
        began_s = clock()
        answer, problem = None, None
        try:
            answer = work(task)
        except Exception as error:
            what = "".join(traceback.format_exception_only(error)).strip()
            problem = f"{what} ({_place(error)})"
        connection.send(_Done(answer, problem, clock() - began_s))


def _end_with_parent() -> None:
    """A task may take minutes: it must not continue after the parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "nowhere"
