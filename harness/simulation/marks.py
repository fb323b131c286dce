"""Faults at moments: marks that simulated nodes pass, charged to the node, and what is done at that very instant.

A mark is passed in the middle of a step of a node. What is done then is done before the step goes on: a node that is
killed at a mark gets as far as its code runs without waiting, but nothing that it does afterwards has an effect. What a
node that is paused at a mark sends in the rest of the step leaves when it is resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from splitbrain.harness.contract.moments import Act, Moment, Moments, Passed, SystemMarks
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.simulation.process import SimProcess, resolve
from splitbrain.results.errors import HarnessError

if TYPE_CHECKING:
    from splitbrain.harness.simulation.host import SimHost
    from splitbrain.harness.simulation.loop import SimLoop, SimTimer

_stepping: SimProcess | None = None
"""Whose callback runs now; the processes of one simulation run in one thread."""


class MarkedProcess(SimProcess):
    """A process that is known to be at work while its callbacks run: marks that are passed there are its own."""

    _goes_unwatched = False

    def at_work(self) -> bool:
        """Whether one of its steps runs now."""
        return _stepping is self or self.owns(asyncio.current_task(self._loop))

    def post(self, callback: Callable[[], None]) -> None:
        """Let the process do something, as any process."""
        super().post(lambda: self._step(callback))

    def waker(self, callback: Callable[[], None]) -> Callable[[], None]:
        """What has a callback called as a step of its own."""
        return super().waker(lambda: self._step(callback))

    def _step(self, callback: Callable[[], None]) -> None:
        global _stepping
        outer, _stepping = _stepping, self
        try:
            callback()
        except Exception:
            # It was ended in the middle of the callback: what fails then fails because of that.
            if self.alive():
                raise
        finally:
            _stepping = outer


class Listener:
    """Hears the marks of all nodes of a simulation, and acts at moments.

    Args:
        loop: of the simulation.
        hosts: the nodes, whose processes are `MarkedProcess`es.
        marks: of the system.
    """

    def __init__(self, loop: SimLoop, hosts: Mapping[NodeId, SimHost], marks: SystemMarks) -> None:
        self._loop = loop
        self._hosts = hosts
        self._moments = Moments()
        self._acts: dict[int, Callable[[Passed], None]] = {}
        self._hearing: AbstractContextManager[None] | None = marks.heard(self._hear)
        self._hearing.__enter__()

    def close(self) -> None:
        """Hear nothing more."""
        hearing, self._hearing = self._hearing, None
        if hearing is not None:
            hearing.__exit__(None, None, None)

    async def at_moment(self, moments: Sequence[Moment], act: Act, within_ns: int) -> Passed | None:
        """Wait for the first of some moments and act on its node, as of `HearsMarks`."""
        came = asyncio.Future[Passed | None](loop=self._loop)
        timers: list[SimTimer] = [self._loop.after(within_ns, lambda: resolve(came, None))]

        def begin(found: Passed) -> None:
            if came.done():
                return
            try:
                _at_once(act(found.node))
            except Exception as error:
                came.set_exception(error)
            else:
                came.set_result(found)

        def passed(found: Passed) -> None:
            if found.moment.after_us:
                timers.append(self._loop.after(found.moment.after_us * 1000, lambda: begin(found)))
            else:
                begin(found)

        wait = self._moments.wait(moments)
        self._acts[wait] = passed
        try:
            return await came
        finally:
            self._moments.give_up(wait)
            del self._acts[wait]
            for timer in timers:
                timer.cancel()

    def _hear(self, mark: str) -> None:
        if not self._acts:
            return
        node = self._node()
        if node is None:
            return
        for wait, found in self._moments.passed(node, mark).items():
            self._acts[wait](found)

    def _node(self) -> NodeId | None:
        """The node that is at work; None if none is, or if its process has ended."""
        if _stepping is not None:
            found = next((node for node, host in self._hosts.items() if host.process is _stepping), None)
            return found if _stepping.alive() else None
        task = asyncio.current_task(self._loop)
        return next((node for node, host in self._hosts.items() if host.process and host.process.owns(task)), None)


def _at_once(act: Coroutine[Any, Any, None]) -> None:
    """Run something to its end, now.

    Raises:
        HarnessError: it waits for something.
    """
    try:
        act.send(None)
    except StopIteration:
        return
    act.close()
    raise HarnessError("what is done at a moment of a simulation must not wait for anything.")
