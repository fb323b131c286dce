"""The value of a nemesis op: what was asked for, what is in force afterwards, and what was measured.

An invocation carries a request, and its completion repeats it and adds what came of it. In histories, plans and
schedule files that is JSON. This module is the only one that knows the names in it:

    {"fault": "partition", "action": "start", "shape": "halves", "order": ["n4", ...],   the request
     "target": "n4 | n1 n2", "cut": [["n4", "n1"], ...], "down": [], "paused": [],        the effect
     "evidence": {"links_blocked": 4, ...}}                                               the evidence

Each kind of fault has a request of its own, which derives from `Request` and stands beside its nemesis. What nemeses
report is held to `NemesisReport`. What is stored may be imported or damaged: `said` reads as much of it as makes sense.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec

from splitbrain.results.errors import UsageError

NO_TARGET: Final = "none"
"""How the target of a nemesis op begins that found no node to hit ("none: no node was running").

`splitbrain.nemesis.effects.Effect.nothing` writes it.
"""

_NO_TARGET_BEFORE: Final = "nobody"
"""The same in histories of earlier versions."""

Link: TypeAlias = tuple[str, str]
"""A directed link: the node that sends, and the node that receives."""

R = TypeVar("R", bound="Request")


# --- requests ---------------------------------------------------------------------------------------------------------


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="fault"):
    """What an op that starts a fault asks for. A kind of fault derives its own, with its name as `tag`.

    Attributes:
        order: all nodes, in the order in which a random choice falls on them; empty for that of the test.
    """

    order: tuple[str, ...] = ()


class RequestOfNodes(Request, frozen=True, kw_only=True):
    """A request that is about some nodes.

    Attributes:
        spec: which nodes (a key of `splitbrain.nemesis.targets.SPECS`); None stands for "one".
    """

    spec: str | None = None

    @property
    def node_spec(self) -> str:
        """The spec in force."""
        return self.spec or "one"


def asked(value: Any, of: type[R]) -> R:
    """The request in the value of an op that starts a fault.

    Args:
        value: of the op; None for a request that leaves everything out.
        of: the kind's own request.

    Raises:
        UsageError: it is no such request; the field, and what belongs there.
    """
    try:
        return msgspec.convert({} if value is None else value, of)
    except msgspec.ValidationError as error:
        raise UsageError(f"the request of a {of.__struct_config__.tag} fault cannot be read: {error}.") from None


def request(fault: str, action: Literal["start", "stop"], **fields: Any) -> dict[str, Any]:
    """A request as an op carries it."""
    return {"fault": fault, "action": action, **fields}


def fault_in(value: Any) -> str | None:
    """The kind of fault that a request or a report is about; None if it does not say."""
    found = _mapping(value).get("fault")
    return None if found is None else str(found)


def action_in(value: Any) -> str | None:
    """Whether the op starts or stops a fault; None if its request or report does not say."""
    found = _mapping(value).get("action")
    return None if found is None else str(found)


def order_in(value: Any) -> Any:
    """The order of nodes that a request gives, of any type; None if it gives none."""
    return _mapping(value).get("order")


def own_fields(value: Any) -> dict[str, Any]:
    """What a request says beside its kind, its action and its order."""
    return {name: each for name, each in _mapping(value).items() if name not in ("fault", "action", "order")}


# --- reports ----------------------------------------------------------------------------------------------------------


class InForce(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is wrong after an op, also by other faults. None stands for what the backend could not say.

    Attributes:
        cut: every directed link that is cut.
        down: every node that is stopped.
        paused: every node that is paused.
        links: every directed link with another fault.
        disks: nodes whose disk has a fault.
        clocks: nodes whose clock has a fault.
        cpus: nodes that get little of a CPU.
        clients: nodes whose links to clients have a fault.
    """

    cut: tuple[Link, ...] | None = None
    down: tuple[str, ...] | None = None
    paused: tuple[str, ...] | None = None
    links: tuple[Link, ...] = ()
    disks: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()
    cpus: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()


