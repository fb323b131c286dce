"""Cuts are kept from expiring whatever a single refresh comes to; what comes of a failed one is told with its cause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from splitbrain.harness.backends.shared import links
from splitbrain.harness.backends.shared.links import AgentLinks, Links
from splitbrain.harness.backends.ssh import links as host_links
from splitbrain.harness.backends.ssh.connection import HostError
from splitbrain.harness.backends.ssh.inventory import Host
from splitbrain.harness.backends.ssh.machine import RemoteAgent
from splitbrain.results.errors import BackendError

HOST = Host("n2", "10.0.0.2", 22)


class FakeAgent:
    """Answers what is asked of it with nothing, but for ops that fail: always, or at some times (from 0)."""

    def __init__(self) -> None:
        self.always: dict[str, BackendError] = {}
        self.at: dict[tuple[str, int], BackendError] = {}
        self.asked: dict[str, int] = {}
        self._changed = asyncio.Event()

    async def ask(self, op: str, **arguments: Any) -> Any:
        before = self.asked.get(op, 0)
        self.asked[op] = before + 1
        self._changed.set()
        failure = self.at.get((op, before)) or self.always.get(op)
        if failure is not None:
            raise failure
        return {}

    async def until_refreshed(self, times: int) -> None:
        """Wait until it was asked so often to refresh cuts, and has answered but the last time."""
        async with asyncio.timeout(60):
            while self.asked.get("alive", 0) <= times:
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "ALIVE_EVERY_S", 0.001)
    monkeypatch.setattr(host_links, "ALIVE_EVERY_S", 0.001)


def of_agent(agent: FakeAgent) -> Links:
    return AgentLinks(agent)


def of_hosts(agent: FakeAgent) -> Links:
    return host_links.HostLinks({"n1": cast(RemoteAgent, FakeAgent()), "n2": cast(RemoteAgent, agent)})


LATE = HostError(HOST, "the agent did not answer 'alive' within 15 s.")
GONE = HostError(HOST, "n1 -> n2 is not cut any more.")


@pytest.mark.parametrize("make", [of_agent, of_hosts])
def test_cuts_go_on_being_refreshed_after_a_refresh_that_failed(make: Callable[[FakeAgent], Links]) -> None:
    async def scenario() -> None:
        agent = FakeAgent()
        agent.at["alive", 1] = LATE
        task = asyncio.create_task(make(agent).keep_alive())
        await agent.until_refreshed(5)
        assert not task.done()
        task.cancel()

    asyncio.run(scenario())


@pytest.mark.parametrize("make", [of_agent, of_hosts])
def test_a_cut_that_is_gone_is_told_with_the_refresh_that_failed(make: Callable[[FakeAgent], Links]) -> None:
    async def scenario() -> None:
        agent = FakeAgent()
        agent.at["alive", 1] = LATE
        agent.always["dropped"] = GONE
        found = make(agent)
        await found.cut(frozenset({("n1", "n2")}))
        with pytest.raises(BackendError, match=r"any more\.$"):
            await found.dropped()
        task = asyncio.create_task(found.keep_alive())
        await agent.until_refreshed(5)
        task.cancel()
        with pytest.raises(
            BackendError, match=r"any more\. Cuts may have expired.*did not answer 'alive' within 15 s\.$"
        ):
            await found.dropped()
        await found.cut(frozenset({("n2", "n1")}))
        with pytest.raises(BackendError, match=r"any more\.$"):
            await found.dropped()

    asyncio.run(scenario())


@pytest.mark.parametrize("make", [of_agent, of_hosts])
def test_a_refresh_that_failed_without_consequence_is_no_failure(make: Callable[[FakeAgent], Links]) -> None:
    async def scenario() -> None:
        agent = FakeAgent()
        agent.at["alive", 0] = LATE
        found = make(agent)
        task = asyncio.create_task(found.keep_alive())
        await agent.until_refreshed(2)
        task.cancel()
        assert await found.dropped() == {}

    asyncio.run(scenario())
