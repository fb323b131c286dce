"""The client of the metadata cluster: one connection to one node, many requests in flight on it.

It neither redirects, nor fails over, nor sends anything twice: a request that got no answer raises an error, and
`error.definite` says whether it is certain that it did not happen. A caller may send a command again: with a `ref` it
is carried out once, however often it arrives (`splitbrain.cluster.retry`). Keeping time is the node's business: it
answers each request within the timeout that came with it. A node that is paused or cut off does not answer at all: a
caller that must go on sets its own deadline, and treats a request that misses it as indefinite.

    client = await connect(sock)
    await client.put("/vhosts/main", {"tracing": False})
    node = await client.get("/vhosts/main")     # node.value, node.payload_version, node.term, ...

`splitbrain.cluster.commands` makes commands for those requests that take any; values are what msgpack can carry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from splitbrain.cluster.admin_client import AdminClient, FeatureFlag, NodeStatus, WrittenState
from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS, MismatchingNodeError, error_of
from splitbrain.cluster.bugs import lines_of
from splitbrain.cluster.channel import Channel, MessageConnection
from splitbrain.cluster.classicclient import ClassicQueues
from splitbrain.cluster.dedup import Ref
from splitbrain.cluster.errors import (
    ChangeRefusedError,
    ClientError,
    ClusterError,
    CorruptExportError,
    FlagNotEnabledError,
    InvalidPathError,
    InvalidRequestError,
    MisfitError,
    NodeNotFoundError,
    OutcomeUnknownError,
    PossiblyMatchingManyNodesDeniedError,
    QueueNotFoundError,
    RefusedError,
    StoreRefusedError,
    TransactionAbortedError,
    UnavailableError,
)
from splitbrain.cluster.members import incarnation_of, member_id, node_of
from splitbrain.cluster.pattern_client import PatternClient, SeenNode, SeenNodes, StoredProcedure
from splitbrain.cluster.pipeline import AppliedCommand, Pipeline, UnappliedCommand
from splitbrain.cluster.queueclient import QueueOptions, Queues
from splitbrain.cluster.raft.events import MemberRole
from splitbrain.cluster.reading import ReadMode
from splitbrain.cluster.registration_client import Records, RegistrationClient, Trigger
from splitbrain.cluster.retry import Refs, retrying
from splitbrain.cluster.storeswire import StoresState
from splitbrain.cluster.stream import StreamConnection
from splitbrain.cluster.streamclient import Streams
from splitbrain.cluster.transaction_client import TransactionClient, TransactionMode, TransactionResult
from splitbrain.cluster.transfer_client import Imported, TransferClient
from splitbrain.cluster.tree import Properties
from splitbrain.cluster.tree_client import AppendedEntry, Names, TreeClient
from splitbrain.cluster.tree_node import TreeNode
from splitbrain.cluster.wire import AddressQuery, ClientAddress, FromMember, Priority, ReplyFrom

if TYPE_CHECKING:
    import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one

__all__ = [
    "BUGS",
    "AppendedEntry",
    "AppliedCommand",
    "ChangeRefusedError",
    "Client",
    "ClientAddress",
    "ClientError",
    "ClusterError",
    "CorruptExportError",
    "FeatureFlag",
    "FlagNotEnabledError",
    "FromMember",
    "Imported",
    "InvalidPathError",
    "InvalidRequestError",
    "MemberRole",
    "MisfitError",
    "MismatchingNodeError",
    "Names",
    "NodeNotFoundError",
    "NodeStatus",
    "OutcomeUnknownError",
    "Pipeline",
    "PossiblyMatchingManyNodesDeniedError",
    "Priority",
    "Properties",
    "QueueNotFoundError",
    "QueueOptions",
    "Queues",
    "ReadMode",
    "Records",
    "Ref",
    "Refs",
    "RefusedError",
    "ReplyFrom",
    "SeenNode",
    "SeenNodes",
    "StoreRefusedError",
    "StoredProcedure",
    "StoresState",
    "Streams",
    "TransactionAbortedError",
    "TransactionMode",
    "TransactionResult",
    "TreeNode",
    "Trigger",
    "UnappliedCommand",
    "UnavailableError",
    "WrittenState",
    "connect",
    "incarnation_of",
    "member_id",
    "node_of",
    "retrying",
]

BUGS: Final[Mapping[str, str]] = lines_of("metadata")
"""What a node's `--bugs` takes: what is broken, its source, and the checkers that can see it."""


async def connect(endpoint: socket.socket | MessageConnection) -> Client:
    """A client on a connection that is already made: a connected non-blocking TCP socket, or a message connection.

    The client owns it from now on.

    Raises:
        UnavailableError: the connection is gone already.
    """
    if hasattr(endpoint, "receive"):
        return Client(Channel(cast(MessageConnection, endpoint)))
    sock = cast("socket.socket", endpoint)
    try:
        _, connection = await asyncio.get_running_loop().create_connection(StreamConnection, sock=sock)
    except OSError as error:
        raise UnavailableError(f"the connection cannot be used: {error}.") from error
    return Client(Channel(connection))


class Client(TreeClient, PatternClient, TransactionClient, RegistrationClient, TransferClient, AdminClient):
    """A connection to one node. Made by `connect`, inside a running event loop.

    Every request raises a `ClientError` if it got no result; paths are text ("/a/b/c"). A command with a `ref` is
    carried out once, however often it is sent, and answered each time with the result of the first time.
    """

    def of_group(self, name: str) -> Client:
        """The same connection, for requests to another group; to close one is to close both."""
        return Client(self._channel, name)

    async def address(self) -> ClientAddress:
        """The address under which a machine of any group may send messages to this connection."""
        answer = await self._ask(AddressQuery(), DEFAULT_TIMEOUT_MS)
        if not isinstance(answer.outcome, ClientAddress):
            raise error_of(answer.outcome, answer.term)
        return answer.outcome

    async def queues(self) -> Queues:
        """Quorum queues, through this connection; messages of machines on it are then those of queues only."""
        return Queues(self._channel, await self.address())

    async def classic_queues(self) -> ClassicQueues:
        """Classic queues, through this connection."""
        return ClassicQueues(self._channel, self, await self.address())

    async def streams(self) -> Streams:
        """Streams, through this connection."""

        async def create(path: str, value: Any, timeout_ms: int) -> None:
            with suppress(MismatchingNodeError):  # it is there
                await self.create(path, value, timeout_ms=timeout_ms)

        return Streams(self._channel, await self.address(), create)

    async def next_message(self) -> bytes:
        """The next message of a machine; waits until there is one.

        Raises:
            UnavailableError: the connection is broken, and there are no more.
        """
        return await self._channel.next_message()

    @property
    def is_broken(self) -> bool:
        """Whether the connection is gone, so that every request would be refused."""
        return self._channel.is_broken

    def abort(self) -> None:
        """Drop the connection. Requests in flight fail as indefinite."""
        self._channel.abort()

    async def close(self) -> None:
        """Drop the connection, and return when everything in flight has failed."""
        await self._channel.close()
