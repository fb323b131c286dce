"""What a client does with a message is sent until it is carried out, and no longer."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from splitbrain.cluster.channel import Channel, Recipient
from splitbrain.cluster.errors import UnavailableError
from splitbrain.cluster.queueclient import settling
from splitbrain.cluster.queueclient.settling import Settling
from splitbrain.cluster.queues import ConsumerId, Process
from splitbrain.cluster.queues.commands import Dequeue, Discard, Enqueue, Return, Settle
from splitbrain.cluster.queues.config import QueueConfig
from splitbrain.cluster.queues.machine import QuorumQueue
from splitbrain.cluster.queues.replies import Accepted
from splitbrain.cluster.tree import Value
from splitbrain.cluster.wire import Answer, Failure, Outcome, QueueOp, Request

CARRIED_OUT = Value(b"")
NOT_NOW = Failure("no_leader", True, "so it is")
UNKNOWN = Failure("timeout", False, "so it is")
NONSENSE = Failure("invalid_request", True, "so it is")


class FakeChannel:
    """Answers each request with the next of some outcomes, at once; broken once there are none left."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.sent = 0

    def post(self, request: Request, recipient: Recipient) -> int:
        assert request.reply == "leader"
        if not self.outcomes:
            raise UnavailableError("the connection is broken.")
        self.sent += 1
        recipient.answered((Answer(self.sent, 1, self.outcomes.pop(0), 1),))
        return self.sent


@pytest.mark.parametrize(
    ("outcomes", "sent"),
    [
        ((CARRIED_OUT, CARRIED_OUT), 1),
        ((NOT_NOW, UNKNOWN, CARRIED_OUT, CARRIED_OUT), 3),
        ((NONSENSE, CARRIED_OUT), 1),
        ((NOT_NOW,), 1),  # then the connection is broken
    ],
)
def test_it_is_sent_until_it_is_carried_out_refused_or_the_connection_breaks(
    outcomes: tuple[Outcome, ...], sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "AGAIN_S", 0.0)
    channel = FakeChannel(*outcomes)

    async def check() -> None:
        Settling(cast(Channel, channel), Request(0, 1, QueueOp(b""), group="queue.1")).begin()
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(check())
    assert channel.sent == sent


class LosingChannel(FakeChannel):
    """Loses the first requests, or their answers, and does not break."""

    def __init__(self, lost: int, *outcomes: Outcome) -> None:
        super().__init__(*outcomes)
        self.lost = lost
        self.recipients: list[Recipient] = []

    def post(self, request: Request, recipient: Recipient) -> int:
        self.recipients.append(recipient)
        if self.lost:
            self.lost -= 1
            self.sent += 1
            return self.sent
        return super().post(request, recipient)


def test_what_no_answer_comes_to_is_sent_again_until_one_comes_and_not_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settling, "UNANSWERED_S", 0.0)
    monkeypatch.setattr(settling, "AGAIN_S", 0.0)
    channel = LosingChannel(2, CARRIED_OUT, CARRIED_OUT, CARRIED_OUT)

    async def check() -> None:
        Settling(cast(Channel, channel), Request(0, 1, QueueOp(b""), group="queue.1")).begin()
        for _ in range(20):
            await asyncio.sleep(0)
        channel.recipients[0].answered((Answer(1, 1, NOT_NOW, 1),))  # the first attempt is answered after all
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(check())
    assert channel.sent == 3


def test_it_is_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "AGAIN_S", 0.0)
    monkeypatch.setattr(settling, "GIVEN_UP_S", 0.0)
    channel = FakeChannel(NOT_NOW, NOT_NOW)

    async def check() -> None:
        Settling(cast(Channel, channel), Request(0, 1, QueueOp(b""), group="queue.1")).begin()
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(check())
    assert channel.sent == 1


def test_a_broken_connection_is_said_at_once() -> None:
    async def check() -> None:
        with pytest.raises(UnavailableError):
            Settling(cast(Channel, FakeChannel()), Request(0, 1, QueueOp(b""), group="queue.1")).begin()

    asyncio.run(check())


@pytest.mark.parametrize("command", [Settle, Discard, Return])
def test_a_queue_ignores_what_is_carried_out_again(command: type[Settle | Discard | Return]) -> None:
    queue = QuorumQueue(QueueConfig(delivery_limit=20))
    consumer = ConsumerId("take-1", Process("1.1.1", "n1"))
    for index, each in enumerate((Enqueue(None, None, b"a"), Dequeue(consumer, False), command(consumer, (0,))), 1):
        queue.apply(index, index, each)
    before = queue.state.total, len(queue.state.dead_letters)
    again = queue.apply(4, 4, command(consumer, (0,)))
    assert (again.reply, again.effects) == (Accepted(), ())
    assert (queue.state.total, len(queue.state.dead_letters)) == before
