"""Triggers and transactions in the log: what the leader is asked for, snapshots, hash seeds, refs (KH-8, KH-13)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from splitbrain.cluster.dedup import Protected, Ref
from splitbrain.cluster.machine import AppendCommand, MachineEffect, WithEffects
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import (
    PATTERNS_COME,
    CountNodes,
    Functions,
    GetNodes,
    LookUp,
    Nodes,
    Procedure,
    Put,
    PutNodes,
    Refused,
    RegisterProjection,
    RegisterTrigger,
    Transact,
    Value,
    encode_command,
    parse_pattern,
    triggers,
)

FUNCTIONS = Functions()


@FUNCTIONS.register("count", version=1)
def count(tx: Any, data: Any, event: Any) -> Any:
    """Append the event's path to a list."""
    seen: Any = tx.value(tx.get("/log")) or []
    tx.put("/log", [*seen, [data, event["action"], event["path"]]])


@FUNCTIONS.register("move", version=1)
def move(tx: Any, data: Any) -> Any:
    """Move a value, or nothing at all."""
    value = tx.value(tx.get(data["from"]))
    tx.delete(data["from"])
    tx.put(data["to"], value)
    if data["aborts"]:
        tx.abort("as asked")
    return value


@FUNCTIONS.register("pass_on", version=1)
def pass_on(tx: Any, data: Any, event: Any) -> Any:
    """Count up at another path, which may trigger the next procedure."""
    tx.put(data, (tx.value(tx.get(data)) or 0) + 1)


@FUNCTIONS.register("pair", version=1)
def pair(path: Any, value: Any) -> Any:
    """A record."""
    return [path[-1], value]


class Log:
    """A store and its leader's queue."""

    def __init__(self) -> None:
        self.store = Store(functions=FUNCTIONS)
        self.asked: list[bytes] = []
        self.add(msgspec.msgpack.encode([PATTERNS_COME]), "noop")

    def add(self, data: bytes, kind: Any = "command") -> Any:
        result = self.store.apply(Entry(self.store.applied_index + 1, 1, kind, data))
        if isinstance(result, WithEffects):
            self.take(result.effects)
            return result.result
        return result

    def take(self, effects: Any) -> None:
        wanted: list[MachineEffect] = list(effects)
        self.asked.extend(effect.data for effect in wanted if isinstance(effect, AppendCommand))

    def do(self, command: Any) -> Any:
        return self.add(encode_command(command))

    def lead(self) -> None:
        while self.asked:
            self.add(self.asked.pop(0))

    def logged(self) -> Any:
        found = self.store.query(GetNodes(("log",)))
        assert isinstance(found, Nodes | Refused)
        payload = found.nodes[0].payload if isinstance(found, Nodes) else None
        return msgspec.msgpack.decode(payload) if isinstance(payload, bytes) else []


def triggering() -> Log:
    log = Log()
    for name in ("low", "high"):
        log.do(PutNodes(("procedures", name), Procedure("count", 1, msgspec.msgpack.encode(name))))
        priority = 1 if name == "high" else 0
        log.do(RegisterTrigger(name, parse_pattern("/watched/*"), ("procedures", name), priority=priority))
    return log


def test_kh_13_events_run_in_order_of_priority_and_then_of_commands() -> None:
    log = triggering()
    log.do(Put(("watched", "a"), b"\x01"))
    log.do(Put(("watched", "a"), b"\x02"))
    log.lead()
    assert [(name, action) for name, action, _ in log.logged()] == [
        ("high", "create"),
        ("low", "create"),
        ("high", "update"),
        ("low", "update"),
    ]
    assert log.store.tree.triggers.last is None


def passing_on(*steps: tuple[str, str]) -> Log:
    """Triggers that have a change of one path count up at another."""
    log = Log()
    for number, (watched, counted) in enumerate(steps):
        name = f"t{number}"
        procedure = Procedure("pass_on", 1, msgspec.msgpack.encode(counted))
        log.do(PutNodes(("procedures", name), procedure))
        log.do(RegisterTrigger(name, parse_pattern(watched), ("procedures", name)))
    return log


def value_at(log: Log, *path: str) -> Any:
    found = log.store.tree.properties(path)
    return None if found is None or not isinstance(found.payload, bytes) else msgspec.msgpack.decode(found.payload)


def test_kh_13_what_a_procedure_changes_triggers_the_next_one_also_from_a_snapshot() -> None:
    log = passing_on(("/watched/*", "/second/x"), ("/second/*", "/third/x"))
    log.do(RegisterProjection("thirds_v1", parse_pattern("/third/*"), "simple", ("pair", 1)))
    log.do(Put(("watched", "a"), b"\x01"))
    log.add(log.asked.pop(0))
    assert (value_at(log, "second", "x"), value_at(log, "third", "x")) == (1, None)
    log.asked.clear()  # the leader failed between the two
    log.store = Store.load(log.store.dump(), functions=FUNCTIONS)
    log.take(log.store.begin_leading())
    log.lead()
    assert (value_at(log, "second", "x"), value_at(log, "third", "x")) == (1, 1)
    assert log.store.tree.triggers.last is None
    while log.store.is_building:
        log.store.build()
    found = log.store.tree.look_up(LookUp("thirds_v1", None))
    assert isinstance(found, Value)
    assert msgspec.msgpack.decode(found.data) == [["x", 1]]


def test_kh_14_a_projection_follows_what_procedures_change() -> None:
    log = passing_on(("/watched/*", "/second/x"))
    log.do(RegisterProjection("seconds_v1", parse_pattern("/second/*"), "simple", ("pair", 1)))
    for number in range(3):
        log.do(Put(("watched", f"{number}"), b"\x01"))
        log.lead()
        found = log.store.tree.look_up(LookUp("seconds_v1", None))
        assert isinstance(found, Value)
        assert msgspec.msgpack.decode(found.data) == [["x", number + 1]]


