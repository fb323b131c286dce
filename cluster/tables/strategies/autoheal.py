"""MN-7: once all nodes see each other again, one partition wins, and all nodes of the others restart.

After `rabbit_autoheal` of RabbitMQ, with its states and its messages. The leader is the first of all nodes by name:

    any node   RequestStart     -> leader   it sees all nodes, and runs apart from some
    leader     AskStatus        -> all      what does each see, how many clients has it (an RPC in RabbitMQ)
    all        Status           -> leader
    leader     BecomeWinner     -> winner   the first node of the partition that wins
    winner     WinnerIs         -> losers   they stop
    winner     SafeToStart      -> losers   all of them have stopped: they start, and copy the winner's tables
    leader     ReportStatus     -> winner   from a leader that lost, when it has started again
    winner     HealFinished     -> leader   over, or given up

The partition with the most clients wins; of equal ones that with the most nodes; then that whose list of nodes sorts
last. Whatever happens on the way, losers that have stopped start again: when the winner says so, when it goes down, or
after `WAIT_MS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from splitbrain.cluster.bugs import M86, M86B, M86C, M86D, M86E, NO_BUGS, Bugs
from splitbrain.cluster.tables.messages import (
    AskStatus,
    BecomeWinner,
    HealFinished,
    Healing,
    ReportStatus,
    RequestStart,
    SafeToStart,
    Status,
    WinnerIs,
)
from splitbrain.cluster.tables.strategies.strategy import (
    Action,
    Answered,
    Decided,
    Start,
    Stop,
    Strategy,
    Tell,
    View,
)

WAIT_MS: Final = 60_000
"""A loser starts again after so long without a word (`autoheal_state_transition_timeout`)."""

ASK_MS: Final = 5_000
"""So long the leader waits for what the others see."""


PATIENCE: Final = 10
"""So often the leader asks again where nodes say different things of who is partitioned from whom.

Right after a heal some have noticed more than others. RabbitMQ decides by what there is, and may let another partition
win than one that all would agree on.
"""


class NotHealing(NamedTuple):
    """Nothing is under way here."""


class Deciding(NamedTuple):
    """The leader has asked what all see."""

    answers: dict[str, Status]
    until_ms: int


class WinnerWaiting(NamedTuple):
    """The winner waits until all losers have stopped.

    Attributes:
        outstanding: those that have not.
        notify: all of them.
    """

    outstanding: tuple[str, ...]
    notify: tuple[str, ...]


class LeaderWaiting(NamedTuple):
    """The leader waits for the winner."""

    winner: str
    losers: tuple[str, ...]


class Restarting(NamedTuple):
    """A loser has stopped.

    Attributes:
        winner: who lets it start.
        leads: what it was before, if it is the leader, too.
        until_ms: it starts by itself then.
    """

    winner: str
    leads: LeaderWaiting | None
    until_ms: int


State: TypeAlias = NotHealing | Deciding | WinnerWaiting | LeaderWaiting | Restarting


def all_partitions(members: Sequence[str], cannot_see: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The partitions, from what each node says of which others run apart from it."""
    partitions = [sorted(members)]
    for node, apart in cannot_see.items():
        containing = next(partition for partition in partitions if node in partition)
        others = [partition for partition in partitions if partition is not containing]
        here = [member for member in containing if member not in apart]
        there = [member for member in containing if member in apart]
        if here and there:
            partitions = [here, there, *others]
    return partitions


def agree(partitions: Sequence[Sequence[str]], cannot_see: Mapping[str, Sequence[str]]) -> bool:
    """Whether each node runs apart from exactly those that are in other partitions."""
    members = {node for partition in partitions for node in partition}
    return all(set(cannot_see[node]) == members - set(partition) for partition in partitions for node in partition)


def decision(
    partitions: Sequence[Sequence[str]], clients: Mapping[str, int], bugs: Bugs = NO_BUGS
) -> tuple[str, tuple[str, ...]]:
    """The node that wins for its partition, and all nodes that lose (MN-7)."""
    factor = -1 if M86 in bugs else 0 if M86E in bugs else 1
    ranked = sorted(partitions, key=lambda each: (factor * sum(clients[node] for node in each), len(each), list(each)))
    winners = ranked.pop()
    return winners[0], tuple(node for losers in reversed(ranked) for node in losers)


