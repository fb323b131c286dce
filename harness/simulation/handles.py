"""The work of the simulated loop: its own events, and callbacks of asyncio."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from splitbrain.harness.simulation.places import name_of


class Queue(Protocol):
    """Where timers wait."""

    def forget_one(self) -> None:
        """One of the timers that wait was cancelled."""
        ...


# Structs: one is made for every event and every callback, and the constructor of a struct is compiled.
class SimTimer(msgspec.Struct, eq=False):
    """An event of the simulation.

    Attributes:
        queue: where it waits.
        when_ns: the virtual time at which it is due.
        callback: the work; None once it has begun or was cancelled, so that no object is kept alive.
    """

    queue: Queue
    when_ns: int
    callback: Callable[[], object] | None

    def cancel(self) -> None:
        """Forget it; no harm if it has run."""
        if self.callback is not None:
            self.callback = None
            self.queue.forget_one()


class Ready(msgspec.Struct, eq=False):
    """A callback of asyncio's that is to run in this instant. It has the methods of `asyncio.Handle`.

    Attributes:
        call: the callback and its arguments, as they are handed to the context.
        context: in which it runs.
    """

    call: tuple[Any, ...]
    context: contextvars.Context

    @property
    def callback(self) -> Callable[..., object]:
        """What is called."""
        return self.call[0]

    def cancel(self) -> None:
        """Forget it; no harm if it has run."""
        self.call = (_nothing,)

    def cancelled(self) -> bool:
        """Whether it was forgotten."""
        return self.callback is _nothing

    def get_context(self) -> contextvars.Context:
        """The context in which it runs."""
        return self.context

    def __repr__(self) -> str:
        return f"<Ready {name_of(self.callback)}>"


class Later(asyncio.TimerHandle):
    """A callback of asyncio's that is due later. It is the callback of its timer."""

    __slots__ = ("args", "callback", "context", "timer")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.timer: SimTimer | None = None

    def __call__(self) -> None:
        """Run it."""
        self.context.run(self.callback, *self.args)

    def cancel(self) -> None:
        """Forget it; no harm if it has run."""
        self.callback = _nothing
        self.args = ()
        if self.timer is not None:
            self.timer.cancel()

    def cancelled(self) -> bool:
        """Whether it was forgotten."""
        return self.callback is _nothing

    def when(self) -> float:
        """The virtual time at which it is due, in seconds."""
        return 0.0 if self.timer is None else self.timer.when_ns / 1e9

    def get_context(self) -> contextvars.Context:
        """The context in which it runs."""
        return self.context

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<Later {name_of(self.callback)}>"


def _nothing(*_: object) -> None:
    pass
