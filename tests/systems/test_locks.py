"""Locks on top of compare-and-set."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from splitbrain.harness.contract.sessions import Answer, DefiniteError, IndefiniteError
from tests.workloads.support import MemorySession, Store, run


class Raced(MemorySession):
    """Another client gets in between the look at a lock and what follows from it."""

    meanwhile: Callable[[MemorySession], Awaitable[Any]] | None = None

    async def read(self, key: str) -> Answer:
        answer = await super().read(key)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile(MemorySession(self.store, "n2"))
        return answer


class ReadsNothing(MemorySession):
    """Nobody knows what becomes of a read."""

    async def read(self, key: str) -> Answer:
        raise IndefiniteError("timeout")


def test_tokens_grow_from_owner_to_owner() -> None:
    async def check() -> None:
        session = MemorySession(Store(), "n1")
        for token in (1, 2, 3):
            assert (await session.lock("l", owner=token * 10)).value == token
            assert (await session.lock("l", owner=5)).value is None
            assert (await session.unlock("l", owner=5)).value is False
            assert (await session.unlock("l", owner=token * 10)).value is True
        assert (await session.unlock("l", owner=30)).value is False

    run(check())


@pytest.mark.parametrize("used_before", [False, True])
def test_of_two_clients_that_saw_a_lock_free_one_gets_it(used_before: bool) -> None:
    async def check() -> None:
        session = Raced(Store(), "n1")
        if used_before:
            await session.lock("l", owner=9)
            await session.unlock("l", owner=9)
        session.meanwhile = lambda other: other.lock("l", owner=2)
        assert (await session.lock("l", owner=1)).value is None
        assert (await session.unlock("l", owner=1)).value is False
        assert (await session.unlock("l", owner=2)).value is True

    run(check())


def test_a_lock_and_a_register_of_one_name_are_apart() -> None:
    async def check() -> None:
        session = MemorySession(Store(), "n1")
        await session.write("l", 1)
        assert (await session.lock("l", owner=1)).value == 1
        assert (await session.read("l")).value == 1

    run(check())


@pytest.mark.parametrize("op", ["lock", "unlock"])
def test_an_op_whose_first_look_fails_certainly_did_not_happen(op: str) -> None:
    async def check() -> None:
        with pytest.raises(DefiniteError, match="timeout"):
            await getattr(ReadsNothing(Store(), "n1"), op)("l", 1)

    run(check())
