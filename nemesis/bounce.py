"""Bouncing: kill nodes and restart them at once, one after the other, many times.

After a long kill the others elect a leader without the node. A node that is back within milliseconds takes part in the
election in which it was killed. If it did not store its vote, it can vote again, for another candidate. (Jepsen's tests
restart nodes like this with `kill` and `start` back to back.)

An op has the order of the nodes and the pauses between them, drawn when it is scheduled. Or it waits for an election
(`"when": "election"`): the leader is killed; as soon as a node is a candidate, every other running node is bounced, in
the order of the op; the killed leader restarts last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.checks import check_name, check_nodes, check_over
from splitbrain.nemesis.draws import STEPS_MAX, check_pauses
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.kinds import Asked, Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.targets import leader, views
from splitbrain.results.errors import BackendError, NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Request, asked
from splitbrain.results.quantities import counted

FAULT: Final = "bounce"

ELECTION: Final = "election"
"""The moment that an op can wait for."""

TIMES: Final = (6, 16)
"""The number of bounces in an op."""

PAUSES_MS: Final = (20, 300)
"""The pause after each bounce."""

ELECTION_S: Final = 3.0
"""Timeout of the wait for an election, and for its end."""

POLL_MS: Final = 10
"""The interval between two looks."""

_MS: Final = 1_000_000


class BounceRequest(Request, tag="bounce", frozen=True, kw_only=True):
    """Which nodes are bounced.

    Attributes:
        nodes: in this order.
        pauses_ms: the pauses after each; there may be more pauses than nodes, because shrinking removes nodes.
        when: "election" instead of these; None if it names them.
        over: always true: the fault ends with the op.
    """

    nodes: tuple[NodeId, ...] = ()
    pauses_ms: tuple[int, ...] = ()
    when: str | None = None
    over: bool = True


def draw(nodes: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """A random sequence of nodes, and the pauses."""
    times = rng.between(*TIMES)
    return {
        "nodes": [rng.choice(nodes) for _ in range(times)],
        "pauses_ms": [rng.between(*PAUSES_MS) for _ in range(times)],
        "over": True,
    }


class Bounce:
    """Bounces nodes (`bounce`); its stop (`stop-bounce`) starts those that did not come back.

    Nodes that are already down or paused are skipped.

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"bounce", "stop-bounce"})
    faults: frozenset[FaultKind] = frozenset({"kill"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._down: dict[NodeId, None] = {}

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Bounce the nodes of the op, or start those that stayed down; reports their lives."""

        async def bounce(effect: Effect) -> None:
            wanted = asked(op.value, BounceRequest)
            if wanted.when == ELECTION:
                await self._bounce_in_election(context, wanted.order or context.deployment.nodes, effect)
                return
            check(wanted, context.deployment.nodes)
            await self._bounce(context, wanted, effect)

        async def stop(effect: Effect) -> None:
            effect.hits(self._down, otherwise="every node came back")
            await self._start_all(context)

        return await carry_out(context, op, bounce if op.f == "bounce" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Start every node that did not come back.

        Raises:
            NemesisError: one does not start.
        """
        await self._start_all(context)

    async def _bounce(self, context: NemesisContext, bounces: BounceRequest, effect: Effect) -> None:
        lives: dict[NodeId, int] = {}
        for node, pause_ms in zip(bounces.nodes, bounces.pauses_ms, strict=False):  # there may be more pauses
            await self._restart(context, node, lives)
            await context.runtime.clock.sleep_ns(pause_ms * _MS)
        self._record_restarts(lives, effect)

    async def _bounce_in_election(self, context: NemesisContext, order: Sequence[NodeId], effect: Effect) -> None:
        deployment, clock, lives = context.deployment, context.runtime.clock, dict[NodeId, int]()
        led = leader(await views(context))
        if led is not None and await self._can_be_killed(context, led):
            await deployment.kill(led)
            self._down[led] = None
        end_ns = clock.now_ns() + round(ELECTION_S * 1e9)
        while clock.now_ns() < end_ns:
            seen = await views(context)
            standing = [view.node for view in seen if view.role == "candidate"]
            for node in order:
                if standing and node not in standing and node != led:
                    await self._restart(context, node, lives)
            if lives and leader(seen) not in (None, led):
                break
            await clock.sleep_ns(POLL_MS * _MS)
        effect.evidence["killed"] = led
        await self._start_all(context)
        self._record_restarts(lives, effect, *[led] if led is not None else [])

    async def _restart(self, context: NemesisContext, node: NodeId, lives: dict[NodeId, int]) -> None:
        """Kill a running node, start it, and count its lives. A node that does not start stays down for now."""
        before = await context.deployment.status(node)
        if not await self._can_be_killed(context, node):
            return
        await context.deployment.kill(node)
        self._down[node] = None
        if await self._started(context, node) is None:
            after = await context.deployment.status(node)
            lives[node] = lives.get(node, 0) + after.life - before.life
            reached("node bounced")

    async def _can_be_killed(self, context: NemesisContext, node: NodeId) -> bool:
        """Whether it runs, and no other fault keeps it down."""
        running = (await context.deployment.status(node)).state == "running"
        return running and not self._ledger.held_by_others(node, FAULT)

    async def _started(self, context: NemesisContext, node: NodeId) -> str | None:
        """Start a node; returns the problem, None if it started."""
        try:
            await context.deployment.start(node)
        except BackendError as problem:
            return f"{node}: {problem}"
        self._down.pop(node, None)
        return None

    def _record_restarts(self, lives: Mapping[NodeId, int], effect: Effect, *killed: NodeId) -> None:
        effect.hits(dict.fromkeys([*killed, *lives]), otherwise="no node was there to be bounced")
        effect.evidence["restarts"] = dict(lives)
        if missing := [node for node in self._down if not self._ledger.may_stay_down(node)]:
            raise NemesisError(f"{FAULT}: {', '.join(missing)} did not come back.")

    async def _start_all(self, context: NemesisContext) -> None:
        down = [node for node in self._down if not self._ledger.held_by_others(node, FAULT)]
        failed = {node: problem for node in down if (problem := await self._started(context, node))}
        if problems := [problem for node, problem in failed.items() if not self._ledger.may_stay_down(node)]:
            raise NemesisError(f"{FAULT}: {'; '.join(problems)}.")


def check(wanted: BounceRequest, known: Sequence[NodeId]) -> None:
    """Refuse bounces that are not possible.

    Raises:
        UsageError: a request names no nodes, or nodes that are not in the test.
    """
    strangers = [node for node in wanted.nodes if node not in known]
    if strangers or not wanted.nodes:
        raise UsageError(f"a bounce of {', '.join(strangers) or 'no nodes'}: the nodes are {', '.join(known)}.")
    if not len(wanted.nodes) <= len(wanted.pauses_ms) <= STEPS_MAX:
        raise UsageError(
            f"a bounce has a pause after each of its nodes, {STEPS_MAX:,} at most: "
            f"{counted(len(wanted.nodes), 'node')}, {counted(len(wanted.pauses_ms), 'pause')}."
        )
    check_pauses("pauses_ms", wanted.pauses_ms)


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _check(given: Asked[BounceRequest]) -> None:
    wanted = given.request
    check_over(wanted.over)
    if wanted.when is not None:
        check_name("moment (when)", wanted.when, [ELECTION], f"of {given.f}")
        if wanted.nodes or wanted.pauses_ms:
            raise UsageError("the election decides which nodes are bounced: remove nodes and pauses_ms.")
        return
    check_nodes(given.f, "nodes", wanted.nodes, given.nodes)
    check(wanted, given.nodes)


_AT_RANDOM: Final = Injection({}, figures=draw, needs=("kill",))

_IN_ELECTION: Final = Injection({"when": ELECTION, "over": True}, nodes=3, needs=("kill",))

KIND: Final = Kind(
    request=BounceRequest,
    nemesis=Bounce,
    start_f="bounce",
    stop_f="stop-bounce",
    example='{"nodes": ["n1", "n2"], "pauses_ms": [50, 50]}',
    needs=always("kill"),
    marks=("node bounced",),
    healed=44,
    check=_check,
    over=True,
    ways={
        "bounce": Ways(
            ((_AT_RANDOM,), (_IN_ELECTION,)),
            "kills nodes and restarts them at once: in turn one after the other, and those that vote in an election",
        ),
        "bounce-random": Ways(
            ((_AT_RANDOM,),), "kills nodes and restarts them at once, one after the other, 6 to 16 times"
        ),
        "bounce-election": Ways(
            ((_IN_ELECTION,),),
            "kills the leader, then kills and restarts at once the nodes that vote for its successor",
        ),
    },
)
