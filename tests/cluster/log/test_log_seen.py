"""A file of which the beginning was read before says what it says when it is read whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.errors import CorruptStorageError
from splitbrain.cluster.log.seen import Seen
from splitbrain.cluster.log.walfile import (
    NOTHING,
    Change,
    Truncation,
    WalContent,
    decode,
    encode_changes,
    encode_header,
    encode_mark,
)
from splitbrain.cluster.raft.messages import Entry

NAME = "wal-1"


def whole_file(sizes: list[int]) -> bytes:
    """Records of two groups; a mark behind every third one."""
    content = encode_header(1)
    content += encode_mark(len(content), len(content))
    for number, size in enumerate(sizes):
        change: Change = Entry(number + 1, 1, "command", bytes(size)) if size else Truncation(number + 1)
        content += encode_changes(number % 2, [change])
        if number % 3 == 2:
            content += encode_mark(len(content), len(content))
    return content


def read(content: bytes, known: WalContent = NOTHING) -> WalContent | str:
    try:
        return decode(content, NAME, 1, known=known)
    except CorruptStorageError as error:
        return str(error)


@given(st.lists(st.integers(0, 40), max_size=20), st.data())
def test_growing_torn_and_damaged_copies_are_read_as_if_none_had_been_read_before(
    sizes: list[int], data: st.DataObject
) -> None:
    content = whole_file(sizes)
    seen = Seen()
    for _ in range(5):
        copy = bytearray(content[: data.draw(st.integers(0, len(content)), label="length")])
        if copy and data.draw(st.booleans(), label="damaged"):
            copy[data.draw(st.integers(0, len(copy) - 1), label="at")] ^= 1
        afresh = read(bytes(copy))
        found = read(bytes(copy), seen.of(NAME, bytes(copy)))
        assert found == afresh
        if isinstance(found, WalContent):
            seen.note(NAME, bytes(copy), found)


def test_what_was_read_before_is_not_read_again() -> None:
    content = whole_file([5] * 9)
    seen = Seen()
    seen.note(NAME, content[:-1], decode(content[:-1], NAME, 1))
    known = seen.of(NAME, content)
    assert len(known.changes) == 9
    assert decode(content, NAME, 1, known=WalContent([], known.size, 0, known.durable)).changes == []


@pytest.mark.parametrize("other", ["wal-2", NAME])
def test_another_file_and_a_changed_one_are_read_from_the_beginning(other: str) -> None:
    content = whole_file([5] * 9)
    seen = Seen()
    seen.note(NAME, content, decode(content, NAME, 1))
    changed = content if other != NAME else content[:30] + bytes([content[30] ^ 1]) + content[31:]
    assert seen.of(other, changed) is NOTHING


def test_what_is_read_again_is_not_changed_by_what_is_read_behind_it() -> None:
    content = whole_file([5] * 9)
    seen = Seen()
    half = decode(content[:200], NAME, 1)
    count = len(half.changes)
    seen.note(NAME, content[:200], half)
    decode(content, NAME, 1, known=seen.of(NAME, content))
    assert len(seen.of(NAME, content).changes) == count
