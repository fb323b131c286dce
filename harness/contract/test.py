"""What a test is: one frozen value, passed everywhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TID251 - for types; the backends do the work
from typing import Annotated, Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.capabilities import START_S, Capabilities
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.declarations import check_system, check_workload
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.harness.contract.generator import Generator
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace, NodeView
from splitbrain.harness.contract.operations import group_named, included
from splitbrain.harness.contract.sessions import Session
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op

NODES_MAX = 100
CONCURRENCY_MAX = 1000
"""Each client has its own connection, and file descriptors are limited."""

RATE_MAX = 1_000_000
BURST_MAX = 10_000
TIME_MAX_S = 1_000_000
SEED_END = 2**63
LEAST = 1e-6
"""The smallest positive number. A smaller time or rate has no meaning."""

REQUEST_TIMEOUT_MS = 1500
"""How long a node may try to carry out a request, if ops have two seconds or less."""

OF_OP_TIMEOUT = 0.75
"""How much of a longer op timeout a request has."""

KEY_MAX = 200
"""Characters of a key."""

WHOLE: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
"""A whole number that every reader of histories takes."""


@dataclass(frozen=True)
class OpShape:
    """What an op of one function carries.

    Attributes:
        keyed: whether it is about a key.
        value: the type of its value, as `msgspec.convert` knows types; None for no value.
        writes: the functions of the micro-operations that it may have beside reads; None if it has none at all.
        requests: how many requests it makes, each after the answer to the one before: its timeout is so many times the
            op timeout, or a slow network would leave it without any answer.
    """

    keyed: bool = False
    value: Any = None
    writes: frozenset[str] | None = None
    requests: int = 1

    def __post_init__(self) -> None:
        """Refuse a number of requests with which an op has no time."""
        if self.requests < 1:
            raise UsageError(f"an op makes one request or more, not {self.requests}: give OpShape(requests=1).")


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What clients do, and who judges it.

    Attributes:
        name: as given to `--workload`.
        client: the prototype of its clients.
        generator: invocations for the faults phase; without end, the test limits it in time and rate.
        final_generator: invocations after everything was healed (final reads); must come to an end.
        checkers: who judges the history. A run in which no checker judges what clients were answered is inconclusive.
        fs: every function that clients invoke; a run in which one of them was never ok is inconclusive. A test sees to
            that, whether or not `checkers` names coverage.
        shapes: what ops of each function carry, so that plans that people write can be checked; functions that are
            left out are not.
        needs: the groups of operations that its clients need of sessions, by name ("key-value"); a system that has
            them lists them in `Capabilities.operations`.
        local: those of its functions that a client may carry out without a node: their answers do not show which nodes
            can reach each other.

    Raises:
        UsageError: (when it is made) `fs`, `needs` or `local` has no names, or the client lacks a method.
    """

    name: str
    client: Client
    generator: Generator
    final_generator: Generator | None
    checkers: tuple[CheckerSpec, ...]
    fs: tuple[str, ...]
    needs: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()
    shapes: Mapping[str, OpShape] = field(default_factory=dict[str, OpShape])

    def __post_init__(self) -> None:
        """Refuse what cannot be before anything is started."""
        check_workload(self)


