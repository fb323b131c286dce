"""Classic queues, through one connection to one node.

    queues = await client.classic_queues()
    await queues.declare("jobs", delivery_limit=5, dead_letter_to="dead")
    await queues.put("jobs", b"...")                     # returns once it is durable at the node that holds the queue
    message = await queues.take("jobs")                  # None if nothing is ready
    await queues.settle("jobs", message)                 # or how="requeue", or how="discard"
    await queues.convert("jobs")                         # all its files to records of version 2

Errors say whether what was wanted may have happened (`ClientError.definite`).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeVar

import msgspec

from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS, MismatchingNodeError, error_of
from splitbrain.cluster.channel import Channel
from splitbrain.cluster.classicqueues import frames
from splitbrain.cluster.classicqueues.frames import Settlement
from splitbrain.cluster.classicqueues.records import PATH, ClassicRecord
from splitbrain.cluster.errors import (
    ClientError,
    InvalidRequestError,
    MisfitError,
    NodeNotFoundError,
    OutcomeUnknownError,
    QueueConversionRefusedError,
    RefusedError,
    UnavailableError,
)
from splitbrain.cluster.members import node_of
from splitbrain.cluster.permits import AlarmName
from splitbrain.cluster.queueclient.connection import Ends, pause
from splitbrain.cluster.queuegroups.records import name_problem
from splitbrain.cluster.tree import Value
from splitbrain.cluster.tree.paths import format_path
from splitbrain.cluster.tree_client import TreeClient
from splitbrain.cluster.wire import ClassicOp, ClientAddress, MemberList, MembersQuery, Request

T = TypeVar("T")

ATTEMPT_MS = 500


class ClassicQueues:
    """Made by `Client.classic_queues`, inside a running event loop.

    Args:
        channel: the connection.
        tree: the metadata, through it.
        address: of the connection.
    """

    def __init__(self, channel: Channel, tree: TreeClient, address: ClientAddress) -> None:
        self._channel = channel
        self._tree = tree
        self._address = address
        self._declared = 0

    async def declare(
        self,
        name: str,
        *,
        node: str | None = None,
        delivery_limit: int | None = None,
        dead_letter_to: str | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> bool:
        """Make a queue, if there is none of that name, and wait until its node holds it; whether this call made it.

        Args:
            name: of the queue.
            node: that holds it; None: the one that is asked.
            delivery_limit: how often a message may be delivered again before it is a dead letter; the lowest of this
                and of what policies say counts. None, or below 0: as often as policies say.
            dead_letter_to: name of the queue that gets dead letters, a classic or a quorum queue, which need not be
                there yet; None: as policies say (`dead-letter-to`), else they are dropped.
            timeout_ms: after so long it is given up.

        Raises:
            InvalidRequestError: a name makes no sense, or the cluster has no such node.
            OutcomeUnknownError: the queue may be there, or come to be; also if its node does not hold it in time.
        """
        problem = name_problem(name) or (None if dead_letter_to is None else name_problem(dead_letter_to))
        if problem is not None:
            raise InvalidRequestError(f"{problem}.")
        ends = Ends(timeout_ms)
        holder = await self._member(node or self._address.node, ends.left_ms)
        self._declared += 1
        distinct = msgspec.msgpack.encode((self._address, self._declared, name))
        new_id = blake2b(distinct, digest_size=8).hexdigest()
        record = ClassicRecord(new_id, holder, delivery_limit, dead_letter_to=dead_letter_to)
        is_new = True
        try:
            await self._tree.create(_path(name), msgspec.to_builtins(record), timeout_ms=ends.left_ms)
        except MismatchingNodeError:
            is_new = False
        await self._until_held(name, ends)
        return is_new

    async def convert(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> bool:
        """Have all files of a queue converted to records of version 2; whether that was to be done.

        Its node is asked first. It begins once it has applied that; `look` says when it is done. If an alarm is set
        meanwhile, it begins when that is cleared.

        Raises:
            QueueConversionRefusedError: its node may not convert them now; nothing was changed.
            UnavailableError: its node cannot be asked, there is no such queue, or its record was changed meanwhile.
        """
        ends = Ends(timeout_ms)
        try:
            found = await self._tree.get(_path(name), timeout_ms=ends.left_ms)
        except NodeNotFoundError as error:
            raise UnavailableError(f"there is no classic queue {name}.", error.term) from error
        record = msgspec.convert(found.value, ClassicRecord)
        if record.version == 2:
            return False
        self._require(await self._ask(frames.MayConvert(name), ends.left_ms), frames.Permitted, name)
        wanted = msgspec.to_builtins(msgspec.structs.replace(record, version=2))
        try:
            await self._tree.compare_and_swap(_path(name), found.value, wanted, timeout_ms=ends.left_ms)
        except (MismatchingNodeError, NodeNotFoundError) as error:
            raise UnavailableError(f"classic queue {name} was changed meanwhile: try again.", error.term) from error
        return True

    async def delete(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Remove a queue, with all messages."""
        await self._tree.delete(_path(name), timeout_ms=timeout_ms)

    async def put(self, name: str, body: bytes, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Put a message into a queue; returns once it is durable."""
        reply = await self._ask(frames.Put(name, body), timeout_ms)
        if not isinstance(reply, frames.Stored):
            raise _unexpected(name, reply)

    async def take(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> frames.Taken | None:
        """The next message, None if nothing is ready. Not settled within 5 s it goes back."""
        reply = await self._ask(frames.Take(name), timeout_ms)
        if isinstance(reply, frames.Nothing):
            return None
        if not isinstance(reply, frames.Taken):
            raise _unexpected(name, reply)
        return reply

    async def settle(
        self, name: str, message: frames.Taken, how: Settlement = "ack", *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> None:
        """Be done with a message, give it back, or discard it; returns once that is durable.

        One that is discarded is a dead letter; it is dropped where no queue gets those.

        Raises:
            UnavailableError: it went back before, since that took long, or its node began anew.
        """
        reply = await self._ask(frames.Settle(name, message.tag, how), timeout_ms)
        if not isinstance(reply, frames.Settled):
            raise _unexpected(name, reply)
        if not reply.known:
            raise UnavailableError(f"message {message.tag} of classic queue {name} went back before.", None)

    def post_settle(self, name: str, tag: str, how: Settlement = "ack") -> None:
        """The same without waiting for an answer: it may be lost, and then the message goes back.

        Raises:
            UnavailableError: the connection is broken.
        """
        body = ClassicOp(frames.encode(frames.Settle(name, tag, how)))
        self._channel.post(Request(0, DEFAULT_TIMEOUT_MS, body))

    async def purge(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Remove all messages that are not taken; how many."""
        reply = await self._ask(frames.Purge(name), timeout_ms)
        if not isinstance(reply, frames.Purged):
            raise _unexpected(name, reply)
        return reply.count

    async def look(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> frames.Seen:
        """How a queue is."""
        reply = await self._ask(frames.Look(name), timeout_ms)
        if not isinstance(reply, frames.Seen):
            raise _unexpected(name, reply)
        return reply

    # --- nodes ----------------------------------------------------------------------------------------------------

    async def look_at_node(self, node: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> frames.NodeSeen:
        """What a node may convert: its alarms, and the transformations that it has begun."""
        return await self._ask_node(node, frames.LookAtNode(), Ends(timeout_ms))

    async def set_alarm(
        self, node: str, alarm: AlarmName, *, is_active: bool = True, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> frames.NodeSeen:
        """Set or clear an alarm of a node, which converts nothing meanwhile; what it may convert then.

        A node that begins anew has no alarms.

        Raises:
            InvalidRequestError: the cluster has no such node.
        """
        return await self._ask_node(node, frames.SetAlarm(alarm, is_active), Ends(timeout_ms))

    async def enable(self, transformation: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> bool:
        """Begin a transformation on all members, or on none; whether any had not begun it.

        All are asked whether it is permitted before the first one begins (CQ-7).

        Raises:
            QueueConversionRefusedError: one refused; none began it.
            UnavailableError: one cannot be asked, or has no numpy; none began it.
            OutcomeUnknownError: some may have begun it; ask again.
        """
        ends = Ends(timeout_ms)
        nodes = [node_of(member) for member in await self.members(ends.left_ms)]
        ask, begin = frames.Enable(transformation, True), frames.Enable(transformation, False)
        before = [(await self._ask_node(node, ask, ends)).transformations for node in nodes]
        try:
            after = [(await self._ask_node(node, begin, ends)).transformations for node in nodes]
        except RefusedError as error:
            raise OutcomeUnknownError(
                f"not all nodes began {transformation}: {error} Ask again.", error.term
            ) from error
        return after != before

    async def _ask_node(self, node: str, wanted: frames.OfNode, ends: Ends) -> frames.NodeSeen:
        member = await self._member(node, ends.left_ms)
        return self._require(await self._ask(frames.AtNode(member, wanted), ends.left_ms), frames.NodeSeen, node)

    def _require(self, reply: frames.Reply, kind: type[T], name: str) -> T:
        if isinstance(reply, frames.Refused):
            raise QueueConversionRefusedError(f"conversion_refused: {name}: {reply.detail}", None, reply.reason)
        if not isinstance(reply, kind):
            raise _unexpected(name, reply)
        return reply

    async def members(self, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> tuple[str, ...]:
        """Ids of the members of the cluster, sorted."""
        answer = await self._channel.ask(Request(0, timeout_ms, MembersQuery()))
        if not isinstance(answer.outcome, MemberList):
            raise error_of(answer.outcome, answer.term)
        return tuple(sorted(answer.outcome.members))

    async def _member(self, node: str, timeout_ms: int) -> str:
        members = await self.members(timeout_ms)
        found = next((member for member in members if node_of(member) == node), None)
        if found is None:
            raise InvalidRequestError(f"the cluster has no node {node}: its members are {', '.join(members)}.")
        return found

    async def _until_held(self, name: str, ends: Ends) -> None:
        while True:
            try:
                await self.look(name, timeout_ms=min(ATTEMPT_MS, ends.left_ms))
                return
            except InvalidRequestError:
                raise
            except ClientError as error:
                if ends.are_over:
                    detail = f"classic queue {name} is declared, and its node does not hold it yet: {error}"
                    raise OutcomeUnknownError(detail, error.term) from error
            await pause()

    async def _ask(self, wanted: frames.OfClient, timeout_ms: int) -> frames.Reply:
        answer = await self._channel.ask(Request(0, timeout_ms, ClassicOp(frames.encode(wanted))))
        if isinstance(answer.outcome, Value):
            return frames.decode_reply(answer.outcome.data)
        raise error_of(answer.outcome, answer.term)


def _path(name: str) -> str:
    return format_path((*PATH, name))


def _unexpected(name: str, reply: frames.Reply) -> ClientError:
    kind = type(reply).__name__
    return MisfitError(f"the answer of classic queue {name} does not fit the request: {kind}.")
