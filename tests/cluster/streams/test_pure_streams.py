"""The coordinator and copies of a stream without nodes: what was confirmed stays, in every drawn order of events."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from splitbrain.cluster.bugs import M77, M98, M99, Bug, Bugs
from splitbrain.cluster.errors import CorruptStorageError
from splitbrain.cluster.streams.chunks import Chunk, ChunkLog, StreamMessage, chunks_in, record_of
from splitbrain.cluster.streams.commands import (
    Accepted,
    AddReplica,
    DeleteReplica,
    Established,
    NewStream,
    Started,
    Stopped,
    StreamRefused,
)
from splitbrain.cluster.streams.coordinator import Coordinator
from splitbrain.cluster.streams.frames import Attach, Attached, Chunks, Pull, ReadFrom
from splitbrain.cluster.streams.member import BATCH_BYTES, AnswerTo, Meta, Persist, StreamMember
from splitbrain.cluster.streams.position import BEGIN, Position, agreed
from splitbrain.cluster.streams.state import State, Stream
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


def test_what_a_copy_without_a_vote_has_is_not_counted_towards_a_majority() -> None:
    """Else it is confirmed by a minority of those among whom the next writer is chosen."""
    writer = StreamMember(Meta("n1", 1, "s", 1))
    writer.write(1, ("n1", "n2", "n3"))
    writer.publish([(StreamMessage("p", 1, b"x"), 7)])
    for learner in ("n4", "n5"):
        effects = writer.pulled(learner, Pull(1, 1, writer.log.end, 0))
        assert not [each for each in effects if isinstance(each, AnswerTo)]
    assert (writer.committed, writer.is_established) == (0, False)
    assert [
        each.token for each in writer.pulled("n2", Pull(1, 1, writer.log.end, 0)) if isinstance(each, AnswerTo)
    ] == [7]
    assert writer.committed == 1


def test_an_epoch_is_written_once_and_not_after_it_was_stopped() -> None:
    copy = StreamMember(Meta("n1", 1, "s", 1))
    assert copy.write(1, ("n1",)) is not None
    again = StreamMember(copy.meta, copy.log.chunks)
    assert again.write(1, ("n1",)) is None
    assert again.stop(1) == [Persist(Meta("n1", 1, "s", 1, stopped=1, wrote=1))]
    later = StreamMember(again.meta, copy.log.chunks)
    assert later.follow(1, "n2", 0) is None
    assert later.write(2, ("n1",)) is not None


def test_a_copy_takes_part_in_no_epoch_before_that_of_its_own_last_chunk() -> None:
    """A node that starts applies again what it applied before: an action of then cuts nothing off, and adds nothing."""
    log = ChunkLog([Chunk(3, 0, ()), Chunk(4, 0, (StreamMessage("p", 1, b"x"),))])
    actions: list[Callable[[StreamMember, int], object]] = [
        lambda copy, epoch: copy.follow(epoch, "n2", 0),
        lambda copy, epoch: copy.write(epoch, ("n1",)),
    ]
    for begins in actions:
        copy = StreamMember(Meta("n1", 1, "s", 1, stopped=2), log.chunks)
        assert begins(copy, 3) is None
        assert copy.role == "stopped"
        assert begins(copy, 5) is not None
    copy = StreamMember(Meta("n1", 1, "s", 1, stopped=2), log.chunks)
    assert copy.write(4, ("n1",)) is None, "another member wrote epoch 4"
    assert copy.follow(4, "n2", 0) is not None


def test_what_waits_for_a_majority_is_unknown_once_the_writer_is_stopped() -> None:
    copy = StreamMember(Meta("n1", 1, "s", 1))
    copy.write(1, ("n1", "n2"))
    assert not [each for each in copy.publish([(StreamMessage("p", 1, b"x"), 7)]) if isinstance(each, AnswerTo)]
    effects = copy.stop(1) or []
    answers = [each for each in effects if isinstance(each, AnswerTo)]
    assert [(each.token, getattr(each.reply, "definite", None)) for each in answers] == [(7, False)]


def test_an_answer_to_a_question_of_before_a_restart_cuts_nothing_off() -> None:
    """What was copied since then was counted towards a majority."""
    begin, message = Chunk(1, 0, ()), Chunk(1, 0, (StreamMessage("p", 1, b"x"),))
    copy = StreamMember(Meta("n2", 1, "s", 1))
    copy.follow(1, "n1", 0)
    early = Attached(1, 1, BEGIN, BEGIN)
    copy.attached("n1", early, 0)
    copy.chunks("n1", Chunks(1, 1, BEGIN, (begin, message), 0), 0)
    again = StreamMember(copy.meta, copy.log.chunks)
    again.follow(1, "n1", 0)
    assert again.attached("n1", early, 0) == []
    assert again.log.end == Position(1, 1)
    again.attached("n1", Attached(1, 1, Position(1, 1), Position(1, 1)), 0)
    again.chunks("n1", Chunks(1, 1, Position(1, 1), (Chunk(1, 1, message.messages),), 0), 0)
    assert again.log.end == Position(1, 2)


def test_an_answer_to_a_reader_has_as_much_as_a_frame_can_carry() -> None:
    copy = StreamMember(Meta("n1", 1, "s", 1))
    copy.write(1, ("n1",))
    body = b"x" * (BATCH_BYTES // 4)
    for number in range(1, 11):
        copy.publish([(StreamMessage("p", number, body), number)])
    parts = [copy.read(ReadFrom("s", offset, 1000)) for offset in (0, 4, 8)]
    assert [(part.first, len(part.bodies), part.committed) for part in parts] == [(0, 4, 10), (4, 4, 10), (8, 2, 10)]


def test_a_member_that_never_gives_its_copy_up_does_not_hold_up_later_changes() -> None:
    coordinator = Coordinator(State())
    stream = begun(coordinator)
    assert isinstance(coordinator.apply(10, 0, DeleteReplica("s", "n3"))[0], Accepted)
    assert isinstance(coordinator.apply(11, 0, DeleteReplica("s", "n2"))[0], StreamRefused)
    for index, name in enumerate(("n1", "n2"), 12):
        coordinator.apply(index, 0, Stopped(1, name, 10, Position(1, 0)))
    action = stream.members["n1"].action
    assert action is not None
    assert action.kind == "write"
    coordinator.apply(14, 0, Started(1, "n1", action.index))
    assert isinstance(coordinator.apply(15, 0, AddReplica("s", "n4"))[0], StreamRefused), "epoch 2 has not begun"
    coordinator.apply(15, 0, Established(1, 2))
    assert (set(stream.members), stream.voters) == ({"n1", "n2", "n3"}, ("n1", "n2"))
    assert isinstance(coordinator.apply(16, 0, AddReplica("s", "n3"))[0], StreamRefused)
    assert isinstance(coordinator.apply(17, 0, DeleteReplica("s", "n2"))[0], Accepted)


def begun(coordinator: Coordinator) -> Stream:
    """A stream of n1, n2 and n3 whose first epoch n1 writes."""
    coordinator.apply(1, 0, NewStream("s", ("n1", "n2", "n3"), "n1"))
    for index, name in enumerate(("n1", "n2"), 2):
        coordinator.apply(index, 0, Stopped(1, name, 1, BEGIN))
    coordinator.apply(4, 0, Started(1, "n1", 3))
    coordinator.apply(5, 0, Established(1, 1))
    return coordinator.state.streams[1]


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


def test_of_one_write_a_loss_of_power_may_leave_the_later_records_alone() -> None:
    """Sectors become durable in any order: that is no corruption."""
    log = ChunkLog()
    records = [log.append(Chunk(1, 0, ()))]
    records += [log.append(Chunk(1, at, (StreamMessage("p", at + 1, b"x" * 99),)), not at) for at in range(3)]
    torn = bytearray(b"".join(records))
    torn[len(records[0]) : len(records[0]) + 20] = bytes(20)
    found, used = chunks_in("log", bytes(torn))
    assert (list(found), used) == (log.chunks[:1], len(records[0]))


def test_the_rest_of_an_unfinished_write_is_cut_off_and_damage_before_a_later_write_is_an_error() -> None:
    chunks = [Chunk(1, 0, ()), Chunk(1, 0, (StreamMessage("p", 1, b"x" * 9),)), Chunk(1, 1, ())]
    records = [record_of(each) for each in chunks]
    whole = b"".join(records)
    ends = [sum(map(len, records[:count])) for count in range(4)]
    for size in range(len(whole) + 1):
        found, used = chunks_in("log", whole[:size])
        count = sum(end <= size for end in ends) - 1
        assert (list(found), used) == (chunks[:count], ends[count])
    for at in range(ends[1], ends[2]):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        with pytest.raises(CorruptStorageError, match=f"byte {ends[1]}: a record is damaged"):
            chunks_in("log", bytes(damaged))
    log = ChunkLog(chunks)
    assert log.truncate(Position(1, 0)) == ends[1]
    assert log.end == Position(1, 0)
