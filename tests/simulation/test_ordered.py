"""Ordered equivalents of asyncio's ways of waiting, on a simulated loop and on a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.ordered import (
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    TaskGroup,
    as_completed,
    wait,
    wait_for,
)

T = TypeVar("T")

DELAYS = (5, 1, 4, 2, 3, 0, 9, 8, 7, 6)

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def in_simulation(main: Coroutine[Any, Any, T]) -> T:
    return SimLoop(Rng(1)).run(main)


@pytest.fixture(params=["simulated", "real"])
def run(request: pytest.FixtureRequest) -> Run:
    return in_simulation if request.param == "simulated" else asyncio.run


async def after(delay: float, result: object = None) -> Any:
    await asyncio.sleep(delay / 20)
    if isinstance(result, BaseException):
        raise result
    return delay if result is None else result


def tasks(*works: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    return [asyncio.get_running_loop().create_task(work) for work in works]


async def cancelled(pending: list[asyncio.Task[Any]]) -> None:
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)


# --- wait ---------------------------------------------------------------------------------------------------------


def test_wait_returns_the_futures_in_the_order_given(run: Run) -> None:
    async def main() -> None:
        given = tasks(*map(after, DELAYS))
        done, pending = await wait(given)
        assert [task.result() for task in done] == list(DELAYS)
        assert pending == []
        assert await wait([]) == ([], [])
        assert await wait(given) == (given, [])

    run(main())


def test_wait_for_the_first(run: Run) -> None:
    async def main() -> None:
        given = tasks(after(50), after(1), after(50))
        done, pending = await wait(given, return_when=FIRST_COMPLETED)
        assert (done, pending) == ([given[1]], [given[0], given[2]])
        assert await wait(given, return_when=FIRST_COMPLETED) == (done, pending), "it is done already"
        await cancelled(given)

    run(main())


def test_wait_for_the_first_failure(run: Run) -> None:
    async def main() -> None:
        given = tasks(after(1), after(2, KeyError()), after(50))
        given[0].cancel()
        done, pending = await wait(given, return_when=FIRST_EXCEPTION)
        assert (done, pending) == (given[:2], given[2:])
        await cancelled(given)
        both = tasks(after(0), after(1))
        assert await wait(both, return_when=FIRST_EXCEPTION) == (both, [])

    run(main())


def test_neither_a_timeout_nor_a_cancellation_of_wait_cancels_what_is_waited_for(run: Run) -> None:
    async def main() -> None:
        given = tasks(after(4), after(1))
        done, pending = await wait(given, timeout_s=0.1)
        assert (done, pending) == ([given[1]], [given[0]])
        (waiter,) = tasks(wait(given))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        assert waiter.cancelled()
        assert await given[0] == 4

    run(main())


# --- as_completed -------------------------------------------------------------------------------------------------


def test_as_completed_goes_by_completion_and_among_what_is_done_by_the_order_given(run: Run) -> None:
    async def main() -> None:
        given = tasks(*map(after, DELAYS))
        assert [task.result() async for task in as_completed([*given, given[0]])] == sorted(DELAYS)
        assert [task.result() async for task in as_completed(given)] == list(DELAYS)

    run(main())


def test_as_completed_gives_what_came_in_time_then_says_how_many_did_not(run: Run) -> None:
    async def main() -> list[int]:
        given = tasks(after(1), after(50), after(0), after(50))
        seen: list[int] = []

        async def collect() -> None:
            async for task in as_completed(given, timeout_s=0.3):
                seen.append(task.result())  # noqa: PERF401 - what came before the error counts

        with pytest.raises(TimeoutError, match=r"2 not completed within 0\.3 s"):
            await collect()
        await cancelled(given)
        return seen

    assert run(main()) == [0, 1]


# --- wait_for -----------------------------------------------------------------------------------------------------


def test_wait_for_gives_the_result_or_the_error_in_time(run: Run) -> None:
    async def main() -> None:
        assert await wait_for(after(1), 30) == 1
        assert await wait_for(after(1), None) == 1
        with pytest.raises(KeyError):
            await wait_for(after(1, KeyError()), 30)

    run(main())


async def cleans_up(seen: list[str], result: object = None) -> object:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(0.01)
        seen.append("cleaned up")
        if result is None:
            raise
        if isinstance(result, Exception):
            raise result from None
    return result


def test_wait_for_cancels_what_is_late_and_waits_until_it_has_ended(run: Run) -> None:
    async def main() -> None:
        seen: list[str] = []
        with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
            await wait_for(cleans_up(seen), 0.05)
        assert seen == ["cleaned up"]
        assert await wait_for(cleans_up(seen, "late, but here"), 0.05) == "late, but here"
        with pytest.raises(KeyError):
            await wait_for(cleans_up(seen, KeyError("in cleaning up")), 0.05)

    run(main())


@pytest.mark.parametrize("result", [None, "result", KeyError("error")])
def test_a_cancelled_wait_for_cancels_the_work_and_waits_for_it(run: Run, result: object) -> None:
    async def main() -> None:
        seen: list[str] = []
        (waiter,) = tasks(wait_for(cleans_up(seen, result), 30))
        await asyncio.sleep(0.01)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        assert waiter.cancelled()
        assert seen == ["cleaned up"]

    run(main())


# --- TaskGroup ----------------------------------------------------------------------------------------------------


async def hang(seen: list[int], number: int) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        seen.append(number)


def test_a_group_waits_for_its_tasks(run: Run) -> None:
    async def main() -> None:
        async with TaskGroup() as group:
            given = [group.create_task(after(delay), name=f"after {delay}") for delay in (2, 1)]
            given.append(group.create_task(more(group, given)))
        assert [task.result() for task in given] == [2, 1, None, 3]
        assert given[0].get_name() == "after 2"

    async def more(group: TaskGroup, given: list[asyncio.Task[Any]]) -> None:
        await asyncio.sleep(0.01)
        given.append(group.create_task(after(3)))

    run(main())


@pytest.mark.parametrize("where", ["task", "block", "while the group waits"])
def test_a_failure_cancels_the_others_in_the_order_of_their_creation(run: Run, where: str) -> None:
    seen: list[int] = []

    async def grouped() -> None:
        async with TaskGroup() as group:
            for number in range(20):
                group.create_task(hang(seen, number))
            await asyncio.sleep(0)
            if where == "block":
                raise KeyError("failed")
            group.create_task(after(0.1, KeyError("failed")))
            if where == "task":
                await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(ExceptionGroup) as caught:
            await grouped()
        assert [repr(error) for error in caught.value.exceptions] == ["KeyError('failed')"]
        assert task.cancelling() == 0
        await asyncio.sleep(0)  # nothing is left to be raised

    run(main())
    assert seen == list(range(20))


def test_errors_of_a_group_are_in_the_order_in_which_they_came(run: Run) -> None:
    async def fails_when_cancelled(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError(number)

    async def grouped() -> None:
        async with TaskGroup() as group:
            for number in range(9):
                group.create_task(fails_when_cancelled(number))
            group.create_task(after(1, KeyError()))

    async def main() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            await grouped()
        assert isinstance(caught.value.exceptions[0], KeyError)
        assert [error.args[0] for error in caught.value.exceptions[1:]] == list(range(9))

    run(main())


@pytest.mark.parametrize("where", ["block", "end"])
def test_a_cancelled_group_cancels_its_tasks_and_stays_cancelled(run: Run, where: str) -> None:
    seen: list[int] = []

    async def grouped() -> None:
        async with TaskGroup() as group:
            for number in range(20):
                group.create_task(hang(seen, number))
            if where == "block":
                await asyncio.Event().wait()

    async def main() -> None:
        (task,) = tasks(grouped())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    run(main())
    assert seen == list(range(20))


def test_a_cancellation_from_outside_is_not_lost_behind_errors(run: Run) -> None:
    async def fails_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError

    async def grouped(seen: list[str]) -> None:
        try:
            async with TaskGroup() as group:
                group.create_task(fails_when_cancelled())
        except* ValueError:
            seen.append("errors")
        await asyncio.sleep(0)
        seen.append("never reached")

    async def main() -> None:
        seen: list[str] = []
        (task,) = tasks(grouped(seen))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert seen == ["errors"]

    run(main())


def test_a_group_takes_tasks_only_while_it_is_open(run: Run) -> None:
    async def refused(group: TaskGroup, state: str) -> None:
        with pytest.raises(RuntimeError, match=state):
            group.create_task(after(0))

    async def main() -> None:
        await refused(TaskGroup(), "was not entered")
        async with TaskGroup() as group:
            pass
        await refused(group, "has ended")
        with pytest.raises(RuntimeError, match="entered before"):
            await enter(group)

    async def enter(group: TaskGroup) -> None:
        async with group:
            pass

    run(main())


def test_what_ends_programs_is_not_wrapped() -> None:
    async def main() -> None:
        async with TaskGroup() as group:
            group.create_task(after(0, SystemExit(3)))
            await asyncio.Event().wait()

    with pytest.raises(SystemExit):
        asyncio.run(main())
    with pytest.raises(SystemExit):
        in_simulation(main())
