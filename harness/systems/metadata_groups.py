"""How nodes of the metadata cluster take part in further groups, beside that of the store: a `Groups`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar

from splitbrain.cluster.client import Client, ClientError, NodeNotFoundError
from splitbrain.cluster.groupnames import METADATA, has_own_machine
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError

REQUEST_TIMEOUT_MS: Final = 800
"""How long a node tries; a nemesis gives up after a second."""

_PATH: Final = "/value"

T = TypeVar("T")


class MetadataGroups:
    """Who takes part in which group: a `Groups`.

    Args:
        connect: opens a client to a node; a DefiniteError where it cannot be reached.
        member: the id with which a node is started now.
    """

    def __init__(
        self, connect: Callable[[Deployment, NodeId], Awaitable[Client]], member: Callable[[NodeId], str]
    ) -> None:
        self._connect = connect
        self._member = member

    async def members(self, deployment: Deployment, nodes: Collection[NodeId]) -> tuple[str, ...]:
        """The ids under which these nodes would found a group now."""
        return tuple(map(self._member, nodes))

    async def listed(self, deployment: Deployment, node: NodeId) -> dict[str, int]:
        """The groups that a node takes part in, by name, with their incarnations; without the store and queues.

        Raises:
            DefiniteError, IndefiniteError: it does not answer.
        """
        found = await self._ask(deployment, node, lambda client: client.incarnations())
        others = [name for name in found if name != METADATA and not has_own_machine(name)]
        return {name: found[name] for name in others}

    async def make(
        self, deployment: Deployment, node: NodeId, name: str, incarnation: int, founders: Collection[str]
    ) -> None:
        """Have a node take part in a group.

        Raises:
            DefiniteError, IndefiniteError: it refuses, or the outcome is unknown.
        """
        await self._ask(deployment, node, lambda client: client.start_group(name, tuple(founders), incarnation))

    async def delete(self, deployment: Deployment, node: NodeId, name: str) -> None:
        """Have a node forget its member of a group.

        Raises:
            DefiniteError, IndefiniteError: it refuses, or the outcome is unknown.
        """
        await self._ask(deployment, node, lambda client: client.delete_group(name))

    async def put(self, deployment: Deployment, node: NodeId, name: str, value: int) -> None:
        """Have a group store a number.

        Raises:
            DefiniteError, IndefiniteError: it refuses, or the outcome is unknown.
        """
        await self._ask(
            deployment,
            node,
            lambda client: client.of_group(name).put(_PATH, value, timeout_ms=REQUEST_TIMEOUT_MS),
        )

    async def get(self, deployment: Deployment, node: NodeId, name: str) -> int | None:
        """The number that a group has stored last; None if it has stored none.

        Raises:
            DefiniteError, IndefiniteError: no answer.
        """

        async def read(client: Client) -> int | None:
            try:
                return (await client.of_group(name).get(_PATH, timeout_ms=REQUEST_TIMEOUT_MS)).value
            except NodeNotFoundError:
                return None

        return await self._ask(deployment, node, read)

    async def _ask(self, deployment: Deployment, node: NodeId, what: Callable[[Client], Awaitable[T]]) -> T:
        client = await self._connect(deployment, node)
        try:
            return await what(client)
        except ClientError as error:
            raise (DefiniteError if error.definite else IndefiniteError)(str(error)) from error
        finally:
            await client.close()
