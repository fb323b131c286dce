"""What the tests of the ssh backend share: hosts, which are containers that run sshd, and nodes that gossip on them."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import docker
import pytest
from docker.errors import NotFound
from docker.models.containers import Container

from splitbrain.harness import images
from splitbrain.harness.backends.ssh.backend import SshBackend
from splitbrain.harness.backends.ssh.deployment import SshDeployment
from splitbrain.harness.backends.ssh.inventory import Inventory
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.nodes import NodeCommand, NodePlace
from splitbrain.harness.contract.realtime import RealClock
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError
from tests.backends.support import GOSSIP_NODE, GossipSystem, gossip_test, missing

LABEL: Final = "splitbrain.tests"
USER: Final = "splitbrain"
UP_WITHIN_S: Final = 60.0
_WRITABLE: Final = """
mount -o remount,rw /sys
for place in /sys/fs/cgroup /sys/fs/cgroup/cpu /sys/fs/cgroup/cpu,cpuacct; do
    if mountpoint -q $place; then mount -o remount,bind,rw $place; fi
done
"""
"""What a container may not write, and a host may."""


class HostGossip(GossipSystem):
    """Gossiping nodes on hosts; `argv` replaces the program, `imports` is what hosts must have."""

    def __init__(self, argv: tuple[str, ...] = (), imports: Sequence[str] = ()) -> None:
        super().__init__("udp", argv)
        self.capabilities = Capabilities(uploads={"gossip_node.py": GOSSIP_NODE}, imports=tuple(imports))

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        host, port = place.listen
        peers = [f"{peer}={address[0]}:{address[1]}" for peer, address in place.peers.items()]
        program = f"{place.home_dir}/gossip_node.py"
        argv = self.argv or ("python3", "-S", "-E", program, self.transport, place.node, host, str(port), *peers)
        return NodeCommand(argv=argv, env={"GOSSIP_DATA": place.data_dir})


_ENVIRONMENT: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
"""Of commands on hosts: nothing of this process, such as the width of a terminal, to which `ps` would cut its lines."""


def new_key(path: Path) -> str:
    """Make a key pair; the public key, as type and text."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    kind, text, *_ = path.with_name(path.name + ".pub").read_text().split()
    return f"{kind} {text}"


@dataclass
class Hosts:
    """Running hosts: their addresses in order, how to reach them, and their containers."""

    addresses: list[str]
    inventory: Inventory
    containers: list[Container]
    folder: Path

    def of(self, *numbers: int, **changed: Any) -> Inventory:
        """An inventory of some hosts (from 0), with some fields changed."""
        fields: dict[str, Any] = {
            "hosts": tuple(self.inventory.hosts[number] for number in numbers) or self.inventory.hosts,
            "known_hosts": self.inventory.known_hosts,
            "key": self.inventory.key,
            **changed,
        }
        return Inventory(**fields)

    def on(self, number: int, command: str) -> str:
        """Run a shell command as root on a host; what it printed.

        Not by the engine's own `exec`: on a busy machine it once lost what the command printed, and said 0.
        """
        self.containers[number].reload()
        pid = self.containers[number].attrs["State"]["Pid"]
        entered = ["nsenter", "-t", str(pid), "--mount", "--uts", "--ipc", "--net", "--pid"]
        done = subprocess.run([*entered, "sh", "-c", command], env=_ENVIRONMENT, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return (done.stdout + done.stderr).decode()

    def traces(self) -> list[str]:
        """What a run leaves on hosts while it lasts: directories, processes and rules; empty when nothing is left."""
        command = "ls -d /var/tmp/splitbrain-* 2>/dev/null; ps ax -o args | grep -E '[g]ossip_node|[a]gent.remote'; "
        command += "nft list tables | grep -w splitbrain; iptables-save 2>/dev/null | grep SPLITBRAIN; "
        command += "ls -d /sys/fs/cgroup/cpu*/splitbrain-host* 2>/dev/null; true"
        found: list[str] = []
        for number, address in enumerate(self.addresses):
            found += [f"{address}: {line}" for line in self.on(number, command).splitlines()]
        return found

    def wait_until_clear(self, within_s: float = 60.0, *, but: str = "") -> list[str]:
        """Traces that are still there when time is up; those that contain `but` do not count."""
        deadline = time.monotonic() + within_s
        while True:
            left = [trace for trace in self.traces() if not but or but not in trace]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.1)


