"""One connection to one node by asyncpg, one statement at a time.

The deployment makes the socket, since only it reaches every node, and asyncpg makes its sockets itself. So it is given
an event loop that connects to what is connected already. Nothing is ever sent twice, and no second connection is made:
not even to cancel a statement whose caller has given up. Then asyncpg drops the connection instead.
"""

from __future__ import annotations

import asyncio
import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one
from collections.abc import Callable
from typing import Any, Final, cast

import asyncpg

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.postgresql.errors import error_of
from splitbrain.harness.systems.postgresql.settings import DATABASE, USER
from splitbrain.harness.systems.sockets import tcp

FAILURES: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""What asyncpg raises. A protocol error is an InternalClientError."""


async def connect(deployment: Deployment, node: NodeId) -> asyncpg.Connection[asyncpg.Record]:
    """The driver's connection to a node.

    Raises:
        DefiniteError: it could not be reached, or accepts no connections.
    """
    found = tcp(await deployment.dial(node), node, "PostgreSQL")
    loop = cast("asyncio.AbstractEventLoop", _Dialled(asyncio.get_running_loop(), found))
    try:
        return await asyncpg.connect(host=node, port=1, user=USER, password="", database=DATABASE, ssl=False, loop=loop)
    except FAILURES as error:
        found.close()
        raise error_of(error, may_have_committed=False) from error
    except BaseException:
        found.close()
        raise


class Connection:
    """A connection; made by `open`."""

    def __init__(self, driver: asyncpg.Connection[asyncpg.Record]) -> None:
        self._driver = driver

    @classmethod
    async def open(cls, deployment: Deployment, node: NodeId) -> Connection:
        """Connect to a node.

        Raises:
            DefiniteError: it could not be reached, or accepts no connections.
        """
        return cls(await connect(deployment, node))

    async def row(self, statement: str, *values: Any, commits: bool) -> tuple[Any, ...] | None:
        """The first row of the result of a statement, None if it has none.

        Args:
            statement: with $1, $2, ... for the values.
            values: texts and whole numbers.
            commits: whether the statement, once sent, may change the database for good.

        Raises:
            DefiniteError, IndefiniteError: as `error_of` says.
        """
        if self._driver.is_closed():
            raise DefiniteError("the node closed the connection")
        try:
            record = await self._driver.fetchrow(statement, *values)
        except FAILURES as error:
            raise error_of(error, may_have_committed=commits) from error
        return None if record is None else tuple(record.values())

    async def begin(self) -> None:
        """Begin a transaction.

        Raises:
            DefiniteError: it was not begun.
        """
        await self._run("BEGIN", commits=False)

    async def roll_back(self) -> None:
        """Abort the transaction.

        Raises:
            DefiniteError: the connection broke, which aborts it as well.
        """
        await self._run("ROLLBACK", commits=False)

    async def commit(self) -> None:
        """Commit the transaction.

        Raises:
            DefiniteError: it was aborted.
            IndefiniteError: it may have been committed.
        """
        done = await self._run("COMMIT", commits=True)
        if done != "COMMIT":  # "ROLLBACK": an earlier statement had failed
            raise DefiniteError(f"the transaction was aborted before ({done})")

    async def _run(self, command: str, *, commits: bool) -> str:
        if self._driver.is_closed():
            raise DefiniteError("the node closed the connection")
        try:
            return await self._driver.execute(command)
        except FAILURES as error:
            raise error_of(error, may_have_committed=commits) from error

    def close(self) -> None:
        """Drop the connection at once; the server aborts what is not committed."""
        self._driver.terminate()


class _Dialled:
    """The event loop for asyncpg: everything is the running loop's, only a connection is there already."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connected: socket.socket) -> None:
        self._loop = loop
        self._connected: socket.socket | None = connected

    def __getattr__(self, name: str) -> Any:
        """What is not different here."""
        return getattr(self._loop, name)

    async def create_connection(
        self, factory: Callable[[], asyncio.Protocol], *_: object, **__: object
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """A transport on the socket that was dialled.

        Raises:
            OSError: asyncpg wants another one.
        """
        found, self._connected = self._connected, None
        if found is None:
            raise OSError("there is one connection only")
        return await self._loop.create_connection(factory, sock=found)
