"""Whom a node asks before it says that a partition is partial (MN-8)."""

from __future__ import annotations

import pytest

from splitbrain.cluster.tables.effects import Effect, SendFrame
from splitbrain.cluster.tables.machine import TableNode
from splitbrain.cluster.tables.messages import (
    AskAlive,
    CheckPartial,
    Frame,
    IsAlive,
    Message,
    PartialPartition,
    SessionId,
)
from splitbrain.cluster.tables.strategies import Ignore


@pytest.mark.parametrize("lost", [5, 9])
def test_mn_8_only_the_process_that_was_lost_is_asked_whether_it_is_there(lost: int) -> None:
    """n1 lost n3; n2 sees n3's process 9. If n1 lost process 5, then n3 has started again, and n1 will see it soon."""
    node = TableNode("n2", ("n1", "n2", "n3"), Ignore(), 2, 1000, lambda low, _: low, 0)
    for peer, life in (("n1", 1), ("n3", 9)):
        node.received(peer, Frame(SessionId(life, 0), SessionId(2, 0)), 10)
    assert node.alive == {"n1", "n2", "n3"}
    question = Frame(SessionId(1, 0), SessionId(2, 0), 1, 0, (CheckPartial("n3", lost),))
    sent = [each for each in node.received("n1", question, 20) if isinstance(each, SendFrame)]
    asked = [(each.to, message) for each in sent for message in each.frame.messages]
    assert (("n3", AskAlive("n1", 1)) in asked) == (lost == 9)


def sent_messages(effects: list[Effect]) -> list[tuple[str, Message]]:
    return [(each.to, message) for each in effects if isinstance(each, SendFrame) for message in each.frame.messages]


def test_mn_8_a_node_that_lost_a_process_by_hearing_of_the_next_one_asks_about_the_lost_one() -> None:
    """And it does not ask the node itself, with which a session has begun again."""
    node = TableNode("n1", ("n1", "n2", "n3"), Ignore(), 1, 1000, lambda low, _: low, 0)
    for peer, life in (("n2", 2), ("n3", 5)):
        node.received(peer, Frame(SessionId(life, 0), SessionId(1, 0)), 10)
    effects = node.received("n3", Frame(SessionId(9, 0), SessionId(1, 0)), 20)
    questions = [(to, message) for to, message in sent_messages(effects) if isinstance(message, CheckPartial)]
    assert questions == [("n2", CheckPartial("n3", 5))]


@pytest.mark.parametrize("asker", [1, 4])
def test_mn_8_an_asker_that_has_started_again_is_not_answered(asker: int) -> None:
    """n1's process 1 asked n2 about n3. If n1's process 4 is there when n3 answers, that one has lost nothing yet."""
    node = TableNode("n2", ("n1", "n2", "n3"), Ignore(), 2, 1000, lambda low, _: low, 0)
    for peer, life in (("n1", asker), ("n3", 9)):
        node.received(peer, Frame(SessionId(life, 0), SessionId(2, 0)), 10)
    effects = node.received("n3", Frame(SessionId(9, 0), SessionId(2, 0), 1, 0, (IsAlive("n1", 1),)), 20)
    assert (("n1", PartialPartition("n3")) in sent_messages(effects)) == (asker == 1)