class Autoheal(Strategy):
    """See the module.

    Attributes:
        state: where it is.
    """

    def __init__(self, bugs: Bugs = NO_BUGS) -> None:
        self._bugs = bugs
        self.state: State = NotHealing()
        self._denied = 0

    def node_down(self, node: str, view: View) -> Sequence[Action]:
        """Give up, where all nodes are needed."""
        match self.state:
            case Deciding():
                self.state = NotHealing()
            case WinnerWaiting(_, notify):
                return self._finish(notify, view)
            case LeaderWaiting(winner, _) if winner == node:
                self.state = NotHealing()
            case Restarting(winner, _, _) if winner == node:
                self.state = NotHealing()
                return (Start(),)
            case _:
                pass
        return ()

    def database_down(self, node: str, view: View) -> Sequence[Action]:
        """A loser has stopped, for this or another reason; or the winner, and then all shall go on."""
        match self.state:
            case WinnerWaiting(outstanding, notify):
                left = tuple(other for other in outstanding if other != node)
                if not left:
                    return self._finish(notify, view)
                self.state = WinnerWaiting(left, notify)
            case LeaderWaiting(winner, losers) if winner == node:
                return self._finish(losers, view)
            case _:
                pass
        return ()

    def received(self, sender: str, message: Healing, view: View) -> Sequence[Action]:
        """A message of the protocol; what does not fit the state is ignored."""
        if isinstance(message, AskStatus):
            return (Tell(sender, Status(view.partitions, tuple(sorted(view.alive)), view.clients)),)
        match (message, self.state):
            case (SafeToStart(), Restarting(winner, leads, _)) if sender == winner:
                return self._start(leads, report=True)
            case (_, Restarting()):
                return ()
            case (RequestStart(), NotHealing()):
                # RabbitMQ's leader does nothing if it runs apart from no node itself; two others may, from each other.
                return self._ask(view)
            case (Status() as status, Deciding(answers, _)):
                answers[sender] = status
                return self._decide(answers, view) if len(answers) == len(view.members) else ()
            case (BecomeWinner(losers), NotHealing() | Deciding()):
                return self._win(losers)
            case (BecomeWinner(losers), WinnerWaiting(_, notify)):
                # Of the same partition: the leader has seen this node down for a moment. Else partitions have changed.
                return self._win(losers) if losers == notify else self._finish(notify, view)
            case (WinnerIs(), LeaderWaiting(winner, _) as leads) if winner == sender:
                return self._lose(sender, leads, view)
            case (WinnerIs(), NotHealing() | Deciding() | WinnerWaiting()):
                return self._lose(sender, None, view)
            case (ReportStatus(), NotHealing()):
                return (Tell(sender, HealFinished()),)
            case (HealFinished(), LeaderWaiting(winner, _)) if winner == sender:
                self.state = NotHealing()
            case _:
                pass
        return ()

    def poll(self, view: View) -> Sequence[Action]:
        """Ask for healing, again and again (RabbitMQ: once, when all are up); give up what takes too long."""
        match self.state:
            case Restarting(_, leads, until_ms) if view.now_ms >= until_ms:
                return self._start(leads, report=False)
            case Deciding(_, until_ms) if view.now_ms >= until_ms:
                self.state = NotHealing()
            case NotHealing() if view.partitions and view.all_up:
                leader = view.members[0]
                if leader != view.node and M86B not in self._bugs:
                    return (Tell(leader, RequestStart()),)
                return self._ask(view)
            case _:
                pass
        return ()

    def _ask(self, view: View) -> Sequence[Action]:
        if not view.all_up:
            return ()
        own = Status(view.partitions, tuple(sorted(view.alive)), view.clients)
        self.state = Deciding({view.node: own}, view.now_ms + ASK_MS)
        return tuple(Tell(node, AskStatus()) for node in view.members if node != view.node)

    def _decide(self, answers: Mapping[str, Status], view: View) -> Sequence[Action]:
        self.state = NotHealing()
        if any(set(view.members) - set(status.alive) for status in answers.values()):
            return ()  # denied: some node does not see all others
        cannot_see = {node: answers[node].partitions for node in view.members}
        partitions = all_partitions(view.members, cannot_see)
        if len(partitions) < 2 or (self._denied < PATIENCE and not agree(partitions, cannot_see)):
            self._denied += 1
            return ()
        self._denied = 0
        clients = {node: status.clients for node, status in answers.items()}
        winner, losers = decision(partitions, clients, self._bugs)
        reports = (*(Answered(node, answers[node]) for node in view.members), Decided(winner, losers))
        if winner == view.node:
            return (*reports, *self._win(losers))
        self.state = LeaderWaiting(winner, losers)
        return (*reports, Tell(winner, BecomeWinner(losers)))

    def _win(self, losers: tuple[str, ...]) -> Sequence[Action]:
        self.state = WinnerWaiting(losers, losers)
        reported = tuple(Tell(node, WinnerIs()) for node in losers)
        return (*reported, Stop("restarts with the losers"), Start()) if M86D in self._bugs else reported

    def _lose(self, winner: str, leads: LeaderWaiting | None, view: View) -> Sequence[Action]:
        if M86C in self._bugs:
            return ()
        self.state = Restarting(winner, leads, view.now_ms + WAIT_MS)
        return (Stop(f"restarts to heal a partition: {winner} is the winner", winner),)

    def _start(self, leads: LeaderWaiting | None, *, report: bool) -> Sequence[Action]:
        if leads is None or not report:
            self.state = NotHealing()
            return (Start(),)
        self.state = leads
        return (Start(), Tell(leads.winner, ReportStatus()))

    def _finish(self, notify: Sequence[str], view: View) -> Sequence[Action]:
        self.state = NotHealing()
        leader = view.members[0]
        to_start = [Tell(node, SafeToStart()) for node in notify if node != view.node]
        return (*to_start, Tell(leader, HealFinished())) if leader != view.node else tuple(to_start)
