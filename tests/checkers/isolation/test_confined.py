"""A confined process may do anything: its task has an end with a reason, and the next task is done."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from splitbrain.checkers.isolation import confined
from splitbrain.checkers.isolation.confined import Confined, Done, Say, Stopped
from splitbrain.checkers.isolation.limits import Limits
from splitbrain.checkers.isolation.watched import signal_name
from splitbrain.results.arrow import read_parquet, write_parquet
from splitbrain.results.errors import EngineError, UsageError

TIGHT = Limits(cpu_s=1.0, memory_mb=256, stuck_s=2.0)


def work(task: str, say: Say) -> Any:
    """Do what the name of the task says."""
    say.step(f"doing {task}")
    return TASKS[task]()


def end_without_a_word() -> None:
    os._exit(0)


def exit_() -> None:
    sys.exit("no reason")


def overflow() -> None:
    ctypes.string_at(1)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def raise_() -> None:
    raise ZeroDivisionError("nothing fits")


def interrupt() -> None:
    raise KeyboardInterrupt


def compute() -> None:
    while True:
        pass


def compute_without_a_gil() -> None:
    ones = np.ones(1 << 20)
    while True:
        np.sort(ones[::-1])


def ignore_its_limit() -> None:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    compute()


def sleep() -> None:
    time.sleep(600)


def wait_for_itself() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def eat_lists() -> None:
    eaten = []
    while True:
        eaten.append(bytes(1 << 20))


def eat_arrow() -> None:
    eaten = [pa.array(np.zeros(1 << 17)) for _ in range(1 << 10)]
    assert not eaten


def eat_shared() -> None:
    eaten = mmap.mmap(-1, 1 << 30)
    for place in range(0, 1 << 30, 4096):
        eaten[place] = 1
    sleep()


def leave_a_child_behind() -> None:
    if os.fork() == 0:
        time.sleep(2)
        os._exit(0)
    os._exit(3)


def print_() -> str:
    print("from standard output")
    print("from standard error", file=sys.stderr)
    return "printed"


TASKS: dict[str, Callable[[], Any]] = {
    "pid": os.getpid,
    "sockets": lambda: [os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd") if _is_open(each)],
    **{
        each.__name__: each
        for each in (
            *(end_without_a_word, exit_, overflow, kill, raise_, interrupt, compute, compute_without_a_gil),
            *(ignore_its_limit, sleep, wait_for_itself, eat_lists, eat_arrow, eat_shared, leave_a_child_behind, print_),
        )
    },
}


def _is_open(name: str) -> bool:
    return Path(f"/proc/self/fd/{name}").exists()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("end_without_a_word", "ended its process with exit code 0"),
        ("exit_", "tried to end the process (SystemExit: no reason)"),
        ("overflow", "was ended by SIGSEGV"),
        ("kill", "was ended by SIGKILL (the kernel does that when memory runs out)"),
        ("raise_", "raised ZeroDivisionError: nothing fits"),
        ("interrupt", "raised KeyboardInterrupt"),
        ("compute", "did not come to an end within its limit of 1 CPU seconds and was stopped"),
        ("compute_without_a_gil", "did not come to an end within its limit of 1 CPU seconds and was stopped"),
        ("ignore_its_limit", "did not come to an end within its limit of 1 CPU seconds and was stopped"),
        ("sleep", "used no processor for 2 s and was stopped"),
        ("wait_for_itself", "used no processor for 2 s and was stopped"),
        ("eat_lists", "needed more memory than its limit of 256 MB"),
        ("eat_arrow", "needed more memory than its limit of 256 MB"),
        ("eat_shared", "needed more memory than its limit of 256 MB"),
        ("leave_a_child_behind", "ended its process with exit code 3"),
    ],
)
def test_every_way_to_end_badly_is_named_and_the_next_task_is_done(task: str, why: str) -> None:
    with Confined(work, TIGHT) as by:
        first = by.do("pid")
        ended = by.do(task)
        assert isinstance(ended, Stopped), ended
        assert ended.step == f"doing {task}"
        assert ended.why.startswith(why)
        after = by.do("pid")
    assert isinstance(first, Done)
    assert isinstance(after, Done)
    assert first.answer != after.answer
    assert not [each for each in (first.answer, after.answer) if Path(f"/proc/{each}").exists()]


def test_one_process_does_all_tasks_as_long_as_it_lives() -> None:
    with Confined(work, TIGHT) as by:
        answers = [by.do("pid") for _ in range(50)]
    assert len({each.answer for each in answers if isinstance(each, Done)}) == 1


def test_a_process_that_died_without_a_task_is_replaced() -> None:
    with Confined(work, TIGHT) as by:
        first = by.do("pid")
        assert isinstance(first, Done)
        os.kill(first.answer, signal.SIGKILL)
        while "Z" not in Path(f"/proc/{first.answer}/stat").read_text().rpartition(") ")[2]:
            time.sleep(0.001)
        second = by.do("pid")
    assert isinstance(second, Done)
    assert second.answer != first.answer


@pytest.mark.slow
def test_every_step_has_the_whole_time() -> None:
    def steps(count: int, say: Say) -> int:
        for number in range(count):
            say.step(f"{number}")
            until_s = time.process_time() + 0.7
            while time.process_time() < until_s:
                pass
        return count

    with Confined(steps, TIGHT) as by:
        assert by.do(4) == Done(4)


def test_what_was_found_before_the_end_is_kept() -> None:
    def finds(_: None, say: Say) -> None:
        say.step("finding")
        for number in range(1000):
            say.found(number)
        os._exit(1)

    found: list[int] = []
    with Confined(finds, TIGHT) as by:
        ended = by.do(None, found.append)
    assert isinstance(ended, Stopped)
    assert found == list(range(1000))


def test_a_process_that_dies_within_a_message_is_noticed_though_its_child_holds_the_pipe() -> None:
    def cut_off(_: None, say: Say) -> None:
        say.step("sending")
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        [writes] = [each for each in os.listdir("/proc/self/fd") if _is_pipe_to_write(each)]
        os.write(int(writes), (1 << 20).to_bytes(8, "little") + b"not a megabyte")
        os._exit(4)

    with Confined(cut_off, TIGHT) as by:
        assert by.do(None) == Stopped("sending", "ended its process with exit code 4")


def _is_pipe_to_write(name: str) -> bool:
    file = Path(f"/proc/self/fd/{name}")
    try:
        flags = int(Path(f"/proc/self/fdinfo/{name}").read_text().split("flags:")[1].split()[0], 8)
        return os.readlink(file).startswith("pipe:") and int(name) > 2 and flags & os.O_ACCMODE == os.O_WRONLY
    except OSError:
        return False


def test_that_no_process_can_be_forked_is_an_error_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    before = len(os.listdir("/proc/self/fd"))
    with Confined(work, TIGHT) as by, pytest.raises(EngineError, match="no process can be started to judge in"):
        by.do("pid")
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_printed_there_is_no_part_of_the_answer(capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    with Confined(work, TIGHT) as by:
        assert by.do("print_") == Done("printed")
    out, err = capfd.readouterr()
    assert (out, err) == ("before\n", "from standard output\nfrom standard error\n")


def test_the_process_holds_no_file_and_no_socket_of_the_one_that_forked_it(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w"), Confined(work, TIGHT) as by:
        ended = by.do("sockets")
    assert isinstance(ended, Done)
    assert str(tmp_path / "open") not in ended.answer


def test_an_interrupt_ends_the_process_and_stays_an_interrupt() -> None:
    def stepped(_: str) -> None:
        raise KeyboardInterrupt

    with Confined(work, TIGHT) as by:
        first = by.do("pid")
        assert isinstance(first, Done)
        with pytest.raises(KeyboardInterrupt):
            by.do("sleep", stepped=stepped)
        assert not Path(f"/proc/{first.answer}").exists()
        assert isinstance(by.do("pid"), Done)


def test_a_process_that_holds_much_of_its_memory_after_a_task_is_replaced() -> None:
    held: list[bytearray] = []

    def holds(count_mb: int, say: Say) -> int:
        held.append(bytearray(count_mb << 20))
        return os.getpid()

    with Confined(holds, TIGHT) as by:
        first, second, third = (by.do(count_mb) for count_mb in (1, 200, 1))
    assert all(isinstance(each, Done) for each in (first, second, third)), "else the third would have had too little"
    assert first == second
    assert second != third


@pytest.mark.slow
def test_the_process_ends_with_the_one_that_forked_it() -> None:
    program = """
