"""Answers of commands about the metadata cluster."""

from __future__ import annotations

from typing import Any, TypedDict

from splitbrain.cluster.inspection import Damage, SegmentFile, StateFile, WalFile


class StatusRow(TypedDict, total=False):
    """A node of the cluster: what it says of itself, or what is wrong with it.

    Attributes:
        node: its name.
        problem: why it says nothing; then there is nothing else.
        role: follower, pre_candidate, candidate or leader.
        term: its current term.
        leader: the leader of that term, if it knows one.
        commit_index: the last entry that it knows to be committed.
        applied_index: the last entry that it has applied.
        chain_hash: over all applied entries in their order.
        state_hash: of the tree.
        machine_version: of the state machine in force.
        supported_version: the latest that it supports.
        outdated: whether a later one is in force: then it applies nothing more.
        down: nodes that it takes for down.
        received: bytes of a snapshot that have come, while parts are missing.
    """

    node: str
    problem: str
    role: str
    term: int
    leader: str | None
    commit_index: int
    applied_index: int
    chain_hash: str
    state_hash: str
    machine_version: int
    supported_version: int
    outdated: bool
    down: list[str]
    received: int


class MembersAnswer(TypedDict):
    """The members.

    Attributes:
        voters: members that vote.
        learners: members that do not.
        done: what was done, in sentences.
    """

    voters: list[str]
    learners: list[str]
    done: list[str]


class TransferAnswer(TypedDict):
    """Who was asked to stand for election.

    Attributes:
        asked: the member.
    """

    asked: str


class FlagEnabledAnswer(TypedDict):
    """What was enabled.

    Attributes:
        enabled: the feature flag.
    """

    enabled: str


class StoreAnswer(TypedDict):
    """Which store of entities is in force.

    Attributes:
        store: tables, tree, none or unknown.
    """

    store: str


class MembersOfQueueAnswer(TypedDict):
    """The members of a queue after a change.

    Attributes:
        queue: its name.
        members: ids of its members.
    """

    queue: str
    members: list[str]


class DeclaredQueueAnswer(TypedDict):
    """A queue that is there now.

    Attributes:
        queue: its name.
        type: quorum or classic.
        members: ids of the members of a quorum queue, or the node of a classic one.
        is_new: whether it was made now. Else it stays as it was declared, with other options than these perhaps.
    """

    queue: str
    type: str
    members: list[str]
    is_new: bool


class DeletedQueueAnswer(TypedDict):
    """A queue that was removed.

    Attributes:
        deleted: its name.
    """

    deleted: str


class CopiesOfStreamAnswer(TypedDict):
    """Where the copies of a stream are after a change.

    Attributes:
        stream: its name.
        copies: ids of the members that have one, or are to have one, or are about to give it up.
    """

    stream: str
    copies: list[str]


class SuperStreamAnswer(TypedDict):
    """The partitions of a superstream after a change.

    Attributes:
        super_stream: its name.
        partitions: names of its streams, in the order of declarations.
    """

    super_stream: str
    partitions: list[str]


class DrainAnswer(TypedDict):
    """What a node was noted as.

    Attributes:
        node: its name.
        state: draining, or regular.
    """

    node: str
    state: str


class DrainedAnswer(TypedDict):
    """The nodes that take on no work.

    Attributes:
        draining: names of those that are being drained.
    """

    draining: list[str]


class TargetAnswer(TypedDict):
    """The policy that was set.

    Attributes:
        target: how many live replicas queues are to have.
        pattern: a regular expression that is found in their names.
    """

    target: int
    pattern: str


class PolicyAnswer(TypedDict):
    """The policy that was set.

    Attributes:
        policy: its name.
        pattern: a regular expression that is found in the names of those that it is for.
        definition: settings by name.
        priority: of several that match, the one of the highest priority counts.
        apply_to: all or queues.
        operator: whether it is one of the operator.
    """

    policy: str
    pattern: str
    definition: dict[str, Any]
    priority: int
    apply_to: str
    operator: bool


class ClearedPolicyAnswer(TypedDict):
    """The policy that is not there any more.

    Attributes:
        policy: its name.
        operator: whether it was one of the operator.
        was_there: whether it was there.
    """

    policy: str
    operator: bool
    was_there: bool


