"""The migration step by step (M2K-2, M2K-3, M2K-5, D5), on a tree and tables in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from splitbrain.cluster.entities import bindings, exchanges, parameters, permissions, policies, queues, topology, users
from splitbrain.cluster.entities.store import LocalStore, Operation
from splitbrain.cluster.entities.tables import REGISTER
from splitbrain.cluster.errors import ArgumentError, UnavailableError
from splitbrain.cluster.migration import treewrites
from splitbrain.cluster.migration.converters import ORDER_OF_PLUGINS, OfRecords, Write, delete, of_entities, put
from splitbrain.cluster.migration.dispatch import FallbackStore
from splitbrain.cluster.migration.expiry import Expiry
from splitbrain.cluster.migration.machine import Migration
from splitbrain.cluster.migration.marker import Marker
from splitbrain.cluster.migration.procedure import BYTES_AT_ONCE, Machine, Run, in_batches, number_of
from splitbrain.cluster.migration.rollback import Rollback
from splitbrain.cluster.migration.shell import Shell, TreeSwitch
from splitbrain.cluster.migration.steps import (
    Done,
    Effect,
    Ended,
    NotDone,
    SetAccess,
    SwapMarker,
    TakeCheckpoint,
    Unknown,
    WriteTree,
)
from splitbrain.cluster.tables.entities import layout
from splitbrain.cluster.tables.entities.access import DROPPED_AT_ONCE, TablesClosedError
from splitbrain.cluster.tables.entities.projected import PROJECTED, records_of
from splitbrain.cluster.tables.entities.store import LocalTables, TablesStore
from splitbrain.cluster.tables.records import Change, Item, Put
from splitbrain.cluster.tree import NEWEST_VERSION, Tree
from tests.cluster.entities.support import now, stock
from tests.cluster.migration.interrupted import FUNCTIONS


class World:
    """A tree, tables with something in them, and what a migration needs beside them."""

    def __init__(self) -> None:
        self.clock_ms = 1_000
        self.alive: set[str] = set()
        self.waits = 0
        self.on_wait: Callable[[], None] = lambda: None
        self.of_tree = Tree(version=NEWEST_VERSION, functions=FUNCTIONS)
        for command in REGISTER:
            self.of_tree.execute(command)
        self.tree = LocalStore(self.of_tree)
        self.tables = LocalTables()
        self.table_store = TablesStore(self.tables)
        self.converters = of_entities()
        self.switch = TreeSwitch(self.tree, self.progress)
        self.store = FallbackStore(self.table_store, self.tree, self.switch)
        stock(self.table_store)

    async def is_alive(self, owner: str) -> bool:
        return owner in self.alive

    async def progress(self) -> None:
        self.waits += 1
        self.on_wait()

    def wall_ms(self) -> int:
        return self.clock_ms

    def run(self, machine: Machine) -> Ended:
        return now(Shell(self.tree, self.tables, self).run(machine))

    def migrate(self, owner: str = "p1") -> Ended:
        return self.run(Migration(owner, self.converters).steps())

    def marker(self) -> Marker:
        return now(self.switch.look())

    def nodes(self) -> list[str]:
        return ["/".join(path) for path, found in self.of_tree.contents() if path[:1] == (":rabbit",) and found.payload]


def stocked_with_everything(world: World) -> None:
    store = world.table_store
    now(exchanges.declare(store, "/", "x", "direct", auto_delete=True))
    now(exchanges.declare(store, "/", "unbound", "topic", auto_delete=True))
    for arguments in ({}, {"n": 1}, {"n": True}):
        now(bindings.add(store, "/", "x", "queue", "q", "a/b", arguments=arguments))
    now(bindings.add(store, "/", "amq.topic", "exchange", "x", "a.#"))
    now(permissions.grant(store, "/", "u", read=".*"))
    now(permissions.grant_topic(store, "/", "u", "x"))
    now(policies.put(store, "/", "p", ".*", {"max-length": 1}))
    now(policies.put(store, "/", "p", ".*", {"max-length": 1}, operator=True))
    now(parameters.put(store, "/", ":policy", "p", [1]))
    now(parameters.put_global(store, "name", "c"))


def steps_of(world: World, migration: Migration, answer: Callable[[Effect], Any]) -> list[tuple[str, str]]:
    """Carry it out; at which step each effect was wanted. `answer` may give another event."""
    shell, run = Shell(world.tree, world.tables, world), Run(migration.steps())
    taken: list[tuple[str, str]] = []
    while run.effect is not None:
        taken.append((migration.step, type(run.effect).__name__))
        run.happened(answer(run.effect) or now(shell.carry_out(run.effect)))
    return taken


def test_m2k_2_the_steps_in_their_order() -> None:
    world = World()

    def answer(effect: Effect) -> Any:
        if isinstance(effect, WriteTree) and not now(queues.find(world.table_store, "/", "meanwhile")):
            now(queues.declare(world.table_store, "/", "meanwhile"))

    assert steps_of(world, Migration("p1", world.converters, 10), answer) == [
        ("looking", "ReadMarker"),
        ("claiming", "SwapMarker"),
        ("clearing", "SetAccess"),
        ("clearing", "ClearTree"),
        ("copying", "Subscribe"),
        ("copying", "TakeCheckpoint"),
        ("copying", "WriteTree"),
        ("closing", "SetAccess"),
        ("draining", "TakeEvents"),
        ("draining", "WriteTree"),
        ("retiring", "SetAccess"),
        ("finishing", "ReadClock"),
        ("finishing", "SwapMarker"),
        ("finishing", "Unsubscribe"),
    ]
    assert now(queues.find(world.tree, "/", "meanwhile")) is not None
    assert world.marker() == Marker("finished", "p1", 1, finished_ms=1_000)


def test_m2k_3_all_that_is_in_the_tables_is_in_the_tree_afterwards_record_by_record() -> None:
    world = World()
    stocked_with_everything(world)
    assert world.migrate() == Ended("finished")
    for table in PROJECTED:
        assert now(world.tree.records(table)) == records_of(world.tables.tables, table), table
    with pytest.raises(TablesClosedError, match="retired"):
        now(topology.read(world.table_store))


def test_db_2_what_goes_with_an_entity_goes_with_it_after_the_migration_too() -> None:
    world = World()
    stocked_with_everything(world)
    world.migrate()
    now(queues.delete(world.store, "/", "q"))
    assert now(exchanges.find(world.store, "/", "x")) is None, "it deletes itself with its last binding"
    assert now(exchanges.find(world.store, "/", "unbound")) is not None, "it never had a binding"
    assert now(bindings.every(world.store)) == []
    assert now(permissions.every_topic(world.store)) == []
    now(users.delete(world.store, "u"))
    assert now(permissions.every(world.store)) == []


def test_db_2_topic_permissions_go_with_their_user_after_the_migration_too() -> None:
    world = World()
    stocked_with_everything(world)
    world.migrate()
    assert len(now(permissions.every_topic(world.store))) == 1
    now(users.delete(world.store, "u"))
    assert now(permissions.every_topic(world.store)) == []


def test_m2k_5_a_rollback_leaves_nothing_of_any_kind_in_the_tree() -> None:
    world = World()
    stocked_with_everything(world)
    world.migrate()
    assert world.run(Rollback("p2", world.converters).steps()) == Ended("finished")
    assert world.nodes() == []


def test_m2k_2_a_migration_that_has_finished_is_not_done_again() -> None:
    world = World()
    world.migrate()
    now(queues.declare(world.store, "/", "new"))
    before = world.of_tree.state_hash
    assert world.migrate("p2").how == "nothing"
    assert world.of_tree.state_hash == before


def test_m2k_2_another_process_is_waited_for_while_it_runs_and_replaced_when_it_is_dead() -> None:
    world = World()
    first = Run(Migration("p1", world.converters).steps())
    shell = Shell(world.tree, world.tables, world)
    left_to_copy = up_to_the_copy(first, shell)
    world.alive = {"p1"}

    def on_wait() -> None:
        if world.waits == 3:
            world.alive = set()

    world.on_wait = on_wait
    assert world.migrate("p2") == Ended("finished")
    assert world.waits == 3
    assert world.marker().owner == "p2"
    now(queues.delete(world.store, "/", "q"))
    # The first one was not dead: what it does now has no effect.
    first.happened(now(shell.carry_out(left_to_copy)))
    assert to_the_end(first, shell).how == "superseded"
    assert now(queues.find(world.store, "/", "q")) is None
    assert now(world.tables.run("set_access", ("read_write", 7))) is False, "a setting of the first migration"


def up_to_the_copy(run: Run, shell: Shell) -> WriteTree:
    while True:
        effect = run.effect
        if isinstance(effect, WriteTree):
            return effect
        assert effect is not None
        run.happened(now(shell.carry_out(effect)))


def to_the_end(run: Run, shell: Shell) -> Ended:
    while run.effect is not None:
        run.happened(now(shell.carry_out(run.effect)))
    assert run.ended is not None
    return run.ended


@pytest.mark.parametrize("failing", [SetAccess, WriteTree])
def test_m2k_2_after_a_step_that_fails_all_is_as_before(failing: type[Effect]) -> None:
    world = World()
    seen: list[Effect] = []

    def answer(effect: Effect) -> Any:
        if isinstance(effect, failing) and not (isinstance(effect, SetAccess) and effect.access == "read_write"):
            seen.append(effect)
            return NotDone("the tree has no majority")
        return None

    before = world.tables.contents()
    steps = steps_of(world, Migration("p1", world.converters), answer)
    assert steps[-5:] == [
        ("undoing", "SwapMarker"),
        ("undoing", "Unsubscribe"),
        ("undoing", "SetAccess"),
        ("undoing", "ClearTree"),
        ("undoing", "SwapMarker"),
    ]
    assert len(seen) == 5, "it was tried so often"
    assert world.marker().state == "idle"
    assert world.nodes() == []
    assert {**world.tables.contents(), "rabbit_table_access": {}} == {**before, "rabbit_table_access": {}}
    now(queues.declare(world.store, "/", "new"))
    assert world.migrate("p2") == Ended("finished")
    assert now(queues.find(world.store, "/", "new")) is not None


def test_m2k_2_if_nobody_says_whether_the_last_step_was_done_the_marker_does() -> None:
    world = World()

    def answer(effect: Effect) -> Any:
        if isinstance(effect, SwapMarker) and effect.wanted.state == "finished":
            now(Shell(world.tree, world.tables, world).carry_out(effect))
            return Unknown("the connection broke")
        return None

    migration = Migration("p1", world.converters)
    run = Run(migration.steps())
    shell = Shell(world.tree, world.tables, world)
    while run.effect is not None:
        run.happened(answer(run.effect) or now(shell.carry_out(run.effect)))
    assert run.ended == Ended("finished")
    assert world.marker().tree_is_in_force


@pytest.mark.parametrize("unanswered", [1, 5])
def test_m2k_2_the_last_step_was_done_also_if_a_client_has_written_to_the_tree_since(unanswered: int) -> None:
    """The marker is another one then, and is still this migration's: to undo it would open the tables again."""
    world = World()
    shell = Shell(world.tree, world.tables, world)
    run, tried = Run(Migration("p1", world.converters).steps()), 0
    while run.effect is not None:
        event = now(shell.carry_out(run.effect))
        if isinstance(run.effect, SwapMarker) and run.effect.wanted.state == "finished" and tried < unanswered:
            event, tried = Unknown("the connection broke"), tried + 1
            now(queues.declare(world.store, "/", "new"))
        run.happened(event)
    assert run.ended == Ended("finished")
    with pytest.raises(TablesClosedError, match="retired"):
        now(topology.read(world.table_store))
    assert now(queues.find(world.store, "/", "new")) is not None


