"""The checkers list-append and rw-register: verdicts, evidence, what is inconclusive, and what is refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.transactions import saturation, version_orders
from splitbrain.checkers.transactions.columns import transactions_of
from splitbrain.checkers.transactions.verify import problems_of
from splitbrain.checkers.verdict import CheckerSpec, Outcome, Verdict, outcome
from splitbrain.results.arrow import MOPS
from splitbrain.results.errors import HistoryFormatError, UnknownNameError, UsageError
from splitbrain.results.findings import findings_of
from splitbrain.results.formats import read_table
from splitbrain.results.formats.edn import read_slowly
from splitbrain.results.formats.rows import table_of

SKEW = """
0 invoke [[:r :x nil] [:append :y 1]]
1 invoke [[:r :y nil] [:append :x 2]]
0 ok     [[:r :x []] [:append :y 1]]
1 ok     [[:r :y []] [:append :x 2]]
2 invoke [[:r :x nil] [:r :y nil]]
2 ok     [[:r :x [2]] [:r :y [1]]]
"""

STALE = """
0 invoke [[:append :x 5]]
0 ok     [[:append :x 5]]
0 invoke [[:append :x 6]]
0 ok     [[:append :x 6]]
1 invoke [[:r :x nil]]
1 ok     [[:r :x []]]
"""


def history(text: str) -> Any:
    """Lines "process type value" as a table."""
    rows = [line.split(maxsplit=2) for line in text.strip().splitlines()]
    ops = [f"{{:process {p}, :type :{t}, :f :txn, :value {v}}}" for p, t, v in rows]
    return table_of(read_slowly("\n".join(ops), "history"), "history", "no")


def judge(text: str, checker: str = "list-append", **options: Any) -> Verdict:
    [verdict] = engine.judge(history(text), [CheckerSpec(checker, options)])
    assert "crashes" not in verdict.evidence, verdict.evidence["crashes"]
    return verdict


def test_a_write_skew_is_not_serializable_and_says_why() -> None:
    found = judge(SKEW, consistency_models=["serializable"])
    assert (found.valid, found.anomalies) == ("false", ("G2-item",))
    assert found.sentence == (
        "Not serializable: G2-item. T1 < T2, because T2 appended 2 to x after T1 read it as []. T2 < T1, because T1 "
        "appended 1 to y after T2 read it as []. So T1 would come before itself."
    )
    assert found.evidence["not"] == ["repeatable-read"]
    [witness] = found.evidence["anomalies"]["G2-item"]
    assert [each["name"] for each in witness["transactions"]] == ["T1", "T2"]
    assert witness["transactions"][0]["ops"] == [["r", "x", []], ["append", "y", 1]]


def test_a_write_skew_is_tolerated_under_snapshot_isolation() -> None:
    found = judge(SKEW, consistency_models=["snapshot-isolation"])
    assert found.valid == "true"
    assert found.evidence == {"tolerated": ["G2-item"]}


def test_an_acknowledged_append_that_a_later_read_lacks_is_found_although_no_read_shows_it() -> None:
    found = judge(STALE)
    assert found.valid == "false"
    assert "G-single-item-realtime" in found.anomalies
    assert "T2 completed (op" in found.sentence or "T1 completed (op" in found.sentence
    assert judge(STALE, consistency_models=["serializable"]).valid == "true"


def test_a_transaction_of_unknown_outcome_committed_if_it_was_read_from() -> None:
    text = """
    0 invoke [[:append :x 1] [:append :y 1]]
    0 info   [[:append :x 1] [:append :y 1]]
    1 invoke [[:r :x nil] [:r :y nil]]
    1 ok     [[:r :x [1]] [:r :y []]]
    """
    found = judge(text, consistency_models=["serializable"])
    assert found.anomalies == ("G-single-item",)
    witness = found.evidence["anomalies"]["G-single-item"][0]
    unknown = next(each for each in witness["transactions"] if each["type"] == "info")
    assert unknown["committed_because_read_by"] in ("T1", "T2")
    unread = text.replace("[:r :x [1]]", "[:r :x []]")
    assert judge(unread, consistency_models=["serializable"]).valid != "false"


REGISTERS = """
0 invoke [[:r :x nil] [:w :x 1]]
0 ok     [[:r :x nil] [:w :x 1]]
1 invoke [[:r :x nil] [:w :x 2]]
2 invoke [[:r :x nil] [:r :y nil]]
3 invoke [[:r :x nil] [:w :y 3]]
1 ok     [[:r :x 1] [:w :x 2]]
3 ok     [[:r :x 2] [:w :y 3]]
2 ok     [[:r :x 1] [:r :y 3]]
"""


def test_read_modify_writes_order_the_versions_of_a_register() -> None:
    """T2 read x as 1 and overwrote it; the reader of 1 therefore comes before what follows, and read from that."""
    found = judge(REGISTERS, "rw-register", consistency_models=["serializable"])
    assert found.anomalies == ("G-single-item",)
    rests = [step.get("rests_on") for step in found.evidence["anomalies"]["G-single-item"][0]["steps"]]
    assert "no G1c" in rests
    assert judge(REGISTERS, "rw-register", consistency_models=["read-committed"]).valid == "true"


def test_an_edge_that_follows_from_the_order_of_a_process_is_no_edge_of_data() -> None:
    """T1, T3, T2 is a serial order, but process 1 made T2 before T3: that is no G1c, and a G-single of processes."""
    text = """
    0 invoke [[:w :x 1] [:w :y 1]]
    0 ok     [[:w :x 1] [:w :y 1]]
    1 invoke [[:r :y nil] [:w :x 2]]
    1 ok     [[:r :y 1] [:w :x 2]]
    1 invoke [[:r :x nil]]
    1 ok     [[:r :x 1]]
    """
    assert judge(text, "rw-register", consistency_models=["serializable"]).valid == "true"
    found = judge(text, "rw-register", consistency_models=["strong-session-serializable"])
    assert found.anomalies == ("G-single-item-process",)


SATURATED = """
0 invoke [[:w :x 1] [:w :y 1]]
1 invoke [[:r :y nil] [:w :x 2] [:w :z 2]]
2 invoke [[:r :z nil] [:r :x nil]]
0 ok     [[:w :x 1] [:w :y 1]]
1 ok     [[:r :y 1] [:w :x 2] [:w :z 2]]
2 ok     [[:r :z 2] [:r :x 1]]
"""


def test_versions_are_ordered_by_who_comes_before_whom_although_nobody_read_both() -> None:
    """T2 wrote x after T1 did, T3 read from T2 and then x as T1 wrote it."""
    found = judge(SATURATED, "rw-register", consistency_models=["serializable"])
    assert "G-single-item" in found.anomalies
    steps = found.evidence["anomalies"]["G-single-item"][0]["steps"]
    [step] = [each for each in steps if each.get("rule") == "version-order"]
    assert step["rests_on"] == "no G-single"
    assert judge(SATURATED, "rw-register", consistency_models=["read-committed"]).valid == "true"
    assert "open_keys" not in found.evidence


WRITTEN = """
0 invoke [[:{write} :x 1]]
0 {ended}  [[:{write} :x 1]]
1 invoke [[:r :x nil] [:{write} :y 2]]
1 ok     [[:r :x {found}] [:{write} :y 2]]
"""


def test_a_value_that_no_transaction_wrote_is_garbage_in_a_register_as_it_is_in_a_list() -> None:
    for checker, write, found in (("list-append", "append", "[7]"), ("rw-register", "w", "7")):
        text = WRITTEN.format(write=write, ended="ok", found=found)
        verdict = judge(text, checker, consistency_models=["read-committed"])
        assert (verdict.valid, verdict.anomalies) == ("false", ("garbage-read",))
        assert verdict.evidence["not"] == ["read-committed"]
        assert verdict.sentence.endswith("but no transaction wrote 7.")
        [witness] = verdict.evidence["anomalies"]["garbage-read"]
        assert problems_of(witness, history(text)) == []
        assert problems_of({**witness, "values": [1]}, history(text))
        assert judge(text, checker, consistency_models=["read-uncommitted"]).valid != "false"


@pytest.mark.parametrize(
    ("ended", "found", "anomalies"),
    [("ok", "nil", ()), ("ok", "1", ()), ("info", "1", ()), ("info", "nil", ()), ("fail", "1", ("G1a",))],
)
def test_what_a_register_was_at_first_and_what_a_transaction_may_have_written_is_no_garbage(
    ended: str, found: str, anomalies: tuple[str, ...]
) -> None:
    text = WRITTEN.format(write="w", ended=ended, found=found)
    assert judge(text, "rw-register", consistency_models=["serializable"]).anomalies == anomalies


def test_a_step_that_follows_from_a_way_does_not_pass_with_another_way() -> None:
    table = history(SATURATED)
    found = judge(SATURATED, "rw-register", consistency_models=["serializable"])
    witness = found.evidence["anomalies"]["G-single-item"][0]
    place = next(at for at, step in enumerate(witness["steps"]) if step.get("rule") == "version-order")
    assert problems_of(witness, table) == []
    changes: list[tuple[str, Any]] = [("way", []), ("rests_on", ""), ("earlier", witness["steps"][place]["later"])]
    for name, value in changes:
        changed = copy.deepcopy(witness)
        changed["steps"][place][name] = value
        if name == "rests_on":
            changed["steps"][place]["way"] = changed["steps"][place]["way"][:-1]
        assert problems_of(changed, table), name


def test_keys_whose_versions_stayed_open_are_listed() -> None:
    text = """
    0 invoke [[:w :x 1]]
    1 invoke [[:w :x 2]]
    0 ok     [[:w :x 1]]
    1 ok     [[:w :x 2]]
    2 invoke [[:r :x nil]]
    2 ok     [[:r :x 2]]
    """
    found = judge(text, "rw-register", consistency_models=["serializable"])
    assert found.valid == "true"
    assert found.evidence["open_keys"] == ["x"]
    assert "the order of versions stayed open: x" in found.sentence
    assert "open_keys" not in judge(text, "rw-register").evidence  # in real time the read says which write was the last


def test_assumptions_are_off_unless_asked_for() -> None:
    text = """
    0 invoke [[:w :x 1]]
    0 ok     [[:w :x 1]]
    0 invoke [[:w :x 2]]
    0 ok     [[:w :x 2]]
    0 invoke [[:r :x nil]]
    0 ok     [[:r :x 1]]
    """
    assert judge(text, "rw-register", consistency_models=["read-committed"]).valid == "true"
    found = judge(text, "rw-register", consistency_models=["read-committed"], sequential_keys=True)
    assert found.anomalies == ("cyclic-versions",)


def test_a_history_that_could_not_have_shown_an_anomaly_is_inconclusive() -> None:
    alone = "0 invoke [[:append :x 1]]\n0 ok [[:append :x 1]]"
    found = judge(alone)
    assert found.valid == "unknown"
    assert outcome([found]) is Outcome.INCONCLUSIVE
    no_rw = """
    0 invoke [[:append :x 1]]
    0 ok     [[:append :x 1]]
    1 invoke [[:r :x nil]]
    1 ok     [[:r :x [1]]]
    """
    found = judge(no_rw)
    assert found.valid == "true"
    assert [each.code.value for each in found.inconclusive] == ["not-exercised"]
    no_wr = """
    0 invoke [[:r :x nil]]
    0 ok     [[:r :x []]]
    1 invoke [[:append :x 1]]
    1 ok     [[:append :x 1]]
    """
    assert [each.code.value for each in judge(no_wr).inconclusive] == ["reads-saw-nothing"]


def test_keys_and_values_of_any_kind_can_be_judged() -> None:
    text = SKEW.replace("1]", '"one"]').replace(" 2]", " [7 8]]").replace("[2]", "[[7 8]]").replace(":x", '["k" 1]')
    found = judge(text, consistency_models=["serializable"])
    assert found.anomalies == ("G2-item",)
    assert "[7 8]" in found.sentence


def test_typed_and_textual_transactions_are_the_same() -> None:
    table = history(SKEW)
    place = table.schema.get_field_index("mops")
    textual = transactions_of(table.set_column(place, "mops", pa.nulls(table.num_rows, MOPS)))
    typed = transactions_of(table)
    assert [typed.read(mop) for mop in range(typed.mop_count)] == [
        textual.read(mop) for mop in range(textual.mop_count)
    ]
    assert typed.key_names == textual.key_names


@pytest.mark.parametrize(
    ("checker", "options", "error"),
    [
        ("list-append", {"consistency_models": ["serialisable"]}, UnknownNameError),
        ("list-append", {"anomalies": ["G7"]}, UnknownNameError),
        ("list-append", {"consistency_model": "serializable"}, UsageError),
        ("rw-register", {"transaction_order": {"first": 1}}, UsageError),
        ("rw-register", {"transaction_order": {"-1": 1}}, UsageError),
        ("rw-register", {"transaction_order": {"0": 10**30}}, UsageError),
        ("rw-register", {}, HistoryFormatError),
    ],
)
def test_what_cannot_be_judged_is_refused(checker: str, options: dict[str, Any], error: type[UsageError]) -> None:
    with pytest.raises(error):
        engine.judge(history(SKEW), [CheckerSpec(checker, options)])


def test_a_write_of_nothing_is_refused() -> None:
    with pytest.raises(HistoryFormatError, match="a write of nothing"):
        transactions_of(history("0 invoke [[:append :x nil]]\n0 ok [[:append :x nil]]"))


# --- verification -----------------------------------------------------------------------------------------------------


def tampered(witness: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The witness with one thing changed."""
    for place, step in enumerate(witness["steps"]):
        for name, value in (("to", "T9"), ("kind", "ww"), ("from", step["to"])):
            if step[name] != value:
                changed = copy.deepcopy(witness)
                changed["steps"][place][name] = value
                yield f"step {place} {name}", changed
        changed = copy.deepcopy(witness)
        changed["steps"][place]["after"]["at"] = 0
        yield f"step {place} at", changed
    for place in range(len(witness["transactions"])):
        changes: list[tuple[str, Any]] = [
            ("invoked", 4),
            ("completed", 5),
            ("process", 2),
            ("type", "fail"),
            ("ops", []),
        ]
        for name, value in changes:
            changed = copy.deepcopy(witness)
            changed["transactions"][place][name] = value
            yield f"transaction {place} {name}", changed
    for name in ("G-single-item", "G0"):
        yield name, {**witness, "anomaly": name}


