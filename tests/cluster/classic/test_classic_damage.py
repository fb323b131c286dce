"""Every flipped byte in every file of a queue is found and named, or changes nothing (CQ-8)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from splitbrain.cluster.classic import journal
from splitbrain.cluster.classic.framing import HEADER_BYTES, frame_at
from splitbrain.cluster.errors import StorageError
from tests.cluster.classic.disk import Image, MemoryDisk, done
from tests.cluster.classic.support import (
    CONTENT_OF_RABBITMQ,
    Said,
    content,
    files_of_rabbitmq,
    message,
    opened,
    publish_v1,
    settle,
)

NAMED = re.compile(r"(\d+\.idx|journal\.jif), byte (\d+): .*(Restore the queue's directory|Start it with)")


def queue_of_all_kinds() -> Image:
    """Segments of RabbitMQ, and of ours in both versions and of several flushes; a journal with what was synced."""
    disk = MemoryDisk(files_of_rabbitmq())
    index = opened(disk)
    done(index.recount(16_385, message(13, body=b"hello", redeliveries=3)))
    done(index.deliver([16_386]))
    done(index.flush())
    done(index.publish_all([message(20, body=b"twenty"), message(21)]))
    done(index.flush())
    done(index.publish_all([message(22, body=b"22", redeliveries=2), message(23)], persistent=False))
    done(index.sync())
    done(index.recount(16_388, message(20, redeliveries=9)))
    done(index.deliver([16_385]))
    done(index.sync())
    return disk.killed()


def flipped(files: Image, masks: tuple[int, ...]) -> Iterator[tuple[str, int, Image]]:
    for name, data in files.items():
        for at in range(len(data)):
            for mask in masks:
                changed = bytearray(data)
                changed[at] ^= mask
                yield name, at, {**files, name: bytes(changed)}


def frame_begins(files: Image, name: str, at: int) -> int:
    """Where the header, or the frame, begins that this byte is in."""
    if at < HEADER_BYTES:
        return 0
    begin = HEADER_BYTES
    while (frame := frame_at(files[name], begin, len(files[name]))) is not None and frame.end <= at:
        begin = frame.end
    return begin


def read(files: Image) -> list[Said] | str:
    """What the queue holds, or why it is refused."""
    try:
        return content(opened(files))
    except StorageError as error:
        return str(error)


def check(files: Image, masks: tuple[int, ...]) -> Counter[tuple[str, bool]]:
    """Open the files with each byte flipped; for each file how often it was refused, and how often it was harmless."""
    whole, outcomes = content(opened(files)), Counter[tuple[str, bool]]()
    for name, at, changed in flipped(files, masks):
        found = read(changed)
        if isinstance(found, str):
            named = NAMED.match(found)
            assert named is not None, found
            assert named[1] == name, f"{name}, byte {at}: {found}"
            assert frame_begins(files, name, at) <= int(named[2]) <= at, f"{name}, byte {at}: {found}"
        else:
            assert found == whole, f"{name}, byte {at}: not found, and the queue is another"
            assert name == journal.NAME
            assert at >= last_mark(files[name]), f"byte {at} is not of the last mark"
        outcomes[name, isinstance(found, str)] += 1
    return outcomes


def last_mark(data: bytes) -> int:
    """Where the mark begins with which a journal ends."""
    return len(data) - len(journal.encode_mark(0))


def test_every_flipped_byte_of_every_file_is_named_with_file_and_offset_or_is_of_the_last_mark() -> None:
    files = queue_of_all_kinds()
    outcomes = check(files, (0x10,))
    assert outcomes == {
        ("0.idx", True): len(files["0.idx"]),
        ("1.idx", True): len(files["1.idx"]),
        ("journal.jif", True): last_mark(files["journal.jif"]),
        ("journal.jif", False): len(journal.encode_mark(0)),
    }


@pytest.mark.slow
def test_every_flipped_bit_of_every_file_is_named_or_is_of_the_last_mark() -> None:
    files = queue_of_all_kinds()
    outcomes = check(files, (*(1 << bit for bit in range(8)), 0xFF))
    assert outcomes["journal.jif", False] == 9 * len(journal.encode_mark(0))


def test_every_flipped_byte_of_a_segment_of_rabbitmq_is_found_once_its_journal_is_ours() -> None:
    disk = MemoryDisk(files_of_rabbitmq())
    opened(disk).close()
    files = disk.killed()
    assert files["0.idx"] == files_of_rabbitmq()["0.idx"]
    whole = content(opened(files))
    for name, at, changed in flipped(files, (0x01, 0x80)):
        if name == journal.NAME:
            continue  # the journal is as in the other tests
        with pytest.raises(StorageError, match=rf"{name}, byte 0: the file is not the one of"):
            opened(changed)
        assert at < len(files[name])
    assert whole == CONTENT_OF_RABBITMQ


def test_in_files_of_rabbitmq_only_what_contradicts_itself_is_found() -> None:
    """They have no checksums: a flipped byte of a message id, an expiry or a size reads as another message."""
    outcomes = Counter[str]()
    files = files_of_rabbitmq()
    for name, at, changed in flipped(files, (0x10,)):
        found = read(changed)
        if isinstance(found, str):
            assert NAMED.match(found), f"{name}, byte {at}: {found}"
            outcomes["found"] += 1
        else:
            outcomes["the same" if found == CONTENT_OF_RABBITMQ else "another queue"] += 1
    assert outcomes["found"] > 0
    assert outcomes["another queue"] > outcomes["found"]


def test_what_is_behind_the_durable_end_of_a_segment_is_cut_off_whatever_it_is() -> None:
    files = queue_of_all_kinds()
    whole = content(opened(files))
    said: list[str] = []
    for rest in (b"\0" * 100, b"\xff" * 3, files["1.idx"][HEADER_BYTES:]):
        disk = MemoryDisk({**files, "1.idx": files["1.idx"] + rest})
        assert content(opened(disk)) == whole
        assert disk.killed()["1.idx"] == files["1.idx"]
        said.append(disk.calls[0])
    assert said == ["truncate 1.idx"] * 3


def synced(bodies: list[bytes]) -> Image:
    """A journal alone, with a sync behind each message."""
    disk = MemoryDisk()
    index = opened(disk)
    for number, body in enumerate(bodies):
        done(index.publish(message(number, body=body)))
        done(index.sync())
    return disk.killed()


@pytest.mark.parametrize("change", ["missing", "twice"])
def test_a_byte_that_is_missing_or_there_twice_in_a_journal_is_found_or_is_of_the_last_mark(change: str) -> None:
    """What is behind it is at another place then; the marks in it are known as such all the same."""
    files = synced([b"one", b"two", b"third"])
    whole, data = content(opened(files)), files[journal.NAME]
    for at in range(len(data)):
        changed = data[:at] + (data[at + 1 :] if change == "missing" else data[at : at + 1] + data[at:])
        found = read({journal.NAME: changed})
        if at < last_mark(data) - (change == "twice"):
            assert isinstance(found, str), f"byte {at}: not found"
            named = NAMED.match(found)
            assert named is not None, found
            # Of equal bytes any may be the one that is there twice: what is behind them is the first that is wrong.
            last = at + len(data[at:]) - len(data[at:].lstrip(data[at : at + 1])) if change == "twice" else at
            assert frame_begins(files, journal.NAME, at) <= int(named[2]) <= last, f"byte {at}: {found}"
        else:
            assert found == whole, f"byte {at}: {found}"


def test_a_journal_that_is_cut_short_in_what_it_was_made_with_is_no_new_one() -> None:
    """No segment is there that would say that there was one."""
    disk = MemoryDisk(synced([b"one"]))
    index = opened(disk)
    done(index.recount(0, message(0, redeliveries=1)))  # it is made anew
    data = disk.killed()[journal.NAME]
    for size in range(1, len(data)):
        assert "journal.jif, byte" in str(read({journal.NAME: data[:size]})), f"{size} bytes of {len(data)}"


def test_what_a_start_found_and_made_durable_is_covered_from_then_on_although_its_mark_was_lost() -> None:
    files = synced([b"one", b"two"])
    unmarked = files[journal.NAME][: last_mark(files[journal.NAME])]
    disk = MemoryDisk({journal.NAME: unmarked})
    opened(disk).close()
    assert disk.killed() == files
    changed = bytearray(files[journal.NAME])
    changed[len(unmarked) - 1] ^= 1
    assert "a part that was durable is damaged" in str(read({journal.NAME: bytes(changed)}))


@pytest.mark.parametrize(
    ("records", "at"),
    [
        (publish_v1(0, 1) + publish_v1(0, 1), 34),
        (publish_v1(0, 1) + settle(0) * 3, 34),
        (publish_v1(0, 1) + settle(1), 34),
        (publish_v1(0, 1) + b"\x3f", 34),
    ],
)
def test_records_of_rabbitmq_that_contradict_each_other_are_refused(records: bytes, at: int) -> None:
    assert str(read({"0.idx": records})).startswith(f"0.idx, byte {at}: ")


def test_bytes_of_a_message_that_look_like_a_mark_make_an_unfinished_write_no_damage() -> None:
    files = synced([b"one"])
    whole, size = content(opened(files)), len(files[journal.NAME])
    far = b"".join(journal.encode_mark(offset) for offset in (0, size + 10_000, 2**40))
    longer = synced([b"one", far + bytes(50)])[journal.NAME]
    assert far in longer
    for end in range(size, len(longer) - len(journal.encode_mark(0)) - 1):
        assert content(opened({journal.NAME: longer[:end]})) == whole
