"""Migrations under clients, interrupted anywhere: `python -m tests.cluster.migration.interrupted SCHEDULES`.

One seed is one schedule. Clients work through `FallbackStore`, each in a virtual host of its own beside a model of its
own (`tests.cluster.entities.broker`), so each answer and each look-up has one right value at its moment. Processes
migrate, roll back and remove tables. They die before or after an effect, effects are refused, are carried out without
an answer, or are carried out late, and a process that runs is taken for dead. In between any client takes a step: each
call of a store pauses before and after it.

At the end the store in force holds what the models say, the other one nothing that counts; and whenever a store
answered a client, it was the one in force.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from splitbrain.cluster.entities import bindings, exchanges, permissions, policies, queues, topology, users, vhosts
from splitbrain.cluster.entities.errors import EntityError
from splitbrain.cluster.entities.functions import add_functions
from splitbrain.cluster.entities.store import LocalStore, MetadataStore, Operation
from splitbrain.cluster.entities.tables import REGISTER
from splitbrain.cluster.migration import treewrites
from splitbrain.cluster.migration.converters import of_entities
from splitbrain.cluster.migration.dispatch import FallbackStore
from splitbrain.cluster.migration.expiry import Expiry
from splitbrain.cluster.migration.machine import Broken, Migration
from splitbrain.cluster.migration.marker import Marker, marker_of
from splitbrain.cluster.migration.procedure import Run
from splitbrain.cluster.migration.rollback import Rollback
from splitbrain.cluster.migration.shell import Shell, TreeSwitch
from splitbrain.cluster.migration.steps import (
    AskOwner,
    Effect,
    Event,
    NotDone,
    ReadClock,
    ReadMarker,
    Subscribe,
    TakeCheckpoint,
    TakeEvents,
    Unknown,
    Unsubscribe,
    Wait,
)
from splitbrain.cluster.tables.entities.access import RECORD, TablesClosedError, access_of
from splitbrain.cluster.tables.entities.layout import ENTITY_TABLES
from splitbrain.cluster.tables.entities.projected import PROJECTED, records_of
from splitbrain.cluster.tables.entities.store import LocalTables, TablesStore
from splitbrain.cluster.tree import NEWEST_VERSION, Functions, Tree
from tests.cluster.entities.broker import Broker
from tests.cluster.entities.support import now, shape

FUNCTIONS = Functions()
add_functions(FUNCTIONS)
treewrites.add_functions(FUNCTIONS)

HERE = (ReadClock, AskOwner, Wait, Subscribe, Unsubscribe, TakeCheckpoint, TakeEvents)
"""Effects within the process: they fail with it only."""


class Pause:
    """Gives way to the scheduler; `waits` until a process has done something."""

    def __init__(self, *, waits: bool = False) -> None:
        self.waits = waits

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


class Watched:
    """A store as clients see it: calls pause, and each answer has to come from the store in force."""

    def __init__(self, store: MetadataStore, world: World, *, is_tree: bool) -> None:
        self._store = store
        self._world = world
        self._is_tree = is_tree

    async def _around(self, call: Callable[[], Awaitable[Any]], *, changes: bool) -> Any:
        await Pause()
        in_force = self._world.marker().tree_is_in_force == self._is_tree
        try:
            return await call()
        except TablesClosedError:
            in_force = True  # that it does not answer it may say at any time
            raise
        finally:
            self._world.stepping.last_in_force = in_force
            if (changes or not self._is_tree) and not in_force:
                self._world.wrong.append(f"{'tree' if self._is_tree else 'tables'} answered, and were not in force")
            await Pause()

    async def change(self, operation: Operation, data: Any) -> Any:
        return await self._around(lambda: self._store.change(operation, data), changes=True)

    async def ask(self, operation: Operation, data: Any) -> Any:
        return await self._around(lambda: self._store.ask(operation, data), changes=False)

    async def records(self, table: str, key: Any = None) -> Sequence[Sequence[Any]]:
        return await self._around(lambda: self._store.records(table, key), changes=False)


class PausingSwitch(TreeSwitch):
    """A switch whose looks pause."""

    async def look(self) -> Marker:
        await Pause()
        return await super().look()

    async def note_written(self, marker: Marker) -> bool:
        await Pause()
        return await super().note_written(marker)


@dataclass
class Interruption:
    """What goes wrong in one process.

    Attributes:
        at: the number of the effect; None for none.
        how: "dies before", "dies after", "is refused", "is lost", "is unanswered", "is never answered" (each time that
            it is tried) or "is late".
        often: the share of other effects to which the same happens once, but for death.
    """

    at: int | None = None
    how: str = "dies before"
    often: float = 0.0


HOWS = ("dies before", "dies after", "is refused", "is lost", "is unanswered", "is never answered", "is late")


class Process:
    """A process that has one machine carried out."""

    def __init__(self, world: World, kind: str, name: str, interruption: Interruption) -> None:
        self.kind = kind
        self.name = name
        self.world = world
        self.interruption = interruption
        self.migration = Migration(name, of_entities(), world.copied_at_once, world.broken)
        machine = {
            "migration": self.migration.steps,
            "rollback": Rollback(name, of_entities()).steps,
            "expiry": Expiry(world.rng.choice((0, 10**9))).steps,
        }[kind]()
        self.run = Run(machine)
        self.shell = Shell(LocalStore(world.tree), world.tables, world)
        self.effects = 0
        self.is_dead = False
        self._failing: Effect | None = None

    def step(self) -> None:
        """Carry out the next effect, or not."""
        effect = self.run.effect
        assert effect is not None
        step, number = self.migration.step, self.effects
        self.effects += 1
        how = self._how(effect, number)
        if how in ("dies before", "dies after"):
            if how == "dies after":
                now(self.shell.carry_out(effect))
            self._die(f"{step} {type(effect).__name__} {how}")
            return
        event = self._happened(effect, how)
        self.world.marker()  # notes it if this finished the migration
        self.run.happened(event)
        if self.run.ended is not None:
            self.world.counts[f"{self.kind} {self.run.ended.how}"] += 1
            self._check_end(self.run.ended.how)

    def _check_end(self, how: str) -> None:
        """What a migration says of its end is so."""
        if self.kind != "migration":
            return
        marker, has_finished = self.world.marker(), self.name in self.world.finished
        if how in ("finished", "undone") and has_finished != (how == "finished"):
            self.world.wrong.append(f"{self.name} ended {how}, and had {'' if has_finished else 'not '}finished")
        if how == "superseded" and marker.owner == self.name:
            self.world.wrong.append(f"{self.name} ended superseded, and has the marker: {marker}")

    def _how(self, effect: Effect, number: int) -> str:
        given = self.interruption
        if number == given.at or effect is self._failing:
            if given.how in ("is refused", "is never answered"):
                self._failing = effect  # each time that it is tried
            return given.how
        if given.how not in ("dies before", "dies after") and self.world.rng.random() < given.often:
            return given.how
        return ""

    def _happened(self, effect: Effect, how: str) -> Event:
        if not how or isinstance(effect, HERE):
            return now(self.shell.carry_out(effect))
        self.world.counts[f"{type(effect).__name__} {how}"] += 1
        if how == "is refused":
            return NotDone("refused")
        if how in ("is unanswered", "is never answered"):
            now(self.shell.carry_out(effect))
        elif how == "is late" and not isinstance(effect, ReadMarker):
            self.world.late.append(lambda: now(self.shell.carry_out(effect)))
        return Unknown(how)

    def _die(self, where: str) -> None:
        self.is_dead = True
        now(self.shell.carry_out(Unsubscribe()))
        self.world.counts["died"] += 1
        self.world.died_at[where] += 1


class Client:
    """One client, its model, and the call that it has under way."""

    def __init__(self, world: World, number: int, operations: int) -> None:
        self.world = world
        self.vhost, self.user = f"v{number}", f"u{number}"
        self.broker = Broker()
        self.left = 1_000 + operations
        self.calling: Coroutine[Any, Any, Any] | None = None
        self.expected: Callable[[], Any] = lambda: None
        self.waits_since: int | None = None
        self.now_doing = ""
        self.last_in_force = True  # the store that answered it last, at that moment

    def can_step(self) -> bool:
        if self.calling is None:
            return self.left > 0
        return self.waits_since is None or self.world.moved > self.waits_since

    def step(self) -> None:
        if self.calling is None:
            self.left -= 1
            self._begin()
        assert self.calling is not None
        self.world.stepping = self
        self.waits_since = None
        try:
            pause = self.calling.send(None)
            if pause.waits:
                self.waits_since = self.world.moved
        except StopIteration as end:
            self._ended(end.value)
        except EntityError as error:
            self._ended(str(error).partition(":")[0])

    def _ended(self, got: Any) -> None:
        self.calling = None
        expected = self.expected()
        self.broker.settle()
        got = cast("object", got) if isinstance(got, bool | int | str | dict) else None
        if got != expected:
            self.world.wrong.append(f"{self.vhost}: {self.now_doing} gave {got}, the model says {expected}")
        if not self.last_in_force:
            self.world.wrong.append(f"{self.vhost}: {self.now_doing} was answered by a store that was not in force")

    def _begin(self) -> None:
        rng = self.world.rng
        kinds = ("vhost", "user", "grant", "exchange", "queue", "bind", "unbind", "delete", "look")
        kind = rng.choices(kinds, (1, 1, 2, 4, 5, 6, 2, 4, self.world.looks))[0]
        self.now_doing, self.calling, self.expected = getattr(self, f"_{kind}")(self.world.store, self.broker, rng)

    def _vhost(self, store: MetadataStore, broker: Broker, rng: random.Random) -> Any:
        v = self.vhost
        if v not in broker.vhosts or rng.random() < 0.6:
            return "declare a vhost", vhosts.declare(store, v), lambda: broker.declare_vhost(v)
        return "delete a vhost", vhosts.delete(store, v), lambda: broker.delete_vhost(v)

    def _user(self, store: MetadataStore, broker: Broker, rng: random.Random) -> Any:
        u = self.user
        if u not in broker.users or rng.random() < 0.6:
            return "add a user", users.add(store, u), lambda: broker.add_user(u)
        return "delete a user", users.delete(store, u), lambda: broker.delete_user(u)

    def _grant(self, store: MetadataStore, broker: Broker, rng: random.Random) -> Any:
        v, u, x = self.vhost, self.user, rng.choice(("x", "y"))
        drawn = rng.randrange(4)
        if drawn == 0:
            return "revoke", permissions.revoke(store, v, u), lambda: broker.revoke(v, u)
        if drawn == 1:
            return "grant", permissions.grant(store, v, u), lambda: broker.grant(v, u)
        if drawn == 2:
            put = policies.put(store, v, "p", ".*", {"a": 1})
            return "policy", put, lambda: broker.set_policy(v, "p")
        return "grant topics", permissions.grant_topic(store, v, u, x), lambda: broker.grant_topic(v, u, x)

    def _exchange(self, store: MetadataStore, broker: Broker, rng: random.Random) -> Any:
        v, x = self.vhost, rng.choice(("x", "y", "z"))
        kind: Any = "topic" if x == "y" else "direct"
        auto_delete = x != "z"
        declared = exchanges.declare(store, v, x, kind, auto_delete=auto_delete)
        return f"declare {x}", declared, lambda: broker.declare_exchange(v, x, kind, auto_delete=auto_delete)

    def _queue(self, store: MetadataStore, broker: Broker, rng: random.Random) -> Any:
        v, q = self.vhost, rng.choice(("q", "r", "s"))
        owner = f"c-{v}" if q == "s" else None
        return (
            f"declare queue {q}",
            queues.declare(store, v, q, owner=owner),
            lambda: broker.declare_queue(v, q, durable=True, owner=owner, node="", arguments=()),
        )

    def _bind(self, store: MetadataStore, broker: Broker, rng: random.Random) -> Any:
        v, x, key = self.vhost, rng.choice(("x", "y", "z")), rng.choice(("a", "a.b"))
        kind, end = rng.choice((("queue", "q"), ("queue", "r"), ("exchange", "y")))
        given: Any = rng.choice(((), (("n", 1),)))
        return (
            f"bind {x} {kind} {end} {key} {given}",
            bindings.add(store, v, x, kind, end, key, arguments=dict(given)),  # pyright: ignore[reportArgumentType]
            lambda: broker.bind(v, x, kind, end, key, given, None),
        )

    def _unbind(self, store: MetadataStore, broker: Broker, rng: random.Random) -> Any:
        if not broker.bindings:
            return self._bind(store, broker, rng)
        v, x, kind, end, key, typed = rng.choice(sorted(broker.bindings, key=repr))
        given = tuple((name, value) for name, _, value in typed)
        removed = bindings.remove(store, v, x, kind, end, key, arguments=dict(given))  # pyright: ignore[reportArgumentType]
        return f"unbind {x} {end} {key}", removed, lambda: broker.unbind(v, x, kind, end, key, given)

    def _delete(self, store: MetadataStore, broker: Broker, rng: random.Random) -> Any:
        v, name = self.vhost, rng.choice(("q", "q", "r", "s", "x", "y"))
        if name == "s":
            ended = queues.delete_exclusive(store, f"c-{v}")
            return "delete what is exclusive", ended, lambda: broker.delete_exclusive(f"c-{v}")
        if name in ("x", "y"):
            deleted = exchanges.delete(store, v, name)
            return f"delete {name}", deleted, lambda: broker.delete_exchange(v, name, if_unused=False)
        return f"delete queue {name}", queues.delete(store, v, name), lambda: broker.delete_queue(v, name, None)

    def _look(self, store: MetadataStore, broker: Broker, rng: random.Random) -> Any:
        async def own() -> Any:
            if rng.random() < 0.5:
                return self.own(shape(await topology.read(store)))
            return {"queues": sorted(each.name for each in await queues.every(store) if each.vhost == self.vhost)}

        def expected() -> Any:
            return self.seen(broker.shape(), asked)

        looked = own()
        asked: dict[str, bool] = {}

        async def noted() -> Any:
            found = await looked
            asked["only queues"] = len(found) == 1
            return found

        return "look", noted(), expected

    def seen(self, found: Any, asked: dict[str, bool]) -> Any:
        return {"queues": sorted(each[1] for each in found["queues"])} if asked["only queues"] else found

    def own(self, found: Any) -> Any:
        """Of all that there is what is of this client."""
        kept = {kind: [each for each in found[kind] if each[0] == self.vhost] for kind in found}
        kept["vhosts"] = [each for each in found["vhosts"] if each == self.vhost]
        kept["users"] = [each for each in found["users"] if each == self.user]
        return kept


@dataclass
class Planned:
    """What a schedule has.

    Attributes:
        processes: kinds and interruptions, in the order in which they start.
        clients: how many.
        operations: of each client.
    """

    processes: list[tuple[str, Interruption]] = field(default_factory=list[tuple[str, Interruption]])
    clients: int = 3
    operations: int = 25


class World:
    """Both stores, clients and processes, under one scheduler.

    Attributes:
        wrong: what went wrong.
        counts: what happened how often; `died_at`: where processes died.
        moved: how many effects and late effects there were.
        finished: the processes by whose migration the tree has been in force.
        late: effects that are still to come.
        stepping: the client that takes a step.
    """

    def __init__(self, seed: int, planned: Planned, broken: tuple[Broken, ...] = ()) -> None:
        self.rng = random.Random(seed)
        self.broken = broken
        self.copied_at_once = self.rng.choice((1, 1, 3, 100))
        self.looks = self.rng.choice((2, 40))
        self.trusts = self.rng.random() < 0.7
        self.tree = Tree(version=NEWEST_VERSION, functions=FUNCTIONS)
        for command in REGISTER:
            self.tree.execute(command)
        self.tables = LocalTables()
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self.died_at: Counter[str] = Counter()
        self.moved = 0
        self.finished: set[str] = set()
        self.late: list[Callable[[], Any]] = []
        self.processes: list[Process] = []
        self._names = 0
        self.planned = list(planned.processes)
        tree = Watched(LocalStore(self.tree), self, is_tree=True)
        tables = Watched(TablesStore(self.tables), self, is_tree=False)
        self.store = FallbackStore(tables, tree, PausingSwitch(LocalStore(self.tree), self._client_waits))
        self.clients = [Client(self, number, planned.operations) for number in range(planned.clients)]
        self.stepping = self.clients[0]
        for client in self.clients:
            for _ in range(self.rng.randrange(150)):  # what is there before the migration
                client.step()
            client.left = planned.operations
        self.weights = self.rng.choice(((1, 1), (1, 3), (3, 1)))

    # --- surroundings of a migration ----------------------------------------------------------------------------------

    async def is_alive(self, owner: str) -> bool:
        lives = any(process.name == owner for process in self.running())
        return lives and (self.trusts or self.rng.random() < 0.5)

    async def progress(self) -> None:
        """A process that waits is tried again, when the scheduler chooses it."""

    def wall_ms(self) -> int:
        return self.moved

    async def _client_waits(self) -> None:
        await Pause(waits=True)

    # --- the schedule -----------------------------------------------------------------------------------------------

    def marker(self) -> Marker:
        found = marker_of(now(LocalStore(self.tree).ask(treewrites.READ, None)))
        if found.tree_is_in_force:
            self.finished.add(found.owner)
        return found

    def running(self) -> list[Process]:
        return [process for process in self.processes if not process.is_dead and process.run.ended is None]

    def start(self, kind: str, interruption: Interruption) -> Process:
        self._names += 1
        process = Process(self, kind, f"p{self._names}", interruption)
        self.processes.append(process)
        return process

    def run(self) -> None:
        while True:
            steps: list[tuple[int, Callable[[], None]]] = [
                (self.weights[0], client.step) for client in self.clients if client.can_step()
            ]
            steps += [(self.weights[1] * len(self.clients), process.step) for process in self.running()]
            steps += [(1, self._carry_out_late)] if self.late else []
            steps += [(1, self._start_next)] if self.planned else []
            if not steps:
                if not any(client.calling for client in self.clients):
                    break
                self.start("migration" if self.rng.random() < 0.5 else "rollback", Interruption())
                continue
            chosen = self.rng.choices([step for _, step in steps], [weight for weight, _ in steps])[0]
            chosen()
            if chosen.__name__ != "step" or not isinstance(getattr(chosen, "__self__", None), Client):
                self.moved += 1
        self._settle()

    def _start_next(self) -> None:
        self.start(*self.planned.pop(0))

    def _carry_out_late(self) -> None:
        self.late.pop(self.rng.randrange(len(self.late)))()

    def _settle(self) -> None:
        """If no process is left that has the marker, the next one puts things right."""
        if self.marker().state not in ("idle", "finished"):
            process = self.start(self.rng.choice(("migration", "rollback")), Interruption())
            while process.run.ended is None:
                process.step()
                self.moved += 1
        self._check()

    def _check(self) -> None:
        marker = self.marker()
        assert marker.state in ("idle", "finished"), marker
        found = shape(self._ask(topology.read(self.store)))
        for client in self.clients:
            client.broker.settle()
            if client.own(found) != client.broker.shape():
                self.wrong.append(f"{client.vhost}: {client.own(found)}, the model says {client.broker.shape()}")
        nodes = [path for path, _ in self.tree.contents() if path and path[0] == ":rabbit"]
        access = access_of(self.tables.tables.read(RECORD))
        kept = [table for table in ENTITY_TABLES if self.tables.tables.keys(table)]
        if marker.tree_is_in_force:
            self.wrong += self._differences() if marker.keeps_tables and not marker.written else []
            if access != "retired":
                self.wrong.append(f"the tree is in force, and the tables are {access}")
            if kept and not marker.keeps_tables and not any(each.kind == "expiry" for each in self.processes):
                self.wrong.append(f"the marker says that the tables are gone: {kept}")
        elif nodes or access != "read_write":
            self.wrong.append(f"the tables are in force and {access}, and the tree has {nodes}")
        self.counts["ends on the tree" if marker.tree_is_in_force else "ends on the tables"] += 1

    def _differences(self) -> list[str]:
        """In what the tree, which nobody has changed yet, is not as the tables are."""
        store = LocalStore(self.tree)
        return [
            f"{table}: the tree has other records than the tables"
            for table in PROJECTED
            if now(store.records(table)) != records_of(self.tables.tables, table)
        ]

    def _ask(self, call: Coroutine[Any, Any, Any]) -> Any:
        try:
            while True:
                call.send(None)
        except StopIteration as end:
            return end.value


def drawn(seed: int) -> Planned:
    """A random plan."""
    rng = random.Random(f"plan {seed}")
    kinds = rng.choice(
        (
            ["migration"],
            ["migration", "migration"],
            ["migration", "rollback", "migration"],
            ["migration", "migration", "rollback", "migration", "expiry"],
        )
    )
    processes: list[tuple[str, Interruption]] = []
    for kind in kinds:
        how = rng.choice(HOWS)
        at = rng.choice((None, rng.randrange(12), rng.randrange(120)))
        processes.append((kind, Interruption(at, how, rng.choice((0.0, 0.02, 0.3)))))
    return Planned(processes, clients=rng.choice((1, 3, 6)), operations=rng.choice((5, 25, 60)))


def wrong_in(seed: int, planned: Planned, broken: tuple[Broken, ...] = ()) -> tuple[list[str], World]:
    """Carry out one schedule; what went wrong, and the world afterwards."""
    world = World(seed, planned, broken)
    try:
        world.run()
    finally:
        for client in world.clients:
            if client.calling is not None:
                client.calling.close()
    return world.wrong, world


def run(schedules: int, first: int = 0, broken: tuple[Broken, ...] = ()) -> tuple[Counter[str], Counter[str]]:
    """Carry out random schedules: what happened how often, and where processes died.

    Raises:
        AssertionError: something went wrong; the message names the seed.
    """
    counts, died_at = Counter[str](), Counter[str]()
    for seed in range(first, first + schedules):
        wrong, world = wrong_in(seed, drawn(seed), broken)
        assert not wrong, f"seed {seed}: {wrong[0]}"
        counts += world.counts
        died_at += world.died_at
    return counts, died_at


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.cluster.migration.interrupted SCHEDULES")
    happened, died = run(int(sys.argv[1]))
    for what, times in sorted((happened + died).items()):
        print(f"{times:8,} {what}")
    print(f"{int(sys.argv[1]):,} schedules: nothing was lost, came back, or was answered by two stores.")
