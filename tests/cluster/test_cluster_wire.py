"""Framing and messages: what is sent arrives whole and in order, and what makes no sense is told apart."""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster import wire
from splitbrain.cluster.callers import MAX_NOTICES
from splitbrain.cluster.raft.messages import Append, PreVote
from splitbrain.cluster.stream import MAX_MESSAGE_BYTES, StreamConnection
from splitbrain.cluster.tree import CompareAndSwap, Done, Get, MismatchingNode, Names, Properties, Put
from tests.cluster.support import entry


class FakeTransport(asyncio.Transport):
    """Keeps what is written, and whether reading is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.writes = 0
        self.unsent = 0
        self.paused = False
        self.ended = ""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.writes += 1

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"


def connected() -> tuple[StreamConnection, FakeTransport]:
    connection, transport = StreamConnection(), FakeTransport()
    connection.connection_made(transport)
    return connection, transport


async def sent(messages: list[bytes]) -> bytes:
    """The stream that these messages become."""
    connection, transport = connected()
    for message in messages:
        connection.send(message)
    await asyncio.sleep(0)
    return transport.written


@given(st.lists(st.binary(max_size=50), max_size=10), st.data())
def test_messages_arrive_whole_and_in_order_wherever_the_stream_is_cut(
    messages: list[bytes], data: st.DataObject
) -> None:
    stream = asyncio.run(sent(messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    receiver, _ = connected()
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        receiver.data_received(stream[start:end])
    receiver.connection_lost(None)

    async def receive_all() -> list[bytes]:
        received = [await receiver.receive() for _ in messages]
        with pytest.raises(ConnectionError, match="the other side closed"):
            await receiver.receive()
        return received

    assert asyncio.run(receive_all()) == messages


def test_a_reader_that_waits_learns_that_the_connection_is_gone() -> None:
    async def check() -> None:
        connection, _ = connected()
        reading = asyncio.get_running_loop().create_task(connection.receive())
        await asyncio.sleep(0)
        connection.connection_lost(OSError(110, "Connection timed out"))
        with pytest.raises(ConnectionError, match="timed out"):
            await reading

    asyncio.run(check())


def test_a_stream_of_another_protocol_is_given_up_at_once() -> None:
    connection, transport = connected()
    connection.data_received(b"GET / HTTP/1.1\r\n\r\n")
    assert transport.ended == "aborted"
    with pytest.raises(ConnectionError, match="another protocol"):
        asyncio.run(connection.receive())


def test_a_side_that_takes_nothing_does_not_fill_the_memory() -> None:
    async def check() -> None:
        connection, transport = connected()
        transport.unsent = 5 * MAX_MESSAGE_BYTES
        connection.send(b"x")
        with pytest.raises(ConnectionError, match="does not take"):
            await connection.receive()
        assert transport.ended == "aborted"

    asyncio.run(check())


def test_unread_messages_hold_back_the_sender_until_they_are_read() -> None:
    async def check() -> None:
        connection, transport = connected()
        connection.data_received(b"\0\0\0\1x" * 5000)
        assert transport.paused
        for _ in range(5000):
            await connection.receive()
        assert not transport.paused

    asyncio.run(check())


def test_a_message_that_no_receiver_would_take_is_not_sent() -> None:
    connection, _ = connected()
    with pytest.raises(ValueError, match="is longer than"):
        connection.send(bytes(MAX_MESSAGE_BYTES + 1))


def test_sending_on_a_closed_connection_is_silently_lost() -> None:
    async def check() -> None:
        connection, transport = connected()
        connection.send(b"before")
        connection.close()
        connection.send(b"after")
        await asyncio.sleep(0)
        assert (transport.written, transport.ended) == (b"\0\0\0\6before", "closed")

    asyncio.run(check())


def test_what_is_sent_in_one_turn_goes_out_in_one_piece() -> None:
    async def check() -> None:
        connection, transport = connected()
        for message in (b"a", b"", b"b"):
            connection.send(message)
        assert transport.writes == 0
        await asyncio.sleep(0)
        assert (transport.writes, transport.written) == (1, b"\0\0\0\1a\0\0\0\0\0\0\0\1b")

    asyncio.run(check())


REQUESTS = [
    wire.Request(1, 500, Get(("a", "b"))),
    wire.Request(2**40, 1, Put((), None)),
    wire.Request(3, 5, CompareAndSwap(("ä",), b"", b"\0")),
    wire.Request(4, 5, wire.StatusQuery()),
    wire.Request(5, 5, Put((), None), wire.FromMember("n2"), "q1", "low"),
    wire.Request(6, 5, Put((), None), "notify"),
]
OUTCOMES: list[wire.Outcome] = [
    Done(None),
    Done(Properties(b"x", 1, 2, 3)),
    Names(("a", "b")),
    wire.Failure("timeout", False, "late"),
    wire.Failure("not_leader", True, "no", "n2"),
    wire.Appended(),
    wire.ClientAddress("n1", 7, 3),
    wire.ClientMessage(b"x"),
    wire.Applied((wire.Notice(1, 2, Done(None), 3), wire.Notice(2, 2, Names(()), 4))),
    wire.Status("n1", "leader", 3, "n1", 7, 6, "00", "ff"),
]
FRAMES: list[wire.PeerFrame] = [
    PreVote(1, 2, 3, 4),
    Append(1, 2, 3, 4, 5, (entry(6), entry(7, data=b"x"))),
    wire.Forward(9, 1, Put(("a",), b"x")),
    wire.Forward(9, 1, Put(("a",), b"x"), reply="noreply", priority="low"),
    wire.Forward(9, 1, wire.AwaitEntry(3, 4)),
    wire.Deliver(wire.ClientAddress("n1", 7, 3), b"x", "q1"),
    wire.AskForClient(wire.ClientAddress("n1", 7, 3), "q1"),
    wire.ClientGone(wire.ClientAddress("n1", 7, 3), "q1"),
    wire.Forwarded(9, 1, 4, Done(None)),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_survives_the_wire(request_: wire.Request) -> None:
    assert wire.decode_request(wire.encode(request_)) == request_


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_answer_survives_the_wire(outcome: wire.Outcome) -> None:
    answer = wire.Answer(3, 4, outcome)
    assert wire.decode_answer(wire.encode(answer)) == answer


@pytest.mark.parametrize("frame", FRAMES)
def test_what_peers_say_survives_the_wire(frame: wire.PeerFrame) -> None:
    for group in ("metadata", "q1"):
        told = frame.group if isinstance(frame, wire.RequestFrame) else group
        assert wire.decode_peer(wire.encode_peer(frame, group)) == (told, frame)


@pytest.mark.parametrize("hello", [wire.PeerHello(1, "n1", "n2"), wire.ClientHello(1)])
def test_a_hello_survives_the_wire(hello: wire.Hello) -> None:
    assert wire.decode_hello(wire.encode(hello)) == hello


@pytest.mark.parametrize("data", [b"\xc1", b"\x93", b"c", b"x\x93\x04\x00\xc2", b"\x00"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    for decode in (wire.decode_hello, wire.decode_request, wire.decode_answer, wire.decode_peer):
        with pytest.raises(msgspec.DecodeError):
            decode(data)


@given(st.integers(0, 200), st.integers(1, 255), st.integers(0, 200))
def test_damaged_messages_raise_nothing_but_what_is_expected_of_them(at: int, flip: int, size: int) -> None:
    messages = [wire.encode(request) for request in REQUESTS] + [wire.encode_peer(frame) for frame in FRAMES]
    for message in messages:
        damaged = bytearray(message)
        damaged[at % len(message)] ^= flip
        for decode in (wire.decode_hello, wire.decode_request, wire.decode_answer, wire.decode_peer):
            with contextlib.suppress(msgspec.DecodeError):
                decode(bytes(damaged[: 1 + size % len(message)]))
        wire.decode_request_id(bytes(damaged))


def test_the_id_of_a_request_from_the_future_can_still_be_answered() -> None:
    data = msgspec.msgpack.encode([17, 500, ["fold", ["a"]]])
    with pytest.raises(msgspec.DecodeError):
        wire.decode_request(data)
    assert wire.decode_request_id(data) == 17
    assert wire.decode_request_id(b"\xc1") is None
    assert wire.decode_request_id(b"\x91" * 50_000) is None
    assert wire.decode_request_id(msgspec.msgpack.encode(["x"])) is None


def test_a_batch_of_the_longest_requests_fits_into_one_message() -> None:
    longest = bytes(wire.MAX_REQUEST_BYTES)
    batch = Append(1, 1, 1, 1, 1, tuple(entry(n, data=longest) for n in range(1, 129)))
    assert len(wire.encode_peer(cast(wire.PeerFrame, batch))) <= MAX_MESSAGE_BYTES


def test_an_earlier_client_or_peer_that_knows_no_reply_modes_is_understood() -> None:
    assert wire.decode_request(msgspec.msgpack.encode([1, 500, ["get", ["a"]]])) == wire.Request(1, 500, Get(("a",)))
    forward = msgspec.msgpack.encode(["forward", 9, 1, ["put", ["a"], None], "q1"])
    assert wire.decode_peer(b"r" + forward) == ("q1", wire.Forward(9, 1, Put(("a",), None), "q1"))


def test_as_many_of_the_longest_results_as_are_sent_at_once_fit_into_an_answer() -> None:
    longest = Properties(bytes(wire.MAX_REQUEST_BYTES), 2**60, 2**60, 2**60)
    path = ("a" * 255,) * 64
    notices = tuple(wire.Notice(2**60, 2**60, MismatchingNode(path, longest), 2**60) for _ in range(MAX_NOTICES))
    assert len(wire.encode(wire.Answer(0, 1, wire.Applied(notices)))) <= wire.MAX_ANSWER_BYTES
