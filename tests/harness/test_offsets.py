"""What is said of a host's clock holds, however slow and uneven the way there and back is."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from splitbrain.harness.backends.ssh.deployment import estimated
from splitbrain.harness.contract.nodes import ClockOffset
from splitbrain.harness.contract.offsets import EXCHANGES, Exchange, all_between, between, estimate, noted
from tests.backends.support import missing

DELAYS = st.integers(0, 2_000_000_000)
APART = st.integers(-(10**16), 10**16)


def exchanged(at_ns: int, ahead_ns: int, wall_ns: int, there_ns: int, back_ns: int) -> Exchange:
    """A question that is sent at `at_ns`, to a host whose clocks are so far ahead, over ways that take so long."""
    looked_ns = at_ns + there_ns
    return Exchange(at_ns, looked_ns + ahead_ns, looked_ns + wall_ns, looked_ns + back_ns)


@given(APART, APART, APART, st.lists(st.tuples(DELAYS, DELAYS), min_size=1, max_size=EXCHANGES))
def test_the_true_offset_lies_within_the_error_whatever_the_delays(
    ahead_ns: int, wall_ns: int, epoch_ns: int, delays: list[tuple[int, int]]
) -> None:
    exchanges = [exchanged(number * 10**9, ahead_ns, wall_ns, *delay) for number, delay in enumerate(delays)]
    found = estimate(exchanges, epoch_ns)
    assert abs(found.mono_ns - ahead_ns) <= found.error_ns
    assert abs(found.wall_ns - (wall_ns - epoch_ns)) <= found.error_ns
    assert found.error_ns <= min(there + back for there, back in delays) // 2 + 2


def test_half_of_the_time_is_needed_as_the_error_where_one_way_takes_all_of_it() -> None:
    for there_ns, back_ns in ((1000, 0), (0, 1000)):
        found = estimate([exchanged(0, 77, 77, there_ns, back_ns)], 0)
        assert abs(found.mono_ns - 77) == 500


@given(APART, APART, st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0, 1))
def test_between_two_estimates_a_clock_that_drifts_steadily_stays_within_the_error(
    first_ns: int, last_ns: int, wrong_ns: int, wronger_ns: int, when: float
) -> None:
    first = ClockOffset(first_ns + wrong_ns, 0, wrong_ns)
    last = ClockOffset(last_ns - wronger_ns, 0, wronger_ns)
    found = between(first, last)
    true_ns = first_ns + round((last_ns - first_ns) * when)
    rounded_ns = abs(last_ns - first_ns) * 2**-50  # of the float that says when
    assert abs(found.mono_ns - true_ns) <= found.error_ns + rounded_ns


def test_a_clock_that_is_known_exactly_and_does_not_drift_stays_known_exactly() -> None:
    assert between(ClockOffset(), ClockOffset()) == ClockOffset()
    assert all_between({"n1": ClockOffset(), "n2": ClockOffset()}, {"n1": ClockOffset()}) == {"n1": ClockOffset()}


def test_what_is_noted_is_in_seconds() -> None:
    assert noted({"n1": ClockOffset(-1_500_000_000, 20_000_000, 300_000)}) == {
        "offsets_s": {"n1": -1.5},
        "errors_s": {"n1": 0.0003},
        "walls_s": {"n1": 0.02},
    }


class Elsewhere:
    """An agent in a time namespace: its monotonic clock is so many seconds ahead."""

    def __init__(self, ahead_s: int) -> None:
        look = "import sys, time\nfor line in sys.stdin: print(time.monotonic_ns(), time.time_ns(), flush=True)"
        unshare = ["unshare", "--time", "--fork", "--kill-child", "--monotonic", str(ahead_s)]
        self.process = subprocess.Popen(
            [*unshare, sys.executable, "-c", look],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    async def ask(self, op: str, **arguments: Any) -> Any:
        assert op == "clocks"
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        mono_ns, wall_ns = self.process.stdout.readline().split()
        return {"mono_ns": int(mono_ns), "wall_ns": int(wall_ns)}

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait(timeout=60)


def test_a_real_clock_that_is_ahead_is_found_to_be_so_and_the_wall_clock_beside_it_is_not() -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--time", "true"], check=False).returncode:
        missing("time namespaces cannot be made here")
    agent = Elsewhere(5000)
    try:
        found = asyncio.run(estimated(agent))
    finally:
        agent.close()
    assert abs(found.mono_ns - 5000 * 10**9) <= found.error_ns
    # The wall clock is the same one; it may have been adjusted between two looks at it.
    assert abs(found.wall_ns) <= found.error_ns + 10**6