class ConvertAnswer(TypedDict):
    """What comes of the files of a classic queue.

    Attributes:
        queue: its name.
        converts: whether its node converts them now; if not, that had been asked for before.
    """

    queue: str
    converts: bool


class PurgeAnswer(TypedDict):
    """What was removed from a queue.

    Attributes:
        queue: its name.
        purged: how many messages.
    """

    queue: str
    purged: int


class LimitAnswer(TypedDict):
    """The operator's policy that was set.

    Attributes:
        limit: how often a message may be delivered again at most.
        pattern: a regular expression that is found in the names of the classic queues it is for.
        dead_letter_to: the queue that gets their dead letters; None to leave that to their declarations and users.
    """

    limit: int
    pattern: str
    dead_letter_to: str | None


class EnableAnswer(TypedDict):
    """A transformation that all nodes have begun.

    Attributes:
        enabled: its name.
        is_new: whether any had not begun it before.
    """

    enabled: str
    is_new: bool


class ClusterStatusAnswer(TypedDict):
    """The two stores of entities, as one node knows them.

    Attributes:
        members: ids of the members of the tree.
        feature_flags: the state of each.
        store: which is in force: tables, tree, none or unknown.
        marker: what the tree says of the migration.
        step: of a migration that the node runs, "" if it runs none.
        written: whether the tree has taken changes since it is in force.
        keeps_tables: whether the tables are kept for a rollback.
        flag: the state of the feature flag khepri_db.
        phase: of the node's tables: stopped, waiting, running or none.
        replicas: the nodes that hold tables.
        active: those with which the node shares them.
        partitions: those that run apart from it.
    """

    members: list[str]
    feature_flags: dict[str, str]
    store: str
    marker: str
    step: str
    written: bool
    keeps_tables: bool
    flag: str
    phase: str
    replicas: list[str]
    active: list[str]
    partitions: list[str]


class LoggedEntry(TypedDict):
    """An entry of the log.

    Attributes:
        index: of it.
        term: of it.
        kind: what it is.
        bytes: its size.
        what: what it does, in words.
        file: where it is.
        durable: whether it is synced, by the marks of the file.
    """

    index: int
    term: int
    kind: str
    bytes: int
    what: str
    file: str
    durable: bool


class Vote(TypedDict):
    """A vote.

    Attributes:
        term: of the vote.
        voted_for: the member that got it; null for none.
    """

    term: int
    voted_for: str | None


class LoggedGroup(TypedDict):
    """A group in the files of a node.

    Attributes:
        name: of it; empty if the file that says it is damaged.
        uid: of it.
        vote: term and vote.
        states: its snapshots and checkpoints.
        segments: of its log.
        last: the last entry.
        entries: those that were asked for.
    """

    name: str
    uid: int
    vote: Vote | None
    states: list[StateFile]
    segments: list[SegmentFile]
    last: int
    entries: list[LoggedEntry]


class LogAnswer(TypedDict):
    """What the files of a node say.

    Attributes:
        member: the id of the member that they name.
        node: its node; null if that is no id of a member.
        incarnation: of it.
        wal: the write-ahead log.
        groups: of which it is a member.
        damage: what is damaged.
    """

    member: str | None
    node: str | None
    incarnation: int | None
    wal: WalFile | None
    groups: list[LoggedGroup]
    damage: list[Damage]


class StateMembers(TypedDict):
    """The members from an entry on.

    Attributes:
        index: of the entry.
        voters: members that vote.
        learners: the others, each with the index at which it becomes a voter; null for one that stays a learner.
    """

    index: int
    voters: list[str]
    learners: dict[str, int | None]


class TreeNode(TypedDict):
    """A node of the tree.

    Attributes:
        path: of it.
        has_payload: whether it has a value.
        value: in words.
        payload_version: counts changes of the value.
        child_list_version: counts changes of the list of its children.
        child_list_length: how many there are.
    """

    path: str
    has_payload: bool
    value: str
    payload_version: int
    child_list_version: int
    child_list_length: int


class StateAnswer(TypedDict):
    """The state that a node has written down.

    Attributes:
        file: the snapshot or checkpoint.
        applied_index: the last entry that is in it.
        chain_hash: over all entries.
        state_hash: of the tree.
        configurations: the members.
        tree: the part of the tree that was asked for.
    """

    file: StateFile
    applied_index: int
    chain_hash: str
    state_hash: str
    configurations: list[StateMembers]
    tree: list[TreeNode]
