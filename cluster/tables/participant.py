"""What a replica does for the transactions of all coordinators: locks, votes, commits. A pure state machine.

The protocol is Mnesia's for transactions that change the same tables everywhere (`mnesia_tm`, `sym_trans`): after all
said yes the coordinator decides, says so to the others, and is done. A replica that said yes and lost its coordinator
asks the other participants (`mnesia_recover`): one of them that has committed decides. If none has, it was not
committed, as far as they can know. Where the decision reached only the coordinator's own side of a partition, both
sides go on with what they believe.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from splitbrain.cluster.tables.locks import Granted, LockTable, Tid
from splitbrain.cluster.tables.messages import (
    AskLock,
    AskOutcome,
    Commit,
    LockAnswer,
    Message,
    Outcome,
    Prepare,
    Release,
    Vote,
)

DECISIONS_KEPT: Final = 4096
"""Committed transactions that a replica can still tell others about."""


class Participant:
    """One run of one replica.

    Args:
        node: its name.
        send: takes a message and to whom it goes; also to this node itself.
        commit: carries out a transaction that was committed.
        reaches: whether a node can be a participant together with this one: `joins` of a `Prepare`.
    """

    def __init__(
        self,
        node: str,
        send: Callable[[str, Message], None],
        commit: Callable[[Prepare], None],
        reaches: Callable[[str, int], bool],
    ) -> None:
        self._node = node
        self._send = send
        self._commit = commit
        self._reaches = reaches
        self._locks = LockTable()
        self._asked: dict[tuple[Tid, str, str], AskLock] = {}
        self._prepared: dict[Tid, Prepare] = {}
        self._committed: dict[Tid, None] = {}
        self._orphans: dict[Tid, dict[str, None]] = {}
        self._questions: dict[Tid, dict[str, None]] = {}

    @property
    def locks(self) -> LockTable:
        """Who holds and waits for what."""
        return self._locks

    def in_doubt(self) -> list[Tid]:
        """Transactions to which this replica said yes and whose decision it does not know."""
        return sorted(self._prepared)

    def received(self, sender: str, message: AskLock | Prepare | Commit | Release | AskOutcome | Outcome) -> None:
        """A message of a coordinator, or of another participant."""
        match message:
            case AskLock():
                self._ask(message)
            case Prepare(tid, attempt):
                # What is in doubt here would be missing in a copy that is made now.
                yes = message.joins is None or (self._reaches(*message.joins) and not self._orphans)
                if yes:
                    self._prepared[tid] = message
                self._send(sender, Vote(tid, attempt, yes))
            case Commit(tid):
                self._decided(tid, committed=True)
            case Release(tid):
                self._decided(tid, committed=False)
            case AskOutcome(tid):
                self._asked_for_outcome(sender, tid)
            case Outcome(tid, committed) if tid in self._orphans:
                self._orphans[tid].pop(sender, None)
                if committed:
                    self._decided(tid, committed=True)
                elif not self._orphans[tid]:
                    self._give_up(tid)
            case Outcome():
                pass

    def joined(self, tid: Tid) -> None:
        """This replica became one by a transaction that was committed, in which it had no vote."""
        self._remember(tid)

    def node_down(self, node: str, up: Collection[str]) -> None:
        """A replica is gone: so are its transactions, and what it might have said of others.

        Args:
            node: its name.
            up: the replicas that are left, this one included.
        """
        for tid in self._locks.transactions():
            if tid.node == node and tid not in self._prepared:
                self._release(tid)
        for tid, prepared in list(self._prepared.items()):
            if tid.node == node:
                self._orphaned(tid, [other for other in prepared.participants if other in up and other != self._node])
            elif tid in self._orphans and node in self._orphans[tid]:
                del self._orphans[tid][node]
                if not self._orphans[tid]:
                    self._give_up(tid)

    def _asked_for_outcome(self, sender: str, tid: Tid) -> None:
        if tid not in self._prepared:
            self._send(sender, Outcome(tid, tid in self._committed))
        elif tid in self._orphans:
            self._send(sender, Outcome(tid, False))  # both lost the coordinator: neither knows more than the other
        else:
            self._questions.setdefault(tid, {})[sender] = None

    def _ask(self, message: AskLock) -> None:
        answer = self._locks.request(message.tid, message.item, message.mode)
        if answer == "queued":
            self._asked[message.tid, message.item.table, message.item.key] = message
        else:
            self._answer(message, granted=answer == "granted")

    def _answer(self, asked: AskLock, *, granted: bool) -> None:
        self._send(asked.tid.node, LockAnswer(asked.tid, asked.attempt, asked.item, granted))

    def _orphaned(self, tid: Tid, others: list[str]) -> None:
        joins = self._prepared[tid].joins
        if joins is not None and joins[0] not in others and self._reaches(*joins):
            others = [*others, joins[0]]  # it has no vote, and knows whether it has joined
        self._orphans[tid] = dict.fromkeys(others)
        for asker in self._questions.get(tid, {}):
            self._send(asker, Outcome(tid, False))
        for other in others:
            self._send(other, AskOutcome(tid))
        if not others:
            self._give_up(tid)

    def _give_up(self, tid: Tid) -> None:
        self._decided(tid, committed=False)

    def _decided(self, tid: Tid, *, committed: bool) -> None:
        prepared = self._prepared.pop(tid, None)
        if committed and prepared is not None:
            self._remember(tid)
            self._commit(prepared)
        self._orphans.pop(tid, None)
        for asker in self._questions.pop(tid, {}):
            self._send(asker, Outcome(tid, tid in self._committed))
        self._release(tid)

    def _remember(self, tid: Tid) -> None:
        self._committed[tid] = None
        if len(self._committed) > DECISIONS_KEPT:
            del self._committed[next(iter(self._committed))]

    def _release(self, tid: Tid) -> None:
        self._asked = {key: asked for key, asked in self._asked.items() if key[0] != tid}
        for granted in self._locks.release(tid):
            self._granted(granted)

    def _granted(self, granted: Granted) -> None:
        asked = self._asked.pop((granted.tid, granted.item.table, granted.item.key))
        self._answer(asked, granted=True)
