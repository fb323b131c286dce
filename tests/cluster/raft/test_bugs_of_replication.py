"""What the switches of replication, commit and reads break, beside the same steps without them."""

from __future__ import annotations

import pytest

from splitbrain.cluster.bugs import M01, M11, M12, M13, M14, M19, M20, M24, M25, NO_BUGS, Bugs
from splitbrain.cluster.raft import InvariantError
from splitbrain.cluster.raft.effects import AppendLog, Rebuild
from splitbrain.cluster.raft.events import Read, Received
from splitbrain.cluster.raft.messages import AppendRefusal, AppendReply
from tests.cluster.raft.single import append, entries, leader, member, messages, only, ready_leader, written
from tests.cluster.support import both


@both(M11)
def test_m11_commits_an_entry_of_an_earlier_term_by_counting(bugs: Bugs, broken: bool) -> None:
    raft = leader(1, 1, bugs=bugs)
    for peer in ("n2", "n3"):
        raft.handle(Received(peer, AppendReply(2, 0, 2, 2)))
    assert raft.commit_index == (2 if broken else 0)


@both(M12)
def test_m12_commits_its_own_tail_with_the_commit_index_of_the_leader(bugs: Bugs, broken: bool) -> None:
    raft = member(1, 1, 1, bugs=bugs)
    append(raft, term=2, prev=(1, 1), commit=3)
    assert raft.commit_index == (3 if broken else 1)


@both(M13)
def test_m13_takes_entries_for_synced_because_those_that_they_replace_were(bugs: Bugs, broken: bool) -> None:
    raft = member(1, 1, 1, bugs=bugs)
    append(raft, *entries(2, 2, first=2), term=2, prev=(1, 1))
    assert raft.written_index == (3 if broken else 1)


@both(M14)
def test_m14_takes_a_late_report_for_one_of_the_new_entries(bugs: Bugs, broken: bool) -> None:
    raft = member(1, bugs=bugs)
    (appended,) = only(AppendLog, append(raft, *entries(1, 1, first=2), term=1, prev=(1, 1)))
    append(raft, *entries(2, 2, first=2), term=2, prev=(1, 1))
    raft.handle(appended.done)
    assert raft.written_index == (3 if broken else 1)


@both(M19)
def test_m19_builds_on_an_entry_of_another_term(bugs: Bugs, broken: bool) -> None:
    raft = member(1, 1, bugs=bugs)
    effects = append(raft, *entries(3, first=3), term=3, prev=(2, 2))
    assert bool(only(AppendRefusal, messages(effects))) != broken
    assert raft.last_index == (3 if broken else 2)


@both(M20)
def test_m20_cuts_off_what_an_old_message_does_not_have(bugs: Bugs, broken: bool) -> None:
    raft = member(1, bugs=bugs)
    written(raft, append(raft, *entries(1, 1, 1, first=2), term=1, prev=(1, 1), commit=4))
    assert raft.applied_index == 4
    effects = append(raft, *entries(1, first=2), term=1, prev=(1, 1), commit=1)
    assert raft.last_index == (2 if broken else 4)
    assert bool(only(Rebuild, effects)) == broken
    assert raft.applied_index == (2 if broken else 4)


@both(M24)
def test_m24_reads_before_the_no_op_is_committed(bugs: Bugs, broken: bool) -> None:
    raft = leader(1, bugs=bugs)
    effects = raft.handle(Read("r"))
    assert bool(messages(effects)) == broken, "the round of the read begins at once"


@both(M25)
def test_m25_confirms_a_round_of_an_earlier_term(bugs: Bugs, broken: bool) -> None:
    raft = member(1, bugs=bugs)
    append(raft, term=1, prev=(1, 1), read_round=5)
    replies = only(AppendReply, messages(append(raft, term=2, prev=(1, 1), sender="n3", read_round=1)))
    assert [reply.round for reply in replies] == [5 if broken else 1]


def test_with_a_bug_that_lets_committed_entries_go_no_assertion_comes_before_the_checkers() -> None:
    for bugs in (NO_BUGS, Bugs([M01.id])):
        raft = ready_leader(bugs=bugs)
        written(raft, append(raft, *entries(3, first=2), term=3, prev=(1, 1), commit=2))
        if not bugs.lets_committed_entries_go:
            with pytest.raises(InvariantError, match="committed up to 2"):
                append(raft, *entries(4, first=2), term=4, prev=(1, 1))
            continue
        effects = append(raft, *entries(4, first=2), term=4, prev=(1, 1))
        assert only(Rebuild, effects)
        assert (raft.commit_index, raft.last_index, raft.log.last_term) == (1, 2, 4)
