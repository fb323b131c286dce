"""Coverage marks: counted while a run lasts and only then, and reached exactly where their lines say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.contract.marks import MARKS, counted, reached
from splitbrain.nemesis.catalogue import build
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.partition import Partition
from splitbrain.nemesis.process import kill, pause, power
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op
from tests.nemesis.support import FIVE, MIXES, Nodes, Roles, context, led_by, nemesis_op, run

ROOT = Path(__file__).parents[2]


def of_partition(shape: str, system: Roles | None = None, nodes: Nodes | None = None) -> set[str]:
    """The marks that a partition of this shape reaches."""
    with counted() as counts:
        op = nemesis_op("start-partition", action="start", shape=shape, order=list(FIVE))
        assert run(Partition().invoke(context(nodes or Nodes(), system), op)).type == "ok"
        return _reached(counts)


def _reached(counts: Mapping[str, int]) -> set[str]:
    return {mark for mark, count in counts.items() if count}


def test_every_mark_is_counted_zeros_included_and_only_while_counting() -> None:
    reached("final phase")
    with counted() as counts:
        assert counts == dict.fromkeys(MARKS, 0)
        reached("final phase")
        reached("final phase")
    reached("final phase")
    assert counts["final phase"] == 2
    assert sum(counts.values()) == 2
    with counted() as again:
        assert sum(again.values()) == 0


def test_an_unknown_mark_and_counting_twice_are_mistakes() -> None:
    with counted():
        with pytest.raises(AssertionError, match="there is no mark 'leader promoted'"):
            reached("leader promoted")
        with pytest.raises(UsageError, match="being counted already"), counted():
            pass


def test_counting_ends_also_when_a_run_fails() -> None:
    with pytest.raises(RuntimeError), counted():
        raise RuntimeError
    with counted():
        pass


def test_every_mark_is_known_and_can_be_reached_somewhere() -> None:
    sources = [path for folder in ("harness", "nemesis") for path in sorted((ROOT / folder).rglob("*.py"))]
    texts = [path.read_text() for path in sources if path != ROOT / "harness" / "contract" / "marks.py"]
    called = {mark for text in texts for mark in re.findall(r'reached\(\s*"([^"]+)"', text)}
    assert called
    assert called <= set(MARKS)
    quoted = {word for text in texts for word in re.findall(r'"([^"\n]+)"', text)}
    assert set(MARKS) <= quoted


@pytest.mark.parametrize(
    ("shape", "marks"),
    [
        ("isolate-leader", {"leader isolated"}),
        ("leader-in-minority", {"leader in a minority"}),
        ("one-way-mute-leader", {"one-way cut", "leader in a minority"}),
        ("one-way-deaf", {"one-way cut"}),
        ("halves", set[str]()),
        ("thirds", {"no node reached a majority"}),
        ("majorities-ring", {"every node reached a majority"}),
        ("bridge", {"every node reached a majority"}),
    ],
)
def test_topologies_reach_their_marks(shape: str, marks: set[str]) -> None:
    assert of_partition(shape, led_by("n2")) == marks


def test_a_leader_is_isolated_only_by_its_own_word() -> None:
    hearsay = Roles({"n1": ("follower", 3, "n2"), "n3": ("follower", 3, "n2")})
    assert of_partition("isolate-leader", hearsay) == set()
    assert of_partition("isolate-leader", Roles()) == {"no leader known"}
    two = Roles({"n1": ("leader", 3, "n1"), "n2": ("leader", 4, "n2")})
    assert of_partition("isolate-leader", two) == {"leader isolated", "two leaders at once"}


@pytest.mark.parametrize(
    ("nemesis", "f", "mark"),
    [(kill, "kill", "leader killed"), (pause, "pause", "leader paused"), (power, "power-off", "leader lost power")],
)
def test_a_struck_leader_is_marked(nemesis: Any, f: str, mark: str) -> None:
    with counted() as counts:
        op = nemesis_op(f, action="start", spec="leader", order=list(FIVE))
        run(nemesis(Ledger()).invoke(context(Nodes(), led_by("n4")), op))
        assert mark in _reached(counts)
    with counted() as counts:
        op = nemesis_op(f, action="start", spec="one", order=list(FIVE))
        run(nemesis(Ledger()).invoke(context(Nodes(), led_by("n4")), op))
        assert mark not in _reached(counts)


@pytest.mark.parametrize(
    ("spec", "marks"),
    [("minority", set[str]()), ("majority", {"majority down"}), ("all", {"all nodes down"})],
)
def test_how_many_are_down_is_marked(spec: str, marks: set[str]) -> None:
    nodes, killer = Nodes(), kill()
    with counted() as counts:
        run(killer.invoke(context(nodes), nemesis_op("kill", action="start", spec=spec, order=list(FIVE))))
        assert _reached(counts) == marks
        run(killer.invoke(context(nodes), nemesis_op("start", action="stop")))
        assert _reached(counts) == {*marks, "node restarted"}


def test_overlapping_faults_are_marked_and_those_one_after_the_other_are_not() -> None:
    nemesis = build(["kill", "pause"]).nemesis
    assert nemesis is not None

    def go(f: str, fault: str, action: str) -> Op:
        return run(nemesis.invoke(context(Nodes()), nemesis_op(f, fault=fault, action=action, spec="one")))

    with counted() as counts:
        go("kill", "kill", "start")
        go("start", "kill", "stop")
        go("pause", "pause", "start")
        assert counts["faults overlapped"] == 0
        go("kill", "kill", "start")
        assert counts["faults overlapped"] == 1


def test_counting_changes_nothing_of_a_schedule() -> None:
    from tests.nemesis.test_catalogue import schedule

    plain = schedule(build(MIXES, marks=("vote granted",)), seconds=120)
    with counted():
        assert schedule(build(MIXES, marks=("vote granted",)), seconds=120) == plain
