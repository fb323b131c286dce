"""Nodes that form a cluster in the simulated world, with models of the services that tell them of each other.

The nodes are real: the machine of formation, its shell, the node behind it with its log and its consensus, on the
simulated network and disks. So is the classic backend. Of the others there are models here, since what is tested is
what nodes make of a service that is slow, incomplete or down; the backends themselves are tested against services.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from splitbrain.cluster.bugs import Bugs
from splitbrain.cluster.discovery.backend import Backend, Listing, Plain
from splitbrain.cluster.discovery.classic import Classic
from splitbrain.cluster.discovery.formation import Settings
from splitbrain.cluster.discovery.forming import Forming
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import DiscoveryError, FormationError
from splitbrain.cluster.nodeconfig import NodeConfig
from splitbrain.cluster.raft import Config
from splitbrain.cluster.runtime import Runtime
from splitbrain.harness.contract.faults import DiskFault
from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.harness.simulation.clock import TrueClock
from splitbrain.harness.simulation.host import SimHost
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.network import SimNetwork
from splitbrain.harness.simulation.worlds import world

MS: Final = 1_000_000
SLOW: Final = Config(heartbeat_ms=400, election_min_ms=2000, election_max_ms=4000)
"""Few messages: formation is tested here, not consensus."""

Kind = Literal["classic", "dns", "k8s", "k8s-api", "consul", "etcd"]
KINDS: Final[tuple[Kind, ...]] = ("classic", "dns", "k8s", "k8s-api", "consul", "etcd")
_REGISTERING: Final = ("consul", "etcd")
_LOCKING: Final = ("consul", "etcd")
TTL_MS: Final = 6000


@dataclass
class Service:
    """What a discovery service holds, and how it is ill.

    Attributes:
        slow_ms: an answer takes up to so long.
        lost: the share of nodes that an answer leaves out.
        down: whether it does not answer.
    """

    clock: TrueClock
    rng: Rng
    slow_ms: int = 0
    lost: float = 0.0
    down: bool = False
    listed: dict[str, int] = field(default_factory=dict[str, int])
    owner: str | None = None
    owned_until_ns: int = 0

    async def reached(self) -> None:
        await self.clock.sleep_ns(self.rng.between(1, max(1, self.slow_ms)) * MS)
        if self.down:
            await self.clock.sleep_ns(300 * MS)
            raise DiscoveryError("the service is down")

    def seen(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if self.rng.random() >= self.lost]

    def alive(self) -> list[str]:
        return sorted(name for name, until_ns in self.listed.items() if until_ns > self.clock.now_ns())


class Model(Plain):
    """A node's way to the service."""

    def __init__(self, kind: Kind, town: Town, node: str) -> None:
        self.name = kind
        self.registers = kind in _REGISTERING
        self.refresh_ms = TTL_MS // 3 if self.registers else 0
        self._kind = kind
        self._town = town
        self._service = town.service
        self._node = node

    async def list_nodes(self) -> Listing:
        if self._kind == "k8s":
            seed = self._town.names[0]
            listed = self._town.names if self._town.lists_all_pods else dict.fromkeys((seed, self._node))
            return Listing(tuple(self._town.peer(name) for name in listed), seed)
        await self._service.reached()
        match self._kind:
            case "dns":
                listed = self._service.seen(self._town.names)
            case "k8s-api":
                listed = self._service.seen([name for name in self._town.names if self._town.runs(name)])
            case _:
                listed = self._service.seen(self._service.alive())
        return Listing(tuple(self._town.peer(name) for name in listed))

    async def register(self) -> None:
        await self._service.reached()
        self._service.listed[self._node] = self._service.clock.now_ns() + TTL_MS * MS

    async def post_registration(self) -> None:
        await self.register()

    async def unregister(self) -> None:
        await self._service.reached()
        self._service.listed.pop(self._node, None)

    async def lock(self, peers: Sequence[Peer]) -> bool:
        if self._kind not in _LOCKING:
            return False
        for _ in range(20):
            await self._service.reached()
            now_ns = self._service.clock.now_ns()
            if self._service.owner in (None, self._node) or self._service.owned_until_ns <= now_ns:
                self._service.owner, self._service.owned_until_ns = self._node, now_ns + TTL_MS * MS
                return True
            await self._service.clock.sleep_ns(300 * MS)
        raise DiscoveryError(f"{self._service.owner} has the lock")

    async def unlock(self) -> None:
        if self._service.owner == self._node:
            self._service.owner = None


