"""Linearizable reads by read index (RA-27)."""

from __future__ import annotations

from splitbrain.cluster.raft import Config, Raft
from splitbrain.cluster.raft.effects import ReadReady, Rejected
from splitbrain.cluster.raft.events import HeartbeatTick, Propose, Read, Received, Written
from splitbrain.cluster.raft.messages import Append, AppendRefusal, AppendReply
from tests.cluster.raft.single import append, leader, member, messages, only, ready_leader


def rounds(raft: Raft, ref: str) -> list[int]:
    """The rounds that go out when a read arrives."""
    return [message.round for message in only(Append, messages(raft.handle(Read(ref))))]


def confirm(raft: Raft, peer: str, read_round: int, term: int | None = None) -> list[ReadReady]:
    last = raft.log.last_index
    reply = AppendReply(raft.term if term is None else term, read_round, last, last)
    return only(ReadReady, raft.handle(Received(peer, reply)))


def test_ra27_a_read_asks_everybody_at_once_and_waits_for_a_majority() -> None:
    raft = ready_leader()
    assert rounds(raft, "r") == [1, 1, 1, 1]
    assert confirm(raft, "n2", 1) == []
    assert confirm(raft, "n2", 1) == [], "the same node twice is no majority"
    assert confirm(raft, "n3", 0) == [], "what was sent before the read arrived confirms nothing"
    assert confirm(raft, "n3", 1) == [ReadReady("r", 1)]
    assert confirm(raft, "n4", 1) == [], "a read is answered once"


def test_ra27_a_read_that_arrives_during_a_round_waits_for_the_next_one() -> None:
    raft = ready_leader()
    rounds(raft, "first")
    confirm(raft, "n2", 1)
    assert rounds(raft, "second") == []
    assert rounds(raft, "third") == []
    effects = raft.handle(Received("n3", AppendReply(1, 1, 1, 1)))
    assert only(ReadReady, effects) == [ReadReady("first", 1)]
    assert [message.round for message in only(Append, messages(effects))] == [2, 2, 2, 2]
    assert confirm(raft, "n4", 1) == [], "late confirmations of the first round are not about the second"
    confirm(raft, "n2", 2)
    assert confirm(raft, "n5", 2) == [ReadReady("second", 1), ReadReady("third", 1)]


def test_ra27_a_read_before_the_noop_is_committed_waits_for_it() -> None:
    raft = leader(1)
    assert rounds(raft, "early") == []
    raft.handle(Written(2, 2, 0))
    raft.handle(Received("n2", AppendReply(2, 0, 2, 2)))
    effects = raft.handle(Received("n3", AppendReply(2, 0, 2, 2)))
    assert raft.commit_index == 2
    assert {message.round for message in only(Append, messages(effects))} == {1}
    confirm(raft, "n2", 1)
    assert confirm(raft, "n3", 1) == [ReadReady("early", 2)]


def test_ra27_a_round_goes_out_with_the_entries_that_are_due_and_not_once_more() -> None:
    raft = leader(voters=("n1", "n2", "n3"))
    raft.handle(Read("early"))
    for i in range(4):
        raft.handle(Propose(i, b""))
    raft.handle(Written(1, 1, 0))
    sent = only(Append, messages(raft.handle(Received("n2", AppendReply(1, 0, 1, 1))), to="n2"))
    assert [(message.round, len(message.entries)) for message in sent] == [(1, 4)]


def test_ra27_the_read_index_is_the_commit_index_when_the_read_arrived() -> None:
    raft = ready_leader()
    raft.handle(Propose("w", b""))
    rounds(raft, "r")
    confirm(raft, "n2", 1)
    assert confirm(raft, "n3", 1) == [ReadReady("r", 1)]


def test_ra27_a_reply_of_an_earlier_term_confirms_nothing() -> None:
    raft = ready_leader(1)
    rounds(raft, "r")
    for peer in ("n2", "n3", "n4"):
        assert confirm(raft, peer, 1, term=1) == []


def test_ra27_a_follower_whose_log_does_not_match_yet_confirms_all_the_same() -> None:
    raft = ready_leader()
    rounds(raft, "r")
    raft.handle(Received("n2", AppendRefusal(1, 1, 1, 0)))
    effects = raft.handle(Received("n3", AppendRefusal(1, 1, 1, 0)))
    assert only(ReadReady, effects) == [ReadReady("r", 1)]


def test_ra27_a_lost_round_is_sent_again_with_the_heartbeat() -> None:
    raft = ready_leader()
    rounds(raft, "r")
    assert [message.round for message in only(Append, messages(raft.handle(HeartbeatTick())))] == [1, 1, 1, 1]


def test_ra27_a_follower_repeats_the_newest_round_of_this_term_only() -> None:
    raft = member(1)
    assert messages(append(raft, term=1, prev=(1, 1), read_round=7)) == [AppendReply(1, 7, 1, 1)]
    assert messages(append(raft, term=1, prev=(1, 1), read_round=5)) == [AppendReply(1, 7, 1, 1)]
    assert messages(append(raft, term=2, prev=(1, 1), read_round=2, sender="n3")) == [AppendReply(2, 2, 1, 1)]


def test_a_single_node_reads_at_once() -> None:
    raft = leader(voters=("n1",))
    raft.handle(Written(1, 1, 0))
    assert only(ReadReady, raft.handle(Read("r"))) == [ReadReady("r", 1)]
    assert only(ReadReady, raft.handle(Read("s"))) == [ReadReady("s", 1)]


def test_a_follower_rejects_reads_and_names_the_leader() -> None:
    raft = member(1)
    append(raft, term=1, prev=(1, 1))
    assert raft.handle(Read("r")) == [Rejected("r", "n2", "not_leader")]


def test_a_leader_that_cannot_confirm_takes_only_so_many_reads() -> None:
    raft = leader(config=Config(max_pending=2))
    outcomes = [only(Rejected, raft.handle(Read(i))) for i in range(3)]
    assert outcomes == [[], [], [Rejected(2, "n1", "busy")]]
