"""The files of a classic queue and its index, item by item (CQ-1 to CQ-3, CQ-8)."""

from __future__ import annotations

import random
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.classic import Index, IndexOptions, Record, open_index, record
from splitbrain.cluster.classic.entries import Kind, decode_original, encode_entry
from splitbrain.cluster.classic.packed import is_persistent, publish, record_of, rewritten, scan, settles
from splitbrain.cluster.classic.records import Version
from splitbrain.cluster.errors import (
    ConversionRefusedError,
    CorruptStorageError,
    InvalidRequestError,
    StorageError,
    UnknownMessageError,
)
from tests.cluster.classic.disk import MemoryDisk, done
from tests.cluster.classic.support import (
    CONTENT_OF_RABBITMQ,
    body_v1,
    content,
    files_of_rabbitmq,
    message,
    opened,
    publish_v1,
    settle,
)

GOLDEN_HEAD = bytes.fromhex("000102030405060708090a0b0c0d0e0f00060a24181e400000000400")
"""Message id, expiry 1,700,000,000,000,000 us, size 1,024."""


def golden(body: bytes = b"", redeliveries: int = 0) -> Record:
    return record(bytes(range(16)), 1024, expiry=1_700_000_000_000_000, body=body, redeliveries=redeliveries)


# --- CQ-1 and CQ-2: bytes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "seq", "first"),
    [
        ("persistent", 5, "0000000000000005"),
        ("transient", 5, "4000000000000005"),
        ("deliver", 2**61, "a000000000000000"),
        ("ack", 2**62 - 1, "ffffffffffffffff"),
    ],
)
def test_cq_1_an_entry_of_the_journal_begins_with_two_bits_and_a_sequence_id(kind: Kind, seq: int, first: str) -> None:
    published = golden(b"hi") if kind in ("persistent", "transient") else None
    rest = GOLDEN_HEAD + bytes.fromhex("00000002") + b"hi" if published else b""
    assert encode_entry(kind, seq, published, 1) == bytes.fromhex(first) + rest


def test_cq_2_a_publish_of_version_1_is_two_bytes_and_32() -> None:
    found = publish(0x1234, golden(), persistent=True, version=1)
    assert found == bytes.fromhex("d234") + GOLDEN_HEAD + bytes(4)
    assert len(found) == 2 + 32
    assert publish(0x1234, golden(), persistent=False, version=1)[:2] == bytes.fromhex("9234")
    assert publish(1, golden(b"hello"), persistent=True, version=1)[-9:] == bytes.fromhex("00000005") + b"hello"


def test_cq_2_a_publish_of_version_2_has_four_bytes_more_for_the_count() -> None:
    found = publish(0x1234, golden(b"hello", 7), persistent=True, version=2)
    assert found == bytes.fromhex("d234") + GOLDEN_HEAD + bytes.fromhex("0000000700000005") + b"hello"
    assert len(found) == 2 + 36 + 5


def test_cq_2_a_settle_is_two_bytes() -> None:
    assert settles([0, 0x1234, 16_383]) == bytes.fromhex("400052347fff")


def test_cq_3_records_that_say_the_same_are_equal_in_any_version_and_count_from_0() -> None:
    one = record_of(golden().encoded(1).rjust(34), 0, 1)
    two = record_of(golden().encoded(2).rjust(38), 0, 2)
    assert one == two == golden()
    assert (one.redeliveries, one.needs, two.needs, two.counted(3).needs) == (0, 1, 1, 2)
    assert (two.id, two.expiry, two.size, two.body) == (bytes(range(16)), 1_700_000_000_000_000, 1024, b"")
    assert two.counted(3).encoded(2)[28:32] == bytes.fromhex("00000003")
    assert two.counted(2**40).redeliveries == 2**32 - 1
    with pytest.raises(AssertionError):
        two.counted(3).encoded(1)


