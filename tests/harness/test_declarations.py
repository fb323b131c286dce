"""What a system declares is checked when a test is made."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from own_system import Shop
from worlds import FakeClient, MemorySession, MemorySystem, make_test

from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.elections import Elections
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import COLLECTIONS, KEY_VALUE, LOCKS, OperationGroup
from splitbrain.harness.contract.sessions import Answer, Session
from splitbrain.harness.contract.test import Test, Workload
from splitbrain.results.errors import UnknownNameError, UsageError
from splitbrain.workloads import catalogue as workloads
from splitbrain.workloads.sessions import SessionClient


def made(system: Any, **workload: Any) -> Test:
    """A test of the system, whose workload has these fields."""
    test = make_test(FakeClient())
    return dataclasses.replace(test, system=system, workload=dataclasses.replace(test.workload, **workload))


def declaring(**fields: Any) -> MemorySystem:
    system = MemorySystem()
    system.capabilities = dataclasses.replace(system.capabilities, **fields)
    return system


def test_a_system_that_can_do_nothing_beyond_the_least_is_taken() -> None:
    assert made(Shop()).system.capabilities == Capabilities()


def test_a_field_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="imune"):
        Capabilities(imune={"kill": "it cannot die"})  # pyright: ignore[reportCallIssue]


def test_what_was_declared_stays() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Capabilities().image = "node"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("operations", {"key-value"}, "it must be a frozenset of names"),
        ("operations", frozenset({1}), "it must be a frozenset of names"),
        ("operations", frozenset({"key-vaule"}), "no group of operations 'key-vaule'. Did you mean 'key-value'?"),
        ("operations", frozenset({"no_such_module:THEIRS"}), "cannot be imported: No module named 'no_such_module'"),
        ("operations", frozenset({"own_system:SYSTEM"}), "not an OperationGroup"),
        ("read_modes", (), "it must be a tuple of one or more of linearizable, serializable"),
        ("read_modes", ("dirty",), "it must be a tuple of one or more of linearizable, serializable"),
        ("elections", 1.2, "it must be an Elections(...), or None"),
        ("membership", object(), "it must be None, or have begin, unsettled, settle, members, remove, add"),
        ("image", "", "it must be the name of an image, or None"),
        ("image", Path("node"), "it must be the name of an image, or None"),
        ("uploads", {"cluster": "cluster"}, "it must be a mapping from names to paths"),
        ("programs", ("etcd",), "it must be a mapping from programs to Debian's packages"),
        ("imports", "msgspec", "it must be a tuple of modules"),
        ("one_address", 1, "it must be true or false"),
        ("immune", {"killing": "it cannot die"}, "the kinds are cut, delay, loss"),
        ("immune", {"kill": None}, "it must be a mapping from kinds of fault to reasons"),
        ("settings", {"interval": 64}, "it must be a mapping from names to Setting(...)"),
        ("simulation", Shop(), "have embed"),
        ("observation", Shop(), "have observe"),
        ("count_marks", {"election won": 0}, "it must be None, or a function"),
    ],
)
def test_a_field_that_cannot_be_is_refused_with_the_system_the_field_and_the_fix(
    field: str, value: Any, problem: str
) -> None:
    with pytest.raises(UsageError, match=f"system 'memory'.* capabilities.{field}") as refused:
        made(declaring(**{field: value}))
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("timeout_s", -1, "is -1; it must be a number of seconds above 0"),
        ("timeout_s", math.inf, "is inf; it must be a number of seconds above 0"),
        ("recovery_s", -0.5, "is -0.5; it must be a number of seconds, 0 or more, or None"),
        ("recovery_per_outage", math.nan, "is nan; it must be a number, 0 or more"),
        ("outage_limit_s", "9", "is '9'; it must be a number of seconds, 0 or more"),
        ("lease_s", True, "is True; it must be a number of seconds, 0 or more"),
        ("local", "read", "is 'read'; it must be a frozenset of functions of ops"),
        ("group", None, "is None; it must be the name of a group, or an empty text"),
        ("scaled_by", {"tick": 0}, "is {'tick': 0}; it must be a mapping from names of settings to whole numbers"),
        ("local_where", ("store", 1, {"read"}), "it must be a tuple of (name of a setting, its value"),
        ("local_where", (("store", 1, "read"),), "it must be a tuple of (name of a setting, its value"),
        ("own_groups", ("queues",), "is ('queues',); it must be a mapping from operations to patterns"),
    ],
)
def test_what_no_election_can_be_is_refused_with_the_system_and_the_field(field: str, value: Any, problem: str) -> None:
    elections = msgspec.structs.replace(Elections(timeout_s=1.0), **{field: value})
    with pytest.raises(UsageError, match=rf"system 'memory': capabilities.elections.{field} is") as refused:
        made(declaring(elections=elections))
    assert problem in str(refused.value)


def test_every_field_of_elections_has_a_rule() -> None:
    from splitbrain.harness.contract import declarations

    assert list(vars(declarations)["_ELECTIONS"]) == list(Elections.__struct_fields__)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("fs", "read", "workload 'fake': fs is 'read'; it must be a tuple of functions of ops"),
        ("fs", ("read", ""), "fs is ('read', ''); it must be a tuple"),
        ("needs", "key-value", "needs is 'key-value'; it must be a frozenset"),
        ("local", "read", "local is 'read'; it must be a frozenset"),
        ("client", object(), "its client object has no open, no setup, no invoke, no close"),
        ("client", FakeClient, "its client is a class: give FakeClient()"),
    ],
)
def test_a_workload_that_cannot_work_is_refused_when_it_is_made(field: str, value: Any, problem: str) -> None:
    workload = make_test(FakeClient()).workload
    with pytest.raises(UsageError) as refused:
        dataclasses.replace(workload, **{field: value})
    assert problem.replace("'fake'", repr(workload.name)) in str(refused.value)


@pytest.mark.parametrize("method", ["open", "setup", "invoke", "close"])
def test_a_client_without_a_method_is_refused_before_a_run(method: str) -> None:
    client: Any = FakeClient()
    setattr(client, method, None)
    with pytest.raises(UsageError, match=rf"its client FakeClient has no {method}: a client has the methods"):
        make_test(client)


def test_every_field_has_a_rule() -> None:
    from splitbrain.harness.contract import declarations

    assert list(vars(declarations)["_FIELDS"]) == [field.name for field in dataclasses.fields(Capabilities)]


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"name": ""}, "name is ''; it must be the name as given to --system"),
        ({"bugs": None}, "system 'shop': bugs is None; it must be a mapping"),
        ({"election_timeout_s": True}, "system 'shop': election_timeout_s is True; it must be a number of seconds"),
        ({"election_timeout_s": 0}, "election_timeout_s is 0; it must be a number of seconds above 0"),
        ({"capabilities": {"image": "node"}}, "capabilities is {'image': 'node'}; it must be a Capabilities(...)"),
        ({"view": None}, "view is None; it must be a method"),
    ],
)
def test_a_member_that_cannot_be_is_refused(members: dict[str, Any], problem: str) -> None:
    system = Shop()
    vars(system).update(members)
    with pytest.raises(UsageError) as refused:
        made(system)
    assert problem in str(refused.value)


def test_a_member_that_is_missing_is_named() -> None:
    shop = Shop()
    there = {name: getattr(shop, name) for name in ("name", "bugs", "election_timeout_s", "command", "connect", "view")}
    with pytest.raises(UsageError, match=r"system 'shop' has no 'capabilities': add it, a Capabilities\(\.\.\.\)"):
        made(SimpleNamespace(**there))


# --- sessions and operations ------------------------------------------------------------------------------------------


class Registers(MemorySystem):
    """A system that says of which class its sessions are."""

    async def connect(self, deployment: Any, node: NodeId) -> MemorySession:
        return MemorySession(self)


def test_operations_that_sessions_do_not_have_are_refused() -> None:
    system = Registers()
    made(system)
    system.capabilities = Capabilities(operations=frozenset({"key-value", "locks"}))
    with pytest.raises(UsageError) as refused:
        made(system)
    assert "system 'memory': capabilities.operations has 'locks', but MemorySession" in str(refused.value)
    assert "lacks lock, unlock" in str(refused.value)


def test_a_workload_whose_needs_the_system_lacks_is_refused() -> None:
    made(MemorySystem(), needs=frozenset({KEY_VALUE.name, COLLECTIONS.name}))
    with pytest.raises(UsageError, match="workload 'w' needs the operations 'locks', which system 'memory' does not"):
        made(MemorySystem(), needs=frozenset({KEY_VALUE.name, LOCKS.name}))
    with pytest.raises(UsageError, match="workload 'w' needs the operations 'key-value', which system 'shop' does not"):
        made(Shop(), needs=frozenset({KEY_VALUE.name}))


def test_a_workload_that_needs_what_no_system_has_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"no group of operations 'lock'\. Did you mean 'locks'"):
        made(MemorySystem(), needs=frozenset({"lock"}))


class Graph(Session):
    """Operations of another package."""

    async def connected(self, one: str, other: str) -> Answer:
        """Whether there is a way."""
        return Answer(one == other)


GRAPHS = OperationGroup("test_declarations:GRAPHS", Graph)


def test_operations_of_another_package_are_named_by_where_they_are() -> None:
    own = frozenset({GRAPHS.name})
    made(declaring(operations=own), needs=own)
    with pytest.raises(UsageError, match="needs the operations 'test_declarations:GRAPHS'"):
        made(MemorySystem(), needs=own)
    system = Registers()
    system.capabilities = Capabilities(operations=own)
    with pytest.raises(UsageError, match="MemorySession, which connect returns, lacks connected"):
        made(system)


@pytest.mark.parametrize("name", workloads.WORKLOADS)
def test_every_workload_of_ours_declares_what_its_clients_need(name: str) -> None:
    workload: Workload = workloads.build(name, nodes=("n1",), concurrency=2)
    assert isinstance(workload.client, SessionClient)
    client: SessionClient[Any] = workload.client
    assert workload.needs == {client.operations.name}
