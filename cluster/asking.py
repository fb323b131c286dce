"""How a client of the cluster asks its node for something, and which error an answer stands for."""

from __future__ import annotations

from typing import Final, get_args

from splitbrain.cluster import tree
from splitbrain.cluster.channel import Channel
from splitbrain.cluster.commands import decode_value
from splitbrain.cluster.dedup import Protected, Ref
from splitbrain.cluster.errors import (
    ChangeRefusedError,
    ClientError,
    FlagNotEnabledError,
    InvalidRequestError,
    MigrationRefusedError,
    MisfitError,
    NodeNotFoundError,
    OutcomeUnknownError,
    PossiblyMatchingManyNodesDeniedError,
    RefusedError,
    StoreRefusedError,
    TransactionAbortedError,
    UnavailableError,
)
from splitbrain.cluster.flags.effects import Failed
from splitbrain.cluster.groupnames import METADATA
from splitbrain.cluster.raft.effects import TransferRefusal
from splitbrain.cluster.raft.membership import ChangeRefusal
from splitbrain.cluster.tree import Properties, format_path, format_pattern
from splitbrain.cluster.wire import Answer, Body, Failure, Outcome, Priority, ReplyMode, Request

DEFAULT_TIMEOUT_MS: Final = 5000

_OF_FLAGS: Final = frozenset(get_args(Failed)) - {"timeout", "busy"}

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
    """What a client raises for an answer that is no result (KH-12)."""
    error = _refusal(outcome, term) if isinstance(outcome, tree.Refused) else _error(outcome, term)
    error.is_result = isinstance(outcome, _FROM_THE_LOG)
    return error


_FROM_THE_LOG: Final = (tree.NodeNotFound, tree.MismatchingNode, tree.InvalidCommand, tree.Aborted, tree.Refused)


def _error(outcome: Outcome, term: int) -> ClientError:
    match outcome:
        case tree.NodeNotFound(path):
            return NodeNotFoundError(f"node_not_found: there is no tree node {format_path(path)}.", term)
        case tree.MismatchingNode(path, properties):
            message = f"mismatching_node: {format_path(path)} (payload version {properties.payload_version})."
            return MismatchingNodeError(message, term, properties)
        case tree.ManyNodesDenied(path):
            message = f"possibly_matching_many_nodes_denied: {format_path(path)} may match many tree nodes."
            return PossiblyMatchingManyNodesDeniedError(message, term)
        case tree.Aborted(reason):
            given = decode_value(reason)
            return TransactionAbortedError(f"aborted: the function ended the transaction: {given!r}.", term, given)
        case tree.InvalidCommand(problem):
            return InvalidRequestError(f"invalid_command: {problem}.", term)
        case tree.Forgotten(number):
            message = f"forgotten: result {number} of this client is kept no more, as a later ref says it may go."
            return OutcomeUnknownError(message, term)
        case tree.TooManyRefs(limit):
            message = f"too_many_refs: the cluster keeps results of {limit} at most: try again later, or without a ref."
            return UnavailableError(message, term)
        case Failure():
            return _failure(outcome, term)
        case _:
            return MisfitError(f"the answer does not fit the request: {type(outcome).__name__}.", term)


def _failure(failure: Failure, term: int) -> ClientError:
    """The same for what a node says by itself."""
    reason, message = failure.reason, f"{failure.reason}: {failure.detail.removesuffix('.')}."
    if not failure.definite:
        return OutcomeUnknownError(message, term)
    if reason in ("invalid_request", "invalid_reply_mode"):
        return InvalidRequestError(message, term)
    if reason == "migration_refused":
        return MigrationRefusedError(message, term)
    if reason in _REFUSALS:
        return ChangeRefusedError(message, term, reason)
    if reason in _OF_FLAGS:
        return FlagNotEnabledError(message, term, reason)
    return UnavailableError(message, term)


def _refusal(refused: tree.Refused, term: int) -> ClientError:
    """The same for what the store refused."""
    about = f" {format_pattern(refused.path)}" if refused.path else ""
    if not refused.is_target:
        about = f" on the way:{about}"
    more = f": {refused.detail.removesuffix('.')}" if refused.detail else ""
    if refused.matches_nothing is not None:
        more += f": there is no tree node {format_pattern(refused.matches_nothing)}"
    message = f"{refused.reason}{':' if about else ''}{about}{more}."
    match refused.reason:
        case "node_not_found":
            return NodeNotFoundError(message, term)
        case "mismatching_node":
            return MismatchingNodeError(message, term, refused.found or _NO_PROPERTIES)
        case "possibly_matching_many_nodes_denied":
            message = f"{refused.reason}:{about} may match many tree nodes."
            return PossiblyMatchingManyNodesDeniedError(message, term)
        case "unknown_projection":
            return UnavailableError(f"{message[:-1]} here, or not yet: register it, or ask again.", term)
        case "unavailable":
            return UnavailableError(message, term)
        case reason:
            return StoreRefusedError(message, term, reason)


_NO_PROPERTIES: Final = Properties(None, 0, 0, 0)