@pytest.mark.parametrize(
    "wrong", [{"size": -1}, {"size": 2**32}, {"expiry": 0}, {"expiry": -1}, {"expiry": 2**64}, {"redeliveries": -1}]
)
def test_cq_2_a_number_that_has_no_place_in_a_record_is_refused(wrong: dict[str, Any]) -> None:
    how: dict[str, Any] = {"size": 1, **wrong}
    with pytest.raises(ValueError, match=next(iter(wrong))):
        record(bytes(16), **how)
    largest = record(bytes(16), 2**32 - 1, expiry=2**64 - 1, redeliveries=2**32 - 1)
    assert (largest.size, largest.expiry, largest.redeliveries) == (2**32 - 1, 2**64 - 1, 2**32 - 1)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(40))
def test_cq_2_runs_are_found_as_records_are_one_by_one(version: int, seed: int) -> None:
    rng = random.Random(seed)
    parts, publishes, settled = list[bytes](), list[int](), list[int]()
    at = 0
    for _ in range(rng.randint(1, 12)):
        size, kind = rng.choice([0, 0, 1, 5, 300]), rng.random()
        for number in range(rng.choice([1, 1, 2, 3, 17, 100])):
            if kind < 0.3:
                part = settle(number)
                settled.append(at)
            else:
                part = publish(number, golden(rng.randbytes(size)), persistent=True, version=2 if version == 2 else 1)
                publishes.append(at)
            parts.append(part)
            at += len(part)
    whole = b"".join(parts)
    found = scan(whole, 0, len(whole), 2 if version == 2 else 1)
    assert (found.publishes.tolist(), found.settles.tolist(), found.end) == (publishes, settled, len(whole))
    cut = rng.randrange(len(whole))
    shorter = scan(whole, 0, cut, 2 if version == 2 else 1)
    assert shorter.publishes.tolist() + shorter.settles.tolist() == [
        each for each in publishes if each in found.publishes and each < shorter.end
    ] + [each for each in settled if each < shorter.end]
    assert shorter.end <= cut
    assert shorter.end == max([each for each in [0, *publishes, *settled, len(whole)] if each <= cut])


@given(
    st.integers(0, 16_383),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=40),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_cq_2_the_bytes_of_a_publish_are_its_fields_one_behind_the_other(
    relative: int, name: bytes, expiry: int, size: int, body: bytes, persistent: bool, count: int
) -> None:
    found = record(name, size, expiry=expiry or None, body=body)
    first = (1 << 15) + (persistent << 14) + relative
    fields = [first.to_bytes(2, "big"), name, expiry.to_bytes(8, "big"), size.to_bytes(4, "big")]
    rest = [len(body).to_bytes(4, "big"), body]
    assert publish(relative, found, persistent=persistent, version=1) == b"".join([*fields, *rest])
    counted = publish(relative, found.counted(count), persistent=persistent, version=2)
    assert counted == b"".join([*fields, count.to_bytes(4, "big"), *rest])
    whole = counted + publish(relative, found, persistent=persistent, version=2)
    assert record_of(whole, 0, 2) == found.counted(count)
    assert is_persistent(whole, len(counted)) == persistent


@pytest.mark.parametrize("seed", range(60))
def test_cq_8_a_conversion_of_a_whole_file_is_that_of_its_records_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    sizes = rng.choice([[0], [5], [0, 5], [1, 2, 300], [0, 7, 7, 7], range(50), [600, 900]])
    found = [(number, golden(rng.randbytes(rng.choice(sizes)))) for number in range(rng.choice([1, 3, 60, 300]))]
    version: Version = rng.choice([1, 2])
    if version == 2:
        found = [(number, each.counted(rng.choice([0, 3]))) for number, each in found]
    whole = b"".join(publish(number, each, persistent=number % 2 == 0, version=version) for number, each in found)
    begins = scan(whole, 0, len(whole), version).publishes
    kept = np.array([rng.random() < 0.7 for _ in found])
    counts = np.array([rng.choice([0, 9]) for _ in found])
    left = [(number, each.counted(int(counts[number]))) for number, each in found if kept[number]]
    left.sort(key=lambda pair: len(pair[1].body))
    expected = b"".join(publish(number, each, persistent=number % 2 == 0, version=2) for number, each in left)
    assert rewritten(whole, begins[kept], counts[kept], version, 2) == expected


