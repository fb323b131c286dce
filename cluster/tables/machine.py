"""One node of the table store: its sessions, its database, and what it does about partitions. A pure state machine.

Events are the methods, each with the node's monotonic time; effects are what they return, in the order in which they
are to be carried out. `poll` is to be called every `POLL_MS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, cast, get_args

from msgspec import structs

from splitbrain.cluster.bugs import M83B, M83D, M83E, M83F, NO_BUGS, Bugs
from splitbrain.cluster.tables.database import Database
from splitbrain.cluster.tables.effects import Effect, Listen, Say, SendFrame
from splitbrain.cluster.tables.messages import (
    AskAlive,
    CheckPartial,
    Frame,
    Healing,
    IsAlive,
    Message,
    OfReplicas,
    OfTransactions,
    PartialDisconnect,
    PartialPartition,
)
from splitbrain.cluster.tables.observed import Observed, apart
from splitbrain.cluster.tables.records import Contents
from splitbrain.cluster.tables.sessions import Happened, Session
from splitbrain.cluster.tables.strategies import (
    Action,
    Answered,
    Decided,
    Disconnect,
    Start,
    Stop,
    Strategy,
    Tell,
    View,
)

POLL_MS: Final = 20

LOOK_MS: Final = 1000
"""How often a strategy looks whether it may go on (MN-5)."""

_Database: TypeAlias = OfTransactions | OfReplicas
_OF_DATABASES: Final = get_args(_Database)
_OF_STRATEGIES: Final = get_args(Healing)


class TableNode:
    """One node.

    Args:
        node: its name.
        members: the names of all nodes, this one included.
        strategy: what it does about partitions.
        life: differs from that of every other process of this node.
        tick_ms: the tick time (`splitbrain.cluster.tables.sessions`).
        between: gives a random number in a range, both ends included.
        now_ms: the time.
        contents: the tables that were on disk.
        last_active: the replicas that were up when those were last served; none if nothing was on disk.
        bugs: what is broken on purpose.

    Attributes:
        clients: connections of clients to it; its shell counts them.
    """

    def __init__(
        self,
        node: str,
        members: Sequence[str],
        strategy: Strategy,
        life: int,
        tick_ms: int,
        between: Callable[[int, int], int],
        now_ms: int,
        contents: Contents | None = None,
        last_active: Sequence[str] = (),
        bugs: Bugs = NO_BUGS,
    ) -> None:
        self._node = node
        self._bugs = bugs
        self._members = tuple(sorted(members))
        self._strategy = strategy
        self._now_ms = now_ms
        self._effects: list[Effect] = []
        self.clients = 0
        self._sessions = {
            peer: Session(life, tick_ms, partial(self._send_frame, peer), now_ms, _silence_ms(tick_ms, bugs))
            for peer in self._members
            if peer != node
        }
        self._database = Database(
            node, self._members, life, between, self._send, self._effects.append, contents, last_active, bugs
        )
        self._heard_ms = dict.fromkeys(self._sessions, now_ms)
        self._look_due_ms = now_ms + LOOK_MS
        self._booted = False
        self._seen: Observed | None = None

    @property
    def database(self) -> Database:
        """Its database."""
        return self._database

    @property
    def alive(self) -> frozenset[str]:
        """The nodes that are not down for it, itself included."""
        return frozenset({self._node, *(peer for peer, session in self._sessions.items() if session.is_up)})

    # --- events -----------------------------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Effect]:
        """Time has passed."""
        self._now_ms = now_ms
        if not self._booted:
            self._booted = True
            if self._strategy.boots(self._view()):
                self._act((Start(),))
        for peer, session in self._sessions.items():
            self._happened(peer, session.poll(now_ms))
        looks = now_ms >= self._look_due_ms
        if looks:
            self._look()
        self._database.poll(now_ms)
        if looks and (self._database.phase == "stopped" or self._database.partitions):
            self._observe("look")
        return self._taken()

    def received(self, peer: str, frame: Frame, now_ms: int) -> list[Effect]:
        """A frame of another node came."""
        self._now_ms = now_ms
        session = self._sessions[peer]
        happened = session.received(frame, now_ms)
        if "down" not in happened and session.has(frame):
            self._heard_ms[peer] = now_ms
        self._happened(peer, happened)
        return self._taken()

    def link_up(self, peer: str, now_ms: int) -> list[Effect]:
        """There is a new connection to a node."""
        self._now_ms = now_ms
        self._sessions[peer].link_up(now_ms)
        return self._taken()

    def refused(self, peer: str, now_ms: int) -> list[Effect]:
        """The machine of a node says that its process is gone."""
        self._now_ms = now_ms
        self._happened(peer, self._sessions[peer].refused(now_ms))
        return self._taken()

    def request(
        self, request: int, procedure: str, arguments: Sequence[Any], timeout_ms: int, now_ms: int
    ) -> list[Effect]:
        """A client wants a procedure carried out (`splitbrain.cluster.tables.procedures`); a `Reply` follows."""
        self._now_ms = now_ms
        self._database.request(request, procedure, arguments, now_ms + timeout_ms)
        return self._taken()

    # --- sessions ---------------------------------------------------------------------------------------------------

    def _send_frame(self, peer: str, frame: Frame) -> None:
        self._effects.append(SendFrame(peer, frame))

    def _send(self, peer: str, message: Message) -> None:
        self._sessions[peer].send(message, self._now_ms)

    def _happened(self, peer: str, happened: Sequence[Happened]) -> None:
        session = self._sessions[peer]
        epoch = session.epoch
        for event in happened:
            if session.epoch != epoch:
                return  # what came before had the session ended: the rest is of a node that is down
            if event == "up":
                self._heard_ms[peer] = self._now_ms
                self._effects.append(Say(f"node {peer} up"))
                self._database.node_up(peer)
            elif event == "down":
                self._node_down(peer)
            elif isinstance(event, _OF_DATABASES):
                self._for_database(peer, event)
            elif isinstance(event, _OF_STRATEGIES):
                self._act(self._strategy.received(peer, cast("Healing", event), self._view()))
            else:
                self._about_partial(peer, event)

    def _for_database(self, peer: str, message: Any) -> None:
        before, apart = self._database.phase_of(peer), len(self._database.partitions)
        self._database.received(peer, message, self._now_ms)
        after = self._database.phase_of(peer)
        if before == "running" and after != "running":
            self._act(self._strategy.database_down(peer, self._view()))
        if after == "running" != before or len(self._database.partitions) > apart:
            self._look()

    def _node_down(self, peer: str) -> None:
        self._effects.append(Say(f"node {peer} down"))
        self._observe("lost", leader=peer, count=self._now_ms - self._heard_ms[peer])
        lost = CheckPartial(peer, self._sessions[peer].lost_life)
        # The peer's next session may have begun already.
        asked = self.alive - {self._node, peer} if M83D not in self._bugs else ()
        for other in sorted(asked):
            self._send(other, lost)
        was_running = self._database.phase_of(peer) == "running"
        self._database.node_down(peer, self._now_ms)
        self._act(self._strategy.node_down(peer, self._view()))
        if was_running:
            self._act(self._strategy.database_down(peer, self._view()))

    # --- partial partitions (MN-8) ----------------------------------------------------------------------------------

    def _about_partial(self, peer: str, message: Message) -> None:
        match message:
            case CheckPartial(node, life) if node in self.alive - {self._node}:
                # It may be down without that having been noticed here, so it is asked itself. One that has started
                # again is another process: the asker has lost the former one, and will see this one soon.
                if self._sessions[node].peer_life == life:
                    self._send(node, AskAlive(peer, self._sessions[peer].peer_life))
            case AskAlive(asker, life):
                self._send(peer, IsAlive(asker, life))
            case IsAlive(asker, life) if asker in self.alive:
                # An asker that has started again since has lost nothing yet: RabbitMQ compares its GUID likewise.
                if self._sessions[asker].peer_life == life:
                    self._send(asker, PartialPartition(peer))
            case PartialPartition(node) if node not in self.alive and self._database.phase != "stopped":
                self._effects.append(Say(f"partial partition: {node} is down, but {peer} sees it"))
                self._observe("partial", leader=peer, raised_by=node)
                if M83B not in self._bugs:
                    self._act(self._strategy.partial(node, peer, self._view()))
            case PartialDisconnect():
                self._effects.append(Say(f"{peer} disconnects, to make a partial partition whole"))
                self._happened(peer, self._sessions[peer].disconnect(self._now_ms))
            case _:
                pass

    # --- strategies -------------------------------------------------------------------------------------------------

    def _view(self) -> View:
        partitions = tuple(sorted(set(self._database.partitions) - set(self._database.active())))
        return View(self._node, self._members, self.alive, partitions, self.clients, self._now_ms)

    def _look(self) -> None:
        self._look_due_ms = self._now_ms + LOOK_MS
        self._act(self._strategy.poll(self._view()))

    def _act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Stop(why, winner):
                    if self._database.phase != "stopped":
                        self._effects.append(Say(f"the database stops: {why}"))
                        self._database.stop()
                    self._effects.append(Listen(False))
                    self._observe("pauses" if winner is None else "loses", leader=winner)
                case Start():
                    if self._database.phase == "stopped":
                        self._effects.append(Say("the database starts"))
                        self._database.start(self._now_ms)
                    self._effects.append(Listen(True))
                    self._observe("resumes")
                case Answered(node, status):
                    answer = Observed(
                        "answers", None, status.alive, apart(status.partitions), status.clients, leader=node
                    )
                    self._effects.append(answer)
                case Decided(winner, losers):
                    self._effects.append(Observed("decides", self._database.phase, losers, {}, leader=winner))
                case Tell(node, message) if node in self._sessions:
                    self._send(node, message)
                case Disconnect(node) if self._sessions[node].is_up:
                    self._send(node, PartialDisconnect())
                    self._happened(node, self._sessions[node].disconnect(self._now_ms))
                case _:
                    pass

    # --- telemetry --------------------------------------------------------------------------------------------------

    def observed(self, event: str, *, leader: str | None = None, raised_by: str | None = None) -> Observed:
        """What this node sees now (`splitbrain.cluster.tables.observed`)."""
        return Observed(
            event,
            self._database.phase,
            tuple(sorted(self.alive)),
            apart(self._view().partitions),
            self.clients,
            leader,
            raised_by,
        )

    def _observe(
        self, event: str, *, leader: str | None = None, raised_by: str | None = None, count: int | None = None
    ) -> None:
        seen = self.observed(event, leader=leader, raised_by=raised_by)
        self._effects.append(seen if count is None else structs.replace(seen, count=count))

    def _observe_change(self) -> None:
        seen, before = self.observed("sees"), self._seen
        if before is not None and (seen.role, seen.members, seen.counted) == (
            before.role,
            before.members,
            before.counted,
        ):
            return
        self._seen = seen
        self._effects.append(seen)
        if seen.role == "running" and (before is None or before.role != "running"):
            self._observe("serves", leader=self._database.tables_of)

    def _taken(self) -> list[Effect]:
        self._observe_change()
        taken = list(self._effects)
        self._effects.clear()
        return taken


def _silence_ms(tick_ms: int, bugs: Bugs) -> int:
    """After how much silence a node is down (MN-2)."""
    if M83E in bugs:
        return tick_ms // 2
    return 10 * tick_ms if M83F in bugs else tick_ms
