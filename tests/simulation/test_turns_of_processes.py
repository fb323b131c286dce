"""A callback in the place of a task: when it runs, whose marks are passed in it, and what goes before what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.cpu import CpuLimit
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.marks import MarkedProcess
from splitbrain.harness.simulation.process import SimProcess


def ran(main: Callable[[SimLoop], Coroutine[Any, Any, None]]) -> None:
    loop = SimLoop(Rng(1))
    loop.run(main(loop))


async def the_rest(loop: SimLoop) -> None:
    """Let everything happen that is ready."""
    over = loop.create_future()
    loop.after(1, lambda: over.set_result(None))
    await over


def test_a_waker_calls_back_once_for_each_call_behind_what_is_ready() -> None:
    async def main(loop: SimLoop) -> None:
        seen: list[str] = []
        wake = SimProcess(loop, 1, lambda: None).waker(lambda: seen.append("callback"))
        loop.call_soon(seen.append, "before")
        wake()
        loop.call_soon(seen.append, "after")
        assert seen == [], "not within the step that asks for it"
        await the_rest(loop)
        assert seen == ["before", "callback", "after"]
        wake()
        wake()
        await the_rest(loop)
        assert seen[3:] == ["callback", "callback"]

    ran(main)


def test_what_is_resumed_goes_on_before_all_that_is_ready() -> None:
    async def main(loop: SimLoop) -> None:
        seen: list[str] = []
        future: asyncio.Future[str] = loop.create_future()

        async def waits() -> None:
            seen.append(await future)

        task = loop.create_task(waits())
        await the_rest(loop)
        loop.call_soon(seen.append, "was ready")
        loop.resume(future, "resumed")
        await task
        assert seen == ["resumed", "was ready"]

    ran(main)


def test_a_callback_of_a_watched_process_is_its_own_step_and_its_failure_counts_only_while_it_lives() -> None:
    async def main(loop: SimLoop) -> None:
        process = MarkedProcess(loop, 1, lambda: None)
        seen: list[bool] = []

        def step() -> None:
            seen.append(process.at_work())
            process.end()
            raise LookupError("what an end in the middle of a step leaves behind")

        process.waker(step)()
        await the_rest(loop)
        assert seen == [True]
        assert not process.at_work()

    ran(main)


def test_a_process_is_unhindered_only_while_it_would_do_everything_at_once() -> None:
    async def main(loop: SimLoop) -> None:
        process = SimProcess(loop, 1, lambda: None)
        assert process.unhindered
        process.pause()
        assert not process.unhindered
        process.resume()
        assert process.unhindered
        process.limit(CpuLimit(loop, 0.5))
        assert not process.unhindered
        process.limit(None)
        assert process.unhindered
        process.compute(5)
        assert not process.unhindered
        ended = SimProcess(loop, 1, lambda: None)
        ended.end()
        assert not ended.unhindered
        assert not MarkedProcess(loop, 1, lambda: None).unhindered, "it has to know what it does"

    ran(main)
