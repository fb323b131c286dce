"""asyncio's ways of waiting for several things, with asyncio's signatures, in the order of `ordered`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable, Iterator
from typing import Any, TypeVar, cast

from splitbrain.harness.simulation import ordered

T = TypeVar("T")


async def wait(
    fs: Iterable[asyncio.Future[T]], *, timeout: float | None = None, return_when: str = ordered.ALL_COMPLETED
) -> tuple[set[asyncio.Future[T]], set[asyncio.Future[T]]]:
    """`asyncio.wait`. Tasks of a process are numbered, so these sets have an order."""
    futures = list(dict.fromkeys(fs))
    if not futures:
        raise ValueError("Set of Tasks/Futures is empty.")
    if any(asyncio.iscoroutine(each) for each in futures):
        raise TypeError("Passing coroutines is forbidden, use tasks explicitly.")
    done, pending = await ordered.wait(futures, timeout_s=timeout, return_when=cast("ordered.ReturnWhen", return_when))
    return set(done), set(pending)


async def wait_for(fut: Awaitable[T], timeout: float | None) -> T:
    """`asyncio.wait_for`."""
    return await ordered.wait_for(fut, timeout)


def as_completed(fs: Iterable[Awaitable[T]], *, timeout: float | None = None) -> Iterator[Coroutine[Any, Any, T]]:
    """`asyncio.as_completed`: awaitables, the first of which is the result that comes first."""
    futures = [asyncio.ensure_future(each) for each in dict.fromkeys(fs)]
    completed = ordered.as_completed(futures, timeout_s=timeout)
    for _ in futures:
        yield _next_of(completed)


async def _next_of(completed: AsyncIterator[asyncio.Future[T]]) -> T:
    return (await anext(completed)).result()


def task_group(group: asyncio.TaskGroup) -> None:  # noqa: TID251 - it becomes one of ours
    """What `asyncio.TaskGroup()` does to a new group: make it one that cancels in the order of creation.

    A group of a class of the program's own stays what it is: tasks are numbered, so its sets have an order as well.
    """
    if type(group) is asyncio.TaskGroup:  # noqa: TID251
        cast("Any", group).__class__ = ordered.TaskGroup
        cast("Any", ordered.TaskGroup).__init__(group)
