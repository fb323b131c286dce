"""A node's registration with a backend, which it keeps for as long as it runs."""

from __future__ import annotations

from typing import Final

from splitbrain.cluster.discovery.backend import Backend
from splitbrain.cluster.discovery.calls import within
from splitbrain.cluster.errors import DiscoveryError
from splitbrain.cluster.runtime import Runtime

_MS: Final = 1_000_000


class Registration:
    """Of one node with one backend.

    Args:
        runtime: of the node.
        backend: with which it registers.
        timeout_ms: of one call to it.
        pause_ms: between two calls, if the backend does not say how often it is to hear of the node.
    """

    def __init__(self, runtime: Runtime, backend: Backend, timeout_ms: int, pause_ms: int) -> None:
        self._runtime = runtime
        self._backend = backend
        self._timeout_ms = timeout_ms
        self._pause_ms = backend.refresh_ms or pause_ms
        self._registered = False

    async def begin(self) -> None:
        """Have the backend list this node.

        Raises:
            DiscoveryError, OSError: it does not.
        """
        await self._backend.register()
        self._registered = True
        await self._backend.post_registration()

    async def end(self) -> None:
        """Have the backend list this node no more, if it does.

        Raises:
            DiscoveryError, OSError: it cannot be asked.
        """
        if self._registered:
            await self._backend.unregister()

    async def keep(self, *, anew: bool) -> None:
        """For ever: have the backend list this node, and hear of it; `anew`: at once, as it may not list it yet."""
        if not anew:
            await self._runtime.clock.sleep(self._pause_ms * _MS)
        while True:
            begin = self._backend.post_registration if self._registered else self.begin
            try:
                await within(self._runtime, f"registration at {self._backend.name}", self._timeout_ms, begin)
            except DiscoveryError as error:
                self._registered = False
                self._runtime.log(f"error: {error}")
            await self._runtime.clock.sleep(self._pause_ms * _MS)
