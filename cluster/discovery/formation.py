"""What a node without data does to become part of a cluster (PD-3): a pure state machine, events in, effects out.

In each round it discovers nodes, asks each for its properties, and selects one. If it selects another node that is in a
cluster and is ready, it takes the backend's lock, joins, and gives the lock back. If it selects itself, it founds a
cluster alone. If anything is missing, it waits and begins the next round, as often as its settings say.

RabbitMQ founds a cluster as soon as a node selects itself, and also after the last round. Each makes two clusters where
nodes see different lists (PD-4). Here a node that selects itself first asks the others for their votes, and founds a
cluster only with those of a majority of all nodes (D20); after the last round it fails, and says why. A backend that
names the only node that may found one (`Discovered.founder`) needs no votes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from splitbrain.cluster.bugs import M68, M69, NO_BUGS, Bugs
from splitbrain.cluster.discovery.seen import Peer, Properties, in_order
from splitbrain.cluster.runtime import Rng

RETRIES: Final = 30
RETRY_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Settings:
    """How a node forms a cluster.

    Attributes:
        node: its name.
        nodes: how many nodes the cluster will have, the same on all of them (RabbitMQ: the target cluster size hint).
        retries: rounds after the first one.
        retry_ms: between two rounds; a tenth at most is added at random, so that nodes do not go on in step.
        registers: whether the node registers with the backend.
        bugs: what is broken on purpose.
    """

    node: str
    nodes: int
    retries: int = RETRIES
    retry_ms: int = RETRY_MS
    registers: bool = False
    bugs: Bugs = NO_BUGS

    @property
    def majority(self) -> int:
        """How many votes a founder needs."""
        return self.nodes // 2 + 1


# --- events: each but Stopped carries the round of the effect that it answers ---------------------------------


@dataclass(frozen=True, slots=True)
class Registered:
    """The backend knows this node."""

    round: int


@dataclass(frozen=True, slots=True)
class Discovered:
    """The backend's list. `founder` is the only node that may found a cluster; None if votes decide."""

    round: int
    peers: tuple[Peer, ...]
    founder: str | None = None


@dataclass(frozen=True, slots=True)
class Queried:
    """The properties of those nodes that answered."""

    round: int
    found: tuple[Properties, ...]


@dataclass(frozen=True, slots=True)
class Voted:
    """Which nodes gave their vote, and what the others said, a clause each."""

    round: int
    granted: tuple[str, ...]
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Locked:
    """The lock is taken, or the backend has none."""

    round: int


@dataclass(frozen=True, slots=True)
class Joined:
    """This node is a member of the cluster."""

    round: int


@dataclass(frozen=True, slots=True)
class Failed:
    """What was to be done failed; `problem` is a clause that says how."""

    round: int
    problem: str


@dataclass(frozen=True, slots=True)
class Woken:
    """The time of a `Wait` is over."""

    round: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """The node stops in good order."""


Event: TypeAlias = Registered | Discovered | Queried | Voted | Locked | Joined | Failed | Woken | Stopped

# --- effects --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Register:
    """Tell the backend of this node: `Registered` or `Failed`."""

    round: int


@dataclass(frozen=True, slots=True)
class Unregister:
    """Have the backend forget this node; nothing is heard of it."""


@dataclass(frozen=True, slots=True)
class Discover:
    """Ask the backend for its list: `Discovered` or `Failed`."""

    round: int


@dataclass(frozen=True, slots=True)
class Query:
    """Ask these nodes for their properties, this one included: `Queried`."""

    round: int
    peers: tuple[Peer, ...]


@dataclass(frozen=True, slots=True)
class AskVotes:
    """Ask these nodes for their vote for this one, itself included: `Voted`."""

    round: int
    peers: tuple[Peer, ...]


