"""A node's share of the processor, as the kernel counts it and as a busy process feels it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from splitbrain.harness.backends.agent import cgroups
from splitbrain.harness.backends.agent.cgroups import CpuGroups
from splitbrain.harness.backends.agent.tools import AgentError
from tests.backends.support import missing


@pytest.fixture
def groups() -> Generator[CpuGroups]:
    problem = cgroups.problem()
    if problem is not None:
        missing(problem)
    groups = CpuGroups(f"splitbrain-test-{os.getpid()}")
    yield groups
    groups.close()


@pytest.fixture
def busy() -> Generator[subprocess.Popen[bytes]]:
    """A process that never rests."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield process
    process.kill()
    process.wait()


def cpu_seconds(pid: int, during_s: float) -> float:
    def used() -> int:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    before = used()
    time.sleep(during_s)
    return (used() - before) / os.sysconf("SC_CLK_TCK")


def runs_for(pid: int, wanted_s: float) -> bool:
    """Whether a process gets so much CPU time before a minute is over: at once, unless the machine is busy."""
    found_s, ends = 0.0, time.monotonic() + 60
    while found_s < wanted_s and time.monotonic() < ends:
        found_s += cpu_seconds(pid, 0.1)
    return found_s >= wanted_s


@pytest.mark.slow
def test_a_throttled_process_gets_its_share_and_the_kernel_counts_how_often_it_stood_still(
    groups: CpuGroups, busy: subprocess.Popen[bytes]
) -> None:
    assert groups.throttle("n1", [busy.pid], 0.05) == {}
    assert cpu_seconds(busy.pid, 1.0) < 0.15
    counted = groups.counts("n1")
    assert counted["throttled"] >= 5
    assert counted["throttled_ms"] > 100
    assert groups.throttle("n1", [], None)["throttled"] >= counted["throttled"]
    assert groups.counts("n1") == {}
    before = groups.throttle("n1", [], None)
    assert before == {}


def test_a_process_whose_limit_is_gone_is_not_throttled_any_more(
    groups: CpuGroups, busy: subprocess.Popen[bytes]
) -> None:
    groups.throttle("n1", [busy.pid], 0.01)
    groups.throttle("n1", [], None)
    assert runs_for(busy.pid, 0.7), "with a hundredth of a CPU that would take 70 s"


def test_a_new_process_of_a_throttled_node_joins_it(groups: CpuGroups, busy: subprocess.Popen[bytes]) -> None:
    groups.join("n1", [busy.pid])
    assert runs_for(busy.pid, 0.05), "there is no limit yet"
    groups.throttle("n1", [], 0.02)
    groups.join("n1", [busy.pid])
    ends = time.monotonic() + 60
    while groups.counts("n1")["throttled"] < 2 and time.monotonic() < ends:
        time.sleep(0.1)
    assert groups.counts("n1")["throttled"] >= 2


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_that_is_none_is_refused(groups: CpuGroups, share: float) -> None:
    with pytest.raises(AgentError, match=r"between 0\.01 and 1"):
        groups.throttle("n1", [], share)


def test_a_sweep_removes_the_groups_of_dead_owners_only(groups: CpuGroups, busy: subprocess.Popen[bytes]) -> None:
    dead = CpuGroups(f"splitbrain-dead-{os.getpid()}")
    dead.throttle("n1", [busy.pid], 0.5)
    lines = cgroups.sweep(lambda name: name == f"splitbrain-dead-{os.getpid()}")
    assert len(lines) == 1
    assert f"splitbrain-dead-{os.getpid()}, whose controller is gone" in lines[0]
    groups.throttle("n1", [busy.pid], 0.5)
    assert busy.poll() is None
    assert cgroups.sweep(lambda name: name == f"splitbrain-dead-{os.getpid()}") == []


@pytest.mark.parametrize("call", ["scandir", "rmdir"])
def test_a_group_that_another_sweep_removes_meanwhile_is_fine(
    groups: CpuGroups, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    name = f"splitbrain-dead-{os.getpid()}"
    CpuGroups(name).throttle("n1", [], 0.5)
    ours, remove = getattr(os, call), os.rmdir

    def another_is_faster(path: str) -> object:
        if os.path.basename(path) == "n1" and os.path.isdir(path):
            remove(path)
        return ours(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, another_is_faster)
        [line] = cgroups.sweep(lambda found: found == name)
    assert line.startswith("removed")
    assert cgroups.sweep(lambda found: found == name) == []


def test_a_group_that_cannot_be_removed_keeps_no_run_from_starting(
    groups: CpuGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "GONE_WITHIN_S", 0.05)
    name = f"splitbrain-dead-{os.getpid()}"
    CpuGroups(name)

    def busy(path: str) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", busy)
        [line] = cgroups.sweep(lambda found: found == name)
    assert line.startswith("left a control group whose controller is gone")
    assert "Device or resource busy" in line
    assert len(cgroups.sweep(lambda found: found == name)) == 1
