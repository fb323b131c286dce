"""Streams: publish unique numbers, read from offsets on, and in the end read all of each stream through each node.

Clients read mostly what is new, and now and then something older, so that what was given once is asked for again. In
the end one more message is published to each stream; it is behind all that was acknowledged. Then each node is asked
until it has given everything up to that message.

`short-stream` is the same of streams whose beginnings are dropped: of one what is too much, of the other what is too
old. What a node says is gone is not missed, all other rules hold. Some messages are published under a name of their
own, and once more by any client later, also when they are dropped: that must not append them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.brokers import ShortStreams, Streams
from splitbrain.harness.contract.generator import bits
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import SHORT_STREAMS, STREAMS
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import PENDING, Context, Generator, Pending, Result, clients, invoke, mix, time_limit
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.queue import Enqueues
from splitbrain.workloads.sessions import ANY, SessionClient

NAMES: Final = ("st0", "st1")
"""Of the streams."""

WEIGHTS: Final = (3, 2)
"""Of publishes and fetches."""

BATCH: Final = 200
"""Messages in one answer at most."""

OLDER: Final = 8
"""One fetch of so many begins anywhere, the others among the last `RECENT` messages that are known of."""

RECENT: Final = 20

KEPT_BYTES: Final = 2000
"""Of the first of the streams whose beginnings are dropped: some 30 messages, and the names that are kept for ever."""

KEPT_MS: Final = 4000
"""Of the second."""

SHORT_WEIGHTS: Final = (6, 1, 4)
"""Of publishes, of repeats and of fetches, where beginnings are dropped."""

ONCE: Final = (16, 320, 128)
"""One value of so many is published under a name of its own, up to this one; and above it, one of so many: a stream
keeps all names."""

REPEAT_SOON: Final = 4
"""One repeat of so many is of the message that was published last, the others are of any."""

LAST: Final = 10**9
"""The values of the last messages begin here: no other one is as high."""

END_S: Final = 60.0
RETRY_S: Final = 0.2
_SECOND_NS: Final = 1_000_000_000


class StreamClient(SessionClient[Streams]):
    """Publishes to streams, and reads them."""

    operations = STREAMS
    shared_by = ANY

    async def setup(self, test: Test) -> None:
        """Make the streams."""
        for name in NAMES:
            await self.session.declare_stream(name)

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        return await _invoked(self.session, op)


async def _invoked(session: Streams, op: Op) -> Op:
    name = op.key or ""
    match op.f:
        case "publish":
            answer = await session.publish_to_stream(name, op.value)
            return op.complete("ok", answer.value, term=answer.term)
        case "fetch":
            answer = await session.read_stream(name, op.value, BATCH)
            return op.complete("ok", answer.value, term=answer.term)
        case _:
            raise ProtocolError(f"the stream workload knows no op {op.f!r}, only publish and fetch.")


class ShortStreamClient(SessionClient[ShortStreams]):
    """The same of streams whose beginnings are dropped."""

    operations = SHORT_STREAMS
    shared_by = ANY

    async def setup(self, test: Test) -> None:
        """Make the streams."""
        await self.session.declare_short_stream(NAMES[0], KEPT_BYTES, None)
        await self.session.declare_short_stream(NAMES[1], None, KEPT_MS)

    async def invoke(self, test: Test, op: Op) -> Op:
        """As of the other client, and publish what is published once."""
        if op.f == "repeat" or (op.f == "publish" and is_once(op.value)):
            answer = await self.session.publish_once(op.key or "", op.value)
            return op.complete("ok", answer.value, term=answer.term)
        return await _invoked(self.session, op)


def is_once(value: int) -> bool:
    """Whether a value is published under a name of its own, and may be published again."""
    often, until, seldom = ONCE
    return value < LAST and value % (often if value < until else seldom) == 0


class Repeats(msgspec.Struct, frozen=True):
    """Publishes again what was published once, if it was not refused.

    Attributes:
        known: streams and values, in the order of their answers.
        asked: those that have no answer yet, by process.
    """

    known: tuple[tuple[str, int], ...] = ()
    asked: Mapping[int, tuple[str, int]] = {}

    def op(self, ctx: Context) -> Result:
        """A repeat, once there is something to repeat."""
        if not ctx.free or not self.known:
            return PENDING, self
        name, value = self.known[-1] if ctx.rng.below(REPEAT_SOON) == 0 else ctx.rng.choice(self.known)
        op = assign(invoke("repeat", value, key=name), ctx)
        return (PENDING, self) if op is None else (op, self)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Note what was published, or may have been; an answer says the offset, and not the value."""
        if event.f != "publish":
            return self
        if event.type == "invoke":
            if not is_once(event.value):
                return self
            return Repeats(self.known, {**self.asked, event.process: (event.key or "", event.value)})
        if event.process not in self.asked:
            return self
        asked = {process: each for process, each in self.asked.items() if process != event.process}
        more = () if event.type == "fail" else (self.asked[event.process],)
        return Repeats((*self.known, *more), asked)


