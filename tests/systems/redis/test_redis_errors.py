"""Each row of the table of errors in docs/systems.md, against a real server."""

from __future__ import annotations

import asyncio

import pytest

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError, StandbyError
from splitbrain.harness.systems.redis.errors import REFUSING, error_of
from tests.systems.redis.conftest import Serve, Server

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


async def refused(server: Server, word: str) -> None:
    """A write is refused definitely, and changed nothing."""
    session = await server.session()
    with pytest.raises(DefiniteError, match=f"^{word}"):
        await session.write("refused", 1)
    await session.close()


async def is_not_there(server: Server) -> None:
    assert await server.say("EXISTS", "register:refused") == 0


def test_without_enough_replicas_a_write_certainly_failed(serve: Serve) -> None:
    server = serve("min-replicas-to-write 1")

    async def main() -> None:
        await refused(server, "NOREPLICAS ")
        await is_not_there(server)

    asyncio.run(main())


def test_a_node_without_memory_takes_no_writes_and_answers_reads(serve: Serve) -> None:
    server = serve("maxmemory 1", "maxmemory-policy noeviction")

    async def main() -> None:
        await refused(server, "OOM ")
        await is_not_there(server)
        session = await server.session(alone=True)
        assert (await session.read("refused")).value is None
        await session.close()

    asyncio.run(main())


def test_a_node_that_cannot_save_takes_no_writes(serve: Serve) -> None:
    server = serve("dbfilename taken")

    async def main() -> None:
        await server.until(lambda answer: answer == b"PONG", "PING")  # it has looked for data to load
        (server.folder / "taken" / "by-a-folder").mkdir(parents=True)
        await server.say("CONFIG", "SET", "save", "3600 1")
        await server.say("BGSAVE")
        await server.until(lambda info: b"rdb_last_bgsave_status:err" in info, "INFO", "persistence")
        await refused(server, "MISCONF ")
        await is_not_there(server)

    asyncio.run(main())


def test_a_node_that_wants_a_password_executes_nothing(serve: Serve) -> None:
    server = serve()

    async def main() -> None:
        await server.say("CONFIG", "SET", "requirepass", "secret")
        await refused(server, "NOAUTH ")
        session = await server.session()
        with pytest.raises(DefiniteError, match="NOAUTH"):
            await session.read("a")
        await session.close()

    asyncio.run(main())


def test_a_node_that_a_script_keeps_busy_executes_nothing(serve: Serve) -> None:
    server = serve("busy-reply-threshold 50")

    async def main() -> None:
        busy = await server.connection()
        loop = asyncio.ensure_future(busy.exchange(("EVAL", "while true do end", 0), changes=False))
        await server.until(lambda answer: str(answer).startswith("BUSY"), "PING")
        await refused(server, "BUSY ")
        await server.say("SCRIPT", "KILL")
        await loop
        busy.close()
        await is_not_there(server)

    asyncio.run(main())


def test_a_node_that_loads_its_data_executes_nothing(serve: Serve) -> None:
    server = serve()

    async def main() -> None:
        writer = await server.connection()
        filler = "x" * 100
        await writer.exchange(*((("SET", f"k{number}", filler + str(number))) for number in range(300)), changes=True)
        writer.close()
        await server.say("SAVE")
        server.kill()
        with (server.folder / "redis.conf").open("a") as configuration:
            configuration.write("\nkey-load-delay 20000\nloading-process-events-interval-bytes 1024\n")
        server.restart()
        server.wait()
        await refused(server, "LOADING ")
        session = await server.session()
        with pytest.raises(DefiniteError):
            await session.read("a")
        await session.close()

    asyncio.run(main())


def test_a_connection_beyond_the_last_is_refused(serve: Serve) -> None:
    server = serve("maxclients 1")

    async def main() -> None:
        await asyncio.sleep(0.3)  # until the server has noticed that the probe of its port is gone
        one, other = await server.session(), await server.session()
        await one.write("a", 1)
        with pytest.raises(DefiniteError, match=r"max number of clients|closed the connection"):
            await other.write("refused", 1)
        await one.close()
        await asyncio.sleep(0.3)
        await is_not_there(server)

    asyncio.run(main())


def test_other_errors_leave_the_outcome_of_a_change_unknown_and_a_read_failed(serve: Serve) -> None:
    """A script may have changed something before its error; that is not told from an error before any change."""
    server = serve()

    async def main() -> None:
        await server.say("SET", "token:l", "no number")
        session = await server.session()
        with pytest.raises(IndefiniteError, match="not an integer"):
            await session.lock("l", 1)
        assert await server.say("EXISTS", "lock:l") == 1, "the first half of the script had its effect"
        await server.say("LPUSH", "register:list", "1")
        with pytest.raises(DefiniteError, match="WRONGTYPE"):
            await session.read("list")
        await session.close()

    asyncio.run(main())


def test_a_connection_that_breaks_after_a_change_was_sent_leaves_it_unknown_and_a_read_failed(serve: Serve) -> None:
    server = serve()

    async def main() -> None:
        writer, reader, idle = [await server.session() for _ in range(3)]
        server.pause()
        write, read = asyncio.ensure_future(writer.write("a", 1)), asyncio.ensure_future(reader.read("a"))
        await asyncio.sleep(0.2)
        server.kill()
        with pytest.raises(IndefiniteError, match="broke"):
            await write
        with pytest.raises(DefiniteError, match="broke"):
            await read
        with pytest.raises(DefiniteError, match="closed the connection"):
            await idle.write("a", 2)
        with pytest.raises(ConnectionRefusedError):
            await server.session()
        for each in (writer, reader, idle):
            await each.close()

    asyncio.run(main())


def test_a_connection_that_a_demotion_ended_sends_nothing(serve: Serve) -> None:
    """Sentinel ends all connections of clients when it makes a primary a replica."""
    server = serve()

    async def main() -> None:
        session = await server.session()
        await session.write("a", 1)
        await server.say("CLIENT", "KILL", "TYPE", "normal")
        with pytest.raises(DefiniteError, match="closed the connection"):
            await session.write("a", 2)
        assert await server.say("GET", "register:a") == b"1"

    asyncio.run(main())


def test_an_operation_that_was_given_up_ends_its_connection(serve: Serve) -> None:
    """What comes later on it would answer the next one."""
    server = serve()

    async def main() -> None:
        session = await server.session()
        server.pause()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await session.write("a", 1)
        server.resume()
        with pytest.raises(DefiniteError, match="closed the connection"):
            await session.read("a")

    asyncio.run(main())


@pytest.mark.parametrize("word", sorted(REFUSING))
def test_a_refusal_is_definite_for_changes_and_all_but_a_replica_s_is_no_standby_s(word: str) -> None:
    error = error_of(f"{word} because", changes=True)
    assert isinstance(error, DefiniteError)
    assert isinstance(error, StandbyError) == (word == "READONLY")
    assert isinstance(error_of(f"{word}LIKE because", changes=True), IndefiniteError)
