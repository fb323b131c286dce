"""Nodes that are members of several groups: members of those groups that may give an answer decide."""

from __future__ import annotations

import pytest

from tests.checkers.quorum.story import FIVE, Story, named, rules, window

METADATA, QUEUES = "metadata", "queue.*"


def two_groups() -> Story:
    """Of five nodes three go down at 3 s; all five are the store, n1 and n2 alone a queue; both go on answering.

    The last word of each node is of the store.
    """
    story = Story()
    for node in named("12"):
        story.tell(0.1, node, group="queue.1", voters=named("12"))
    for node in FIVE:
        story.tell(0.2, node, group=METADATA, voters=list(FIVE))
    story.fault(3.0, 3.1, fault="kill", down="345")
    story.ask("12", 3.2, 8.0)
    return story


@pytest.mark.parametrize(
    ("groups", "broken"),
    [
        ([QUEUES], ()),
        ([METADATA], ("Q1", "Q8")),
        ([METADATA, QUEUES], ()),
        ([], ()),
        (["queue.2"], ("Q1", "Q8")),
    ],
)
def test_an_answer_is_wrong_if_none_of_the_groups_could_give_it(groups: list[str], broken: tuple[str, ...]) -> None:
    assert rules(two_groups().judged(groups=groups)) == broken


def test_what_a_node_says_of_one_group_does_not_undo_what_it_said_of_another() -> None:
    found = window(two_groups().judged(groups=[METADATA, QUEUES]), 3.1)["configurations"]
    assert sorted(map(sorted, found)) == [["n1", "n2"], list(FIVE)]


def test_the_verdict_names_the_groups_and_what_it_cannot_tell_apart() -> None:
    both, one = two_groups().judged(), two_groups().judged(groups=[QUEUES])
    assert both.figures["groups"] == [METADATA, "queue.1"]
    assert "one of the 2 groups metadata, queue.1 was wrong only if none could give it" in both.sentence
    assert one.figures["groups"] == ["queue.1"]
    assert "groups" not in one.sentence


def test_a_core_is_a_majority_of_every_group_that_may_have_to_answer() -> None:
    story = Story()
    for node in FIVE:
        story.tell(0.1, node, group="queue.1", voters=list(FIVE))
        story.tell(0.2, node, group="queue.2", voters=named("45"))
    story.fault(3.0, 3.1, fault="kill", down="45")
    story.ask("123", 3.2, 9.0, "fail", error="no leader")
    assert rules(story.judged(groups=["queue.1"])) == ("Q3",)
    assert rules(story.judged(groups=[QUEUES])) == ()
