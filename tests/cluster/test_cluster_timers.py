"""The timers of a member: a random election timeout (RA-2), an even heartbeat (RA-3)."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from splitbrain.cluster.timers import ElectionTimer, Heartbeat
from tests.cluster.support import Draws

MS = 1_000_000


class _Alarm:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.alarms: list[tuple[int, int, _Alarm, Callable[[], None]]] = []
        self.set = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return self.now_ns

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> _Alarm:
        self.set += 1
        alarm = _Alarm()
        heapq.heappush(self.alarms, (self.now_ns + delay_ns, self.set, alarm, callback))
        return alarm

    async def sleep(self, delay_ns: int) -> None:
        raise NotImplementedError

    def run(self, until_ns: int) -> None:
        while self.alarms and self.alarms[0][0] <= until_ns:
            self.now_ns, _, alarm, callback = heapq.heappop(self.alarms)
            if not alarm.cancelled:
                callback()
        self.now_ns = until_ns


def timer(clock: ManualClock, seed: int = 1) -> tuple[ElectionTimer, list[int]]:
    """An election timer of 600 to 1,200 ms, and when it ran out."""
    ran_out: list[int] = []
    return ElectionTimer(clock, Draws(seed), 600, 1200, lambda _: ran_out.append(clock.now_ns)), ran_out


def timeouts_ms(seed: int, count: int) -> list[float]:
    clock = ManualClock()
    election, ran_out = timer(clock, seed)
    found: list[float] = []
    for _ in range(count):
        began = clock.now_ns
        election.start()
        clock.run(began + 1200 * MS)
        found.append((ran_out[-1] - began) / MS)
    assert len(ran_out) == count
    return found


def test_ra2_each_election_timeout_is_drawn_anew_from_the_whole_range() -> None:
    found = timeouts_ms(seed=1, count=300)
    assert 600 <= min(found) < 620
    assert 1180 < max(found) <= 1200
    assert len(set(found)) == len(found)
    assert found[:3] != timeouts_ms(seed=2, count=3), "members draw from streams of their own"


def test_ra2_every_message_of_the_leader_begins_the_timeout_anew_at_the_cost_of_few_alarms() -> None:
    clock = ManualClock()
    election, ran_out = timer(clock)
    for at_ms in range(0, 5000, 10):
        clock.run(at_ms * MS)
        election.start()
    assert ran_out == []
    assert clock.set < 30
    clock.run(4990 * MS + 599 * MS)
    assert ran_out == []
    clock.run(4990 * MS + 1200 * MS)
    assert len(ran_out) == 1


def test_ra3_heartbeats_are_even_and_a_late_one_is_not_made_up_for() -> None:
    clock = ManualClock()
    ticks: list[int] = []
    heartbeat = Heartbeat(clock, 100, lambda _: ticks.append(clock.now_ns // MS))
    heartbeat.start()
    clock.run(350 * MS)
    assert ticks == [100, 200, 300]
    heartbeat.stop()
    clock.run(1000 * MS)
    assert ticks == [100, 200, 300]
