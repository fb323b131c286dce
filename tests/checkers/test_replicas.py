"""The checker of maintained replicas: small histories, one for each rule, and a naive judge beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from splitbrain.checkers.replicas import Replicas
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import from_table, to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op

OPTIONS = {"target": 3, "settle_s": 0, "quiet_s": 3}
CLUSTER = ["n1", "n2", "n3", "n4", "n5"]
S = 1_000_000_000

Line = tuple[str, Any]


def look(
    members: str, last: int, change: list[Any] | None = None, changes: Sequence[list[Any]] = (), cluster: str = "12345"
) -> Line:
    """A look that finds these members; each digit stands for a node."""
    found = {
        "members": [f"n{each}" for each in members],
        "cluster": [f"n{each}" for each in cluster],
        "last": last,
        "change": change,
        "changes": list(changes),
    }
    return "look", found


def change(number: int, kind: str, node: int, by: str = "automation", outcome: str | None = "done") -> list[Any]:
    return [number, kind, f"n{node}", by, outcome]


FAULT: Line = ("fault", None)
"""A fault is in force until the next line."""


def history(*lines: Line) -> pa.Table:
    """One op after the other, a second each."""
    ops: list[Op] = []

    def add(**fields: Any) -> None:
        ops.append(Op(index=len(ops), **fields))

    time = 0
    faults = 0
    for f, value in lines:
        time += S
        if f == "fault":
            faults += 1
            add(time=time, process=-1, type="invoke", f="kill", value={"node_spec": "one"})
            add(time=time + 1, process=-1, type="info", f="kill", value={"n5": "killed"})
            continue
        if f == "away":  # for so many seconds
            for action, at in (("start", time), ("stop", time + value * S)):
                said = {"fault": "kill", "action": action, "target": "n5"}
                add(time=at, process=-1, type="invoke", f="kill", value=said)
                add(time=at + 1, process=-1, type="ok", f="kill", value=said)
            time += value * S
            continue
        key = "q" if f.startswith(("look", "enqueue")) else None
        asked = None if f == "look" else value
        end = {"?": "info", "!": "fail"}.get(f[-1], "ok")  # of unknown outcome, or refused
        f = f.rstrip("?!")
        process = value if f == "enqueue" else 1
        add(time=time, process=process, type="invoke", f=f, key=key, value=asked, node="n1")
        add(time=time + S // 2, process=process, type=end, f=f, key=key, value=value, node="n1")
    return to_table(ops)


def judged(*lines: Line) -> Verdict:
    return Replicas().check(history(*lines), OPTIONS)


REST = [look("123", 0)] * 5

GROWN = change(1, "grow", 4)

ok: Line = ("enqueue", 3)
no: Line = ("enqueue!", 2)
"""What processes 3 and 2 put into the queue."""

CASES: dict[str, tuple[list[Line], tuple[str, ...]]] = {
    "nothing happens": (REST, ()),
    "short": ([look("12", 0)] * 6, ("short",)),
    "as many as there are": ([look("12", 0, cluster="12")] * 6, ()),
    "short, as a drained node takes none": (
        [*(("drain", f"n{each}") for each in (3, 4, 5)), *[look("12", 0)] * 6],
        (),
    ),
    "short, as one that may be drained takes none": (
        [("drain?", "n3"), ("drain", "n4"), ("drain", "n5"), *[look("12", 0)] * 6],
        (),
    ),
    "short, and one was revived": (
        [*(("drain", f"n{each}") for each in (3, 4, 5)), ("revive", "n5"), *[look("12", 0)] * 6],
        ("short",),
    ),
    "short, and one was revived perhaps": (
        [*(("drain", f"n{each}") for each in (3, 4, 5)), ("revive?", "n5"), *[look("12", 0)] * 6],
        (),
    ),
    "short, as a node has just left": ([*[look("123", 0)] * 6, look("123", 0, cluster="1245")], ()),
    "short, as a node left long ago": ([look("123", 0), *[look("123", 0, cluster="1245")] * 6], ("short",)),
    "two under way": (
        [look("1234", 2, change(2, "grow", 5, outcome=None), [change(1, "grow", 4, outcome=None)])],
        ("two",),
    ),
    "one changes two": ([look("12", 0), look("1245", 1, None, [GROWN])], ("two",)),
    "dip": ([look("123", 0), look("12", 1, None, [change(1, "shrink", 3)])], ("dip", "extra")),
    "no dip by an operator": ([look("123", 0), look("12", 1, None, [change(1, "shrink", 3, "operator")])], ()),
    "no dip of one that left": (
        [look("123", 0), look("12", 1, None, [change(1, "shrink", 3)], cluster="1245")],
        (),
    ),
    "dip beside one that left": (
        [look("1234", 0, cluster="1245"), look("123", 1, None, [change(1, "shrink", 4)], cluster="1245")],
        ("dip", "extra"),
    ),
    "drained": ([("drain", "n4"), look("12", 0), look("124", 1, None, [GROWN])], ("draining",)),
    "drained too late": ([look("12", 0), ("drain", "n4"), look("124", 1, None, [GROWN])], ()),
    "revived": ([("drain", "n4"), look("12", 0), ("revive", "n4"), look("124", 1, None, [GROWN])], ()),
    "revived before": (
        [("revive", "n4"), ("drain", "n4"), look("12", 0), look("124", 1, None, [GROWN])],
        ("draining",),
    ),
    "revived late": (
        [("revive?", "n4"), ("drain", "n4"), look("12", 0), look("124", 1, None, [GROWN])],
        (),
    ),
    "drained by an op of unknown outcome": ([("drain?", "n4"), look("12", 0), look("124", 1, None, [GROWN])], ()),
    "another was drained": ([("drain", "n5"), look("12", 0), look("124", 1, None, [GROWN])], ()),
    "exceeds": ([look("123", 0), look("1234", 1, None, [GROWN])], ("exceeds",)),
    "extras by operators": ([look("123", 0), look("1234", 1, None, [change(1, "grow", 4, "operator")])], ()),
    "a client is not served": ([look("123", 0), ok, no, no, no, *REST], ("unserved",)),
    "what was asked before the rest began does not count": ([no, look("123", 0), ok, no, no, *REST], ()),
    "what was asked under a fault does not count": ([look("123", 0), ok, no, FAULT, no, no, *REST], ()),
    "what was asked before it took anything does not count": ([look("123", 0), no, no, no, ok, no, no, *REST], ()),
    "a client is not served from then on": ([look("123", 0), no, ok, no, no, no, *REST], ("unserved",)),
    "a client was served once": ([look("123", 0), ok, no, no, no, ("enqueue", 2), *REST], ()),
    "no client was served": ([look("123", 0), no, no, no, *REST], ()),
    "a running extra is removed": ([look("1234", 0), look("123", 1, None, [change(1, "shrink", 4)])], ("extra",)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_found_and_nothing_else(case: str) -> None:
    lines, anomalies = CASES[case]
    verdict = judged(*lines)
    assert verdict.anomalies == anomalies, verdict.sentence
    assert (verdict.valid == "false") == bool(anomalies)


def hasty(*lines: Line, recovery_s: float = 6) -> tuple[str, ...]:
    return Replicas().check(history(*lines), {**OPTIONS, "settle_s": 10, "recovery_s": recovery_s}).anomalies


@pytest.mark.parametrize("number", [GROWN, change(1, "shrink", 4)])
def test_a_replica_that_is_replaced_before_its_node_was_down_for_long_enough_is_found(number: list[Any]) -> None:
    before, after = ("123", "1234") if number[1] == "grow" else ("1234", "123")
    changed = look(after, 1, None, [number])
    assert hasty(look(before, 0), FAULT, changed) == ("hasty",)
    assert hasty(look(before, 0), FAULT, changed, recovery_s=0) == ()
    assert hasty(*[FAULT] * 9, look(before, 0), FAULT, changed) == ()  # a node may have been down all the while
    assert hasty(*[FAULT] * 9, *[look(before, 0)] * 9, FAULT, changed) == ("hasty",)  # that was long ago


def test_what_is_replaced_after_a_short_fault_may_have_another_reason() -> None:
    assert hasty(look("12", 0), FAULT, look("124", 1, None, [GROWN])) == ()  # too few
    assert hasty(look("123", 0), FAULT, look("1234", 1, None, [change(1, "grow", 4, "operator")])) == ()
    left = look("1234", 1, None, [GROWN], cluster="1245")
    assert hasty(look("123", 0), FAULT, left) == ()  # n3 is no member of the cluster any more


def test_a_run_is_a_pass_only_if_it_came_to_rest_and_a_replica_was_replaced() -> None:
    replaced = [look("12", 0), look("124", 1, [*GROWN[:4], None]), *[look("124", 1, None, [GROWN])] * 6]
    assert judged(*replaced).valid == "true"
    assert judged(*replaced[:-4]).valid == "unknown"  # no rest
    assert judged(*REST).valid == "unknown"  # no need
    assert judged(("drain", "n1")).valid == "unknown"  # no look


def at_once(seen: Line, *changed: Line) -> tuple[str, ...]:
    """A look at the moment when it is asked for, whose answer comes last, and others that see what comes after that."""
    asked = Op(index=0, time=0, process=7, type="invoke", f="look", key="q", node="n1")
    before = [structs.replace(op, index=op.index + 1) for op in from_table(history(seen, *changed))]
    late = Op(index=len(before) + 1, time=9 * S, process=7, type="ok", f="look", key="q", value=seen[1], node="n1")
    return Replicas().check(to_table([asked, *before, late]), OPTIONS).anomalies


@pytest.mark.parametrize(
    ("before", "after", "made", "anomaly"),
    [("1234", "124", change(1, "shrink", 3), "extra"), ("123", "1234", GROWN, "exceeds")],
)
def test_a_member_that_left_while_a_look_was_on_its_way_did_not_stay(
    before: str, after: str, made: list[Any], anomaly: str
) -> None:
    assert at_once(look(before, 0), look(after, 1, None, [made], cluster="1245")) == ()
    assert at_once(look(before, 0), look(after, 1, None, [made])) == (anomaly,)


# --- a naive judge ----------------------------------------------------------------------------------------------------


def naive(lines: Sequence[Line]) -> set[str]:
    """What is wrong, by the words of the rules, where ops follow each other and nothing is ever at fault."""
    found: set[str] = set()
    cluster = {f"n{each}" for each in "12345"}
    looks = [(at, value) for at, (f, value) in enumerate(lines) if f == "look"]
    for at, seen in looks:
        for number, kind, member, by, _outcome in seen["changes"]:
            if by != "automation" or any(
                number in [each[0] for each in other["changes"]] for i, other in looks if i < at
            ):
                continue
            before = [(i, other) for i, other in looks if i < at and other["last"] == number - 1]
            if not before:
                continue
            members = set(before[-1][1]["members"])
            if kind == "shrink" and member in cluster:
                found.add("extra")
                if len(members - {member}) < 3:
                    found.add("dip")
            if kind == "grow" and len(members & cluster) >= 3:
                found.add("exceeds")
            if kind == "grow":
                last = None
                for i, (f, value) in enumerate(lines[:at]):
                    if value == member and f in ("drain", "revive"):
                        last = (f, i)
                if (
                    last is not None
                    and last[0] == "drain"
                    and any(last[1] < i < at and o["last"] < number for i, o in looks)
                ):
                    found.add("draining")
    return found


@st.composite
def stories(draw: st.DrawFn) -> list[Line]:
    """Looks at a queue that changes by one member at a time, with nodes drained and revived between."""
    members, last, done, lines = ["1", "2", "3"], 0, list[list[Any]](), list[Line]()
    for _ in range(draw(st.integers(1, 8))):
        what = draw(st.sampled_from(["look", "look", "change", "drain", "revive"]))
        node = draw(st.integers(1, 5))
        if what == "change":
            kind = "shrink" if str(node) in members else "grow"
            if kind == "shrink" and len(members) == 1:
                continue
            last += 1
            done.append(change(last, kind, node, draw(st.sampled_from(["automation", "operator"]))))
            members = [each for each in members if each != str(node)] + ([str(node)] if kind == "grow" else [])
        elif what == "look":
            lines.append(look("".join(members), last, None, list(done)))
        else:
            lines.append((what, f"n{node}"))
    lines.append(look("".join(members), last, None, list(done)))
    return lines


@settings(max_examples=60, deadline=None)
@given(stories())
def test_a_naive_judge_says_the_same(lines: list[Line]) -> None:
    assert set(judged(*lines).anomalies) - {"short"} == naive(lines)


def test_a_run_is_a_pass_also_if_a_fault_was_too_brief_for_a_replacement_and_there_was_none() -> None:
    brief = [("away", 4), look("123", 0), *REST]
    verdict = Replicas().check(history(look("123", 0), *brief), {**OPTIONS, "recovery_s": 6})
    assert (verdict.valid, verdict.figures["brief"], verdict.figures["replaced"]) == ("true", 1, 0)
    assert verdict.sentence.endswith("1 fault did not last for so long that a node counts as failed.")
    assert judged(look("123", 0), *brief).valid == "unknown"
    assert Replicas().check(history(look("123", 0), *brief), {**OPTIONS, "recovery_s": 3}).valid == "unknown"


def test_an_option_that_it_does_not_know_is_refused() -> None:
    with pytest.raises(UsageError, match="not quiet"):
        Replicas().check(history(*REST), {**OPTIONS, "quiet": 3})
