"""Sessions with a real PostgreSQL: what they promise, and which failures are definite."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.postgresql import Postgresql, PostgresqlSession
from splitbrain.harness.systems.postgresql.connection import connect
from tests.systems.postgresql.conftest import Running

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def in_session(node: Running, check: Callable[[PostgresqlSession], Awaitable[None]]) -> None:
    async def whole() -> None:
        session = await node.session()
        try:
            await check(session)
        finally:
            await session.close()

    node.run(whole())


def test_a_register_is_read_written_compared_and_created(postgresql: Running) -> None:
    async def check(session: PostgresqlSession) -> None:
        assert (await session.read("r")).value is None
        assert (await session.compare_and_set("r", None, 1)).value is False
        assert (await session.create("r", {"a": [1, None]})).value is True
        assert (await session.create("r", 2)).value is False
        assert (await session.compare_and_set("r", 2, 3)).value is False
        assert (await session.compare_and_set("r", {"a": [1, None]}, 3)).value is True
        await session.write("r", 4)
        assert (await session.read("r")).value == 4

    in_session(postgresql, check)


def test_a_set_grows_and_takes_no_element_twice(postgresql: Running) -> None:
    async def check(session: PostgresqlSession) -> None:
        assert (await session.elements("s")).value == []
        for element in (10, 2):
            await session.add("s", element)
        assert (await session.elements("s")).value == [2, 10]
        with pytest.raises(DefiniteError, match="23505"):
            await session.add("s", 2)

    in_session(postgresql, check)


def test_objects_of_a_universe_are_changed_and_selected_by_predicates(postgresql: Running) -> None:
    async def check(session: PostgresqlSession) -> None:
        steps = [["insert", "a", 1], ["insert", "b", 2], ["w", "a", 4], ["delete", "b", None], ["insert", "c", 5]]
        reads = [["rp", "true", None], ["rp", ["=", 4], None], ["rp", ["mod", 2, 1], None], ["r", "b", None]]
        found = (await session.in_universe("u", [*steps, *reads])).value
        assert [value for *_, value in found[len(steps) :]] == [{"a": 4, "c": 5}, {"a": 4}, {"c": 5}, None]
        assert (await session.in_universe("v", [["rp", "true", None]])).value == [["rp", "true", {}]]
        with pytest.raises(DefiniteError, match="there is no step"):
            await session.in_universe("u", [["insert", "d", 1], ["x", "d", 1]])

    in_session(postgresql, check)


def test_a_counter_adds_up_and_a_lock_has_growing_tokens(postgresql: Running) -> None:
    async def check(session: PostgresqlSession) -> None:
        assert (await session.read_counter("c")).value is None
        assert [(await session.increment("c", by)).value for by in (2, -5)] == [2, -3]
        assert (await session.read_counter("c")).value == -3
        assert (await session.lock("l", 7)).value == 1
        assert (await session.lock("l", 8)).value is None
        assert (await session.unlock("l", 8)).value is False
        assert (await session.unlock("l", 7)).value is True
        assert (await session.lock("l", 8)).value == 2

    in_session(postgresql, check)


def test_a_transaction_reads_its_own_writes_and_leaves_nothing_when_it_is_aborted(postgresql: Running) -> None:
    async def check(session: PostgresqlSession) -> None:
        mops = [["r", "x", None], ["append", "x", 1], ["append", "x", 2], ["r", "x", None], ["w", "y", 5]]
        done = (await session.transact([*mops, ["r", "y", None]])).value
        assert [mop[2] for mop in done] == [None, 1, 2, [1, 2], 5, 5]
        with pytest.raises(DefiniteError, match="aborted by the client"):
            await session.update(["y"], lambda _: None)
        assert (await session.update(["y", "z"], lambda read: {"y": read["y"] + 1})).value == {"y": 5, "z": None}
        assert (await session.transact([["r", "y", None]])).value == [["r", "y", 6]]

    in_session(postgresql, check)


def test_a_deadlock_aborts_one_transaction_for_certain_and_the_other_commits(postgresql: Running) -> None:
    async def check(session: PostgresqlSession) -> None:
        for key in ("d1", "d2"):
            await session.transact([["w", key, 0]])
        operator = await connect(postgresql.deployment, "n1")
        await operator.execute("begin; update transaction_registers set value = '1' where key = 'd2'")
        ours = asyncio.ensure_future(session.transact([["w", "d1", 2], ["w", "d2", 2]]))
        async with asyncio.timeout(30):
            while await operator.fetchval("select count(*) from pg_locks where not granted") == 0:
                await asyncio.sleep(0.01)
        theirs = operator.execute("update transaction_registers set value = '1' where key = 'd1'; commit")
        outcomes = await asyncio.gather(ours, theirs, return_exceptions=True)
        [aborted] = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        assert isinstance(aborted, asyncpg.DeadlockDetectedError) or "40P01" in str(aborted)
        assert isinstance(aborted, (asyncpg.DeadlockDetectedError, DefiniteError))
        kept = "2" if aborted is outcomes[1] else "1"
        operator.terminate()
        reader = await postgresql.session()
        read = await reader.transact([["r", "d1", None], ["r", "d2", None]])
        assert [str(mop[2]) for mop in read.value] == [kept, kept]
        await reader.close()

    in_session(postgresql, check)


async def _a_commit_that_waits_for_a_standby(
    session: PostgresqlSession, operator: asyncpg.Connection[asyncpg.Record]
) -> tuple[asyncio.Future[Any], int, int]:
    """A commit under way, the value that it writes, and its backend's process.

    A reload reaches the server's processes one by one. A commit waits only after the checkpointer has read the
    setting, so commits that end before then are followed by others.
    """
    waiting = "select pid from pg_stat_activity where wait_event = 'SyncRep'"
    for value in itertools.count(1):
        commit = asyncio.ensure_future(session.transact([["w", "waits", value]]))
        while not commit.done():
            if (pid := await operator.fetchval(waiting)) is not None:
                return commit, value, pid
            await asyncio.sleep(0.01)
        await commit
    raise AssertionError


def test_a_commit_whose_connection_is_ended_is_indefinite_and_it_did_commit(postgresql: Running) -> None:
    """It waits for a standby that does not exist; then its backend is ended."""

    async def check(session: PostgresqlSession) -> None:
        operator = await connect(postgresql.deployment, "n1")
        await operator.execute("alter system set synchronous_standby_names = 'ghost'")
        await operator.execute("select pg_reload_conf()")
        try:
            async with asyncio.timeout(60):
                commit, value, pid = await _a_commit_that_waits_for_a_standby(session, operator)
            await operator.fetchval("select pg_terminate_backend($1)", pid)
            with pytest.raises(IndefiniteError):
                await commit
            kept = "select value::text from transaction_registers where key = 'waits'"
            assert await operator.fetchval(kept) == str(value)
        finally:
            await operator.execute("alter system reset synchronous_standby_names")
            await operator.execute("select pg_reload_conf()")
            operator.terminate()

    in_session(postgresql, check)


def test_a_node_that_is_killed_fails_idle_sessions_and_new_ones_definitely(postgresql: Running) -> None:
    async def check() -> None:
        session = await postgresql.session()
        await session.write("kept", 1)
        await postgresql.deployment.kill("n1")
        await asyncio.sleep(0.05)
        with pytest.raises(DefiniteError):
            await session.write("kept", 2)
        with pytest.raises(DefiniteError):
            await postgresql.session()
        assert await Postgresql().view(postgresql.deployment, "n1") is None
        await postgresql.deployment.start("n1")
        async with asyncio.timeout(60):
            while (view := await Postgresql().view(postgresql.deployment, "n1")) is None:
                await asyncio.sleep(0.05)
        assert (view.role, view.leader, view.term) == ("leader", "n1", 1)
        again = await postgresql.session()
        assert (await again.read("kept")).value == 1
        await again.close()

    postgresql.run(check())
