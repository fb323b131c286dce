"""What a node says to candidates for founder (D20): it votes for one, and asks later whether that needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from splitbrain.cluster.discovery.calls import ask
from splitbrain.cluster.discovery.messages import AskCandidacy, AskVote, Ballot, Done, Refused, Reply
from splitbrain.cluster.discovery.record import Kept
from splitbrain.cluster.errors import DiscoveryError
from splitbrain.cluster.runtime import Address, Runtime


class Voter:
    """One node as a voter, and as the candidate that it may be itself.

    Args:
        runtime: of the node.
        kept: what it has promised.
        node: its name.
        nodes: how many the cluster is to have.
        process: of the node, as in its own ballots.
        addresses: of other nodes.
        timeout_ms: of a question to a candidate.
        round: the node's own present one, 0 before the first.
    """

    def __init__(
        self,
        runtime: Runtime,
        kept: Kept,
        node: str,
        nodes: int,
        process: int,
        addresses: Mapping[str, Address],
        timeout_ms: int,
        round: Callable[[], int],
    ) -> None:
        self._runtime = runtime
        self._kept = kept
        self._node = node
        self._nodes = nodes
        self._process = process
        self._addresses = addresses
        self._timeout_ms = timeout_ms
        self._round = round

    def ballot(self, round: int) -> Ballot:
        """The node's own candidacy in a round."""
        return Ballot(self._node, self._kept.record.identity, self._process, round)

    async def begin(self) -> None:
        """Take back a vote for this node itself, whose candidacy ended with its last process."""
        vote = self._kept.record.vote
        if vote is not None and not self._needs(vote):
            await self._kept.take_back(vote)

    async def asked(self, request: AskVote) -> Reply:
        """Give the vote, or say why not."""
        refusal = self._kept.refusal(request, self._node, self._nodes)
        if refusal is None:
            await self._kept.vote(request.ballot)
            return Done()
        vote = self._kept.record.vote
        if vote is not None and vote.node in self._addresses and self._kept.may_found:
            self._runtime.spawn(self._ask_whether_needed(vote), "vote")
        return Refused(refusal)

    def candidacy(self, ballot: Ballot) -> Reply:
        """Say to a voter whether this node needs its vote."""
        return Done() if self._needs(ballot) else Refused(f"{self._node} does not need it any more")

    def _needs(self, ballot: Ballot) -> bool:
        """Whether this node has founded a cluster, or may still found one, with the votes of a candidacy."""
        if self._kept.record.founded or ballot.identity != self._kept.record.identity:
            return True  # of other data it cannot speak
        return ballot.process == self._process and ballot.round == self._round()

    async def _ask_whether_needed(self, vote: Ballot) -> None:
        """Take the vote back if its candidate, whose word was lost or which started anew, does not need it."""
        try:
            reply = await ask(self._runtime, self._addresses[vote.node], AskCandidacy(vote), self._timeout_ms)
        except DiscoveryError:
            return
        if isinstance(reply, Refused):
            await self._kept.take_back(vote)
