"""Work for worker processes, which import it by name."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def square(number: int) -> int:
    """A task that is done."""
    return number * number


def fragile(number: int) -> int:
    """Dies of SIGKILL, ends itself, raises, waits or computes for ever, as the number says."""
    if number == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 1:
        os._exit(7)
    if number == 2:
        raise ValueError("two is wrong")
    if number == 3:
        time.sleep(600)
    while number == 4:
        pass
    return number


_counted = [0.0]


def counted() -> float:
    """A clock that goes on when `count_up` says so."""
    return _counted[0]


def count_up(seconds: int) -> None:
    """Let `counted` go on."""
    _counted[0] += seconds


def spin_before() -> None:
    """Use the processor for half a second."""
    end_s = time.process_time() + 0.5
    while time.process_time() < end_s:
        pass


def who(_: int) -> int:
    """The worker's process id."""
    return os.getpid()


def stops_itself(often: int) -> int:
    """Stop so often, each time until SIGCONT; the process id of the worker."""
    for _ in range(often):
        os.kill(os.getpid(), signal.SIGSTOP)
    return os.getpid()


def hashed(number: int) -> int:
    """Python's own hash of a text."""
    return hash(f"text {number}")


def note_pid_and_sleep(folder: str) -> None:
    """Tell that a task is under way, and never end."""
    (Path(folder) / f"{os.getpid()}").touch()
    time.sleep(600)


def interrupts(_: int) -> str:
    """What a worker does with SIGINT and SIGHUP: it is sent them."""
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGHUP)
    return "alive"


def prepare() -> None:
    """Leave something that tasks can see."""
    sys.modules["prepared_by_test"] = sys.modules[__name__]


def is_prepared(_: int) -> bool:
    """Whether `prepare` ran in this process."""
    return "prepared_by_test" in sys.modules


def parent_of_sleepers(folder: str) -> None:
    """A process with two workers that never end."""
    from splitbrain.harness.campaigns.workers import Workers

    with Workers(note_pid_and_sleep, 2, limit_s=600) as workers:
        workers.give(folder)
        workers.give(folder)
        while True:
            workers.wait(1)
