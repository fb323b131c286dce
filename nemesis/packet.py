"""Links that lose, double, reorder, corrupt, delay, throttle or hold back messages, or break connections.

An op has the fault (`disturb`, the fields of `LinkFault`), its links (`scope`: "all", "link", or a key of `SIDES`),
and, if the scope needs them, the nodes (`spec`, a key of `splitbrain.nemesis.targets.SPECS`). The figures are drawn
when the op is scheduled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faultkinds import LINK_KINDS, of_link
from splitbrain.harness.contract.faults import FaultKind, LinkFault
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import Link, NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.checks import check_enough, check_name
from splitbrain.nemesis.draws import magnitude, share
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.grudges import all_links
from splitbrain.nemesis.kinds import Asked, Figures, Injection, Kind, Ways
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.targets import choose, fewest, needs_views, views
from splitbrain.results.errors import NemesisError, UnknownNameError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import RequestOfNodes, asked

ALL_LINKS: Final = "all"
"""The scope of every link."""

ONE_LINK: Final = "link"
"""The scope of one directed link: from the first node of the order to the second."""

Side = Callable[[Link, Sequence[NodeId]], bool]

SIDES: Final[Mapping[str, Side]] = {
    "node": lambda link, chosen: link[0] in chosen or link[1] in chosen,
    "out": lambda link, chosen: link[0] in chosen,
    "in": lambda link, chosen: link[1] in chosen,
}
"""Scopes of links that belong to nodes: whether a link has the fault if these nodes are chosen."""


class PacketRequest(RequestOfNodes, tag="packet", frozen=True, kw_only=True):
    """What links do.

    Attributes:
        disturb: what each of them does.
        scope: which links: `ALL_LINKS`, `ONE_LINK`, or a key of `SIDES`, which needs the nodes of `spec`.
    """

    disturb: LinkFault
    scope: str = ALL_LINKS

    def __post_init__(self) -> None:
        """Refuse a fault that does nothing (UsageError)."""
        if self.disturb == LinkFault():
            raise UsageError("the link fault has no effect: give it a loss, a delay, ...")


_WORDS: Final[Mapping[str, str]] = {"node": "all links of", "out": "links out of", "in": "links into"}


def loss(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """5 to 40 % of all messages vanish."""
    return {"disturb": {"loss": share(rng, 0.05, 0.4)}}


def duplicate(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """5 to 40 % of all messages arrive twice."""
    return {"disturb": {"duplicate": share(rng, 0.05, 0.4)}}


def reorder(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """5 to 50 % of all messages are overtaken."""
    return {"disturb": {"reorder": share(rng, 0.05, 0.5)}}


def delay(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """Messages take 20 to 500 ms longer, and up to as long again."""
    delay_ms = magnitude(rng, 20, 500)
    return {"disturb": {"delay_ms": delay_ms, "jitter_ms": rng.between(0, delay_ms)}}


def corrupt(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """1 to 20 % of all messages have a bit flipped."""
    return {"disturb": {"corrupt": share(rng, 0.01, 0.2)}}


def rate(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """Links carry 16 to 512 kbit/s."""
    return {"disturb": {"rate_kbit": magnitude(rng, 16, 512)}}


def mtu(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """Packets of more than 80 to 600 bytes vanish, mostly small limits: heartbeats pass, messages with data do not."""
    return {"disturb": {"mtu": rng.between(80, rng.choice((160, 600)))}}


def flaky(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """Connections break 0.5 to 3 times a second."""
    return {"disturb": {"resets": share(rng, 0.5, 3.0)}}


_MARKS: Final[Mapping[str, str]] = {
    "lost": "messages lost",
    "duplicated": "messages duplicated",
    "reordered": "messages reordered",
    "delayed": "messages delayed",
    "held": "messages held",
    "corrupted": "messages corrupted",
    "queued": "messages queued",
    "oversized": "messages oversized",
    "reset": "connection reset",
}
"""Coverage marks by what backends count."""


class Packet:
    """Injects faults into links (`start-packet`) and removes them (`stop-packet`).

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"start-packet", "stop-packet"})
    faults: frozenset[FaultKind] = frozenset(LINK_KINDS)

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Replace the faults of all links, verify them, and report what the former ones did."""

        async def start(effect: Effect) -> None:
            wanted = asked(op.value, PacketRequest)
            links = await self._links(context, wanted, effect)
            listed = await self._set(context.deployment, dict.fromkeys(links, wanted.disturb))
            effect.evidence["links_disturbed"] = len(listed)

        async def stop(effect: Effect) -> None:
            counts = await context.deployment.disturbed()
            effect.target = "all links"
            effect.evidence.update(_record_effects(counts))
            await self._set(context.deployment, {})

        return await carry_out(context, op, start if op.f == "start-packet" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Remove every fault from every link.

        Raises:
            NemesisError: a link keeps its fault.
        """
        await self._set(context.deployment, {})

    async def _set(self, deployment: Deployment, faults: Mapping[Link, LinkFault]) -> list[Link]:
        """Inject faults into exactly these links; verify that exactly these have one and that clogged ones are blocked.

        Returns the links that have one.
        """
        self._ledger.clogged = frozenset()  # where it fails, links are left without faults
        await deployment.disturb(faults)
        self._ledger.clogged = frozenset(link for link, fault in faults.items() if fault.held)
        listed = await deployment.disturbed()
        wrong = [(link, "has a fault") for link in sorted(listed) if link not in faults]
        wrong += [(link, "has no fault") for link in sorted(faults) if link not in listed]
        clogged = sorted(self._ledger.clogged)
        passes: Mapping[Link, bool] = await deployment.passes(clogged) if clogged else {}
        wrong += [(link, "passes") for link in clogged if passes[link]]
        if wrong:
            seen = ", ".join(f"{source} -> {destination} {what}" for (source, destination), what in wrong)
            raise NemesisError(f"the links are not as they were set: {seen}.")
        return sorted(listed)

    async def _links(self, context: NemesisContext, wanted: PacketRequest, effect: Effect) -> list[Link]:
        """The target links of a request, sorted."""
        order = wanted.order or context.deployment.nodes
        if len(order) < 2:
            raise NemesisError("a fault of links needs 2 nodes, and there is one.")
        scope = wanted.scope
        if scope == ALL_LINKS:
            effect.target = "all links"
            return list(all_links(order))
        if scope == ONE_LINK:
            effect.target = f"{order[0]} -> {order[1]}"
            return [(order[0], order[1])]
        if scope not in SIDES:
            raise UnknownNameError("scope of links", scope, [ALL_LINKS, ONE_LINK, *SIDES])
        chosen = choose(wanted.node_spec, order, await views(context) if needs_views(wanted.node_spec) else ())
        effect.target = f"{_WORDS[scope]} {' '.join(chosen)}"
        return [link for link in all_links(order) if SIDES[scope](link, chosen)]


