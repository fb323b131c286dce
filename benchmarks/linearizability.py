"""How fast the linearizability engine judges synthetic cas-register histories: `python benchmarks/linearizability.py`.

One key; every client is always busy; 50 % reads, 25 % writes, 25 % cas; valid by construction (every op takes effect
at a random moment between its call and its return), or with one read at 90 % of the history corrupted. Printed per
case: CPU seconds of the search after compilation (median of three), of reading the columns into arrays, the largest
frontier, and the most memory that the search held beside the history's arrays.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
import tracemalloc

import msgspec
import pyarrow as pa

from checkers import linearizable, models
from checkers.linearizable.encoding import events
from checkers.linearizable.ops import read_ops
from checkers.linearizable.search import Limits, Search
from checkers.linearizable.transitions import Stepper
from results.arrow import to_table
from results.history import Op

CASES = [(clients, ops) for clients in (10, 20) for ops in (1_000, 10_000, 100_000)]
RUNS = 3


def history(clients: int, ops: int, values: int, *, bad: bool, seed: int) -> pa.Table:
    """A history of `ops` ops by `clients` clients on a register that takes `values` different values."""
    rng = random.Random(seed)
    register: int | None = None
    waiting: dict[int, Op] = {}
    answered: dict[int, Op] = {}
    events_: list[Op] = []
    invoked = 0
    while invoked < ops or waiting or answered:
        client = rng.randrange(clients)
        if client in answered:
            events_.append(answered.pop(client))
        elif client in waiting:
            op = waiting.pop(client)
            register, answered[client] = _take_effect(op, register)
        elif invoked < ops:
            waiting[client] = op = _invocation(rng, client, values)
            events_.append(op)
            invoked += 1
    if bad:
        _corrupt_a_read(events_, values)
    return to_table([msgspec.structs.replace(op, index=i, time=i) for i, op in enumerate(events_)])


def _invocation(rng: random.Random, client: int, values: int) -> Op:
    kind = rng.random()
    if kind < 0.5:
        return Op(process=client, type="invoke", f="read")
    if kind < 0.75:
        return Op(process=client, type="invoke", f="write", value=rng.randrange(values))
    return Op(process=client, type="invoke", f="cas", value=[rng.randrange(values), rng.randrange(values)])


def _take_effect(op: Op, register: int | None) -> tuple[int | None, Op]:
    """The register after an op, and the op's completion. A cas that does not match is answered False."""
    if op.f == "read":
        return register, op.complete("ok", register)
    if op.f == "write":
        return op.value, op.complete("ok", op.value)
    expected, new = op.value
    return (new, op.complete("ok", op.value)) if register == expected else (register, op.complete("ok", value=False))


def _corrupt_a_read(events_: list[Op], values: int) -> None:
    """Let the first read that returns after 90 % of the history return a value that was never written."""
    for index in range(len(events_) * 9 // 10, len(events_)):
        if events_[index].type == "ok" and events_[index].f == "read":
            events_[index] = msgspec.structs.replace(events_[index], value=values + 7)
            return


def measure(table: pa.Table) -> tuple[str, float, float, int, int]:
    """Answer, median seconds of the search, seconds of encoding, largest frontier, bytes of the search."""
    model = models.model("cas-register")
    began = time.thread_time()
    ops = read_ops(table, model)
    stepper = Stepper(model, ops.transitions, cells=Limits().cells)
    problem = events(ops, stepper.observer)
    encoding_s = time.thread_time() - began
    results = [Search(problem, stepper, Limits()).run() for _ in range(RUNS)]
    tracemalloc.start()
    Search(problem, stepper, Limits()).run()
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return results[0].answer, statistics.median(r.seconds for r in results), encoding_s, results[0].peak, held


def main() -> None:
    """Print the table, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, nargs="+", default=[5, 1000], help="how many values the register takes")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    linearizable.warm_up()
    sys.stdout.write("| clients | ops | values | history | search s | encoding s | frontier max | search MiB |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
    for values in arguments.values:
        for clients, ops in CASES:
            for bad in (False, True):
                table = history(clients, ops, values, bad=bad, seed=arguments.seed)
                answer, search_s, encoding_s, peak, held = measure(table)
                if (answer == "violation") != bad:
                    raise SystemExit(f"wrong: {clients} clients, {ops} ops, bad={bad}: {answer}")
                sys.stdout.write(
                    f"| {clients} | {ops} | {values} | {'bad' if bad else 'ok'} | {search_s:.4f} | "
                    f"{encoding_s:.3f} | {peak} | {held / 2**20:.2f} |\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
