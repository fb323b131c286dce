"""The end of a simulated run: replicas meet and have told so before nodes are stopped, or Q7 says who did not."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from splitbrain.checkers.quorum import QuorumProgress
from splitbrain.cluster.groupstore import GroupStore
from splitbrain.cluster.raft.effects import Apply
from splitbrain.results.arrow import from_table, to_table
from splitbrain.results.faults import run_events
from splitbrain.results.history import HARNESS, Op
from tests.simulation.scripted import Fault, Judged, judged, run

SCRIPT = (Fault(2.0, "start-partition", '{"shape": "isolate-leader"}'), Fault(8.0, "stop-partition"))


def quiet_s(history: pa.Table) -> float:
    """How long the quiet phase was."""
    (phase,) = [phase for phase in run_events(history).phases if phase.name == "quiet"]
    return (phase.end_ns - phase.begin_ns) / 1e9


def without_quiet(history: pa.Table) -> pa.Table:
    """The history as it was before there was such a phase."""
    ops = [op for op in from_table(history) if op.f not in ("converged", "ended") and op.value != {"phase": "quiet"}]
    return to_table([msgspec.structs.replace(op, index=index) for index, op in enumerate(ops)])


def judge(run: Judged, history: pa.Table) -> str:
    """How Q7 fares with another history."""
    return QuorumProgress().check(history, run.left.telemetry, run.options).figures["rules"]["Q7"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_replicas_meet_soon_after_the_load_and_have_told_so_when_the_run_ends(seed: int) -> None:
    good = run(SCRIPT, seed)
    assert (good.verdict.valid, good.rules["Q7"]) == ("true", "held")
    assert quiet_s(good.left.history) < 1
    (note,) = [op.value for op in good.left.ops if op.process == HARNESS and op.f == "converged"]
    told = {row["node"]: row["applied_index"] for row in good.left.telemetry.to_pylist()}
    assert told == note["applied"]
    assert len(set(told.values())) == 1


def stopping_to_apply(monkeypatch: pytest.MonkeyPatch, seed: int) -> Judged:
    """A run in which, once the partition is healed, a replica applies nothing any more.

    It is the second one that comes to an entry: the first is the leader, which tells the others what is committed.
    """
    apply = GroupStore._apply  # pyright: ignore[reportPrivateUsage]
    healed = False
    begun: dict[int, GroupStore] = {}
    stuck: list[GroupStore] = []

    def observe(op: Op) -> None:
        nonlocal healed
        healed = healed or (op.f == "stop-partition" and op.type == "ok")

    def applied(group: GroupStore, effect: Apply) -> None:
        if healed and not stuck and begun.setdefault(effect.entries[-1].index, group) is not group:
            stuck.append(group)
        if group not in stuck:
            apply(group, effect)

    monkeypatch.setattr(GroupStore, "_apply", applied)
    return judged(SCRIPT, seed, observe=observe)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_replica_that_applies_nothing_any_more_after_the_heal_violates_q7_alone(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    broken = stopping_to_apply(monkeypatch, seed)
    assert broken.verdict.anomalies == ("Q7",)
    assert "did not reach one applied index within 7.2 s" in broken.verdict.sentence
    assert 7.2 <= quiet_s(broken.left.history) < 8
    (note,) = [op.value for op in broken.left.ops if op.f == "converged"]
    assert note["seconds"] is None
    behind = min(note["applied"], key=note["applied"].__getitem__)
    assert f"{behind} at {note['applied'][behind]}" in broken.verdict.sentence


@pytest.mark.slow
def test_a_history_without_a_quiet_phase_is_judged_by_its_last_op(monkeypatch: pytest.MonkeyPatch) -> None:
    good = run(SCRIPT, 1)
    assert judge(good, without_quiet(good.left.history)) == "held"
    broken = stopping_to_apply(monkeypatch, 1)
    assert judge(broken, broken.left.history) == "violated"
    assert judge(broken, without_quiet(broken.left.history)) == "not judged"