def test_a_witness_of_which_anything_is_changed_does_not_pass() -> None:
    table = history(SKEW)
    [witness] = judge(SKEW, consistency_models=["serializable"]).evidence["anomalies"]["G2-item"]
    assert problems_of(witness, table) == []
    for what, changed in tampered(witness):
        try:
            found = problems_of(changed, table)
        except (KeyError, StopIteration, IndexError):
            continue
        assert found, what


CASES = {
    "G1a": "0 invoke [[:append :x 1]]\n0 fail [[:append :x 1]]\n1 invoke [[:r :x nil]]\n1 ok [[:r :x [1]]]",
    "G1b": "0 invoke [[:append :x 1] [:append :x 2]]\n0 ok [[:append :x 1] [:append :x 2]]\n"
    "1 invoke [[:r :x nil]]\n1 ok [[:r :x [1]]]",
    "internal": "0 invoke [[:append :x 1] [:r :x nil]]\n0 ok [[:append :x 1] [:r :x []]]",
    "future-read": "0 invoke [[:r :x nil] [:append :x 1]]\n0 ok [[:r :x [1]] [:append :x 1]]",
    "garbage-read": "0 invoke [[:r :x nil]]\n0 ok [[:r :x [7]]]",
    "duplicate-elements": "0 invoke [[:append :x 1]]\n0 ok [[:append :x 1]]\n"
    "1 invoke [[:r :x nil]]\n1 ok [[:r :x [1 1]]]",
    "incompatible-order": "0 invoke [[:append :x 1]]\n1 invoke [[:append :x 2]]\n0 ok [[:append :x 1]]\n"
    "1 ok [[:append :x 2]]\n2 invoke [[:r :x nil]]\n2 ok [[:r :x [1 2]]]\n2 invoke [[:r :x nil]]\n2 ok [[:r :x [2 1]]]",
    "dirty-update": "0 invoke [[:append :x 1]]\n0 fail [[:append :x 1]]\n1 invoke [[:append :x 2]]\n"
    "1 ok [[:append :x 2]]\n2 invoke [[:r :x nil]]\n2 ok [[:r :x [1 2]]]",
    "lost-update": "0 invoke [[:r :x nil] [:append :x 1]]\n1 invoke [[:r :x nil] [:append :x 2]]\n"
    "0 ok [[:r :x []] [:append :x 1]]\n1 ok [[:r :x []] [:append :x 2]]",
}


