"""The rows of the fault matrix: one deployment per backend, of nodes that do and report what a client asks them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import sys
import time
import zlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from splitbrain.harness.backends.docker import DockerBackend
from splitbrain.harness.backends.local import LocalBackend
from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.backends.ssh.backend import SshBackend
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import Deployment, MessageConnection
from splitbrain.harness.contract.embedding import NodeWorld
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace
from splitbrain.harness.contract.realtime import RealClock
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.contract.test import Backend, Test
from splitbrain.harness.simulation.clock import EPOCH_NS, TrueClock
from splitbrain.harness.simulation.loop import SimLoop
from tests.backends.ssh_support import Hosts
from tests.backends.support import NODES

PROGRAM: Final = Path(__file__).with_name("matrix_node.py").read_text()
ANSWERS_WITHIN_S: Final = 30.0


class MatrixSystem:
    """Nodes that do what a client asks them; in a simulation they are `SimNode`s."""

    name = "matrix"

    def __init__(self, python: str = "python3") -> None:
        self.capabilities = Capabilities(image="node", simulation=self)
        self._python = python

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        peers = [f"{peer}={host}:{port}" for peer, (host, port) in place.peers.items()]
        host, port = place.listen
        words = (place.node, host, str(port), place.data_dir, *peers)
        return NodeCommand((self._python, "-S", "-E", "-c", PROGRAM, *words))

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        return None

    async def embed(self, command: NodeCommand, world: NodeWorld) -> None:
        await SimNode(command, world).start()


class SimNode:
    """What `matrix_node.py` is, on a simulated world: every message crosses a connection."""

    def __init__(self, command: NodeCommand, world: NodeWorld) -> None:
        _, host, port, _, *peers = command.argv[5:]
        self._world = world
        self._listen = (host, int(port))
        named = (peer.split("=") for peer in peers)
        self._peers = {name: (at.split(":")[0], int(at.split(":")[1])) for name, at in named}
        self._rounds: dict[str, list[int]] = {}
        self._connections: dict[str, Any] = {}
        self._broken = dict.fromkeys(self._peers, 0)
        self._file = world.disk.open("written")

    async def start(self) -> None:
        with contextlib.suppress(OSError):
            await self._world.disk.sync_names()
        await self._world.network.listen(self._listen, self._serve)

    async def _serve(self, connection: Any) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                asked = json.loads(await connection.receive())
                if "do" in asked:
                    answer = await getattr(self, "_" + asked.pop("do"))(**asked)
                    connection.send(json.dumps(answer).encode())
                else:
                    self._rounds.setdefault(asked["round"], []).append(asked["number"])

    async def _send(self, to: str, round: str, count: int, size: int, how: str) -> dict[str, Any]:
        messages = [json.dumps({"round": round, "number": number}).ljust(size).encode() for number in range(count)]
        self._world.spawn(self._stream(to, messages), "send")
        return {}

    async def _stream(self, to: str, messages: Sequence[bytes]) -> None:
        if to not in self._connections:
            try:
                self._connections[to] = await self._world.network.connect(self._peers[to])
            except ConnectionError:
                return
            self._world.spawn(self._watch(to, self._connections[to]), "watch")
        for message in messages:
            self._connections[to].send(message)

    async def _watch(self, to: str, connection: Any) -> None:
        with contextlib.suppress(ConnectionError):
            await connection.receive()
        self._broken[to] += 1
        del self._connections[to]

    async def _got(self, round: str) -> dict[str, Any]:
        return {"numbers": self._rounds.get(round, []), "garbled": 0}

    async def _breaks(self) -> dict[str, int]:
        return self._broken

    async def _write(self) -> dict[str, Any]:
        wrote, synced = self._put(5000), None
        try:
            await self._file.sync()
        except OSError as problem:
            synced = errno.errorcode[problem.errno or 0]
        return {"wrote": wrote, "synced": synced, "size": self._size()}

    async def _append(self) -> dict[str, Any]:
        return {"wrote": self._put(100), "size": self._size()}

    def _put(self, size: int) -> str | None:
        data = bytes(self._world.rng.between(1, 255) for _ in range(size))
        try:
            self._file.append(data)
        except OSError as problem:
            return errno.errorcode[problem.errno or 0]
        return None

    async def _read(self) -> dict[str, int]:
        return {"size": self._size(), "checksum": zlib.crc32(self._world.disk.read("written") or b"")}

    def _size(self) -> int:
        with contextlib.suppress(OSError):
            return len(self._world.disk.read("written") or b"")
        return 0

    async def _time(self) -> dict[str, float]:
        return {"wall_s": self._world.clock.wall_ns() / 1e9}

    async def _work(self) -> dict[str, Any]:
        for _ in range(400):
            await self._world.clock.sleep(1)
        return {}


class Nodes:
    """A deployment of three nodes, and the true time.

    Attributes:
        deployment: of the nodes.
        packets: whether their links carry packets; else they carry what streams and connections carry.
    """

    def __init__(self, deployment: Deployment, *, packets: bool, wall_s: Callable[[], float] = time.time) -> None:
        self.deployment = deployment
        self.packets = packets
        self.wall_s = wall_s

    async def ask(self, node: NodeId, do: str, **rest: Any) -> Any:
        """Let a node do something; its answer."""
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            with await self.line(node) as line:
                line.send({"do": do, **rest})
                return await line.answer()

    async def line(self, node: NodeId) -> Line:
        """A connection to a node, as soon as it takes one."""
        while True:
            with contextlib.suppress(DefiniteError):
                return Line(await self.deployment.dial(node))
            status = await self.deployment.status(node)
            assert status.state != "stopped", f"{node} has ended: {status.evidence}"
            await asyncio.sleep(0.05)

    async def tidy(self) -> None:
        """Let all nodes run with nothing wrong."""
        await self.deployment.cut(frozenset())
        await self.deployment.disturb({})
        for node in self.deployment.nodes:
            await self.deployment.resume(node)
            await self.deployment.throttle(node, None)
            await self.deployment.spoil(node, None)
            await self.deployment.skew(node, None)
            await self.deployment.start(node)


class Line:
    """A client's connection to a node."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(self, asked: dict[str, Any]) -> None:
        self._connection.send(json.dumps(asked).encode() + b"\n")

    async def answer(self) -> Any:
        if hasattr(self._connection, "receive"):
            return json.loads(await cast(MessageConnection, self._connection).receive())
        received = b""
        while not received.endswith(b"\n"):
            piece = await asyncio.get_running_loop().sock_recv(self._connection, 65536)
            assert piece, "the node closed the connection"
            received += piece
        return json.loads(received)


