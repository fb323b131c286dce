"""A call goes to the store in force, and is repeated while that changes: never for ever, never twice (M2K-1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from splitbrain.cluster.entities import bindings, exchanges, queues, users
from splitbrain.cluster.entities.errors import EntityNotFoundError, PreconditionFailedError
from splitbrain.cluster.entities.functions import functions_of
from splitbrain.cluster.entities.records import Queue
from splitbrain.cluster.entities.store import MetadataStore, Operation
from splitbrain.cluster.errors import OutcomeUnknownError, RefusedError, UnavailableError
from splitbrain.cluster.migration.dispatch import ATTEMPTS, FallbackStore
from splitbrain.cluster.migration.marker import NONE, Marker
from splitbrain.cluster.migration.repeating import IDEMPOTENT
from splitbrain.cluster.tables.entities.access import TablesClosedError
from splitbrain.cluster.tables.entities.operations import OPERATIONS
from tests.cluster.entities.support import empty, now, stock

FINISHED = Marker("finished", "m1", 1)


class Scripted:
    """A store that counts what it is asked, and may do something else first."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self.asked = 0
        self.before: Callable[[], Awaitable[None]] | None = None
        self.after: Callable[[], Awaitable[None]] | None = None

    async def _around(self, answer: Callable[[], Awaitable[Any]]) -> Any:
        self.asked += 1
        if self.before is not None:
            await self.before()
        given = await answer()
        if self.after is not None:
            await self.after()
        return given

    async def change(self, operation: Operation, data: Any) -> Any:
        return await self._around(lambda: self.store.change(operation, data))

    async def ask(self, operation: Operation, data: Any) -> Any:
        return await self._around(lambda: self.store.ask(operation, data))

    async def records(self, table: str, key: Any = None) -> Sequence[Sequence[Any]]:
        return await self._around(lambda: self.store.records(table, key))


class Marked:
    """A switch whose marker a test sets; `on_progress` is what happens while a call waits."""

    def __init__(self, marker: Marker = NONE) -> None:
        self.marker = marker
        self.waits = 0
        self.looks = 0
        self.on_progress: Callable[[int], None] = lambda _: None
        self.here: Marker | None = None  # None: the member that is asked has applied all
        self.looks_here = 0

    async def look(self) -> Marker:
        self.looks += 1
        return self.marker

    async def look_here(self) -> Marker:
        self.looks_here += 1
        return self.marker if self.here is None else self.here

    async def note_written(self, marker: Marker) -> bool:
        if marker != self.marker:
            return False
        self.marker = msgspec.structs.replace(marker, written=True)
        return True

    async def progress(self) -> None:
        self.waits += 1
        self.on_progress(self.waits)


class World:
    """Both stores with the same in them, and a store that chooses."""

    def __init__(self, marker: Marker = NONE) -> None:
        self.tables, self.tree = Scripted(empty("tables")), Scripted(empty("tree"))
        for store in (self.tables, self.tree):
            stock(store.store)
        self.switch = Marked(marker)
        self.store = FallbackStore(self.tables, self.tree, self.switch)


async def closed() -> None:
    raise TablesClosedError("read_only")


async def lost() -> None:
    raise OutcomeUnknownError("the connection broke.")


def test_m2k_1_before_the_migration_the_tables_answer_and_after_it_the_tree() -> None:
    world = World()
    now(queues.declare(world.store, "/", "a"))
    assert now(queues.find(world.store, "/", "a")) == Queue("/", "a")
    assert (world.tables.asked, world.tree.asked) == (2, 0)
    world.switch.marker = FINISHED
    assert now(queues.find(world.store, "/", "a")) is None
    now(queues.declare(world.store, "/", "b"))
    assert (world.tables.asked, world.tree.asked) == (2, 2)


def test_m2k_1_a_call_that_finds_the_tables_closed_waits_and_is_answered_by_the_store_that_is_in_force_then() -> None:
    for is_migrated in (True, False):
        world = World()
        world.tables.before = closed

        def on_progress(waits: int, world: World = world, is_migrated: bool = is_migrated) -> None:
            if waits == 3 and is_migrated:
                world.switch.marker = FINISHED
            elif waits == 3:
                world.tables.before = None

        world.switch.on_progress = on_progress
        now(queues.declare(world.store, "/", "a"))
        assert world.switch.waits == 3
        found = [now(queues.find(store, "/", "a")) is not None for store in (world.tables.store, world.tree.store)]
        assert found == [not is_migrated, is_migrated]


@pytest.mark.parametrize("is_read", [False, True])
def test_m2k_1_a_call_ends_after_100_attempts_and_a_final_one_and_says_that_nothing_was_done(is_read: bool) -> None:
    world = World()
    world.tables.before = closed
    with pytest.raises(UnavailableError, match="no_exists") as error:
        now(queues.find(world.store, "/", "a") if is_read else queues.delete(world.store, "/", "q"))
    assert error.value.definite
    assert world.tables.asked == ATTEMPTS + 1 == 101
    assert world.switch.waits == ATTEMPTS


