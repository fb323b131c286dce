"""The topology of a message broker: many clients declare, bind, unbind and delete the same few names at once.

What belongs to a virtual host, a user, an exchange or a queue goes with it, and a binding has both its ends at every
moment. A queue that is exclusive to a connection goes when that ends, an exchange that deletes itself with its last
binding. That one consistent read can show, so clients look while others are at work. A client also asks over its
connection which queues that owns, which shows that it is open: then they must be there. A member's projections are
compared with its own tree, of one moment, and so are the routes of messages. In the end every name is declared again,
all connections are ended so that each exclusive queue can be claimed once more, and each node shows what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.brokers import PROJECT, Entity, OwnedQueues, Topology
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import OWNED_QUEUES, TOPOLOGY, lacking
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

VHOSTS: Final = ("v0", "v1")
USERS: Final = ("u0", "u1")
EXCHANGES: Final = ("direct", "fanout", "topic", "headers")
"""Names and types."""

SOURCES: Final = ("direct", "direct", *EXCHANGES[1:])
"""Of bindings: a direct exchange has an index of its own, in which bindings that differ in arguments alone are one."""

PASSING: Final = "passing"
"""An exchange of type fanout that goes with its last binding."""

POLICIES: Final = ("p0",)
CLAIMED: Final = ("x0", "x1")
"""Queues that are exclusive to a connection."""

QUEUES: Final = ("q0", "q1", "q2")
KEYS: Final = ("a.b", "#.b")
"""Of bindings."""

ROUTED_KEYS: Final = ("a.b", "b", "#.b")
"""Of messages: the last is a word of its own to an exchange of type direct."""

NUMBERS: Final = 2
"""Bindings of the same ends and key."""

RETRY_S: Final = 0.2
AGAIN_S: Final = 60.0
"""How long the declarations in the end may take."""


class TopologyClient(SessionClient[Topology]):
    """Declares and removes entities, and looks at all of them."""

    operations = TOPOLOGY

    async def setup(self, test: Test) -> None:
        """Have the system keep its projections; where it cannot yet, a client that looks into them does it."""
        with suppress(DefiniteError, IndefiniteError):
            await self.session.prepare_topology()

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        match op.f:
            case "declare" | "bind":
                answer = await self.session.declare(op.value)
                return op.complete("ok", op.value, term=answer.term)
            case "delete" | "unbind":
                answer = await self.session.delete(op.value)
                return op.complete("ok", op.value, term=answer.term)
            case "claim":
                answer = await self.session.claim(*op.value)
                return op.complete("ok", answer.value, term=answer.term)
            case "disconnect":
                answer = await self.session.disconnect()
                return op.complete("ok", answer.value, term=answer.term)
            case "own":
                return await self._own(op)
            case "look":
                answer = await self.session.entities()
                return op.complete("ok", answer.value, term=answer.term)
            case "project":
                answer = await self.session.projected(ROUTED_KEYS)
                return op.complete("ok", answer.value, term=answer.term)
            case _:
                raise ProtocolError(f"the topology workload knows no op {op.f!r}.")

    async def _own(self, op: Op) -> Op:
        """Which queues the connection owns; None of a system whose sessions cannot say so."""
        if lacking(self.session, OWNED_QUEUES):
            return op.complete("ok", None)
        answer = await cast("OwnedQueues", self.session).owned()
        return op.complete("ok", answer.value, term=answer.term)


def _vhost(ctx: Context) -> Entity:
    return ["vhost", ctx.rng.choice(VHOSTS)]


def _user(ctx: Context) -> Entity:
    return ["user", ctx.rng.choice(USERS)]


def _permission(ctx: Context) -> Entity:
    return ["permission", ctx.rng.choice(VHOSTS), ctx.rng.choice(USERS)]


def _exchange(ctx: Context) -> Entity:
    name = ctx.rng.choice(EXCHANGES)
    return ["exchange", ctx.rng.choice(VHOSTS), name, name]


def _queue(ctx: Context) -> Entity:
    return ["queue", ctx.rng.choice(VHOSTS), ctx.rng.choice(QUEUES)]


def _binding(ctx: Context) -> Entity:
    vhost, source, end = ctx.rng.choice(VHOSTS), ctx.rng.choice(SOURCES), ctx.rng.choice((*QUEUES, "topic"))
    kind = "exchange" if end in EXCHANGES else "queue"
    return ["binding", vhost, source, kind, end, ctx.rng.choice(KEYS), ctx.rng.below(NUMBERS)]


def _passing(ctx: Context) -> Entity:
    return ["exchange", ctx.rng.choice(VHOSTS), PASSING, "fanout", True]


def _passing_binding(ctx: Context) -> Entity:
    return ["binding", ctx.rng.choice(VHOSTS), PASSING, "queue", ctx.rng.choice(QUEUES), "", 0]


def _policy(ctx: Context) -> Entity:
    return ["policy", ctx.rng.choice(VHOSTS), ctx.rng.choice(POLICIES)]


def _claimed(ctx: Context) -> Entity:
    return [ctx.rng.choice(VHOSTS), ctx.rng.choice(CLAIMED)]


_WEIGHTS: Final[tuple[tuple[str, Callable[[Context], Entity], int], ...]] = (
    ("bind", _binding, 70),
    ("unbind", _binding, 30),
    ("declare", _queue, 24),
    ("delete", _queue, 6),
    ("declare", _exchange, 16),
    ("delete", _exchange, 5),
    ("declare", _vhost, 8),
    ("delete", _vhost, 1),
    ("declare", _user, 6),
    ("delete", _user, 3),
    ("declare", _permission, 8),
    ("delete", _permission, 2),
    ("declare", _passing, 8),
    ("bind", _passing_binding, 14),
    ("unbind", _passing_binding, 16),
    ("declare", _policy, 5),
    ("delete", _policy, 2),
    ("claim", _claimed, 12),
)
DISCONNECTS: Final = 6
OWNS: Final = 12
LOOKS: Final = 10
PROJECTS: Final = 8
"""Of about 270 ops; an answer has all entities in it."""


def _ops() -> Generator:
    def on(f: str, of: Callable[[Context], Entity]) -> Callable[[Context], Op]:
        return lambda ctx: invoke(f, of(ctx))

    changes = [on(f, of) for f, of, _ in _WEIGHTS]
    others = [each(lambda _, f=f: invoke(f)) for f in ("disconnect", "own", "look", PROJECT)]
    weights = [*(weight for _, _, weight in _WEIGHTS), DISCONNECTS, OWNS, LOOKS, PROJECTS]
    return mix(*changes, *others, weights=weights)


def names() -> list[Entity]:
    """All that is declared but for bindings, each after what it needs."""
    return [
        *(["vhost", v] for v in VHOSTS),
        *(["user", u] for u in USERS),
        *(["permission", v, u] for v in VHOSTS for u in USERS),
        *(["policy", v, p] for v in VHOSTS for p in POLICIES),
        *(["exchange", v, x, x] for v in VHOSTS for x in EXCHANGES),
        *(["exchange", v, PASSING, "fanout", True] for v in VHOSTS),
        *(["queue", v, q] for v in VHOSTS for q in QUEUES),
    ]


def _again() -> Generator:
    """Every name once more, by any client, until it was acknowledged."""
    return clients(
        time_limit(
            AGAIN_S,
            sequence(*(until_ok(spaced(RETRY_S, repeat(invoke("declare", entity)))) for entity in names())),
        )
    )


def _claims_again() -> Generator:
    """Every exclusive queue once more, by any client, until that was acknowledged: no connection has one any more."""
    claims = (until_ok(spaced(RETRY_S, repeat(invoke("claim", [v, q])))) for v in VHOSTS for q in CLAIMED)
    return clients(time_limit(AGAIN_S, sequence(*claims)))


def topology(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload. It is the same for any number of nodes and clients."""
    fs = ("declare", "delete", "bind", "unbind", "claim", "disconnect", "own", "look", PROJECT)
    entity: Any = list[Any]
    return Workload(
        name="topology",
        client=TopologyClient(),
        generator=_ops(),
        final_generator=sequence(
            _again(), final(invoke("disconnect")), _claims_again(), final(invoke("look")), final(invoke(PROJECT))
        ),
        checkers=(
            CheckerSpec("topology", {"again": names()}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": list(fs), "reads": ["look"]}),
        ),
        fs=fs,
        needs=frozenset({TOPOLOGY.name}),
        shapes={
            **{f: OpShape(value=entity) for f in ("declare", "delete", "bind", "unbind", "claim")},
            **{f: OpShape() for f in ("disconnect", "own", "look", PROJECT)},
        },
    )
