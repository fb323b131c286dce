"""Session guarantees by definition: try every order of all writes, and compare every pair of ops. Slow, and plain."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from splitbrain.results.history import Op, pairs

INITIAL = -1


@dataclass
class Call:
    """One op: the values that it saw and left (where it did), and when, in rows of the history."""

    process: int
    f: str
    key: str | None
    begin: int
    end: float
    ok: bool
    sees: bool
    seen: Any
    leaves: bool
    left: Any
    term: int | None
    session: tuple[int, int]


def calls_of(history: Sequence[Op], connections: bool) -> list[Call]:
    ends = [op for op in history if op.type == "info" or (connections and op.type == "fail")]
    found: list[Call] = []
    for pair in pairs(history):
        begin, end = pair.invoke, pair.completion
        if end is not None and end.type == "fail":
            continue
        ok = end is not None and end.type == "ok"
        before = sum(op.process == begin.process and op.index < begin.index for op in ends)
        cas, write = begin.f == "cas", begin.f == "write"
        found.append(
            Call(
                begin.process,
                begin.f,
                begin.key,
                begin.index,
                end.index if ok and end is not None else float("inf"),
                ok,
                cas or (ok and not write),
                begin.value[0] if cas else None if end is None else end.value,
                cas or write,
                begin.value[1] if cas else begin.value,
                end.term if ok and end is not None else None,
                (begin.process, before),
            )
        )
    return sorted(found, key=lambda call: call.begin)


def judge(history: Sequence[Op], options: Mapping[str, Any]) -> Literal["true", "false", "ambiguous"]:
    """What the checker must say; "ambiguous": no order is refuted, and a value has several possible writers."""
    calls = calls_of(history, options.get("sessions") == "connection")
    sources: dict[int, int | None] = {}

    def candidates(number: int) -> list[int]:
        call = calls[number]
        found = [
            other
            for other, write in enumerate(calls)
            if other != number
            and write.leaves
            and (write.key, write.left) == (call.key, call.seen)
            and write.begin < call.end
        ]
        return ([INITIAL] if call.seen is None else []) + found

    pending = [number for number, call in enumerate(calls) if call.ok and call.sees]
    ambiguous = False
    while pending:
        number = pending.pop()
        among = candidates(number)
        if not among:
            return "false"
        sources[number] = among[0] if len(among) == 1 else None
        ambiguous |= len(among) > 1
        source = sources[number]
        if source is not None and source >= 0 and calls[source].sees and source not in sources:
            pending.append(source)
    writes = [number for number, call in enumerate(calls) if call.leaves]
    shown = {
        write: min([calls[write].end, *(calls[reader].end for reader, source in sources.items() if source == write)])
        for write in writes
    }
    for order in itertools.permutations(writes):
        place = {INITIAL: -1} | {write: at for at, write in enumerate(order)}
        if agrees(calls, sources, shown, place, options):
            return "ambiguous" if ambiguous else "true"
    return "false"


def agrees(
    calls: Sequence[Call],
    sources: Mapping[int, int | None],
    shown: Mapping[int, float],
    place: Mapping[int, int],
    options: Mapping[str, Any],
) -> bool:
    """Whether an order of the writes, by place, fulfils everything."""
    if options.get("linearizable_writes"):
        for one, other in itertools.product(shown, repeat=2):
            if shown[one] < calls[other].begin and place[one] > place[other]:
                return False
    pairs_of_ops = itertools.combinations_with_replacement(range(len(calls)), 2)
    return all(agree(calls, sources, place, options, *pair) for pair in pairs_of_ops)


def agree(
    calls: Sequence[Call],
    sources: Mapping[int, int | None],
    place: Mapping[int, int],
    options: Mapping[str, Any],
    earlier: int,
    later: int,
) -> bool:
    """Whether two ops, or one that reads and writes, fulfil the four guarantees."""
    first, second, saw, version = calls[earlier], calls[later], sources.get(earlier), sources.get(later)
    if first.session != second.session:
        return True
    before = [] if saw is None else [saw]
    if first.leaves and earlier != later:
        before.append(earlier)
    if second.leaves and any(place[write] >= place[later] for write in before):
        return False
    if version is None or earlier == later or not promises(first, second, options):
        return True
    wanted = None if options.get("follows") is None else {*options["follows"][second.f], second.f}
    if first.leaves and (wanted is None or "write" in wanted) and place[earlier] > place[version]:
        return False
    reads = first.f.startswith("read") and (wanted is None or first.f in wanted)
    return not (reads and saw is not None and place[saw] > place[version])


def promises(first: Call, second: Call, options: Mapping[str, Any]) -> bool:
    """Whether a read promises anything after another op of its session."""
    follows = options.get("follows")
    if first.key != second.key or (follows is not None and second.f not in follows):
        return False
    return second.f not in options.get("same_term", ()) or (first.term is not None and first.term == second.term)
