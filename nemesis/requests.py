"""Requests of nemesis ops, as plans and schedule files carry them: what they need of a backend, and whether they make
sense before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.faults import ClockFault, DiskFault, FaultKind, LinkFault
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.generators.script import ScriptedFault
from splitbrain.nemesis import bounce, clock, cpu, disk, membership, packet, swizzle
from splitbrain.nemesis.catalogue import KINDS
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.partition import SHAPES
from splitbrain.nemesis.targets import SPECS, fewest
from splitbrain.results.errors import UnknownNameError, UsageError

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
    """The kind of fault that a nemesis op is about (a key of `splitbrain.nemesis.catalogue.KINDS`).

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
    _check(kind, f, own, cast("list[NodeId]", order), nodes)
    over = {"over": True} if kind in ("bounce", "restart") else {}
    return {"fault": kind, "action": action, **own, **over, "order": order}


def check_sequence(placed: Iterable[tuple[str, ScriptedFault]]) -> None:
    """Refuse nemesis ops that are not in the order of their times, and heals of what did not begin.

    Args:
        placed: ops, each with the place at which it was found, for messages.

    Raises:
        UsageError: one is out of order, heals nothing, or there is no such op.
    """
    begun: dict[str, None] = {}
    last_ns = 0
    for place, fault in placed:
        kind = kind_of(fault.f)
        if fault.at_ns < last_ns:
            raise UsageError(
                f"{place}: {fault.f} is due at {fault.at_ns / 1e9:g} s, before the op that stands before it "
                f"({last_ns / 1e9:g} s): put them in the order of their times."
            )
        if _ACTIONS[fault.f][1] == "start":
            begun[kind] = None
        elif kind not in begun:
            raise UsageError(f"{place}: {fault.f} heals a {kind} fault, and none begins before it: leave it out.")
        last_ns = fault.at_ns


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
    except (msgspec.ValidationError, UsageError):
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


class _Asked(NamedTuple):
    """A request to be checked: the op's function, its own fields, its order of nodes, and the nodes of the test."""

    f: str
    own: Mapping[str, Any]
    order: Sequence[NodeId]
    nodes: Sequence[NodeId]


def _check(kind: str, f: str, own: Mapping[str, Any], order: Sequence[NodeId], nodes: Sequence[NodeId]) -> None:
    """Refuse what the nemesis of this kind would refuse, and names that it would pass over."""
    _check_name(f"node spec of {f}", own.get("spec", "one"), membership.SPECS if kind == membership.FAULT else SPECS)
    spec = str(own.get("spec", "one"))
    _check_enough(order, fewest(spec), f"{f}: the node spec {spec!r}")
    if kind in _CHECKS:
        try:
            _CHECKS[kind](_Asked(f, own, order, nodes))
        except UnknownNameError:
            raise
        except UsageError as error:
            raise UsageError(str(error) if str(error).startswith(f) else f"{f}: {error}") from None


def _check_partition(asked: _Asked) -> None:
    shape = asked.own.get("shape")
    _check_name(f"shape of {asked.f}", shape, [*SHAPES, swizzle.SHAPE])
    steps = [name for name in asked.own if name != "shape"]
    if shape == swizzle.SHAPE:
        _check_nodes(asked.f, "nodes", asked.own.get("nodes"), asked.nodes)
        _check_nodes(asked.f, "heal_nodes", asked.own.get("heal_nodes"), asked.nodes)
        found = swizzle.read({"pauses_ms": [], "heal_pauses_ms": [], **asked.own}, asked.nodes)
        if sorted(found.nodes) != sorted(found.heal_nodes) or len(set(found.nodes)) != len(found.nodes):
            raise UsageError("a swizzle lets back (heal_nodes) the nodes that it cuts off (nodes), each of them once.")
    elif steps:
        raise UsageError(f"the shape {shape!r} has no steps: leave {', '.join(steps)} out.")
    needed = 2 if shape == swizzle.SHAPE else SHAPES[str(shape)].nodes
    _check_enough(asked.order, needed, f"a partition of shape {shape}")


def _check_packet(asked: _Asked) -> None:
    scope = asked.own.get("scope", packet.ALL_LINKS)
    _check_name(f"scope of {asked.f}", scope, [packet.ALL_LINKS, packet.ONE_LINK, *packet.SIDES])
    if "spec" in asked.own and scope not in packet.SIDES:
        raise UsageError(f"the scope {scope!r} takes no spec: leave it out, or take {', '.join(packet.SIDES)}.")
    _check_fault(asked.f, "disturb", asked.own.get("disturb"), LinkFault)
    _check_enough(asked.order, 2, "a fault of links")


