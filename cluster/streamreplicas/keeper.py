"""What the node that leads the coordinator's group does: one step at a time, each of which can be taken again.

It sees to the members of the group, and to the copies of all streams. Copies change by the coordinator's own commands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from splitbrain.cluster.bugs import Bugs
from splitbrain.cluster.entities.inforce import RecordsInForce
from splitbrain.cluster.groupnames import COORDINATOR_PATH, METADATA, STREAM_COORDINATOR
from splitbrain.cluster.marks import reached
from splitbrain.cluster.members import node_of
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.queuegroups.keeper import PassedOn
from splitbrain.cluster.queuereplicas.facts import MetadataFacts, facts_in
from splitbrain.cluster.queuereplicas.watch import Reaching, Watch
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.replicas import (
    Begin,
    HandOver,
    Join,
    Leave,
    ReplicaSettings,
    Schedule,
    Situation,
    next_step,
    placement_named,
    target_of,
)
from splitbrain.cluster.store import Store
from splitbrain.cluster.streamreplicas.facts import command_of, configuration_of, left_behind, record_of_stream
from splitbrain.cluster.streamreplicas.membership import GroupFacts, next_member_step
from splitbrain.cluster.streams.commands import OfClients, OfMembers, encode
from splitbrain.cluster.streams.state import State, Stream
from splitbrain.cluster.tree import Get
from splitbrain.cluster.wire import AddMember, Failure, LeaderQuery, Outcome, QueueOp, RemoveMember, TransferLeadership

STEP_MS: Final = 1000
"""How long a step may take: it is taken again if there is still need."""

_MS: Final = 1_000_000

Known: TypeAlias = tuple[Store, int, int]


class Host(Protocol):
    """The node, as far as copies of streams need it."""

    def pass_on(self, group: str, body: PassedOn, timeout_ms: int) -> None:
        """Have a group carry out a command, if the node has a member of it; nothing is heard of it."""
        ...

    def query(self, group: str, body: LeaderQuery, timeout_ms: int, answer: Answering) -> None:
        """Ask a group of which the node has a member; `answer` is called once, now or later."""
        ...

    def cluster(self) -> Configuration:
        """The configuration of the metadata store where this node has applied its log."""
        ...

    def led(self, group: str) -> Configuration | None:
        """The configuration of a group, if the node leads it, and has nothing uncommitted of its members."""
        ...

    def leading(self, group: str) -> int | None:
        """The term in which the node leads a group, None if it does not."""
        ...


class StreamKeeper:
    """Copies of streams, and members of the coordinator's group, as the node that leads it sees to them.

    Args:
        member: this node's id.
        host: the node.
        settings: of the node.
        reach: which other nodes it reaches.
        now_ns: the time, of a monotonic clock.
        state: all streams, as this node has applied them.
        bugs: those that are switched on.
        entities: those in force, as this node has them.

    Raises:
        ArgumentError: there is no placement of that name.
    """

    def __init__(
        self,
        member: NodeId,
        host: Host,
        settings: ReplicaSettings,
        reach: Reaching,
        now_ns: Callable[[], int],
        state: Callable[[], State],
        bugs: Bugs,
        entities: RecordsInForce,
    ) -> None:
        self._entities = entities
        self._member = member
        self._host = host
        self._settings = settings
        self._placement = placement_named(settings.placement)
        self._now_ns = now_ns
        self._state = state
        self._bugs = bugs
        self._watch = Watch(reach, settings.recovery_ms * _MS)
        self._store: Store | None = None
        self._facts = MetadataFacts()
        self._read_at: Known | None = None  # what the facts are from
        self._term: int | None = None  # in which it leads
        self._fence: int | None = None  # the entry of the metadata from which on they count for that term
        self._schedules: dict[int, Schedule] = {}

    def applied(self, store: Store) -> None:
        """The metadata store of this node is at a later entry, or is another one."""
        self._store = store

    def tick(self) -> None:
        """A moment has passed: take the next step with the group, and with each stream, if there is one."""
        host, now = self._host, self._now_ns()
        cluster = host.cluster()
        came_or_went, has_failed = self._watch.look(dict.fromkeys(node_of(each) for each in cluster.members), now)
        term = host.leading(STREAM_COORDINATOR)
        if term != self._term:
            self._term, self._fence = term, None
            self._schedules.clear()
        if term is None or not self._is_current(term):
            return
        before = self._facts.events
        self._read()
        for schedule in self._schedules.values():
            if came_or_went or self._facts.events != before:
                schedule.triggered(now)
            if has_failed:
                schedule.failed(now)
        group = host.led(STREAM_COORDINATOR)
        if group is not None:
            self._see_to_group(group, cluster)
            if self._member not in self._members(self._facts.draining, cluster):
                self._see_to_streams(group, cluster, now)

    def _is_current(self, term: int) -> bool:
        """Whether this node has applied what the metadata said when it began to lead.

        With older ones it would remove members that came shortly before: its predecessor took them in.
        """
        if self._fence is None:

            def answered(_term: int, outcome: Outcome, index: int) -> None:
                if self._term == term and not isinstance(outcome, Failure):
                    self._fence = index

            self._host.query(METADATA, LeaderQuery(Get(COORDINATOR_PATH)), STEP_MS, answered)
        store = self._store
        return store is not None and self._fence is not None and store.applied_index >= self._fence

    def _read(self) -> None:
        store = self._store
        assert store is not None, "it is current"
        known = store, store.applied_index, self._entities.changes
        if self._read_at != known:
            self._facts = facts_in(store.tree, self._entities)
            self._read_at = known

    # --- the group ------------------------------------------------------------------------------------------------

    def _see_to_group(self, group: Configuration, cluster: Configuration) -> None:
        step = next_member_step(
            GroupFacts(
                me=self._member,
                group=group,
                cluster=cluster,
                running=self._members(self._watch.running, cluster),
                draining=self._members(self._facts.draining, cluster),
            )
        )
        match step:
            case Join(member):
                reached("coordinator of streams joined by a member")
                self._host.pass_on(STREAM_COORDINATOR, AddMember(member, "promotable"), STEP_MS)
            case Leave(member):
                reached("coordinator of streams left by a member")
                self._host.pass_on(STREAM_COORDINATOR, RemoveMember(member), STEP_MS)
            case HandOver(member):
                reached("coordinator of streams handed over by a node that is drained")
                self._host.pass_on(STREAM_COORDINATOR, TransferLeadership(member), STEP_MS)
            case None:
                pass

    # --- streams --------------------------------------------------------------------------------------------------

    def _see_to_streams(self, group: Configuration, cluster: Configuration, now: int) -> None:
        state = self._state()
        for gone in left_behind(state, cluster):
            self._say(gone)
        load = {**self._facts.load}
        for member, count in Counter(name for each in state.streams.values() for name in each.members).items():
            load[member] = load.get(member, 0) + count
        for number in self._schedules.keys() - state.streams.keys():
            del self._schedules[number]
        for stream in state.streams.values():
            schedule = self._schedules.setdefault(stream.id, Schedule(self._settings, now))
            if stream.is_settled and not stream.is_deleted:
                self._step(stream, schedule, self._situation(stream, group, cluster, load, schedule.is_due(now)), now)

    def _step(self, stream: Stream, schedule: Schedule, facts: Situation, now: int) -> None:
        found = next_step(facts, self._placement)
        if facts.is_due and facts.record.change is None:
            schedule.checked(now, did_something=isinstance(found, Begin))
        command = None if found is None else command_of(stream, found, facts.failed)
        if command is not None:
            reached("copies of a stream changed by the leader")
            self._say(command)

    def _situation(
        self, stream: Stream, group: Configuration, cluster: Configuration, load: dict[str, int], is_due: bool
    ) -> Situation:
        settings, facts = self._settings, self._facts
        running = self._members(self._watch.running, cluster)
        every = {*cluster.members, *stream.members}
        return Situation(
            me=self._member,
            record=record_of_stream(stream),
            group=configuration_of(stream),
            cluster=cluster,
            # Without the group a node does not see what its copy is to do.
            running=frozenset(each for each in running if each in group.voters),
            failed=frozenset(each for each in every if node_of(each) in self._watch.failed),
            draining=frozenset(each for each in every if node_of(each) in facts.draining),
            target=target_of(stream.target, facts.policy_of(stream.name), settings.target),
            is_due=is_due,
            auto_remove=settings.auto_remove,
            zones=settings.zones,
            load=load,
            bugs=self._bugs,
        )

    def _members(self, nodes: frozenset[str], cluster: Configuration) -> frozenset[NodeId]:
        return frozenset(each for each in cluster.members if node_of(each) in nodes)

    def _say(self, command: OfClients | OfMembers) -> None:
        self._host.pass_on(STREAM_COORDINATOR, QueueOp(encode(command)), STEP_MS)
