"""Nodes that are started with different registered functions do not speak with each other, and say why (D13, RA-43)."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.cluster import wire
from splitbrain.cluster.client import ClientError
from splitbrain.cluster.knownfunctions import KnownFunctions, difference, known_by
from splitbrain.cluster.registered import BUILT_IN
from splitbrain.cluster.tree import NEWEST_VERSION, PATTERNS_COME, Functions
from tests.cluster.support import World, eventually, in_cluster


def with_function(name: str, version: int = 1) -> Functions:
    own = Functions()

    @own.register(name, version=version)
    def nothing(tx: Any, data: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
        """As every function."""
        return None

    return Functions.of(BUILT_IN, own)


def said(functions: Functions, version: int = NEWEST_VERSION) -> KnownFunctions:
    return known_by(functions, BUILT_IN, version)


def test_d13_nodes_with_the_same_functions_have_nothing_to_say_and_others_name_what_differs() -> None:
    bind, grow = said(with_function("bind")), said(with_function("grow"))
    assert difference(bind, said(with_function("bind")), "n1", "n2") is None
    assert difference(bind, said(BUILT_IN), "n1", "n2") == "n1 knows bind 1, and n2 does not"
    assert difference(said(BUILT_IN), bind, "n1", "n2") == "n2 knows bind 1, and n1 does not"
    both = "n1 knows bind 1, and n2 does not; n2 knows grow 1, and n1 does not"
    assert difference(bind, grow, "n1", "n2") == both


def test_d13_another_version_of_a_function_is_another_function() -> None:
    found = difference(said(with_function("bind", 1)), said(with_function("bind", 2)), "n1", "n2")
    assert found == "n1 knows bind 1, and n2 does not; n2 knows bind 2, and n1 does not"


def test_d13_programs_whose_own_functions_differ_are_found_too() -> None:
    older = Functions()
    assert difference(said(BUILT_IN), known_by(older, older, NEWEST_VERSION), "n1", "n2") == "their programs differ"


def test_ra_43_functions_of_a_version_that_a_node_does_not_support_are_not_compared() -> None:
    before = said(BUILT_IN, PATTERNS_COME - 1)
    assert before.digests == ()
    assert difference(said(with_function("bind")), before, "n1", "n2") is None


def test_d13_a_node_with_other_functions_is_alone_and_every_log_says_why_once() -> None:
    async def check(world: World) -> None:
        leader = await world.leader(["n1", "n2"])
        assert leader != "n3"
        client = await world.client(leader)
        for number in range(20):  # long enough for many attempts to connect
            await client.put("/a", number)
        with pytest.raises(ClientError, match="no leader"):
            await (await world.client("n3")).put("/a", -1, timeout_ms=300)

        async def all_said() -> bool | None:
            return all(any("turned away" in line for line in world.logs[name]) for name in world.names) or None

        await eventually(all_said)
        (line,) = [line for line in world.logs["n1"] if "turned away" in line]
        assert line.startswith("error: n3 was turned away, since n1 and n3 know other registered functions")
        assert "n3 knows bind 1, and n1 does not" in line
        assert "--functions" in line
        assert world.nodes["n3"].status().leader is None

    world = World(["n1", "n2", "n3"])
    world.functions_of["n3"] = with_function("bind")
    in_cluster(world, check)


def test_d13_it_is_well_once_it_is_started_as_the_others_are() -> None:
    async def check(world: World) -> None:
        leader = await world.leader(["n1", "n2"])
        await (await world.client(leader)).put("/a", 1)
        await world.kill("n3")
        world.functions_of.clear()
        await world.start("n3")

        async def has_it() -> bool | None:
            return world.nodes["n3"].status().applied_index >= world.nodes[leader].status().applied_index or None

        await eventually(has_it)

    world = World(["n1", "n2", "n3"])
    world.functions_of["n3"] = with_function("bind")
    in_cluster(world, check)


def test_a_hello_of_a_program_that_says_nothing_of_functions_is_understood() -> None:
    hello = wire.decode_hello(wire.encode(wire.PeerHello(1, "n1", "n2")))
    assert isinstance(hello, wire.PeerHello)
    assert hello.functions is None
    full = wire.PeerHello(1, "n1", "n2", said(with_function("bind")))
    assert wire.decode_hello(wire.encode(full)) == full
