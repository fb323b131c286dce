"""Wrong clocks, as a process sees them that was started with one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from splitbrain.harness.backends.agent import programs
from splitbrain.harness.backends.agent.tools import AgentError
from splitbrain.harness.backends.shared import faketime
from splitbrain.harness.backends.shared.faketime import FakeClock, Measured
from splitbrain.harness.contract.realtime import wall_offset_ns
from splitbrain.results.errors import BackendError, FaultNotSupportedError
from tests.backends.elf import elf
from tests.backends.support import missing

CHILD = """
import sys, time
def look():
    before = time.monotonic_ns(); shown = time.time_ns(); after = time.monotonic_ns()
    return after - before, before, shown
for line in sys.stdin:
    print(*min(look() for _ in range(50))[1:], flush=True)
"""
"""Of fifty looks the quickest counts: in the others the scheduler may have stopped it between the two clocks."""


@pytest.fixture
def library() -> str:
    found = faketime.find_library()
    if found is None:
        missing(f"libfaketime is not here: {faketime.INSTALL}")
    return found


@pytest.fixture
def clock(tmp_path: Path) -> FakeClock:
    return FakeClock(tmp_path / "clock")


@pytest.fixture
def child_ahead_ms(clock: FakeClock, library: str, tmp_path: Path) -> Generator[Callable[[], float]]:
    """How much the clock of a long-lived child is ahead of the true one, in milliseconds, when asked."""
    clock.process_begins()
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", CHILD],
        env={**os.environ, **faketime.environment(library, str(tmp_path / "clock"))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ahead_ms() -> float:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("\n")
        child.stdin.flush()
        monotonic_ns, shown_ns = map(int, child.stdout.readline().split())
        return (shown_ns - monotonic_ns - wall_offset_ns()) / 1e6

    yield ahead_ms
    child.communicate()


def test_a_jump_is_seen_by_a_running_process_and_goes_back(
    clock: FakeClock, child_ahead_ms: Callable[[], float]
) -> None:
    assert child_ahead_ms() == pytest.approx(0, abs=5)
    clock.set(offset_ms=120_000, drift_ppm=0)
    assert child_ahead_ms() == pytest.approx(120_000, abs=5)
    clock.set(offset_ms=-30_250, drift_ppm=0)
    assert child_ahead_ms() == pytest.approx(-30_250, abs=5)
    clock.set(offset_ms=0, drift_ppm=0)
    assert child_ahead_ms() == pytest.approx(0, abs=5)


@pytest.mark.slow
def test_a_drift_begins_without_a_jump_and_what_it_gained_stays(
    clock: FakeClock, child_ahead_ms: Callable[[], float]
) -> None:
    time.sleep(0.5)  # the longer the process has run, the more its clock would jump
    before = time.monotonic()
    clock.set(offset_ms=0, drift_ppm=100_000)
    began = time.monotonic()
    at_once = child_ahead_ms()
    assert -5 <= at_once <= 100 * (time.monotonic() - before) + 5
    time.sleep(0.5)
    least = 100 * (time.monotonic() - began)
    gained = child_ahead_ms()
    assert least - 5 <= gained <= 100 * (time.monotonic() - before) + 5
    clock.set(offset_ms=0, drift_ppm=0)
    left = child_ahead_ms()
    assert left == pytest.approx(clock.offset_ms(), abs=10)
    assert left > 40
    time.sleep(0.3)
    assert child_ahead_ms() == pytest.approx(left, abs=5)


CHANGES = [(0, 0), (3_600_000, 0), (-10, 0), (0, 50_000), (500, -100_000), (0, 0)]


@pytest.mark.slow
def test_what_is_measured_from_outside_is_what_was_set_at_the_moment_of_the_change(
    clock: FakeClock, library: str, tmp_path: Path
) -> None:
    """Whatever a drift gained before the change, and gains until it is measured, is not taken for a jump."""
    offset_ms, drift_ppm = 0.0, 0.0
    for next_offset_ms, next_drift_ppm in CHANGES:
        before = faketime.measure(clock, library, str(tmp_path / "clock"))
        clock.set(next_offset_ms, next_drift_ppm)
        after = faketime.measure(clock, library, str(tmp_path / "clock"))
        seen = faketime.evidence(before, after)
        exact = seen["accuracy"]
        for name, change in (("offset_ms", next_offset_ms - offset_ms), ("drift_ppm", next_drift_ppm - drift_ppm)):
            assert seen["after"][name] - seen["before"][name] == pytest.approx(change, abs=exact[name])
        offset_ms, drift_ppm = next_offset_ms, next_drift_ppm


def test_threads_wait_for_each_other_no_longer_than_with_a_true_clock(
    clock: FakeClock, library: str, tmp_path: Path
) -> None:
    """Conditions with a timeout are how Python's threads hand over the interpreter: 0.1 s each would be a minute."""
    program = """
from concurrent.futures import ThreadPoolExecutor
import asyncio
async def main():
    with ThreadPoolExecutor(1) as executor:
        for _ in range(600):
            await asyncio.get_running_loop().run_in_executor(executor, int)
asyncio.run(main())
"""
    clock.set(1000, 0)
    variables = {**os.environ, **faketime.environment(library, str(tmp_path / "clock"))}
    subprocess.run([sys.executable, "-I", "-S", "-c", program], env=variables, check=True, timeout=60)


def test_a_library_that_does_not_work_is_measured_as_such(clock: FakeClock, library: str, tmp_path: Path) -> None:
    """Measuring looks at the clock, not at what the file says."""
    clock.set(60_000, 0)
    seen = faketime.measure(clock, library, str(tmp_path / "another"))
    assert seen.offset_ms == pytest.approx(0, abs=faketime.OFFSET_ACCURACY_MS)