def test_m2k_2_what_a_process_that_lost_the_marker_still_writes_or_clears_has_no_effect() -> None:
    world = World()
    world.migrate()
    before = world.nodes()
    lost = Marker("in_flight", "p0", 1)
    for operation, what in (
        (treewrites.CLEAR, {"roots": world.converters.roots}),
        (treewrites.WRITE, {"writes": [delete((":rabbit", ":vhosts", "%2F"))]}),
    ):
        assert now(world.tree.change(operation, {"marker": lost, **what})) is False
        assert world.nodes() == before


def test_m2k_2_a_write_whose_outcome_is_unknown_is_not_sent_again() -> None:
    """It may come late, over a newer one: only another marker keeps it from that."""
    world = World()
    sent = 0

    def answer(effect: Effect) -> Any:
        nonlocal sent
        if isinstance(effect, WriteTree):
            sent += 1
            return Unknown("the connection broke")
        return None

    steps_of(world, Migration("p1", world.converters), answer)
    assert (sent, world.marker().state) == (1, "idle")


def test_m2k_5_before_the_first_change_of_the_tree_there_is_a_way_back() -> None:
    world = World()
    world.migrate()
    assert now(queues.find(world.store, "/", "q")) is not None  # to read is no change
    assert world.run(Rollback("p2", world.converters).steps()) == Ended("finished")
    assert world.nodes() == []
    now(queues.declare(world.store, "/", "new"))
    assert now(queues.find(world.table_store, "/", "new")) is not None
    assert world.run(Rollback("p3", world.converters).steps()).how == "nothing"


