"""Clocks that jump, jump back and forth, or run too fast or too slow.

An op has the spec of its target nodes (`spec`), and for every node the fault of its clock if it is a target (`skew`:
the fields of a `ClockFault`), drawn when the op is scheduled. Running nodes come first: no process reads the clock of a
stopped node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from splitbrain.harness.contract.faultkinds import CLOCK_KINDS, of_clock
from splitbrain.harness.contract.faults import ClockFault, FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.checks import check_nodes
from splitbrain.nemesis.draws import magnitude, signed
from splitbrain.nemesis.effects import Effect, carry_out, statuses
from splitbrain.nemesis.kinds import Asked, Figures, Injection, Kind, Ways
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.targets import choose, fewest, needs_views, views
from splitbrain.results.errors import BackendError, NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import RequestOfNodes, asked

OFFSET_MS = (10, 3_600_000)
"""The size of jumps, ahead or back."""

DRIFT_PPM = (1_000, 100_000)
"""The drift of clocks that run too fast or too slow."""

STROBE_MS = (1, 60_000)
"""The size of jumps back and forth."""

STROBE_EVERY_MS = (10, 1_000)
"""Their period."""

TOLERANCE = 1.0
"""The tolerance of a measured clock: milliseconds, and millionths. It is larger if a backend reports a lower accuracy
("accuracy"). If the accuracy is not better than half of the fault, the fault was not verified.
"""


class ClockRequest(RequestOfNodes, tag="clock", frozen=True, kw_only=True):
    """The clock faults of some nodes; `skew` has one for every node that may be chosen."""

    skew: dict[NodeId, ClockFault] = msgspec.field(default_factory=dict[NodeId, ClockFault])


class _Change(NamedTuple):
    """The expected change of a clock."""

    offset_ms: float = 0.0
    drift_ppm: float = 0.0


def jump(nodes: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """A jump for each node, of 10 ms to an hour, ahead or back."""
    return {"skew": {node: {"offset_ms": signed(rng, magnitude(rng, *OFFSET_MS))} for node in nodes}}


def drift(nodes: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """A drift for each node, of 0.1 to 10 %, fast or slow."""
    return {"skew": {node: {"drift_ppm": signed(rng, magnitude(rng, *DRIFT_PPM))} for node in nodes}}


def strobe(nodes: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """For each node a jump of 1 ms to a minute, ahead or back, that comes and goes every 10 to 1,000 ms."""
    return {
        "skew": {
            node: {"offset_ms": signed(rng, magnitude(rng, *STROBE_MS)), "strobe_ms": magnitude(rng, *STROBE_EVERY_MS)}
            for node in nodes
        }
    }


class Clocks:
    """Skews clocks (`start-clock`) and corrects them (`stop-clock`).

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"start-clock", "stop-clock"})
    faults: frozenset[FaultKind] = frozenset(CLOCK_KINDS)

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._shown: dict[NodeId, Mapping[str, Any]] = {}  # what was measured before the fault
        self._doubted: dict[NodeId, None] = {}  # nodes whose fault may or may not be in force

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Skew the clocks of the op's target nodes, or correct all; clocks are measured before and after."""

        async def start(effect: Effect) -> None:
            await self._set_right(context, Effect())
            faults = await self._faults(context, asked(op.value, ClockRequest))
            effect.hits(faults, otherwise="no node was running")
            await self._skew(context, faults, effect)

        async def stop(effect: Effect) -> None:
            effect.hits(self._ledger.skewed, otherwise="no clock had to be set right")
            await self._set_right(context, effect)

        return await carry_out(context, op, start if op.f == "start-clock" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Correct every clock.

        Raises:
            NemesisError: a clock stays wrong.
        """
        await self._set_right(context, Effect())

    async def _faults(self, context: NemesisContext, wanted: ClockRequest) -> dict[NodeId, ClockFault]:
        """The fault of each chosen node. The spec chooses among the nodes that the skew names, in the given order."""
        skews = wanted.skew
        _check_skews(skews)
        order = [node for node in wanted.order or context.deployment.nodes if node in skews]
        seen = await statuses(context.deployment)
        up = [node for node in order if seen[node].state != "stopped"]
        down = [node for node in order if seen[node].state == "stopped"]
        targets = choose(wanted.node_spec, up + down, await views(context) if needs_views(wanted.node_spec) else ())
        chosen = [node for node in targets if node in up] or up[:1]
        return {node: skews[node] for node in chosen}

    async def _skew(self, context: NemesisContext, faults: Mapping[NodeId, ClockFault], effect: Effect) -> None:
        problems: list[str] = []
        for node, fault in faults.items():
            self._ledger.skewed[node] = fault
            asked = _Change(fault.offset_ms, fault.drift_ppm)
            wrong = await self._turn(context, node, fault, [asked], effect)
            self._shown[node] = effect.evidence.get(node, {})
            if wrong:
                self._doubted[node] = None
            else:
                _mark(fault)
            problems += wrong
        if problems:
            raise NemesisError(f"clock: {'; '.join(problems)}.")

    async def _set_right(self, context: NemesisContext, effect: Effect) -> None:
        problems: list[str] = []
        for node, fault in list(self._ledger.skewed.items()):
            wrong = await self._turn(context, node, None, _undone(fault), effect)
            if wrong and node in self._doubted and _is_back(node, fault, effect.evidence.get(node), self._shown[node]):
                wrong = []
            if wrong:
                self._doubted[node] = None  # the next attempt may find it correct
                problems += wrong
                continue
            del self._ledger.skewed[node]
            self._shown.pop(node, None)  # another nemesis may have given the fault
            self._doubted.pop(node, None)
        if problems:
            raise NemesisError(f"clock: {'; '.join(problems)}.")

    async def _turn(
        self,
        context: NemesisContext,
        node: NodeId,
        fault: ClockFault | None,
        changes: Sequence[_Change],
        effect: Effect,
    ) -> list[str]:
        """Set or remove the fault of one clock; returns problems unless the measured change is one of `changes`."""
        try:
            seen = await context.deployment.skew(node, fault)
        except BackendError as problem:
            return [f"{node}: {problem}"]
        effect.evidence[node] = dict(seen)
        found = [_differences(node, seen, change) for change in changes]
        return min(found, key=len)


def _check_skews(skews: Mapping[NodeId, ClockFault]) -> None:
    """Refuse a request without a clock fault, and strobes without an offset.

    Raises:
        UsageError: it is such a request.
    """
    if not skews:
        raise UsageError("a clock fault needs a skew for each node.")
    for node, fault in skews.items():
        if fault.strobe_ms and not fault.offset_ms:
            raise UsageError(f"the clock of {node} has a strobe without an offset: give it an offset_ms.")


def _undone(fault: ClockFault) -> list[_Change]:
    """The possible changes of a clock when it is corrected; a strobing clock may have no offset at that moment."""
    back = _Change(offset_ms=-fault.offset_ms, drift_ppm=-fault.drift_ppm)
    return [back, _Change(drift_ppm=-fault.drift_ppm)] if fault.strobe_ms else [back]


def _is_back(node: NodeId, fault: ClockFault, seen: Mapping[str, Any] | None, at_first: Mapping[str, Any]) -> bool:
    """Whether a clock that was not seen to change shows what it showed before its fault, as far as that was measured.

    Its own drift since then is unknown, so its offset must be nearer to the old one than to the fault's.
    """
    if seen is None or _differences(node, seen, _Change()):
        return False
    if not at_first:
        return True
    since = {**seen, "before": at_first.get("before")}
    gained_ms = (_measured(since, "after", "offset_ms") or 0.0) - (_measured(since, "before", "offset_ms") or 0.0)
    drifts = _differences(node, since, _Change(offset_ms=gained_ms))
    return not drifts and (fault.drift_ppm != 0 or 2 * abs(gained_ms) <= abs(fault.offset_ms))


def _differences(node: NodeId, seen: Mapping[str, Any], change: _Change) -> list[str]:
    """The differences between the measured and the expected change of a clock."""
    problems: list[str] = []
    for name, expected in (("offset_ms", change.offset_ms), ("drift_ppm", change.drift_ppm)):
        before, after = (_measured(seen, when, name) for when in ("before", "after"))
        if before is None or after is None:
            problems.append(f"nothing was measured of {name} on {node}")
        elif not _is_seen(after - before, expected, max(TOLERANCE, _measured(seen, "accuracy", name) or 0.0)):
            problems.append(f"{name} of {node} changed by {after - before:g} instead of {expected:g}")
    return problems


def _is_seen(changed: float, expected: float, tolerance: float) -> bool:
    """Whether the measured change is the expected one, and distinguishable from no change."""
    return abs(changed - expected) <= (min(tolerance, abs(expected) / 2) if expected else tolerance)


def _measured(seen: Mapping[str, Any], when: str, name: str) -> float | None:
    found = seen.get(when)
    value = cast("Mapping[str, Any]", found).get(name) if isinstance(found, Mapping) else None
    return float(value) if isinstance(value, (int, float)) else None


def _mark(fault: ClockFault) -> None:
    if fault.strobe_ms:
        reached("clock strobed")
    elif fault.offset_ms:
        reached("clock jumped ahead" if fault.offset_ms > 0 else "clock jumped back")
    if fault.drift_ppm:
        reached("clock ran fast" if fault.drift_ppm > 0 else "clock ran slow")


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _check(given: Asked[ClockRequest]) -> None:
    skews = given.request.skew
    check_nodes(given.f, "skew", list(skews), given.nodes)
    _check_skews(skews)
    if not set(skews).intersection(given.order):
        raise UsageError(f"its skew has {', '.join(skews)}, and its order has none of them.")


def _needs(request: ClockRequest) -> tuple[FaultKind, ...]:
    return tuple(need for fault in request.skew.values() for need in of_clock(fault))


def _clocks(need: FaultKind, figures: Figures) -> tuple[Injection, ...]:
    return tuple(
        Injection({"spec": spec}, nodes=fewest(spec), figures=figures, needs=(need,))
        for spec in ("one", "leader", "minority", "all")
    )


KIND: Final = Kind(
    request=ClockRequest,
    nemesis=Clocks,
    start_f="start-clock",
    stop_f="stop-clock",
    example='{"spec": "one", "skew": {"n1": {"offset_ms": 5000}}}',
    needs=_needs,
    marks=("clock jumped ahead", "clock jumped back", "clock strobed", "clock ran fast", "clock ran slow"),
    healed=20,
    check=_check,
    ways={
        "clock": Ways(
            (_clocks("clock-jump", jump), _clocks("clock-drift", drift), _clocks("clock-strobe", strobe)),
            "clocks in turn jump, run too fast or too slow, and jump back and forth",
        ),
        "clock-jump": Ways((_clocks("clock-jump", jump),), "wall clocks jump by 10 ms to an hour, either way"),
        "clock-drift": Ways((_clocks("clock-drift", drift),), "clocks run 0.1 to 10 % too fast or too slow"),
        "clock-strobe": Ways(
            (_clocks("clock-strobe", strobe),), "wall clocks jump back and forth every 10 to 1,000 ms"
        ),
    },
)
