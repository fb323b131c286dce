"""What a simulated process's loop has made: tasks, futures and timers.

Tasks and futures are numbered, and their number is their hash: a set of them has an order that does not depend on
addresses. Many programs keep their tasks in a set.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from splitbrain.harness.simulation.places import name_of

if TYPE_CHECKING:
    from splitbrain.harness.simulation.process import GatedTimer

T = TypeVar("T")


class NumberedTask(asyncio.Task[T], Generic[T]):
    """A task whose hash is its number."""

    def __init__(self, number: int, coro: Any, **kwargs: Any) -> None:
        self._number = number
        super().__init__(coro, **kwargs)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class NumberedFuture(asyncio.Future[T], Generic[T]):
    """A future whose hash is its number."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class ProgramTimer(asyncio.TimerHandle):
    """A callback that is due when the clock of the process's host says so.

    Attributes:
        timer: what rings then.
    """

    __slots__ = ("args", "callback", "context", "due_s", "timer")

    def __init__(
        self, due_s: float, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context
    ) -> None:
        """`due_s` is in seconds of the loop's `time()`."""
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context
        self.due_s = due_s
        self.timer: GatedTimer | None = None

    def run(self) -> None:
        """Run it, unless it was cancelled."""
        if self.callback is not None:
            self.callback(*self.args)

    def cancel(self) -> None:
        """Forget it; no harm if it has run."""
        self.callback = None
        self.args = ()
        if self.timer is not None:
            self.timer.cancel()

    def cancelled(self) -> bool:
        """Whether it was forgotten."""
        return self.callback is None

    def when(self) -> float:
        """When it is due, in seconds of the loop's `time()`."""
        return self.due_s

    def get_context(self) -> contextvars.Context:
        """The context in which it runs."""
        return self.context

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<ProgramTimer {name_of(self.callback)}>"
