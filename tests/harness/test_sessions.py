"""Sessions by their operations: a client gets what it needs, or an error that names it."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from virtual import VirtualClock
from worlds import FakeClient, MemoryDeployment, MemorySession, MemorySystem, make_test

from splitbrain.harness import validate
from splitbrain.harness.contract.operations import GROUPS, KEY_VALUE, LEASE_LOCKS, LOCKS, calls, need
from splitbrain.harness.contract.sessions import Answer, NonsenseError
from splitbrain.harness.running.recovery import PROBE_KEY, until_usable
from splitbrain.results.errors import ProtocolError


class Bare:
    """A session without operations."""

    closed = False

    async def close(self) -> None:
        self.closed = True


class Locking(Bare):
    """A session that has locks only."""

    async def lock(self, name: str, owner: int) -> Answer:
        return Answer(1)

    async def unlock(self, name: str, owner: int) -> Answer:
        return Answer("yes")


class SystemOf(MemorySystem):
    """A system with this session, and these operations."""

    def __init__(self, session: Any, *operations: str) -> None:
        super().__init__()
        self.session = session
        self.capabilities = dataclasses.replace(self.capabilities, operations=frozenset(operations))

    async def connect(self, deployment: Any, node: str) -> Any:
        return self.session


def test_each_group_has_its_own_calls() -> None:
    assert {name: list(calls(group.protocol)) for name, group in GROUPS.items()} == {
        "creations": ["create", "read"],
        "key-value": ["compare_and_set", "create", "read", "write"],
        "read-modes": ["compare_and_set", "create", "read", "read_as", "write"],
        "fenced-reads": ["compare_and_set", "create", "read", "read_as", "write"],
        "collections": ["add", "elements"],
        "counters": ["increment", "read_counter"],
        "triggers": ["increment", "prepare_triggers", "read_counter", "read_runs"],
        "trees": ["in_tree"],
        "projections": ["come_and_go", "differing_records", "look_up", "write_record"],
        "locks": ["lock", "unlock"],
        "lease-locks": ["lease_holds", "lease_lock", "lease_unlock"],
        "transactions": ["transact", "update"],
        "predicates": ["in_universe"],
        "topology": ["claim", "declare", "delete", "disconnect", "entities", "prepare_topology", "projected"],
        "owned-queues": [
            *("claim", "declare", "delete", "disconnect", "entities", "owned", "prepare_topology", "projected"),
        ],
        "migration": [
            *("claim", "declare", "declare_with_value", "delete", "disconnect", "entities", "entities_with_values"),
            *("migrate", "prepare_topology", "projected", "roll_back"),
        ],
        "queues": ["ack", "declare_queue", "publish", "purge", "reject", "take"],
        "limited-queues": ["ack", "declare_limited", "declare_queue", "publish", "purge", "reject", "take"],
        "maintained-replicas": [
            *("ack", "declare_maintained", "declare_queue", "drain", "grow", "publish", "purge", "reject", "replicas"),
            *("revive", "shrink", "take"),
        ],
        "expiring-queues": [
            *("ack", "declare_expiring", "declare_limited", "declare_queue", "publish", "purge", "reject", "take"),
        ],
        "formation": ["formed"],
        "feature-flags": ["enable_flag", "list_flags"],
        "single-active": [
            *("ack", "consume", "declare_queue", "declare_single_active", "leave"),
            *("publish", "purge", "reject", "take"),
        ],
        "classic-queues": ["convert_classic", "declare_classic", "put_classic", "settle_classic", "take_classic"],
        "streams": ["declare_stream", "publish_to_stream", "read_stream"],
        "short-streams": [
            *("declare_short_stream", "declare_stream", "publish_once", "publish_to_stream", "read_stream"),
        ],
    }
    assert calls(LEASE_LOCKS.protocol) == {"lease_holds": False, "lease_lock": True, "lease_unlock": True}


def test_a_session_that_has_what_is_needed_is_handed_on_as_it_is() -> None:
    session = MemorySession(MemorySystem())
    assert need(session, KEY_VALUE, "memory") is session


def test_one_that_has_not_is_an_error_that_names_the_system_the_operations_and_the_calls() -> None:
    with pytest.raises(ProtocolError) as refused:
        need(MemorySession(MemorySystem()), LOCKS, "memory")
    assert "system 'memory': its sessions lack lock, unlock of the operations 'locks'" in str(refused.value)


def test_a_session_without_what_its_system_declares_is_refused_when_it_is_opened() -> None:
    async def opened(*operations: str) -> Any:
        return await validate.system(SystemOf(session, *operations)).connect(MemoryDeployment(), "n1")

    session = Locking()
    asyncio.run(opened("locks"))
    assert not session.closed
    with pytest.raises(ProtocolError, match="lack compare_and_set, create, read, write of the operations 'key-value'"):
        asyncio.run(opened("locks", "key-value"))
    assert session.closed


def test_a_validated_session_has_the_calls_of_its_own_and_no_others() -> None:
    async def check() -> None:
        session = await validate.system(SystemOf(Locking(), "locks")).connect(MemoryDeployment(), "n1")
        locks = need(session, LOCKS, "memory")
        assert await locks.lock("a", 1) == await locks.lock("a", owner=1) == Answer(1)
        wanted = "nonsense answer: unlock was answered with 'yes'; expected was whether it did so"
        with pytest.raises(NonsenseError, match=wanted):
            await locks.unlock("a", 1)
        with pytest.raises(ProtocolError, match="lack compare_and_set"):
            need(session, KEY_VALUE, "memory")

    asyncio.run(check())


def test_a_run_ends_at_once_where_sessions_are_not_what_the_system_declares() -> None:
    system = validate.system(SystemOf(Locking(), "key-value"))
    test = dataclasses.replace(make_test(FakeClient()), system=system)
    with pytest.raises(ProtocolError, match="of the operations 'key-value'"):
        asyncio.run(until_usable(test, MemoryDeployment(), VirtualClock(), 1.0))


class Own(Bare):
    """A session with a call of another package's group, which is named like one of ours."""

    async def read(self, place: int) -> int:
        return place


def test_calls_of_other_packages_may_answer_what_they_like() -> None:
    async def check() -> int:
        session: Any = await validate.system(SystemOf(Own())).connect(MemoryDeployment(), "n1")
        return await session.read(7)

    assert asyncio.run(check()) == 7


class Noted(Bare):
    """A session that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Answer:
            self.asked.append(f"{name} {' '.join(map(str, arguments))}")
            return Answer([])

        return call


@pytest.mark.parametrize(
    ("operations", "asked"),
    [
        (("key-value", "collections"), f"read {PROBE_KEY}"),
        (("collections", "locks"), f"elements {PROBE_KEY}"),
        (("locks",), None),
    ],
)
def test_a_system_is_usable_if_a_session_answers_what_it_can_be_asked(
    operations: tuple[str, ...], asked: str | None
) -> None:
    session = Noted()
    test = dataclasses.replace(make_test(FakeClient()), system=SystemOf(session, *operations))
    usable = asyncio.run(until_usable(test, MemoryDeployment(), VirtualClock(), 1.0))
    assert usable.problems == {}
    assert session.asked == ([] if asked is None else [asked] * 3)
