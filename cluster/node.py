"""One node: a process that serves clients and peers, and takes part in one or more groups.

Every group is a cluster of its own, with its own leader, log and state (`splitbrain.cluster.group`); all of them share
the node's links, its disk and its write-ahead log. One is the metadata store, which every node has.

A group in which something happens that its rules exclude stops alone, and says so: the others go on. Only the metadata
store, and a disk that failed, take the node with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import msgspec

from splitbrain.cluster import wire
from splitbrain.cluster.arrivals import Arrivals
from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS
from splitbrain.cluster.bugs import M70
from splitbrain.cluster.callers import Caller, Callers, bounded
from splitbrain.cluster.classicpolicies import ClassicPolicies
from splitbrain.cluster.classicqueues.host import ClassicHost
from splitbrain.cluster.detector import POLL_MS, FailureDetector, Signs
from splitbrain.cluster.endedqueues import TIMEOUT_MS, EndedQueues
from splitbrain.cluster.entities.inforce import RecordsInForce
from splitbrain.cluster.errors import StorageError
from splitbrain.cluster.flagkeeper import FlagKeeper
from splitbrain.cluster.flags.effects import Answer
from splitbrain.cluster.flags.registry import KHEPRI_DB, registry_of
from splitbrain.cluster.flags.wire import EnableFlag, FlagBody, FlagEnabled, FlagsQuery, IsFlagEnabled
from splitbrain.cluster.group import Group
from splitbrain.cluster.groupnames import (
    METADATA,
    STREAM_COORDINATOR,
    group_address,
    group_of,
    is_queue_group,
    named_problem,
)
from splitbrain.cluster.knownfunctions import difference, known_by
from splitbrain.cluster.links import Links
from splitbrain.cluster.log.nodelog import NodeLog, open_node_log
from splitbrain.cluster.marks import reached
from splitbrain.cluster.members import is_member_id, names, node_of
from splitbrain.cluster.nodeconfig import NodeConfig
from splitbrain.cluster.pending import Answering, Wanted
from splitbrain.cluster.place import Place
from splitbrain.cluster.queuegroups.keeper import PassedOn, QueueKeeper
from splitbrain.cluster.queuegroups.records import QueueRecord
from splitbrain.cluster.queuegroups.store import QueueStore
from splitbrain.cluster.queuereplicas import ReplicaKeeper
from splitbrain.cluster.raft.events import Written
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import Append, AppendReply, NodeId
from splitbrain.cluster.reach import Reach
from splitbrain.cluster.registered import BUILT_IN
from splitbrain.cluster.remotequeues import Passable, RemoteQueues
from splitbrain.cluster.runtime import Connection, Runtime
from splitbrain.cluster.storage import open_group
from splitbrain.cluster.store import Store
from splitbrain.cluster.storeswire import Migrate, RollBack, StoresBody, StoresQuery, tree_alone
from splitbrain.cluster.streamreplicas import StreamKeeper, StreamPolicies
from splitbrain.cluster.streams import commands as of_streams
from splitbrain.cluster.streams.host import COMMAND_MS, StreamHost
from splitbrain.cluster.streams.store import StreamStore
from splitbrain.cluster.tree import AskMachine, LookUp
from splitbrain.cluster.twostores.tree import NodeStore

if TYPE_CHECKING:
    from splitbrain.cluster.tables.hosted import HostedReplica
    from splitbrain.cluster.twostores.node import TwoStores

__all__ = ["Node", "NodeConfig"]

_LIFE_LIMIT: Final = 2**48

MAX_GROUPS: Final = 1024
"""In one node: a member costs two timers and some kilobytes."""

_OF_FLAGS: Final = (EnableFlag, IsFlagEnabled, FlagsQuery)

_OF_STORES: Final = (Migrate, RollBack, StoresQuery)

_STORES: Final[Mapping[str, type[Store]]] = {STREAM_COORDINATOR: StreamStore}
"""State machines of groups that have their own, by name."""

_ABOUT_THE_NODE: Final = frozenset(
    {
        *(wire.GroupsQuery, wire.AddressQuery, wire.StartGroup, wire.DeleteGroup, wire.StreamOp, wire.ClassicOp),
        *_OF_FLAGS,
        *_OF_STORES,
    }
)
"""Requests that no group answers, by type."""


class Node:
    """A process of the cluster."""

    def __init__(self, config: NodeConfig, runtime: Runtime, store: type[Store] = Store) -> None:
        """`store` is the state machine of every group that is not of a queue."""
        self._config = config
        self._runtime = runtime
        self._store = store
        self._inbound: dict[str, Connection] = {}
        self._knows = known_by(config.functions, BUILT_IN, config.machine_version)
        self._strangers: dict[str, str] = {}
        links = Links(runtime, config.member, config.peers, self._link_changed, config.bugs, self._knows)
        life = runtime.rng.between(1, _LIFE_LIMIT)
        self._callers = Callers(config.node, life, links)
        deliver, is_connected = self._callers.deliver, self._callers.is_connected
        detector = FailureDetector(config.peers)
        reach = Reach(config.node, links, detector)
        self._entities = RecordsInForce()
        self._followed = 0  # so many of their changes outside of the tree
        self._metadata: Store | None = None  # as they were applied last
        replicas = ReplicaKeeper(
            *(config.member, self, config.replicas, reach, runtime.clock.monotonic_ns, config.bugs),
            entities=self._entities,
        )
        self._queues = QueueKeeper(config.member, self, replicas, runtime.spawn, runtime.log, config.bugs)
        members_of, most = self._queues.members_of, config.raft.max_pending
        self._remote = RemoteQueues(
            *(config.node, life, links, runtime.clock, self._asked_here, members_of, most),
            follows=M70 not in config.bugs,
        )
        self._place = Place(config, runtime, links, life, deliver, is_connected, detector, self._queues)
        self._streams = StreamHost(
            *(config.member, config.node, life, runtime, links),
            command=self._command_to_streams,
            has_group=lambda: STREAM_COORDINATOR in self._groups or STREAM_COORDINATOR in self._failed,
            begin=lambda founders: self.begin_queue(STREAM_COORDINATOR, founders),
            bugs=config.bugs,
            policy_of=StreamPolicies(self._entities).of,
        )
        self._stream_replicas = StreamKeeper(
            *(config.member, self, config.replicas, reach, runtime.clock.monotonic_ns),
            state=lambda: self._streams.state,
            bugs=config.bugs,
            entities=self._entities,
        )
        self._classic = ClassicHost(
            *(config.member, config.node, life, runtime, links),
            policies=ClassicPolicies(self._entities),
            publish=self._queues.publish_confirmed,
            thresholds=config.conversions,
            bugs=config.bugs,
        )
        host = _Queues(self, is_connected, detector.is_down)
        self._ended_queues = EndedQueues(
            config.node, life, host, self._entities, NodeStore(host, lambda: TIMEOUT_MS), runtime.spawn, config.bugs
        )
        self._groups: dict[str, Group] = {}
        self._failed: dict[str, str] = {}
        self._changing: dict[str, None] = {}
        self._log: NodeLog
        self._flags: FlagKeeper
        self._stores: TwoStores | None = None

    async def start(self) -> None:
        """Recover what is on disk, join the cluster, serve. Returns when the node listens.

        Raises:
            StorageError: the data directory cannot be used.
            OSError: the disk failed, or the address cannot be served.
        """
        config, runtime = self._config, self._runtime
        self._log = await open_node_log(runtime.disk, config.member, runtime.rng, runtime.log, config.bugs)
        await self._streams.start()
        for name in dict.fromkeys([METADATA, *self._log.groups, *config.groups]):
            await self._open(name, config.voters)
        if config.store == "tables":
            self._stores = await self._two_stores()
        self._flags = self._keeper_of_flags()
        await runtime.network.listen(config.listen, self._accept)
        runtime.spawn(self._log.sync(self._written, config.wal_bytes), "sync log")
        runtime.spawn(self._watch_peers(), "failure detector")
        for name, group in self._groups.items():
            self._run(name, group)
        self._flags.start()
        if self._stores is not None:
            self._stores.start(self._flags)

    @property
    def tables(self) -> HostedReplica | None:
        """Its replica of the tables, on which a plug-in in this process can carry out procedures; None without one."""
        return None if self._stores is None else self._stores.replica

    async def _two_stores(self) -> TwoStores:
        from splitbrain.cluster.twostores.node import TwoStores  # most nodes do without it, and start sooner

        place, metadata = self._place, self._groups[METADATA]
        stores = TwoStores(
            self._config,
            self._runtime,
            place.links,
            place.life,
            place.detector,
            metadata,
            lambda: names(metadata.configuration.members),
            self._callers.close_all,
        )
        await stores.open()
        self._entities.beside = stores.records
        return stores

    def _keeper_of_flags(self) -> FlagKeeper:
        config, metadata = self._config, self._groups[METADATA]
        founder = config.member in config.voters
        registry = registry_of(config.flag_probes)
        return FlagKeeper(
            config.member,
            registry,
            founder,
            self._runtime,
            self._place.links,
            lambda: metadata.configuration,
            lambda: metadata.applied_configuration,
            None if self._stores is None else self._stores.mover,
            config.bugs,
        )

    async def stop(self) -> None:
        """Stop in good order: `stop_queues`, and `stopped`. The runtime's tasks are to be cancelled right after this.

        Raises:
            OSError: the disk failed.
        """
        await self.stop_queues()
        self.stopped()

    async def stop_queues(self) -> None:
        """Have the classic queues write down what is in memory only.

        Raises:
            OSError: the disk failed.
        """
        await self._classic.stop()

    def stopped(self) -> None:
        """Write last checkpoints (RA-41), and note in the telemetry that the node stops in good order."""
        for group in self._groups.values():
            group.stopped()
        self._log.close()

    def status(self, group: str = METADATA) -> wire.Status:
        """What the node says of its member of a group."""
        return self._groups[group].status()

    def members(self, group: str = METADATA) -> wire.MemberList:
        """The configuration of a group that the node has in force, committed or not."""
        return self._groups[group].members()

    def take_in(self, change: wire.AddMember, timeout_ms: int, answer: Answering) -> None:
        """Have a node taken into the cluster (PD-3), as a client would; answered once, by the leader's answer."""
        self._groups[METADATA].requests.from_client(change, timeout_ms, answer)

    # --- groups -----------------------------------------------------------------------------------------------

    async def _open(self, name: str, founders: Sequence[NodeId], incarnation: int = 0) -> None:
        opened = await open_group(self._log, name, founders, incarnation)
        store = _STORES.get(name, QueueStore if is_queue_group(name) else self._store)
        applied = {METADATA: self._metadata_applied, STREAM_COORDINATOR: self._streams.applied}.get(name)
        self._groups[name] = Group(name, self._place, opened, opened.founders or founders, store, applied)
        self._groups[name].requests.begin_after(self._remote.last_number)

    def _metadata_applied(self, store: Store) -> None:
        self._metadata = store
        self._queues.applied(store)
        self._streams.metadata_applied(store)
        self._stream_replicas.applied(store)
        self._classic.applied(store)

    def _follow_entities(self) -> None:
        """Entities outside of the tree may have changed, which what is applied does not say."""
        changes = self._entities.changes
        if changes != self._followed and self._metadata is not None:
            self._followed = changes
            self._classic.applied(self._metadata)

    def ask_of_entities(self, body: Wanted, timeout_ms: int, answer: Answering) -> None:
        """Have an operation on entities carried out by the store in force; `answer` is called once."""
        if self._stores is None or not self._stores.takes_request(body, timeout_ms, answer):
            self._groups[METADATA].ask(body, timeout_ms, answer)

    def look_up(self, wanted: LookUp, answer: Answering) -> None:
        """Answer from what this node's member of the metadata store has applied; `answer` is called once."""
        self._groups[METADATA].look_up(wanted, answer)

    def may_have_queues(self) -> frozenset[str] | None:
        """The nodes of the cluster, if this one leads the metadata store: of all others queues have ended."""
        if not self.leads(METADATA):
            return None
        are_in_tables = self._stores is not None and not self._stores.mover.tree_is_in_force
        tables = self._config.founding_nodes if are_in_tables else ()
        return frozenset((*names(self.cluster().members), *tables))

    def _command_to_streams(self, command: bytes) -> None:
        self.pass_on(STREAM_COORDINATOR, wire.QueueOp(command), COMMAND_MS)

    def _run(self, name: str, group: Group) -> None:
        self._runtime.spawn(self._supervised(name, group), f"consensus of {name}")

    async def _supervised(self, name: str, group: Group) -> None:
        try:
            await group.run()
        except (OSError, StorageError):
            raise
        except Exception as error:
            if name == METADATA:
                raise
            reached("group stopped alone")
            self._failed[name] = f"{type(error).__name__}: {error}"
            self._runtime.log(f"group {name} stops: {self._failed[name]}")
            if self._groups.get(name) is group:
                self._end(name)

    def _end(self, name: str) -> Group:
        group = self._groups.pop(name)
        group.halt()
        group.requests.give_up()
        self._remote.begin_after(group.requests.last_number)
        return group

    def _written(self, name: str, done: Written) -> None:
        group = self._groups.get(name)
        if group is not None:
            group.submit(done)

    def _link_changed(self, node: str) -> None:
        is_up = self._place.links.is_up(node)
        if METADATA in self._groups:
            self._groups[METADATA].report_links()
        for group in list(self._groups.values()):
            if is_up:
                group.requests.route_waiting()
            group.link_changed(node)
        if self._stores is not None:
            self._stores.link_changed(node)

    async def _watch_peers(self) -> None:
        """For ever: ask the failure detector what it thinks, and tell the groups (RA-4)."""
        clock, detector = self._runtime.clock, self._place.detector
        while True:
            await clock.sleep(POLL_MS * 1_000_000)
            self._follow_entities()
            self._queues.tick()
            self._streams.tick()
            self._stream_replicas.tick()
            self._classic.tick()
            if self._metadata is not None:
                self._ended_queues.tick(self._metadata.tree)
            for node in detector.poll(clock.monotonic_ns()):
                if detector.is_down(node):
                    reached("peer taken for down")
                    self._runtime.log(f"{node} is taken for down")
                else:
                    reached("peer no longer taken for down")
                    self._runtime.log(f"{node} is no longer taken for down")
                for group in list(self._groups.values()):
                    group.link_changed(node)

    async def _change_groups(self, name: str, body: wire.StartGroup | wire.DeleteGroup, answer: Answering) -> None:
        """Begin a group here, or forget it; durable before it is answered. The name is among those being changed."""
        try:
            if isinstance(body, wire.DeleteGroup):
                await self.end_queue(name)
            elif name not in self._groups:
                await self._open(name, body.founders, body.incarnation)
                self._run(name, self._groups[name])
        finally:
            del self._changing[name]
        answer(0, self._list(), 0)

    # --- groups of queues -------------------------------------------------------------------------------------

    @property
    def queue_groups(self) -> tuple[str, ...]:
        """Groups of queues of which the node has a member, those that stopped here included."""
        return tuple(filter(is_queue_group, dict.fromkeys([*self._groups, *self._failed])))

    async def begin_queue(self, group: str, members: Sequence[NodeId]) -> None:
        """Take part in the group of a queue from now on; it has none yet.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        await self._open(group, members)
        self._run(group, self._groups[group])

    async def end_queue(self, group: str) -> None:
        """Forget a member of a group, with all data.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        if group in self._groups:
            self._end(group).deleted()
        self._failed.pop(group, None)
        if group in self._log.groups:
            await self._log.delete(group)

    def pass_on(self, group: str, body: PassedOn, timeout_ms: int) -> None:
        """Have a group carry out a command, if it has a member here, or is a queue's; nothing is heard of it."""
        member = self._serving(group) if isinstance(body, wire.QueueOp) else self._groups.get(group)
        if member is not None:
            member.requests.from_client(body, timeout_ms, _unheard)
        elif isinstance(body, wire.QueueOp):
            self._remote.ask(group, body, timeout_ms, _unheard)

    def ask(self, group: str, body: wire.QueueOp, timeout_ms: int, answer: Answering) -> None:
        """Have a group carry out a command; `answer` is called once, now or later."""
        if self._asked_here(group, body, timeout_ms, answer):
            return
        if self._remote.knows(group):
            self._remote.ask(group, body, timeout_ms, answer)
        else:
            answer(0, self._no_group(group), 0)

    def _asked_here(self, group: str, body: Passable, timeout_ms: int, answer: Answering) -> bool:
        """Have the node's own member of a group do something, if it has one; whether it does."""
        member = self._serving(group)
        if member is not None:
            member.requests.from_client(body, timeout_ms, answer)
        return member is not None

    def _serving(self, group: str) -> Group | None:
        """The node's own member of a group, if it has one; of a queue only while it takes part in it."""
        member = self._groups.get(group)
        if member is None or not is_queue_group(group) or self._queues.takes_part(group):
            return member
        return None

    def query(self, group: str, body: wire.LeaderQuery, timeout_ms: int, answer: Answering) -> None:
        """Ask a group of which the node has a member; `answer` is called once, now or later."""
        self._groups[group].requests.from_client(body, timeout_ms, answer)

    def leading(self, group: str) -> int | None:
        """The term in which the node leads a group, None if it does not."""
        member = self._groups.get(group)
        return member.term if member is not None and member.leads else None

    def leads(self, group: str) -> bool:
        """Whether the node leads a group."""
        member = self._groups.get(group)
        return member is not None and member.leads

    def queue(self, name: str) -> QueueRecord | None:
        """What this node has applied of the record of a queue, None for nothing."""
        return self._queues.record_of(name)

    def led(self, group: str) -> Configuration | None:
        """The configuration of a group, if the node leads it, and has nothing uncommitted of its members."""
        member = self._groups.get(group)
        return None if member is None else member.settled_configuration

    def cluster(self) -> Configuration:
        """The configuration of the metadata store where this node has applied its log."""
        return self._groups[METADATA].applied_configuration

    def _list(self) -> wire.GroupList:
        incarnations = {name: self._log.incarnation(name) for name in self._groups if self._log.incarnation(name)}
        return wire.GroupList(tuple(self._groups), self._failed, incarnations)

    def _group_refusal(self, name: str, body: wire.StartGroup | wire.DeleteGroup) -> str | None:
        problem = named_problem(name)
        if problem is not None:
            return problem
        if name == METADATA:
            return "every node has the metadata store, from its start to its end"
        if name in self._changing:
            return f"group {name} is being changed already: try again"
        if isinstance(body, wire.DeleteGroup):
            return None
        if name in self._failed:
            return f"group {name} stopped here ({self._failed[name]}): delete it, or start the node again"
        if name in self._groups and self._groups[name].address != group_address(name, body.incarnation):
            there = self._log.incarnation(name)
            return f"group {name} is here as incarnation {there}, not {body.incarnation}: delete it first"
        if body.incarnation < 0:
            return f"the incarnation of a group is 0 or more, not {body.incarnation}"
        if len({*self._groups, *self._changing} - {name}) >= MAX_GROUPS:
            return f"a node has at most {MAX_GROUPS} groups"
        strangers = [member for member in body.founders if member != self._config.member and not self._is_peer(member)]
        if strangers or not body.founders or len(set(body.founders)) != len(body.founders):
            return f"founders are ids of known nodes, each once, unlike those of {', '.join(body.founders) or 'none'}"
        return None

    # --- connections ------------------------------------------------------------------------------------------

    def _is_turned_away(self, hello: wire.PeerHello) -> bool:
        """Whether a peer knows other registered functions, which is said once of each difference."""
        peer = node_of(hello.node)
        theirs = hello.functions
        problem = None if theirs is None else difference(self._knows, theirs, self._config.node, peer)
        if problem is None:
            self._strangers.pop(peer, None)
            return False
        if self._strangers.get(peer) != problem:
            self._strangers[peer] = problem
            self._runtime.log(
                f"error: {peer} was turned away, since {self._config.node} and {peer} know other registered functions "
                f"({problem}): start all nodes with the same --functions, and the same program"
            )
        return True

    async def _accept(self, connection: Connection) -> None:
        """Serve a connection until it breaks or says what makes no sense."""
        try:
            hello = wire.decode_hello(await connection.receive())
            if hello.version != wire.PROTOCOL_VERSION:
                self._runtime.log(f"a caller of protocol version {hello.version} was turned away: {hello}")
            elif isinstance(hello, wire.ClientHello):
                await self._serve_client(connection)
            elif hello.to != self._config.member or not self._is_peer(hello.node):
                self._runtime.log(f"a caller that is no peer was turned away: {hello}")
            elif not self._is_turned_away(hello):
                signs = self._place.detector.connected(node_of(hello.node), self._runtime.clock.monotonic_ns())
                try:
                    await self._serve_peer(hello.node, connection, signs)
                finally:
                    signs.ended()
        except ConnectionError:
            return
        except msgspec.DecodeError as error:
            reached("connection made no sense")
            self._runtime.log(f"a connection was closed, because what came on it made no sense: {error}")
        finally:
            connection.close()

    async def _serve_peer(self, peer: str, connection: Connection, signs: Signs) -> None:
        former = self._inbound.get(peer)
        if former is not None:
            former.close()
        self._inbound[peer] = connection
        # For each group, which counts its own. One for each connection is enough: a request is forwarded at most once,
        # and so on one connection only.
        forwards: dict[str, Arrivals] = {}
        monotonic_ns, heard = self._runtime.clock.monotonic_ns, signs.heard

        def take(frame: bytes) -> None:
            heard(monotonic_ns())
            if frame == wire.ALIVE or (not frame.startswith(wire.CONSENSUS) and self._is_of_no_group(peer, frame)):
                return
            address, message = wire.decode_peer(frame)
            group = self._groups.get(address)
            if group is None or group.address != address:
                group = self._of_incarnation(address)
            if group is not None and (type(message) is Append or type(message) is AppendReply):
                group.received(peer, message)  # most are these two
            elif isinstance(message, wire.Forward):
                if forwards.setdefault(address, Arrivals(self._config.repeat_window)).is_first(message.ref):
                    self._forwarded(peer, message, group)
                else:
                    reached("repeated forward ignored")
            elif isinstance(message, (wire.Deliver, wire.AskForClient)):
                self._about_client(peer, message)
            elif isinstance(message, wire.Forwarded):
                self._answered_by_peer(group, peer, message)
            elif group is None:
                reached("message for a group that is not here")
            elif isinstance(message, wire.ClientGone):
                group.client_gone(message.client)
            else:
                group.received(peer, message)

        await connection.hand_over(take)

    def _is_of_no_group(self, peer: str, frame: bytes) -> bool:
        """Whether a frame is about feature flags, streams, classic queues or tables, which have it then."""
        if frame.startswith(wire.ABOUT_FLAGS):
            self._flags.received(peer, frame[1:])
        elif frame.startswith(wire.ABOUT_STREAMS):
            self._streams.received(peer, frame[1:])
        elif frame.startswith(wire.ABOUT_CLASSIC):
            self._classic.received(peer, frame[1:])
        elif self._stores is None or not self._stores.takes_frame(node_of(peer), frame):
            return False
        return True

    def _forwarded(self, peer: str, message: wire.Forward, group: Group | None) -> None:
        answer = self._answer_to_peer(peer, message)
        if group is None:
            answer(0, self._no_group(message.group), 0)
        else:
            group.requests.from_peer(message.body, answer, message.reply, message.priority)

    def _answered_by_peer(self, group: Group | None, peer: str, message: wire.Forwarded) -> None:
        if message.life != self._place.life:
            reached("answer of a former life ignored")
        if self._remote.answered(peer, message):
            return
        if group is None:
            reached("message for a group that is not here")
        else:
            group.requests.answered_by_peer(peer, message)

    def _about_client(self, peer: str, message: wire.Deliver | wire.AskForClient) -> None:
        if message.client.node != self._config.node:
            return
        if isinstance(message, wire.Deliver):
            self._callers.deliver(message)
        elif not self._callers.is_connected(message.client):
            self._place.links.send_if_up(peer, wire.encode_peer(wire.ClientGone(message.client, message.group)))

    def _of_incarnation(self, address: str) -> Group | None:
        """The member of a group of this address, which has an incarnation, if it is here."""
        group = self._groups.get(group_of(address))
        if group is None or group.address == address:
            return group
        reached("message for another group of the name")
        return None

    def _answer_to_peer(self, peer: str, message: wire.Forward) -> Answering:
        def answer(term: int, outcome: wire.Outcome, index: int) -> None:
            def encode(outcome: wire.Outcome) -> bytes:
                return wire.encode_peer(wire.Forwarded(message.life, message.ref, term, outcome, index, message.group))

            self._place.links.send(peer, bounded(encode, outcome))

        return answer

    async def _serve_client(self, connection: Connection) -> None:
        caller = self._callers.enter(connection)
        self._count_clients()
        try:
            await self._serve_caller(connection, caller)
        finally:
            self._callers.leave(caller)
            self._count_clients()

    def _count_clients(self) -> None:
        if self._stores is not None:
            self._stores.has_clients(self._callers.count)

    async def _serve_caller(self, connection: Connection, caller: Caller) -> None:
        requests = Arrivals(self._config.repeat_window)

        def take(data: bytes) -> None:
            try:
                request = wire.decode_request(data)
            except msgspec.DecodeError as error:
                request_id = wire.decode_request_id(data)
                if request_id is None:
                    raise
                nonsense = _invalid(f"the request makes no sense: {error}")
                caller.answer(request_id, 0, nonsense, 0)
                return
            if requests.is_first(request.id):
                self._serve_request(caller, request, len(data))
            else:
                reached("repeated request ignored")

        await connection.hand_over(take)

    def _serve_request(self, caller: Caller, request: wire.Request, size: int) -> None:
        answer = partial(caller.answer, request.id)
        if (problem := _problem_of(request, size)) is not None:
            answer(0, _invalid(problem), 0)
        elif type(request.body) in _ABOUT_THE_NODE:
            self._serve_of_node(caller, request, answer)
        else:
            self._serve_of_group(caller, request, answer)

    def _serve_of_group(self, caller: Caller, request: wire.Request, answer: Answering) -> None:
        body, group = request.body, self._groups.get(request.group)
        if isinstance(body, (wire.QueueOp, AskMachine)):
            group = self._serving(request.group)
        if self._is_of_entities(request, answer):
            reached("operation on entities dispatched")
        elif group is not None:
            group.serve(request, caller)
        elif isinstance(body, (wire.QueueOp, AskMachine)) and self._is_of_queue_elsewhere(request.group):
            self._pass_on(request, body, answer)
        else:
            answer(0, self._no_group(request.group), 0)

    def _serve_of_node(self, caller: Caller, request: wire.Request, answer: Answering) -> None:
        body = request.body
        if isinstance(body, wire.GroupsQuery):
            answer(0, self._list(), 0)
        elif isinstance(body, wire.AddressQuery):
            answer(0, caller.address, 0)
        elif isinstance(body, wire.StreamOp):
            self._streams.serve(body.data, request.timeout_ms, answer)
        elif isinstance(body, wire.ClassicOp):
            self._classic.serve(body.data, request.timeout_ms, answer)
        elif isinstance(body, _OF_FLAGS):
            self._serve_flags(body, request.timeout_ms, answer)
        elif isinstance(body, _OF_STORES):
            self._serve_stores(body, request.timeout_ms, answer)
        else:
            change = cast("wire.StartGroup | wire.DeleteGroup", body)
            problem = self._group_refusal(request.group, change)
            if problem is not None:
                answer(0, _invalid(problem), 0)
            else:
                self._changing[request.group] = None  # at once: the next request is to see it
                changed = self._change_groups(request.group, change, answer)
                self._runtime.spawn(changed, f"change of group {request.group}")

    def _is_of_queue_elsewhere(self, group: str) -> bool:
        is_here = group in self._failed and self._queues.takes_part(group)
        return is_queue_group(group) and not is_here and self._remote.knows(group)

    def _pass_on(self, request: wire.Request, body: Passable, answer: Answering) -> None:
        """Pass a request on to a queue of which the node has no member (QQ-9)."""
        if request.reply == "noreply":
            self._remote.ask(request.group, body, DEFAULT_TIMEOUT_MS, _unheard)
        elif request.reply != "leader" or request.timeout_ms < 1:
            answer(0, _invalid("a queue without a member on this node is asked for an answer of its leader"), 0)
        else:
            self._remote.ask(request.group, body, request.timeout_ms, answer)

    def _is_of_entities(self, request: wire.Request, answer: Answering) -> bool:
        """Whether a request is an operation on entities for a node with two stores, which answers it then."""
        stores = self._stores if request.group == METADATA else None
        return stores is not None and stores.takes_request(request.body, request.timeout_ms, answer)

    def _serve_stores(self, body: StoresBody, timeout_ms: int, answer: Answering) -> None:
        if self._stores is None and isinstance(body, StoresQuery):
            answer(0, tree_alone(self._flags.state(KHEPRI_DB)), 0)
        elif self._stores is None:
            answer(0, _invalid(f"{self._config.node} has no tables: it was not started with --store tables"), 0)
        else:
            self._stores.serve(body, timeout_ms, answer)

    def _serve_flags(self, body: FlagBody, timeout_ms: int, answer: Answering) -> None:
        def ended(end: Answer, /) -> None:
            if end.failed is None:
                answer(0, FlagEnabled(end.enabled), 0)
            else:
                answer(0, wire.Failure(end.failed, end.failed != "timeout", end.detail), 0)

        match body:
            case FlagsQuery():
                answer(0, self._flags.listed(), 0)
            case IsFlagEnabled(flag):
                self._flags.is_enabled(flag, timeout_ms, ended)
            case EnableFlag(flag, experimental):
                self._flags.enable(flag, timeout_ms, ended, experimental=experimental)

    def _is_peer(self, member: NodeId) -> bool:
        return is_member_id(member) and self._place.links.knows(member)

    def _no_group(self, name: str) -> wire.Failure:
        failed = self._failed.get(name)
        detail = f"{self._config.node} has no group {name!r}" if failed is None else f"group {name} stopped: {failed}"
        return wire.Failure("no_group", True, detail)


class _Queues:
    """A node, as queues that end with a life or a connection need it."""

    def __init__(
        self, node: Node, is_connected: Callable[[wire.ClientAddress], bool], is_down: Callable[[str], bool]
    ) -> None:
        self.is_connected = is_connected
        self.is_down = is_down
        self.may_have_queues = node.may_have_queues
        self.ask = node.ask_of_entities
        self.look_up = node.look_up


def _unheard(_term: int, _outcome: wire.Outcome, _index: int) -> None:
    """Takes an answer that nothing waits for."""


def _problem_of(request: wire.Request, size: int) -> str | None:
    """Why a client may not ask for this, as far as any node knows. Only nodes say what copies of streams did."""
    if size > wire.MAX_REQUEST_BYTES:
        return f"a request has at most {wire.MAX_REQUEST_BYTES} bytes, not {size}"
    if type(request.body) is wire.QueueOp and request.group == STREAM_COORDINATOR:
        return of_streams.problem_of(request.body.data, by_client=True)
    return None


def _invalid(detail: str) -> wire.Failure:
    return wire.Failure("invalid_request", True, detail)
