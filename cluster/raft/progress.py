"""What a leader knows of one follower, and what it may send it (flow control after etcd's raft: probe, then stream)."""

from __future__ import annotations


class Progress:
    """One follower's state in the eyes of the leader of a term.

    The leader first probes: one message, repeated empty at heartbeats, until a reply says where the logs agree. Then it
    streams: batches go out without waiting, up to a limit of entries under way. A refusal turns back to probing, so
    each reply causes at most one batch to be sent again, however much was lost.

    Attributes:
        match: the follower's log agrees with ours, durably, up to here.
        next: the next entry to send.
        probing: where the logs agree is not known yet.
        waiting: a probe with entries is under way.
        round: the newest read round that the follower has confirmed.
        heard_tick: the leader's tick at which it last replied.
        snapshot: index of the snapshot of which it has a part, and how many bytes that is.
        snapshot_sent: since it last agreed it was sent a part of a snapshot.
        chunk_tick: the leader's tick at which a part of a snapshot was last sent.
        chunk_repeats: how often that part was sent again.
        version: the latest version of the state machine that it says it understands; 0 until it has said so.
    """

    __slots__ = (
        "chunk_repeats",
        "chunk_tick",
        "heard_tick",
        "match",
        "next",
        "probing",
        "round",
        "snapshot",
        "snapshot_sent",
        "version",
        "waiting",
    )

    def __init__(self, next_index: int) -> None:
        self.match = 0
        self.next = next_index
        self.probing = True
        self.waiting = False
        self.round = 0
        self.heard_tick = 0
        self.snapshot: tuple[int, int] = (0, 0)
        self.snapshot_sent = False
        self.chunk_tick = 0
        self.chunk_repeats = 0
        self.version = 0

    def lacks(self, version: int) -> bool:
        """Whether the follower has said that it does not understand a version."""
        return 0 < self.version < version

    def on_agreement(self, matched: int, durable: int) -> bool:
        """The follower agrees up to `matched`, and durably up to `durable`; True if the latter is news."""
        # Comparisons, as `max` would be a call: every answer of every follower comes here.
        if self.probing or matched >= self.next:
            # Else batches behind `matched` are under way: only a refusal shows that one was lost.
            self.probing = False
            self.next = matched + 1
        advanced = durable > self.match
        if advanced:
            self.match = durable
        # A late reply to an earlier probe may speak of less than is known by now.
        if self.next <= self.match:
            self.next = self.match + 1
        return advanced

    def on_refusal(self, prev_index: int, try_index: int) -> bool:
        """The follower lacks `prev_index`; True if that is news, and a new probe should go out.

        An agreement that is durable is never withdrawn, and of the refusals of many messages that were under way only
        the first says anything new.
        """
        if prev_index <= self.match or (self.probing and prev_index != self.next - 1):
            return False
        self.probing = True
        self.waiting = False
        self.next = max(min(self.next - 1, try_index), self.match) + 1
        return True
