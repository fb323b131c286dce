"""Nodes of the table store behind their protocol, and the system that the harness sees, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.errors import (
    ArgumentError,
    ClientError,
    InvalidRequestError,
    OutcomeUnknownError,
    UnavailableError,
)
from splitbrain.cluster.tables.arguments import parse
from splitbrain.cluster.tables.node import TablesConfig, TablesNode
from splitbrain.cluster.tables_client import TablesClient, connect
from splitbrain.harness.contract.declarations import check_system
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodePlace
from splitbrain.harness.contract.sessions import Answer, DefiniteError
from splitbrain.harness.contract.settings import chosen
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.tables import RUN_NODE, SETTINGS, TableStore
from splitbrain.results.errors import UsageError
from tests.cluster.support import World, in_virtual_time

THREE = ["n1", "n2", "n3"]


class Tables:
    """Table nodes in a `World`."""

    def __init__(self, names: list[str], strategy: str = "ignore", bugs: Bugs = NO_BUGS) -> None:
        self.world = World(names)
        self.bugs = bugs
        self.strategy = strategy
        self.nodes: dict[str, TablesNode] = {}

    async def start(self, *names: str) -> None:
        for name in names or self.world.names:
            peers = {peer: (peer, 1) for peer in self.world.names if peer != name}
            config = TablesConfig(name, (name, 1), peers, self.strategy, tick_ms=1000, bugs=self.bugs)
            self.nodes[name] = TablesNode(config, self.world.runtime(name))
            await self.nodes[name].start()

    async def client(self, name: str) -> TablesClient:
        return await connect(self.world.dial("client", name))

    async def phase(self, name: str) -> str:
        client = await self.client(name)
        try:
            return (await client.state()).phase
        except ClientError:
            return "silent"
        finally:
            await client.close()

    async def until(self, name: str, phase: str) -> None:
        for _ in range(200):
            if await self.phase(name) == phase:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{name} is {await self.phase(name)}: {self.world.logs[name]}")


def on_nodes(
    names: list[str],
    check: Callable[[Tables], Coroutine[Any, Any, None]],
    strategy: str = "ignore",
    bugs: Bugs = NO_BUGS,
) -> None:
    async def whole() -> None:
        tables = Tables(names, strategy, bugs)
        try:
            await tables.start()
            for name in names:
                await tables.until(name, "running")
            await check(tables)
            assert tables.world.failures == []
        finally:
            await tables.world.close()

    in_virtual_time(whole())


def test_what_one_node_acknowledged_is_read_from_another() -> None:
    async def check(tables: Tables) -> None:
        one, other = await tables.client("n1"), await tables.client("n3")
        await one.write("t", "k", {"a": [1, None]})
        assert await other.read("t", "k") == {"a": [1, None]}
        assert await other.read("t", "none") is None
        assert await other.compare_and_swap("t", "k", 0, 1) is False
        assert await other.compare_and_swap("t", "k", {"a": [1, None]}, 1) is True
        assert await one.create("t", "k", 2) is False
        assert await one.create("t", "new", 2) is True
        assert (await one.insert("s", "k", 1), await other.insert("s", "k", 1)) == (True, False)
        assert await one.read_all("s", "k") == [1]
        state = await one.state()
        assert (state.active, state.alive, state.partitions) == (tuple(THREE), tuple(THREE), ())
        await one.close()
        await other.close()

    on_nodes(THREE, check)


def test_mn_3_a_node_that_was_killed_copies_what_it_missed() -> None:
    async def check(tables: Tables) -> None:
        await tables.world.kill("n1")
        client = await tables.client("n2")
        await client.write("t", "k", 1)
        await tables.start("n1")
        await tables.until("n1", "running")
        restarted = await tables.client("n1")
        assert await restarted.read("t", "k") == 1
        await restarted.close()
        await client.close()

    on_nodes(THREE, check)


def test_all_nodes_start_again_with_what_they_had_acknowledged() -> None:
    async def check(tables: Tables) -> None:
        client = await tables.client("n2")
        await client.write("t", "k", 1)
        await client.close()
        await asyncio.sleep(0.2)
        for name in THREE:
            await tables.world.kill(name)
        await tables.start()
        for name in THREE:
            await tables.until(name, "running")
        client = await tables.client("n3")
        assert await client.read("t", "k") == 1
        await client.close()

    on_nodes(THREE, check)


def test_mn_5_a_node_that_pauses_ends_its_clients_and_serves_none() -> None:
    async def check(tables: Tables) -> None:
        client = await tables.client("n1")
        await client.write("t", "k", 1)
        await tables.world.kill("n2")
        await tables.world.kill("n3")
        await tables.until("n1", "stopped")
        with pytest.raises((UnavailableError, OutcomeUnknownError)):
            await client.read("t", "k")
        late = await tables.client("n1")
        with pytest.raises(UnavailableError, match="stopped"):
            await late.read("t", "k")
        await late.close()
        await client.close()
        await tables.start("n2", "n3")
        await tables.until("n1", "running")

    on_nodes(THREE, check, "pause-minority")


def test_m84d_a_node_that_has_paused_answers_reads() -> None:
    async def check(tables: Tables) -> None:
        client = await tables.client("n1")
        await client.write("t", "k", 1)
        await client.close()
        await tables.world.kill("n2")
        await tables.world.kill("n3")
        await tables.until("n1", "stopped")
        late = await tables.client("n1")
        assert (await late.read("t", "k"), await late.read("t", "none")) == (1, None)
        with pytest.raises(UnavailableError, match="stopped"):
            await late.write("t", "k", 2)
        await late.close()

    on_nodes(THREE, check, "pause-minority", Bugs(["M84D"]))


def test_a_node_reports_with_what_it_began_whom_it_sees_and_that_it_paused() -> None:
    async def check(tables: Tables) -> None:
        await tables.world.kill("n2")
        await tables.world.kill("n3")
        await tables.until("n1", "stopped")
        first, *others = tables.world.telemetry["n1"]
        assert (first["event"], first["raised_by"]) == ("start", "pause-minority")
        assert first["counted"] == {"net_tick_ms": 1000, "nodes": 3}
        events = [line["event"] for line in others]
        assert events.index("resumes") < events.index("serves") < events.index("pauses")
        paused = next(line for line in others if line["event"] == "pauses")
        assert (paused["role"], paused["members"]) == ("stopped", ["n1"])

    on_nodes(THREE, check, "pause-minority")


def test_requests_that_make_no_sense_are_refused() -> None:
    async def check(tables: Tables) -> None:
        client = await tables.client("n1")
        with pytest.raises(InvalidRequestError, match="texts"):
            await client.read(cast("str", 1), "k")
        with pytest.raises(InvalidRequestError, match="bytes"):
            await client.write("t", "k", "x" * 200_000)
        await client.close()

    on_nodes(["n1"], check)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--listen", "n1:1", "--data", "d"], "--node is missing"),
        (["--node", "n1", "--listen", "n1", "--data", "d"], "HOST:PORT"),
        (["--node", "n1", "--listen", "n1:1", "--data", "d", "--partition-strategy", "x"], "no partition strategy"),
        (["--node", "n1", "--listen", "n1:1", "--data", "d", "--preferred", "n9"], "--preferred names n9"),
        (["--node", "n1", "--listen", "n1:1", "--data", "d", "--net-tick-ms", "5"], "tick time"),
        (["--node", "n1", "--listen", "n1:1", "--data", "d", "--peer", "n1=n1:2"], "own peer"),
        (["--node", "n1", "--listen", "n1:1", "--data", "d", "--bugs", "M999"], "--bugs M999: no bug is called"),
        (["--bogus", "1"], "no argument"),
        (["--node"], "needs a value"),
    ],
)
def test_a_wrong_command_line_is_refused(arguments: list[str], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        parse(arguments)


# --- the system -----------------------------------------------------------------------------------------------------


class MemoryDeployment:
    def __init__(self, tables: Tables) -> None:
        self.world = tables.world

    async def dial(self, node: str) -> Any:
        return self.world.dial("client", node)


def test_the_system_is_what_it_declares_and_its_sessions_do_what_they_say() -> None:
    system = TableStore()
    check_system(system)

    async def check(tables: Tables) -> None:
        deployment = cast(Deployment, MemoryDeployment(tables))
        session = await system.connect(deployment, "n2")
        assert await session.write("k", 1) == Answer(1)
        assert await session.read("k") == Answer(1)
        assert await session.compare_and_set("k", 1, 2) == Answer(True)
        assert await session.create("k", 3) == Answer(False)
        assert await session.add("s", 5) == Answer(5)
        assert await session.add("s", 4) == Answer(4)
        assert await session.elements("s") == Answer([4, 5])
        view = await system.view(deployment, "n2")
        assert view is not None
        assert (view.role, view.leader) == ("running", "n1")
        await tables.world.kill("n1")
        await tables.world.kill("n3")
        await tables.until("n2", "stopped")
        with pytest.raises(DefiniteError):
            await (await system.connect(deployment, "n2")).read("k")
        await session.close()

    on_nodes(THREE, check, "pause-minority")


def place(node: str) -> NodePlace:
    peers = {name: ("127.0.0.1", 7000 + number) for number, name in enumerate(THREE) if name != node}
    return NodePlace(node, "/nodes/x/data", ("127.0.0.1", 7100), peers)


def test_a_setting_names_the_strategy_of_all_nodes() -> None:
    settings = chosen("strategy=pause-if-all-down-autoheal,net-tick-ms=700,preferred=2", SETTINGS, "tables")
    command = TableStore().command(
        cast(Test, SimpleNamespace(request_timeout_ms=1500, settings=settings, bugs=("M85",))), place("n2")
    )
    config, data = parse(command.argv[1 + len(RUN_NODE) :])
    assert (config.strategy, config.preferred, config.tick_ms) == ("pause-if-all-down-autoheal", ("n1", "n2"), 700)
    assert config.bugs == Bugs(["M85"])
    assert Path(data) == Path("/nodes/x/data")
    plain, _ = parse(
        TableStore()
        .command(cast(Test, SimpleNamespace(request_timeout_ms=1500, settings={}, bugs=())), place("n1"))
        .argv[1 + len(RUN_NODE) :]
    )
    assert (plain.strategy, plain.preferred) == ("ignore", ())
    with pytest.raises(UsageError, match="ignore, pause-minority"):
        chosen("strategy=2", SETTINGS, "tables")


@pytest.mark.parametrize(
    ("strategy", "judges"),
    [
        ("ignore", ("strategy-down", "strategy-apart", "strategy-ignore")),
        (
            "pause-minority",
            (
                "strategy-down",
                "strategy-pause-minority",
            ),
        ),
        (
            "pause-if-all-down-ignore",
            ("strategy-down", "strategy-pause-if-all-down", "strategy-apart", "strategy-ignore"),
        ),
        ("pause-if-all-down-autoheal", ("strategy-down", "strategy-pause-if-all-down", "strategy-autoheal")),
        (
            "autoheal",
            (
                "strategy-down",
                "strategy-autoheal",
            ),
        ),
    ],
)
def test_what_the_strategy_in_force_promises_is_judged_where_links_can_be_cut(
    strategy: str, judges: tuple[str, ...]
) -> None:
    settings = chosen(f"strategy={strategy}", SETTINGS, "tables")
    named = TableStore().capabilities.telemetry_checkers
    assert named is not None
    assert named(settings, frozenset({"cut", "kill"})) == judges
    assert named(settings, frozenset({"kill"})) == ()
