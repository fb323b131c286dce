"""What Python's library answers a program in a simulation: the node's time and randomness, and waiting in order."""

from __future__ import annotations

import asyncio
import random  # noqa: TID251 - a generator that is seeded from the node's stream
import time  # noqa: TID251 - for the calendar only; no clock is read
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation import bans, refusals
from splitbrain.harness.simulation.programs import waiting

_STREAMS: Final = "Use asyncio.open_connection and asyncio.start_server, by the names of nodes."
_ONE_THREAD: Final = "There is one thread in a simulation: do the work in place, or in a task."
_ONE_PROCESS: Final = "A simulated node is one process, without signals."

ADVICE: Final[Mapping[str, str]] = {
    bans.RANDOM: "Draw from the module random: in a simulation it is seeded from the node's stream.",
    bans.FILE: "A simulated node has the files of its data directory, by open() and the functions of os.",
    bans.NETWORK: _STREAMS,
    refusals.NETWORK: _STREAMS,
    bans.THREAD: _ONE_THREAD,
    refusals.THREADS: _ONE_THREAD,
    bans.PROCESS: _ONE_PROCESS,
    refusals.PROCESSES: _ONE_PROCESS,
}
"""What a refusal recommends to a program; code with a runtime gets other advice."""


class Host(msgspec.Struct, frozen=True):
    """What answers rest on.

    Attributes:
        monotonic_ns: the monotonic clock of the host.
        wall_ns: its wall clock.
        rng: the stream of the process.
        hold_up: blocks the process; in nanoseconds.
        end: end the process, with what made it end.
        tasks: its tasks that are not done, in the order of their creation.
    """

    monotonic_ns: Callable[[], int]
    wall_ns: Callable[[], int]
    rng: Rng
    hold_up: Callable[[int], None]
    end: Callable[[BaseException], None]
    tasks: Callable[[], Sequence[asyncio.Task[Any]]]


def answers(host: Host) -> dict[str, Callable[..., Any]]:
    """By the names of calls what answers them."""
    return {**_of_time(host), **_of_chance(host), **_of_asyncio(host), **_of_the_end(host)}


def _of_time(host: Host) -> dict[str, Callable[..., Any]]:
    def sleep(seconds: float) -> None:
        host.hold_up(round(seconds * 1e9))

    def now() -> time.struct_time:
        return time.gmtime(host.wall_ns() // 10**9)

    def strftime(form: str, *_: object) -> str:
        return time.strftime(form, now())

    found: dict[str, Callable[..., Any]] = {
        "time.time": lambda: host.wall_ns() / 1e9,
        "time.time_ns": host.wall_ns,
        "time.sleep": sleep,
    }
    for name in ("monotonic", "perf_counter"):
        found[f"time.{name}"] = lambda: host.monotonic_ns() / 1e9
        found[f"time.{name}_ns"] = host.monotonic_ns
    for name in ("process_time", "thread_time"):  # computing takes no time
        found[f"time.{name}"] = lambda: 0.0
        found[f"time.{name}_ns"] = lambda: 0

    return {
        **found,
        "time.gmtime": lambda *_: now(),
        "time.localtime": lambda *_: now(),
        "time.ctime": lambda *_: time.asctime(now()),
        "time.asctime": lambda *_: time.asctime(now()),
        "time.strftime": strftime,
    }


def _of_chance(host: Host) -> dict[str, Callable[..., Any]]:
    def drawn() -> int:
        return host.rng.below(2**32)

    ours = random.Random(drawn())
    found: dict[str, Callable[..., Any]] = {
        f"random.{name}": getattr(ours, name) for name in bans.DISTRIBUTIONS if hasattr(ours, name)
    }

    def seeded(generator: random.Random, *_: object) -> None:
        random.Random.seed(generator, drawn())

    return {
        **found,
        "random.Random without a seed": seeded,
        "random.Random.seed without a seed": seeded,
    }


def _of_asyncio(host: Host) -> dict[str, Callable[..., Any]]:
    return {
        "asyncio.wait": waiting.wait,
        "asyncio.wait_for": waiting.wait_for,
        "asyncio.as_completed": waiting.as_completed,
        "asyncio.TaskGroup": waiting.task_group,
        "asyncio.all_tasks": lambda *_: set(host.tasks()),
    }


def _of_the_end(host: Host) -> dict[str, Callable[..., Any]]:
    def exit_at_once(code: int) -> None:
        ended = SystemExit(code)
        host.end(ended)  # nothing that the process does from here on has any effect
        raise ended

    return {"os._exit": exit_at_once}
