"""The machine of formation alone: each rule of PD-3, and what holds for any events."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.bugs import Bugs
from splitbrain.cluster.discovery.formation import (
    AskVotes,
    Complete,
    Discover,
    Discovered,
    Effect,
    Event,
    Failed,
    Formation,
    Found,
    GiveUp,
    Join,
    Joined,
    Lock,
    Locked,
    Queried,
    Query,
    Register,
    Registered,
    ReturnVotes,
    Settings,
    Stopped,
    Unlock,
    Unregister,
    Voted,
    Wait,
    Woken,
)
from splitbrain.cluster.discovery.seen import Peer, Properties, in_order


class Least:
    """Draws the least number each time."""

    def between(self, low: int, high: int) -> int:
        return low


def peers(*names: str) -> tuple[Peer, ...]:
    return tuple(Peer(name, (name, 1)) for name in names)


def machine(node: str = "n1", nodes: int = 3, retries: int = 2, *, bugs: Sequence[str] = (), **rest: bool) -> Formation:
    may_found = rest.pop("may_found", True)
    settings = Settings(node, nodes, retries=retries, bugs=Bugs(bugs), **rest)
    return Formation(settings, Least(), may_found=may_found)


def virgin(name: str, start_ns: int) -> Properties:
    return Properties(name, start_ns)


def member(name: str, start_ns: int, *members: str, ready: bool = True) -> Properties:
    return Properties(name, start_ns, members, members[:1], ready)


def select(found: Formation, *seen: Properties) -> list[Effect]:
    """Until the properties of these nodes are there, all of which the backend lists."""
    assert found.start() == [Discover(1)]
    listed = peers(*sorted(each.name for each in seen))
    assert found.handle(Discovered(1, listed)) == [Query(1, listed)]
    return found.handle(Queried(1, seen))


def test_larger_clusters_come_first_then_older_nodes_then_names() -> None:
    seen = (virgin("a", 9), member("b", 8, "b", "c"), virgin("d", 2), virgin("c", 2), member("e", 1, "e"))
    assert [each.name for each in in_order(seen)] == ["b", "e", "c", "d", "a"]


def test_a_node_joins_the_first_under_the_lock() -> None:
    found = machine()
    target = member("n2", 5, "n2")
    assert select(found, virgin("n1", 1), target) == [Lock(1, peers("n1", "n2"))]
    assert found.handle(Locked(1)) == [Join(1, Peer("n2", ("n2", 1)), target)]
    assert found.handle(Joined(1)) == [Unlock(), Complete()]
    assert found.over


def test_a_node_that_selects_itself_founds_a_cluster_with_a_majority_of_votes_only() -> None:
    found = machine()
    assert select(found, virgin("n1", 1), virgin("n2", 2)) == [AskVotes(1, peers("n1", "n2"))]
    assert found.handle(Voted(1, ("n1",))) == [ReturnVotes(1, peers("n1", "n2")), Wait(1, 1000)]
    assert found.handle(Woken(1)) == [Discover(2)]
    found.handle(Discovered(2, peers("n1", "n2")))
    found.handle(Queried(2, (virgin("n1", 1), virgin("n2", 2))))
    assert found.handle(Voted(2, ("n1", "n2"))) == [Found()]


def test_votes_of_nodes_that_are_not_listed_do_not_count() -> None:
    found = machine()
    select(found, virgin("n1", 1), virgin("n2", 2))
    assert Found() not in found.handle(Voted(1, ("n1", "n1", "n9")))


@pytest.mark.parametrize(
    ("seen", "problem"),
    [
        ((virgin("n1", 1),), "no other node answers"),
        ((virgin("n1", 3), virgin("n2", 2)), "n2 is to found the cluster, and has not yet"),
        ((virgin("n1", 1), member("n2", 2, "n2", ready=False)), "n2 is in a cluster but not ready"),
        ((virgin("n2", 2),), "does not name this node, only n2"),
    ],
)
def test_what_is_not_as_it_must_be_is_tried_again(seen: tuple[Properties, ...], problem: str) -> None:
    found = machine()
    found.start()
    found.handle(Discovered(1, peers(*(each.name for each in seen))))
    if "does not name" not in problem:
        assert found.handle(Queried(1, seen)) == [Wait(1, 1000)]
    assert problem in found.problem


def test_a_node_that_does_not_reach_itself_tries_again() -> None:
    found = machine()
    found.start()
    found.handle(Discovered(1, peers("n1", "n2")))
    assert found.handle(Queried(1, (virgin("n2", 1),))) == [Wait(1, 1000)]
    assert "does not reach itself" in found.problem


def test_more_nodes_than_the_cluster_is_to_have_found_none() -> None:
    found = machine(nodes=2)
    assert select(found, virgin("n1", 1), virgin("n2", 2), virgin("n3", 3)) == [Wait(1, 1000)]
    assert "names 3 nodes, and the cluster is to have 2" in found.problem


def test_a_cluster_of_one_needs_no_other_node() -> None:
    found = machine(nodes=1)
    assert select(found, virgin("n1", 1)) == [AskVotes(1, peers("n1"))]
    assert found.handle(Voted(1, ("n1",))) == [Found()]


def test_only_the_founder_that_a_backend_names_founds_and_without_votes() -> None:
    seed, other = machine("n0"), machine("n1")
    for found in (seed, other):
        found.start()
        found.handle(Discovered(1, peers("n0", "n1"), "n0"))
    both = (virgin("n0", 9), virgin("n1", 1))
    assert seed.handle(Queried(1, both)) == [Found()]
    assert other.handle(Queried(1, both)) == [Wait(1, 1000)]
    assert "n0 is to found the cluster" in other.problem


def test_a_seed_without_data_joins_the_cluster_that_is_there() -> None:
    found = machine("n0")
    found.start()
    found.handle(Discovered(1, peers("n0", "n1"), "n0"))
    there = (virgin("n0", 1), member("n1", 2, "n1", "n2"))
    assert found.handle(Queried(1, there)) == [Lock(1, peers("n0", "n1"))]


def test_after_the_last_attempt_it_gives_up_and_says_what_to_do() -> None:
    found = machine(retries=1)
    found.start()
    assert found.handle(Failed(1, "the list of etcd: no answer")) == [Wait(1, 1000)]
    assert found.handle(Woken(1)) == [Discover(2)]
    (last,) = found.handle(Failed(2, "the list of etcd: no answer"))
    assert isinstance(last, GiveUp)
    assert "in 2 attempts: the list of etcd: no answer" in last.message
    assert "Start enough of the 3 nodes" in last.message
    assert found.handle(Woken(2)) == []


def test_with_m68_it_founds_a_cluster_after_the_last_attempt() -> None:
    found = machine(retries=0, bugs=["M68"])
    found.start()
    assert found.handle(Failed(1, "nothing")) == [Found()]


def test_with_m69_it_joins_a_node_that_is_in_no_cluster() -> None:
    assert select(machine(bugs=["M69"]), virgin("n1", 2), virgin("n2", 1)) == [Lock(1, peers("n1", "n2"))]


def test_a_failed_join_gives_the_lock_back_and_the_node_founds_no_cluster_later() -> None:
    found = machine()
    select(found, virgin("n1", 2), member("n2", 1, "n2"))
    found.handle(Locked(1))
    assert found.handle(Failed(1, "n2 is gone")) == [Unlock(), Wait(1, 1000)]
    found.handle(Woken(1))
    found.handle(Discovered(2, peers("n1", "n3")))
    assert found.handle(Queried(2, (virgin("n1", 2), virgin("n3", 3)))) == [Wait(2, 1000)]
    assert "began to join one, of which no member answers" in found.problem


def test_it_registers_first_and_unregisters_at_the_stop() -> None:
    found = machine(registers=True)
    assert found.start() == [Register(1)]
    assert found.handle(Failed(1, "etcd is down")) == [Wait(1, 1000)]
    assert found.handle(Woken(1)) == [Register(2)]
    assert found.handle(Registered(2)) == [Discover(2)]
    assert found.handle(Stopped()) == [Unregister()]


def test_what_stops_while_it_asks_for_votes_returns_them() -> None:
    found = machine()
    select(found, virgin("n1", 1), virgin("n2", 2))
    assert found.handle(Stopped()) == [ReturnVotes(1, peers("n1", "n2"))]


# --- any events -------------------------------------------------------------------------------------------------------

NAMES = ("n1", "n2", "n3", "n4")
some_names = st.lists(st.sampled_from(NAMES), max_size=4).map(tuple)
some_properties = st.builds(
    Properties,
    st.sampled_from(NAMES),
    st.integers(0, 3),
    st.sampled_from([(), ("n2",), ("n2", "n3")]),
    st.just(("n2",)),
    st.booleans(),
)
rounds = st.integers(0, 4)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Registered, rounds),
    st.builds(Discovered, rounds, some_names.map(lambda names: peers(*names))),
    st.builds(Queried, rounds, st.lists(some_properties, max_size=4, unique_by=lambda each: each.name).map(tuple)),
    st.builds(Voted, rounds, some_names),
    st.builds(Locked, rounds),
    st.builds(Joined, rounds),
    st.builds(Failed, rounds, st.just("it failed")),
    st.builds(Woken, rounds),
)


@given(st.lists(st.one_of(events, st.just(Stopped())), max_size=60), st.booleans())
def test_whatever_happens_it_founds_only_with_a_majority_ends_once_and_keeps_to_its_rounds(
    happened: list[Event], registers: bool
) -> None:
    found = machine(retries=3, registers=registers)
    effects = found.start()
    ended = 0
    for event in happened:
        asked = [effect for effect in effects if isinstance(effect, AskVotes)]
        before, was_over = found.round, found.over
        effects = found.handle(event)
        if Found() in effects:
            assert isinstance(event, Voted), "only votes make a founder"
            assert event.round == before
            assert len(set(event.granted)) >= 2
        if isinstance(event, Stopped):
            assert all(isinstance(effect, ReturnVotes | Unlock | Unregister) for effect in effects)
        elif was_over:
            assert effects == []
        ended += any(isinstance(effect, Found | GiveUp | Complete) for effect in effects)
        assert found.round <= 4
        assert not asked or effects or found.round == before
    assert ended <= 1


@given(st.data())
def test_with_the_right_answers_it_always_goes_on_to_its_end(data: st.DataObject) -> None:
    """No answer leads it into a state in which it waits for nothing."""
    found = machine(retries=3)
    effects = found.start()
    for _ in range(200):
        if found.over:
            return
        asked = next(effect for effect in effects if not isinstance(effect, Unlock | ReturnVotes))
        effects = found.handle(_answer(data, asked))
    raise AssertionError("it did not end")


def _answer(data: st.DataObject, asked: Effect) -> Event:
    fails = data.draw(st.booleans())
    match asked:
        case Wait(number, _):
            return Woken(number)
        case Discover(number) | Query(number, _) | AskVotes(number, _) | Lock(number, _) | Join(number, _, _):
            if fails:
                return Failed(number, "it failed")
        case _:
            raise AssertionError(asked)
    match asked:
        case Discover(number):
            return Discovered(number, peers(*NAMES))
        case Query(number, _):
            seen = data.draw(st.lists(some_properties, unique_by=lambda each: each.name))
            return Queried(number, (*[each for each in seen if each.name != "n1"], virgin("n1", 1)))
        case AskVotes(number, _):
            return Voted(number, data.draw(some_names))
        case Lock(number, _):
            return Locked(number)
        case _:
            return Joined(number)
