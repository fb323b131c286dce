"""A key-value system in memory, honest or not, with the parts of a test that clients look at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from harness.protocols import Answer, Client, Deployment, Session
from harness.test import Test
from results.history import Op

T = TypeVar("T")

TERM = 7


def run(awaitable: Awaitable[T]) -> T:
    """Run one coroutine to its end."""

    async def main() -> T:
        return await awaitable

    return asyncio.run(main())


@dataclass
class Store:
    """What a system holds, shared by its sessions.

    Attributes:
        loses_writes: writes are acknowledged and forgotten.
        raises: raised by every call.
    """

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    collections: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    loses_writes: bool = False
    raises: Exception | None = None
    closed: list[str] = field(default_factory=list[str])

    def _check(self) -> None:
        if self.raises is not None:
            raise self.raises

    async def connect(self, deployment: Any, node: str) -> Session:
        """As `System.connect`."""
        self._check()
        return MemorySession(self, node)


class MemorySession:
    """A session with a `Store`."""

    def __init__(self, store: Store, node: str) -> None:
        self.store = store
        self.node = node

    def _answer(self, value: Any = None) -> Answer:
        return Answer(value, TERM)

    async def read(self, key: str) -> Answer:
        self.store._check()  # pyright: ignore[reportPrivateUsage]
        return self._answer(self.store.values.get(key))

    async def write(self, key: str, value: Any) -> Answer:
        self.store._check()  # pyright: ignore[reportPrivateUsage]
        if not self.store.loses_writes:
            self.store.values[key] = value
        return self._answer()

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        self.store._check()  # pyright: ignore[reportPrivateUsage]
        if key not in self.store.values or self.store.values[key] != expected:
            return self._answer(False)
        await self.write(key, value)
        return self._answer(True)

    async def create(self, key: str, value: Any) -> Answer:
        self.store._check()  # pyright: ignore[reportPrivateUsage]
        if key in self.store.values:
            return self._answer(False)
        await self.write(key, value)
        return self._answer(True)

    async def add(self, collection: str, element: int) -> Answer:
        self.store._check()  # pyright: ignore[reportPrivateUsage]
        if not self.store.loses_writes:
            self.store.collections.setdefault(collection, []).append(element)
        return self._answer()

    async def elements(self, collection: str) -> Answer:
        self.store._check()  # pyright: ignore[reportPrivateUsage]
        return self._answer(list(self.store.collections.get(collection, [])))

    async def close(self) -> None:
        self.store.closed.append(self.node)


@dataclass
class OnlySystem:
    """The part of a `harness.test.Test` that clients look at."""

    system: Store


def as_test(store: Store) -> Test:
    """A test whose system is `store`."""
    return cast("Test", OnlySystem(store))


def opened(prototype: Client, store: Store, node: str = "n1") -> Client:
    """A client of `store`."""
    return run(prototype.open(as_test(store), cast("Deployment", None), node))


def do(client: Client, store: Store, f: str, value: Any = None, *, key: str | None = None) -> Op:
    """The completion of one op."""
    return run(client.invoke(as_test(store), Op(process=3, type="invoke", f=f, key=key, value=value, node="n1")))