import os, sys
from tests.checkers.isolation.test_confined import *
def busy(task, say):
    say.step("busy")
    say.found(os.getpid())
    compute()
with Confined(busy, Limits()) as by:
    by.do(None, lambda pid: (print(pid, flush=True), os.kill(os.getpid(), signal.SIGKILL)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=Path.cwd())
    child = int(done.stdout)
    ends_s = time.monotonic() + 60
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text():
        assert time.monotonic() < ends_s
        time.sleep(0.01)


@pytest.mark.slow
def test_a_fork_beside_arrows_threads_reads_files(tmp_path: Path) -> None:
    """Arrow's threads are not there in the other process: it must make its own."""
    file = tmp_path / "table.parquet"
    columns: dict[str, Any] = {f"c{number}": np.arange(10_000) for number in range(20)}
    write_parquet(pa.Table.from_pydict(columns), file)

    def reads(_: int, say: Say) -> int:
        return read_parquet(file).num_rows

    for _ in range(50):
        assert read_parquet(file).num_rows == 10_000
        with Confined(reads, Limits(stuck_s=20.0)) as by:
            assert by.do(0) == Done(10_000)


@pytest.mark.parametrize("wrong", [{"cpu_s": 0.0}, {"cpu_s": -1.0}, {"cpu_s": float("nan")}, {"memory_mb": 1}])
def test_limits_with_which_nothing_can_be_judged_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--checker-"):
        Limits(**wrong)


def test_processes_that_judge_at_once_share_the_memory() -> None:
    alone, four = Limits().memory_bytes, Limits(at_once=4).memory_bytes
    assert alone // 5 < four < alone // 3
    assert Limits(memory_mb=100, at_once=4).memory_bytes == 100 << 20


def test_a_signal_without_a_name_has_its_number() -> None:
    assert signal_name(40) == "signal 40"


_left: list[weakref.ref[Any]] = []


class _Loop:
    """What only the collector of cycles can free."""

    def __init__(self) -> None:
        self.itself = self


def _leave_a_loop(_: str, __: Say) -> int:
    """How many of the loops that earlier tasks left are there still."""
    there = sum(each() is not None for each in _left)
    _left.append(weakref.ref(_Loop()))
    return there


@pytest.mark.parametrize(("long_s", "kept"), [(0.0, 0), (1e9, 3)], ids=["long tasks", "short tasks"])
def test_what_a_long_task_leaves_behind_is_freed_before_the_next(
    monkeypatch: pytest.MonkeyPatch, long_s: float, kept: int
) -> None:
    monkeypatch.setattr(confined, "_LONG_S", long_s)
    with Confined(_leave_a_loop) as by:
        answers = [by.do("") for _ in range(4)]
    assert answers[-1] == Done(kept)
