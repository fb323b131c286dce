"""The coordinator and copies of a stream without nodes: what was confirmed stays, in every drawn order of events."""

from __future__ import annotations

import pytest

from splitbrain.cluster.bugs import M77, M98, M99, Bug, Bugs
from splitbrain.cluster.errors import CorruptStorageError
from splitbrain.cluster.streams.chunks import Chunk, ChunkLog, StreamMessage, chunks_in, record_of
from splitbrain.cluster.streams.commands import DeleteReplica, NewStream, Stopped, StreamRefused
from splitbrain.cluster.streams.coordinator import Coordinator
from splitbrain.cluster.streams.frames import Attach, Pull
from splitbrain.cluster.streams.member import AnswerTo, Meta, StreamMember
from splitbrain.cluster.streams.position import BEGIN, Position, agreed
from splitbrain.cluster.streams.state import State
from tests.cluster.streams.pure import Pure


def run(seed: int, bugs: Bugs | None = None, steps: int = 400) -> Pure:
    pure = Pure(seed, 3 + seed % 2, bugs or Bugs())
    for _ in range(steps):
        pure.step()
        pure.check()
    return pure


def test_what_was_confirmed_stays_and_all_copies_give_one_log() -> None:
    confirmed = epochs = changes = 0
    for seed in range(25):
        pure = run(seed)
        confirmed += len(pure.confirmed)
        epochs += pure.stream.epoch
        changes += pure.stream.voters not in (("n1", "n2", "n3"), ("n1", "n2", "n3", "n4"))
    assert (confirmed > 25, epochs > 25, changes > 2) == (True, True, True), (confirmed, epochs, changes)


@pytest.mark.parametrize("bug", [M77, M98, M99], ids=lambda bug: bug.id)
def test_each_switch_breaks_that(bug: Bug) -> None:
    for seed in range(200):
        try:
            run(seed, Bugs([bug.id]))
        except AssertionError:
            return
    pytest.fail("no run showed it")


def test_logs_agree_up_to_the_lower_end_of_the_last_epoch_that_both_have() -> None:
    one = [Position(1, 3), Position(2, 7), Position(4, 9)]
    assert agreed(one, [Position(1, 3), Position(2, 5), Position(3, 8)]) == Position(2, 5)
    assert agreed(one, [Position(1, 3), Position(2, 7)]) == Position(2, 7)
    assert agreed(one, [Position(5, 1)]) == BEGIN


def test_a_committed_message_of_an_older_epoch_waits_for_the_chunk_that_begins_this_one() -> None:
    """Else a log of an epoch between, which has another message there, could be preferred to it (figure 8)."""
    old = [Chunk(1, 0, ()), Chunk(1, 0, (StreamMessage("", 0, b"x"),))]
    writer = StreamMember(Meta("n1", 1, "s", 1, 2, 1), old)
    assert writer.write(3, ("n1", "n2", "n3")) is not None
    writer.asked_to_attach("n2", Attach(1, 3, ()))
    writer.pulled("n2", Pull(1, 3, Position(1, 1), 0))
    assert writer.committed == 0
    writer.pulled("n2", Pull(1, 3, Position(3, 1), 0))
    assert writer.committed == 1


def test_an_epoch_is_written_once_and_not_after_it_was_stopped() -> None:
    copy = StreamMember(Meta("n1", 1, "s", 1))
    assert copy.write(1, ("n1",)) is not None
    again = StreamMember(copy.meta, copy.log.chunks)
    assert again.write(1, ("n1",)) is None
    assert again.stop(1) is not None
    assert again.follow(1, "n2", 0) is None
    assert again.write(2, ("n1",)) is not None


def test_what_waits_for_a_majority_is_unknown_once_the_writer_is_stopped() -> None:
    copy = StreamMember(Meta("n1", 1, "s", 1))
    copy.write(1, ("n1", "n2"))
    assert not [each for each in copy.publish([(StreamMessage("p", 1, b"x"), 7)]) if isinstance(each, AnswerTo)]
    effects = copy.stop(1) or []
    answers = [each for each in effects if isinstance(each, AnswerTo)]
    assert [(each.token, getattr(each.reply, "definite", None)) for each in answers] == [(7, False)]


def test_results_of_another_action_are_ignored_and_changes_wait_for_the_epoch_to_begin() -> None:
    coordinator = Coordinator(State())
    coordinator.apply(1, 0, NewStream("s", ("n1", "n2", "n3")))
    stream = coordinator.state.streams[1]
    coordinator.apply(2, 0, Stopped(1, "n1", 99, BEGIN))
    assert stream.members["n1"].phase == "down"
    answer, _ = coordinator.apply(3, 0, DeleteReplica("s", "n1"))
    assert isinstance(answer, StreamRefused)
    assert answer.reason == "not_now"
    coordinator.apply(4, 0, Stopped(1, "n1", 1, Position(0, 0)))
    coordinator.apply(5, 0, Stopped(1, "n3", 1, Position(0, 0)))
    assert (stream.epoch, stream.writer) == (1, "n1")


def test_the_rest_of_an_unfinished_write_is_cut_off_and_damage_before_a_whole_chunk_is_an_error() -> None:
    chunks = [Chunk(1, 0, ()), Chunk(1, 0, (StreamMessage("p", 1, b"x" * 9),)), Chunk(1, 1, ())]
    records = [record_of(each) for each in chunks]
    whole = b"".join(records)
    ends = [sum(map(len, records[:count])) for count in range(4)]
    for size in range(len(whole) + 1):
        found, used = chunks_in("log", whole[:size])
        count = sum(end <= size for end in ends) - 1
        assert (list(found), used) == (chunks[:count], ends[count])
    damaged = bytearray(whole)
    damaged[ends[1] + 12] ^= 1
    with pytest.raises(CorruptStorageError, match=f"damaged at byte {ends[1]}"):
        chunks_in("log", bytes(damaged))
    log = ChunkLog(chunks)
    assert log.truncate(Position(1, 0)) == ends[1]
    assert log.end == Position(1, 0)
