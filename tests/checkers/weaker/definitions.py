"""Sequential and causal consistency by definition: try every order. Slow, and plainly right.

Causal consistency is that of Bouajjani, Enea, Guerraoui and Hamza (POPL 2017): there is a strict partial order of the
ops that contains program order, such that for each op its causal past, with some of the answers (CC: its own; CM: those
of its process up to it), can be put into a sequence that a register allows; CCv: and these sequences are parts of one.
A compare-and-set is, for causality, a read and then a write of its process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from splitbrain.results.history import Op, pairs

Value = int | None
Edges = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Call:
    """One op: what it requires and what it leaves ("any": nothing), and the op that its process called before."""

    key: str | None
    sees: Value | str
    leaves: Value | str
    certain: bool
    after: int


def calls_of(history: Sequence[Op]) -> list[Call]:
    """The ops that did not fail; a crashed op comes after what its process did before, and before nothing."""
    found: list[Call] = []
    last: dict[int, int] = {}
    for pair in pairs(history):
        end, op = pair.completion, pair.invoke
        if end is not None and end.type == "fail":
            continue
        certain = end is not None and end.type == "ok"
        sees: Value | str = "any"
        leaves: Value | str = "any"
        if op.f == "read":
            sees = end.value if end is not None and certain else "any"
        elif op.f == "write":
            leaves = op.value
        else:
            sees, leaves = op.value
        after = last.get(op.process, -1)
        if certain:
            last[op.process] = len(found)
        found.append(Call(op.key, sees, leaves, certain, after))
    return found


def is_sequential(calls: Sequence[Call]) -> bool:
    """Whether some order of all ops that happened, and any of the others, is that of one copy of the registers."""
    seen: set[tuple[frozenset[int], tuple[tuple[str | None, Value | str], ...]]] = set()

    def search(done: frozenset[int], held: dict[str | None, Value | str]) -> bool:
        if all(op in done for op, call in enumerate(calls) if call.certain):
            return True
        where = (done, tuple(sorted(held.items(), key=repr)))
        if where in seen:
            return False
        seen.add(where)
        for op, call in enumerate(calls):
            if op in done or (call.after >= 0 and call.after not in done):
                continue
            now = held.get(call.key)
            if call.sees in ("any", now):
                after = now if call.leaves == "any" else call.leaves
                if search(done | {op}, {**held, call.key: after}):
                    return True
        return False

    return search(frozenset(), {})


@dataclass(frozen=True)
class Step:
    """A read or a write: what `Call` becomes for causality."""

    key: str | None
    is_read: bool
    value: Value | str
    process: int


def causal_models(calls: Sequence[Call]) -> set[str]:
    """Which of CC, CM and CCv hold, with some of the crashed ops."""
    unsure = [op for op, call in enumerate(calls) if not call.certain]
    found: set[str] = set()
    for count in range(len(unsure) + 1):
        for happened in itertools.combinations(unsure, count):
            found |= _of_steps(*_steps(calls, set(happened)))
    return found


def _steps(calls: Sequence[Call], happened: set[int]) -> tuple[list[Step], Edges]:
    steps: list[Step] = []
    edges: set[tuple[int, int]] = set()
    last: dict[int, int] = {}
    process: dict[int, int] = {}
    for op, call in enumerate(calls):
        process[op] = op if call.after < 0 else process[call.after]
        if not call.certain and op not in happened:
            continue
        before = last.get(call.after, -1)
        for is_read, value in ((True, call.sees), (False, call.leaves)):
            if value == "any":
                continue
            steps.append(Step(call.key, is_read, value, process[op]))
            if before >= 0:
                edges.add((before, len(steps) - 1))
            before = len(steps) - 1
        last[op] = before
    return steps, _closed(frozenset(edges))


def _of_steps(steps: list[Step], program: Edges) -> set[str]:
    found: set[str] = set()
    for causal in _orders(len(steps), program):
        if "CC" not in found and all(_explains(steps, causal, op, {op}) for op in range(len(steps))):
            found.add("CC")
        if "CM" not in found and all(
            _explains(steps, causal, op, {op} | {before for before, after in program if after == op})
            for op in range(len(steps))
        ):
            found.add("CM")
        if "CCv" not in found and _converges(steps, causal):
            found.add("CCv")
        if found == {"CC", "CM", "CCv"}:
            break
    return found


def _explains(steps: list[Step], causal: Edges, op: int, answers: set[int]) -> bool:
    """Whether the causal past of an op, with these answers, can be put into a sequence that registers allow."""
    past = [before for before, after in causal if after == op] + [op]
    counted = [each for each in past if not steps[each].is_read or each in answers]
    return any(_is_legal(steps, order) for order in _linear(counted, causal))


def _converges(steps: list[Step], causal: Edges) -> bool:
    for order in _linear(list(range(len(steps))), causal):
        rank = {op: number for number, op in enumerate(order)}
        if all(
            _is_legal(
                steps,
                [
                    each
                    for each in sorted([*(b for b, after in causal if after == op), op], key=rank.__getitem__)
                    if each == op or not steps[each].is_read
                ],
                only=op,
            )
            for op in range(len(steps))
            if steps[op].is_read
        ):
            return True
    return False


def _is_legal(steps: list[Step], order: Sequence[int], only: int | None = None) -> bool:
    held: dict[str | None, Value | str] = {}
    for op in order:
        step = steps[op]
        if not step.is_read:
            held[step.key] = step.value
        elif held.get(step.key) != step.value:
            return False
        if op == only:
            return True
    return True


def _linear(ops: list[int], causal: Edges) -> Iterator[list[int]]:
    if not ops:
        yield []
    for op in ops:
        if not any((other, op) in causal for other in ops):
            for rest in _linear([each for each in ops if each != op], causal):
                yield [op, *rest]


@cache
def _natural(count: int) -> list[Edges]:
    """All transitive orders of 0 to count - 1 in which only smaller ones come before larger ones."""
    if count == 0:
        return [frozenset()]
    found: list[Edges] = []
    for smaller in _natural(count - 1):
        new = count - 1
        for size in range(new + 1):
            for below in itertools.combinations(range(new), size):
                if all(a in below for a, b in smaller if b in below):
                    found += [smaller | {(each, new) for each in below}]
    return found


def _orders(count: int, program: Edges) -> Iterator[Edges]:
    """All strict partial orders that contain program order; the fewest relations first."""
    found: set[Edges] = set()
    for order in _linear(list(range(count)), program):
        for natural in _natural(count):
            relation = frozenset((order[a], order[b]) for a, b in natural)
            if program <= relation:
                found.add(relation)
    yield from sorted(found, key=len)


def _closed(edges: Edges) -> Edges:
    while True:
        more = {(a, d) for a, b in edges for c, d in edges if b == c} - edges
        if not more:
            return edges
        edges |= more