@contextmanager
def running_hosts(count: int, folder: Path, *capabilities: str) -> Generator[Hosts, None, None]:
    """So many hosts on a network of their own, gone at the end. They know one key, and have one between them.

    Root has these capabilities there beside those that faults need.
    """
    try:
        image = images.ensure("host")
    except BackendError as error:
        missing(str(error))
    client: docker.DockerClient = images.engine()
    user_key, host_key = new_key(folder / "user"), new_key(folder / "host")
    network = client.networks.create(f"splitbrain-tests-{folder.name}-{time.time_ns()}", labels={LABEL: "ssh"})
    containers: list[Container] = []
    try:
        for number in range(1, count + 1):
            containers.append(
                client.containers.create(
                    image,
                    hostname=f"host{number}",
                    network=str(network.name),
                    labels={LABEL: "ssh"},
                    environment={"AUTHORIZED_KEY": user_key, "HOST_KEY": (folder / "host").read_text()},
                    # A host of one's own is more than a container usually is: it mounts, it has loop devices.
                    cap_add=["NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE", *capabilities],
                    security_opt=["seccomp=unconfined", "apparmor=unconfined"],
                    devices=["/dev/loop-control"],
                    device_cgroup_rules=["b 7:* rwm"],
                )
            )
            containers[-1].start()
        addresses = [_address(container) for container in containers]
        (folder / "known_hosts").write_text("".join(f"{address} {host_key}\n" for address in addresses))
        hosts = ",".join(f"n{number}={USER}@{address}" for number, address in enumerate(addresses, 1))
        inventory = Inventory.of(hosts, str(folder / "known_hosts"), str(folder / "user"))
        found = Hosts(addresses, inventory, containers, folder)
        for number, address in enumerate(addresses):
            _wait_for_sshd(address)
            found.on(number, _WRITABLE)
        yield found
    finally:
        for container in containers:
            with contextlib.suppress(NotFound):
                container.remove(force=True)
        network.remove()
        client.close()


def _address(container: Container) -> str:
    container.reload()
    [network] = container.attrs["NetworkSettings"]["Networks"].values()
    return network["IPAddress"]


def _wait_for_sshd(address: str) -> None:
    deadline = time.monotonic() + UP_WITHIN_S
    while True:
        try:
            with socket.create_connection((address, 22), timeout=1) as endpoint:
                endpoint.settimeout(5)
                if endpoint.recv(4) == b"SSH-":
                    return
        except OSError as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"sshd does not come up on {address}: {error}") from None
        time.sleep(0.05)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hosts, None, None]:
    """Three hosts for the tests of a module."""
    with running_hosts(3, tmp_path_factory.mktemp("hosts")) as found:
        yield found


async def deploy(
    inventory: Inventory, run_dir: Path, system: GossipSystem | None = None, faults: Sequence[FaultKind] = ()
) -> SshDeployment:
    """Nodes on all hosts of the inventory, not yet started."""
    test = gossip_test(system or HostGossip(), [host.node for host in inventory.hosts], faults)
    backend = SshBackend(inventory)
    if faults:
        support = backend.support()
        assert all(support[kind].works for kind in faults), support
    return await backend.deploy(test, run_dir, Runtime(clock=RealClock(), streams=Streams(1)))


@asynccontextmanager
async def deployed(
    inventory: Inventory, run_dir: Path, system: GossipSystem | None = None, faults: Sequence[FaultKind] = ()
) -> AsyncGenerator[SshDeployment, None]:
    """A deployment that is closed at the end."""
    deployment = await deploy(inventory, run_dir, system, faults)
    try:
        yield deployment
    finally:
        await deployment.close()