@dataclass(frozen=True, slots=True)
class ReturnVotes:
    """Say to these nodes that this one founds no cluster with the votes of that round; nothing is heard of it."""

    round: int
    peers: tuple[Peer, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Begin a cluster of this node alone. The machine has ended."""


@dataclass(frozen=True, slots=True)
class Lock:
    """Take the backend's lock: `Locked` or `Failed`."""

    round: int
    peers: tuple[Peer, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Have a node take this one into its cluster: `Joined` or `Failed`."""

    round: int
    target: Peer
    properties: Properties


@dataclass(frozen=True, slots=True)
class Unlock:
    """Give the lock back; nothing is heard of it."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for a while: `Woken`."""

    round: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The node cannot become part of a cluster. `message` says why, and what to do. The machine has ended."""

    message: str


@dataclass(frozen=True, slots=True)
class Complete:
    """The node is a member. The machine has ended."""


Effect: TypeAlias = (
    Register
    | Unregister
    | Discover
    | Query
    | AskVotes
    | ReturnVotes
    | Found
    | Lock
    | Join
    | Unlock
    | Wait
    | GiveUp
    | Complete
)


class Formation:
    """One start of one node without data. `start`, then `handle` with each event; both return what is to be done.

    Args:
        settings: of the node.
        rng: for the random part of pauses.
        may_found: whether the node may still found a cluster: not if it has begun to join one in an earlier life.

    Attributes:
        round: the present one, from 1; 0 before the start.
        over: whether the machine has ended: it founded, joined, gave up or was stopped.
        problem: what went wrong in the last round, a clause.
    """

    def __init__(self, settings: Settings, rng: Rng, *, may_found: bool = True) -> None:
        self._settings = settings
        self._rng = rng
        self._may_found = may_found
        self._registered = not settings.registers
        self._waits_for: type[Event] | None = None
        self._peers: tuple[Peer, ...] = ()
        self._founder: str | None = None
        self._selected: Properties | None = None
        self.round = 0
        self.over = False
        self.problem = ""

    def start(self) -> list[Effect]:
        """Begin the first round."""
        assert self.round == 0, "it has started"
        return self._next_round()

    def handle(self, event: Event) -> list[Effect]:
        """What is to be done next. An answer that is not waited for, or of another round, changes nothing."""
        if isinstance(event, Stopped):
            return self._stop()
        awaited = self._waits_for
        if self.over or event.round != self.round or awaited is None:
            return []
        if isinstance(event, Failed):
            return [] if awaited is Woken else self._failed(event.problem)
        if type(event) is not awaited:
            return []
        match event:
            case Registered():
                self._registered = True
                return self._discover()
            case Discovered():
                return self._discovered(event)
            case Queried():
                return self._queried(event.found)
            case Voted():
                return self._voted(event)
            case Locked():
                return self._join()
            case Joined():
                return [Unlock(), *self._end(Complete())]
            case Woken():
                return self._next_round()

    # --- one round --------------------------------------------------------------------------------------------

    def _next_round(self) -> list[Effect]:
        self.round += 1
        if not self._registered:
            self._waits_for = Registered
            return [Register(self.round)]
        return self._discover()

    def _discover(self) -> list[Effect]:
        self._waits_for = Discovered
        return [Discover(self.round)]

    def _discovered(self, event: Discovered) -> list[Effect]:
        names = [peer.name for peer in event.peers]
        if len(set(names)) != len(names):
            return self._retry(f"the backend names a node twice: {', '.join(sorted(names))}")
        self._peers = tuple(sorted(event.peers, key=lambda peer: peer.name))
        self._founder = event.founder
        if self._settings.node not in names:
            return self._retry(f"the backend does not name this node, only {', '.join(sorted(names)) or 'none'}")
        self._waits_for = Queried
        return [Query(self.round, self._peers)]

    def _queried(self, found: tuple[Properties, ...]) -> list[Effect]:
        listed = {peer.name for peer in self._peers}
        ordered = [each for each in in_order(found) if each.name in listed]
        names = [each.name for each in ordered]
        silent = ", ".join(sorted(listed - set(names)))
        if self._settings.node not in names:
            return self._retry("this node does not reach itself at the address that the backend has of it")
        if self._founder is not None:
            ordered = [each for each in ordered if each.name == self._founder or each.members]
            if not ordered:
                return self._retry(f"{self._founder}, which alone may found the cluster, does not answer")
        elif self._settings.nodes > 1 and len(ordered) < 2:
            return self._retry(f"no other node answers{f', of {silent}' if silent else ': the backend names no other'}")
        selected = self._selected = ordered[0]
        if selected.name == self._settings.node:
            return self._found()
        if not selected.ready and M69 not in self._settings.bugs:
            state = "is in a cluster but not ready" if selected.members else "is to found the cluster, and has not yet"
            return self._retry(f"{selected.name} {state}")
        self._waits_for = Locked
        return [Lock(self.round, self._peers)]

    def _found(self) -> list[Effect]:
        if not self._may_found:
            return self._retry("this node was in a cluster before, or began to join one, of which no member answers")
        if self._founder is not None:
            return self._end(Found())
        if len(self._peers) > self._settings.nodes:
            return self._retry(
                f"the backend names {len(self._peers)} nodes, and the cluster is to have {self._settings.nodes}"
            )
        self._waits_for = Voted
        return [AskVotes(self.round, self._peers)]

    def _voted(self, event: Voted) -> list[Effect]:
        listed = {peer.name for peer in self._peers}
        votes = sorted(set(event.granted) & listed)
        if len(votes) >= self._settings.majority:
            return self._end(Found())
        said = f" ({'; '.join(event.refused)})" if event.refused else ""
        problem = (
            f"this node is to found the cluster, and has the votes of {len(votes)} of {self._settings.nodes} nodes, "
            f"not of {self._settings.majority}{said}"
        )
        return [ReturnVotes(self.round, self._peers), *self._retry(problem)]

    def _join(self) -> list[Effect]:
        selected = self._selected
        assert selected is not None, "a lock was taken for no node"
        target = next(peer for peer in self._peers if peer.name == selected.name)
        self._may_found = False
        self._waits_for = Joined
        return [Join(self.round, target, selected)]

    def _failed(self, problem: str) -> list[Effect]:
        match self._waits_for:
            case awaited if awaited is Joined:
                return [Unlock(), *self._retry(problem)]
            case awaited if awaited is Voted:
                return [ReturnVotes(self.round, self._peers), *self._retry(problem)]
            case _:
                return self._retry(problem)

    def _retry(self, problem: str) -> list[Effect]:
        self.problem = problem
        if self.round > self._settings.retries:
            if M68 in self._settings.bugs:
                return self._end(Found())
            return self._end(GiveUp(self._last_words()))
        self._waits_for = Woken
        pause_ms = self._settings.retry_ms
        return [Wait(self.round, pause_ms + self._rng.between(0, pause_ms // 10))]

    # --- the end ----------------------------------------------------------------------------------------------

    def _stop(self) -> list[Effect]:
        effects: list[Effect] = []
        if not self.over and self._waits_for is Voted:
            effects.append(ReturnVotes(self.round, self._peers))
        if not self.over and self._waits_for is Joined:
            effects.append(Unlock())
        self.over, self._waits_for = True, None
        return [*effects, Unregister()] if self._registered and self._settings.registers else effects

    def _end(self, last: Found | GiveUp | Complete) -> list[Effect]:
        self.over, self._waits_for = True, None
        return [last]

    def _last_words(self) -> str:
        """Why there is no cluster, and what to do."""
        rounds = f"{self.round} attempt{'s' if self.round > 1 else ''}"
        return (
            f"node {self._settings.node} found no cluster in {rounds}: {self.problem}. It founds none alone, as there "
            f"could be two then. Start enough of the {self._settings.nodes} nodes, check what the backend says, and "
            f"start it again."
        )
