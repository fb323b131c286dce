"""The migration as a node runs it: when its feature flag is enabled, when a client asks, and after a process died.

The flag decides (FF-2). Each member prepares the migration when it is asked whether the flag may be enabled; one of
them does the work, the others wait for it. From then on neither store answers. Once it is decided, on all members or on
none, each finishes or undoes what is prepared: to do so twice does no harm. So the tree is in force only where the flag
is enabled, and what was decided goes on also if every process dies at the worst moment:

- The flag is enabled and the tree is not in force: the node finishes the migration, from its begin if need be. If a
  client wants the tables back, it finishes that, and what was rolled back moves again only when a client asks for it.
- The flag is disabled: what the node's former process has left, or the change that was undone, is undone. The tree in
  force is never taken out of force so, and nothing of it was lost where the node is wrong: members that know better
  begin anew.

One thing after the other: a machine of the migration runs alone in its process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

from splitbrain.cluster.errors import ClientError
from splitbrain.cluster.flags.effects import Answer, RunCallback
from splitbrain.cluster.flags.registry import KHEPRI_DB, FlagState
from splitbrain.cluster.marks import reached
from splitbrain.cluster.migration import treewrites
from splitbrain.cluster.migration.converters import Converters
from splitbrain.cluster.migration.ending import Finish, Undo
from splitbrain.cluster.migration.expiry import RETENTION_MS, Expiry
from splitbrain.cluster.migration.machine import Broken, Migration, Step, Until
from splitbrain.cluster.migration.marker import Marker, marker_of
from splitbrain.cluster.migration.procedure import Machine
from splitbrain.cluster.migration.rollback import Rollback
from splitbrain.cluster.migration.shell import Shell
from splitbrain.cluster.migration.steps import Ended
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.storeswire import StoreName, StoresState
from splitbrain.cluster.tables.hosted import HostedReplica
from splitbrain.cluster.tables.replica import ReplicaTables
from splitbrain.cluster.twostores.tree import Member, NodeStore
from splitbrain.cluster.wire import Failure

T = TypeVar("T")

LOOK_MS: Final = 1_000
"""So often a node looks whether something of the migration is to be done, until it is settled."""

PROGRESS_MS: Final = 100
REQUEST_MS: Final = 2_000
"""So long a request to the tree may take; a machine tries it again."""

FLAG_MS: Final = 10_000
"""So long the flag may take to be enabled, also if the client that asked has gone: a change that ends with the patience
of clients is undone and begun again, and meanwhile neither store answers."""

EXPIRY_LOOKS: Final = 600
"""So many looks pass between two looks whether the tables have been kept for long enough."""

COPIED_AT_ONCE: Final = 8
"""Records that one command copies: clients of the tables go on meanwhile, and other commands of the tree in between."""

TRIES: Final = 3
"""So often a member tries to prepare the migration before it says that the flag cannot be enabled."""

Got: TypeAlias = Literal["tree", "rolled-back", "neither"]
"""What came of an attempt to go on: a store is in force for good, as far as this node knows, or neither is."""

_MS: Final = 1_000_000

_AT: Final[Mapping[Step, Callable[[], None]]] = {
    "claiming": lambda: reached("migration claiming"),
    "clearing": lambda: reached("migration clearing"),
    "copying": lambda: reached("migration copying"),
    "closing": lambda: reached("migration closing"),
    "draining": lambda: reached("migration draining"),
    "retiring": lambda: reached("migration retiring"),
    "finishing": lambda: reached("migration finishing"),
    "undoing": lambda: reached("migration undoing"),
}
"""What is counted when a step begins."""


class FlagsOfNode(Protocol):
    """The feature flags of the node (`splitbrain.cluster.flagkeeper.FlagKeeper`)."""

    @property
    def is_synchronised(self) -> bool:
        """Whether the node has joined completely."""
        ...

    def state(self, flag: str) -> FlagState:
        """What a flag is here."""
        ...

    def enable(self, flag: str, timeout_ms: int, answer: Callable[[Answer], None], *, experimental: bool) -> None:
        """Enable a flag on all members."""
        ...


class Mover:
    """See the module.

    Args:
        owner: this process: no other one has this name.
        member: of the tree.
        replica: of the tables; None if the node has none.
        replicas: the nodes that have one.
        tree_nodes: gives the nodes of the tree's members.
        is_alive: whether the process of a name runs, as far as is known here.
        runtime: of the node.
        broken: what is broken on purpose.
        converters: of all tables that are moved.

    Attributes:
        tree_is_in_force: whether the tree is, as far as this node has heard.
    """

    def __init__(
        self,
        owner: str,
        member: Member,
        replica: HostedReplica | None,
        replicas: Sequence[str],
        tree_nodes: Callable[[], Collection[str]],
        is_alive: Callable[[str], bool],
        runtime: Runtime,
        broken: Collection[Broken],
        converters: Converters,
    ) -> None:
        self.tree_is_in_force = False
        self._owner = owner
        self._replica = replica
        self._replicas = tuple(replicas)
        self._tree_nodes = tree_nodes
        self._is_alive = is_alive
        self._runtime = runtime
        self._broken = broken
        self._member = member
        self._tree = NodeStore(member, lambda: REQUEST_MS)
        self._converters = converters
        self._jobs: deque[Callable[[], Awaitable[None]]] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._runs = 0
        self._looks = 0
        self._step: Step | None = None
        self._settled = False
        self._may_have_left = True  # something of a migration, before this process began
        self._flags: FlagsOfNode

    def start(self, flags: FlagsOfNode) -> None:
        """Go on with what is to be done."""
        self._flags = flags
        self._runtime.spawn(self._work(), "migration")

    # --- the feature flag -------------------------------------------------------------------------------------------

    def takes(self, flag: str) -> bool:
        """See `splitbrain.cluster.flagkeeper.Callbacks`."""
        return flag == KHEPRI_DB

    def run(self, effect: RunCallback, done: Callable[[str | None], None]) -> None:
        """See `Callbacks`: prepare the migration. A node that joins finds it done."""

        async def prepare() -> None:
            done(None if effect.op is None else await self._prepared())

        self._do(prepare)

    def undo(self, flag: str) -> None:
        """See `Callbacks`."""
        self._may_have_left = True
        self._woken()

    def changed(self) -> None:
        """See `Callbacks`."""
        self._woken()

    def saw(self, marker: Marker) -> None:
        """A client's call met this marker. If a process was at work, it may have died: the node looks again."""
        self.tree_is_in_force = marker.tree_is_in_force
        if self._settled and marker.state not in ("idle", "finished"):
            self._settled = False
            self._woken()

    # --- what is asked for ------------------------------------------------------------------------------------------

    async def migrate(self, timeout_ms: int, answer: Answering) -> None:
        """Move the entities, and enable the feature flag if it is not."""
        ends_ms = self._now_ms() + timeout_ms
        problem = self._problem()
        if problem is not None:
            answer(0, Failure("migration_refused", True, problem), 0)
            return
        asked_now = False
        if self._flags.state(KHEPRI_DB) != "enabled":
            enabled = await self._enabled(max(timeout_ms, FLAG_MS))
            if enabled.failed is not None:
                answer(0, Failure(enabled.failed, enabled.failed != "timeout", enabled.detail), 0)
                return
            asked_now = True
        while self._now_ms() < ends_ms:
            # What this request has decided by the flag may be rolled back by another one: it does not move again then.
            got = await self._done(lambda: self._forward(again=not asked_now))
            if got == "tree":
                answer(0, await self.state(max(1, ends_ms - self._now_ms())), 0)
                return
            if got == "rolled-back":
                why = "the tables are in force again, since a client had the migration rolled back: ask again"
                answer(0, Failure("migration_refused", True, why), 0)
                return
            await self._runtime.clock.sleep(PROGRESS_MS * _MS)
        answer(0, Failure("timeout", False, "the migration did not end in time, and goes on"), 0)

    async def roll_back(self, timeout_ms: int, answer: Answering) -> None:
        """Have the tables in force again."""
        ended = await self._done(lambda: self._run(Rollback(self._name(), self._converters).steps()))
        if ended.how == "finished":
            reached("migration rolled back")
            answer(0, await self.state(timeout_ms), 0)
        elif ended.how in ("refused", "nothing"):
            if ended.how == "refused":
                reached("rollback refused")
            answer(0, Failure("migration_refused", True, ended.why), 0)
        else:
            answer(0, Failure("timeout", False, f"the rollback is not done, and may go on: {ended.why}"), 0)

    async def state(self, timeout_ms: int) -> StoresState:
        """Both stores as this node knows them."""
        marker: Marker | None = None
        with suppress(ClientError):  # what the node knows without the tree is an answer, too
            marker = marker_of(await NodeStore(self._member, lambda: timeout_ms).ask(treewrites.READ, None))
        database = None if self._replica is None else self._replica.database
        return StoresState(
            store=_in_force(marker),
            marker="unknown" if marker is None else marker.state,
            step=self._step or "",
            written=marker is not None and marker.written,
            keeps_tables=marker is None or marker.keeps_tables,
            flag=self._flags.state(KHEPRI_DB),
            phase="none" if database is None else database.phase,
            replicas=self._replicas,
            active=() if database is None else database.active(),
            partitions=() if database is None else tuple(sorted(database.partitions)),
        )

    async def _enabled(self, timeout_ms: int) -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def take(answer: Answer, /) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._flags.enable(KHEPRI_DB, timeout_ms, take, experimental=True)
        return await answered

    def _problem(self) -> str | None:
        """Why the members of both stores do not go together (M2K-2); None if they do."""
        if self._replica is None:
            return f"this node has no tables: ask one of {', '.join(self._replicas)}"
        strangers = sorted(set(self._replica.database.active()) - set(self._tree_nodes()))
        if strangers:
            return f"{', '.join(strangers)} serves tables and is no member of the tree: have it added, or stop it"
        return None

    # --- what is done -----------------------------------------------------------------------------------------------

    async def _prepared(self) -> str | None:
        """Have the migration prepared, by this process or another one; why that could not be done."""
        if self._replica is None:
            return await self._prepared_by_others()
        why = self._problem()
        for _ in range(TRIES):
            if why is not None:
                return why
            ended = await self._migrated("prepared")
            if ended.how in ("finished", "nothing"):
                return None
            if ended.how == "undone":
                return ended.why
            await self._runtime.clock.sleep(PROGRESS_MS * _MS)
            why = self._problem()
        return "the migration was begun, and is not at its end: ask again"

    async def _prepared_by_others(self) -> str | None:
        """Wait, as long as nodes that hold tables are at it, until they have it prepared: this one holds none."""
        ends_ms = self._now_ms() + FLAG_MS
        while self._now_ms() < ends_ms:
            with suppress(ClientError):
                marker = await self._marker()
                if marker.state == "prepared" or marker.tree_is_in_force:
                    return None
                if marker.state == "in_flight":
                    ends_ms = self._now_ms() + FLAG_MS
            await self._runtime.clock.sleep(PROGRESS_MS * _MS)
        return f"{', '.join(self._replicas)} did not prepare the migration in time: ask again"

    async def _forward(self, *, again: bool = False) -> Got:
        """Go on until the tree is in force, or is not to be; `again` has move what was rolled back."""
        try:
            marker = await self._marker()
            if not again and marker.state == "rolling_back":
                await self._run(Rollback(self._name(), self._converters).steps())
            elif not again and _was_rolled_back(marker):
                pass
            elif marker.state == "prepared":
                await self._run(Finish().steps())
            elif not marker.tree_is_in_force:
                await self._migrated("finished", again=again)
            marker = await self._marker()
        except ClientError:
            return "neither"
        if marker.tree_is_in_force:
            self._settled = True
            reached("migration finished")
            return "tree"
        if not again and _was_rolled_back(marker):
            self._settled = True
            return "rolled-back"
        return "neither"

    async def _migrated(self, until: Until, *, again: bool = True) -> Ended:
        if self._replica is None:
            return Ended("undone", "this node has no tables")
        try:
            await self._tree.register()
        except ClientError as error:
            return Ended("stuck", str(error))
        try:
            return await self._run(
                Migration(
                    self._name(),
                    self._converters,
                    COPIED_AT_ONCE,
                    broken=self._broken,
                    until=until,
                    again=again,
                    entered=self._entered,
                ).steps()
            )
        finally:
            self._step = None

    def _entered(self, step: Step) -> None:
        self._step = step
        if step in _AT:
            _AT[step]()

    async def _undo(self) -> None:
        ended = await self._run(Undo(self._name(), self._converters).steps())
        if ended.how in ("finished", "nothing"):
            self._may_have_left = False
        if ended.how == "finished":
            reached("migration undone")
            self._runtime.log("the migration was undone: the tables are in force")

    async def _run(self, machine: Machine) -> Ended:
        if self._replica is None:
            return Ended("nothing", "this node has no tables")
        members = [node for node in self._replicas if node in self._tree_nodes()]
        ended = await Shell(self._tree, ReplicaTables(self._replica, members), self).run(machine)
        if ended.why:
            self._runtime.log(f"migration: {ended.how}: {ended.why}")
        return ended

    async def _marker(self) -> Marker:
        marker = marker_of(await self._tree.ask(treewrites.READ, None))
        self.tree_is_in_force = marker.tree_is_in_force
        return marker

    def _name(self) -> str:
        self._runs += 1
        return f"{self._owner}.{self._runs}"

    # --- surroundings of machines (`splitbrain.cluster.migration.shell.Surroundings`) ---------------------------------

    async def is_alive(self, owner: str) -> bool:
        """Whether a process runs that has the migration; of this process no other run is under way."""
        return self._is_alive(owner.rpartition(".")[0])

    async def progress(self) -> None:
        """Wait a little."""
        await self._runtime.clock.sleep(PROGRESS_MS * _MS)

    def wall_ms(self) -> int:
        """The wall clock."""
        return self._runtime.clock.wall_ns() // _MS

    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ns() // _MS

    # --- one thing after the other --------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            if self._jobs:
                await self._jobs.popleft()()
                continue
            await self._look()
            if not self._jobs:
                await self._slept()

    async def _look(self) -> None:
        """Do what the state of the flag takes."""
        state = self._flags.state(KHEPRI_DB)
        self._looks += 1
        if state == "enabled":
            self._may_have_left = False
            if not self._settled:
                await self._forward()
            elif self._looks % EXPIRY_LOOKS == 0:
                await self.expire()
        elif state == "disabled" and self._flags.is_synchronised and self._may_have_left:
            await self._undo()

    async def expire(self, retention_ms: int = RETENTION_MS) -> None:
        """Remove the tables if they have been kept for so long, with the tree in force."""
        await self._run(Expiry(retention_ms).steps())

    async def _slept(self) -> None:
        """Until something happens, or it is time to look again."""
        self._wake = asyncio.get_running_loop().create_future()
        timer = self._runtime.clock.call_later(LOOK_MS * _MS, self._woken)
        await self._wake
        timer.cancel()
        self._wake = None

    def _woken(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _do(self, job: Callable[[], Awaitable[None]]) -> None:
        self._jobs.append(job)
        self._woken()

    async def _done(self, job: Callable[[], Awaitable[T]]) -> T:
        """What a job gives, in its turn."""
        given: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            given.set_result(await job())

        self._do(run)
        return await given


def _was_rolled_back(marker: Marker) -> bool:
    return marker.state == "idle" and marker.rolled_back


def _in_force(marker: Marker | None) -> StoreName:
    if marker is None:
        return "unknown"
    if marker.tree_is_in_force:
        return "tree"
    return "none" if marker.state == "prepared" else "tables"
