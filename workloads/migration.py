"""Entities of a message broker move from one store to another while clients declare, delete and look at them.

An op among many has them moved, and another one has the first store back, which is refused once the second has taken a
change. Ops have to find what was acknowledged before, during and after that: entities of every kind, with the values
that they were declared with. In the end the migration is carried out if it was not, and every client looks once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.brokers import Entity, Migration
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import MIGRATION
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import OpShape, Test, Workload
from splitbrain.harness.generators import (
    Context,
    Generator,
    clients,
    each,
    final,
    invoke,
    mix,
    repeat,
    sequence,
    spaced,
    time_limit,
    until_ok,
)
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
        {"durable": False, "auto_delete": True, "owner": None, "node": "m0", "arguments": {"x-expires": 1, "x-a": "b"}},
    ),
    "policy": _POLICIES,
    "operator_policy": _POLICIES,
    "parameter": _PARAMETERS,
    "global_parameter": _PARAMETERS,
    "maintenance": ({"state": "draining"}, {"state": "regular"}),
}
"""By kind, what is declared; that of a binding follows from its number."""

OF_PASSING: Final[Value] = {**VALUES["exchange"][0], "type": "fanout", "auto_delete": True}

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
                await self.session.roll_back()
                return op.complete("ok", None)
            case _:
                raise ProtocolError(f"the migration workload knows no op {op.f!r}.")


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
    return [*entity, ctx.rng.choice(VALUES[entity[0]])]


def declared(ctx: Context) -> Op:
    """Declare one."""
    return invoke(DECLARE, with_value(ctx, entity(ctx)))


def deleted(ctx: Context) -> Op:
    """Delete one."""
    return invoke(DELETE, entity(ctx, DELETED))


WEIGHTS: Final[Mapping[str, int]] = {
    DECLARE: 220,
    DELETE: 130,
    LOOK: 45,
    "migrate": 2,
    "roll-back": 1,
}
"""An answer to a look has all entities in it."""


def ops(weights: Mapping[str, int] = WEIGHTS) -> Generator:
    """What clients do, with so many of each function among their ops."""
    others = [each(lambda _, f=f: invoke(f)) for f in (LOOK, "migrate", "roll-back")]
    return mix(declared, deleted, *others, weights=[weights[f] for f in WEIGHTS])


def in_the_end() -> Generator:
    """The migration, until it was carried out."""
    migrated = until_ok(spaced(RETRY_S, repeat(invoke("migrate"))))
    return clients(time_limit(END_S, sequence(migrated)))


def migration(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload. It is the same for any number of nodes and clients."""
    fs = tuple(WEIGHTS)
    entity: Any = list[Any]
    return Workload(
        name="migration",
        client=MigrationClient(),
        generator=ops(),
        final_generator=sequence(in_the_end(), final(invoke(LOOK))),
        checkers=(
            CheckerSpec("migration"),
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
