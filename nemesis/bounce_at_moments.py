"""Bouncing at moments: nodes are killed, or lose their power, as they pass coverage marks, and start again soon.

A node that restarts at once takes part in what it was killed in the middle of. It can vote again if its vote was not
stored, and leads or follows with what was not yet durable.

An op waits for many moments at the same time, some seconds long; each of them bounces nodes a few times. Elections and
recoveries are rare while nothing else happens: so a node, the leader for instance, is bounced when the wait begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.magnitudes import Bounds
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.moments import Moment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.harness.running.deadlines import together
from splitbrain.nemesis import passing
from splitbrain.nemesis.checks import check_name, check_over
from splitbrain.nemesis.draws import PAUSE_MS, magnitude
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.kinds import Asked, Injection, Kind, Ways
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.process import lost
from splitbrain.nemesis.targets import SPECS, choose, needs_views, views
from splitbrain.results.errors import BackendError, NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Request, asked

FAULT: Final = "bounce-at-moments"

TIMES: Final = (12, 24)
"""The number of moments of a drawn op."""

TIMES_EACH: Final = Bounds(1, 1000, "times")

TIMES_EACH_MAX: Final = 4
"""How often a moment of a drawn op may bounce nodes, at most."""

FIRST: Final = ("leader", "leader", "one", "minority", "all")
"""Which nodes are bounced first, in a drawn op."""

FIRST_DOWN_MS: Final = (1, 1000)

DOWN_MS: Final = (1, 300)
"""How long a node stays down, in a drawn op."""

WITHIN_MS: Final = 2_000
"""How long a drawn op waits, and one that does not say."""

_MS: Final = 1_000_000


class BounceAtMomentsRequest(Request, tag="bounce-at-moments", frozen=True, kw_only=True):
    """When nodes are bounced.

    Attributes:
        moments: each of them bounces the node that passes the mark.
        downs_ms: how long it stays down, for each moment; there may be more than moments, because shrinking removes
            moments.
        times: how often each moment may do so; it is counted anew once the node is back.
        first: a node spec; which nodes are bounced when the wait has begun. None for none.
        first_down_ms: how long these stay down.
        inject: how nodes end.
        within_ms: how long to wait for moments.
        over: always true: the fault ends with the op.
    """

    moments: tuple[Moment, ...] = ()
    downs_ms: tuple[int, ...] = ()
    times: int = 1
    first: str | None = None
    first_down_ms: int = 0
    inject: Literal["kill", "power"] = "kill"
    within_ms: int = WITHIN_MS
    over: bool = True


class _Run(NamedTuple):
    """An op in progress: what it does, and the bounces so far."""

    context: NemesisContext
    wanted: BounceAtMomentsRequest
    began_ns: int
    bounces: list[dict[str, Any]]

    def waited_ms(self) -> float:
        """The time since it began."""
        return round((self.context.runtime.clock.now_ns() - self.began_ns) / _MS, 3)


class BounceAtMoments:
    """Bounces nodes at moments (`bounce-at-moments`); its stop starts those that did not come back.

    A node that another fault keeps down is left alone.

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"bounce-at-moments", "stop-bounce-at-moments"})
    faults: frozenset[FaultKind] = frozenset({"moment", "kill", "power"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._down: dict[NodeId, None] = {}

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Bounce nodes at the moments of the op, or start those that stayed down."""

        async def bounce(effect: Effect) -> None:
            wanted = asked(op.value, BounceAtMomentsRequest)
            check(op.f, wanted, context.deployment.nodes)
            await self._bounce(context, wanted, effect)

        async def stop(effect: Effect) -> None:
            effect.hits(self._down, otherwise="every node came back")
            await self._start_all(context)

        return await carry_out(context, op, bounce if op.f == FAULT else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Start every node that did not come back.

        Raises:
            NemesisError: one does not start.
        """
        await self._start_all(context)

    async def _bounce(self, context: NemesisContext, wanted: BounceAtMomentsRequest, effect: Effect) -> None:
        pairs = zip(wanted.moments, wanted.downs_ms, strict=False)  # there may be more times than moments
        run = _Run(context, wanted, context.runtime.clock.now_ns(), [])
        works = [self._wait_for(run, moment, down_ms) for moment, down_ms in pairs]
        ended = await together([*works, self._bounce_first(run)])
        bounces = run.bounces
        effect.evidence["bounces"] = bounces
        effect.hits(
            dict.fromkeys(bounce["node"] for bounce in bounces),
            otherwise=f"no such moment came within {wanted.within_ms:,} ms",
        )
        effect.evidence["bit"] = any("mark" in bounce for bounce in bounces)
        if not effect.evidence["bit"]:
            effect.evidence["waits"] = True
            reached("moment did not come")
        for problem in ended:
            if isinstance(problem, BaseException):
                raise problem
        await self._start_all(context)

    async def _wait_for(self, run: _Run, moment: Moment, down_ms: int) -> None:
        """Bounce the nodes that pass a mark, as often as the request says and there is time."""
        for _ in range(run.wanted.times):
            ended: list[NodeId] = []

            async def act(node: NodeId, ended: list[NodeId] = ended) -> None:
                if await self._end(run, node, mark=moment.mark, occurrence=moment.occurrence):
                    ended.append(node)

            left_ms = run.wanted.within_ms - round(run.waited_ms())
            if left_ms <= 0 or await passing.at_moment(run.context, [moment], act, left_ms) is None:
                return
            for node in ended:
                reached("fault at a moment")
                await self._restart(run, node, down_ms)

    async def _bounce_first(self, run: _Run) -> None:
        """Bounce the nodes with which it begins."""
        wanted, nodes = run.wanted, run.context.deployment.nodes
        if wanted.first is None:
            return
        seen = await views(run.context) if needs_views(wanted.first) else ()
        chosen = choose(wanted.first, wanted.order or nodes, seen)
        ended = [node for node in chosen if await self._end(run, node)]
        await together([self._restart(run, node, wanted.first_down_ms) for node in ended])

    async def _end(self, run: _Run, node: NodeId, **why: Any) -> bool:
        """End a running node, unless another fault has a say in it. In a simulation nothing here waits."""
        deployment = run.context.deployment
        running = (await deployment.status(node)).state == "running"
        if not running or self._ledger.held_by_others(node, FAULT):
            return False
        self._down[node] = None
        answer = await (deployment.kill(node) if run.wanted.inject == "kill" else deployment.power_off(node))
        run.bounces.append({"node": node, **why, "waited_ms": run.waited_ms(), **lost(answer)})
        return True

    async def _restart(self, run: _Run, node: NodeId, down_ms: int) -> None:
        await run.context.runtime.clock.sleep_ns(down_ms * _MS)
        if await self._started(run.context, node) is None:
            reached("node bounced")

    async def _started(self, context: NemesisContext, node: NodeId) -> str | None:
        """Start a node; returns the problem, None if it started. At another moment it may be ended again meanwhile."""
        try:
            await context.deployment.start(node)
        except BackendError as problem:
            return f"{node}: {problem}"
        if (await context.deployment.status(node)).state == "running":
            self._down.pop(node, None)
        return None

    async def _start_all(self, context: NemesisContext) -> None:
        """Start every node that is still down.

        Raises:
            NemesisError: one does not start, although its disk is whole.
        """
        down = [node for node in self._down if not self._ledger.held_by_others(node, FAULT)]
        failed = {node: problem for node in down if (problem := await self._started(context, node))}
        if problems := [problem for node, problem in failed.items() if not self._ledger.may_stay_down(node)]:
            raise NemesisError(f"{FAULT}: {'; '.join(problems)}.")


def check(f: str, wanted: BounceAtMomentsRequest, nodes: Sequence[NodeId]) -> None:
    """Refuse bounces that are not possible.

    Args:
        f: the function of the op.
        wanted: its request.
        nodes: of the test.

    Raises:
        UsageError: the moments or the times are wrong.
    """
    passing.check(f, wanted.moments, wanted.within_ms, nodes)
    if not len(wanted.moments) <= len(wanted.downs_ms) <= passing.MOMENTS_MAX:
        raise UsageError(f"{f}: each moment has a time in downs_ms, {passing.MOMENTS_MAX} at most.")
    if problem := TIMES_EACH.problem("times", wanted.times, whole=True):
        raise UsageError(f"{f}: {problem}")
    if wanted.first is not None:
        check_name("node spec", wanted.first, SPECS, f"of {f}")
    for down_ms in (*wanted.downs_ms, wanted.first_down_ms):
        if problem := PAUSE_MS.problem("downs_ms", down_ms, whole=True):
            raise UsageError(f"{f}: {problem}")
        if wanted.within_ms + down_ms > passing.WITHIN_MS.most:
            raise UsageError(f"{f}: within_ms and the longest time down are {passing.WITHIN_MS.most:,} ms at most.")


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _check(given: Asked[BounceAtMomentsRequest]) -> None:
    check_over(given.request.over)
    check(given.f, given.request, given.nodes)


def _draw(_: Sequence[NodeId], marks: Sequence[str], rng: Rng) -> Mapping[str, Any]:
    """Random moments on any nodes."""
    times = rng.between(*TIMES)
    return {
        "moments": [passing.draw(marks, rng) for _ in range(times)],
        "downs_ms": [magnitude(rng, *DOWN_MS) for _ in range(times)],
        "times": rng.between(1, TIMES_EACH_MAX),
        "first": rng.choice(FIRST),
        "first_down_ms": magnitude(rng, *FIRST_DOWN_MS),
        "over": True,
    }


_KILL: Final = Injection({"inject": "kill"}, needs=("moment", "kill"), at_marks=_draw)

_POWER: Final = Injection({"inject": "power"}, needs=("moment", "power"), at_marks=_draw)


def _needs(wanted: BounceAtMomentsRequest) -> tuple[FaultKind, ...]:
    return ("moment", wanted.inject)


KIND: Final = Kind(
    request=BounceAtMomentsRequest,
    nemesis=BounceAtMoments,
    start_f="bounce-at-moments",
    stop_f="stop-bounce-at-moments",
    example='{"moments": [{"mark": "vote granted"}], "downs_ms": [20], "inject": "power"}',
    needs=_needs,
    passes=lambda wanted: [moment.mark for moment in wanted.moments],
    marks=("fault at a moment", "moment did not come", "node bounced"),
    healed=47,
    check=_check,
    takes_s=WITHIN_MS / 1000,
    over=True,
    ways={
        "bounce-at-moments": Ways(
            ((_KILL,), (_POWER,)),
            "kills nodes as they pass coverage marks, in turn by kill -9 and by loss of power, and restarts them soon",
        ),
        "bounce-at-moments-kill": Ways(((_KILL,),), "kills nodes as they pass coverage marks, and restarts them soon"),
        "bounce-at-moments-power": Ways(
            ((_POWER,),), "cuts the power of nodes as they pass coverage marks, and restarts them soon"
        ),
    },
)
