"""What the models mean, written a second time, and linearizability by trying every order.

Nothing here is shared with `splitbrain.checkers.models` or with a search. An op takes a state to all states that it can
lead to: none if it cannot happen, several where nobody knows what it did. States say all that was ever asked or
answered rather than a clever summary of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from splitbrain.results.history import Op


class Call(NamedTuple):
    """An op: what was asked, by whom; and what was answered, if it is known."""

    f: str
    value: Any
    answer: Any
    known: bool
    process: int

    def may_answer(self, truth: Any) -> bool:
        return not self.known or self.answer == truth


State = Any
Step = Callable[[State, Call], list[State]]


def _register(held: State, call: Call) -> list[State]:
    if call.f == "read":
        return [held] if call.may_answer(held) else []
    if call.f in ("write", "create"):
        return [call.value] if call.f == "write" or held is None else []
    expected, new = call.value
    if call.known and call.answer is False:
        return [held] if held != expected else []
    return [new] if held == expected else []


def _read_modes(modes: Sequence[str] | None) -> Step:
    """The modes are those in which a read is linearizable, beside the plain one."""
    proven = {"read", *(modes or ())}

    def step(held: State, call: Call) -> list[State]:
        if call.f not in proven and call.f.startswith("read"):
            return [held]
        return _register(held, call._replace(f="read") if call.f in proven else call)

    return step


def _registers(held: State, call: Call) -> list[State]:
    """The state is a set of (name, value), without those that are null."""
    values = dict(held)
    if call.f == "write":
        values.update(call.value)
    elif call.f == "cas":
        expected, new = call.value
        if any(values.get(name) != value for name, value in expected.items()):
            return []
        values.update(new)
    elif call.f == "read":
        if call.known and any(values.get(name) != seen for name, seen in call.answer.items()):
            return []
    else:
        for step, (kind, name, value) in enumerate(call.value):
            if kind == "w":
                values[name] = value
            elif call.known and values.get(name) != call.answer[step][2]:
                return []
    return [frozenset((name, value) for name, value in values.items() if value is not None)]


def _string(text: State, call: Call) -> list[State]:
    if call.f == "get":
        return [text] if not call.known or (call.answer or "") == text else []
    return [(text if call.f == "append" else "") + (call.value or "")]


def _lock(holders: State, call: Call) -> list[State]:
    """The state is how often it is held."""
    after = holders + (1 if call.f == "acquire" else -1)
    return [after] if after in (0, 1) else []


def _semaphore(permits: int) -> Step:
    def step(taken: State, call: Call) -> list[State]:
        amount = 1 if call.value is None else call.value
        after = taken + (amount if call.f == "acquire" else -amount)
        return [after] if 0 <= after <= permits else []

    return step


def _owned(at_most: int | None) -> Step:
    """The state is the owner, once per acquire that was not yet released."""

    def step(owners: State, call: Call) -> list[State]:
        who = call.process if call.value is None else call.value
        if owners and owners[0] != who:
            return []
        if call.f == "release":
            return [owners[1:]] if owners else []
        if call.f == "hold":
            lost = [] if call.known and call.answer is not False else [owners[1:]]
            kept = [] if call.known and call.answer is False else [owners]
            return [*kept, *lost] if owners else []
        return [(*owners, who)] if at_most is None or len(owners) < at_most else []

    return step


def _fenced(state: State, call: Call) -> list[State]:
    """The state is the owners as above, and all tokens so far: null for one that nobody saw."""
    owners, tokens = state
    after = _owned(1)(owners, call)
    if not after or call.f == "release":
        return [(each, tokens) for each in after]
    tokens = (*tokens, call.answer if call.known else None)
    seen = [(place, token) for place, token in enumerate(tokens) if token is not None]
    grow = all(later - token >= at - place for place, token in seen for at, later in seen if at > place)
    return [(after[0], tokens)] if grow else []


def _elements(elements: State, call: Call) -> list[State]:
    if call.f == "read":
        return [elements] if not call.known or sorted(call.answer or []) == sorted(elements) else []
    if call.f == "contains":
        return [elements] if call.may_answer(call.value in elements) else []
    after = elements | {call.value} if call.f == "add" else elements - {call.value}
    said = call.answer if call.known and isinstance(call.answer, bool) else None
    return [after] if said in (None, after != elements) else []


def _added(elements: State, call: Call) -> list[State]:
    return _elements(elements, call._replace(known=call.known and call.f == "read"))


def _bag(take: Callable[[State], Iterator[int]]) -> Step:
    """The state is the values in the order in which they were put in; `take` says which may leave next."""

    def step(values: State, call: Call) -> list[State]:
        if call.f in ("enqueue", "push"):
            return [(*values, call.value)]
        if not values:
            return [values] if call.may_answer(None) else []
        leaving = [at for at in take(values) if call.may_answer(values[at])]
        return list({values[:at] + values[at + 1 :]: None for at in leaving})

    return step


def _sum(total: State, call: Call) -> list[State]:
    if call.f == "add":
        return [total + call.value]
    if call.f == "increment":
        return [total + call.value] if call.may_answer(total + call.value) else []
    return [total] if not call.known or (call.answer or 0) == total else []


def _given(ids: State, call: Call) -> list[State]:
    if not call.known:
        return [ids]
    return [] if call.answer in ids else [ids | {call.answer}]


@dataclass(frozen=True)
class Meaning:
    """Where a model begins, and what its ops do; given its parameter."""

    begin: Callable[[Any], Hashable]
    step: Callable[[Any], Step]


def _plain(begin: Hashable, step: Step) -> Meaning:
    return Meaning(lambda given: begin if given is None else given, lambda _: step)


def _named(given: dict[str, Any] | None) -> Hashable:
    return frozenset((name, value) for name, value in (given or {}).items() if value is not None)


MEANINGS: Final[Mapping[str, Meaning]] = {
    "register": _plain(None, _register),
    "cas-register": _plain(None, _register),
    "read-modes": Meaning(lambda _: None, _read_modes),
    "create-once": _plain(None, _register),
    "multi-register": Meaning(_named, lambda _: _registers),
    "kv": _plain("", _string),
    "mutex": _plain(0, _lock),
    "semaphore": Meaning(lambda _: 0, lambda permits: _semaphore(permits or 1)),
    "owner-mutex": _plain((), _owned(1)),
    "reentrant-mutex": Meaning(lambda _: (), _owned),
    "fenced-mutex": _plain(((), ()), _fenced),
    "set": _plain(frozenset[Any](), _elements),
    "grow-set": _plain(frozenset[Any](), _added),
    "fifo-queue": _plain((), _bag(lambda values: iter([0]))),
    "stack": _plain((), _bag(lambda values: iter([len(values) - 1]))),
    "priority-queue": _plain((), _bag(lambda values: iter([values.index(min(values))]))),
    "unordered-queue": _plain((), _bag(lambda values: iter(range(len(values))))),
    "counter": _plain(0, _sum),
    "unique-ids": _plain(frozenset[Any](), _given),
}


def legal(model: str, history: Sequence[Op]) -> bool:
    """Whether some order of all ops that returned ok, and of any that crashed, is possible and respects real time."""
    name, _, parameter = model.partition("(")
    given = json.loads(parameter[:-1]) if parameter else None
    step = MEANINGS[name].step(given)
    begin, end, calls = _calls(history)
    certain = sum(1 << i for i, call in enumerate(calls) if call.known)
    before = [sum(1 << j for j in range(len(calls)) if end[j] < begin[i]) for i in range(len(calls))]
    seen: set[tuple[int, State]] = set()

    def go_on(done: int, state: State) -> bool:
        if certain & ~done == 0:
            return True
        if (done, state) in seen:
            return False
        seen.add((done, state))
        return any(
            go_on(done | 1 << i, following)
            for i, call in enumerate(calls)
            if not done >> i & 1 and not before[i] & ~done
            for following in step(state, call)
        )

    return go_on(0, MEANINGS[name].begin(given))


def _calls(history: Sequence[Op]) -> tuple[list[int], list[float], list[Call]]:
    """When each op that did not fail was invoked, when it returned, and what it was."""
    completions: dict[int, tuple[float, Op]] = {}
    begin: list[int] = []
    end: list[float] = []
    calls: list[Call] = []
    for at in reversed(range(len(history))):
        op = history[at]
        if op.type != "invoke":
            completions[op.process] = (at, op)
            continue
        ended, completion = completions.pop(op.process, (float("inf"), op))
        if completion.type == "fail":
            continue
        known = completion.type == "ok"
        begin.append(at)
        end.append(ended if known else float("inf"))
        calls.append(Call(op.f, _hashable(op.value), _hashable(completion.value), known, op.process))
    return begin, end, calls


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, cast("list[Any]", value))) if isinstance(value, list) else value
