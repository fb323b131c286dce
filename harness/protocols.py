"""What the parts of a test are to each other. Everything pluggable is one of these protocols.

`harness.validate` wraps third-party implementations and says exactly which rule of a protocol was broken.
"""

from __future__ import annotations

import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one
from collections.abc import Mapping, Sequence
from pathlib import Path  # noqa: TID251 - for types; the backends do the work
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, TypeAlias

import msgspec

from harness.magnitudes import Bounds, check_magnitudes
from harness.rng import Streams
from results.history import Op

if TYPE_CHECKING:
    from harness.test import Test

NodeId: TypeAlias = str

Link: TypeAlias = tuple[NodeId, NodeId]
"""A directed link (source, destination)."""

Address: TypeAlias = tuple[str, int]


# --- time and randomness ------------------------------------------------------------------------------------------


class Clock(Protocol):
    """The only source of time in a run: monotonic, in nanoseconds."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""
        ...

    async def sleep_ns(self, duration_ns: int) -> None:
        """Suspend the calling task."""
        ...


class Runtime(msgspec.Struct, frozen=True):
    """What a run is handed instead of reaching for the world: time, and named streams of randomness."""

    clock: Clock
    streams: Streams


# --- systems ------------------------------------------------------------------------------------------------------


class DefiniteError(Exception):
    """The op certainly did not happen, and never will. Recorded as `fail`."""


class IndefiniteError(Exception):
    """Nobody knows whether the op happened. Recorded as `info`, as is every exception that is not a DefiniteError."""


class Answer(msgspec.Struct, frozen=True):
    """What a node answered, and the term in which it did, where the system tells."""

    value: Any = None
    term: int | None = None


class Session(Protocol):
    """A connection of one client to one node of a key-value-like system; it neither redirects nor fails over.

    Every method raises DefiniteError where the system refused, and IndefiniteError (or anything else) where nobody
    knows. Keys are strings without slashes; values are what JSON can carry.
    """

    async def read(self, key: str) -> Answer:
        """The value of a key, None if there is none; linearizable."""
        ...

    async def write(self, key: str, value: Any) -> Answer:
        """Set a key unconditionally."""
        ...

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a key if it holds `expected`; the answer's value tells whether it did. A missing key matches nothing."""
        ...

    async def create(self, key: str, value: Any) -> Answer:
        """Set a key if it does not exist; the answer's value tells whether this call created it."""
        ...

    async def add(self, collection: str, element: int) -> Answer:
        """Put an element into a collection."""
        ...

    async def elements(self, collection: str) -> Answer:
        """All elements of a collection, a list of whole numbers; linearizable."""
        ...

    async def close(self) -> None:
        """Drop the connection."""
        ...


class NodePlace(msgspec.Struct, frozen=True):
    """Where a backend puts one node.

    Attributes:
        node: its name.
        data_dir: a directory that outlives the node's process, as the node sees it.
        listen: the address on which the node serves peers and clients.
        peers: for every other node, the address under which this node reaches it (a proxy's, on some backends).
        home: where the node's program comes from: this machine's files and interpreter ("here"); a container of
            `System.image` ("image"); a machine on which `System.uploads` were laid ("host").
        home_dir: the directory on such a machine that holds the uploads; "" for the other homes.
    """

    node: NodeId
    data_dir: str
    listen: Address
    peers: Mapping[NodeId, Address]
    home: Literal["here", "image", "host"] = "here"
    home_dir: str = ""