@dataclass(frozen=True, kw_only=True)
class NemesisPackage:
    """Faults and their schedule (a package in Jepsen's sense).

    Attributes:
        name: as given to `--nemesis`.
        nemesis: who injects them.
        generator: nemesis ops for the faults phase; None for no faults.
        final_generator: nemesis ops that heal everything.
        faults: what it needs of a backend.
        kinds: names of the faults that must have been in force for a run to count; a run without one of them is
            inconclusive. None for any fault at all.
        left_out: what was asked for and is left out, as the backend cannot do it; a line each, with the reason.
    """

    name: str
    nemesis: Nemesis | None
    generator: Generator | None
    final_generator: Generator | None
    faults: frozenset[FaultKind]
    kinds: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Test:
    """A test, whole: what runs where, what clients do, what breaks, who judges.

    Attributes:
        name: the folder of its runs in the store.
        seed: root of every stream of randomness.
        nodes: names of the nodes, in order.
        system: the system under test.
        workload: what clients do.
        nemesis: what breaks.
        bugs: switches of the system that are on.
        settings: those of the system's settings that the test chooses.
        concurrency: client processes; process p talks to node p modulo the number of nodes.
        placement: for each client thread the node that it talks to instead; None for the rule above. A test from which
            nodes or clients were taken leaves the others where they were.
        rate: ops per second of all clients together.
        burst: how many of them are due at once; their mean rate stays.
        sharing: how many client threads of a node use one client, which goes on after an op of unknown outcome; 0 for a
            client for each process, which ends with it.
        is_timed: whether the workload says itself when its ops are due, as a plan does; then the rate delays none.
        time_limit_s: length of the faults phase.
        op_timeout_s: after that a client's op is recorded as `info`. One of several requests has as many times as long
            (`OpShape.requests`).
        recovery_s: how long the healed system may take until every node answers; longer is a violation of liveness
            only where a checker says so, else the run is inconclusive. 0 to ask for none; see `recovers_within_s`.
        quiet_s: timeout for the replicas to converge after the last request; None for the system's own bound
            (`splitbrain.harness.contract.elections.Elections.bound_s`). Without effect for a system without elections.
        availability: the share of its seconds, 0 to 1, in which a whole core must have answered; 0 for no demand.
        late_s: how much later than usual something may arrive although nothing is wrong, as in the simulated `late`.
        pace_s: how long an op takes on average while nothing is wrong, where that is known, as in simulation; else 0.
        options: the options from which this test was composed, as JSON can carry them: enough to compose it again.
    """

    __test__ = False  # not a test class for pytest

    name: str
    seed: int
    nodes: tuple[NodeId, ...]
    system: System
    workload: Workload
    nemesis: NemesisPackage
    bugs: tuple[str, ...] = ()
    settings: Mapping[str, int] = field(default_factory=dict[str, int])
    concurrency: int = 10
    placement: tuple[NodeId, ...] | None = None
    rate: float = 100.0
    burst: int = 1
    sharing: int = 0
    is_timed: bool = False
    time_limit_s: float = 30.0
    op_timeout_s: float = 2.0
    recovery_s: float = 20.0
    quiet_s: float | None = None
    availability: float = 0.0
    late_s: float = 0.0
    pace_s: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        """Refuse values with which no run makes sense."""
        if not self.nodes:
            raise UsageError("a test needs at least one node: give --nodes a number of 1 or more, or names.")
        if len(self.nodes) > NODES_MAX:
            raise UsageError(f"a test has {NODES_MAX} nodes at most, not {len(self.nodes)}.")
        if len(set(self.nodes)) != len(self.nodes):
            raise UsageError(f"node names must differ: {', '.join(self.nodes)}.")
        for name, value, most in (
            ("concurrency", self.concurrency, CONCURRENCY_MAX),
            ("rate", self.rate, RATE_MAX),
            ("burst", self.burst, BURST_MAX),
            ("time limit", self.time_limit_s, TIME_MAX_S),
            ("op timeout", self.op_timeout_s, TIME_MAX_S),
        ):
            check_number(name, value, most)
        if self.quiet_s is not None:
            check_number("quiet time", self.quiet_s, TIME_MAX_S)
        if self.recovery_s != 0:
            check_number("recovery", self.recovery_s, TIME_MAX_S)
        if not 0 <= self.seed < SEED_END:
            raise UsageError("the seed must be a whole number from 0 to 2^63 - 1.")
        check_system(self.system)
        check_needs(self.workload, self.system)
        check_sharing(self.sharing, self.workload, self.system)
        if self.placement is not None:
            check_placement(self.placement, self.nodes, self.concurrency)
        judged = dataclasses.replace(self.workload, checkers=self._checkers())
        object.__setattr__(self, "workload", judged)

    @property
    def request_timeout_ms(self) -> int:
        """How long a node may try to carry out a request, for systems that can tell it that, in milliseconds.

        Shorter than the op timeout, if that is two seconds or more: so a node can still say whether what it gave up was
        definite. An op that the runner must give up is always indefinite. Where ops are given more time, because links
        or disks are slow, requests are given more too.
        """
        return max(REQUEST_TIMEOUT_MS, round(self.op_timeout_s * 1000 * OF_OP_TIMEOUT))

    def timeout_s(self, f: str) -> float:
        """After how many seconds an op of this function is recorded as `info`."""
        shape = self.workload.shapes.get(f)
        return self.op_timeout_s * (1 if shape is None else shape.requests)

    @property
    def longest_timeout_s(self) -> float:
        """The timeout of those ops that have most time, in seconds."""
        return max((self.timeout_s(f) for f in self.workload.fs), default=self.op_timeout_s)

    @property
    def recovers_within_s(self) -> float:
        """`recovery_s`, or the time of a start in a system of slow starters: what is healed may have to start.

        For simulated nodes: the start of a real one returns when it is up, and its time does not count.
        """
        start_s = self.system.capabilities.start_s
        return max(self.recovery_s, start_s) if self.recovery_s and start_s > START_S else self.recovery_s

    def _checkers(self) -> tuple[CheckerSpec, ...]:
        """The workload's checkers; coverage is always one of them, and is given what the test asks for.

        What the author of a workload says of coverage stays: fewer functions, other floors.
        """
        load = {
            "rate": self.rate,
            "time_limit_s": self.time_limit_s,
            "concurrency": self.concurrency,
            "op_timeout_s": self.op_timeout_s,
            "recovery_s": self.recovery_s,
            "nodes": [] if self.system.capabilities.standbys else list(dict.fromkeys(self.placement or self.nodes)),
        }
        asked: dict[str, Any] = {"fs": list(self.workload.fs), "faults": self._faults()}
        if self.workload.local:
            asked["local"] = sorted(self.workload.local)
        specs = self.workload.checkers
        if not any(spec.name == "coverage" for spec in specs):
            specs = (*specs, CheckerSpec("coverage"))
        judges = [spec.name for spec in specs if spec.name != "coverage"]
        set_by_test = {"load": load, "judges": judges, "ended": True}
        return tuple(
            CheckerSpec(spec.name, {**asked, **spec.options, **set_by_test}) if spec.name == "coverage" else spec
            for spec in specs
        )

    def _faults(self) -> bool | list[str]:
        """Which faults must have been in force: any, none, or those of these names."""
        if self.nemesis.generator is None or self.nemesis.kinds is None:
            return self.nemesis.generator is not None
        return list(self.nemesis.kinds)

    def node_of(self, thread: int) -> NodeId:
        """The node that a client thread talks to."""
        return self.nodes[thread % len(self.nodes)] if self.placement is None else self.placement[thread]


