"""What the checker `session` finds, how it says it, and on which evidence it rests."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.sessions import Sessions
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from tests.checkers.support import Script
from tests.checkers.weaker.support import history

LINEARIZABLE = {"linearizable_writes": True}


def judge(*processes: str, **options: Any) -> Verdict:
    return Sessions().check(to_table(history(*processes)), options)


@pytest.mark.parametrize(
    ("processes", "anomalies"),
    [
        (["x=1 x:"], ("read-your-writes",)),
        (["x=1", "x:1 x:"], ("monotonic-reads",)),
        (["x=1 x=2 x:1"], ("read-your-writes", "monotonic-writes")),
        (["x=1", "x=2", "x:1 x:2", "x:2 x:1"], ("monotonic-reads",)),
        (["x=1", "x:1 x=2", "x:2 x:1"], ("monotonic-reads", "writes-follow-reads")),
        (["x=1 x=2", "x:2 x:1"], ("monotonic-reads", "monotonic-writes")),
        (["x=1 y=1", "y=2 x=2", "x:2 x:1", "y:1 y:2"], ("monotonic-reads", "monotonic-writes")),
        (
            ["x=1", "z=2 y=1", "x:1 y:1 z=1", "z:1 z:2"],
            ("monotonic-reads", "monotonic-writes", "writes-follow-reads"),
        ),
        (["x=1", "x:1>2", "x:2 x:1"], ("monotonic-reads",)),
        (["x:1"], ("thin-air-read",)),
    ],
)
def test_each_guarantee_that_no_order_of_the_writes_fulfils_is_named(
    processes: list[str], anomalies: tuple[str, ...]
) -> None:
    assert judge(*processes).anomalies == anomalies


@pytest.mark.parametrize(
    "processes",
    [
        ["x=1", "x=2", "x:2 x:1"],
        ["x=1 x=2", "x:1 x:2", "x:1 x:1"],
        ["x=1", "y=1", "x:1 x:1 y:", "y:1 x:"],
        ["x=1 x=2?", "x:1 x:2", "x:1"],
        ["x=1", "x:1 x:1>2 x:2", "x:1 x:2"],
    ],
)
def test_what_an_order_fulfils_is_true(processes: list[str]) -> None:
    assert judge(*processes).valid == "true"


def test_real_time_is_evidence_only_where_writes_are_linearizable() -> None:
    back = ["x=1", "x=2", "x:2 x:1"]
    assert judge(*back).valid == "true"
    found = judge(*back, **LINEARIZABLE)
    assert found.anomalies == ("monotonic-reads",)
    assert found.evidence["because"] == [
        "process 2 read 2 of key 'x' (op 5, 0.000 s) and later read 1 of key 'x' (op 7, 0.000 s)",
        (
            "the write of 1 of key 'x' (op 1) was acknowledged at 0.000 s, before the write of 2 of key 'x' (op 3) was "
            "invoked at 0.000 s"
        ),
    ]
    assert "linearizable" in found.evidence["assumes"]


def test_the_sentence_names_ops_processes_nodes_and_times() -> None:
    script = Script()
    script.call(0, "write", 1, key="a")
    script.call(1, "write", 2, key="a")
    script.call(2, "read-local", result=2, key="a")
    script.call(2, "read-local", result=1, key="a")
    found = Sessions().check(script.table(), LINEARIZABLE)
    assert found.sentence == (
        "Monotonic reads violated: process 2 read 2 of key 'a' (read-local, op 5, n3, 0.500 s) and later read 1 of key "
        "'a' (read-local, op 7, n3, 0.700 s), but the write of 1 of key 'a' (op 1) came before the write of 2 of key "
        "'a' (op 3): the write of 1 of key 'a' (op 1) was acknowledged at 0.100 s, before the write of 2 of key 'a' "
        "(op 3) was invoked at 0.200 s."
    )
    assert found.evidence["ops"] == [1, 3, 5, 7]
    assert [op["process"] for op in found.evidence["witness"]] == [0, 1, 2, 2]


def test_a_crashed_write_that_was_read_comes_before_what_was_written_after_that() -> None:
    script = Script()
    script.call(0, "write", 1, how="info")
    script.call(1, "read", result=1)
    script.call(2, "write", 2)
    script.call(3, "read", result=2)
    script.call(3, "read", result=1)
    found = Sessions().check(script.table(), LINEARIZABLE)
    assert found.anomalies == ("monotonic-reads",)
    assert "the write of 1 (op 0) was read at 0.300 s, before the write of 2 (op 5) was invoked" in found.sentence


def test_a_crashed_write_may_take_effect_later_than_what_was_written_after_it() -> None:
    script = Script()
    script.call(0, "write", 1, how="info")
    script.call(2, "write", 2)
    script.call(3, "read", result=2)
    script.call(3, "read", result=1)
    assert Sessions().check(script.table(), LINEARIZABLE).valid == "true"


def test_a_read_of_a_failed_write_is_an_aborted_read() -> None:
    script = Script()
    script.call(0, "write", 7, key="a", how="fail")
    script.call(1, "read", result=7, key="a")
    found = Sessions().check(script.table(), {})
    assert found.anomalies == ("aborted-read",)
    assert found.sentence == (
        "Aborted read: process 1 read 7 of key 'a' (op 3, n2, 0.300 s), which only a write that failed had written "
        "(op 0, process 0)."
    )


def test_a_read_of_a_failed_compare_and_set_is_one_too() -> None:
    script = Script()
    script.call(0, "cas", [None, 7], how="fail")
    script.call(1, "read", result=7)
    assert Sessions().check(script.table(), {}).anomalies == ("aborted-read",)


def test_a_value_that_is_written_only_after_it_was_read_comes_from_nowhere() -> None:
    script = Script()
    script.call(0, "read", result=7)
    script.call(1, "write", 7)
    assert Sessions().check(script.table(), {}).anomalies == ("thin-air-read",)


def test_reads_of_a_value_that_several_ops_wrote_are_left_out_and_leave_it_open() -> None:
    found = judge("x=1 x=2 x=1", "x:2 x:1 x:1")
    assert (found.valid, found.figures["ambiguous_reads"]) == ("unknown", 2)
    assert "2 of 3 reads returned a value that several ops may have written" in found.sentence
    assert judge("x=1 x=1 x:1", "x:2").valid == "false"


def test_a_value_that_was_written_again_only_later_is_not_ambiguous() -> None:
    script = Script()
    script.call(0, "write", 1)
    script.call(1, "read", result=1)
    script.call(1, "read")
    script.call(0, "write", 1)
    assert Sessions().check(script.table(), {}).anomalies == ("monotonic-reads",)


def test_a_run_in_which_no_session_did_two_related_things_proves_nothing() -> None:
    found = judge("x=1", "x:1")
    assert (found.valid, found.inconclusive[0].code) == ("unknown", "no-occasion")


def test_a_run_without_a_read_proves_nothing() -> None:
    found = judge("x=1 x=2 y=3", "x=4 y=5")
    assert (found.valid, found.inconclusive[0].code) == ("unknown", "no-occasion")
    assert "no read was answered" in found.sentence


def test_a_connection_ends_with_a_failed_op_where_sessions_are_connections() -> None:
    script = Script()
    script.call(0, "write", 1)
    script.call(1, "read", result=1)
    script.call(1, "read", how="fail")
    script.call(1, "read")
    assert Sessions().check(script.table(), {}).anomalies == ("monotonic-reads",)
    assert Sessions().check(script.table(), {"sessions": "connection"}).valid == "unknown"


def of_modes(first: str, second: str, *, terms: tuple[int, int] = (1, 1), **options: Any) -> str:
    """Whether a session may see a value in one mode, and nothing in another one later."""
    script = Script()
    script.call(0, "write", 1, term=1)
    for f, result, term in ((first, 1, terms[0]), (second, None, terms[1])):
        script.event(1, "invoke", f)
        script.event(1, "ok", f, result, term=term)
    script.call(1, first, result=1, term=9)
    return Sessions().check(script.table(), options).valid


def test_a_mode_follows_only_the_functions_that_it_promises_to_follow() -> None:
    follows = {"read": ["read-local"], "read-local": ["read-local"]}
    assert of_modes("read-local", "read", follows=follows) == "false"
    assert of_modes("read", "read-local", follows=follows) == "true"
    assert of_modes("read-local", "read-local", follows=follows) == "false"


def test_a_function_that_is_left_out_promises_nothing() -> None:
    assert of_modes("read-local", "read-local", follows={"read": []}) == "unknown"


def test_reads_of_one_term_follow_only_those_of_the_same_term() -> None:
    options: dict[str, Any] = {"follows": {"read-leader": []}, "same_term": ["read-leader"]}
    assert of_modes("read-leader", "read-leader", terms=(3, 3), **options) == "false"
    assert of_modes("read-leader", "read-leader", terms=(3, 4), **options) == "unknown"
    assert of_modes("read-leader", "read-leader", terms=(4, 3), **options) == "unknown"


def test_a_write_that_failed_and_was_invoked_only_after_the_read_explains_nothing() -> None:
    script = Script()
    script.call(1, "read", result=7)
    script.call(0, "write", 7, how="fail")
    assert Sessions().check(script.table(), {}).anomalies == ("thin-air-read",)


def test_what_a_compare_and_set_found_is_a_read_too_also_if_it_crashed_and_its_value_was_read() -> None:
    script = Script()
    script.call(0, "write", 7, how="fail")
    script.call(1, "cas", [7, 8])
    assert Sessions().check(script.table(), {}).anomalies == ("aborted-read",)
    crashed = Script()
    crashed.call(0, "cas", [5, 8], how="info")
    crashed.call(1, "read", result=8)
    found = Sessions().check(crashed.table(), {})
    assert (found.anomalies, found.evidence["ops"]) == (("thin-air-read",), [3])


def test_of_several_findings_the_one_that_was_complete_first_speaks_and_all_are_named() -> None:
    found = judge("x=1 x: z:9", "y=1 y:")
    assert found.anomalies == ("read-your-writes", "thin-air-read")
    assert found.sentence.startswith("Read your writes violated: process 0 wrote 1 of key 'x'")
    assert found.sentence.endswith("(2 more findings)")
    assert found.figures["findings"] == {"read-your-writes": 2, "thin-air-read": 1}


def test_circles_that_have_nothing_in_common_are_findings_of_their_own() -> None:
    found = judge("x=1 x=2 x:1", "y=1 y=2 y:1")
    assert found.figures["findings"] == {"read-your-writes": 2, "monotonic-writes": 2}


def test_sentences_say_what_was_read_and_what_was_written() -> None:
    assert judge("x=1 x:").sentence == (
        "Read your writes violated: process 0 wrote 1 of key 'x' (op 1, 0.000 s) and later read the initial value of "
        "key 'x' (op 3, 0.000 s)."
    )
    follows = judge("x=1", "x:1 x=2", "x:2 x:1").sentence
    assert "process 1 read 1 of key 'x' (op 3, 0.000 s) and later wrote 2 of key 'x' (op 5, 0.000 s)" in follows


def test_a_circle_begins_with_a_guarantee_and_names_what_a_compare_and_set_left() -> None:
    found = judge("x=1", "x:1>2", "x:2 x:1")
    assert found.sentence.startswith("Monotonic reads violated: process 2 read 2 of key 'x'")
    assert "but the write of 1 of key 'x' (op 1) came before the write of 2 of key 'x' (op 3)" in found.sentence
    assert "process 1 replaced 1 by 2 of key 'x' (op 3, 0.000 s)" in found.sentence


def test_compares_and_sets_that_found_each_others_values_are_writes_that_follow_reads() -> None:
    script = Script()
    script.event(0, "invoke", "cas", [1, 2])
    script.event(1, "invoke", "cas", [2, 1])
    script.event(0, "ok", "cas", [1, 2])
    script.event(1, "ok", "cas", [2, 1])
    assert Sessions().check(script.table(), {}).anomalies == ("writes-follow-reads",)


def test_real_time_over_other_writes_is_said_of_the_write_that_came_first() -> None:
    script = Script()
    for process, value in enumerate((1, 5, 6, 2)):
        script.call(process, "write", value)
    script.call(4, "read", result=2)
    script.call(4, "read", result=1)
    found = Sessions().check(script.table(), LINEARIZABLE)
    assert (
        "the write of 1 (op 1) was acknowledged at 0.100 s, before the write of 2 (op 7) was invoked at 0.600 s"
        in found.sentence
    )
    assert found.evidence["ops"] == [1, 7, 9, 11]


def test_a_long_value_is_cut_in_a_sentence() -> None:
    script = Script()
    script.call(0, "write", "v" * 100)
    script.call(0, "read")
    sentence = Sessions().check(script.table(), {}).sentence
    assert f'wrote "{"v" * 39}... (op 1' in sentence


def test_a_read_of_the_initial_value_that_was_written_again_is_ambiguous() -> None:
    script = Script()
    script.call(0, "write", 1)
    script.call(0, "write", None)
    script.call(1, "read", result=1)
    script.call(1, "read")
    found = Sessions().check(script.table(), {})
    assert (found.valid, found.figures["ambiguous_reads"]) == ("unknown", 1)


def test_the_shortest_circle_is_shown_first() -> None:
    found = judge("x=1 x=2 x=3 x=4", "x:4 x:3", "x:4 x:1")
    assert len(found.evidence["because"]) == 2


@pytest.mark.parametrize(
    "options", [{"session": "process"}, {"sessions": "thread"}, {"follows": ["read"]}, {"linearizable_writes": 1}]
)
def test_a_wrong_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"checker session: .*; it takes follows, same_term, sessions"):
        Sessions().check(to_table([]), options)


def test_ops_of_another_object_are_refused() -> None:
    script = Script()
    script.call(0, "enqueue", 1)
    with pytest.raises(UsageError, match="enqueue"):
        Sessions().check(script.table(), {})


def test_it_is_found_by_its_name_and_its_verdict_travels_as_json() -> None:
    ops = history("x=1 x:")
    (verdict,) = engine.judge(to_table(ops), [CheckerSpec("session")])
    assert (verdict.checker, verdict.valid) == ("session", "false")


def test_a_long_history_takes_one_pass_even_if_everything_is_in_one_circle() -> None:
    reads = " ".join(f"x:{value}" for value in range(3000, 0, -1))
    writes = " ".join(f"x={value}" for value in range(1, 3001))
    found = judge(writes, reads)
    assert found.anomalies == ("monotonic-reads", "monotonic-writes")
    assert len(found.evidence["because"]) == 2


def test_a_process_that_goes_on_after_an_op_of_unknown_outcome_is_another_session() -> None:
    script = Script()
    script.call(0, "write", 1, key="x")
    script.call(0, "read", None, 1, key="x")
    script.call(0, "write", 2, how="info", key="x")
    script.call(0, "write", 3, key="x")
    script.call(1, "read", None, 3, key="x")
    script.call(1, "read", None, 2, key="x")  # 2 took effect late
    verdict = Sessions().check(script.table(), {})
    assert (verdict.valid, verdict.figures["sessions"]) == ("true", 3), verdict.sentence


@pytest.mark.parametrize("asked", [None, 3, "ab", [1], {"value": 1}])
def test_a_compare_and_set_that_failed_and_was_none_says_nothing(asked: Any) -> None:
    script = Script()
    script.call(0, "cas", asked, how="fail")
    script.call(1, "write", 1)
    script.call(1, "read", None, 7)
    [verdict] = engine.judge(to_table(script.ops), [CheckerSpec("session", {})])
    assert verdict.anomalies == ("thin-air-read",)
