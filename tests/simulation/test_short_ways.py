"""The short ways of the most frequent events: they do what the long ways do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from splitbrain.harness.contract.faults import LinkFault
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.lanes import Lane
from splitbrain.harness.simulation.links import SimLink
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.worlds import Latency, Stalls
from splitbrain.results.errors import SimulationError

MS = 1_000_000


def ran(script: Callable[[SimLoop], None], seed: int = 1, for_ns: int = 10_000 * MS) -> SimLoop:
    loop = SimLoop(Rng(seed))

    async def main() -> None:
        over = loop.create_future()
        script(loop)
        loop.at(for_ns, lambda: over.set_result(None))
        await over

    loop.run(main())
    return loop


@pytest.mark.parametrize("seed", range(5))
def test_items_are_carried_at_their_times_and_among_other_events_in_the_order_that_is_drawn(seed: int) -> None:
    def order(which_are_carried: int) -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []

        def script(loop: SimLoop) -> None:
            def take(number: int) -> None:
                seen.append((loop.now_ns, number))

            for number in range(1, 140):
                if which_are_carried >> number % 3 & 1:
                    loop.carry(number // 13, take, number)
                else:
                    loop.at(number // 13, partial(take, number))
                for _ in range(2):  # so many that the heap is cleared of them
                    loop.at(1, partial(take, -number)).cancel()

        ran(script, seed)
        return seen

    assert len(order(0)) == 139
    assert order(0) == order(0b111) == order(0b010)
    assert order(0) != sorted(order(0))


def test_an_empty_item_is_carried_and_what_its_taker_raises_fails_the_run() -> None:
    taken: list[bytes] = []

    def script(loop: SimLoop) -> None:
        loop.carry(1, taken.append, b"")
        loop.carry(2, int, b"no number")

    with pytest.raises(SimulationError, match="int failed: ValueError"):
        ran(script)
    assert taken == [b""]


def test_a_link_draws_its_latency_as_its_kind_says() -> None:
    latency = Latency(100_000, 3_000_000)
    link = SimLink(SimLoop(Rng(1)), ("n1", "n2"), latency, Rng(7))
    rng = Rng(7)
    assert [link.latency_ns() for _ in range(100)] == [latency.draw(rng) for _ in range(100)]


FAULTS = (None, None, LinkFault(delay_ms=40, jitter_ms=20), None, LinkFault(held=True), None)


@pytest.mark.parametrize("stalls", [None, Stalls(500 * MS, Latency(MS, 400 * MS))])
def test_what_is_launched_arrives_as_what_is_carried_next_also_around_faults(stalls: Stalls | None) -> None:
    def arrivals(launch: Callable[[Lane, int, Callable[[Any], None], int], None]) -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []

        def script(loop: SimLoop) -> None:
            link = SimLink(loop, ("n1", "n2"), Latency(MS, 30 * MS), Rng(3), stalls)
            lane = Lane(loop, link, link.standstills())
            for turn in range(60):
                loop.at(turn * 50 * MS, partial(link.set_fault, FAULTS[turn % len(FAULTS)]))
            for number in range(500):
                at = partial(launch, lane, number % 3, lambda item: seen.append((loop.now_ns, item)), number)
                loop.at(number * 5 * MS + 1, at)

        ran(script)
        return seen

    def by_steps(lane: Lane, queued_ns: int, arrive: Callable[[Any], None], item: int) -> None:
        lane.carry(lane.next_ns(queued_ns), arrive, item)

    found = arrivals(Lane.launch)
    assert len(found) == 500
    assert [item for _, item in found] == list(range(500))
    assert found == arrivals(by_steps)


def test_futures_ask_whether_to_keep_their_stack_and_that_can_be_switched() -> None:
    loop = SimLoop(Rng(1))
    assert loop.get_debug() is False
    loop.set_debug(True)
    assert loop.get_debug() is True
    assert asyncio.Future[None](loop=loop)._source_traceback  # pyright: ignore - where asyncio keeps it
    loop.set_debug(False)
    assert loop.get_debug() is False