def _record_effects(counts: Mapping[Link, Mapping[str, int]]) -> dict[str, Any]:
    """What the faults did: in all, and link by link; whether they did anything."""
    totals: dict[str, int] = {}
    for link in sorted(counts):
        for what in sorted(counts[link]):
            totals[what] = totals.get(what, 0) + counts[link][what]
    for what, mark in _MARKS.items():
        if totals.get(what):
            reached(mark)
    by_link = [[*link, dict(counts[link])] for link in sorted(counts) if counts[link]]
    return {"did": totals, "did_by_link": by_link, "bit": any(totals.values())}


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _check(given: Asked[PacketRequest]) -> None:
    scope = given.request.scope
    check_name("scope", scope, [ALL_LINKS, ONE_LINK, *SIDES], f"of {given.f}")
    if given.request.spec is not None and scope not in SIDES:
        raise UsageError(f"the scope {scope!r} takes no spec: remove it, or use the scope {' or '.join(SIDES)}.")
    check_enough(given.order, 2, "a fault of links")


def _somewhere(need: FaultKind, figures: Figures) -> tuple[Injection, ...]:
    """The faults of links, on each selection of links."""
    requests = [
        *({"scope": scope} for scope in (ALL_LINKS, ONE_LINK)),
        *({"scope": scope, "spec": spec} for scope in SIDES for spec in ("one", "leader")),
    ]
    return tuple(Injection(request, nodes=2, figures=figures, needs=(need,)) for request in requests)


def _clogs(*scopes: str) -> tuple[Injection, ...]:
    return tuple(
        Injection(
            {"scope": scope, "spec": spec, "disturb": {"held": True}}, nodes=max(2, fewest(spec)), needs=("hold",)
        )
        for scope in scopes
        for spec in ("one", "leader", "minority")
    )


KIND: Final = Kind(
    request=PacketRequest,
    nemesis=Packet,
    start_f="start-packet",
    stop_f="stop-packet",
    example='{"scope": "all", "disturb": {"loss": 0.2}}',
    needs=lambda request: of_link(request.disturb),
    marks=tuple(_MARKS.values()),
    healed=12,
    check=_check,
    ways={
        "packet": Ways(
            (
                (*_somewhere("loss", loss), *_somewhere("corrupt", corrupt)),
                _somewhere("duplicate", duplicate),
                _somewhere("reorder", reorder),
                (*_somewhere("delay", delay), *_somewhere("rate", rate)),
                (*_somewhere("reset", flaky), *_somewhere("mtu", mtu)),
            ),
            "links in turn lose or corrupt, double, reorder, delay or throttle messages, and break connections or "
            "swallow large packets",
        ),
        "clog": Ways((_clogs("in"), _clogs("out")), "holds back what nodes receive, and what they send, in turn"),
        "packet-loss": Ways((_somewhere("loss", loss),), "links lose 5 to 40 % of the messages"),
        "packet-duplicate": Ways(
            (_somewhere("duplicate", duplicate),), "links deliver 5 to 40 % of the messages twice"
        ),
        "packet-reorder": Ways((_somewhere("reorder", reorder),), "on links 5 to 50 % of the messages are overtaken"),
        "packet-delay": Ways((_somewhere("delay", delay),), "links take 20 to 500 ms longer, with as much jitter"),
        "packet-corrupt": Ways((_somewhere("corrupt", corrupt),), "links flip bits in 1 to 20 % of messages"),
        "packet-rate": Ways((_somewhere("rate", rate),), "links carry 16 to 512 kbit/s"),
        "packet-mtu": Ways((_somewhere("mtu", mtu),), "packets of more than 80 to 600 bytes vanish"),
        "packet-flaky": Ways((_somewhere("reset", flaky),), "links break connections 0.5 to 3 times a second"),
        "clog-in": Ways((_clogs("in"),), "holds back what nodes receive, until it is healed"),
        "clog-out": Ways((_clogs("out"),), "holds back what nodes send, until it is healed"),
    },
)
