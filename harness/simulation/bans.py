"""What a simulation forbids, and what to use instead.

Two tables, because Python has two ways of finding out about a call. *Audit events* are raised by the interpreter itself
for every use of files, sockets, processes and threads, through any reference to the function. Reading a clock or the
system's entropy raises none: those functions are *replaced* while a simulation runs. Some are replaced only so
that a simulated process can answer them (`answers`): the interpreter refuses them to all others.
"""

from __future__ import annotations

import _thread
import asyncio
import builtins
import concurrent.futures.thread
import datetime
import functools
import io
import os
import queue
import random
import secrets
import select
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, TypeAlias

from splitbrain.harness.simulation.answers import DECLINED, answered, answering

try:
    import numpy.random

    numpy_random: ModuleType | None = numpy.random
except ImportError:  # the loop alone needs nothing but the standard library
    numpy_random = None

Check: TypeAlias = Callable[[str, str], None]
"""Called with the name of a call and what to use instead; raises if the call is forbidden now."""

TIME: Final = "Take time from the runtime's clock."
SLEEP: Final = "Sleep on the runtime's clock: it is virtual, and costs nothing."
RANDOM: Final = "Draw from one of the runtime's named streams."
SEED: Final = "Give it a seed drawn from one of the runtime's named streams."
THREAD: Final = "There is one thread in a simulation: do the work in place, or spawn a task."
FILE: Final = "Use the runtime's disk; what the harness keeps is kept outside of the simulation."
NETWORK: Final = "Use the connections of the runtime's network."
PROCESS: Final = "Processes and signals belong to a backend: there are none in a simulation."
ORDERED: Final = (
    "It goes by memory addresses or by the version of Python: use splitbrain.harness.simulation.ordered.{}."
)

_REAL_DATETIME: Final = datetime.datetime

AUDITED: Final[Mapping[str, str]] = {
    "open": FILE,
    "os.": FILE,
    "shutil.": FILE,
    "tempfile.": FILE,
    "glob.": FILE,
    "pathlib.": FILE,
    "fcntl.": FILE,
    "mmap.": FILE,
    "sqlite3.": FILE,
    "builtins.input": "A simulation has no user who could answer.",
    "socket.": NETWORK,
    "subprocess.": PROCESS,
    "os.system": PROCESS,
    "os.fork": PROCESS,
    "os.forkpty": PROCESS,
    "os.exec": PROCESS,
    "os.posix_spawn": PROCESS,
    "os.spawn": PROCESS,
    "os.kill": PROCESS,
    "os.killpg": PROCESS,
    "signal.": PROCESS,
    "pty.": PROCESS,
    "_thread.": THREAD,
    "time.sleep": SLEEP,
}
"""Audit events, or their first part with its dot, and what to use instead."""

PERMITTED: Final = frozenset({"os.putenv", "os.unsetenv", "os.add_dll_directory"})
"""Audit events of the families above that touch nothing real."""


@dataclass(frozen=True)
class Replacement:
    """A function that is replaced for as long as a simulation runs.

    Attributes:
        owner: the module or class whose attribute it is.
        name: the attribute.
        original: what it is outside of simulations.
        substitute: asks the check, then calls the original.
    """

    owner: Any
    name: str
    original: Any
    substitute: Any


Forbids: TypeAlias = Callable[[Sequence[Any]], bool]
"""From the positional arguments whether such a call is forbidden."""


def _always(_: Sequence[Any]) -> bool:
    return True


def _without(position: int) -> Forbids:
    """Forbids calls that leave out the argument at that position, or give None: they mean now, or the entropy."""
    return lambda args: len(args) <= position or args[position] is None


_CLOCKS: Final = (
    *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"),
    *("process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns"),
)
_CALENDARS: Final = {"localtime": 0, "gmtime": 0, "ctime": 0, "asctime": 0, "strftime": 1}
DISTRIBUTIONS: Final = (
    *("random", "uniform", "triangular", "randint", "choice", "randrange", "sample", "shuffle", "choices"),
    *("normalvariate", "lognormvariate", "expovariate", "vonmisesvariate", "gammavariate", "gauss", "betavariate"),
    *("binomialvariate", "paretovariate", "weibullvariate", "seed", "getrandbits", "randbytes"),
)
_SECRETS: Final = ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "randbits", "choice")
_LOOKUPS: Final = ("stat", "lstat", "access", "read", "write")
_OF_THE_MACHINE: Final = ("times", "getloadavg")
_FILES: Final = (
    *("open", "close", "fsync", "fdatasync", "replace", "rename", "remove", "unlink", "mkdir", "rmdir", "listdir"),
)
_SELECTORS: Final = ("select", "poll", "epoll", "kqueue", "devpoll")
_OF_NUMPY: Final = (
    *("rand", "randn", "randint", "random", "random_sample", "ranf", "sample", "random_integers", "choice", "bytes"),
    *("shuffle", "permutation", "uniform", "normal", "standard_normal", "exponential", "poisson", "binomial", "seed"),
)
_WAITS: Final = ("wait", "wait_for", "as_completed")


def _families() -> list[tuple[ModuleType, Sequence[str], str]]:
    """Functions that are forbidden with any arguments: their modules, names, and what to use instead."""
    families: list[tuple[ModuleType, Sequence[str], str]] = [
        (time, _CLOCKS, TIME),
        (time, ("sleep",), SLEEP),
        (random, DISTRIBUTIONS, RANDOM),
        (os, ("urandom", "getrandom"), RANDOM),
        (uuid, ("uuid1", "uuid4"), RANDOM),
        (secrets, _SECRETS, RANDOM),
        (os, _LOOKUPS, FILE),
        (os, _OF_THE_MACHINE, "It differs from run to run: use what the test says."),
        (select, _SELECTORS, NETWORK),
        (os, ("_exit",), PROCESS),
    ]
    if numpy_random is not None:
        families.append((numpy_random, _OF_NUMPY, RANDOM))
    return families


