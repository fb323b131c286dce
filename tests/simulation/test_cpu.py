"""A node with little of a CPU does so much in each period, in order, and everything else later."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.clock import Oscillator, TrueClock
from splitbrain.harness.simulation.cpu import COST_NS, PERIOD_NS, CpuLimit
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.process import ProcessClock, SimProcess
from splitbrain.results.errors import SimulationError

S = 1_000_000_000


class Bench:
    """A process, and when it did what."""

    def __init__(self) -> None:
        self.loop = SimLoop(Rng(1))
        self.clock = TrueClock(self.loop)
        self.process = SimProcess(self.loop, 1, lambda: None)
        self.did: list[tuple[int, int]] = []

    def post(self, numbers: range) -> None:
        for number in numbers:
            self.process.post(lambda number=number: self.did.append((self.loop.now_ns, number)))

    def limit(self, share: float) -> CpuLimit:
        limit = CpuLimit(self.loop, share)
        self.process.limit(limit)
        return limit

    def order(self) -> list[int]:
        return [number for _, number in self.did]


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5])
def test_in_each_period_no_more_is_done_than_the_share_pays_for_and_everything_in_order(share: float) -> None:
    bench = Bench()
    quota = max(1, round(PERIOD_NS * share / COST_NS))

    async def main() -> None:
        limit = bench.limit(share)
        bench.post(range(3 * quota))
        assert bench.order() == list(range(quota)), "at once as far as it goes"
        assert limit.throttled == 1
        await bench.clock.sleep_ns(PERIOD_NS)
        bench.post(range(3 * quota, 4 * quota))
        await bench.clock.sleep_ns(3 * PERIOD_NS)
        assert limit.throttled == 3

    bench.loop.run(main())
    assert bench.order() == list(range(4 * quota))
    assert Counter(at_ns // PERIOD_NS for at_ns, _ in bench.did) == dict.fromkeys(range(4), quota)


def test_a_timer_that_is_cancelled_while_its_callback_waits_for_a_cpu_never_runs() -> None:
    """As in a real event loop: a process never sees a timer run out that it has stopped before."""
    bench = Bench()
    rang: list[str] = []

    async def main() -> None:
        clock = ProcessClock(bench.loop, Oscillator(bench.loop), bench.process)
        first = clock.call_later(S, lambda: rang.append("first"))
        clock.call_later(S, lambda: rang.append("second"))
        await bench.clock.sleep_ns(S // 2)
        bench.process.pause()
        await bench.clock.sleep_ns(S)
        bench.process.post(first.cancel)  # behind it: too late
        bench.process.resume()
        assert sorted(rang) == ["first", "second"]
        third = clock.call_later(S, lambda: rang.append("third"))
        clock.call_later(S - 1, third.cancel)
        bench.process.pause()
        await bench.clock.sleep_ns(2 * S)
        bench.process.resume()

    bench.loop.run(main())
    assert sorted(rang) == ["first", "second"]


def test_an_error_of_what_waited_for_a_cpu_is_not_one_of_what_lifts_the_limit() -> None:
    bench = Bench()

    def fails() -> None:
        raise KeyError("of the process")

    async def main() -> None:
        bench.limit(0.001)
        bench.post(range(1))
        bench.process.post(fails)
        bench.post(range(1, 2))
        bench.process.limit(None)
        assert bench.order() == [0, 1], "what is behind it has its turn"

    with pytest.raises(SimulationError, match=r"was never handled: .* failed: KeyError: 'of the process'"):
        bench.loop.run(main())


def test_a_process_that_does_less_than_its_share_notices_nothing() -> None:
    bench = Bench()

    async def main() -> None:
        limit = bench.limit(0.05)
        for number in range(100):
            bench.post(range(number, number + 1))
            await bench.clock.sleep_ns(PERIOD_NS // 8)
        assert limit.throttled == 0

    bench.loop.run(main())
    assert [at_ns for at_ns, _ in bench.did] == [number * PERIOD_NS // 8 for number in range(100)]


def test_what_waits_is_done_at_once_when_the_limit_is_lifted_and_never_when_the_process_ends() -> None:
    bench = Bench()

    async def main() -> None:
        bench.limit(0.001)
        bench.post(range(5))
        bench.process.limit(None)
        assert bench.order() == list(range(5))
        bench.limit(0.001)
        bench.post(range(5, 9))
        bench.process.end()
        await bench.clock.sleep_ns(S)

    bench.loop.run(main())
    assert bench.order() == list(range(6))


def test_a_pause_takes_over_what_waits_for_a_cpu_and_keeps_its_order() -> None:
    bench = Bench()

    async def main() -> None:
        bench.limit(0.01)
        bench.post(range(4))
        bench.process.pause()
        bench.post(range(4, 6))
        await bench.clock.sleep_ns(S)
        assert bench.order() == [0, 1]
        bench.process.resume()
        await bench.clock.sleep_ns(S)

    bench.loop.run(main())
    assert bench.order() == list(range(6))
    assert all(earlier <= later for earlier, later in itertools.pairwise(at_ns for at_ns, _ in bench.did))
