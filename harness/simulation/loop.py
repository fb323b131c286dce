"""The event loop of a simulation: virtual time, seeded order, nothing of the real world.

The loop knows two kinds of things to do. *Events* are our own: deliveries, timers, completions of a disk; each has a
virtual time, and the seed decides between those of the same nanosecond. *Callbacks* are asyncio's: steps of tasks,
results of futures. After every event all callbacks run, first come, first served, until none is left; only then the
next event is taken and time jumps to it. So the seed never permutes callbacks, whose number differs between versions
of Python, and a run does not depend on it (measured in the specification of the simulation).

Two more things are closed here. Python collects cyclic garbage when enough was allocated, by whomever, and runs
finalizers then: the loop collects at fixed virtual times instead. And asyncio keeps tasks in a weak set, in the order
of addresses: the loop keeps them in the order in which they were created.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
from _thread import get_ident
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, cast
from weakref import ref

from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.garbage import collected_by_hand
from splitbrain.harness.simulation.handles import Later, Ready, SimTimer
from splitbrain.harness.simulation.places import caller, name_of, waits_at
from splitbrain.harness.simulation.refusals import Unreal
from splitbrain.results.errors import SimulationDeadlockError, SimulationError, UsageError

if TYPE_CHECKING:
    from splitbrain.harness.simulation.trace import Trace

__all__ = ["SimLoop", "SimTimer"]

T = TypeVar("T")

Due: TypeAlias = tuple[int, float, int, Any, Any]
"""An event: its time, what was drawn for it, its number; then a timer and None, or what takes an item and the item."""

MAX_CALLBACKS_PER_INSTANT: Final = 1_000_000
"""The largest number of callbacks and events at one virtual time; more is a livelock."""

COLLECT_EVERY_NS: Final = 10_000_000_000
"""How often, in virtual time, cyclic garbage is collected."""

COLLECTIONS_TO_FULL: Final = 6
"""One in so many collections looks at everything, the others at what was made since the last one."""

CLEANING_ROUNDS: Final = 3
"""How often the tasks that a run leaves behind are cancelled, should they swallow it."""

MAX_TASKS_LISTED: Final = 10
"""How many pending tasks an error names."""

MAX_UNHANDLED: Final = 100
"""How many unhandled errors are kept."""


class Life(Protocol):
    """What a process with its own loop leaves behind when the simulation ends."""

    def dispose(self) -> None:
        """Leave nothing behind that Python would complain of later."""
        ...

    def close_later(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Nothing refers any more to an asynchronous generator of this process."""
        ...


