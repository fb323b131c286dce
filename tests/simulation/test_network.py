"""Connections over simulated links: order, cuts, faults, and what each end learns of the other's end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from splitbrain.harness.contract.faults import LinkFault
from splitbrain.harness.contract.nodes import Link
from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.simulation.clock import TrueClock
from splitbrain.harness.simulation.connections import End
from splitbrain.harness.simulation.links import HEADER_BYTES
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.network import ProcessNetwork, SimNetwork
from splitbrain.harness.simulation.process import SimProcess
from splitbrain.harness.simulation.worlds import world

MS = 1_000_000
S = 1_000 * MS


class Town:
    """Two nodes, a listener on each, and a connection from n1 to n2."""

    def __init__(self, loop: SimLoop, seed: int) -> None:
        streams = Streams(seed)
        self.loop = loop
        self.clock = TrueClock(loop)
        self.network = SimNetwork(loop, streams, ("n1", "n2"), world("lan", Rng(0)), None)
        self.got: list[tuple[int, bytes]] = []
        self.accepted: list[End] = []
        self.processes: dict[str, SimProcess] = {}
        self.networks: dict[str, ProcessNetwork] = {}
        for node in ("n1", "n2"):
            self.boot(node)

    def boot(self, node: str) -> None:
        process = self.processes[node] = SimProcess(self.loop, 1, lambda: self.network.process_ended(node, process))
        self.network.process_started(node)
        self.networks[node] = self.network.of(node, process)

    async def serve(self, node: str = "n2") -> None:
        await self.networks[node].listen((node, 1), self._accept)

    async def connect(self, source: str = "n1", destination: str = "n2") -> End:
        return await self.networks[source].connect((destination, 1))

    async def _accept(self, connection: End) -> None:
        self.accepted.append(connection)
        with contextlib.suppress(ConnectionError):
            while True:
                message = await connection.receive()
                self.got.append((self.loop.now_ns, message))

    def numbers(self) -> list[int]:
        return [int(message) for _, message in self.got]

    async def wait(self, seconds: float) -> None:
        await self.clock.sleep_ns(int(seconds * S))


def play(script: Callable[[Town], Coroutine[Any, Any, None]], seed: int = 1) -> Town:
    loop = SimLoop(Rng(seed))
    town: list[Town] = []

    async def main() -> None:
        town.append(Town(loop, seed))
        await script(town[0])

    loop.run(main())
    return town[0]


def send_all(connection: End, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        connection.send(b"%d" % number)


def cut(*links: Link) -> frozenset[Link]:
    return frozenset(links)


async def broken(receive: Awaitable[bytes]) -> str:
    with pytest.raises(ConnectionError) as error:
        await receive
    return str(error.value)


def test_a_healthy_link_delivers_everything_once_in_order_and_takes_its_time() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        send_all(connection, 200)
        await town.wait(1)

    town = play(script)
    assert town.numbers() == list(range(200))
    assert town.got[0][0] >= 3 * 100_000  # the handshake, there and back, and the message itself


def test_another_seed_takes_other_times_and_the_same_seed_the_same() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        send_all(await town.connect(), 20)
        await town.wait(1)

    assert play(script, 3).got == play(script, 3).got
    assert play(script, 3).got != play(script, 4).got


def test_a_short_cut_delays_and_a_long_one_breaks_the_connection_for_the_sender() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        town.network.cut(cut(("n1", "n2")))
        send_all(connection, 5)
        await town.wait(1)
        assert town.numbers() == []
        assert town.network.swallowed() == {("n1", "n2"): 5}
        town.network.cut(cut())
        await town.wait(1)
        assert town.numbers() == [0, 1, 2, 3, 4]
        town.network.cut(cut(("n1", "n2")))
        send_all(connection, 5, 5)
        began_ns = town.loop.now_ns
        assert "no acknowledgement" in await broken(connection.receive())
        assert 2 * S <= town.loop.now_ns - began_ns < 2.1 * S
        town.network.cut(cut())
        await town.wait(3)
        assert town.numbers() == [0, 1, 2, 3, 4], "what was sent over a broken connection is gone"

    play(script)


@pytest.mark.parametrize("cut", [("n1", "n2"), ("n2", "n1")])
def test_an_attempt_to_connect_that_a_cut_swallows_is_counted(cut: Link) -> None:
    """A program that dials for each request sends nothing else over a cut link: the fault had an effect."""

    async def main(town: Town) -> None:
        await town.serve()
        town.network.cut(frozenset({cut}))
        with pytest.raises(ConnectionError, match="no answer within 1 s"):
            await town.connect()
        assert town.network.swallowed() == {cut: 1}
        town.network.cut(frozenset())
        await town.connect()
        town.network.cut(frozenset({cut}))
        assert town.network.swallowed() == {cut: 0}

    play(main)


def test_a_cut_of_one_direction_leaves_the_other_alone() -> None:
    heard: list[bytes] = []

    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        connection.send(b"0")
        await town.wait(0.1)
        town.network.cut(cut(("n1", "n2")))
        assert await town.network.probe([("n1", "n2"), ("n2", "n1")]) == {("n1", "n2"): False, ("n2", "n1"): True}
        town.accepted[0].send(b"back")
        heard.append(await connection.receive())

    play(script)
    assert heard == [b"back"]


def test_faults_lose_double_and_reorder_about_as_many_messages_as_they_say() -> None:
    async def lossy(town: Town, fault: LinkFault) -> dict[str, int]:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        town.network.disturb({("n1", "n2"): fault})
        for number in range(1000):
            connection.send(b"%d" % number)
            await town.wait(0.001)
        await town.wait(1)
        return town.network.disturbed()["n1", "n2"]

    counts: list[dict[str, int]] = []

    def played(fault: LinkFault) -> list[int]:
        async def script(town: Town) -> None:
            counts.append(await lossy(town, fault))

        return play(script).numbers()

    lost = played(LinkFault(loss=0.2))
    assert lost == sorted(set(lost)), "what arrives is in order, and once"
    assert 700 < len(lost) < 900
    assert counts[-1] == {"lost": 1000 - len(lost)}

    doubled = played(LinkFault(duplicate=0.2))
    assert sorted(set(doubled)) == list(range(1000))
    assert counts[-1] == {"duplicated": len(doubled) - 1000}
    assert 100 < len(doubled) - 1000 < 300

    corrupted = played(LinkFault(corrupt=0.2))
    assert corrupted == sorted(set(corrupted)), "what was damaged is dropped, and nothing else"
    assert 700 < len(corrupted) < 900
    assert counts[-1] == {"corrupted": 1000 - len(corrupted)}

    overtaken = played(LinkFault(reorder=0.2))
    assert sorted(overtaken) == list(range(1000))
    assert overtaken != sorted(overtaken)
    assert 100 < counts[-1]["reordered"] < 300


def test_a_clogged_link_delivers_nothing_and_then_everything_in_order() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        town.network.disturb({("n1", "n2"): LinkFault(held=True)})
        send_all(connection, 50)
        await town.wait(5)
        assert town.numbers() == []
        assert town.network.disturbed() == {("n1", "n2"): {"held": 50}}
        town.network.disturb({})
        await town.wait(0.1)
        assert town.numbers() == list(range(50))

    play(script)


@pytest.mark.parametrize(
    "late",
    [LinkFault(delay_ms=60_000, jitter_ms=500), LinkFault(rate_kbit=64), LinkFault(delay_ms=60_000, reorder=0.5)],
)
def test_what_is_late_when_a_link_is_healed_arrives_with_the_links_own_latency_and_in_order(late: LinkFault) -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        send_all(connection, 5)  # under way when the fault begins
        town.network.disturb({("n1", "n2"): late})
        send_all(connection, 15, first=5)
        await town.wait(0.01)
        town.network.disturb({})
        healed_ns = town.loop.now_ns
        send_all(connection, 5, first=20)
        await town.wait(3)
        assert town.numbers() == list(range(25))
        assert town.got[-1][0] - healed_ns <= 4 * MS

    play(script)


def test_a_heal_keeps_nothing_back_that_would_have_arrived_sooner() -> None:
    def arrival_ns(healed_s: float) -> int:
        arrived: list[int] = []

        async def script(town: Town) -> None:
            await town.serve()
            connection = await town.connect()
            await town.wait(0.1)
            town.network.disturb({("n1", "n2"): LinkFault(delay_ms=500)})
            sent_ns = town.loop.now_ns
            send_all(connection, 1)
            await town.wait(healed_s)
            town.network.disturb({})
            await town.wait(2)
            arrived.append(town.got[-1][0] - sent_ns)

        play(script)
        return arrived[0]

    undisturbed_ns = arrival_ns(1.0)
    assert arrival_ns((undisturbed_ns - 10_000) / 1e9) == undisturbed_ns
    assert arrival_ns((undisturbed_ns - 100 * MS) / 1e9) < undisturbed_ns - 90 * MS


def test_the_end_and_a_handshake_that_are_late_when_a_link_is_healed_arrive_with_its_own_latency() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        town.network.disturb({("n1", "n2"): LinkFault(delay_ms=60_000)})
        connection.send(b"1")
        connection.close()
        second = asyncio.ensure_future(town.connect())
        await town.wait(0.5)
        assert town.got == []
        assert not second.done()
        town.network.disturb({})
        await town.wait(0.02)
        assert town.numbers() == [1]
        assert second.done()
        assert "closed" in await broken(town.accepted[0].receive())

    play(script)


def test_a_fault_after_a_heal_leaves_the_order_of_what_is_still_under_way() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        for first in range(0, 40, 4):
            town.network.disturb({("n1", "n2"): LinkFault(delay_ms=1, jitter_ms=5)})
            send_all(connection, 2, first)
            await town.wait(0.0001)
            town.network.disturb({})
            send_all(connection, 2, first + 2)
        await town.wait(1)
        assert town.numbers() == list(range(40))

    for seed in range(20):
        play(script, seed)


def test_what_measures_a_link_is_neither_delayed_by_its_fault_nor_counted() -> None:
    async def script(town: Town) -> None:
        town.network.disturb({("n1", "n2"): LinkFault(delay_ms=60_000)})
        began_ns = town.loop.now_ns
        assert await town.network.probe([("n1", "n2")]) == {("n1", "n2"): True}
        assert town.loop.now_ns - began_ns <= 3 * MS
        assert town.network.disturbed() == {("n1", "n2"): {}}

    play(script)


def test_a_link_of_limited_rate_delivers_so_much_a_second_in_order_and_all_at_once_again_when_it_is_healed() -> None:
    size = 1000 - HEADER_BYTES  # 8,000 bits on the wire: an eighth of a second at 64 kbit/s

    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        town.network.disturb({("n1", "n2"): LinkFault(rate_kbit=64)})
        began_ns = town.loop.now_ns
        for number in range(8):
            connection.send(b"%03d" % number + b"x" * (size - 3))
        await town.wait(2)
        assert [int(message[:3]) for _, message in town.got] == list(range(8))
        for number, (at_ns, _) in enumerate(town.got, start=1):
            assert 0 <= at_ns - began_ns - number * S // 8 <= 3 * MS, "the rate, and the latency of the link"
        assert town.network.disturbed() == {("n1", "n2"): {"queued": 7}}
        town.network.disturb({})
        connection.send(b"y" * size)
        await town.wait(0.004)
        assert town.got[-1][1][:1] == b"y"
        town.network.disturb({("n1", "n2"): LinkFault(rate_kbit=64)})
        for _ in range(8):
            connection.send(b"x" * size)
        town.network.disturb({("n1", "n2"): LinkFault(rate_kbit=640)})
        (await town.connect()).send(b"z")
        await town.wait(0.02)
        assert b"z" in [message for _, message in town.got], "a new limit begins with an empty queue"

    play(script)


def test_the_queue_of_a_slow_link_holds_two_seconds_and_a_connection_that_sends_more_breaks() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        town.network.disturb({("n1", "n2"): LinkFault(rate_kbit=8)})
        for _ in range(3):
            connection.send(b"x" * (1000 - HEADER_BYTES))  # a second each
        await town.wait(1.1)
        connection.send(b"x")
        assert town.network.disturbed()["n1", "n2"].get("overflowed") is None
        connection.send(b"x" * 1000)
        connection.send(b"x")
        assert "does not take" in await broken(connection.receive())
        assert town.network.disturbed()["n1", "n2"]["overflowed"] == 1

    play(script)


def test_what_is_too_large_for_a_link_stops_what_is_behind_it_until_the_connection_breaks() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        town.network.disturb({("n1", "n2"): LinkFault(mtu=500)})
        connection.send(b"1" * (500 - HEADER_BYTES))
        connection.send(b"2" * (501 - HEADER_BYTES))
        connection.send(b"3")
        await town.wait(1.9)
        assert [message[:1] for _, message in town.got] == [b"1"]
        assert town.network.disturbed() == {("n1", "n2"): {"oversized": 1}}
        await town.wait(0.2)
        assert "no acknowledgement" in await broken(connection.receive())
        assert [message[:1] for _, message in town.got] == [b"1"]

    play(script)


@pytest.mark.parametrize("cut_before", [False, True])
def test_what_was_too_large_arrives_in_order_if_the_link_heals_in_time_and_a_heal_of_a_cut_alone_is_none(
    cut_before: bool,
) -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        link = ("n1", "n2")
        town.network.disturb({link: LinkFault(mtu=500)})
        if cut_before:
            town.network.cut(frozenset({link}))
        for message in (b"1", b"2" * 501, b"3"):
            connection.send(message)
        await town.wait(0.01)
        town.network.cut(frozenset())
        await town.wait(1)
        assert [message[:1] for _, message in town.got] == [b"1"]
        town.network.disturb({})
        await town.wait(0.1)
        assert [message[:1] for _, message in town.got] == [b"1", b"2", b"3"]

    play(script)


@pytest.mark.parametrize("how", ["close", "kill"])
def test_what_was_sent_before_the_end_arrives_before_the_end(how: str) -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        send_all(connection, 3)
        if how == "close":
            connection.close()
        else:
            town.processes["n1"].end()
        await town.wait(0.1)
        assert town.numbers() == [0, 1, 2]
        assert await broken(town.accepted[0].receive()) in (
            "the other side closed the connection",
            "the other side's process ended",
        )

    play(script)


def test_a_loss_of_power_takes_what_waits_in_the_machine_and_leaves_what_is_on_the_wire() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        connection.send(b"0")
        town.network.cut(cut(("n1", "n2")))
        await town.wait(0.1)
        connection.send(b"1")
        town.network.cut(cut())
        other = await town.connect()
        other.send(b"2")
        town.processes["n1"].silent = True
        town.processes["n1"].end()
        await town.wait(5)
        assert town.numbers() == []

    play(script)


@pytest.mark.parametrize("seed", range(20))
def test_order_holds_over_cuts_shorter_than_the_latency_and_clogs_between(seed: int) -> None:
    rng, pair = Rng(seed), ("n1", "n2")

    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        sent = 0
        for _ in range(60):
            town.network.cut(cut(pair) if rng.random() < 0.3 else cut())
            town.network.disturb({pair: LinkFault(held=True)} if rng.random() < 0.3 else {})
            for _ in range(rng.between(0, 3)):
                connection.send(b"%d" % sent)
                sent += 1
            await town.clock.sleep_ns(rng.between(0, 2 * MS))
        town.network.cut(cut())
        town.network.disturb({})
        await town.wait(1)
        assert town.numbers() == list(range(sent))

    play(script, seed)


def test_a_close_during_a_short_cut_is_told_when_the_link_has_healed() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        town.network.cut(cut(("n1", "n2")))
        connection.close()
        await town.wait(0.2)
        town.network.cut(cut())
        assert await broken(town.accepted[0].receive()) == "the other side closed the connection"

    play(script)


def test_a_flaky_link_breaks_connections_at_both_ends() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        town.network.disturb({("n1", "n2"): LinkFault(resets=1.0)})
        assert "reset by the network" in await broken(connection.receive())
        assert "reset by the network" in await broken(town.accepted[0].receive())
        assert town.network.disturbed()["n1", "n2"]["reset"] == 1
        town.network.disturb({})
        again = await town.connect()
        await town.wait(10)
        again.send(b"1")
        await town.wait(0.1)

    assert play(script).numbers() == [1]


def test_nobody_listens_nobody_answers_and_no_route_are_told_apart() -> None:
    async def script(town: Town) -> None:
        with pytest.raises(ConnectionError, match="refused"):
            await town.connect()
        with pytest.raises(DefiniteError, match="n2 cannot be reached: connection refused"):
            await town.network.dial(("n2", 1))
        with pytest.raises(ConnectionError, match="no route to host"):
            await town.networks["n1"].connect(("n9", 1))
        await town.serve()
        for link in (("n1", "n2"), ("n2", "n1")):
            town.network.cut(cut(link))
            began_ns = town.loop.now_ns
            with pytest.raises(ConnectionError, match="no answer within 1 s"):
                await town.connect()
            assert town.loop.now_ns - began_ns == S
        assert (await town.network.dial(("n2", 1))) is not None, "no cut touches clients"

    play(script)


def test_the_other_end_learns_of_a_kill_at_once_and_of_a_power_loss_only_by_silence() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        town.processes["n2"].end()
        began_ns = town.loop.now_ns
        assert "process ended" in await broken(connection.receive())
        assert town.loop.now_ns - began_ns < 10 * MS

        town.boot("n2")
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        town.processes["n2"].silent = True
        town.processes["n2"].end()
        connection.send(b"1")
        began_ns = town.loop.now_ns
        assert "no acknowledgement" in await broken(connection.receive())
        assert 2 * S <= town.loop.now_ns - began_ns < 2.1 * S
        with pytest.raises(ConnectionError, match="no answer within 1 s"):
            await town.connect()

    play(script)


def test_a_paused_process_finds_everything_when_it_is_resumed() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        town.processes["n2"].pause()
        send_all(connection, 10)
        later = await town.connect()  # its kernel still takes connections
        later.send(b"10")
        await town.wait(5)
        assert town.numbers() == []
        town.processes["n2"].resume()
        await town.wait(0.1)
        assert sorted(town.numbers()) == list(range(11))

    play(script)


def test_what_an_ended_process_says_is_not_heard() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        town.processes["n1"].end()
        connection.send(b"1")
        await town.wait(1)
        assert town.numbers() == []
        assert "process ended" in await broken(town.accepted[0].receive())

    play(script)
