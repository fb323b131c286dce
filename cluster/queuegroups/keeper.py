"""What a node does about queues: it begins and ends its members of their groups as the metadata say (QQ-8).

No step waits for another node. A record that is there has its group begun by each member's node, once that has applied
it; a record that is gone has the group ended by each, likewise. So it does not matter which node fails between, or is
away meanwhile: it does its part when it is back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias

from splitbrain.cluster.bugs import M70, NO_BUGS, Bugs
from splitbrain.cluster.commands import encode_value
from splitbrain.cluster.groupnames import METADATA, queue_number
from splitbrain.cluster.marks import reached
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.queuegroups import log, notes
from splitbrain.cluster.queuegroups.circles import comes_again
from splitbrain.cluster.queuegroups.log import Configure
from splitbrain.cluster.queuegroups.records import (
    FORGET,
    NAME_LEADER,
    PATH,
    QueueRecord,
    last_number,
    record_at,
    records_in,
)
from splitbrain.cluster.queues.replies import Accepted
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import Transact, Value
from splitbrain.cluster.wire import AddMember, Outcome, QueueOp, RemoveMember, TransferLeadership

STEP_MS: Final = 1000
"""How long a step with members may take: it is taken again if there is still need."""

PASS_ON_MS: Final = 5000
"""How long what a queue asks of another group may take; nothing waits for it."""


PassedOn: TypeAlias = Transact | QueueOp | AddMember | RemoveMember | TransferLeadership


class Host(Protocol):
    """The node, as far as its queues need it."""

    @property
    def queue_groups(self) -> Sequence[str]:
        """Groups of queues of which the node has a member, those that stopped here included."""
        ...

    async def begin_queue(self, group: str, members: Sequence[NodeId]) -> None:
        """Take part in a group from now on; it has none yet.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        ...

    async def end_queue(self, group: str) -> None:
        """Forget a member, with all data.

        Raises:
            OSError: as above.
        """
        ...

    def pass_on(self, group: str, body: PassedOn, timeout_ms: int) -> None:
        """Have a group carry out a command, if the node has a member of it; nothing is heard of it."""
        ...

    def ask(self, group: str, body: QueueOp, timeout_ms: int, answer: Answering) -> None:
        """Have a group carry out a command; `answer` is called once, now or later."""
        ...

    def leads(self, group: str) -> bool:
        """Whether the node leads a group."""
        ...

    def led(self, group: str) -> Configuration | None:
        """The configuration of a group, if the node leads it, and has nothing uncommitted of its members."""
        ...


class Replicas(Protocol):
    """What is done about the members of queues that the node leads (`splitbrain.cluster.queuereplicas`)."""

    def look(self, store: Store) -> None:
        """A moment has passed: see what counts before the steps of this moment."""
        ...

    def leads_not(self, group: str) -> None:
        """This node does not lead a queue."""
        ...

    def step(self, name: str, record: QueueRecord, configuration: Configuration) -> None:
        """Take the next step with a queue that this node leads, if there is one; what came of it shows later."""
        ...


