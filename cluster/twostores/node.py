"""What a node with two stores has beside its member of the tree."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, cast

from splitbrain.cluster.bugs import M64, M65, M66
from splitbrain.cluster.detector import FailureDetector
from splitbrain.cluster.flags.registry import KHEPRI_DB
from splitbrain.cluster.links import Links
from splitbrain.cluster.migration.converters import of_entities
from splitbrain.cluster.migration.machine import Broken
from splitbrain.cluster.nodeconfig import NodeConfig
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.reach import Reach
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.storeswire import Migrate, RollBack, StoresBody
from splitbrain.cluster.tables.hosted import HostedReplica
from splitbrain.cluster.tables.observed import line
from splitbrain.cluster.twostores.mover import FlagsOfNode, Mover
from splitbrain.cluster.twostores.records import RecordsOfTables
from splitbrain.cluster.twostores.replica import ABOUT_TABLES, GROUP, hosted, tell
from splitbrain.cluster.twostores.serving import Serving, wanted_of
from splitbrain.cluster.twostores.tree import Member
from splitbrain.cluster.wire import Failure

_SEPARATOR: Final = ":"


class TwoStores:
    """The tables of a node, and what moves them to the tree.

    Args:
        config: of the node.
        runtime: of the node.
        links: to the other nodes.
        life: distinguishes this process from the node's earlier ones.
        detector: which nodes it takes for down.
        member: of the tree.
        tree_nodes: gives the nodes of the tree's members.
        close_clients: ends the connections of all clients.

    Attributes:
        mover: the migration; it has the callbacks of the feature flag.
        replica: of the tables, for what runs in the process of the node; None if the node has none.
        records: those of the tables by which the node itself acts; None likewise.
    """

    def __init__(
        self,
        config: NodeConfig,
        runtime: Runtime,
        links: Links,
        life: int,
        detector: FailureDetector,
        member: Member,
        tree_nodes: Callable[[], Collection[str]],
        close_clients: Callable[[], None],
    ) -> None:
        self._close_clients = close_clients
        self._node = config.node
        self._runtime = runtime
        self._links = links
        self._reach = Reach(config.node, links, detector)
        self._replicas = config.founding_nodes
        self.replica: HostedReplica | None = hosted(config, runtime, links, self._listen)
        broken = cast("tuple[Broken, ...]", tuple(bug.id for bug in (M64, M65) if bug in config.bugs))
        self.records = None if self.replica is None else RecordsOfTables(self.replica)
        self.mover = Mover(
            f"{config.node}{_SEPARATOR}{life}",
            member,
            self.replica,
            self._replicas,
            tree_nodes,
            self._is_alive,
            runtime,
            broken,
            of_entities(config.converters),
        )
        self._serving = Serving(
            config.node,
            member,
            self.replica,
            self._replicas,
            runtime.clock,
            self._flag_may_change,
            self.mover.saw,
            repeats_all=M66 in config.bugs,
        )
        self._flags: FlagsOfNode

    async def open(self) -> None:
        """Recover the tables.

        Raises:
            StorageError: the data directory cannot be used.
            OSError: the disk failed.
        """
        if self.replica is not None:
            await self.replica.open()
            tell(self._runtime, self.replica.begins())
            machine = self.replica.machine
            self._runtime.last_words(lambda: line(machine.observed("end"), self._runtime.clock, GROUP))

    def start(self, flags: FlagsOfNode) -> None:
        """Serve, once the node listens."""
        self._flags = flags
        if self.replica is not None:
            self.replica.keep_journal()
            self._links.open([node for node in self._replicas if node != self._node])
            self.replica.start()
        self.mover.start(flags)

    def link_changed(self, node: str) -> None:
        """A connection to another node has been made, or broke."""
        if self.replica is not None and node in self._replicas and self._links.is_up(node):
            self.replica.link_up(node)

    def has_clients(self, count: int) -> None:
        """So many clients are connected: what autoheal decides by, if the tables' parts of a partition are unlike."""
        if self.replica is not None:
            self.replica.machine.clients = count

    def takes_frame(self, node: str, frame: bytes) -> bool:
        """Whether a frame of another node is about the tables, which have it then.

        Raises:
            msgspec.DecodeError: it makes no sense.
        """
        if not frame.startswith(ABOUT_TABLES):
            return False
        if self.replica is not None and node in self._replicas:
            self.replica.received(node, frame[len(ABOUT_TABLES) :])
        return True

    def takes_request(self, body: object, timeout_ms: int, answer: Answering) -> bool:
        """Whether a client's request is about entities; it is answered then."""
        wanted = wanted_of(body)
        if wanted is None:
            return False
        if timeout_ms < 1:
            answer(0, Failure("invalid_request", True, "a request needs a timeout of 1 ms or more"), 0)
        else:
            self._runtime.spawn(self._serving.serve(wanted, timeout_ms, answer), "operation on entities")
        return True

    def serve(self, body: StoresBody, timeout_ms: int, answer: Answering) -> None:
        """A client asks about the stores."""
        match body:
            case Migrate():
                self._runtime.spawn(self.mover.migrate(timeout_ms, answer), "request to migrate")
            case RollBack():
                self._runtime.spawn(self.mover.roll_back(timeout_ms, answer), "request to roll back")
            case _:
                self._runtime.spawn(self._say_state(timeout_ms, answer), "request for the state of stores")

    def _listen(self, on: bool) -> None:
        """Tables that a strategy stops serve no clients, who are to go elsewhere (MN-5), while these are in force."""
        if not on and not self.mover.tree_is_in_force and not self._serving.known.tree_for_ever:
            self._close_clients()

    async def _say_state(self, timeout_ms: int, answer: Answering) -> None:
        answer(0, await self.mover.state(timeout_ms), 0)

    def _flag_may_change(self) -> bool:
        return not self._flags.is_synchronised or self._flags.state(KHEPRI_DB) != "disabled"

    def _is_alive(self, owner: str) -> bool:
        """Whether the process of an owner may run. Where it does not, the process that follows it says so at its start.

        To be wrong does no harm (`splitbrain.cluster.migration.machine`).
        """
        node = owner.rpartition(_SEPARATOR)[0]
        return node != self._node and self._reach.is_up(node)
