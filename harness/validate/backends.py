"""Backends and their deployments held to their contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import Deployment, MessageConnection, StopsInGoodOrder, Surroundings
from splitbrain.harness.contract.faultkinds import INJECTED_KINDS, LATER_KINDS
from splitbrain.harness.contract.faults import ClientFault, ClockFault, DiskFault, LinkFault, Support
from splitbrain.harness.contract.moments import Act, HearsMarks, Moment, Passed
from splitbrain.harness.contract.nodes import ClockOffset, Link, NodeId, NodeStatus
from splitbrain.harness.contract.test import Backend
from splitbrain.harness.validate.values import Wrapper, short
from splitbrain.results.errors import BackendError, ProtocolError, UnknownNodeError
from splitbrain.results.quantities import counted

if TYPE_CHECKING:
    import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one
    from pathlib import Path  # noqa: TID251 - for types

    from splitbrain.harness.contract.test import Test


def backend(inner: Backend) -> Backend:
    """A backend, and every deployment that it makes, held to its contract."""
    return _ValidBackend(inner)


class _ValidBackend(Wrapper):
    name: str

    def support(self) -> Mapping[str, Support]:
        # An answer of its own takes the place of these: a backend that was written before a kind existed lacks it.
        support = {**LATER_KINDS, **self._inner.support()}
        missing = [kind for kind in INJECTED_KINDS if not isinstance(support.get(kind), Support)]
        if missing:
            raise ProtocolError(f"backend {self.name!r}: support says nothing about {', '.join(missing)}.")
        return support

    def check(self, test: Test) -> None:
        self._inner.check(test)

    def sweep(self) -> list[str]:
        return self._inner.sweep()

    async def deploy(self, test: Test, run_dir: Path, runtime: Runtime) -> Deployment:
        deployment: Any = await self._inner.deploy(test, run_dir, runtime)
        if not all(hasattr(deployment, member) for member in ("nodes", "surroundings")):
            raise ProtocolError(f"backend {self.name!r}: deploy returned {short(deployment)}, not a Deployment.")
        if not isinstance(deployment.surroundings, Surroundings):
            raise ProtocolError(
                f"backend {self.name!r}: the surroundings of its deployment are {short(deployment.surroundings)}, not "
                "Surroundings(...)."
            )
        if list(deployment.nodes) != list(test.nodes):
            raise ProtocolError(
                f"backend {self.name!r}: deployed the nodes {', '.join(deployment.nodes)} instead of "
                f"{', '.join(test.nodes)}."
            )
        return _ValidDeployment(deployment, self.name)


class _ValidDeployment(Wrapper):
    nodes: Sequence[NodeId]
    surroundings: Surroundings

    def __init__(self, inner: Deployment, backend: str) -> None:
        super().__init__(inner)
        self._backend = backend

    async def start(self, node: NodeId) -> NodeStatus:
        return self._state("start", node, await self._inner.start(self._known(node)), "running", "paused")

    async def kill(self, node: NodeId) -> NodeStatus:
        return self._state("kill", node, await self._inner.kill(self._known(node)), "stopped")

    async def stop(self, node: NodeId) -> NodeStatus:
        # Of its own, as `at_moment` is.
        if not isinstance(self._inner, StopsInGoodOrder):
            raise BackendError(
                f"backend {self._backend!r} cannot stop nodes in good order: its deployment has no stop."
            )
        return self._state("stop", node, await self._inner.stop(self._known(node)), "stopped")

    async def pause(self, node: NodeId) -> NodeStatus:
        return self._state("pause", node, await self._inner.pause(self._known(node)), "paused", "stopped")

    async def resume(self, node: NodeId) -> NodeStatus:
        return self._state("resume", node, await self._inner.resume(self._known(node)), "running", "stopped")

    async def status(self, node: NodeId) -> NodeStatus:
        return self._state("status", node, await self._inner.status(self._known(node)))

    async def cut(self, links: frozenset[Link]) -> None:
        for link in sorted(links):
            self._known_link(link)
        await self._inner.cut(links)

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        for link in links:
            self._known_link(link)
        measured = await self._inner.passes(links)
        missing = [link for link in links if not isinstance(measured.get(link), bool)]
        if missing:
            source, destination = missing[0]
            raise ProtocolError(
                f"backend {self._backend!r}: passes says nothing about {source} -> {destination} "
                f"({len(missing)} of {counted(len(links), 'link')} are missing)."
            )
        return measured

    async def dropped(self) -> Mapping[Link, int]:
        return await self._inner.dropped()

    async def power_off(self, node: NodeId) -> NodeStatus:
        return self._state("power_off", node, await self._inner.power_off(self._known(node)), "stopped")

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        for link in sorted(faults):
            self._known_link(link)
        await self._inner.disturb(faults)

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        return await self._inner.disturbed()

    async def disturb_clients(self, faults: Mapping[NodeId, ClientFault]) -> Mapping[NodeId, Mapping[str, int]]:
        for node in faults:
            self._known(node)
        return await self._inner.disturb_clients(faults)

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        return await self._inner.spoil(self._known(node), fault)

    async def skew(self, node: NodeId, fault: ClockFault | None) -> Mapping[str, Any]:
        return await self._inner.skew(self._known(node), fault)

    async def throttle(self, node: NodeId, share: float | None) -> Mapping[str, Any]:
        if share is not None and not share > 0:
            raise ProtocolError(f"a node's share of a CPU is above 0, not {share:g}.")
        return await self._inner.throttle(self._known(node), share)

    async def at_moment(self, moments: Sequence[Moment], act: Act, within_ns: int) -> Passed | None:
        # Of its own, although most backends have none: since Python 3.12 no check of a protocol asks `__getattr__`.
        if not isinstance(self._inner, HearsMarks):
            raise BackendError(f"backend {self._backend!r} does not hear which marks nodes pass.")
        passed: Any = await self._inner.at_moment(moments, act, within_ns)
        if passed is not None and not (isinstance(passed, Passed) and passed.moment in moments):
            raise ProtocolError(
                f"backend {self._backend!r}: at_moment returned {short(passed)}, not a moment for which it waited."
            )
        if passed is not None:
            self._known(passed.node)
        return passed

    async def offsets(self) -> Mapping[NodeId, ClockOffset]:
        offsets: Any = await self._inner.offsets()
        for node, offset in offsets.items():
            if not isinstance(offset, ClockOffset) or offset.error_ns < 0:
                raise ProtocolError(
                    f"backend {self._backend!r}: offsets returned {short(offset)} for {node}; it must return a "
                    "ClockOffset with an error of 0 or more."
                )
            self._known(node)
        return offsets

    async def dial(self, node: NodeId, behind: int = 0) -> socket.socket | MessageConnection:
        further = (behind,) if behind else ()
        connection = await self._inner.dial(self._known(node), *further)
        if connection is None:
            raise ProtocolError(
                f"backend {self._backend!r}: dial to {node} returned None; it must raise DefiniteError if the "
                "connection is refused."
            )
        return connection

    async def close(self) -> None:
        await self._inner.close()

    def _known(self, node: NodeId) -> NodeId:
        if node not in self._inner.nodes:
            raise UnknownNodeError(f"there is no node {node!r} in this test. Known: {', '.join(self._inner.nodes)}.")
        return node

    def _known_link(self, link: Link) -> None:
        source, destination = self._known(link[0]), self._known(link[1])
        if source == destination:
            raise ProtocolError(f"a link leads from one node to another, not from {source} to itself.")

    def _state(self, call: str, node: NodeId, status: Any, *expected: str) -> NodeStatus:
        if not isinstance(status, NodeStatus) or status.state not in ("running", "paused", "stopped"):
            raise ProtocolError(
                f"backend {self._backend!r}: {call} of {node} returned {short(status)}, not a NodeStatus."
            )
        if expected and status.state not in expected:
            wanted = " or ".join(expected)
            raise ProtocolError(f"backend {self._backend!r}: after {call}, {node} is {status.state}, not {wanted}.")
        return status
