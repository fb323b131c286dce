"""What the clients of all workloads have in common: one session with one node of the system under test."""

from __future__ import annotations

from typing import Final, Generic, Self

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import AnySession, OperationGroup, need
from splitbrain.harness.contract.test import CONCURRENCY_MAX, Test
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op

ANY: Final = CONCURRENCY_MAX
"""So many processes as there are may use a client at once."""


class SessionClient(Generic[AnySession]):
    """A client that talks to one node through a session with some operations; workloads add `invoke`.

    Built without a session it is a prototype, from which the runner opens clients.

    Attributes:
        operations: what it needs of a session; its workload lists their name in `Workload.needs`.
        shared_by: how many processes may use it at once (`splitbrain.harness.contract.test.SharedClient`): `ANY` where
            neither it nor what it asks of a session keeps anything between two ops.
    """

    operations: OperationGroup[AnySession]
    shared_by: int = 0

    def __init__(self, session: AnySession | None = None) -> None:
        self._session = session

    @property
    def session(self) -> AnySession:
        """The open session.

        Raises:
            ProtocolError: this is a prototype.
        """
        if self._session is None:
            raise ProtocolError(f"{type(self).__name__} is a prototype: open() gives the client to invoke ops on.")
        return self._session

    async def open(self, test: Test, deployment: Deployment, node: NodeId) -> Self:
        """A client with its own session with `node`.

        Raises:
            ProtocolError: sessions with the system lack the operations.
        """
        session = await test.system.connect(deployment, node)
        try:
            return type(self)(need(session, self.operations, test.system.name))
        except ProtocolError:
            await session.close()
            raise

    async def setup(self, test: Test) -> None:
        """Nothing to prepare: every workload begins with an empty system."""

    def survives(self, op: Op) -> bool:
        """Whether ops may begin on it after this one: as long as it has a connection that lives."""
        return not getattr(self._session, "broken", True)

    async def close(self) -> None:
        """Drop the session."""
        await self.session.close()
