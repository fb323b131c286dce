"""Themes and workloads are spread over consecutive seeds: none is far from its next turn."""

from __future__ import annotations

from collections import Counter

import pytest

from splitbrain.harness.campaigns.spread import BLOCK, Part, Place, place, round_of
from splitbrain.harness.campaigns.swarm import ASKED_FOR, VARIANTS, Asked, asked_for, draw, theme_of
from splitbrain.harness.campaigns.themes import OPEN, THEMES
from splitbrain.harness.systems import catalogue as systems
from splitbrain.workloads.catalogue import able

EVERY = tuple(f"w{number}" for number in range(20))
PARTS = (Part("one", 1, EVERY), Part("two", 2, EVERY[:3]), Part("three", 9, EVERY[2:9]))
ANY = Part("open", 1, EVERY)
FEW = EVERY[:4]


ROUND = 49
"""Seeds of a round with all themes and workloads: docs/simulation.md says so."""


def default() -> Asked:
    return asked_for(workload=None, nemesis=None, nodes=None, system="metadata", bug="", world="swarm")


@pytest.mark.parametrize("number", range(5))
def test_a_round_has_each_theme_as_often_as_its_weight_says_and_each_workload(number: int) -> None:
    found = round_of(number, PARTS, ANY, FEW)
    assert Counter(each.theme for each in found) == {"one": 2, "two": 4, "three": 18, "open": 12}
    assert {each.workload for each in found} == set(EVERY)
    allowed = {part.theme: part.workloads for part in (*PARTS, ANY)}
    assert all(each.workload in allowed[each.theme] for each in found)


def test_rounds_differ_and_are_the_same_each_time() -> None:
    rounds = [round_of(number, PARTS, ANY, FEW) for number in range(4)]
    assert len(set(rounds)) == 4
    round_of.cache_clear()
    assert rounds == [round_of(number, PARTS, ANY, FEW) for number in range(4)]
    assert rounds[0][0] == place(1, PARTS, ANY, FEW)
    assert rounds[1][0] == place(1 + len(rounds[0]), PARTS, ANY, FEW)


def test_without_themes_each_workload_has_its_turn() -> None:
    found = round_of(3, (), ANY, FEW)
    assert sorted(found) == sorted(Place("open", workload) for workload in EVERY)


def test_the_seeds_of_a_round_meet_every_theme_and_every_workload_and_more_meet_it_wherever_they_begin() -> None:
    asked = default()
    first = [draw(seed, asked).workload for seed in range(1, ROUND + 1)]
    assert set(first) >= set(asked.workloads)
    names = [theme_of(seed, asked).name for seed in range(1, 11 * ROUND + 1)]
    every = {theme.name for theme in (OPEN, *THEMES)}
    length = ROUND + BLOCK - 1
    assert all(set(names[begin : begin + length]) == every for begin in range(len(names) - length))


def test_what_a_theme_cannot_have_beside_its_core_is_exchanged_with_a_test_that_draws_from_everything() -> None:
    everything = Part("open", 1, ("set", "queue", "register"))
    others = Part("elections", 3, ("set", "queue"))
    upgrades = Part("upgrades", 1, everything.workloads, ("register",))
    for number in range(20):
        exchanged = round_of(number, (upgrades, others), everything, ())
        drawn = round_of(number, (upgrades._replace(bearing=()), others), everything, ())
        assert {place.workload for place in exchanged if place.theme == "upgrades"} == {"register"}
        assert Counter(place.workload for place in exchanged) == Counter(place.workload for place in drawn)
        assert [each for each in exchanged if each.theme == "elections"] == [
            each for each in drawn if each.theme == "elections"
        ]


def test_if_no_such_test_has_it_it_is_exchanged_with_one_of_another_theme_that_can_have_it() -> None:
    everything = Part("open", 1, ("set", "queue", "register"))
    elections, queues = Part("elections", 5, everything.workloads), Part("queues", 1, ("queue",))
    upgrades = Part("upgrades", 1, everything.workloads, ("register",))
    lacking = 0
    for number in range(60):
        drawn = round_of(number, (upgrades._replace(bearing=()), elections, queues), everything, ())
        exchanged = round_of(number, (upgrades, elections, queues), everything, ())
        found = {place.workload for place in drawn if place.theme == "upgrades"}
        lacking += not any(place == ("open", "register") for place in drawn) and found != {"register"}
        assert {place.workload for place in exchanged if place.theme == "upgrades"} == {"register"}
        assert {place.workload for place in exchanged if place.theme == "queues"} == {"queue"}
        assert Counter(place.workload for place in exchanged) == Counter(place.workload for place in drawn)
    assert lacking > 3


def test_each_test_of_two_versions_has_an_upgrade() -> None:
    asked = default()
    tests = [draw(seed, asked) for seed in range(1, 5 * ROUND + 1) if theme_of(seed, asked).name == "two-versions"]
    assert len(tests) == 5
    assert all("upgrade" in each.nemesis.split(",") for each in tests)
    one = asked_for(workload="g2", nemesis=None, nodes=None, system="metadata", bug="", world="swarm")
    assert "two-versions" not in {theme_of(seed, one).name for seed in range(1, 300)}, "it bears no upgrade"


def test_workloads_that_a_theme_brings_are_drawn_by_it_alone_and_only_where_none_was_asked_for() -> None:
    variants = {workload: {workload, variant} for workload, variant in VARIANTS.items()}
    bringing = {
        theme.name: set[str]().union(*(variants.get(name, {name}) for name in theme.brings))
        for theme in THEMES
        if theme.brings
    }
    assert bringing
    asked = default()
    assert not set(asked.workloads) & set(asked.more)
    met: set[str] = set()
    for seed in range(1, 5 * ROUND + 1):
        workload, theme = draw(seed, asked).workload, theme_of(seed, asked).name
        assert (workload in ASKED_FOR) == (theme in bringing)
        assert workload in bringing.get(theme, set(asked.workloads))
        met.add(workload)
    assert met >= set().union(*bringing.values())
    some = asked_for(workload="set,stream", nemesis=None, nodes=None, system="metadata", bug="", world="swarm")
    assert {theme_of(seed, some).name for seed in range(1, 3 * ROUND)}.isdisjoint(bringing)


def test_no_workload_is_left_out_of_a_hunt_for_everything_but_the_one_that_faults_break_rightly() -> None:
    """`migration` loses under partitions what the tables lose that it copies."""
    asked = default()
    drawn = {*asked.workloads, *asked.more, *VARIANTS.values()}
    assert drawn == set(able(systems.operations("metadata"))) - {"migration"}


def test_a_hunt_for_one_workload_draws_the_theme_of_each_seed_by_itself() -> None:
    asked = Asked(workloads=("register",), nemeses=default().nemeses)
    assert len({theme_of(seed, asked).name for seed in range(200)}) > 10
