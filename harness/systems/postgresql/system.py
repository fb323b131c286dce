"""PostgreSQL as a system under test: how to start a node, how to talk to it, how to find the primary."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path  # noqa: TID251 - says where files of a node are, and reads the node's program
from typing import Final

from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import Address, NodeCommand, NodeId, NodePlace, NodeView
from splitbrain.harness.contract.read_modes import LINEARIZABLE, ReadMode
from splitbrain.harness.contract.read_modes import SERIALIZABLE as STALE
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.settings import Setting
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.postgresql import settings
from splitbrain.harness.systems.postgresql.connection import Connection
from splitbrain.harness.systems.postgresql.observer import PostgresqlObserver, status
from splitbrain.harness.systems.postgresql.session import PostgresqlSession
from splitbrain.harness.systems.postgresql.settings import PROMISES, READ_COMMITTED
from splitbrain.results.errors import UsageError

VIEW_TIMEOUT_S: Final = 0.5

FAILOVER_MS: Final = 2000
"""For how long a standby has heard nothing when it promotes itself."""

_PROGRAM: Final = "node.py"
_SYNCHRONOUS: Final = "synchronous-standbys"
_FAILOVER: Final = "failover-timeout"
_CHECKPOINT: Final = "checkpoint-timeout"

_SETTINGS: Final = {
    _SYNCHRONOUS: Setting(
        line="standbys that must have a commit on disk before it is acknowledged; 0: replication is asynchronous",
        default=0,
        least=0,
        most=99,
    ),
    _FAILOVER: Setting(
        line="a standby that hears nothing for so long promotes itself, in ms", default=FAILOVER_MS, least=500
    ),
    _CHECKPOINT: Setting(line="seconds between two checkpoints", default=300, least=30, most=86_400),
}


class Postgresql:
    """PostgreSQL 13 or later: one server, or a primary with standbys.

    Args:
        read_mode: "linearizable" for one server; "serializable" to have standbys, which answer reads alone.
        isolation: the level of all transactions, one of `PROMISES`; PostgreSQL's default, read committed, if empty.
    """

    name = "postgresql"
    bugs: Mapping[str, str] = {}
    election_timeout_s = 3 * FAILOVER_MS / 1000
    """A standby notices the loss of its connection within the server's timeout of two seconds, waits for the failover
    timeout, and has to be promoted."""

    def __init__(self, read_mode: ReadMode = LINEARIZABLE, isolation: str = "") -> None:
        self._read_mode = read_mode
        self._isolation = isolation or READ_COMMITTED
        self.capabilities = Capabilities(
            operations=frozenset({"key-value", "collections", "counters", "locks", "transactions", "predicates"}),
            read_modes=(LINEARIZABLE, STALE),
            isolations=tuple(PROMISES),
            isolation=PROMISES[self._isolation],
            standbys=read_mode == STALE,
            image="postgresql",
            programs={"psql": "postgresql"},
            settings=_SETTINGS,
            observation=self,
        )

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start the node that lives at `place`.

        Raises:
            UsageError: there are standbys, and they could not answer as the test demands.
        """
        self._check_standbys(test)
        chosen = {name: test.settings.get(name, setting.default) for name, setting in _SETTINGS.items()}
        argv = [sys.executable if place.home == "here" else "python3", f"{place.data_dir}/{_PROGRAM}"]
        argv += ["--node", place.node, "--data", place.data_dir, "--listen", _address(place.listen)]
        argv += ["--founder", test.nodes[0], "--failover-timeout", f"{chosen[_FAILOVER] / 1000:g}"]
        for peer in sorted(place.peers):
            argv += ["--peer", f"{peer}={_address(place.peers[peer])}"]
        configuration = settings.configuration(
            node=place.node,
            address=place.listen,
            others=tuple(sorted(place.peers)),
            isolation=self._isolation,
            connections=2 * test.concurrency + 20,
            synchronous=chosen[_SYNCHRONOUS],
            checkpoint_s=chosen[_CHECKPOINT],
        )
        files = {
            _PROGRAM: Path(__file__).with_name(_PROGRAM).read_bytes(),
            "postgresql.conf": configuration.encode(),
            "hba.conf": settings.ACCESS.encode(),
            "tables.sql": settings.TABLES.encode(),
        }
        return NodeCommand(tuple(argv), files=files)

    def _check_standbys(self, test: Test) -> None:
        if len(test.nodes) == 1:
            return
        if self._read_mode == LINEARIZABLE:
            raise UsageError(
                "reads of a standby of PostgreSQL are stale by design: give --read-mode serializable for a primary "
                "with standbys, or --nodes 1."
            )
        if self._isolation == settings.SERIALIZABLE:
            raise UsageError(
                "a standby of PostgreSQL has no serializable transactions: give --isolation repeatable-read or "
                "read-committed for a primary with standbys, or --nodes 1."
            )

    async def connect(self, deployment: Deployment, node: NodeId) -> PostgresqlSession:
        """A session with one node.

        Raises:
            DefiniteError: the node could not be reached.
        """
        return PostgresqlSession(await Connection.open(deployment, node))

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        """What the node says of itself, None if it takes more than half a second."""
        connection: Connection | None = None
        try:
            async with asyncio.timeout(VIEW_TIMEOUT_S):
                connection = await Connection.open(deployment, node)
                return await status(connection, node)
        except (DefiniteError, IndefiniteError, TimeoutError):
            return None
        finally:
            if connection is not None:
                connection.close()

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """Its nodes write none: they are asked (`Capabilities.observation`)."""
        return None

    async def observe(self, deployment: Deployment, node: NodeId) -> PostgresqlObserver:
        """A connection to the node's server, for looking at it only.

        Raises:
            DefiniteError: the node could not be reached.
        """
        return PostgresqlObserver(await Connection.open(deployment, node), node)


def _address(address: Address) -> str:
    host, port = address
    return f"{host}:{port}"
