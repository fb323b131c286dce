"""A full collection of garbage that took long leaves what it looked at alone from then on."""

from __future__ import annotations

import pytest

from splitbrain.cluster.longcollections import LONG_S, LongCollections


@pytest.mark.parametrize(
    ("generation", "took_s", "freezes"),
    [(2, 2 * LONG_S, 1), (2, LONG_S / 2, 0), (1, 2 * LONG_S, 0), (0, 2 * LONG_S, 0)],
)
def test_only_a_full_collection_that_took_long_freezes_what_it_left(
    generation: int, took_s: float, freezes: int
) -> None:
    now_s, frozen = 1.0, 0

    def freeze() -> None:
        nonlocal frozen
        frozen += 1

    noticed = LongCollections(lambda: now_s, freeze)
    noticed("start", {"generation": generation})
    now_s += took_s
    noticed("stop", {"generation": generation})
    assert frozen == freezes