# --- CQ-1: journal and flush ------------------------------------------------------------------------------------------


def test_cq_1_what_was_synced_is_there_after_a_loss_of_power_and_what_was_not_need_not_be() -> None:
    disk = MemoryDisk()
    index = opened(disk)
    first = done(index.publish(message(1, body=b"one")))
    done(index.sync())
    done(index.publish(message(2), persistent=False))
    for left in disk.lost(random.Random(1)):
        assert [each[0] for each in content(opened(left))] == [first]
    done(index.sync())
    for left in disk.lost(random.Random(1)):
        assert content(opened(left)) == content(index)
    assert content(index)[0] == (0, b"%016d" % 1, None, 1001, b"one", True, False, 0)


def test_cq_1_a_full_journal_is_flushed_segments_are_synced_before_the_journal_goes() -> None:
    disk = MemoryDisk()
    index = opened(disk, max_journal_entries=10)
    disk.calls.clear()
    done(index.publish_all([message(number) for number in range(10)]))
    assert disk.calls == [
        "create 0.idx",
        "append 0.idx",
        "sync 0.idx",
        "sync names",
        "create journal.jif.new",
        "truncate journal.jif.new",
        "append journal.jif.new",
        "sync journal.jif.new",
        "rename journal.jif",
        "sync names",
    ]
    assert content(opened(disk.killed())) == content(index)


def test_cq_1_a_message_that_came_and_went_within_a_journal_reaches_no_segment() -> None:
    disk = MemoryDisk()
    index = opened(disk)
    seqs = done(index.publish_all([message(number) for number in range(3)]))
    done(index.ack(seqs[:2]))
    done(index.flush())
    found = disk.read("0.idx") or b""
    assert (b"%016d" % 0 in found, b"%016d" % 2 in found) == (False, True)


def test_cq_2_a_segment_goes_when_its_publishes_are_all_acknowledged_and_no_id_is_given_twice() -> None:
    disk = MemoryDisk()
    index = opened(disk)
    seqs = done(index.publish_all([message(number) for number in range(5)]))
    done(index.flush())
    assert disk.names() == ["0.idx", "journal.jif"]
    done(index.deliver(seqs))
    done(index.ack(seqs))
    done(index.flush())
    assert (disk.names(), len(index)) == (["journal.jif"], 0)
    again = opened(disk.killed())
    assert done(again.publish(message(9))) == 5


def test_what_is_asked_about_a_message_that_is_not_there_is_refused() -> None:
    index = opened(MemoryDisk())
    [seq] = done(index.publish_all([message(1)]))
    done(index.deliver([seq]))
    with pytest.raises(UnknownMessageError, match="message 0 is delivered; what was asked needs one that is not deliv"):
        done(index.deliver([seq]))
    done(index.ack([seq]))
    with pytest.raises(UnknownMessageError, match="message 0 is acknowledged already"):
        done(index.ack([seq]))
    with pytest.raises(UnknownMessageError, match="message 7 is not there"):
        done(index.recount(7, message(7, redeliveries=1)))


def before_a_flush() -> tuple[MemoryDisk, Index]:
    """A flush will convert segment 0 and append to it, remove segment 1, and make segment 2."""
    disk = MemoryDisk({"0.idx": publish_v1(16_382, 1), "1.idx": publish_v1(16_382, 2)})
    index = opened(disk)
    done(index.publish_all([message(3), message(4)]))
    done(index.ack([2 * 16_384 - 2, 2 * 16_384 - 1]))
    done(index.recount(16_382, message(1, redeliveries=2)))
    done(index.sync())
    return disk, index


class KilledError(Exception):
    """The process ended here; what it had written is in the cache of the disk."""


