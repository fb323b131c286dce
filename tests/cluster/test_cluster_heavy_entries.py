"""Entries that change much count as several when they are applied, so that heartbeats get a word in between."""

from __future__ import annotations

from splitbrain.cluster.raft import Entry
from splitbrain.cluster.slicing import BYTES, slices_of, weight


def entries(*sizes: int) -> tuple[Entry, ...]:
    return tuple(Entry(place, 1, "command", b"x" * size) for place, size in enumerate(sizes, start=1))


def test_short_entries_count_one_each_and_long_ones_by_their_length() -> None:
    assert weight(entries(0, 10, BYTES - 1)) == 3
    assert weight(entries(10 * BYTES)) == 11


def test_slices_have_all_entries_in_order_each_of_at_most_the_weight_or_of_one_entry() -> None:
    wanted = entries(10, 10, 40 * BYTES, 10, 3 * BYTES, 10, 10)
    found = list(slices_of(wanted, 6))
    assert tuple(entry for part in found for entry in part) == wanted
    assert [len(part) for part in found] == [2, 1, 3, 1]
    assert all(weight(part) <= 6 or len(part) == 1 for part in found)
