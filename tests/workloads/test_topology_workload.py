"""The workload `topology`: in the end all is declared again and shown by every node; on a real node it passes."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.registered import known
from splitbrain.cluster.tree import NEWEST_VERSION
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.metadata_session import MetadataSession
from splitbrain.workloads.catalogue import build
from splitbrain.workloads.topology import CLAIMED, ROUTED_KEYS, VHOSTS, names
from tests.cluster.support import World, eventually, in_cluster
from tests.workloads.support import drive, invocations

BOUND: list[Any] = ["binding", "v", "direct", "queue", "q", "a.b"]


def test_in_the_end_every_name_is_declared_again_after_what_it_needs_and_every_client_looks() -> None:
    final = build("topology", nodes=("n1", "n2", "n3"), concurrency=10).final_generator
    assert final is not None
    history = drive(final, apart_ns=50_000_000)
    ops = invocations(history)
    assert [op.value for op in ops if op.f == "declare"] == names()
    assert [op.value for op in ops if op.f == "claim"] == [[v, q] for v in VHOSTS for q in CLAIMED]
    order = [op.f for op in ops]
    assert order.index("claim") > len(order) - 1 - order[::-1].index("disconnect"), "all connections have ended by then"
    for f in ("disconnect", "look", "project"):
        assert sorted(op.process for op in ops if op.f == f) == list(range(10))


def session_on(bugs: Bugs, check: Any) -> None:
    async def carry_out(world: World) -> None:
        await world.in_force(NEWEST_VERSION)
        session = MetadataSession(await world.client("n2"), 5000)
        await session.prepare_topology()
        for entity in (["vhost", "v"], ["exchange", "v", "direct", "direct"], ["queue", "v", "q"]):
            await session.declare(entity)
        await check(session)

    world = World(["n1", "n2", "n3"], bugs=bugs)
    world.functions = known((), bugs)
    in_cluster(world, carry_out)


async def shown(session: MetadataSession) -> Any:
    """What a node holds once it has applied all that was acknowledged."""
    wanted = (await session.entities()).value

    async def found() -> Any:
        try:
            value = (await session.projected(ROUTED_KEYS)).value
        except DefiniteError:
            return None
        return value if value["tree"] == wanted else None

    return await eventually(found)


def test_a_node_shows_what_was_declared_in_its_tree_its_projections_and_by_its_routes() -> None:
    async def check(session: MetadataSession) -> None:
        await session.declare(["user", "u"])
        await session.declare(["user", "u"])
        await session.declare(["permission", "v", "u"])
        for number in (0, 1):
            await session.declare([*BOUND, number])
        found = await shown(session)
        assert found["tables"] == found["tree"]
        assert [*BOUND, 1] in found["tree"]
        assert ["v", "direct", "a.b", ["q"]] in found["routes"]
        assert (await session.delete(["user", "u"])).value is True
        assert (await session.delete(["user", "u"])).value is False
        assert (await session.delete(["queue", "v", "q"])).value is True
        assert (await shown(session))["tree"] == [["exchange", "v", "direct", "direct"], ["vhost", "v"]]
        with pytest.raises(DefiniteError, match=r"^not_found: queue 'q'"):
            await session.declare([*BOUND, 0])

    session_on(NO_BUGS, check)


def test_m57_one_of_two_bindings_is_taken_for_both_on_a_node_that_has_the_bug() -> None:
    async def check(session: MetadataSession) -> None:
        for number in (0, 1):
            await session.declare([*BOUND, number])
        await session.delete([*BOUND, 0])
        found = await shown(session)
        assert [*BOUND, 1] in found["tree"]
        assert ["v", "direct", "a.b", []] in found["routes"]

    session_on(Bugs(["M57"]), check)


def test_db_6_queues_of_a_connection_are_its_own_and_go_when_it_ends_or_the_session_is_closed() -> None:
    async def check(session: MetadataSession) -> None:
        owner = (await session.claim("v", "mine")).value
        assert (await session.claim("v", "mine")).value == owner
        assert ["exclusive", "v", "mine", owner] in (await shown(session))["tables"]
        assert (await session.disconnect()).value == owner
        assert (await session.disconnect()).value is None
        assert ["queue", "v", "q"] in (await session.entities()).value
        again = (await session.claim("v", "mine")).value
        assert again != owner
        assert ["exclusive", "v", "mine", again] in (await session.entities()).value

    session_on(NO_BUGS, check)


def test_db_6_a_queue_of_another_connection_is_refused_until_that_is_closed() -> None:
    async def carry_out(world: World) -> None:
        await world.in_force(NEWEST_VERSION)
        one, other = [MetadataSession(await world.client("n2"), 5000) for _ in range(2)]
        await one.declare(["vhost", "v"])
        await one.claim("v", "mine")
        with pytest.raises(DefiniteError, match=r"^resource_locked"):
            await other.claim("v", "mine")
        await one.close()
        await other.claim("v", "mine")

    in_cluster(World(["n1", "n2", "n3"]), carry_out)


def test_db_2_an_exchange_that_deletes_itself_headers_and_a_policy_are_shown_alike_everywhere() -> None:
    async def check(session: MetadataSession) -> None:
        passing = ["exchange", "v", "passing", "fanout", True]
        await session.declare(passing)
        await session.declare(["exchange", "v", "headers", "headers"])
        await session.declare(["policy", "v", "p"])
        for number in (0, 1):
            await session.declare(["binding", "v", "headers", "queue", "q", "", number])
        found = await shown(session)
        assert found["tables"] == found["tree"]
        assert passing in found["tree"]
        assert ["policy", "v", "p"] in found["tree"]
        assert ["v", "headers", "b", ["q"]] in found["routes"]
        await session.delete(["binding", "v", "headers", "queue", "q", "", 0])
        assert ["v", "headers", "b", []] in (await shown(session))["routes"]
        binding = ["binding", "v", "passing", "queue", "q", "", 0]
        await session.declare(binding)
        await session.delete(binding)
        assert passing not in (await shown(session))["tree"]
        assert (await session.delete(["policy", "v", "p"])).value is True

    session_on(NO_BUGS, check)
