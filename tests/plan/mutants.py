"""Sound plans, and mutants of them: each is either run and judged, or refused before it runs."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from splitbrain.harness.campaigns.replaying import compare, original_of, replay
from splitbrain.results.errors import SplitbrainError

NODES = ["n1", "n2", "n3"]
OPTIONS: dict[str, Any] = {
    "workload": "register",
    "nemesis": "partition,packet,clock,disk,cpu,pause,kill,bounce,restart,power",
    "system": "metadata",
    "backend": "sim",
    "bug": "",
    "nodes": "3",
    "concurrency": "3",
    "rate": 100.0,
    "time_limit": 1.0,
    "interval": None,
    "op_timeout": 1.0,
    "recovery": 20.0,
    "seed": 7,
    "world": "lan",
}
MS = 1_000_000

OPS: dict[str, list[dict[str, Any]]] = {
    "register": [
        {"f": "write", "key": "0", "value": 1},
        {"f": "read", "key": "0"},
        {"f": "cas", "key": "0", "value": [1, 2]},
    ],
    "set": [{"f": "add", "value": 1}, {"f": "read"}, {"f": "add", "value": 2}],
    "declare": [{"f": "create", "key": "a", "value": 1}, {"f": "read", "key": "a"}],
    "create-once": [{"f": "create", "key": "a", "value": 1}, {"f": "read", "key": "a"}],
    "lock": [{"f": "acquire", "key": "a"}, {"f": "release", "key": "a"}],
    "records": [{"f": "write", "value": 1}, {"f": "write", "value": 2}],
}
FAULTS: list[list[dict[str, Any]]] = [
    [{"f": "start-partition", "value": {"shape": "isolate-leader"}}, {"f": "stop-partition"}],
    [
        {"f": "start-partition", "value": {"shape": "swizzle", "nodes": ["n1", "n2"], "pauses_ms": [50],
                                           "heal_nodes": ["n2", "n1"], "heal_pauses_ms": [50]}},
        {"f": "stop-partition"},
    ],
    [{"f": "start-packet", "value": {"scope": "in", "spec": "leader", "disturb": {"delay_ms": 50, "loss": 0.1}}},
     {"f": "stop-packet"}],
    [{"f": "start-clock", "value": {"spec": "all", "skew": {node: {"offset_ms": 50} for node in NODES}}},
     {"f": "stop-clock"}],
    [{"f": "start-disk", "value": {"spec": "one", "spoil": {"slow_ms": 20}}}, {"f": "stop-disk"}],
    [{"f": "start-cpu", "value": {"spec": "one", "share": 0.1}}, {"f": "stop-cpu"}],
    [{"f": "kill", "value": {"spec": "one", "order": ["n2", "n1", "n3"]}}, {"f": "start"}],
    [{"f": "bounce", "value": {"nodes": ["n1"], "pauses_ms": [20]}}],
]  # fmt: skip

ODD: list[Any] = [
    None, True, False, 0, 1, -1, 3, 500, 2**31, 2**53 + 1, 2**63, 10**30, 0.5, -0.0, 1e300, "", "n1", "n9", "read",
    "x/y",
    "\x00", "é" * 50, "nan", "a" * 500, [], [[]], [1], [1, 2], ["n1", "n1"], [None], {}, {"a": 1}, {"n1": {}}, "kill",
    "start", "partition", "none", "sim", "local", "2n", "stop-packet",
]  # fmt: skip


def sound(rng: random.Random) -> dict[str, Any]:
    """A small plan that can be followed."""
    workload = rng.choice(list(OPS))
    ops = [
        {"at_ns": (100 + 40 * i) * MS, "thread": i % 3, **each}
        for i, each in enumerate(rng.choices(OPS[workload], k=6))
    ]
    faults = [{"at_ns": (150 + 200 * i) * MS, **each} for i, each in enumerate(copy.deepcopy(rng.choice(FAULTS)))]
    final = [each for each in OPS[workload] if each["f"] == "read"]
    return {
        "format": 1,
        "options": {**OPTIONS, "workload": workload},
        "nodes": list(NODES),
        "placement": list(NODES),
        "end_ns": 600 * MS,
        "faults": faults,
        "ops": ops,
        "final_ops": [{"at_ns": 0, "thread": 0, **each} for each in final],
        "expect": {"outcome": "violation", "history": "0" * 32, "plan": "0" * 32},
        "versions": {"python": "3"},
    }


def mutant(plan: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The plan with one to three changes anywhere in it."""
    plan = copy.deepcopy(plan)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(plan))
        holder, name = rng.choice(places)
        how = rng.random()
        if how < 0.35:
            holder[name] = _alike(holder[name], rng)
        elif how < 0.55:
            holder[name] = copy.deepcopy(rng.choice(ODD))
        elif how < 0.7:
            del holder[name]
        elif how < 0.85:
            other, its = rng.choice(places)
            with contextlib.suppress(LookupError):  # an earlier change took it away
                holder[name] = copy.deepcopy(other[its])
        elif isinstance(holder, list):
            listed = cast("list[Any]", holder)
            listed.insert(name, copy.deepcopy(listed[name]))
        else:
            holder[rng.choice(("strange", "f", "value", "key", "mops", "thread", "order"))] = rng.choice(ODD)
    return plan


