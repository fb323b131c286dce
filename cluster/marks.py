"""Coverage marks: which states of the cluster a run has reached.

`reached` stands where a state is known to have come about. A simulation counts what is reached while it lasts, in all
the nodes that it runs, and shows the zeros as well: a state that no run ever reached is one that no run has tested
(TigerBeetle's `coverage` marks; FoundationDB's `TEST` macro).

Outside of `counted` and `heard` a mark costs two comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final

MARKS: Final[Mapping[str, str]] = {
    # elections
    "pre-vote refused": "a node refused a pre-vote",
    "vote granted": "a node voted for another",
    "vote refused to a second candidate": "a node had voted for another candidate of the term",
    "vote refused to a shorter log": "a candidate's log lacked what the voter's had",
    "vote refused to an old machine version": "a candidate did not understand the version in force",
    "vote refused while a leader is heard": "with leases, a node did not help to replace a leader that it heard",
    "vote refused to an old term": "a candidate asked for votes in a term that was over",
    "vote asked for again": "a candidate had no majority yet at its next tick",
    "election won": "a candidate got a majority",
    "election won by another": "a candidate received a message of the leader of its own term",
    "election without a winner": "a candidate got no majority in time",
    "leader met a higher term": "a leader stepped down because a message had a higher term",
    "leader heard no majority": "a leader stepped down because too few had replied for too long",
    "vote of an old term ignored": "a candidate received the answer to its request for votes in an earlier term",
    "vote came too late": "a vote that was granted came once its candidate stood in a later term",
    "candidate beside a learner": "a member asked for votes while another one was a learner, which has none",
    "removed member stood": "a member stood although its removal was in its log, which it did not know to be committed",
    "reply of an old term ignored": "a leader received a follower's agreement with what it had sent in an earlier term",
    "old leader spoke": "a leader of an earlier term was informed of the later one",
    # the log
    "no-op committed": "a new leader committed the entry with which its term begins",
    "follower's log did not match": "a leader had to look for where the logs agree, and send from there",
    "log cut off by a new leader": "a follower's entries were replaced by a leader's",
    "stale sync ignored": "entries that had just become durable had been cut off meanwhile",
    "snapshot written": "a node made a snapshot of what it had applied durable",
    "log compacted": "entries that a durable snapshot covers were dropped",
    "snapshot sent in parts": "a follower lacked entries that its leader had dropped",
    "snapshot installed": "a follower took over a snapshot of its leader",
    "snapshot given up": "a follower that had a part of a snapshot got no more of it for long",
    "snapshot of a later version refused": "a follower did not take over a snapshot that it does not understand",
    "log applied in slices": "more was committed at once than a node applies in one go",
    "read between two slices": "a local read was answered while entries that are committed waited to be applied",
    # versions of the state machine
    "machine version raised": "a leader put a later version into force, which all members had said they understand",
    "member is outdated": "a version was put into force that a member does not understand: it applies nothing more",
    "state of an outdated member refused": "a local read was refused, since the node does not apply any more",
    # members
    "change of members refused": "a leader refused a change of members: not now, or not valid",
    "change of members taken back": "the entry that changed the members was cut off by a new leader",
    "learner became a voter": "a leader promoted a learner that had caught up",
    "leadership handed over": "a leader asked another member to stand for election",
    "stood as the leader asked": "a member stands for election at once, as the leader asked it to",
    "shrunk by force": "a node was made the only member",
    "leader left": "a leader that is a member no longer committed that, and stepped down",
    "link to a former member closed": "a node that had left was taken in again, as another member",
    # requests
    "read waited for the no-op": "a new leader did not yet know what was committed",
    "read on a lease": "a leader answered a read without asking, since its lease had not run out",
    "lease had run out": "a leader with leases had to ask a majority before it answered a read",
    "read waited for an entry": "a local read came before the entry that it wants to see",
    "read refused as leadership was lost": "a leader rejected reads that no majority had confirmed",
    "command dropped": "a leader stepped down with a command in its log whose outcome is unknown",
    "leader was busy": "a leader refused a request because too many were under way",
    "request waited for a leader": "a node knew no leader that it could reach",
    "answer waited for this node": "a command was answered only when the node that was asked had applied it",
    "answer waited for a member": "a command was answered only when a member that was named had applied it",
    "pipelined command rejected": "a node that does not lead was asked to take part in a pipeline",
    "command without a reply dropped": "a node that could reach no leader got a command that wants no reply",
    "low commands waited for their turn": "a leader put some commands of low priority into its log, others had to wait",
    "low command dropped": "a leader stepped down before it had put a command of low priority into its log",
    "entry not applied in time": "a node did not apply what a request waited for until it timed out",
    "request found no leader in time": "no leader could be reached until the request timed out",
    "request got no majority in time": "a leader could not commit a command, or confirm a read, until it timed out",
    "forwarded request got no answer in time": "a request had been passed on, and timed out",
    "request forwarded": "a node passed a request on to the leader",
    "forward refused": "a node that did not lead was taken for the leader",
    "answer of a former life ignored": "the answer to a forwarded request came after its node was started again",
    "repeated forward ignored": "a request passed on by a peer arrived twice",
    "repeated request ignored": "a client's request arrived twice",
    "protected command came again": "a command was answered with the result of its first copy",
    "late copy of a protected command refused": "a copy came when its client had no more need of the result",
    "projection asked before it was built": "a node that had not caught up since its start was asked for a record",
    "record of a silent client dropped": "results were dropped, as their client had sent nothing for long",
    # effects of the machine
    "timer of the machine ran out": "a leader put a timeout of its machine into the log",
    "command of the machine waited for a busy leader": "too much was under way to append a command of the machine",
    # links
    "link broke": "a connection to a peer broke",
    "link came up again": "a link that had broken got a new connection",
    "peer taken for down": "a node heard nothing of another one for longer than it is used to",
    "peer no longer taken for down": "a node that had been taken for down was heard again",
    "dial not answered": "a peer did not answer in time when it was dialled",
    "messages for a peer were thrown away": "too many waited for a connection, so the oldest were dropped",
    "connection made no sense": "what came on a connection was none of the protocol's, or not in its place",
    "message for a group that is not here": "a peer's member of a group spoke to a node that has none",
    "message for another group of the name": "a peer spoke of another incarnation of a group than the one that is here",
    # groups
    "group stopped alone": "something happened in a group that its rules exclude, and the node went on",
    "queue begun": "a node began its member of the group of a queue, as the metadata say that there is one",
    "queue ended": "a node ended its member of the group of a queue, whose record was gone",
    "queue left by a member": "a member was made to leave a queue",
    "queue's replicas changed by its leader": "the leader of a queue began a change of its members by itself",
    "change of a queue's replicas given up": "a change of a queue's members ended without effect",
    "queue handed over by a node that is drained": "a leader had another member lead a queue, as its node is drained",
    "queue joined by a member": "a member of the cluster was taken into a queue",
    "queue waited for its record": "the leader of a queue did not have its configuration from the metadata yet",
    "dead letter published": "the leader of a queue sent a dead letter to another one",
    "queue's leader noted": "the record of a queue named another leader than the one that it has, or none",
    "request passed on to another node's queue": "a node without a member of a queue passed a request on",
    "dead letter confirmed": "the queue for dead letters confirmed one, and the worker settled it",
    "dead letter not confirmed": "the queue for dead letters did not confirm one, which is published again",
    "dead letter without a queue": "a dead letter was dropped: there is no such queue",
    "dead letter went round": "a dead letter was not passed on to a queue that it came from without a rejection",
    # classic queues
    "classic queue converted": "a node converted the files of a classic queue to records of version 2",
    "message of a classic queue went back": "what was taken from a classic queue was not settled in time",
    "message of a classic queue dropped": "a message of a classic queue was delivered as often as it may be",
    "dead letter of a classic queue handed over": "a classic queue gave a dead letter to another queue, which has it",
    "dead letter of a classic queue not handed over": "the queue for a dead letter of a classic queue did not take it",
    "conversion of a classic queue refused": "a node had an alarm, or too much to convert: it tries again each second",
    "settings of a classic queue changed": "a policy or its record gave a classic queue other settings",
    "request passed on to the node that holds a classic queue": "a node passed a request on to the one that can do it",
    # streams
    "coordinator of streams begun": "a node began its member of the coordinator's group, as there is a stream",
    "coordinator of streams begun on a node that came later": "a node that is no founder began its member of the group",
    "coordinator of streams joined by a member": "the coordinator's group took in a node that joined the cluster",
    "coordinator of streams left by a member": "the coordinator's group let a node go that left the cluster",
    "coordinator of streams handed over by a node that is drained": "another node leads the coordinator's group since",
    "copies of a stream changed by the leader": "the leader of the coordinator's group began a change by itself",
    "copy of a stream given a vote": "a further copy of a stream had caught up, and is of the next epoch",
    "writer of a stream chosen": "enough members of a stream had said where their logs end, and the next epoch began",
    "log of a stream cut off": "a replica of a stream had what the writer does not have, and cut it off",
    "beginning of a stream's log dropped": "a copy of a stream dropped what is too old, or too much",
    "beginning of a stream's log dropped by its writer": "a replica lacked what the writer of a stream had dropped",
    "message of a stream came again": "the writer of a stream got a message that its publisher had sent before",
    "request passed on to the writer of a stream": "a node that does not write a stream passed a request on",
    "write-ahead log flooded": "a leader refused a command, because too much waited to be written",
    "fenced read asked another node": "a node waited for what the leader that it knew said it had",
    # the store
    "store used in slices": "a read of many nodes, or a large state that was written down, let messages in meanwhile",
    "state written down in slices": "a checkpoint or snapshot of a large state was made between other work",
    "projection built in slices": "a projection took so long to build that messages and commands came in between",
    # feature flags
    "flag inventory taken": "a controller knew of all members which flags they know",
    "flag lock taken": "the first member agreed to a change of a flag: no other one begins",
    "flag marked": "a member agreed to a change of a flag",
    "flag callback done": "a member did what enabling a flag takes",
    "flag change proposed": "all members agreed to a change of a flag, and its controller proposed to enable it",
    "flag change decided": "a majority accepted how to decide a change of a flag, or its controller gave it up",
    "flag change closed": "a member learned how a change of a flag was decided",
    "flag change undone": "a member that had agreed to a change of a flag learned that it was undone",
    "flag change waited for another one": "a member refused a change of a flag, since another one was under way",
    "flag change taken over": "a member heard nothing of a change of a flag, and finished it",
    "flag change outbid": "two members finished a change of a flag at the same time",
    "flags synchronised": "a node that joined took over which flags are enabled",
    "flags refused a node": "a node did not join, since a flag is enabled that it does not know",
    # the disk
    "recovered with a log": "a node started with entries that it had stored before",
    "write-ahead log rolled over": "a file of the write-ahead log was replaced by the next one",
    "former write-ahead file removed": "a node was stopped between a roll-over and the removal of the former file",
    "segment written": "committed entries were put into a segment",
    "segment kept for later entries": "a snapshot covered a part of a segment, which stays whole",
    "checkpoint written": "a node wrote down what it had applied, without a sync, and kept its log",
    "checkpoint written at the stop": "a node that stopped in good order wrote down what it had applied",
    "checkpoint thinned out": "there were too many checkpoints, and one from the middle was removed",
    "checkpoint kept for followers": "others were thinned out beside the one behind which the log in memory begins",
    "checkpoint promoted": "a checkpoint became the snapshot",
    "recovered from a checkpoint": "a node was stopped between a checkpoint and its promotion, and went on from it",
    "checkpoint skipped": "a checkpoint was not whole after a loss of power, and an earlier state was taken",
    "former snapshot removed": "a node was stopped between a new snapshot and the removal of what that replaces",
    "log replaced by a snapshot": "a snapshot of another member took the place of a log that differed",
    "files of a former group removed": "a node was stopped while it deleted a group",
    "torn tail cut off": "the end of the log was the rest of an unfinished write",
    "corruption refused": "a node refused to start, because something that had been durable was damaged",
    # two stores of entities
    "operation on entities dispatched": "a client's operation went to the store in force",
    "migration claiming": "a process took the migration of entities",
    "migration clearing": "what a former migration left in the tree is removed",
    "migration copying": "changes of the tables are queued, and a checkpoint is copied",
    "migration closing": "the tables are to take no more changes",
    "migration draining": "changes that were queued are applied to the tree",
    "migration retiring": "the tables are to answer nothing any more",
    "migration finishing": "all is in the tree, and the marker is to say so",
    "migration undoing": "a step of the migration failed",
    "migration finished": "a node knows that the tree is in force",
    "migration undone": "a node undid a migration that was not finished",
    "migration rolled back": "the tables are in force again, since a client wanted it",
    "rollback refused": "a client wanted the tables back, which lack what the tree has taken",
}
"""Every mark, with a line on when it is reached."""

OF_QUEUES: Final = frozenset(
    {
        "queue begun",
        "queue ended",
        "queue left by a member",
        "queue's replicas changed by its leader",
        "change of a queue's replicas given up",
        "queue handed over by a node that is drained",
        "queue joined by a member",
        "queue waited for its record",
        "dead letter published",
        "dead letter without a queue",
        "dead letter went round",
        "queue's leader noted",
        "request passed on to another node's queue",
        "dead letter confirmed",
        "dead letter not confirmed",
    }
)
"""Marks that are reached only where queues are declared."""

OF_STORES: Final = frozenset(
    mark for mark in MARKS if mark.startswith(("migration", "rollback", "operation on entities"))
)
"""Marks that are reached only where nodes have two stores of entities."""

OF_STREAMS: Final = frozenset(mark for mark in MARKS if "stream" in mark)
"""Marks that are reached only where there are streams."""

OF_CLASSIC: Final = frozenset(mark for mark in MARKS if "classic queue" in mark)
"""Marks that are reached only where there are classic queues."""

OF_FLAGS: Final = frozenset(mark for mark in MARKS if mark.startswith("flag"))
"""Marks that are reached only where feature flags are enabled."""

MARKS_VARIABLE: Final = "SPLITBRAIN_MARKS"
"""The environment variable that names the file in which a node process reports the marks that it passes."""

_counts: dict[str, int] | None = None
_hear: Callable[[str], None] | None = None


def reached(mark: str) -> None:
    """Count a mark, and let it be heard; outside of `counted` and `heard` nothing happens."""
    if _counts is not None:
        assert mark in MARKS, f"there is no mark {mark!r}: add it to splitbrain.cluster.marks.MARKS"
        _counts[mark] += 1
    if _hear is not None:
        _hear(mark)


@contextmanager
def heard(hear: Callable[[str], None]) -> Generator[None]:
    """Call `hear` with each mark at the moment at which a node passes it, while the context lasts. Cannot be nested."""
    global _hear
    assert _hear is None, "marks are being heard already"
    _hear = hear
    try:
        yield
    finally:
        _hear = None


@contextmanager
def unnoticed() -> Generator[None]:
    """Neither count marks nor let them be heard while the context lasts: what is done in it is no node's own doing."""
    global _counts, _hear
    kept, (_counts, _hear) = (_counts, _hear), (None, None)
    try:
        yield
    finally:
        _counts, _hear = kept


@contextmanager
def counted() -> Generator[Mapping[str, int]]:
    """Count while the context lasts; yields the counts of all marks, zeros included. Cannot be nested."""
    global _counts
    assert _counts is None, "marks are being counted already"
    _counts = dict.fromkeys(MARKS, 0)
    try:
        yield _counts
    finally:
        _counts = None
