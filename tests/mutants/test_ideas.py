"""Each idea of the draw can be hunted with alone, and changes it; without any of them the draw is the former one."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from splitbrain.harness.campaigns import swarm
from splitbrain.harness.campaigns.compose import RunOptions
from splitbrain.harness.campaigns.hunting import search
from splitbrain.nemesis.catalogue import entry
from tests.mutants.test_patches import tool

ideas: Any = tool("ideas")
SEEDS = range(1, 61)


@pytest.fixture
def draw_that_changes() -> Generator[None]:
    """The module that draws, put back afterwards."""
    names, is_repeated = dict(vars(swarm)), search.is_repeated
    yield
    for name, value in names.items():
        setattr(swarm, name, value)
    search.is_repeated = is_repeated


def drawn() -> list[RunOptions]:
    asked = swarm.asked_for(workload=None, nemesis=None, nodes=None, system="metadata", bug="", world="swarm")
    return [swarm.draw(seed, asked) for seed in SEEDS]


def kinds(options: RunOptions) -> set[str]:
    return {entry(name).kind.name for name in options.nemesis.split(",")}


@pytest.mark.usefixtures("draw_that_changes")
def test_without_ideas_a_seed_draws_no_theme_no_moment_and_few_clients() -> None:
    ideas.only(ideas.NONE)
    tests = drawn()
    assert not any(kinds(each) & {"bounce-at-moments", "clients"} for each in tests)
    assert {each.concurrency for each in tests} == set(ideas.FORMER_CONCURRENCY)
    assert {each.world for each in tests} == {swarm.WORLD}
    named = {setting.partition("=")[0] for each in tests for setting in each.settings.split(",") if setting}
    assert named == set(ideas.FORMER_SETTINGS)
    assert not any(search.is_repeated(seed) for seed in SEEDS)


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("draw_that_changes")
@pytest.mark.parametrize("idea", ideas.IDEAS)
def test_each_idea_alone_changes_what_a_hunt_does(idea: str) -> None:
    ideas.only(idea)
    alone, repeated = drawn(), [search.is_repeated(seed) for seed in SEEDS]
    for name, (_, take_out) in ideas.IDEAS.items():
        if name == idea:
            take_out()
    assert (alone, repeated) != (drawn(), [search.is_repeated(seed) for seed in SEEDS])


def test_an_idea_that_is_not_there_is_refused() -> None:
    with pytest.raises(SystemExit, match="--idea luck: there are themes, moments"):
        ideas.only("luck")
