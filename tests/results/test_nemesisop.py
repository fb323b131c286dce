"""Values of nemesis ops: those that were recorded are read whole, and damaged ones do no harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.nemesis.catalogue import KINDS, kind_of
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import FaultOp
from splitbrain.results.history import NEMESIS, Op
from splitbrain.results.nemesisop import (
    InForce,
    Link,
    NemesisReport,
    Request,
    action_in,
    asked,
    fault_in,
    report,
    report_problem,
    said,
)

RECORDED: list[dict[str, Any]] = [
    msgspec.json.decode(line) for line in Path(__file__).with_name("nemesis_ops.jsonl").read_text().splitlines()
]
"""What simulated runs recorded of ops of every kind, when requests were dicts."""

REPORT: dict[str, Any] = {
    "fault": "kill",
    "action": "start",
    "target": "n1",
    "cut": [],
    "down": ["n1"],
    "paused": [],
}


def test_every_kind_was_recorded() -> None:
    assert {fault_in(op["value"]) for op in RECORDED} == set(KINDS)


@pytest.mark.parametrize("op", RECORDED, ids=lambda op: str(op["f"]))
def test_what_was_recorded_is_read_and_written_as_it_was(op: dict[str, Any]) -> None:
    kind, value = kind_of(op["f"]), op["value"]
    assert kind.name == fault_in(value) == fault_in(op["request"])
    if action_in(value) == "start":
        wanted = asked(op["request"], kind.request)
        assert list(wanted.order) == op["request"]["order"]
        for name in kind.fields:
            assert (getattr(wanted, name) != msgspec.UNSET) or name not in op["request"]
    assert report_problem(value) is None
    read = said(op["request"], value)
    assert (read.target, read.action) == (value["target"], value["action"])
    found = InForce(
        cut=read.cut,
        down=read.down,
        paused=read.paused,
        links=read.links or (),
        disks=read.disks,
        clocks=read.clocks,
        cpus=read.cpus,
        clients=read.clients,
    )
    assert report(op["request"], read.target, found, read.evidence.measured) == value


@pytest.mark.parametrize("name", ["fault", "action", "target", "cut", "down", "paused"])
def test_a_report_says_which_field_it_lacks(name: str) -> None:
    assert report_problem(REPORT) is None
    assert report_problem({field: value for field, value in REPORT.items() if field != name}) == f"{name} is missing"


def test_what_the_backend_could_not_say_is_left_out_of_a_report() -> None:
    value = report({"fault": "kill"}, "n1", InForce(cut=(), down=None, paused=("n2",), cpus=("n3",)), {})
    assert value == {"fault": "kill", "target": "n1", "cut": [], "paused": ["n2"], "cpus": ["n3"], "evidence": {}}


class MeteorRequest(Request, tag="meteor", frozen=True, kw_only=True):
    size_m: int


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "missing required field `size_m`"),
        ({"size_m": "large"}, r"at `\$.size_m`"),
        ({"fault": "kill", "size_m": 3}, r"'kill' - at `\$.fault`"),
        ([], "Expected `object`"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_with_its_field(value: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        asked(value, MeteorRequest)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
VALUES = JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(NemesisReport.__struct_fields__, JSON))


@pytest.mark.slow
@given(VALUES, VALUES)
def test_whatever_a_stored_value_is_reading_it_does_no_harm(invoked: Any, completed: Any) -> None:
    read = said(invoked, completed)
    nodes = [*(read.down or ()), *(read.paused or ()), *read.disks, *read.clocks, *read.cpus, *read.clients]
    links: list[Link] = [*(read.cut or ()), *(read.links or ())]
    assert all(isinstance(node, str) for node in (*nodes, *(node for link in links for node in link)))
    assert all(len(link) == 2 for link in links)
    assert isinstance(read.target, str)
    assert read.evidence.bit in (None, True, False)
    read.evidence.clocks()


@pytest.mark.parametrize(
    ("target", "hit"),
    [
        *[("n1 n2", True), ("all links", True), ("nonesuch", True), ("none-such n2", True)],
        *[
            ("", False),
            ("  ", False),
            ("none", False),
            ("None: no node was running", False),
            ("none could be hit", False),
        ],
        *[("nobody: no node was running", False), ("nobody", False)],
    ],
)
def test_a_target_says_whether_there_was_anything_to_hit(target: str, hit: bool) -> None:
    assert said({"target": target}).is_hit is hit


@pytest.mark.parametrize("value", [None, {}, {"target": None}, {"action": "start", "fault": "kill"}])
def test_an_op_without_a_target_may_have_hit_something(value: Any) -> None:
    assert said(value).is_hit


@pytest.mark.parametrize(("target", "kind", "hit"), [("", "ok", False), ("", "info", True), ("none", "info", False)])
def test_an_op_that_failed_before_it_had_a_target_may_have_hit_something(target: str, kind: Any, hit: bool) -> None:
    begun = Op(process=NEMESIS, type="invoke", f="kill", value={"fault": "kill", "action": "start"})
    assert FaultOp(begun, begun.complete(kind, {**REPORT, "target": target})).hit is hit


@pytest.mark.parametrize("cut", [7, "n1", [["n1"]], [["n1", "n2"], 3], {"n1": "n2"}])
def test_links_that_are_none_are_not_known_rather_than_none_cut(cut: Any) -> None:
    assert said({"cut": cut}).cut is None
    assert said({"links": cut}).links is None
    assert said({}).links == ()
