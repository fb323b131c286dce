"""Histories of containers of distinct values, made as `Ops` at once; and their linearizability by definition."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.deciders import Decision, queues, stacks
from splitbrain.checkers.linearizable.deciders.priority_queues import smallest_first
from splitbrain.checkers.linearizable.encoding import events
from splitbrain.checkers.linearizable.ops import OPEN, Ops, Transition
from splitbrain.checkers.linearizable.search import Limits, Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import IMPOSSIBLE, UNKNOWN, Model

FAR: Final = 1 << 60


@dataclass(frozen=True)
class Kind:
    """A container: its model, the decider, and how values go in and come out."""

    name: str
    decide: Callable[[Ops, Model], Decision | None]
    put: str = "enqueue"
    take: str = "dequeue"

    @property
    def model(self) -> Model:
        return models.model(self.name)


KINDS: Final = (
    Kind("fifo-queue", queues.fifo),
    Kind("unordered-queue", queues.unordered),
    Kind("stack", stacks.stack, "push", "pop"),
    Kind("priority-queue", smallest_first),
)


@dataclass(frozen=True)
class Call:
    """An op with its times, which are rows of the history; `result` of a take only."""

    f: str
    value: Any
    invoked: int
    completed: int = FAR
    result: Any = UNKNOWN

    @property
    def crashed(self) -> bool:
        return self.completed == FAR


def to_ops(calls: list[Call]) -> Ops:
    """As `read_ops` would give them, without a table."""
    calls = sorted(calls, key=lambda call: call.invoked)
    transitions = list(dict.fromkeys(Transition(call.f, call.value, call.result) for call in calls))
    numbers = {transition: number for number, transition in enumerate(transitions)}
    return Ops(
        table=pa.table({}),
        invoked=np.array([call.invoked for call in calls], np.int64),
        completed=np.array([OPEN if call.crashed else call.completed for call in calls], np.int64),
        crashed=np.array([call.crashed for call in calls], np.bool_),
        transition=np.array([numbers[Transition(call.f, call.value, call.result)] for call in calls], np.int32),
        transitions=transitions,
    )


def part(ops: Ops, chosen: list[int]) -> Ops:
    """Some ops only."""
    return replace(
        ops,
        invoked=ops.invoked[chosen],
        completed=ops.completed[chosen],
        crashed=ops.crashed[chosen],
        transition=ops.transition[chosen],
    )


def linearizable(ops: Ops, model: Model, must: Collection[int] | None = None, until: int = FAR) -> bool:
    """By the definition: some order of the ops that happened, in real time, that the model allows.

    Args:
        ops: the history.
        model: what is allowed.
        must: the ops that must have happened; the others may have. All that returned if left out.
        until: the last row that is known. What returned later may have happened, with the result that it had later.
    """
    count = len(ops.invoked)
    invoked = ops.invoked.tolist()
    end = np.where(ops.crashed | (ops.completed > until), FAR, ops.completed).tolist()
    count = sum(row <= until for row in invoked)
    transitions = cast("list[int]", ops.transition.tolist())
    calls = [ops.transitions[transition] for transition in transitions]
    later = [sum(1 << j for j in range(count) if end[i] < invoked[j]) for i in range(count)]
    obliged = sum(1 << i for i in range(count) if end[i] < FAR and (must is None or i in must))
    earlier = [sum(1 << j for j in range(count) if end[j] < invoked[i]) & obliged for i in range(count)]
    seen: set[tuple[Any, int]] = set()
    waiting: list[tuple[Any, int]] = [(model.init(), 0)]
    while waiting:
        state, done = waiting.pop()
        if not obliged & ~done:
            return True
        for i in range(count):
            if done >> i & 1 or earlier[i] & ~done or later[i] & done:
                continue
            after = model.step(state, calls[i].f, calls[i].value, calls[i].result)
            following = (after, done | 1 << i)
            if after is not IMPOSSIBLE and following not in seen:
                seen.add(following)
                waiting.append(following)
    return False


def frontier(ops: Ops, model: Model) -> bool:
    """By the search."""
    stepper = Stepper(model, ops.transitions, cells=10_000_000)
    answer = Search(events(ops, stepper.observer), stepper, Limits()).run().answer
    assert answer in ("linearizable", "violation"), answer
    return answer == "linearizable"


@dataclass
class _UnderWay:
    f: str
    value: Any
    invoked: int
    done: bool = False
    result: Any = UNKNOWN


def random_calls(
    rng: random.Random,
    kind: Kind,
    *,
    count: int,
    processes: int,
    crashed_puts: float = 0.0,
    crashed_takes: float = 0.0,
    takes: float = 0.5,
    hurry: float = 0.5,
    full: int = FAR,
    distinct: int | None = None,
) -> list[Call]:
    """A linearizable history: each op takes effect at one moment between its invocation and its completion.

    Args:
        rng: decides everything.
        kind: the container.
        count: ops.
        processes: at most so many at a time.
        crashed_puts: share of the puts of which nobody knows if they happened.
        crashed_takes: likewise of the takes.
        takes: share of the takes.
        hurry: how soon ops complete; the smaller, the more of them overlap.
        full: when so many values are inside, only takes begin.
        distinct: how many different values are put in; each is put in once if left out.
    """
    held: list[Any] = []
    under_way: list[_UnderWay] = []
    calls: list[Call] = []
    values = list(range(1, count + 1))
    rng.shuffle(values)
    if distinct is not None:
        values = [rng.randrange(distinct) for _ in values]
    row = invoked = 0
    while invoked < count or under_way:
        if len(under_way) < processes and invoked < count and rng.random() >= hurry * bool(under_way):
            take = len(held) >= full or rng.random() < takes
            under_way.append(_UnderWay(kind.take if take else kind.put, None if take else values[invoked], row))
            invoked, row = invoked + 1, row + 1
            continue
        op = rng.choice(under_way)
        crashes = rng.random() < (crashed_takes if op.f == kind.take else crashed_puts)
        if not op.done and (not crashes or rng.random() < 0.5):
            _take_effect(rng, kind, held, op)
            if rng.random() < 0.5:
                continue
        under_way.remove(op)
        if crashes:
            calls.append(Call(op.f, op.value, op.invoked))
        else:
            calls.append(Call(op.f, op.value, op.invoked, row, op.result))
            row += 1
    return calls


def _take_effect(rng: random.Random, kind: Kind, held: list[Any], op: _UnderWay) -> None:
    op.done = True
    if op.f == kind.put:
        held.append(op.value)
        op.result = op.value
    elif not held:
        op.result = None
    else:
        which = {
            "fifo-queue": 0,
            "stack": len(held) - 1,
            "unordered-queue": rng.randrange(len(held)),
            "priority-queue": held.index(min(held)),
        }[kind.name]
        op.result = held.pop(which)


def twisted(rng: random.Random, kind: Kind, calls: list[Call]) -> list[Call]:
    """The history with some answers changed for others, so that it may be wrong: swapped with one near, or made up."""
    calls = list(calls)
    answered = [i for i, call in enumerate(calls) if call.f == kind.take and not call.crashed]
    for _ in range(rng.choice([1, 1, 2, 4])):
        if not answered:
            break
        at = rng.randrange(len(answered))
        one, other = answered[at], answered[min(max(at + rng.randint(-4, 4), 0), len(answered) - 1)]
        if rng.random() < 0.85:
            first, second = calls[one].result, calls[other].result
            calls[one] = replace(calls[one], result=second)
            calls[other] = replace(calls[other], result=first)
        else:
            values = [call.value for call in calls if call.f == kind.put]
            calls[one] = replace(calls[one], result=rng.choice([None, *values]))
    return calls


def small_calls(rng: random.Random, kind: Kind) -> list[Call]:
    """At most nine ops of at most four processes; one half tells nothing but the truth."""
    calls = random_calls(
        rng,
        kind,
        count=rng.randint(4, 9),
        processes=rng.randint(2, 4),
        crashed_puts=rng.choice([0.0, 0.0, 0.4]),
        crashed_takes=rng.choice([0.0, 0.0, 0.0, 0.2]),
        takes=rng.choice([0.4, 0.5, 0.6]),
        hurry=rng.choice([0.3, 0.5, 0.7]),
    )
    return twisted(rng, kind, calls) if rng.random() < 0.5 else calls


def paired_calls(rng: random.Random, kind: Kind) -> list[Call]:
    """Two to four values, each put in and mostly taken out, at random times that have little to do with each other.

    So nothing but the container's order is likely to be violated. Up to two takes found nothing.
    """
    values = rng.sample(range(1, 9), rng.choice([2, 3, 3, 4, 4]))
    shapes: list[tuple[str, Any, Any]] = []
    for value in values:
        shapes.append((kind.put, value, value))
        if rng.random() < 0.85:
            shapes.append((kind.take, None, value))
    shapes += [(kind.take, None, None)] * rng.choice([0, 0, 0, 1, 1, 2])
    times = list(range(2 * len(shapes)))
    rng.shuffle(times)
    spread = rng.choice([3, 6, 20])
    calls: list[Call] = []
    for f, value, result in shapes:
        start = times.pop()
        near = sorted(times, key=lambda time, start=start: abs(time - start))[:spread]
        stop = rng.choice(near)
        times.remove(stop)
        first, last = min(start, stop), max(start, stop)
        crashed = f == kind.put and rng.random() < 0.08
        calls.append(Call(f, value, first, FAR if crashed else last, UNKNOWN if crashed else result))
    return _in_turn(kind, calls)


def _in_turn(kind: Kind, calls: list[Call]) -> list[Call]:
    """The same times, such that no take has ended before the put of its value began."""
    puts = {call.value: i for i, call in enumerate(calls) if call.f == kind.put}
    for i, call in enumerate(calls):
        put = puts.get(call.result) if call.f == kind.take else None
        if put is not None and call.completed < calls[put].invoked:
            times = sorted({call.invoked, call.completed, calls[put].invoked, calls[put].completed})
            crashed = calls[put].crashed
            calls[put] = replace(calls[put], invoked=times[0], completed=FAR if crashed else times[1])
            calls[i] = replace(call, invoked=times[1 if crashed else 2], completed=times[2 if crashed else 3])
    return calls
