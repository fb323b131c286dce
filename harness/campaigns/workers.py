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
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, Generic, TypeVar

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
    """

    task: Task
    answer: Answer | None
    problem: str | None


class Workers(Generic[Task, Answer]):
    """A number of processes that do the same work on different tasks. A context manager: all of them end with it.

    Workers do not react to Ctrl-C, which a terminal sends to them as well: their parent handles it. They end with their
    parent, also if it is killed.

    Args:
        work: what is done with a task; a function of a module, since a new process imports it.
        jobs: how many processes.
        prepare: what each process does once, before its first task.
        limit_s: how long a task may take, in seconds of real time; then its worker is killed.
    """

    def __init__(
        self, work: Callable[[Task], Answer], jobs: int, *, prepare: Callable[[], None] | None = None, limit_s: float
    ) -> None:
        self._work = work
        self._prepare = prepare
        self._jobs = jobs
        self._limit_s = limit_s
        self._context = multiprocessing.get_context("spawn")
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, _Busy[Task]] = {}

    def __enter__(self) -> Workers[Task, Answer]:
        """Start all workers; they get ready in the background."""
        try:
            while len(self._idle) < self._jobs:
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
        return self._jobs - len(self._busy)

    @property
    def tasks(self) -> dict[int, Task]:
        """The tasks that are being worked on, by the process id of their worker."""
        return {busy.worker.process.pid or 0: busy.task for busy in self._busy.values()}

    def give(self, task: Task) -> None:
        """Have a free worker do a task; one that died is replaced first."""
        assert self.free, "every worker is busy"
        worker = self._idle.pop() if self._idle else self._start()
        self._busy[worker.connection] = _Busy(worker, task, time.monotonic())
        with contextlib.suppress(OSError):  # it died without a task: `wait` reports it
            worker.connection.send(task)

    def wait(self, timeout_s: float) -> list[Report[Task, Answer]]:
        """The results of tasks so far; waits up to `timeout_s` for the first."""
        ready = wait(list(self._busy), timeout_s)
        reports = [self._receive(connection) for connection in list(self._busy) if connection in ready]
        now = time.monotonic()
        late = [connection for connection, busy in self._busy.items() if now - busy.since > self._limit_s]
        return reports + [self._give_up(connection) for connection in late]

    def stop(self) -> None:
        """End all workers."""
        workers = [*self._idle, *(busy.worker for busy in self._busy.values())]
        self._idle, self._busy = [], {}
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.bury()

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_serve, args=(theirs, self._work, self._prepare), name="splitbrain-worker", daemon=True
        )
        with _without_interrupts():
            process.start()
        theirs.close()  # so that the worker's death is the end of the pipe
        return _Worker(process, ours)

    def _receive(self, connection: Connection) -> Report[Task, Answer]:
        busy = self._busy.pop(connection)
        try:
            answer, problem = connection.recv()
        except (EOFError, OSError):
            return Report(busy.task, None, busy.worker.bury())
        self._idle.append(busy.worker)
        return Report(busy.task, answer, problem)

    def _give_up(self, connection: Connection) -> Report[Task, Answer]:
        busy = self._busy.pop(connection)
        busy.worker.process.kill()
        busy.worker.bury()
        return Report(busy.task, None, f"it did not come to an end within {self._limit_s:g} s and was given up.")


@dataclass(frozen=True)
class _Worker:
    process: BaseProcess
    connection: Connection

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
        name = signal.Signals(-code).name
        memory = " (the kernel does that when memory runs out)" if name == "SIGKILL" else ""
        return f"its worker process was ended by {name}{memory}."


@dataclass(frozen=True)
class _Busy(Generic[Task]):
    worker: _Worker
    task: Task
    since: float


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


# --- in the worker --------------------------------------------------------------------------------------------------


def _serve(connection: Connection, work: Callable[[Task], Answer], prepare: Callable[[], None] | None) -> None:
    """Do one task after the other until the parent has ended."""
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to all; the parent decides
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    if prepare is not None:
        prepare()
    while True:
        try:
            task: Task = connection.recv()
        except EOFError:
            return
        try:
            done = (work(task), None)
        except Exception as error:
            what = "".join(traceback.format_exception_only(error)).strip()
            done = (None, f"{what} ({_place(error)})")
        connection.send(done)


def _end_with_parent() -> None:
    """A task may take minutes: it must not continue after the parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "nowhere"
