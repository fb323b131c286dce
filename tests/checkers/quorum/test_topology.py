"""Who is capable, served and in a core: the worked cases, and brute force over every topology of few nodes."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.checkers.quorum.topology import (
    Link,
    Topology,
    capable,
    cores,
    halted,
    possibly_capable,
    possibly_served,
    topology,
)

FIVE = ("n1", "n2", "n3", "n4", "n5")


def between(*groups: str) -> list[Link]:
    """Every link between nodes of different groups, each given as digits."""
    sides = [[f"n{digit}" for digit in group] for group in groups]
    return [link for a, b in combinations(sides, 2) for x in a for y in b for link in ((x, y), (y, x))]


def only(*linked: str) -> list[Link]:
    """The links to cut so that only these pairs of digits see each other."""
    kept = {(f"n{a}", f"n{b}") for pair in linked for a, b in (pair, pair[::-1])}
    return [link for link in permutations(FIVE, 2) if link not in kept]


def named(digits: str) -> frozenset[str]:
    return frozenset(f"n{digit}" for digit in digits)


def all_of(at: Topology) -> tuple[frozenset[str], frozenset[str], frozenset[str], tuple[tuple[str, ...], ...]]:
    return capable(at), possibly_capable(at), possibly_served(at), cores(at)


def test_three_of_five_are_a_core_and_the_two_are_not_served() -> None:
    at = topology(FIVE, cut=between("123", "45"))
    assert all_of(at) == (named("123"), named("123"), named("123"), (("n1", "n2", "n3"),))


def test_two_and_two_and_one_is_halted() -> None:
    at = topology(FIVE, cut=between("12", "34", "5"))
    assert all_of(at) == (frozenset(), frozenset(), frozenset(), ())
    assert halted(at)


def test_a_bridge_makes_all_capable_and_two_cores() -> None:
    at = topology(FIVE, cut=between("12", "45"))
    assert all_of(at) == (named("12345"), named("12345"), named("12345"), (("n1", "n2", "n3"), ("n3", "n4", "n5")))


def test_a_majority_ring_makes_all_capable_and_no_core() -> None:
    at = topology(FIVE, cut=only("12", "23", "34", "45", "51"))
    assert all_of(at) == (named("12345"), named("12345"), named("12345"), ())


def test_a_leader_that_is_heard_and_hears_nobody_is_incapable_and_the_others_are_a_core() -> None:
    at = topology(FIVE, cut=[(other, "n1") for other in FIVE[1:]])
    assert all_of(at) == (named("2345"), named("2345"), named("2345"), (("n2", "n3", "n4", "n5"),))


def test_both_configurations_count_while_members_are_added() -> None:
    three, five = named("123"), named("12345")
    at = topology(FIVE, cut=between("123", "45"), configurations=[three, five])
    assert all_of(at) == (named("123"), named("123"), named("123"), (("n1", "n2", "n3"),))
    at = topology(FIVE, cut=between("12", "345"), configurations=[three, five])
    assert capable(at) == frozenset(), "the two are a majority of three only, the three one of five only"
    assert possibly_capable(at) == named("12345")
    assert cores(at) == ()


def test_lossy_links_forbid_nothing_and_demand_nothing() -> None:
    at = topology(FIVE, uncertain_links=permutations(FIVE, 2))
    assert all_of(at) == (frozenset(), named("12345"), named("12345"), ())


def test_a_node_that_is_down_is_neither_a_voter_that_helps_nor_served() -> None:
    at = topology(FIVE, down=["n1", "n2"])
    assert all_of(at) == (named("345"), named("345"), named("345"), (("n3", "n4", "n5"),))
    at = topology(FIVE, down=["n1"], uncertain_nodes=["n2", "n3"])
    assert all_of(at) == (frozenset(), named("2345"), named("2345"), ())


def test_a_node_that_does_not_vote_is_served_and_neither_capable_nor_in_a_core() -> None:
    at = topology(FIVE, configurations=[named("123")])
    assert all_of(at) == (named("123"), named("123"), named("12345"), (("n1", "n2", "n3"),))


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    nodes = FIVE[: draw(st.integers(1, 5))]
    links = list(permutations(nodes, 2))
    states = draw(st.lists(st.sampled_from("oooccu"), min_size=len(links), max_size=len(links)))
    lives = draw(st.lists(st.sampled_from("uuud?"), min_size=len(nodes), max_size=len(nodes)))
    voters = st.sets(st.sampled_from(nodes), min_size=1)
    return topology(
        nodes,
        down=[node for node, life in zip(nodes, lives, strict=True) if life == "d"],
        uncertain_nodes=[node for node, life in zip(nodes, lives, strict=True) if life == "?"],
        cut=[link for link, state in zip(links, states, strict=True) if state == "c"],
        uncertain_links=[link for link, state in zip(links, states, strict=True) if state == "u"],
        configurations=draw(st.lists(voters, max_size=2)),
    )


@given(topologies())
def test_cores_are_what_trying_every_subset_finds(at: Topology) -> None:
    def sees_all(group: tuple[str, ...]) -> bool:
        voting = all(node in at.up and any(node in held for held in at.configurations) for node in group)
        return voting and all(link in at.open for link in permutations(group, 2))

    together = [
        group for size in range(1, len(at.nodes) + 1) for group in combinations(at.nodes, size) if sees_all(group)
    ]
    largest = [group for group in together if not any(set(group) < set(other) for other in together)]
    decide = [group for group in largest if all(2 * len(held & set(group)) > len(held) for held in at.configurations)]
    assert set(cores(at)) == set(decide)
    assert len(cores(at)) == len(decide)


@given(topologies())
def test_what_is_certain_is_possible(at: Topology) -> None:
    """With one configuration a core is capable; each node that is capable may be in it, and may be served."""
    assert capable(at) <= possibly_capable(at) <= possibly_served(at)
    assert all(set(core) <= possibly_served(at) for core in cores(at))
    if len(at.configurations) == 1:
        assert all(set(core) <= capable(at) for core in cores(at))


@pytest.mark.slow
@given(topologies())
def test_certainty_grows_with_knowledge(at: Topology) -> None:
    """Whatever the uncertain turns out to be, what was certain stays so, and nothing impossible becomes possible."""
    worst = topology(
        at.nodes,
        down=[node for node in at.nodes if node not in at.up],
        cut=[link for link in permutations(at.nodes, 2) if link not in at.open],
        configurations=at.configurations,
    )
    best = topology(
        at.nodes,
        down=[node for node in at.nodes if node not in at.possibly_up],
        cut=[link for link in permutations(at.nodes, 2) if link not in at.possibly_open],
        configurations=at.configurations,
    )
    assert (capable(at), cores(at)) == (capable(worst), cores(worst))
    assert (possibly_capable(at), possibly_served(at)) == (possibly_capable(best), possibly_served(best))
