"""The client's typed methods for all of the tree (KH-2 to KH-7, KH-13 to KH-15, KH-18), its errors, and bad input."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from splitbrain.cluster.client import (
    Client,
    ClientError,
    ClusterError,
    CorruptExportError,
    InvalidPathError,
    InvalidRequestError,
    MismatchingNodeError,
    NodeNotFoundError,
    PossiblyMatchingManyNodesDeniedError,
    StoredProcedure,
    StoreRefusedError,
    UnavailableError,
)
from splitbrain.cluster.commands import encode_value
from splitbrain.cluster.patterns import (
    ANY,
    Compare,
    IfAll,
    IfAny,
    IfChildListLength,
    IfNameMatches,
    IfNodeExists,
    IfNot,
    IfPayloadVersion,
    condition_of,
    if_data,
    variable,
)
from splitbrain.cluster.tree import NEWEST_VERSION, Functions, Transaction
from splitbrain.cluster.tree.transfer import Record, encode
from tests.cluster.support import World, eventually, in_cluster

THREE = ["n1", "n2", "n3"]


def with_client(check: Callable[[Client], Awaitable[None]]) -> None:
    """Check with a client of a follower of three nodes, all of which support all versions."""

    async def checked(world: World) -> None:
        leader = await world.leader()
        await world.in_force(NEWEST_VERSION)
        await check(await world.client(next(name for name in world.names if name != leader)))
        assert world.failures == []

    in_cluster(World(THREE), checked)


def paths(found: Any) -> list[str]:
    return [node.path for node in found.nodes]


def test_kh5_many_nodes_are_read_changed_and_removed_by_a_pattern() -> None:
    async def check(client: Client) -> None:
        for name in ("oak", "birch", "pine"):
            await client.put(f"/wood/{name}", {"n": len(name)})
        seen = await client.get_nodes("/wood/*", returns=("payload", "child_list_length"))
        assert [(node.path, node.value, node.child_list_length) for node in seen.nodes] == [
            ("/wood/birch", {"n": 5}, 0),
            ("/wood/oak", {"n": 3}, 0),
            ("/wood/pine", {"n": 4}, 0),
        ]
        assert await client.count("/wood/*", when=if_data({"n": variable("n")}, [">", variable("n"), 3])) == 2
        assert await client.fold("/**", lambda total, node: total + (node.value or {"n": 0})["n"], 0) == 12
        changed = await client.put_nodes("/wood/*", {"n": 0}, many=True, returns=("payload", "payload_version"))
        assert [(node.value, node.payload_version) for node in changed.nodes] == [
            ({"n": 5}, 2),
            ({"n": 3}, 2),
            ({"n": 4}, 2),
        ]
        assert (await client.clear_nodes("/wood/p*", many=True)).count == 1
        assert not await client.has_data("/wood/pine")
        assert (await client.delete_nodes("/wood/*", when=IfNameMatches("^b"), many=True)).count == 1
        assert paths(await client.get_nodes("/wood/*")) == ["/wood/oak", "/wood/pine"]
        assert await client.exists("/wood/oak")
        assert not await client.exists("/wood/birch")

    with_client(check)


def test_kh4_conditions_create_update_and_swap() -> None:
    async def check(client: Client) -> None:
        await client.put_nodes("/a", 1, when=IfNodeExists(False))
        with pytest.raises(MismatchingNodeError) as there:
            await client.put_nodes("/a", 2, when=IfNodeExists(False))
        assert there.value.properties.payload_version == 1
        with pytest.raises(NodeNotFoundError):
            await client.put_nodes("/b", 2, when=IfNodeExists(True))
        await client.put_nodes("/a", [2, "x"], when=if_data(1))
        await client.put_nodes("/a", 3, when=IfAll((if_data([2, ANY]), IfPayloadVersion(Compare("ge", 2)))))
        with pytest.raises(MismatchingNodeError):
            await client.put_nodes("/a", 4, when=IfNot(IfPayloadVersion(3)))
        assert (await client.get("/a")).value == 3
        # D15: a condition that does not hold is no error of these.
        assert (await client.get_nodes("/a", when=IfPayloadVersion(9), many=False)).count == 0
        assert (await client.delete_nodes("/a", when=IfPayloadVersion(9))).count == 0
        assert (await client.delete_nodes("/a", when=IfPayloadVersion(3))).count == 1

    with_client(check)


def test_kh7_a_node_goes_with_what_keeps_it_and_the_answer_says_why() -> None:
    async def check(client: Client) -> None:
        await client.put("/vhost", 1)
        await client.put_nodes("/queue", 1, keep_while={"/vhost": IfNodeExists(True)})
        await client.put_nodes("/binding", 1, keep_while={"/queue": IfNodeExists(True)})
        with pytest.raises(StoreRefusedError) as unmet:
            await client.put_nodes("/other", 1, keep_while={"/none": IfNodeExists(True)})
        assert unmet.value.reason == "keep_while_conditions_not_met"
        gone = await client.delete_nodes("/vhost", returns=("delete_reason",))
        assert [(node.path, node.delete_reason) for node in gone.nodes] == [
            ("/binding", "keep_while"),
            ("/queue", "keep_while"),
            ("/vhost", "explicit"),
        ]
        assert await client.count("/**") == 0

    with_client(check)


def test_kh13_procedures_run_and_triggers_run_them() -> None:
    async def check(world: World) -> None:
        await world.leader()
        await world.in_force(NEWEST_VERSION)
        client = await world.client("n2")
        await client.put_nodes("/procedures/count", StoredProcedure("test/count", 1, "/count"))
        assert await client.is_procedure("/procedures/count")
        stored = await client.get_nodes("/procedures/count", many=False)
        assert stored.nodes[0].procedure == StoredProcedure("test/count", 1, "/count")
        ran = await client.run_procedure("/procedures/count", {"path": ["x"], "action": "create"}, writes=True)
        assert ran.value == 1
        with pytest.raises(StoreRefusedError) as reading:
            await client.run_procedure("/procedures/count", {"path": ["x"], "action": "create"})
        assert reading.value.reason == "denied_update_in_readonly_tx"
        await client.put("/data", 1)
        with pytest.raises(StoreRefusedError) as no_procedure:
            await client.run_procedure("/data")
        assert no_procedure.value.reason == "denied_execution_of_non_sproc_node"
        await client.register_trigger("t", "/watched/*", "/procedures/count", on_actions=["create"], priority=2)
        (trigger,) = await client.triggers()
        assert (trigger.id, trigger.path, trigger.procedure) == ("t", "/watched/*", "/procedures/count")
        assert (trigger.on_actions, trigger.priority) == (("create",), 2)
        for name in ("a", "b", "a"):
            await client.put(f"/watched/{name}", name)

        async def counted() -> bool | None:
            return (await client.get("/count")).value == 3 or None

        await eventually(counted)
        await client.unregister_triggers("t", "none")
        assert await client.triggers() == ()

    class Counting(World):
        def __init__(self) -> None:
            super().__init__(THREE)
            self.functions = COUNTING

    in_cluster(Counting(), check)


COUNTING = Functions()


@COUNTING.register("test/count", version=1)
def count(tx: Transaction, data: Any, arguments: Any) -> Any:
    """Add one to the number at a path."""
    if arguments["action"] != "create":
        tx.abort("only for what was created")
    now = (tx.value(tx.get(data)) or 0) + 1
    tx.put(data, now)
    return now


def test_kh14_projections_are_registered_read_on_every_member_and_dropped() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        await world.in_force(NEWEST_VERSION)
        client = await world.client(leader)
        await client.put("/users/ann", ["ann", "secret"])
        await client.register_projection("users_v1", "/users/*")
        with pytest.raises(StoreRefusedError) as again:
            await client.register_projection("users_v1", "/users/*")
        assert again.value.reason == "projection_already_exists"
        await client.put("/users/bob", ["bob", "hidden"])
        assert (await client.look_up("users_v1", "bob")).records == (("bob", "hidden"),)
        assert (await client.look_up("users_v1", "eve")).records == ()
        for name in world.names:
            follower = await world.client(name)

            async def alike(asked: Client = follower) -> bool | None:
                try:
                    return len((await asked.all_records("users_v1")).records) == 2 or None
                except UnavailableError:
                    return None

            await eventually(alike)
        assert await client.projections() == {"users_v1": "/users/*"}
        assert await client.unregister_projections(["users_v1", "none"]) == {"users_v1": "/users/*"}
        with pytest.raises(UnavailableError, match="unknown_projection"):
            await client.look_up("users_v1", "bob")

    in_cluster(World(THREE), check)


def test_kh18_an_export_is_imported_elsewhere_and_what_keeps_nodes_comes_with_it() -> None:
    async def check(world: World) -> None:
        await world.leader()
        await world.in_force(NEWEST_VERSION)
        client = await world.client("n1")
        await client.put("/z", 1)
        await client.put_nodes("/a", {"x": b"\x00\xff"}, keep_while={"/z": IfNodeExists(True)})
        await client.put("/deep/er/est", "v")
        whole, part = await client.export(), await client.export("/deep")
        before = await client.get_nodes("/**", returns=("payload", "child_names"))
        await client.delete("/")
        await client.put("/other", 1)
        assert (await client.import_(part)).nodes == 3
        assert paths(await client.get_nodes("/**")) == ["/deep", "/deep/er", "/deep/er/est", "/other"]
        # The node that keeps /a comes later in the export than /a.
        assert (await client.import_(whole)).nodes == 5
        await client.delete("/other")
        assert (await client.get_nodes("/**", returns=("payload", "child_names"))).nodes == before.nodes
        await client.delete("/z")
        assert not await client.exists("/a")

    in_cluster(World(THREE), check)


# --- bad input ----------------------------------------------------------------------------------------------------

LARGE = "x" * 110_000
MEGABYTE = (IfNameMatches("a" * 1_000_000),)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def conditions(depth: int) -> Any:
    condition: Any = IfNodeExists(True)
    for _ in range(depth):
        condition = IfNot(condition)
    return condition


BAD: dict[str, tuple[Callable[[Client], Awaitable[object]], type[ClusterError], str]] = {
    "pattern for one": (
        lambda client: client.put("/a/*", 1),
        PossiblyMatchingManyNodesDeniedError,
        "/a/.* may match many",
    ),
    "pattern for one with conditions": (
        lambda client: client.delete_nodes("/a/*"),
        PossiblyMatchingManyNodesDeniedError,
        r"/a/\* may match many",
    ),
    "large payload": (lambda client: client.put("/a", LARGE), InvalidRequestError, "at most 102400 bytes"),
    "one node by a pattern": (
        lambda client: client.get_nodes("/a/*", many=False),
        PossiblyMatchingManyNodesDeniedError,
        r"/a/\* may match many",
    ),
    "pattern for one in a transaction": (
        lambda client: client.transaction("steps", 1, [["put", "/a/b", 2], ["put", "/a/*", 2]]),
        PossiblyMatchingManyNodesDeniedError,
        r"/a/\* may match many",
    ),
    "large payload in a transaction": (
        lambda client: client.transaction("steps", 1, [["put", "/a/b", 2], ["put", "/a/b", "x" * 99_000]]),
        StoreRefusedError,
        "bytes",
    ),
    "unknown condition": (
        lambda client: client.put_nodes("/a/b", 2, when=["if_there_is_rain", True]),  # pyright: ignore[reportArgumentType]
        InvalidRequestError,
        "if_there_is_rain|makes no sense|is no condition",
    ),
    "unknown condition that keeps": (
        lambda client: client.put_nodes("/a/b", 2, keep_while={"/a": ["if_rain"]}),  # pyright: ignore[reportArgumentType]
        InvalidRequestError,
        "if_rain|makes no sense|is no condition",
    ),
    "text of a pattern of a megabyte": (
        lambda client: client.delete_nodes("/" + "a*" * 500_000, many=True),
        InvalidRequestError,
        "at most 256 characters",
    ),
    "condition that keeps with a long pattern": (
        lambda client: client.put_nodes("/a/b", 2, keep_while={"/a": IfNameMatches("a" * 50_000)}),
        InvalidRequestError,
        "at most 256 characters",
    ),
    "deep value": (lambda client: client.put("/a/b", nested(100_000)), InvalidRequestError, "deep|recursion|msgpack"),
    "deep data": (
        lambda client: client.transaction("steps", 1, nested(100_000)),
        InvalidRequestError,
        "deep|recursion|msgpack",
    ),
    "many operations in a transaction": (
        lambda client: client.transaction("steps", 1, [["put", "/a/b", 2]] * 10_001),
        ClusterError,
        "operations|at most",
    ),
    "large data": (
        lambda client: client.transaction("move", 1, LARGE),
        InvalidRequestError,
        "at most 102400 bytes",
    ),
    "pattern of a megabyte": (
        lambda client: client.delete_nodes(MEGABYTE, many=True),
        InvalidRequestError,
        "at most 256 characters",
    ),
    "back-tracking": (
        lambda client: client.get_nodes((IfNameMatches(r"(a*)*\1"),)),
        InvalidRequestError,
        "there is no",
    ),
    "deep path": (lambda client: client.put("/a" * 200, 1), InvalidRequestError, "at most"),
    "long name": (lambda client: client.put(f"/{'a' * 5_000}", 1), InvalidRequestError, "characters"),
    "no path of a megabyte": (lambda client: client.get("a" * 1_000_000), InvalidPathError, "is not a path"),
    "bad percent encoding of a megabyte": (
        lambda client: client.count("/%ff" + "a" * 1_000_000),
        InvalidPathError,
        "no UTF-8",
    ),
    "the root without a payload": (
        lambda client: client.clear_nodes("/"),
        StoreRefusedError,
        r"for it, nothing else\.$",
    ),
    "no path": (lambda client: client.put("a//b", 1), InvalidPathError, "a//b"),
    "deep conditions": (lambda client: client.count("/a", when=conditions(50)), InvalidRequestError, "deep"),
    "many conditions": (
        lambda client: client.count("/a", when=IfAny(tuple(IfPayloadVersion(n) for n in range(1_000)))),
        InvalidRequestError,
        "at most 256 conditions",
    ),
    "condition on the root": (
        lambda client: client.put_nodes("/", 1, when=IfNodeExists(False)),
        InvalidPathError,
        "root",
    ),
    "what msgpack cannot carry": (lambda client: client.put("/a", object()), InvalidRequestError, "msgpack"),
    "projection with a function that is not there": (
        lambda client: client.register_projection("p", "/a/*", "simple", ("none", 1)),
        StoreRefusedError,
        "no function none 1",
    ),
    "projection of an unknown kind": (
        lambda client: client.register_projection("p", "/a/*", "odd"),  # pyright: ignore[reportArgumentType]
        InvalidRequestError,
        "makes no sense",
    ),
    "trigger with a pattern for its procedure": (
        lambda client: client.register_trigger("t", "/a/*", "/procedures/*"),
        PossiblyMatchingManyNodesDeniedError,
        "/procedures",
    ),
    "import with a large record": (
        lambda client: client.import_(
            b"".join(encode([Record(("ok",), b"\x01"), Record(("b",), encode_value(LARGE))]))
        ),
        InvalidRequestError,
        "record 2 of the export",
    ),
    "import of what is no export": (lambda client: client.import_(b"{}"), CorruptExportError, "no export"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gives_one_clear_definite_error_and_changes_nothing(name: str) -> None:
    send, expected, said = BAD[name]

    async def check(client: Client) -> None:
        await client.put("/a/b", 1)
        await client.get("/a/b")
        before = (await client.status()).state_hash
        with pytest.raises(expected, match=said) as refused:
            await send(client)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 1_000
        assert not isinstance(refused.value, ClientError) or refused.value.definite
        assert (await client.get("/a/b")).value == 1
        assert (await client.status()).state_hash == before

    with_client(check)


def test_kh18_no_damaged_export_is_imported_even_in_part() -> None:
    async def check(client: Client) -> None:
        for number in range(3):
            await client.put(f"/e/{number}", number)
        good = await client.export()
        await client.delete("/e")
        before = (await client.get_nodes("/**")).nodes
        damaged = [good[:length] for length in (0, 5, 30, len(good) - 1)]
        damaged += [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in range(0, len(good), 7)]
        for data in (*damaged, good + b"\x00"):
            with pytest.raises(CorruptExportError):
                await client.import_(data)
        assert (await client.get_nodes("/**")).nodes == before
        assert (await client.import_(good)).nodes == 4

    with_client(check)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ('["if_node_exists", true]', IfNodeExists(True)),
        ('["if_payload_version", ["ge", 3]]', IfPayloadVersion(Compare("ge", 3))),
        ('["if_not", ["if_child_list_length", 0]]', IfNot(IfChildListLength(0))),
        ('["if_data_matches", {"a": 1}]', if_data({"a": 1})),
    ],
)
def test_a_condition_is_written_as_json(text: str, condition: object) -> None:
    assert condition_of(text) == condition


@pytest.mark.parametrize(
    "text", ["", "1", '"a"', "[]", '["if_rain"]', '["if_node_exists", 3]', "[" * 10_000, '["if_data_matches"]']
)
def test_what_is_no_condition_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="is no condition"):
        condition_of(text)


def test_deep_values_are_stored_as_what_they_are() -> None:
    async def check(client: Client) -> None:
        value = nested(200)
        await client.put("/deep", value)
        assert msgspec.msgpack.encode((await client.get("/deep")).value) == msgspec.msgpack.encode(value)

    with_client(check)