def check_placement(placement: Sequence[NodeId], nodes: Sequence[NodeId], concurrency: int) -> None:
    """Refuse a placement that does not name one of the nodes for each client thread.

    Raises:
        UsageError: it does not.
    """
    if len(placement) != concurrency:
        raise UsageError(
            f"the placement names {len(placement)} nodes for {concurrency} client threads: name one for each."
        )
    for thread, node in enumerate(placement):
        if node not in nodes:
            raise UsageError(f"the placement puts client thread {thread} on {node!r}; nodes are {', '.join(nodes)}.")


def check_needs(workload: Workload, system: System) -> None:
    """Refuse a workload that needs operations which sessions with the system do not have.

    Raises:
        UsageError: it does, or needs what no system can have.
    """
    for group in sorted(workload.needs):
        group_named(group)
    missing = sorted(workload.needs - included(system.capabilities.operations))
    if missing:
        raise UsageError(
            f"workload {workload.name!r} needs the operations {missing[0]!r}, which system {system.name!r} does not "
            "have: choose another --workload or --system (splitbrain list systems)."
        )


def check_sharing(sharing: int, workload: Workload, system: System) -> None:
    """Refuse clients that are shared by more threads than they, or sessions with the system, can be.

    Raises:
        UsageError: they are.
    """
    if sharing == 0:
        return
    if sharing < 0 or sharing > CONCURRENCY_MAX:
        raise UsageError(f"sharing must be a number from 0 to {CONCURRENCY_MAX:,}, not {sharing}.")
    if not system.capabilities.shared_sessions:
        raise UsageError(
            f"--sharing {sharing}: sessions with system {system.name!r} cannot be shared (its capabilities lack "
            "shared_sessions): remove --sharing."
        )
    most = shared_by(workload.client)
    if sharing > most:
        choice = f"give --sharing {most}" if most else "remove --sharing"
        raise UsageError(
            f"--sharing {sharing}: clients of workload {workload.name!r} "
            f"{'go on after a process, but serve one at a time' if most else 'belong to one process'}: {choice}."
        )


def shared_by(client: Client) -> int:
    """How many processes may use a client at once: 0 if it ends with its process, 1 if another one may follow."""
    return client.shared_by if isinstance(client, SharedClient) else 0


def check_number(name: str, value: float, most: float) -> None:
    """Refuse a number that is not `LEAST` or more and at most `most`; not a number at all (nan) is neither.

    Raises:
        UsageError: it is out of bounds.
    """
    if not value > 0:
        raise UsageError(f"{name} must be positive, not {value}.")
    if value > most:
        is_huge = isinstance(value, int) and value >= 10**300  # which is no float
        raise UsageError(f"{name} must be at most {most:,}, not {'far more' if is_huge else f'{value:g}'}.")
    if value < LEAST:
        raise UsageError(f"{name} must be at least {LEAST:g}, not {value:g}.")


# --- the parts of a test ----------------------------------------------------------------------------------------------