def test_a_restarted_process_finds_its_clock_where_it_would_be(clock: FakeClock, library: str, tmp_path: Path) -> None:
    clock.set(offset_ms=1000, drift_ppm=100_000)
    time.sleep(0.5)
    clock.process_begins()
    asked = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", CHILD],
        env={**os.environ, **faketime.environment(library, str(tmp_path / "clock"))},
        input="\n",
        capture_output=True,
        text=True,
        check=True,
    )
    monotonic_ns, shown_ns = map(int, done.stdout.split())
    ahead_ms = (shown_ns - monotonic_ns - wall_offset_ns()) / 1e6
    expected = 1000 + 50 + 100 * (monotonic_ns / 1e9 - asked)
    assert ahead_ms == pytest.approx(expected, abs=20)


def test_the_evidence_says_how_exact_it_is() -> None:
    before = Measured(0.0, 0.0, at_s=10.0, changed_s=0.0)
    after = Measured(105.0, 100_000.0, at_s=12.0, changed_s=11.0)
    said = faketime.evidence(before, after)
    assert said["before"] == {"offset_ms": 0.0, "drift_ppm": 0.0}
    assert said["after"] == {"offset_ms": 5.0, "drift_ppm": 100_000.0}
    assert said["accuracy"] == {"offset_ms": 15.0, "drift_ppm": 300.0}


# --- programs that cannot be reached ------------------------------------------------------------------------------


def test_programs_that_load_libraries_are_taken_scripts_by_their_interpreter(tmp_path: Path) -> None:
    faketime.require_reach(sys.executable)
    faketime.require_reach("sh")
    script = tmp_path / "script"
    script.write_text(f"#!{sys.executable} -S\nprint()\n")
    script.chmod(0o755)
    faketime.require_reach(str(script))


def test_a_statically_linked_program_is_refused_with_the_reason(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.write_bytes(elf([1, 2]))
    program.chmod(0o755)
    with pytest.raises(FaultNotSupportedError, match="linked statically"):
        faketime.require_reach(str(program))
    program.write_bytes(elf([6, 3, 1]))
    faketime.require_reach(str(program))
    script = tmp_path / "script"
    script.write_text(f"#!{program}\n")
    script.chmod(0o755)
    program.write_bytes(elf([1]))
    with pytest.raises(FaultNotSupportedError):
        faketime.require_reach(str(script))


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("section", [b".go.buildinfo", b".note.go.buildid"])
def test_a_go_program_is_refused_although_it_loads_libraries(tmp_path: Path, section: bytes, wide: bool) -> None:
    program = tmp_path / "server"
    program.write_bytes(elf([6, 3, 1], [b".text", section, b".data"], wide=wide))
    program.chmod(0o755)
    with pytest.raises(FaultNotSupportedError, match=f"the clock of '{program}' cannot be faked: it is a Go program"):
        faketime.require_reach(str(program))
    program.write_bytes(elf([6, 3, 1], [b".text", section + b".not", b".data"], wide=wide))
    faketime.require_reach(str(program))


def test_etcd_is_refused_however_debian_links_it() -> None:
    if shutil.which("etcd") is None:
        missing("there is no etcd (Debian and Ubuntu: apt install etcd-server)")
    with pytest.raises(FaultNotSupportedError, match=r"Go program|linked statically"):
        faketime.require_reach("etcd")


def test_libfaketime_indeed_does_not_reach_a_go_program(library: str) -> None:
    """What the refusal rests on: etcd dates what it logs, and is not misled by a clock that is a month slow."""
    if shutil.which("etcd") is None:
        missing("there is no etcd (Debian and Ubuntu: apt install etcd-server)")
    done = subprocess.run(
        ["etcd", "--logger", "zap", "--data-dir", "/dev/null/nowhere"],
        env={**os.environ, "LD_PRELOAD": library, "FAKETIME": "-30d"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    dated = re.findall(r'"ts":"([^"]*)"', done.stdout + done.stderr)
    assert dated, "it logged nothing"
    off = datetime.now(UTC) - datetime.fromisoformat(dated[0])
    assert abs(off) < timedelta(days=1)


def test_a_file_that_breaks_off_is_an_error_of_one_line(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.write_bytes(elf([6, 3, 1], [b".text"])[:80])
    program.chmod(0o755)
    with pytest.raises(BackendError, match=f"the program '{program}' cannot be looked at"):
        faketime.require_reach(str(program))


def test_a_program_that_is_not_there_is_named() -> None:
    assert shutil.which("no-such-program") is None
    with pytest.raises(BackendError, match="'no-such-program'"):
        faketime.require_reach("no-such-program")


def test_whether_a_process_reads_a_faked_clock_is_seen_in_its_memory(library: str, tmp_path: Path) -> None:
    """A wrapper that clears its environment runs the node with a true clock; one that begins it is not looked at."""
    (tmp_path / "clock").write_text("+60\n")
    variables = faketime.environment(library, str(tmp_path / "clock"))
    cleared = ("env", "-u", "LD_PRELOAD")
    begins = (*cleared, "sh", "-c", f'LD_PRELOAD={library} "$@"; exit', "sh")
    for wrapper, expected in (((), True), (cleared, False), (begins, True)):
        argv = [*wrapper, sys.executable, "-I", "-S", "-c", "print(flush=True); input()"]
        with subprocess.Popen(
            argv, env={**os.environ, **variables}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert programs.has_loaded_library(process.pid) is expected
            process.kill()
    with pytest.raises(AgentError, match=f"the memory of process {process.pid} cannot be looked at: No such file"):
        programs.has_loaded_library(process.pid)