class Town:
    """Five nodes and a service. Made by `play`.

    Attributes:
        lists_all_pods: whether the backend k8s knows how many pods there are.
        known: by node, the others with whose addresses it is started (--peer).
    """

    def __init__(self, loop: SimLoop, seed: int, kind: Kind, bugs: Sequence[str], retries: int, count: int) -> None:
        self.loop = loop
        self.kind: Kind = kind
        self.clock = TrueClock(loop)
        self.streams = Streams(seed)
        self.rng = self.streams["plan"]
        self.names = tuple(f"n{i + 1}" for i in range(count))
        nature = world("lan", Rng(0))
        self.network = SimNetwork(loop, self.streams, self.names, nature, None)
        self.hosts = {
            name: SimHost(loop, name, self.network, self.streams, nature, cast(Any, self), None) for name in self.names
        }
        self.service = Service(self.clock, self.streams["service"])
        self.nodes: dict[str, Forming] = {}
        self.backends: dict[str, Classic] = {}
        self.owners_killed = 0
        self.lines: list[str] = []
        self.lists_all_pods = True
        self.known: dict[str, tuple[str, ...]] = {}
        self._bugs = Bugs(bugs)
        self._retries = retries

    # What the hosts say.

    def telemetry(self, node: str, time_ns: int, line: bytes) -> None:
        pass

    def log(self, node: str, time_ns: int, line: str) -> None:
        self.lines.append(f"{time_ns / 1e9:.3f} {node} {line}")

    # What tests do.

    def peer(self, name: str) -> Peer:
        return Peer(name, (name, 1))

    def backend(self, name: str, runtime: Runtime) -> Backend:
        if self.kind == "classic":
            made = self.backends[name] = Classic(runtime, name, tuple(self.peer(each) for each in self.names))
            return made
        return Model(self.kind, self, name)

    def runs(self, name: str) -> bool:
        process = self.hosts[name].process
        return process is not None and process.alive()

    async def boot(self, name: str, called: str | None = None) -> None:
        """Start the node of a host, which is called as its host is, unless one says otherwise."""
        called = called or name
        process, made = self.hosts[name].boot()
        runtime = cast(Runtime, made)
        node = Runtime(
            clock=runtime.clock,
            rng=runtime.rng,
            network=runtime.network,
            disk=runtime.disk,
            spawn=runtime.spawn,
            telemetry=runtime.telemetry,
            log=runtime.log,
        )
        peers = {each: (each, 1) for each in self.known.get(name, ()) if each != name}
        config = NodeConfig(called, (name, 1), peers, SLOW, self._bugs)
        settings = Settings(called, len(self.names), retries=self._retries, bugs=self._bugs)
        forming = Forming(config, settings, node, self.backend(called, node), (name, 1))
        self.nodes[name] = forming
        process.spawn(forming.start(), "start")

    def kill(self, name: str, *, power: bool = False) -> None:
        if power:
            self.hosts[name].power_off()
        else:
            self.hosts[name].kill()

    def wipe(self, name: str) -> None:
        """Kill a node, and lose all that it ever wrote."""
        self.kill(name)
        self.hosts[name].spoil(DiskFault(wipe=True))
        self.hosts[name].spoil(None)

    def failure(self, name: str) -> BaseException | None:
        process = self.hosts[name].process
        return process.failure if process is not None else None

    def founders(self) -> list[str]:
        """Nodes that ever founded a cluster."""
        return sorted({line.split()[1] for line in self.lines if " founds the cluster" in line})

    def members(self, name: str) -> tuple[str, ...]:
        """What a node that runs says of its cluster; nothing if it does not run."""
        return self.nodes[name].properties.members if self.runs(name) else ()

    def settled(self) -> bool:
        """Whether each node that runs sees the same members, itself among them, and the others gave up."""
        seen = [self.members(name) for name in self.names if self.runs(name)]
        return len(set(seen)) <= 1 and all(seen)

    async def wait(self, seconds: float) -> None:
        await self.clock.sleep_ns(int(seconds * 1e9))

    def owner(self) -> str | None:
        """Who has the lock."""
        if self.kind != "classic":
            return self.service.owner
        holding = (name for name, backend in self.backends.items() if self.runs(name) and backend.holds)
        return next(holding, None)

    async def until(self, condition: Callable[[], bool], seconds: float, every_s: float = 0.2) -> bool:
        for _ in range(int(seconds / every_s)):
            if condition():
                return True
            await self.wait(every_s)
        return condition()

    def problems(self) -> list[str]:
        """What must not be: two clusters, or a node that is in none and does not say why."""
        found: list[str] = []
        if len(self.founders()) > 1:
            found.append(f"{' and '.join(self.founders())} each founded a cluster")
        for name in self.names:
            failure = self.failure(name)
            if failure is not None and not isinstance(failure, FormationError):
                found.append(f"{name} failed: {type(failure).__name__}: {failure}")
            elif self.runs(name) and not self.members(name):
                found.append(f"{name} is in no cluster, and does not say why")
        return found


def play(
    story: Callable[[Town], Awaitable[None]],
    seed: int,
    kind: Kind,
    bugs: Sequence[str] = (),
    *,
    retries: int = 8,
    count: int = 5,
) -> Town:
    """Let a story happen in a town; the same seed gives the same town each time."""
    loop = SimLoop(Rng(seed))
    towns: list[Town] = []

    async def main() -> None:
        towns.append(Town(loop, seed, kind, bugs, retries, count))
        await story(towns[0])

    loop.run(main())
    return towns[0]
