"""The gateway against a node that answers as scripted: what arrives, what does not, and what is said of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.etcd.gateway import Gateway
from splitbrain.harness.systems.etcd.messages import Answered, Nothing, PutRequest, RangeAnswer, RangeRequest
from tests.systems.etcd.fake_node import (
    FakeNode,
    Step,
    fake_node,
    page,
    refuses,
    says,
    silence,
    then_closes,
    then_resets,
)

T = TypeVar("T")

FOUND = {
    "header": {"member_id": "12428976124636271536", "revision": "7", "raft_term": "2"},
    "kvs": [{"key": "Zm9v", "create_revision": "5", "value": "YmFy"}],
    "count": "1",
}


def with_node(*steps: Step, check: Callable[[FakeNode, Gateway], Awaitable[T]]) -> T:
    """Run a check on a gateway to a node that carries out these steps."""

    async def whole() -> T:
        async with fake_node(*steps) as node:
            gateway = await Gateway.open(node.dial, 1500)
            try:
                return await check(node, gateway)
            finally:
                await gateway.close()

    return asyncio.run(whole())


async def put(gateway: Gateway) -> Answered:
    return await gateway.call("kv/put", PutRequest(b"foo", b"bar"), Answered)


async def ranged(gateway: Gateway) -> RangeAnswer:
    return await gateway.call("kv/range", RangeRequest(b"foo"), RangeAnswer)


def test_bytes_are_base64_whole_numbers_strings_and_the_node_is_told_how_long_it_may_try() -> None:
    async def check(node: FakeNode, gateway: Gateway) -> None:
        answer = await ranged(gateway)
        assert [(found.key, found.value, found.create_revision) for found in answer.kvs] == [(b"foo", b"bar", 5)]
        assert (answer.header.member_id, answer.header.revision, answer.header.raft_term) == (
            12428976124636271536,
            7,
            2,
        )
        (request,) = node.requests
        assert (request.path, request.body) == ("/v3/kv/range", {"key": "Zm9v"})
        assert request.headers["grpc-timeout"] == "1500m"

    with_node(says(page(FOUND)), check=check)


def test_an_answer_may_come_in_any_pieces() -> None:
    whole = page(FOUND)

    async def check(node: FakeNode, gateway: Gateway) -> None:
        for _ in range(2):
            assert (await ranged(gateway)).kvs[0].value == b"bar"

    with_node(says(*(bytes([byte]) for byte in whole)), says(whole[:30], whole[30:]), check=check)


def test_an_answer_may_be_chunked_with_trailers_behind_it() -> None:
    first, second = b'{"message":"etcdserver: too bad",', b'"code":3}'
    head = b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\nTrailer: Grpc-Trailer-Content-Type\r\n\r\n"
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (first, second))
    trailer = b"0\r\nGrpc-Trailer-Content-Type: application/grpc\r\n\r\n"

    async def check(node: FakeNode, gateway: Gateway) -> None:
        with pytest.raises(DefiniteError, match="INVALID_ARGUMENT: etcdserver: too bad"):
            await put(gateway)
        await put(gateway)
        assert node.connections == 1

    with_node(says(head, chunks, trailer), says(page()), check=check)


def test_requests_share_a_connection_also_after_a_refusal() -> None:
    async def check(node: FakeNode, gateway: Gateway) -> None:
        await put(gateway)
        with pytest.raises(DefiniteError):
            await put(gateway)
        await put(gateway)
        assert (len(node.requests), node.connections) == (3, 1)

    with_node(says(page()), refuses(3, "key is not provided"), says(page()), check=check)


def test_a_connection_that_the_node_ends_after_an_answer_is_made_anew() -> None:
    async def check(node: FakeNode, gateway: Gateway) -> None:
        await put(gateway)
        await put(gateway)
        assert (len(node.requests), node.connections) == (2, 2)

    with_node(says(page(headers=["Connection: close"])), says(page()), check=check)


@pytest.mark.parametrize("ends", [then_closes, then_resets])
def test_a_connection_that_ended_while_it_was_idle_is_made_anew_before_anything_is_sent(
    ends: Callable[[bytes], Step],
) -> None:
    async def check(node: FakeNode, gateway: Gateway) -> None:
        await put(gateway)
        await node.hung_up()
        await put(gateway)
        assert (len(node.requests), node.connections) == (2, 2)

    with_node(ends(page()), says(page()), check=check)


def test_a_node_that_went_away_while_the_connection_was_idle_refuses_definitely() -> None:
    async def whole() -> None:
        async with fake_node(then_closes(page())) as node:
            gateway = await Gateway.open(node.dial, 1500)
            await put(gateway)
        with pytest.raises(DefiniteError, match="cannot be reached"):
            await put(gateway)

    asyncio.run(whole())


def test_a_node_that_does_not_listen_refuses_definitely() -> None:
    async def whole() -> None:
        async with fake_node() as node:
            pass
        with pytest.raises(DefiniteError, match="n1 cannot be reached"):
            await Gateway.open(node.dial, 1500)

    asyncio.run(whole())


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(then_closes(), id="closed-in-place-of-an-answer"),
        pytest.param(then_resets(), id="reset-in-place-of-an-answer"),
        pytest.param(then_closes(page(FOUND)[:20]), id="closed-within-the-head"),
        pytest.param(then_closes(page(FOUND)[:-10]), id="closed-within-the-body"),
        pytest.param(then_resets(page(FOUND)[:-10]), id="reset-within-the-body"),
        pytest.param(says(b"SSH-2.0-OpenSSH\r\n\r\n"), id="not-http"),
        pytest.param(says(page(text=b"{")), id="not-json"),
        pytest.param(says(page({"header": {"raft_term": "x"}})), id="not-an-answer"),
        pytest.param(says(page(text=b"<html>", status="502 Bad Gateway")), id="a-page-from-nobody-knows-whom"),
    ],
)
def test_whatever_becomes_of_a_request_that_was_sent_is_indefinite_and_the_next_one_can_be_made(step: Step) -> None:
    async def check(node: FakeNode, gateway: Gateway) -> None:
        with pytest.raises(IndefiniteError):
            await put(gateway)
        assert (await ranged(gateway)).kvs[0].value == b"bar"
        assert len(node.requests) == 2

    with_node(step, says(page(FOUND)), check=check)


@pytest.mark.parametrize("answers_late", [True, False])
def test_after_a_request_was_given_up_its_answer_is_not_taken_for_the_next_ones(answers_late: bool) -> None:
    async def check(node: FakeNode, gateway: Gateway) -> None:
        waiting = asyncio.ensure_future(put(gateway))
        while not node.requests:
            await asyncio.sleep(0.001)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        if answers_late:
            node.writers[0].write(page())
        assert (await ranged(gateway)).kvs[0].value == b"bar"
        assert node.connections == 2

    with_node(silence, says(page(FOUND)), check=check)


def test_an_unknown_path_is_definite_nobody_took_the_request() -> None:
    async def check(node: FakeNode, gateway: Gateway) -> None:
        with pytest.raises(DefiniteError, match="HTTP 404: Not Found"):
            await gateway.call("nonsense", Nothing(), Answered)

    with_node(says(page(text=b"Not Found\n", status="404 Not Found")), check=check)
