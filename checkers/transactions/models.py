"""Consistency models and the anomalies that they proscribe: which anomaly implies which, and which model which.

The relations are those of Elle's `consistency_model`, which cites for each of them Adya (1999), Adya, Liskov and O'Neil
(2000), Bailis et al. (2013), Cerone, Bernardi and Gotsman (2015), Daudjee and Salem (2004, 2006), Liu et al. (2018),
and Bernstein, Hadzilacos and Goodman (1987). Added are "garbage-read", a read of a value without a write;
that "predicate-read-miss" rules out snapshot isolation, as the universe was there before all snapshots; and the levels
of Biswas and Enea (2019) with sessions, and what rules them out (`..transactions.weak`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from splitbrain.results.errors import UnknownNameError, UsageError


def _table(text: str) -> Mapping[str, tuple[str, ...]]:
    """Lines "a: b c" as {a: (b, c)}."""
    rows = (line.partition(":") for line in text.strip().splitlines())
    return MappingProxyType({name.strip(): tuple(rest.split()) for name, _, rest in rows})


ALIASES: Final = MappingProxyType(
    {
        "strict-serializable": "strong-serializable",
        "causal": "strong-session-causal",
        "conflict-serializable": "serializable",
        "PL-1": "read-uncommitted",
        "PL-2": "read-committed",
        "PL-CS": "cursor-stability",
        "PL-2L": "monotonic-view",
        "PL-MSR": "monotonic-snapshot-read",
        "PL-2+": "consistent-view",
        "PL-FCV": "forward-consistent-view",
        "PL-2.99": "repeatable-read",
        "PL-3U": "update-serializable",
        "PL-SI": "snapshot-isolation",
        "PL-3": "serializable",
        "PL-SS": "strong-serializable",
        "strong-PL-1": "strong-read-uncommitted",
        "strong-PL-2": "strong-read-committed",
        "strong-session-PL-1": "strong-session-read-uncommitted",
        "strong-session-PL-2": "strong-session-read-committed",
    }
)
"""Other names of models. Elle's `causal` is that of single objects, which no anomaly here rules out; of transactions it
is the one with sessions."""

IMPLIED_MODELS: Final = _table(
    """
    strong-serializable: serializable linearizable snapshot-isolation strong-snapshot-isolation \
strong-session-serializable session-serializable
    strong-session-serializable: serializable strong-session-snapshot-isolation
    strong-snapshot-isolation: strong-session-snapshot-isolation strong-read-committed
    strong-session-snapshot-isolation: snapshot-isolation strong-session-causal
    strong-session-causal: causal-cerone strong-session-read-atomic
    strong-session-read-atomic: read-atomic strong-session-monotonic-atomic-view
    strong-session-monotonic-atomic-view: monotonic-atomic-view strong-session-read-committed
    strong-read-committed: strong-session-read-committed strong-read-uncommitted
    strong-session-read-committed: read-committed strong-session-read-uncommitted
    strong-read-uncommitted: strong-session-read-uncommitted
    strong-session-read-uncommitted: read-uncommitted
    serializable: repeatable-read snapshot-isolation update-serializable view-serializable
    session-serializable: 1SR
    snapshot-isolation: forward-consistent-view monotonic-atomic-view monotonic-snapshot-read \
