from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings

from splitbrain.checkers.consensus import ReplicaAgreement
from splitbrain.checkers.verdict import Verdict
from tests.checkers.telemetry import row, telemetries, told


def judge(*rows: dict[str, Any]) -> Verdict:
    return ReplicaAgreement().check(told(*rows), {})


def at(time_s: float, node: str, index: int, chain: str | None, state: str | None, **fields: Any) -> dict[str, Any]:
    return row(time_s, node, "hash", applied_index=index, chain_hash=chain, state_hash=state, **fields)


def test_chains_that_differ_are_shown_at_their_first_index_with_the_nodes_and_the_last_agreement() -> None:
    verdict = judge(
        at(9, "n2", 192, "e5", "s5"),  # behind the first disagreement: says nothing new
        at(9, "n1", 192, "e6", "s6"),
        at(1, "n1", 64, "a1", "s1"),
        at(2, "n2", 64, "a1", "s1"),
        at(3, "n1", 128, "b1", "s2"),
        at(4, "n2", 128, "c1", "s2", life=2),
        at(5, "n3", 128, "b1", "s2"),
        at(5, "n3", 100, "b0", "s0"),  # told by one node: no agreement
    )
    assert (verdict.valid, verdict.anomalies) == ("false", ("divergence",))
    assert verdict.sentence == (
        "Replicas diverged: at applied index 128 of group 'g' n1 reported chain hash b1 (at 3.000 s in life 1), n2 c1 "
        "(at 4.000 s in life 2). Before that, nodes last agreed at index 64."
    )
    [finding] = verdict.evidence["findings"]
    assert (finding["applied_index"], finding["last_agreed_index"]) == (128, 64)
    assert [(r["node"], r["life"], r["time_s"], r["chain_hash"]) for r in finding["replicas"]] == [
        ("n1", 1, 3.0, "b1"),
        ("n3", 1, 5.0, "b1"),
        ("n2", 2, 4.0, "c1"),
    ]
    figures = {"indexes": 4, "compared": 3, "highest_compared": 192, "nodes": 3, "broken": 2}
    assert verdict.figures == {**figures, "projections": 0, "snapshots": 0}


