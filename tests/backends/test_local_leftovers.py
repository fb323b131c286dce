"""What belongs to whom on this machine: processes are marked, and only what a dead controller left is swept."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.local import Links, LocalBackend
from splitbrain.harness.backends.shared import ownership
from tests.backends.conformance.controller import holding_controller
from tests.backends.support import processes_with, wait_until_gone

pytestmark = [pytest.mark.alone, pytest.mark.cluster]

ROW_OF: Mapping[Links, str] = {"namespaces": "local", "proxy": "local by proxies"}


def test_a_killed_agent_takes_its_nodes_along(links: Links, tmp_path: Path) -> None:
    with holding_controller(ROW_OF[links], tmp_path) as (controller, seen):
        agent = seen["agent"]
        os.kill(agent, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while list(left := processes_with(str(tmp_path))) != [controller.pid]:
            assert time.monotonic() < deadline, left
            time.sleep(0.02)


def test_an_interrupt_from_the_terminal_reaches_only_the_controller(links: Links, tmp_path: Path) -> None:
    with holding_controller(ROW_OF[links], tmp_path) as (controller, seen):
        agent = seen["agent"]
        nodes = [pid for pid in processes_with(str(tmp_path)) if pid != controller.pid]
        groups = {pid: os.getpgid(pid) for pid in [agent, *nodes]}
        assert os.getpgid(controller.pid) not in groups.values()


# --- sweep ----------------------------------------------------------------------------------------------------------


@contextmanager
def marked_process(marker: str, by: str = "environment") -> Generator[subprocess.Popen[bytes], None, None]:
    """A process that belongs to a controller, as its environment tells or its arguments do."""
    argv, env = ["/bin/sleep", "60"], {ownership.MARKER_VARIABLE: marker}
    if by == "arguments":
        argv, env = ["/bin/sh", "-c", "sleep 60; true", marker], {}
    process = subprocess.Popen(argv, env=env, start_new_session=True)
    try:
        while process.pid not in processes_with(marker):  # exec shows the environment a moment after it succeeded
            assert process.poll() is None
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def marker_of(controller: ownership.Controller, **changes: Any) -> str:
    return dataclasses.replace(controller, **changes).marker


def test_a_sweep_kills_what_a_dead_controller_left_behind_and_says_so() -> None:
    """By start time too: a process that got the dead controller's pid does not save its leftovers."""
    reused = marker_of(ownership.this_controller(), started=1)
    with marked_process(reused) as leftover:
        lines = LocalBackend("proxy").sweep()
        assert leftover.wait(timeout=60) == -signal.SIGKILL
    assert f"killed process {leftover.pid} of controller {os.getpid()}, which is gone" in lines


@pytest.mark.parametrize("by", ["environment", "arguments"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"pid_namespace": 1, "started": 1}, {"boot": "0" * 32, "started": 1}],
    ids=["a living controller", "another PID namespace", "another machine"],
)
def test_a_sweep_leaves_alone_what_belongs_to(changes: dict[str, Any], by: str) -> None:
    """Of another machine is what its controller reaches over ssh: there its pid and PID namespace say nothing."""
    with marked_process(marker_of(ownership.this_controller(), **changes), by) as process:
        LocalBackend("proxy").sweep()
        time.sleep(0.1)
        assert process.poll() is None


def test_a_marker_that_tells_no_boot_counts_only_where_no_controller_elsewhere_can_have_put_it() -> None:
    """As earlier versions wrote them: into arguments of agents on hosts too, into the environment only here."""
    old = marker_of(ownership.this_controller(), boot=None, started=1)
    assert old.count(":") == 3
    with marked_process(old, "arguments") as perhaps_alive, marked_process(old, "environment") as dead:
        LocalBackend("proxy").sweep()
        assert dead.wait(timeout=60) == -signal.SIGKILL
        assert perhaps_alive.poll() is None


def test_a_sweep_removes_an_agent_that_could_not_follow_its_controller(tmp_path: Path) -> None:
    """A stopped agent of the proxies cannot act on its controller's death; its nodes live on until the sweep."""
    with holding_controller(ROW_OF["proxy"], tmp_path) as (controller, seen):
        agent = seen["agent"]
        os.kill(agent, signal.SIGSTOP)
        controller.kill()
        controller.wait()
        assert len(processes_with(str(tmp_path))) == 3
        LocalBackend("proxy").sweep()
        assert wait_until_gone(str(tmp_path)) == {}
        assert wait_until_gone(f":{controller.pid}:") == {}


def test_a_marker_names_its_controller() -> None:
    own = ownership.this_controller()
    assert ownership.parse(own.marker) == own
    assert own.here
    assert not own.gone
    for text in ("", "splitbrain-agent:1:2", "splitbrain-agent:1:2:x", "other:1:2:3", f"{own.marker}:1", "a:1:2:3:4"):
        assert ownership.parse(text) is None


def test_earlier_versions_take_no_marker_that_tells_a_boot_for_one_of_theirs() -> None:
    """They know pid and PID namespace only, by which they would kill what lives; they split at the colons, in four."""
    parts = ownership.this_controller().marker.split(":")
    assert len(parts) == 5
    assert int(parts[2]) == os.getpid(), "agents read it there"
