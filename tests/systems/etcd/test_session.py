"""Sessions with a real etcd: what they promise of registers, sets and locks, and which failures are definite."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from splitbrain.harness.contract.read_modes import SERIALIZABLE, ReadMode
from splitbrain.harness.contract.realtime import RealClock
from splitbrain.harness.contract.sessions import Answer, DefiniteError, IndefiniteError
from splitbrain.harness.systems.etcd import EtcdSession
from splitbrain.harness.systems.etcd.gateway import Gateway
from tests.systems.etcd.conftest import Running
from tests.systems.etcd.fake_node import FakeNode, Step, fake_node, page, refuses, says, then_resets


def in_session(etcd: Running, check: Callable[[EtcdSession], Awaitable[None]]) -> None:
    async def whole() -> None:
        session = await etcd.session()
        try:
            await check(session)
        finally:
            await session.close()

    etcd.run(whole())


class TestOnARealNode:
    @pytest.mark.slow
    def test_a_register_is_read_written_and_compared(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            assert (await session.read("r")).value is None
            assert (await session.compare_and_set("r", None, 1)).value is False
            assert (await session.write("r", 1)).value == 1
            assert (await session.compare_and_set("r", 2, 3)).value is False
            assert (await session.compare_and_set("r", 1, 3)).value is True
            assert (await session.read("r")).value == 3

        in_session(etcd, check)

    @pytest.mark.parametrize("value", [None, 0, False, "", "ключ", [1, None], {"b": 1, "a": [2]}, 2**63 - 1])
    def test_any_value_comes_back_and_is_equal_to_itself(self, etcd: Running, value: object) -> None:
        async def check(session: EtcdSession) -> None:
            await session.write("v", value)
            assert (await session.read("v")).value == value
            assert (await session.compare_and_set("v", value, "next")).value is True

        in_session(etcd, check)

    def test_a_map_is_equal_to_one_with_its_keys_in_another_order(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            await session.write("map", {"b": 1, "a": 2})
            assert (await session.compare_and_set("map", {"a": 2, "b": 1}, "next")).value is True

        in_session(etcd, check)

    def test_values_that_json_tells_apart_are_not_equal(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            await session.write("apart", 1)
            for other in ("1", True, 1.0, None, [1]):
                assert (await session.compare_and_set("apart", other, 2)).value is False

        in_session(etcd, check)

    def test_only_the_first_create_wins(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            assert [(await session.create("c", n)).value for n in (1, 2)] == [True, False]
            assert (await session.read("c")).value == 1

        in_session(etcd, check)

    def test_a_collection_gives_its_elements_as_numbers_in_order_and_no_others(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            assert (await session.elements("s")).value == []
            for element in (10, 9, -1):
                await session.add("s", element)
            for other in ("s2", "s/", "r"):
                await session.add(other, 77)
            await session.write("s", 5)
            assert (await session.elements("s")).value == [-1, 9, 10]
            with pytest.raises(DefiniteError, match="9 is in 's' already"):
                await session.add("s", 9)

        in_session(etcd, check)

    @pytest.mark.parametrize("key", ["a b", "*", "a%2A", "ключ", "."])
    def test_any_key_is_itself(self, etcd: Running, key: str) -> None:
        async def check(session: EtcdSession) -> None:
            await session.write(key, "mine")
            assert (await session.read(key)).value == "mine"

        in_session(etcd, check)

    def test_a_lock_has_one_owner_who_alone_gives_it_back_and_each_token_is_greater(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            first = (await session.lock("l", 1)).value
            assert isinstance(first, int)
            assert (await session.lock("l", 2)).value is None
            assert (await session.lock("l", 1)).value is None
            assert (await session.unlock("l", 2)).value is False
            assert (await session.unlock("l", 1)).value is True
            assert (await session.unlock("l", 1)).value is False
            await session.write("l", 7)  # a register of the same name is something else
            assert (await session.lock("l", 2)).value > first

        in_session(etcd, check)

    def test_a_lock_outlives_the_session_that_took_it(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            other = await etcd.session()
            await other.lock("kept", 1)
            await other.close()
            assert (await session.lock("kept", 2)).value is None
            assert (await session.unlock("kept", 1)).value is True

        in_session(etcd, check)

    @pytest.mark.slow
    def test_an_answer_tells_the_term_if_and_only_if_it_went_through_the_log(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            logged: list[Answer] = [
                await session.write("t", 1),
                await session.compare_and_set("t", 5, 6),
                await session.create("t", 1),
                await session.add("t", 1),
                await session.lock("t", 1),
                await session.unlock("t", 1),
            ]
            assert len({answer.term for answer in logged}) == 1
            assert (logged[0].term or 0) >= 1
            assert [(await session.read("t")).term, (await session.elements("t")).term] == [None, None]

        in_session(etcd, check)

    def test_what_is_too_large_is_refused_definitely_and_the_session_goes_on(self, etcd: Running) -> None:
        async def check(session: EtcdSession) -> None:
            with pytest.raises(DefiniteError, match="request is too large"):
                await session.write("large", "x" * 2_000_000)
            assert (await session.read("large")).value is None

        in_session(etcd, check)


# --- failures -----------------------------------------------------------------------------------------------------

CHANGING: list[Callable[[EtcdSession], Awaitable[Answer]]] = [
    lambda session: session.write("k", 1),
    lambda session: session.compare_and_set("k", 1, 2),
    lambda session: session.create("k", 1),
    lambda session: session.add("k", 1),
    lambda session: session.unlock("k", 1),
]
READING: list[Callable[[EtcdSession], Awaitable[Answer]]] = [
    lambda session: session.read("k"),
    lambda session: session.elements("k"),
    lambda session: session.lock("k", 1),  # fails at the lease, before the lock is asked for
]
LOST: list[Step] = [
    then_resets(),
    refuses(14, "etcdserver: request timed out"),
    refuses(4, "context deadline exceeded"),
]


def with_node(
    *steps: Step, check: Callable[[FakeNode, EtcdSession], Awaitable[None]], read_mode: ReadMode = "linearizable"
) -> None:
    async def whole() -> None:
        async with fake_node(*steps) as node:
            gateway = await Gateway.open(node.dial, 1500)

            async def another() -> Gateway:
                return await Gateway.open(node.dial, 1500)

            serializable = read_mode == SERIALIZABLE
            clock = RealClock()
            session = EtcdSession(gateway, another=another, clock=clock, timeout_ms=1500, serializable=serializable)
            await check(node, session)
            await gateway.close()

    asyncio.run(whole())


@pytest.mark.parametrize("step", LOST)
@pytest.mark.parametrize("op", CHANGING)
def test_a_change_without_an_answer_is_indefinite(op: Callable[[EtcdSession], Awaitable[Answer]], step: Step) -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        with pytest.raises(IndefiniteError):
            await op(session)

    with_node(step, check=check)


@pytest.mark.parametrize("step", LOST)
@pytest.mark.parametrize("op", READING)
def test_a_failed_read_changed_nothing_and_keeps_its_reason(
    op: Callable[[EtcdSession], Awaitable[Answer]], step: Step
) -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        with pytest.raises(DefiniteError, match=r"timed out|deadline|broke"):
            await op(session)

    with_node(step, check=check)


def test_taking_a_lock_without_an_answer_is_indefinite_once_there_is_a_lease() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        with pytest.raises(IndefiniteError):
            await session.lock("k", 1)
        assert [request.path for request in node.requests] == ["/v3/lease/grant", "/v3/kv/txn"]
        assert node.requests[1].body["success"][0]["request_put"]["lease"] == 77

    with_node(says(page({"ID": "77", "TTL": "9"})), then_resets(), check=check)


def test_a_session_has_one_lease_for_all_its_locks() -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        await session.lock("a", 1)
        await session.lock("b", 1)
        assert [request.path for request in node.requests].count("/v3/lease/grant") == 1

    with_node(says(page({"ID": "77"})), says(page()), says(page()), check=check)


@pytest.mark.parametrize("read_mode", ["linearizable", "serializable"])
def test_only_reads_in_that_mode_are_asked_for_as_serializable(read_mode: ReadMode) -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        await session.read("k")
        await session.elements("k")
        await session.write("k", 1)
        asked = [request.body.get("serializable", False) for request in node.requests]
        assert asked == [read_mode == "serializable"] * 2 + [False]

    with_node(*[says(page())] * 3, check=check, read_mode=read_mode)


@pytest.mark.parametrize("read_mode", ["linearizable", "serializable"])
def test_a_local_read_is_serializable_and_a_consistent_one_is_not_in_any_mode(read_mode: ReadMode) -> None:
    async def check(node: FakeNode, session: EtcdSession) -> None:
        await session.read_as("k", "read-local")
        await session.read_as("k", "read")
        asked = [request.body.get("serializable", False) for request in node.requests]
        assert asked == [True, False]

    with_node(*[says(page())] * 2, check=check, read_mode=read_mode)