@pytest.mark.parametrize("anomaly", CASES)
def test_an_anomaly_without_a_cycle_is_found_and_proven(anomaly: str) -> None:
    found = judge(CASES[anomaly])
    assert anomaly in found.anomalies
    assert "unverified" not in found.evidence
    assert found.evidence["anomalies"][anomaly]


def judge_plume(folder: Path, text: str, **options: Any) -> Verdict:
    path = folder / "history.plume"
    path.write_text(text)
    [verdict] = engine.judge(read_table(path, "plume"), [CheckerSpec("rw-register", options)])
    assert "crashes" not in verdict.evidence, verdict.evidence["crashes"]
    return verdict


def test_the_order_of_rows_is_no_real_time_in_a_file_that_has_only_sessions(tmp_path: Path) -> None:
    text = "w(1,5,0,0)\nr(1,5,1,1)\nw(1,6,1,1)\nr(1,0,2,2)\n"
    found = judge_plume(tmp_path, text)
    assert (found.valid, outcome([found])) == ("true", Outcome.INCONCLUSIVE)
    assert found.inconclusive[0].code == "not-judged"
    assert "Real time was not judged" in found.inconclusive[0].sentence
    [timed] = engine.judge(
        read_table(tmp_path / "history.plume", "plume").replace_schema_metadata(None), [CheckerSpec("rw-register", {})]
    )
    assert timed.valid == "false", "the same rows with real time are a stale read"
    sessions = judge_plume(tmp_path, text, consistency_models=["strong-session-serializable"])
    assert (sessions.valid, sessions.inconclusive) == ("true", ())


