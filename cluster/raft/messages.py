"""What members of a cluster say to each other: log entries and the messages of consensus.

Every message carries the sender's term. Who sent it is known from the connection it came on, so it is not repeated in
the message. `encode` and `decode` are the wire form: msgpack arrays with a leading tag (a field may be appended later
if it has a default).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

NodeId: TypeAlias = str

EntryKind = Literal["noop", "command", "config"]

OLDEST: Final = 1
"""The version of the state machine of members that do not say theirs."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry of the replicated log.

    Attributes:
        index: position in the log; the first is 1.
        term: the term of the leader that created it.
        kind: "command" for the state machine, "noop" for the entry with which a leader begins its term, "config" for
            one that says who the members are (see `splitbrain.cluster.raft.membership`).
        data: the command, opaque to consensus; of a noop the version of the state machine that is in force
            (`splitbrain.cluster.raft.versions`).
    """

    index: int
    term: int
    kind: EntryKind
    data: bytes = b""


class PreVote(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """Would you vote for me? Asked before an election, so that a node that cannot win does not raise the term (RA-5).

    Attributes:
        term: the sender's current term, not raised.
        token: which of the sender's attempts this is; the reply repeats it.
        last_index: index of the sender's last entry, 0 if none.
        last_term: its term, 0 if none.
        version: the latest version of the state machine that the sender understands.
    """

    term: int
    token: int
    last_index: int
    last_term: int
    version: int = OLDEST


class PreVoteReply(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """The answer to a PreVote. It is not binding: nothing was stored for it.

    Attributes:
        term: the answering node's current term.
        token: as in the request.
        granted: whether it would vote for the sender.
    """

    term: int
    token: int
    granted: bool


class Vote(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """RequestVote of the Raft paper: the sender stands for leader of `term`.

    Attributes:
        term: the term it wants to lead.
        last_index: index of the sender's last entry, 0 if none.
        last_term: its term, 0 if none.
        transfers: the leader asked it to stand: that a leader is heard is no reason to refuse.
        version: the latest version of the state machine that the sender understands.
    """

    term: int
    last_index: int
    last_term: int
    transfers: bool = False
    version: int = OLDEST


class VoteReply(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=4):
    """The answer to a Vote; sent only when term and vote are durable (RA-6)."""

    term: int
    granted: bool


class Append(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=5):
    """AppendEntries of the Raft paper, from the leader of `term`: replication, heartbeat and read round in one.

    Attributes:
        term: the leader's term.
        round: the leader's newest read round; every reply repeats it and thereby confirms that leadership had not
            passed on when it was answered (RA-27).
        commit: the leader's commit index. A follower adopts it only up to what this term's leader validated (RA-14).
        prev_index: index of the entry before `entries`, 0 if they begin the log.
        prev_term: its term, 0 if there is none.
        entries: what follows it, contiguous, possibly none.
    """

    term: int
    round: int
    commit: int
    prev_index: int
    prev_term: int
    entries: tuple[Entry, ...] = ()


class AppendReply(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=6):
    """The follower's log agrees with the leader's. Sent at once if there was nothing to write, and whenever more of it
    has become durable.

    Attributes:
        term: the follower's term.
        round: the newest read round that the follower has seen in this term.
        matched: the follower's log agrees with the leader's up to here, in memory.
        durable: and up to here it is on the follower's disk; only this counts towards commit (RA-11).
        version: the latest version of the state machine that the follower understands.
    """

    term: int
    round: int
    matched: int
    durable: int
    version: int = OLDEST


class AppendRefusal(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=7):
    """The follower does not have the entry that an Append builds on (RA-15), or its term is higher than the sender's.

    Attributes:
        term: the follower's term. If it is higher than the leader's, nothing else in here counts.
        round: the newest read round that the follower has seen in this term: a log that does not match yet is no reason
            not to confirm leadership.
        prev_index: the `prev_index` that was refused.
        try_index: the follower's last entry before `prev_index` whose term is no higher than the leader's was there:
            on nothing between can the logs agree.
        try_term: its term. Nor can they agree where the leader's terms are higher: so what differs is skipped term by
            term, and of a term that only ends differently nothing is sent again (after etcd).
        version: the latest version of the state machine that the follower understands.
    """

    term: int
    round: int
    prev_index: int
    try_index: int
    try_term: int = 0
    version: int = OLDEST


class SnapshotChunk(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=8):
    """A part of a snapshot, from the leader of `term`, for a follower that lacks entries which the leader has no more.

    Attributes:
        term: the leader's term.
        round: as in Append.
        index: of the last entry that the snapshot covers.
        last_term: its term.
        configurations: those in the log up to there (`splitbrain.cluster.raft.membership`).
        offset: where in the snapshot's state `data` begins, in bytes.
        size: of the whole state, in bytes.
        data: the part; not empty, except for that of an empty state.
        version: of the state machine that is in force there.
    """

    term: int
    round: int
    index: int
    last_term: int
    configurations: bytes
    offset: int
    size: int
    data: bytes
    version: int = OLDEST


class SnapshotReply(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=9):
    """How much of a snapshot the follower has, if that is not all of it.

    Attributes:
        term: the follower's term.
        round: the newest read round that the follower has seen in this term.
        index: of the snapshot.
        offset: it has the state up to here. Once it has all of it, it sends an AppendReply.
        version: the latest version of the state machine that the follower understands.
    """

    term: int
    round: int
    index: int
    offset: int
    version: int = OLDEST


class TimeoutNow(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=10):
    """The leader of `term` asks a member to stand for election at once (RA-31, Raft thesis 3.10)."""

    term: int


Message: TypeAlias = (
    PreVote
    | PreVoteReply
    | Vote
    | VoteReply
    | Append
    | AppendReply
    | AppendRefusal
    | SnapshotChunk
    | SnapshotReply
    | TimeoutNow
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


encode: Final[Callable[[Message], bytes]] = _encoder.encode
"""The wire form of a message."""


decode: Final[Callable[[bytes], Message]] = _decoder.decode
"""The message that `encode` made these bytes from; msgspec.DecodeError if they are none (a ValidationError is one)."""
