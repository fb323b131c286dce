"""A fault at a moment: when a node passes a coverage mark of its system for the n-th time, that node is hit.

The op `await-moment` begins to wait and ends when the fault is in force, or when the time is up. Then nothing was
injected, and its evidence has `"waits": true`. The fault stays until `stop-moment`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from splitbrain.harness.contract.faults import ClockFault, FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.moments import Moment
from splitbrain.harness.contract.nodes import Link, NodeId, NodeStatus
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis import passing
from splitbrain.nemesis.draws import magnitude, signed
from splitbrain.nemesis.effects import Effect, carry_out, status_evidence
from splitbrain.nemesis.grudges import all_links
from splitbrain.nemesis.kinds import Asked, Injection, Kind, Ways
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.process import lost
from splitbrain.results.errors import NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Request, asked

FAULT: Final = "moment"

Way: TypeAlias = Literal["kill", "power", "pause", "cut", "clock"]
"""What happens to the node: it is killed, loses its power, is paused, is cut off, or its wall clock jumps."""

_NEEDS: Final[Mapping[Way, tuple[FaultKind, ...]]] = {
    "kill": ("moment", "kill"),
    "power": ("moment", "power"),
    "pause": ("moment", "pause"),
    "cut": ("moment", "cut"),
    "clock": ("moment", "clock-jump"),
}

WITHIN_MS: Final = 2_000
"""How long a drawn op waits, and one that does not say."""

ALTERNATIVES: Final = 48
"""The number of moments of a drawn op, which waits for the first of them: many marks are seldom passed."""

OFFSET_MS: Final = (10, 3_600_000)


class MomentRequest(Request, tag="moment", frozen=True, kw_only=True):
    """When a node is hit, and by what.

    Attributes:
        moments: the first of these that comes.
        inject: what happens to its node.
        offset_ms: by how much its wall clock jumps, if it is the clock.
        within_ms: how long to wait.
    """

    moments: tuple[Moment, ...] = ()
    inject: Way = "kill"
    offset_ms: int = 0
    within_ms: int = WITHIN_MS


class AtMoment:
    """Waits for a moment and injects a fault then (`await-moment`); heals it (`stop-moment`).

    A node whose clock is wrong already, or in a network that is cut already, gets no second such fault.

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"await-moment", "stop-moment"})
    faults: frozenset[FaultKind] = frozenset(need for needs in _NEEDS.values() for need in needs)

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._hit: tuple[Way, NodeId] | None = None
        self._cut: frozenset[Link] = frozenset()
        self._skewed: ClockFault | None = None

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Wait and inject, or heal; verify and report the node."""

        async def wait(effect: Effect) -> None:
            wanted = asked(op.value, MomentRequest)
            passing.check(op.f, wanted.moments, wanted.within_ms, context.deployment.nodes)
            await self._release(context)
            await self._inject(context, wanted, effect)

        async def stop(effect: Effect) -> None:
            effect.hits([self._hit[1]] if self._hit else [], otherwise="no node has this fault")
            if self._hit and self._hit[0] == "cut":
                swallowed = await context.deployment.dropped()
                if frozenset(swallowed) == self._cut:
                    dropped = sum(swallowed.values())
                    effect.evidence.update({"dropped": dropped, "bit": dropped > 0})
            await self._release(context)

        return await carry_out(context, op, wait if op.f == "await-moment" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Heal the node that was hit.

        Raises:
            NemesisError: it does not run afterwards.
        """
        await self._release(context)

    async def _inject(self, context: NemesisContext, wanted: MomentRequest, effect: Effect) -> None:
        deployment, clock = context.deployment, context.runtime.clock
        began_ns = clock.now_ns()

        async def act(node: NodeId) -> None:
            before = await deployment.status(node)
            answer = await self._act(context, node, wanted)
            effect.evidence["waited_ms"] = round((clock.now_ns() - began_ns) / 1e6, 3)
            if answer is None:
                return
            self._hit = (wanted.inject, node)
            after = await deployment.status(node)
            seen = {"before": status_evidence(before), "after": status_evidence(after)}
            effect.evidence[node] = {**seen, **answer}
            expected = {"kill": "stopped", "power": "stopped", "pause": "paused"}.get(wanted.inject, after.state)
            if after.state != expected:
                raise NemesisError(f"{FAULT}: {node} is {after.state} instead of {expected}.")

        found = await passing.at_moment(context, wanted.moments, act, wanted.within_ms)
        if found is None:
            effect.evidence["waits"] = True
            effect.nothing(f"no such moment came within {wanted.within_ms:,} ms")
            reached("moment did not come")
            return
        effect.evidence["passed"] = {"mark": found.moment.mark, "occurrence": found.moment.occurrence}
        effect.hits([found.node] if self._hit else [], otherwise=f"{found.node} could not be hit at that moment")
        if self._hit:
            reached("fault at a moment")

    async def _act(self, context: NemesisContext, node: NodeId, wanted: MomentRequest) -> dict[str, Any] | None:
        """Inject it now; the evidence, None if something else is in the way. In a simulation nothing here waits."""
        deployment = context.deployment
        if (await deployment.status(node)).state != "running":
            return None
        match wanted.inject:
            case "kill" | "power":
                self._ledger.hold(node, FAULT)
                end = deployment.kill if wanted.inject == "kill" else deployment.power_off
                return lost(await end(node))
            case "pause":
                await deployment.pause(node)
                return {}
            case "cut":
                if await deployment.dropped():
                    return None
                self._cut = frozenset(link for link in all_links(deployment.nodes) if node in link)
                await deployment.cut(self._cut)
                return {"links_blocked": len(self._cut)}
            case "clock":
                if node in self._ledger.skewed:
                    return None
                self._skewed = self._ledger.skewed[node] = ClockFault(offset_ms=wanted.offset_ms)
                return {"clock": dict(await deployment.skew(node, self._skewed))}

    async def _release(self, context: NemesisContext) -> None:
        """Heal what was injected.

        Raises:
            NemesisError: the node does not run afterwards.
        """
        hit, self._hit = self._hit, None
        if hit is None:
            return
        deployment, (way, node) = context.deployment, hit
        healed: NodeStatus | None = None
        match way:
            case "kill" | "power":
                self._ledger.release(FAULT)
                if not self._ledger.held_by_others(node, FAULT):
                    self._hit = hit  # until it runs: the heal tries again
                    healed = await deployment.start(node)
                    self._hit = None
            case "pause":
                if (await deployment.status(node)).state == "paused":
                    healed = await deployment.resume(node)
            case "cut":
                if frozenset(await deployment.dropped()) == self._cut:  # else another fault took its place
                    await deployment.cut(frozenset())
            case "clock":
                if self._ledger.skewed.get(node) is self._skewed:
                    await deployment.skew(node, None)
                    del self._ledger.skewed[node]
        if healed is not None and healed.state != "running" and not self._ledger.may_stay_down(node):
            raise NemesisError(f"{FAULT}: {node} is {healed.state} instead of running.")


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _check(given: Asked[MomentRequest]) -> None:
    wanted = given.request
    passing.check(given.f, wanted.moments, wanted.within_ms, given.nodes)
    if (wanted.inject == "clock") != bool(wanted.offset_ms):
        raise UsageError("offset_ms is how far the clock jumps: give it with the clock, and with nothing else.")


