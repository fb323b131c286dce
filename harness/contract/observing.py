"""Systems whose nodes write no telemetry, and say what they would have written when they are asked."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId

START: Final = "start"


SEEN: Final = "seen"
"""Events of rows: the first one of a process, and any other. None is called "role": that a node is in a term makes no
promise before it is on its disk, and it may well be asked in between (`splitbrain.checkers.consensus.progress`)."""


class Observed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node says of itself; None for what it does not say. Columns are those of `splitbrain.results.telemetry`.

    `role`, `term`, `leader` and `commit` must have held together in one moment: leaders are counted by them. `applied`
    may be older than `commit`, not newer.
    """

    group: str | None = None
    term: int | None = None
    role: str | None = None
    leader: NodeId | None = None
    commit: int | None = None
    applied: int | None = None
    voters: tuple[NodeId, ...] | None = None
    chain: str | None = None
    state: str | None = None
    last: int | None = None


class Observer(Protocol):
    """A connection to one process of one node. It never leads to another process: with the connection it ends."""

    async def look(self) -> Observed:
        """What the node says now.

        Raises:
            DefiniteError, IndefiniteError: it does not say, or the process has ended.
        """
        ...

    async def close(self) -> None:
        """Drop the connection."""
        ...


class Observable(Protocol):
    """Asks nodes for what they would write as telemetry (`Capabilities.observation`); usually the system itself."""

    async def observe(self, deployment: Deployment, node: NodeId) -> Observer:
        """A connection to the node's process.

        Raises:
            DefiniteError: the node could not be reached.
        """
        ...


class Seen(msgspec.Struct, frozen=True):
    """What arrived from a node.

    Attributes:
        at_ns: when, on the controller's clock.
        event: START or SEEN.
        said: what the node said.
    """

    at_ns: int
    event: str
    said: Observed
