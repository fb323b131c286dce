"""The checkers of G2 and monotonic against all orders of the ops of small histories."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, permutations
from typing import Any, Final, NamedTuple

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op, OpType

REGISTERS: Final = 3


class Call(NamedTuple):
    """An op: when it was asked for and answered, what was asked and answered; `end` is None for an unknown outcome."""

    begin: int
    end: int | None
    f: str
    asked: Any
    found: Any


def valid(checker: str, calls: Sequence[Call]) -> str:
    """The checker's verdict; each call is a process of its own."""
    events: list[tuple[int, int, OpType, Any]] = []
    for process, call in enumerate(calls):
        events.append((call.begin, process, "invoke", call.asked))
        if call.end is not None:
            events.append((call.end, process, "ok", call.found))
    ops = [
        Op(index=at, time=at, process=process, type=kind, f=calls[process].f, key="k", value=value, node="n1")
        for at, (_, process, kind, value) in enumerate(sorted(events, key=lambda event: event[0]))
    ]
    [verdict] = engine.judge(to_table(ops), [CheckerSpec(checker)], None, weaker=False)
    return verdict.valid


def orders(calls: Sequence[Call]) -> Any:
    """Every order of the calls that keeps real time, with each choice of those of unknown outcome."""
    certain = [call for call in calls if call.end is not None]
    unknown = [call for call in calls if call.end is None and call.f != "read"]
    for count in range(len(unknown) + 1):
        for chosen in combinations(unknown, count):
            for order in permutations([*certain, *chosen]):
                if not any(b.end is not None and b.end < a.begin for a, b in combinations(order, 2)):
                    yield order


def increments_explained(order: Sequence[Call]) -> bool:
    """Whether each op of this order found the registers as they were."""
    registers = [0] * REGISTERS
    for call in order:
        if call.end is not None and call.found != registers:
            return False
        if call.f == "increment":
            registers[call.asked] = max(registers) + 1
    return True


def rows_explained(order: Sequence[Call]) -> bool:
    """Whether this order inserts only where there was no row, and reads what there was."""
    pair: list[Any] = [None, None]
    for call in order:
        if call.f == "insert":
            if any(row is not None for row in pair):
                return False
            pair = list(call.asked)
        elif call.found != pair:
            return False
    return True


def times(rng: random.Random, count: int, ended: Sequence[bool]) -> list[tuple[int, int | None]]:
    """Distinct moments at which calls begin and end."""
    moments = list(range(2 * count))
    if rng.random() < 0.5:
        rng.shuffle(moments)
    spans = [sorted((moments[2 * place], moments[2 * place + 1])) for place in range(count)]
    return [(begin, end if done else None) for (begin, end), done in zip(spans, ended, strict=True)]


def monotonic_history(rng: random.Random) -> list[Call]:
    """Increments and reads of which most answer states that are near each other."""
    count = rng.randint(2, 5)
    ended = [rng.random() < 0.75 for _ in range(count)]
    states: list[list[int]] = [[0] * REGISTERS]
    calls: list[Call] = []
    for begin, end in times(rng, count, ended):
        f = "increment" if end is None or rng.random() < 0.6 else "read"
        state = list(rng.choice(states))
        where = rng.randrange(REGISTERS)
        calls.append(Call(begin, end, f, where if f == "increment" else None, state))
        after = list(state)
        after[where] = max(after) + 1
        states.append(after)
    return calls


def g2_history(rng: random.Random) -> list[Call]:
    """Insertions of one of two rows, and reads of what some of them inserted."""
    count = rng.randint(2, 5)
    ended = [rng.random() < 0.6 for _ in range(count)]
    rows = [[1, None], [None, 2], [3, None]]
    calls: list[Call] = []
    for begin, end in times(rng, count, ended):
        if end is None or rng.random() < 0.3:
            row = rng.choice(rows)
            calls.append(Call(begin, end, "insert", row, row))
        else:
            calls.append(Call(begin, end, "read", None, rng.choice([[None, None], *rows])))
    return calls


CASES: Final = {
    "monotonic": (monotonic_history, increments_explained),
    "g2": (g2_history, rows_explained),
}


@pytest.mark.parametrize("checker", CASES)
def test_no_history_that_an_order_explains_is_refuted_and_no_other_one_passes(checker: str) -> None:
    draw, explained = CASES[checker]
    rng = random.Random(f"all orders of {checker}")
    seen = {True: 0, False: 0}
    for _ in range(120):
        calls = draw(rng)
        possible = any(explained(order) for order in orders(calls))
        seen[possible] += 1
        assert (valid(checker, calls) != "false") == possible, calls
    assert min(seen.values()) > 15
