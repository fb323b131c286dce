"""Carries out a generator under virtual time, without a runner: what `jepsen.generator.test` is to Jepsen.

quick      every op is ok, at once
perfect    every op is ok after 10 ms
imperfect  every op takes 10 ms; ok, info and fail take turns in each thread
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import msgspec

from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.generators import Context, Generator, Pending, generator
from splitbrain.harness.generators.leaves import Source
from splitbrain.results.history import NEMESIS, Op, OpType

MS = 1_000_000
NODES = ("n1", "n2", "n3")

Ending = Callable[[Op, int], tuple[int, OpType]]
"""From an invocation and the number of ops that its thread ended before: how long it takes (ns), how it ends."""


def quick(source: Source, concurrency: int = 2, **options: int) -> list[Op]:
    """Every op is ok, at once."""
    return simulate(source, lambda op, n: (0, "ok"), concurrency, **options)


def perfect(source: Source, concurrency: int = 2, **options: int) -> list[Op]:
    """Every op is ok after 10 ms."""
    return simulate(source, lambda op, n: (10 * MS, "ok"), concurrency, **options)


def imperfect(source: Source, concurrency: int = 2, **options: int) -> list[Op]:
    """Every op takes 10 ms; ok, info and fail take turns."""
    endings: list[OpType] = ["ok", "info", "fail"]
    return simulate(source, lambda op, n: (10 * MS, endings[n % 3]), concurrency, **options)


def simulate(source: Source, ending: Ending, concurrency: int = 2, *, seed: int = 1, max_ops: int = 1000) -> list[Op]:
    """The history: invocations and completions with times, in order. Ends with the generator, or after `max_ops`."""
    streams = Streams(seed)
    ctx = Context.initial(concurrency, NODES, streams["workload"], streams["nemesis"])
    processes = list(ctx.processes)
    ctx.processes = processes
    remaining: Generator | None = generator(source)
    history: list[Op] = []
    under_way: list[tuple[int, int, int, Op]] = []
    ended = [0] * (concurrency + 1)
    invoked = 0
    while True:
        until: int | None = None
        while remaining is not None and invoked < max_ops:
            result = remaining.op(ctx)
            if result is None:
                remaining = None
                break
            op, remaining = result
            if isinstance(op, Pending):
                until = op.until_ns
                assert until is None or until > ctx.time_ns, "would be asked forever"
                break
            thread = ctx.thread_of(op.process)
            assert ctx.free >> thread & 1, f"{op} for a busy thread"
            assert processes[thread] == op.process, f"{op} for a process that is gone"
            ctx.free &= ~(1 << thread)
            op = msgspec.structs.replace(op, time=ctx.time_ns)
            history.append(op)
            invoked += 1
            latency, kind = ending(op, ended[thread])
            heapq.heappush(under_way, (ctx.time_ns + latency, invoked, thread, op.complete(kind, op.value)))
            remaining = remaining.update(ctx, op)
        if invoked >= max_ops:
            remaining = None
        if under_way and (until is None or under_way[0][0] <= until):
            ctx.time_ns, _, thread, done = heapq.heappop(under_way)
            done = Op(time=ctx.time_ns, process=done.process, type=done.type, f=done.f, key=done.key, value=done.value)
            history.append(done)
            ended[thread] += 1
            ctx.free |= 1 << thread
            if done.type == "info" and done.process != NEMESIS:
                processes[thread] += concurrency
            if remaining is not None:
                remaining = remaining.update(ctx, done)
        elif until is not None:
            ctx.time_ns = until
        elif remaining is None:
            return history
        else:
            raise AssertionError(f"{remaining} waits for nothing")


def invocations(history: list[Op]) -> list[Op]:
    """Only the invocations."""
    return [op for op in history if op.type == "invoke"]


def fs(history: list[Op]) -> list[str]:
    """The functions that were invoked, in order."""
    return [op.f for op in invocations(history)]


def values(history: list[Op]) -> list[object]:
    """The values with which they were invoked, in order."""
    return [op.value for op in invocations(history)]


def times_ms(history: list[Op]) -> list[float]:
    """When they were invoked, in milliseconds."""
    return [op.time / MS for op in invocations(history)]
