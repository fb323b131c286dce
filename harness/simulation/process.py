"""One life of a node's process: everything that it does goes through here, so that it can be stopped, held and killed.

A process acts by timers, messages, the disk and tasks. Each of these asks the process before it continues: a paused
process gets everything that arrived meanwhile when it is resumed; a dead one does nothing any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

if TYPE_CHECKING:
    from splitbrain.harness.simulation.clock import Oscillator
    from splitbrain.harness.simulation.cpu import CpuLimit
    from splitbrain.harness.simulation.loop import SimLoop, SimTimer


T = TypeVar("T")


class SimProcess:
    """A process that runs until it is killed, or until one of its tasks or timers fails.

    Attributes:
        state: "running", "paused" or "stopped".
        life: which of the node's processes it is, from 1.
        failure: what made it stop by itself.
        message_ns: how long it computes for each message that it sends.
        silent: whether its machine lost power, so that peers get no notice.
        busy_until_ns: until when it computes; 0 if it never did.
        unhindered: whether `post` lets it do everything at once: it runs, has all of a CPU, and has never computed.
        ended_at_work: whether it was ended in the middle of a step of its own.
    """

    _goes_unwatched = True
    """Whether nothing asks which process is at work, so that a callback may be called without `post`."""

    def __init__(self, loop: SimLoop, life: int, ended: Callable[[], None], message_ns: int = 0) -> None:
        self._loop = loop
        self._ended = ended
        self._tasks: dict[asyncio.Task[None], Awaitable[None]] = {}
        self._held: list[Callable[[], None]] = []
        self._cpu: CpuLimit | None = None
        self._throttled: deque[Callable[[], None]] = deque()
        self._next_period: SimTimer | None = None
        self.busy_until_ns = 0
        self.life = life
        self.state: Literal["running", "paused", "stopped"] = "running"
        self.unhindered = self._goes_unwatched
        self.failure: BaseException | None = None
        self.silent = False
        self.ended_at_work = False
        self.message_ns = message_ns

    def owns(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether the task is one of its own."""
        return task in self._tasks

    def at_work(self) -> bool:
        """Whether one of its steps runs now: never, as far as it is known here, when something else happens to it."""
        return False

    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.state != "stopped"

    def post(self, callback: Callable[[], None]) -> None:
        """Let the process do something: now, when it has a CPU, when it is resumed, or never."""
        if self.unhindered:
            callback()
        elif self.state == "running":
            if self.busy_until_ns and (self._throttled or self.busy_until_ns > self._loop.now_ns):
                self._wait_until(callback, self.busy_until_ns)
            elif self._cpu is None:
                callback()
            elif self._throttled or not self._cpu.spend():
                self._wait_until(callback, self._cpu.next_ns())
            else:
                callback()
        elif self.state == "paused":
            self._held.append(callback)

    def waker(self, callback: Callable[[], None]) -> Callable[[], None]:
        """What has a callback called in this instant, behind what is ready, each time that it is called itself.

        As with a task that is woken, nothing keeps a process that is paused or has ended meanwhile from it.
        """
        return self._loop.waker(callback)

    def spawn(self, awaitable: Awaitable[None], name: str) -> None:
        """Run a task that belongs to the process; an exception that it raises ends the process."""
        if self.state == "stopped":
            if asyncio.iscoroutine(awaitable):
                awaitable.close()
            return
        self._begin(awaitable, name)

    async def run(self, awaitable: Awaitable[None], name: str) -> None:
        """Run a task that belongs to the process, and wait until it has ended, or the process has."""
        over = asyncio.Future[None](loop=self._loop)
        self._begin(awaitable, name).add_done_callback(lambda _: over.done() or over.set_result(None))
        await over

    def limit(self, cpu: CpuLimit | None) -> None:
        """Let it do no more from now on than this limit allows; None for no limit."""
        self._cpu = cpu
        self._look_for_hindrances()
        self._go_on()

    def compute(self, cost_ns: int) -> None:
        """It computes for that long, from when it is done with what it computes already: all else waits meanwhile."""
        self.busy_until_ns = max(self.busy_until_ns, self._loop.now_ns) + cost_ns
        self._look_for_hindrances()

    def busy_ns(self) -> int:
        """How much longer it computes: what it sends now leaves then."""
        return max(0, self.busy_until_ns - self._loop.now_ns)

    def _look_for_hindrances(self) -> None:
        self.unhindered = (
            self._goes_unwatched and self.state == "running" and self._cpu is None and not self.busy_until_ns
        )

    def _wait_until(self, callback: Callable[[], None], when_ns: int) -> None:
        self._throttled.append(callback)
        if self._next_period is None:
            self._next_period = self._loop.at(max(when_ns, self._loop.now_ns), self._go_on)

    def _go_on(self) -> None:
        """Do what had to wait for a CPU, in order, as far as there is one now."""
        if self._next_period is not None:
            self._next_period.cancel()
            self._next_period = None
        # Emptied first: what finds no CPU this time queues up again, in the same order.
        waiting, self._throttled = self._throttled, deque()
        self._post_all(waiting)

    def pause(self) -> None:
        """Let it do nothing until it is resumed."""
        if self.state == "running":
            self.state = "paused"
            self._look_for_hindrances()
            self._go_on()

    def resume(self) -> None:
        """Resume it: first everything that was held back, in order."""
        if self.state != "paused":
            return
        self.state = "running"
        self._look_for_hindrances()
        # Emptied first: a callback may pause the process again, and hold the rest back.
        held, self._held = self._held, []
        self._post_all(held)

    def _post_all(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Post what had to wait. An error of one is none of what let it go on, and keeps no other one from its turn."""
        for callback in callbacks:
            try:
                self.post(callback)
            except Exception as error:
                self._loop.event_failed(callback, error)

    def end(self, failure: BaseException | None = None) -> None:
        """End it at once; its tasks are cancelled in the order in which they were spawned."""
        if self.state == "stopped":
            return
        self.ended_at_work = self.at_work()
        # The state comes first: what cancelled tasks still do in `finally` blocks must have no effect.
        self.state = "stopped"
        self.unhindered = False
        self.failure = failure
        self._held = []
        self._throttled.clear()
        tasks, self._tasks = self._tasks, {}
        for task, awaitable in tasks.items():
            task.cancel()
            task.add_done_callback(lambda _, awaitable=awaitable: _close(awaitable))
        self._ended()

    def _begin(self, awaitable: Awaitable[None], name: str) -> asyncio.Task[None]:
        # A task continues a coroutine with no frame in between: most of what a process does are steps of tasks.
        steps = cast("Coroutine[Any, Any, None]", awaitable) if asyncio.iscoroutine(awaitable) else _awaited(awaitable)
        task = self._loop.create_task(steps, name=name)
        self._tasks[task] = awaitable
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and self.state != "stopped":
            self.end(error)


def resolve(future: asyncio.Future[T], result: T) -> None:
    """Give a future its result, unless it has one or is cancelled."""
    if not future.done():
        future.set_result(result)


def _close(awaitable: Awaitable[None]) -> None:
    """A task that was cancelled before its first step leaves what it was to await, which Python would complain of."""
    if asyncio.iscoroutine(awaitable):
        awaitable.close()


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable


class GatedTimer:
    """A timer whose callback waits until its process may do something; cancelled meanwhile, it never runs.

    What the callback raises ends the process, as what a task of it raises.
    """

    __slots__ = ("_callback", "_process", "_timer")

    def __init__(
        self, oscillator: Oscillator, process: SimProcess, delay_ns: int, callback: Callable[[], None]
    ) -> None:
        self._process = process
        self._callback: Callable[[], None] | None = callback
        self._timer = oscillator.call_later(delay_ns, self._ring)

    def cancel(self) -> None:
        """Forget it; no harm if it has run."""
        self._callback = None
        self._timer.cancel()

    def _ring(self) -> None:
        self._process.post(self._run)

    def _run(self) -> None:
        callback = self._callback
        if callback is not None:
            try:
                callback()
            except Exception as error:
                if not self._process.alive():
                    raise
                self._process.end(error)


class ProcessClock:
    """The clock of a process (`splitbrain.cluster.runtime.Clock`): its host's, with timers that the process gates."""

    def __init__(self, loop: SimLoop, oscillator: Oscillator, process: SimProcess) -> None:
        self._loop = loop
        self._oscillator = oscillator
        self._process = process
        self.monotonic_ns = oscillator.monotonic_ns
        self.wall_ns = oscillator.wall_ns

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> GatedTimer:
        """Run `callback` after `delay_ns` of the host's time; later if the process is paused then."""
        return GatedTimer(self._oscillator, self._process, delay_ns, callback)

    async def sleep(self, delay_ns: int) -> None:
        """Suspend the calling task."""
        woken, process = self._loop.create_future(), self._process

        def wake() -> None:
            if process.unhindered and not woken.done():  # as `post`, in place: a disk sleeps for each sync
                woken.set_result(None)
            else:
                process.post(lambda: resolve(woken, None))

        timer = self._oscillator.call_later(delay_ns, wake)
        try:
            await woken
        finally:
            timer.cancel()
