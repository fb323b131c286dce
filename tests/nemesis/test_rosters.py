"""Which list of members is taken for the right one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from splitbrain.nemesis.grudges import majority
from splitbrain.nemesis.rosters import Members, Roster

NODES = ("n1", "n2", "n3", "n4", "n5")


def listing(*nodes: str) -> Members:
    return {node: node for node in nodes}


def test_those_that_stay_agree_although_as_many_were_removed_and_do_not_know_it() -> None:
    four, two = listing("n1", "n2", "n3", "n4"), listing("n3", "n4")
    assert Roster({"n1": four, "n2": four, "n3": two, "n4": two}).agreed() == two
    assert Roster({"n1": four, "n2": four, "n3": four, "n4": two}).agreed() == four
    assert Roster({"n1": four, "n2": four}).agreed() is None


@given(st.dictionaries(st.sampled_from(NODES), st.sets(st.sampled_from(NODES), min_size=1), min_size=1))
def test_a_list_is_agreed_if_a_majority_of_those_on_it_give_it(given_by: dict[str, set[str]]) -> None:
    lists = {node: listing(*sorted(nodes)) for node, nodes in given_by.items()}
    able = [
        members for members in lists.values() if sum(lists.get(n) == members for n in members) >= majority(len(members))
    ]
    found = Roster(lists).agreed()
    assert found in able if able else found is None
