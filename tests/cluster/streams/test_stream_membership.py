"""The rules, without nodes: who is of the coordinator's group, and what the coordinator makes of changes of copies."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.replicas import Begin, HandOver, Join, Leave, Rewrite, Situation, Step, next_step, spread
from splitbrain.cluster.streamreplicas.facts import command_of, configuration_of, left_behind, record_of_stream
from splitbrain.cluster.streamreplicas.membership import GroupFacts, MemberStep, next_member_step
from splitbrain.cluster.streams.commands import (
    Accepted,
    AddReplica,
    CaughtUp,
    DeleteReplica,
    Established,
    Gone,
    Ignored,
    MemberDown,
    NewStream,
    Started,
    Stopped,
    StreamRefused,
)
from splitbrain.cluster.streams.coordinator import STALE_MS, Coordinator
from splitbrain.cluster.streams.position import BEGIN
from splitbrain.cluster.streams.state import State, Stream, decode_state, encode_state
from tests.cluster.streams.test_pure_streams import begun


@pytest.mark.parametrize(
    ("voters", "learners", "cluster", "down", "draining", "expected"),
    [
        ("abc", "", "abc", "", "", None),
        ("abc", "", "abcde", "", "", Join("d")),
        ("abc", "d", "abcde", "", "", Join("e")),
        ("abc", "", "abcde", "d", "", Join("e")),
        ("abc", "", "abcd", "bc", "", None),  # without a majority nothing would be committed
        ("abc", "", "abd", "", "", Leave("c")),
        ("abc", "d", "abc", "", "", Leave("d")),
        ("abc", "", "ab", "b", "", None),  # of a and b one would have to agree alone
        ("abcd", "", "abc", "b", "", Leave("d")),
        ("a", "", "bc", "", "", None),
        ("abc", "", "abcd", "", "a", HandOver("b")),
        ("abc", "", "abcd", "b", "a", HandOver("c")),
        ("abc", "", "abcd", "", "abc", Join("d")),
    ],
)
def test_the_group_follows_the_cluster_one_member_at_a_time(
    voters: str, learners: str, cluster: str, down: str, draining: str, expected: MemberStep | None
) -> None:
    facts = GroupFacts(
        me="a",
        group=Configuration(tuple(voters), dict.fromkeys(learners, 9)),
        cluster=Configuration(tuple(cluster)),
        running={each for each in cluster if each not in down},
        draining=set(draining),
    )
    assert next_member_step(facts) == expected


def grown(coordinator: Coordinator, member: str = "n4", **how: Any) -> Stream:
    """A stream of n1, n2 and n3, in epoch 1, to which a fourth member comes as entry 10."""
    stream = begun(coordinator)
    assert isinstance(coordinator.apply(10, 0, AddReplica("s", member, **how))[0], Accepted)
    return stream


def test_a_further_copy_has_no_vote_before_it_has_caught_up() -> None:
    coordinator = Coordinator(State())
    stream = grown(coordinator)
    assert (stream.epoch, stream.voters, stream.learners) == (1, ("n1", "n2", "n3"), ("n4",))
    action = stream.members["n4"].action
    assert action is not None
    assert (action.kind, action.epoch) == ("follow", 1)
    coordinator.apply(11, 0, Started(1, "n4", action.index))
    assert isinstance(coordinator.apply(12, 0, CaughtUp(1, "n4", 0))[0], Ignored)
    assert isinstance(coordinator.apply(12, 0, CaughtUp(1, "n2", 1))[0], Ignored)
    assert isinstance(coordinator.apply(13, 0, CaughtUp(1, "n4", 1))[0], Accepted)
    assert not stream.is_running
    for index, name in enumerate(("n2", "n3"), 14):
        coordinator.apply(index, 0, Stopped(1, name, 13, BEGIN))
    assert (stream.epoch, stream.voters, stream.learners) == (2, ("n1", "n2", "n3", "n4"), ())


def test_an_epoch_that_ends_while_a_copy_learns_gives_it_no_vote() -> None:
    coordinator = Coordinator(State())
    stream = grown(coordinator)
    coordinator.state = decode_state(encode_state(coordinator.state))
    stream = coordinator.state.streams[1]
    coordinator.apply(11, 0, MemberDown(stream.id, stream.writer or "", stream.epoch))
    for index, name in enumerate(("n2", "n3", "n4"), 12):
        coordinator.apply(index, 0, Stopped(1, name, 11, BEGIN))
    assert (stream.epoch, stream.voters, stream.learners) == (2, ("n1", "n2", "n3"), ("n4",))


def test_one_change_at_a_time_and_each_in_the_epoch_in_which_it_was_decided() -> None:
    coordinator = Coordinator(State())
    stream = grown(coordinator, epoch=1)
    for index, command in enumerate([AddReplica("s", "n5"), DeleteReplica("s", "n3"), AddReplica("s", "n5", 1)], 11):
        answer = coordinator.apply(index, 0, command)[0]
        assert isinstance(answer, StreamRefused)
    assert isinstance(coordinator.apply(20, 0, DeleteReplica("s", "n4", 0))[0], StreamRefused)
    assert isinstance(coordinator.apply(21, 0, DeleteReplica("s", "n4", 1))[0], Accepted)
    assert stream.is_settled, "who has no vote goes without an end of the epoch"
    action = stream.members["n4"].action
    assert action is not None
    assert action.kind == "delete"
    assert isinstance(coordinator.apply(22, 0, AddReplica("s", "n5", 1))[0], Accepted)


def test_an_operator_waits_for_a_copy_that_is_behind_and_automation_not_for_one_that_failed() -> None:
    coordinator = Coordinator(State())
    begun(coordinator)  # n3 does not run
    later = STALE_MS + 1
    refused = coordinator.apply(10, later, AddReplica("s", "n4"))[0]
    assert isinstance(refused, StreamRefused)
    assert "n3" in refused.detail
    accepted = AddReplica("s", "n4", 1, ("n2", "n3"))
    assert isinstance(coordinator.apply(11, later, accepted)[0], Accepted)


def test_the_last_member_that_stays_is_not_removed_while_another_one_leaves() -> None:
    coordinator = Coordinator(State())
    coordinator.apply(1, 0, NewStream("s", ("n1", "n2"), "n1"))
    stream = coordinator.state.streams[1]
    for index, name in enumerate(("n1", "n2"), 2):
        coordinator.apply(index, 0, Stopped(1, name, 1, BEGIN))
    coordinator.apply(4, 0, Started(1, "n1", 2 if stream.members["n1"].action is None else 3))
    coordinator.apply(5, 0, Established(1, 1))
    assert isinstance(coordinator.apply(6, 0, DeleteReplica("s", "n2"))[0], Accepted)
    coordinator.apply(7, 0, Stopped(1, "n1", 6, BEGIN))
    coordinator.apply(8, 0, Stopped(1, "n2", 6, BEGIN))
    action = stream.members["n1"].action
    assert action is not None
    coordinator.apply(9, 0, Started(1, "n1", action.index))
    coordinator.apply(10, 0, Established(1, 2))
    assert (stream.voters, set(stream.members)) == (("n1",), {"n1", "n2"})
    refused = coordinator.apply(11, 0, DeleteReplica("s", "n1"))[0]
    assert isinstance(refused, StreamRefused)
    assert refused.reason == "invalid"


def test_what_an_operator_removes_is_not_added_again_and_what_the_leader_removes_is_replaced() -> None:
    for epoch, size in ((None, 2), (1, 3)):
        coordinator = Coordinator(State())
        stream = begun(coordinator)
        coordinator.apply(10, 0, DeleteReplica("s", "n3", epoch))
        assert stream.size == size


def situation(stream: Stream, cluster: str = "n1 n2 n3 n4", failed: str = "", **others: Any) -> Situation:
    members = cluster.split()
    return Situation(
        me="n9",
        record=record_of_stream(stream),
        group=configuration_of(stream),
        cluster=Configuration(tuple(members)),
        running=frozenset(each for each in members if each not in failed.split()),
        failed=frozenset(failed.split()),
        **others,
    )


def test_the_rules_for_queues_say_what_a_stream_needs() -> None:
    coordinator = Coordinator(State())
    stream = begun(coordinator)
    cases: list[tuple[Situation, Step | None]] = [
        (situation(stream, target=3), None),
        (situation(stream, target=4), Begin("grow", "n4")),
        (situation(stream, target=4, is_due=False), None),
        (situation(stream, target=4, draining=frozenset({"n4"})), None),
        (situation(stream, target=3, failed="n3"), Begin("grow", "n4")),
        (situation(stream, cluster="n1 n2 n4"), Begin("shrink", "n3")),
        (situation(stream, cluster="n1 n2 n4", auto_remove=False), Begin("grow", "n4")),
    ]
    for facts, expected in cases:
        found = next_step(facts, spread)
        assert found == expected
        assert not isinstance(found, Rewrite)


def test_a_copy_that_learns_and_fails_is_given_up() -> None:
    stream = grown(Coordinator(State()))
    assert next_step(situation(stream, target=4), spread) is None
    found = next_step(situation(stream, target=4, failed="n4"), spread)
    assert found == Leave("n4")
    assert command_of(stream, Leave("n4"), frozenset()) == DeleteReplica("s", "n4", 1)


def test_a_change_is_decided_in_an_epoch_and_names_who_failed() -> None:
    stream = begun(Coordinator(State()))
    failed = frozenset({"n3", "n7"})
    assert command_of(stream, Begin("grow", "n4"), failed) == AddReplica("s", "n4", 1, ("n3",))
    assert command_of(stream, Begin("shrink", "n2"), failed) == DeleteReplica("s", "n2", 1)
    assert command_of(stream, Rewrite(("n1",)), failed) is None


def test_a_member_that_left_the_cluster_is_forgotten_once_it_is_to_give_its_copy_up() -> None:
    coordinator = Coordinator(State())
    stream = grown(coordinator)
    assert left_behind(coordinator.state, Configuration(("n1", "n2", "n3"))) == []
    coordinator.apply(11, 0, DeleteReplica("s", "n4", 1))
    assert left_behind(coordinator.state, Configuration(("n1", "n2", "n3", "n4"))) == []
    (gone,) = left_behind(coordinator.state, Configuration(("n1", "n2", "n3")))
    assert gone == Gone(1, "n4", 11)
    coordinator.apply(12, 0, gone)
    assert "n4" not in stream.members
