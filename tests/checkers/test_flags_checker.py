"""The verdict on feature flags: against every pair of answers of small histories, and by hand."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from splitbrain.checkers.flags import Flags
from splitbrain.checkers.registry import checker
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.history import Op, pairs
from tests.checkers.support import Script

NEEDS = {4: [3]}


def judge(script: Script, **options: Any) -> Verdict:
    return Flags().check(to_table(script.ops), options)


def said(*enabled: int, changing: tuple[int, ...] = ()) -> dict[str, Any]:
    needs = [[flag, *needed] for flag, needed in NEEDS.items()]
    return {"enabled": sorted(enabled), "changing": sorted(changing), "needs": needs}


def listed(script: Script, process: int, *enabled: int, changing: tuple[int, ...] = (), rest: bool = False) -> None:
    script.call(process, "list-flags", True if rest else None, said(*enabled, changing=changing))


def at_rest(script: Script, *enabled: int) -> Script:
    for process in range(3):
        listed(script, process, *enabled, rest=True)
    return script


def test_it_is_registered() -> None:
    assert isinstance(checker("flags"), Flags)


def test_flags_that_nodes_enable_one_after_the_other_are_well() -> None:
    script = Script(3)
    script.call(0, "enable-flag", 1)
    listed(script, 1, changing=(1,))
    listed(script, 2, 1)
    verdict = judge(at_rest(script, 1))
    assert (verdict.valid, verdict.figures["at_rest"]) == ("true", 3), verdict.sentence


@pytest.mark.parametrize("by", ["answer", "request"])
def test_a_node_that_says_disabled_once_a_flag_is_known_to_be_enabled_is_named(by: str) -> None:
    script = Script(3)
    script.call(0, "enable-flag", 1, how="ok" if by == "request" else "info")
    if by == "answer":
        listed(script, 1, 1)
    listed(script, 2)
    verdict = judge(script)
    assert verdict.anomalies == ("subset",)
    assert "n3 at" in verdict.sentence


def test_a_flag_that_was_enabled_and_changes_again_on_its_node_was_disabled() -> None:
    script = Script(3)
    script.call(0, "enable-flag", 1)
    listed(script, 1, 1)
    listed(script, 1, changing=(1,))
    assert judge(script).anomalies == ("disabled-again",)


def test_a_flag_without_what_it_depends_on() -> None:
    script = Script(3)
    script.call(0, "enable-flag", 4, how="info")
    listed(script, 1, 4)
    assert judge(script).anomalies == ("dependency",)


def test_a_refused_request_enables_nothing_but_what_its_flag_depends_on() -> None:
    script = Script(3)
    script.call(0, "enable-flag", 4, how="fail")
    assert judge(at_rest(script, 3)).valid == "true"
    script = Script(3)
    script.call(0, "enable-flag", 1, how="fail")
    assert judge(at_rest(script, 1)).anomalies == ("unasked",)


@pytest.mark.parametrize("how", ["ok", "fail"])
def test_a_request_enables_what_its_flag_depends_on_by_another_one(how: Any) -> None:
    script = Script(3)
    script.call(0, "enable-flag", 5, how=how)
    needs = [[5, 4], [4, 3]]
    for process in range(3):
        answer = {"enabled": [3, 4, 5] if how == "ok" else [3], "changing": [], "needs": needs}
        script.call(process, "list-flags", True, answer)
    assert judge(script).valid == "true"


def test_nodes_that_differ_at_rest_disagree() -> None:
    script = Script(3)
    script.call(0, "enable-flag", 4, how="fail")  # which may have enabled flag 3
    listed(script, 0, rest=True)
    listed(script, 1, 3, rest=True)
    verdict = judge(script)
    assert verdict.anomalies == ("disagreement",)
    assert "n2 at" in verdict.sentence
    assert "n1 at" in verdict.sentence


@pytest.mark.parametrize("asked", [3, 4])
def test_a_request_without_an_answer_may_take_effect_between_the_answers_of_two_nodes_at_rest(asked: int) -> None:
    """Its controller heard of the last member only then, as that had been down."""
    script = Script(3)
    script.call(0, "enable-flag", asked, how="info")
    listed(script, 0, rest=True)
    listed(script, 1, 3, rest=True)
    assert judge(script).valid == "true"
    listed(script, 0, rest=True)
    assert set(judge(script).anomalies) == {"subset", "disagreement"}, "the next answer of the first one decides"


def _changes_at_last(script: Script, process: int, changing: int, *enabled: int, times: int) -> None:
    """Ask so often; each time takes 0.2 s."""
    for _ in range(times):
        script.event(process, "invoke", "list-flags", True)
        script.event(
            process, "fail", "list-flags", said(*enabled, changing=(changing,)), error="flags still change here"
        )


@pytest.mark.parametrize(
    ("times", "others_answer", "anomalies"),
    [(77, True, ("half-way",)), (74, True, ()), (77, False, ())],
    ids=["for ever", "not for long", "a node is down"],
)
def test_a_flag_that_changes_for_ever_on_a_node_is_half_way(
    times: int, others_answer: bool, anomalies: tuple[str, ...]
) -> None:
    script = Script(3)
    script.call(0, "enable-flag", 1, how="info")
    for process in (0, 1) if others_answer else (0,):
        listed(script, process, rest=True)
    script.call(1, "list-flags")
    _changes_at_last(script, 2, 1, times=times)
    verdict = judge(script)
    assert verdict.anomalies == anomalies
    assert verdict.valid == ("false" if anomalies else "unknown")


def test_flags_that_change_one_after_the_other_are_not_half_way() -> None:
    script = Script(3)
    script.call(0, "enable-flag", 1)
    for process in (0, 1):
        listed(script, process, 1, rest=True)
    for flag in (3, 4):
        _changes_at_last(script, 2, flag, 1, times=70)
    assert judge(script).anomalies == ()


def test_a_run_that_shows_nothing_is_unknown() -> None:
    assert judge(at_rest(Script(3))).valid == "unknown"
    script = Script(3)
    script.call(0, "enable-flag", 1)
    listed(script, 1, 1)
    assert judge(script).valid == "unknown"


@pytest.mark.parametrize(("f", "answer", "op"), [("list-flags", {"enabled": 3}, 1), ("enable-flag", None, 0)])
def test_values_of_another_shape_are_refused_with_their_op(f: str, answer: Any, op: int) -> None:
    script = Script()
    script.event(0, "invoke", f, [1])
    script.event(0, "ok", f, answer)
    with pytest.raises(HistoryFormatError, match=f"op {op}: this cannot be the value of '{f}'"):
        judge(script)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(UsageError, match="checker flags"):
        judge(Script(), f="x")


def test_answers_that_name_no_node_are_not_taken_for_those_of_one() -> None:
    ops: list[Op] = []
    for enabled in (True, False):
        answer = said(3) if enabled else said(changing=(3,))
        ops += [Op(process=0, type="invoke", f="list-flags"), Op(process=0, type="ok", f="list-flags", value=answer)]
    ask = [Op(process=0, type="invoke", f="enable-flag", value=3), Op(process=0, type="ok", f="enable-flag", value=3)]
    script = Script()
    script.ops = [structs.replace(op, index=index, time=index) for index, op in enumerate([*ask, *ops])]
    assert judge(script).valid != "false"


def test_thousands_of_answers_at_rest_cost_little() -> None:
    script = Script(3)
    script.call(0, "enable-flag", 1)
    for number in range(3000):
        listed(script, number % 3, 1, rest=True)
    began_s = process_time()
    assert judge(script).valid == "true"
    assert process_time() - began_s < 2


# --- against the definition ---------------------------------------------------------------------------------------

STATES = st.lists(st.sampled_from(["disabled", "changing", "enabled"]), min_size=2, max_size=2)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("list"), st.integers(0, 2), STATES, st.booleans()),
        st.tuples(
            st.just("enable"), st.integers(0, 2), st.sampled_from([3, 4]), st.sampled_from(["ok", "info", "fail"])
        ),
    ),
    max_size=7,
)


def script_of(events: list[Any], overlapping: list[bool]) -> Script:
    """Each event is one op; where it overlaps, it begins before the one in front of it ends."""
    script = Script(3)
    open_ops: list[tuple[int, str, Any, Any, Any]] = []

    def close() -> None:
        while open_ops:
            process, f, value, result, how = open_ops.pop(0)
            script.event(process, how, f, result if how == "ok" else value)

    for event, overlaps in zip(events, overlapping, strict=False):
        kind, process, what, more = event
        if not overlaps or process in [each[0] for each in open_ops]:
            close()
        if kind == "list":
            flags = dict(zip((3, 4), what, strict=True))
            enabled = [flag for flag, state in flags.items() if state == "enabled"]
            changing = tuple(flag for flag, state in flags.items() if state == "changing")
            value, result, how = more or None, said(*enabled, changing=changing), "ok"
            f = "list-flags"
        else:
            f, value, result, how = "enable-flag", what, what, more
        script.event(process, "invoke", f, value)
        open_ops.append((process, f, value, result, how))
    close()
    return script


def naive(ops: list[Op]) -> set[str]:
    """Every pair of ops against the definition of each anomaly."""
    calls = [(pair.invoke, pair.completion) for pair in pairs(ops) if pair.completion is not None]
    lists = [(begin, end) for begin, end in calls if begin.f == "list-flags"]
    asks = [(begin, end) for begin, end in calls if begin.f == "enable-flag"]
    found: set[str] = set()
    for begin, end in lists:
        for flag in (3, 4):
            is_enabled, is_changing = flag in end.value["enabled"], flag in end.value["changing"]
            before = [each for _, each in lists if each.index < begin.index and flag in each.value["enabled"]]
            acks = [e for b, e in asks if e.index < begin.index and e.type == "ok" and b.value == flag]
            if (before or acks) and not is_enabled and not is_changing:
                found.add("subset")
            if any(each.node == end.node for each in before) and not is_enabled:
                found.add("disabled-again")
            causes = [b for b, e in asks if b.index < end.index and b.value == flag and e.type != "fail"]
            causes += [b for b, _ in asks if b.index < end.index and flag == 3 and b.value == 4]
            if is_enabled and not causes:
                found.add("unasked")
            for other, other_end in lists:
                if begin.value and other.value and not is_enabled and flag in other_end.value["enabled"]:
                    effects = [
                        b
                        for b, e in asks
                        if (b.value == flag or (flag, b.value) == (3, 4))
                        and b.index < other_end.index
                        and (e.type == "info" or e.index > begin.index)
                    ]
                    if other_end.index < begin.index or not effects:
                        found.add("disagreement")
        if 4 in end.value["enabled"] and 3 not in end.value["enabled"]:
            found.add("dependency")
    return found


@settings(max_examples=200, deadline=None)
@given(EVENTS, st.lists(st.booleans(), min_size=7, max_size=7))
def test_it_finds_what_the_definition_finds(events: list[Any], overlapping: list[bool]) -> None:
    script = script_of(events, overlapping)
    assert set(judge(script).anomalies) == naive(script.ops)