def _check_disk(asked: _Asked) -> None:
    _check_fault(asked.f, "spoil", asked.own.get("spoil"), DiskFault)
    _check_enough(asked.nodes, disk.NODES_MIN, "a fault of disks")


def _check_clock(asked: _Asked) -> None:
    skews = cast("dict[str, Any]", asked.own["skew"] if isinstance(asked.own.get("skew"), dict) else {})
    _check_nodes(asked.f, "skew", list(skews), asked.nodes)
    for skew in skews.values():
        _check_fault(asked.f, "skew", skew, ClockFault)
    clock.faults_of(asked.own)
    if not set(skews).intersection(asked.order):
        raise UsageError(f"its skew is of {', '.join(skews)}, and its order has none of them.")


def _check_cpu(asked: _Asked) -> None:
    cpu.share_of(asked.own)


def _check_bounce(asked: _Asked) -> None:
    if asked.own.get("over", True) is not True:
        raise UsageError(
            f"it is over when it ends, and that cannot be otherwise: leave over out, not {asked.own['over']!r}."
        )
    if "when" in asked.own:
        _check_name(f"moment (when) of {asked.f}", asked.own["when"], ["election"])
        if "nodes" in asked.own or "pauses_ms" in asked.own:
            raise UsageError("who is bounced in an election, the election decides: leave nodes and pauses_ms out.")
        return
    _check_nodes(asked.f, "nodes", asked.own.get("nodes"), asked.nodes)
    bounce.read({"pauses_ms": [], **asked.own}, asked.nodes)


def _check_restart(asked: _Asked) -> None:
    if asked.own.get("over", True) is not True:
        raise UsageError(
            f"it is over when it ends, and that cannot be otherwise: leave over out, not {asked.own['over']!r}."
        )


def _check_membership(asked: _Asked) -> None:
    _check_enough(asked.nodes, membership.NODES_MIN, "a change of members")


_CHECKS: Final[Mapping[str, Callable[[_Asked], None]]] = {
    "partition": _check_partition,
    "packet": _check_packet,
    "disk": _check_disk,
    "clock": _check_clock,
    "cpu": _check_cpu,
    "bounce": _check_bounce,
    "restart": _check_restart,
    "membership": _check_membership,
}
"""By kind of fault: refuses a request with a UsageError that says why."""


def _check_enough(nodes: Sequence[NodeId], needed: int, what: str) -> None:
    if len(nodes) < needed:
        raise UsageError(f"{what} needs {needed} nodes, and there are {len(nodes)}.")


def _check_name(what: str, name: Any, known: Mapping[str, Any] | Sequence[str]) -> None:
    if name not in list(known):
        raise UnknownNameError(what, str(name), list(known))


def _check_nodes(f: str, field: str, listed: Any, nodes: Sequence[NodeId]) -> None:
    if not isinstance(listed, list) or not listed:
        raise UsageError(f"{f}: {field} names nodes, such as {', '.join(nodes[:2])}.")
    for node in cast("list[Any]", listed):
        if node not in nodes:
            raise UsageError(f"{f}: {field} names {node!r}; the nodes are {', '.join(nodes)}.")
    if field == "order" and len(set(cast("list[str]", listed))) != len(cast("list[str]", listed)):
        raise UsageError(f"{f}: order names a node twice: {', '.join(cast('list[str]', listed))}.")


def _check_fault(f: str, field: str, given: Any, shape: type[_Fault]) -> None:
    example = _EXAMPLES[kind_of(f)]
    if not isinstance(given, dict):
        raise UsageError(f"{f} says in {field} what goes wrong, as in {example}.")
    for name in cast("dict[str, Any]", given):
        if name not in shape.__struct_fields__:
            raise UnknownNameError(f"field of {field}", name, shape.__struct_fields__)
    try:
        fault = msgspec.convert(given, shape)
    except (msgspec.ValidationError, UsageError) as error:
        raise UsageError(f"{f}: {field}: {str(error).rstrip('.')}.") from None
    if isinstance(fault, DiskFault) and fault.wipe:
        raise UsageError(f"{f}: a disk is wiped when its node leaves the cluster, and only then: use the op leave.")
    if fault == shape():
        raise UsageError(f"{f}: {field} does nothing at all; it should be as in {example}.")