def test_a_violation_that_needs_no_real_time_is_one_of_a_strict_model_too(tmp_path: Path) -> None:
    found = judge_plume(tmp_path, "w(1,5,0,0)\nr(1,5,1,1)\nr(1,0,0,2)\n")
    assert (found.valid, found.inconclusive) == ("false", ())
    assert "G-single-item-process" in found.anomalies
    assert not any(each.endswith("realtime") for each in found.anomalies)


def test_keys_cannot_be_assumed_linearizable_without_real_time(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="linearizable-keys needs real time"):
        judge_plume(tmp_path, "w(1,5,0,0)\nr(1,5,1,1)\n", linearizable_keys=True)


def test_the_findings_of_a_cycle_and_of_a_single_read_name_the_ops_of_their_transactions() -> None:
    [skew] = findings_of(judge(SKEW, consistency_models=["serializable"]).evidence)
    assert (skew.rule, skew.ops) == ("G2-item", [0, 1])
    [aborted] = [each for each in findings_of(judge(CASES["G1a"]).evidence) if each.rule == "G1a"]
    assert aborted.ops == [2, 0]


UNTESTABLE = [
    "linearizable",
    "sequential",
    "1SR",
    "view-serializable",
    "session-serializable",
    "PRAM",
    "monotonic-reads",
]
"""Models in the lattice that no anomaly rules out: every history would satisfy them."""


