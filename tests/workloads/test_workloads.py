"""What workloads ask for: the ops, who shares a key, who reads where, and that a seed decides it all."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.checkers.registry import CHECKERS
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.test import NemesisPackage, System, Test, Workload
from splitbrain.harness.systems.etcd import Etcd
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.results.errors import UnknownNameError, UsageError
from splitbrain.results.history import Op, OpType
from splitbrain.results.values import canonical_json
from splitbrain.workloads.catalogue import WORKLOADS, able, build
from splitbrain.workloads.groups import threads_per_key
from splitbrain.workloads.transactions import TXN
from tests.workloads.support import FIVE, drive, invocations

NAMES = sorted(WORKLOADS)


def workload(name: str, concurrency: int = 10, nodes: tuple[str, ...] = FIVE) -> Workload:
    return build(name, nodes=nodes, concurrency=concurrency)


def by_key(ops: Iterable[Op]) -> dict[str, list[Op]]:
    found: dict[str, list[Op]] = {}
    for op in ops:
        found.setdefault(op.key or "", []).append(op)
    return found


def by_process(ops: Iterable[Op]) -> dict[int, list[Op]]:
    found: dict[int, list[Op]] = {}
    for op in ops:
        found.setdefault(op.process, []).append(op)
    return found


def test_an_unknown_workload_is_refused_with_the_known_names() -> None:
    with pytest.raises(UnknownNameError, match=r"'regster'. Did you mean 'register'\?"):
        workload("regster")


@pytest.mark.parametrize("name", NAMES)
def test_it_asks_for_exactly_the_functions_that_it_names_and_its_checkers_exist(name: str) -> None:
    found = workload(name)
    assert found.name == name
    asked = {op.f for op in invocations(drive(found.generator, apart_ns=20_000_000))}
    asked |= {"projections": {"compare"}, "queue": {"drain"}, "conversion": {"exhaust"}}.get(
        name, set()
    )  # at rest, at the end
    assert asked == set(found.fs)
    assert {spec.name for spec in found.checkers} <= set(CHECKERS)
    assert {"stats", "coverage"} <= {spec.name for spec in found.checkers}


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_ops_and_another_seed_others(name: str) -> None:
    def ops(seed: int) -> list[tuple[int, str, str | None, object]]:
        history = drive(workload(name).generator, seed=seed, ops_max=300)
        return [(op.process, op.f, op.key, op.value) for op in invocations(history)]

    assert ops(1) == ops(1) != ops(2)


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_can_be_used_again_from_its_beginning(name: str) -> None:
    found = workload(name)
    assert drive(found.generator, ops_max=300) == drive(found.generator, ops_max=300)


@pytest.mark.parametrize("name", NAMES)
def test_it_goes_on_without_end_when_nothing_is_ever_known(name: str) -> None:
    history = drive(workload(name).generator, ends=lambda op: "info", ops_max=800)
    assert len(invocations(history)) == 800


@pytest.mark.parametrize("name", NAMES)
def test_values_are_what_json_can_carry(name: str) -> None:
    for op in invocations(drive(workload(name).generator, ops_max=200)):
        canonical_json(op.value)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in NAMES
        if name
        not in (
            "lock",
            "lease-lock",
            "records",
            "topology",
            "projections",
            "queue",
            "poison",
            "single-active",
            "replicas",
            "stream",
            "short-stream",
            "conversion",
            "dead-letter",
            "migration",
        )
    ],
)
def test_final_ops_come_to_an_end_and_only_read(name: str) -> None:
    final = workload(name).final_generator
    assert final is not None
    ops = invocations(drive(final, apart_ns=50_000_000))
    assert 0 < len(ops) < 1000
    if workload(name).fs == (TXN,):
        assert {mop.f for op in ops for mop in op.mops or ()} == {"r"}
    elif name == "predicates":
        assert {step[0] for op in ops for step in op.value} <= {"r", "rp"}
    else:
        assert {op.f for op in ops} == {f for f in workload(name).fs if f.startswith(("read", "list", "ask"))}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["register", "declare", "create-once"])
def test_final_reads_are_of_keys_from_the_whole_run(name: str) -> None:
    found = build(name, nodes=FIVE, concurrency=10, rate=200.0, time_limit_s=60.0)
    assert found.final_generator is not None
    used = {int(op.key or "") for op in invocations(drive(found.generator, ops_max=12_000))}
    read = sorted(int(op.key or "") for op in invocations(drive(found.final_generator, apart_ns=1_000_000)))
    assert len(set(read)) == len(read) <= 300
    assert max(used) - 2 <= read[-1]
    assert all(later - earlier <= max(used) // 100 + 1 for earlier, later in zip([0, *read], read, strict=False))


def test_the_final_read_of_the_set_is_repeated_on_every_node_until_it_was_answered() -> None:
    final = workload("set").final_generator
    assert final is not None
    attempts = Counter[NodeId]()

    def third_time(op: Op) -> str:
        attempts[op.node or ""] += 1
        return "ok" if attempts[op.node or ""] > 4 else "info"

    history = drive(final, apart_ns=50_000_000, ends=third_time)  # pyright: ignore[reportArgumentType]
    assert {op.node for op in history if op.type == "info"} == set(FIVE)
    answered = {op.process % 10 for op in history if op.type == "invoke"}
    assert answered == set(range(10))


# --- keys, groups, readers ----------------------------------------------------------------------------------------


@given(concurrency=st.integers(1, 120), nodes=st.integers(1, 9))
def test_threads_are_divided_evenly_and_enough_of_them_share_a_key(concurrency: int, nodes: int) -> None:
    threads = threads_per_key(concurrency, nodes)
    assert concurrency % threads == 0
    assert threads >= min(concurrency, 2 * nodes, 5)


@pytest.mark.parametrize(("concurrency", "expected"), [(3, 3), (5, 5), (10, 10), (12, 12), (20, 10), (23, 23)])
def test_with_five_nodes_ten_threads_share_a_key_where_there_are_so_many(concurrency: int, expected: int) -> None:
    assert threads_per_key(concurrency, 5) == expected


@pytest.mark.parametrize("name", ["register", "declare"])
@pytest.mark.parametrize("concurrency", [10, 20])
def test_every_node_has_a_reader_of_its_own_and_writers_on_every_key(name: str, concurrency: int) -> None:
    history = drive(workload(name, concurrency).generator, concurrency=concurrency, ops_max=3000)
    reading = {op.process for op in invocations(history) if op.f == "read"}
    writing = {op.process for op in invocations(history) if op.f != "read"}
    readers = reading - writing
    assert {FIVE[process % 5] for process in readers} == set(FIVE)
    assert {FIVE[process % 5] for process in writing} == set(FIVE)
    assert len(readers) == concurrency // 2


def test_a_reader_keeps_reading_on_a_node_that_answers_no_write() -> None:
    def hangs(op: Op) -> int:
        return 10**12 if op.node == "n3" and op.f != "read" else 3_000_000

    history = drive(workload("register").generator, took_ns=hangs, ops_max=2000)
    on_n3 = [op for op in invocations(history) if op.node == "n3"]
    assert sum(op.f == "read" for op in on_n3) > 100
    assert sum(op.f != "read" for op in on_n3) == 1


def test_few_clients_all_read_and_write() -> None:
    history = drive(workload("register", 3).generator, concurrency=3)
    assert {(op.process, op.f) for op in invocations(history)} == {
        (process, f) for process in range(3) for f in ("read", "write", "cas")
    }


def test_registers_get_some_hundred_ops_a_key_with_few_values_on_every_node() -> None:
    ops = by_key(invocations(drive(workload("register").generator, ops_max=2000)))
    assert [len(found) for found in list(ops.values())[:-1]] == [200] * (len(ops) - 1)
    assert len(ops) == 10
    for found in list(ops.values())[:-1]:
        assert {op.node for op in found} == set(FIVE)
        assert {op.value for op in found if op.f == "write"} <= set(range(5))
        assert Counter(op.f == "read" for op in found)[True] in range(60, 141)


def test_two_groups_work_on_two_keys_at_a_time() -> None:
    ops = invocations(drive(workload("register", 20).generator, concurrency=20, ops_max=100))
    assert len(by_key(ops)) == 2
    groups = {key: {op.process // 10 for op in found} for key, found in by_key(ops).items()}
    assert sorted(map(len, groups.values())) == [1, 1]


def test_counters_get_some_hundred_ops_a_key_with_amounts_that_hardly_repeat() -> None:
    ops = invocations(drive(workload("counter").generator, ops_max=2000))
    added = [op.value for op in ops if op.f == "increment"]
    assert 0 < min(added) <= max(added) <= 1_000_000
    assert len(set(added)) > 0.99 * len(added)
    assert 500 < len(added) < 1000
    assert len(by_key(ops)) == 10


def test_elements_of_the_set_are_unique_and_one_op_in_a_hundred_reads() -> None:
    ops = invocations(drive(workload("set").generator, ops_max=4000))
    added = [op.value for op in ops if op.f == "add"]
    assert added == list(range(len(added)))
    assert 10 <= len(ops) - len(added) <= 90


def test_several_clients_on_different_nodes_race_for_every_key_with_ids_of_their_own() -> None:
    history = drive(workload("declare").generator, ops_max=900)
    for ops in list(by_key(invocations(history)).values())[:-1]:
        creations = [op for op in ops if op.f == "create"]
        assert len({op.value for op in creations}) == len(creations) == 10
        assert len({op.node for op in creations}) >= 3
        assert len(ops) == 30


def test_creations_of_one_key_overlap() -> None:
    history = drive(workload("declare").generator, ops_max=900, took_ns=lambda op: 5_000_000)
    most = Counter[str]()
    open_now = Counter[str]()
    for op in history:
        if op.f == "create" and op.key is not None:
            open_now[op.key] += 1 if op.type == "invoke" else -1
            most[op.key] = max(most[op.key], open_now[op.key])
    assert min(list(most.values())[:-1]) >= 2


# --- create-once --------------------------------------------------------------------------------------------------


def test_every_client_of_a_group_creates_each_key_once_under_its_own_number_and_then_reads_it() -> None:
    history = drive(workload("create-once").generator, ops_max=900)
    for ops in list(by_key(invocations(history)).values())[:-1]:
        clients = by_process(ops)
        assert sorted(clients) == list(range(10))
        for process, found in clients.items():
            assert [op.f for op in found] == ["create", "read"]
            assert found[0].value == process


def test_a_client_whose_reads_are_not_answered_goes_on_to_the_next_key() -> None:
    history = drive(workload("create-once").generator, ends=lambda op: "info" if op.node == "n3" else "ok")
    on_n3 = by_key(op for op in invocations(history) if op.node == "n3")
    assert len(on_n3) > 10
    for ops in list(on_n3.values())[:-1]:
        assert Counter(op.f for op in ops) == {"create": 2, "read": 4}  # two clients


# --- records ------------------------------------------------------------------------------------------------------


def test_every_record_is_written_once_and_never_read() -> None:
    found = workload("records")
    ops = invocations(drive(found.generator, ops_max=500))
    assert [op.value for op in ops] == list(range(len(ops)))
    assert {op.f for op in ops} == {"write"}
    assert found.final_generator is None


# --- locks --------------------------------------------------------------------------------------------------------


def test_only_a_client_that_has_the_lock_gives_it_back() -> None:
    held: dict[str, int] = {}

    def ends(op: Op) -> OpType:
        key = op.key or ""
        if op.f == "acquire":
            return "ok" if held.setdefault(key, op.process) == op.process else "fail"
        assert held.pop(key) == op.process
        return "ok"

    ops = invocations(drive(workload("lock").generator, ends=ends))
    assert 50 < len([op for op in ops if op.f == "release"]) < len(ops) / 2


def test_the_successor_of_a_client_that_crashed_begins_by_taking_the_lock() -> None:
    history = drive(workload("lock").generator, ends=lambda op: "info" if op.f == "release" else "ok")
    for process, ops in by_process(invocations(history)).items():
        assert ops[0].f == "acquire", process


def test_a_lock_is_shared_by_a_client_of_every_node() -> None:
    for ops in list(by_key(invocations(drive(workload("lock").generator))).values())[:-1]:
        assert {op.node for op in ops} == set(FIVE)
        assert len({op.process for op in ops}) == 5


def test_a_client_works_under_its_lock_for_seconds_and_then_gives_it_back() -> None:
    held: dict[str, int] = {}

    def ends(op: Op) -> OpType:
        key = op.key or ""
        if op.f == "acquire":
            return "ok" if held.setdefault(key, op.process) == op.process else "fail"
        assert (held.pop(key) if op.f == "release" else held[key]) == op.process
        return "ok"

    history = drive(workload("lease-lock").generator, ends=ends, apart_ns=10_000_000, ops_max=12_000)
    for (taken, given_back), holds in sections(history):
        assert 2 <= (given_back.time - taken.time) / 1e9 <= 21
        assert holds >= 10, "it looks again and again whether it still has the lock"


def test_a_client_that_hears_of_the_loss_of_its_lock_works_no_longer() -> None:
    def ends(op: Op) -> OpType:
        return "fail" if op.f == "acquire" and op.process != 1 else "ok"

    history = drive(workload("lease-lock").generator, ends=ends, results={"hold": False}, ops_max=600)
    by_one = [op.f for op in invocations(history) if op.process == 1]
    assert by_one == ["acquire", "hold"] * (len(by_one) // 2) + ["acquire"] * (len(by_one) % 2)
    assert len(by_one) > 10


def test_every_lock_on_a_lease_is_shared_by_clients_of_two_nodes() -> None:
    for ops in list(by_key(invocations(drive(workload("lease-lock").generator))).values())[:-1]:
        assert len({op.node for op in ops}) == len({op.process for op in ops}) == 2


def sections(history: Iterable[Op]) -> list[tuple[tuple[Op, Op], int]]:
    """The critical sections that ended: when the lock was taken and given back, and the holds in between."""
    taken: dict[int, Op] = {}
    holds = Counter[int]()
    found: list[tuple[tuple[Op, Op], int]] = []
    for op in history:
        if op.type == "ok" and op.f == "acquire":
            taken[op.process], holds[op.process] = op, 0
        elif op.type == "ok" and op.f == "hold":
            holds[op.process] += 1
        elif op.type == "invoke" and op.f == "release":
            found.append(((taken.pop(op.process), op), holds[op.process]))
    assert len(found) > 5
    return found


def test_locks_on_leases_are_for_systems_that_have_leases_only() -> None:
    assert "lease-lock" in able(Etcd().capabilities.operations)
    assert set(able(Metadata().capabilities.operations)) == set(WORKLOADS) - {"lease-lock", "formation"}
    nemesis = NemesisPackage(name="none", nemesis=None, generator=None, final_generator=None, faults=frozenset())
    with pytest.raises(UsageError, match="needs the operations 'lease-locks', which system 'metadata' does not have"):
        Test(name="t", seed=1, nodes=FIVE, system=Metadata(), workload=workload("lease-lock"), nemesis=nemesis)


def test_a_system_without_an_operation_that_a_workload_needs_is_refused_before_anything_starts() -> None:
    without_locks = Metadata()
    without_locks.capabilities = dataclasses.replace(without_locks.capabilities, operations=frozenset({"key-value"}))

    def composed(system: System) -> Test:
        return Test(name="t", seed=1, nodes=FIVE, system=system, workload=workload("lock"), nemesis=nemesis)

    nemesis = NemesisPackage(name="none", nemesis=None, generator=None, final_generator=None, faults=frozenset())
    composed(Metadata())
    with pytest.raises(UsageError, match="needs the operations 'locks', which system 'metadata' does not have"):
        composed(without_locks)