def test_equal_chains_with_different_states_are_non_determinism() -> None:
    verdict = judge(at(1, "n1", 64, "a", "s1"), at(2, "n2", 64, "a", "s2"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("non-determinism",))
    assert "the same entries led to different states: n1 reported state hash s1" in verdict.sentence


def test_m39_what_a_node_projects_must_be_what_its_own_state_says() -> None:
    fine = {"projection_hash": "p", "projected_hash": "p"}
    lost = {"projection_hash": "p", "projected_hash": "q"}
    rows = [at(1, "n1", 64, "a", "s", **fine), at(2, "n2", 64, "a", "s", **fine), at(4, "n2", 70, "b", "t", **lost)]
    assert judge(*rows[:2]).figures["projections"] == 2
    verdict = judge(*rows, at(5, "n2", 71, "c", "u", **lost))
    assert (verdict.valid, verdict.anomalies) == ("false", ("projection",))
    assert verdict.sentence == (
        "Projection differs from tree: at applied index 70 of group 'g' what n2 projects has hash p, and its own state "
        "says q (event 'hash' at 4.000 s in life 1)."
    )
    assert len(verdict.evidence["findings"]) == 1


def test_projections_are_not_compared_between_nodes_nor_where_one_hash_is_missing() -> None:
    verdict = judge(
        at(1, "n1", 64, "a", "s", projection_hash="p", projected_hash="p"),
        at(2, "n2", 64, "a", "s", projection_hash="q", projected_hash="q"),
        at(3, "n2", 65, "b", "t", projection_hash="q"),
    )
    assert (verdict.valid, verdict.figures["projections"]) == ("true", 2)


def test_a_node_must_agree_with_its_own_other_lives_too() -> None:
    verdict = judge(at(1, "n1", 5, "a", "s"), at(2, "n1", 5, "b", "t", life=2))
    assert (verdict.valid, verdict.anomalies) == ("false", ("divergence",))


def test_states_alone_are_compared_where_a_system_has_no_chain() -> None:
    verdict = judge(at(1, "n1", 5, None, "s"), at(2, "n2", 5, None, "t"))
    assert verdict.anomalies == ("divergence",)
    assert "n1 reported state hash s" in verdict.sentence


def test_agreement_tells_how_many_indexes_were_compared_and_other_groups_are_not() -> None:
    verdict = judge(
        at(0, "n1", 0, "-", "-"),
        at(0, "n2", 0, "-", "-"),
        at(1, "n1", 64, "a", "s"),
        at(2, "n2", 64, "a", "s"),
        at(2, "n2", 65, "b", "t"),
        at(2, "n1", 66, "c", None),
        at(2, "n2", 66, None, "u"),  # of another kind
        at(2, "n3", 64, "other", "other", group="other"),
    )
    assert verdict.valid == "true"
    assert verdict.sentence == (
        "Replicas agree at every index at which two or more nodes could be compared (1 index, the highest 64)."
    )
    assert verdict.figures["compared"] == 1


def test_nodes_that_could_not_be_compared_prove_nothing() -> None:
    verdict = judge(at(0, "n1", 0, "-", "-"), at(0, "n2", 0, "-", "-"), at(1, "n1", 3, "a", "s"))
    assert (verdict.valid, verdict.figures["compared"]) == ("unknown", 0)
    assert verdict.sentence == (
        "Unknown: no two of the 2 nodes reported a hash of the same kind at the same index above 0."
    )
    alone = judge(at(1, "n1", 3, "a", "s"))
    assert (alone.valid, alone.figures["compared"]) == ("true", 0)
    assert alone.sentence.startswith("Nothing to compare: only one node")


def test_a_chain_hash_and_a_state_hash_are_not_compared_with_each_other() -> None:
    chain, state = at(1, "n1", 64, "a", None), at(2, "n2", 64, None, "s")
    verdict = judge(chain, state)
    assert (verdict.valid, verdict.figures["compared"], verdict.figures["highest_compared"]) == ("unknown", 0, 0)
    assert verdict.sentence == (
        "Unknown: no two of the 2 nodes reported a hash of the same kind at the same index above 0."
    )
    both_kinds_of_one_node = judge(chain, state, at(3, "n1", 64, "a", None, life=2))
    assert (both_kinds_of_one_node.valid, both_kinds_of_one_node.figures["compared"]) == ("unknown", 0)
    third = judge(chain, state, at(3, "n3", 64, "b", "s"))
    assert third.anomalies == ("divergence",)
    assert judge(chain, state, at(3, "n3", 64, None, "s")).figures["compared"] == 1


@pytest.mark.slow
@given(telemetries())
@settings(max_examples=300)
def test_it_finds_what_comparing_every_two_rows_finds(rows: list[dict[str, Any]]) -> None:
    lowest: dict[Any, int] = {}
    for one, other in combinations(rows, 2):
        if one["group"] != other["group"] or one["applied_index"] is None:
            continue
        if one["applied_index"] != other["applied_index"]:
            continue
        chains, states = [[r[f"{what}_hash"] for r in (one, other)] for what in ("chain", "state")]
        states_differ = None not in states and states[0] != states[1]
        if None in chains:
            anomaly = "divergence" if states_differ else None
        else:
            anomaly = "divergence" if chains[0] != chains[1] else "non-determinism" if states_differ else None
        if anomaly is not None:
            key = (one["group"], anomaly)
            lowest[key] = min(lowest.get(key, 99), one["applied_index"])
    verdict = judge(*rows)
    found = {(f["group"], f["anomaly"]): f["applied_index"] for f in verdict.evidence.get("findings", ())}
    assert found == lowest
    assert set(verdict.anomalies) == {anomaly for _, anomaly in lowest}
    compared = {
        (one["group"], one["applied_index"])
        for one, other in combinations(rows, 2)
        if one["node"] != other["node"] and one["group"] == other["group"]
        if one["applied_index"] and one["applied_index"] == other["applied_index"]
        if any(None not in (one[kind], other[kind]) for kind in ("chain_hash", "state_hash"))
    }
    assert verdict.figures["compared"] == len(compared)
    alone = len({r["node"] for r in rows}) == 1
    assert verdict.valid == ("false" if lowest else "true" if compared or alone else "unknown")


def state_of(
    time_s: float, node: str, event: str, index: int, of: int | None, chain: str, state: str
) -> dict[str, Any]:
    """A state of `index` that was written down, or taken over, as that of entry `of`."""
    return row(time_s, node, event, applied_index=index, log_index=of, log_term=1, chain_hash=chain, state_hash=state)


def test_the_chain_in_a_state_is_that_of_what_was_applied() -> None:
    written = state_of(1, "n1", "checkpoint", 16, 16, "a", "s")
    assert judge({**written, "log_hash": "a"}).valid == "true"
    verdict = judge({**written, "log_hash": "b"})
    assert (verdict.valid, verdict.anomalies) == ("false", ("snapshot",))
    assert verdict.sentence == (
        "Snapshot of another entry: n1 of group 'g' has the state of applied index 16 in one that stands for the log "
        "up to there with hash b, and not a (event 'checkpoint' at 1.000 s in life 1)."
    )


def test_m37_a_state_is_that_of_the_entry_for_which_it_stands() -> None:
    fine = [state_of(1, "n1", "checkpoint", 16, 16, "a", "s"), state_of(2, "n2", "snapshot", 16, 16, "a", "s")]
    assert (judge(*fine).valid, judge(*fine).figures["snapshots"]) == ("true", 2)
    verdict = judge(*fine, state_of(3, "n1", "checkpoint", 32, 31, "b", "t"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("snapshot",))
    assert verdict.sentence == (
        "Snapshot of another entry: n1 of group 'g' has the state of applied index 32 in one that stands for entry 31 "
        "(event 'checkpoint' at 3.000 s in life 1)."
    )


@pytest.mark.parametrize("event", ["snapshot", "start"])
def test_m32_what_is_loaded_is_what_was_written_down(event: str) -> None:
    """Rows of commits come first: that another row told the same hashes makes a written state no other."""
    rows = [at(0, "n1", 16, "a", "s"), state_of(1, "n1", "checkpoint", 16, 16, "a", "s")]
    verdict = judge(*rows, state_of(2, "n2", event, 16, None, "a", "lost"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("snapshot",))
    assert verdict.sentence == (
        "Snapshot differs: at applied index 16 of group 'g' a state was written down, and another one loaded: n1 "
        "reported state hash s (at 1.000 s in life 1), n2 lost (at 2.000 s in life 1). No two nodes agreed at a lower "
        "index."
    )


def test_states_that_differ_before_they_are_written_down_are_no_matter_of_snapshots() -> None:
    written = [state_of(1, node, "checkpoint", 16, 16, "a", state) for node, state in (("n1", "s"), ("n2", "t"))]
    assert judge(*written, state_of(2, "n3", "snapshot", 16, 16, "a", "t")).anomalies == ("non-determinism",)
    assert judge(at(1, "n1", 16, "a", "s"), state_of(2, "n2", "snapshot", 16, 16, "b", "t")).anomalies == (
        "divergence",
    )


def test_each_group_has_its_own_first_disagreement_and_last_agreement() -> None:
    agree = [
        at(1, node, index, "a", "s", group=group) for index, group in ((3, "g"), (7, "h")) for node in ("n1", "n2")
    ]
    differ = [
        at(2, node, index, node, "s", group=group) for index, group in ((9, "g"), (5, "h")) for node in ("n1", "n2")
    ]
    verdict = judge(*agree, *differ)
    found = [(each["group"], each["applied_index"], each["last_agreed_index"]) for each in verdict.evidence["findings"]]
    assert found == [("h", 5, None), ("g", 9, 3)]


def test_what_two_nodes_lost_are_two_findings() -> None:
    lost = {"projection_hash": "p", "projected_hash": "q"}
    projected = judge(*(at(1, node, 64, "a", "s", **lost) for node in ("n1", "n2")))
    assert [each["replicas"][0]["node"] for each in projected.evidence["findings"]] == ["n1", "n2"]
    written = judge(*(state_of(1, node, "checkpoint", 32, 33, "b", "t") for node in ("n1", "n2")))
    assert [each["replicas"][0]["node"] for each in written.evidence["findings"]] == ["n1", "n2"]
    assert written.anomalies == ("snapshot",), "a state of an earlier entry than that for which it stands"


def test_an_anomaly_of_each_kind_is_shown_at_one_index() -> None:
    """n1 and n2 applied different entries; n3 applied what n1 did, and came to another state."""
    verdict = judge(at(1, "n1", 5, "a", "s"), at(1, "n2", 5, "b", "s"), at(1, "n3", 5, "a", "t"))
    assert set(verdict.anomalies) == {"divergence", "non-determinism"}
    assert [row["node"] for row in verdict.evidence["findings"][0]["replicas"]] == ["n1", "n2", "n3"]


@pytest.mark.parametrize("order", [1, -1])
def test_a_state_that_one_node_applied_and_another_loaded_is_not_only_loaded(order: int) -> None:
    """What was applied differs from what was written down: that is no matter of loading."""
    written = state_of(1, "n1", "checkpoint", 16, 16, "a", "s")
    others = [state_of(2, "n2", "snapshot", 16, 16, "a", "t"), at(2, "n3", 16, "a", "t")]
    assert judge(*[written, *others][::order]).anomalies == ("non-determinism",)
    assert judge(*[written, others[0]][::order]).anomalies == ("snapshot",)


def test_a_snapshot_that_was_taken_over_for_another_entry_is_one_too() -> None:
    verdict = judge(state_of(1, "n1", "snapshot", 32, 31, "b", "t"))
    assert (verdict.valid, verdict.anomalies, verdict.figures["snapshots"]) == ("false", ("snapshot",), 1)


def test_without_any_row_it_is_not_said_that_one_node_reported() -> None:
    assert judge().sentence == "Nothing to compare: no node reported anything."
