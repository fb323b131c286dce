"""Links of the local backend with faults, as the nodes at their ends see them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from splitbrain.harness.backends.agent.packet_link import Fault
from splitbrain.harness.backends.agent.stream_link import LANE_BYTES_MAX, Lane, StreamLink
from splitbrain.harness.backends.agent.tools import AgentError
from splitbrain.harness.backends.local import Links, LocalBackend, LocalDeployment, support
from splitbrain.harness.backends.shared.links import SeededFaults
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.clock import Clock, Runtime
from splitbrain.harness.contract.faults import LinkFault, Support
from splitbrain.harness.contract.nodes import Link
from splitbrain.harness.contract.rng import Streams
from splitbrain.results.errors import FaultNotSupportedError, UsageError
from tests.backends.support import GossipSystem, all_links, ask, gossip_test, start_all, until_silent
from tests.backends.wire import skip_without_nfqueue

pytestmark = pytest.mark.cluster

LINK: Link = ("n1", "n2")
WITHIN_S = 60.0


@pytest.fixture(autouse=True)
def nfqueue() -> None:
    skip_without_nfqueue()


@asynccontextmanager
async def gossiping(links: Links, run_dir: Path, transport: str = "tcp") -> AsyncGenerator[LocalDeployment, None]:
    runtime = Runtime(cast(Clock, None), Streams(1))
    deployment = await LocalBackend(links).deploy(gossip_test(GossipSystem(transport)), run_dir, runtime)
    try:
        await start_all(deployment)
        await until_silent(deployment, [])
        yield deployment
    finally:
        await deployment.close()


async def counted(deployment: LocalDeployment, word: str, count: int = 1) -> Mapping[str, int]:
    """What the fault of LINK did, once it did it so often."""
    deadline = time.monotonic() + WITHIN_S
    while (counts := (await deployment.disturbed())[LINK]).get(word, 0) < count:
        assert time.monotonic() < deadline, counts
        await asyncio.sleep(0.02)
    return counts


async def heal(deployment: LocalDeployment) -> None:
    await deployment.disturb({})
    assert await deployment.disturbed() == {}
    await until_silent(deployment, [])


@pytest.mark.slow
def test_a_link_that_holds_everything_lets_nothing_pass_until_it_is_healed(links: Links, tmp_path: Path) -> None:
    async def measure() -> None:
        async with gossiping(links, tmp_path) as deployment:
            await deployment.disturb({LINK: LinkFault(held=True)})
            assert [at for at, passed in (await deployment.passes(all_links(deployment))).items() if not passed] == [
                LINK
            ]
            await until_silent(deployment, [LINK])
            held = (await counted(deployment, "held", 5))["held"]
            before = (await ask(deployment, "n2"))["heard"].get("n1", 0)
            dialled = (await ask(deployment, "n1"))["dialled"]["n2"]
            await heal(deployment)
            assert all((await deployment.passes(all_links(deployment))).values())
            assert (await ask(deployment, "n2"))["heard"]["n1"] >= before + held // 2
            assert (await ask(deployment, "n1"))["dialled"]["n2"] == dialled

    asyncio.run(measure())


@pytest.mark.slow
def test_a_flaky_link_breaks_connections_which_are_dialled_again(links: Links, tmp_path: Path) -> None:
    async def measure() -> None:
        async with gossiping(links, tmp_path) as deployment:
            before = (await ask(deployment, "n1"))["dialled"]
            await deployment.disturb({LINK: LinkFault(resets=10)})
            await counted(deployment, "reset", 3)
            await heal(deployment)
            after = (await ask(deployment, "n1"))["dialled"]
            assert after["n2"] > before["n2"]
            assert after["n3"] == before["n3"]

    asyncio.run(measure())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "word"),
    [(LinkFault(delay_ms=50, jitter_ms=20), "delayed"), (LinkFault(rate_kbit=1), "queued")],
    ids=["delay", "rate"],
)
def test_slow_links_still_pass(links: Links, tmp_path: Path, fault: LinkFault, word: str) -> None:
    async def measure() -> None:
        async with gossiping(links, tmp_path) as deployment:
            await deployment.disturb({LINK: fault})
            await counted(deployment, word, 3)
            assert all((await deployment.passes(all_links(deployment))).values())
            await heal(deployment)

    asyncio.run(measure())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "word"),
    [
        (LinkFault(loss=0.5), "lost"),
        (LinkFault(duplicate=0.5), "duplicated"),
        (LinkFault(reorder=0.5), "reordered"),
        (LinkFault(corrupt=0.5), "corrupted"),
        (LinkFault(mtu=20), "oversized"),
    ],
    ids=["loss", "duplicate", "reorder", "corrupt", "mtu"],
)
def test_packets_meet_their_faults_and_probes_do_not(tmp_path: Path, fault: LinkFault, word: str) -> None:
    async def measure() -> None:
        async with gossiping("namespaces", tmp_path, "udp") as deployment:
            await deployment.disturb({LINK: fault})
            assert list(await deployment.disturbed()) == [LINK]
            assert set(await counted(deployment, word, 3)) == {word}
            assert all((await deployment.passes(all_links(deployment))).values())
            await heal(deployment)

    asyncio.run(measure())


@pytest.mark.slow
def test_a_link_can_be_cut_and_disturbed_at_once(links: Links, tmp_path: Path) -> None:
    async def measure() -> None:
        async with gossiping(links, tmp_path) as deployment:
            await deployment.disturb({LINK: LinkFault(delay_ms=5), ("n3", "n1"): LinkFault(delay_ms=5)})
            await deployment.cut(frozenset({LINK}))
            await until_silent(deployment, [LINK])
            assert not (await deployment.passes([LINK]))[LINK]
            await deployment.cut(frozenset())
            await until_silent(deployment, [])
            await heal(deployment)

    asyncio.run(measure())


@pytest.mark.slow
def test_a_node_that_restarts_finds_its_links_as_disturbed_as_before(tmp_path: Path) -> None:
    async def measure() -> None:
        async with gossiping("namespaces", tmp_path, "udp") as deployment:
            await deployment.disturb({LINK: LinkFault(loss=1.0)})
            await deployment.kill("n1")
            await deployment.start("n1")
            await until_silent(deployment, [LINK])

    asyncio.run(measure())


@pytest.mark.slow
def test_a_proxy_refuses_what_only_happens_to_packets(tmp_path: Path) -> None:
    async def measure() -> None:
        async with gossiping("proxy", tmp_path) as deployment:
            with pytest.raises(FaultNotSupportedError, match="cannot do corrupt, loss to links here"):
                await deployment.disturb({LINK: LinkFault(loss=0.1, corrupt=0.1, delay_ms=1)})
            assert await deployment.disturbed() == {}
            with pytest.raises(UsageError, match="no link to itself"):
                await deployment.disturb({("n1", "n1"): LinkFault(delay_ms=1)})

    asyncio.run(measure())


# --- what is said to work ---------------------------------------------------------------------------------------------


def test_every_kind_of_fault_of_a_link_is_supported_in_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "namespaces_problem", lambda: None)
    monkeypatch.setattr(support, "packets_problem", lambda: None)
    found = LocalBackend().support()
    assert all(found[kind].works for kind in faultkinds.LINK_KINDS)
    monkeypatch.setattr(support, "packets_problem", lambda: "there is no 'iptables'")
    found = LocalBackend().support()
    assert {found[kind] for kind in faultkinds.LINK_KINDS} == {Support(False, "there is no 'iptables'.")}
    assert found["cut"].works


def test_of_proxies_the_reason_is_told_why_they_cannot_lose_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "namespaces_problem", lambda: "the kernel said no")
    found = LocalBackend().support()
    works = [kind for kind in faultkinds.LINK_KINDS if found[kind].works]
    assert sorted(works) == ["delay", "hold", "rate", "reset"]
    assert found["loss"].how == "a proxy of TCP connections carries bytes, not packets, and the kernel said no."


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
