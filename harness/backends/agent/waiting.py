"""Several things at once, each of them brought to its end even where another fails: what was begun is not left open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def ended(work: Sequence[Awaitable[T]]) -> list[T | BaseException]:
    """Results or exceptions, in order."""
    return list(await asyncio.gather(*work, return_exceptions=True))


async def all_of(work: Sequence[Awaitable[T]]) -> list[T]:
    """Results in order. When all of it has ended, the first failure is raised, if there is one."""
    results = await ended(work)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
