"""The verdict on clusters that form: against the definition on small histories, and by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.one_cluster import OneCluster
from splitbrain.checkers.registry import checker
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.history import HARNESS
from tests.checkers.support import Script


def judge(script: Script, **options: Any) -> Verdict:
    return OneCluster().check(to_table(script.ops), options)


def says(
    script: Script, process: int, *members: str, founded: bool = False, done: bool = True, rest: bool = False
) -> None:
    value = {"phase": "done" if done else "looks", "founded": founded, "members": list(members), "problem": ""}
    script.call(process, "ask-formation", "at rest" if rest else None, value)


def test_it_is_registered() -> None:
    assert isinstance(checker("one-cluster"), OneCluster)


def test_a_cluster_that_grows_is_one() -> None:
    script = Script(3)
    says(script, 1, done=False)
    says(script, 0, "n1", founded=True)
    says(script, 1, "n1", "n2")
    script.event(HARNESS, "info", "halt", {"node": "n3", "exit": "FormationError: no other node answers"})
    for process in (0, 1, 2):
        says(script, process, "n1", "n2", "n3", rest=True)
    verdict = judge(script)
    assert (verdict.valid, verdict.figures["gave_up"]) == ("true", 1), verdict.sentence


def test_two_founders_are_two_clusters() -> None:
    script = Script(3)
    says(script, 0, "n1", founded=True)
    says(script, 1, "n1", "n2", founded=True)
    verdict = judge(script)
    assert verdict.anomalies == ("two-clusters",)
    assert "n1 at" in verdict.sentence
    assert "n2 at" in verdict.sentence


def test_members_that_have_none_in_common_are_split() -> None:
    script = Script(4)
    says(script, 0, "n1", "n2")
    says(script, 2, "n3", "n4")
    assert judge(script).anomalies == ("split",)


def test_an_addition_may_be_taken_back_while_nodes_look_and_not_at_rest() -> None:
    script = Script(3)
    says(script, 0, "n1", "n2")
    says(script, 0, "n1", "n3")
    assert judge(script).valid == "unknown"
    says(script, 0, "n1", "n2", rest=True)
    says(script, 2, "n1", "n3", rest=True)
    assert judge(script).anomalies == ("split",)


def test_a_node_that_looks_no_more_and_is_in_no_cluster_is_left_out_only_at_rest() -> None:
    script = Script(3)
    says(script, 1)
    assert judge(script).valid == "unknown"
    says(script, 1, rest=True)
    assert judge(script).anomalies == ("left-out",)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(UsageError, match="checker one-cluster"):
        judge(Script(), f="x")


@pytest.mark.parametrize("answer", [3, None, {"phase": "done"}, {"phase": "done", "founded": 1, "members": ["n1"]}])
def test_an_answer_of_another_shape_is_refused_with_its_op(answer: Any) -> None:
    script = Script()
    script.event(0, "invoke", "ask-formation")
    script.event(0, "ok", "ask-formation", answer)
    with pytest.raises(HistoryFormatError, match="op 1: this cannot be the value of 'ask-formation'"):
        judge(script)


ANSWER = st.tuples(
    st.integers(0, 3),
    st.sets(st.sampled_from(["n1", "n2", "n3", "n4"]), max_size=3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(ANSWER, max_size=6))
def test_it_finds_what_the_definition_finds(answers: list[tuple[int, set[str], bool, bool, bool]]) -> None:
    script = Script(4)
    expected: set[str] = set()
    for process, members, founded, done, rest in answers:
        says(script, process, *sorted(members), founded=founded, done=done, rest=rest)
        if rest and done and not members:
            expected.add("left-out")
        for other, others, also_founded, _, also_rests in answers:
            if founded and also_founded and process != other:
                expected.add("two-clusters")
            nested = members <= others or others <= members
            if members and others and (not members & others or (rest and also_rests and not nested)):
                expected.add("split")
    assert set(judge(script).anomalies) == expected
