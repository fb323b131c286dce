"""What takes long on a large tree is done in slices: others get a word in, and nothing changes the tree meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import pytest

from splitbrain.cluster import store
from splitbrain.cluster.client import Client, StoreRefusedError, UnavailableError
from splitbrain.cluster.marks import counted
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import (
    NEWEST_VERSION,
    NODES_PER_SLICE,
    CountNodes,
    Export,
    GetNodes,
    InSlices,
    Query,
    Tree,
    decode_export,
    parse_pattern,
)
from splitbrain.cluster.tree import reads as reading
from splitbrain.cluster.tree.nodes import dumped
from splitbrain.cluster.tree.tables import Table
from tests.cluster.support import World, eventually, in_virtual_time

T = TypeVar("T")

MANY = 12_000


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(store, "LARGE", MANY - 2_000)


def filled(tree: Tree, count: int) -> None:
    for number in range(count):
        tree.state.begin()
        name = f"{number * 7_919 % count:06}"
        tree.state.put(("many", name), msgspec.msgpack.encode([name, number]))


class Full(Store):
    """A store that begins with many nodes."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        if not self.tree.size > MANY:
            filled(self.tree, MANY)


def drained(steps: InSlices[T]) -> tuple[int, T]:
    """How many pauses such work makes, and its result."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return pauses, end.value
        pauses += 1


def on_one_full_node(check: Callable[[World, Client], Any]) -> None:
    async def whole() -> None:
        world = World(["n1"])
        world.store = Full
        try:
            await world.start()
            await world.in_force(NEWEST_VERSION)
            await check(world, await world.client("n1"))
            assert world.failures == []
        finally:
            await world.close()

    with counted() as marks:
        in_virtual_time(whole())
    assert marks["store used in slices"] or marks["projection built in slices"]


@pytest.mark.parametrize("shape", ["flat", "deep", "mixed"])
def test_a_dump_in_slices_is_a_list_of_all_nodes_in_the_order_of_a_walk(shape: str) -> None:
    tree, rng = Tree(version=NEWEST_VERSION), random.Random(3)
    names = [f"{rng.randrange(10**6)}" for _ in range(25_000 if shape == "flat" else 3_000)]
    for number, name in enumerate(names):
        path = {"flat": ("x", name), "deep": ("x", *name), "mixed": ("x", name, *name[: number % 3])}[shape]
        tree.state.begin()
        tree.state.put(path, b"\x01")
    steps, pauses, data = tree.dump_in_slices(), 0, b""
    while not data:
        try:
            next(steps)
            pauses += 1
        except StopIteration as end:
            data = end.value
    assert data == msgspec.msgpack.encode([dumped(node) for node in tree.state.nodes()])
    assert pauses >= tree.size // NODES_PER_SLICE
    assert Tree.load(data, version=NEWEST_VERSION).state_hash == tree.state_hash


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "query",
    [
        CountNodes(parse_pattern("/many/*")),
        CountNodes(parse_pattern("/**")),
        CountNodes(parse_pattern("/many/none*")),
        CountNodes(parse_pattern("/*/*/none")),
        GetNodes(parse_pattern("/many/*"), True, ("payload_version",)),
        GetNodes(parse_pattern("/many/none*"), True),
        Export(),
        Export(parse_pattern("/many/*")),
    ],
    ids=str,
)
def test_no_slice_of_a_query_looks_at_many_nodes_also_if_few_match(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(version=NEWEST_VERSION)
    filled(tree, 10_000)
    expected = tree.query(query)
    looked, most = 0, 0

    def counting(*given: Any, **options: Any) -> Any:
        nonlocal looked
        for step in walked(*given, **options):
            looked += 1
            yield step

    walked = reading.in_slices
    monkeypatch.setattr(reading, "in_slices", counting)
    steps, slices = tree.query_in_slices(query), 0
    result = None
    while result is None:
        looked = 0
        try:
            next(steps)
        except StopIteration as end:
            result = end.value
        slices, most = slices + 1, max(most, looked)
    assert result == expected
    assert slices >= 10_000 // NODES_PER_SLICE - 1
    assert most <= NODES_PER_SLICE + 1


def test_an_answer_with_too_many_nodes_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_FOUND", 9_000)

    async def check(_: World, client: Client) -> None:
        with pytest.raises(StoreRefusedError, match="count them, or ask for parts") as refused:
            await client.get_nodes("/many/*")
        assert refused.value.reason == "too_many_nodes"
        assert await client.count("/many/*") == MANY

    on_one_full_node(check)


@pytest.mark.parametrize("mode", ["consistent", "leader", "local"])
def test_kh6_while_nodes_are_counted_others_are_answered_and_no_change_is_applied(mode: Any) -> None:
    async def check(world: World, client: Client) -> None:
        order: list[str] = []

        async def noted(name: str, asked: Any) -> Any:
            answer = await asked
            order.append(name)
            return answer

        counting = asyncio.ensure_future(noted("count", client.count("/many/*", mode=mode)))
        await _slicing(world)
        others = [
            asyncio.ensure_future(noted("put", client.put("/many/another", 1))),
            asyncio.ensure_future(noted("status", client.status())),
            asyncio.ensure_future(noted("read", client.get("/many/000001", mode="local"))),
        ]
        assert await counting == MANY
        await asyncio.gather(*others)
        assert order.index("status") < order.index("count") < order.index("put")
        assert order.index("read") < order.index("count")
        assert await client.count("/many/*", mode=mode) == MANY + 1

    on_one_full_node(check)


async def _slicing(world: World) -> None:
    """Wait until the store is used in slices; turn by turn, as that takes no virtual time."""
    (group,) = world.nodes["n1"]._groups.values()  # pyright: ignore[reportPrivateUsage]
    for _ in range(1_000):
        if group._state.work:  # pyright: ignore[reportPrivateUsage]
            return
        await asyncio.sleep(0)
    raise AssertionError("it was not")


def test_a_snapshot_of_a_large_state_is_written_in_slices_and_is_that_of_one_entry() -> None:
    async def check(world: World, client: Client) -> None:
        written = asyncio.ensure_future(client.snapshot())
        await _slicing(world)
        puts = [asyncio.ensure_future(client.put(f"/many/x{number}", number)) for number in range(20)]
        index = (await written).index
        assert all([(await each).index > index for each in puts])
        await world.kill("n1")
        await world.start("n1")
        again = await world.client("n1")
        assert await again.count("/many/*") == MANY + 20

    on_one_full_node(check)


def test_kh14_kh15_a_projection_of_many_nodes_is_built_in_slices_and_answers_nothing_before_it_is_whole() -> None:
    async def check(world: World, client: Client) -> None:
        await client.register_projection("many_v1", "/many/*")
        key = "000003"
        with pytest.raises(UnavailableError, match="being built"):
            await client.look_up("many_v1", key)
        put = asyncio.ensure_future(client.put("/many/000003", [key, 33]))
        deleted = asyncio.ensure_future(client.delete("/many/000004"))
        await asyncio.gather(put, deleted)
        found = await eventually(lambda: _records(client, key))
        assert found == ((key, 33),)
        assert (await client.look_up("many_v1", "000004")).records == ()
        assert (await client.look_up("many_v1", "000005")).records != ()
        assert await client.projections() == {"many_v1": "/many/*"}
        await client.snapshot()
        await world.kill("n1")
        await world.start("n1")
        again = await world.client("n1")
        assert await eventually(lambda: _records(again, key)) == found

    on_one_full_node(check)


def test_kh15_all_records_of_a_large_table_are_answered_in_slices_and_are_what_they_were_at_once() -> None:
    for kind in ("set", "bag"):
        table = Table(kind)
        for number in range(MANY):
            table.insert([number * 7_919 % MANY // (2 if kind == "bag" else 1), number])
        parts, encoded = drained(table.encoded_in_slices())
        assert msgspec.msgpack.decode(encoded) == [list(record) for record in table.all()]
        assert parts >= MANY // NODES_PER_SLICE


def test_a_snapshot_with_many_registers_is_loaded_in_slices() -> None:
    """Their projection is no part of the snapshot, and is built from the tree."""
    before = Store("n1")
    for number in range(MANY):
        before.tree.state.begin()
        before.tree.state.put(("registers", f"r{number}"), b"x")
    parts, loaded = drained(Store.load_in_slices(before.dump(), "n2"))
    assert loaded.projection_hash == loaded.projected_hash
    assert parts >= 2 * (MANY // NODES_PER_SLICE), "one pass for the nodes, one for their records"


def test_kh8_what_a_transaction_costs_grows_with_its_operations_and_not_with_their_square() -> None:
    """What nodes were before it is noted once, and not copied with each operation."""
    tree = Tree(version=NEWEST_VERSION)
    tree.state.begin()
    noted = None
    for number in range(100):
        tree.state.put(("many", f"{number}"), b"x")
        tree.state.next_operation()
        known = tree.state._earlier  # pyright: ignore[reportPrivateUsage]
        assert noted is None or known is noted
        noted = known
    assert len(tree.state.changes()) == 102  # the root and the parent, too


async def _records(client: Client, key: Any) -> Any:
    try:
        return (await client.look_up("many_v1", key)).records
    except UnavailableError:
        return None


def test_an_export_in_slices_is_that_of_one_state() -> None:
    full = Full()
    for number in range(1, 3):
        full.apply(Entry(number, 1, "noop"))
    full.tree.version = NEWEST_VERSION
    steps, slices = full.query_in_slices(Export()), 0
    try:
        while True:
            next(steps)
            slices += 1
    except StopIteration as end:
        data = msgspec.msgpack.decode(end.value.data)
    assert slices > MANY // NODES_PER_SLICE - 2
    assert len(decode_export(data)) == MANY