@pytest.mark.parametrize("model", UNTESTABLE)
@pytest.mark.parametrize("checker", ["list-append", "rw-register", "closed-predicate"])
def test_a_model_that_every_history_would_satisfy_is_refused(model: str, checker: str) -> None:
    with pytest.raises(UsageError, match=f"consistency model {model}: transactions cannot be judged by it"):
        engine.judge(history(SKEW), [CheckerSpec(checker, {"consistency_models": ["serializable", model]})])


def test_no_model_and_no_anomaly_is_refused() -> None:
    with pytest.raises(UsageError, match="no consistency model is given"):
        engine.judge(history(SKEW), [CheckerSpec("list-append", {"consistency_models": []})])
    assert judge(SKEW, consistency_models=[], anomalies=["G2-item"]).valid == "false"


def reasons(found: Verdict) -> str:
    return " ".join(reason.sentence for reason in found.inconclusive)


def test_lists_are_not_said_to_satisfy_a_level_that_is_judged_of_registers_only() -> None:
    fractured = """
    0 invoke [[:append :x 1] [:append :y 1]]
    0 ok     [[:append :x 1] [:append :y 1]]
    1 invoke [[:r :x nil] [:r :y nil]]
    1 ok     [[:r :x [1]] [:r :y []]]
    """
    found = judge(fractured, consistency_models=["read-atomic"])
    assert found.valid == "true"
    assert outcome([found]) is Outcome.INCONCLUSIVE
    assert "Not judged: read-atomic by sessions and reads" in reasons(found)
    assert judge(fractured, consistency_models=["consistent-view"]).valid == "false"
    assert "Not judged" not in reasons(judge(STALE, consistency_models=["snapshot-isolation"]))


