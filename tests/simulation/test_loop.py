"""The simulated loop: virtual time, an order that the seed decides, and an end for everything that cannot end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from weakref import ref

import pytest

from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation import loop as loop_module
from splitbrain.harness.simulation.loop import COLLECT_EVERY_NS, SimLoop, SimTimer
from splitbrain.harness.simulation.trace import Trace, first_divergence
from splitbrain.results.errors import SimulationDeadlockError, SimulationError, UsageError
from tests.simulation.interpreters import pythons

T = TypeVar("T")

S = 1_000_000_000
HERE = "tests/simulation/test_loop.py"


def simulate(main: Callable[[SimLoop], Awaitable[T]], seed: int = 1, **options: Any) -> T:
    loop = SimLoop(Rng(seed))

    async def run() -> T:
        return await main(loop)

    try:
        return loop.run(run(), **options)
    finally:
        loop.close()


async def pause(loop: SimLoop, delay_ns: int) -> None:
    woken: asyncio.Future[None] = loop.create_future()
    loop.after(delay_ns, lambda: woken.set_result(None))
    await woken


# --- time and order -----------------------------------------------------------------------------------------------


def test_time_jumps_from_event_to_event_and_is_exact() -> None:
    seen: list[tuple[str, int]] = []

    async def main(loop: SimLoop) -> None:
        loop.at(3 * S, lambda: seen.append(("at", loop.now_ns)))
        loop.after(1, lambda: seen.append(("after", loop.now_ns)))
        loop.call_later(0.1, lambda: seen.append(("call_later", loop.now_ns)))
        loop.call_at(2.0, lambda: seen.append(("call_at", loop.now_ns)))
        await pause(loop, 3600 * S + 1)
        seen.append(("end", loop.now_ns))

    simulate(main)
    assert seen == [
        ("after", 1),
        ("call_later", 100_000_000),
        ("call_at", 2 * S),
        ("at", 3 * S),
        ("end", 3600 * S + 1),
    ]


def test_an_event_that_is_due_in_the_past_happens_now_and_time_never_goes_back() -> None:
    async def main(loop: SimLoop) -> list[int]:
        times: list[int] = []
        await pause(loop, 5)
        loop.at(2, lambda: times.append(loop.now_ns))
        loop.after(-7, lambda: times.append(loop.now_ns))
        loop.call_at(0.0, lambda: times.append(loop.now_ns))
        await pause(loop, 1)
        return times

    assert simulate(main) == [5, 5, 5]


def order_of_events(seed: int, sleeps: int = 0) -> list[int]:
    async def main(loop: SimLoop) -> list[int]:
        seen: list[int] = []
        for number in range(30):
            loop.at(1000, lambda number=number: seen.append(number))
            for _ in range(sleeps):
                loop.call_later(5.0, print)
        await pause(loop, 2000)
        return seen

    return simulate(main, seed)


def test_the_seed_decides_between_events_of_the_same_nanosecond() -> None:
    assert order_of_events(1) == order_of_events(1)
    assert order_of_events(1) != order_of_events(2)
    assert sorted(order_of_events(1)) == list(range(30))
    assert order_of_events(1) != list(range(30))


def test_timers_of_a_library_do_not_disturb_the_order_of_our_own_events() -> None:
    assert order_of_events(1, sleeps=3) == order_of_events(1)


@pytest.mark.parametrize("seed", range(5))
def test_callbacks_run_first_come_first_served_whatever_the_seed(seed: int) -> None:
    async def main(loop: SimLoop) -> list[int]:
        seen: list[int] = []
        for number in range(30):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(0)
        return seen

    assert simulate(main, seed) == list(range(30))


def test_all_callbacks_of_an_event_run_before_the_next_event_of_the_same_instant() -> None:
    async def main(loop: SimLoop) -> list[int]:
        seen: list[int] = []

        async def chain(number: int) -> None:
            for _ in range(10):
                seen.append(number)
                await asyncio.sleep(0)

        tasks: list[asyncio.Task[None]] = []
        for number in range(5):
            loop.at(1000, lambda number=number: tasks.append(loop.create_task(chain(number))))
        await pause(loop, 2000)
        return seen

    seen = simulate(main)
    assert len(seen) == 50
    assert all(len(set(seen[first : first + 10])) == 1 for first in range(0, 50, 10))


def test_a_callback_runs_in_its_context() -> None:
    variable = contextvars.ContextVar("variable", default="none")

    async def main(loop: SimLoop) -> list[str]:
        seen: list[str] = []
        context = contextvars.copy_context()
        context.run(variable.set, "given")
        loop.call_soon(lambda: seen.append(variable.get()), context=context)
        loop.call_later(1, lambda: seen.append(variable.get()), context=context)
        variable.set("copied")
        loop.call_soon(lambda: seen.append(variable.get()))
        await pause(loop, 2 * S)
        return seen

    assert simulate(main) == ["given", "copied", "given"]


def test_a_cancelled_handle_does_nothing() -> None:
    async def main(loop: SimLoop) -> list[str]:
        seen: list[str] = []
        handles = [loop.call_soon(seen.append, "soon"), loop.call_later(1, seen.append, "later")]
        timers = [loop.after(S, lambda: seen.append("after"))]
        for handle in (*handles, *timers, *timers):
            handle.cancel()
        assert all(handle.cancelled() for handle in handles)
        await pause(loop, 2 * S)
        return seen

    assert simulate(main) == []


async def primitives() -> list[object]:
    seen: list[object] = []
    queue: asyncio.Queue[int] = asyncio.Queue(1)
    lock, event = asyncio.Lock(), asyncio.Event()

    async def produce() -> None:
        for number in range(3):
            await queue.put(number)
            await asyncio.sleep(1)
        event.set()

    async def locked(name: str) -> str:
        async with lock:
            seen.append(f"{name} in")
            await asyncio.sleep(0.5)
        return name

    producer = asyncio.create_task(produce(), name="producer")
    seen.extend([await queue.get() for _ in range(3)])
    await event.wait()
    seen.append(await asyncio.gather(locked("a"), locked("b")))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2):
            await asyncio.Event().wait()
    seen.append(producer.get_name())
    seen.append(asyncio.get_running_loop().time())
    return seen


def test_what_asyncio_offers_works() -> None:
    expected = [0, 1, 2, "a in", "b in", ["a", "b"], "producer", 6.0]
    assert simulate(lambda _: primitives()) == expected
    with asyncio.Runner(loop_factory=lambda: SimLoop(Rng(1))) as runner:
        assert runner.run(primitives()) == expected


# --- memory -------------------------------------------------------------------------------------------------------


class Thing:
    pass


def waiting(loop: SimLoop) -> int:
    return len(loop._heap)  # pyright: ignore[reportPrivateUsage]


def test_cancelled_timers_are_not_kept() -> None:
    async def main(loop: SimLoop) -> None:
        thing = Thing()
        gone = ref(thing)
        timer = loop.after(S, lambda thing=thing: None)
        del thing
        timer.cancel()
        assert gone() is None
        kept = [loop.after(S, lambda: None) for _ in range(100)]
        for _ in range(10_000):
            loop.after(S, lambda: None).cancel()
            assert waiting(loop) <= 2 * len(kept) + 100

    simulate(main)


def test_cancelled_timers_are_taken_out_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_out: list[int] = []
    heapify = loop_module.heapify

    def counting(heap: list[Any]) -> None:
        taken_out.append(len(heap))
        heapify(heap)

    monkeypatch.setattr(loop_module, "heapify", counting)

    async def main(loop: SimLoop) -> None:
        for timer in [loop.after(S, lambda: None) for _ in range(1000)][:900]:
            timer.cancel()

    simulate(main)
    assert 1 <= len(taken_out) <= 5, "each halves the heap at least"


def test_taking_cancelled_timers_out_changes_no_order() -> None:
    def order(cancelled: int) -> list[int]:
        async def main(loop: SimLoop) -> list[int]:
            seen: list[int] = []
            loop_order = [loop.at(500 + 7 * n % 50, lambda n=n: seen.append(n)) for n in range(100)]
            for timer in [loop.after(400, lambda: None) for _ in range(cancelled)]:
                timer.cancel()
            loop_order[3].cancel()
            await pause(loop, 1000)
            return seen

        return simulate(main)

    assert [n for n in order(0) if n != 3] == order(0)
    times = [500 + 7 * n % 50 for n in order(1000)]
    assert times == sorted(times)
    assert sorted(order(1000)) == sorted(order(0))


def test_an_hour_leaves_nothing_behind() -> None:
    async def main(loop: SimLoop) -> list[tuple[int, int, int]]:
        sizes: list[tuple[int, int, int]] = []

        async def short() -> None:
            await pause(loop, S // 100)

        for second in range(3600):
            loop.create_task(short())
            timers: list[SimTimer] = [loop.after(10 * S, lambda: None) for _ in range(5)]
            for timer in timers[1:]:
                timer.cancel()
            await pause(loop, S)
            if second % 900 == 899:
                tasks = len(loop._tasks)  # pyright: ignore[reportPrivateUsage]
                sizes.append((second, waiting(loop), tasks))
        return sizes

    sizes = simulate(main)
    assert all(heap < 200 and tasks == 1 for _, heap, tasks in sizes), sizes


def test_garbage_is_collected_when_virtual_time_says_so_and_only_then() -> None:
    async def main(loop: SimLoop) -> list[int]:
        collected: list[int] = []
        assert not gc.isenabled()

        class Cycle:
            def __init__(self) -> None:
                self.me = self

            def __del__(self) -> None:
                collected.append(loop.now_ns)

        Cycle()
        ballast = [[n] for n in range(100_000)]
        await pause(loop, COLLECT_EVERY_NS - 1)
        assert not collected
        await pause(loop, 2)
        del ballast
        return list(collected)

    gc.unfreeze()  # a command that another test ran in this process leaves everything frozen
    assert gc.isenabled()
    assert len(simulate(main)) == 1
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


# --- what cannot end ----------------------------------------------------------------------------------------------


def line_of(marker: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    return f"{HERE}:{1 + next(n for n, line in enumerate(lines) if line.endswith(f'# {marker}'))}"


def test_a_deadlock_names_the_time_and_who_waits_where() -> None:
    async def main(loop: SimLoop) -> None:
        async def starve() -> None:
            await asyncio.Event().wait()  # starving

        await pause(loop, 1_500_000_000)
        loop.create_task(starve(), name="starving")
        loop.create_task(starve())
        await asyncio.Lock().acquire()
        await asyncio.Event().wait()  # main waits

    with pytest.raises(SimulationDeadlockError) as caught:
        simulate(main)
    starving, waits = line_of("starving"), line_of("main waits")
    assert str(caught.value) == (
        "deadlock at virtual time 1.500000000 s: nothing is ready, no event is due, and the run has not ended. "
        f"Pending tasks: main at {waits}, starving at {starving}, task-3 at {starving}."
    )


@pytest.mark.parametrize("by", ["callbacks", "events"])
def test_a_livelock_is_found(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "MAX_CALLBACKS_PER_INSTANT", 1000)

    async def main(loop: SimLoop) -> None:
        def again() -> None:
            loop.after(0, again)

        await pause(loop, S)
        if by == "events":
            again()
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(0)  # spinning

    with pytest.raises(SimulationError, match=r"livelock at virtual time 1\.000000000 s") as caught:
        simulate(main)
    expected = "again" if by == "events" else f"main at {line_of('spinning')}"
    assert f"{expected}. Something waits" in str(caught.value)


def test_virtual_time_does_not_pass_the_limit() -> None:
    async def main(loop: SimLoop) -> None:
        while True:
            await pause(loop, S)

    with pytest.raises(SimulationError, match=r"passed its limit of 60 s of virtual time, at 60\.000000000 s.*main at"):
        simulate(main, limit_ns=60 * S)


def test_a_simulation_inside_a_running_loop_is_refused() -> None:
    async def main() -> None:
        simulate(lambda loop: pause(loop, 1))

    with pytest.raises(UsageError, match=f"inside a running event loop, at {HERE}"):
        asyncio.run(main())


# --- errors that nobody handles -------------------------------------------------------------------------------------


async def fail() -> None:
    raise KeyError("lost")


def test_the_result_and_the_error_of_main_are_those_of_the_run() -> None:
    with pytest.raises(KeyError, match="lost"):
        simulate(lambda _: fail())


def test_the_failure_of_a_task_that_nobody_waits_for_fails_the_run() -> None:
    kept: list[object] = []

    async def main(loop: SimLoop) -> None:
        kept.append(loop.create_task(fail(), name="failing"))  # kept: asyncio would never complain of it
        await pause(loop, 100 * S)

    with pytest.raises(SimulationError, match="never handled: task failing failed: KeyError: 'lost'"):
        simulate(main)


def test_a_failure_that_somebody_takes_notice_of_does_not_fail_the_run() -> None:
    async def main(loop: SimLoop) -> None:
        task = loop.create_task(fail())
        await pause(loop, 100 * S)
        assert isinstance(task.exception(), KeyError)

    simulate(main)


@pytest.mark.parametrize("how", ["at", "call_soon", "call_later"])
def test_the_failure_of_a_callback_fails_the_run_at_its_end(how: str) -> None:
    seen: list[str] = []

    async def main(loop: SimLoop) -> None:
        def break_down() -> None:
            raise KeyError("lost")

        if how == "at":
            loop.at(1, break_down)
        elif how == "call_soon":
            loop.call_soon(break_down)
        else:
            loop.call_later(0.1, break_down)
        await pause(loop, S)
        seen.append("end")

    with pytest.raises(SimulationError, match=r"break_down failed: KeyError: 'lost'\.$"):
        simulate(main)
    assert seen == ["end"]


def test_a_deadlock_after_an_unhandled_error_is_told_as_its_consequence() -> None:
    async def main(loop: SimLoop) -> None:
        woken: asyncio.Future[None] = loop.create_future()

        def deliver() -> None:
            raise KeyError("lost")

        loop.at(1, deliver)
        await woken

    with pytest.raises(SimulationError, match=r"never handled: .*deliver failed: KeyError: 'lost'\. Then: deadlock at"):
        simulate(main)


def test_a_handler_that_was_set_gets_the_errors() -> None:
    seen: list[str] = []

    async def main(loop: SimLoop) -> None:
        def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            seen.append(repr(context["exception"]))

        loop.set_exception_handler(handle)
        loop.call_soon([].pop)
        await pause(loop, 1)

    simulate(main)
    assert seen == ["IndexError('pop from empty list')"]


# --- what is left behind --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["well", "badly", "stuck"])
def test_tasks_that_are_left_behind_are_cancelled_in_the_order_of_their_creation(ending: str) -> None:
    seen: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            seen.append(number)

    async def main(loop: SimLoop) -> None:
        for number in range(20):
            loop.create_task(wait(number))
        await pause(loop, 1)
        if ending == "badly":
            raise KeyError("lost")
        if ending == "stuck":
            await asyncio.Event().wait()

    expected = {"well": (), "badly": (KeyError,), "stuck": (SimulationDeadlockError,)}[ending]
    if expected:
        with pytest.raises(expected):
            simulate(main)
    else:
        simulate(main)
    assert seen == list(range(20))


def test_tasks_that_swallow_their_cancellation_do_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "MAX_CALLBACKS_PER_INSTANT", 1000)

    async def stubborn() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def spins_when_cancelled() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(0)

    async def main(loop: SimLoop) -> str:
        loop.create_task(stubborn())
        loop.create_task(spins_when_cancelled())
        await pause(loop, 1)
        return "done"

    loop = SimLoop(Rng(1))
    assert loop.run(main(loop)) == "done"


def test_asynchronous_generators_are_closed_in_the_order_of_their_beginning() -> None:
    seen: list[int] = []

    async def count(number: int) -> AsyncGenerator[int, None]:
        try:
            while True:
                yield number
        finally:
            await asyncio.sleep(0)
            seen.append(number)

    async def main(loop: SimLoop) -> list[AsyncGenerator[int, None]]:
        generators = [count(number) for number in range(10)]
        assert [await anext(generator) for generator in generators] == list(range(10))
        del generators[5]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert seen == [5]
        return generators

    kept = simulate(main)
    assert seen == [5, 0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert len(kept) == 9


# --- the real world -------------------------------------------------------------------------------------------------

REAL = [
    name
    for name, method in vars(asyncio.AbstractEventLoop).items()
    if callable(method) and not name.startswith("_") and getattr(SimLoop, name).__qualname__ == f"Unreal.{name}"
]


def test_every_method_of_a_loop_is_either_virtual_or_refused() -> None:
    inherited = [
        name
        for name, method in vars(asyncio.AbstractEventLoop).items()
        if callable(method) and not name.startswith("_") and getattr(SimLoop, name) is method
    ]
    assert inherited == []
    assert {"run_in_executor", "create_connection", "getaddrinfo", "sock_recv", "add_reader"} <= set(REAL)


@pytest.mark.parametrize("name", REAL)
def test_a_method_that_needs_the_real_world_says_who_called_it(name: str) -> None:
    async def main(loop: SimLoop) -> None:
        getattr(loop, name)(None)  # refused

    with pytest.raises(SimulationError) as caught:
        simulate(main)
    assert str(caught.value).startswith(f"{name} was called inside a simulation, at {line_of('refused')}. ")


def test_a_library_of_asyncio_that_needs_the_real_world_is_refused_at_the_line_of_its_user() -> None:
    async def main(_: SimLoop) -> None:
        await asyncio.open_connection("localhost", 1)  # connecting

    with pytest.raises(SimulationError, match=f"create_connection .* at {line_of('connecting')}"):
        simulate(main)


def test_another_thread_cannot_interfere() -> None:
    errors: list[Exception] = []

    async def main(loop: SimLoop) -> None:
        assert loop.call_soon_threadsafe(lambda: None) is not None

        def interfere() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except SimulationError as error:
                errors.append(error)

        thread = threading.Thread(target=interfere)
        thread.start()
        thread.join()

    simulate(main)
    assert "from another thread" in str(errors[0])


# --- the same everywhere --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_order_is_the_same_in_every_python_and_under_every_hash_seed() -> None:
    def run(python: str, hash_seed: str, seed: str = "7") -> list[str]:
        script = str(Path(__file__).with_name("order.py"))
        environment = {"PYTHONHASHSEED": hash_seed, "PATH": os.environ["PATH"]}
        done = subprocess.run(
            [python, "-W", "error", script, seed], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout.splitlines()

    expected = run(sys.executable, "0")
    assert len(expected) > 100
    assert run(sys.executable, "0", seed="8") != expected
    for number, python in enumerate(pythons(), 1):
        assert first_divergence(expected, run(str(python), str(number))) is None, python


def test_a_trace_has_our_own_events_and_none_of_asyncio() -> None:
    trace = Trace()
    loop = SimLoop(Rng(1), trace=trace)

    def delivered() -> None:
        pass

    async def main() -> None:
        loop.at(5, delivered)
        await asyncio.sleep(1)

    loop.run(main())
    assert [line.split()[:2] for line in trace.lines()] == [["5", "event"]]
    assert trace.lines()[0].endswith("delivered")