class Fetches(msgspec.Struct, frozen=True):
    """Reads from offsets on.

    Attributes:
        ends: by stream, the offset behind the last message that is known of.
    """

    ends: Mapping[str, int] = {}

    def op(self, ctx: Context) -> Result:
        """A fetch of what is new, or of anything."""
        if not ctx.free:
            return PENDING, self
        name = ctx.rng.choice(NAMES)
        end = self.ends.get(name, 0)
        recent = max(0, end - ctx.rng.below(RECENT + 1))
        offset = ctx.rng.below(end + 1) if ctx.rng.below(OLDER) == 0 else recent
        op = assign(invoke("fetch", offset, key=name), ctx)
        return (PENDING, self) if op is None else (op, self)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Note how far a stream reaches."""
        end = end_by(event)
        if event.key is None or end <= self.ends.get(event.key, 0):
            return self
        return Fetches({**self.ends, event.key: end})


def end_by(event: Op) -> int:
    """The offset behind the last message that the event shows to be in the stream; 0 if it shows none."""
    match event.f, event.value:
        case ("publish", int(offset)) if event.type == "ok":
            return offset + 1
        case ("fetch", {"end": int(end)}) if event.type == "ok":
            return end
        case _:
            return 0


_Pair = tuple[str, str]
"""A stream and a node."""


class _Asked(msgspec.Struct, frozen=True):
    """What a process was asked: for the last message of a stream, or, with a node, for what this has of it.

    Attributes:
        pair: the stream, and the node or "".
        value: of the last message, or the offset to read from.
    """

    pair: _Pair
    value: int


class ReadAll(msgspec.Struct, frozen=True):
    """Publishes a last message to each stream, then reads all streams through each node up to it, and ends.

    The last message is known by its value, as not every system names offsets.

    Attributes:
        value: of the next last message.
        last: by stream, the value of the last message, once it was acknowledged.
        read: by stream and node, the offset up to which that gave all.
        whole: streams and nodes that gave the last message.
        later_ns: when to ask again what had no answer, or was not there yet.
        asked: by process.
    """

    value: int = LAST
    last: Mapping[str, int] = {}
    read: Mapping[_Pair, int] = {}
    whole: frozenset[_Pair] = frozenset()
    later_ns: Mapping[_Pair, int] = {}
    asked: Mapping[int, _Asked] = {}

    def op(self, ctx: Context) -> Result:
        """What has to be asked, by a free client of its node."""
        nodes = sorted({ctx.node_of(thread) or "" for thread in bits(ctx.threads)})
        left = [pair for name in NAMES for pair in self._left(name, nodes)]
        if not left:
            return None
        under_way = {each.pair for each in self.asked.values()}
        due = {pair: self.later_ns.get(pair, 0) for pair in left if pair not in under_way}
        for thread in bits(ctx.free):
            for pair, from_ns in due.items():
                if from_ns <= ctx.time_ns and pair[1] in ("", ctx.node_of(thread)):
                    return self._ask(pair, ctx.processes[thread])
        until = min((from_ns for from_ns in due.values() if from_ns > ctx.time_ns), default=None)
        return Pending(until), self

    def _left(self, name: str, nodes: Sequence[str]) -> list[_Pair]:
        if name not in self.last:
            return [(name, "")]
        return [(name, node) for node in nodes if (name, node) not in self.whole]

    def _ask(self, pair: _Pair, process: int) -> Result:
        name, node = pair
        f, value = ("fetch", self.read.get(pair, 0)) if node else ("publish", self.value)
        op = Op(process=process, type="invoke", f=f, key=name, value=value)
        asked = {**self.asked, process: _Asked(pair, value)}
        return op, msgspec.structs.replace(self, asked=asked, value=self.value + (f == "publish"))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Note what was answered."""
        if event.type == "invoke" or event.process not in self.asked:
            return self
        asked = self.asked[event.process]
        pair, name = asked.pair, asked.pair[0]
        rest = {process: each for process, each in self.asked.items() if each is not asked}
        later = {**self.later_ns, pair: ctx.time_ns + round(RETRY_S * _SECOND_NS)}
        waits = msgspec.structs.replace(self, asked=rest, later_ns=later)
        if event.type != "ok":
            return waits
        if event.f == "publish":
            return msgspec.structs.replace(self, asked=rest, last={**self.last, name: asked.value})
        match event.value:
            case {"values": [_, *_] as values}:
                first = event.value.get("first", self.read.get(pair, 0))
                read = {**self.read, pair: first + len(values)}
                whole = self.whole | {pair} if self.last[name] in values else self.whole
                return msgspec.structs.replace(self, asked=rest, read=read, whole=whole)
            case _:
                return waits


def stream(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload. It is the same for any number of nodes and clients."""
    fs = ("publish", "fetch")
    generator = mix(Enqueues(names=NAMES, f="publish"), Fetches(), weights=list(WEIGHTS))
    return _workload("stream", StreamClient(), STREAMS.name, CheckerSpec("stream"), fs, generator)


def short_stream(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload with streams whose beginnings are dropped."""
    judge = CheckerSpec("stream", {"drops": True})
    fs = ("publish", "repeat", "fetch")
    generator = mix(Enqueues(names=NAMES, f="publish"), Repeats(), Fetches(), weights=list(SHORT_WEIGHTS))
    return _workload("short-stream", ShortStreamClient(), SHORT_STREAMS.name, judge, fs, generator)


def _workload(
    name: str,
    client: StreamClient | ShortStreamClient,
    needs: str,
    judge: CheckerSpec,
    fs: tuple[str, ...],
    generator: Generator,
) -> Workload:
    return Workload(
        name=name,
        client=client,
        generator=generator,
        final_generator=clients(time_limit(END_S, ReadAll())),
        checkers=(judge, CheckerSpec("stats"), CheckerSpec("coverage", {"fs": list(fs)})),
        fs=fs,
        needs=frozenset({needs}),
        shapes={f: OpShape(keyed=True, value=WHOLE) for f in fs},
    )
