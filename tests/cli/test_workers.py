"""Worker processes: whatever becomes of one, its task is reported and the others go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from splitbrain.harness.campaigns.workers import Report, Workers
from tests.cli import tasks
from tests.cli.support import environment

A = TypeVar("A")


def test_tasks_are_answered_by_several_processes() -> None:
    with Workers(tasks.who, 2, limit_s=60) as workers:
        pids = {report.answer for report in _all(workers, [1, 2])}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert not [pid for pid in pids if _alive(pid)]


def test_processes_have_the_hash_seed_that_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "3")
    hashes: list[int | None] = []
    for hash_seed in (0, 0, 1, None, 3):
        with Workers(tasks.hashed, 1, limit_s=60, hash_seed=hash_seed) as workers:
            hashes += [report.answer for report in _all(workers, [1])]
    assert hashes[0] == hashes[1]
    assert hashes[3] == hashes[4]
    assert len(set(hashes)) == 3
    assert os.environ["PYTHONHASHSEED"] == "3"


def test_every_task_gets_its_own_answer() -> None:
    with Workers(tasks.square, 2, limit_s=60) as workers:
        reports = _all(workers, list(range(50)))
    assert sorted((report.task, report.answer) for report in reports) == [(n, n * n) for n in range(50)]


def test_a_worker_that_dies_costs_its_task_only_and_says_how() -> None:
    with Workers(tasks.fragile, 2, limit_s=60) as workers:
        reports = {report.task: report for report in _all(workers, [10, 0, 11, 1, 12, 0, 13])}
        again = _all(workers, [0, 14, 15, 16])
    assert [reports[task].answer for task in (10, 11, 12, 13)] == [10, 11, 12, 13]
    assert "SIGKILL" in (reports[0].problem or "")
    assert "exit code 7" in (reports[1].problem or "")
    assert sorted(report.answer for report in again if report.answer is not None) == [14, 15, 16]


def test_an_exception_is_a_problem_with_its_place_and_the_worker_lives() -> None:
    with Workers(tasks.fragile, 1, limit_s=60) as workers:
        [before, after] = [*_all(workers, [2]), *_all(workers, [5])]
    assert before.answer is None
    assert "ValueError: two is wrong" in (before.problem or "")
    assert "tasks.py:" in (before.problem or "")
    assert after.answer == 5


def test_a_worker_that_is_killed_while_it_has_nothing_to_do_is_reported_with_its_next_task() -> None:
    with Workers(tasks.who, 1, limit_s=60) as workers:
        [first] = _all(workers, [1])
        assert first.answer is not None
        os.kill(first.answer, signal.SIGKILL)
        [second] = _all(workers, [2])
        [third] = _all(workers, [3])
    assert "SIGKILL" in (second.problem or "")
    assert third.answer is not None


@pytest.mark.slow
def test_a_task_without_end_is_given_up_after_its_cpu_seconds() -> None:
    with Workers(tasks.fragile, 1, limit_s=0.5) as workers:
        [report] = _all(workers, [4])
        assert workers.free == 1
        assert workers.cpu_s == report.cpu_s > 0.5
    assert "did not come to an end within 0.5 CPU seconds" in (report.problem or "")


@pytest.mark.slow
def test_a_task_that_waits_for_ever_is_given_up() -> None:
    with Workers(tasks.fragile, 1, limit_s=60, stuck_s=0.5) as workers:
        [report] = _all(workers, [3])
        assert workers.free == 1
    assert "used no processor for 0.5 s" in (report.problem or "")


@pytest.mark.slow
def test_a_task_that_the_machine_lets_wait_is_not_given_up() -> None:
    """A process that is stopped, or gets no processor, has nothing wrong with it."""
    with Workers(tasks.stops_itself, 1, limit_s=60, stuck_s=1) as workers:
        [pid] = (report.answer for report in _all(workers, [0]))
        assert pid is not None
        workers.give(1)
        _until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T")
        assert [workers.wait(0.5) for _ in range(5)] == [[]] * 5
        os.kill(pid, signal.SIGCONT)
        while not (reports := workers.wait(1)):
            pass
        [report] = reports
    assert report.answer == pid


def test_a_task_costs_what_its_clock_says_and_what_came_before_it_costs_nothing() -> None:
    with Workers(tasks.count_up, 1, prepare=tasks.spin_before, limit_s=0.2, clock=tasks.counted) as workers:
        reports = _all(workers, [2, 3])
        assert [report.cpu_s for report in reports] == [2.0, 3.0]
        assert workers.cpu_s == 5.0


def test_the_first_worker_of_a_process_is_born_without_ears_for_a_terminal() -> None:
    """It imports for seconds before it can say that it ignores SIGINT: a traceback would be printed until then."""
    program = (
        "import multiprocessing, pathlib, re\n"
        "from splitbrain.harness.campaigns.workers import Workers\n"
        "from tests.cli import tasks\n"
        "with Workers(tasks.who, 1, limit_s=60):\n"
        "    [first] = multiprocessing.active_children()\n"
        "    print(re.search(r'SigBlk:\\s*(\\w+)', pathlib.Path(f'/proc/{first.pid}/status').read_text())[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), check=True
    )
    blocked = int(done.stdout, 16)
    assert [number.name for number in (signal.SIGINT, signal.SIGHUP) if not blocked >> number - 1 & 1] == []


def test_workers_take_no_notice_of_what_a_terminal_sends_to_all() -> None:
    with Workers(tasks.interrupts, 1, limit_s=60) as workers:
        [report] = _all(workers, [1])
    assert report.answer == "alive"


def test_preparation_comes_before_the_first_task() -> None:
    with Workers(tasks.is_prepared, 1, prepare=tasks.prepare, limit_s=60) as workers:
        [report] = _all(workers, [1])
    assert report.answer is True


def test_busy_workers_are_gone_at_the_end(tmp_path: Path) -> None:
    with Workers(tasks.note_pid_and_sleep, 2, limit_s=600) as workers:
        workers.give(str(tmp_path))
        workers.give(str(tmp_path))
        pids = list(workers.tasks)
        _until(lambda: len(list(tmp_path.iterdir())) == 2)
    assert len(pids) == 2
    assert not [pid for pid in pids if _alive(pid)]


def test_workers_do_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    code = f"from tests.cli.tasks import parent_of_sleepers; parent_of_sleepers({str(tmp_path)!r})"
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment())
    try:
        _until(lambda: len(list(tmp_path.iterdir())) == 2)
    finally:
        parent.kill()
        parent.wait()
    pids = [int(path.name) for path in tmp_path.iterdir()]
    _until(lambda: not [pid for pid in pids if _alive(pid)])


def _all(workers: Workers[int, A], todo: list[int]) -> list[Report[int, A]]:
    """Reports on all of these tasks, given as fast as there are free workers."""
    reports: list[Report[int, A]] = []
    left = list(todo)
    while len(reports) < len(todo):
        while left and workers.free:
            workers.give(left.pop(0))
        reports += workers.wait(1)
    return reports


def _alive(pid: int | None) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
