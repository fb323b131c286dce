"""A discovery service that is slow, incomplete or down, or that forgets who has its lock.

Nodes without data find each other by it, so it matters while a cluster forms. Nodes in a cluster do without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.harness.contract.discovery import Discovery, DiscoveryTrouble
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.kinds import Asked, Figures, Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.results.errors import NemesisError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Request, asked

FAULT: Final = "discovery"

SLOW_MS: Final = (300, 4000)
LEFT_OUT: Final = (0.2, 0.6)
"""The range of the share of nodes that answers leave out."""


class DiscoveryRequest(Request, tag="discovery", frozen=True, kw_only=True):
    """What the service does wrong (`DiscoveryTrouble`)."""

    trouble: DiscoveryTrouble = DiscoveryTrouble()


class Troubles:
    """Lets the discovery service do something wrong (`trouble-discovery`), and be well again (`mend-discovery`).

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"trouble-discovery", "mend-discovery"})
    faults: frozenset[FaultKind] = frozenset({"discovery"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Do what the op says; a stop reports how often nodes asked meanwhile, and whether the trouble met one."""

        async def start(effect: Effect) -> None:
            trouble = asked(op.value, DiscoveryRequest).trouble
            _check(trouble)
            await _service(context).trouble(context.deployment, trouble)
            effect.target = "the discovery service"
            effect.evidence |= {"service": msgspec.to_builtins(trouble)}

        async def stop(effect: Effect) -> None:
            effect.evidence |= await _service(context).trouble(context.deployment, None)
            effect.target = "the discovery service"

        return await carry_out(context, op, start if op.f == "trouble-discovery" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """The service is well again."""
        await _service(context).trouble(context.deployment, None)


def _service(context: NemesisContext) -> Discovery:
    system = context.test.system
    service = system.capabilities.discovery
    if service is None:
        raise NemesisError(f"{FAULT}: nodes of system {system.name!r} find each other without a service.")
    return service


def _check(trouble: DiscoveryTrouble) -> None:
    if trouble == DiscoveryTrouble():
        raise UsageError('a discovery fault says what is wrong: {"trouble": {"down": true}}, for instance.')


def _request_is_complete(given: Asked[DiscoveryRequest]) -> None:
    _check(given.request.trouble)


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _drawn(way: str) -> Figures:
    """For `Injection.figures`."""

    def figures(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
        match way:
            case "slow":
                found = DiscoveryTrouble(slow_ms=float(rng.between(*SLOW_MS)))
            case "incomplete":
                low, high = LEFT_OUT
                found = DiscoveryTrouble(left_out=round(low + (high - low) * rng.random(), 2))
            case _:
                found = DiscoveryTrouble(slow_ms=float(rng.between(1, SLOW_MS[0])), forgets_lock=True)
        return {"trouble": msgspec.to_builtins(found)}

    return figures


_SLOW: Final = (Injection({}, figures=_drawn("slow"), needs=("discovery",)),)
_INCOMPLETE: Final = (Injection({}, figures=_drawn("incomplete"), needs=("discovery",)),)
_FORGETS: Final = (Injection({}, figures=_drawn("forgets"), needs=("discovery",)),)
_DOWN: Final = (Injection({"trouble": msgspec.to_builtins(DiscoveryTrouble(down=True))}, needs=("discovery",)),)

KIND: Final = Kind(
    request=DiscoveryRequest,
    nemesis=Troubles,
    start_f="trouble-discovery",
    stop_f="mend-discovery",
    example='{"trouble": {"left_out": 0.5}}',
    needs=always("discovery"),
    healed=15,
    check=_request_is_complete,
    ways={
        "discovery": Ways(
            (_SLOW, _INCOMPLETE, _DOWN, _FORGETS),
            "the service by which nodes find each other is slow, leaves nodes out, is down, or forgets its lock",
        ),
        "discovery-slow": Ways((_SLOW,), "answers of the discovery service take up to 4 s"),
        "discovery-incomplete": Ways((_INCOMPLETE,), "lists of the discovery service leave nodes out"),
        "discovery-down": Ways((_DOWN,), "the discovery service does not answer"),
        "discovery-lock": Ways((_FORGETS,), "the discovery service forgets who has its lock"),
    },
)
"""How the discovery service fails."""
