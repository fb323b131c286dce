"""Requests of nemesis ops in plans and schedule files: checks before anything is started, and what they need from a
backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast, get_args, get_origin, get_type_hints

import msgspec

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.generators.script import ScriptedFault
from splitbrain.nemesis.catalogue import kind_of
from splitbrain.nemesis.checks import check_enough, check_name, check_nodes
from splitbrain.nemesis.kinds import Asked, Kind
from splitbrain.nemesis.targets import fewest
from splitbrain.results.errors import UnknownNameError, UsageError
from splitbrain.results.nemesisop import RequestOfNodes, action_in, asked, fault_in, order_in, own_fields, request


def complete(f: str, value: Any, nodes: Sequence[NodeId], named: Sequence[str] = ()) -> dict[str, Any]:
    """A checked request: kind and action are those of the op, a missing order is that of `nodes`.

    Args:
        f: the function of the op.
        value: what the op carries; None for nothing.
        nodes: of the test.
        named: names of `--nemesis`: kinds of other packages are searched among them.

    Raises:
        UsageError: there is no such op, or its request is not valid.
    """
    kind = kind_of(f, named)
    action = "start" if f == kind.start_f else "stop"
    if value is not None and not isinstance(value, dict):
        raise UsageError(f"{f} needs a mapping such as {kind.example}, not {value!r}.")
    for name, given, expected in (("fault", fault_in(value), kind.name), ("action", action_in(value), action)):
        if given not in (None, expected):
            raise UsageError(f"{f} has the {name} {expected!r}, not {given!r}: remove it.")
    own = own_fields(value)
    if action == "stop":
        if own:
            raise UsageError(f"{f} heals all that is in force of its kind; it takes no {', '.join(own)}.")
        return request(kind.name, action)
    for name in own:
        if name not in kind.fields:
            raise UnknownNameError("field", name, [*kind.fields, "order"], f"of {f}")
    order = _order(f, value, nodes)
    _check(kind, f, own, order, nodes)
    over = {"over": True} if kind.over else {}
    return request(kind.name, action, **{**own, **over, "order": order})


def check_sequence(placed: Iterable[tuple[str, ScriptedFault]], named: Sequence[str] = ()) -> None:
    """Refuse nemesis ops that are not in the order of their times, and heals of faults that did not begin.

    Args:
        placed: ops, each with the place at which it was found, for messages.
        named: as of `complete`.

    Raises:
        UsageError: one is out of order, heals nothing, or there is no such op.
    """
    begun: dict[str, None] = {}
    last_ns = 0
    for place, fault in placed:
        kind = kind_of(fault.f, named)
        if fault.at_ns < last_ns:
            raise UsageError(
                f"{place}: {fault.f} is due at {fault.at_ns / 1e9:g} s, before the previous op "
                f"({last_ns / 1e9:g} s): put them in the order of their times."
            )
        if fault.f == kind.start_f:
            begun[kind.name] = None
        elif kind.name not in begun:
            raise UsageError(
                f"{place}: {fault.f} heals a {kind.name} fault, and no such fault begins before it: remove it."
            )
        last_ns = fault.at_ns


def needs_of(f: str, value: Any, named: Sequence[str] = ()) -> frozenset[FaultKind]:
    """The kinds of fault that an op needs from a backend; empty if it heals, or if no known nemesis has it.

    Args:
        f: the function of the op.
        value: what it carries.
        named: as of `complete`.
    """
    try:
        kind = kind_of(f, named)
        return frozenset(kind.needs(asked(value, kind.request))) if f == kind.start_f else frozenset()
    except UsageError:
        return frozenset()


def passed_in(f: str, value: Any, named: Sequence[str] = ()) -> tuple[str, ...]:
    """The marks of the system for which an op waits; none for most. Arguments are those of `needs_of`."""
    try:
        kind = kind_of(f, named)
        return tuple(kind.passes(asked(value, kind.request))) if f == kind.start_f else ()
    except UsageError:
        return ()


# --- checks -----------------------------------------------------------------------------------------------------------


def _order(f: str, value: Any, nodes: Sequence[NodeId]) -> list[NodeId]:
    """The order of nodes in a request, that of the test if it gives none."""
    given = order_in(value)
    if given is None:
        return list(nodes)
    listed = cast("list[Any]", given) if isinstance(given, list) else []
    check_nodes(f, "order", listed, nodes)
    if len(set(listed)) != len(listed):
        raise UsageError(f"{f}: order names a node twice: {', '.join(listed)}.")
    return listed


def _check(kind: Kind[Any], f: str, own: Mapping[str, Any], order: Sequence[NodeId], nodes: Sequence[NodeId]) -> None:
    """Refuse what the nemesis of this kind would refuse, and names that it would ignore."""
    for field, shape in _structs(kind.request).items():
        _check_struct(kind, f, field, own.get(field), shape)
    for field, shape in _structs_by_node(kind.request).items():
        given = own.get(field, {})
        for each in cast("dict[str, Any]", given).values() if isinstance(given, dict) else [given]:
            _check_struct(kind, f, field, each, shape)
    try:
        wanted = asked({**own, "order": order}, kind.request)
        if isinstance(wanted, RequestOfNodes):
            check_name("node spec", wanted.node_spec, kind.specs, f"of {f}")
            check_enough(order, fewest(wanted.node_spec), f"{f}: the node spec {wanted.node_spec!r}")
        kind.check(Asked(f, wanted, order, nodes))
    except UnknownNameError:
        raise
    except UsageError as error:
        raise UsageError(str(error) if str(error).startswith(f) else f"{f}: {error}") from None


@cache
def _structs(of: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct]]:
    """The fields that describe the fault, each with its type."""
    hints = get_type_hints(of)
    return {name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, msgspec.Struct)}


@cache
def _structs_by_node(of: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct]]:
    """The fields that describe it for each node."""
    hints = {name: get_args(hint) for name, hint in get_type_hints(of).items() if get_origin(hint) is dict}
    return {name: args[1] for name, args in hints.items() if issubclass(args[1], msgspec.Struct)}


def _check_struct(kind: Kind[Any], f: str, field: str, given: Any, shape: type[msgspec.Struct]) -> None:
    """Refuse a field that does not describe a fault, or describes one without effect."""
    if not isinstance(given, dict):
        raise UsageError(f"{f} needs the fault in {field}, as in {kind.example}.")
    for name in cast("dict[str, Any]", given):
        if name not in shape.__struct_fields__:
            raise UnknownNameError("field", name, shape.__struct_fields__, f"of {field}")
    try:
        fault = msgspec.convert(given, shape)
    except (msgspec.ValidationError, UsageError) as error:
        raise UsageError(f"{f}: {field}: {str(error).rstrip('.')}.") from None
    if fault == shape():
        raise UsageError(f"{f}: {field} has no effect; write it as in {kind.example}.")