@pytest.mark.parametrize("step", ["sync", "flush", "open"])
def test_cq_1_what_a_start_found_survives_a_loss_of_power_wherever_the_process_before_was_killed(step: str) -> None:
    for last in range(100):
        disk, index = before_a_flush()
        done(index.publish(message(7)))
        changes = 0

        def count(_: MemoryDisk, last: int = last) -> None:
            nonlocal changes
            changes += 1
            if changes > last:
                raise KilledError

        try:
            if step == "open":
                done(index.flush())
                # As a loss of power left it: with the rest of an unfinished flush and of an unfinished write.
                disk.open("0.idx").append(b"rest")
                disk.open("journal.jif").append(b"\1rest")
                disk.open("7.idx").append(b"rest")
                disk.watch = count
                opened(disk)
            else:
                disk.watch = count
                done(index.sync() if step == "sync" else index.flush())
        except KilledError:
            disk.watch = None
        else:
            assert last > 2, "every change of the step was tried"
            return
        again = opened(disk)
        found = content(again)
        for image in disk.lost(random.Random(last)):
            assert content(opened(image)) == found
        done(again.publish(message(8)))
        done(again.sync())
        for image in disk.lost(random.Random(last)):
            assert content(opened(image)) == content(again)
    raise AssertionError("the step has no end")


def test_cq_1_an_index_goes_on_after_a_crash_at_any_change_of_a_flush_and_nothing_is_there_twice() -> None:
    disk, index = before_a_flush()
    expected, tried = content(index), 0

    def crash(disk: MemoryDisk) -> None:
        nonlocal tried
        rng = random.Random(tried)
        for image in disk.images(rng):
            tried += 1
            left = MemoryDisk(image)
            again = opened(left)
            assert content(again) == expected
            done(again.deliver([16_382]))
            seq = done(again.publish(message(5)))
            done(again.flush())
            found = content(opened(left.killed()))
            assert [(each[0], each[6]) for each in found] == [(16_382, True), (2 * 16_384, False), (seq, False)]

    disk.watch = crash
    done(index.flush())
    disk.watch = None
    assert tried > 300
    assert disk.names() == ["0.idx", "2.idx", "journal.jif"]


class Full(MemoryDisk):
    """A disk that cannot sync segment 1."""

    broken = False

    def passed(self, what: str, name: str, inode: Any = None, before: int = 0) -> None:
        super().passed(what, name, inode, before)
        if self.broken and (what, name) == ("sync", "1.idx"):
            raise OSError(28, "No space left on device")


def test_cq_1_an_index_that_failed_within_a_flush_refuses_to_go_on_and_is_whole_when_it_is_opened_again() -> None:
    disk = Full(files_of_rabbitmq())
    index = opened(disk)
    done(index.deliver([16_385]))
    done(index.flush())
    done(index.ack([2, 16_385]))
    done(index.sync())
    before = content(index)
    disk.broken = True
    with pytest.raises(OSError, match="No space"):
        done(index.flush())
    disk.broken = False
    for again in (index.flush(), index.publish(message(1)), index.sync(), index.read()):
        with pytest.raises(StorageError, match="open it again"):
            done(again)
    assert content(opened(disk.killed())) == before


def test_cq_1_behind_the_last_sequence_id_no_message_is_taken_and_those_that_are_there_stay() -> None:
    """62 bits are its place: one more would be the first message of all, and transient."""
    last = 2**62 - 1
    files = {"0.idx": publish_v1(3, 1), "journal.jif": struct.pack(">Q", last - 1) + body_v1(2)}
    disk = MemoryDisk(files)
    index = opened(disk)
    before = content(index)
    assert [each[0] for each in before] == [3, last - 1]
    assert done(index.publish(message(3))) == last
    for refused in (index.publish(message(4)), index.publish_all([message(5)])):
        with pytest.raises(InvalidRequestError, match="no sequence id is left"):
            done(refused)
    done(index.flush())
    assert [each[0] for each in content(index)] == [3, last - 1, last]
    assert content(opened(disk.killed())) == content(index)
    assert index.bounds == (0, 2**62)


