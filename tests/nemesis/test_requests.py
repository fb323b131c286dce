"""Requests that people write: what nemeses draw passes, what they would refuse or pass over does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from splitbrain.harness.contract.faults import ClockFault, DiskFault, LinkFault
from splitbrain.harness.generators.script import ScriptedFault
from splitbrain.nemesis.catalogue import KINDS, NEMESES, build, kind_of
from splitbrain.nemesis.requests import check_sequence, complete, needs_of
from splitbrain.results.errors import UsageError
from tests.nemesis.support import FIVE
from tests.nemesis.test_catalogue import schedule


@pytest.mark.parametrize("name", NEMESES)
def test_every_request_that_is_drawn_is_complete_and_needs_what_its_package_says(name: str) -> None:
    package = build([name], marks=("vote granted",))
    needed: set[str] = set()
    for op in schedule(package, seconds=900):
        assert complete(op.f, op.value, FIVE) == op.value
        needed |= needs_of(op.f, op.value)
        if op.value["action"] == "stop":
            assert needs_of(op.f, op.value) == frozenset()
    assert needed == package.faults


def test_what_follows_from_the_op_may_be_left_out() -> None:
    assert complete("kill", {"spec": "leader"}, FIVE) == {
        "fault": "kill",
        "action": "start",
        "spec": "leader",
        "order": list(FIVE),
    }
    assert complete("stop-packet", None, FIVE) == {"fault": "packet", "action": "stop"}
    assert complete("restart", None, ["n1"])["over"] is True
    assert {kind_of(f).name for kind in KINDS.values() for f in (kind.start_f, kind.stop_f)} == set(KINDS)


@pytest.mark.parametrize(
    ("f", "value", "told"),
    [
        ("kil", {}, "nemesis op 'kil'. Did you mean 'kill'"),
        ("kill", "leader", "needs a mapping such as"),
        ("kill", {"spec": "leeder"}, "node spec 'leeder' of kill. Did you mean 'leader'"),
        ("kill", {"shape": "halves"}, "field 'shape' of kill"),
        ("kill", {"order": ["n1", "n9"]}, "order names 'n9'; the nodes are n1, n2"),
        ("kill", {"order": []}, "order names nodes"),
        ("kill", {"fault": "pause"}, "kill has the fault 'kill', not 'pause'"),
        ("start", {"action": "start"}, "start has the action 'stop', not 'start'"),
        ("start", {"spec": "leader"}, "heals all that is in force of its kind; it takes no spec"),
        ("start-partition", {}, "shape 'None' of start-partition"),
        ("start-partition", {"shape": "haves"}, "Did you mean 'halves'"),
        ("start-partition", {"shape": "swizzle", "nodes": ["n1", "n7"]}, "nodes names 'n7'"),
        ("start-packet", {"scope": "everywhere", "disturb": {"loss": 0.1}}, "scope 'everywhere' of start-packet"),
        ("start-packet", {"disturb": {"los": 0.1}}, "field 'los' of disturb. Did you mean 'loss'"),
        ("start-packet", {"disturb": {"loss": "some"}}, "disturb: Expected `float`, got `str`"),
        ("start-packet", {"disturb": {}}, "has no effect"),
        ("start-packet", {"scope": "all"}, "needs the fault in disturb"),
        ("start-disk", {"spoil": {"full": False}}, "has no effect"),
        ("start-disk", {"spoil": {"wipe": True}}, "a disk is wiped only when its node leaves the cluster"),
        ("leave", {"spec": "minority"}, "node spec 'minority' of leave"),
        ("join", {"spec": "one"}, "heals all that is in force of its kind; it takes no spec"),
        ("start-clock", {"skew": {"n8": {"offset_ms": 5}}}, "skew names 'n8'"),
        ("start-clock", {"skew": {"n1": {"offset": 5}}}, "field 'offset' of skew. Did you mean 'offset_ms'"),
        ("start-clock", {}, "skew names nodes"),
        ("start-cpu", {"share": 2}, "the share of a CPU fault"),
        ("bounce", {"nodes": ["n1"], "pauses_ms": [-5]}, "pauses_ms is a whole number of 0 to 60,000 ms, not -5"),
        ("bounce", {"nodes": ["n1", "n2"], "pauses_ms": [5]}, "2 nodes, 1 pause"),
        (
            "bounce",
            {"nodes": ["n1"], "pauses_ms": [60_000]},
            "together, is a whole number of 0 to 20,000 ms",
        ),
        ("start-clock", {"order": ["n2"], "skew": {"n1": {"offset_ms": 5}}}, "its order has none of them"),
        ("bounce", {"when": "noon"}, "moment (when) 'noon' of bounce"),
        ("restart", {"over": False}, "remove over"),
        ("start-partition", {"shape": "thirds", "order": ["n1", "n2"]}, "needs 3 nodes, and there are 2"),
        ("start-partition", {"shape": "halves", "pauses_ms": [5]}, "has no steps"),
        ("start-partition", {"shape": "swizzle", "nodes": ["n1", "n2"], "heal_nodes": ["n1"]}, "lets back"),
        ("start-packet", {"spec": "one", "disturb": {"loss": 0.1}}, "takes no spec"),
        ("start-packet", {"disturb": {"loss": float("nan")}}, "loss is a number of 0 to 1 of all, not nan"),
        ("start-packet", {"disturb": {"delay_ms": float("inf")}}, "delay_ms is a number of 0 to 3,600,000 ms"),
        ("bounce", {}, "nodes names nodes"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_place_and_what_would(f: str, value: Any, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        complete(f, value, FIVE)
    assert told in str(refused.value)


def test_a_request_of_somebody_elses_nemesis_needs_nothing_that_is_known() -> None:
    assert needs_of("meteor", {"fault": "meteor", "action": "start"}) == frozenset()
    for value in (None, 3, {}, {"fault": "packet", "disturb": 7}):
        assert needs_of("start-packet", value) == frozenset()


@pytest.mark.parametrize("shape", [LinkFault, DiskFault, ClockFault])
def test_every_figure_of_a_fault_has_bounds_which_hold_wherever_it_is_made(shape: type[msgspec.Struct]) -> None:
    for name in shape.__struct_fields__:
        shape(**{name: getattr(shape(), name)})
        for wrong in (float("nan"), float("inf"), -1e300, 1e300, 10**400, "1", None, [1]):
            with pytest.raises(UsageError, match=name):
                shape(**{name: wrong})
        with pytest.raises(UsageError, match=name):
            shape(**{name: 1 if isinstance(getattr(shape(), name), bool) else True})


def test_ops_that_are_out_of_order_or_heal_nothing_are_refused_with_their_place() -> None:
    kill, start = ScriptedFault(at_ns=5, f="kill"), ScriptedFault(at_ns=7, f="start")
    check_sequence([("a", kill), ("b", start), ("c", start)])
    with pytest.raises(UsageError, match="b: kill is due"):
        check_sequence([("x", kill), ("a", start), ("b", kill)])
    with pytest.raises(UsageError, match="a: start heals a kill fault"):
        check_sequence([("a", start)])