def test_m2k_5_after_it_a_rollback_is_refused_and_says_why() -> None:
    world = World()
    world.migrate()
    now(queues.declare(world.store, "/", "new"))
    ended = world.run(Rollback("p2", world.converters).steps())
    assert ended.how == "refused"
    assert "the tree has taken changes" in ended.why
    assert now(queues.find(world.store, "/", "new")) is not None


def test_d5_tables_are_kept_for_a_while_and_then_there_is_no_way_back() -> None:
    world = World()
    world.migrate()
    world.clock_ms += 999
    assert world.run(Expiry(1_000).steps()).how == "nothing"
    assert world.tables.tables.keys(layout.QUEUE)
    world.clock_ms += 1
    assert world.run(Expiry(1_000).steps()) == Ended("finished")
    assert not any(world.tables.tables.keys(table) for table in layout.ENTITY_TABLES)
    ended = world.run(Rollback("p2", world.converters).steps())
    assert (ended.how, "retention" in ended.why) == ("refused", True)
    assert now(queues.find(world.store, "/", "q")) is not None


def test_d5_tables_that_are_in_force_are_never_removed() -> None:
    world = World()
    assert world.run(Expiry(0).steps()).how == "nothing"
    assert now(world.tables.run("drop_entities", (0,))) is None
    assert now(queues.find(world.store, "/", "q")) is not None