BACKENDS: Final = {"local": "local", "local by proxies": "local", "docker": "docker", "ssh": "ssh", "sim": "sim"}
"""The rows, and the backend that each belongs to."""

_NOT_TO_STREAMS: Final[frozenset[FaultKind]] = frozenset(faultkinds.LINK_KINDS) - {"delay", "rate", "reset", "hold"}

NEVER: Final[dict[str, frozenset[FaultKind]]] = {
    **dict.fromkeys(BACKENDS, frozenset[FaultKind]()),
    "local by proxies": _NOT_TO_STREAMS,
}
"""What a row cannot have on any machine, of what is measured."""


def backend_of(row: str, hosts: Callable[[], Hosts]) -> Backend:
    """The backend of a row; hosts are asked for only where they are needed."""
    made: dict[str, Callable[[], Any]] = {
        "local": lambda: LocalBackend("namespaces"),
        "local by proxies": lambda: LocalBackend("proxy"),
        "docker": DockerBackend,
        "ssh": lambda: SshBackend(hosts().inventory),
        "sim": SimBackend,
    }
    return made[row]()


def works(backend: Backend) -> dict[FaultKind, bool]:
    return {cast(FaultKind, kind): support.works for kind, support in backend.support().items()}


def matrix_test(backend: Backend) -> Test:
    """As much of a test as a backend looks at; its nemesis needs everything that works."""
    python = sys.executable if backend.name == "local" else "python3"
    nemesis = SimpleNamespace(faults=frozenset(kind for kind, found in works(backend).items() if found))
    test = SimpleNamespace(nodes=NODES, system=MatrixSystem(python), nemesis=nemesis, seed=1)
    return cast(Test, test)


async def deployed(row: str, backend: Backend, run_dir: Path) -> Nodes:
    """The nodes of a row, which run."""
    runtime = Runtime(clock=RealClock(), streams=Streams(1))
    deployment = await backend.deploy(matrix_test(backend), run_dir, runtime)
    try:
        await asyncio.gather(*(deployment.start(node) for node in NODES))
    except BaseException:
        await deployment.close()
        raise
    return Nodes(deployment, packets=row != "local by proxies")


class _Silence:
    def telemetry(self, node: NodeId, time_ns: int, line: bytes) -> None:
        pass

    def log(self, node: NodeId, time_ns: int, line: str) -> None:
        pass


def measured_in_simulation(measure: Callable[[Nodes], Awaitable[None]]) -> None:
    """Measure on simulated nodes that nothing happened to before."""
    streams = Streams(1)
    loop = SimLoop(streams["scheduler"])

    async def scenario() -> None:
        backend = SimBackend("lan", _Silence())
        deployment = await backend.deploy(matrix_test(backend), Path("simulation"), Runtime(TrueClock(loop), streams))
        for node in NODES:
            await deployment.start(node)
        nodes = Nodes(deployment, packets=False, wall_s=lambda: (EPOCH_NS + loop.now_ns) / 1e9)
        await measure(nodes)
        await deployment.close()

    loop.run(scenario())
