"""The workload `counter` where the system has triggers: it asks for what they did, and finds what is broken."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.triggers import STILL_S
from splitbrain.checkers.verdict import Outcome
from splitbrain.cluster.tree import NEWEST_VERSION
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.harness.systems.metadata_session import MetadataSession
from splitbrain.workloads.catalogue import build
from splitbrain.workloads.counter import REST_S, CounterClient, TriggersClient
from tests.cluster.support import World, in_cluster
from tests.workloads.support import drive, invocations

OPTIONS: dict[str, Any] = {
    "workload": "counter",
    "nemesis": "none",
    "system": "metadata",
    "backend": "sim",
    "bug": "",
    "nodes": "3",
    "concurrency": "4n",
    "rate": 100.0,
    "time_limit": 8.0,
    "interval": None,
    "op_timeout": 2.0,
    "recovery": 10.0,
    "seed": 1,
}


def outcome_of(**given: Any) -> tuple[Outcome, Any]:
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    left = simulate(test)
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    (found,) = [verdict for verdict in verdicts if verdict.checker == "triggers"]
    return engine.judged_outcome(verdicts, None)[0], found


def test_it_asks_for_triggers_only_where_the_system_has_them() -> None:
    load: dict[str, Any] = {"nodes": ("n1", "n2", "n3"), "concurrency": 6}
    plain, grown = build("counter", **load), build("counter", operations=Metadata().capabilities.operations, **load)
    assert isinstance(plain.client, CounterClient)
    assert plain.fs == ("increment", "read")
    assert isinstance(grown.client, TriggersClient)
    assert grown.needs == {"counters", "triggers"}
    assert "triggers" in [spec.name for spec in grown.checkers]


def test_it_reads_what_was_triggered_now_and_then_and_of_each_counter_at_the_end_at_rest() -> None:
    grown = build("counter", nodes=("n1", "n2", "n3"), concurrency=6, rate=100.0, time_limit_s=30.0,
                  operations=("counters", "triggers"))  # fmt: skip
    during = [op for op in invocations(drive(grown.generator, ops_max=1000)) if op.f == "read-runs"]
    assert 20 < len(during) < 120
    assert not any(op.value for op in during)
    assert grown.final_generator is not None
    final = [op for op in invocations(drive(grown.final_generator, ops_max=5000)) if op.f == "read-runs"]
    assert sorted(int(op.key or "") for op in final) == sorted([*range(15), *range(15)])
    assert all(op.value for op in final)
    assert REST_S >= STILL_S + 2


def test_kh_13_a_session_shows_each_change_and_both_procedures_in_order_of_their_priorities() -> None:
    async def check(world: World) -> None:
        await world.in_force(NEWEST_VERSION)
        one, other = [MetadataSession(await world.client(node), 5000) for node in ("n1", "n2")]
        for session in (one, other, one):
            await session.prepare_triggers()
        for by in (5, 7):
            await other.increment("k/1", by)
        found = (await one.read_runs("k/1", True)).value
        assert found["changes"] == 2
        assert [trigger for _, trigger, _ in found["runs"]] == ["first", "second", "first", "second"]
        numbers = [number for number, _, _ in found["runs"]]
        assert numbers == sorted(set(numbers))
        assert (await one.read_runs("another", True)).value == {"changes": 0, "runs": []}

    in_cluster(World(["n1", "n2", "n3"]), check)


def test_a_session_that_cannot_learn_whether_there_are_triggers_says_that_nothing_was_done() -> None:
    async def check(world: World) -> None:
        session = MetadataSession(await world.client("n1"), 200)
        with pytest.raises(DefiniteError):
            await session.prepare_triggers()

    world = World(["n1", "n2", "n3"])
    world.machine_versions = dict.fromkeys(world.names, 1)
    in_cluster(world, check)


@pytest.mark.slow
def test_kh_13_with_faults_and_without_a_bug_it_passes_and_something_was_triggered() -> None:
    outcome, found = outcome_of(nemesis="kill-leader,partition-leader", interval=1.0, time_limit=12.0)
    assert (outcome, found.valid) == (Outcome.PASS, "true")
    assert found.figures["events"] == 2 * found.figures["changes"] > 0


@pytest.mark.slow
def test_m95_what_a_new_leader_takes_for_done_is_lost() -> None:
    outcome, found = outcome_of(
        bug="M95", nemesis="kill-leader,partition-leader", interval=1.0, time_limit=20.0, seed=2
    )
    assert (outcome, found.anomalies) == (Outcome.VIOLATION, ("lost",))


@pytest.mark.slow
def test_m96_procedures_in_the_wrong_order_of_priorities_are_found() -> None:
    outcome, found = outcome_of(bug="M96")
    assert outcome is Outcome.VIOLATION
    assert "priority" in found.anomalies
