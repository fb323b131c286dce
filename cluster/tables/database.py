"""The database of one node: it finds tables to serve, serves them with other replicas, and loses some (MN-1, MN-3).

A database that starts is "waiting" until it has tables that it may serve. It takes those of a running replica if there
is one, and drops its own for them (MN-3). Without one it may serve its own only if no waiting or missing node can hold
newer ones: if each replica that was up when it last served is there and agrees (`may_load`), as Mnesia does with what
it notes of nodes that went down. A node that had outlived all others so serves at once, and one that others outlived
waits for them.

Replicas that are up are `active`. Once a node is down it is none, and does not become one again by being reachable:
two running databases that had lost each other stay apart, each with its own tables, and say so (`partitions`), until
one of them restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from splitbrain.cluster.bugs import M83C, M87, NO_BUGS, Bugs
from splitbrain.cluster.tables.coordinator import MEMBERS, Coordinator, Done, End, GivenUp
from splitbrain.cluster.tables.effects import Effect, LogActive, LogChanges, ReplaceAll, Reply, Say
from splitbrain.cluster.tables.known import KNOWN
from splitbrain.cluster.tables.locks import Tid
from splitbrain.cluster.tables.messages import (
    Announce,
    AskLock,
    AskOutcome,
    AskToJoin,
    Commit,
    Copy,
    JoinRefused,
    LockAnswer,
    Message,
    OfReplicas,
    OfTransactions,
    Outcome,
    Phase,
    Prepare,
    Release,
    Vote,
)
from splitbrain.cluster.tables.participant import Participant
from splitbrain.cluster.tables.procedures import Read, Steps
from splitbrain.cluster.tables.records import Contents, Item, Tables

GRACE_MS: Final = 2000
"""So long a starting node looks for others before it may serve tables of its own."""

JOIN_MS: Final = 5000
"""So long a running replica tries to take in another one."""

RUNS: Final = 2**16
"""At most in one process."""

ONE_SIDED_MS: Final = 5000
"""So long one of two replicas may count the other one and not be counted by it: a commit that says so is on its way."""

JOIN_AGAIN_MS: Final = 500
"""So long a node that was refused waits before it asks again."""


def may_load(node: str, waiting: Mapping[str, Collection[str]], members: Collection[str]) -> bool:
    """Whether a node is the one that serves its own tables, where none serves any.

    Args:
        node: its name.
        waiting: the nodes that wait and see each other, with the replicas that were up when each last served.
        members: all nodes.
    """
    candidates = [
        name for name, active in waiting.items() if all(other in waiting and name in waiting[other] for other in active)
    ]
    if not candidates and set(waiting) == set(members):
        candidates = list(waiting)
    return bool(candidates) and node == min(candidates)


class Database:
    """The database of one node, over all its runs in one process.

    Args:
        node: its name.
        members: the names of all nodes, this one included.
        life: of the process.
        between: gives a random number.
        send: takes a message for another node.
        emit: takes each effect.
        contents: the tables that were on disk.
        last_active: the replicas that were up when they were last served; all members if there was nothing on disk.
        bugs: what is broken on purpose.

    Attributes:
        phase: what the database does.
        partitions: nodes whose databases run apart from this one.
        tables_of: the node whose tables it serves since it last began to: another one, or this.
    """

    def __init__(
        self,
        node: str,
        members: Sequence[str],
        life: int,
        between: Callable[[int, int], int],
        send: Callable[[str, Message], None],
        emit: Callable[[Effect], None],
        contents: Contents | None = None,
        last_active: Sequence[str] = (),
        bugs: Bugs = NO_BUGS,
    ) -> None:
        self._bugs = bugs
        self._node = node
        self._members = tuple(sorted(members))
        self._life = life
        self._between = between
        self._send_out = send
        self._emit = emit
        self._tables = Tables(contents)
        self._last_active = tuple(last_active) or self._members
        self.phase: Phase = "stopped"
        self.tables_of = node
        self.partitions: dict[str, None] = {}
        self._run = life * RUNS  # no other process of this node has a run of the same number
        self._peers: dict[str, Announce | None] = {}
        self._active: dict[str, int] = {}  # with the run of each
        self._to_self: list[OfTransactions] = []
        self._begin_run(0)

    def _begin_run(self, now_ms: int) -> None:
        self._participant = Participant(self._node, self.send, self._committed, self._reaches)
        self._coordinator = Coordinator(self._node, self._life, self, self._bugs)
        self._began_ms = now_ms
        self._settled = False
        self._joining: str | None = None
        self._waits_for_others = False
        self._ask_due_ms = now_ms
        self._early: list[tuple[str, OfTransactions]] = []
        self._one_sided: dict[str, int] = {}  # replicas that do not count this node as one, and since when
        self._to_self.clear()

    @property
    def tables(self) -> Tables:
        """What this replica holds."""
        return self._tables

    @property
    def run(self) -> int:
        """The number of the present run: no other run of the node has it."""
        return self._run

    @property
    def participant(self) -> Participant:
        """The locks and votes of this run."""
        return self._participant

    def phase_of(self, peer: str) -> Phase | None:
        """What the database of another node does, as far as it has said in this session."""
        announce = self._peers.get(peer)
        return None if announce is None else announce.phase

    # --- what a coordinator needs (`coordinator.Replica`) -----------------------------------------------------------

    def active(self) -> tuple[str, ...]:
        """The replicas that are taken for up, this node included."""
        return tuple(sorted(self._active))

    def read(self, item: Item) -> tuple[Any, ...]:
        """The values of an item here."""
        return self._tables.read(item)

    def send(self, to: str, message: Message) -> None:
        """Send a message, also to this node itself."""
        if to == self._node:
            assert isinstance(message, OfTransactions), "a node has only transactions with itself"
            self._to_self.append(message)
        else:
            self._send_out(to, message)

    def between(self, low: int, high: int) -> int:
        """A random number."""
        return self._between(low, high)

    def commit(self, tid: Tid) -> None:
        """Commit here, now."""
        self._participant.received(self._node, Commit(tid))

    # --- starts and stops -------------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> None:
        """Look for tables, and serve them."""
        self._run += 1
        self._begin_run(now_ms)
        self.phase = "waiting"
        self._announce()

    def stop(self) -> None:
        """Serve nothing any more; transactions of clients that are not decided are given up."""
        self._coordinator.stop()
        self.phase = "stopped"
        self._active = {}
        self.partitions = {}
        self._to_self.clear()
        self._early.clear()
        self._joining = None
        self._announce()

    def _announcement(self) -> Announce:
        return Announce(self._run, self.phase, self._last_active, self._settled)

    def _announce(self) -> None:
        for peer in self._peers:
            self._send_out(peer, self._announcement())

    # --- events -----------------------------------------------------------------------------------------------------

    def request(self, request: int, procedure: str, arguments: Sequence[Any], deadline_ms: int) -> None:
        """Carry out a procedure for a client; a `Reply` follows."""
        if self.phase != "running":
            self._emit(Reply(request, GivenUp("stopped")))
            return

        def steps() -> Steps:
            return KNOWN[procedure](*arguments)

        self._coordinator.begin(steps, deadline_ms, lambda end: self._emit(Reply(request, end)))
        self._deliver_to_self()

    def node_up(self, peer: str) -> None:
        """A session with another node began."""
        self._peers[peer] = None
        self._send_out(peer, self._announcement())

    def node_down(self, peer: str, now_ms: int) -> None:
        """A session ended."""
        self._peers.pop(peer, None)
        self._replica_down(peer, now_ms)

    def received(self, peer: str, message: OfTransactions | OfReplicas, now_ms: int) -> None:
        """A message of another node."""
        match message:
            case Announce():
                self._announced(peer, message, now_ms)
            case AskToJoin(run):
                self._asked_to_join(peer, run, now_ms)
            case JoinRefused(run):
                if run == self._run and self.phase == "waiting":
                    self._no_donor(now_ms)
            case Copy():
                self._copied(peer, message, now_ms)
            case _:
                self._of_transactions(peer, message)
        self._deliver_to_self()

    def poll(self, now_ms: int) -> None:
        """Time has passed."""
        if self.phase == "running":
            self._coordinator.poll(now_ms)
            self._end_one_sided(now_ms)
        elif self.phase == "waiting":
            self._look_for_tables(now_ms)
        self._deliver_to_self()

    # --- transactions -----------------------------------------------------------------------------------------------

    def _of_transactions(self, peer: str, message: OfTransactions) -> None:
        if self.phase == "running":
            self._in_run(peer, message)
        elif self._joining is not None:
            self._early.append((peer, message))  # of a replica that has heard sooner that this one joined

    def _in_run(self, peer: str, message: OfTransactions) -> None:
        match message:
            case LockAnswer() | Vote():
                self._coordinator.received(peer, message)
            case AskLock() | Prepare() | Commit() | Release() | AskOutcome() | Outcome():
                self._coordinator.saw(message.tid)
                self._participant.received(peer, message)

    def _deliver_to_self(self) -> None:
        while self._to_self:
            self._in_run(self._node, self._to_self.pop(0))

    def _committed(self, prepared: Prepare) -> None:
        if prepared.joins is not None:
            node, run = prepared.joins
            if self._reaches(node, run):
                self._active[node] = run
                self._active_changed()
        if prepared.changes and not (M87 in self._bugs and prepared.tid.node != self._node):
            self._tables.apply(prepared.changes)
            self._emit(LogChanges(prepared.changes))

    # --- replicas ---------------------------------------------------------------------------------------------------

    def _reaches(self, node: str, run: int) -> bool:
        """Whether a node is there, in this run, and may become a replica."""
        known = self._peers.get(node)
        return known is not None and known.run == run and known.phase != "stopped"

    def _announced(self, peer: str, announce: Announce, now_ms: int) -> None:
        former = self._peers.get(peer)
        self._peers[peer] = announce
        counted = self._active.get(peer)
        if counted is not None:
            # A copy of tables may count a run that this node has not heard of yet: what is said of earlier ones is old.
            if announce.run > counted or (announce.run == counted and announce.phase == "stopped"):
                self._replica_down(peer, now_ms)
        elif former is not None and (former.run != announce.run or announce.phase == "stopped"):
            self._replica_down(peer, now_ms)
        if announce.phase != "running" or self.phase != "running" or peer in self._active:
            return
        # One that counts this node among its replicas has joined, and the commit of that is on its way.
        if self._node not in announce.last_active and peer not in self.partitions:
            if M83C in self._bugs:
                self._active[peer] = announce.run
                self._active_changed()
                return
            self._runs_apart(peer)

    def _end_one_sided(self, now_ms: int) -> None:
        """A replica that goes on without counting this node runs apart from it.

        It has joined by a copy from one that had lost this node, while this node was asked, and heard of the join.
        """
        for peer, run in list(self._active.items()):
            announce = self._peers.get(peer)
            counts = (
                announce is None
                or announce.phase != "running"
                or announce.run != run
                or self._node in announce.last_active
            )
            if peer == self._node or counts:
                self._one_sided.pop(peer, None)
            elif now_ms - self._one_sided.setdefault(peer, now_ms) >= ONE_SIDED_MS:
                del self._one_sided[peer]
                self._replica_down(peer, now_ms)
                self._runs_apart(peer)

    def _runs_apart(self, peer: str) -> None:
        self.partitions[peer] = None
        self._emit(Say(f"{peer} runs apart from this node: the tables may differ (running partitioned network)"))

    def _replica_down(self, peer: str, now_ms: int) -> None:
        if self._joining == peer:
            # Whatever it did, this node does not know it: others must not take it for the replica that it may be.
            self._restart(now_ms)
        self._early = [(sender, message) for sender, message in self._early if sender != peer]
        if self.phase != "running":
            return
        if peer in self._active:
            del self._active[peer]
            self._active_changed()
        self._participant.node_down(peer, self._active)
        self._coordinator.node_down(peer, now_ms)
        self._forget_partitions()
        self._deliver_to_self()

    def _restart(self, now_ms: int) -> None:
        self._run += 1
        self._begin_run(now_ms)
        self._announce()

    def _forget_partitions(self) -> None:
        """If nothing that runs apart is left: `handle_dead_rabbit` of RabbitMQ's node monitor forgets all or none."""
        running = [
            peer for peer, announce in self._peers.items() if announce is not None and announce.phase == "running"
        ]
        if not any(peer in running and peer not in self._active for peer in self.partitions):
            self.partitions = {}

    def _active_changed(self) -> None:
        self._last_active = self.active()
        self._emit(LogActive(self._last_active))
        self._announce()

    def _asked_to_join(self, peer: str, run: int, now_ms: int) -> None:
        if self.phase != "running" or not self._reaches(peer, run) or peer in self._active:
            self._send_out(peer, JoinRefused(run))
            return

        def steps() -> Steps:
            yield Read(MEMBERS)  # so that the replicas which are asked next are all that there are
            yield Read(MEMBERS, "write")

        tids: list[Tid] = []

        def end(end: End) -> None:
            if isinstance(end, Done) and peer in self._active:
                self._send_out(peer, Copy(tids[0], run, self._tables.contents(), dict(self._active)))
            else:
                self._send_out(peer, JoinRefused(run))

        tids.append(self._coordinator.begin(steps, now_ms + JOIN_MS, end, (peer, run)))

    def _has_heard_of(self, replicas: Collection[str]) -> bool:
        return all(name == self._node or self._peers.get(name) is not None for name in replicas)

    def _copied(self, donor: str, copy: Copy, now_ms: int) -> None:
        if self.phase != "waiting" or copy.run != self._run or donor != self._joining:
            return
        if not self._has_heard_of(copy.active):
            # Without one of its replicas, this node would run apart from that one, and both would share tables with
            # the donor. In its next run it is a replica for none of them.
            self._restart(now_ms)
            self._ask_due_ms = now_ms + JOIN_AGAIN_MS
            return
        self._joining = None
        self._tables = Tables(copy.contents)
        self._active = dict(copy.active)
        self._participant.joined(copy.tid)
        self._serve(ReplaceAll(copy.contents, self.active()), donor)
        early, self._early = self._early, []
        for peer, message in early:
            self._in_run(peer, message)
            self._deliver_to_self()

    def _look_for_tables(self, now_ms: int) -> None:
        if self._joining is not None or now_ms < self._ask_due_ms:
            return
        heard = {peer: announce for peer, announce in self._peers.items() if announce is not None}
        running = sorted(peer for peer, announce in heard.items() if announce.phase == "running")
        if running:
            self._ask_to_join({peer: heard[peer].last_active for peer in running})
            return
        if not self._settled and (len(heard) == len(self._members) - 1 or now_ms - self._began_ms >= GRACE_MS):
            self._settled = True
            self._announce()
        if not self._settled:
            return
        waiting: dict[str, Collection[str]] = {
            peer: announce.last_active for peer, announce in heard.items() if announce.phase == "waiting"
        }
        waiting[self._node] = self._last_active
        if may_load(self._node, waiting, self._members):
            self._active = {self._node: self._run}
            self._serve(LogActive(self.active()), self._node)

    def _ask_to_join(self, counted: Mapping[str, Collection[str]]) -> None:
        """Ask the first running node that counts no replica of which this one has not heard (`_copied`)."""
        donor = next((peer for peer, replicas in counted.items() if self._has_heard_of(replicas)), None)
        if donor is not None:
            self._joining = donor
            self._send_out(donor, AskToJoin(self._run))
        elif not self._waits_for_others:
            self._waits_for_others = True
            peer, replicas = next(iter(counted.items()))
            missing = sorted(name for name in replicas if not self._has_heard_of([name]))
            self._emit(Say(f"waits: {peer} has replicas on {', '.join(missing)}, of which this node hears nothing"))

    def _no_donor(self, now_ms: int) -> None:
        self._joining = None
        self._early.clear()
        self._ask_due_ms = now_ms + JOIN_AGAIN_MS

    def _serve(self, written: Effect, tables_of: str) -> None:
        self.phase = "running"
        self.tables_of = tables_of
        self._last_active = self.active()
        self._emit(written)
        self._emit(Say(f"serves tables, with {', '.join(self._last_active)}"))
        self._announce()
        # Databases that run apart from this one were announced before this one ran.
        for peer, announce in self._peers.items():
            if announce is not None and announce.phase == "running" and peer not in self._active:
                self.partitions[peer] = None
