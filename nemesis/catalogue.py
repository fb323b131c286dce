"""Nemeses by name, as given to `--nemesis`.

A name stands for a kind of fault and for groups of ways to inject it (`splitbrain.nemesis.kinds.Ways`); ops take one
way of each group in turn. Names of the same kind add up: `partition-ring,partition-leader` draws from both in turn.
`splitbrain.results.plugins` looks up names of other packages.

Every way lists what it needs from a backend. Ways of a mix that the backend lacks are left out, and listed. A name can
have a weight: `partition:2,kill` has two partitions for each kill.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.harness.contract.listed import number
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.test import Nemesis, NemesisPackage
from splitbrain.nemesis import (
    bounce,
    bounce_at_moments,
    clients,
    clock,
    cpu,
    discovery,
    disk,
    groups,
    membership,
    migrate,
    moment,
    packet,
    partition,
    process,
    restart,
    transfer,
    upgrade,
)
from splitbrain.nemesis.compose import INTERVAL_S, package
from splitbrain.nemesis.declared import check_nemesis
from splitbrain.nemesis.kinds import Entry, Injection, Kind, Rounds, without_nodes
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.schedule import OVERLAP, Fault
from splitbrain.results import plugins
from splitbrain.results.errors import FaultNotSupportedError, SplitbrainError, UnknownNameError, UsageError

WEIGHT_MAX: Final = 20
"""The greatest weight of a name."""


Supported: TypeAlias = Mapping[FaultKind, Support] | Mapping[str, Support]
"""The support of a backend: an answer for every FaultKind."""


BUILT_IN: Final[tuple[Kind[Any], ...]] = (
    partition.KIND,
    process.KILL,
    process.PAUSE,
    process.POWER,
    packet.KIND,
    clock.KIND,
    disk.KIND,
    cpu.KIND,
    restart.KIND,
    membership.KIND,
    bounce.KIND,
    transfer.KIND,
    groups.KIND,
    clients.KIND,
    upgrade.UPGRADE,
    upgrade.ROLLBACK,
    moment.KIND,
    bounce_at_moments.KIND,
    discovery.KIND,
    migrate.KIND,
)
"""The built-in kinds of fault, in the order in which hunts draw from them."""

KINDS: Final[Mapping[str, Kind[Any]]] = {kind.name: kind for kind in sorted(BUILT_IN, key=lambda kind: kind.healed)}
"""By name, in the order of healing."""

NEMESES: Final[Mapping[str, Entry]] = {name: kind.entry(name) for kind in BUILT_IN for name in kind.ways}
"""What the names of `--nemesis` stand for, except `none` and those of other packages."""

UNFAIR: Final = tuple(name for name, entry in NEMESES.items() if not entry.fair)
"""Names that a mix or a hunt draws from only if they are given: systems that keep their own promises fail them."""

_OF_OPS: Final[Mapping[str, Kind[Any]]] = {f: kind for kind in BUILT_IN for f in (kind.start_f, kind.stop_f)}


def descriptions() -> dict[str, str]:
    """Every built-in name, with a line that describes it."""
    return {"none": "no faults", **{name: entry.line for name, entry in NEMESES.items()}}


def entry(name: str) -> Entry:
    """What a name stands for, without a weight.

    Raises:
        UnknownNameError: there is none of that name.
        UsageError: it is of another package and cannot be imported, or is not a kind of fault.
    """
    if name in NEMESES:
        return NEMESES[name]
    if weighted(name)[1] is not None:
        raise UnknownNameError("nemesis", name, descriptions())
    found = plugins.find("nemesis", name, descriptions())
    if isinstance(found, Kind):
        found = cast("Kind[Any]", found).entry()
    if not isinstance(found, Entry):
        raise UsageError(
            f"nemesis {name!r} is {found!r:.80}: it is neither a splitbrain.nemesis.kinds.Kind nor an entry of one."
        )
    _refuse_clash(name, found.kind)
    return found


def _refuse_clash(name: str, kind: Kind[Any]) -> None:
    """Refuse a kind of another package whose name or ops are those of a built-in kind.

    Raises:
        UsageError: its name or an op is taken.
    """
    if kind.name in KINDS:
        raise UsageError(
            f"nemesis {name!r}: there is a kind of fault {kind.name!r} already: give its request another tag."
        )
    for f in (kind.start_f, kind.stop_f):
        if f in _OF_OPS:
            raise UsageError(f"nemesis {name!r}: there is an op {f!r} already: give it another name.")


def kind_of(f: str, named: Sequence[str] = ()) -> Kind[Any]:
    """The kind of fault of a nemesis op.

    Args:
        f: the function of the op.
        named: names of `--nemesis`, with weights or without: kinds of other packages are searched among them first,
            then among the installed ones.

    Raises:
        UnknownNameError: there is no such op.
        UsageError: a name is of another package and cannot be imported.
    """
    return _OF_OPS[f] if f in _OF_OPS else _brought(f, named)[1]


def name_for(f: str, named: Sequence[str] = ()) -> str:
    """The name of `--nemesis` that has the op: the kind, or the name that another package gives it.

    Raises:
        UnknownNameError, UsageError: as of `kind_of`.
    """
    return _OF_OPS[f].name if f in _OF_OPS else _brought(f, named)[0]


def reduced(f: str, value: Any, gone: Sequence[NodeId], named: Sequence[str] = ()) -> Any:
    """The value of a nemesis op without some nodes; its kind decides. None if nothing remains."""
    try:
        kind = kind_of(f, named)
    except UsageError:
        return without_nodes(value, gone)
    return kind.reduced(value, gone)


def _brought(f: str, named: Sequence[str]) -> tuple[str, Kind[Any]]:
    """The kind of another package that has this op, and its name."""
    theirs = [name for name in weights(named) if name not in NEMESES]
    known: dict[str, None] = dict.fromkeys(_OF_OPS)
    for name in dict.fromkeys([*theirs, *plugins.installed("nemesis")]):
        kind = entry(name).kind
        if f in (kind.start_f, kind.stop_f):
            return name, kind
        known |= dict.fromkeys((kind.start_f, kind.stop_f))
    raise UnknownNameError("nemesis op", f, known)


def names_for(support: Supported) -> tuple[str, ...]:
    """Every name except `none` for which a backend with this support can inject something, in the order of
    `NEMESES`.
    """
    return tuple(name for name, entry in NEMESES.items() if any(_doable(entry.rounds, support)))


def kinds(names: Sequence[str]) -> tuple[str, ...]:
    """The kinds of fault that names stand for, sorted. They may have weights.

    Raises:
        UsageError: a name is unknown, or a weight is not valid.
    """
    return tuple(sorted({entry(name).kind.name for name in weights(names)}))


def weighted(text: str) -> tuple[str, str | None]:
    """A name, and its weight as written; None if it has none.

    The part after the colon of `module:attribute` is not a weight.
    """
    name, colon, last = (part.strip() for part in text.rpartition(":"))
    if not colon:
        return last, None
    has_module = name not in NEMESES and name != "none" and ":" not in name
    is_attribute = has_module and all(part.isidentifier() for part in last.split("."))
    return (f"{name}:{last}", None) if is_attribute else (name, last)


def weights(listed: Sequence[str]) -> dict[str, int]:
    """The names of a list such as ["partition:2", "kill"], without "none", with their weights; 1 where none is given.

    Raises:
        UsageError: a name is unknown or given twice, a weight is not a whole number from 1 to `WEIGHT_MAX`, or "none"
            has a weight or another name beside it.
    """
    found: dict[str, int] = {}
    for each in listed:
        name, weight = weighted(each)
        if name != "none":
            entry(name)
        if weight is not None and not (weight.isascii() and weight.isdigit() and 1 <= number(weight) <= WEIGHT_MAX):
            raise UsageError(f"--nemesis {each}: a weight is a whole number from 1 to {WEIGHT_MAX}, as in {name}:2.")
        if name == "none" and (weight is not None or len(listed) > 1):
            raise UsageError(f"--nemesis {','.join(listed)}: none means no faults: give it alone and without a weight.")
        if name in found:
            raise UsageError(f"--nemesis {','.join(listed)} has {name} twice: give it once, for example as {name}:2.")
        if name != "none":
            found[name] = 1 if weight is None else int(weight)
    return found


def build(
    names: Sequence[str],
    *,
    interval_s: float | None = None,
    overlap: float = OVERLAP,
    time_limit_s: float | None = None,
    nodes: Sequence[NodeId] | None = None,
    support: Supported | None = None,
    where: str = "this backend",
    marks: Sequence[str] = (),
) -> NemesisPackage:
    """The nemesis package for the given names.

    Args:
        names: names of `descriptions()`, with weights or without; no name, or "none": no faults.
        interval_s: mean time between nemesis ops, in seconds; None for the default.
        overlap: the probability that a second fault begins before the first is healed, 0 to 1.
        time_limit_s: length of the faults phase: no fault begins shortly before its end. None if unknown.
        nodes: the test's nodes; too few are refused here, not only when a fault is due.
        support: what the backend can inject; the rest of a mix is left out and listed in the package. None for
            everything.
        where: the backend, for errors.
        marks: the coverage marks of the system (`Capabilities.marks`), for faults at moments.

    Raises:
        UnknownNameError: a name is unknown.
        UsageError: a weight, the interval or the overlap is wrong, a fault needs more nodes, or the nemesis of another
            package cannot be made or lacks something.
        FaultNotSupportedError: the backend can inject nothing of a name.
    """
    rounds: dict[str, Rounds] = {}
    chosen: dict[str, Kind[Any]] = {}
    heaviest: dict[str, int] = {}
    called_first: dict[str, str] = {}
    left_out: list[str] = []
    wanted = weights(names)
    for name, weight in wanted.items():
        found = entry(name)
        kind = found.kind
        if chosen.setdefault(kind.name, kind) != kind:
            raise UsageError(f"--nemesis {','.join(names)}: two of them have a kind of fault {kind.name!r}.")
        called_first.setdefault(kind.name, name)
        groups = found.rounds if support is None else _doable(found.rounds, support)
        groups = tuple(tuple(injection.with_marks(marks) for injection in group) for group in groups)
        if support is not None:
            left_out += _missing(name, found, support, where, refused=not any(groups))
        rounds[kind.name] = rounds.get(kind.name, ()) + tuple(group for group in groups if group) * weight
        heaviest[kind.name] = max(weight, heaviest.get(kind.name, 1))
    ledger = Ledger()
    faults = [
        Fault(kind, _made(called_first[kind.name], kind, ledger), rounds[kind.name], heaviest[kind.name])
        for kind in sorted(chosen.values(), key=lambda kind: kind.healed)
    ]
    if nodes is not None:
        for fault in faults:
            fault.possible(nodes)
    called = ",".join(wanted) or "none"
    interval_s = INTERVAL_S if interval_s is None else interval_s
    return package(called, faults, interval_s, time_limit_s, overlap=overlap, left_out=left_out)


def _made(name: str, kind: Kind[Any], ledger: Ledger) -> Nemesis:
    """What injects a kind of fault, which `--nemesis` calls `name`.

    Raises:
        UsageError: it cannot be made, is no nemesis, or lacks an op or a fault of its kind.
    """
    what = f"nemesis {name!r}"
    try:
        inspect.signature(kind.nemesis).bind(ledger)
    except ValueError:  # it has no signature, as some of the standard library
        pass
    except TypeError as error:
        raise UsageError(f"{what}: {error}; its kind calls {kind.nemesis!r:.80} with the ledger of the test.") from None
    try:
        made = kind.nemesis(ledger)
    except SplitbrainError:
        raise
    except Exception as error:
        raise UsageError(f"{what} cannot be made: {type(error).__name__}: {error}. Correct its code.") from error
    injections = (each for ways in kind.ways.values() for group in ways.rounds for each in group)
    check_nemesis(what, made, (kind.start_f, kind.stop_f), (need for each in injections for need in each.needs))
    return made


def _doable(rounds: Rounds, support: Supported) -> Rounds:
    """The groups, with only the ways that work."""
    return tuple(tuple(injection for injection in group if _works(injection, support)) for group in rounds)


def _works(injection: Injection, support: Supported) -> bool:
    return all(support[kind].works for kind in injection.needs)


def _missing(name: str, entry: Entry, support: Supported, where: str, *, refused: bool) -> list[str]:
    """A line that says what of a name is left out, and why.

    Raises:
        FaultNotSupportedError: everything is left out.
    """
    injections = [injection for group in entry.rounds for injection in group]
    lacking: dict[FaultKind, None] = {
        kind: None for injection in injections for kind in injection.needs if not support[kind].works
    }
    reasons: dict[str, list[FaultKind]] = {}
    for kind in lacking:
        reasons.setdefault(support[kind].how.rstrip("."), []).append(kind)
    if refused:
        listed = "; ".join(f"{', '.join(map(repr, those))} here: {why}" for why, those in reasons.items())
        raise FaultNotSupportedError(
            f"{where} cannot inject {listed}. Leave {name} out of --nemesis. (splitbrain doctor lists what works here)"
        )
    listed = "; ".join(f"{', '.join(those)} ({why})" for why, those in reasons.items())
    return [f"{name}: without {listed}"] if lacking else []


__all__ = [
    "BUILT_IN",
    "KINDS",
    "NEMESES",
    "UNFAIR",
    "WEIGHT_MAX",
    "build",
    "descriptions",
    "entry",
    "kind_of",
    "kinds",
    "name_for",
    "names_for",
    "reduced",
    "weighted",
    "weights",
]
