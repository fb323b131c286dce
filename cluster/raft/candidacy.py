"""How a member asks for votes, and counts them: before an election, and in one (Raft 5.2; thesis, 9.6)."""

from __future__ import annotations

from splitbrain.cluster.bugs import M03, M08, M10
from splitbrain.cluster.raft.messages import NodeId, PreVote, PreVoteReply, Vote
from splitbrain.cluster.raft.state import State


class Candidacy:
    """The votes of a member's present attempt to lead. Whether it may stand, and what it becomes, is not known here.

    Attributes:
        transfers: whether the leader asked it to stand.
    """

    __slots__ = ("_counts_replies", "_state", "_token", "_votes", "transfers")

    def __init__(self, state: State) -> None:
        self._state = state
        self._token = 0
        self._votes: dict[NodeId, int] = {}  # with the terms of the messages that granted them
        self._counts_replies = M10 in state.bugs
        self.transfers = False

    @property
    def granted(self) -> tuple[tuple[NodeId, int], ...]:
        """Who granted a vote in the present attempt, each with the term of its answer, for telemetry."""
        return tuple(self._votes.items())

    @property
    def has_a_majority(self) -> bool:
        """Whether enough voters have granted their vote."""
        return len(self._votes) >= self._state.quorum

    def drop(self) -> None:
        """The attempt is over: a term has begun."""
        self._votes = {}

    def ask_before_election(self) -> None:
        """Begin an attempt: ask all voters whether they would vote."""
        state = self._state
        self._token += 1
        self._votes = self._own_vote()
        log = state.log
        for peer in state.voters:
            state.send(peer, PreVote(state.term, self._token, log.last_index, log.last_term, state.versions.supported))

    def would_vote(self, sender: NodeId, message: PreVoteReply) -> None:
        """A voter answered. An answer to an earlier attempt says nothing: the voter may have heard a leader since."""
        if message.granted and message.token == self._token:
            self._votes[sender] = message.term

    def begin_election(self, *, transfers: bool) -> None:
        """Begin the election of the present term, and ask for votes."""
        self.transfers = transfers
        self._votes = self._own_vote()
        self.ask()

    def ask(self) -> None:
        """Ask the voters that have not granted their vote."""
        state = self._state
        log, supported = state.log, state.versions.supported
        request = Vote(state.term, log.last_index, log.last_term, self.transfers, supported)
        for peer in state.voters:
            if peer not in self._votes:
                state.send(peer, request)

    def votes(self, sender: NodeId, term: int) -> None:
        """A voter granted its vote in the present term; a second time it counts no more."""
        self._votes.setdefault(sender if not self._counts_replies else f"{sender},{len(self._votes)}", term)

    def elects_itself(self) -> None:
        """No vote but its own is needed in the present term."""
        self._votes = self._own_vote()

    def _own_vote(self) -> dict[NodeId, int]:
        """The votes at the start: only votes of members count, so this node's own only if it is one."""
        state = self._state
        counts = state.votes or (M08 in state.bugs and state.node in state.configurations.current)
        return {state.node: state.term} if counts else {}


def is_up_to_date(state: State, last_term: int, last_index: int) -> bool:
    """Whether a log that ends so has all that this member's has (Raft 5.4.1)."""
    log = state.log
    return (last_term, last_index) >= (log.last_term, log.last_index) or M03 in state.bugs
