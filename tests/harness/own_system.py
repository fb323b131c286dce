"""The least that a system of another package consists of. pyright checks it (`test_typed_systems`)."""

from pathlib import Path

from splitbrain import Capabilities, Deployment, Session, System, Test
from splitbrain.harness.contract.nodes import NodeCommand, NodePlace, NodeView


class Connection:
    """A session without any operation."""

    async def close(self) -> None:
        """Nothing to drop."""


class Shop:
    """A system that can do nothing beyond the minimum."""

    name = "shop"
    bugs = {}  # noqa: RUF012 - as users write it
    election_timeout_s = 1
    capabilities = Capabilities()

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start a node."""
        return NodeCommand(("shop", place.node))

    async def connect(self, deployment: Deployment, node: str) -> Session:
        """A session with a node."""
        return Connection()

    async def view(self, deployment: Deployment, node: str) -> NodeView | None:
        """What a node says of itself."""
        return NodeView(node, "follower", 1, "n1")

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """Its nodes write none."""
        return None


SYSTEM: System = Shop()