def test_a_history_in_which_equal_values_were_written_twice_is_inconclusive() -> None:
    twice = """
    0 invoke [[:append :x 1]]
    0 ok     [[:append :x 1]]
    1 invoke [[:append :x 1]]
    1 ok     [[:append :x 1]]
    0 invoke [[:r :x nil]]
    0 ok     [[:r :x [1]]]
    1 invoke [[:r :x nil]]
    1 ok     [[:r :x nil]]
    """
    found = judge(twice)
    assert found.valid == "true"
    assert outcome([found]) is Outcome.INCONCLUSIVE
    assert "of 2 writes of equal values" in reasons(found)


REREAD = """
0 invoke [[:w :z 1]]
0 ok     [[:w :z 1]]
0 invoke [[:w :z 2]]
0 ok     [[:w :z 2]]
1 invoke [[:r :z nil]]
1 ok     [[:r :z 1]]
"""


def test_a_spent_allowance_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(REREAD, "rw-register").anomalies == ("G-single-item-realtime",)
    monkeypatch.setattr(saturation, "WORK", 0)
    found = judge(REREAD, "rw-register")
    assert found.valid == "true"
    assert outcome([found]) is Outcome.INCONCLUSIVE
    assert "the order of versions of 1 key, which may follow from more than was looked at" in reasons(found)


def test_an_allowance_that_suffices_is_not_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saturation, "WORK", 1)
    assert "more than was looked at" in reasons(judge(REREAD.replace(":r :z 1", ":r :z 2"), "rw-register"))
    monkeypatch.undo()
    assert "more than was looked at" not in reasons(judge(REREAD.replace(":r :z 1", ":r :z 2"), "rw-register"))