def replacements(check: Check) -> list[Replacement]:
    """All replacements, which call `check`. Make them once: a module that imports one keeps it."""
    found: list[Replacement] = []

    def add(owner: Any, name: str, called: str, instead: str | None, forbids: Forbids = _always) -> None:
        original: Any = owner.__dict__.get(name)
        if original is None:
            return  # another version of Python has it
        substitute: Any = _Substitute(check, original, called, instead, forbids)
        if isinstance(owner, type):
            substitute = _as_method(original, substitute)
        found.append(Replacement(owner, name, original, substitute))

    for name, position in _CALENDARS.items():
        add(time, name, f"time.{name}", TIME, _without(position))
    add(random.Random, "__init__", "random.Random without a seed", SEED, _without(1))
    add(random.Random, "seed", "random.Random.seed without a seed", SEED, _without(1))
    add(random, "_urandom", "random.SystemRandom", RANDOM)
    if numpy_random is not None:
        add(numpy_random, "default_rng", "numpy.random.default_rng without a seed", SEED, _without(0))
    for owner, names, instead in _families():
        for name in names:
            add(owner, name, f"{owner.__name__}.{name}", instead)
    add(builtins, "open", "open", None)
    add(io, "open", "open", None)
    for name in _FILES:
        add(os, name, f"os.{name}", None)
    add(queue.Queue, "get", "queue.Queue.get", THREAD)
    add(threading.Thread, "start", "threading.Thread.start", THREAD)
    add(threading, "_start_new_thread", "_thread.start_new_thread", THREAD)
    add(_thread, "start_new_thread", "_thread.start_new_thread", THREAD)
    pool = concurrent.futures.thread.ThreadPoolExecutor
    add(pool, "submit", "concurrent.futures.ThreadPoolExecutor.submit", THREAD)
    for module in (asyncio, asyncio.tasks):
        for name in _WAITS:
            add(module, name, f"asyncio.{name}", ORDERED.format(name))
        add(module, "all_tasks", "asyncio.all_tasks", "It goes by memory addresses: keep a list of your own tasks.")
    add(asyncio.TaskGroup, "__init__", "asyncio.TaskGroup", ORDERED.format("TaskGroup"))
    add(asyncio, "to_thread", "asyncio.to_thread", THREAD)
    found.append(Replacement(datetime, "datetime", datetime.datetime, _timeless_datetime(check)))
    found.append(Replacement(datetime, "date", datetime.date, _timeless_date(check)))
    return found


class _Substitute:
    """Stands in for a function. No function itself: one would become a method where a class keeps it.

    Without `instead` it refuses nothing: it is there to be answered.
    """

    def __init__(self, check: Check, original: Any, called: str, instead: str | None, forbids: Forbids) -> None:
        functools.update_wrapper(self, original)
        self._check = check
        self._original = original
        self._called = called
        self._instead = instead
        self._forbids = forbids

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._forbids([*args, *kwargs.values()]):
            if answering() is not None:
                answer = answered(self._called, *args, **kwargs)
                if answer is not DECLINED:
                    return answer
            if self._instead is not None:
                self._check(self._called, self._instead)
        return self._original(*args, **kwargs)


def _as_method(original: Any, substitute: _Substitute) -> Any:
    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        return substitute(*args, **kwargs)

    return method


class _Timeless(type):
    """The type of a class that stands in for a built-in one: the instances are those of the original."""

    original: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.original)


def _shown(tz: datetime.tzinfo | None) -> datetime.datetime | None:
    """What the clock of the simulated process shows that runs now, None if none runs. Its time zone is UTC."""
    seconds = answered("time.time")
    if seconds is DECLINED:
        return None
    shown = _REAL_DATETIME.fromtimestamp(seconds, datetime.UTC)
    return shown.replace(tzinfo=None) if tz is None else shown.astimezone(tz)


def _timeless_datetime(check: Check) -> type:
    real = datetime.datetime

    class Timeless(real, metaclass=_Timeless):
        original = real

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return real(*args, **kwargs)

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            shown = _shown(tz)
            if shown is not None:
                return shown
            check("datetime.datetime.now", TIME)
            return real.now(tz)

        @classmethod
        def utcnow(cls) -> Any:
            shown = _shown(None)
            if shown is not None:
                return shown
            check("datetime.datetime.utcnow", TIME)
            return real.utcnow()  # pyright: ignore[reportDeprecated] - it is what the caller asked for

        @classmethod
        def today(cls) -> Any:
            shown = _shown(None)
            if shown is not None:
                return shown
            check("datetime.datetime.today", TIME)
            return real.today()

    return _in_the_name_of(real, Timeless)


def _timeless_date(check: Check) -> type:
    real = datetime.date

    class Timeless(real, metaclass=_Timeless):
        original = real

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return real(*args, **kwargs)

        @classmethod
        def today(cls) -> Any:
            shown = _shown(None)
            if shown is not None:
                return shown.date()
            check("datetime.date.today", TIME)
            return real.today()

    return _in_the_name_of(real, Timeless)


def _in_the_name_of(real: type, substitute: type) -> type:
    substitute.__name__, substitute.__qualname__ = real.__name__, real.__qualname__
    substitute.__module__ = real.__module__
    return substitute