class NemesisReport(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a nemesis op that was carried out: what coverage, quorum progress and the report judge it by.

    It also repeats the request of the op, and a nemesis may add what it wants. `splitbrain.nemesis.effects.carry_out`
    makes it.

    Attributes:
        fault: the kind of fault ("partition"): one fault of a kind is in force at a time.
        action: whether the op starts the fault or stops it.
        target: the nodes or links that were hit, in words; NO_TARGET and a reason if there was no node to hit.
        cut, down, paused, links, disks, clocks, cpus, clients: as of `InForce`.
        over: whether the fault is over when the op ends.
        evidence: what was measured; "bit" in it, or in the part of a node, says whether the fault did anything.
    """

    fault: str
    action: Literal["start", "stop"]
    target: str
    cut: tuple[Link, ...]
    down: tuple[str, ...]
    paused: tuple[str, ...]
    links: tuple[Link, ...] = ()
    disks: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()
    cpus: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    over: bool = False
    evidence: dict[str, Any] = {}


_StoredReport: Final = msgspec.defstruct(
    "_StoredReport",
    [(field.name, field.type | None, None) for field in msgspec.structs.fields(NemesisReport)],
    frozen=True,
    kw_only=True,
)
"""The same without what earlier versions left out."""


def report(value: Any, target: str, in_force: InForce, evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The value of a completion: what the value of the invocation asks for, and what came of it."""
    found = msgspec.to_builtins(in_force)
    return {
        **_mapping(value),
        "target": target,
        **{name: _plain(listed) for name, listed in found.items()},
        "evidence": dict(evidence),
    }


def report_problem(value: Any) -> str | None:
    """What a report of a nemesis op lacks, as the end of a sentence; None if it is one."""
    if not isinstance(value, dict):
        return f"it is {value!r:.60}, and not a dict"
    lacking = [name for name in REQUIRED if name not in value]
    if lacking:
        return f"{', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} missing"
    try:
        msgspec.convert(value, NemesisReport)
    except msgspec.ValidationError as error:
        return str(error)
    return None


def stored_problem(value: Any) -> str | None:
    """What is damaged in the stored report of a nemesis op; None if nothing is.

    Earlier versions, and histories from elsewhere, may lack fields; those that are there are as in `NemesisReport`.
    """
    if value is None:
        return None
    try:
        msgspec.convert(value, _StoredReport)
    except msgspec.ValidationError as error:
        return str(error)
    return None


REQUIRED: Final = NemesisReport.__struct_fields__[: -len(NemesisReport.__struct_defaults__)]
"""The fields that every report has."""


# --- what a stored value says -----------------------------------------------------------------------------------------


class Clock(msgspec.Struct, frozen=True):
    """What was measured of a node's clock: how far it was ahead of the controller's, in ms; None if unknown."""

    offset_ms: float | None = None


class Evidence(msgspec.Struct, frozen=True):
    """What was measured while an op was carried out.

    Attributes:
        measured: as the nemesis gave it: figures, and for each node that was hit what was seen of it.
    """

    measured: Mapping[str, Any]

    @property
    def bit(self) -> bool | None:
        """Whether the fault is known to have done anything, as a whole or to a node; None if nothing was counted."""
        given = [_mapping(part).get("bit") for part in (self.measured, *self.measured.values())]
        known = [found for found in given if isinstance(found, bool)]
        return any(known) if known else None

    def clocks(self) -> dict[str, tuple[Clock, Clock]]:
        """For each node what was measured of its clock before the op and after it."""
        return {
            str(node): (_clock(_mapping(seen).get("before")), _clock(_mapping(seen).get("after")))
            for node, seen in self.measured.items()
        }


def hits_something(target: str) -> bool:
    """Whether the target of a nemesis op names what was hit: not if it is empty, or says that there was none."""
    first, _, _ = target.strip().partition(" ")
    return bool(first) and not first.startswith(_NO_TARGET_BEFORE) and first.rstrip(":;,.").lower() != NO_TARGET


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the value of a nemesis op says, as far as it can be read.

    Attributes:
        fault: the kind of fault; None if it does not say.
        action: "start" or "stop"; None if it does not say.
        target: the nodes or links that were hit, in words; empty if it does not say.
        is_hit: whether it hit a node: an op that finds no node to hit puts no fault in force. True without a target.
        shape, spec: what was asked for, in a word; empty if it was not asked for in that way.
        over: whether the fault was over when the op ended.
        cut, down, paused: as of `InForce`; None if they are not given, or are no links and no nodes.
        links: likewise; empty if they are not given, None if they are no links.
        disks, clocks, cpus, clients: likewise; empty if they are not given or are no nodes.
        evidence: what was measured.
    """

    fault: str | None
    action: str | None
    target: str
    is_hit: bool
    shape: str
    spec: str
    over: bool
    cut: tuple[Link, ...] | None
    down: tuple[str, ...] | None
    paused: tuple[str, ...] | None
    links: tuple[Link, ...] | None
    disks: tuple[str, ...]
    clocks: tuple[str, ...]
    cpus: tuple[str, ...]
    clients: tuple[str, ...]
    evidence: Evidence


def said(*values: Any) -> Said:
    """What values say together; where two of them say something, the later one holds."""
    value = {name: each for given in values for name, each in _mapping(given).items()}
    return Said(
        fault=fault_in(value),
        action=action_in(value),
        target=_text(value.get("target")),
        is_hit=value.get("target") is None or hits_something(_text(value["target"])),
        shape=_text(value.get("shape")),
        spec=_text(value.get("spec")),
        over=bool(value.get("over")),
        cut=_links(value.get("cut")),
        down=_nodes(value.get("down")),
        paused=_nodes(value.get("paused")),
        links=_links(value.get("links", [])),
        disks=_nodes(value.get("disks")) or (),
        clocks=_nodes(value.get("clocks")) or (),
        cpus=_nodes(value.get("cpus")) or (),
        clients=_nodes(value.get("clients")) or (),
        evidence=Evidence(_mapping(value.get("evidence"))),
    )


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _nodes(value: Any) -> tuple[str, ...] | None:
    return tuple(map(str, cast("list[Any]", value))) if isinstance(value, (list, tuple)) else None


def _links(value: Any) -> tuple[Link, ...] | None:
    """Pairs of nodes; None if there is anything else among them."""
    if not isinstance(value, (list, tuple)):
        return None
    found: list[Link] = []
    for each in cast("list[Any]", value):
        pair = _nodes(each)
        if pair is None or len(pair) != 2:
            return None
        found.append((pair[0], pair[1]))
    return tuple(found)


def _clock(value: Any) -> Clock:
    found = _mapping(value).get("offset_ms")
    return Clock(float(found)) if isinstance(found, (int, float)) and abs(found) < 2**62 else Clock()


def _plain(listed: Any) -> Any:
    """Lists, as JSON has them, for tuples."""
    return [_plain(each) for each in cast("list[Any]", listed)] if isinstance(listed, (list, tuple)) else listed
