"""How a client's connection speaks with the coordinator of streams, and with copies."""

from __future__ import annotations

from splitbrain.cluster.asking import error_of
from splitbrain.cluster.channel import Channel
from splitbrain.cluster.drained import drained_nodes
from splitbrain.cluster.errors import (
    ClientError,
    InvalidRequestError,
    MisfitError,
    OutcomeUnknownError,
    UnavailableError,
)
from splitbrain.cluster.groupnames import METADATA, STREAM_COORDINATOR
from splitbrain.cluster.streams import commands, frames
from splitbrain.cluster.streams.commands import Accepted, OfClients, StreamRefused
from splitbrain.cluster.streams.state import State, decode_state
from splitbrain.cluster.streams.store import STREAMS
from splitbrain.cluster.tree import AskMachine, Value
from splitbrain.cluster.wire import Answer, MemberList, MembersQuery, QueueOp, Request, StreamOp


class StreamNotFoundError(UnavailableError):
    """There is no stream of that name, or the node that was asked does not know it yet."""


class StreamsConnection:
    """One connection.

    Args:
        channel: the connection.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def command(self, command: OfClients, timeout_ms: int) -> tuple[Accepted, int]:
        """Have the coordinator carry out a command; its answer, and the term.

        Raises:
            StreamNotFoundError: there is no such stream.
            InvalidRequestError: it makes no sense.
            UnavailableError: not now; or there is no coordinator yet.
        """
        body = QueueOp(commands.encode(command))
        answer = await self._channel.ask(Request(0, timeout_ms, body, group=STREAM_COORDINATOR))
        match commands.decode_answered(_value(answer)):
            case Accepted() as accepted:
                return accepted, answer.term
            case StreamRefused("not_found", detail):
                raise StreamNotFoundError(f"{detail}.", answer.term)
            case StreamRefused("invalid", detail):
                raise InvalidRequestError(f"{detail}.", answer.term)
            case StreamRefused(_, detail):
                raise UnavailableError(f"{detail}.", answer.term)
            case other:
                raise MisfitError(f"the coordinator's answer does not fit the command: {other!r}.", answer.term)

    async def state(self, timeout_ms: int) -> State:
        """All streams, as the coordinator's leader knows them, confirmed by a majority."""
        answer = await self._channel.ask(Request(0, timeout_ms, AskMachine(STREAMS), group=STREAM_COORDINATOR))
        return decode_state(_value(answer))

    async def ask(self, wanted: frames.OfStream, timeout_ms: int) -> frames.Reply:
        """Have the node that is asked do something with a stream."""
        body = StreamOp(frames.encode(wanted))
        return frames.decode_reply(_value(await self._channel.ask(Request(0, timeout_ms, body))))

    async def members(self, timeout_ms: int, group: str = METADATA) -> tuple[str, ...]:
        """Ids of the members of a group, sorted."""
        answer = await self._channel.ask(Request(0, timeout_ms, MembersQuery(), group=group))
        if not isinstance(answer.outcome, MemberList):
            raise error_of(answer.outcome, answer.term)
        return tuple(sorted(answer.outcome.members))

    async def draining(self, timeout_ms: int) -> frozenset[str]:
        """Names of the nodes that are being drained."""
        return await drained_nodes(self._channel, timeout_ms)


def _value(answer: Answer) -> bytes:
    if isinstance(answer.outcome, Value):
        return answer.outcome.data
    raise error_of(answer.outcome, answer.term)


def unexpected(name: str, reply: frames.Reply) -> ClientError:
    """What is raised for a reply that does not fit the request."""
    return OutcomeUnknownError(f"the answer of stream {name} does not fit the request: {type(reply).__name__}.")
