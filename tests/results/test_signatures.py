"""A signature is the same for the same bug at other seeds, times, nodes and keys, and another for another anomaly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.results import signaturerows
from splitbrain.results.arrow import to_table, write_parquet
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import run_events
from splitbrain.results.history import HARNESS, NEMESIS, Op
from splitbrain.results.signaturerows import setting_in
from splitbrain.results.signatures import (
    UNKNOWN,
    Setting,
    Signature,
    families,
    leading_first,
    setting_of,
    signatures_of,
)

NAMES = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=6).map(lambda word: f"{word}x")
WORDS = st.fixed_dictionaries(
    {
        "first": st.integers(0, 500),
        "at_s": st.integers(2, 900),
        "key": st.integers(0, 99).map(str),
        "value": st.integers(-5, 99),
        "nodes": st.lists(NAMES, min_size=2, max_size=2, unique=True),
    }
)
"""What differs from one run of a bug to the next: where in the history it is, when, and all the names."""


def _setting(at_s: int, fault: str = "partition") -> Setting:
    """One op after the other at `at_s`, during a fault that began a second before."""
    second = 10**9
    report: dict[str, Any] = {"fault": fault, "target": "n1", "cut": [], "down": [], "paused": []}
    ops = [
        Op(index=0, time=0, process=HARNESS, type="info", f="phase", value={"phase": "faults"}),
        Op(index=1, time=second, process=NEMESIS, type="invoke", f=fault, value={"fault": fault, "action": "start"}),
        Op(index=2, time=second, process=NEMESIS, type="info", f=fault, value={**report, "action": "start"}),
        Op(
            index=3,
            time=999 * second,
            process=NEMESIS,
            type="invoke",
            f=fault,
            value={"fault": fault, "action": "stop"},
        ),
        Op(index=4, time=999 * second, process=NEMESIS, type="info", f=fault, value={**report, "action": "stop"}),
    ]
    return Setting(lambda _: at_s * second, run_events(to_table(ops)).windows)


def _verdicts(first: int, at_s: int, key: str, value: int, nodes: list[str]) -> list[dict[str, Any]]:
    """The verdicts of three checkers on one run, as their evidence is."""
    op = {
        "f": "read",
        "process": first,
        "op": f"read -> {value}",
        "node": nodes[0],
        "invoked_index": first,
        "completed_index": first + 3,
    }
    row = {"time_s": float(at_s), "node": nodes[1], "event": f"e{first % 3}", "term": first, "role": "leader"}
    ended = {"op": first, "time_s": float(at_s), "node": nodes[0], "exit": f"Broken: {nodes[0]} lost entry {value}."}
    transactions = [
        {"name": name, "index": first + place, "process": place, "ended": "ok", "ops": [f"append {key} {value}"]}
        for place, name in enumerate(("T1", "T2", "T3"))
    ]
    pairs = [("T1", "T2", "rw"), ("T2", "T3", "ww"), ("T3", "T1", "ww")]
    turn = first % 3
    edges = [{"source": a, "target": b, "kind": kind, "key": key} for a, b, kind in pairs[turn:] + pairs[:turn]]
    cycle = {"anomaly": "G-single", "sentence": f"{key}", "transactions": transactions, "edges": edges}
    return [
        {"checker": "linearizable", "valid": False, "anomalies": ["nonlinearizable"], "evidence": {"failing_op": op}},
        {"checker": "votes", "valid": False, "anomalies": ["voted-twice"], "evidence": _findings("voted-twice", row)},
        {"checker": "crashes", "valid": False, "anomalies": ["node-crash"], "evidence": {"ended": [ended]}},
        {"checker": "list-append", "valid": False, "anomalies": ["G-single"], "evidence": {"findings": [cycle]}},
        {"checker": "set", "valid": True, "anomalies": [], "evidence": {}},
    ]


def _findings(anomaly: str, row: dict[str, Any]) -> dict[str, Any]:
    return {"findings": [{"anomaly": anomaly, "sentence": f"{row['node']} in term {row['term']}", "rows": [row]}]}


@given(WORDS, WORDS)
def test_the_same_bug_at_another_seed_time_node_key_and_value_has_the_same_signatures(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    found = [signatures_of(_verdicts(**each), _setting(each["at_s"])) for each in (one, other)]
    assert found[0] == found[1]
    assert set(map(str, found[0])) == {
        "linearizable/nonlinearizable/read/partition",
        "votes/voted-twice/leader/partition",
        "crashes/node-crash/Broken:_node_lost_entry_#./partition",
        "list-append/G-single/rw-ww/partition",
    }


@given(WORDS, st.sampled_from(["checker", "anomaly", "f", "role", "edges", "exit", "fault"]))
def test_another_checker_anomaly_witness_or_fault_is_another_signature(words: dict[str, Any], other: str) -> None:
    before, after = _verdicts(**words), json.loads(json.dumps(_verdicts(**words)))
    fault = "kill" if other == "fault" else "partition"
    if other == "checker":
        after[0]["checker"] = "session"
    elif other == "anomaly":
        after[1]["anomalies"] = [after[1]["evidence"]["findings"][0].__setitem__("anomaly", "two-votes") or "two-votes"]
    elif other == "f":
        after[0]["evidence"]["failing_op"]["f"] = "cas"
    elif other == "role":
        after[1]["evidence"]["findings"][0]["rows"][0]["role"] = "follower"
    elif other == "edges":
        after[3]["evidence"]["findings"][0]["edges"][0]["kind"] = "wr"
    elif other == "exit":
        after[2]["evidence"]["ended"][0]["exit"] = "Killed."
    setting = _setting(words["at_s"])
    found = signatures_of(after, _setting(words["at_s"], fault))
    assert set(found) != set(signatures_of(before, setting))
    same = set(signatures_of(before, setting))
    assert not any(each.matches(another) for each in set(found) - same for another in same)


def test_the_violation_that_was_complete_first_leads_and_of_one_checker_the_one_of_the_fewest_edges() -> None:
    def at(checker: str, second: float, *anomalies: str) -> dict[str, Any]:
        row = {"time_s": second, "node": "n1"}
        return {
            "checker": checker,
            "valid": False,
            "anomalies": list(anomalies),
            "evidence": {"findings": [{"anomaly": name, "sentence": "s", "rows": [row]} for name in anomalies]},
        }

    found = signatures_of([at("late", 5.0, "a"), at("early", 2.0, "b", "c"), at("late", 5.0, "a")], _setting(5))
    assert [(each.checker, each.anomaly) for each in found] == [("early", "b"), ("early", "c"), ("late", "a")]
    steps = _verdicts(0, 2, "k", 1, ["n1", "n2"])[3]
    aborted: dict[str, Any] = {"anomaly": "G1a", "sentence": "s", "transactions": [], "edges": []}
    steps["anomalies"] = ["G-single", "G1a"]
    steps["evidence"]["findings"].append(aborted)
    assert [each.anomaly for each in signatures_of([steps], _setting(2))] == ["G1a", "G-single"]


def test_a_fault_that_was_over_before_is_not_in_force_and_a_run_without_history_says_nothing_of_faults() -> None:
    verdicts = _verdicts(0, 2, "k", 1, ["n1", "n2"])[:1]
    second = 10**9
    late = Setting(lambda _: 1000 * second, _setting(2).windows)
    assert [each.faults for each in signatures_of(verdicts, late)] == ["none"]
    assert [each.faults for each in signatures_of(verdicts, UNKNOWN)] == ["*"]
    empty = setting_of(to_table([]))
    assert [each.faults for each in signatures_of(verdicts, empty)] == ["none"]


def test_of_a_stored_history_only_the_rows_that_matter_are_read_and_they_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signaturerows, "BATCH_ROWS", 3)
    second = 10**9
    started: dict[str, Any] = {"fault": "kill", "action": "start", "target": "n1", "cut": [], "down": [], "paused": []}
    ops = [Op(index=i, time=i * second, process=i % 3, type="info", f="read", value=i) for i in range(20)]
    ops[4] = Op(index=4, time=4 * second, process=NEMESIS, type="invoke", f="kill", value=started)
    ops[5] = Op(index=5, time=5 * second, process=NEMESIS, type="info", f="kill", value=started)
    ops[9] = Op(index=9, time=9 * second, process=HARNESS, type="info", f="recovered", value=None)
    history = to_table(ops)
    write_parquet(history, tmp_path / "history.parquet")
    for first, faults in ((0, "none"), (4, "kill"), (10, "none")):
        verdicts = _verdicts(first, 1, "k", 1, ["n1", "n2"])[:1]
        stored = signatures_of(verdicts, setting_in(tmp_path / "history.parquet", verdicts))
        assert stored == signatures_of(verdicts, setting_of(history))
        assert [each.faults for each in stored] == [faults]


@pytest.mark.slow
@given(st.lists(st.text(max_size=12), min_size=2, max_size=2), st.text(max_size=200))
def test_what_a_run_can_hold_is_written_and_read_back(names: list[str], message: str) -> None:
    verdict = {"checker": names[0], "valid": False, "anomalies": [names[1]], "evidence": {"failing_op": {"f": message}}}
    for found in (*signatures_of([verdict], UNKNOWN), Signature.of_error(message)):
        assert Signature.parse(str(found)) == found


@pytest.mark.parametrize("text", ["", "a", "a//b", "a/b/c/d/e", "a b/c", "/a"])
def test_what_is_no_signature_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no signature"):
        Signature.parse(text)


def test_a_star_matches_anything_and_nothing_else_does() -> None:
    found = Signature.parse("set/lost/-/kill")
    assert found.matches(Signature.parse("set/lost"))
    assert found.matches(Signature.parse("*/lost/*/kill"))
    assert not found.matches(Signature.parse("set/lost/-/kill+pause"))
    assert not found.matches(Signature.parse("set/duplicate"))
    assert Signature.parse("set/lost") == Signature("set", "lost", "*", "*")


def test_families_are_the_same_whatever_came_first() -> None:
    one, other = Signature("b", "y"), Signature("a", "x")
    assert families([one, other]) == families([other, one]) == "a: x; b: y"


def test_errors_of_the_harness_differ_by_their_words_and_not_by_their_numbers() -> None:
    assert Signature.of_error("seed 7: n3 ended") == Signature.of_error("seed 1234: n12 ended")
    assert Signature.of_error("seed 7: n3 ended") != Signature.of_error("seed 7: n3 hangs")


def test_what_the_checker_of_the_leading_signature_says_comes_first_and_the_rest_keeps_its_order() -> None:
    checkers = ["linearizable", "my checker", "set"]
    assert leading_first(checkers, str, ["my_checker/lost/-/none", "set/lost/-/none"]) == [
        "my checker",
        "linearizable",
        "set",
    ]
    assert leading_first(checkers, str, ["harness/error"]) == checkers
    assert leading_first(checkers, str, []) == checkers
