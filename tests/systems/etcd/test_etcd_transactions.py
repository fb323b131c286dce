"""Transactions on etcd: atomic, tried again after a conflict, and definite failures only where that is certain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from splitbrain.harness.contract.clock import Timer
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.etcd import EtcdSession
from splitbrain.harness.systems.etcd.gateway import Gateway
from splitbrain.harness.systems.etcd.transactions import carried_out, used_first
from tests.systems.etcd.conftest import Running
from tests.systems.etcd.fake_node import FakeNode, Step, fake_node, page, refuses, says, then_resets

Check = Callable[[EtcdSession], Awaitable[None]]


def in_session(etcd: Running, check: Check) -> None:
    async def whole() -> None:
        session = await etcd.session()
        try:
            await check(session)
        finally:
            await session.close()

    etcd.run(whole())


class TestOnARealNode:
    def test_reads_writes_and_appends_take_place_in_their_order(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            mops = [["r", "a", None], ["append", "a", 1], ["append", "a", 2], ["r", "a", None], ["w", "b", 5]]
            done = await session.transact([*mops, ["r", "b", None]])
            assert done.value == [
                *(["r", "a", None], ["append", "a", 1], ["append", "a", 2], ["r", "a", [1, 2]]),
                *(["w", "b", 5], ["r", "b", 5]),
            ]
            assert (done.term or 0) >= 1
            read = await session.transact([["r", "b", None], ["r", "a", None], ["r", "none", None]])
            assert read.value == [["r", "b", 5], ["r", "a", [1, 2]], ["r", "none", None]]
            assert read.term is None

        in_session(etcd, check)

    def test_an_update_writes_what_follows_from_its_reads_or_nothing(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            assert (await session.update(["u", "v"], lambda read: {"u": 1, "v": 2, "new": 3})).value == {
                "u": None,
                "v": None,
            }
            with pytest.raises(DefiniteError, match="aborted"):
                await session.update(["u"], lambda read: None)
            assert (await session.update(["u", "v", "new"], lambda read: {})).value == {"u": 1, "v": 2, "new": 3}

        in_session(etcd, check)

    def test_increments_that_overlap_all_count_and_none_counts_twice(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            others = [await etcd.session() for _ in range(4)]

            def one_more(read: Mapping[str, Any]) -> Mapping[str, Any]:
                return {"sum": (read["sum"] or 0) + 1}

            async def add(each: EtcdSession) -> None:
                for _ in range(10):
                    await each.update(["sum"], one_more)
                    await each.transact([["append", "all", 1]])

            await asyncio.gather(*map(add, others))
            read = await session.transact([["r", "sum", None], ["r", "all", None]])
            assert read.value == [["r", "sum", 40], ["r", "all", [1] * 40]]
            for each in others:
                await each.close()

        in_session(etcd, check)


# --- conflicts and failures -----------------------------------------------------------------------------------------


class Standing:
    """A clock that goes on by a second each time it is asked."""

    def __init__(self) -> None:
        self._asked = 0

    def now_ns(self) -> int:
        self._asked += 1
        return self._asked * 1_000_000_000

    async def sleep_ns(self, duration_ns: int) -> None:
        raise NotImplementedError

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Timer:
        raise NotImplementedError


READ = says(page({"responses": [{"response_range": {"kvs": [{"key": "aw==", "value": "Mw==", "mod_revision": "9"}]}}]}))
"""The key holds 3, since revision 9."""

CONFLICT = says(page({"header": {"revision": "10"}}))
DONE = says(page({"succeeded": True, "header": {"raft_term": "4"}}))


def with_node(*steps: Step, check: Callable[[FakeNode, EtcdSession], Awaitable[None]], timeout_ms: int = 5_000) -> None:
    async def whole() -> None:
        async with fake_node(*steps) as node:

            async def another() -> Gateway:
                return await Gateway.open(node.dial, 1500)

            gateway = await another()
            await check(node, EtcdSession(gateway, another=another, clock=Standing(), timeout_ms=timeout_ms))
            await gateway.close()

    asyncio.run(whole())


def test_what_was_read_is_compared_when_it_is_written() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        assert (await session.update(["k"], lambda read: {"k": read["k"] + 1})).value == {"k": 3}
        [_, commit] = node.requests
        [compared] = commit.body["compare"]
        assert (compared["target"], compared["mod_revision"]) == ("MOD", 9)

    with_node(READ, DONE, check=check)


def test_after_a_conflict_it_is_read_and_computed_again() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        seen: list[Any] = []

        def change(read: Mapping[str, Any]) -> Mapping[str, Any]:
            seen.append(read["k"])
            return {"k": 1}

        assert (await session.update(["k"], change)).term == 4
        assert seen == [3, 3]
        assert len(node.requests) == 4

    with_node(READ, CONFLICT, READ, DONE, check=check)


def test_conflicts_until_its_time_is_over_are_a_definite_failure() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        with pytest.raises(DefiniteError, match="conflict"):
            await session.transact([["r", "k", None], ["w", "k", 1]])
        assert len(node.requests) == 4

    with_node(*[READ, CONFLICT] * 3, check=check, timeout_ms=2_000)


@pytest.mark.parametrize("lost", [then_resets(), refuses(14, "etcdserver: request timed out")])
def test_a_write_without_an_answer_is_indefinite_and_not_tried_again(lost: Step) -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        with pytest.raises(IndefiniteError):
            await session.update(["k"], lambda read: {"k": 4})
        assert len(node.requests) == 2

    with_node(READ, lost, check=check)


def test_a_read_without_an_answer_changed_nothing() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        with pytest.raises(DefiniteError):
            await session.update(["k"], lambda read: {"k": 4})
        with pytest.raises(DefiniteError):
            await session.transact([["r", "k", None]])

    with_node(then_resets(), then_resets(), check=check)


def test_only_keys_whose_value_matters_are_read() -> None:
    assert used_first([["w", "a", 1], ["r", "a", None], ["append", "b", 1], ["r", "c", None], ["w", "c", 2]]) == [
        "b",
        "c",
    ]


def test_micro_operations_see_what_those_before_them_left() -> None:
    done, written = carried_out([["append", "l", 2], ["r", "l", None], ["w", "x", 3], ["r", "x", None]], {"l": [1]})
    assert done == [["append", "l", 2], ["r", "l", [1, 2]], ["w", "x", 3], ["r", "x", 3]]
    assert written == {"l": [1, 2], "x": 3}
