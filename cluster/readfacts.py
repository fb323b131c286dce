"""What speaks for the reads that a leader answers, from the messages that left and reached it (for telemetry).

Nothing in here is asked of consensus: not what it counts, nor what it concludes. So a flaw in its counting is at odds
with these facts, and a checker that judges by them (`read-majority`) sees it at the first read, although a client sees
a stale answer only if another leader has committed meanwhile.

Of linearizable reads at most one line in 250 ms says the following, and further ones where it was otherwise (fewer
voters had answered, a lease was at its end, and so on). `counted_index` is the round that the read needs: the first one
that began after it came. In `counted` are, for each voter in force, the newest round of the leader's term that it has
answered (for the leader itself, that one), and by names that no member can have:

    #index     the read index
    #commit    the leader's commit index when the read came
    #sent      the newest round of this term that was sent to anyone
    #unsent    how many answers of this term were to a round that had not been sent
    #lease     of a read that a lease may answer: how long a lease may last, in ns, and with it:
    #age:n2    how long before the read came the newest round that n2 answered was first sent, in ns; of the leader the
               time of the answer counts, which is negative: no message reaches it, and its own promise lasts until now
    #left      how long the leader took its lease to last when the read came, in ns; missing if it took it for none
    #changed   for how long the voters had been these when the read came, in ns; missing if they never were others
    #handed    1 if the leader had asked another member to take over in this term, else 0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

from splitbrain.cluster.members import SEPARATOR
from splitbrain.cluster.raft.effects import ReadReady
from splitbrain.cluster.raft.events import Read
from splitbrain.cluster.raft.machine import Raft
from splitbrain.cluster.raft.messages import (
    Append,
    AppendRefusal,
    AppendReply,
    NodeId,
    SnapshotReply,
    TimeoutNow,
)

INTERVAL_NS: Final = 250_000_000
"""In this time only one of several reads for which the same speaks is reported."""

LEASE_NS_PER_MS: Final = 750_000
"""A lease is three quarters of the shortest election timeout. Not taken from `Config.lease_ns`, which may be wrong."""

REMEMBERED: Final = 4096
"""Rounds whose times of sending are remembered; a leader that hears no majority for so many heartbeats steps down."""

ANSWERS: Final = frozenset({AppendReply, AppendRefusal, SnapshotReply})
"""Messages that confirm a round."""


class Arrival(NamedTuple):
    """How it was when a read came.

    Attributes:
        term: of the leader.
        needed: the first round that began, if one did, after the read came.
        commit: the leader's commit index.
        mode: of the read.
        now_ns: when it came, by the node's monotonic clock.
    """

    term: int
    needed: int
    commit: int
    mode: Literal["quorum", "lease"]
    now_ns: int


class ReadFacts:
    """Those of one member, in the term that it led last.

    Args:
        raft: the member. Only its term, its commit index and what it takes its lease for are asked.
        voters: with which it begins.
        clock: monotonic, in ns.
        election_min_ms: the shortest time after which a member that hears no leader stands for election; None if there
            are no leases.
        report: takes the round that a read needed, and what is known of it: `counted_index` and `counted`, see above.
    """

    def __init__(
        self,
        raft: Raft,
        voters: Sequence[NodeId],
        clock: Callable[[], int],
        election_min_ms: int | None,
        report: Callable[[int, dict[str, int]], None],
    ) -> None:
        self._raft = raft
        self._voters = tuple(voters)
        self._clock = clock
        self._lease_ns = None if election_min_ms is None else election_min_ms * LEASE_NS_PER_MS
        self._report = report
        self._changed_ns: int | None = None
        self._kinds: set[tuple[object, ...]] = set()
        self._next_ns = 0
        self._enter(0)

    def _enter(self, term: int) -> None:
        self._term = term
        self._sent = 0
        self._sent_ns: dict[int, int] = {}
        self._answered: dict[NodeId, int] = {}
        self._answered_ns: dict[NodeId, int] = {}
        self._unsent = 0
        self._handed = False
        self._kinds.clear()
        self._holders = (0, 0)

    # --- what happens -----------------------------------------------------------------------------------------

    def sent(self, message: Append | TimeoutNow) -> None:
        """A message of a leader goes to one peer or to several."""
        if type(message) is Append:
            if message.round > self._sent or message.term != self._term:
                self.round_sent(message.term, message.round)
        else:
            self._lead(message.term)
            self._handed = True

    def round_sent(self, term: int, read_round: int) -> None:
        """A message of this round goes out."""
        self._lead(term)
        if read_round <= self._sent:
            return
        self._sent = read_round
        if self._lease_ns is not None:
            times = self._sent_ns
            times[read_round] = self._clock()
            if len(times) > REMEMBERED:
                del times[next(iter(times))]

    def _lead(self, term: int) -> None:
        if term != self._term:
            self._enter(term)

    def answered(self, sender: NodeId, message: AppendReply | AppendRefusal | SnapshotReply) -> None:
        """An answer came, and is about to be handled."""
        read_round = message.round
        if message.term != self._term or read_round <= self._answered.get(sender, 0):
            return
        self._unsent += read_round > self._sent
        self._answered[sender] = read_round
        self._holders = (0, 0)
        if (sent_ns := self._sent_ns.get(read_round)) is not None:
            self._answered_ns[sender] = sent_ns

    def voters_changed(self, voters: Sequence[NodeId]) -> None:
        """Others may be in force."""
        if tuple(voters) != self._voters:
            self._voters = tuple(voters)
            self._holders = (0, 0)
            self._changed_ns = self._clock()

    def arrived(self, event: Read) -> Arrival | None:
        """A read is about to be handled; None for one that is answered without any confirmation."""
        if event.mode == "leader":
            return None
        raft = self._raft
        self._lead(raft.term)  # a member that is alone sends nothing
        return Arrival(raft.term, self._sent + 1, raft.commit_index, event.mode, event.now_ns)

    # --- what is said of it -----------------------------------------------------------------------------------

    def ready(self, effect: ReadReady, arrival: Arrival) -> None:
        """A read is to be answered: report what speaks for it, if nothing of its kind was reported just now."""
        # Of an earlier term, all rounds of this one began after it.
        needed = arrival.needed if arrival.term == self._term else 1
        if self._holders[0] != needed:  # those that were ready at one time needed the same
            self._holders = (needed, self._count(needed))
        kind: tuple[object, ...] = (self._holders[1], effect.index >= arrival.commit, self._unsent > 0)
        if self._lease_ns is not None and arrival.mode == "lease":
            kind = (*kind, *self._kind_of_lease(arrival, self._lease_ns))
        if arrival.now_ns >= self._next_ns:
            self._next_ns = arrival.now_ns + INTERVAL_NS
            self._kinds.clear()
        if kind not in self._kinds:
            self._kinds.add(kind)
            self._report(needed, self._facts(effect, arrival, needed))

    def _kind_of_lease(self, arrival: Arrival, lease_ns: int) -> tuple[object, ...]:
        now_ns, own, oldest_ns = self._clock(), self._raft.node, arrival.now_ns - lease_ns
        times = [now_ns if v == own else self._answered_ns.get(v, oldest_ns) for v in self._voters]
        times.sort(reverse=True)
        # Where a majority promised something, until when: what it takes the lease for must not be later.
        promised_ns = times[len(times) // 2] + lease_ns if times else 0
        ends_ns = self._raft.lease_ends_ns
        longer = ends_ns is not None and ends_ns > promised_ns
        return (arrival.now_ns < promised_ns, longer, ends_ns is None, self._handed)

    def _count(self, needed: int) -> int:
        answered, own = self._answered, self._raft.node
        return sum([voter == own or answered.get(voter, 0) >= needed for voter in self._voters])

    def _facts(self, effect: ReadReady, arrival: Arrival, needed: int) -> dict[str, int]:
        own = self._raft.node
        facts = {voter: needed if voter == own else self._answered.get(voter, 0) for voter in self._voters}
        facts |= {
            f"{SEPARATOR}index": effect.index,
            f"{SEPARATOR}commit": arrival.commit,
            f"{SEPARATOR}sent": self._sent,
            f"{SEPARATOR}unsent": self._unsent,
        }
        if self._lease_ns is not None and arrival.mode == "lease":
            facts |= self._facts_of_lease(arrival.now_ns, self._lease_ns)
        return facts

    def _facts_of_lease(self, came_ns: int, lease_ns: int) -> dict[str, int]:
        ends_ns = self._raft.lease_ends_ns
        facts = {f"{SEPARATOR}lease": lease_ns, f"{SEPARATOR}handed": int(self._handed)}
        told_ns = self._answered_ns | {self._raft.node: self._clock()}
        facts |= {f"{SEPARATOR}age:{voter}": came_ns - told_ns[voter] for voter in self._voters if voter in told_ns}
        if ends_ns is not None:
            facts[f"{SEPARATOR}left"] = ends_ns - came_ns
        if self._changed_ns is not None:
            facts[f"{SEPARATOR}changed"] = came_ns - self._changed_ns
        return facts
