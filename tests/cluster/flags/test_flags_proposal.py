"""A member that takes a change of a flag over proposes what may have been decided: the latest vote that it hears of."""

from __future__ import annotations

import pytest

from splitbrain.cluster.flags.messages import Promise
from splitbrain.cluster.flags.proposal import Proposal
from splitbrain.cluster.flags.record import Ballot, OpId, Pending, Vote

OP = OpId(1, "n1")
MEMBERS = ("n1", "n2", "n3")
MINE = Ballot(7, "n3")
EARLIER = Vote(Ballot(0, "n1"), True)
LATER = Vote(Ballot(3, "n2"), False)


@pytest.mark.parametrize("votes", [(EARLIER, LATER), (LATER, EARLIER)])
def test_d6_the_latest_vote_counts_in_whichever_order_members_answer(votes: tuple[Vote, Vote]) -> None:
    """A majority may have accepted the later one; the earlier one can only have been accepted before it."""
    proposal = Proposal(Pending(OP, "a", MEMBERS, True, MINE), MINE, None)
    assert not proposal.promised("n1", Promise(OP, MINE, votes[0]))
    assert proposal.promised("n2", Promise(OP, MINE, votes[1]))
    assert (proposal.phase, proposal.enable) == ("accepting", False)


def test_d6_what_nobody_has_accepted_is_undone() -> None:
    proposal = Proposal(Pending(OP, "a", MEMBERS, True, MINE), MINE, None)
    assert not proposal.promised("n2", Promise(OP, MINE, None))
    assert proposal.promised("n3", Promise(OP, MINE, None))
    assert proposal.enable is False
