"""Queues with a single active consumer: publish unique numbers, consume what comes, and leave now and then.

All clients are consumers of all queues, and one of each queue at a time is given messages, one by one. What it was
given is acknowledged at the very end of the op that reports it. With `leave` a client stops being a consumer. Most who
leave are those whose turn it is, so that another one has to take over; faults bring about more handovers. In one of the
queues consumers have priorities: there one that comes may take over from one that stays, and waits again. What becomes
of messages is for the workload `queue`: here nothing is drained. In the end clients go on for a while without faults:
only there it is certain that one consumer is active, and what faults left behind shows. At the very end some more is
put in, and no client leaves any more: one of them must be given it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.brokers import Delivery, SingleActive
from splitbrain.harness.contract.generator import PENDING, Context, Generator, Result, bits
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import SINGLE_ACTIVE
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import any_of, clients, invoke, limit, mix, phases, reserve, stagger, time_limit
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.queue import Enqueues, reported
from splitbrain.workloads.sessions import SessionClient

NAMES: Final = ("sa0", "sa1")
"""Of the queues."""

WITH_PRIORITIES: Final = "sa1"
"""There processes of the last client have priority 1, and all others 0: with more like it, one of them would be there
most of the time, and few would have to give way."""

WEIGHTS: Final = (1, 4)
"""Of publishes, and of what consumers do."""

LEAVES: Final = 1 / 24
"""The share of leaves in what consumers do."""

BY_THE_ACTIVE: Final = 0.5
"""The share of what consumers do that is by the one whose turn it is, if that is known: with many clients few of the
others would leave, or take a message, in their turn."""


SETTLING_S: Final = 16.0
SETTLING_HZ: Final = 8.0
"""Of the time after the last fault in which a handover may still be due to it (`single_active.SETTLE_S`)."""

FINAL_S: Final = 8.0
FINAL_HZ: Final = 60.0
"""Of the time after that."""

BACKLOG: Final = 80
BACKLOG_S: Final = 3.0
"""So much is put in before the final phase, within so long: one that takes over finds something, and at once."""

LAST_PUTS: Final = 6
LAST_S: Final = 6.0
LAST_HZ: Final = 20.0
"""Then so much is put in, and clients consume for so long, and each once more: longer than anything is on its way
(`starved.WAIT_S`)."""

LAST_PUTS_S: Final = 2.0

PUBLISHERS: Final = 2
"""Clients that publish then: few, so that each has values before and after a handover."""

SETTLING_FIRST: Final = 1_000_000_000
BACKLOG_FIRST: Final = 2_000_000_000
FINAL_FIRST: Final = 3_000_000_000
LAST_FIRST: Final = 4_000_000_000
"""The first values that are put in then."""


class Turns(msgspec.Struct, frozen=True):
    """Consumes of any queue, and leaves; many by the process that was given a message of the queue last.

    Attributes:
        active: that process, by queue.
        leaves: whether clients leave.
    """

    active: tuple[tuple[str, int], ...] = ()
    leaves: bool = True

    def op(self, ctx: Context) -> Result:
        """The next one; it never ends."""
        if not ctx.free:
            return PENDING, self
        name, leaves, by_the_active = (
            ctx.rng.choice(NAMES),
            self.leaves and ctx.rng.random() < LEAVES,
            ctx.rng.random() < BY_THE_ACTIVE,
        )
        template = invoke("leave" if leaves else "consume", key=name)
        process = dict(self.active).get(name)
        op = None
        if by_the_active and process in ctx.processes:
            op = assign(msgspec.structs.replace(template, process=process), ctx)
        op = op or assign(template, ctx)
        if op is None:
            return PENDING, self
        return with_priority(op, ctx), self

    def update(self, ctx: Context, event: Op) -> Generator:
        """Note who was given a message, or is to be, as all others give way to it; and who left."""
        asked = event.f == "consume" and event.type == "ok"
        was_given = asked and (event.value is not None or _goes_first(event.key, event.process, ctx))
        if not was_given and (event.f != "leave" or event.type == "invoke"):
            return self
        active = dict(self.active)
        if was_given:
            active[event.key or ""] = event.process
        elif active.get(event.key or "") == event.process:
            del active[event.key or ""]
        found = tuple(active.items())
        return self if found == self.active else Turns(found, self.leaves)


def _goes_first(name: str | None, process: int, ctx: Context) -> bool:
    return name == WITH_PRIORITIES and ctx.thread_of(process) == ctx.concurrency - 1


def with_priority(op: Op, ctx: Context) -> Op:
    """The op, as its process calls it where consumers have priorities."""
    if op.f != "consume" or op.key != WITH_PRIORITIES:
        return op
    return msgspec.structs.replace(op, value=int(_goes_first(op.key, op.process, ctx)))


class Asks(msgspec.Struct, frozen=True):
    """Each free client asks each queue once; an op that fails is not repeated.

    Attributes:
        left: of the queues, by thread that asked one.
    """

    left: tuple[tuple[int, tuple[str, ...]], ...] = ()

    def op(self, ctx: Context) -> Result:
        """The next one."""
        left = dict(self.left)
        for thread in bits(ctx.free):
            names = left.get(thread, NAMES)
            if names:
                op = Op(process=ctx.processes[thread], type="invoke", f="consume", key=names[0])
                return with_priority(op, ctx), Asks(tuple({**left, thread: names[1:]}.items()))
        return None if all(not left.get(thread, NAMES) for thread in bits(ctx.threads)) else (PENDING, self)

    def update(self, ctx: Context, event: Op) -> Generator:
        """What comes of it changes nothing."""
        return self


class SingleActiveClient(SessionClient[SingleActive]):
    """Publishes to queues, and is a consumer of them."""

    operations = SINGLE_ACTIVE

    async def setup(self, test: Test) -> None:
        """Make the queues."""
        for name in NAMES:
            await self.session.declare_single_active(name)

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        name = op.key or ""
        match op.f:
            case "enqueue":
                answer = await self.session.publish(name, op.value)
                return op.complete("ok", op.value, term=answer.term)
            case "consume":
                # Sessions of systems without priorities may know no such argument.
                asked = self.session.consume(name, op.value) if op.value else self.session.consume(name)
                given: Delivery | None = (await asked).value
                if given is None:
                    return op.complete("ok", None)
                self.session.ack(given["tag"])  # nothing is awaited between this and the op's end
                return op.complete("ok", reported(given))
            case "leave":
                await self.session.leave(name)
                return op.complete("ok")
            case _:
                raise ProtocolError(
                    f"the workload single-active knows no op {op.f!r}, only enqueue, consume and leave."
                )


def single_active(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
    late_s: float = 0.0,
) -> Workload:
    """The workload. It is the same for any number of nodes."""
    fs = ("enqueue", "consume", "leave")

    puts, publishers = Enqueues(FINAL_FIRST, NAMES), min(PUBLISHERS, max(1, concurrency - 1))
    settling = mix(Enqueues(SETTLING_FIRST, NAMES), Turns(), weights=list(WEIGHTS))
    final = any_of(
        reserve((publishers, stagger(sum(WEIGHTS) / WEIGHTS[0] / FINAL_HZ, puts))),
        stagger(sum(WEIGHTS) / WEIGHTS[1] / FINAL_HZ, Turns()),
    )
    return Workload(
        name="single-active",
        client=SingleActiveClient(),
        generator=mix(Enqueues(names=NAMES), Turns(), weights=list(WEIGHTS)),
        final_generator=phases(
            clients(time_limit(SETTLING_S, stagger(1 / SETTLING_HZ, settling))),
            clients(time_limit(BACKLOG_S, reserve((publishers, limit(BACKLOG, Enqueues(BACKLOG_FIRST, NAMES)))))),
            clients(time_limit(FINAL_S, final)),
            clients(time_limit(LAST_PUTS_S, limit(LAST_PUTS, Enqueues(LAST_FIRST, NAMES)))),
            clients(time_limit(LAST_S, stagger(1 / LAST_HZ, Turns(leaves=False)))),
            clients(Asks()),
        ),
        checkers=(
            CheckerSpec("single-active", {"late_s": late_s} if late_s else {}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": list(fs)}),
        ),
        fs=fs,
        needs=frozenset({SINGLE_ACTIVE.name}),
        shapes={
            "enqueue": OpShape(keyed=True, value=WHOLE),
            "consume": OpShape(keyed=True, value=int | None),
            "leave": OpShape(keyed=True),
        },
    )
