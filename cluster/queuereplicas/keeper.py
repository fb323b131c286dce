"""What the node that leads a queue does about its replicas: one step at a time, each of which can be taken again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from splitbrain.cluster.bugs import M76, Bugs
from splitbrain.cluster.commands import encode_value
from splitbrain.cluster.entities.inforce import RecordsInForce
from splitbrain.cluster.entities.names import node_name
from splitbrain.cluster.groupnames import METADATA
from splitbrain.cluster.marks import reached
from splitbrain.cluster.members import node_of
from splitbrain.cluster.queuegroups.keeper import PassedOn
from splitbrain.cluster.queuegroups.records import BEGIN_CHANGE, END_CHANGE, REWRITE, QueueRecord
from splitbrain.cluster.queuereplicas.facts import MetadataFacts, facts_in
from splitbrain.cluster.queuereplicas.watch import Reaching, Watch
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.replicas import (
    Begin,
    End,
    HandOver,
    Join,
    Leave,
    ReplicaSettings,
    Rewrite,
    Schedule,
    Situation,
    Step,
    next_step,
    placement_named,
    target_of,
)
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import Transact
from splitbrain.cluster.wire import AddMember, RemoveMember, TransferLeadership

STEP_MS: Final = 1000
"""How long a step may take: it is taken again if there is still need."""

_MS: Final = 1_000_000


class Host(Protocol):
    """The node, as far as the replicas of its queues need it."""

    def pass_on(self, group: str, body: PassedOn, timeout_ms: int) -> None:
        """Have a group carry out a command, if the node has a member of it; nothing is heard of it."""
        ...

    def cluster(self) -> Configuration:
        """The configuration of the metadata store where this node has applied its log."""
        ...


class ReplicaKeeper:
    """The replicas of the queues that one node leads.

    Args:
        member: this node's id.
        host: the node.
        settings: of the node.
        reach: which other nodes it reaches.
        now_ns: the time, of a monotonic clock.
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
        bugs: Bugs,
        entities: RecordsInForce,
    ) -> None:
        self._entities = entities
        self._member = member
        self._host = host
        self._settings = settings
        self._placement = placement_named(settings.placement)
        self._now_ns = now_ns
        self._bugs = bugs
        self._watch = Watch(reach, settings.recovery_ms * _MS)
        self._schedules: dict[str, Schedule] = {}
        self._facts = MetadataFacts()
        self._store: Store | None = None
        self._known: tuple[Store, int, int] | None = None  # what the facts are from

    def look(self, store: Store) -> None:
        """A moment has passed: see which nodes run, and what the metadata say, before the steps of this moment."""
        now = self._now_ns()
        came_or_went, has_failed = self._watch.look(
            dict.fromkeys(node_of(each) for each in self._host.cluster().members), now
        )
        self._store = store
        if not self._schedules:  # it takes all records of queues to read the facts: a node that leads none needs none
            return
        before = self._facts.events
        self._read()
        for schedule in self._schedules.values():
            if came_or_went or self._facts.events != before:
                schedule.triggered(now)
            if has_failed:
                schedule.failed(now)

    def _read(self) -> None:
        store = self._store
        if store is None:
            return
        known = store, store.applied_index, self._entities.changes
        if self._known != known:
            self._facts = facts_in(store.tree, self._entities)
            self._known = known

    def leads_not(self, group: str) -> None:
        """This node does not lead a queue: when it does again, that is an event."""
        self._schedules.pop(group, None)

    def step(self, name: str, record: QueueRecord, configuration: Configuration) -> None:
        """Take the next step with a queue that this node leads, if there is one; what came of it shows later.

        Args:
            name: of the queue.
            record: of the queue.
            configuration: the committed one of its group; none is uncommitted.
        """
        self._read()
        now = self._now_ns()
        schedule = self._schedules.setdefault(record.group, Schedule(self._settings, now))
        facts = self._situation(name, record, configuration, is_due=schedule.is_due(now))
        found = next_step(facts, self._placement)
        if facts.is_due and record.change is None:
            schedule.checked(now, did_something=isinstance(found, Begin))
        if found is not None:
            self._take(name, record, found)

    def _situation(self, name: str, record: QueueRecord, group: Configuration, *, is_due: bool) -> Situation:
        cluster, settings, facts = self._host.cluster(), self._settings, self._facts
        every = {*cluster.members, *group.members}
        return Situation(
            me=self._member,
            record=record,
            group=group,
            cluster=cluster,
            running=frozenset(each for each in cluster.members if node_of(each) in self._watch.running),
            failed=frozenset(each for each in every if node_of(each) in self._watch.failed),
            draining=frozenset(each for each in every if node_of(each) in facts.draining),
            target=target_of(record.target, facts.policy_of(name), settings.target),
            is_due=is_due,
            auto_remove=settings.auto_remove,
            zones=settings.zones,
            load=facts.load,
            bugs=self._bugs,
        )

    def _take(self, name: str, record: QueueRecord, step: Step) -> None:
        group, host = record.group, self._host
        match step:
            case Begin(kind, member):
                reached("queue's replicas changed by its leader")
                node, minds_draining = node_name(node_of(member)), M76 not in self._bugs
                data = [name, group, record.last_change, kind, member, "automation", node, minds_draining]
                host.pass_on(METADATA, Transact(*BEGIN_CHANGE, encode_value(data)), STEP_MS)
            case Join(member):
                reached("queue joined by a member")
                host.pass_on(group, AddMember(member, "promotable"), STEP_MS)
            case Leave(member):
                reached("queue left by a member")
                host.pass_on(group, RemoveMember(member), STEP_MS)
            case End(number, outcome, members):
                if outcome != "done":
                    reached("change of a queue's replicas given up")
                data = [name, group, number, outcome, members]
                host.pass_on(METADATA, Transact(*END_CHANGE, encode_value(data)), STEP_MS)
            case Rewrite(members):
                data = [name, group, record.members, members]
                host.pass_on(METADATA, Transact(*REWRITE, encode_value(data)), STEP_MS)
            case HandOver(member):
                reached("queue handed over by a node that is drained")
                host.pass_on(group, TransferLeadership(member), STEP_MS)
