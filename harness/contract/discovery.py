"""What is wrong with the service by which nodes of a system find each other, and how a test brings that about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import DelayMs, Share
from splitbrain.harness.contract.magnitudes import check_magnitudes


class DiscoveryTrouble(msgspec.Struct, frozen=True):
    """What the service does wrong.

    Attributes:
        slow_ms: an answer takes up to so long.
        left_out: the share of nodes that an answer leaves out.
        down: it does not answer.
        forgets_lock: who has the lock is forgotten, once.
    """

    slow_ms: DelayMs = 0.0
    left_out: Share = 0.0
    down: bool = False
    forgets_lock: bool = False

    def __post_init__(self) -> None:
        """Refuse figures that cannot be (UsageError)."""
        check_magnitudes(self)


class Discovery(Protocol):
    """The service by which nodes of a system find each other."""

    async def trouble(self, deployment: Deployment, trouble: DiscoveryTrouble | None) -> Mapping[str, Any]:
        """From now on let the service do this wrong, and nothing else; None for nothing.

        Returns:
            Evidence: "asked" says how often nodes asked the service since the last call, and "bit" whether any of these
            was answered otherwise than by a service that is well.
        """
        ...