class System(Protocol):
    """A system under test: how to run it, how to talk to it, how to find its leader.

    What only some systems can do is in `capabilities`. All attributes are read only, so that a class attribute such as
    `bugs = {}` will do.
    """

    @property
    def name(self) -> str:
        """As given to `--system`."""
        ...

    @property
    def bugs(self) -> Mapping[str, str]:
        """Switches that break it on purpose, by mutation id ("M23"), with a line on each."""
        ...

    @property
    def election_timeout_s(self) -> float:
        """The longest time in seconds that a healthy majority needs to notice a dead leader; bounds derive from it."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do beyond what every system has."""
        ...

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start the node that lives at `place`."""
        ...

    async def connect(self, deployment: Deployment, node: NodeId) -> Session:
        """A session with one node; it has the operations that `capabilities` lists.

        Raises:
            DefiniteError: the node could not be reached (nothing was sent).
        """
        ...

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        """What the node says of itself, None if it does not answer within half a second."""
        ...

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """The node's raw telemetry file (JSON lines, see `splitbrain.results.telemetry`), None if nodes write none.

        Such nodes are asked for it during the run if the system has `Capabilities.observation`.
        """
        ...


class Backend(Protocol):
    """A place where nodes can live."""

    @property
    def name(self) -> str:
        """As given to `--backend`."""
        ...

    def support(self) -> Mapping[str, Support]:
        """For every FaultKind whether it works here. Looks, changes nothing.

        Raises:
            BackendError: nothing works here, not even without faults; what is missing.
        """
        ...

    def check(self, test: Test) -> None:
        """Refuse a test that it cannot house, as far as that shows before anything is started. Changes nothing.

        Raises:
            UsageError: the test does not fit: its nodes, or what its system can do.
            BackendError: something is missing here.
        """
        ...

    def sweep(self) -> list[str]:
        """Remove what earlier controllers left behind when they were killed; a line for each thing removed."""
        ...

    async def deploy(self, test: Test, run_dir: Path, runtime: Runtime) -> Deployment:
        """Lay out the test's nodes, not yet started. Logs and data go under `run_dir/nodes/<node>/`.

        Raises:
            BackendError: it cannot be done here.
        """
        ...


class Client(Protocol):
    """One logical client: it belongs to one process at a time and talks to one node."""

    async def open(self, test: Test, deployment: Deployment, node: NodeId) -> Client:
        """A fresh client, connected to `node`; `self` is a prototype and stays as it is."""
        ...

    async def setup(self, test: Test) -> None:
        """Prepare what the workload needs in the system. Called once per test, on one open client."""
        ...

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out an invocation and return `op.complete(...)`.

        A DefiniteError is recorded as `fail`; every other exception, and a result that does not come within the op
        timeout, as `info`.
        """
        ...

    async def close(self) -> None:
        """Drop connections. Called exactly once, also after a crash of the process."""
        ...


@runtime_checkable
class SharedClient(Protocol):
    """A client that several processes may use, one after the other or at once.

    Attributes:
        shared_by: how many may use it at once. With 1, one may follow another that crashed.
    """

    shared_by: int

    def survives(self, op: Op) -> bool:
        """Whether ops may begin on it after this one, whose outcome is unknown, or which was refused.

        Asked only in a test whose clients are shared (`Test.sharing`). If not, it is closed once no op is under way.
        """
        ...


class NemesisContext(msgspec.Struct, frozen=True):
    """What a nemesis works with."""

    test: Test
    deployment: Deployment
    runtime: Runtime


class Nemesis(Protocol):
    """Injects, verifies, heals and verifies again.

    Attributes:
        fs: the functions of nemesis ops that it handles.
        faults: the FaultKinds that its ops can ask of a backend; which of them a test needs, its schedule decides
            (`NemesisPackage.faults`).
    """

    fs: frozenset[str]
    faults: frozenset[FaultKind]

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Carry out a nemesis op and return its completion.

        `ok`: it was seen to take effect; the value is a `splitbrain.results.nemesisop.NemesisReport`, as a dict.
        `info`: it may have taken effect; the run is then inconclusive. NemesisError is recorded as `info` with the
        error.
        """
        ...

    async def heal(self, context: NemesisContext) -> None:
        """Heal everything that is still in force. Called at the end of every run, also of an interrupted one."""
        ...


@runtime_checkable
class ComposedNemesis(Protocol):
    """A nemesis that is made of several, so that an error names the one that is at fault."""

    def handler(self, f: str) -> Nemesis | None:
        """The nemesis that handles a function; None if no nemesis does."""
        ...
