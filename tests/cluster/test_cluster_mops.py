"""Transactions of micro-operations, and those that write if nothing changed since they read; each with its bugs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from splitbrain.cluster.bugs import Bugs
from splitbrain.cluster.commands import decode_value, encode_value
from splitbrain.cluster.registered import known
from splitbrain.cluster.registered.mops import mixed
from splitbrain.cluster.tree import NEWEST_VERSION, Aborted, Refused, Result, Transact, TransactRead, Tree, Value
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.metadata_session import MetadataSession
from tests.cluster.support import World, in_cluster


class Machine:
    """A tree with the functions of a node that has these bugs."""

    def __init__(self, *bugs: str) -> None:
        self.tree = Tree(version=3, functions=known((), Bugs(bugs)))

    def run(self, function: str, data: Any, *, writes: bool = True) -> Any:
        """What a function gives, or the refusal."""
        given = encode_value(data)
        answer: Result = (
            self.tree.execute(Transact(function, 1, given))
            if writes
            else self.tree.query(TransactRead(function, 1, given))
        )
        return decode_value(answer.data) if isinstance(answer, Value) else answer

    def holds(self, *paths: str) -> list[Any]:
        """The values at paths."""
        return [value for value, _ in self.run("versions", list(paths), writes=False)]


def test_micro_operations_take_place_in_order_in_one_transaction() -> None:
    machine = Machine()
    mops = [["r", "/a", None], ["append", "/a", 1], ["append", "/a", 2], ["r", "/a", None], ["w", "/b", 7]]
    assert machine.run("mops", mops) == [None, 1, 2, [1, 2], 7]
    assert machine.run("mops", [["r", "/b", None], ["r", "/a", None]], writes=False) == [7, [1, 2]]


@pytest.mark.parametrize("mop", [["w", "/a", 1], ["append", "/a", 1]])
def test_a_query_writes_nothing(mop: list[Any]) -> None:
    machine = Machine()
    assert isinstance(machine.run("mops", [mop], writes=False), Refused)
    assert machine.holds("/a") == [None]


def test_an_unknown_micro_operation_aborts_and_takes_everything_back() -> None:
    machine = Machine()
    assert isinstance(machine.run("mops", [["w", "/a", 1], ["x", "/a", 2]]), Aborted)
    assert machine.holds("/a") == [None]


def test_a_write_under_a_condition_takes_place_if_every_version_is_the_same() -> None:
    machine = Machine()
    assert machine.run("versions", ["/a", "/b"], writes=False) == [[None, 0], [None, 0]]
    assert machine.run("conditional", [["/a", 0, True, 1], ["/b", 0, False, None], ["/c", None, True, 3]]) is True
    assert machine.holds("/a", "/b", "/c") == [1, None, 3]
    assert machine.run("conditional", [["/a", 1, True, 2]]) is True
    assert machine.run("versions", ["/a"], writes=False) == [[2, 2]]


CONFLICT = [["/a", 1, True, 2], ["/b", 0, True, 2]]
"""/b was written after its version was read; /a stands before it."""


def conflicting(*bugs: str) -> tuple[Any, list[Any]]:
    """What a transaction with a conflict in its second key comes to, and what is there afterwards."""
    machine = Machine(*bugs)
    machine.run("mops", [["w", "/a", 1], ["w", "/b", 1]])
    found = machine.run("conditional", CONFLICT)
    return found, machine.holds("/a", "/b")


def test_a_conflict_aborts_and_leaves_nothing() -> None:
    found, held = conflicting()
    assert isinstance(found, Aborted)
    assert held == [1, 1]


@pytest.mark.parametrize(
    ("bug", "is_acknowledged", "left"),
    [
        ("M34", False, [2, 1]),
        ("M90", True, [2, 2]),
        ("M91", True, [2, 2]),
        ("M93", False, [2, 1]),
        ("M94", True, [1, 1]),
    ],
)
def test_with_a_bug_a_conflict_is_not_seen_or_leaves_something_or_is_acknowledged(
    bug: str, is_acknowledged: bool, left: list[int]
) -> None:
    found, held = conflicting(bug)
    assert (found is True, held) == (is_acknowledged, left)


def test_a_partial_abort_takes_back_new_nodes_and_m34_does_not() -> None:
    for bug, left in (("M93", [None, 1]), ("M34", [2, 1])):
        machine = Machine(bug)
        machine.run("mops", [["w", "/b", 1]])
        machine.run("conditional", [["/a", 0, True, 2], ["/b", 0, True, 2]])
        assert machine.holds("/a", "/b") == left


def test_half_of_the_keys_are_compared() -> None:
    machine = Machine("M91")
    machine.run("mops", [["w", "/a", 1]])
    assert isinstance(machine.run("conditional", [["/a", 0, True, 2], ["/b", 0, True, 2]]), Aborted)


def test_reads_of_two_replicas_are_the_first_of_one_and_the_rest_of_the_other() -> None:
    leader, here = Value(encode_value([1, 2, [3]])), Value(encode_value([None, 7, []]))
    assert decode_value(mixed(leader, [here]).data) == [1, 7, []]
    refused = Refused("unknown_function")
    assert mixed(leader, []) is mixed(leader, [refused]) is leader
    assert mixed(refused, [here]) is refused


@pytest.mark.parametrize(("bugs", "read"), [((), [1, 1]), (("M97",), [1, None])])
def test_with_m95_a_client_of_a_replica_that_lags_reads_the_first_key_alone_at_the_leader(
    bugs: tuple[str, ...], read: list[Any]
) -> None:
    found: list[Any] = []

    async def whole(world: World) -> None:
        leader = await world.leader()
        await world.in_force(NEWEST_VERSION)
        writer, reader = [await world.client(node) for node in (leader, *sorted(set(world.names) - {leader}))][:2]
        await MetadataSession(writer, 1500).transact([["w", "a", 1], ["w", "b", 1]])
        answer = await MetadataSession(reader, 1500).transact([["r", "a", None], ["r", "b", None]])
        found.extend(value for _, _, value in answer.value)

    in_cluster(World(["n1", "n2", "n3"], bugs=Bugs(bugs)), whole)
    assert found == read


# --- sessions -------------------------------------------------------------------------------------------------------


def in_sessions(check: Callable[[MetadataSession, MetadataSession], Awaitable[None]]) -> None:
    """Two sessions with one node, in a cluster of one."""

    async def whole(world: World) -> None:
        await world.leader()
        await world.in_force(NEWEST_VERSION)
        first, second = [await world.client("n1") for _ in range(2)]
        await check(MetadataSession(first, 1500), MetadataSession(second, 1500))

    in_cluster(World(["n1"]), whole)


def test_after_a_conflict_a_session_reads_and_computes_again() -> None:
    async def check(first: MetadataSession, second: MetadataSession) -> None:
        seen: list[Any] = []

        def change(read: Mapping[str, Any]) -> Mapping[str, Any]:
            seen.append(dict(read))
            return {"a": (read["a"] or 0) + 1}

        async def race(session: MetadataSession) -> None:
            await session.update(["a", "b"], change)

        await asyncio.gather(race(first), race(second))
        assert [each["a"] for each in seen] == [None, None, 1]
        done = await first.transact([["r", "a", None], ["append", "l", 5], ["r", "l", None]])
        assert done.value == [["r", "a", 2], ["append", "l", 5], ["r", "l", [5]]]

    in_sessions(check)


def test_an_update_that_aborts_or_writes_nothing_changes_nothing() -> None:
    async def check(first: MetadataSession, _: MetadataSession) -> None:
        with pytest.raises(DefiniteError, match="aborted"):
            await first.update(["a"], lambda read: None)
        assert (await first.update(["a"], lambda read: {})).value == {"a": None}

    in_sessions(check)


# --- objects --------------------------------------------------------------------------------------------------------


def test_objects_are_written_and_read_by_key_and_by_predicate_in_order() -> None:
    machine = Machine()
    steps = [["insert", "a", 1], ["insert", "b", 2], ["rp", "true", None], ["w", "a", 4], ["delete", "b", None]]
    assert machine.run("objects", ["/objects/u", steps]) == [1, 2, {"a": 1, "b": 2}, 4, None]
    reads = [["rp", ["=", 4], None], ["rp", ["mod", 2, 1], None], ["r", "a", None], ["r", "b", None]]
    assert machine.run("objects", ["/objects/u", reads], writes=False) == [{"a": 4}, {}, 4, None]
    assert machine.run("objects", ["/objects/v", reads[:1]], writes=False) == [{}]


def test_a_query_changes_no_object_and_an_unknown_step_takes_everything_back() -> None:
    machine = Machine()
    assert isinstance(machine.run("objects", ["/objects/u", [["insert", "a", 1]]], writes=False), Refused)
    assert isinstance(machine.run("objects", ["/objects/u", [["insert", "a", 1], ["x", "a", 1]]]), Aborted)
    assert machine.run("objects", ["/objects/u", [["rp", "true", None]]], writes=False) == [{}]


def test_a_session_carries_out_steps_in_a_universe() -> None:
    async def check(first: MetadataSession, second: MetadataSession) -> None:
        await first.in_universe("u", [["insert", "a", 1], ["insert", "b", 3]])
        found = await second.in_universe("u", [["rp", ["mod", 2, 1], None], ["r", "c", None]])
        assert found.value == [["rp", ["mod", 2, 1], {"a": 1, "b": 3}], ["r", "c", None]]

    in_sessions(check)
