"""Computing that takes time: a node that computes does nothing else, and reads come between slices of an apply."""

from __future__ import annotations

import pytest

from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.simulation.connections import End
from tests.cli.test_arguments import OPTIONS
from tests.simulation.test_cpu import Bench
from tests.simulation.test_network import MS, Town, play, send_all

S = 1_000 * MS


def test_what_happens_to_a_process_that_computes_waits_until_it_is_done_in_order() -> None:
    bench = Bench()

    async def main() -> None:
        bench.process.compute(300 * MS)
        bench.process.compute(200 * MS)
        bench.post(range(3))
        await bench.clock.sleep_ns(100 * MS)
        bench.post(range(3, 6))
        assert bench.did == []
        assert bench.process.busy_ns() == 400 * MS
        await bench.clock.sleep_ns(1 * S)
        bench.post(range(6, 7))

    bench.loop.run(main())
    assert bench.did == [*((500 * MS, number) for number in range(6)), (1100 * MS, 6)]


def test_what_computes_in_its_turn_makes_the_rest_wait_again() -> None:
    bench = Bench()

    async def main() -> None:
        bench.process.compute(100 * MS)
        bench.process.post(lambda: bench.process.compute(50 * MS))
        bench.post(range(1))
        await bench.clock.sleep_ns(1 * S)

    bench.loop.run(main())
    assert bench.did == [(150 * MS, 0)]


def test_a_busy_process_that_is_paused_or_ends_does_nothing_later() -> None:
    bench = Bench()

    async def main() -> None:
        bench.process.compute(100 * MS)
        bench.post(range(2))
        bench.process.pause()
        await bench.clock.sleep_ns(1 * S)
        assert bench.did == []
        bench.process.resume()
        assert bench.order() == [0, 1]
        bench.process.compute(100 * MS)
        bench.post(range(2, 3))
        bench.process.end()
        await bench.clock.sleep_ns(1 * S)

    bench.loop.run(main())
    assert bench.order() == [0, 1]


def test_what_a_busy_process_sends_leaves_when_it_is_done() -> None:
    async def script(town: Town) -> None:
        await town.serve()
        connection = await town.connect()
        await town.wait(0.1)
        began_ns = town.loop.now_ns
        town.processes["n1"].message_ns = 10 * MS
        send_all(connection, 5)
        await town.wait(1)
        assert town.numbers() == list(range(5))
        for number, (at_ns, _) in enumerate(town.got, start=1):
            assert 0 <= at_ns - began_ns - number * 10 * MS <= 3 * MS

    play(script)


def test_each_message_waits_until_what_the_one_before_it_made_the_process_compute_is_done() -> None:
    async def script(town: Town) -> None:
        process, taken_ms = town.processes["n2"], list[int]()

        async def accept(connection: End) -> None:
            def take(_: bytes) -> None:
                taken_ms.append(town.loop.now_ns // MS)
                process.compute(100 * MS)

            await connection.hand_over(take)

        await town.networks["n2"].listen(("n2", 1), accept)
        send_all(await town.connect(), 5)
        await town.wait(2)
        first_ms = taken_ms[0]
        assert taken_ms == [first_ms + 100 * place for place in range(5)]

    play(script)


def between_slices(world: str) -> int:
    """Local reads that came between two slices of an apply, in a run in which nodes are killed, with small slices."""
    given = {"backend": "sim", "nemesis": "kill-one", "interval": 3.0, "rate": 200.0, "time_limit": 30.0, "seed": 1}
    mixed = {"workload": "read-modes", "settings": "apply-slice=4", "concurrency": "6n", "world": world}
    left = simulate(compose(RunOptions.of(**{**OPTIONS, **given, **mixed})))
    assert left.failure is None
    return left.marks["read between two slices"]


@pytest.mark.slow
def test_reads_come_between_two_slices_where_applying_takes_time() -> None:
    assert between_slices("slow-cpu") > between_slices("lan")