class QueueKeeper:
    """The queues of one node.

    Args:
        member: this node's id.
        host: the node.
        replicas: what is done about members of queues.
        spawn: runs a background task; an exception that it raises stops the node.
        log: prints a line.
        bugs: those that are switched on.
    """

    def __init__(
        self,
        member: NodeId,
        host: Host,
        replicas: Replicas,
        spawn: Callable[[Awaitable[None], str], None],
        log: Callable[[str], None],
        bugs: Bugs = NO_BUGS,
    ) -> None:
        self._names_once = M70 in bugs
        self._member = member
        self._host = host
        self._replicas = replicas
        self._spawn = spawn
        self._log = log
        self._store: Store | None = None
        self._seen: tuple[int, int] | None = None
        self._known: dict[str, tuple[str, QueueRecord]] | None = None  # by group; None: it is to be read
        self._is_due = self._works = False

    def applied(self, store: Store) -> None:
        """The metadata store of this node is at a later entry, or is another one."""
        self._store = store
        found = store.tree.properties(PATH)
        seen = None if found is None else (found.payload_version, found.child_list_version)
        if seen == self._seen:
            return
        self._seen = seen
        self._known = None
        self._is_due = True
        if not self._works:
            self._works = True
            self._spawn(self._work(), "groups of queues")

    async def _work(self) -> None:
        try:
            while self._is_due:
                self._is_due = False
                await self._follow(self._records(), self._last_number())
        finally:
            self._works = False

    async def _follow(self, records: Mapping[str, QueueRecord], last: int) -> None:
        """Begin and end members as these records say, which are those after the declaration with the number `last`."""
        here = self._host.queue_groups
        for group in here:
            if group not in records and queue_number(group) <= last:
                reached("queue ended")
                self._log(f"group {group} ends: its queue was deleted")
                await self._host.end_queue(group)
        for group, record in records.items():
            if self._member in record.members and group not in here:
                reached("queue begun")
                await self._host.begin_queue(group, record.founders)

    def tick(self) -> None:
        """A moment has passed: take the next step with each queue that this node leads, if there is one.

        Their records are to name it as their leader (QQ-9), and they are to have the right members. What came of the
        last step shows at the next moment.
        """
        if self._store is not None:
            self._replicas.look(self._store)
        for group in self._host.queue_groups:
            if not self._host.leads(group):
                self._replicas.leads_not(group)
                continue
            configuration, named = self._host.led(group), self._named(group)
            if configuration is None or named is None:
                continue
            name, record = named
            if record.leader != self._member and not (self._names_once and record.leader is not None):
                reached("queue's leader noted")
                data = encode_value([name, group, self._member])
                self._host.pass_on(METADATA, Transact(*NAME_LEADER, data), STEP_MS)
            else:
                self._replicas.step(name, record, configuration)

    def takes_part(self, group: str) -> bool:
        """Whether this node is to have a member of a queue's group, as far as it knows: it keeps that of before."""
        named = self._named(group)
        return named is None or self._member in named[1].members

    def _named(self, group: str) -> tuple[str, QueueRecord] | None:
        if self._known is None:
            found = () if self._store is None else records_in(self._store.tree)
            self._known = {record.group: (name, record) for name, record in found}
        return self._known.get(group)

    def record_of(self, name: str) -> QueueRecord | None:
        """The record of a queue, None if this node does not know it."""
        return None if self._store is None else record_at(self._store.tree, name)

    def members_of(self, group: str) -> tuple[NodeId, ...]:
        """Members of a queue's group on other nodes, the one that led it last first; none if it is not known."""
        named = self._named(group)
        if named is None:
            return ()
        leader, members = named[1].leader, named[1].members
        if leader is None:
            order = members
        elif self._names_once:
            order = (leader,)
        else:
            order = (leader, *(member for member in members if member != leader))
        return tuple(member for member in order if member != self._member)

    # --- for machines of queues -----------------------------------------------------------------------------------

    def configuration(self, group: str) -> bytes | None:
        """The command that configures the queue of a group; None if this node does not know its record (yet)."""
        named = self._named(group)
        if named is None:
            return None
        record = named[1]
        return log.encode(Configure(group, record.config, record.dead_letter_to))

    def forget(self, group: str) -> None:
        """Have the record of a group removed, if there is one."""
        named = self._named(group)
        if named is not None:
            self._host.pass_on(METADATA, Transact(*FORGET, encode_value([named[0], group])), PASS_ON_MS)

    def publish(self, queue: str, command: bytes) -> None:
        """Have another queue carry out a command, at most once."""
        record = self.record_of(queue)
        if record is None:
            reached("dead letter without a queue")
        elif comes_again(record.group, command):
            reached("dead letter went round")
        else:
            reached("dead letter published")
            self._host.pass_on(record.group, QueueOp(command), PASS_ON_MS)

    def publish_confirmed(self, queue: str, command: bytes, answered: Callable[[bool], None]) -> None:
        """The same, and say once, now or later, whether the queue confirmed it; else it may have happened."""
        record = self.record_of(queue)
        if record is None:
            answered(False)
        elif comes_again(record.group, command):
            reached("dead letter went round")
            answered(False)
        else:
            reached("dead letter published")
            heard = partial(_heard_of_letter, answered)
            self._host.ask(record.group, QueueOp(command), PASS_ON_MS, heard)

    def _records(self) -> dict[str, QueueRecord]:
        return {} if self._store is None else {record.group: record for _, record in records_in(self._store.tree)}

    def _last_number(self) -> int:
        return 0 if self._store is None else last_number(self._store.tree)


def _heard_of_letter(answered: Callable[[bool], None], _term: int, outcome: Outcome, _index: int) -> None:
    is_value = isinstance(outcome, Value)
    answered(is_value and isinstance(notes.decode_answered(outcome.data), Accepted))
