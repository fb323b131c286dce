"""asyncio's ways of waiting for several things, with an order.

`asyncio.wait` returns sets, `as_completed` and `TaskGroup` iterate over them: their order is that of memory addresses,
and importing one more module changes it. `asyncio.wait_for` schedules differently in each version of Python. These
equivalents go by the order in which things were given, created or completed. They need only the running loop, so they
work in simulated and in real runs. They use the clock of the loop; to wait on a given clock, see
`splitbrain.harness.running.deadlines`.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias, TypeVar

T = TypeVar("T")

ReturnWhen: TypeAlias = Literal["FIRST_COMPLETED", "FIRST_EXCEPTION", "ALL_COMPLETED"]

FIRST_COMPLETED: Final = "FIRST_COMPLETED"
FIRST_EXCEPTION: Final = "FIRST_EXCEPTION"
ALL_COMPLETED: Final = "ALL_COMPLETED"


async def wait(
    futures: Sequence[asyncio.Future[T]],
    *,
    timeout_s: float | None = None,
    return_when: ReturnWhen = ALL_COMPLETED,
) -> tuple[list[asyncio.Future[T]], list[asyncio.Future[T]]]:
    """Wait until the first of these futures is done, or the first has failed, or all are done, or time is up.

    Neither running out of time nor a cancellation of the caller cancels the futures.

    Returns:
        those that are done and those that are pending, each in the order in which they were given.
    """
    enough = asyncio.get_running_loop().create_future()
    left = len(futures)

    def one_done(future: asyncio.Future[T]) -> None:
        nonlocal left
        left -= 1
        if left == 0 or _suffices(future, return_when):
            _release(enough)

    if futures and not any(future.done() and _suffices(future, return_when) for future in futures):
        for future in futures:
            future.add_done_callback(one_done)
        timer = None if timeout_s is None else asyncio.get_running_loop().call_later(timeout_s, _release, enough)
        try:
            await enough
        finally:
            if timer is not None:
                timer.cancel()
            for future in futures:
                # A caller that waits again and again for one long future would leave a callback on it each time.
                future.remove_done_callback(one_done)
    return [future for future in futures if future.done()], [future for future in futures if not future.done()]


def _suffices(done: asyncio.Future[Any], return_when: ReturnWhen) -> bool:
    """Whether this finished future ends the wait, independent of the others."""
    if return_when == FIRST_EXCEPTION:
        return not done.cancelled() and done.exception() is not None
    return return_when == FIRST_COMPLETED


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def as_completed(
    futures: Iterable[asyncio.Future[T]], *, timeout_s: float | None = None
) -> AsyncIterator[asyncio.Future[T]]:
    """The futures, each when it is done, in the order of completion; those done already in the order given.

    Leaving the iteration early cancels nothing.

    Raises:
        TimeoutError: not all were done within `timeout_s` of the first step.
    """
    # A dict where asyncio has a set: its order is that in which futures were given.
    pending = dict.fromkeys(futures)
    completed: deque[asyncio.Future[T]] = deque()
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] | None = None
    late = False

    def one_done(future: asyncio.Future[T]) -> None:
        completed.append(future)
        if waiter is not None:
            _release(waiter)

    def time_is_up() -> None:
        nonlocal late
        late = True
        if waiter is not None:
            _release(waiter)

    for future in pending:
        future.add_done_callback(one_done)
    timer = None if timeout_s is None else loop.call_later(timeout_s, time_is_up)
    try:
        while pending:
            while not completed:
                if late:
                    raise TimeoutError(f"{len(pending)} not completed within {timeout_s:g} s")
                waiter = loop.create_future()
                await waiter
            future = completed.popleft()
            del pending[future]
            yield future
    finally:
        if timer is not None:
            timer.cancel()
        for future in pending:
            future.remove_done_callback(one_done)


async def wait_for(work: Awaitable[T], timeout_s: float | None) -> T:
    """The result of `work` if it comes within `timeout_s`; else it is cancelled, and waited for.

    A cancellation of the caller cancels the work, and waits for it too.

    Raises:
        TimeoutError: it did not come in time. Work that answers its cancellation with a result still counts.
    """
    task = asyncio.ensure_future(work)
    try:
        await wait([task], timeout_s=timeout_s)
    except asyncio.CancelledError:
        task.cancel()
        await wait([task])
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio reports nothing: the cancellation has precedence
        raise
    if not task.done():
        task.cancel()
        await wait([task])
        if task.cancelled():
            raise TimeoutError(f"no answer within {timeout_s:g} s")
    return task.result()


class TaskGroup:
    """Tasks that end together, as `asyncio.TaskGroup` has it (Python 3.13's rules), cancelled in order of creation.

        async with TaskGroup() as group:
            group.create_task(first())
            group.create_task(second())

    The block ends when every task has. The first task that fails, or an error in the block, cancels the others.

    Raises:
        ExceptionGroup: tasks, or the block, failed; its errors are in the order in which they came up.
    """

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._errors: list[BaseException] = []
        self._parent: asyncio.Task[Any] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._exiting = False
        self._aborting = False
        self._cancelled_parent = False

    def create_task(
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        """Start a task in the group.

        Raises:
            RuntimeError: the group was not entered, has ended, or is cancelling its tasks.
        """
        if self._parent is None or self._aborting or (self._exiting and not self._tasks):
            coro.close()
            state = "was not entered" if self._parent is None else "is ending" if self._aborting else "has ended"
            raise RuntimeError(f"no task can be created: this TaskGroup {state}")
        task = asyncio.get_running_loop().create_task(coro, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._task_done)
        return task

    async def __aenter__(self) -> TaskGroup:
        if self._parent is not None:
            raise RuntimeError("this TaskGroup was entered before")
        self._parent = asyncio.current_task()
        if self._parent is None:
            raise RuntimeError("a TaskGroup is entered by a task")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._parent is not None, "only an entered group is left"
        self._exiting = True
        cancellation = error if isinstance(error, asyncio.CancelledError) else None
        if error is not None and not self._aborting:
            self._abort()
        cancellation = await self._all_done() or cancellation
        if error is not None and not isinstance(error, asyncio.CancelledError):
            self._errors.append(error)
        if self._cancelled_parent and self._parent.uncancel() == 0:
            cancellation = None  # it was the group's own, to end the block
        self._raise(cancellation)

    async def _all_done(self) -> asyncio.CancelledError | None:
        """Wait for every task; the cancellation of the parent that came meanwhile, if any."""
        cancellation: asyncio.CancelledError | None = None
        while self._tasks:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            except asyncio.CancelledError as error:
                if not self._aborting:
                    cancellation = error
                    self._abort()
        return cancellation

    def _raise(self, cancellation: BaseException | None) -> None:
        """Raise what there is to raise: what ends programs first, then errors, then the cancellation."""
        assert self._parent is not None, "only an entered group is left"
        errors, self._errors = self._errors, []
        for error in errors:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise error
        if errors:
            if self._parent.cancelling():  # cancelled from outside: keep it, to be raised at the parent's next wait
                self._parent.uncancel()
                self._parent.cancel()
            raise BaseExceptionGroup("unhandled errors in a TaskGroup", errors) from None
        if cancellation is not None:
            raise cancellation

    def _abort(self) -> None:
        self._aborting = True
        # In the order of creation: asyncio's group cancels in the order of addresses.
        for task in list(self._tasks):
            task.cancel()

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        if self._waiter is not None and not self._tasks:
            _release(self._waiter)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        self._errors.append(error)
        if not self._aborting:
            self._abort()
            if self._parent is not None and not self._parent.done():
                self._cancelled_parent = True
                self._parent.cancel()
