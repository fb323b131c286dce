"""Streams of the metadata cluster as sessions use them: those that were not declared in time are declared by ops."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from splitbrain.cluster.client import UnavailableError
from splitbrain.cluster.streamclient import ReadMessages
from splitbrain.cluster.streams.frames import Confirmed
from splitbrain.cluster.streams.retention import Retention
from splitbrain.harness.systems.metadata_streams import MetadataStreams


class Node:
    """A node, and the streams that were declared through it; each call notes its timeout."""

    def __init__(self) -> None:
        self.declared: dict[str, int] = {}
        self.kept: dict[str, tuple[int | None, int | None]] = {}
        self.published: list[int] = []
        self.timeouts: list[int] = []

    async def streams(self) -> Node:
        return self

    async def declare(
        self, name: str, *, replicas: int, max_length_bytes: int | None, max_age_ms: int | None, timeout_ms: int
    ) -> bool:
        self.declared[name] = replicas
        self.kept[name] = (max_length_bytes, max_age_ms)
        self.timeouts.append(timeout_ms)
        return True

    def publisher(self, stream: str, name: str) -> Publisher:
        return Publisher(self, stream)

    async def read(self, name: str, offset: int, *, most: int, timeout_ms: int) -> ReadMessages:
        self.check(name, timeout_ms)
        return ReadMessages(offset, (b"7",), offset + 1)

    def check(self, stream: str, timeout_ms: int) -> None:
        self.timeouts.append(timeout_ms)
        if stream not in self.declared:
            raise UnavailableError(f"this node knows no stream {stream!r} (yet).", 0)


class Publisher:
    def __init__(self, node: Node, stream: str) -> None:
        self.node, self.stream = node, stream

    async def publish(self, body: bytes, *, timeout_ms: int) -> Confirmed:
        self.node.check(self.stream, timeout_ms)
        self.node.published.append(int(body))
        return Confirmed(len(self.node.published) - 1, 1)


async def new_name() -> str:
    return "p1"


def test_a_stream_that_is_not_there_is_declared_by_the_first_op_in_the_time_of_that() -> None:
    async def check() -> None:
        node = Node()
        session = MetadataStreams(cast(Any, node), 1000, new_name, {"st1": Retention(1500, None)})
        with pytest.raises(UnavailableError):
            await session.publish("st0", 1)
        assert (list(node.declared), node.published, node.timeouts) == (["st0"], [], [500, 500])
        for value in (2, 3):
            assert (await session.publish("st0", value)).value == value - 2
        assert (await session.read("st0", 0, 10)).value == {"values": [7], "end": 1}
        assert (node.published, node.timeouts[2:]) == ([2, 3], [500, 1000, 1000])
        with pytest.raises(UnavailableError):
            await session.read("st1", 0, 10)
        assert list(node.declared) == ["st0", "st1"]
        assert node.kept == {"st0": (None, None), "st1": (1500, None)}

    asyncio.run(check())


def test_threads_that_share_a_session_publish_to_a_stream_as_one_publisher() -> None:
    async def check() -> None:
        names, used = iter("abcde"), list[tuple[str, int]]()

        class Slow(Node):
            async def streams(self) -> Node:
                await asyncio.sleep(0)
                return self

            def publisher(self, stream: str, name: str) -> Publisher:
                return Named(self, stream, name)

        class Named(Publisher):
            def __init__(self, node: Node, stream: str, name: str) -> None:
                super().__init__(node, stream)
                self.name = name

            async def publish(self, body: bytes, *, timeout_ms: int) -> Confirmed:
                used.append((self.name, id(self)))
                return await super().publish(body, timeout_ms=timeout_ms)

        async def next_name() -> str:
            await asyncio.sleep(0)
            return next(names)

        node = Slow()
        node.declared.update({"st0": 1, "st1": 1})
        session = MetadataStreams(cast(Any, node), 1000, next_name, {})
        await asyncio.gather(*(session.publish(stream, 0) for stream in ("st0", "st0", "st1", "st0", "st1")))
        assert len(used) == 5
        assert len({name for name, _ in used}) == 1
        assert len({*used}) == 2, "two publishers of one name give two messages of a stream the same number"

    asyncio.run(check())