def test_pairs_of_real_time_that_are_too_many_are_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds of transactions: all of the first completed before any of the second began, each with each."""
    rounds = [range(3), range(3, 6)]
    lines = [f"{each} {kind} [[:w :x {each}]]" for some in rounds for kind in ("invoke", "ok") for each in some]
    text = "\n".join([*lines, "6 invoke [[:r :x nil] [:w :y 1]]", "6 ok [[:r :x 5] [:w :y 1]]"])
    options: dict[str, Any] = {"consistency_models": ["serializable"], "linearizable_keys": True}
    assert not any("pairs of versions" in each.sentence for each in judge(text, "rw-register", **options).inconclusive)
    monkeypatch.setattr(version_orders, "PAIRS", 8)
    found = judge(text, "rw-register", **options)
    assert any("what is assumed of 1 key: more than" in each.sentence for each in found.inconclusive)


@pytest.mark.parametrize(
    ("reads", "cited"),
    [
        (["[7 7]"], [[7]]),
        (["[7 8 7]"], [[7]]),
        (["[1 9 8 9 8]", "[1 9 8]", "[1 9 8 9]"], [[9], [9]]),
        (["[1 7 1 7]"], [[1]]),
        (["[1 2 3]", "[7 7]"], [[7]]),
        (["[7 8 9]", "[7 8]"], []),
    ],
)
def test_an_element_that_was_never_appended_is_a_duplicate_if_a_list_has_it_twice(
    reads: list[str], cited: list[list[int]]
) -> None:
    """Read uncommitted allows reads of what was never appended, but no list with an element twice."""
    text = "0 invoke [[:append :x 1]]\n0 ok [[:append :x 1]]\n0 invoke [[:r :x nil]]\n0 ok [[:r :x [1]]]\n"
    text += "".join(f"{at} invoke [[:r :x nil]]\n{at} ok [[:r :x {read}]]\n" for at, read in enumerate(reads, 1))
    found = judge(text, consistency_models=["read-uncommitted"])
    assert found.valid == ("false" if cited else "true")
    anomalies = found.evidence.get("anomalies", {})
    assert [each["values"] for each in anomalies.get("duplicate-elements", [])] == cited
    assert "unverified" not in found.evidence


def test_the_shortest_list_that_has_an_element_twice_is_named() -> None:
    """The longest list ends with another element that it has twice; a shorter one has the first of them.

    The second 1 is no append that the shorter list lacks: taken for one, it was an edge that nothing explains.
    """
    text = """
    0 invoke [[:append :x 1] [:append :x 2]]
    0 ok     [[:append :x 1] [:append :x 2]]
    1 invoke [[:r :x nil]]
    1 ok     [[:r :x [1 2 2]]]
    2 invoke [[:r :x nil]]
    2 ok     [[:r :x [1 2 2 1]]]
    """
    found = judge(text, consistency_models=["read-uncommitted"])
    assert found.figures["duplicate-elements"] == 2
    cited = [each["values"] for each in found.evidence["anomalies"]["duplicate-elements"]]
    assert cited == [[2], [2]]


@pytest.mark.parametrize(
    ("mops", "count"),
    [
        ("[:r :x [1]] [:append :x 1]", 1),
        ("[:r :x [1]] [:r :x [1]] [:append :x 1]", 2),
        ("[:r :x []] [:append :x 1] [:r :x [1]]", 0),
        ("[:append :x 1] [:r :x [1 2]] [:append :x 2]", 1),
        ("[:r :x [9 1]] [:append :x 9] [:append :x 1]", 1),
    ],
)
def test_reads_of_what_their_own_transaction_appends_later_are_counted(mops: str, count: int) -> None:
    blank = mops.replace("[1 2]", "nil").replace("[9 1]", "nil").replace("[1]]", "nil]").replace("[]", "nil")
    text = f"""
    0 invoke [{blank}]
    0 ok     [{mops}]
    1 invoke [[:r :x nil] [:append :y 1]]
    1 ok     [[:r :x [1 2]] [:append :y 1]]
    """
    found = judge(text, consistency_models=["serializable"])
    assert found.figures.get("future-read", 0) == count


@pytest.mark.parametrize("asked", ['"ab"', "[[:r]]", "[:r :x]", "{:a 1}", "3"])
def test_what_an_invocation_holds_of_a_transaction_that_committed_may_be_anything(asked: str) -> None:
    found = judge(f"0 invoke {asked}\n0 ok [[:r :x [1]]]")
    assert found.anomalies == ("garbage-read",)


def test_lists_that_are_appended_are_values_like_others() -> None:
    appended = "0 invoke [[:append :x [1 2]]]\n0 ok [[:append :x [1 2]]]\n"
    assert (
        judge(f"{appended}1 invoke [[:r :x nil] [:append :x []]]\n1 ok [[:r :x [[1 2]]] [:append :x []]]").valid
        == "true"
    )
    assert judge(f"{appended}1 invoke [[:r :x nil]]\n1 ok [[:r :x [[1 3]]]]").valid == "false"


def test_a_read_may_lack_its_place_for_a_result_if_it_found_nothing() -> None:
    rows = "0 invoke [[:w :c 1]]\n0 ok [[:w :c 1]]\n0 invoke [[:r :c] [:w :b 2]]\n0 ok [[:r :c] [:w :b 2]]"
    found = judge(rows, "rw-register", consistency_models=["causal"])
    assert found.anomalies == ("causal-violation-process", "fractured-read-process")
