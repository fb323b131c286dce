"""A conversion is all or nothing for each file, wherever it is interrupted (CQ-4, CQ-8; M79)."""

from __future__ import annotations

import pytest

from splitbrain.cluster.errors import CorruptStorageError
from tests.cluster.classic.conversion import Way, crashed, share_of


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["at once", "by counts"])
def test_cq_8_a_crash_at_every_write_and_sync_leaves_each_file_whole_and_each_message_once(way: Way) -> None:
    found = crashed(12, way)
    assert found.tried > 500
    assert found.versions["0.idx", 1] > 0
    assert found.versions["0.idx", 2] > 0


@pytest.mark.slow
@pytest.mark.parametrize("way", ["at once", "by counts"])
@pytest.mark.parametrize("seed", range(3))
def test_cq_8_a_crash_at_every_write_and_sync_of_a_longer_queue(way: Way, seed: int) -> None:
    assert crashed(60, way, seed=seed).tried > 2_000


@pytest.mark.slow
@pytest.mark.parametrize("way", ["at once", "by counts"])
def test_cq_8_crashes_in_the_conversion_of_many_segments(way: Way) -> None:
    """What is found has segments of both versions beside each other."""
    found = crashed(70_000, way, share=share_of(70_000))
    assert found.tried >= 3
    assert {version for _, version in found.versions} >= {1, 2}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["at once", "by counts"])
def test_m79_a_conversion_in_place_is_found_to_be_torn(way: Way) -> None:
    with pytest.raises((CorruptStorageError, AssertionError)):
        crashed(12, way, torn=True)
