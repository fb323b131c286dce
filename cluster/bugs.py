"""Bugs that can be switched on, to prove that the harness finds them. Every one of them is off unless it is named.

Ids are those of the mutation catalogue. A bug is one entry in `ALL` and one hook, a few lines at most, in the code that
it breaks; the hook asks `BUG in bugs` (once, at construction, where it would cost on a hot path). What a switch must
never be is a default, an environment variable, or a fallback for something that could not be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Of: TypeAlias = Literal["metadata", "tables", "formation"]
"""What a switch is of: the metadata cluster, the table store, or the formation of a cluster, which is over before a
test begins, and which tests of its own explore (`tests/cluster/discovery`)."""


class UnknownBugError(ValueError):
    """There is no bug of that id. Its message lists those that there are."""


@dataclass(frozen=True, slots=True)
class Bug:
    """One switch.

    Attributes:
        id: e.g. "M23".
        line: what is broken, in one line.
        source: the system and issue that had it, or the rule that it breaks.
        seen_by: the checkers that can see it.
        of: the system that it is a switch of.
    """

    id: str
    line: str
    source: str
    seen_by: tuple[str, ...]
    of: Of = "metadata"


M01: Final = Bug(
    "M01",
    "a node's vote is not persisted: after a restart the node can vote again in the same term",
    "Raft 5.2",
    ("durability", "election-safety"),
)
M02: Final = Bug(
    "M02",
    "the current term is not persisted: a restarted node begins at term 0, and terms are reused",
    "Raft 5.2",
    ("durability", "election-safety"),
)
M03: Final = Bug(
    "M03",
    "a vote is granted to a candidate whose log lacks entries of the voter's log",
    "Raft 5.4.1; RedisRaft #28, #44",
    ("leader-completeness",),
)
M04: Final = Bug(
    "M04",
    "a pre-vote that is granted is written down as a vote",
    "ra bbd00102",
    ("election-safety",),
)
M05: Final = Bug(
    "M05",
    "a node that stands for election grants no pre-vote",
    "ra #439",
    ("quorum-progress", "recovery"),
)
M06: Final = Bug(
    "M06",
    "a node stands for election without a pre-vote: it raises its term whenever it hears no leader",
    "etcd 3.4",
    ("quorum-progress",),
)
M07: Final = Bug(
    "M07",
    "a leader follows the higher term of a node that is no member any more",
    "Raft thesis 4.2.3",
    ("removed-members", "quorum-progress"),
)
M08: Final = Bug(
    "M08",
    "a learner stands for election, and counts its own vote",
    "ra 114d1d37, 4196322e",
    ("election-safety", "votes"),
)
M09: Final = Bug(
    "M09",
    "quorum is N/2 instead of N/2 + 1, for elections, commit and reads, and learners count",
    "RedisRaft #44",
    ("election-safety", "leader-completeness", "linearizable", "votes", "commit-majority", "read-majority"),
)
M10: Final = Bug(
    "M10",
    "a candidate counts each reply as a vote, also a second one of the same node",
    "ra counts votes as a number",
    ("election-safety", "votes"),
)
M11: Final = Bug(
    "M11",
    "a leader commits entries of earlier terms as soon as a majority has them",
    "Raft 5.4.2, figure 8",
    ("leader-completeness", "linearizable", "replica-agreement", "read-majority", "commit-majority"),
)
M12: Final = Bug(
    "M12",
    "a follower takes over the commit index for entries that it did not compare with the leader's",
    "ra #508",
    ("replica-agreement",),
)
M13: Final = Bug(
    "M13",
    "entries that replace others in the log pass for synced, because those before them were",
    "ra 39490978",
    ("durability", "leader-completeness", "linearizable"),
)
M14: Final = Bug(
    "M14",
    "a late report of the disk about entries that were replaced confirms those that replaced them",
    "ra #516",
    ("durability", "leader-completeness", "linearizable", "quorum-progress"),
)
M15: Final = Bug(
    "M15",
    "entries are acknowledged, and counted by the leader, before they are synced to disk",
    "etcd #14140",
    ("durability", "leader-completeness", "linearizable"),
)
M16: Final = Bug(
    "M16",
    "a checkpoint holds entries that are not durable in the log: after a crash the log ends before it",
    "ra ffe3016a",
    ("durability", "crashes", "recovery"),
)
M17: Final = Bug(
    "M17",
    "the leader applies and answers a command as soon as it is appended, before a quorum has it",
    "MongoDB w:1",
    ("commit-monotonic", "replica-agreement", "linearizable"),
)
M18: Final = Bug(
    "M18",
    "a leader pays no attention to a higher term, and takes a refusal for an answer",
    "the assertion of RA-17",
    ("quorum-progress", "recovery"),
)
M19: Final = Bug(
    "M19",
    "a follower does not compare the term of the entry that a message of the leader builds on",
    "CCF #5674",
    ("log-matching", "replica-agreement"),
)
M20: Final = Bug(
    "M20",
    "a follower cuts off what an old message of its leader does not mention",
    "RedisRaft #60",
    ("log-matching", "leader-completeness", "quorum-progress"),
)
M21: Final = Bug(
    "M21",
    "a majority does not become smaller when a member leaves",
    "ra #516",
    ("crashes", "quorum-progress", "recovery"),
)
M22: Final = Bug(
    "M22",
    "a link to a peer that broke is never dialled again",
    "rabbitmq-server #12934",
    ("recovery", "quorum-progress"),
)
M23: Final = Bug(
    "M23",
    "the leader answers reads from its own state, without asking a majority whether it still leads",
    "etcd #741; Consul 2014",
    ("linearizable", "quorum-progress", "read-majority"),
)
M24: Final = Bug(
    "M24",
    "a new leader answers reads before the no-op of its term is committed",
    "ra cc797663; RedisRaft #22",
    ("linearizable", "read-majority"),
)
M25: Final = Bug(
    "M25",
    "a follower confirms rounds of reads that an earlier leader began",
    "ra #340",
    ("linearizable", "quorum-progress", "read-majority"),
)
M26: Final = Bug(
    "M26",
    "a leader counts confirmations of rounds of reads that were meant for its earlier terms",
    "ra #483",
    ("linearizable", "quorum-progress", "read-majority"),
)
M27: Final = Bug(
    "M27",
    "a lease is counted in heartbeats, which stand still while the leader is paused (needs lease-reads)",
    "etcd #20418",
    ("linearizable", "quorum-progress", "read-majority"),
)
M28: Final = Bug(
    "M28",
    "a read that waits for an entry is answered as soon as the term is higher, entry or not",
    "khepri 0.19",
    ("session",),
)
M29: Final = Bug(
    "M29",
    "a read does not wait for the entries that are committed and not applied yet",
    "RedisRaft #18, #30",
    ("linearizable",),
)
M30: Final = Bug(
    "M30",
    "a node that does not support the version in force applies nothing more, but answers local reads",
    "ra apply_with",
    ("session",),
)
M31: Final = Bug(
    "M31",
    "a command whose leader stepped down is proposed again, although it may have been committed, and refs are ignored",
    "khepri d9d78f9",
    ("counter", "linearizable"),
)
M32: Final = Bug(
    "M32",
    "a snapshot lacks the results by ref: behind it, a command that was sent again is carried out twice",
    "khepri 481c402",
    ("counter", "linearizable", "replica-agreement"),
)
M32B: Final = Bug(
    "M32B",
    "results by ref are dropped at the leader's next tick, however long they were to be kept",
    "khepri 481c402",
    ("counter", "linearizable"),
)
M32C: Final = Bug(
    "M32C",
    "results are kept by number alone: a command is answered with the result of another client's",
    "khepri 481c402",
    ("counter", "linearizable"),
)
M33: Final = Bug(
    "M33",
    "a command that timed out is answered as if it had not happened",
    "a declare that timed out may exist",
    ("linearizable", "poison"),
)
M34: Final = Bug(
    "M34",
    "a transaction that is aborted leaves what it had written until then",
    "RedisRaft's aborted reads",
    ("rw-register", "bank", "linearizable"),
)
M35: Final = Bug(
    "M35",
    "some commands write what differs from node to node",
    "deterministic machines, Ra",
    ("replica-agreement",),
)
M36: Final = Bug(
    "M36",
    "applying an update of what does not exist ends the node, after every restart again",
    "khepri 0816989",
    ("crashes", "recovery"),
)
M37: Final = Bug(
    "M37",
    "a snapshot holds one entry more than it says, which is applied again behind it",
    "etcd #13514",
    ("replica-agreement", "log-matching"),
)
M38: Final = Bug(
    "M38",
    "a follower that takes over a snapshot keeps the members that it knew",
    "ra b4f4e936",
    ("quorum-progress", "election-safety", "recovery", "member-changes"),
)
M39: Final = Bug(
    "M39",
    "a projection is not built anew when a node takes over a snapshot of its leader",
    "khepri 28bd581, in RabbitMQ 3.13.3",
    ("replica-agreement", "projections", "topology"),
)
M40: Final = Bug(
    "M40",
    "a checkpoint lets the log go, though a loss of power may take it: the node then has neither, and does not start",
    "S004; Ra pull request 415",
    ("durability", "crashes", "recovery"),
)
M41: Final = Bug(
    "M41",
    "a checkpoint is renamed to be the snapshot before it is synced",
    "ra_snapshot's order of promotion",
    ("durability", "crashes", "recovery"),
)
M42: Final = Bug(
    "M42",
    "a checkpoint that is not whole after a loss of power is not skipped: the node does not start",
    "ra find_checkpoints",
    ("durability", "crashes", "recovery"),
)
M43: Final = Bug(
    "M43",
    "the rest of an unfinished write is taken for a record of the log, and damage to what was durable for such a rest",
    "ra is_last_record; RedisRaft #43",
    ("durability", "replica-agreement", "leader-completeness"),
)
M44: Final = Bug(
    "M44",
    "a file of the write-ahead log is removed before the next one is there, and a start without any goes on",
    "ra f68c255a",
    ("durability", "leader-completeness"),
)
M45: Final = Bug(
    "M45",
    "a group that is made again has the uid of the former one, and its entries",
    "ra INTERNALS.md",
    ("durability",),
)
M46: Final = Bug(
    "M46",
    "a follower that receives a snapshot listens to nothing else, although its leader may be gone",
    "ra 9dde234f",
    ("quorum-progress", "recovery"),
)
M47: Final = Bug(
    "M47",
    "a change of members may begin before the one before it is committed",
    "raft-dev 2015; RedisRaft #17",
    (
        *("election-safety", "leader-completeness", "replica-agreement", "linearizable", "log-matching"),
        "member-changes",
    ),
)
M48: Final = Bug(
    "M48",
    "a new leader may change members before it has committed the no-op of its term",
    "Ongaro 2015; ra dbc9f0d9",
    (
        *("election-safety", "leader-completeness", "replica-agreement", "linearizable", "log-matching"),
        "member-changes",
    ),
)
M49: Final = Bug(
    "M49",
    "a restarted node forgets the changes of members in its log",
    "ra 110b8d63",
    ("election-safety", "quorum-progress", "recovery", "member-changes"),
)
M50: Final = Bug(
    "M50",
    "a change of members stays in force on a node from whose log it was cut off",
    "ra 82e5ca2f",
    ("quorum-progress", "election-safety", "recovery", "member-changes"),
)
M51: Final = Bug(
    "M51",
    "a node that lost its data joins again as the member that it was",
    "khepri 99ba65d; etcd #21271",
    ("election-safety", "leader-completeness", "durability"),
)
M52: Final = Bug(
    "M52",
    "a learner that reaches its target by a snapshot is not made a voter before it gets another entry",
    "ra e373a647",
    ("quorum-progress", "recovery"),
)
M53: Final = Bug(
    "M53",
    "what nothing keeps any more goes, but what depends on that stays",
    "khepri 938f34a, 2a8e7a0; KH-7",
    ("linearizable", "topology"),
)
M54: Final = Bug(
    "M54",
    "a pattern of children matches grandchildren, for triggers and projections",
    "khepri f523f28; KH-14",
    ("projections",),
)
M55: Final = Bug(
    "M55",
    "a put leaves the version of the payload as it was, so that an update by version overwrites another",
    "khepri squash_version_bumps; KH-1",
    ("linearizable",),
)
M56: Final = Bug(
    "M56",
    "projections keep the records of nodes that went because nothing kept them any more",
    "the class of khepri 28bd581; KH-14",
    ("projections",),
)
M57: Final = Bug(
    "M57",
    "the index of routes holds one record for bindings that differ in arguments alone: the end of one ends them all",
    "rabbitmq-server #14533",
    ("topology",),
)
M58: Final = Bug(
    "M58",
    "a binding is made to what was there when it was looked up, before the transaction that makes it",
    "rabbit_db_binding:create",
    ("topology",),
)
M59: Final = Bug(
    "M59",
    "a node that takes another one for down removes the transient queues of that, which serves on with its clients",
    "rabbitmq-server #12597, #12949, pull request #14573; DB-5",
    ("topology",),
)
M64: Final = Bug(
    "M64",
    "changes of the tables that are queued are applied to the tree before a record of the checkpoint that is older",
    "khepri_mnesia_migration's order of copy and events; ad8a5ca",
    ("migration",),
)
M65: Final = Bug(
    "M65",
    "the tables take changes while those that are queued are applied to the tree for the last time",
    "khepri_mnesia_migration's final sync",
    ("migration",),
)
M66: Final = Bug(
    "M66",
    "an operation that the tables carried out is repeated if the migration went on meanwhile, also one that may not be",
    "khepri_mnesia_migration 80bf700, c0eb9b0",
    ("migration",),
)
M67: Final = Bug(
    "M67",
    "a controller enables a feature flag on one member after the other, by its own word; who takes over undoes it",
    "rabbit_ff_controller; D6",
    ("flags",),
)
M68: Final = Bug(
    "M68",
    "a node that found no cluster founds one alone after its last attempt, though others may do the same",
    "rabbit_peer_discovery; PD-3",
    ("one-cluster",),
    "formation",
)
M69: Final = Bug(
    "M69",
    "a node joins one that is in no cluster yet and may join another: then the first is in none, and believes it is",
    "rabbit_peer_discovery, query_node_props; PD-4",
    ("one-cluster",),
    "formation",
)
M70: Final = Bug(
    "M70",
    "the name of a queue's leader in the metadata stays as it was first, and nodes without a member ask that one alone",
    "rabbitmq-server pull request #1871; QQ-9",
    ("replicas",),
)
M71: Final = Bug(
    "M71",
    "a delivery that fails because its consumer died is not counted: a message that kills consumers goes on for ever",
    "RabbitMQ's delivery limit; QQ-3",
    ("poison",),
)
M72: Final = Bug(
    "M72",
    "the numbers of publishers are lost with a snapshot: what is sent again behind it is in the queue twice",
    "rabbit_fifo; QQ-2",
    ("replica-agreement",),
)
M73: Final = Bug(
    "M73",
    "all consumers of a node that is up, as each new leader finds it, become active beside the single active one",
    "rabbit_fifo; QQ-4",
    ("single-active",),
)
M75: Final = Bug(
    "M75",
    "a dead letter is settled when it is sent, before the queue for dead letters has confirmed it, and not sent again",
    "rabbit_fifo_dlx; QQ-5",
    ("poison",),
)
M76: Final = Bug(
    "M76",
    "a new replica of a queue is placed on a node that is being drained",
    "rabbit_queue_type_util, continuous membership reconciliation; CMR-2, S001",
    ("replicas",),
)
M76B: Final = Bug(
    "M76B",
    "the leader of a queue adds one replica more than the target, as if one of the live ones did not count",
    "rabbit_quorum_queue_periodic_membership_reconciliation; CMR-3, S001",
    ("replicas",),
)
M76C: Final = Bug(
    "M76C",
    "a replica whose node is down is removed before it is replaced: the queue dips below its target meanwhile",
    "rabbit_quorum_queue_periodic_membership_reconciliation, auto_remove; CMR-3, S001",
    ("replicas",),
)
M77: Final = Bug(
    "M77",
    "the next writer of a stream is chosen once a single member was stopped: it may lack what was confirmed",
    "rabbit_stream_coordinator; ST-1",
    ("stream",),
)
M78: Final = Bug(
    "M78",
    "a member that has not caught up since it started, or builds a projection, answers that a record is not there",
    "an empty table read as a negative answer; KH-15",
    ("projections",),
)
M79: Final = Bug(
    "M79",
    "a segment of a classic queue is converted in place and not synced: a crash leaves a part of it",
    "S003, conversion between versions of records; CQ-4",
    ("crashes",),
)
M80: Final = Bug(
    "M80",
    "a leader without replies of a majority stays leader, and continues its heartbeats",
    "D12",
    ("quorum-progress",),
)
M81: Final = Bug(
    "M81",
    "a node that lost its leader acknowledges writes, and forgets them",
    "split brain",
    ("linearizable", "session", "quorum-progress"),
)
M82: Final = Bug(
    "M82",
    "a node that finds a majority stopped, or not started yet, answers reads from what it holds",
    "S000",
    ("quorum-progress",),
)
M83: Final = Bug(
    "M83",
    "under ignore a node that runs apart from others restarts once it sees all, and drops what it alone had",
    "MN-4",
    ("strategy-ignore",),
    "tables",
)
M83B: Final = Bug(
    "M83B",
    "a node that learns of a partial partition leaves it as it is",
    "MN-8",
    ("strategy-ignore", "strategy-autoheal", "strategy-pause-minority", "strategy-pause-if-all-down"),
    "tables",
)
M83C: Final = Bug(
    "M83C",
    "a node that sees one again which it had lost counts it as a replica again, although the tables may differ",
    "MN-3",
    ("strategy-apart",),
    "tables",
)
M83D: Final = Bug(
    "M83D",
    "a node that loses another one asks no third node whether it sees that: partial partitions are not found out",
    "MN-8",
    ("strategy-ignore", "strategy-autoheal", "strategy-pause-minority", "strategy-pause-if-all-down"),
    "tables",
)
M83E: Final = Bug(
    "M83E",
    "a node is taken for down when it was silent for half of the tick time",
    "MN-2",
    ("strategy-down",),
    "tables",
)
M83F: Final = Bug(
    "M83F",
    "a node is taken for down only when it was silent for ten tick times",
    "MN-2",
    ("strategy-down",),
    "tables",
)
M84: Final = Bug(
    "M84",
    "half of all nodes pass for a majority: both halves of an equal split serve on",
    "MN-5",
    ("strategy-pause-minority",),
    "tables",
)
M84B: Final = Bug(
    "M84B",
    "a node that has paused goes on only once it sees all nodes, not a majority",
    "MN-5",
    ("strategy-pause-minority",),
    "tables",
)
M84C: Final = Bug(
    "M84C",
    "a node that paused in a partial partition goes on with a majority, not with all nodes",
    "MN-8",
    ("strategy-pause-minority",),
    "tables",
)
M84D: Final = Bug(
    "M84D",
    "a node that has paused answers reads from the tables that it holds",
    "MN-5",
    ("strategy-pause-minority", "strategy-pause-if-all-down"),
    "tables",
)
M85: Final = Bug(
    "M85",
    "under pause-if-all-down a node that sees any other one serves on, also if that is not listed",
    "MN-6",
    ("strategy-pause-if-all-down",),
    "tables",
)
M85B: Final = Bug(
    "M85B",
    "the two ways to recover of pause-if-all-down are confused: ignore heals, autoheal does not",
    "MN-6",
    ("strategy-ignore", "strategy-autoheal"),
    "tables",
)
M86: Final = Bug(
    "M86",
    "autoheal lets the partition with the fewest clients win",
    "MN-7",
    ("strategy-autoheal",),
    "tables",
)
M86B: Final = Bug(
    "M86B",
    "each node that runs apart from others decides who wins, as if it were the leader",
    "MN-7",
    ("strategy-autoheal",),
    "tables",
)
M86C: Final = Bug(
    "M86C",
    "a loser does not stop: it goes on with its own tables",
    "MN-7",
    ("strategy-autoheal",),
    "tables",
)
M86D: Final = Bug(
    "M86D",
    "the winner restarts with the losers: what its partition acknowledged may go, too",
    "MN-7",
    ("strategy-autoheal",),
    "tables",
)
M86E: Final = Bug(
    "M86E",
    "autoheal does not look at clients: the partition with the most nodes wins",
    "MN-7",
    ("strategy-autoheal",),
    "tables",
)
M87: Final = Bug(
    "M87",
    "a write is applied by its coordinator alone: the other replicas that are up vote for it, and forget it",
    "MN-1",
    ("linearizable", "declare", "set"),
    "tables",
)
M87B: Final = Bug(
    "M87B",
    "a write locks its record on the replica of its coordinator alone, not on all that are up",
    "MN-1",
    ("linearizable", "declare", "set"),
    "tables",
)
M90: Final = Bug(
    "M90",
    "a transaction that writes what follows from its reads is committed without a look at what it read",
    "optimistic concurrency control, Kung and Robinson 1981",
    ("rw-register", "bank", "g2", "monotonic", "linearizable"),
)
M91: Final = Bug(
    "M91",
    "of what a transaction read every other key alone is compared when it is committed",
    "optimistic concurrency control, Kung and Robinson 1981",
    ("rw-register", "bank", "g2", "monotonic", "linearizable"),
)
M92: Final = Bug(
    "M92",
    "a transaction that only reads has the snapshot of what the client's node has applied, not of the read index",
    "TiDB and CockroachDB follower reads",
    ("list-append", "rw-register", "monotonic", "linearizable", "topology", "quorum-progress"),
)
M93: Final = Bug(
    "M93",
    "an abort takes back the nodes that the transaction made, and not what it wrote to others",
    "a partial rollback",
    ("rw-register", "bank", "linearizable"),
)
M94: Final = Bug(
    "M94",
    "a transaction that met a conflict is acknowledged, and never tried again",
    "a lost retry",
    ("rw-register", "g2", "monotonic", "linearizable"),
)
M95: Final = Bug(
    "M95",
    "a new leader takes the events of triggers that still wait for done",
    "KH-13",
    ("triggers",),
)
M96: Final = Bug(
    "M96",
    "of the triggers of one change those of the lowest priority run first",
    "KH-13",
    ("triggers",),
)
M97: Final = Bug(
    "M97",
    "a transaction reads its first key at the leader, and the others in the state of the replica that the client asked",
    "parallel snapshots, Sovran, Power, Aguilera and Li 2011",
    ("long-fork", "list-append", "rw-register", "bank", "monotonic", "linearizable"),
)

M98: Final = Bug(
    "M98",
    "the writer of a stream confirms a message once it has it itself, before a majority does",
    "osiris_writer; ST-2",
    ("stream", "commit-majority"),
)
M99: Final = Bug(
    "M99",
    "a replica of a stream keeps what it has behind the position where its log agrees with the writer's",
    "osiris_replica; ST-2",
    ("stream",),
)

ALL: Final[dict[str, Bug]] = {found.id: found for found in list(globals().values()) if isinstance(found, Bug)}
"""Every bug that a run can find, by id, in the order of ids."""


def lines_of(system: Of) -> dict[str, str]:
    """For each switch of a system what is broken, its source, and the checkers that can see it."""
    return {
        bug.id: f"{bug.line} ({bug.source}); seen by {', '.join(bug.seen_by)}"
        for bug in ALL.values()
        if bug.of == system
    }


_LETS_COMMITTED_ENTRIES_GO: Final = frozenset(
    {M01, M02, M03, M08, M09, M10, M11, M12, M13, M14, M15, M19, M20, M43, M44, M47, M48, M49, M50, M51}
)


class Bugs:
    """The bugs that are switched on in one node: an immutable set, in the order of ids."""

    __slots__ = ("ids",)

    ids: tuple[str, ...]

    def __init__(self, ids: Iterable[str] = ()) -> None:
        wanted = list(ids)
        for bug_id in wanted:
            if bug_id not in ALL:
                raise UnknownBugError(f"no bug is called {bug_id!r}; there are {', '.join(ALL)}.")
        object.__setattr__(self, "ids", tuple(bug_id for bug_id in ALL if bug_id in wanted))

    @property
    def lets_committed_entries_go(self) -> bool:
        """Whether a log may lose what is committed: then no assertion may stop the node before anyone can see it."""
        return any(bug in self for bug in _LETS_COMMITTED_ENTRIES_GO)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"bugs cannot be changed in a running node: {name} is read-only")

    def __contains__(self, bug: Bug) -> bool:
        return bug.id in self.ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bugs) and self.ids == other.ids

    def __hash__(self) -> int:
        return hash(self.ids)

    def __repr__(self) -> str:
        return f"Bugs({list(self.ids)!r})"


NO_BUGS: Final = Bugs()