class NodeCommand(msgspec.Struct, frozen=True):
    """How to run a node: arguments, extra environment, and files to lay into its data directory before each start."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    files: Mapping[str, bytes] = {}


class NodeView(msgspec.Struct, frozen=True):
    """What a node says of itself when asked."""

    node: NodeId
    role: str
    term: int
    leader: NodeId | None
    commit_index: int = 0
    applied_index: int = 0


class System(Protocol):
    """A system under test: how to run it, how to talk to it, how to ask who leads.

    Attributes:
        name: as given to `--system`.
        bugs: switches that break it on purpose, by mutation id ("M23"), with a line on each.
        election_timeout_s: the longest time a healthy majority needs to notice a dead leader; bounds derive from it.
        image: the name of the image in whose containers its nodes run; None (or no such attribute) if it has none.
        uploads: what a machine needs that is to run a node of it: the name below `NodePlace.home_dir`, and the file or
            folder here. Empty (or no such attribute) if such a machine needs nothing.
        immune: kinds of fault that cannot be done to its nodes wherever they live, and why. Empty (or no such
            attribute) if there are none.
        membership: how its nodes leave and join while it runs; None (or no such attribute) if its members are fixed.
    """

    name: str
    bugs: Mapping[str, str]
    election_timeout_s: float

    image: str | None
    uploads: Mapping[str, Path]
    immune: Mapping[FaultKind, str]
    membership: Membership | None

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start the node that lives at `place`."""
        ...

    async def connect(self, deployment: Deployment, node: NodeId) -> Session:
        """A session with one node.

        Raises:
            DefiniteError: the node could not be reached (nothing was sent).
        """
        ...

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        """What the node says of itself, None if it does not answer within half a second."""
        ...

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """The node's raw telemetry file (JSON lines, see `results.telemetry`), None if nodes write none.

        A system of such nodes that also has `observe` (`harness.polled.Observable`) is asked for it during the run.
        """
        ...


class Membership(Protocol):
    """How nodes of a system leave its cluster and join it again while it runs.

    It remembers what became of each node: `System.command` starts a node that joins in another way than the first
    members, and refuses to start one that left. It belongs to one run at a time.
    """

    def begin(self) -> None:
        """Forget everything: in a new deployment every node is a member from the start, or all founders are."""
        ...

    def unsettled(self, node: NodeId) -> bool:
        """Whether the node was asked to leave, or never was a member, and was not settled since.

        It may end by itself meanwhile, and need not answer.
        """
        ...

    def settle(self, node: NodeId) -> None:
        """Note that the node is a member which serves: it has joined again, or was refused to leave."""
        ...

    async def members(self, deployment: Deployment, node: NodeId) -> Mapping[str, NodeId]:
        """The members as this node lists them: by the id of each, which node it is, also of one that never ran.

        Raises:
            DefiniteError, IndefiniteError: it does not tell.
        """
        ...

    async def remove(self, deployment: Deployment, asked: NodeId, node: NodeId, member: str) -> None:
        """Ask a node to have another one, the member of this id, removed. It may be asked again, whatever came of it.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: nobody knows whether it was removed, or will be.
        """
        ...

    async def add(self, deployment: Deployment, asked: NodeId, node: NodeId) -> str:
        """Ask a node to have another one, which has no data, taken in; the id of the new member.

        It may be asked again, whatever came of it. From now on the node is started as one that joins.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: nobody knows whether it was taken in, or will be.
        """
        ...


# --- backends -----------------------------------------------------------------------------------------------------

FaultKind: TypeAlias = Literal[
    "cut",
    "delay",
    "loss",
    "duplicate",
    "reorder",
    "corrupt",
    "rate",
    "mtu",
    "reset",
    "hold",
    "kill",
    "pause",
    "cpu",
    "disk-full",
    "disk-read-only",
    "disk-fails",
    "disk-sync",
    "disk-slow",
    "disk-rot",
    "disk-truncate",
    "power",
    "clock-jump",
    "clock-drift",
    "clock-strobe",
    "membership",
]
"""What a backend can be asked to do to links, processes, disks, clocks and the set of members. The ways in which
nemeses strike name the kinds that they need; a delay includes jitter."""


HOUR_MS: Final = 3_600_000
YEAR_MS: Final = 365 * 24 * HOUR_MS

Share: TypeAlias = Annotated[float, Bounds(0, 1, "of all")]
DelayMs: TypeAlias = Annotated[float, Bounds(0, HOUR_MS, "ms")]


