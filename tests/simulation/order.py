"""Exercise the simulated loop and print in which order things happened: the same in every Python and every process.

Needs the standard library only: the packages around the loop import more than it does, and are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
for _package in ("splitbrain", "splitbrain.harness", "splitbrain.harness.simulation", "splitbrain.results"):
    _module = ModuleType(_package)
    _module.__path__ = [str(ROOT / _package.replace(".", "/"))]
    sys.modules[_package] = _module

import asyncio  # noqa: E402

from splitbrain.harness.contract.rng import Rng  # noqa: E402
from splitbrain.harness.simulation import ordered  # noqa: E402
from splitbrain.harness.simulation.guard import forbidden  # noqa: E402
from splitbrain.harness.simulation.loop import SimLoop  # noqa: E402
from splitbrain.harness.simulation.trace import Trace  # noqa: E402


async def main(loop: SimLoop, trace: Trace) -> None:
    def note(what: str) -> None:
        trace.event(loop.now_ns, "noted", what)

    async def worker(number: int) -> int:
        for step in range(5):
            woken: asyncio.Future[None] = loop.create_future()
            loop.after(1000 * (step + number % 2), lambda woken=woken: woken.set_result(None))
            await woken
            note(f"worker {number} step {step}")
        if number == 4:
            raise ValueError("four")
        return number

    for number in range(20):
        loop.at(10_000, lambda number=number: note(f"event {number}"))
    tasks = [loop.create_task(worker(number)) for number in range(8)]
    async for task in ordered.as_completed(tasks):
        note(f"{task.get_name() if isinstance(task, asyncio.Task) else ''} {task.exception()!r}")
    try:
        await ordered.wait_for(asyncio.Event().wait(), 1.5)
    except TimeoutError:
        note("late")
    await asyncio.gather(*[asyncio.sleep(delay) for delay in (0.3, 0.1, 0.1)])
    try:
        async with asyncio.timeout(0.5):
            await asyncio.sleep(1)
    except TimeoutError:
        note("timeout")
    try:
        async with ordered.TaskGroup() as group:
            for number in range(6):
                group.create_task(hangs(number, note))
            group.create_task(worker(4))
    except* ValueError as errors:
        note(repr(errors.exceptions))


async def hangs(number: int, note: object) -> None:
    assert callable(note)
    try:
        await asyncio.Event().wait()
    finally:
        note(f"hanging {number} cancelled")


if __name__ == "__main__":
    the_trace = Trace()
    the_loop = SimLoop(Rng(int(sys.argv[1])), trace=the_trace)
    with forbidden() as the_guard:
        the_loop.run(main(the_loop, the_trace))
    assert the_guard.offence is None
    the_trace.write(sys.stdout)