@pytest.mark.parametrize("number", [2**48, 2**64, 10**30])
def test_cq_2_a_segment_that_no_sequence_id_is_in_is_refused(number: int) -> None:
    with pytest.raises(CorruptStorageError, match=rf"{number}\.idx, byte 0: no segment has this number"):
        opened({f"{number}.idx": publish_v1(0, 1)})
    assert len(opened({f"{2**48 - 1}.idx": publish_v1(0, 1)})) == 1


# --- CQ-8: files of RabbitMQ, and both versions -----------------------------------------------------------------------


def test_cq_8_an_index_of_rabbitmq_is_read_and_its_segments_stay_as_they_are() -> None:
    files = files_of_rabbitmq()
    disk = MemoryDisk(files)
    index = opened(disk)
    assert content(index) == CONTENT_OF_RABBITMQ
    assert (disk.read("0.idx"), disk.read("1.idx")) == (files["0.idx"], files["1.idx"])
    assert content(opened(disk.killed())) == CONTENT_OF_RABBITMQ
    assert index.bounds == (0, 16_388)


def test_cq_8_a_segment_of_rabbitmq_is_made_anew_by_the_first_write_to_it_and_no_other_is() -> None:
    disk = MemoryDisk(files := files_of_rabbitmq())
    index = opened(disk)
    done(index.deliver([16_385]))
    done(index.flush())
    assert disk.read("1.idx") != files["1.idx"]
    assert [(seq, delivered) for seq, *_, delivered, _ in content(opened(disk.killed()))] == [
        (0, True),
        (2, True),
        (16_385, True),
        (16_386, False),
        (16_387, False),
    ]
    assert index.versions == {"journal.jif": 1, "0.idx": 1, "1.idx": 1}


def test_cq_8_the_rest_of_an_unfinished_write_of_rabbitmq_does_not_count() -> None:
    files = files_of_rabbitmq()
    files["0.idx"] += publish_v1(3, 16)[:20]
    files["1.idx"] += bytes(50)
    files["journal.jif"] += bytes(200)
    assert content(opened(files)) == CONTENT_OF_RABBITMQ


def test_cq_8_a_journal_of_rabbitmq_that_its_segments_know_already_is_no_contradiction() -> None:
    """RabbitMQ was killed between the sync of a segment and the truncation of the journal."""
    files = files_of_rabbitmq()
    files["0.idx"] += settle(2)
    files["1.idx"] += publish_v1(2, 14) + publish_v1(3, 15, persistent=False)
    assert content(opened(files)) == CONTENT_OF_RABBITMQ


def test_cq_8_a_journal_of_rabbitmq_ends_at_zeros_but_not_at_a_message_that_ends_with_them() -> None:
    entry = encode_entry("persistent", 0, message(0), 1)
    found, end = decode_original(entry + bytes(120))
    assert ([each.record for each in found], end) == ([message(0)], len(entry))


@pytest.mark.parametrize("version", [1, 2])
def test_cq_8_a_file_says_what_it_is_which_version_its_records_have_and_the_order_of_bytes(version: int) -> None:
    disk = MemoryDisk()
    index = opened(disk, version=version)
    done(index.publish(message(1)))
    done(index.flush())
    for name, magic in (("journal.jif", b"SBCJ"), ("0.idx", b"SBCS")):
        header = (disk.read(name) or b"")[:36]
        assert header[:8] == magic + bytes([version, 1]) + bytes.fromhex("0102")
        assert struct.unpack(">I", header[32:])[0] == zlib.crc32(header[:32])


def test_cq_8_a_file_of_a_later_version_is_refused() -> None:
    disk = MemoryDisk()
    done(opened(disk).sync())
    head = bytearray(disk.read("journal.jif") or b"")
    head[4] = 3
    head[32:36] = struct.pack(">I", zlib.crc32(head[:32]))
    with pytest.raises(StorageError, match=r"journal\.jif, byte 4: .* version 3, this node reads .* up to 2"):
        opened({"journal.jif": bytes(head)})


