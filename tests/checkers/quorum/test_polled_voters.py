"""Voter sets of nodes that are asked: each was taken on somewhere between what the node said before and now."""

from __future__ import annotations

import pytest

from splitbrain.checkers.quorum.configurations import Configurations, Piece
from tests.checkers.quorum.story import FIVE, Story, between, named, rules

BEFORE: list[str] = named("123")
AFTER: list[str] = list(FIVE)


def grown(event: str) -> Story:
    """All hold five members from 3.0 s on; then three are cut off with n1, which answers; at 3.3 s it is told."""
    story = Story()
    for node in FIVE:
        story.tell(2.9, node, event=event, voters=BEFORE)
    story.ask("12345", 0.0, 2.4)
    story.fault(2.5, 3.0, fault="membership")
    story.fault(3.05, 3.1, cut=between("145", "23"))
    story.ask("1", 3.11, 3.15, every_s=0.02)
    for node in FIVE:
        story.tell(3.3, node, event=event, voters=AFTER)
    return story


@pytest.mark.parametrize(("event", "broken"), [("seen", ()), ("commit", ("Q2",))])
def test_nobody_is_silenced_by_a_set_that_was_given_up_before_it_was_asked_for(
    event: str, broken: tuple[str, ...]
) -> None:
    assert rules(grown(event).judged()) == broken


def pieces(*told: tuple[float, str, list[str]], end_s: float = 10.0, offset_s: float = 0.0) -> list[Piece]:
    story = Story()
    for time_s, node, voters in told:
        story.tell(time_s, node, event="seen", voters=voters)
    held = Configurations(story.telemetry(), FIVE, round(offset_s * 1e9))
    return list(held.pieces(0, round(end_s * 1e9)))


def spans(found: list[Piece]) -> list[tuple[float, float, bool]]:
    return [(piece.begin_ns / 1e9, piece.end_ns / 1e9, piece.changing) for piece in found]


def test_who_was_asked_late_may_have_changed_before_those_who_were_asked_often() -> None:
    often = [(time_s, "n1", BEFORE if time_s < 4 else AFTER) for time_s in (1.0, 2.0, 3.0, 4.0)]
    found = pieces(*often, (1.5, "n2", BEFORE), (6.0, "n2", AFTER))
    assert spans(found) == [(0.0, 1.5, False), (1.5, 6.0, True), (6.0, 10.0, False)]
    assert [set(map(frozenset, piece.configurations)) for piece in found] == [
        {frozenset(BEFORE)},
        {frozenset(BEFORE), frozenset(AFTER)},
        {frozenset(AFTER)},
    ]


def test_a_change_that_is_told_after_the_stretch_may_be_in_it() -> None:
    found = pieces((1.0, "n1", BEFORE), (4.0, "n1", AFTER), end_s=3.0)
    assert spans(found) == [(0.0, 1.0, False), (1.0, 3.0, True)]


def test_clocks_that_may_be_apart_make_a_change_longer() -> None:
    found = pieces((2.0, "n1", BEFORE), (4.0, "n1", AFTER), offset_s=0.5)
    assert spans(found) == [(0.0, 1.5, False), (1.5, 4.5, True), (4.5, 10.0, False)]
