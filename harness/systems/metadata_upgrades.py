"""How nodes of the metadata cluster are upgraded: they are started again with a later `--machine-version`.

The program is the same: it knows all versions, and supports those up to the one that it is given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from splitbrain.cluster.client import Client, ClientError
from splitbrain.cluster.embedded import NEWEST_VERSION
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError


class MetadataUpgrades:
    """Which version each node supports: an `Upgrades`.

    Args:
        connect: opens a client to a node; a DefiniteError where it cannot be reached.

    Attributes:
        newest: the latest version that there is.
        decide: whether nodes begin with an earlier version, and are upgraded.
    """

    newest = NEWEST_VERSION

    def __init__(self, connect: Callable[[Deployment, NodeId], Awaitable[Client]]) -> None:
        self._connect = connect
        self.decide = False
        self._chosen: dict[NodeId, int] = {}

    def begin(self, *, old: bool) -> None:
        """Forget everything: all nodes support the latest version, or the one before (`old`)."""
        self.decide = old
        self._chosen.clear()

    def version(self, node: NodeId) -> int:
        """The version that the node supports when it is started next."""
        return self._chosen.get(node, NEWEST_VERSION - self.decide)

    def choose(self, node: NodeId, version: int) -> None:
        """Have the node support this version from its next start on."""
        self._chosen[node] = version

    def arguments(self, node: NodeId, *, joins: bool) -> list[str]:
        """The arguments of a starting node; none for what a node supports by itself.

        A node that `joins` a running cluster has the latest program.
        """
        version = self.version(node)
        return [] if joins or version == NEWEST_VERSION else ["--machine-version", str(version)]

    async def in_force(self, deployment: Deployment, node: NodeId) -> int:
        """The version that is in force, as this node knows it.

        Raises:
            DefiniteError, IndefiniteError: it does not answer.
        """
        client = await self._connect(deployment, node)
        try:
            return (await client.status()).machine_version
        except ClientError as error:
            raise (DefiniteError if error.definite else IndefiniteError)(str(error)) from error
        finally:
            await client.close()
