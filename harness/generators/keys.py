"""Independent keys: many small histories instead of one large one, as in Jepsen's `independent`.

Checking linearizability is exponential in the number of ops that overlap, and linear in the number of keys. So a
workload works on one key for a few hundred ops, then on the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from splitbrain.harness.contract.generator import PENDING, Context, Generator, Pending, Result, bits, earlier, hears
from splitbrain.harness.generators.leaves import Source, generator
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op


class _Keys:
    """An iterable of keys, possibly endless, that can be asked for its n-th element any number of times."""

    def __init__(self, keys: Iterable[object]) -> None:
        self._iterator: Iterator[object] = iter(keys)
        self._seen: list[str] = []

    def get(self, n: int) -> str | None:
        """The n-th key as a string, None if there are fewer."""
        while len(self._seen) <= n:
            try:
                self._seen.append(str(next(self._iterator)))
            except StopIteration:
                return None
        return self._seen[n]


OfKey = Callable[[str], Source]


def _with_key(op: Op, key: str) -> Op:
    return Op(process=op.process, type=op.type, f=op.f, key=key, value=op.value, mops=op.mops, due=op.due)


class _Group(msgspec.Struct, frozen=True):
    """Threads that work on one key together. `key` is None when there are no more keys for them.

    `hears` says whether events may change the source.
    """

    threads: int
    key: str | None
    source: Generator | None
    hears: bool = False


class _ConcurrentKeys(msgspec.Struct, frozen=True):
    size: int
    keys: _Keys
    of_key: OfKey
    groups: tuple[_Group, ...] = ()
    by_thread: tuple[int, ...] = ()
    taken: int = 0
    ended: int = 0

    def op(self, ctx: Context) -> Result:
        state = self if self.groups else self._begun(ctx)
        waiting, candidates = PENDING, ctx.free & ~state.ended
        while candidates:
            number = state.by_thread[ctx.pick(candidates)]
            group = state.groups[number]
            result = group.source.op(ctx.restrict(group.threads)) if group.source is not None else None
            if result is None:
                state = state._next_key(number)
                candidates &= ~state.ended
                continue
            op, after = result
            if after is not group.source:
                state = state._with_group(number, _Group(group.threads, group.key, after, group.hears))
            if type(op) is not Pending:
                return _with_key(op, group.key or ""), state
            waiting = earlier(waiting, op)
            candidates &= ~group.threads
        return None if not ctx.threads & ~ctx.nemesis_bit & ~state.ended else (waiting, state)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.process < 0 or not self.groups:
            return self
        number = self.by_thread[ctx.thread_of(event.process)]
        if number < 0:
            return self
        group = self.groups[number]
        if not group.hears or group.source is None or event.key != group.key:
            return self
        after = group.source.update(ctx.restrict(group.threads), event)
        return (
            self if after is group.source else self._with_group(number, _Group(group.threads, group.key, after, True))
        )

    def _begun(self, ctx: Context) -> _ConcurrentKeys:
        threads = bits(ctx.threads & ~ctx.nemesis_bit)
        by_thread = [-1] * len(ctx.processes)
        groups: list[_Group] = []
        for start in range(0, len(threads), self.size):
            members = threads[start : start + self.size]
            for thread in members:
                by_thread[thread] = len(groups)
            groups.append(_Group(sum(1 << thread for thread in members), None, None))
        outside = ~(ctx.threads & ~ctx.nemesis_bit)
        state = _ConcurrentKeys(self.size, self.keys, self.of_key, tuple(groups), tuple(by_thread), self.taken, outside)
        for number in range(len(groups)):
            state = state._next_key(number)
        return state

    def _next_key(self, number: int) -> _ConcurrentKeys:
        """With the next key for a group, or with the group ended if there is none."""
        threads = self.groups[number].threads
        key = self.keys.get(self.taken)
        if key is None:
            ended = _Group(threads, None, None)
            return msgspec.structs.replace(self._with_group(number, ended), ended=self.ended | threads)
        source = generator(self.of_key(key))
        group = _Group(threads, key, source, hears(source))
        return msgspec.structs.replace(self._with_group(number, group), taken=self.taken + 1)

    def _with_group(self, number: int, group: _Group) -> _ConcurrentKeys:
        groups = (*self.groups[:number], group, *self.groups[number + 1 :])
        return _ConcurrentKeys(self.size, self.keys, self.of_key, groups, self.by_thread, self.taken, self.ended)


def concurrent_keys(n_threads: int, keys: Iterable[object], of_key: OfKey) -> Generator:
    """Groups of `n_threads` client threads, each group on its own key; the next key when its generator ends.

    Threads follow one another around the nodes, so a group of at most as many threads as there are nodes contacts
    different nodes. If the number of client threads is no multiple of `n_threads`, the last group is smaller.

    Args:
        n_threads: client threads that work on one key together.
        keys: the keys, possibly without end; turned into strings.
        of_key: the generator for a key. Its ops need no key: they get this one.
    """
    if n_threads < 1:
        raise UsageError(f"concurrent_keys needs groups of at least one thread, not {n_threads}.")
    return _ConcurrentKeys(n_threads, _Keys(keys), of_key)


class _SequentialKeys(msgspec.Struct, frozen=True):
    keys: _Keys
    of_key: OfKey
    taken: int = 0
    key: str = ""
    source: Generator | None = None

    def op(self, ctx: Context) -> Result:
        state = self
        while True:
            result = state.source.op(ctx) if state.source is not None else None
            if result is not None:
                op, after = result
                if after is not state.source:
                    state = _SequentialKeys(self.keys, self.of_key, state.taken, state.key, after)
                return (op if type(op) is Pending else _with_key(op, state.key)), state
            key = self.keys.get(state.taken)
            if key is None:
                return None
            state = _SequentialKeys(self.keys, self.of_key, state.taken + 1, key, generator(self.of_key(key)))

    def update(self, ctx: Context, event: Op) -> Generator:
        if self.source is None or event.key != self.key:
            return self
        source = self.source.update(ctx, event)
        if source is self.source:
            return self
        return _SequentialKeys(self.keys, self.of_key, self.taken, self.key, source)


def sequential_keys(keys: Iterable[object], of_key: OfKey) -> Generator:
    """All threads on one key, then all on the next. `keys` and `of_key` as for `concurrent_keys`."""
    return _SequentialKeys(_Keys(keys), of_key)


__all__ = ["concurrent_keys", "sequential_keys"]
