"""Nodes that write no telemetry are asked for it: what is written then, when, and what a node in trouble costs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from virtual import VirtualClock
from worlds import MemoryDeployment

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.observing import SEEN, START, Observed, Seen
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.running import polled
from splitbrain.harness.running.polled import PERIOD_S, poll
from splitbrain.results.errors import ProtocolError

PERIOD_NS = round(PERIOD_S * 1e9)


class Looks:
    """Speaks with the process of one node that ran when it was made, as `Asked` says."""

    def __init__(self, system: Asked, node: NodeId, life: int) -> None:
        self._system = system
        self._node = node
        self._life = life

    async def look(self) -> Any:
        system, node = self._system, self._node
        system.looks += 1
        if system.deployment.states[node].life != self._life:
            raise IndefiniteError("the connection broke")
        answer = system.answers.get(node)
        if answer == "never":
            await asyncio.get_running_loop().create_future()
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            await system.clock.sleep_ns(answer)
        return Observed(commit=system.looks) if answer is None or isinstance(answer, int) else answer

    async def close(self) -> None:
        self._system.open -= 1


class Asked:
    """A system to observe. By node: an exception to raise, nanoseconds to take, "never", or what to return."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.deployment = MemoryDeployment()
        self.answers: dict[NodeId, Any] = {}
        self.kept: list[tuple[NodeId, Seen]] = []
        self.looks = self.open = self.connections = 0

    async def observe(self, deployment: Deployment, node: NodeId) -> Looks:
        status = self.deployment.states[node]
        if status.state == "stopped":
            raise DefiniteError(f"{node} cannot be reached")
        self.open += 1
        self.connections += 1
        return Looks(self, node, status.life)

    def of(self, node: NodeId) -> list[Seen]:
        return [seen for name, seen in self.kept if name == node]

    async def begin(self) -> asyncio.Task[None]:
        def keep(node: NodeId, seen: Seen) -> None:
            self.kept.append((node, seen))

        return asyncio.create_task(poll(self, self.deployment, self.deployment.nodes, self.clock, keep))

    async def rows(self, node: NodeId, count: int) -> None:
        """Wait until so many have come from a node."""
        while len(self.of(node)) < count:
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def polling(system: Asked) -> AsyncGenerator[asyncio.Task[None]]:
    """Polls, in a time that jumps on when nothing else can happen; cancelled at the end, and all was closed."""
    time = asyncio.create_task(system.clock.advance())
    task = await system.begin()
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        time.cancel()
        await asyncio.gather(time, return_exceptions=True)
        assert system.open == 0


def test_every_node_is_asked_again_a_period_after_its_answer_and_rows_are_stamped_when_they_came() -> None:
    async def check() -> None:
        system = Asked()
        system.answers["n2"] = 70
        async with polling(system):
            await system.rows("n2", 3)
        assert [seen.at_ns for seen in system.of("n1")][:3] == [0, PERIOD_NS, 2 * PERIOD_NS]
        assert [seen.at_ns for seen in system.of("n2")][:3] == [70, PERIOD_NS + 140, 2 * PERIOD_NS + 210]
        assert [seen.event for seen in system.of("n3")][:3] == [START, SEEN, SEEN]

    asyncio.run(check())


def test_a_node_that_does_not_answer_leaves_no_row_and_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polled, "WITHIN_S", 0.01)

    async def check() -> None:
        system = Asked()
        system.answers |= {"n1": "never", "n2": IndefiniteError("what?")}
        async with polling(system):
            await system.rows("n3", 50)
        assert system.of("n1") == system.of("n2") == []
        assert system.connections > 50  # a connection on which nothing came is not trusted again

    asyncio.run(check())


def test_a_paused_node_is_not_asked() -> None:
    async def check() -> None:
        system = Asked()
        await system.deployment.pause("n1")
        async with polling(system):
            await system.rows("n2", 5)
        assert system.of("n1") == []
        assert system.looks == len(system.kept)

    asyncio.run(check())


def test_a_life_begins_with_another_process_and_not_with_another_connection() -> None:
    async def check() -> None:
        system = Asked()
        async with polling(system):
            await system.rows("n1", 2)
            system.answers["n1"] = IndefiniteError("the connection broke")
            await system.rows("n2", len(system.of("n2")) + 3)
            del system.answers["n1"]
            await system.rows("n1", 4)
            await system.deployment.kill("n1")
            await system.deployment.start("n1")
            await system.rows("n1", 8)
        assert [seen.event for seen in system.of("n1")][:4] == [START, SEEN, SEEN, SEEN]
        assert [seen.event for seen in system.of("n1")].count(START) == 2
        assert [seen.event for seen in system.of("n2")].count(START) == 1

    asyncio.run(check())


def test_nodes_are_asked_once_more_in_the_end_a_period_later() -> None:
    async def check() -> None:
        system = Asked()
        async with polling(system):
            await system.rows("n3", 1)
            ended_ns = system.clock.now_ns()
        for node in ("n1", "n2", "n3"):
            assert system.of(node)[-1].at_ns == ended_ns + PERIOD_NS

    asyncio.run(check())


def test_an_answer_of_another_kind_is_a_defect_that_is_told_and_ends_all_questions() -> None:
    async def check() -> None:
        system = Asked()
        system.answers["n2"] = {"commit": 3}
        async with polling(system) as task:
            with pytest.raises(ProtocolError, match=r"observing n2: look returned \{'commit': 3\}, not an Observed"):
                await task

    asyncio.run(check())
