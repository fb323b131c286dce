"""The stream workload: unique values, fetches of what is new and of older messages, and its end, which reads all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from splitbrain.checkers.streams import StreamChecker
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import Answer
from splitbrain.harness.generators import Context
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op, OpType
from splitbrain.workloads.catalogue import build
from splitbrain.workloads.stream import LAST, NAMES, ReadAll, ShortStreamClient, is_once
from tests.workloads.support import FIVE, drive, invocations

THREE = FIVE[:3]


class Logs:
    """Streams in memory.

    Attributes:
        part: the number of messages in one answer at most.
        names_offsets: whether a confirm names the offset of the message.
        fails: how an op ends that is not answered; None: it is answered.
    """

    def __init__(
        self,
        part: int = 200,
        fails: Callable[[Op, int], OpType | None] = lambda op, asked: None,
        *,
        names_offsets: bool = True,
    ) -> None:
        self.names_offsets = names_offsets
        self.logs: dict[str, list[int]] = {name: list(range(5)) for name in NAMES}
        self.part = part
        self.fails = fails
        self.asked = 0

    def __call__(self, op: Op) -> Op:
        self.asked += 1
        log = self.logs[op.key or ""]
        failed = self.fails(op, self.asked)
        if failed is not None:
            return op.complete(failed, op.value)
        if op.f == "publish":
            log.append(op.value)
            return op.complete("ok", len(log) - 1 if self.names_offsets else None)
        return op.complete("ok", {"values": log[op.value : op.value + self.part], "end": len(log)})


def ended(logs: Logs, *, clients: int = 6, most: int = 2000) -> list[Op]:
    """The ops of the end, one after another, through three nodes."""
    streams = Streams(1)
    ctx = Context.initial(clients, THREE, streams["workload"], streams["nemesis"])
    ctx = ctx.restrict(~ctx.nemesis_bit)
    generator: Any = ReadAll()
    history: list[Op] = []
    for _ in range(most):
        result = generator.op(ctx)
        if result is None:
            return history
        found, generator = result
        if isinstance(found, Op):
            thread = ctx.thread_of(found.process)
            asked = msgspec.structs.replace(found, time=ctx.time_ns, node=THREE[thread % 3], index=len(history))
            done = msgspec.structs.replace(logs(asked), index=len(history) + 1)
            history += [asked, done]
            for event in (asked, done):
                generator = generator.update(ctx, event)
        ctx.time_ns += 50_000_000
    raise AssertionError("it did not end")


def test_values_are_published_once_and_fetches_begin_within_what_is_known() -> None:
    history = drive(
        build("stream", nodes=FIVE, concurrency=10).generator,
        ops_max=600,
        results={"publish": 99, "fetch": {"values": [], "end": 0}},
    )
    values = [op.value for op in invocations(history, "publish")]
    assert values == list(range(len(values)))
    offsets = [op.value for op in invocations(history, "fetch")]
    assert 0 <= min(offsets) < 79, "an older one"
    assert max(offsets) == 100
    assert {op.key for op in history} == set(NAMES)


def test_some_messages_of_short_streams_are_published_again_unless_they_were_refused() -> None:
    refused = 32
    history = drive(
        build("short-stream", nodes=FIVE, concurrency=10).generator,
        ops_max=1500,
        ends=lambda op: "fail" if op.value == refused else "info" if op.value == 48 else "ok",
        results={"publish": 99, "repeat": 99, "fetch": {"values": [], "end": 0}},
    )
    published = {(op.key, op.value) for op in invocations(history, "publish")}
    repeated = [(op.key, op.value) for op in invocations(history, "repeat")]
    assert set(repeated) <= published
    again = {value for _, value in repeated}
    assert {0, 16, 48} <= again, "also what may have been published"
    assert refused not in again
    assert all(is_once(value) for value in again)
    assert len(repeated) > 50
    assert sum(is_once(value) for value in range(2000)) < 40, "streams keep the names of all"
    assert not is_once(LAST)


class Session:
    """Notes what is published, and how."""

    def __init__(self) -> None:
        self.published: list[tuple[str, int, str]] = []

    async def publish_to_stream(self, stream: str, value: int) -> Answer:
        self.published.append((stream, value, "under the name of the session"))
        return Answer(5)

    async def publish_once(self, stream: str, value: int) -> Answer:
        self.published.append((stream, value, "once"))
        return Answer(6)


def test_what_may_be_published_again_has_a_name_of_its_own() -> None:
    session = Session()
    client, test = ShortStreamClient(cast(Any, session)), cast(Any, None)
    ops = [
        Op(process=0, type="invoke", f=f, key="st0", value=value)
        for f, value in (("publish", 16), ("repeat", 16), ("publish", 17), ("publish", LAST))
    ]
    said = [asyncio.run(client.invoke(test, op)).value for op in ops]
    assert said == [6, 6, 5, 5]
    assert [how for _, _, how in session.published] == ["once"] * 2 + ["under the name of the session"] * 2


@pytest.mark.parametrize("names_offsets", [True, False])
def test_the_end_publishes_a_last_message_to_each_stream_and_then_reads_all_of_it_through_each_node(
    names_offsets: bool,
) -> None:
    history = ended(Logs(part=2, names_offsets=names_offsets))
    published = invocations(history, "publish")
    assert [(op.key, op.value) for op in published] == [(NAMES[0], LAST), (NAMES[1], LAST + 1)]
    read = {(name, node): list[int]() for name in NAMES for node in THREE}
    for asked, done in zip(history[::2], history[1::2], strict=True):
        if asked.f == "fetch":
            assert any(op.key == asked.key and op.index < asked.index for op in published)
            read[asked.key or "", asked.node or ""] += done.value["values"]
    assert read == {(name, node): [*range(5), LAST + at] for at, name in enumerate(NAMES) for node in THREE}


def test_what_has_no_answer_in_the_end_is_asked_again_and_the_checker_agrees() -> None:
    def fails(op: Op, asked: int) -> OpType | None:
        return ("info", "fail")[asked % 2] if asked % 3 or asked < 9 else None

    history = ended(Logs(fails=fails))
    asked = [Op(process=9, type="invoke", f="publish", key=key, value=at) for key in NAMES for at in range(5)]
    before = [event for op in asked for event in (op, op.complete("ok", op.value))]
    ops = [msgspec.structs.replace(op, index=index, time=index) for index, op in enumerate([*before, *history])]
    assert StreamChecker().check(to_table(ops), {}).valid == "true"
