"""Entities of a message broker move from one store to another while clients declare, delete and look at them.

An op among many has them moved, and another one has the first store back, which is refused once the second has taken a
change. Ops have to find what was acknowledged before, during and after that. In the end the migration is carried out if
it was not, and every client looks once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

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
from splitbrain.workloads.sessions import SessionClient

VHOST: Final = "v0"
VHOSTS: Final = (VHOST, "v1")
USERS: Final = ("u0", "u1", "u2")
EXCHANGES: Final = ("x0", "x1", "x2")
POLICIES: Final = ("p0", "p1")
QUEUES: Final = tuple(f"q{number}" for number in range(24))
KEYS: Final = ("a", "b")

AT_FIRST: Final[tuple[Entity, ...]] = (["vhost", VHOST],)
"""Declared before the first op, and never deleted: the others are in it."""

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
                    await self.session.declare(entity)

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        match op.f:
            case "declare-entity":
                answer = await self.session.declare(op.value)
                return op.complete("ok", {"store": _store(answer.term)}, term=answer.term or None)
            case "delete-entity":
                answer = await self.session.delete(op.value)
                value = {"store": _store(answer.term), "was_there": answer.value}
                return op.complete("ok", value, term=answer.term or None)
            case "look-at-entities":
                answer = await self.session.entities()
                return op.complete(
                    "ok", {"store": _store(answer.term), "entities": answer.value}, term=answer.term or None
                )
            case "migrate":
                await self.session.migrate()
                return op.complete("ok", None)
            case "roll-back":
                await self.session.roll_back()
                return op.complete("ok", None)
            case _:
                raise ProtocolError(f"the migration workload knows no op {op.f!r}.")


def _store(term: int | None) -> str:
    return FIRST_STORE if term == 0 else SECOND_STORE


def entity(ctx: Context) -> Entity:
    """One at random, of few names: what one client declares, another one deletes."""
    rng = ctx.rng
    kind = rng.choice(
        ("queue", "queue", "queue", "binding", "binding", "exchange", "user", "permission", "policy", "vhost")
    )
    match kind:
        case "queue":
            return ["queue", VHOST, rng.choice(QUEUES)]
        case "binding":
            return ["binding", VHOST, rng.choice(EXCHANGES), "queue", rng.choice(QUEUES), rng.choice(KEYS), 0]
        case "exchange":
            return ["exchange", VHOST, rng.choice(EXCHANGES), "direct"]
        case "user":
            return ["user", rng.choice(USERS)]
        case "permission":
            return ["permission", VHOST, rng.choice(USERS)]
        case "policy":
            return ["policy", VHOST, rng.choice(POLICIES)]
        case _:
            return ["vhost", VHOSTS[1]]


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

    def on(f: str) -> Callable[[Context], Op]:
        return lambda ctx: invoke(f, entity(ctx))

    changes = [on(f) for f in (DECLARE, DELETE)]
    others = [each(lambda _, f=f: invoke(f)) for f in (LOOK, "migrate", "roll-back")]
    return mix(*changes, *others, weights=[weights[f] for f in WEIGHTS])


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
