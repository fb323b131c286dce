"""Coverage marks of the cluster: each is reached somewhere, and each place names one that there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from splitbrain import cluster
from splitbrain.cluster.marks import MARKS, counted, reached
from splitbrain.harness.systems.metadata import Metadata
from tests.cluster.support import World, in_virtual_time


def test_every_mark_is_reached_somewhere_and_every_place_names_a_mark() -> None:
    root = Path(cluster.__path__[0])
    named = [
        mark
        for path in sorted(root.rglob("*.py"))
        for mark in re.findall(r"\breached\(\s*\"([^\"]+)\"", path.read_text())
    ]
    calls = sum(len(re.findall(r"(?<!def )\breached\(", path.read_text())) for path in root.rglob("*.py"))
    assert len(named) == calls, "a mark is named where it is reached"
    assert sorted(set(named)) == sorted(MARKS)


def test_marks_are_counted_only_inside_and_zeros_are_there() -> None:
    reached("election won")
    with counted() as counts:
        assert counts == dict.fromkeys(MARKS, 0)
        reached("election won")
        reached("election won")
    reached("election won")
    assert (counts["election won"], counts["command dropped"]) == (2, 0)


def test_a_mark_that_there_is_not_is_an_error_of_the_code() -> None:
    with counted(), pytest.raises(AssertionError, match="no mark 'x'"):
        reached("x")


def test_an_election_and_a_forwarded_request_are_seen_in_the_systems_counts() -> None:
    async def check() -> None:
        world = World(["n1", "n2", "n3"])
        try:
            await world.start()
            leader = await world.leader()
            (follower, _) = [name for name in world.names if name != leader]
            client = await world.client(follower)
            await client.put("/a", 1)
            await client.close()
        finally:
            await world.close()

    system = Metadata()
    assert system.capabilities.count_marks is not None
    with system.capabilities.count_marks() as counts:
        in_virtual_time(check())
    assert list(counts) == list(system.marks)
    for mark in ("vote granted", "election won", "no-op committed", "request forwarded"):
        assert counts[mark] > 0, mark
