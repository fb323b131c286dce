"""Entities of a message broker move from one store to another while clients declare, delete and look at them.

First they are moved there and back: a rollback is refused once the second store has taken a change, so clients change
nothing from before that migration until the first store answers again, and look only (`there_and_back`). Then an op
among many has them moved, and another one has the first store back, which is refused as a rule. Ops have to find what
was acknowledged before, during and after that: entities of every kind, with the values that they were declared with.

A migration needs all nodes, so faults may leave no time for the way there and back. Then no client asks for a
migration as long as there are faults, and it is tried once more when they are healed. In the end the migration is
carried out if it was not, and every client looks once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.brokers import Entity, Migration
from splitbrain.harness.contract.generator import PENDING, Pending, Result
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import MIGRATION
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import OpShape, Test, Workload
from splitbrain.harness.generators import (
    Context,
    Generator,
    clients,
    final,
    invoke,
    mix,
    repeat,
    sequence,
    spaced,
    stagger,
    synchronize,
    time_limit,
    until_ok,
)
from splitbrain.harness.generators.leaves import OpFunction, assign
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.results.telemetry import TERM_OF_TABLES
from splitbrain.workloads.sessions import SessionClient

VHOST: Final = "v0"
VHOSTS: Final = (VHOST, "v1")
USERS: Final = ("u0", "u1", "u2")
EXCHANGES: Final = ("x0", "x1", "x2")
PASSING: Final = "x3"
"""An exchange that goes with its last binding."""

STANDARD: Final = "amq.topic"
"""An exchange that every virtual host begins with."""

POLICIES: Final = ("p0", "p1")
PARAMETERS: Final = ("r0", "r1")
COMPONENT: Final = "shovel"
NODES: Final = ("m0", "m1")
"""None of them is a node of the cluster."""

QUEUES: Final = tuple(f"q{number}" for number in range(24))
BOUND: Final = 6
"""So many of them may be bound."""

OWNED: Final = QUEUES[-6:]
"""Queues that are exclusive; none of them is bound."""

OWNER: Final = "c1"
"""To whom. It is named as no connection of a node is: no node removes its queues."""

KEYS: Final = ("a", "b")
NUMBERS: Final = 2
"""Bindings of the same ends and key."""

Value: TypeAlias = dict[str, Any]

_POLICIES: Final[tuple[Value, ...]] = (
    {"pattern": "^q1", "definition": {"max-length": 10}, "priority": 1, "apply_to": "queues"},
    {"pattern": "[0-9]$", "definition": {"alternate-exchange": "x0"}, "priority": 0, "apply_to": "exchanges"},
    {"pattern": ".*", "definition": {"expires": 60_000, "message-ttl": 500}, "priority": 7, "apply_to": "all"},
)
_PARAMETERS: Final[tuple[Value, ...]] = (
    {"value": {"uri": "amqp://a", "ack": True}},
    {"value": ["b", 2, 0.5]},
    {"value": ""},
)

VALUES: Final[Mapping[str, tuple[Value, ...]]] = {
    "vhost": ({"description": "of orders", "tags": ["a", "b"]}, {"description": "", "tags": ["c"]}),
    "user": (
        {"password_hash": "4f2a", "tags": ["administrator"]},
        {"password_hash": "91c0", "tags": ["monitoring", "policymaker"]},
        {"password_hash": "", "tags": []},
    ),
    "permission": (
        {"configure": "^q", "write": ".*", "read": ""},
        {"configure": "", "write": "^x[01]$", "read": "q2"},
        {"configure": ".*", "write": "", "read": "^q"},
    ),
    "topic_permission": (
        {"write": "^a", "read": ".*"},
        {"write": "", "read": "b$"},
        {"write": "a|b", "read": ""},
    ),
    "exchange": (
        {"type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {}},
        {"type": "topic", "durable": False, "auto_delete": False, "internal": True, "arguments": {"x-hops": 1}},
    ),
    "queue": (
        {"durable": True, "auto_delete": False, "owner": None, "node": "m0", "arguments": {"x-max-length": 10}},
        {"durable": False, "auto_delete": True, "owner": None, "node": "m1", "arguments": {"x-expires": 1, "x-a": "b"}},
    ),
    "policy": _POLICIES,
    "operator_policy": _POLICIES,
    "parameter": _PARAMETERS,
    "global_parameter": _PARAMETERS,
    "maintenance": ({"state": "draining"}, {"state": "regular"}),
}
"""By kind, what is declared; that of a binding follows from its number."""

OF_PASSING: Final[Value] = {**VALUES["exchange"][0], "type": "fanout", "auto_delete": True}

OF_OWNED: Final[Value] = {**VALUES["queue"][1], "owner": OWNER}

KINDS: Final[Mapping[str, int]] = {
    "queue": 15,
    "binding": 10,
    "exchange": 6,
    "user": 5,
    "permission": 5,
    "topic_permission": 4,
    "policy": 4,
    "operator_policy": 3,
    "parameter": 3,
    "global_parameter": 3,
    "maintenance": 3,
    "vhost": 3,
}
"""How often each kind is declared, of 70."""

LESS_DELETED: Final[Mapping[str, int]] = {"exchange": 2, "user": 2, "vhost": 1, "maintenance": 0}
"""How often those are deleted that others need, and what is noted of nodes: that stays."""

DECLARED: Final = tuple(kind for kind, count in KINDS.items() for _ in range(count))
DELETED: Final = tuple(kind for kind, count in {**KINDS, **LESS_DELETED}.items() for _ in range(count))

AT_FIRST: Final[tuple[Entity, ...]] = (["vhost", VHOST, VALUES["vhost"][0]],)
"""Declared before the first op, and never deleted: most others are in it."""

ELSEWHERE: Final = 5
"""One in so many of the others is in the virtual host that is deleted."""

SETUP_S: Final = 4.0
"""So long that is tried: a workload has to be prepared within ten seconds."""

RETRY_S: Final = 0.3
END_S: Final = 60.0
"""So long the migration is tried in the end."""

BEFORE_SHARE: Final = 0.05
BEFORE_MOST_S: Final = 1.0
THERE_AND_BACK_SHARE: Final = 0.5
AFTER_SHARE: Final = 0.1
AFTER_MOST_S: Final = 3.0
"""Of the time with faults what the way there and back may take: the changes before it, migration and rollback together,
and the changes after it; a third is left for others. It begins early: later a fault is more often in force."""

CALM_S: Final = 20.0
"""So long it is tried once more after the faults."""

MOVES_S: Final = 2.0
MOVES_HZ: Final = 60.0
"""Of the moves among changes after that."""

ROUND_S: Final = 2.0
"""So long clients may take to look once each between migration and rollback."""

LOOK_EACH_NS: Final = 100_000_000
"""An answer has all entities, so while clients change nothing, a look comes no sooner after another one."""

REFUSED: Final = "migration_refused"
"""How the error of a rollback begins for which there is no way back."""

REFUSAL: Final = "refused"
"""What that error is in the answer of a `roll-back`."""

RETRY_NS: Final = round(RETRY_S * 1e9)

DECLARE: Final = "declare-entity"
DELETE: Final = "delete-entity"
LOOK: Final = "look-at-entities"

FIRST_STORE: Final = "tables"
SECOND_STORE: Final = "tree"


class MigrationClient(SessionClient[Migration]):
    """Declares, deletes and looks at entities, and has them moved."""

    operations = MIGRATION

    async def setup(self, test: Test) -> None:
        """Make what the others are in; an op that comes before it fails, and says why."""
        with suppress(DefiniteError, IndefiniteError, TimeoutError):
            async with asyncio.timeout(SETUP_S):
                for entity in AT_FIRST:
                    await self.session.declare_with_value(entity)

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        match op.f:
            case "declare-entity":
                answer = await self.session.declare_with_value(op.value)
                return op.complete("ok", {"store": _store(answer.term)}, term=answer.term)
            case "delete-entity":
                answer = await self.session.delete(op.value)
                value = {"store": _store(answer.term), "was_there": answer.value}
                return op.complete("ok", value, term=answer.term)
            case "look-at-entities":
                answer = await self.session.entities_with_values()
                return op.complete("ok", {"store": _store(answer.term), "entities": answer.value}, term=answer.term)
            case "migrate":
                await self.session.migrate()
                return op.complete("ok", None)
            case "roll-back":
                return op.complete("ok", await self._rolled_back())
            case _:
                raise ProtocolError(f"the migration workload knows no op {op.f!r}.")

    async def _rolled_back(self) -> dict[str, str] | None:
        """None; or why there is no way back, which is an answer, too."""
        try:
            await self.session.roll_back()
        except DefiniteError as refusal:
            if not str(refusal).startswith(REFUSED):
                raise
            return {REFUSAL: str(refusal)}
        return None


def _store(term: int | None) -> str:
    return FIRST_STORE if term == TERM_OF_TABLES else SECOND_STORE


_OF_ALL_VHOSTS: Final[Mapping[str, Sequence[str]]] = {
    "vhost": VHOSTS[1:],
    "user": USERS,
    "global_parameter": PARAMETERS,
    "maintenance": NODES,
}
"""Names of what is in no virtual host."""


def entity(ctx: Context, kinds: Sequence[str] = DECLARED) -> Entity:
    """One at random without its value, of few names: what one client declares, another one deletes."""
    rng = ctx.rng
    kind = rng.choice(kinds)
    vhost = VHOSTS[rng.below(ELSEWHERE) == 0]
    match kind:
        case "queue":
            return [kind, vhost, rng.choice(QUEUES)]
        case "binding":
            ends = (rng.choice((*EXCHANGES, PASSING)), "queue", rng.choice(QUEUES[:BOUND]))
            return [kind, vhost, *ends, rng.choice(KEYS), rng.below(NUMBERS)]
        case "permission":
            return [kind, vhost, rng.choice(USERS)]
        case "topic_permission":
            return [kind, vhost, rng.choice(USERS), rng.choice((*EXCHANGES, PASSING, STANDARD))]
        case "parameter":
            return [kind, vhost, COMPONENT, rng.choice(PARAMETERS)]
        case "exchange" | "policy" | "operator_policy":
            return [kind, vhost, rng.choice((*EXCHANGES, PASSING, PASSING) if kind == "exchange" else POLICIES)]
        case _:
            return [kind, rng.choice(_OF_ALL_VHOSTS[kind])]


def with_value(ctx: Context, entity: Entity) -> Entity:
    """An entity as it is declared: with one of a few values at random."""
    if entity[0] == "binding":
        return [*entity, {"arguments": {"number": entity[-1]}}]
    if entity[0] == "exchange" and entity[-1] == PASSING:
        return [*entity, OF_PASSING]
    if entity[0] == "queue" and entity[-1] in OWNED:
        return [*entity, OF_OWNED]
    return [*entity, ctx.rng.choice(VALUES[entity[0]])]


def declared(ctx: Context) -> Op:
    """Declare one."""
    return invoke(DECLARE, with_value(ctx, entity(ctx)))


def deleted(ctx: Context) -> Op:
    """Delete one, an exclusive queue as its owner."""
    chosen = entity(ctx, DELETED)
    return invoke(DELETE, [*chosen, {"owner": OWNER}] if chosen[0] == "queue" and chosen[-1] in OWNED else chosen)


WEIGHTS: Final[Mapping[str, int]] = {
    DECLARE: 220,
    DELETE: 130,
    LOOK: 45,
    "migrate": 2,
    "roll-back": 1,
}
"""An answer to a look has all entities in it."""

CHANGES: Final = {f: WEIGHTS[f] for f in (DECLARE, DELETE, LOOK)}
"""While no client asks that entities are moved, or back."""

WAITING: Final = {f: WEIGHTS[f] for f in WEIGHTS if f != "migrate"}
"""While a way back is still to come."""

MOVES: Final = {**WEIGHTS, "migrate": 12}
"""In a short time."""


_MADE: Final[Mapping[str, OpFunction]] = {
    DECLARE: declared,
    DELETE: deleted,
    **{f: lambda _, f=f: invoke(f) for f in (LOOK, "migrate", "roll-back")},
}


def ops(weights: Mapping[str, int] = WEIGHTS) -> Generator:
    """What clients do, with so many of each function among their ops."""
    return mix(*(_MADE[f] for f in weights), weights=list(weights.values()))


class Asking(msgspec.Struct, frozen=True):
    """Asks for something, one client at a time, and looks, until the store answers that should: then it ends.

    It also ends with a rollback that is refused: the second store has taken a change, or is not in force.

    Attributes:
        f: what is asked for.
        store: the one that should answer.
        under_way: the process that asks now.
        asked: whether one did.
        over: whether a look was answered by the store since.
        ask_ns: when one may ask again.
        look_ns: when one may look again.
    """

    f: str
    store: str
    under_way: int | None = None
    asked: bool = False
    over: bool = False
    ask_ns: int = 0
    look_ns: int = 0

    def op(self, ctx: Context) -> Result:
        """Ask if no other client does, else look."""
        if self.over and self.under_way is None:
            return None
        may_ask = not self.over and self.under_way is None and ctx.time_ns >= self.ask_ns
        op = assign(invoke(self.f if may_ask else LOOK), ctx)
        if op is None:
            return PENDING, self
        if may_ask:
            return op, _replace(self, under_way=op.process, asked=True)
        if ctx.time_ns < self.look_ns:
            return Pending(self.look_ns), self
        return op, _replace(self, look_ns=ctx.time_ns + LOOK_EACH_NS)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Note that an answer came to what was asked for, or which store answered."""
        if event.type != "invoke" and event.process == self.under_way:
            over = self.over or (event.type == "ok" and bool(event.value) and REFUSAL in event.value)
            return _replace(self, under_way=None, over=over, ask_ns=ctx.time_ns + RETRY_NS)
        return _replace(self, over=True) if self.asked and _answered(event) == self.store else self


