"""A key-value system in memory, honest or not, with the parts of a test that clients look at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import msgspec

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.harness.contract.sessions import Answer, Change, DefiniteError, Session
from splitbrain.harness.contract.sessions import Mop as SessionMop
from splitbrain.harness.contract.test import Client, Test, Workload
from splitbrain.harness.generators import Context, Generator
from splitbrain.harness.systems.locks import CompareAndSetLocks
from splitbrain.results.history import Op, OpType

T = TypeVar("T")

FIVE = ("n1", "n2", "n3", "n4", "n5")

TERM = 7


def run(awaitable: Awaitable[T]) -> T:
    """Run one coroutine to its end."""

    async def main() -> T:
        return await awaitable

    return asyncio.run(main())


@dataclass
class Store:
    """What a system holds, shared by its sessions.

    Attributes:
        loses_writes: writes are acknowledged and forgotten.
        lost: clients know that their lease is gone.
        flaw: what transactions lack: "torn": those that only read do so at several moments; "blind": nothing
            that was read is compared when it is written; "half": only the first of what was read; "dirty": what a
            refused one had written until then stays; "forgotten": one that is refused is acknowledged all the same.
        held: what transactions see, by key: a value and how often it was changed.
        universes: what transactions on objects see, by universe and key.
        rng: how long others have their turn in the middle of a transaction.
        raises: raised by every call.
    """

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    collections: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    counters: dict[str, int] = field(default_factory=dict[str, int])
    loses_writes: bool = False
    lost: bool = False
    flaw: str = ""
    held: dict[str, tuple[Any, int]] = field(default_factory=dict[str, tuple[Any, int]])
    universes: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    rng: Rng = field(default_factory=lambda: Rng(1))
    raises: Exception | None = None
    closed: list[str] = field(default_factory=list[str])
    name: str = "store"

    def check(self) -> None:
        """Raise what every call raises."""
        if self.raises is not None:
            raise self.raises

    async def connect(self, deployment: Any, node: str) -> Session:
        """As `System.connect`."""
        self.check()
        return MemorySession(self, node)


class MemorySession(CompareAndSetLocks):
    """A session with a `Store`."""

    def __init__(self, store: Store, node: str) -> None:
        self.store = store
        self.node = node

    def _answer(self, value: Any = None) -> Answer:
        return Answer(value, TERM)

    async def read(self, key: str) -> Answer:
        self.store.check()
        return self._answer(self.store.values.get(key))

    async def write(self, key: str, value: Any) -> Answer:
        self.store.check()
        if not self.store.loses_writes:
            self.store.values[key] = value
        return self._answer()

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        self.store.check()
        if key not in self.store.values or self.store.values[key] != expected:
            return self._answer(False)
        await self.write(key, value)
        return self._answer(True)

    async def create(self, key: str, value: Any) -> Answer:
        self.store.check()
        if key in self.store.values:
            return self._answer(False)
        await self.write(key, value)
        return self._answer(True)

    async def add(self, collection: str, element: int) -> Answer:
        self.store.check()
        if not self.store.loses_writes:
            self.store.collections.setdefault(collection, []).append(element)
        return self._answer()

    async def elements(self, collection: str) -> Answer:
        self.store.check()
        return self._answer(list(self.store.collections.get(collection, [])))

    async def increment(self, counter: str, by: int) -> Answer:
        self.store.check()
        total = self.store.counters.get(counter, 0) + by
        if not self.store.loses_writes:
            self.store.counters[counter] = total
        return self._answer(total)

    async def read_counter(self, counter: str) -> Answer:
        self.store.check()
        return self._answer(self.store.counters.get(counter))

    async def lock(self, name: str, owner: int) -> Answer:
        self.store.check()
        return await super().lock(name, owner)

    async def unlock(self, name: str, owner: int) -> Answer:
        self.store.check()
        return await super().unlock(name, owner)

    async def lease_lock(self, name: str, owner: int, lease_s: int) -> Answer:
        return await self.lock(name, owner)

    def lease_holds(self, name: str) -> bool:
        return not self.store.lost

    async def lease_unlock(self, name: str, owner: int) -> Answer:
        return self._answer(False) if self.store.lost else await self.unlock(name, owner)

    async def transact(self, mops: Sequence[SessionMop]) -> Answer:
        self.store.check()
        done: list[SessionMop] = []
        await self._others()
        torn = self.store.flaw == "torn" and all(f == "r" for f, _, _ in mops)
        for f, key, value in mops:
            if torn:
                await self._others(20)
            before, version = self.store.held.get(key, (None, 0))
            if f != "r":
                self.store.held[key] = (value if f == "w" else [*(before or []), value], version + 1)
            done.append([f, key, before if f == "r" else value])
        await self._others()
        return self._answer(done)

    async def in_universe(self, universe: str, steps: Sequence[SessionMop]) -> Answer:
        self.store.check()
        held = self.store.universes.setdefault(universe, {})
        done: list[SessionMop] = []
        await self._others()
        torn = self.store.flaw == "torn" and all(f in ("r", "rp") for f, _, _ in steps)
        for f, key, value in steps:
            if torn:
                await self._others(20)
            found = value
            if f == "rp":
                found = {name: each for name, each in held.items() if _matches(key, each)}
            elif f == "r":
                found = held.get(key)
            elif f == "delete":
                held.pop(key, None)
            else:
                held[key] = value
            done.append([f, key, found])
        await self._others()
        return self._answer(done)

    async def update(self, keys: Sequence[str], change: Change) -> Answer:
        self.store.check()
        while True:
            await self._others()
            read = {key: self.store.held.get(key, (None, 0)) for key in keys}
            await self._others()
            values = {key: value for key, (value, _) in read.items()}
            written = change(values)
            if written is None:
                raise DefiniteError("aborted")
            if self._committed(read, dict(written)) or self.store.flaw == "forgotten":
                await self._others()
                return self._answer(values)

    def _committed(self, read: Mapping[str, tuple[Any, int]], written: dict[str, Any]) -> bool:
        held, flaw = self.store.held, self.store.flaw
        before = dict(held)
        for place, (key, seen) in enumerate(read.items()):
            compared = flaw != "blind" and (flaw != "half" or place == 0)
            if compared and before.get(key, (None, 0)) != seen:
                if flaw != "dirty":
                    held.clear()
                    held.update(before)
                return False
            if key in written:
                held[key] = (written.pop(key), held.get(key, (None, 0))[1] + 1)
        held.update({key: (value, held.get(key, (None, 0))[1] + 1) for key, value in written.items()})
        return True

    async def _others(self, fewer_than: int = 4) -> None:
        """Have others do something: fewer than so many turns."""
        for _ in range(self.store.rng.below(fewer_than)):
            await asyncio.sleep(0)

    async def close(self) -> None:
        self.store.closed.append(self.node)


def _matches(predicate: Any, value: int) -> bool:
    if predicate == "true":
        return True
    return value == predicate[1] if predicate[0] == "=" else value % predicate[1] == predicate[2]


@dataclass
class OnlySystem:
    """The part of a `Test` that clients look at."""

    system: Store


def as_test(store: Store) -> Test:
    """A test whose system is `store`."""
    return cast("Test", OnlySystem(store))


def opened(prototype: Client, store: Store, node: str = "n1") -> Client:
    """A client of `store`."""
    return run(prototype.open(as_test(store), cast("Deployment", None), node))


def do(client: Client, store: Store, f: str, value: Any = None, *, key: str | None = None) -> Op:
    """The completion of one op."""
    return run(client.invoke(as_test(store), Op(process=3, type="invoke", f=f, key=key, value=value, node="n1")))


def drive(
    generator: Generator,
    *,
    nodes: Sequence[str] = FIVE,
    concurrency: int = 10,
    seed: int = 1,
    ops_max: int = 1000,
    took_ns: Callable[[Op], int] = lambda op: 3_000_000,
    ends: Callable[[Op], OpType] = lambda op: "ok",
    results: Mapping[str, object] | None = None,
    apart_ns: int = 1_000_000,
) -> list[Op]:
    """The history that a client generator makes when nothing but time passes: one op each `apart_ns` at most.

    Args:
        took_ns: how long an op takes.
        ends: how it ends; a process whose op ended in `info` is replaced, as by the runner.
        results: what ops of a function answer; the others answer what they were asked.
    """
    streams = Streams(seed)
    ctx = Context.initial(concurrency, nodes, streams["workload"], streams["nemesis"])
    ctx = ctx.restrict(~ctx.nemesis_bit)
    history: list[Op] = []
    under_way: list[tuple[int, Op]] = []

    def happen(op: Op) -> None:
        nonlocal generator
        history.append(op)
        generator = generator.update(ctx, op)

    asked = 0
    while asked < ops_max:
        for entry in sorted([entry for entry in under_way if entry[0] <= ctx.time_ns], key=lambda entry: entry[0]):
            under_way.remove(entry)
            op = entry[1]
            thread = ctx.thread_of(op.process)
            ctx.free |= 1 << thread
            done = msgspec.structs.replace(op.complete(ends(op), (results or {}).get(op.f, op.value)), time=ctx.time_ns)
            if done.type == "info":
                ctx.processes = [p + concurrency if i == thread else p for i, p in enumerate(ctx.processes)]
            happen(done)
        result = generator.op(ctx)
        if result is None and not under_way:
            break
        if result is not None:
            found, generator = result
            if isinstance(found, Op):
                thread = ctx.thread_of(found.process)
                assert ctx.free >> thread & 1, f"process {found.process} is busy"
                ctx.free &= ~(1 << thread)
                op = msgspec.structs.replace(found, time=ctx.time_ns, node=nodes[thread % len(nodes)])
                under_way.append((ctx.time_ns + took_ns(op), op))
                asked += 1
                happen(op)
        ctx.time_ns += apart_ns
    return history


def carried_out(workload: Workload, store: Store, *, clients: int = 10, ops_max: int = 600, seed: int = 1) -> list[Op]:
    """The history of a workload whose clients talk to `store` at the same time, each op as long as it takes.

    It depends on nothing but the arguments: time is the number of turns of the event loop.
    """
    streams = Streams(seed)
    ctx = Context.initial(clients, FIVE, streams["workload"], streams["nemesis"])
    ctx = ctx.restrict(~ctx.nemesis_bit)
    history: list[Op] = []

    async def whole() -> None:
        test, generator = as_test(store), workload.generator
        opened = [await workload.client.open(test, cast("Deployment", None), FIVE[i % 5]) for i in range(clients)]
        under_way: dict[int, asyncio.Task[Op]] = {}

        def happen(op: Op) -> None:
            nonlocal generator
            history.append(msgspec.structs.replace(op, index=len(history), time=ctx.time_ns))
            generator = generator.update(ctx, history[-1])

        async def perform(op: Op) -> Op:
            try:
                return await opened[ctx.thread_of(op.process)].invoke(test, op)
            except DefiniteError as error:
                return op.complete("fail", error=str(error))

        while len(history) < 2 * ops_max or under_way:
            for thread, task in list(under_way.items()):
                if task.done():
                    del under_way[thread]
                    ctx.free |= 1 << thread
                    happen(task.result())
            result = generator.op(ctx) if len(history) < 2 * ops_max else None
            if result is not None:
                found, generator = result
                if isinstance(found, Op):
                    thread = ctx.thread_of(found.process)
                    ctx.free &= ~(1 << thread)
                    op = msgspec.structs.replace(found, node=FIVE[thread % 5])
                    happen(op)
                    under_way[thread] = asyncio.ensure_future(perform(op))
            ctx.time_ns += 1_000_000
            await asyncio.sleep(0)

    asyncio.run(whole())
    return history


def invocations(history: Sequence[Op], f: str | None = None) -> list[Op]:
    """The ops that were asked for, of one function if one is named."""
    return [op for op in history if op.type == "invoke" and f in (None, op.f)]