def _drawn(way: Way) -> Callable[[Sequence[NodeId], Sequence[str], Rng], Mapping[str, Any]]:
    def draw(_: Sequence[NodeId], marks: Sequence[str], rng: Rng) -> Mapping[str, Any]:
        figures: dict[str, Any] = {"moments": [passing.draw(marks, rng) for _ in range(ALTERNATIVES)]}
        if way == "clock":
            figures["offset_ms"] = signed(rng, magnitude(rng, *OFFSET_MS))
        return figures

    return draw


def _ways(*ways: Way) -> tuple[Injection, ...]:
    return tuple(Injection({"inject": way}, needs=_NEEDS[way], at_marks=_drawn(way)) for way in ways)


_WHAT: Final[Mapping[Way, str]] = {
    "kill": "kills a node",
    "power": "cuts the power of a node",
    "pause": "pauses a node",
    "cut": "cuts all links of a node",
    "clock": "sets the wall clock of a node",
}

KIND: Final = Kind(
    request=MomentRequest,
    nemesis=AtMoment,
    start_f="await-moment",
    stop_f="stop-moment",
    example='{"moments": [{"mark": "vote granted", "occurrence": 2, "node": "n1"}], "inject": "power"}',
    needs=lambda wanted: _NEEDS[wanted.inject],
    passes=lambda wanted: [moment.mark for moment in wanted.moments],
    marks=("fault at a moment", "moment did not come"),
    healed=46,
    check=_check,
    takes_s=WITHIN_MS / 1000,
    ways={
        "moment": Ways(
            (_ways("kill", "power"), _ways("pause", "cut", "clock")),
            "hits a node as it passes a coverage mark: in turn kill or power, and pause, cut or clock",
        ),
        **{f"moment-{way}": Ways((_ways(way),), f"{_WHAT[way]} as it passes a coverage mark") for way in get_args(Way)},
    },
)
