"""RabbitMQ as a system under test: how to start a node, how to talk to it, who leads."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path  # noqa: TID251 - reads the node's probe
from typing import Final

from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace, NodeView
from splitbrain.harness.contract.operations import KEY_VALUE, READ_MODES
from splitbrain.harness.contract.read_modes import LINEARIZABLE, SERIALIZABLE, ReadMode
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.rabbitmq import settings
from splitbrain.harness.systems.rabbitmq.connection import Connection
from splitbrain.harness.systems.rabbitmq.logs import last_words
from splitbrain.harness.systems.rabbitmq.probe import (
    KHEPRI,
    Asked,
    Probe,
    RabbitmqObserver,
    ask,
    view_of,
)
from splitbrain.harness.systems.rabbitmq.registers import READS, RabbitmqRegisters
from splitbrain.harness.systems.rabbitmq.session import RabbitmqSession
from splitbrain.harness.systems.rabbitmq.settings import (
    MIRRORED,
    PARTITION_HANDLING,
    PROBE,
    QUEUE_TYPE,
    RELEASE,
    RELEASES,
    SETTINGS,
    STORE,
    STORES,
    TICK_TIME,
)
from splitbrain.results.errors import BackendError, UsageError

VIEW_TIMEOUT_S: Final = 0.5
STORE_TIMEOUT_S: Final = 1.0

START_S: Final = 180.0
"""Three nodes take 16 to 34 s on two cores without other load."""


class Rabbitmq:
    """RabbitMQ 3.10 or later, over AMQP 0-9-1.

    Args:
        read_mode: how sets of names, and names that are declared, are read (`RabbitmqSession`).
    """

    name = "rabbitmq"
    second = KHEPRI
    bugs: Mapping[str, str] = {}
    election_timeout_s = 5.0
    """A quorum queue elects within a second once a node is known to be down: a broken connection says so at once, a
    silent one after the tick time."""

    def __init__(self, read_mode: ReadMode = LINEARIZABLE) -> None:
        self._consistent = read_mode == LINEARIZABLE
        self._started: set[NodeId] = set()
        self._sessions = itertools.count()
        self._has_registers = False
        self._queue_type = SETTINGS[QUEUE_TYPE].default
        self.capabilities = Capabilities(
            operations=frozenset(
                {
                    *("creations", "key-value", "read-modes", "collections", "lease-locks", "topology"),
                    *("queues", "single-active", "limited-queues", "expiring-queues", "streams"),
                }
            ),
            read_modes=(LINEARIZABLE, SERIALIZABLE),
            session_reads=READS,
            image="rabbitmq",
            image_for=settings.image_of,
            programs={settings.BINARY: "rabbitmq-server"},
            release=settings.installed_release,
            one_address=True,
            last_words=last_words,
            start_s=START_S,
            settings=SETTINGS,
            observation=self,
            migrations=self,
        )

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start the node that lives at `place`.

        Raises:
            BackendError: peers cannot use the same address for a node.
            UsageError: the release does not have what is chosen.
        """
        if place.peers and ip_address(place.listen[0]).is_loopback:
            raise BackendError(
                f"all nodes of RabbitMQ must know a node by the same address, but {place.node} reaches its peers "
                "through proxies on loopback. Use network namespaces (splitbrain doctor shows what is missing here), "
                "or --backend docker."
            )
        chosen = {name: test.settings.get(name, setting.default) for name, setting in SETTINGS.items()}
        khepri = STORES[chosen[STORE]] == "khepri"
        if RELEASES[chosen[RELEASE]] == "3.10" and khepri:
            raise UsageError("--settings store=khepri: RabbitMQ 3.10 has Mnesia only: choose release=4.0.")
        if RELEASES[chosen[RELEASE]] != "3.10" and chosen[QUEUE_TYPE] == MIRRORED:
            raise UsageError("--settings queue-type=mirrored: RabbitMQ 4.0 has no mirrors: choose release=3.10.")
        self._started.add(place.node)
        self._queue_type = chosen[QUEUE_TYPE]
        self._has_registers = bool(test.workload.needs & {KEY_VALUE.name, READ_MODES.name})
        data, release = place.data_dir, RELEASES[chosen[RELEASE]]
        configuration = settings.configuration(
            listen=place.listen,
            nodes=test.nodes,
            strategy=chosen[PARTITION_HANDLING],
            retries=settings.RETRIES[release],
        )
        files = {
            settings.CONFIGURATION: configuration.encode(),
            settings.DEFINITIONS: settings.definitions(mirrored=self._queue_type == MIRRORED),
            settings.PLUGINS: b"[].\n",
            settings.HOSTS: settings.hosts({place.node: place.listen, **place.peers}),
            **{name: Path(__file__).with_name(name).read_bytes() for name in (settings.PROGRAM, f"{PROBE}.erl")},
        }
        env = settings.environment(
            node=place.node, listen=place.listen, data=data, tick_s=chosen[TICK_TIME], khepri=khepri
        )
        argv = ("sh", f"{data}/{settings.PROGRAM}", settings.BINARY, release, *RELEASES)
        return NodeCommand(argv, env=env, files=files)

    async def connect(self, deployment: Deployment, node: NodeId) -> RabbitmqSession:
        """A session with one node.

        Raises:
            DefiniteError: the node could not be reached.
        """
        probe = None if node not in self._started else Asked(deployment, node)
        how = "consistent" if self._consistent else "local"
        registers = None
        if self._has_registers and node in self._started:
            registers = RabbitmqRegisters(Asked(deployment, node, once=True), how)
        return RabbitmqSession(
            await Connection.open(deployment, node),
            self._queue_type,
            probe,
            connect=functools.partial(Connection.open, deployment, node),
            registers=registers,
            name=f"{node}.{next(self._sessions)}",
            consistent=self._consistent,
        )

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        """What the node says of itself, None if it takes more than half a second, or has not started yet."""
        if node not in self._started:
            return None
        try:
            async with asyncio.timeout(VIEW_TIMEOUT_S):
                return view_of(node, await ask(deployment, node), len(self._started))
        except (DefiniteError, TimeoutError):
            return None

    async def migrate(self, deployment: Deployment, asked: NodeId) -> None:
        """Have the cluster move its metadata to Khepri, by its feature flag.

        Raises:
            DefiniteError: the node refused, or could not be reached.
            IndefiniteError: it was asked, and gave no answer.
        """
        probe = await Probe.open(deployment, self._checked(asked))
        try:
            refusals = await probe.request("migrate", list[str])
        except DefiniteError as silence:
            raise IndefiniteError(str(silence)) from silence
        finally:
            probe.close()
        if refusals:
            raise DefiniteError(refusals[0])

    async def store_of(self, deployment: Deployment, node: NodeId) -> str | None:
        """The store that is in force on a node; None if it does not say within a second."""
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                return (await ask(deployment, self._checked(node))).store
        except (DefiniteError, TimeoutError):
            return None

    def _checked(self, node: NodeId) -> NodeId:
        """A node that was started.

        Raises:
            DefiniteError: it was not.
        """
        if node not in self._started:
            raise DefiniteError(f"{node} was not started yet")
        return node

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """Its nodes write none: they are asked (`Capabilities.observation`)."""
        return None

    async def observe(self, deployment: Deployment, node: NodeId) -> RabbitmqObserver:
        """A connection to the probe in the node's VM, for looking at it only.

        Raises:
            DefiniteError: the node was not started, or could not be reached.
        """
        return RabbitmqObserver(await Probe.open(deployment, self._checked(node)), node, len(self._started))