def test_d5_large_tables_are_removed_in_transactions_of_a_limited_size() -> None:
    """Each record takes a lock on all replicas, one after the other, and a transaction has a deadline."""
    world = World()
    world.tables.commit([Put(Item(layout.QUEUE, f"%2F/q{at}"), {"at": at}) for at in range(2 * DROPPED_AT_ONCE)])
    world.tables.commit(
        [Put(Item("rabbit_table_access", ""), {"access": "retired", "number": number_of(1, "retired")})]
    )
    now(world.tree.change(treewrites.SWAP, {"expected": None, "wanted": Marker("finished", "p1", 1, finished_ms=1)}))
    sizes: list[int] = []
    world.tables.subscribe(lambda changes: sizes.append(len(changes)))
    assert world.run(Expiry(0).steps()) == Ended("finished")
    assert not any(world.tables.tables.keys(table) for table in layout.ENTITY_TABLES)
    assert max(sizes) == DROPPED_AT_ONCE


@pytest.mark.parametrize(("access", "number"), [("read_write", 7), ("read_only", 7), ("retired", 8)])
def test_d5_tables_are_removed_only_as_they_were_retired_by_the_migration_that_names_them(
    access: str, number: int
) -> None:
    world = World()
    now(world.tables.run("set_access", (access, number)))
    assert now(world.tables.run("drop_entities", (7,))) is None
    assert world.tables.tables.keys(layout.QUEUE)


def test_m2k_3_every_table_of_entities_has_a_converter_and_only_one() -> None:
    converters = of_entities()
    for table in layout.ENTITY_TABLES:
        with pytest.raises(ArgumentError, match=f"{table} has a converter already"):
            converters.register(OfRecords(table, 0, (":rabbit", ":other"), {}))


def test_m2k_3_a_plugin_has_its_own_table_migrated_after_what_it_needs() -> None:
    world = World()
    world.tables.tables.apply([Put(Item("rh_exchange_table", "%2F/x"), {"recent": 3})])
    root = (":rabbit", ":recent_history")
    world.converters.register(
        OfRecords("rh_exchange_table", ORDER_OF_PLUGINS, root, {(":rabbit", ":exchanges"): (0, 1)})
    )
    now(exchanges.declare(world.table_store, "/", "x", "direct"))
    assert world.migrate() == Ended("finished")
    assert ":rabbit/:recent_history/%2F/x" in world.nodes()
    world.run(Rollback("p2", world.converters).steps())
    assert world.nodes() == []


