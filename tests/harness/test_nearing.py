"""Nodes that come nearer: by what they have left to apply, by what came of a snapshot, and never by doing it again."""

from __future__ import annotations

from splitbrain.harness.contract.nodes import NodeView
from splitbrain.harness.running.nearing import Nearing


def view(node: str, applied: int, received: int = 0, commit: int = 100) -> NodeView:
    return NodeView(node, "follower", 1, "n1", commit, applied, received)


def test_the_first_look_compares_with_nothing() -> None:
    assert not Nearing().nearer([view("n1", 100), view("n2", 7, 50)])


def test_who_has_less_to_apply_than_ever_comes_nearer_and_who_stands_still_does_not() -> None:
    nearing = Nearing()
    nearing.nearer([view("n1", 100), view("n2", 7)])
    assert nearing.nearer([view("n1", 100), view("n2", 8)])
    assert not nearing.nearer([view("n1", 100), view("n2", 8)])
    assert not nearing.nearer([view("n1", 101, commit=101), view("n2", 9, commit=101)])  # as far behind as before


def test_a_node_that_joins_far_behind_comes_nearer_although_the_others_met_before() -> None:
    nearing = Nearing()
    nearing.nearer([view("n1", 100)])
    assert not nearing.nearer([view("n1", 100), view("n2", 0)])
    assert nearing.nearer([view("n1", 100), view("n2", 1)])


def test_more_of_a_snapshot_is_nearer_and_a_transfer_that_begins_again_is_not() -> None:
    nearing = Nearing()
    said = [nearing.nearer([view("n2", 7, received)]) for received in (10, 20, 20, 0, 10, 20, 30)]
    assert said == [False, True, False, False, False, False, True]


def test_the_snapshot_that_comes_after_one_was_installed_counts_from_its_beginning() -> None:
    nearing = Nearing()
    said = [nearing.nearer([view("n2", *at)]) for at in ((7, 0), (7, 90), (50, 0), (50, 5), (50, 5))]
    assert said == [False, True, True, True, False]
