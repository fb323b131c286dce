"""Faults of packets, measured from outside: by datagrams and connections between two network namespaces."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.agent import packet_link, packets, segments
from splitbrain.harness.backends.agent.packets import PacketFaults
from splitbrain.harness.backends.agent.tools import AgentError, run_tool
from tests import plain_user
from tests.backends.wire import (
    OTHER,
    RECEIVER,
    WAITS_S,
    Wire,
    received,
    skip_without_nfqueue,
    until_silent,
)

pytestmark = pytest.mark.cluster

SO_NO_CHECK = 11
Measure = Callable[[PacketFaults, socket.socket, socket.socket], Coroutine[Any, Any, None]]


@pytest.fixture
def wire() -> Generator[Wire]:
    skip_without_nfqueue()
    wire = Wire()
    try:
        yield wire
    finally:
        wire.close()


def over(wire: Wire, measure: Measure) -> None:
    """Measure with a sender's and a receiver's socket for datagrams; at the end everything must pass again."""

    async def run() -> None:
        with wire.faults() as faults, wire.sends() as sender, wire.receives() as receiver:
            await measure(faults, sender, receiver)
            faults.set({})
            await until_silent(receiver, 0.15)
            await send(sender, receiver, range(20))
            assert await numbers(receiver, 20) == list(range(20))
        assert wire.rules() == [
            f"-P {chain} ACCEPT" for chain in ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING")
        ]

    asyncio.run(run())


async def send(sender: socket.socket, receiver: socket.socket, numbered: range, size: int = 8) -> None:
    for number in numbered:
        datagram = number.to_bytes(8, "big").ljust(size, b"\0")
        await asyncio.get_running_loop().sock_sendto(sender, datagram, receiver.getsockname())


async def numbers(receiver: socket.socket, count: int) -> list[int]:
    return [int.from_bytes(datagram[:8], "big") for datagram in await received(receiver, count)]


async def speak(*ends: socket.socket) -> None:
    """Say something every now and then, until a connection breaks."""
    async with asyncio.timeout(WAITS_S):
        while True:
            for end in ends:
                end.send(b"x")
            await asyncio.sleep(0.005)


async def listen(end: socket.socket) -> None:
    """Take in what comes, until the connection ends or breaks."""
    while any(await received(end, 1)):
        pass


def now_s() -> float:
    return asyncio.get_running_loop().time()


# --- each fault -------------------------------------------------------------------------------------------------------


def test_a_delay_holds_packets_up_and_leaves_those_to_others_alone(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"delay_ms": 80}})
        with wire.receives(host=OTHER) as other:
            sent_s = now_s()
            await send(sender, receiver, range(1))
            await send(sender, other, range(1))
            await received(other, 1)
            await received(receiver, 1)
        assert now_s() - sent_s >= 0.08
        assert faults.counts() == {RECEIVER: {"delayed": 1}}

    over(wire, measure)


def test_jitter_spreads_packets_and_keeps_their_order(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"jitter_ms": 60, "seed": 3}})
        sent_s = now_s()
        await send(sender, receiver, range(100))
        assert await numbers(receiver, 100) == list(range(100))
        assert now_s() - sent_s >= 0.05
        assert faults.counts() == {RECEIVER: {"delayed": 100}}

    over(wire, measure)


@pytest.mark.slow
def test_as_many_packets_are_lost_and_doubled_as_is_counted_and_the_same_ones_for_the_same_seed(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        async def strike(seed: int) -> tuple[list[int], list[int]]:
            faults.set({RECEIVER: {"loss": 0.2, "duplicate": 0.3, "seed": seed}})
            await send(sender, receiver, range(300))
            arrived = [int.from_bytes(datagram, "big") for datagram in await until_silent(receiver, 2.0)]
            lost = [number for number in range(300) if number not in arrived]
            doubled = [number for number in range(300) if arrived.count(number) == 2]
            assert faults.counts() == {RECEIVER: {"lost": len(lost), "duplicated": len(doubled)}}
            assert 30 <= len(lost) <= 90
            assert 40 <= len(doubled) <= 110
            assert len(arrived) == 300 - len(lost) + len(doubled)
            return lost, doubled

        first = await strike(seed=1)
        assert await strike(seed=2) != first
        assert await strike(seed=1) == first

    over(wire, measure)


def test_packets_are_overtaken_as_often_as_is_counted(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"reorder": 0.3}})
        await send(sender, receiver, range(200))
        arrived = await numbers(receiver, 200)
        assert sorted(arrived) == list(range(200))
        overtaken = sum(number < max(arrived[: at + 1]) for at, number in enumerate(arrived))
        assert faults.counts() == {RECEIVER: {"reordered": overtaken}}
        assert 30 <= overtaken <= 90

    over(wire, measure)


def test_a_corrupt_packet_differs_in_one_bit_and_checksums_drop_it(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"corrupt": 1.0}})
        await send(sender, receiver, range(20), size=1000)
        assert await until_silent(receiver) == []
        sender.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        await send(sender, receiver, range(20), size=1000)
        # Where the bit is one of a port or of the length, a datagram goes astray.
        arrived = [*await received(receiver, 15), *await until_silent(receiver)]
        for datagram in arrived:
            nearest = min((int.from_bytes(datagram, "big") ^ number << 8 * 992).bit_count() for number in range(20))
            assert nearest == 1
        assert faults.counts() == {RECEIVER: {"corrupted": 40}}

    over(wire, measure)


def test_no_more_than_the_rate_gets_through(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"rate_kbit": 1000}})
        sent_s = now_s()
        await send(sender, receiver, range(50), size=972)
        assert await numbers(receiver, 50) == list(range(50))
        assert now_s() - sent_s >= 50 * 1000 * 8 / 1e6
        assert faults.counts() == {RECEIVER: {"queued": 49}}

    over(wire, measure)


def test_a_slow_line_keeps_two_seconds_of_packets_and_loses_the_rest(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"rate_kbit": 80}})
        await send(sender, receiver, range(60), size=972)  # of which the line carries ten a second
        await asyncio.sleep(0.2)
        counts = faults.counts()[RECEIVER]
        assert 60 - 24 <= counts["overflowed"] <= 60 - 20
        faults.set({})
        assert await numbers(receiver, 60 - counts["overflowed"]) == list(range(60 - counts["overflowed"]))

    over(wire, measure)


def test_small_packets_pass_a_black_hole_and_large_ones_vanish(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"mtu": 500}})
        await send(sender, receiver, range(5), size=472)
        await send(sender, receiver, range(5, 10), size=473)
        await send(sender, receiver, range(10, 12))
        assert await numbers(receiver, 7) == [0, 1, 2, 3, 4, 10, 11]
        assert faults.counts() == {RECEIVER: {"oversized": 5}}

    over(wire, measure)


def test_a_stream_stalls_at_a_black_hole_only_with_full_segments_and_goes_on_after_it(wire: Wire) -> None:
    async def measure(faults: PacketFaults, _sender: socket.socket, _receiver: socket.socket) -> None:
        near, far = await wire.connected()
        with near, far:
            faults.set({RECEIVER: {"mtu": 700}})
            near.send(b"small")
            assert await received(far, 1) == [b"small"]
            near.send(bytes(20_000))
            while not faults.counts()[RECEIVER].get("oversized"):
                await asyncio.sleep(0.01)
            with pytest.raises(BlockingIOError):
                far.recv(1)
            faults.set({})
            arrived = 0
            while arrived < 20_000:
                arrived += len((await received(far, 1))[0])

    over(wire, measure)


def test_a_large_datagram_crosses_in_fragments(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"delay_ms": 5}})
        sender.sendto(datagram := bytes(range(256)) * 20, receiver.getsockname())
        assert await received(receiver, 1) == [datagram]

    over(wire, measure)


def test_what_is_held_arrives_in_order_once_it_is_released(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        near, far = await wire.connected()
        with near, far:
            faults.set({RECEIVER: {"held": True}})
            await send(sender, receiver, range(30))
            near.send(b"held")
            assert await until_silent(receiver) == []
            with pytest.raises(BlockingIOError):
                far.recv(4)
            assert faults.counts()[RECEIVER]["held"] >= 31
            faults.set({})
            assert await numbers(receiver, 30) == list(range(30))
            assert await received(far, 1) == [b"held"]

    over(wire, measure)


def test_connections_over_a_flaky_link_break_at_both_ends_and_others_stay(wire: Wire) -> None:
    async def measure(faults: PacketFaults, _sender: socket.socket, _receiver: socket.socket) -> None:
        near, far = await wire.connected()
        other_near, other_far = await wire.connected(OTHER)
        with near, far, other_near, other_far:
            faults.set({RECEIVER: {"resets": 50}})
            with pytest.raises(ConnectionResetError):
                await speak(near, other_near)
            with pytest.raises(ConnectionResetError):
                await listen(far)
            assert faults.counts() == {RECEIVER: {"reset": 1}}
            assert set(b"".join(await received(other_far, 1))) == set(b"x")
            faults.set({})
            again, accepted = await wire.connected()
            with again, accepted:
                again.send(b"again")
                assert await received(accepted, 1) == [b"again"]

    over(wire, measure)


def test_a_connection_breaks_also_if_only_the_other_side_speaks(wire: Wire) -> None:
    async def measure(faults: PacketFaults, _sender: socket.socket, _receiver: socket.socket) -> None:
        near, far = await wire.connected()
        with near, far:
            faults.set({RECEIVER: {"resets": 50}})
            with pytest.raises((ConnectionResetError, BrokenPipeError)):
                await speak(far)
            with pytest.raises(ConnectionResetError):
                await listen(near)

    over(wire, measure)


def test_resets_carry_the_numbers_that_their_receivers_expect() -> None:
    ends = bytes([10, 0, 0, 1, 10, 0, 0, 2])
    tcp = struct.pack(">HHIIBBHHH", 1000, 2000, 0xFFFF_FFFE, 77, 5 << 4, 0x18, 500, 0, 0) + b"data"
    packet = struct.pack(">BBHHHBBH", 0x45, 0, 44, 1, 0, 64, socket.IPPROTO_TCP, 0) + ends + tcp
    segment = segments.segment_in(packet)
    assert segment is not None

    def read(reset: bytes) -> tuple[int, ...]:
        assert sum(struct.unpack(">10H", reset[:20])) % 0xFFFF == 0
        assert sum(struct.unpack(">14H", reset[12:])) % 0xFFFF == 0xFFFF - 20 - socket.IPPROTO_TCP
        return struct.unpack_from(">4B4BHHIIBB", reset, 12)

    assert read(segments.reset_to_receiver(segment)) == (*ends, 1000, 2000, 0xFFFF_FFFE, 77, 0x50, 0x14)
    assert read(segments.reset_to_sender(segment)) == (*ends[4:], *ends[:4], 2000, 1000, 77, 2, 0x50, 0x14)


# --- sets of faults ---------------------------------------------------------------------------------------------------


def test_links_that_keep_their_fault_keep_their_counts_and_others_begin_anew(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        with wire.receives(host=OTHER) as other:
            faults.set({RECEIVER: {"loss": 1.0}, OTHER: {"loss": 1.0}})
            for end in (receiver, other):
                await send(sender, end, range(3))
                await until_silent(end, 0.1)
            assert faults.counts() == {RECEIVER: {"lost": 3}, OTHER: {"lost": 3}}
            faults.set({RECEIVER: {"loss": 1.0}, OTHER: {"loss": 1.0, "mtu": 100}})
            assert faults.counts() == {RECEIVER: {"lost": 3}, OTHER: {}}
            faults.set({RECEIVER: {"loss": 1.0}})
            await send(sender, other, range(3))
            assert await numbers(other, 3) == [0, 1, 2]
            assert faults.counts() == {RECEIVER: {"lost": 3}}

    over(wire, measure)


def test_what_waits_passes_in_order_when_its_fault_is_replaced_or_taken_away(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"delay_ms": 60_000, "reorder": 0.5}})
        await send(sender, receiver, range(20))
        await until_silent(receiver, 0.1)
        faults.set({RECEIVER: {"held": True}})
        assert await numbers(receiver, 20) == list(range(20))
        await send(sender, receiver, range(20))
        faults.set({})
        assert await numbers(receiver, 20) == list(range(20))

    over(wire, measure)


def test_what_the_memory_of_a_link_cannot_hold_is_lost_and_counted(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"held": True}})
        await send(sender, receiver, range(30), size=972)
        await until_silent(receiver, 0.2)
        assert faults.counts() == {RECEIVER: {"held": 10, "overflowed": 20}}

    monkeypatch.setattr(packet_link, "WAITING_BYTES_MAX", 10_000)
    over(wire, measure)


def test_what_the_queue_of_the_kernel_cannot_hold_is_counted_as_lost(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"delay_ms": 1}})
        await send(sender, receiver, range(30))  # in one go: this process takes nothing meanwhile
        assert await numbers(receiver, 10) == list(range(10))
        assert faults.counts() == {RECEIVER: {"delayed": 10, "overflowed": 20}}

    monkeypatch.setattr(packets, "PACKETS_MAX", 10)
    over(wire, measure)


def test_marked_packets_pass_whatever_the_fault(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"loss": 1.0}})
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, packets.BYPASS_MARK)
        await send(sender, receiver, range(3))
        assert await numbers(receiver, 3) == [0, 1, 2]
        assert faults.counts() == {RECEIVER: {}}

    over(wire, measure)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [({"los": 0.5}, "no los here"), ({"loss": 0.5}, r"sender: iptables-nft-restore failed .*host/network `fe80'")],
)
def test_a_fault_that_cannot_be_had_is_an_error_and_leaves_nothing_behind(
    wire: Wire, fault: dict[str, float], problem: str
) -> None:
    async def measure(faults: PacketFaults, _sender: socket.socket, _receiver: socket.socket) -> None:
        with pytest.raises(AgentError, match=problem):
            faults.set({RECEIVER: {"loss": 1.0}, "fe80": fault})
        assert faults.counts() == {}

    over(wire, measure)


@pytest.mark.parametrize("after", [{}, {OTHER: {"loss": 1.0}}])
def test_rules_that_somebody_removed_are_missed_when_their_faults_are_changed(
    wire: Wire, after: dict[str, dict[str, float]]
) -> None:
    async def measure(faults: PacketFaults, _sender: socket.socket, _receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"loss": 1.0}})
        wire.at_sender("iptables -t mangle -F SPLITBRAIN")
        with pytest.raises(AgentError, match=r"sender: 0 rules of chain SPLITBRAIN .* lead to a queue instead of 1"):
            faults.set(after)
        assert faults.counts() == {}
        faults.set(after)
        assert sum("NFQUEUE" in rule for rule in wire.rules()) == len(after), "the next change is not held against them"

    over(wire, measure)


def test_rules_that_stay_when_they_should_be_gone_are_told_until_they_are(wire: Wire) -> None:
    async def measure(faults: PacketFaults, _sender: socket.socket, _receiver: socket.socket) -> None:
        faults.set({RECEIVER: {"loss": 1.0}})

        def look_only(argv: Sequence[str], text: str = "", *, on: str) -> str:
            return "" if text else run_tool(argv, on=on)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(packets, "run_tool", look_only)
            for _ in range(2):
                with pytest.raises(AgentError, match="sender: 1 rules of chain SPLITBRAIN"):
                    faults.set({})
        faults.set({})
        assert not any("NFQUEUE" in rule for rule in wire.rules())

    over(wire, measure)


# --- whose rules, whose end -------------------------------------------------------------------------------------------


def test_rules_of_others_stay_as_they_are(wire: Wire) -> None:
    async def come_and_go() -> None:
        wire.at_sender("iptables -t mangle -N FOREIGN; iptables -t mangle -A FOREIGN -p udp --dport 9 -j DROP")
        wire.at_sender("iptables -t mangle -A POSTROUTING -j FOREIGN; iptables -A OUTPUT -p udp --dport 19 -j DROP")
        before = wire.at_sender("iptables-save | grep ^-")
        with wire.faults() as faults:
            faults.set({RECEIVER: {"loss": 0.5}})
            faults.set({OTHER: {"loss": 0.5}, RECEIVER: {"held": True}})
            assert set(before.splitlines()) < set(wire.at_sender("iptables-save | grep ^-").splitlines())
        assert wire.at_sender("iptables-save | grep ^-") == before

    asyncio.run(come_and_go())


CHILD = """
import asyncio, sys
from splitbrain.harness.backends.agent.packets import PacketFaults