class Raising(OfRecords):
    """A plug-in's converter with a defect, which shows in the checkpoint or in what is queued behind it."""

    def __init__(self, key: str) -> None:
        super().__init__("rh_exchange_table", ORDER_OF_PLUGINS, (":rabbit", ":recent_history"), {})
        self.key = key

    def writes(self, change: Change) -> list[Write]:
        if change.item.key == self.key:
            raise KeyError("recent")
        return super().writes(change)


@pytest.mark.parametrize("at", ["checkpoint", "queued"])
def test_m2k_3_a_plugin_whose_converter_raises_has_the_migration_undone_and_its_name_said(at: str) -> None:
    world = World()
    world.converters.register(Raising(at))
    world.tables.commit([Put(Item("rh_exchange_table", "checkpoint"), 1)])

    def answer(effect: Effect) -> Any:
        if isinstance(effect, WriteTree):
            world.tables.commit([Put(Item("rh_exchange_table", "queued"), 1)])

    migration, shell = Migration("p1", world.converters), Shell(world.tree, world.tables, world)
    run = Run(migration.steps())
    while run.effect is not None:
        answer(run.effect)
        run.happened(now(shell.carry_out(run.effect)))
    assert run.ended is not None
    assert run.ended.how == "undone"
    assert "Raising: rh_exchange_table: KeyError: 'recent'" in run.ended.why
    assert world.marker().state == "idle"
    assert world.nodes() == []
    now(queues.declare(world.store, "/", "still"))


@pytest.mark.parametrize("raises", [False, True])
def test_m2k_2_a_migration_that_is_stuck_or_raises_queues_no_more_changes(raises: bool) -> None:
    world = World()
    writes = 0

    class Failing(LocalStore):
        async def change(self, operation: Operation, data: Any) -> Any:
            nonlocal writes
            writes += operation == treewrites.WRITE
            if not writes:
                return await super().change(operation, data)
            if raises:
                raise RuntimeError("a defect")
            raise UnavailableError("no_leader.")

    shell = Shell(Failing(world.of_tree), world.tables, world)
    if raises:
        with pytest.raises(RuntimeError):
            now(shell.run(Migration("p1", world.converters).steps()))
    else:
        assert now(shell.run(Migration("p1", world.converters).steps())).how == "stuck"
    assert world.tables.subscribers == 0


def test_m2k_2_what_was_queued_before_the_checkpoint_is_not_applied_again_over_it() -> None:
    """An exchange that deletes itself would lose its last binding in between, as the tables' one never did."""
    world = World()
    store = world.table_store
    now(exchanges.declare(store, "/", "x", "direct", auto_delete=True))
    for key in ("a", "b"):
        now(bindings.add(store, "/", "x", "queue", "q", key))

    def answer(effect: Effect) -> None:
        if isinstance(effect, TakeCheckpoint):
            now(bindings.remove(store, "/", "x", "queue", "q", "a"))
            now(bindings.add(store, "/", "x", "queue", "q", "a"))
            now(bindings.remove(store, "/", "x", "queue", "q", "b"))

    steps_of(world, Migration("p1", world.converters), answer)
    assert [each.key for each in now(bindings.of_source(world.store, "/", "x"))] == ["a"]


def test_m2k_3_what_one_command_writes_is_limited_in_number_and_in_bytes() -> None:
    small = [put((f"n{at}",), "", ()) for at in range(5)]
    assert [len(batch) for batch in in_batches(small, 2)] == [2, 2, 1]
    assert in_batches([], 2) == []
    large = [put(("n",), "x" * (BYTES_AT_ONCE // 2 - 500), ()) for _ in range(3)]
    assert [len(batch) for batch in in_batches(large, 100)] == [2, 1]
    assert [len(batch) for batch in in_batches([put(("n",), "x" * BYTES_AT_ONCE, ())] * 2, 100)] == [1, 1]


def test_a_machine_is_told_of_an_effect_that_was_carried_out() -> None:
    run = Run(Expiry().steps())
    run.happened(Done(Marker()))
    assert (run.effect, run.ended) == (None, Ended("nothing", "the tables are in force"))
