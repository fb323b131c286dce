"""How a client of the cluster asks its node for something, and which error an answer stands for."""

from __future__ import annotations

from typing import Final, get_args

from splitbrain.cluster import tree
from splitbrain.cluster.channel import Channel
from splitbrain.cluster.dedup import Protected, Ref
from splitbrain.cluster.errors import (
    ChangeRefusedError,
    ClientError,
    InvalidRequestError,
    NodeNotFoundError,
    OutcomeUnknownError,
    PossiblyMatchingManyNodesDeniedError,
    RefusedError,
    UnavailableError,
)
from splitbrain.cluster.groupnames import METADATA
from splitbrain.cluster.raft.effects import TransferRefusal
from splitbrain.cluster.raft.membership import ChangeRefusal
from splitbrain.cluster.tree import Properties, format_path
from splitbrain.cluster.wire import Answer, Body, Failure, Outcome, Priority, ReplyMode, Request

DEFAULT_TIMEOUT_MS: Final = 5000

_REFUSALS: Final = (*get_args(ChangeRefusal), *get_args(TransferRefusal))


class MismatchingNodeError(RefusedError):
    """The tree node at the path does not meet the condition of the request.

    Attributes:
        properties: what was found there instead.
    """

    def __init__(self, message: str, term: int | None, properties: Properties) -> None:
        super().__init__(message, term)
        self.properties = properties


class Asking:
    """What all parts of a client share: the connection, and the group that requests are for."""

    def __init__(self, channel: Channel, group: str = METADATA) -> None:
        self._channel = channel
        self._group = group

    async def _ask(
        self, body: Body, timeout_ms: int, reply: ReplyMode = "leader", priority: Priority = "normal"
    ) -> Answer:
        return await self._channel.ask(Request(0, timeout_ms, body, reply, self._group, priority))


def once(command: tree.Command, ref: Ref | None) -> Body:
    """What is sent for a command; with a ref it is carried out once."""
    return command if ref is None else Protected(ref, command)


def error_of(outcome: Outcome, term: int) -> ClientError:
    """What a client raises for an answer that is no result."""
    match outcome:
        case tree.NodeNotFound(path):
            return NodeNotFoundError(f"node_not_found: there is no tree node {format_path(path)}.", term)
        case tree.MismatchingNode(path, properties):
            message = f"mismatching_node: {format_path(path)} (payload version {properties.payload_version})."
            return MismatchingNodeError(message, term, properties)
        case tree.ManyNodesDenied(path):
            message = f"possibly_matching_many_nodes_denied: {format_path(path)} may match many tree nodes."
            return PossiblyMatchingManyNodesDeniedError(message, term)
        case tree.InvalidCommand(problem):
            return InvalidRequestError(f"invalid_command: {problem}.", term)
        case tree.Forgotten(number):
            message = f"forgotten: result {number} of this client is kept no more, as a later ref says it may go."
            return OutcomeUnknownError(message, term)
        case tree.TooManyRefs(limit):
            message = f"too_many_refs: the cluster keeps results of {limit} at most: try again later, or without a ref."
            return UnavailableError(message, term)
        case Failure(reason, definite, detail):
            if not definite:
                return OutcomeUnknownError(f"{reason}: {detail}.", term)
            if reason in ("invalid_request", "invalid_reply_mode"):
                return InvalidRequestError(f"{reason}: {detail}.", term)
            if reason in _REFUSALS:
                return ChangeRefusedError(f"{reason}: {detail}.", term, reason)
            return UnavailableError(f"{reason}: {detail}.", term)
        case _:
            return OutcomeUnknownError(f"the answer does not fit the request: {type(outcome).__name__}.", term)
