"""Hard shapes of histories of transactions: what judging them costs, by their size.

    python -m tests.checkers.transactions.shapes [--shape NAME]... [--size N]... [--limit SECONDS]

prints, for each shape and size, CPU seconds and the most memory of a process of its own, the verdict, and from two
sizes on the exponent of growth between the last two.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from splitbrain.results.arrow import to_table
from splitbrain.results.history import Mop, Op, OpType

Txn: TypeAlias = tuple[int, OpType, list[Mop]]
"""Process, how it ended, and micro-operations as they completed."""

SIZES: Final = (1_000, 3_000, 10_000, 30_000, 100_000)


class Shape(NamedTuple):
    """A family of histories: its transactions by size, and how it is judged."""

    transactions: Callable[[int], Iterator[Txn]]
    checker: str = "rw-register"
    model: str = "strict-serializable"
    at_once: bool = False
    options: Mapping[str, Any] = MappingProxyType({})


def _w(key: object, value: int) -> Mop:
    return Mop("w", str(key), value)


def _r(key: object, value: int | None) -> Mop:
    return Mop("r", str(key), value)


def _append(key: object, value: int) -> Mop:
    return Mop("append", str(key), value)


def _list(key: object, values: range) -> Mop:
    return Mop("r", str(key), None, tuple(values))


def _hot_key(size: int) -> Iterator[Txn]:
    """One key with that many blind writes, one of which is read."""
    for each in range(size):
        yield each % 10, "ok", [_w("x", each)]
    yield 0, "ok", [_r("x", size - 1)]


def _hot_key_read(size: int) -> Iterator[Txn]:
    """The same, each write read once, at some time, by a transaction that writes another key."""
    for each in range(size):
        yield each % 10, "ok", [_w("x", each)]
        yield (each + 5) % 10, "ok", [_r("x", each), _w(f"y{each % 10}", each)]


def _hot_chain(size: int) -> Iterator[Txn]:
    """The same, with a chain of reads of other keys through the writers: all orders follow."""
    for each in range(size):
        yield each, "ok", [_r("y", each - 1 if each else None), _w("x", each), _w("y", each)]


def _hot_list(size: int) -> Iterator[Txn]:
    """One key that is read after each append; all the lists that are read have half as many elements."""
    length = int(math.sqrt(size))
    for each in range(length):
        yield each % 10, "ok", [_append("x", each)]
        yield (each + 1) % 10, "ok", [_list("x", range(each + 1))]


def _long_list(size: int) -> Iterator[Txn]:
    """One key with that many appends, read by ten transactions."""
    for each in range(size):
        yield each % 10, "ok", [_append("x", each)]
    for each in range(10):
        yield each, "ok", [_list("x", range(size - each))]


def _unseen(size: int) -> Iterator[Txn]:
    """One key with that many appends that no read shows."""
    yield 0, "ok", [_list("x", range(0))]
    for each in range(size):
        yield each % 10, "ok", [_append("x", each)]


def _crashed(size: int) -> Iterator[Txn]:
    """That many transactions of unknown outcome, each read by one that committed."""
    for each in range(size):
        yield 2 * each, "info", [_w(f"x{each % 100}", each)]
        yield 2 * each + 1, "ok", [_r(f"x{each % 100}", each), _w(f"y{each % 100}", each)]


def _crashed_unread(size: int) -> Iterator[Txn]:
    """Serial transactions that read two keys of a hundred and write one of them blindly; every third one crashes.

    What a crashed one wrote is seen by others or not, at random.
    """
    held: dict[int, int] = {}
    for each in range(size):
        one, other = each * 7919 % 100, each * 104_729 % 97
        if each % 3 == 0:
            yield 20 + each, "info", [_r(one, None), _w(other, each)]
            if each % 2:
                held[other] = each
            continue
        yield each % 20, "ok", [_r(one, held.get(one)), _r(other, held.get(other)), _w(other, each)]
        held[other] = each


def _crashed_at_once(size: int) -> Iterator[Txn]:
    """As `_crashed`, of ten keys, and each is read only after all have crashed."""
    for each in range(size):
        yield 2 * each, "info", [_w(f"x{each % 10}", each)]
    for each in range(size):
        yield 2 * each + 1, "ok", [_r(f"x{each % 10}", each), _w(f"y{each % 100}", each)]


def _crashed_lists(size: int) -> Iterator[Txn]:
    for each in range(size):
        yield 2 * each, "info", [_append(f"x{each}", each)]
        yield 2 * each + 1, "ok", [_list(f"x{each}", range(each, each + 1)), _append(f"y{each % 100}", each)]


def _one_transaction(size: int) -> Iterator[Txn]:
    """One transaction that writes and reads one key that often, and other keys; two that read what it wrote."""
    mops = [each for i in range(size // 4) for each in (_w("x", i), _r("x", i), _r(f"y{i}", None), _w(f"y{i}", i))]
    yield 0, "ok", mops
    yield 1, "ok", [_r("x", size // 4 - 1), _w("x", size)]


def _one_transaction_of_lists(size: int) -> Iterator[Txn]:
    mops = [each for i in range(size // 2) for each in (_append("x", i), _append(f"y{i}", i))]
    yield 0, "ok", [_list("x", range(0)), *mops]
    yield 1, "ok", [_list("x", range(size // 2)), _append("x", size)]


def _reads_before_writes(size: int) -> Iterator[Txn]:
    """One transaction that reads that many keys and then writes them, beside another one that does so too."""
    for process in range(2):
        reads = [_r(f"x{each}", None) for each in range(size // 4)]
        yield process, "ok", [*reads, *(_w(f"x{each}", 1 + process) for each in range(size // 4))]


def _cold_keys(size: int) -> Iterator[Txn]:
    """That many keys, each written once and read once."""
    for each in range(size):
        yield each % 10, "ok", [_w(each, each)]
        yield (each + 1) % 10, "ok", [_r(each, each)]


def _long_cycle(size: int) -> Iterator[Txn]:
    """A cycle of reads through that many transactions."""
    for each in range(size):
        yield each, "ok", [_w(f"x{each}", each), _r(f"x{(each + 1) % size}", (each + 1) % size)]


def _long_cycle_of_lists(size: int) -> Iterator[Txn]:
    for each in range(size):
        other = (each + 1) % size
        yield each, "ok", [_append(f"x{each}", each), _list(f"x{other}", range(other, other + 1))]


def _random_registers(size: int) -> Iterator[Txn]:
    """Serial transactions that read two keys of a hundred and write one of them blindly."""
    held: dict[int, int] = {}
    for each in range(size):
        one, other = each * 7919 % 100, each * 104_729 % 97
        mops = [_r(one, held.get(one)), _w(other, each)]
        held[other] = each
        yield each % 20, "ok", mops


def _one_process(size: int) -> Iterator[Txn]:
    for _, ended, mops in _random_registers(size):
        yield 0, ended, mops


def _session_each(size: int) -> Iterator[Txn]:
    for each, (_, ended, mops) in enumerate(_random_registers(size)):
        yield each, ended, mops


def _garbage(size: int) -> Iterator[Txn]:
    """That many reads of what no transaction wrote."""
    for each in range(size):
        yield each % 10, "ok", [_r("x", -1 - each), _w("y", each)]


SHAPES: Final[Mapping[str, Shape]] = MappingProxyType(
    {
        "hot key": Shape(_hot_key),
        "hot key, at once": Shape(_hot_key, at_once=True),
        "hot key, serializable": Shape(_hot_key, model="serializable"),
        "hot key, read": Shape(_hot_key_read),
        "hot key, chain at once": Shape(_hot_chain, at_once=True),
        "hot key, linearizable-keys": Shape(_hot_key, options=MappingProxyType({"linearizable_keys": True})),
        "hot key, linearizable-keys, at once": Shape(
            _hot_key, at_once=True, options=MappingProxyType({"linearizable_keys": True})
        ),
        "hot list": Shape(_hot_list, "list-append"),
        "long list": Shape(_long_list, "list-append"),
        "unseen appends": Shape(_unseen, "list-append"),
        "unseen appends, at once": Shape(_unseen, "list-append", at_once=True),
        "crashed": Shape(_crashed),
        "crashed, causal": Shape(_crashed, model="causal"),
        "crashed, sessions": Shape(_crashed, model="strong-session-serializable"),
        "crashed, linearizable-keys": Shape(_crashed, options=MappingProxyType({"linearizable_keys": True})),
        "crashed, some read": Shape(_crashed_unread),
        "crashed, some read, causal": Shape(_crashed_unread, model="causal"),
        "crashed, read late": Shape(_crashed_at_once),
        "crashed, read late, serializable": Shape(_crashed_at_once, model="serializable"),
        "crashed lists": Shape(_crashed_lists, "list-append"),
        "one transaction": Shape(_one_transaction),
        "one transaction of lists": Shape(_one_transaction_of_lists, "list-append"),
        "reads before writes": Shape(_reads_before_writes, at_once=True),
        "cold keys": Shape(_cold_keys),
        "long cycle": Shape(_long_cycle, at_once=True),
        "long cycle of lists": Shape(_long_cycle_of_lists, "list-append", at_once=True),
        "random": Shape(_random_registers),
        "at once": Shape(_session_each, at_once=True),
        "one process": Shape(_one_process, model="strong-session-serializable"),
        "session each": Shape(_session_each, model="strong-session-serializable"),
        "one process, causal": Shape(_one_process, model="causal"),
        "session each, causal": Shape(_session_each, model="causal", at_once=True),
        "hot key, causal": Shape(_hot_key, model="causal"),
        "garbage": Shape(_garbage),
    }
)


def table_of(shape: Shape, size: int) -> pa.Table:
    """The history of a shape: one transaction after the other, or all invoked before any completes."""
    began: list[Op] = []
    ended: list[Op] = []
    ops: list[Op] = []
    for place, (of, kind, mops) in enumerate(shape.transactions(size)):
        process = place if shape.at_once else of
        asked = tuple(Mop("r", each.key) if each.f == "r" else each for each in mops)
        began.append(Op(process=process, type="invoke", f="txn", mops=asked))
        ended.append(Op(process=process, type=kind, f="txn", mops=tuple(mops) if kind == "ok" else asked))
        if not shape.at_once:
            ops += [began[-1], ended[-1]]
    ops = ops or [*began, *ended]
    return to_table([msgspec.structs.replace(op, index=place, time=place) for place, op in enumerate(ops)])


def measure(name: str, size: int) -> dict[str, Any]:
    """CPU seconds and mebibytes of judging a shape in this process, without what it takes to make and to compile."""
    from splitbrain.checkers import engine, kernels
    from splitbrain.checkers.verdict import CheckerSpec

    shape = SHAPES[name]
    spec = CheckerSpec(shape.checker, {"consistency_models": [shape.model], **shape.options})
    kernels.use_compiled()
    engine.judge(table_of(shape, 20), [spec], None, weaker=False)
    table = table_of(shape, size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    [verdict] = engine.judge(table, [spec], None, weaker=False)
    reason = verdict.inconclusive[0].sentence if verdict.inconclusive else ""
    return {
        "cpu_s": time.process_time() - began,
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "before_mib": before // 1024,
        "valid": verdict.valid,
        "said": reason or ", ".join(verdict.anomalies),
    }


def main() -> None:
    """Measure what is asked for, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", choices=sorted(SHAPES))
    parser.add_argument("--size", action="append", type=int)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one point")
    parser.add_argument("--memory", type=int, default=6, help="GiB for one point")
    parser.add_argument("--one", action="store_true", help="measure in this process, and print JSON")
    asked = parser.parse_args()
    if asked.one:
        resource.setrlimit(resource.RLIMIT_AS, (asked.memory << 30, asked.memory << 30))
        print(json.dumps(measure(asked.shape[0], asked.size[0])))
        return
    for name in asked.shape or SHAPES:
        _print_row(name, tuple(asked.size or SIZES), asked.limit)


def _print_row(name: str, sizes: tuple[int, ...], limit: float) -> None:
    last: tuple[int, float] | None = None
    for size in sizes:
        command = [sys.executable, "-m", "tests.checkers.transactions.shapes", "--one", "--shape", name]
        try:
            done = subprocess.run(
                [*command, "--size", str(size)], capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            print(f"{name:36} {size:>8} more than {limit:.0f} s", flush=True)
            return
        if done.returncode:
            print(f"{name:36} {size:>8} failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
            return
        found = json.loads(done.stdout.splitlines()[-1])
        grown = "" if last is None else f"{math.log(found['cpu_s'] / last[1]) / math.log(size / last[0]):.2f}"
        last = size, max(found["cpu_s"], 1e-4)
        print(
            f"{name:36} {size:>8} {found['cpu_s']:>9.3f} s {found['rss_mib']:>6} MiB (before {found['before_mib']}) "
            f"{grown:>5}  {found['valid']}  {found['said'][:90]}",
            flush=True,
        )


if __name__ == "__main__":
    main()
