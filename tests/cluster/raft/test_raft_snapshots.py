"""A follower takes a snapshot of its leader in place of entries, part by part (RA-42)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pytest

from splitbrain.cluster.raft import Entry, InvariantError, Raft, Recovered
from splitbrain.cluster.raft.effects import Effect, InstallSnapshot, SendChunk, StartHeartbeat, StopHeartbeat
from splitbrain.cluster.raft.events import Compacted, HeartbeatTick, Received, Written
from splitbrain.cluster.raft.follower import RECEIVE_TICKS
from splitbrain.cluster.raft.leader import CHUNK_TICKS, MAX_CHUNK_TICKS
from splitbrain.cluster.raft.membership import Configuration, encode_configuration, encode_configurations
from splitbrain.cluster.raft.messages import (
    Append,
    AppendRefusal,
    AppendReply,
    SnapshotChunk,
    SnapshotReply,
    Vote,
    VoteReply,
)
from splitbrain.cluster.raft.versions import encode_version
from tests.cluster.raft.single import FIVE, append, entries, leader, member, messages, only, written

STATE = b"0123456789"
THREE = ("n1", "n2", "n6")


def chunk(raft: Raft, offset: int, data: bytes, *, index: int = 7, members: Sequence[str] = FIVE) -> list[Effect]:
    """A part of the snapshot of entry 7 of term 2, from n2, which leads term 2."""
    configurations = encode_configurations([(0, Configuration(FIVE)), (5, Configuration(tuple(members)))])
    message = SnapshotChunk(2, 0, index, 2, configurations, offset, len(STATE), data)
    return raft.handle(Received("n2", message))


def installed(raft: Raft, members: Sequence[str] = FIVE) -> list[Effect]:
    return chunk(raft, 0, STATE, members=members)


def test_ra42_a_snapshot_is_taken_over_when_it_is_whole_and_then_the_log_goes_on_behind_it() -> None:
    raft = member(1, 1)
    assert messages(chunk(raft, 0, STATE[:4])) == [SnapshotReply(2, 0, 7, 4)]
    effects = chunk(raft, 4, STATE[4:])
    [install] = only(InstallSnapshot, effects)
    assert (install.index, install.last_term, install.state) == (7, 2, STATE)
    assert messages(effects) == [AppendReply(2, 0, 7, 7)]
    assert (raft.commit_index, raft.applied_index, raft.last_index, raft.log.base_index) == (7, 7, 7, 7)
    written(raft, append(raft, *entries(2, first=8), term=2, prev=(7, 2)))
    assert raft.written_index == 8


def test_ra42_a_part_that_comes_twice_or_out_of_order_is_not_added() -> None:
    raft = member(1, 1)
    chunk(raft, 0, STATE[:4])
    assert messages(chunk(raft, 0, STATE[:4])) == [SnapshotReply(2, 0, 7, 4)]
    assert messages(chunk(raft, 8, STATE[8:])) == [SnapshotReply(2, 0, 7, 4)]
    [install] = only(InstallSnapshot, chunk(raft, 4, STATE[4:]))
    assert install.state == STATE


def test_ra42_a_newer_snapshot_begins_anew() -> None:
    raft = member(1, 1)
    chunk(raft, 0, STATE[:4])
    assert messages(chunk(raft, 4, STATE[4:], index=9)) == [SnapshotReply(2, 0, 9, 0)]
    assert raft.log.base_index == 0


def test_ra42_a_late_part_of_an_older_snapshot_takes_nothing_of_the_newer_one_away() -> None:
    raft = member(1, 1)
    chunk(raft, 0, STATE[:4])
    chunk(raft, 0, STATE[:8], index=9)
    assert messages(chunk(raft, 0, STATE[:4])) == [SnapshotReply(2, 0, 9, 8)]
    [install] = only(InstallSnapshot, chunk(raft, 8, STATE[8:], index=9))
    assert (install.index, install.state) == (9, STATE)


def test_ra42_a_snapshot_brings_the_members() -> None:
    raft = member(1, 1)
    installed(raft, members=THREE)
    assert raft.members == tuple(sorted(THREE))


def test_a_report_of_what_a_snapshot_replaced_says_nothing_of_the_log_behind_it() -> None:
    raft = member()
    late = append(raft, *entries(1, 1, 1, 1, 1, 1, 1, 1), term=1)
    installed(raft)
    append(raft, *entries(2, first=8), term=2, prev=(7, 2))
    assert raft.written_index == 7
    written(raft, late)  # of entry 8 of the log that is void
    assert raft.written_index == 7


def test_what_is_committed_already_is_not_installed_again_and_not_called_durable_before_it_is() -> None:
    raft = member()
    not_durable = append(raft, *entries(2, 2, 2, 2, 2, 2, 2, 2), term=2, commit=8)
    effects = installed(raft)
    assert not only(InstallSnapshot, effects)
    assert messages(effects) == [AppendReply(2, 0, 8, 0)]
    assert messages(written(raft, not_durable)) == [AppendReply(2, 0, 8, 8)]


def test_ra42_a_follower_gives_up_a_snapshot_of_which_no_more_comes() -> None:
    raft = member(1, 1)
    assert only(StartHeartbeat, chunk(raft, 0, STATE[:4]))
    for _ in range(RECEIVE_TICKS - 1):
        raft.handle(HeartbeatTick())
    assert messages(chunk(raft, 4, STATE[4:6])) == [SnapshotReply(2, 0, 7, 6)], "as long as it lasts, it goes on"
    for _ in range(RECEIVE_TICKS - 1):
        assert not only(StopHeartbeat, raft.handle(HeartbeatTick()))
    assert only(StopHeartbeat, raft.handle(HeartbeatTick()))
    assert messages(chunk(raft, 6, STATE[6:])) == [SnapshotReply(2, 0, 7, 0)], "it is asked for from its beginning"
    assert not only(StartHeartbeat, chunk(raft, 0, STATE[:4])), "they run already"
    assert only(StopHeartbeat, chunk(raft, 4, STATE[4:]))


def test_ra42_a_follower_that_receives_a_snapshot_votes_and_a_higher_term_ends_the_transfer() -> None:
    raft = member(1, 1)
    chunk(raft, 0, STATE[:4])
    effects = raft.handle(Received("n3", Vote(3, 9, 2)))
    assert messages(effects) == [VoteReply(3, True)]
    assert only(StopHeartbeat, effects)
    other = member(1, 1)
    chunk(other, 0, STATE[:4])
    effects = other.handle(Received("n3", Append(3, 0, 0, 2, 1, ())))
    assert messages(effects) == [AppendReply(3, 0, 2, 2)]
    assert only(StopHeartbeat, effects)
    chunk(other, 4, STATE[4:])
    assert other.log.base_index == 0, "the rest comes from a leader of an earlier term"


def lagging(raft: Raft) -> None:
    """n3 lacks what its leader n1 dropped."""
    raft.handle(Written(4, 2, 0))
    for peer in ("n2", "n4"):
        raft.handle(Received(peer, AppendReply(2, 0, 4, 4)))
    raft.handle(Compacted(4))
    assert only(SendChunk, raft.handle(Received("n3", AppendRefusal(2, 0, 3, 0))))


def waits(raft: Raft, count: int) -> list[int]:
    """After how many ticks each of the next parts is sent to n3."""
    found: list[int] = []
    for _ in range(count):
        ticks = 1
        while not any(sent.to == "n3" for sent in only(SendChunk, keep_office(raft))):
            ticks += 1
        found.append(ticks)
    return found


def keep_office(raft: Raft) -> list[Effect]:
    effects = raft.handle(HeartbeatTick())
    for peer in ("n2", "n4", "n5"):
        raft.handle(Received(peer, AppendReply(2, 0, 4, 4)))
    return effects


def test_ra42_a_part_that_stays_without_an_answer_is_sent_again_ever_more_seldom_up_to_a_limit() -> None:
    raft = leader(1, 1, 1)
    lagging(raft)
    assert waits(raft, 4) == [CHUNK_TICKS, 2 * CHUNK_TICKS, MAX_CHUNK_TICKS, MAX_CHUNK_TICKS]
    assert MAX_CHUNK_TICKS < RECEIVE_TICKS, "a follower waits for more than one further attempt"
    assert only(SendChunk, raft.handle(Received("n3", SnapshotReply(2, 0, 4, 6)))), "news: the next part goes at once"
    assert waits(raft, 2) == [CHUNK_TICKS, 2 * CHUNK_TICKS]


def test_ra42_a_follower_that_is_back_after_a_silence_is_not_kept_waiting() -> None:
    raft = leader(1, 1, 1)
    lagging(raft)
    waits(raft, 2)
    for _ in range(CHUNK_TICKS + 5):
        assert not only(SendChunk, keep_office(raft))
    raft.handle(Received("n3", AppendRefusal(2, 0, 4, 2, 1)))
    assert waits(raft, 1) == [1]


def test_ra42_a_leader_that_dropped_what_a_follower_needs_sends_its_snapshot_until_it_is_answered() -> None:
    raft = leader(1, 1, 1)
    raft.handle(Written(4, 2, 0))
    for peer in ("n2", "n4"):
        raft.handle(Received(peer, AppendReply(2, 0, 4, 4)))
    raft.handle(Compacted(4))
    [first] = only(SendChunk, raft.handle(Received("n3", AppendRefusal(2, 0, 3, 0))))
    assert (first.to, first.offset) == ("n3", 0)
    again = [only(SendChunk, raft.handle(HeartbeatTick())) for _ in range(CHUNK_TICKS)]
    to_n3 = [[sent.offset for sent in each if sent.to == "n3"] for each in again]
    assert to_n3 == [[]] * (CHUNK_TICKS - 1) + [[0]]
    [second] = only(SendChunk, raft.handle(Received("n3", SnapshotReply(2, 0, 4, 6))))
    assert (second.index, second.offset) == (4, 6)
    assert not only(SendChunk, raft.handle(Received("n3", SnapshotReply(2, 0, 4, 6))))


def test_a_snapshot_of_what_was_not_applied_is_a_defect() -> None:
    raft = member(1, 1)
    with pytest.raises(InvariantError, match="has a snapshot of entry 2, applied up to 0"):
        raft.handle(Compacted(2))


def test_ra42_members_and_version_behind_a_snapshot_stay_if_the_log_does() -> None:
    """They may be committed, unknown to this node: without them it would count another majority."""
    behind = (
        Entry(8, 2, "config", encode_configuration(Configuration(THREE))),
        Entry(9, 2, "noop", encode_version(2)),
    )
    raft = Raft("n1", FIVE, Recovered(2, None, (*entries(2, 2, 2, 2, 2, 2, 2), *behind)), version=2)
    installed(raft)
    assert (raft.log.base_index, raft.last_index, raft.commit_index) == (7, 9, 7)
    assert (raft.members, raft.newest_version) == (THREE, 2)
    other = Raft("n1", FIVE, Recovered(2, None, (*entries(1, 1, 1, 1, 1, 1, 1), *behind)), version=2)
    installed(other)
    assert (other.last_index, other.members, other.newest_version) == (7, FIVE, 1)


@pytest.mark.parametrize("ticks_per_part", [1, 8, 15, 25, 40])
def test_ra42_a_snapshot_comes_through_a_slow_link(ticks_per_part: int) -> None:
    """Parts that the leader sends again stand before new ones in the queue of the link."""
    sender, receiver = leader(1, 1, 1), Raft("n3", FIVE, Recovered(1, None, entries(1)))
    lagging(sender)
    configurations = encode_configurations([(0, Configuration(FIVE))])
    queue: deque[tuple[int, SendChunk]] = deque()
    free_at = 0

    def send(effects: list[Effect], now: int) -> None:
        nonlocal free_at
        for wanted in only(SendChunk, effects):
            if wanted.to == "n3":
                free_at = max(free_at, now) + ticks_per_part
                queue.append((free_at, wanted))

    for now in range(100 * ticks_per_part + 200):
        send(keep_office(sender), now)
        receiver.handle(HeartbeatTick())
        while queue and queue[0][0] <= now:
            offset = queue.popleft()[1].offset
            part = SnapshotChunk(2, 0, 4, 2, configurations, offset, 10, STATE[offset : offset + 1])
            for reply in messages(receiver.handle(Received("n1", part))):
                send(sender.handle(Received("n3", reply)), now)
    assert receiver.log.base_index == 4
