"""A publisher that is answered late: it sends again under the same number, and waits longer each time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from splitbrain.cluster.client import OutcomeUnknownError
from splitbrain.cluster.queueclient import Confirmed, Publisher
from splitbrain.cluster.queueclient.connection import QueueConnection, Said
from splitbrain.cluster.queueclient.publisher import ATTEMPT_MS
from splitbrain.cluster.queues import Process
from splitbrain.cluster.queues.commands import Enqueue
from splitbrain.cluster.queues.replies import ACCEPTED
from tests.cluster.support import in_virtual_time


class Slow:
    """A connection to a queue whose answers take so many ms; each request is given up at its own time."""

    def __init__(self, takes_ms: int) -> None:
        self.takes_ms = takes_ms
        self.sent: list[tuple[Process | None, int | None]] = []
        self.processes = 0

    def new_process(self) -> Process:
        self.processes += 1
        return Process(f"1.1.{self.processes}", "n1")

    def listen(self, _process: Process, _listener: object) -> None:
        """Nothing comes by itself."""

    def ignore(self, _process: Process) -> None:
        """As above."""

    async def record(self, _name: str, _timeout_ms: int) -> Any:
        return None

    async def command(self, _name: str, command: Enqueue, *, timeout_ms: int) -> Said:
        self.sent.append((command.publisher, command.seq))
        await asyncio.sleep(min(self.takes_ms, timeout_ms) / 1000)
        if self.takes_ms > timeout_ms:
            raise OutcomeUnknownError("timeout", 1)
        return Said(ACCEPTED, 1)


def publisher(slow: Slow) -> Publisher:
    return Publisher(cast(QueueConnection, slow), "orders")


def test_an_answer_that_takes_longer_than_the_first_attempts_confirms_all_the_same() -> None:
    slow = Slow(3 * ATTEMPT_MS)

    async def publishes() -> None:
        assert await publisher(slow).publish(b"a", timeout_ms=30 * ATTEMPT_MS) == Confirmed(1, 1)

    in_virtual_time(publishes())
    assert len(slow.sent) == 3, "after 1, 2 and 4 times as long"
    assert len({*slow.sent}) == 1, "each time under its number"


def test_no_attempt_lasts_longer_than_the_time_that_is_left_and_the_next_message_is_of_another_publisher() -> None:
    slow = Slow(10 * ATTEMPT_MS)

    async def publishes() -> None:
        one = publisher(slow)
        began = asyncio.get_running_loop().time()
        with pytest.raises(OutcomeUnknownError, match="no confirm came in time"):
            await one.publish(b"a", timeout_ms=4 * ATTEMPT_MS)
        assert asyncio.get_running_loop().time() - began < 5 * ATTEMPT_MS / 1000
        slow.takes_ms = 0
        assert await one.publish(b"b") == Confirmed(1, 1)

    in_virtual_time(publishes())
    assert slow.sent[-1][0] != slow.sent[0][0]