def _alike(value: Any, rng: random.Random) -> Any:
    """Another value of the same kind, if there is one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((0, 1, -1, value + 1, value * 2, value // 2, -value, value * 10**6, 10**9, 2**40))
    if isinstance(value, float):
        return rng.choice((0.0, value * 2, value / 1000, -value, value * 1e6, 1e9))
    if isinstance(value, str):
        pool = [*OPS, *NODES, *(op["f"] for ops in OPS.values() for op in ops), "0", "a", "1n", "leader", "all", "wan"]
        return rng.choice([*pool, *(fault["f"] for pair in FAULTS for fault in pair)])
    if isinstance(value, list):
        listed = cast("list[Any]", value)
        return rng.sample(listed, rng.randint(0, len(listed)))
    if isinstance(value, dict):
        return {name: each for name, each in cast("dict[str, Any]", value).items() if rng.random() < 0.8}
    return value


def _places(within: Any) -> Iterator[tuple[Any, Any]]:
    """Every item of every list and dict within."""
    items: list[tuple[Any, Any]] = []
    if isinstance(within, dict):
        items = list(cast("dict[str, Any]", within).items())
    elif isinstance(within, list):
        items = list(enumerate(cast("list[Any]", within)))
    for name, each in items:
        yield cast("Any", within), name
        yield from _places(each)


def followed(plan: dict[str, Any], folder: Path) -> int | str:
    """Replay the plan as the command does: its exit code, or what went wrong with it that no user is to blame for."""
    file = folder / "plan.json"
    file.write_bytes(msgspec.json.encode(plan))
    try:
        original = original_of(str(file), folder / "store", "sim")
        [played] = replay(original, 1, 1)
    except SplitbrainError as error:
        lines = str(error).strip().splitlines()
        return error.exit_code if error.exit_code == 254 and len(lines) == 1 else f"{type(error).__name__}: {error}"
    problem = compare(original, [played]).problem or played.harness_error
    return played.outcome.exit_code if problem is None else problem


def hunt(first: int, count: int, folder: Path) -> dict[int | str, list[int]]:
    """Follow so many mutants: the seeds of each exit code and of each problem."""
    found: dict[int | str, list[int]] = {}
    for seed in range(first, first + count):
        rng = random.Random(seed)
        plan = mutant(sound(rng), rng)
        try:
            answer = followed(plan, folder)
        except Exception as error:
            answer = f"uncaught {type(error).__name__}: {error}"
        found.setdefault(answer, []).append(seed)
    return found


if __name__ == "__main__":  # python -m tests.plan.mutants FIRST COUNT FOLDER
    for answer, seeds in hunt(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])).items():
        print(len(seeds), answer, seeds[:5])
