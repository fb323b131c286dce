"""The workload `read-modes`: each mode of reading is judged by its own promise, and staleness beyond that is found."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Verdict
from splitbrain.harness.contract.read_modes import READ, READ_AFTER, READ_FENCED, READ_LEADER, READ_LOCAL, ReadPromise
from splitbrain.harness.contract.sessions import Answer
from splitbrain.harness.systems.etcd.system import READS as ETCD
from splitbrain.harness.systems.metadata_reads import READS
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.workloads.read_modes import KEYS, ReadModesClient, read_modes
from tests.checkers.support import Script
from tests.workloads.support import FIVE, MemorySession, Store, do, drive, invocations, opened

JUDGES: Final = ("linearizable", "leader-reads", "session")

METADATA = {f: promise for f, promise in READS.items() if f != READ_FENCED}
"""Those of the workload `read-modes`; `fenced-reads` has the other one."""


class Replicas:
    """A log of writes, and how far each node has applied it: the leader all of it, the others what they have heard."""

    def __init__(self, seed: int, broken: str) -> None:
        self.draw = random.Random(seed)
        self.broken = broken
        self.log: list[tuple[str, int]] = []
        self.applied: dict[str, int] = dict.fromkeys(FIVE, 0)
        self.written: dict[int, int] = {}

    def catches_up(self) -> None:
        """Now and then some node applies some more."""
        if self.draw.random() < 0.8:
            return
        node = self.draw.choice(FIVE)
        self.applied[node] = self.draw.randint(self.applied[node], len(self.log))

    def holds(self, key: str, applied: int) -> int | None:
        return next((value for name, value in reversed(self.log[:applied]) if name == key), None)

    def does(self, process: int, node: str, f: str, key: str, value: int | None) -> int | None:
        """What one op answers."""
        stale = self.broken == f and self.draw.random() < 0.2
        if f == "write":
            assert value is not None
            self.log.append((key, value))
            self.written[process] = len(self.log)
            return value
        if f in (READ, READ_LEADER):
            return self.holds(key, self.applied[node] if stale else len(self.log))
        if f == READ_AFTER and not stale:
            self.applied[node] = max(self.applied[node], self.written.get(process, 0))
        if f == READ_LOCAL and stale:
            self.applied[node] = self.draw.randint(0, self.applied[node])
        return self.holds(key, self.applied[node])


def verdicts(seed: int, broken: str = "", reads: Mapping[str, ReadPromise] = METADATA) -> dict[str, Verdict]:
    """The verdicts on what the workload's clients see of replicas, one mode of which may be broken."""
    found = read_modes(nodes=FIVE, concurrency=10, reads=reads)
    replicas, script = Replicas(seed, broken), Script()
    under_way: dict[int, Any] = {}
    for op in drive(found.generator, seed=seed, ops_max=400):
        replicas.catches_up()
        answer = op.value
        if op.type == "invoke":
            under_way[op.process] = op.value
        else:
            value = under_way.pop(op.process)
            answer = replicas.does(op.process, op.node or "", op.f, op.key or "", value)
        term = None if op.type == "invoke" else 1
        script.event(op.process, op.type, op.f, answer, key=op.key, node=op.node, term=term)
    specs = [spec for spec in found.checkers if spec.name in JUDGES]
    return {verdict.checker: verdict for verdict in engine.judge(to_table(script.ops), specs, weaker=False)}


@pytest.mark.parametrize("seed", range(12))
def test_replicas_that_keep_every_promise_are_never_accused(seed: int) -> None:
    found = verdicts(seed)
    assert {name: verdict.valid for name, verdict in found.items()} == dict.fromkeys(JUDGES, "true")
    assert found["session"].figures["compared"] > 100


@pytest.mark.parametrize(
    ("mode", "judge"),
    [(READ, "linearizable"), (READ_LEADER, "leader-reads"), (READ_LOCAL, "session"), (READ_AFTER, "session")],
)
def test_staleness_that_a_mode_does_not_allow_is_found_by_its_judge(mode: str, judge: str) -> None:
    found = [verdicts(seed, mode) for seed in range(6)]
    assert [each[judge].valid for each in found].count("false") >= 5
    if mode != READ:  # the other reads are judged together with those
        assert {each["linearizable"].valid for each in found} == {"true"}


def test_what_is_broken_names_the_guarantee() -> None:
    assert "monotonic-reads" in verdicts(1, READ_LOCAL)["session"].anomalies
    assert "read-your-writes" in verdicts(1, READ_AFTER)["session"].anomalies


def test_local_reads_of_etcd_follow_writes_and_those_of_the_metadata_cluster_do_not() -> None:
    reads = {f: ETCD[f] for f in ETCD}
    found = [verdicts(seed, reads=reads)["session"] for seed in range(3)]
    assert {verdict.valid for verdict in found} == {"false"}, "here a node answers writes before it applied them"
    assert all("read-your-writes" in verdict.anomalies for verdict in found)


@pytest.mark.parametrize("reads", [METADATA, ETCD])
def test_clients_use_every_mode_of_the_system_and_no_other_on_few_keys(reads: Mapping[str, ReadPromise]) -> None:
    found = read_modes(nodes=FIVE, concurrency=10, reads=reads)
    ops = invocations(drive(found.generator, ops_max=1500))
    assert set(found.fs) == {"write", *reads} == {op.f for op in ops}
    assert {op.key for op in ops} == {str(key) for key in range(KEYS)}
    values = [op.value for op in ops if op.f == "write"]
    assert values == list(range(1, len(values) + 1))


def test_on_every_node_a_client_only_reads_and_mostly_what_that_node_answers_alone() -> None:
    found = read_modes(nodes=FIVE, concurrency=10, reads=METADATA)
    by_process: dict[int, Counter[str]] = {}
    for op in invocations(drive(found.generator, ops_max=2000)):
        by_process.setdefault(op.process, Counter())[op.f] += 1
    readers = [process for process, fs in by_process.items() if "write" not in fs]
    assert {FIVE[process % 5] for process in readers} == set(FIVE)
    assert len(readers) == 5
    for process in readers:
        asked = by_process[process]
        assert set(asked) == set(METADATA)
        assert 0.5 < (asked[READ_LOCAL] + asked[READ_AFTER]) / asked.total() < 0.85


def test_a_system_without_such_reads_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a system whose sessions read in several modes"):
        read_modes(nodes=FIVE, concurrency=10, reads={})


class ModesSession(MemorySession):
    """Says of each read how it was asked for."""

    asked: list[tuple[str, str]]

    async def read_as(self, key: str, f: str) -> Answer:
        self.asked.append((key, f))
        return await self.read(key)


class ModesStore(Store):
    async def connect(self, deployment: Any, node: str) -> ModesSession:
        session = ModesSession(self, node)
        session.asked = self.closed  # pyright: ignore[reportAttributeAccessIssue]
        return session


def test_the_client_asks_for_the_mode_that_the_op_names() -> None:
    store = ModesStore({"a": 3})
    client = opened(ReadModesClient(), store)
    for f in METADATA:
        assert do(client, store, f, key="a").value == 3
    assert store.closed == [("a", f) for f in METADATA]
    assert do(client, store, "write", 4, key="a").type == "ok"