async def hold(namespace, home):
    faults = PacketFaults("sender", namespace, home)
    faults.set({sys.argv[3]: {"held": True}})
    print("held", flush=True)
    await asyncio.sleep(60)

asyncio.run(hold(int(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.mark.slow
def test_packets_pass_when_the_process_is_killed_and_its_successor_removes_the_rules(wire: Wire) -> None:
    def hold() -> subprocess.Popen[bytes]:
        descriptors = (wire.sender, wire.home)
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, *map(str, descriptors), RECEIVER],
            cwd=Path(__file__).parents[2],
            pass_fds=descriptors,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        with child.stdout as output:
            assert output.readline() == b"held\n"
        return child

    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        child = hold()
        await send(sender, receiver, range(3))
        assert await until_silent(receiver) == []
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        await send(sender, receiver, range(3, 6))
        assert await numbers(receiver, 3) == [3, 4, 5]
        assert any("NFQUEUE" in rule for rule in wire.rules())
        faults.set({OTHER: {"loss": 1.0}})
        assert sum("NFQUEUE" in rule for rule in wire.rules()) == 1
        assert wire.rules().count("-A POSTROUTING -j SPLITBRAIN") == 1
        faults.remove()

    over(wire, measure)


def test_two_processes_share_a_namespace_under_different_names(wire: Wire) -> None:
    async def measure(faults: PacketFaults, sender: socket.socket, receiver: socket.socket) -> None:
        second = PacketFaults("second", wire.sender, wire.home, chain="SPLITBRAIN-2")
        with wire.receives(host=OTHER) as other:
            faults.set({RECEIVER: {"loss": 1.0}})
            second.set({OTHER: {"loss": 1.0}})
            await send(sender, receiver, range(2))
            await send(sender, other, range(3))
            assert await until_silent(other) == []
            assert (faults.counts(), second.counts()) == ({RECEIVER: {"lost": 2}}, {OTHER: {"lost": 3}})
            second.remove()
            await send(sender, other, range(3))
            assert await numbers(other, 3) == [0, 1, 2]
            await send(sender, receiver, range(1))
            assert await until_silent(receiver, 0.1) == []

    over(wire, measure)


TRIAL = "import asyncio; from splitbrain.harness.backends.agent import packets; print(asyncio.run(packets.problem()))"


def test_the_trial_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wire: Wire) -> None:
    del wire  # only where it works with everything at hand
    monkeypatch.setenv("PATH", str(tmp_path))
    found = "from splitbrain.harness.backends.agent import tools; tools.SYSTEM_DIRECTORIES = (); "
    done = subprocess.run([sys.executable, "-c", found + TRIAL], capture_output=True, text=True, check=True)
    assert done.stdout == "there is no 'ip' on this machine (Debian and Ubuntu: apt install iproute2 nftables)\n"
    (tmp_path / "ip").symlink_to("/bin/true")
    done = subprocess.run([sys.executable, "-c", found + TRIAL], capture_output=True, text=True, check=True)
    assert done.stdout == "there is no 'iptables' on this machine (Debian and Ubuntu: apt install iptables)\n"


def test_it_works_for_a_plain_user_in_a_user_namespace(wire: Wire) -> None:
    del wire
    if (problem := plain_user.problem()) is not None:
        pytest.skip(problem)
    program = "import os\nfrom splitbrain.harness.backends.agent import bridge\nbridge.enter_namespaces()\n"
    program += "if pid := os.fork(): os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n" + TRIAL
    done = subprocess.run(
        plain_user.as_plain_user(["-c", program]),
        env=plain_user.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.stdout, done.stderr) == ("None\n", "")