class SimLoop(Unreal):
    """An event loop under virtual time.

    Args:
        rng: decides the order of events that are due in the same nanosecond.
        trace: called with every event.

    Attributes:
        now_ns: the virtual time, in nanoseconds since the loop was made.
        unhandled: what asyncio reported of unhandled errors (the contexts of `call_exception_handler`).
    """

    def __init__(self, rng: Rng, *, trace: Trace | None = None) -> None:
        self.now_ns = 0
        self.unhandled: list[dict[str, Any]] = []
        self._trace = trace
        self._draw = rng.random
        # A library's timers draw from a stream of their own: how many it sets may depend on the version of Python.
        self._draw_for_asyncio = Rng(rng.below(2**32)).random
        self._heap: list[Due] = []
        self._forgotten = 0
        self._numbers = count(1)
        self._ready: deque[Ready] = deque()
        self._tasks: dict[asyncio.Future[Any], None] = {}
        self._failed: list[asyncio.Task[Any]] = []
        self._tasks_created = 0
        self._context = contextvars.Context()
        self._generators: dict[int, ref[AsyncGenerator[Any, Any]]] = {}
        self._generators_begun = 0
        self._lives: list[Life] = []
        self._generators_of_lives: dict[int, Life] = {}
        self._collect_ns = COLLECT_EVERY_NS
        self._collections = 0
        self._running = False
        self._closed = False
        self._thread = get_ident()
        self._task_factory: Any = None
        self._exception_handler: Any = None

    # --- events -------------------------------------------------------------------------------------------------

    def at(self, when_ns: int, callback: Callable[[], object]) -> SimTimer:
        """Run `callback` when virtual time is `when_ns`; at once, as an event of this instant, if that has passed.

        What the callback raises is unhandled: it fails the run at its end.
        """
        if when_ns < self.now_ns:
            when_ns = self.now_ns
        timer = SimTimer(self, when_ns, callback)
        # The number decides where two draws are equal: timers cannot be compared.
        heappush(self._heap, (when_ns, self._draw(), next(self._numbers), timer, None))
        return timer

    def after(self, delay_ns: int, callback: Callable[[], object]) -> SimTimer:
        """Run `callback` after `delay_ns` of virtual time."""
        when_ns = self.now_ns + delay_ns if delay_ns > 0 else self.now_ns
        timer = SimTimer(self, when_ns, callback)
        heappush(self._heap, (when_ns, self._draw(), next(self._numbers), timer, None))
        return timer

    def carry(self, when_ns: int, take: Callable[[Any], object], item: object) -> None:
        """Call `take` with an item when virtual time is `when_ns`, which has not passed: `at`, but for ever.

        Most events are messages that arrive. What cannot be cancelled needs no timer.
        """
        heappush(self._heap, (when_ns, self._draw(), next(self._numbers), take, item))

    def forget_one(self) -> None:
        """A timer was cancelled (it says so itself): once those are most of the heap, take them out of it."""
        self._forgotten += 1
        heap = self._heap
        if self._forgotten > 64 and self._forgotten * 2 > len(heap):
            # No two keys are equal, so the order in which events come out does not depend on the heap's layout.
            heap[:] = [entry for entry in heap if entry[4] is not None or entry[3].callback is not None]
            heapify(heap)
            self._forgotten = 0

    def adopt(self, life: Life) -> None:
        """Keep all that a process holds until the simulation is over, also when the process has ended.

        Were it collected earlier, Python would run the `finally` blocks of a process that was killed.
        """
        self._lives.append(life)

    # --- running ------------------------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T], limit_ns: int | None = None) -> T:
        """Run a coroutine to its end; then cancel, in the order of their creation, the tasks that it left behind.

        Args:
            main: what to run.
            limit_ns: the virtual time that must not be passed.

        Raises:
            SimulationDeadlockError: `main` waits for something that can never happen.
            SimulationError: virtual time passed the limit, or stands still for ever, or an error was never handled.
            UsageError: an event loop runs in this thread already.
        """
        try:
            self._check_startable()
        except BaseException:
            main.close()
            raise
        with self._in_charge():
            try:
                task = self.create_task(main, name="main")
                self._drive(task, limit_ns)
            except SimulationError as error:
                self._check_unhandled(f" Then: {error}")  # the unhandled error is the cause
                raise
            else:
                if not task.cancelled() and task.exception() is None:
                    self._check_unhandled()
            finally:
                self._clean_up()
        return task.result()

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """As in asyncio: run until the future is done. Other tasks stay."""
        self._check_startable()
        with self._in_charge():
            done: asyncio.Future[T] = asyncio.ensure_future(cast("Awaitable[T]", future), loop=self)
            self._drive(done, None)
        return done.result()

    def _check_startable(self) -> None:
        self._check_closed()
        if asyncio._get_running_loop() is not None:  # pyright: ignore[reportPrivateUsage] - there is no public one
            raise UsageError(
                f"a simulation was started inside a running event loop, at {caller(3)}. "
                "Call it from plain code, or from another thread or process."
            )

    @contextmanager
    def _in_charge(self) -> Generator[None]:
        """Be this thread's loop, and let garbage be collected only when virtual time says so."""
        hooks = sys.get_asyncgen_hooks()
        with collected_by_hand():
            sys.set_asyncgen_hooks(firstiter=self._generator_begun, finalizer=self._generator_dropped)
            asyncio._set_running_loop(self)  # pyright: ignore[reportPrivateUsage] - what every loop does
            self._thread = get_ident()
            self._running = True
            try:
                yield
            finally:
                self._running = False
                asyncio._set_running_loop(None)  # pyright: ignore[reportPrivateUsage]
                sys.set_asyncgen_hooks(*hooks)

    def _drive(self, main: asyncio.Future[Any], limit_ns: int | None) -> None:
        """Take events and callbacks until `main` is done."""
        heap, pop, trace, ready, over = self._heap, heappop, self._trace, self._ready, main.done
        now_ns, stop_ns = self.now_ns, self._next_stop(limit_ns)
        left = self._run_ready(MAX_CALLBACKS_PER_INSTANT)
        while not over():
            if not heap:
                raise self._deadlock()
            when_ns, _, _, callback, item = pop(heap)
            if item is None:
                timer, callback = callback, callback.callback
                if callback is None:
                    self._forgotten -= 1
                    continue
                timer.callback = None
            if when_ns > now_ns:
                if when_ns >= stop_ns:
                    stop_ns = self._stop(when_ns, limit_ns)
                self.now_ns = now_ns = when_ns
                left = MAX_CALLBACKS_PER_INSTANT
            if trace is not None:
                _note(trace, when_ns, callback)
            left -= 1
            if left < 0:
                raise self._livelock(callback)
            try:
                if item is None:
                    callback()
                else:
                    callback(item)
            except Exception as error:
                self.event_failed(callback, error)
            if ready:
                left = self._run_ready(left)

    def _next_stop(self, limit_ns: int | None) -> int:
        """Before virtual time jumps there, or beyond, something else is to be done."""
        return self._collect_ns if limit_ns is None else min(self._collect_ns, limit_ns + 1)

    def _stop(self, when_ns: int, limit_ns: int | None) -> int:
        """Do it before time jumps to `when_ns`; the next stop."""
        if limit_ns is not None and when_ns > limit_ns:
            raise self._limit_passed(limit_ns)
        # What an earlier collection left is looked at once a minute: most of it is what the run keeps.
        self._collections += 1
        gc.collect(1 if self._collections % COLLECTIONS_TO_FULL else 2)
        self._failed = [task for task in self._failed if _never_retrieved(task)]
        self._collect_ns = when_ns + COLLECT_EVERY_NS
        return self._next_stop(limit_ns)

    def _run_ready(self, left: int = MAX_CALLBACKS_PER_INSTANT) -> int:
        """Run callbacks until none is left, not more than `left`; how many more might have run."""
        ready = self._ready
        take = ready.popleft
        while ready:
            handle = take()
            left -= 1
            if left < 0:
                raise self._livelock(handle.callback)
            try:
                handle.context.run(*handle.call)
            except Exception as error:
                self.event_failed(handle.callback, error)
        return left

    def event_failed(self, callback: object, error: Exception) -> None:
        """An event raised an error that nothing handled: it fails the run at its end."""
        if isinstance(callback, Later):
            callback = callback.callback
        self.call_exception_handler({"message": f"{name_of(callback)} failed", "exception": error})

    # --- ending -------------------------------------------------------------------------------------------------

    def _check_unhandled(self, then: str = "") -> None:
        """Let no error get lost.

        Args:
            then: the consequence, a sentence.

        Raises:
            SimulationError: an error of a callback or a task was not handled.
        """
        gc.collect()
        for task in self._failed:
            if _never_retrieved(task):
                context = {"message": f"task {task.get_name()} failed", "exception": _error_of(task), "task": task}
                self.call_exception_handler(context)
        if not self.unhandled:
            return
        first = self.unhandled[0]
        error = first.get("exception")
        message = first.get("message", "an error was not handled")
        cause = "" if error is None else f": {type(error).__name__}: {error}"
        more = "" if len(self.unhandled) == 1 else f" ({len(self.unhandled) - 1} more)"
        raise SimulationError(f"an error in the simulation was never handled: {message}{cause}{more}.{then}") from error

    def _clean_up(self) -> None:
        """Leave nothing behind that Python would complain of later. Virtual time stands still meanwhile."""
        for entry in self._heap:
            if entry[4] is None:
                entry[3].callback = None
        self._heap.clear()
        self._forgotten = 0
        for life in self._lives:
            life.dispose()
        self._lives.clear()
        try:
            for _ in range(CLEANING_ROUNDS):
                if not self._tasks:
                    break
                for task in list(self._tasks):
                    task.cancel()
                self._run_ready()
            for generator in self._living_generators():
                self.create_task(_close(generator), name="closing of an asynchronous generator")
            self._run_ready()
        except SimulationError:
            self._ready.clear()  # a task spins although it was cancelled; the error of the run is already reported
        for task in self._failed:
            _error_of(task)
        for task in self._tasks:
            task._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue] - or it warns, much later
        self._failed.clear()
        self._tasks.clear()
        self._heap.clear()
        gc.collect()

    # --- what goes wrong ----------------------------------------------------------------------------------------

    def _deadlock(self) -> SimulationDeadlockError:
        return SimulationDeadlockError(
            f"deadlock at virtual time {self._at()}: nothing is ready, no event is due, and the run has not ended. "
            f"{self._who_waits()}"
        )

    def _limit_passed(self, limit_ns: int) -> SimulationError:
        return SimulationError(
            f"the simulation passed its limit of {limit_ns / 1e9:g} s of virtual time, at {self._at()}. "
            f"{self._who_waits()}"
        )

    def _livelock(self, callback: object) -> SimulationError:
        step = getattr(callback, "__self__", None)
        next_one = self._describe(cast("Any", step)) if isinstance(step, asyncio.Task) else name_of(callback)
        return SimulationError(
            f"livelock at virtual time {self._at()}: {MAX_CALLBACKS_PER_INSTANT:,} callbacks ran without virtual time "
            f"moving; next is {next_one}. Something waits by asking again and again: let it wait for an event, or "
            "for time to pass."
        )

    def _at(self) -> str:
        return f"{self.now_ns // 10**9}.{self.now_ns % 10**9:09d} s"

    def _who_waits(self) -> str:
        waiting = [task for task in self._tasks if isinstance(task, asyncio.Task) and not task.done()]
        listed = ", ".join(self._describe(task) for task in waiting[:MAX_TASKS_LISTED])
        more = f", and {len(waiting) - MAX_TASKS_LISTED} more" if len(waiting) > MAX_TASKS_LISTED else ""
        return f"Pending tasks: {listed or 'none'}{more}."

    def _describe(self, task: asyncio.Task[Any]) -> str:
        coroutine: Any = task.get_coro()
        return f"{task.get_name()} at {waits_at(coroutine)}"

    # --- asyncio's own face -------------------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Run `callback` in this instant, after what is ready already."""
        if self._closed:
            self._check_closed()
        handle = Ready((callback, *args), contextvars.copy_context() if context is None else context)
        self._ready.append(handle)
        return handle  # pyright: ignore[reportReturnType] - it is one in all but its base class

    def waker(self, callback: Callable[[], None]) -> Callable[[], None]:
        """What is `call_soon` for one callback, which is never cancelled: no handle is made for each call."""
        return partial(self._ready.append, Ready((callback,), contextvars.copy_context()))

    def resume(self, future: asyncio.Future[T], result: T) -> None:
        """Give a future its result, and let the one task that waits for it go on before all that is ready."""
        future.set_result(result)
        self._ready.appendleft(self._ready.pop())

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """`call_soon`; there are no other threads from which it might be called."""
        if get_ident() != self._thread:
            raise SimulationError(
                f"call_soon_threadsafe was called from another thread, at {caller(2)}: a simulation has one thread."
            )
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Run `callback` after `delay` seconds of virtual time."""
        return self._call_at(self.now_ns + max(0, round(delay * 1e9)), callback, args, context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Run `callback` when `time()` is `when`, to the nanosecond."""
        # A float of seconds gives its nanosecond back up to 2**51 ns, some 26 days of virtual time.
        return self._call_at(max(self.now_ns, round(when * 1e9)), callback, args, context)

    def _call_at(
        self, when_ns: int, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.TimerHandle:
        self._check_closed()
        handle = Later(callback, args, contextvars.copy_context() if context is None else context)
        handle.timer = timer = SimTimer(self, when_ns, handle)
        heappush(self._heap, (when_ns, self._draw_for_asyncio(), next(self._numbers), timer, None))
        return handle

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self.now_ns / 1e9

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
        **kwargs: Any,
    ) -> asyncio.Task[T]:
        """A task of this loop. One without a name is called after the number of tasks that there were: `task-7`."""
        self._check_closed()
        self._tasks_created += 1
        called = f"task-{self._tasks_created}" if name is None else str(name)
        task: asyncio.Task[T]
        if self._task_factory is None:
            task = asyncio.Task(coro, loop=self, name=called, context=context, **kwargs)
        else:
            task = self._task_factory(self, coro, context=context, **kwargs)
            task.set_name(called)
        if not task.done():
            self._tasks[task] = None
        task.add_done_callback(self._task_ended, context=self._context)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if _never_retrieved(task):
            self._failed.append(task)

    def set_task_factory(self, factory: Any) -> None:
        """Let `factory` make tasks; None for asyncio's own."""
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        """What makes tasks, None if that is asyncio."""
        return self._task_factory

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an unhandled error, or pass it to the handler that was set."""
        if self._exception_handler is not None:
            self._exception_handler(self, context)
        elif len(self.unhandled) < MAX_UNHANDLED:
            self.unhandled.append(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an unhandled error."""
        if len(self.unhandled) < MAX_UNHANDLED:
            self.unhandled.append(context)

    def set_exception_handler(self, handler: Any) -> None:
        """Let `handler(loop, context)` process unhandled errors; None to keep them in `unhandled`."""
        self._exception_handler = handler

    def get_exception_handler(self) -> Any:
        """The handler of unhandled errors, None if the loop keeps them."""
        return self._exception_handler

    # Every future asks: a function written in Python would cost as much as the rest of the future.
    get_debug = bool  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride] - called the same
    """Whether futures keep the stack of their creation: False, until `set_debug`."""

    def set_debug(self, enabled: bool) -> None:
        """Let futures keep the stack of their creation. That changes no order."""
        self.get_debug = partial(bool, enabled)

    def is_running(self) -> bool:
        """Whether it runs now."""
        return self._running

    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def close(self) -> None:
        """Forget everything that is still to be done."""
        if self._running:
            raise UsageError(f"a running simulation cannot be closed, at {caller(2)}.")
        self._closed = True
        self._ready.clear()
        self._heap.clear()
        self._tasks.clear()
        self._failed.clear()

    def _check_closed(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")

    # --- asynchronous generators ----------------------------------------------------------------------------------

    async def shutdown_asyncgens(self) -> None:
        """Close the asynchronous generators that were started and not exhausted, in the order of their starts."""
        for generator in self._living_generators():
            await generator.aclose()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    def _generator_begun(self, generator: AsyncGenerator[Any, Any]) -> None:
        running = asyncio._get_running_loop()  # pyright: ignore[reportPrivateUsage]
        self._generators_of_lives.pop(id(generator), None)
        if running is not self:
            self._generators_of_lives[id(generator)] = cast("Life", running)
            return
        self._generators_begun += 1
        number = self._generators_begun
        self._generators[number] = ref(generator, lambda _: self._generators.pop(number, None))

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        life = self._generators_of_lives.pop(id(generator), None)
        if life is not None:
            life.close_later(generator)
        elif self._running:
            self.create_task(_close(generator), name="closing of an asynchronous generator")

    def _living_generators(self) -> list[AsyncGenerator[Any, Any]]:
        living = [reference() for reference in list(self._generators.values())]
        self._generators.clear()
        return [generator for generator in living if generator is not None]


def _note(trace: Trace, when_ns: int, callback: object) -> None:
    # Asyncio's timers are left out: how many there are depends on the version of Python.
    if type(callback) is not Later:
        trace.event(when_ns, "event", name_of(callback))


async def _close(generator: AsyncGenerator[Any, Any]) -> None:
    await generator.aclose()


def _never_retrieved(task: asyncio.Task[Any]) -> bool:
    """Whether a task failed and its exception was not retrieved."""
    return task._log_traceback  # pyright: ignore[reportPrivateUsage] - asyncio asks this too late, in a finalizer


def _error_of(task: asyncio.Task[Any]) -> BaseException | None:
    """What a task that is done failed with; asked, so that asyncio does not complain."""
    return None if task.cancelled() else task.exception()
