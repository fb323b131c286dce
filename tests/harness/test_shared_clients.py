"""Clients that several processes use, one after the other or at once (`Test.sharing`)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

import pytest
from virtual import in_virtual_time
from worlds import NODES, FakeClient, MemoryDeployment, MemoryRecorder, MemorySystem, answer_ok, make_test, never

from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError, NonsenseError
from splitbrain.harness.contract.test import Test
from splitbrain.harness.running.clients import places
from splitbrain.harness.running.journal import Journal
from splitbrain.harness.running.processes import Processes
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op


class SharedClient(FakeClient):
    """A client that can be shared; `lasts` says whether it survives an op."""

    shared_by = 100

    def __init__(
        self,
        invoke: Callable[[Op], Awaitable[Op]] = answer_ok,
        *,
        lasts: Callable[[Op], bool] = lambda _: True,
        opens: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(invoke)
        self._lasts = lasts
        self._opens = opens

    async def open(self, test: Test, deployment: Deployment, node: NodeId) -> FakeClient:
        if self._opens is not None:
            await self._opens()
        client = SharedClient(self._invoke, lasts=self._lasts)
        client.node = node
        self.opened.append(client)
        return client

    def survives(self, op: Op) -> bool:
        return self._lasts(op)


class Shareable(MemorySystem):
    def __init__(self) -> None:
        super().__init__()
        self.capabilities = dataclasses.replace(self.capabilities, shared_sessions=True)


class Threads:
    """The client threads of a test, each of which is given ops by hand."""

    def __init__(self, clock: Clock, client: FakeClient, sharing: int, concurrency: int = 6) -> None:
        self.test = make_test(client, system=Shareable(), concurrency=concurrency, sharing=sharing)
        self.clock = clock
        self.recorder = MemoryRecorder()
        self.journal = Journal(clock, self.recorder, None)
        self.broken: list[Exception] = []
        self.processes = Processes(
            self.test,
            MemoryDeployment(),
            clock,
            self.journal,
            completed=lambda thread, op: None,
            broken=self.broken.append,
        )

    def begin(self, thread: int, f: str = "write") -> None:
        invoked = self.journal.invoke(Op(process=thread, type="invoke", f=f, value=1), self.test.node_of(thread))
        self.processes.start(thread, invoked)

    async def do(self, thread: int, f: str = "write") -> Op:
        """An op from its beginning to its end."""
        self.begin(thread, f)
        await self.settled()
        return self.recorder.of(thread)[-1]

    async def settled(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    async def expire(self) -> None:
        """Let every op under way run out of time."""
        self.processes.expire(self.clock.now_ns() + 10**12)
        await self.settled()


def closed(client: FakeClient) -> list[int]:
    return [each.closes for each in client.opened]


def as_f_says(op: Op) -> Awaitable[Op]:
    async def act() -> Op:
        if op.f == "refused":
            raise DefiniteError("busy")
        if op.f == "unclear":
            raise IndefiniteError("no answer")
        if op.f == "surprise":
            raise NonsenseError("17")
        if op.f == "cas":
            raise KeyError("a mistake of the client")
        if op.f == "last":
            return op.complete("info", error="who knows")
        return await (never if op.f == "block" else answer_ok)(op)

    return act()


def test_threads_of_one_node_share_in_groups_of_that_size() -> None:
    async def story(clock: Clock) -> None:
        test = make_test(SharedClient(), system=Shareable(), concurrency=8, sharing=2)
        found = places(test)
        assert [found.index(place) for place in found] == [0, 1, 2, 0, 1, 2, 6, 7], "nodes take turns"
        alone = places(dataclasses.replace(test, sharing=0))
        assert [alone.index(place) for place in alone] == [*range(8)]

    in_virtual_time(story)


def test_several_ops_are_under_way_on_one_client_which_is_opened_once() -> None:
    async def story(clock: Clock) -> None:
        client = SharedClient(as_f_says, opens=lambda: asyncio.sleep(0.01))
        threads = Threads(clock, client, sharing=2)
        threads.begin(0, "block")
        threads.begin(3, "block")
        await asyncio.sleep(0.1)
        assert [thread.used for thread in threads.processes.threads[::3]] == [threads.processes.threads[0].used] * 2
        assert [each.node for each in client.opened] == ["n1"]
        await threads.processes.close()
        assert closed(client) == [1]

    in_virtual_time(story)


@pytest.mark.parametrize("f", ["refused", "unclear", "last", "fine"])
@pytest.mark.parametrize("sharing", [1, 2])
def test_a_client_survives_what_it_says_it_survives(f: str, sharing: int) -> None:
    async def story(clock: Clock) -> None:
        client = SharedClient(as_f_says)
        threads = Threads(clock, client, sharing)
        ended = await threads.do(0, f)
        assert ended.type == {"refused": "fail", "unclear": "info", "last": "info", "fine": "ok"}[f]
        assert (await threads.do(0)).type == "ok"
        assert closed(client) == [0], "the next op of the thread is on the same client"
        await threads.processes.close()
        assert closed(client) == [1]

    in_virtual_time(story)


@pytest.mark.parametrize("f", ["refused", "unclear", "last", "block"])
def test_a_client_that_does_not_survive_is_closed_when_its_last_op_has_ended(f: str) -> None:
    async def story(clock: Clock) -> None:
        client = SharedClient(as_f_says, lasts=lambda _: False)
        threads = Threads(clock, client, sharing=2)
        threads.begin(3, "block")
        await threads.settled()
        threads.begin(0, f)
        await threads.settled()
        if f == "block":
            threads.processes.threads[3].deadline_ns = 2 * 10**12  # this one has time left
            await threads.expire()
        assert closed(client) == [0], "an op of another process is under way"
        assert (await threads.do(0)).type == "ok"
        assert closed(client) == [0, 0], "the next op has a fresh client"
        threads.processes.threads[3].deadline_ns = 0
        await threads.expire()
        assert closed(client) == [1, 0]
        assert (await threads.do(3)).type == "ok"
        assert closed(client) == [1, 0], "both are on the new one"
        await threads.processes.close()
        assert closed(client) == [1, 1]

    in_virtual_time(story)


def test_a_client_survives_an_op_that_ran_out_of_time() -> None:
    async def story(clock: Clock) -> None:
        client = SharedClient(as_f_says, lasts=lambda op: op.f == "block")
        threads = Threads(clock, client, sharing=1)
        threads.begin(0, "block")
        await threads.settled()
        await threads.expire()
        assert threads.recorder.of(0)[-1].type == "info"
        assert (await threads.do(0)).type == "ok"
        assert closed(client) == [0]

    in_virtual_time(story)


@pytest.mark.parametrize("f", ["surprise", "cas"])
def test_after_an_answer_that_makes_no_sense_or_a_mistake_of_its_own_a_client_is_not_used_on(f: str) -> None:
    async def story(clock: Clock) -> None:
        client = SharedClient(as_f_says)
        threads = Threads(clock, client, sharing=2)
        assert (await threads.do(0, f)).type == "info"
        assert (await threads.do(0)).type == "ok"
        assert closed(client) == [1, 0]

    in_virtual_time(story)


def test_without_sharing_a_client_ends_with_its_process_also_if_it_would_survive() -> None:
    async def story(clock: Clock) -> None:
        client = SharedClient(as_f_says)
        threads = Threads(clock, client, sharing=0)
        for f in ("unclear", "refused", "last", "fine", "fine"):
            await threads.do(0, f)
        assert closed(client) == [1, 1, 1, 0]
        threads.begin(0, "block")
        await threads.settled()
        await threads.expire()
        assert closed(client) == [1, 1, 1, 1]

    in_virtual_time(story)


def test_an_attempt_to_open_that_hangs_holds_up_its_own_op_alone() -> None:
    async def story(clock: Clock) -> None:
        hangs = [True]

        async def opens() -> None:
            while hangs[0]:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    continue  # it takes no notice

        client = SharedClient(as_f_says, opens=opens)
        threads = Threads(clock, client, sharing=2)
        threads.begin(0)
        await threads.settled()
        await threads.expire()
        assert threads.recorder.of(0)[-1].type == "fail"
        hung, hangs[0] = hangs[0], False
        assert hung
        assert (await threads.do(3)).type == "ok"
        assert closed(client) == [0]
        await asyncio.sleep(4000)
        assert closed(client) == [0, 1], "the one that came late is used by no op"

    in_virtual_time(story)


def test_a_client_that_does_not_say_true_or_false_ends_the_run() -> None:
    async def story(clock: Clock) -> None:
        threads = Threads(clock, SharedClient(as_f_says, lasts=lambda _: "yes"), sharing=1)  # type: ignore[arg-type, return-value]
        threads.begin(0, "unclear")
        await threads.settled()
        assert "survives of 'unclear' (op 0) returned 'yes', not True or False" in str(threads.broken)

    in_virtual_time(story)


def test_what_cannot_be_shared_is_refused() -> None:
    with pytest.raises(UsageError, match="clients of workload 'w' belong to one process: remove --sharing"):
        make_test(FakeClient(), system=Shareable(), sharing=2)
    with pytest.raises(UsageError, match="sessions with system 'memory' cannot be shared"):
        make_test(SharedClient(), sharing=2)
    with pytest.raises(UsageError, match="sharing must be a number from 0 to 1,000, not -1"):
        make_test(SharedClient(), system=Shareable(), sharing=-1)
    options = RunOptions.of(
        workload="queue",
        nemesis="none",
        system="metadata",
        backend="sim",
        bug="",
        nodes="3",
        concurrency="2n",
        rate=10.0,
        time_limit=5.0,
        interval=None,
        op_timeout=2.0,
        recovery=20.0,
        seed=1,
        sharing=2,
    )
    with pytest.raises(UsageError, match="go on after a process, but serve one at a time: give --sharing 1"):
        compose(options)


def test_nodes_are_those_of_the_threads() -> None:
    """A client that is shared talks to the node that all its threads talk to."""

    async def story(clock: Clock) -> None:
        client = SharedClient(as_f_says)
        threads = Threads(clock, client, sharing=2)
        for thread in range(6):
            assert (await threads.do(thread)).node == NODES[thread % 3]
        assert [each.node for each in client.opened] == [*NODES]

    in_virtual_time(story)
