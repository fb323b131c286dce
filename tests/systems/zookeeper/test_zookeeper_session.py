"""Registers, sets and locks on a real node, and each row of the table of errors in docs/systems.md."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.zookeeper import records
from splitbrain.harness.systems.zookeeper.connection import Connection
from splitbrain.harness.systems.zookeeper.errors import REFUSING, error_of
from splitbrain.harness.systems.zookeeper.records import ANY_VERSION, PERSISTENT
from splitbrain.harness.systems.zookeeper.status import status_of
from tests.systems.zookeeper.conftest import Node, Serve

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


async def value(answer: Coroutine[Any, Any, Any]) -> Any:
    return (await answer).value


async def registers(node: Node, synced: bool, by_sync: bool) -> None:
    session = await node.session(synced=synced, by_sync=by_sync)
    assert await value(session.read("a")) is None
    assert await value(session.compare_and_set("a", None, 1)) is False, "a missing key matches nothing"
    assert await value(session.create("a", [1, None])) is True
    assert await value(session.create("a", 2)) is False
    assert await value(session.read("a")) == [1, None]
    assert await value(session.compare_and_set("a", 3, 4)) is False
    assert await value(session.compare_and_set("a", [1, None], 4)) is True
    for key in ("a", "b"):
        await session.write(key, 5)
        for f in ("read", "read-local"):
            assert await value(session.read_as(key, f)) == 5
    with pytest.raises(DefiniteError, match="read-leader"):
        await session.read_as("a", "read-leader")
    await session.close()


async def sets(node: Node) -> None:
    session, other = await node.session(), await node.session(synced=False)
    assert await value(session.elements("s")) == []
    for element in (3, 10, 2, 3):
        await session.add("s", element)
    assert await value(session.elements("s")) == [2, 3, 10] == await value(other.elements("s"))
    for each in (session, other):
        await each.close()


async def locks(node: Node) -> None:
    """A lock outlives the connection of its owner, who gives it back on another one."""
    one, other = await node.session(), await node.session()
    first = await value(one.lock("l", 7))
    await one.close()
    assert await value(other.lock("l", 8)) is None
    assert await value(other.unlock("l", 8)) is False
    again = await node.session()
    assert await value(again.unlock("l", 7)) is True
    assert await value(again.unlock("l", 7)) is False
    assert await value(other.lock("l", 8)) > first
    for each in (other, again):
        await each.close()


async def refusals(node: Node) -> None:
    connection = await node.connection()
    session = await node.session()
    await session.add("full", 1)
    await session.lock("l2", 1)
    refused = {
        "BadArguments": records.create("no slash", b"", PERSISTENT),
        "NotEmpty": records.delete("/set full", ANY_VERSION),
        "NoChildrenForEphemerals": records.create("/lock l2/child", b"", PERSISTENT),
        "NoNode": records.delete("/nothing", ANY_VERSION),
        "BadVersion": records.delete("/lock l2", 77),
        "NodeExists": records.create("/lock l2", b"", PERSISTENT),
        "Unimplemented": records.Request(99, b""),
    }
    for name, request in refused.items():
        with pytest.raises(DefiniteError, match=name):
            await connection.ask(request, changes=True)
        if name == "Unimplemented":
            break
    connection.close()
    await session.close()


async def given_up(node: Node) -> None:
    """What comes later on the connection would answer the next request."""
    session = await node.session()
    node.pause()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await session.write("given up", 1)
    node.resume()
    with pytest.raises(DefiniteError, match="closed the connection"):
        await session.read("a")


async def broken(node: Node) -> None:
    """The last one: it kills the node."""
    writer, reader, idle = [await node.session() for _ in range(3)]
    await writer.write("a", 0)
    node.pause()
    write, read = asyncio.ensure_future(writer.write("a", 1)), asyncio.ensure_future(reader.read("a"))
    await asyncio.sleep(0.3)
    node.kill()
    with pytest.raises(IndefiniteError, match="broke"):
        await write
    with pytest.raises(DefiniteError, match="broke"):
        await read
    with pytest.raises(DefiniteError, match="closed the connection"):
        await idle.write("a", 2)
    with pytest.raises(ConnectionRefusedError):
        await node.session()
    for each in (writer, reader, idle):
        await each.close()


def test_a_node_answers_and_refuses_as_the_documentation_says(serve: Serve) -> None:
    """One node for all of it: a JVM takes seconds to start."""
    node = serve()

    async def main() -> None:
        async with asyncio.timeout(60):
            for synced, by_sync in ((True, False), (True, True), (False, False)):
                await registers(node, synced, by_sync)
                session = await node.connection()
                for key in ("a", "b"):
                    await session.ask(records.delete(f"/register {key}", ANY_VERSION), changes=True)
                session.close()
            await sets(node)
            await locks(node)
            await refusals(node)
            await given_up(node)
            await broken(node)

    asyncio.run(main())


def test_a_node_without_a_majority_grants_no_session(serve: Serve) -> None:
    node = serve(members=3)

    async def main() -> None:
        with pytest.raises(DefiniteError, match="connect"):
            await Connection.on(await node.dialled())

    asyncio.run(main())


@pytest.mark.parametrize("code", sorted(REFUSING))
def test_refusals_are_definite(code: int) -> None:
    assert isinstance(error_of(code, changes=True), DefiniteError)


@pytest.mark.parametrize("code", [-1, -4, -7, -112, -118, -127])
def test_all_other_errors_leave_a_change_unknown_and_a_read_failed(code: int) -> None:
    assert isinstance(error_of(code, changes=True), IndefiniteError)
    assert isinstance(error_of(code, changes=False), DefiniteError)


SERVING = "Zookeeper version: 3.9\nZxid: 0x300000007\nMode: {}\nNode count: 5\n"


@pytest.mark.parametrize(("mode", "role"), [("leader", "leader"), ("follower", "follower"), ("standalone", "leader")])
def test_the_role_and_the_epoch_are_in_the_status(mode: str, role: str) -> None:
    assert status_of(SERVING.format(mode)) == (role, 3)


@pytest.mark.parametrize("answer", ["", "This ZooKeeper instance is not currently serving requests\n"])
def test_a_node_that_does_not_serve_has_no_status(answer: str) -> None:
    with pytest.raises(DefiniteError, match="does not serve"):
        status_of(answer)
