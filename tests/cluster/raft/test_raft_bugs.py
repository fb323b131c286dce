"""What each switch breaks, and that nothing is broken unless a switch is on."""

from __future__ import annotations

import pytest

from cluster.bugs import ALL, M09, M17, M23, NO_BUGS, Bugs, UnknownBugError
from cluster.raft.effects import Apply, Dropped, ReadReady, Rebuild
from cluster.raft.events import Propose, Read
from cluster.raft.state import quorum_of
from tests.cluster.raft.single import append, entries, leader, only, ready_leader


def test_no_bug_is_on_unless_it_is_named() -> None:
    assert [bug for bug in ALL.values() if bug in NO_BUGS] == []
    assert [bug.id for bug in ALL.values() if bug in Bugs(["M23"])] == ["M23"]


def test_ids_and_lines_are_there_for_every_bug() -> None:
    assert list(ALL) == sorted(ALL)
    assert all(bug.id == key and bug.line for key, bug in ALL.items())


def test_an_unknown_bug_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownBugError, match=r"no bug is called 'm23'; there are M09, M17, M23"):
        Bugs(["M09", "m23"])


def test_bugs_are_an_immutable_set() -> None:
    bugs = Bugs(["M23", "M09", "M23"])
    assert bugs.ids == ("M09", "M23")
    assert bugs == Bugs(["M09", "M23"])
    assert hash(bugs) == hash(Bugs(["M09", "M23"]))
    with pytest.raises(AttributeError, match="read-only"):
        bugs.ids = ()


@pytest.mark.parametrize(
    ("voters", "right", "broken"), [(1, 1, 1), (2, 2, 1), (3, 2, 1), (4, 3, 2), (5, 3, 2), (6, 4, 3)]
)
def test_m09_takes_half_for_a_majority(voters: int, right: int, broken: int) -> None:
    assert quorum_of(voters, NO_BUGS) == right
    assert quorum_of(voters, Bugs([M09.id])) == broken


def test_m17_applies_and_answers_before_anybody_else_has_the_entry() -> None:
    raft = ready_leader(bugs=Bugs([M17.id]))
    (applied,) = only(Apply, raft.handle(Propose("ref", b"x")))
    assert applied.refs == {2: "ref"}
    assert (raft.commit_index, raft.applied_index) == (1, 2)
    assert only(Apply, ready_leader().handle(Propose("ref", b"x"))) == []


def test_m17_takes_back_what_the_next_leader_overwrites() -> None:
    raft = ready_leader(bugs=Bugs([M17.id]))
    raft.handle(Propose("ref", b"x"))
    effects = append(raft, *entries(3, first=2), term=3, prev=(1, 1), commit=1, sender="n2")
    assert only(Dropped, effects) == [], "it was answered"
    assert only(Rebuild, effects)
    (again,) = only(Apply, effects)
    assert [entry.index for entry in again.entries] == [1]
    assert raft.applied_index == 1


def test_m23_answers_reads_without_asking_anybody() -> None:
    raft = ready_leader(bugs=Bugs([M23.id]))
    assert raft.handle(Read("r")) == [ReadReady("r", 1)]
    assert only(ReadReady, leader(1, bugs=Bugs([M23.id])).handle(Read("r"))) == [ReadReady("r", 0)]
    assert only(ReadReady, ready_leader().handle(Read("r"))) == []