def test_cq_8_a_file_of_a_later_format_or_of_the_other_kind_is_refused() -> None:
    disk = MemoryDisk()
    index = opened(disk)
    done(index.publish(message(1)))
    done(index.flush())
    files = disk.killed()
    head = bytearray(files["0.idx"])
    head[5] = 2
    head[32:36] = struct.pack(">I", zlib.crc32(head[:32]))
    with pytest.raises(StorageError, match=r"0\.idx, byte 4: the file has format 2 .*, this node reads format 1"):
        opened({**files, "0.idx": bytes(head)})
    for one, other, begin in (("0.idx", "journal.jif", "SBCJ"), ("journal.jif", "0.idx", "SBCS")):
        with pytest.raises(
            CorruptStorageError, match=f"{one}, byte 0: this is another file: it begins with b'{begin}'"
        ):
            opened({**files, one: files[other]})


def test_cq_8_a_file_is_converted_once_when_a_count_is_written_to_it_and_no_other_file_is() -> None:
    disk = MemoryDisk(files_of_rabbitmq())
    index = opened(disk)
    done(index.recount(0, message(10, redeliveries=4)))
    assert index.versions == {"journal.jif": 2, "0.idx": 1, "1.idx": 1}
    done(index.flush())
    assert index.versions == {"journal.jif": 2, "0.idx": 2, "1.idx": 1}
    disk.calls.clear()
    done(index.recount(2, message(12, redeliveries=1)))
    done(index.flush())
    assert [call for call in disk.calls if "0.idx" in call] == ["append 0.idx", "sync 0.idx"]
    for each in (index, opened(disk.killed())):
        assert [(found[0], found[-1]) for found in content(each)] == [
            (0, 4),
            (2, 1),
            (16_385, 0),
            (16_386, 0),
            (16_387, 0),
        ]


def test_cq_8_the_common_path_writes_no_count_and_converts_nothing() -> None:
    disk = MemoryDisk()
    index = opened(disk, max_journal_entries=7)
    for number in range(50):
        seq = done(index.publish(message(number)))
        done(index.deliver([seq]))
        if number % 3:
            done(index.ack([seq]))
    done(index.flush())
    assert set(index.versions.values()) == {1}


def test_cq_4_what_is_done_after_a_conversion_is_readable_also_where_the_journal_was_empty() -> None:
    disk = MemoryDisk()
    index = opened(disk)
    done(index.convert())
    done(index.publish(message(1)))
    done(index.sync())
    assert index.versions == {"journal.jif": 1}
    done(index.convert())
    done(index.publish(message(2)))
    done(index.sync())
    assert index.versions == {"journal.jif": 2, "0.idx": 2}
    assert content(opened(disk.killed())) == content(index)


def test_cq_8_counts_only_grow_in_memory_in_the_journal_and_in_segments() -> None:
    disk = MemoryDisk()
    index = opened(disk)
    seqs = done(index.publish_all([message(1, body=b"body"), message(2)]))
    for flushed in (False, True):
        for count in (5 + flushed * 10, 3):
            for seq in seqs:
                done(index.recount(seq, message(seq + 1, redeliveries=count)))
        done(index.sync())
        assert [each[-1] for each in content(index)] == [5 + flushed * 10] * 2
        assert content(opened(disk.killed())) == content(index)
        done(index.flush())
        assert content(opened(disk.killed())) == content(index)
    assert content(index)[0][4] == b"body"


def test_cq_8_a_file_does_not_grow_without_end_by_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splitbrain.cluster.classic.index.MAX_UPDATES", 20)
    disk = MemoryDisk()
    index = opened(disk)
    seq = done(index.publish(message(1)))
    done(index.flush())
    sizes = list[int]()
    for count in range(1, 100):
        done(index.recount(seq, message(1, redeliveries=count)))
        done(index.flush())
        sizes.append(len(disk.read("0.idx") or b""))
    assert max(sizes) < 30 * 60
    assert content(opened(disk.killed()))[0][-1] == 99