def test_m2k_1_what_may_have_happened_is_repeated_if_it_may_happen_twice() -> None:
    world = World()
    world.tables.after = lost

    def on_progress(waits: int) -> None:
        if waits == 2:
            world.tables.after = None

    world.switch.on_progress = on_progress
    now(queues.declare(world.store, "/", "a"))
    assert world.tables.asked == 3


def test_m2k_1_what_may_have_happened_and_must_not_happen_twice_is_not_repeated_and_its_error_says_so() -> None:
    world = World()
    world.tables.after = lost
    with pytest.raises(OutcomeUnknownError, match="user_add: it may have happened, and may not be repeated"):
        now(users.add(world.store, "new"))
    assert world.tables.asked == 1
    assert now(users.find(world.tables.store, "new")) is not None


def test_m2k_1_what_may_have_happened_and_then_found_no_store_is_still_of_unknown_outcome() -> None:
    world = World()
    world.tables.after = lost

    def on_progress(waits: int) -> None:
        if waits == 1:
            world.tables.before = closed

    world.switch.on_progress = on_progress
    with pytest.raises(OutcomeUnknownError, match="101 attempts"):
        now(queues.declare(world.store, "/", "a"))


@pytest.mark.parametrize(
    "refusal", [UnavailableError("stopped: the database is stopped."), EntityNotFoundError("not_found: vhost '/'.")]
)
def test_m2k_1_what_may_have_happened_and_is_refused_when_it_is_repeated_is_still_of_unknown_outcome(
    refusal: RefusedError,
) -> None:
    """That the second attempt did nothing says nothing about the first one, which did."""
    world = World()
    world.tables.after = lost

    async def refuse() -> None:
        raise refusal

    def on_progress(_: int) -> None:
        world.tables.before = refuse

    world.switch.on_progress = on_progress
    with pytest.raises(OutcomeUnknownError, match="may have happened before it was refused"):
        now(queues.declare(world.store, "/", "a"))
    assert now(queues.find(world.tables.store, "/", "a")) is not None


def test_m2k_1_a_declaration_that_may_have_made_an_entity_and_then_finds_another_one_is_of_unknown_outcome() -> None:
    """To the client that finds another one when it asks again, it would look as if nothing had been made."""
    world = World()
    world.tables.after = lost

    def on_progress(_: int) -> None:
        world.tables.after = None
        now(queues.delete(world.tables.store, "/", "a"))
        now(queues.declare(world.tables.store, "/", "a", durable=False))

    world.switch.on_progress = on_progress
    with pytest.raises(OutcomeUnknownError, match="may have happened before another one was found"):
        now(queues.declare(world.store, "/", "a"))


def test_m2k_1_a_declaration_that_finds_another_one_at_once_is_refused() -> None:
    world = World()
    now(queues.declare(world.tables.store, "/", "a", durable=False))
    with pytest.raises(PreconditionFailedError):
        now(queues.declare(world.store, "/", "a"))


def test_m2k_1_a_look_up_that_is_refused_after_no_answer_is_refused() -> None:
    world = World()
    world.tables.before = lost

    async def refuse() -> None:
        raise UnavailableError("stopped: the database is stopped.")

    def on_progress(_: int) -> None:
        world.tables.before = refuse

    world.switch.on_progress = on_progress
    with pytest.raises(UnavailableError, match="stopped"):
        now(queues.find(world.store, "/", "a"))


def test_m2k_5_before_its_first_change_the_tree_is_noted_as_written_and_no_rollback_comes_between() -> None:
    """A rollback takes the marker between the look and the change: the change goes to the tables."""
    world = World(FINISHED)
    look = world.switch.look

    async def look_then_roll_back() -> Marker:
        found = await look()
        if world.switch.looks == 1:
            world.switch.marker = Marker("idle", "m2", 2)
        return found

    world.switch.look = look_then_roll_back
    now(queues.declare(world.store, "/", "a"))
    assert now(queues.find(world.tables.store, "/", "a")) is not None
    assert now(queues.find(world.tree.store, "/", "a")) is None
    written = World(FINISHED)
    now(queues.declare(written.store, "/", "a"))
    assert written.switch.marker == msgspec.structs.replace(FINISHED, written=True)


@pytest.mark.parametrize("lost_at", ["look", "note_written"])
def test_m2k_1_if_only_the_marker_gave_no_answer_nothing_was_done_and_the_call_is_repeated(lost_at: str) -> None:
    world = World(FINISHED)
    answering = getattr(world.switch, lost_at)

    async def lost_once(*given: Any) -> Any:
        setattr(world.switch, lost_at, answering)
        await answering(*given)
        await lost()

    setattr(world.switch, lost_at, lost_once)
    now(users.add(world.store, "new"))
    assert world.tree.asked == 1
    assert now(users.find(world.tree.store, "new")) is not None