class LinkFault(msgspec.Struct, frozen=True):
    """What a directed link does to the messages that it carries, beyond its nature.

    Attributes:
        delay_ms: how much longer each message takes.
        jitter_ms: up to so much more, evenly spread, without disturbing the order.
        loss: the share of messages that vanish.
        duplicate: the share of messages that arrive twice, the second time a little later.
        reorder: the share of messages that later ones may overtake.
        resets: how often a second, on average, connections over the link break (a flaky link).
        held: nothing arrives until the fault is gone, then everything does (a clogged link).
        corrupt: the share of messages in which a bit is flipped; checksums on the way drop most of them.
        rate_kbit: no more than so many kilobits a second get through, the rest waits; 0 for no limit.
        mtu: larger packets, in bytes, vanish without a word (a black hole of path MTU discovery); 0 for none.
    """

    delay_ms: DelayMs = 0.0
    jitter_ms: DelayMs = 0.0
    loss: Share = 0.0
    duplicate: Share = 0.0
    reorder: Share = 0.0
    resets: Annotated[float, Bounds(0.001, 1000, "a second", off=0)] = 0.0
    held: bool = False
    corrupt: Share = 0.0
    rate_kbit: Annotated[int, Bounds(0, 100_000_000, "kbit/s")] = 0
    mtu: Annotated[int, Bounds(0, 65_535, "bytes")] = 0

    def __post_init__(self) -> None:
        """Refuse figures that no link can have (UsageError)."""
        check_magnitudes(self)


class DiskFault(msgspec.Struct, frozen=True):
    """What a node's disk does wrong.

    Attributes:
        full: writes that need more room fail (ENOSPC).
        sync_fails: the next sync fails (EIO), and what it should have made durable is gone from the cache as well: a
            sync after it succeeds and proves nothing (the kernel's behaviour behind PostgreSQL's "fsyncgate" of 2018).
        slow_ms: how much longer each sync takes.
        rot: flip a bit in so many of the sectors that were durable when the fault began; they read well again once it
            is gone.
        read_only: writes fail (EROFS).
        fails: every read, write and sync fails (EIO) until the fault is gone.
        truncate: cut off the end of so many files, at a random place within the last sector; gone for good.
        wipe: everything that the node ever wrote is gone for good. A fault that only a member that left is given
            ("membership"): one that forgets what it voted for breaks what every system builds on.
    """

    full: bool = False
    sync_fails: bool = False
    slow_ms: DelayMs = 0.0
    rot: Annotated[int, Bounds(0, 1000, "sectors")] = 0
    read_only: bool = False
    fails: bool = False
    truncate: Annotated[int, Bounds(0, 1000, "files")] = 0
    wipe: bool = False

    def __post_init__(self) -> None:
        """Refuse figures that no disk can have (UsageError)."""
        check_magnitudes(self)


class ClockFault(msgspec.Struct, frozen=True):
    """What is wrong with a node's clock.

    Attributes:
        offset_ms: the wall clock jumps by so much when the fault begins, and back when it ends.
        drift_ppm: both the wall clock and timers run so much too fast (or, below 0, too slow), in millionths.
        strobe_ms: the jump comes and goes every so many milliseconds instead of lasting; 0 for no strobe.
    """

    offset_ms: Annotated[float, Bounds(-YEAR_MS, YEAR_MS, "ms")] = 0.0
    drift_ppm: Annotated[float, Bounds(-900_000, 1_000_000, "millionths")] = 0.0
    strobe_ms: Annotated[float, Bounds(1, HOUR_MS, "ms", off=0)] = 0.0

    def __post_init__(self) -> None:
        """Refuse figures that no clock can have (UsageError): one that stands still would let no timer go off."""
        check_magnitudes(self)


class Support(msgspec.Struct, frozen=True):
    """Whether a fault works on a backend here; if not, why, and what would help."""

    works: bool
    how: str


class NodeStatus(msgspec.Struct, frozen=True):
    """The state of a node's process as the operating system tells it.

    `life` counts starts from 1; 0 means never started. `evidence` holds what was seen (pid, state letter, ...).
    """

    state: Literal["running", "paused", "stopped"]
    life: int
    evidence: Mapping[str, Any] = {}


class ClockOffset(msgspec.Struct, frozen=True):
    """How far the clocks of a node's host are ahead of the controller's, in nanoseconds.

    Attributes:
        mono_ns: CLOCK_MONOTONIC, which no fault bends. Between two machines any number.
        wall_ns: the wall clock of the host itself; a clock fault of the node comes on top.
        error_ns: how far either may be from the truth.
    """

    mono_ns: int = 0
    wall_ns: int = 0
    error_ns: int = 0