parallel-snapshot-isolation prefix
    parallel-snapshot-isolation: causal-cerone update-atomic
    prefix: causal-cerone
    causal-cerone: read-atomic
    update-atomic: read-atomic
    read-atomic: monotonic-atomic-view
    repeatable-read: cursor-stability monotonic-atomic-view
    update-serializable: forward-consistent-view
    forward-consistent-view: consistent-view
    consistent-view: cursor-stability monotonic-view
    cursor-stability: read-committed
    monotonic-view: read-committed
    monotonic-snapshot-read: read-committed
    monotonic-atomic-view: read-committed
    read-committed: read-uncommitted
    linearizable: sequential
    sequential: causal
    causal: writes-follow-reads PRAM
    PRAM: monotonic-reads monotonic-writes read-your-writes
    """.replace("\\\n", "")
)
"""A history that satisfies the first satisfies the others."""

PROSCRIBED: Final = _table(
    """
    read-uncommitted: G0 duplicate-elements cyclic-versions
    read-committed: G1
    cursor-stability: G1 G-cursor lost-update
    monotonic-view: G1 G-monotonic
    monotonic-snapshot-read: G1 G-MSR
    consistent-view: G1 G-single
    forward-consistent-view: G1 G-SIb
    monotonic-atomic-view: non-monotonic-read
    causal-cerone: internal G1a causal-violation
    parallel-snapshot-isolation: internal G1a
    prefix: internal G1a
    read-atomic: internal G1a future-read fractured-read
    strong-session-monotonic-atomic-view: non-monotonic-read-process
    strong-session-read-atomic: fractured-read-process
    strong-session-causal: causal-violation-process
    update-atomic: lost-update
    repeatable-read: G1 G2-item lost-update
    update-serializable: G1 G-update
    snapshot-isolation: internal G1 G-SI G-nonadjacent predicate-read-miss
    serializable: internal G1 G2 predicate-read-miss
    strong-serializable: G1 G1c-realtime G2-realtime
    strong-session-read-uncommitted: G0-process
    strong-session-read-committed: G1c-process
    strong-read-uncommitted: G0-realtime
    strong-read-committed: G1c-realtime
    strong-session-snapshot-isolation: internal G1-process G-nonadjacent-process
    strong-snapshot-isolation: internal G1-realtime G-nonadjacent-realtime
    strong-session-serializable: G1-process G2-process
    """
)
"""What each model proscribes beyond the weaker ones that it implies."""

LADDER: Final = (
    "read-uncommitted",
    "read-committed",
    "snapshot-isolation",
    "repeatable-read",
    "serializable",
    "strong-session-read-uncommitted",
    "strong-session-read-committed",
    "strong-session-snapshot-isolation",
    "strong-session-serializable",
    "strong-read-uncommitted",
    "strong-read-committed",
    "strong-snapshot-isolation",
    "strong-serializable",
)
"""Models that are ruled out as soon as a graph has a component, without a cycle being named."""

EXISTS: Final = "-cycle-exists"
"""The end of the name of an anomaly that says only: there is a cycle that the model before it proscribes."""

IMPLIED_ANOMALIES: Final = _table(
    """
    G0: G1c G0-process
    G0-process: G1c-process G0-realtime
    G0-realtime: G1c-realtime
    G1a: G1
    G1b: G1
    G1c: G1 G1c-process
    G1c-process: G1c-realtime G1-process
    G1c-realtime: G1-realtime
    G1: G1-process
    G1-process: G1-realtime
    G-single-item: G-single G-single-item-process G-nonadjacent-item
    G-single-item-process: G-single-process G-single-item-realtime G-nonadjacent-item-process
    G-single-item-realtime: G-single-realtime G-nonadjacent-item-realtime
    G-single: G-nonadjacent GSIb G-single-process
    G-single-process: G-nonadjacent-process G-single-realtime
    G-single-realtime: G-nonadjacent-realtime
    G-nonadjacent-item: G-nonadjacent G2-item G-nonadjacent-item-process
    G-nonadjacent-item-process: G-nonadjacent-process G2-item-process G-nonadjacent-item-realtime
    G-nonadjacent-item-realtime: G2-item-realtime G-nonadjacent-realtime
    G-nonadjacent: G2 G-nonadjacent-process
    G-nonadjacent-process: G2-process G-nonadjacent-realtime
    G-nonadjacent-realtime: G2-realtime
    G2: G2-process
    G2-item: G2 G2-item-process
    G2-item-process: G2-process G2-item-realtime
    G2-item-realtime: G2-realtime
    G2-process: G2-realtime
    GSIa: GSI
    GSIb: GSI
    incompatible-order: G1a
    garbage-read: G1a
    future-read: G1c
    dirty-update: G1a
    lost-update: write-skew G2-item
    write-skew: G2
    non-monotonic-read: non-monotonic-read-process
    fractured-read: fractured-read-process
    causal-violation: causal-violation-process
    """
)
"""Each anomaly is one of the others too."""

IN_PART: Final = MappingProxyType(
    {
        "cursor-stability": ("G-cursor", "consistent-view"),
        "monotonic-view": ("G-monotonic", "consistent-view"),
        "monotonic-snapshot-read": ("G-MSR", "snapshot-isolation"),
        "update-serializable": ("G-update", "serializable"),
        "update-atomic": ("a lost update that no two reads of one version show", "snapshot-isolation"),
        "parallel-snapshot-isolation": ("a lost update that no two reads of one version show", "snapshot-isolation"),
        "prefix": ("a long fork", "snapshot-isolation"),
    }
)
"""Models of whose violations some are not looked for, as in Elle: one of these, and a model that implies the first one
and has no such gap."""

EMPTY_GRAPH: Final = "empty-transaction-graph"
"""Nothing depends on anything: nothing was tested."""


def _reached(graph: Mapping[str, Iterable[str]], begin: Iterable[str]) -> list[str]:
    """What can be reached, the beginning included, in the order of a breadth-first search."""
    found = list(dict.fromkeys(begin))
    known = dict.fromkeys(found)
    for name in found:
        for other in graph.get(name, ()):
            if other not in known:
                known[other] = None
                found.append(other)
    return found


def _reversed(graph: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, others in graph.items():
        for other in others:
            found.setdefault(other, []).append(name)
    return found


def _proscribed(model: str) -> tuple[str, ...]:
    exists = (f"{model}{EXISTS}",) if model in LADDER else ()
    return (*PROSCRIBED.get(model, ()), *exists)


_IMPLYING_MODELS: Final = _reversed(IMPLIED_MODELS)
_IMPLYING_ANOMALIES: Final = _reversed(IMPLIED_ANOMALIES)
_MODELS: Final = sorted({*IMPLIED_MODELS, *_IMPLYING_MODELS})
_PROSCRIBED_BY: Final = _reversed({model: _proscribed(model) for model in _MODELS})


@cache
def model_names() -> tuple[str, ...]:
    """All names of models, other names included."""
    return tuple(sorted({*_MODELS, *ALIASES}))


@cache
def anomaly_names() -> tuple[str, ...]:
    """All anomalies that some model proscribes, or that imply one of those."""
    named = {each for model in _MODELS for each in _proscribed(model)}
    return tuple(sorted({*named, *IMPLIED_ANOMALIES, *_IMPLYING_ANOMALIES}))


def canonical(model: str) -> str:
    """The name by which verdicts call a model.

    Raises:
        UnknownNameError: there is no such model.
    """
    name = ALIASES.get(model, model)
    if name not in _MODELS:
        raise UnknownNameError("consistency model", model, model_names())
    return name


def proscribed_by(models: Iterable[str], anomalies: Iterable[str] = ()) -> frozenset[str]:
    """All anomalies that none of these models allows, and further ones, with those that imply them.

    Raises:
        UnknownNameError: there is no such model or anomaly.
    """
    further = list(anomalies)
    for each in further:
        if each not in anomaly_names():
            raise UnknownNameError("anomaly", each, anomaly_names())
    implied = _reached(IMPLIED_MODELS, map(canonical, models))
    direct = [each for model in implied for each in _proscribed(model)]
    return frozenset(_reached(_IMPLYING_ANOMALIES, [*direct, *further]))


def judged_in_part(models: Collection[str]) -> list[str]:
    """Those of some models that have a gap (`IN_PART`) which none of the others closes, by their canonical names.

    Raises:
        UnknownNameError: there is no such model.
    """
    names = [*map(canonical, models)]
    closed = _reached(IMPLIED_MODELS, [name for name in names if name not in IN_PART])
    return [name for name in names if name in IN_PART and name not in closed]


def refuse_untestable(models: Collection[str], anomalies: Collection[str] = ()) -> None:
    """Refuse what every history would satisfy.

    Raises:
        UnknownNameError: there is no such model or anomaly.
        UsageError: nothing is asked for, or a model that no anomaly here rules out.
    """
    if not models and not anomalies:
        raise UsageError("no consistency model is given: name one, such as serializable.")
    for model in models:
        if not proscribed_by([model]):
            raise UsageError(
                f"consistency model {model}: transactions cannot be judged by it, as no anomaly that is looked for "
                "rules it out. Name another one, such as serializable or strict-serializable."
            )
    proscribed_by(models, anomalies)


def implied_anomalies(anomalies: Iterable[str]) -> frozenset[str]:
    """These anomalies, and all that they imply."""
    return frozenset(_reached(IMPLIED_ANOMALIES, anomalies))


def impossible(anomalies: Iterable[str]) -> list[str]:
    """The models that a history with these anomalies does not satisfy, sorted."""
    implied = _reached(IMPLIED_ANOMALIES, anomalies)
    direct = [model for each in implied for model in _PROSCRIBED_BY.get(each, ())]
    return sorted(_reached(_IMPLYING_MODELS, direct))


def boundary(anomalies: Collection[str]) -> tuple[list[str], list[str]]:
    """The weakest models that are ruled out ("not"), and all stronger ones ("also not"), each sorted."""
    ruled_out = impossible(anomalies)
    weakest = [
        model
        for model in ruled_out
        if not any(other in ruled_out for other in _reached(IMPLIED_MODELS, [model]) if other != model)
    ]
    return weakest, [model for model in ruled_out if model not in weakest]