def test_m2k_5_what_the_tree_answers_does_not_count_if_a_rollback_took_it_out_of_force_meanwhile() -> None:
    world = World(FINISHED)
    now(queues.declare(world.tables.store, "/", "late"))

    async def roll_back() -> None:
        world.switch.marker = Marker("idle", "m2", 2)

    world.tree.after = roll_back
    assert now(queues.find(world.store, "/", "late")) is not None


def test_m2k_5_nor_if_a_later_migration_brought_it_into_force_again() -> None:
    world = World(FINISHED)
    now(queues.delete(world.tree.store, "/", "q"))  # the tree as a rollback had cleared it

    async def roll_back_migrate_and_write() -> None:
        if world.tree.asked == 1:
            now(queues.declare(world.tree.store, "/", "q"))
            world.switch.marker = Marker("finished", "m3", 3, written=True)

    world.tree.after = roll_back_migrate_and_write
    assert now(queues.find(world.store, "/", "q")) is not None


def test_m2k_5_nor_does_what_the_tree_refuses_then() -> None:
    """A rollback clears the tree between the look at the marker and the look at the ends of a binding."""
    world = World(FINISHED)
    now(exchanges.declare(world.tables.store, "/", "x", "direct"))

    async def roll_back() -> None:
        world.switch.marker = Marker("idle", "m2", 2)

    world.tree.before = roll_back
    assert now(bindings.add(world.store, "/", "x", "queue", "q"))


def test_a_tree_that_is_written_stays_in_force_and_is_not_looked_at_again() -> None:
    world = World(FINISHED)
    now(queues.declare(world.store, "/", "a"))
    looks = world.switch.looks
    now(queues.delete(world.store, "/", "a"))
    now(queues.every(world.store))
    assert world.switch.looks == looks


def test_every_operation_says_whether_it_may_be_repeated() -> None:
    assert set(IDEMPOTENT) == set(OPERATIONS)
    known = {Operation(name, version) for name, version in functions_of().names() if not name.startswith("project_")}
    assert known == set(OPERATIONS), "tables and tree have the same operations"


@pytest.mark.parametrize("operation", [each for each, may in IDEMPOTENT.items() if may], ids=lambda each: each.name)
@pytest.mark.parametrize("kind", ["tree", "tables"])
def test_an_idempotent_operation_gives_and_leaves_the_same_when_it_comes_twice(kind: str, operation: Operation) -> None:
    """But that to declare gives what it made before: callers get the same of both."""
    store = empty(kind)
    stock(store)
    given = {"vhost": "%2F", "user": "u", "exchange": "amq.topic", "source": "amq.topic", "destination": "q"}
    record = {"vhost": "/", "user": "u", "exchange": "amq.topic", "name": "n", "source": "amq.topic", "kind": "queue"}
    record |= {"destination": "q", "owner": None, "type": "topic"}
    data = {**given, "name": "n", "component": "c", "operator": False, "owner": None, "record": record}
    data |= {"fields": {"tags": ["a"]}, "exchanges": [], "pattern": msgspec.msgpack.encode(None)}
    data["vhost"] = "v" if operation.name == "vhost_put" else "%2F"
    if operation.name == "user_change":
        data["name"] = "u"
    answers = [now(store.change(operation, data)) for _ in range(2)]
    assert answers[1] in (answers[0], record)


def test_m2k_1_look_ups_wait_until_the_member_that_answers_them_has_applied_what_was_moved() -> None:
    """That the tree is in force is known by its leader, and look-ups are answered from a member's projections."""
    world = World(FINISHED)
    world.switch.here = msgspec.structs.replace(FINISHED, state="prepared")
    world.switch.on_progress = lambda waits: setattr(
        world.switch, "here", FINISHED if waits == 3 else world.switch.here
    )
    now(world.store.records(queues.TABLE))
    assert (world.switch.waits, world.tree.asked) == (3, 1)
    now(queues.declare(world.store, "/", "a"))  # from now on the tree is in force for ever
    world.switch.here = None
    for _ in range(2):
        now(world.store.records(queues.TABLE))
    assert world.switch.looks_here == 5, "once it is known to be there, it is not asked again"


def test_m2k_1_look_ups_take_no_earlier_migration_for_the_one_that_counts() -> None:
    world = World(msgspec.structs.replace(FINISHED, generation=3))
    world.switch.here = FINISHED
    with pytest.raises(UnavailableError, match="no_exists"):
        now(world.store.records(queues.TABLE))
    assert world.tree.asked == 0
    world = World(msgspec.structs.replace(FINISHED, generation=3, written=True))
    world.switch.here = FINISHED  # it may have been rolled back since
    with pytest.raises(UnavailableError, match="no_exists"):
        now(world.store.records(queues.TABLE))
    assert world.tree.asked == 0