class Backend(Protocol):
    """A place where nodes can live."""

    name: str

    def support(self) -> Mapping[str, Support]:
        """For every FaultKind whether it works here. Looks, changes nothing.

        Raises:
            BackendError: nothing works here, not even without faults; what is missing.
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


class Deployment(Protocol):
    """The nodes of one test and the links between them, under control. Everything that it starts dies with it."""

    nodes: Sequence[NodeId]

    async def start(self, node: NodeId) -> NodeStatus:
        """Start the node's process; a running one is left alone. Links that are cut stay cut for the new process.

        Raises:
            NodeStartError: it ended at once.
        """
        ...

    async def kill(self, node: NodeId) -> NodeStatus:
        """End the node's process with SIGKILL and wait until it is gone; a stopped one is left alone."""
        ...

    async def pause(self, node: NodeId) -> NodeStatus:
        """Stop the node's process from running (SIGSTOP) and wait until the kernel says so; one that ended stays so."""
        ...

    async def resume(self, node: NodeId) -> NodeStatus:
        """Let a paused process run again; one that ended stays so."""
        ...

    async def status(self, node: NodeId) -> NodeStatus:
        """What the operating system says of the node's process now."""
        ...

    async def cut(self, links: frozenset[Link]) -> None:
        """Make exactly these directed links drop everything, and all others pass: the whole topology at once."""
        ...

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        """Measure, for each link, whether a packet sent by its source reaches its destination now.

        Both ends need not run: the measurement is the backend's own, over the same path as the nodes' traffic.
        """
        ...

    async def dropped(self) -> Mapping[Link, int]:
        """Packets (or bytes, where the backend counts those) that each cut link swallowed since it was cut."""
        ...

    async def power_off(self, node: NodeId) -> NodeStatus:
        """End the node's process as a loss of power does: what it wrote and did not sync may be lost, or torn.

        The status's evidence tells how many bytes were lost and how many sectors torn.
        """
        ...

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        """Give exactly these directed links these faults, and all others none: the whole set at once."""
        ...

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """For each link with a fault what it did since it has it: counts of "lost", "duplicated", "reordered", ..."""
        ...

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        """Give the node's disk this fault, or none; evidence: what the fault before it did, what this one found."""
        ...

    async def skew(self, node: NodeId, fault: ClockFault | None) -> Mapping[str, Any]:
        """Give the node's clock this fault, or none; evidence: offset and rate as measured, before and after."""
        ...

    async def throttle(self, node: NodeId, share: float | None) -> Mapping[str, Any]:
        """Give the node this share of one CPU, above 0; None lifts the limit. A limit outlives the node's process.

        Evidence: how often ("throttled") the limit that was in force so far made the node wait since it was set.
        """
        ...

    async def offsets(self) -> Mapping[NodeId, ClockOffset]:
        """How far the clocks of the nodes' hosts are ahead of the controller's now.

        Of a node that is left out nothing is known; what it tells is placed in time by its wall clock, as if that were
        the controller's.
        """
        ...

    async def dial(self, node: NodeId) -> socket.socket | MessageConnection:
        """Connect to the node's client address: a connected non-blocking TCP socket; in a simulation, a connection.

        Clients live outside the nodes' network: no cut touches them.

        Raises:
            DefiniteError: nobody listens there.
        """
        ...

    async def close(self) -> None:
        """Stop every node, heal every link, remove everything that `deploy` laid out except logs and data."""
        ...


class MessageConnection(Protocol):
    """An ordered connection that carries whole messages."""

    def send(self, message: bytes) -> None:
        """Queue a message. Sending on a closed connection is silently lost, as on a network."""
        ...

    async def receive(self) -> bytes:
        """The next message.

        Raises:
            ConnectionError: the other side is gone.
        """
        ...

    def close(self) -> None:
        """Close both directions."""
        ...


# --- what clients and nemeses do ----------------------------------------------------------------------------------


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
            (`harness.test.NemesisPackage.faults`).
    """

    fs: frozenset[str]
    faults: frozenset[FaultKind]

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Carry out a nemesis op and return its completion.

        `ok`: it took effect; the value is a dict with what was done and the evidence. `info`: it may have; the run is
        then inconclusive. NemesisError is recorded as `info` with the error.
        """
        ...

    async def heal(self, context: NemesisContext) -> None:
        """Undo whatever is still in force. Called at the end of every run, also of an interrupted one."""
        ...
