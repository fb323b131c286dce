"""The cycles that have names, as automata over the kinds of their edges.

    G0                 ww only
    G1c                ww and wr, at least one wr
    G-single(-item)    exactly one rw
    G-nonadjacent(-item)  two or more rw, never one after the other
    G2(-item)          two or more rw, some of them one after the other

"-item": no rw is that of a predicate. "-process" and "-realtime": with at least one such edge too. (Adya 1999; Elle.)

A derived edge (see `graph.derived`) may be used for a type that is no weaker than what it rests on: were the edge not
there, the history would have that anomaly. A cycle of ww, wr and such edges is therefore the type on which they rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.transactions.graph import (
    DERIVED,
    KINDS,
    LINK,
    NO_G2,
    NO_G_SINGLE,
    PROCESS,
    REALTIME,
    RW,
    RWP,
    WR,
    WRP,
    WW,
    WWP,
    Bools,
    parts,
)

Antidependencies: TypeAlias = Literal["none", "one", "nonadjacent", "adjacent"]

TAGS: Final = ("", "-process", "-realtime")
"""Ends of names: by data alone, with the order of processes, with real time."""


@dataclass(frozen=True)
class Type:
    """A type of cycle.

    Attributes:
        name: e.g. "G-single-item-realtime".
        rw: which antidependencies it has.
        wr: whether it needs a wr.
        predicate: whether one of its antidependencies has to be, and may be, that of a predicate.
        tag: 0, 1 for "-process", 2 for "-realtime".
        level: the strongest assumption on which its derived edges may rest.
    """

    name: str
    rw: Antidependencies
    wr: bool
    predicate: bool
    tag: int
    level: int


_BASE: Final[tuple[tuple[str, Antidependencies, bool, bool, int], ...]] = (
    ("G0", "none", False, False, 0),
    ("G1c", "none", True, False, 0),
    ("G-single-item", "one", False, False, NO_G_SINGLE),
    ("G-single", "one", False, True, NO_G_SINGLE),
    ("G-nonadjacent-item", "nonadjacent", False, False, NO_G_SINGLE),
    ("G-nonadjacent", "nonadjacent", False, True, NO_G_SINGLE),
    ("G2-item", "adjacent", False, False, NO_G2),
    ("G2", "adjacent", False, True, NO_G2),
)

TYPES: Final = tuple(Type(f"{name}{TAGS[tag]}", rw, wr, predicate, tag, level)
                     for tag in range(3) for name, rw, wr, predicate, level in _BASE)  # fmt: skip
"""All types: the worst first, those by data alone before those of processes and of real time."""

BY_NAME: Final = {each.name: each for each in TYPES}


class Automaton(NamedTuple):
    """Reads the kinds of edges along a cycle.

    Attributes:
        first: by kind of the first edge the state after it, -1 if a cycle of this type is not looked for there.
        step: by state and kind the next state, -1 if the type does not allow that edge there.
        final: by state, whether a cycle that ends there is of this type.
        kinds: which kinds may be used at all.
    """

    first: npt.NDArray[np.int8]
    step: npt.NDArray[np.int8]
    final: Bools
    kinds: Bools


class _State(NamedTuple):
    began_rw: bool
    last_rw: bool
    rw: int
    adjacent: bool
    wr: bool
    predicate: bool
    tag: bool
    assumed: bool


_BEGIN: Final = _State(False, False, 0, False, False, False, False, False)


def usable(type_: Type) -> Bools:
    """The kinds of edges that cycles of a type may have."""
    table = np.zeros(KINDS, np.bool_)
    table[[WW, WWP, LINK]] = True
    table[[WR, WRP]] = type_.wr or type_.rw != "none"
    table[PROCESS] = type_.tag == 1
    table[REALTIME] = type_.tag == 2
    table[RW] = type_.rw != "none"
    table[RWP] = type_.predicate
    for kind in range(DERIVED, DERIVED + 18):
        base, level, tag = parts(kind)
        table[kind] = level <= type_.level and tag in (0, type_.tag) and (base != RW or type_.rw != "none")
    return table


@cache
def automaton(type_: Type) -> Automaton:
    """The automaton of a type. It begins with an edge of the kind that is the rarest of those the type needs."""
    kinds = usable(type_)
    states: dict[_State, int] = {}
    order: list[_State] = []

    def number(state: _State) -> int:
        if state not in states:
            states[state] = len(order)
            order.append(state)
        return states[state]

    first = np.full(KINDS, -1, np.int8)
    for kind in np.flatnonzero(kinds).tolist():
        after = _after(type_, _BEGIN, kind, first=True)
        if kind != LINK and after is not None and _begins(type_, kind):
            first[kind] = number(after)
    rows: list[npt.NDArray[np.int8]] = []
    for state in order:
        row = np.full(KINDS, -1, np.int8)
        for kind in np.flatnonzero(kinds).tolist():
            after = _after(type_, state, kind, first=False)
            if after is not None:
                row[kind] = number(after)
        rows.append(row)
    final = np.array([_is_final(type_, state) for state in order], np.bool_)
    return Automaton(first, np.array(rows, np.int8).reshape(-1, KINDS), final, kinds)


def _begins(type_: Type, kind: int) -> bool:
    base, level, tag = parts(kind)
    if type_.tag:
        return kind in (PROCESS, REALTIME) or tag > 0
    if type_.predicate:
        return base == RWP
    if type_.rw != "none":
        return base == RW or level == type_.level
    return base in (WR, WRP) if type_.wr else True


def _after(type_: Type, state: _State, kind: int, *, first: bool) -> _State | None:
    if kind == LINK:
        return state
    base, level, tag = parts(kind)
    is_rw = base in (RW, RWP)
    if is_rw and state.last_rw and type_.rw == "nonadjacent":
        return None
    if is_rw and state.rw == 1 and type_.rw == "one":
        return None
    return _State(
        began_rw=is_rw if first else state.began_rw,
        last_rw=is_rw,
        rw=min(state.rw + is_rw, 2) if type_.rw != "none" else 0,
        adjacent=type_.rw == "adjacent" and (state.adjacent or (is_rw and state.last_rw)),
        wr=type_.wr and (state.wr or base in (WR, WRP)),
        predicate=type_.predicate and (state.predicate or base == RWP),
        tag=bool(type_.tag) and (state.tag or tag > 0),
        assumed=type_.rw in ("one", "adjacent") and (state.assumed or level == type_.level),
    )


def _is_final(type_: Type, state: _State) -> bool:
    if (type_.tag and not state.tag) or (type_.wr and not state.wr) or (type_.predicate and not state.predicate):
        return False
    around = state.began_rw and state.last_rw
    if type_.rw == "none":
        return True
    if type_.rw == "one":
        return state.rw == 1 or (state.rw == 0 and state.assumed)
    if type_.rw == "nonadjacent":
        return state.rw == 2 and not around
    return (state.rw == 2 and (state.adjacent or around)) or state.assumed


def classify(kinds: list[int]) -> str:
    """The name of a cycle from the kinds of its edges, in order.

    Raises:
        ValueError: it has process or realtime edges only.
    """
    split = [parts(kind) for kind in kinds]
    bases = [base for base, _, _ in split]
    level, tag = max(each for _, each, _ in split), max(each for _, _, each in split)
    rw = [base in (RW, RWP) for base in bases]
    adjacent = any(one and other for one, other in zip(rw, [*rw[1:], rw[0]], strict=True))
    item = "" if RWP in bases else "-item"
    if level == NO_G2 or (sum(rw) > 1 and adjacent):
        name = f"G2{item}"
    elif sum(rw) > 1:
        name = f"G-nonadjacent{item}"
    elif sum(rw) == 1 or level == NO_G_SINGLE:
        name = f"G-single{item}"
    elif WR in bases or WRP in bases:
        name = "G1c"
    elif WW in bases or WWP in bases:
        name = "G0"
    else:
        raise ValueError("a cycle of order alone: processes and real time have none")
    return f"{name}{TAGS[tag]}"