def _answered(event: Op) -> str | None:
    """The store that answered a look."""
    value: Any = event.value
    return value["store"] if event.f == LOOK and event.type == "ok" and value else None


class Branching(msgspec.Struct, frozen=True):
    """Some ops, then others, which depend on whether the first store answered again after the second one had.

    Attributes:
        first: the ops.
        back: what follows if it did.
        otherwise: what follows if it did not.
        seen: the stores whose answers show it so far.
    """

    first: Generator
    back: Generator
    otherwise: Generator
    seen: tuple[str, ...] = ()

    def op(self, ctx: Context) -> Result:
        """The next one."""
        result = self.first.op(ctx)
        if result is None:
            return (self.back if len(self.seen) == len(_BACK) else self.otherwise).op(ctx)
        op, after = result
        return op, self if after is self.first else _replace(self, first=after)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Note which store answered."""
        first, seen = self.first.update(ctx, event), self.seen
        if _BACK[len(seen) :][:1] == (_answered(event),):
            seen = _BACK[: len(seen) + 1]
        return self if first is self.first and seen is self.seen else _replace(self, first=first, seen=seen)


_BACK: Final = (SECOND_STORE, FIRST_STORE)

_replace = msgspec.structs.replace


def there_and_back() -> Generator:
    """A migration, a look of every client, and a rollback.

    Nothing is changed meanwhile, and the migration waits for changes under way: one that came late to the second store
    would forbid the rollback.
    """
    return sequence(
        synchronize(Asking("migrate", SECOND_STORE)),
        final(invoke(LOOK), timeout_s=ROUND_S),
        synchronize(Asking("roll-back", FIRST_STORE)),
    )


def with_way_back(time_limit_s: float) -> Generator:
    """What clients do as long as there are faults: changes, the way there and back, changes, and moves among changes.

    No client asks for a migration while the first store takes changes again: entities that move then do so without
    being asked.
    """
    before_s, after_s = min(BEFORE_SHARE * time_limit_s, BEFORE_MOST_S), min(AFTER_SHARE * time_limit_s, AFTER_MOST_S)
    before = time_limit(before_s, ops(CHANGES))
    moved = time_limit(THERE_AND_BACK_SHARE * time_limit_s, there_and_back())
    back = sequence(time_limit(after_s, ops(CHANGES)), ops())
    return Branching(sequence(before, moved), back, ops(WAITING))


def calm() -> Generator:
    """What they do when faults are healed: the way there and back, if it is still there, and moves among changes."""
    moves = time_limit(MOVES_S, stagger(1 / MOVES_HZ, ops(MOVES)))
    return clients(sequence(time_limit(CALM_S, there_and_back()), moves))


def in_the_end() -> Generator:
    """The migration, until it was carried out."""
    migrated = until_ok(spaced(RETRY_S, repeat(invoke("migrate"))))
    return clients(time_limit(END_S, sequence(migrated)))


def migration(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,
) -> Workload:
    """The workload for this time; it is the same for any number of nodes and clients."""
    fs = tuple(WEIGHTS)
    entity: Any = list[Any]
    return Workload(
        name="migration",
        client=MigrationClient(),
        generator=with_way_back(time_limit_s),
        final_generator=sequence(calm(), in_the_end(), final(invoke(LOOK))),
        checkers=(
            CheckerSpec("migration", {"way_back": True}),
            CheckerSpec("stats"),
            CheckerSpec(
                "coverage",
                {"fs": [DECLARE, DELETE, LOOK], "reads": [LOOK]},
            ),
        ),
        fs=fs,
        needs=frozenset({MIGRATION.name}),
        shapes={
            **{f: OpShape(value=entity) for f in (DECLARE, DELETE)},
            **{f: OpShape() for f in (LOOK, "migrate", "roll-back")},
        },
    )
