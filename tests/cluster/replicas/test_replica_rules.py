"""What is to be done about the members of a queue, case by case (S001; CMR-1 to CMR-3, D7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from splitbrain.cluster.bugs import M76, M76B, M76C, Bugs
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.queuegroups.records import Author, Change, QueueRecord
from splitbrain.cluster.queuereplicas.watch import MOST_NS, Watch
from splitbrain.cluster.queues import QueueConfig
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.replicas import (
    Begin,
    End,
    HandOver,
    Join,
    Leave,
    ReplicaSettings,
    Rewrite,
    Schedule,
    Situation,
    Step,
    next_step,
    placement_named,
    spread,
    target_of,
)


def facts(
    members: str,
    cluster: str = "abcde",
    *,
    named: str | None = None,
    down: str = "",
    failed: str = "",
    learners: str = "",
    change: Change | None = None,
    draining: str = "",
    target: int | None = 3,
    **others: Any,
) -> Situation:
    """A queue that is led by the first of its members; who has failed is down."""
    record = QueueRecord("queue.1", ("a",), tuple(named or members), 3, QueueConfig(), change=change)
    voters = tuple(each for each in members if each not in learners)
    return Situation(
        me=members[0],
        record=record,
        group=Configuration(voters, dict.fromkeys(learners, 1)),
        cluster=Configuration(tuple(cluster)),
        running=frozenset(each for each in cluster if each not in down + failed),
        failed=frozenset(failed),
        draining=frozenset(draining),
        target=target,
        **others,
    )


def grow(member: str, by: Author = "automation") -> Change:
    return Change(1, "grow", member, by)


def shrink(member: str, by: Author = "automation") -> Change:
    return Change(1, "shrink", member, by)


CASES: list[tuple[str, Situation, Step | None]] = [
    ("all is well", facts("abc"), None),
    ("extras stay", facts("abcde"), None),
    ("who is down for a short time counts", facts("abc", down="c"), None),
    ("who failed is replaced", facts("abc", failed="c"), Begin("grow", "d")),
    ("not before a check is due", facts("abc", failed="c", is_due=False), None),
    ("who failed leaves once it is replaced", facts("abcd", failed="c"), Begin("shrink", "c")),
    ("not where that is an operator's part", facts("abcd", failed="c", auto_remove=False), None),
    ("who failed stays where none can replace it", facts("abc", "abc", failed="c"), None),
    ("nor who is being drained", facts("abc", failed="c", draining="de"), None),
    ("nor who does not run", facts("abc", failed="c", down="d"), Begin("grow", "e")),
    ("who left the cluster leaves first", facts("abc", "abde", failed="c"), Begin("shrink", "c")),
    ("and is replaced then", facts("ab", "abde"), Begin("grow", "d")),
    ("who left stays where an operator decides, and is replaced", facts("abc", "abde", auto_remove=False),
     Begin("grow", "d")),
    ("none leaves if those that are left have no majority", facts("abc", "abde", down="b"), None),
    ("without a majority none joins", facts("abc", failed="bc"), None),
    ("a node that is drained hands over", facts("abc", draining="a"), HandOver("b")),
    ("to one that runs and is not drained", facts("abc", draining="ab"), HandOver("c")),
    ("and begins nothing", facts("abc", failed="c", draining="ab"), None),
    # a change that is under way
    ("it goes on though no check is due", facts("abc", named="abcd", change=grow("d"), is_due=False), Join("d")),
    ("it waits for a node that is down", facts("abc", named="abcd", change=grow("d"), down="d"), None),
    ("and ends if that has failed", facts("abc", named="abcd", change=grow("d"), failed="d"),
     End(1, "not_running", ("a", "b", "c"))),
    ("or is drained", facts("abc", named="abcd", change=grow("d"), draining="d"), End(1, "draining", ("a", "b", "c"))),
    ("or left the cluster", facts("abc", "abce", named="abcd", change=grow("d")),
     End(1, "no_member_of_the_cluster", ("a", "b", "c"))),
    ("a learner is waited for", facts("abcd", learners="d", change=grow("d")), None),
    ("unless it failed", facts("abcd", learners="d", change=grow("d"), failed="d"), Leave("d")),
    ("or left the cluster, then too", facts("abcd", "abce", learners="d", change=grow("d")), Leave("d")),
    ("a voter is done", facts("abcd", change=grow("d")), End(1, "done", ("a", "b", "c", "d"))),
    ("no second change begins meanwhile", facts("abc", failed="c", named="abcd", change=grow("d"), down="d"), None),
    ("an operator's leave", facts("abcd", change=shrink("d", "operator")), Leave("d")),
    ("not below the target", facts("abc", change=shrink("c", "operator")), End(1, "below_target", ("a", "b", "c"))),
    ("counting the live ones", facts("abcd", failed="c", change=shrink("d", "operator")),
     End(1, "below_target", ("a", "b", "c", "d"))),
    ("nor without a majority", facts("abcd", "abd", down="b", change=shrink("d", "operator")),
     End(1, "no_majority_without_it", ("a", "b", "c", "d"))),
    ("who has left", facts("abc", named="abcd", change=shrink("d")), End(1, "done", ("a", "b", "c"))),
    # the record
    ("it follows the group", facts("abc", named="abcd"), Rewrite(("a", "b", "c"))),
    ("and names who is there", facts("abcd", named="abc"), Rewrite(("a", "b", "c", "d"))),
    # without a target
    ("as many as it was declared with", facts("ab", target=None, is_due=False), Begin("grow", "c")),
    ("whether they run or not", facts("abc", failed="c", target=None), None),
    ("who left the cluster leaves", facts("abc", "ab", target=None), Begin("shrink", "c")),
    ("the last one stays", facts("a", "b", target=None), None),
    # switches
    ("M76", facts("abc", failed="c", draining="d", bugs=Bugs([M76.id])), Begin("grow", "d")),
    ("M76B", facts("abc", bugs=Bugs([M76B.id])), Begin("grow", "d")),
    ("M76C", facts("abc", failed="c", bugs=Bugs([M76C.id])), Begin("shrink", "c")),
]  # fmt: skip


@pytest.mark.parametrize(("situation", "step"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_next_step(situation: Situation, step: Step | None) -> None:
    assert next_step(situation, spread) == step


def test_an_operator_who_shrinks_a_queue_while_another_member_has_left_the_cluster_does_not_lose_it() -> None:
    """Of a, b and c, c has left; a queue without b as well would be a alone with a vote of c that never comes."""
    situation = facts("abc", "abde", change=shrink("b", "operator"), auto_remove=False)
    assert next_step(situation, spread) == End(1, "no_majority_without_it", ("a", "b", "c"))


@pytest.mark.parametrize(
    ("argument", "policy", "configuration", "target"),
    [
        (None, {}, 0, None),
        (None, {}, 3, 3),
        (None, {"target-group-size": 5}, 3, 5),
        (None, {"target-group-size": 1}, 3, 1),  # and not the largest
        (1, {"target-group-size": 5}, 3, 1),
        (None, {"target-group-size": 0}, 3, 3),
        (None, {"target-group-size": "many"}, 0, None),
    ],
)
def test_the_argument_comes_before_the_policy_and_that_before_the_configuration(
    argument: int | None, policy: Mapping[str, Any], configuration: int, target: int | None
) -> None:
    assert target_of(argument, policy, configuration) == target


def test_a_replica_goes_where_the_queue_has_the_fewest_live_ones_of_a_zone_and_then_where_there_are_few_queues() -> (
    None
):
    zones = {"a": "1", "b": "2", "c": "3", "d": "3", "e": "1"}
    assert spread(["d", "e"], facts("abc", failed="c", zones=zones)) == "d"
    assert spread(["d", "e"], facts("abc", zones=zones)) == "d"  # zones are equal: by name
    assert spread(["d", "e"], facts("abc", failed="a", zones=zones)) == "e"
    assert spread(["d", "e"], facts("abc", load={"d": 4, "e": 2})) == "e"
    assert placement_named("least-loaded")(["d", "e"], facts("abc", zones=zones, load={"d": 4})) == "e"


def test_a_placement_of_ones_own_is_found_and_another_is_refused() -> None:
    assert placement_named("tests.cluster.replicas.test_replica_rules:last")(["d", "e"], facts("abc")) == "e"
    for wrong in ("random", "tests.cluster.replicas.test_replica_rules:none", "no.such.module:f"):
        with pytest.raises(ArgumentError, match="--placement"):
            placement_named(wrong)


def last(candidates: list[str], _: Situation) -> str:
    return candidates[-1]


MS = 1_000_000


def test_a_check_comes_some_time_after_an_event_and_periodically() -> None:
    schedule = Schedule(ReplicaSettings(interval_ms=1000, trigger_ms=100), 0)
    assert (schedule.is_due(99 * MS), schedule.is_due(100 * MS)) == (False, True)
    schedule.checked(100 * MS, did_something=False)
    assert (schedule.is_due(1099 * MS), schedule.is_due(1100 * MS)) == (False, True)
    schedule.triggered(200 * MS)
    schedule.triggered(250 * MS)  # does not put it off
    assert (schedule.is_due(299 * MS), schedule.is_due(300 * MS)) == (False, True)
    schedule.checked(300 * MS, did_something=True)
    assert (schedule.is_due(399 * MS), schedule.is_due(400 * MS)) == (False, True)
    schedule.checked(400 * MS, did_something=False)
    schedule.failed(500 * MS)
    assert schedule.is_due(500 * MS)


class Reached:
    """What a node knows of others.

    Attributes:
        up: the nodes that are reached.
        contacts: when each was reached last.
    """

    def __init__(self, up: set[str]) -> None:
        self.up = up
        self.contacts: dict[str, int] = {}

    def is_up(self, node: str) -> bool:
        return node in self.up

    def contact_ns(self, node: str) -> int | None:
        return self.contacts.get(node)


def test_a_node_has_failed_once_it_was_down_for_the_whole_interval() -> None:
    up = {"a", "b"}
    watch = Watch(Reached(up), 100)
    assert watch.look("ab", 0) == (True, False)
    up.remove("b")
    assert watch.look("ab", 10) == (True, False)
    assert watch.look("ab", 109) == (False, False)
    up.add("b")
    assert watch.look("ab", 110) == (True, False)  # it is back, and begins anew
    up.remove("b")
    assert watch.look("ab", 120) == (True, False)
    assert watch.look("ab", 220) == (False, True)
    assert watch.failed == {"b"}
    assert watch.look("ab", 230) == (False, False)
    assert watch.look("a", 240) == (False, False)  # it left the cluster
    assert watch.failed == frozenset()


def test_a_node_that_was_back_between_two_looks_has_not_failed() -> None:
    reach = Reached({"a"})
    watch = Watch(reach, 100)
    watch.look("ab", 0)
    watch.look("ab", 60)
    reach.contacts["b"] = 50
    assert watch.look("ab", 120) == (False, False)
    assert watch.look("ab", 149) == (False, False)
    assert watch.look("ab", 150) == (False, True)


def test_an_earlier_contact_makes_no_node_fail_sooner() -> None:
    reach = Reached({"a"})
    reach.contacts["b"] = 1
    watch = Watch(reach, 100)
    watch.look("ab", 300)
    assert watch.look("ab", 399) == (False, False)
    assert watch.look("ab", 400) == (False, True)


def test_a_node_that_stood_still_counts_no_other_as_failed_for_that_time() -> None:
    """What it did not look at says nothing of the others; they are judged by what it sees from now on."""
    watch = Watch(Reached({"a"}), 2 * MOST_NS)
    watch.look("ab", 0)
    watch.look("ab", 10)
    assert watch.look("ab", 100 * MOST_NS) == (False, False)
    assert watch.look("ab", 101 * MOST_NS) == (False, True)
