"""Migrations that are interrupted anywhere, under clients (M2K-4): a sample; `interrupted` has more, and says what."""

from __future__ import annotations

import pytest

from splitbrain.cluster.migration.machine import Broken
from tests.cluster.migration.interrupted import HOWS, Interruption, Planned, drawn, run, wrong_in

SEEDS = (23, pytest.param(6, marks=pytest.mark.slow), pytest.param(19, marks=pytest.mark.slow))
"""With changes that are queued while tables are copied; three records at once, and one."""

FOUND_NEAR = {"M64": range(20, 30), "M65": range(100, 112)}
"""Schedules of which one finds a switch: not all that come before have to be gone through each time."""

SMALL = {"clients": 2, "operations": 12}


def effects_of(seed: int) -> int:
    """How many effects the migration of a schedule has where nothing goes wrong."""
    wrong, world = wrong_in(seed, Planned([("migration", Interruption())], **SMALL))
    assert wrong == []
    assert world.counts["migration finished"] == 1
    return world.processes[0].effects


@pytest.mark.slow
def test_m2k_4_random_schedules_end_whole_on_one_store_with_all_that_was_acknowledged() -> None:
    counts, died_at = run(50)
    ends = ("migration finished", "migration undone", "migration superseded", "rollback finished", "rollback refused")
    assert all(counts[end] for end in (*ends, "ends on the tree", "ends on the tables")), counts
    assert len(died_at) > 10, died_at


@pytest.mark.slow
def test_m2k_4_more_of_them() -> None:
    run(400, first=50)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("seed", SEEDS)
def test_m2k_4_a_migration_that_is_interrupted_at_each_of_its_effects(seed: int, how: str) -> None:
    """After it comes another one, and clients go on: with the store that is in force."""
    at_each = effects_of(seed)
    ends: set[str] = set()
    for at in range(at_each):
        wrong, world = wrong_in(seed, Planned([("migration", Interruption(at, how))], **SMALL))
        assert wrong == [], f"seed {seed}, effect {at} {how}: {wrong[0]}"
        ends |= {end for end in world.counts if end.startswith(("migration", "ends"))} | set(world.died_at)
    if how.startswith("dies"):
        steps = {end.split()[0] for end in ends if end.endswith(how)}
        assert f"draining WriteTree {how}" in ends
        assert {"looking", "claiming", "clearing", "copying", "closing", "draining", "retiring", "finishing"} <= steps
    else:
        assert "migration undone" in ends


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", HOWS)
def test_m2k_5_a_rollback_that_is_interrupted_at_each_of_its_effects(how: str) -> None:
    """Nobody changes the tree: it ends whole on the tables, or on the tree again."""
    interrupted = 0
    for at in range(8):
        for seed in range(4):
            planned = Planned([("migration", Interruption()), ("rollback", Interruption(at, how))], 2, operations=0)
            wrong, world = wrong_in(seed, planned)
            assert wrong == [], f"seed {seed}, effect {at} {how}: {wrong[0]}"
            interrupted += not world.counts["rollback finished"] or world.processes[1].effects > 5
    assert interrupted, how


@pytest.mark.parametrize("switch", ["M64", "M65"])
def test_m64_and_m65_are_found(switch: Broken) -> None:
    assert any(wrong_in(seed, drawn(seed), (switch,))[0] for seed in FOUND_NEAR[switch])
