"""Requests of nemesis ops, as plans and schedule files carry them: what they need of a backend, and whether they make
sense before anything is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec

from harness import faultkinds
from harness.protocols import ClockFault, DiskFault, FaultKind, LinkFault, NodeId
from nemesis import membership, packet, swizzle
from nemesis.catalogue import KINDS
from nemesis.ledger import Ledger
from nemesis.partition import SHAPES
from nemesis.targets import SPECS
from results.errors import UnknownNameError, UsageError

_ACTIONS: Final = {
    f: (kind, action)
    for kind, found in KINDS.items()
    for f, action in ((found.start_f, "start"), (found.stop_f, "stop"))
}
"""By function of an op: the kind of fault, and whether the op starts it."""

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "partition": ("shape", "nodes", "pauses_ms", "heal_nodes", "heal_pauses_ms"),
    "packet": ("disturb", "scope", "spec"),
    "clock": ("skew", "spec"),
    "disk": ("spoil", "spec"),
    "cpu": ("share", "spec"),
    "pause": ("spec",),
    "kill": ("spec",),
    "bounce": ("nodes", "pauses_ms", "when", "over"),
    "restart": ("over",),
    "power": ("spec",),
    "membership": ("spec",),
}
"""By kind of fault: what its request can carry, beside `fault`, `action` and `order`."""

_Fault = TypeVar("_Fault", LinkFault, DiskFault, ClockFault)


def kind_of(f: str) -> str:
    """The kind of fault that a nemesis op is about (a key of `nemesis.catalogue.KINDS`).

    Raises:
        UnknownNameError: there is no such op.
    """
    if f not in _ACTIONS:
        raise UnknownNameError("nemesis op", f, _ACTIONS)
    return _ACTIONS[f][0]


def complete(f: str, value: Any, nodes: Sequence[NodeId]) -> dict[str, Any]:
    """A request as a nemesis expects it, checked: kind and action are those of the op, a missing order that of `nodes`.

    Raises:
        UsageError: there is no such op, or it asks for something that no nemesis understands.
    """
    kind = kind_of(f)
    action = _ACTIONS[f][1]
    if value is not None and not isinstance(value, dict):
        raise UsageError(f"{f} carries a mapping such as {_EXAMPLES[kind]}, not {value!r}.")
    given = cast("dict[str, Any]", value or {})
    for name, expected in (("fault", kind), ("action", action)):
        if given.get(name, expected) != expected:
            raise UsageError(f"{f} has the {name} {expected!r}, not {given[name]!r}: leave it out.")
    own = {name: what for name, what in given.items() if name not in ("fault", "action", "order")}
    if action == "stop":
        if own:
            raise UsageError(f"{f} heals all that is in force of its kind; it takes no {', '.join(own)}.")
        return {"fault": kind, "action": action}
    for name in own:
        if name not in _FIELDS[kind]:
            raise UnknownNameError(f"field of {f}", name, [*_FIELDS[kind], "order"])
    order = given.get("order", list(nodes))
    _check_nodes(f, "order", order, nodes)
    _check(kind, f, own, nodes)
    over = {"over": True} if kind in ("bounce", "restart") else {}
    return {"fault": kind, "action": action, **own, **over, "order": order}


def needs_of(value: Any) -> frozenset[FaultKind]:
    """The kinds of fault that a request needs of a backend; none if it heals, or if no nemesis here understands it."""
    if not isinstance(value, dict):
        return frozenset()
    request = cast("dict[str, Any]", value)
    kind = str(request.get("fault"))
    if kind not in KINDS or request.get("action") == "stop":
        return frozenset()
    try:
        if kind == "packet":
            return frozenset(faultkinds.of_link(msgspec.convert(request.get("disturb"), LinkFault)))
        if kind == "disk":
            return frozenset({*faultkinds.of_disk(msgspec.convert(request.get("spoil"), DiskFault)), "kill"})
        if kind == "clock":
            skews = msgspec.convert(request.get("skew"), dict[str, ClockFault])
            return frozenset(need for fault in skews.values() for need in faultkinds.of_clock(fault))
    except msgspec.ValidationError:
        return frozenset()
    return KINDS[kind].nemesis(Ledger()).faults


# --- checks -----------------------------------------------------------------------------------------------------------

_EXAMPLES: Final[Mapping[str, str]] = {
    "partition": '{"shape": "halves"}',
    "packet": '{"scope": "all", "disturb": {"loss": 0.2}}',
    "clock": '{"spec": "one", "skew": {"n1": {"offset_ms": 5000}}}',
    "disk": '{"spec": "leader", "spoil": {"full": true}}',
    "cpu": '{"spec": "leader", "share": 0.05}',
    "pause": '{"spec": "leader"}',
    "kill": '{"spec": "minority"}',
    "bounce": '{"nodes": ["n1", "n2"], "pauses_ms": [50, 50]}',
    "restart": "{}",
    "power": '{"spec": "all"}',
    "membership": '{"spec": "leader"}',
}


def _check(kind: str, f: str, own: Mapping[str, Any], nodes: Sequence[NodeId]) -> None:
    """Refuse what the nemesis of this kind would refuse, and names that it would pass over."""
    _check_name(f"node spec of {f}", own.get("spec", "one"), membership.SPECS if kind == membership.FAULT else SPECS)
    if kind == "partition":
        _check_name(f"shape of {f}", own.get("shape"), [*SHAPES, swizzle.SHAPE])
    elif kind == "packet":
        _check_name(
            f"scope of {f}", own.get("scope", packet.ALL_LINKS), [packet.ALL_LINKS, packet.ONE_LINK, *packet.SIDES]
        )
        _check_fault(f, "disturb", own.get("disturb"), LinkFault)
    elif kind == "disk":
        _check_fault(f, "spoil", own.get("spoil"), DiskFault)
    elif kind == "clock":
        skews = cast("dict[str, Any]", own["skew"] if isinstance(own.get("skew"), dict) else {})
        _check_nodes(f, "skew", list(skews), nodes)
        for skew in skews.values():
            _check_fault(f, "skew", skew, ClockFault)
    elif kind == "cpu":
        share: Any = own.get("share")
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise UsageError(f"{f} leaves a share of a CPU, above 0 and at most 1, as in {_EXAMPLES['cpu']}.")
    elif kind == "bounce" and own.get("when") != "election":
        _check_nodes(f, "nodes", own.get("nodes"), nodes)
    if kind == "partition" and own.get("shape") == swizzle.SHAPE:
        _check_nodes(f, "nodes", own.get("nodes"), nodes)
        _check_nodes(f, "heal_nodes", own.get("heal_nodes"), nodes)
    for name in ("pauses_ms", "heal_pauses_ms"):
        _check_pauses(f, name, own.get(name, []))


def _check_name(what: str, name: Any, known: Mapping[str, Any] | Sequence[str]) -> None:
    if name not in list(known):
        raise UnknownNameError(what, str(name), list(known))


def _check_nodes(f: str, field: str, listed: Any, nodes: Sequence[NodeId]) -> None:
    if not isinstance(listed, list) or not listed:
        raise UsageError(f"{f}: {field} names nodes, such as {', '.join(nodes[:2])}.")
    for node in cast("list[Any]", listed):
        if node not in nodes:
            raise UsageError(f"{f}: {field} names {node!r}; the nodes are {', '.join(nodes)}.")


def _check_pauses(f: str, field: str, listed: Any) -> None:
    pauses = cast("list[Any]", listed) if isinstance(listed, list) else [None]
    if not all(type(pause) is int and pause >= 0 for pause in pauses):
        raise UsageError(f"{f}: {field} is a list of milliseconds, whole numbers of 0 or more.")


def _check_fault(f: str, field: str, given: Any, shape: type[_Fault]) -> None:
    example = _EXAMPLES[kind_of(f)]
    if not isinstance(given, dict):
        raise UsageError(f"{f} says in {field} what goes wrong, as in {example}.")
    for name in cast("dict[str, Any]", given):
        if name not in shape.__struct_fields__:
            raise UnknownNameError(f"field of {field}", name, shape.__struct_fields__)
    try:
        fault = msgspec.convert(given, shape)
    except msgspec.ValidationError as error:
        raise UsageError(f"{f}: {field}: {error}.") from None
    if isinstance(fault, DiskFault) and fault.wipe:
        raise UsageError(f"{f}: a disk is wiped when its node leaves the cluster, and only then: use the op leave.")
    if fault == shape():
        raise UsageError(f"{f}: {field} does nothing at all; it should be as in {example}.")
