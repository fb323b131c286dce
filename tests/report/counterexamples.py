"""Histories of a register with one wrong read, and the evidence that a checker gives of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from splitbrain.results.arrow import to_table
from splitbrain.results.history import NEMESIS, Op

WRONG = 777_777


@dataclass(frozen=True)
class Sample:
    """A history, with what is known of its violation."""

    history: pa.Table
    evidence: dict[str, Any]
    sentence: str


def sample(
    ops: int = 400,
    clients: int = 5,
    *,
    seed: int = 1,
    crashes: float = 0.0,
    hostile: str | None = None,
    key: str | None = "k",
    faults: bool = True,
    wrong: int = WRONG,
) -> Sample:
    """`ops` ops of `clients` clients that are always busy. Each takes effect when it completes.

    The first read that completes after nine tenths of the history answers `wrong`. A client whose op crashes goes on as
    another process. With `hostile`, that text is every value, node, key, and name of a fault.
    """
    rng = random.Random(seed)
    value: Any = None
    history: list[Op] = []
    under_way: dict[int, Op] = {}
    process_of = list(range(clients))
    completions: list[tuple[Op, Any]] = []
    failing: Op | None = None
    time, invoked, fault = 0, 0, 0
    while failing is None or invoked < ops:
        client = rng.randrange(clients)
        time += rng.randrange(1_000, 400_000)
        if faults and len(history) > (2 * fault + 1) * ops // 7:
            history += _fault(fault, time, hostile)
            fault += 1
        if client not in under_way:
            under_way[client] = op = _invocation(rng, process_of[client], hostile, key, time)
            history.append(op)
            invoked += 1
            continue
        op = under_way.pop(client)
        if op.f == "write" and rng.random() < crashes:
            history.append(msgspec.structs.replace(op.complete("info", error=hostile or "timeout"), time=time))
            process_of[client] += clients
            continue
        value = op.value if op.f == "write" else value
        answer: Any = value
        if failing is None and op.f == "read" and invoked >= ops * 9 // 10:
            failing, answer = op, wrong
        elif failing is None:
            completions.append((op, value))
        history.append(msgspec.structs.replace(op.complete("ok", answer), time=time))
    indexed = [msgspec.structs.replace(op, index=index) for index, op in enumerate(history)]
    return Sample(
        to_table(indexed), _evidence(indexed, history, completions, failing, wrong), "Not linearizable: n1 answered."
    )


def _invocation(rng: random.Random, process: int, hostile: str | None, key: str | None, time: int) -> Op:
    f = rng.choice(["read", "write"])
    value = None if f == "read" else (f"{hostile}{rng.randrange(9)}" if hostile else rng.randrange(1000))
    node = hostile or f"n{process % 5 + 1}"
    return Op(process=process, type="invoke", f=f, value=value, node=node, key=hostile or key, time=time)


def _fault(number: int, time: int, hostile: str | None) -> list[Op]:
    action = "stop" if number % 2 else "start"
    value = {"fault": hostile or "partition", "action": action, "target": hostile or "n4 | n1 n2 n3 n5"}
    return [
        Op(process=NEMESIS, type=kind, f=f"{action}-partition", value=value, time=time) for kind in ("invoke", "ok")
    ]


def _evidence(
    indexed: list[Op], history: list[Op], completions: list[tuple[Op, Any]], failing: Op, wrong: int
) -> dict[str, Any]:
    """What a checker would say; the order is that of the completions."""
    index = {id(op): place for place, op in enumerate(history)}
    at = index[id(failing)]
    end = next(op for op in indexed[at + 1 :] if op.process == failing.process)
    last = completions[-25:]
    since = min(index[id(op)] for op, _ in last)

    def words(op: Op, value: Any) -> str:
        return f"write {op.value}" if op.f == "write" else f"read -> {value}"

    def described(op: Op, value: Any) -> dict[str, Any]:
        done = next(other for other in indexed[index[id(op)] + 1 :] if other.process == op.process)
        return {
            "op": words(op, value),
            "f": op.f,
            "value": op.value,
            "type": "ok",
            "result": value,
            "process": op.process,
            "node": op.node,
            "invoked_index": index[id(op)],
            "invoked_ns": op.time,
            "completed_index": done.index,
            "completed_ns": done.time,
        }

    steps = [
        {"op": words(op, value), "process": op.process, "invoked_index": index[id(op)], "state": str(value)}
        for op, value in last
    ]
    then = f"read -> {wrong} cannot follow: the state is {steps[-1]['state']}"
    path = {"begins": str(completions[-26][1]), "already": [], "steps": steps, "ends": steps[-1]["state"], "then": then}
    other = {**path, "steps": steps[:-1], "ends": steps[-2]["state"]}
    return {
        "key": failing.key,
        "model": "register",
        "prefix": {"ops": at, "last_index": end.index, "time_ns": end.time},
        "prefix_is_smallest": True,
        "failing_op": described(failing, wrong),
        "possible_states": [steps[-1]["state"]],
        "possible_states_count": 1,
        "pending": [],
        "pending_count": 0,
        "window": [],
        "witness": {"ops": [described(*last[-2]), described(failing, wrong)], "minimal": True},
        "final_paths": {
            "since_index": since,
            "ops_before": len(completions) - 25,
            "paths": [path, other],
            "states_left_out": 0,
        },
    }
