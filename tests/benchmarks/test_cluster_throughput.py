"""Throughput side by side: ratios are those of one round, and the bare client takes whole answers only."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cluster_throughput import Load, shares, tables
from benchmarks.throughput_clients import BareOfEtcd
from splitbrain.results.errors import HarnessError

BODY = b'{"kvs":[{"key":"aw==","value":"dg=="}]}'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


def load(system: str, number: int, ops_per_s: float, nodes_us: float) -> Load:
    return Load(system, 3, "write", 8, number, ops_per_s, 1.0, 2.0, nodes_us, 10.0, 20.0, 0.5, 0.25)


def test_a_ratio_is_the_median_of_those_of_single_rounds() -> None:
    ours = [load("metadata", 0, 100, 10), load("metadata", 1, 1000, 10), load("metadata", 2, 10, 10)]
    theirs = [load("etcd", 2, 20, 30), load("etcd", 0, 200, 30), load("etcd", 1, 500, 30)]
    rows = [line for line in tables([*ours, *theirs]) if line.startswith("| writes")]
    assert rows == [
        "| writes, 8 clients | 100 | 1.0 / 2.0 | 200 | 1.0 / 2.0 | 2.00 |",
        "| writes, 8 clients | 10 (10, 50%) / 20 (25%) | 30 (10, 50%) / 20 (25%) | 3.00 |",
    ]


def test_samples_are_summed_by_module() -> None:
    lines = shares({"raft/leader:a": 1, "stream:b": 2, "raft/leader:c": 5})
    assert lines[:3] == ["8 samples, by module:", " 75.0%  raft/leader", " 25.0%  stream"]


class Transport:
    def __init__(self, client: BareOfEtcd, pieces: list[bytes]) -> None:
        self._client = client
        self._pieces = pieces

    def write(self, data: bytes) -> None:
        for piece in self._pieces:
            asyncio.get_running_loop().call_soon(self._client.data_received, piece)


def read(pieces: list[bytes]) -> str | None:
    async def ask() -> str | None:
        client = BareOfEtcd()
        client.connection_made(cast(Any, Transport(client, pieces)))
        return await client.read("k")

    return asyncio.run(ask())


@given(st.lists(st.integers(0, len(WHOLE)), max_size=5))
def test_the_bare_client_takes_an_answer_wherever_it_is_cut(cuts: list[int]) -> None:
    edges = sorted({0, len(WHOLE), *cuts})
    assert read([WHOLE[start:end] for start, end in pairwise(edges)]) == "v"


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n{}"]
)
def test_the_bare_client_takes_nothing_else_for_an_answer(answer: bytes) -> None:
    with pytest.raises(HarnessError, match="etcd answers"):
        read([answer])
