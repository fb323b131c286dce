"""A deployment in memory, as obedient or as disobedient as a test wants it, and what nemesis ops need around it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import msgspec

from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.clock import Runtime, Timer
from splitbrain.harness.contract.discovery import DiscoveryTrouble
from splitbrain.harness.contract.faults import ClientFault, ClockFault, DiskFault, LinkFault
from splitbrain.harness.contract.moments import Act, Moment, Passed
from splitbrain.harness.contract.nodes import Link, NodeId, NodeStatus, NodeView
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.grudges import all_links
from splitbrain.results.errors import BackendError, NodeStartError
from splitbrain.results.history import NEMESIS, Op

FIVE = ("n1", "n2", "n3", "n4", "n5")

MIXES = (
    "partition",
    "swizzle",
    "packet",
    "clog",
    "clock",
    "disk",
    "cpu",
    "pause",
    "kill",
    "bounce",
    "restart",
    "power",
    "membership",
    "upgrade",
    "transfer",
    "groups",
    "moment",
    "bounce-at-moments",
    "clients",
)
"""Everything that a simulation can do and a correct system survives, each kind in the mix of its ways."""

T = TypeVar("T")


def run(awaitable: Awaitable[T]) -> T:
    """Run one coroutine to its end."""

    async def main() -> T:
        return await awaitable

    return asyncio.run(main())


@dataclass
class Nodes:
    """`Deployment` without nodes. What it should disobey is listed by node or link.

    Attributes:
        leaky: links that pass although they are cut.
        dead: links that never pass.
        lost_probes: for each link, how many measurements are lost although it passes.
        immortal: nodes that survive kill and pause.
        deaf: nodes that do not stop in good order, and must be killed.
        ends: how nodes end that are asked to stop, if not by exit code 0.
        broken: nodes that cannot be started.
        fragile: nodes that do not start while sectors of their disks are rotten, nor once files lost their ends.
        blank: nodes whose disks hold nothing that could rot.
        deafened: links that take no fault.
        stubborn: nodes whose clocks nobody can set.
        loses: what a node that loses its power loses.
        unheard: for each node, how many changes of its clock are made, or not, without an answer.
        silent: what the backend cannot tell: "dropped", "disturbed", "status".
    """

    nodes: Sequence[NodeId] = FIVE
    leaky: set[Link] = field(default_factory=set[Link])
    dead: set[Link] = field(default_factory=set[Link])
    lost_probes: dict[Link, int] = field(default_factory=dict[Link, int])
    immortal: set[NodeId] = field(default_factory=set[NodeId])
    deaf: set[NodeId] = field(default_factory=set[NodeId])
    ends: dict[NodeId, str] = field(default_factory=dict[NodeId, str])
    broken: set[NodeId] = field(default_factory=set[NodeId])
    fragile: set[NodeId] = field(default_factory=set[NodeId])
    blank: set[NodeId] = field(default_factory=set[NodeId])
    deafened: set[Link] = field(default_factory=set[Link])
    stubborn: set[NodeId] = field(default_factory=set[NodeId])
    loses: Mapping[str, int] = field(default_factory=lambda: {"bytes_lost": 512, "sectors_torn": 1})
    unheard: dict[NodeId, int] = field(default_factory=dict[NodeId, int])
    silent: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.cut_links: dict[Link, int] = {}
        self.states: dict[NodeId, str] = dict.fromkeys(self.nodes, "running")
        self.lives: dict[NodeId, int] = dict.fromkeys(self.nodes, 1)
        self.calls: list[str] = []
        self.faults: dict[Link, LinkFault] = {}
        self.did: dict[Link, dict[str, int]] = {}
        self.disks: dict[NodeId, DiskFault] = {}
        self.damaged: set[NodeId] = set()
        self.disk_did: dict[NodeId, dict[str, Any]] = {}
        self.clocks: dict[NodeId, ClockFault] = {}
        self.shares: dict[NodeId, float] = {}
        self.clients: dict[NodeId, ClientFault] = {}

    async def status(self, node: NodeId) -> NodeStatus:
        self._speak("status")
        letter = {"running": "S", "paused": "T", "stopped": ""}[self.states[node]]
        return NodeStatus(state=cast("Any", self.states[node]), life=self.lives[node], evidence={"state": letter})

    def _speak(self, what: str) -> None:
        if what in self.silent:
            raise BackendError(f"the agent says nothing of {what}")

    async def _become(self, node: NodeId, state: str) -> NodeStatus:
        self.calls.append(f"{state} {node}")
        if node not in self.immortal:
            self.states[node] = state
        return await self.status(node)

    async def start(self, node: NodeId) -> NodeStatus:
        if node in self.broken:
            raise BackendError(f"{node} ended at once: no such file")
        rotten = node in self.disks and self.disks[node].rot
        if node in self.fragile and (rotten or node in self.damaged):
            raise NodeStartError(f"{node} does not start: log, byte 77: a record that was durable is damaged")
        if self.states[node] == "stopped":
            self.lives[node] += 1
            return await self._become(node, "running")
        return await self.status(node)

    async def kill(self, node: NodeId) -> NodeStatus:
        return await self._become(node, "stopped")

    async def stop(self, node: NodeId) -> NodeStatus:
        self.calls.append(f"asked {node}")
        ended = await self._become(node, "stopped")
        seen: dict[str, Any] = {"exit": self.ends.get(node, "exit code 0")}
        if node in self.deaf:
            seen = {"exit": "SIGKILL", "killed": True}
        return msgspec.structs.replace(ended, evidence=seen)

    async def pause(self, node: NodeId) -> NodeStatus:
        return await self._become(node, "paused")

    async def resume(self, node: NodeId) -> NodeStatus:
        return await self._become(node, "running") if self.states[node] == "paused" else await self.status(node)

    async def at_moment(self, moments: Sequence[Moment], act: Act, within_ns: int) -> Passed | None:
        """The first moment comes at once, on its node or on the first one that runs."""
        node = moments[0].node or next((node for node in self.nodes if self.states[node] == "running"), None)
        if node is None:
            return None
        await act(node)
        return Passed(moments[0], node)

    async def cut(self, links: frozenset[Link]) -> None:
        self.calls.append(f"cut {len(links)}")
        self.cut_links = dict.fromkeys(sorted(links), 0)

    async def passes(self, links: Sequence[Link]) -> dict[Link, bool]:
        return {link: self._passes(link) for link in links}

    def _passes(self, link: Link) -> bool:
        if self.lost_probes.get(link, 0):
            self.lost_probes[link] -= 1
            return False
        clogged = link in self.faults and self.faults[link].held
        return not clogged and link not in self.dead and (link not in self.cut_links or link in self.leaky)

    async def dropped(self) -> dict[Link, int]:
        self._speak("dropped")
        return dict(self.cut_links)

    async def power_off(self, node: NodeId) -> NodeStatus:
        status = await self._become(node, "stopped")
        return msgspec.structs.replace(status, evidence={**status.evidence, **self.loses})

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        self.calls.append(f"disturb {len(faults)}")
        self.faults = {link: fault for link, fault in faults.items() if link not in self.deafened}
        self.did = {link: {} for link in self.faults}

    async def disturbed(self) -> dict[Link, dict[str, int]]:
        self._speak("disturbed")
        return {link: dict(counts) for link, counts in self.did.items()}

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> dict[str, Any]:
        self.calls.append(f"spoil {node}" if fault else f"unspoil {node}")
        told: dict[str, Any] = dict(self.disk_did.pop(node, {}))
        self.disks.pop(node, None)
        if fault is not None:
            self.disks[node] = fault
            if fault.truncate and node not in self.blank:
                self.damaged.add(node)
            if fault.wipe:
                self.damaged.discard(node)
            if fault.truncate:
                told["truncated"] = [] if node in self.blank else [["log", 77]] * fault.truncate
            if fault.rot:
                told["rotten"] = [] if node in self.blank else [["log", sector] for sector in range(fault.rot)]
        return told

    async def skew(self, node: NodeId, fault: ClockFault | None) -> dict[str, Any]:
        self.calls.append(f"skew {node}" if fault else f"unskew {node}")
        before = self.clocks.pop(node, ClockFault())
        after = before if node in self.stubborn else fault or ClockFault()
        if after != ClockFault():
            self.clocks[node] = after
        if self.unheard.get(node, 0):
            self.unheard[node] -= 1
            raise BackendError(f"the agent of {node} did not answer")
        return {"before": msgspec.structs.asdict(before), "after": msgspec.structs.asdict(after)}

    async def throttle(self, node: NodeId, share: float | None) -> dict[str, Any]:
        self.calls.append(f"throttle {node} {share}")
        throttled = {"throttled": 3} if node in self.shares else {}
        self.shares.pop(node, None)
        if share is not None:
            self.shares[node] = share
        return throttled

    async def disturb_clients(self, faults: Mapping[NodeId, ClientFault]) -> dict[NodeId, dict[str, int]]:
        self.calls.append(f"disturb clients {len(faults)}")
        did = {node: {"swallowed": 2} for node in self.clients}
        self.clients = dict(faults)
        return did

    async def dial(self, node: NodeId, behind: int = 0) -> Any:
        raise NotImplementedError("no test of a nemesis talks to a node")

    async def close(self) -> None:
        return None

    def reachable(self, source: NodeId, destination: NodeId) -> bool:
        return self._passes((source, destination))


@dataclass
class Roles:
    """Stands for a system that only tells who leads: (role, term, leader) by node; a node without one is silent."""

    roles: dict[NodeId, tuple[str, int, NodeId | None]] = field(
        default_factory=dict[NodeId, tuple[str, int, NodeId | None]]
    )
    membership: Members | None = None
    upgrades: Versions | None = None
    transfer: Transfers | None = None
    migrations: Migrations | None = None
    groups: Groups | None = None
    discovery: Service | None = None
    name: str = "roles"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            membership=self.membership,
            learners=None if self.membership is None else LearnersOf(self.membership),
            transfer=self.transfer,
            migrations=self.migrations,
            groups=self.groups,
            discovery=self.discovery,
            upgrades=self.upgrades,
        )

    async def view(self, deployment: Any, node: NodeId) -> NodeView | None:
        if node not in self.roles or deployment.states[node] != "running":
            return None
        role, term, leader = self.roles[node]
        return NodeView(node=node, role=role, term=term, leader=leader)


@dataclass
class Members:
    """`Membership` of a cluster that is only a list.

    Attributes:
        nodes: the first members.
        refusals: what becomes of requests for changes, in their order; after them, and for None, they are carried out.
            An IndefiniteError that says "done" is raised once the change is made, any other error in place of it.
        behind: nodes that still list the members as they were at first.
    """

    nodes: Sequence[NodeId] = FIVE
    refusals: list[Exception | None] = field(default_factory=list[Exception | None])
    behind: set[NodeId] = field(default_factory=set[NodeId])

    def __post_init__(self) -> None:
        self.first = {f"a{node}": node for node in self.nodes}
        self.ids = dict(self.first)
        self.asked: list[str] = []
        self.open: set[NodeId] = set()
        self.learners: set[str] = set()

    def begin(self) -> None:
        self.__post_init__()

    def unsettled(self, node: NodeId) -> bool:
        return node in self.open

    def settle(self, node: NodeId) -> None:
        self.open.discard(node)

    async def members(self, deployment: Any, node: NodeId) -> dict[str, NodeId]:
        if deployment.states[node] != "running":
            raise DefiniteError(f"{node} cannot be reached")
        return dict(self.first if node in self.behind else self.ids)

    async def remove(self, deployment: Any, asked: NodeId, node: NodeId, member: str) -> None:
        self.asked.append(f"{asked} removes {node}")
        self.open.add(node)
        with self._refused():
            self.ids.pop(member, None)

    async def add(self, deployment: Any, asked: NodeId, node: NodeId) -> str:
        self.asked.append(f"{asked} adds {node}")
        with self._refused():
            if node not in self.ids.values():
                self.ids[f"b{len(self.asked)}{node}"] = node
        return next(member for member, found in self.ids.items() if found == node)

    async def add_learner(self, deployment: Any, asked: NodeId, node: NodeId) -> str:
        member = await self.add(deployment, asked, node)
        self.learners.add(member)
        return member

    async def promote(self, deployment: Any, asked: NodeId, member: str) -> None:
        self.asked.append(f"{asked} promotes {self.ids[member]}")
        with self._refused():
            self.learners.discard(member)

    @contextmanager
    def _refused(self) -> Generator[None]:
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is not None and str(refusal) != "done":
            raise refusal
        yield
        if refusal is not None:
            raise refusal


@dataclass
class Versions:
    """`Upgrades` of a cluster that raises its version once all nodes are upgraded, if anyone asks.

    Attributes:
        chosen: the version of each node's next start.
        raises: whether the latest version comes into force in the end.
    """

    chosen: dict[NodeId, int] = field(default_factory=dict[NodeId, int])
    raises: bool = True
    newest: int = 2

    def begin(self, *, old: bool) -> None:
        self.chosen = {} if old else dict.fromkeys(FIVE, 2)

    def version(self, node: NodeId) -> int:
        return self.chosen.get(node, 1)

    def choose(self, node: NodeId, version: int) -> None:
        self.chosen[node] = version

    async def in_force(self, deployment: Any, node: NodeId) -> int:
        if deployment.states[node] != "running":
            raise DefiniteError(f"{node} cannot be reached")
        return 2 if self.raises else 1


@dataclass
class LearnersOf:
    """`Learners` of such a list: they stay learners."""

    members: Members

    async def add(self, deployment: Any, asked: NodeId, node: NodeId) -> str:
        return await self.members.add_learner(deployment, asked, node)

    async def promote(self, deployment: Any, asked: NodeId, member: str) -> None:
        await self.members.promote(deployment, asked, member)

    async def listed(self, deployment: Any, node: NodeId) -> dict[str, bool]:
        return dict.fromkeys(sorted(self.members.learners), False)


@dataclass
class Transfers:
    """`Transfer` of a cluster that is only its roles.

    Attributes:
        roles: who leads.
        answers: what becomes of requests, in their order: an error, or None; after them all are carried out.
        deaf: nodes that stay what they are although the leader agreed.
    """

    roles: Roles
    answers: list[Exception | None] = field(default_factory=list[Exception | None])
    deaf: set[NodeId] = field(default_factory=set[NodeId])

    def __post_init__(self) -> None:
        self.asked: list[str] = []

    async def transfer(self, deployment: Any, asked: NodeId, to: NodeId) -> None:
        self.asked.append(f"{asked} to {to}")
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        if to not in self.deaf:
            term = 1 + max(term for _, term, _ in self.roles.roles.values())
            self.roles.roles = led_by(to, tuple(self.roles.roles), term).roles


@dataclass
class Migrations:
    """`Migrations` of a system that only notes which store is in force.

    Attributes:
        answers: what becomes of requests, in their order: an error, or None; after them all are carried out.
        silent: nodes that do not say which store is in force.
        moves_anyway: whether a request that ends with an error is carried out.
    """

    answers: list[Exception | None] = field(default_factory=list[Exception | None])
    silent: set[NodeId] = field(default_factory=set[NodeId])
    moves_anyway: bool = False
    second: str = "second"

    def __post_init__(self) -> None:
        self.asked: list[NodeId] = []
        self.store = "first"

    async def migrate(self, deployment: Any, asked: NodeId) -> None:
        self.asked.append(asked)
        answer = self.answers.pop(0) if self.answers else None
        if answer is None or self.moves_anyway:
            self.store = self.second
        if answer is not None:
            raise answer

    async def store_of(self, deployment: Any, node: NodeId) -> str | None:
        return None if node in self.silent else self.store


@dataclass
class Service:
    """A discovery service that only notes what is wrong with it."""

    troubles: list[DiscoveryTrouble | None] = field(default_factory=list[DiscoveryTrouble | None])

    async def trouble(self, deployment: Any, trouble: DiscoveryTrouble | None) -> dict[str, Any]:
        self.troubles.append(trouble)
        return {"asked": 0, "bit": False}


@dataclass
class Groups:
    """`Groups` of nodes that are only lists of groups, with what each group holds.

    Attributes:
        unwilling: nodes that refuse what they are asked.
    """

    unwilling: set[NodeId] = field(default_factory=set[NodeId])

    def __post_init__(self) -> None:
        self.of_nodes: dict[NodeId, dict[str, int]] = {}
        self.held: dict[tuple[str, int], int] = {}
        self.asked: list[str] = []

    async def members(self, deployment: Any, nodes: Collection[NodeId]) -> tuple[str, ...]:
        return tuple(f"a{node}" for node in nodes)

    async def listed(self, deployment: Any, node: NodeId) -> dict[str, int]:
        return dict(self.of_nodes.get(node, {}))

    async def make(self, deployment: Any, node: NodeId, name: str, incarnation: int, founders: Collection[str]) -> None:
        self._hear(deployment, node, f"{node} makes {name}#{incarnation}")
        there = self.of_nodes.setdefault(node, {}).setdefault(name, incarnation)
        if there != incarnation:
            raise DefiniteError(f"{name}#{there} is here")

    async def delete(self, deployment: Any, node: NodeId, name: str) -> None:
        self._hear(deployment, node, f"{node} deletes {name}")
        self.of_nodes.get(node, {}).pop(name, None)

    async def put(self, deployment: Any, node: NodeId, name: str, value: int) -> None:
        self.held[self._led(deployment, node, name)] = value

    async def get(self, deployment: Any, node: NodeId, name: str) -> int | None:
        return self.held.get(self._led(deployment, node, name))

    def _hear(self, deployment: Any, node: NodeId, what: str) -> None:
        if node in self.unwilling or deployment.states[node] != "running":
            raise DefiniteError(f"{node} refuses")
        self.asked.append(what)

    def _led(self, deployment: Any, node: NodeId, name: str) -> tuple[str, int]:
        """The group, which must be on a majority of the nodes that run."""
        incarnation = self.of_nodes.get(node, {}).get(name)
        having = [
            each
            for each, groups in self.of_nodes.items()
            if groups.get(name) == incarnation and deployment.states[each] == "running"
        ]
        if incarnation is None or 2 * len(having) <= len(deployment.nodes):
            raise DefiniteError(f"{name} has no leader")
        return name, incarnation


def led_by(boss: NodeId, nodes: Sequence[NodeId] = FIVE, term: int = 3) -> Roles:
    """Roles in which everybody agrees on one leader."""
    return Roles({node: ("leader" if node == boss else "follower", term, boss) for node in nodes})


@dataclass
class OnlyTest:
    """The parts of a `Test` that nemeses look at."""

    system: Roles
    nodes: Sequence[NodeId] = FIVE
    recovery_s: float = 20.0
    time_limit_s: float = 60.0


def context(deployment: Nodes, system: Roles | None = None) -> NemesisContext:
    """What a nemesis is handed."""
    streams: Any = None  # nemeses draw nothing themselves: a stream that they used would fail here
    return NemesisContext(
        test=cast("Any", OnlyTest(system or Roles(), deployment.nodes)),
        deployment=cast("Any", deployment),
        runtime=Runtime(clock=Leaps(), streams=streams),
    )


class Leaps:
    """A clock on which every sleep is over at once."""

    def __init__(self) -> None:
        self._now_ns = 0

    def now_ns(self) -> int:
        return self._now_ns

    async def sleep_ns(self, duration_ns: int) -> None:
        self._now_ns += duration_ns

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Timer:
        raise NotImplementedError("what is tested sets no timers")


def nemesis_op(f: str, **request: Any) -> Op:
    """An invocation as the nemesis process gets it."""
    return Op(process=NEMESIS, type="invoke", f=f, value=request)


def open_links(cut: frozenset[Link], nodes: Sequence[NodeId]) -> set[Link]:
    """The links that pass."""
    return set(all_links(nodes)) - cut