@pytest.mark.parametrize("restarts", [False, True])
def test_kh_13_a_procedure_that_triggers_itself_ends(restarts: bool) -> None:
    """How far it is belongs to the event, and so to the state."""
    log = passing_on(("/watched/*", "/watched/x"))
    log.do(Put(("watched", "a"), b"\x01"))
    entries = 0
    while log.asked and entries < 100:
        log.add(log.asked.pop(0))
        entries += 1
        if restarts:
            log.asked.clear()
            log.store = Store.load(log.store.dump(), functions=FUNCTIONS)
            log.take(log.store.begin_leading())
    assert value_at(log, "watched", "x") == triggers.MAX_CHAIN + 1, "the change of a client, and eight of its own"
    assert entries == triggers.MAX_CHAIN + 1
    log.do(Put(("watched", "a"), b"\x02"))
    log.lead()
    assert value_at(log, "watched", "x") == 2 * (triggers.MAX_CHAIN + 1), "the next change begins anew"


def test_kh_13_a_new_leader_goes_on_with_what_was_not_acknowledged_also_from_a_snapshot() -> None:
    log = triggering()
    log.do(Put(("watched", "a"), b"\x01"))
    log.asked.clear()  # the leader failed
    before = log.store.state_hash
    log.store = Store.load(log.store.dump(), functions=FUNCTIONS)
    assert log.store.state_hash == before
    log.take(log.store.begin_leading())
    log.lead()
    assert len(log.logged()) == 2


def test_kh_13_an_entry_that_is_in_the_log_twice_runs_its_events_once() -> None:
    log = triggering()
    log.do(Put(("watched", "a"), b"\x01"))
    log.asked *= 2
    log.lead()
    assert len(log.logged()) == 2


def test_kh_13_what_waits_is_put_into_the_log_by_one_entry_at_a_time() -> None:
    log = triggering()
    for value in range(5):
        log.do(Put(("watched", "a"), bytes([value + 1])))
    assert len(log.asked) == 1
    log.lead()
    assert len(log.logged()) == 10


def test_kh_8_kh_9_a_transaction_with_a_ref_is_carried_out_once_and_an_abort_leaves_nothing() -> None:
    log = Log()
    log.do(Put(("a",), b"\x07"))
    before = log.store.tree.state_hash
    data = {"from": "/a", "to": "/b", "aborts": True}
    assert type(log.do(Transact("move", 1, msgspec.msgpack.encode(data)))).__name__ == "Aborted"
    assert log.store.tree.state_hash == before
    command = Protected(Ref("me", 1, 1), Transact("move", 1, msgspec.msgpack.encode(data | {"aborts": False})))
    first, second = log.do(command), log.do(command)
    assert first == second == Value(b"\x07")
    assert log.store.tree.properties(("b",)) is not None


def test_ra43_kh_9_before_version_3_no_result_of_a_command_with_patterns_is_kept() -> None:
    store = Store()
    before = store.state_hash
    store.apply(Entry(1, 1, "command", encode_command(Protected(Ref("me", 1, 1), PutNodes(("a",), b"x")))))
    assert store.state_hash == before


def test_kh_14_kh_15_a_projection_is_built_in_slices_and_unavailable_until_then() -> None:
    log = Log()
    for number in range(5_000):
        log.do(Put(("p", f"n{number}"), msgspec.msgpack.encode(number)))
    log.do(RegisterProjection("pairs_v1", parse_pattern("/p/*"), "simple", ("pair", 1)))
    key = msgspec.msgpack.encode("n7")
    tree = log.store.tree
    answer = tree.look_up(LookUp("pairs_v1", key))
    assert isinstance(answer, Refused)
    assert answer.reason == "unavailable"
    log.do(Put(("p", "n7"), msgspec.msgpack.encode("changed meanwhile")))
    log.do(Put(("p", "new"), msgspec.msgpack.encode("new")))
    while tree.projections.build(tree.state):
        pass
    assert tree.look_up(LookUp("pairs_v1", key)) == Value(msgspec.msgpack.encode([["n7", "changed meanwhile"]]))
    table = tree.projections.table("pairs_v1")
    assert table is not None
    assert len(table) == 5_001
    loaded = Store.load(log.store.dump(), functions=FUNCTIONS).tree
    while loaded.projections.build(loaded.state):
        pass
    assert loaded.projections.contents_hash() == tree.projections.contents_hash()
    assert tree.query(CountNodes(parse_pattern("/p/*"))) == Value(msgspec.msgpack.encode(5_001))


SCRIPT = """
import random
from tests.cluster.tree.test_triggers_in_the_log import triggering
from splitbrain.cluster.tree import DeleteNodes, IfNodeExists, KeepWhile, Put, PutNodes, parse_pattern
log, draw = triggering(), random.Random(5)
for _ in range(300):
    name, other = f"n{draw.randint(0, 9)}", f"n{draw.randint(0, 9)}"
    kept = (KeepWhile(("watched", other), IfNodeExists(True)),)
    log.do(draw.choice([
        Put(("watched", name), bytes([draw.randint(0, 3)])),
        PutNodes(("kept", name), b"x", keep_while=kept),
        DeleteNodes(parse_pattern("/watched/n*") if draw.random() < 0.1 else ("watched", name), many=True),
        PutNodes(parse_pattern("/kept/*"), b"y", many=True),
    ]))
    log.lead()
print(log.store.state_hash, log.store.chain_hash)
"""


def test_the_same_log_gives_the_same_hash_with_every_hash_seed() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "2")
    ]
    assert said[0].strip()
    assert said[0] == said[1] == said[2]
