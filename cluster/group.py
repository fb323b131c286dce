"""This node's member of one group: it carries out what consensus asks for, in order, and brings events to it.

Everything that happens in a group goes through one inbox and one task. The only effects that this task waits for are
Persist and InstallSnapshot: while they become durable, nothing else of the group is begun, as the contract of
`splitbrain.cluster.raft.effects` demands. Other groups of the node go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from msgspec import structs

from splitbrain.cluster import wire
from splitbrain.cluster.callers import Caller, Notices
from splitbrain.cluster.chain import LogChain
from splitbrain.cluster.dedup import Protected
from splitbrain.cluster.errors import LaterVersionError
from splitbrain.cluster.expiry import Expiry
from splitbrain.cluster.groupeffects import Effects
from splitbrain.cluster.groupnames import METADATA, group_address, has_own_machine
from splitbrain.cluster.groupstore import GroupStore, Parts, member_list
from splitbrain.cluster.inbox import FromTimer, Inbox, Item, LowTurn
from splitbrain.cluster.machinery import Machinery
from splitbrain.cluster.machinestore import stamped
from splitbrain.cluster.marks import reached
from splitbrain.cluster.members import incarnation_of, names, node_of
from splitbrain.cluster.pending import Answering, Wanted
from splitbrain.cluster.place import Place
from splitbrain.cluster.priorities import LowCommands
from splitbrain.cluster.raft import Raft
from splitbrain.cluster.raft import effects as fx
from splitbrain.cluster.raft.effects import Effect
from splitbrain.cluster.raft.events import ElectionTimeout, Event, HeartbeatTick, Propose, Read, Received, Start
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import Message, NodeId
from splitbrain.cluster.readfacts import ANSWERS, ReadFacts
from splitbrain.cluster.requests import Requests
from splitbrain.cluster.snapshotting import Snapshotting
from splitbrain.cluster.storage import Opened
from splitbrain.cluster.store import Store
from splitbrain.cluster.telemetry import Sources, Telemetry
from splitbrain.cluster.timers import ElectionTimer, Heartbeat
from splitbrain.cluster.tree import (
    LookUp,
    Project,
    Query,
    Result,
    Transact,
    TransactRead,
    encode_command,
)
from splitbrain.cluster.waits import Waits

_ANSWERED_HERE: Final = frozenset(
    {
        *(wire.StatusQuery, wire.MembersQuery, Project, LookUp),
        *(wire.StartGroup, wire.DeleteGroup, wire.GroupsQuery, wire.AddressQuery),
    }
)
"""What is not for `Requests`, by type: most requests are, and to match them last would take as long as the rest."""

_MS: Final = 1_000_000


class Group:
    """This node's member of one group.

    Args:
        name: of the group.
        place: what it shares with the node's other groups.
        opened: what it had stored.
        founders: ids of the members with which the group begins, the same on all nodes.
        store: its state machine.
        applied: takes the store whenever it is at a later entry, or is another one; None if nothing wants it.

    Attributes:
        address: how members speak of the group (`splitbrain.cluster.groupnames`).
        requests: those of clients that are under way.
    """

    def __init__(
        self,
        name: str,
        place: Place,
        opened: Opened,
        founders: Sequence[NodeId],
        store: type[Store],
        applied: Callable[[Store], None] | None = None,
    ) -> None:
        config, runtime = place.config, place.runtime
        self._name = self.address = group_address(name, opened.incarnation)
        self._config = config
        self._runtime = runtime
        self._links = place.links
        self._detector = place.detector
        self._idle: asyncio.Future[Effect | None] | None = None  # of `run`, while it waits for what it has to do
        self._effects: Iterator[Effect] | None = None  # those of the last event that are not carried out yet
        self._halted = False
        self._sender: NodeId | None = None  # of the message that is being handled
        clock, raft = runtime.clock, config.raft
        self._election_timer = ElectionTimer(
            clock, runtime.rng, raft.election_min_ms, raft.election_max_ms, self._election_timer_ran_out
        )
        self._heartbeat = Heartbeat(clock, raft.heartbeat_ms, self._heartbeat_ticked)
        self._storage = opened.storage
        if has_own_machine(name):  # nodes keep what they voted and wrote: those of a queue until it is deleted
            raft = structs.replace(raft, readmits=True)
        self._raft = Raft(
            config.member, founders, opened.recovered, config=raft, version=config.machine_version, bugs=config.bugs
        )
        self._refuse_later_version()
        self._telemetry = Telemetry(
            runtime,
            self._name,
            Sources(
                voters=lambda: names(self._raft.configuration.voters),
                members=lambda: self._raft.members,
                member=config.member,
                status=self.status,
                projections=self.projections,
                log=LogChain(self._raft.log, lambda: self._store.chain),
                version=lambda index: self._raft.version_at(index),
                configured=lambda index: self._raft.configured_by(index),
            ),
        )
        self._waits = Waits(self._raft.log, lambda: self._store.applied_index, lambda: self._raft.term, config.bugs)
        self.requests = Requests(self._name, place, self, self._waits, self._stamp if has_own_machine(name) else None)
        self._low = LowCommands()
        self._notices = Notices()
        self._inbox = Inbox(self._low)
        self._read_facts = ReadFacts(
            self._raft,
            self._raft.configuration.voters,
            clock.monotonic_ns,
            raft.election_min_ms if raft.lease_reads else None,
            self._telemetry.read,
        )
        self._snapshots = Snapshotting(
            self._storage,
            self._raft,
            runtime.spawn,
            self.submit,
            config.snapshot_interval,
            config.checkpoint_interval,
            self._telemetry.written_down,
            config.chunk_bytes,
            config.bugs,
        )
        self._machinery = Machinery(self._name, place, self.requests, self._snapshots, self._raft)
        self._expiry = Expiry(config.bugs)
        parts = Parts(
            self.requests,
            self._notices,
            self._waits,
            self._read_facts,
            self._machinery,
            self._snapshots,
            self._telemetry,
            self._inbox.wake,
            self._log,
            applied,
        )
        self._state = GroupStore(
            store(config.node, config.bugs, config.functions), config, runtime, opened, self._raft, parts
        )
        self._executors = Effects(
            self._name,
            place,
            opened.storage,
            self._raft,
            parts,
            self._state,
            self._low,
            self._expiry,
            self._election_timer,
            self._heartbeat,
            lambda: self._sender,
        ).executors()
        self._say_how_it_starts(opened)

    def _stamp(self, command: bytes) -> bytes:
        return stamped(command, self._runtime.clock.wall_ns() // _MS)

    def _refuse_later_version(self) -> None:
        """Refuse a log of a version that this node does not support: it could never apply it (RA-43).

        Raises:
            LaterVersionError: it is.
        """
        newest, supported = self._raft.newest_version, self._config.machine_version
        if newest > supported:
            raise LaterVersionError(
                f"the data of group {self._name} on {self._config.node} are of version {newest} of the state machine, "
                f"and this node supports version {supported} at most: start it with a program of version {newest} or "
                "later, and without a lower --machine-version."
            )

    @property
    def _store(self) -> Store:
        return self._state.store

    def _say_how_it_starts(self, opened: Opened) -> None:
        recovered = opened.recovered
        bugs = self._config.bugs
        self._log(
            f"starts in term {recovered.term} with {len(recovered.entries)} entries"
            f"{f' behind entry {recovered.base_index}' if recovered.base_index else ''}; "
            f"members {', '.join(self._raft.members)}" + (f"; bugs {', '.join(bugs.ids)}" if bugs.ids else "")
        )
        if incarnation_of(self._config.member) and not recovered.term and not recovered.entries:
            self._telemetry.event("new-member")
        voted_for = None if recovered.voted_for is None else node_of(recovered.voted_for)
        self._telemetry.start(self._raft.last_index, voted_for, self._config.raft.election_max_ms)

    async def run(self) -> None:
        """Take part in the group, until `halt`.

        Raises:
            OSError: the disk failed; the node must stop.
            InvariantError: something happened that consensus rules out; the group must stop.
        """
        self._links.open(self._raft.members)
        self.report_links()
        self._inbox.begins(self._runtime.waker(self._take_turn))
        self.submit(Start())
        loop = asyncio.get_running_loop()
        effect = self._go_on()
        while not self._halted:
            if isinstance(effect, fx.Persist):
                await self._storage.save_vote(effect.term, effect.voted_for)
            elif effect is not None:
                assert isinstance(effect, fx.InstallSnapshot), f"no way to carry out {effect}"
                await self._install(effect)
            elif self._state.has_work:
                await self._state.go_on()
            else:
                self._idle = loop.create_future()
                self._inbox.rests()
                effect = await self._idle
                continue
            effect = self._go_on()

    def _go_on(self) -> Effect | None:
        """Handle events, up to an effect that has to be waited for, which is returned; None once there are no more."""
        executors, raft, inbox, effects = self._executors, self._raft, self._inbox, self._effects
        items = inbox.items
        while True:
            if effects is not None:
                for effect in effects:
                    execute = executors.get(type(effect))
                    if execute is None:
                        self._effects = effects
                        return effect
                    execute(effect)
                self._telemetry.durable = raft.written_index
            if self._halted or not items:
                self._effects = None
                return None
            event = inbox.next()
            self._sender = None
            if type(event) is Received:
                self._sender = event.sender
                answer: Any = event.message
                if type(answer) in ANSWERS:
                    self._read_facts.answered(event.sender, answer)
                    if answer.term == raft.term:
                        self._telemetry.answered(event.sender, answer)
            elif type(event) is Read:
                event.ref.arrival = self._read_facts.arrived(event)
            elif type(event) is ElectionTimeout and raft.role != "leader":
                self._telemetry.timeout(raft.configured_at, raft.voter_by)
            effects = None if event is None else iter(raft.handle(event))

    def _take_turn(self) -> None:
        """Do what there is to do; the task is woken only for what has to be waited for."""
        idle = self._idle
        if idle is None or idle.done():
            return  # the task was cancelled
        try:
            effect = self._go_on()
        except Exception as error:
            idle.set_exception(error)
            return
        work = self._state.work
        if effect is not None or self._halted or work.waiting or work.builds:
            self._runtime.resume(idle, effect)
        else:
            self._inbox.rests()

    def stopped(self) -> None:
        """Write a last checkpoint, and note in the telemetry that the member stops in good order.

        What it promised is durable already.
        """
        try:
            self._state.stopped()
        except OSError as error:
            self._log(f"stops without a checkpoint: {error}")
        self._telemetry.stop()

    def deleted(self) -> None:
        """Note in the telemetry that the node is about to forget the member."""
        self._telemetry.delete()

    def halt(self) -> None:
        """Take part no more, while the node goes on: what is begun with the disk comes to its end."""
        self._halted = True
        self._inbox.wake()
        self._election_timer.stop()
        self._heartbeat.stop()
        self._machinery.stop()

    def status(self) -> wire.Status:
        """What this member says of itself."""
        raft, store = self._raft, self._store
        return wire.Status(
            self._config.node,
            raft.role,
            raft.term,
            None if raft.leader is None else node_of(raft.leader),
            raft.commit_index,
            store.applied_index,
            store.chain_hash,
            store.state_hash,
            store.version,
            self._config.machine_version,
            raft.is_outdated,
            received=raft.received_bytes,
        )

    def _down(self) -> tuple[str, ...]:
        return tuple(node for node in names(self._raft.members) if self._detector.is_down(node))

    def projections(self) -> tuple[str, str]:
        """Hashes of what the projections hold, and of what they should."""
        return self._state.projections()

    def members(self) -> wire.MemberList:
        """The configuration that it has in force, committed or not."""
        return member_list(self._raft.configuration)

    def serve(self, request: wire.Request, caller: Caller) -> None:
        """A client of this node wants something of the group; it is answered now or later."""
        body, term = request.body, self._raft.term
        answer: Answering = partial(caller.answer, request.id)
        if type(body) not in _ANSWERED_HERE:
            if type(body) is wire.TransactAuto:
                body = self._resolved(body)
            if request.reply == "notify":
                answer = self._notices.answering(caller, request.id)
            wanted: Any = body
            self.requests.from_client(wanted, request.timeout_ms, answer, request.reply, request.priority)
            return
        match body:
            case wire.StatusQuery():
                answer(term, structs.replace(self.status(), down=self._down()), 0)
            case wire.MembersQuery():
                answer(term, self.members(), 0)
            case Project() | LookUp():
                self._state.project(body, lambda outcome: answer(term, outcome, 0))
            case _:
                raise AssertionError("a request about the node is the node's")

    def ask(self, body: Wanted, timeout_ms: int, answer: Answering) -> None:
        """This node wants something of the group, as a client would; it is answered once."""
        self.requests.from_client(body, timeout_ms, answer)

    def look_up(self, wanted: LookUp, answer: Answering) -> None:
        """Answer from what this member has applied; now or later."""
        term = self._raft.term
        self._state.project(wanted, lambda outcome: answer(term, outcome, 0))

    def _resolved(self, wanted: wire.TransactAuto) -> Transact | Protected | TransactRead:
        function, version, data = wanted.function, wanted.version, wanted.data
        if not self._config.functions.writes(function, version):
            return TransactRead(function, version, data)
        command = Transact(function, version, data)
        return command if wanted.ref is None else Protected(wanted.ref, command)

    def link_changed(self, node: str) -> None:
        """A connection to another node has been made, or broke, or the node is taken for down, or no longer."""
        self._machinery.node_changed(node)

    def report_links(self) -> None:
        """Say which links are up: for all groups of a node the one speaks that each node has."""
        if self._name == METADATA:
            self._telemetry.links(self._links.states())

    def client_gone(self, client: wire.ClientAddress) -> None:
        """A client of another node, for which this member asked, is not connected to it any more."""
        self._machinery.client_gone(client)

    def received(self, peer: NodeId, message: Message) -> None:
        """A peer's member of the group says something."""
        self._inbox.add(Received(peer, message))

    @property
    def leads(self) -> bool:
        """Whether it leads."""
        return self._raft.role == "leader"

    @property
    def settled_configuration(self) -> Configuration | None:
        """Its configuration, if it leads, and has nothing uncommitted of its members."""
        raft = self._raft
        known = raft.role == "leader" and raft.configured_at <= raft.commit_index
        return raft.configuration if known else None

    @property
    def applied_configuration(self) -> Configuration:
        """The configuration where it has applied its log."""
        return self._raft.configuration_at(self._store.applied_index)

    # --- for requests -----------------------------------------------------------------------------------------

    @property
    def term(self) -> int:
        """Its current term."""
        return self._raft.term

    @property
    def configuration(self) -> Configuration:
        """The configuration that it has in force, committed or not."""
        return self._raft.configuration

    @property
    def last_entry(self) -> tuple[int, int]:
        """Index and term of the last entry in its log, committed or not."""
        index = self._raft.last_index
        return index, self._raft.log.term(index)

    @property
    def is_outdated(self) -> bool:
        """Whether it applies nothing more, since it lacks the version in force (RA-43)."""
        return self._raft.is_outdated

    def query(self, query: Query, answer: Callable[[Result, int], None]) -> None:
        """Have a query answered from what this node has applied; with the index up to which that is."""
        self._state.query(query, answer)

    def write_state(self, wanted: wire.StateRequest, answer: Callable[[wire.Outcome], None]) -> None:
        """Have what is applied here written down, and pass on what came of it."""
        self._state.write_state(wanted, answer)

    def propose(self, event: Event, priority: wire.Priority = "normal") -> None:
        """Hand in a request, unless it is a command and the disk is too far behind already, for all groups together.

        A command of low priority waits for its turn (RA-21).
        """
        if isinstance(event, Propose) and self._storage.is_flooded:
            reached("write-ahead log flooded")
            self.requests.rejected(fx.Rejected(event.ref, self._raft.leader, "busy"))
        elif not isinstance(event, Propose) or priority == "normal":
            self.submit(event)
        elif self._low.add(event):
            self.submit(LowTurn())

    # --- events -----------------------------------------------------------------------------------------------

    def submit(self, event: Item) -> None:
        """An event happened; it is handled in its turn."""
        self._inbox.add(event)

    def _election_timer_ran_out(self, token: int) -> None:
        self.submit(FromTimer(ElectionTimeout(), self._election_timer, token))

    def _heartbeat_ticked(self, token: int) -> None:
        now_ns = self._runtime.clock.monotonic_ns()
        if self._heartbeat.holds(token) and self._raft.role == "leader":
            self._drop_unused_refs()
        self.submit(FromTimer(HeartbeatTick(now_ns), self._heartbeat, token))

    def _drop_unused_refs(self) -> None:
        """As the leader: have all members forget what clients will not ask for any more (KH-9)."""
        store = self._store
        command = self._expiry.due(self._runtime.clock.monotonic_ns(), store.applied_index, store.refs.ages())
        if command is not None:
            self.requests.from_node(encode_command(command), lambda _: self._expiry.answered())

    async def _install(self, effect: fx.InstallSnapshot) -> None:
        """Put the store where a snapshot of the leader is."""
        await self._state.install(effect)

    def _log(self, line: str) -> None:
        self._runtime.log(line if self._name == METADATA else f"group {self._name}: {line}")
