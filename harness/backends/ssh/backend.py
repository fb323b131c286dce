"""Nodes on hosts reached over ssh: a deployment for a test. `support` says what works on them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from splitbrain.harness.backends.shared import faketime
from splitbrain.harness.backends.shared.deployed import closed_on_failure
from splitbrain.harness.backends.ssh import machine, support
from splitbrain.harness.backends.ssh.connection import Connection, HostError, connect
from splitbrain.harness.backends.ssh.deployment import SshDeployment
from splitbrain.harness.backends.ssh.inventory import Host, Inventory
from splitbrain.harness.backends.ssh.links import together
from splitbrain.harness.backends.ssh.support import Report, check
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.faults import Support
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.test import Test


class SshBackend:
    """Each node has its own host, which an agent locks during the run.

    Args:
        inventory: the hosts, and how to log in; None to ask only what works in general.
    """

    name = "ssh"

    def __init__(self, inventory: Inventory | None = None) -> None:
        self._inventory = inventory

    def support(self) -> Mapping[str, Support]:
        """What works on all hosts: an agent tries it on each, once in the life of this process.

        Raises:
            BackendError: hosts that cannot be looked at; all of them are named in one message.
        """
        return support.faults(self._inventory)

    def sweep(self) -> list[str]:
        """Nothing: hosts are swept when a test is deployed on them, for only then are they known to be ours to use."""
        return []

    def clean(self, *, dry_run: bool) -> list[str]:
        """Remove what dead controllers left on the hosts, or only list it; a line for each thing.

        Raises:
            BackendError: hosts that cannot be reached, or refuse.
        """
        assert self._inventory is not None, "there are hosts"
        lines: list[str] = []
        for host in self._inventory.hosts:
            connection = connect(host, self._inventory, note=lambda _: None)
            try:
                lines += [f"{host.node}: {line}" for line in _swept(connection, check(connection, (), {}), dry_run)]
            finally:
                connection.close()
        return lines

    def check(self, test: Test) -> None:
        """Refuse a test whose nodes have no hosts, before anything is started.

        Raises:
            UsageError: a node has none.
        """
        self._hosts_of(test)

    async def deploy(self, test: Test, run_dir: Path, runtime: Runtime) -> SshDeployment:
        """Lay out the test's nodes on their hosts, not yet started.

        Raises:
            BackendError: hosts that cannot be reached, or lack something; all of them are named in one message.
            UsageError: a node without a host, or a system that cannot run on hosts.
        """
        hosts = self._hosts_of(test)
        inventory = self._inventory
        assert inventory is not None, "there are hosts"
        notes = {host.node: _note_keeper(run_dir, host.node) for host in hosts}
        executor = ThreadPoolExecutor(max_workers=2 * len(hosts), thread_name_prefix="ssh")
        connections: dict[NodeId, Connection] = {}
        loop = asyncio.get_running_loop()

        async def reach(host: Host) -> None:
            making = executor.submit(connect, host, inventory, notes[host.node])
            try:
                connections[host.node] = await asyncio.wrap_future(making)
            except asyncio.CancelledError:
                making.add_done_callback(_close)  # a thread cannot be called back: what it brings has no owner any more
                raise

        async def prepare(host: Host) -> None:
            await loop.run_in_executor(executor, _prepare, connections[host.node], test, notes[host.node])

        deployment = SshDeployment(test, run_dir, connections, executor)
        async with closed_on_failure(deployment):
            await together([reach(host) for host in hosts])
            _check_addresses(connections)
            await together([prepare(host) for host in hosts])
            libraries = (
                {node: found.library for node, found in support.means_of(inventory).items()}
                if faketime.needed(test)
                else {}
            )
            await deployment.lay_out(libraries)
        return deployment

    def _hosts_of(self, test: Test) -> list[Host]:
        inventory = self._inventory or Inventory(hosts=(), known_hosts=Path())
        inventory.check_nodes(test.nodes)
        hosts = {host.node: host for host in inventory.hosts}
        return [hosts[node] for node in test.nodes]


def _close(made: Future[Connection]) -> None:
    if not made.cancelled() and made.exception() is None:
        made.result().close()


def _note_keeper(run_dir: Path, node: NodeId) -> Callable[[str], None]:
    """What happens while a host is made ready is kept beside its node's log."""
    path = run_dir.absolute() / "nodes" / node / "ssh.log"

    def note(line: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    return note


def _prepare(connection: Connection, test: Test, note: Callable[[str], None]) -> None:
    """See that a host has what the test takes, and sweep what dead controllers left on it."""
    needed = test.system.capabilities
    report = check(connection, needed.imports, needed.programs)
    for line in _swept(connection, report):
        note(line)


def _swept(connection: Connection, report: Report, dry_run: bool = False) -> Iterator[str]:
    """Remove what dead controllers left on a host, or only list it; a line for each."""
    for leftover in report.leftovers:
        if machine.is_abandoned(leftover):
            if not dry_run:
                machine.remove(connection, leftover.path)
            yield f"{'would remove' if dry_run else 'removed'} {leftover.path}, which a dead controller left behind"


def _check_addresses(connections: Mapping[NodeId, Connection]) -> None:
    """Refuse hosts that cuts could not distinguish from each other, or from this machine's clients."""
    nodes_at: dict[str, NodeId] = {}
    for node, connection in connections.items():
        if ":" in connection.address:
            raise HostError(connection.host, f"links are cut by IPv4 address, and {connection.address} is not one.")
        if connection.address in nodes_at:
            raise HostError(connection.host, f"it is the same host as that of {nodes_at[connection.address]}.")
        nodes_at[connection.address] = node
    for connection in connections.values():
        if connection.own_address in nodes_at:
            raise HostError(
                connection.host,
                f"the controller runs on the host of {nodes_at[connection.own_address]}: a cut would hit its clients. "
                "Run it on another machine.",
            )
