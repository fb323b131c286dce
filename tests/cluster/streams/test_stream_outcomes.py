"""Errors of clients of streams say whether what was wanted may have happened, also after several attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from splitbrain.cluster.channel import Channel
from splitbrain.cluster.errors import ClientError, OutcomeUnknownError, UnavailableError
from splitbrain.cluster.streamclient import Streams
from splitbrain.cluster.streams.commands import Accepted, DeleteStream, NewStream, OfClients
from splitbrain.cluster.streams.state import Member, State, Stream
from splitbrain.cluster.wire import ClientAddress
from tests.cluster.support import in_virtual_time

Step = Callable[[int, OfClients], Accepted | ClientError]


class Connection:
    """A coordinator has these streams, and answers each command as `step` says of its number."""

    def __init__(self, step: Step, streams: list[Stream]) -> None:
        self._step = step
        self._streams = streams
        self._commands = 0

    async def members(self, *_: Any) -> tuple[str, ...]:
        return ("n1", "n2", "n3")

    async def draining(self, _: int) -> frozenset[str]:
        return frozenset()

    async def command(self, command: OfClients, _: int) -> tuple[Accepted, int]:
        self._commands += 1
        answer = self._step(self._commands, command)
        if isinstance(answer, ClientError):
            raise answer
        return answer, 3

    async def state(self, _: int) -> State:
        return State({each.id: each for each in self._streams})


def running(number: int, name: str, part_of: str | None = None) -> Stream:
    return Stream(number, name, {"n1": Member("running", 1)}, ("n1",), None, 1, "n1", True, part_of=part_of)


def error_of(call: Callable[[Streams], Awaitable[object]], step: Step, *streams: Stream) -> ClientError:
    async def created(*_: Any) -> None:
        await asyncio.sleep(0)

    async def run() -> ClientError:
        made = Streams(cast(Channel, None), ClientAddress("n1", 1, 1), created)
        made._connection = cast(Any, Connection(step, list(streams)))  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(ClientError) as caught:
            await call(made)
        return caught.value

    return in_virtual_time(run())


def lost_then_refused(number: int, _: OfClients) -> ClientError:
    return OutcomeUnknownError("no answer.", 3) if number == 1 else UnavailableError("no leader.", 3)


def refused(_: int, __: OfClients) -> ClientError:
    return UnavailableError("no leader.", 3)


def test_a_declaration_of_which_one_attempt_got_no_answer_may_have_happened() -> None:
    assert not error_of(lambda streams: streams.declare("s", timeout_ms=1500), lost_then_refused).definite
    assert error_of(lambda streams: streams.declare("s", timeout_ms=1500), refused).definite


def test_a_superstream_of_which_a_partition_was_made_may_be_there() -> None:
    def second_refused(_: int, command: OfClients) -> Accepted | ClientError:
        is_first = isinstance(command, NewStream) and command.name == "o-0"
        return Accepted(1, is_new=True) if is_first else UnavailableError("no leader.", 3)

    there = running(1, "o-0", "o")
    found = error_of(lambda streams: streams.declare_super("o", timeout_ms=1500), second_refused, there)
    assert not found.definite
    assert "o-0" in str(found)
    assert error_of(lambda streams: streams.declare_super("o", timeout_ms=1500), refused).definite


def test_a_superstream_of_which_a_partition_was_deleted_may_be_gone() -> None:
    def second_refused(_: int, command: OfClients) -> Accepted | ClientError:
        is_first = isinstance(command, DeleteStream) and command.name == "o-0"
        return Accepted(1) if is_first else UnavailableError("no leader.", 3)

    there = [running(number, f"o-{number}", "o") for number in range(2)]
    found = error_of(lambda streams: streams.delete_super("o", timeout_ms=1500), second_refused, *there)
    assert not found.definite
    assert error_of(lambda streams: streams.delete_super("o", timeout_ms=1500), refused, *there).definite
