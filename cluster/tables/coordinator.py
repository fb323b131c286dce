"""The transactions that one node began: it runs their procedures, locks, asks for votes, decides. A pure state machine.

A read locks the item on this replica only; a change, and a read that means to change, on all replicas that this node
takes for up (Mnesia: `where_to_read`, `where_to_write`). So a read excludes every write, of any coordinator. A replica
that is out of reach and not declared down answers nothing, and its transactions wait (MN-1). Once it is declared down
they begin again without it: nothing asks how many are left (`majority=false`).

Each transaction that changes something holds the lock `MEMBERS` for reading, on this replica; one that takes in a new
replica holds it for writing, on all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from splitbrain.cluster.bugs import M87B, NO_BUGS, Bugs
from splitbrain.cluster.tables.locks import Mode, Tid
from splitbrain.cluster.tables.messages import AskLock, Commit, LockAnswer, Message, Prepare, Release, Vote
from splitbrain.cluster.tables.procedures import Look, Read, Step, Steps
from splitbrain.cluster.tables.records import Change, Delete, Insert, Item, Put, Remove, Tables

MEMBERS: Final = Item("", "members")
"""A lock without records: on who the replicas are."""

BACK_OFF_MS: Final = 20
"""A transaction that was refused a lock waits for up to this long before it begins again, and longer each time."""

BACK_OFF_MAX_MS: Final = 200

Reason: TypeAlias = Literal["timeout", "stopped"]


class Done(msgspec.Struct, frozen=True):
    """A transaction was committed, or only read; `result` is what its procedure returned."""

    result: Any
    changed: bool


class GivenUp(msgspec.Struct, frozen=True):
    """A transaction was certainly not committed."""

    reason: Reason


End: TypeAlias = Done | GivenUp


class Replica(Protocol):
    """What a coordinator needs of the replica of its node."""

    def active(self) -> tuple[str, ...]:
        """The replicas that are taken for up, this node included."""
        ...

    @property
    def tables(self) -> Tables:
        """What it holds."""
        ...

    def read(self, item: Item) -> tuple[Any, ...]:
        """The values of an item here."""
        ...

    def send(self, to: str, message: Message) -> None:
        """Send a message, also to this node itself; it arrives after the present step."""
        ...

    def commit(self, tid: Tid) -> None:
        """Commit here, now."""
        ...

    def between(self, low: int, high: int) -> int:
        """A random number."""
        ...


class _Transaction:
    """One transaction, and how far its present attempt is."""

    def __init__(
        self, tid: Tid, begin: Callable[[], Steps], deadline_ms: int, end: Callable[[End], None], joins: Any
    ) -> None:
        self.tid = tid
        self.begin = begin
        self.deadline_ms = deadline_ms
        self.end = end
        self.joins: tuple[str, int] | None = joins
        self.attempt = 0
        self.restart_ms: int | None = None
        self.reset()

    def reset(self) -> None:
        self.steps = self.begin()
        self.step: Step | None = None
        self.outstanding: dict[tuple[Item, str], None] = {}
        self.asked: dict[str, None] = {}
        self.locked: dict[Item, Mode] = {}
        self.changes: list[Change] = []
        self.voting: dict[str, None] | None = None
        self.result: Any = None


class Coordinator:
    """The transactions of one run of one node.

    Args:
        node: its name.
        life: of its process.
        replica: of this node.
        bugs: what is broken on purpose.
    """

    def __init__(self, node: str, life: int, replica: Replica, bugs: Bugs = NO_BUGS) -> None:
        self._locks_alone = M87B in bugs
        self._node = node
        self._life = life
        self._replica = replica
        self._counter = 0
        self._transactions: dict[Tid, _Transaction] = {}

    def saw(self, tid: Tid) -> None:
        """Another transaction is there: later ones here are younger."""
        self._counter = max(self._counter, tid.counter)

    def begin(
        self,
        steps: Callable[[], Steps],
        deadline_ms: int,
        end: Callable[[End], None],
        joins: tuple[str, int] | None = None,
    ) -> Tid:
        """Begin a transaction.

        Args:
            steps: begins the procedure, each time that the transaction begins.
            deadline_ms: if it is not decided then, it is given up.
            end: called once, with what became of it.
            joins: the node that becomes a replica with it.
        """
        self._counter += 1
        tid = Tid(self._counter, self._node, self._life)
        transaction = _Transaction(tid, steps, deadline_ms, end, joins)
        self._transactions[tid] = transaction
        self._start(transaction)
        return tid

    def under_way(self) -> list[Tid]:
        """Transactions that are not decided."""
        return list(self._transactions)

    def received(self, sender: str, message: LockAnswer | Vote) -> None:
        """The answer of a replica."""
        transaction = self._transactions.get(message.tid)
        if transaction is None or transaction.attempt != message.attempt or transaction.restart_ms is not None:
            return
        match message:
            case LockAnswer(item=item, granted=True):
                transaction.outstanding.pop((item, sender), None)
                if not transaction.outstanding and transaction.voting is None:
                    self._go_on(transaction)
            case Vote(yes=True) if transaction.voting is not None:
                transaction.voting.pop(sender, None)
                if not transaction.voting:
                    self._commit(transaction)
            case LockAnswer() | Vote(yes=False):
                self._give_up_attempt(transaction)
            case _:
                pass

    def node_down(self, node: str, now_ms: int) -> None:
        """A replica is no more: transactions that asked it begin again without it."""
        for transaction in list(self._transactions.values()):
            if transaction.joins is not None and transaction.joins[0] == node:
                self._give_up(transaction, "timeout")
            elif node in transaction.asked and transaction.restart_ms is None:
                self._give_up_attempt(transaction)
                transaction.restart_ms = now_ms

    def poll(self, now_ms: int) -> None:
        """Time has passed."""
        for transaction in list(self._transactions.values()):
            if now_ms >= transaction.deadline_ms:
                self._give_up(transaction, "timeout")
            elif transaction.restart_ms is not None:
                if transaction.restart_ms < 0:
                    wait_ms = min(BACK_OFF_MS * transaction.attempt, BACK_OFF_MAX_MS)
                    transaction.restart_ms = now_ms + self._replica.between(0, wait_ms)
                if now_ms >= transaction.restart_ms:
                    transaction.restart_ms = None
                    transaction.reset()
                    self._start(transaction)

    def stop(self) -> None:
        """The node's database stops: what is not decided is given up."""
        for transaction in list(self._transactions.values()):
            self._give_up(transaction, "stopped")

    # --- one attempt ----------------------------------------------------------------------------------------------

    def _start(self, transaction: _Transaction) -> None:
        transaction.attempt += 1
        self._advance(transaction, None)

    def _advance(self, transaction: _Transaction, value: Any) -> None:
        """Run the procedure up to a step whose lock is not there yet, or to its end."""
        while True:
            try:
                step = transaction.steps.send(value)
            except StopIteration as stopped:
                transaction.result = stopped.value
                self._finish(transaction)
                return
            transaction.step = step
            wanted = self._locks_of(transaction, step)
            if wanted:
                self._ask(transaction, wanted)
                return
            value = self._carry_out(transaction, step)

    def _locks_of(self, transaction: _Transaction, step: Step) -> list[tuple[Item, Mode]]:
        """The locks that a step needs and the transaction lacks."""
        if isinstance(step, Look):
            return []
        mode: Mode = step.mode if isinstance(step, Read) else "write"
        wanted: list[tuple[Item, Mode]] = [(step.item, mode)]
        if mode == "write" and transaction.joins is None:
            wanted.insert(0, (MEMBERS, "read"))
        return [(item, mode) for item, mode in wanted if transaction.locked.get(item) not in (mode, "write")]

    def _ask(self, transaction: _Transaction, wanted: list[tuple[Item, Mode]]) -> None:
        # One lock after the other: which replicas are to be asked is fixed only while MEMBERS is held.
        item, mode = wanted[0]
        replicas = self._replica.active() if mode == "write" else (self._node,)
        lockers = (self._node,) if self._locks_alone and item != MEMBERS else replicas
        for replica in replicas:
            transaction.asked[replica] = None
        transaction.outstanding |= dict.fromkeys((item, replica) for replica in lockers)
        transaction.locked[item] = mode
        for replica in lockers:
            self._replica.send(replica, AskLock(transaction.tid, transaction.attempt, item, mode))

    def _go_on(self, transaction: _Transaction) -> None:
        step = transaction.step
        assert step is not None, "locks are asked for by a step"
        wanted = self._locks_of(transaction, step)
        if wanted:
            self._ask(transaction, wanted)
        else:
            self._advance(transaction, self._carry_out(transaction, step))

    def _carry_out(self, transaction: _Transaction, step: Step) -> Any:
        if isinstance(step, Look):
            return self._replica.tables
        if not isinstance(step, Read):
            transaction.changes.append(step)
            return None
        values = self._replica.read(step.item)
        for change in transaction.changes:
            if change.item == step.item:
                values = _changed(values, change)
        return values

    def _finish(self, transaction: _Transaction) -> None:
        if not transaction.changes and transaction.joins is None:
            self._end(transaction, Done(transaction.result, False))
            return
        voters = tuple(transaction.asked)
        transaction.voting = dict.fromkeys(voters)
        # One that joins does not vote; but it can tell the others that it has joined.
        participants = voters if transaction.joins is None else (*voters, transaction.joins[0])
        prepare = Prepare(
            transaction.tid, transaction.attempt, tuple(transaction.changes), participants, transaction.joins
        )
        for replica in voters:
            self._replica.send(replica, prepare)

    def _commit(self, transaction: _Transaction) -> None:
        # Others first: what follows from the commit here, such as an answer or a copy of tables, comes behind it.
        for replica in transaction.asked:
            if replica != self._node:
                self._replica.send(replica, Commit(transaction.tid))
        del self._transactions[transaction.tid]
        self._replica.commit(transaction.tid)
        transaction.end(Done(transaction.result, True))

    def _end(self, transaction: _Transaction, end: End) -> None:
        self._release(transaction)
        del self._transactions[transaction.tid]
        transaction.end(end)

    def _give_up(self, transaction: _Transaction, reason: Reason) -> None:
        self._end(transaction, GivenUp(reason))

    def _give_up_attempt(self, transaction: _Transaction) -> None:
        self._release(transaction)
        transaction.restart_ms = -1

    def _release(self, transaction: _Transaction) -> None:
        for replica in transaction.asked:
            self._replica.send(replica, Release(transaction.tid))
        transaction.asked = {}


def _changed(values: tuple[Any, ...], change: Change) -> tuple[Any, ...]:
    match change:
        case Put(value=value):
            return (value,)
        case Insert(value=value):
            return values if value in values else (*values, value)
        case Remove(value=value):
            return tuple(each for each in values if each != value)
        case Delete():
            return ()
