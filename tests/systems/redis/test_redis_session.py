"""Registers, sets and locks on a real server, and what a replica of it does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from splitbrain.harness.contract.sessions import IndefiniteError, StandbyError
from splitbrain.harness.systems.redis.session import LOCK_MS
from tests.systems.redis.conftest import Serve, Server

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


async def value(answer: Coroutine[Any, Any, Any]) -> Any:
    return (await answer).value


def test_a_register_is_written_compared_and_created(serve: Serve) -> None:
    server = serve()

    async def main() -> None:
        session = await server.session()
        assert await value(session.read("a")) is None
        assert await value(session.compare_and_set("a", None, 1)) is False, "a missing key matches nothing"
        assert await value(session.create("a", [1, None])) is True
        assert await value(session.create("a", 2)) is False
        assert await value(session.read("a")) == [1, None]
        assert await value(session.compare_and_set("a", 3, 4)) is False
        assert await value(session.compare_and_set("a", [1, None], 4)) is True
        await session.write("a", 5)
        assert await value(session.read("a")) == 5
        await session.close()

    asyncio.run(main())


def test_a_set_has_what_was_added(serve: Serve) -> None:
    server = serve()

    async def main() -> None:
        session = await server.session()
        assert await value(session.elements("s")) == []
        for element in (3, 10, 2, 3):
            await session.add("s", element)
        assert await value(session.elements("s")) == [2, 3, 10]
        await session.close()

    asyncio.run(main())


def test_a_lock_has_one_owner_a_growing_token_and_no_end_within_a_run(serve: Serve) -> None:
    server = serve()

    async def main() -> None:
        one, other = await server.session(), await server.session()
        first = await value(one.lock("l", 7))
        assert await value(other.lock("l", 8)) is None
        assert await value(other.unlock("l", 8)) is False
        assert await server.say("PTTL", "lock:l") > LOCK_MS - 60_000
        assert await value(one.unlock("l", 7)) is True
        assert await value(one.unlock("l", 7)) is False
        assert await value(other.lock("l", 8)) > first
        for session in (one, other):
            await session.close()

    asyncio.run(main())


async def following(replica: Server, primary: Server) -> None:
    """Make a server a replica, and wait until it is."""
    await replica.say("REPLICAOF", "127.0.0.1", primary.port)
    await replica.until(lambda role: role[3:4] == [b"connected"], "ROLE")


def test_a_replica_refuses_all_changes_also_those_that_would_change_nothing(serve: Serve) -> None:
    primary, replica = serve(), serve()

    async def main() -> None:
        writer = await primary.session()
        await following(replica, primary)
        await writer.write("a", 1)
        session = await replica.session(alone=True)
        for change in (
            session.write("a", 2),
            session.compare_and_set("a", 9, 2),
            session.create("a", 2),
            session.add("s", 1),
            session.lock("l", 1),
            session.unlock("l", 1),
        ):
            with pytest.raises(StandbyError, match=r"^standby: READONLY "):
                await change
        for each in (writer, session):
            await each.close()

    asyncio.run(main())


def test_a_replica_answers_reads_in_the_mode_in_which_nodes_answer_alone_and_no_others(serve: Serve) -> None:
    primary, replica = serve(), serve()

    async def main() -> None:
        writer = await primary.session(replicas=1)
        await following(replica, primary)
        await writer.write("a", 1)
        await writer.add("s", 4)
        session, strict = await replica.session(alone=True), await replica.session()
        assert await value(session.read("a")) == 1
        assert await value(session.elements("s")) == [4]
        for read in (strict.read("a"), strict.elements("s")):
            with pytest.raises(StandbyError, match=r"^standby: the node is a replica$"):
                await read
        for each in (writer, session, strict):
            await each.close()

    asyncio.run(main())


def test_a_write_that_too_few_replicas_have_is_unknown_and_may_be_there(serve: Serve) -> None:
    primary, replica = serve(), serve()

    async def main() -> None:
        await following(replica, primary)
        session = await primary.session(replicas=1)
        await session.write("a", 1)
        replica.pause()
        with pytest.raises(IndefiniteError, match="0 of 1 replicas had it after 1000 ms"):
            await session.write("a", 2)
        assert await value(session.read("a")) == 2
        replica.resume()
        await session.close()

    asyncio.run(main())


def test_a_write_that_waits_for_replicas_when_its_node_becomes_one_is_unknown(serve: Serve) -> None:
    primary, replica = serve(), serve()

    async def main() -> None:
        await following(replica, primary)
        session = await primary.session(replicas=1)
        replica.pause()
        write = asyncio.ensure_future(session.write("a", 2))
        await asyncio.sleep(0.2)
        await primary.say("REPLICAOF", "127.0.0.1", replica.port)
        with pytest.raises(IndefiniteError, match="UNBLOCKED"):
            await write
        replica.resume()
        await session.close()

    asyncio.run(main())
