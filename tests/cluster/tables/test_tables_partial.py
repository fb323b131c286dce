"""Whom a node asks before it says that a partition is partial (MN-8)."""

from __future__ import annotations

import pytest

from splitbrain.cluster.tables.effects import SendFrame
from splitbrain.cluster.tables.machine import TableNode
from splitbrain.cluster.tables.messages import AskAlive, CheckPartial, Frame, SessionId
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
    assert (("n3", AskAlive("n1")) in asked) == (lost == 9)
