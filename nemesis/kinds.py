"""A kind of fault: one record beside its nemesis, with everything that the rest of the code needs.

`splitbrain.nemesis.catalogue` collects the records. A kind of another package is the same record, named as
`module:attribute` or installed under the entry points `splitbrain.nemeses`: it is drawn, written in schedules, judged,
replayed and shrunk like built-in ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import Nemesis
from splitbrain.nemesis.declared import check_example, check_faults, check_marks, check_request, check_template
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.targets import SPECS
from splitbrain.results.errors import UsageError
from splitbrain.results.nemesisop import Request

R = TypeVar("R", bound=Request)

Figures: TypeAlias = Callable[[Sequence[NodeId], Rng], Mapping[str, Any]]
"""Draws the rest of a request, for a test with these nodes."""


MarkFigures: TypeAlias = Callable[[Sequence[NodeId], Sequence[str], Rng], Mapping[str, Any]]
"""Draws the rest of a request, for a test with these nodes and a system with these coverage marks."""


class Injection(msgspec.Struct, frozen=True):
    """One way in which a fault can be injected.

    Attributes:
        request: the request of its op, as in a schedule file.
        nodes: how many nodes it needs.
        needs: the kinds of fault that a backend must be able to inject.
        figures: draws the rest of the request (how many messages are lost, by how much a clock jumps), so that a stored
            op does the same again; None if there is no rest.
        at_marks: draws it where that depends on the marks of the system; `with_marks` then gives `figures`.
    """

    request: Mapping[str, Any]
    nodes: int = 1
    figures: Figures | None = None
    needs: tuple[FaultKind, ...] = ()
    at_marks: MarkFigures | None = None

    def with_marks(self, marks: Sequence[str]) -> Injection:
        """The same for a system with these marks; unchanged without any."""
        draw = self.at_marks
        if draw is None or not marks:
            return self

        def figures(nodes: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
            return draw(nodes, marks, rng)

        return msgspec.structs.replace(self, figures=figures)

    def draw(self, nodes: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
        """The whole request.

        Raises:
            UsageError: it depends on marks, and there are none.
        """
        if self.at_marks is not None and self.figures is None:
            raise UsageError("moments are drawn from the marks of the system: build the package with marks=.")
        return self.request if self.figures is None else {**self.request, **self.figures(nodes, rng)}


Rounds: TypeAlias = tuple[tuple[Injection, ...], ...]
"""Ways to inject a fault, in groups: one of each group is drawn, in random order, before any group comes again."""


class Ways(NamedTuple):
    """What a name of `--nemesis` stands for.

    Attributes:
        rounds: the ways that are drawn from.
        line: what it does, for `splitbrain list nemeses`.
        fair: whether a system that keeps its own promises tolerates it; a hunt draws an unfair one only if it is named.
    """

    rounds: Rounds
    line: str
    fair: bool = True


class Asked(NamedTuple, Generic[R]):
    """A request to be checked, the function of its op, its order of nodes, and the nodes of the test."""

    f: str
    request: R
    order: Sequence[NodeId]
    nodes: Sequence[NodeId]


def _anything(_: Asked[Any]) -> None:
    """Accept every request."""


def _no_marks(_: Any) -> Collection[str]:
    """Wait for none."""
    return ()


def always(*needs: FaultKind) -> Callable[[Any], tuple[FaultKind, ...]]:
    """For `Kind.needs`: the needs of a kind whose requests all need the same."""
    return lambda _: needs


@dataclass(frozen=True, kw_only=True)
class Kind(Generic[R]):
    """A kind of fault. One fault of a kind is in force at a time.

    Attributes:
        request: the type of its requests; its tag is the name of the kind.
        nemesis: makes what injects it; the nemeses of one test share a ledger.
        start_f: the function of ops that start it.
        stop_f: the function of ops that stop it.
        ways: its names for `--nemesis`, each with what is drawn; the first one is the mix.
        example: a request as a person writes it, in JSON.
        needs: the kinds of fault that a request needs of a backend.
        healed: when it is healed at the end of a run, lower numbers first: links (10), disks and clocks (20), processes
            (40), members (80). Nodes that start must find their peers and their data.
        check: refuses requests that make no sense, with a UsageError.
        marks: the coverage marks that need this kind of fault, or another one that has them too; a hunt without it
            does not expect them.
        specs: the node specs that its requests may name, if they name any.
        takes_s: the longest time that its start may take, in seconds; the last start is that much earlier.
        over: whether it is over when the op that starts it ends.
        passes: the marks of the system for which a request waits.
        without: a request without some nodes, for shrinking; None if nothing is left of it.

    Raises:
        UsageError: (when it is made) the record contradicts itself, or names what does not exist: a field, a node spec,
            a fault, a coverage mark.
    """

    request: type[R]
    nemesis: Callable[[Ledger], Nemesis]
    start_f: str
    stop_f: str
    ways: Mapping[str, Ways]
    example: str
    needs: Callable[[R], Collection[FaultKind]]
    healed: int = 40
    check: Callable[[Asked[R]], None] = _anything
    marks: Collection[str] = ()
    specs: Collection[str] = tuple(SPECS)
    takes_s: float = 0.0
    over: bool = False
    passes: Callable[[R], Collection[str]] = _no_marks
    without: Callable[[Any, Sequence[NodeId]], Any] | None = None

    def __post_init__(self) -> None:
        """Refuse a record that contradicts itself."""
        if self.name == self.request.__name__:  # that is what msgspec takes where no tag is given
            raise UsageError(f"{self.request.__name__} has no tag: derive it from Request, with tag= the kind's name.")
        if self.start_f == self.stop_f:
            raise UsageError(f"kind of fault {self.name!r}: an op named {self.start_f} cannot start and stop it.")
        if not self.ways or not all(any(ways.rounds) for ways in self.ways.values()):
            raise UsageError(f"kind of fault {self.name!r}: each of its ways has something to draw from.")
        what = f"kind of fault {self.name!r}"
        if not callable(self.nemesis):
            raise UsageError(
                f"{what}: its nemesis is {self.nemesis!r:.80}; it must be a class, or a function, that makes one."
            )
        check_marks(f"the marks of {what}", self.marks)
        example = f"the example of {what}"
        self._check_needs(example, check_example(example, self.example, self.request, self.specs))
        for name, ways in self.ways.items():
            for group in ways.rounds:
                self._check_group(f"the way {name!r} of {what}", group)

    def _check_group(self, what: str, group: object) -> None:
        """Refuse ways whose requests are not of this kind, or whose needs do not exist."""
        for injection in cast("Sequence[object]", group if isinstance(group, (tuple, list)) else [group]):
            if group is injection or not isinstance(injection, Injection):
                raise UsageError(f"{what}: {injection!r:.80} is no group of Injection(...): rounds are groups.")
            check_faults(f"the needs of {what}", injection.needs)
            value = dict(injection.request)
            if self.over and "over" not in self.fields:
                value.pop("over", None)
            if drawn := [name for name in ("fault", "action", "order") if name in value]:
                raise UsageError(f"{what}: every request has {', '.join(drawn)} of its own: remove it.")
            if injection.figures is None and injection.at_marks is None:
                self._check_needs(what, check_request(what, value, self.request, self.specs))
            else:
                check_template(what, value, self.request, self.specs)

    def _check_needs(self, what: str, request: Any) -> None:
        """Refuse needs of a request that are no faults."""
        try:
            needs = self.needs(request)
        except Exception as error:
            raise UsageError(f"{what}: its needs() raised {type(error).__name__}: {error}. Correct it.") from error
        check_faults(f"what needs() returns for {what}", needs)

    @property
    def name(self) -> str:
        """Its name, as histories have it in `fault`."""
        return str(self.request.__struct_config__.tag)

    @property
    def fields(self) -> tuple[str, ...]:
        """What its requests can carry, beside the kind, the action and the order."""
        return tuple(name for name in self.request.__struct_fields__ if name != "order")

    def entry(self, name: str | None = None) -> Entry:
        """What one of its names stands for; the mix of its ways if none is given.

        Raises:
            KeyError: it has no such name.
        """
        chosen = next(iter(self.ways)) if name is None else name
        return Entry(self, chosen, *self.ways[chosen])

    def reduced(self, value: Any, gone: Sequence[NodeId]) -> Any:
        """The value of an op without some nodes, as JSON; None if nothing remains."""
        return (self.without or without_nodes)(value, gone)


class Entry(NamedTuple):
    """What a name of `--nemesis` stands for: a kind, and the ways in which it is injected."""

    kind: Kind[Any]
    name: str
    rounds: Rounds
    line: str
    fair: bool = True

    @property
    def fewest_nodes(self) -> int:
        """The smallest number of nodes for which some of it can be injected."""
        return min(injection.nodes for group in self.rounds for injection in group)


# --- requests without some nodes --------------------------------------------------------------------------------------

_NOTHING: Final = object()


def without_nodes(value: Any, gone: Sequence[NodeId]) -> Any:
    """A request without some nodes; None if nothing remains.

    A list of nodes gets shorter. A list in a list, such as a link, and a dict are removed as a whole if they have such
    a node.
    """
    left = _without(value, gone, within=False)
    return None if left is _NOTHING else left


def _without(value: Any, gone: Sequence[NodeId], *, within: bool) -> Any:
    if isinstance(value, str):
        return _NOTHING if value in gone else value
    if isinstance(value, dict):
        fields = {
            name: _without(each, gone, within=False)
            for name, each in cast("dict[str, Any]", value).items()
            if name not in gone
        }
        return _NOTHING if any(each is _NOTHING for each in fields.values()) else fields
    if isinstance(value, list):
        items = cast("list[Any]", value)
        left = [each for each in (_without(item, gone, within=True) for item in items) if each is not _NOTHING]
        lost = len(left) < len(items)
        return _NOTHING if lost and (within or not left) else left
    return value
