"""Redis with Sentinel as a system under test: how to start a node, how to talk to it, how to find the primary."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path  # noqa: TID251 - says where files of a node are, and reads the node's program
from typing import Final

from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import Address, NodeCommand, NodeId, NodePlace, NodeView
from splitbrain.harness.contract.read_modes import LINEARIZABLE, SERIALIZABLE, ReadMode
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.redis import settings
from splitbrain.harness.systems.redis.connection import Connection
from splitbrain.harness.systems.redis.observer import RedisObserver, status
from splitbrain.harness.systems.redis.session import RedisSession
from splitbrain.harness.systems.redis.settings import DOWN_AFTER, SENTINEL, SETTINGS, WAIT
from splitbrain.results.errors import BackendError, UsageError

VIEW_TIMEOUT_S: Final = 0.5

_PROGRAM: Final = "node.py"


class Redis:
    """Redis 7 or later: one primary, replicas, and a Sentinel on each node.

    Args:
        read_mode: "linearizable" to have primaries alone answer reads; with "serializable" replicas answer as well.
    """

    name = "redis"
    bugs: Mapping[str, str] = {}
    election_timeout_s = 3 * SETTINGS[DOWN_AFTER].default / 1000
    """Sentinels take a primary for down, agree on that and on who conducts the failover, and promote a replica."""

    def __init__(self, read_mode: ReadMode = LINEARIZABLE) -> None:
        self._alone = read_mode == SERIALIZABLE
        self._replicas = SETTINGS[WAIT].default
        self._places: dict[Address, NodeId] = {}
        self.capabilities = Capabilities(
            operations=frozenset({"key-value", "collections", "locks"}),
            read_modes=(LINEARIZABLE, SERIALIZABLE),
            standbys=True,
            image="redis",
            programs={"redis-server": "redis-server", "redis-sentinel": "redis-sentinel"},
            one_address=True,
            settings=SETTINGS,
            observation=self,
        )

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start the node that lives at `place`.

        Raises:
            BackendError: there is no Redis there, or peers cannot use the same address for a node.
            UsageError: a write would wait for more replicas than there are.
        """
        if place.home == "here":
            _check_programs()
        if place.peers and ip_address(place.listen[0]).is_loopback:
            raise BackendError(
                f"all Sentinels must know a server by the same address, but {place.node} reaches its peers through "
                "proxies on loopback. Use network namespaces (splitbrain doctor shows what is missing here), or "
                "--backend docker."
            )
        chosen = {name: test.settings.get(name, setting.default) for name, setting in SETTINGS.items()}
        for name in (WAIT, settings.MIN_REPLICAS):
            if chosen[name] >= len(test.nodes):
                raise UsageError(
                    f"--settings {name}={chosen[name]}: {len(test.nodes)} nodes have {len(test.nodes) - 1} replicas."
                )
        self._replicas = chosen[WAIT]
        addresses = {place.node: place.listen, **place.peers}
        self._places = {address: node for node, address in addresses.items()}
        first = addresses[test.nodes[0]]
        primary = None if place.node == test.nodes[0] else first
        files = {
            _PROGRAM: Path(__file__).with_name(_PROGRAM).read_bytes(),
            settings.SERVER_FILE: settings.server(place.listen, primary, place.data_dir, chosen),
            settings.SENTINEL_FILE: settings.sentinel(place.listen, first, len(test.nodes), place.data_dir, chosen),
        }
        python = sys.executable if place.home == "here" else "python3"
        return NodeCommand((python, f"{place.data_dir}/{_PROGRAM}", place.data_dir), files=files)

    async def connect(self, deployment: Deployment, node: NodeId) -> RedisSession:
        """A session with one node.

        Raises:
            DefiniteError: the node could not be reached.
        """
        return RedisSession(await Connection.open(deployment, node), replicas=self._replicas, alone=self._alone)

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        """What the node says of itself, None if it takes more than half a second."""
        opened: list[Connection] = []
        try:
            async with asyncio.timeout(VIEW_TIMEOUT_S):
                opened.append(server := await Connection.open(deployment, node))
                opened.append(sentinel := await Connection.open(deployment, node, SENTINEL))
                return await status(server, sentinel, node, self._places)
        except (DefiniteError, IndefiniteError, TimeoutError):
            return None
        finally:
            for connection in opened:
                connection.close()

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """Its nodes write none: they are asked (`Capabilities.observation`)."""
        return None

    async def observe(self, deployment: Deployment, node: NodeId) -> RedisObserver:
        """A connection to the node's server, for looking at it only.

        Raises:
            DefiniteError: the node could not be reached.
        """
        return RedisObserver(await Connection.open(deployment, node), node, self._places)


def _check_programs() -> None:
    for program in ("redis-server", "redis-sentinel"):
        if shutil.which(program) is None:
            raise BackendError(
                f"there is no {program!r} on this machine (Debian and Ubuntu: apt install {program}). Install it, or "
                "use --backend docker, whose image brings its own."
            )
