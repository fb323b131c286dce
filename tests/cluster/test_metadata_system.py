"""The metadata cluster behind the harness's protocols, on nodes in memory."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.cluster.arguments import parse
from splitbrain.cluster.tree import NEWEST_VERSION
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodePlace
from splitbrain.harness.contract.sessions import Answer, DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.harness.systems.metadata_session import ATTEMPT_TIMEOUT_MS, MetadataSession
from tests.cli.test_arguments import OPTIONS
from tests.cluster.support import World, in_virtual_time

THREE = ["n1", "n2", "n3"]


class MemoryDeployment:
    """As much of a deployment as a system needs."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def dial(self, node: str) -> Any:
        if node not in self.world.nodes:
            raise DefiniteError(f"{node} is down")
        return self.world.dial("client", node)


def on_three_nodes(check: Callable[[World, Deployment], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        world = World(THREE)
        try:
            await world.start()
            await world.leader()
            await check(world, cast(Deployment, MemoryDeployment(world)))
        finally:
            await world.close()

    in_virtual_time(whole())


def in_session(check: Callable[[MetadataSession], Coroutine[Any, Any, None]]) -> None:
    async def with_session(_: World, deployment: Deployment) -> None:
        session = await Metadata().connect(deployment, "n2")
        await check(session)
        await session.close()

    on_three_nodes(with_session)


def _with_op_timeout(seconds: float) -> Test:
    return compose(RunOptions.of(**{**OPTIONS, "workload": "register", "op_timeout": seconds}))


class TestSession:
    def test_a_register_is_read_written_and_compared(self) -> None:
        async def check(session: MetadataSession) -> None:
            assert (await session.read("k")).value is None
            assert (await session.compare_and_set("k", None, 1)).value is False
            assert (await session.write("k", 1)).value == 1
            assert (await session.compare_and_set("k", 2, 3)).value is False
            assert (await session.compare_and_set("k", 1, 3)).value is True
            assert (await session.read("k")).value == 3

        in_session(check)

    def test_only_the_first_create_wins(self) -> None:
        async def check(session: MetadataSession) -> None:
            assert [(await session.create("k", n)).value for n in (1, 2)] == [True, False]
            assert (await session.read("k")).value == 1

        in_session(check)

    def test_a_collection_gives_its_elements_as_numbers_in_order(self) -> None:
        async def check(session: MetadataSession) -> None:
            assert (await session.elements("s")).value == []
            for element in (10, 9, -1):
                await session.add("s", element)
            assert (await session.elements("s")).value == [-1, 9, 10]
            with pytest.raises(DefiniteError, match="mismatching_node"):
                await session.add("s", 9)

        in_session(check)

    def test_a_counter_is_read_and_added_to_and_registers_of_its_name_are_apart(self) -> None:
        async def check(session: MetadataSession) -> None:
            assert (await session.read_counter("c")).value is None
            assert [(await session.increment("c", by)).value for by in (5, 7)] == [5, 12]
            assert (await session.read_counter("c")).value == 12
            assert (await session.read("c")).value is None

        in_session(check)

    def test_kh10_an_increment_whose_answer_is_lost_is_sent_again_and_counts_once(self) -> None:
        async def check(world: World, deployment: Deployment) -> None:
            leader = await world.leader()
            other = next(name for name in THREE if name != leader)
            session = await Metadata().connect(deployment, other)
            assert (await session.increment("c", 5)).value == 5
            world.cut = {(leader, other)}
            adding = asyncio.get_running_loop().create_task(session.increment("c", 7))
            await asyncio.sleep(ATTEMPT_TIMEOUT_MS / 1000 + 0.05)  # the first attempt has no answer, and gets none
            assert not adding.done()
            world.cut.clear()
            assert (await adding).value == 12
            assert (await session.read_counter("c")).value == 12
            await session.close()

        on_three_nodes(check)

    def test_sessions_have_refs_of_their_own(self) -> None:
        async def check(_: World, deployment: Deployment) -> None:
            for total in (5, 10, 15):
                session = await Metadata().connect(deployment, "n1")
                assert (await session.increment("c", 5)).value == total
                await session.close()

        on_three_nodes(check)

    def test_registers_and_collections_of_one_name_are_apart(self) -> None:
        async def check(session: MetadataSession) -> None:
            await session.add("x", 1)
            assert (await session.read("x")).value is None

        in_session(check)

    def test_on_a_follower_a_read_after_a_write_waits_for_it_and_a_local_one_does_not(self) -> None:
        async def check(world: World, deployment: Deployment) -> None:
            leader = await world.leader()
            follower = next(node for node in THREE if node != leader)
            session = await Metadata().connect(deployment, follower)
            local: list[Any] = []
            for number in range(10):
                await session.write("k", number)
                local.append((await session.read_as("k", "read-local")).value)
                assert (await session.read_as("k", "read-after")).value == number
            assert local != list(range(10)), "the leader answers before the follower has applied it"
            await session.close()

        on_three_nodes(check)

    def test_a_superseded_leader_answers_reads_of_the_leader_and_no_consistent_ones(self) -> None:
        async def check(world: World, deployment: Deployment) -> None:
            leader = await world.leader()
            others = [node for node in THREE if node != leader]
            before = await Metadata(request_timeout_ms=100).connect(deployment, leader)
            await before.write("k", 1)
            world.isolate(leader)
            after = await Metadata().connect(deployment, await world.leader(among=others))
            await after.write("k", 2)
            stale = await before.read_as("k", "read-leader")
            fresh = await after.read_as("k", "read-leader")
            assert (stale.value, fresh.value) == (1, 2)
            assert (stale.term or 0) < (fresh.term or 0)
            with pytest.raises(DefiniteError):
                await before.read("k")
            await before.close()
            await after.close()

        on_three_nodes(check)

    @pytest.mark.parametrize("key", ["a b", "*", "a%2A", "ключ", "."])
    def test_any_key_is_itself_and_no_pattern(self, key: str) -> None:
        async def check(session: MetadataSession) -> None:
            await session.write(key, "mine")
            assert (await session.read(key)).value == "mine"
            assert (await session.read("a*")).value is None

        in_session(check)

    def test_every_answer_tells_the_term(self) -> None:
        async def check(session: MetadataSession) -> None:
            answers: list[Answer] = [
                await session.read("k"),
                await session.write("k", 1),
                await session.compare_and_set("k", 5, 6),
                await session.create("k", 1),
                await session.add("s", 1),
                await session.elements("t"),
            ]
            assert len({answer.term for answer in answers}) == 1
            assert (answers[0].term or 0) >= 1

        in_session(check)

    def test_a_write_without_majority_is_indefinite_and_a_read_definite(self) -> None:
        async def check(world: World, deployment: Deployment) -> None:
            leader = await world.leader()
            session = await Metadata(request_timeout_ms=100).connect(deployment, leader)
            world.isolate(leader)
            with pytest.raises(DefiniteError):
                await session.read("k")
            with pytest.raises((IndefiniteError, DefiniteError)) as error:
                await session.write("k", 1)
            # It had stepped down by then or not: only what was proposed is indefinite.
            assert isinstance(error.value, IndefiniteError) == ("no_leader" not in str(error.value))

        on_three_nodes(check)

    @pytest.mark.parametrize(("given_ms", "gives_up_s"), [(None, 3.75), (100, 0.1)])
    def test_a_node_tries_as_long_as_the_test_says_unless_the_system_was_given_a_time(
        self, given_ms: int | None, gives_up_s: float
    ) -> None:
        async def check(world: World, deployment: Deployment) -> None:
            leader = await world.leader()
            system = Metadata(given_ms)
            system.command(_with_op_timeout(5.0), NodePlace(leader, "data", ("127.0.0.1", 1), {}))
            session = await system.connect(deployment, leader)
            world.isolate(leader)
            await asyncio.sleep(3)  # it leads no longer, and waits for a leader
            began_s = asyncio.get_running_loop().time()
            with pytest.raises(DefiniteError):
                await session.write("k", 1)
            assert asyncio.get_running_loop().time() - began_s == pytest.approx(gives_up_s, abs=0.05)
            await session.close()

        on_three_nodes(check)

    def test_a_key_that_is_no_name_is_a_definite_failure(self) -> None:
        async def check(session: MetadataSession) -> None:
            with pytest.raises(DefiniteError, match="is not a path"):
                await session.write("", 1)

        in_session(check)


class TestView:
    def test_it_tells_role_term_and_leader(self) -> None:
        async def check(world: World, deployment: Deployment) -> None:
            leader = await world.leader()
            view = await Metadata().view(deployment, leader)
            assert view is not None
            assert (view.node, view.role, view.leader) == (leader, "leader", leader)
            assert view.term >= 1

        on_three_nodes(check)

    def test_a_node_that_is_down_or_says_nothing_has_no_view_after_half_a_second(self) -> None:
        async def check(world: World, deployment: Deployment) -> None:
            world.cut = {("client", "n2")}  # what it is asked never arrives
            await world.kill("n3")
            began = asyncio.get_running_loop().time()
            assert await Metadata().view(deployment, "n3") is None
            assert await Metadata().view(deployment, "n2") is None
            assert asyncio.get_running_loop().time() - began < 0.8

        on_three_nodes(check)

    def test_a_silent_node_is_given_up(self) -> None:
        class Silent:
            def __init__(self) -> None:
                self.closed = asyncio.Event()

            def send(self, message: bytes) -> None:
                pass

            async def receive(self) -> bytes:
                await self.closed.wait()
                raise ConnectionError("closed on this side")

            def close(self) -> None:
                self.closed.set()

        class SilentDeployment:
            async def dial(self, node: str) -> Silent:
                return Silent()

        async def check() -> None:
            began = asyncio.get_running_loop().time()
            assert await Metadata().view(cast(Deployment, SilentDeployment()), "n1") is None
            assert 0.4 < asyncio.get_running_loop().time() - began < 0.9

        in_virtual_time(check())


def test_the_command_starts_the_node_that_lives_there() -> None:
    place = NodePlace(
        node="n2", data_dir="data", listen=("::1", 7000), peers={"n3": ("10.0.0.3", 1), "n1": ("10.0.0.1", 1)}
    )
    settings = {"snapshot-interval": 16, "checkpoint-interval": 4, "wal-bytes": 9, "max-batch": 2, "apply-slice": 3}
    settings |= {"max-pipeline": 5, "max-pending": 6, "repeat-window": 7}
    needs = SimpleNamespace(needs=frozenset({"key-value"}))
    test = cast(Test, SimpleNamespace(request_timeout_ms=1500, bugs=("M23", "M17"), settings=settings, workload=needs))
    command = Metadata().command(test, place)
    assert command.argv[:4] == (sys.executable, "-P", "-m", "splitbrain.cluster")
    config, data = parse(list(command.argv[4:]))
    assert (config.node, config.listen, data) == ("n2", ("::1", 7000), "data")
    assert config.peers == {"n1": ("10.0.0.1", 1), "n3": ("10.0.0.3", 1)}
    assert config.bugs.ids == ("M17", "M23")
    assert (config.snapshot_interval, config.checkpoint_interval, config.wal_bytes) == (16, 4, 9)
    assert (config.raft.max_batch, config.apply_slice) == (2, 3)
    assert (config.raft.max_pipeline, config.raft.max_pending, config.repeat_window) == (5, 6, 7)
    found = [Path(folder) / "cluster" / "__main__.py" for folder in command.env["PYTHONPATH"].split(os.pathsep)]
    assert any(file.exists() for file in found)


def test_ra43_a_run_with_upgrades_begins_with_the_earlier_version_and_a_node_that_joins_has_the_latest() -> None:
    system = Metadata()
    upgrades, members = system.capabilities.upgrades, system.capabilities.membership
    assert upgrades is not None
    assert members is not None

    def supported(node: str, **settings: int) -> int:
        place = NodePlace(node=node, data_dir="data", listen=("::1", 7000), peers={"n9": ("10.0.0.3", 1)})
        command = system.command(
            cast(
                Test,
                SimpleNamespace(
                    request_timeout_ms=1500,
                    bugs=(),
                    settings=settings,
                    workload=SimpleNamespace(needs=frozenset({"key-value"})),
                ),
            ),
            place,
        )
        return parse(list(command.argv[4:]))[0].machine_version

    assert (supported("n1"), supported("n1", **{"machine-version": 1})) == (NEWEST_VERSION, 1)
    upgrades.begin(old=True)
    old = NEWEST_VERSION - 1
    assert (supported("n1"), supported("n2", **{"machine-version": 1})) == (old, old), "each node is given its own"
    upgrades.choose("n1", upgrades.newest)
    assert (supported("n1"), supported("n2")) == (NEWEST_VERSION, old)
    cast(Any, members)._incarnations["n2"] = 1
    assert supported("n2") == NEWEST_VERSION
    upgrades.begin(old=False)
    assert supported("n3") == NEWEST_VERSION


def test_every_bug_has_a_line() -> None:
    assert {"M09", "M17", "M23"} <= set(Metadata().bugs)
    assert all(Metadata().bugs.values())
