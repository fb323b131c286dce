"""Small histories for weaker models: written as one line per process, and drawn at random."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from splitbrain.checkers.linearizable.limits import Budget
from splitbrain.checkers.models import Model, model
from splitbrain.checkers.weaker.calls import read_calls
from splitbrain.checkers.weaker.models import CAUSAL, CONVERGENCE, MEMORY, SEQUENTIAL, Answer, decide
from splitbrain.checkers.weaker.work import STEPS, Work
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op

NAMES = {"SC": SEQUENTIAL, "CM": MEMORY, "CCv": CONVERGENCE, "CC": CAUSAL}


def history(*processes: str) -> list[Op]:
    """A history from ops such as "x=1" (write), "x:1" (read), "x:" (read of nothing), "x:1>2" (compare-and-set).

    "?" at the end: the op crashes. All ops are called one after the other, process by process: what is asked here takes
    no notice of real time.
    """
    ops: list[Op] = []
    for process, line in enumerate(processes):
        for text in line.split():
            call, crashed = text.removesuffix("?"), text.endswith("?")
            if "=" in call:
                key, _, value = call.partition("=")
                begin = Op(process=process, type="invoke", f="write", key=key, value=int(value))
                end = int(value)
            elif ">" in call:
                key, _, values = call.partition(":")
                begin = Op(process=process, type="invoke", f="cas", key=key, value=[int(v) for v in values.split(">")])
                end = begin.value
            else:
                key, _, value = call.partition(":")
                begin = Op(process=process, type="invoke", f="read", key=key)
                end = int(value) if value else None
            ops += [begin, begin.complete("info" if crashed else "ok", None if crashed else end)]
    return numbered(ops)


def numbered(ops: Sequence[Op]) -> list[Op]:
    return [msgspec.structs.replace(op, index=index, time=index) for index, op in enumerate(ops)]


def decided(ops: Sequence[Op], of: Model | str = "cas-register", steps: int = STEPS) -> Answer:
    """What the deciders say, without a limit of time."""
    chosen = model(of) if isinstance(of, str) else of
    return decide(read_calls(to_table(list(ops)), chosen), chosen, Work(Budget(float("inf")), steps))


def drawn(seed: int, *, ops: int, keys: int, processes: int, values: int | None, crashes: bool, cas: bool) -> list[Op]:
    """A history at random; `values`: how many different ones are written, None for each one once.

    What is read is drawn from what is written at all, and nothing: about half of such histories are wrong somewhere.
    """
    draw = random.Random(seed)
    names = [f"k{number}" for number in range(keys)]
    calls = [(draw.randrange(processes), draw.choice(names), draw.random()) for _ in range(ops)]
    written: dict[str, list[int]] = {name: [] for name in names}
    plan: list[Op] = []
    for number, (process, name, chance) in enumerate(calls):
        new = number + 1 if values is None else draw.randrange(values)
        if chance < 0.45:
            written[name].append(new)
            plan.append(Op(process=process, type="invoke", f="write", key=name, value=new))
        elif chance < 0.6 and cas:
            written[name].append(new)
            plan.append(Op(process=process, type="invoke", f="cas", key=name, value=[None, new]))
        else:
            plan.append(Op(process=process, type="invoke", f="read", key=name))
    found: list[Op] = []
    ended: set[int] = set()
    for op in plan:
        if op.process in ended:
            continue
        known = [None, *written[op.key or ""]]
        crashed = crashes and draw.random() < 0.15
        if op.f == "cas":
            op = msgspec.structs.replace(op, value=[draw.choice(known), op.value[1]])
        result = draw.choice(known) if op.f == "read" else op.value
        found += [op, op.complete("info" if crashed else "ok", None if crashed else result)]
        ended |= {op.process} if crashed else set()
    return numbered(found)