def test_cq_8_messages_of_both_versions_go_from_one_index_to_another_of_either_version() -> None:
    """A mirror that is synchronised in full has the counts of its source (CQ-5)."""
    source = opened(MemoryDisk())
    seqs = done(source.publish_all([message(number, body=b"b" * number) for number in range(4)]))
    done(source.recount(seqs[2], message(2, body=b"bb", redeliveries=6)))
    for version in (1, 2):
        disk = MemoryDisk()
        mirror = opened(disk, version=version)
        done(mirror.publish_all(stored.record for stored in done(source.read())))
        done(mirror.flush())
        assert content(opened(disk.killed())) == content(source)


def test_cq_7_a_count_is_refused_where_its_file_may_not_be_converted_and_all_stays_as_it_was() -> None:
    def refuse(messages: int) -> None:
        raise ConversionRefusedError(f"not now: {messages}", "alarm")

    files = files_of_rabbitmq()
    disk = MemoryDisk(files)
    index = done(open_index(disk, IndexOptions(permit=refuse)))
    before = disk.killed()
    with pytest.raises(ConversionRefusedError, match="not now: 2"):
        done(index.recount(0, message(10, redeliveries=4)))
    with pytest.raises(ConversionRefusedError, match="not now: 5"):
        done(index.convert())
    with pytest.raises(ConversionRefusedError):
        done(index.publish(message(1, redeliveries=1)))
    assert (disk.killed(), content(index)) == (before, CONTENT_OF_RABBITMQ)
    done(index.deliver([16_385]))
    done(index.flush())
    assert set(index.versions.values()) == {1}


# --- what is gone, or is of another time ------------------------------------------------------------------------------


def two_segments() -> MemoryDisk:
    disk = MemoryDisk(files_of_rabbitmq())
    index = opened(disk)
    done(index.deliver([16_385]))
    done(index.flush())
    return disk


@pytest.mark.parametrize(
    ("name", "instead", "said"),
    [
        ("0.idx", None, r"0\.idx, byte 0: the file is gone\. Restore"),
        ("journal.jif", None, r"journal\.jif, byte 0: the journal is gone"),
        ("1.idx", ("1.idx", -1), r"1\.idx, byte \d+: the file had \d+ bytes"),
        ("0.idx", ("0.idx", 40), r"0\.idx, byte 40: the file had \d+ bytes"),
        ("1.idx", ("0.idx", None), r"1\.idx, byte 0: the file says that it is segment 0"),
    ],
)
def test_a_file_that_is_gone_cut_off_or_another_one_is_refused(
    name: str, instead: tuple[str, int | None] | None, said: str
) -> None:
    files = two_segments().killed()
    if instead is None:
        del files[name]
    else:
        files[name] = files[instead[0]][: instead[1]]
    with pytest.raises(CorruptStorageError, match=said):
        opened(files)


def test_a_segment_of_rabbitmq_that_is_not_what_it_was_is_refused() -> None:
    disk = MemoryDisk(files_of_rabbitmq())
    opened(disk)
    for other in (publish_v1(1, 13, b"hellO"), publish_v1(1, 13), b""):
        with pytest.raises(CorruptStorageError, match=r"1\.idx, byte 0: the file is not the one of 39 bytes"):
            opened({**disk.killed(), "1.idx": other})


def test_a_segment_of_an_earlier_time_is_refused() -> None:
    disk = MemoryDisk()
    index = opened(disk)
    done(index.publish(message(1)))
    done(index.flush())
    old = disk.read("0.idx") or b""
    done(index.convert())
    done(index.publish(message(2)))
    done(index.flush())
    with pytest.raises(CorruptStorageError, match=r"0\.idx, byte 0: the file is of journal 1, and was one of journal"):
        opened({**disk.killed(), "0.idx": old})
