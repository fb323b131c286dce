"""What a member of a group has applied, and all that is done with it: entries, reads, snapshots, projections.

Entries and reads go through one queue (`splitbrain.cluster.storework`), in which nothing overtakes anything. The group
(`splitbrain.cluster.group`) says what is to be done, and gives it time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from splitbrain.cluster import wire
from splitbrain.cluster.bugs import M29
from splitbrain.cluster.callers import Notices
from splitbrain.cluster.machine import FromLog, MachineEffect, ReleaseCursor, WithEffects
from splitbrain.cluster.machinery import Machinery
from splitbrain.cluster.marks import reached
from splitbrain.cluster.nodeconfig import NodeConfig
from splitbrain.cluster.pending import Pending
from splitbrain.cluster.projecting import Projecting
from splitbrain.cluster.projection import CatchingUp
from splitbrain.cluster.raft import Entry, Raft
from splitbrain.cluster.raft import effects as fx
from splitbrain.cluster.raft.membership import Configuration, decode_configuration
from splitbrain.cluster.readfacts import ReadFacts
from splitbrain.cluster.requests import Requests
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.slicing import in_turns
from splitbrain.cluster.snapshotting import Snapshotting
from splitbrain.cluster.storage import Opened
from splitbrain.cluster.store import Store
from splitbrain.cluster.storework import OfStore, StoreWork
from splitbrain.cluster.telemetry import Telemetry
from splitbrain.cluster.tree import LookUp, PlainQuery, Project, Query, Result
from splitbrain.cluster.waits import Waits

_PLAIN_QUERIES: Final = frozenset(get_args(PlainQuery))


@dataclass(frozen=True)
class Parts:
    """The parts of a member that its store calls.

    Attributes:
        requests: those of clients that are under way.
        notices: answers that are sent together.
        waits: what waits until an entry is applied.
        read_facts: what telemetry says of reads.
        machinery: carries out what the state machine asks for.
        snapshots: writes the state down.
        telemetry: of the member.
        wake: has the group go on.
        log: prints a line.
        applied: takes the store whenever it is at a later entry, or is another one; None if nothing wants it.
    """

    requests: Requests
    notices: Notices
    waits: Waits
    read_facts: ReadFacts
    machinery: Machinery
    snapshots: Snapshotting
    telemetry: Telemetry
    wake: Callable[[], None]
    log: Callable[[str], None]
    applied: Callable[[Store], None] | None = None


class GroupStore:
    """The store of one member.

    Args:
        store: with nothing applied yet.
        config: of the node.
        runtime: what the node lives in.
        opened: what the member had stored: the store is put where it was.
        raft: of the member; it is only looked at.
        parts: the member's other parts, which hear what was applied, answered and taken over.

    Attributes:
        store: the one of the moment: a snapshot puts another one in its place.
        work: what waits for it.
    """

    def __init__(
        self, store: Store, config: NodeConfig, runtime: Runtime, opened: Opened, raft: Raft, parts: Parts
    ) -> None:
        self.store = store
        self.work = StoreWork(lambda: self.store, self._carry_out, parts.wake, config.apply_slice)
        self._runtime = runtime
        self._storage = opened.storage
        self._raft = raft
        self._parts = parts
        self._snapshots, self._telemetry = parts.snapshots, parts.telemetry
        self._skips_queue = M29 in config.bugs
        self._catching_up = CatchingUp(raft.last_index)
        self._projecting = Projecting(config.node, lambda: self.store, raft, self._catching_up, config.bugs)
        recovered = opened.recovered
        if opened.state is not None:
            self._use(self.store.reset(opened.state))
            self._snapshots.begins_at(recovered.base_index, len(opened.state))
        self._catching_up.applied(recovered.base_index, recovered.base_term)
        self._version = self.store.version

    # --- its turn -------------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether there is something to do for `go_on`."""
        return bool(self.work.waiting) or self.work.builds

    async def go_on(self) -> None:
        """Let others have their turn, and do the next part."""
        if self.work:
            reached("log applied in slices")
        else:
            reached("projection built in slices")
        await self._runtime.clock.sleep(0)
        self.work.go_on()

    # --- to read --------------------------------------------------------------------------------------------------

    def query(self, query: Query, answer: Callable[[Result, int], None]) -> None:
        """Have a query answered from what this node has applied; with the index up to which that is."""
        if self.work:
            reached("read between two slices")
        applied = self.store.applied_index
        self._ask(query, lambda result: answer(result, applied))

    def project(self, query: Project | LookUp, answer: Callable[[wire.Outcome], None]) -> None:
        """Have a look into a projection answered, a `Project` or a `LookUp`."""
        if isinstance(query, Project):
            answer(self._projecting.projected(query))
        else:
            self.work.in_slices(self._projecting.looked_up(query), answer)

    def projections(self) -> tuple[str, str]:
        """Hashes of what the projections hold, and of what they should."""
        return self.store.projection_hash, self.store.projected_hash

    def _ask(self, query: Query, answer: Callable[[Result], None]) -> None:
        """Answer at once, or in slices if that takes long."""
        if type(query) in _PLAIN_QUERIES:
            answer(self.store.query(query))
            return
        self.work.in_slices(self.store.query_in_slices(query), answer)

    def read_ready(self, effect: fx.ReadReady) -> None:
        """The leader is confirmed: answer a read in its turn."""
        if effect.ref.arrival is not None:
            # Now, and not when the store comes to it: answers that come until then do not speak for the read.
            self._parts.read_facts.ready(effect, effect.ref.arrival)
        if self._skips_queue:
            self._read(effect)
        else:
            self.work.add(effect)

    def _read(self, effect: fx.ReadReady) -> None:
        is_current = self.store.applied_index >= effect.index or self._skips_queue
        assert is_current, "a read would miss what was committed before it"
        request, applied = effect.ref, self.store.applied_index
        self._ask(request.query, lambda result: self._parts.requests.done(request, result, applied))

    # --- to apply -------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: OfStore) -> None:
        match effect:
            case fx.Apply():
                self._apply(effect)
            case fx.ReadReady():
                self._read(effect)
            case fx.Rebuild():
                self._rebuild()

    def _apply(self, effect: fx.Apply) -> None:
        self._runtime.applied(len(effect.entries))
        for entry in effect.entries:
            result: Any = self.store.apply(entry)
            self._telemetry.applied(entry.index)
            if type(result) is WithEffects:  # not `isinstance`, to which a struct says no slowly
                self._say_released(result.effects)
                self._parts.machinery.applied(entry, result.effects, self.store.dump)
                result = result.result
            elif entry.kind == "noop":
                self._parts.machinery.began_term(entry.term, self.store)
            request: Pending | None = effect.refs.get(entry.index)
            if request is None:
                continue
            if entry.kind == "config":
                self._parts.requests.done(request, member_list(decode_configuration(entry)), entry.index, entry.term)
            elif result is not None:
                result = self._from_log(result) if type(result) is FromLog else result
                self._parts.requests.done(request, result, entry.index, entry.term)
        self.work.builds = self.store.is_building
        self._parts.notices.send()
        if self.store.version != self._version:
            self._parts.log(f"version {self.store.version} of the state machine is in force, after {self._version}")
            self._version = self.store.version
        self._parts.waits.advanced()
        self._say_applied()
        self._telemetry.commit_advanced()
        self._catching_up.applied(effect.entries[-1].index, effect.entries[-1].term)
        if not self.store.releases_itself:
            self._write_down(effect.entries[-1])

    def _say_released(self, effects: Sequence[MachineEffect]) -> None:
        if not self.store.releases_itself:
            return
        for effect in effects:
            if isinstance(effect, ReleaseCursor):
                base, withheld = self._raft.log.base_index, self.store.withheld
                self._telemetry.released(effect.index, self.store.first_needed, base, withheld)

    def _from_log(self, result: FromLog) -> Result:
        log = self._raft.log
        return result.then(tuple(entry for index in result.indexes for entry in log.slice(index, index)))

    def _say_applied(self) -> None:
        if self._parts.applied is not None:
            self._parts.applied(self.store)

    def leader_is_known(self, term: int) -> None:
        """The member knows the leader of a term: what it lacks of earlier ones is not for it to deny."""
        self._catching_up.leader_is_known(term)

    def cut(self, last_index: int) -> None:
        """The log was cut off behind an index."""
        self._catching_up.cut(last_index)

    # --- to write down, and to take over --------------------------------------------------------------------------

    def _write_down(self, last: Entry) -> None:
        """Have the state written down after this entry, the last one applied, if it is time."""
        if self.store.is_large and self._snapshots.is_due(last):
            reached("state written down in slices")
            self.work.in_slices(self.store.dump_in_slices(), lambda state: self._snapshots.applied(last, lambda: state))
        else:
            # Of a large state that is not due a checkpoint may be promoted; nothing is written.
            self._snapshots.applied(last, self.store.dump)

    def write_state(self, wanted: wire.StateRequest, answer: Callable[[wire.Outcome], None]) -> None:
        """Have what is applied here written down, and pass on what came of it."""
        applied = self.store.applied_index
        if self.store.releases_itself and isinstance(wanted, wire.TakeSnapshot):
            detail = "the state machine of this group lets its log go by itself, when it needs that no more"
            answer(wire.Failure("invalid_request", True, detail))
            return
        if not self.store.is_large or not self._snapshots.would_write(wanted, applied):
            self._snapshots.asked(wanted, applied, self.store.dump, answer)
            return
        self.work.in_slices(
            self.store.dump_in_slices(),
            lambda state: self._snapshots.asked(wanted, applied, lambda: state, answer),
        )

    async def install(self, effect: fx.InstallSnapshot) -> None:
        """Put the store where a snapshot of the leader is."""
        while self.work:
            self.work.go_on()  # it may answer what was asked here
            await self._runtime.clock.sleep(0)
        self._telemetry.cut(self._raft.last_index)
        await self._snapshots.install(effect)
        loading = self.store.reset_in_slices(effect.state)
        self._use(await in_turns(loading, self._runtime.clock))
        self._catching_up.cut(effect.index)
        self._catching_up.applied(effect.index, effect.last_term)
        self._version = self.store.version
        self._parts.log(f"took over the leader's snapshot of entry {effect.index}")
        self._telemetry.installed(effect.index, effect.last_term)
        self._parts.waits.advanced()
        self._say_applied()

    def _rebuild(self) -> None:
        self._use(self.store.reset(self._storage.snapshot()[1] if self._raft.log.base_index else None))
        self._telemetry.rebuild()

    def _use(self, store: Store) -> None:
        self.store = store
        self.work.builds = store.is_building

    def stopped(self) -> None:
        """Write a last checkpoint, as the member stops in good order. What it promised is durable already.

        Raises:
            OSError: the disk failed.
        """
        self._snapshots.stopped(self.store.applied_index, self.store.dump)


def member_list(configuration: Configuration) -> wire.MemberList:
    """What clients are answered of a configuration."""
    promotable = tuple(member for member, target in configuration.learners.items() if target is not None)
    return wire.MemberList(configuration.voters, tuple(configuration.learners), promotable)
