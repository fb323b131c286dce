"""Links between clients and nodes that are cut, late or unreliable: requests and answers are lost, late or repeated.

An op has the spec of its target nodes (`spec`) and what the links between them and all clients do (`trouble`). A
request whose answer is lost was carried out or not: the client cannot know. The figures are drawn when the op is
scheduled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from splitbrain.harness.contract.faults import ClientFault, FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.draws import magnitude, share
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.kinds import Figures, Injection, Kind, Ways, always
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.targets import choose, fewest, needs_views, views
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import RequestOfNodes, asked


class ClientsRequest(RequestOfNodes, tag="clients", frozen=True, kw_only=True):
    """What the links between clients and some nodes do."""

    trouble: ClientFault

    def __post_init__(self) -> None:
        """Refuse a fault that does nothing (UsageError)."""
        if self.trouble == ClientFault():
            raise UsageError("the fault of client links has no effect: give it a cut, a loss, a delay, ...")


_MARKS: Final[Mapping[str, str]] = {
    "swallowed": "messages of clients swallowed",
    "lost": "messages of clients lost",
    "duplicated": "messages of clients duplicated",
    "delayed": "messages of clients delayed",
    "held": "messages of clients held",
    "reset": "client connection reset",
}
"""Coverage marks by what backends count."""


class Clients:
    """Injects faults into links of clients (`start-clients`) and removes them (`stop-clients`).

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"start-clients", "stop-clients"})
    faults: frozenset[FaultKind] = frozenset({"client-links"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Replace the faults of all links of clients, and report what the former ones did."""

        async def start(effect: Effect) -> None:
            wanted = asked(op.value, ClientsRequest)
            seen = await views(context) if needs_views(wanted.node_spec) else ()
            chosen = choose(wanted.node_spec, wanted.order or context.deployment.nodes, seen)
            effect.hits(chosen, otherwise="no node was chosen")
            await self._set(context, dict.fromkeys(chosen, wanted.trouble))

        async def stop(effect: Effect) -> None:
            effect.hits(self._ledger.clients, otherwise="no link of clients had a fault")
            for node, did in (await self._set(context, {})).items():
                effect.evidence[node] = {"did": dict(did), "bit": any(did.values())}
                for what, mark in _MARKS.items():
                    if did.get(what):
                        reached(mark)

        return await carry_out(context, op, start if op.f == "start-clients" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Remove every fault from every link of clients."""
        await self._set(context, {})

    async def _set(
        self, context: NemesisContext, faults: Mapping[NodeId, ClientFault]
    ) -> Mapping[NodeId, Mapping[str, int]]:
        """Give the links of exactly these nodes' clients these faults; what the former ones did."""
        did = await context.deployment.disturb_clients(faults)
        self._ledger.clients = dict(faults)
        return did


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _lossy(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    return {"trouble": {"loss": share(rng, 0.05, 0.4)}}


def _repeating(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    return {"trouble": {"duplicate": share(rng, 0.05, 0.6)}}


def _late(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    delay_ms = magnitude(rng, 20, 2_000)
    return {"trouble": {"delay_ms": delay_ms, "jitter_ms": rng.between(0, delay_ms)}}


def _flaky(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    return {"trouble": {"resets": share(rng, 0.5, 3.0)}}


_SPECS: Final = ("one", "leader", "minority", "majority", "all")


def _drawn(figures: Figures | None, *fixed: Mapping[str, Any]) -> tuple[Injection, ...]:
    return tuple(
        Injection({"spec": spec, **each}, nodes=fewest(spec), figures=figures, needs=("client-links",))
        for each in (fixed or ({},))
        for spec in _SPECS
    )


_REQUESTS: Final = {"cut_requests": True}
_ANSWERS: Final = {"cut_answers": True}
_CUTS: Final = _drawn(None, *({"trouble": cut} for cut in ({**_REQUESTS, **_ANSWERS}, _REQUESTS, _ANSWERS)))
_HELD: Final = _drawn(None, {"trouble": {"held": True}})

KIND: Final = Kind(
    request=ClientsRequest,
    nemesis=Clients,
    start_f="start-clients",
    stop_f="stop-clients",
    example='{"spec": "leader", "trouble": {"cut_answers": true}}',
    needs=always("client-links"),
    marks=tuple(_MARKS.values()),
    healed=11,
    ways={
        "clients": Ways(
            (_CUTS, _drawn(_repeating), (*_drawn(_late), *_HELD), (*_drawn(_flaky), *_drawn(_lossy))),
            "links between clients and nodes are cut, repeat messages, delay or hold them, lose them or break, in turn",
        ),
        "partition-clients": Ways((_CUTS,), "cuts nodes off from clients: both ways, requests only or answers only"),
        "clients-repeat": Ways((_drawn(_repeating),), "5 to 60 % of requests and answers arrive twice"),
        "clients-late": Ways(((*_drawn(_late), *_HELD),), "requests and answers take 20 ms to 4 s longer, or wait"),
        "clients-flaky": Ways((_drawn(_flaky),), "connections of clients break 0.5 to 3 times a second"),
        "clients-loss": Ways((_drawn(_lossy),), "5 to 40 % of requests and answers vanish"),
    },
)
