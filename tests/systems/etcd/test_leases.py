"""Locks on short leases: how long a client keeps its lease alive, and when it learns that it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from splitbrain.harness.contract.clock import Timer
from splitbrain.harness.systems.etcd.gateway import Gateway
from splitbrain.harness.systems.etcd.leases import RETRY_NS, SECOND_NS, KeptLease
from tests.systems.etcd.conftest import Running
from tests.systems.etcd.fake_node import FakeNode, Step, fake_node, page, refuses, says, then_closes

LEASE_S = 2
LONG_S = 600


class Steps:
    """A clock that stands still until a test lets it go on, and tells what was waited for."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[int] = asyncio.Queue()
        self._go_on = asyncio.Semaphore(0)

    def now_ns(self) -> int:
        return 0

    async def sleep_ns(self, duration_ns: int) -> None:
        self.asked.put_nowait(duration_ns)
        await self._go_on.acquire()

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Timer:
        raise NotImplementedError("what is tested sets no timers")

    async def next_wait(self) -> int:
        """How long the client wants to wait now."""
        return await self.asked.get()

    def go_on(self) -> None:
        """The wait is over."""
        self._go_on.release()


def granted(*steps: Step, check: Callable[[KeptLease, Steps, FakeNode], Awaitable[None]]) -> None:
    """A lease of two seconds from a node that answers the requests to keep it alive as the steps say."""

    async def whole() -> None:
        clock = Steps()
        async with asyncio.timeout(120), fake_node(says(page({"ID": "7", "TTL": "2"})), *steps) as node:

            async def another() -> Gateway:
                return await Gateway.open(node.dial, 1000)

            gateway = await another()
            lease = await KeptLease.grant(gateway, LEASE_S, another, clock)
            try:
                await check(lease, clock, node)
            finally:
                await lease.close()
                await gateway.close()

    asyncio.run(whole())


KEPT = says(page({"result": {"ID": "7", "TTL": "2"}}))
GONE = says(page({"result": {"ID": "7"}}))


def test_a_third_of_the_lease_after_each_answer_more_time_is_asked_for() -> None:
    async def check(lease: KeptLease, clock: Steps, node: FakeNode) -> None:
        for _ in range(2):
            assert await clock.next_wait() == LEASE_S * SECOND_NS // 3
            clock.go_on()
        await clock.next_wait()
        assert [request.path for request in node.requests] == ["/v3/lease/grant", *["/v3/lease/keepalive"] * 3]
        assert [request.body for request in node.requests[1:]] == [{"ID": 7}] * 3
        assert node.connections == 2, "on a connection of its own, so that no op waits for it"
        assert lease.believed

    granted(KEPT, KEPT, KEPT, check=check)


def test_a_node_that_says_that_the_lease_is_gone_is_believed() -> None:
    async def check(lease: KeptLease, clock: Steps, node: FakeNode) -> None:
        await clock.next_wait()
        assert lease.believed
        clock.go_on()
        await clock.next_wait()
        assert not lease.believed

    granted(KEPT, GONE, check=check)


def test_errors_and_broken_connections_say_nothing_about_the_lease_and_it_is_asked_again() -> None:
    async def check(lease: KeptLease, clock: Steps, node: FakeNode) -> None:
        for _ in range(3):
            assert await clock.next_wait() == RETRY_NS
            assert lease.believed
            clock.go_on()
        assert await clock.next_wait() == LEASE_S * SECOND_NS // 3
        assert lease.believed

    broken_off = says(page({"error": {"grpc_code": 14, "message": "etcdserver: request timed out"}}))
    granted(refuses(14, "etcdserver: request timed out"), then_closes(), broken_off, KEPT, check=check)


@pytest.mark.slow
def test_a_lock_on_a_lease_is_its_owners_until_it_is_given_back(etcd: Running) -> None:
    async def check() -> None:
        holder, other = await etcd.session(), await etcd.session()
        try:
            token = (await holder.lease_lock("l", 1, LONG_S)).value
            assert token is not None
            assert holder.lease_holds("l")
            assert (await other.lease_lock("l", 2, LONG_S)).value is None
            assert not other.lease_holds("l")
            assert (await holder.lease_unlock("l", 1)).value is True
            assert (await other.lease_lock("l", 2, LONG_S)).value > token
        finally:
            await holder.close()
            await other.close()

    etcd.run(check())


@pytest.mark.slow
def test_the_lock_of_a_client_that_is_gone_becomes_free(etcd: Running) -> None:
    async def check() -> None:
        holder, other = await etcd.session(), await etcd.session()
        try:
            assert (await holder.lease_lock("m", 1, LEASE_S)).value is not None
            await holder.close()
            async with asyncio.timeout(60):
                while (await other.lease_lock("m", 2, LEASE_S)).value is None:
                    await asyncio.sleep(0.05)
        finally:
            await other.close()

    etcd.run(check())
