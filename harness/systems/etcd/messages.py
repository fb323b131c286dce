"""Requests and answers of etcd's v3 API (`etcdserver/api/v3/rpc.proto`) in the form of its JSON gateway.

Bytes travel as base64. Whole numbers of 64 bits come as strings; both forms are taken in requests. What has its
default value is left out, in both directions.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message; its unknown fields are ignored."""


class Header(Message, frozen=True):
    """Where and when an answer was given: by which member, at which revision of the store, in which term."""

    member_id: int = 0
    revision: int = 0
    raft_term: int = 0


class Answered(Message, frozen=True):
    """What every answer has."""

    header: Header = Header()


# --- keys ---------------------------------------------------------------------------------------------------------


class KeyValue(Message, frozen=True):
    """A key as it is stored. `create_revision` is the revision of the store at which it came into being, `mod_revision`
    that of its last change."""

    key: bytes
    value: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0


class RangeRequest(Message, frozen=True):
    """One key, or with `range_end` all from `key` up to, and without, that one."""

    key: bytes
    range_end: bytes = b""
    serializable: bool = False
    keys_only: bool = False


class RangeAnswer(Answered, frozen=True):
    """What was found."""

    kvs: tuple[KeyValue, ...] = ()


class PutRequest(Message, frozen=True):
    """Set a key; with a lease it vanishes when that runs out."""

    key: bytes
    value: bytes
    lease: int = 0


class DeleteRequest(Message, frozen=True):
    """Remove a key."""

    key: bytes


class Compare(Message, frozen=True, kw_only=True):
    """A condition of a transaction. Revision 0 holds of a key that is missing, `value` of none that is.

    With `range_end` it must hold of all keys there that exist: of one that was deleted nothing is asked.
    """

    key: bytes
    range_end: bytes = b""
    target: Literal["CREATE", "MOD", "VALUE"]
    result: Literal["EQUAL", "LESS"] = "EQUAL"
    create_revision: int | None = None
    mod_revision: int | None = None
    value: bytes | None = None


class RequestOp(Message, frozen=True):
    """One operation of a transaction."""

    request_range: RangeRequest | None = None
    request_put: PutRequest | None = None
    request_delete_range: DeleteRequest | None = None


class TxnRequest(Message, frozen=True):
    """Carry out `success` if all conditions hold, else nothing."""

    compare: tuple[Compare, ...]
    success: tuple[RequestOp, ...]


class ResponseOp(Message, frozen=True):
    """What one operation of a transaction answered; of writes nothing is of interest."""

    response_range: RangeAnswer | None = None


class TxnAnswer(Answered, frozen=True):
    """Whether the conditions held, and an answer for each operation that was carried out."""

    succeeded: bool = False
    responses: tuple[ResponseOp, ...] = ()


# --- leases and members -------------------------------------------------------------------------------------------


class LeaseRequest(Message, frozen=True):
    """A lease; its length is in seconds."""

    seconds: int = msgspec.field(name="TTL")


class LeaseAnswer(Answered, frozen=True):
    """The lease that was granted."""

    lease: int = msgspec.field(name="ID", default=0)


class KeepAliveRequest(Message, frozen=True):
    """More time for a lease. The gateway ends the stream of requests after this one."""

    lease: int = msgspec.field(name="ID")


class KeptAlive(Answered, frozen=True):
    """The seconds that the lease has again; 0 if there is no such lease any more."""

    seconds: int = msgspec.field(name="TTL", default=0)


class KeepAliveAnswer(Message, frozen=True):
    """One element of a stream of answers; an error comes as one without a result."""

    result: KeptAlive | None = None


class Nothing(Message, frozen=True):
    """A request without arguments."""


class StatusAnswer(Answered, frozen=True):
    """What a node knows of the cluster; `leader` is 0 while it knows none."""

    leader: int = 0
    term: int = msgspec.field(name="raftTerm", default=0)
    commit_index: int = msgspec.field(name="raftIndex", default=0)
    applied_index: int = msgspec.field(name="raftAppliedIndex", default=0)


class Member(Message, frozen=True):
    """A member of the cluster; it has no name until it was started for the first time."""

    member: int = msgspec.field(name="ID")
    name: str = ""
    peer_urls: tuple[str, ...] = msgspec.field(name="peerURLs", default=())
    is_learner: bool = msgspec.field(name="isLearner", default=False)


class MembersAnswer(Answered, frozen=True):
    """The members, as the node that was asked knows them."""

    members: tuple[Member, ...] = ()


class AddMemberRequest(Message, frozen=True):
    """Take in a node that serves its peers there."""

    peer_urls: tuple[str, ...] = msgspec.field(name="peerURLs")


class RemoveMemberRequest(Message, frozen=True):
    """Remove the member of this id, for good."""

    member: int = msgspec.field(name="ID")


class MoveLeaderRequest(Message, frozen=True):
    """Have the member of this id lead."""

    target: int = msgspec.field(name="targetID")


# --- what a node publishes of its Raft ----------------------------------------------------------------------------


class RaftStatus(Message, frozen=True):
    """The status of a node's Raft, all of it read in one moment between two of its steps (`raft.Status`).

    Ids are in hexadecimal here. `term` is the one that the node is in, while `StatusAnswer.term` and `Header.raft_term`
    are that of the last entry that it applied. `lead` is "0" while it knows no leader; `id` is "0" if its Raft has
    ended.
    """

    member: str = msgspec.field(name="id")
    term: int
    commit: int
    lead: str
    state: str = msgspec.field(name="raftState")


class Variables(Message, frozen=True):
    """The page /debug/vars, which a node serves to clients; no status before its Raft has begun."""

    raft: RaftStatus | None = msgspec.field(name="raft.status", default=None)
