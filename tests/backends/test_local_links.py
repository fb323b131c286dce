"""Faults of links through proxies, piece by piece. `conformance` has what nodes see of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.agent.packet_link import Fault
from splitbrain.harness.backends.agent.stream_link import LANE_BYTES_MAX, Lane, StreamLink
from splitbrain.harness.backends.agent.tools import AgentError
from splitbrain.harness.backends.shared.links import SeededFaults
from splitbrain.harness.contract.faults import LinkFault
from splitbrain.harness.contract.nodes import Link
from splitbrain.harness.contract.rng import Streams
from splitbrain.results.errors import FaultNotSupportedError, UsageError
from tests.backends.support import deployed

pytestmark = pytest.mark.cluster

LINK: Link = ("n1", "n2")
WITHIN_S = 60.0


def test_a_proxy_refuses_what_only_happens_to_packets(tmp_path: Path) -> None:
    async def measure() -> None:
        async with deployed("proxy", tmp_path) as deployment:
            with pytest.raises(FaultNotSupportedError, match="cannot do corrupt, loss to links here"):
                await deployment.disturb({LINK: LinkFault(loss=0.1, corrupt=0.1, delay_ms=1)})
            assert await deployment.disturbed() == {}
            with pytest.raises(UsageError, match="no link to itself"):
                await deployment.disturb({("n1", "n1"): LinkFault(delay_ms=1)})

    asyncio.run(measure())


def test_a_link_that_keeps_its_fault_keeps_its_seed() -> None:
    seeded, streams = SeededFaults(), Streams(7)
    loss, delay = LinkFault(loss=0.1), LinkFault(delay_ms=1)

    def seeds(faults: Mapping[Link, LinkFault]) -> dict[Link, int]:
        return {(a, b): fault["seed"] for a, b, fault in seeded.request(faults, streams)}

    first = seeds({LINK: loss, ("n2", "n1"): loss})
    second = seeds({LINK: loss, ("n2", "n1"): delay})
    assert first[LINK] != first["n2", "n1"]
    assert second[LINK] == first[LINK]
    assert second["n2", "n1"] != first["n2", "n1"]
    assert SeededFaults().request({LINK: loss}, Streams(7)) == [(*LINK, {**_fields(loss), "seed": first[LINK]})]


def _fields(fault: LinkFault) -> dict[str, Any]:
    return {name: getattr(fault, name) for name in fault.__struct_fields__}


# --- streams ----------------------------------------------------------------------------------------------------------


def test_a_lane_keeps_the_order_of_what_waits_and_of_what_comes_after_the_heal() -> None:
    async def measure() -> None:
        link = StreamLink(lambda: 0)
        passed: list[bytes] = []
        lane = Lane(link, lambda full: None)
        link.set(Fault(held=True))
        for piece in (b"a", b"b"):
            lane.put_data(piece, passed.append)
        assert passed == []
        assert link.counts == {"held": 2}
        link.set(Fault(delay_ms=60_000))
        assert passed == [b"a", b"b"]
        lane.put_data(b"c", passed.append)
        link.set(None)
        lane.put_data(b"d", passed.append)
        assert passed == [b"a", b"b", b"c", b"d"]

    asyncio.run(measure())


def test_a_limited_lane_passes_pieces_no_faster_than_the_rate() -> None:
    async def measure() -> None:
        link = StreamLink(lambda: 0)
        lane = Lane(link, lambda full: None)
        link.set(Fault(rate_kbit=1000))
        passed, done = bytearray(), asyncio.Event()

        def take(piece: bytes) -> None:
            passed.extend(piece)
            if len(passed) == 25_000:
                done.set()

        begun_s = asyncio.get_running_loop().time()
        lane.put_data(bytes(25_000), take)
        async with asyncio.timeout(WITHIN_S):
            await done.wait()
        assert asyncio.get_running_loop().time() - begun_s >= 0.2
        assert link.counts == {"queued": 17}

    asyncio.run(measure())


def test_a_full_lane_says_so_and_takes_more_when_it_is_empty() -> None:
    async def measure() -> None:
        link = StreamLink(lambda: 0)
        full: list[bool] = []
        lane = Lane(link, full.append)
        link.set(Fault(held=True))
        lane.put_data(bytes(LANE_BYTES_MAX), lambda piece: None)
        assert True not in full
        lane.put_data(b"x", lambda piece: None)
        assert full[-1]
        link.set(None)
        assert not full[-1]

    asyncio.run(measure())


def test_a_stream_refuses_what_only_happens_to_packets() -> None:
    with pytest.raises(AgentError, match="'loss' cannot happen"):
        StreamLink(lambda: 0).set(Fault(loss=0.1))
