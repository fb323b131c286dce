"""What a simulation forbids, and what to use instead.

Two tables, because Python has two ways of finding out about a call. *Audit events* are raised by the interpreter itself
for whatever touches files, sockets, processes and threads, however the function was come by. Reading a clock or the
system's entropy raises none: those functions are *replaced* for as long as a simulation runs.
"""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures.thread
import datetime
import functools
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

try:
    import numpy.random

    numpy_random: ModuleType | None = numpy.random
except ImportError:  # the loop alone needs nothing but the standard library
    numpy_random = None

Check: TypeAlias = Callable[[str, str], None]
"""Called with the name of a call and what to use instead; raises if the call is forbidden now."""

_TIME: Final = "Take time from the runtime's clock."
_SLEEP: Final = "Sleep on the runtime's clock: it is virtual, and costs nothing."
_RANDOM: Final = "Draw from one of the runtime's named streams."
_SEED: Final = "Give it a seed drawn from one of the runtime's named streams."
_THREAD: Final = "There is one thread in a simulation: do the work in place, or spawn a task."
_FILE: Final = "Use the runtime's disk; what the harness keeps is kept outside of the simulation."
_NETWORK: Final = "Use the connections of the runtime's network."
_PROCESS: Final = "Processes and signals belong to a backend: there are none in a simulation."
_ORDERED: Final = "It goes by memory addresses or by the version of Python: use splitbrain.harness.ordered.{}."

AUDITED: Final[Mapping[str, str]] = {
    "open": _FILE,
    "os.": _FILE,
    "shutil.": _FILE,
    "tempfile.": _FILE,
    "glob.": _FILE,
    "pathlib.": _FILE,
    "fcntl.": _FILE,
    "mmap.": _FILE,
    "sqlite3.": _FILE,
    "builtins.input": "Nobody answers in a simulation.",
    "socket.": _NETWORK,
    "subprocess.": _PROCESS,
    "os.system": _PROCESS,
    "os.fork": _PROCESS,
    "os.forkpty": _PROCESS,
    "os.exec": _PROCESS,
    "os.posix_spawn": _PROCESS,
    "os.spawn": _PROCESS,
    "os.kill": _PROCESS,
    "os.killpg": _PROCESS,
    "signal.": _PROCESS,
    "pty.": _PROCESS,
    "_thread.": _THREAD,
    "time.sleep": _SLEEP,
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
_DISTRIBUTIONS: Final = (
    *("random", "uniform", "triangular", "randint", "choice", "randrange", "sample", "shuffle", "choices"),
    *("normalvariate", "lognormvariate", "expovariate", "vonmisesvariate", "gammavariate", "gauss", "betavariate"),
    *("binomialvariate", "paretovariate", "weibullvariate", "seed", "getrandbits", "randbytes"),
)
_SECRETS: Final = ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "randbits", "choice")
_LOOKUPS: Final = ("stat", "lstat", "access", "read", "write")
_OF_THE_MACHINE: Final = ("times", "getloadavg")
_SELECTORS: Final = ("select", "poll", "epoll", "kqueue", "devpoll")
_OF_NUMPY: Final = (
    *("rand", "randn", "randint", "random", "random_sample", "ranf", "sample", "random_integers", "choice", "bytes"),
    *("shuffle", "permutation", "uniform", "normal", "standard_normal", "exponential", "poisson", "binomial", "seed"),
)
_WAITS: Final = ("wait", "wait_for", "as_completed")


def _families() -> list[tuple[ModuleType, Sequence[str], str]]:
    """Functions that are forbidden whatever their arguments: their modules, names, and what to use instead."""
    families: list[tuple[ModuleType, Sequence[str], str]] = [
        (time, _CLOCKS, _TIME),
        (time, ("sleep",), _SLEEP),
        (random, _DISTRIBUTIONS, _RANDOM),
        (os, ("urandom", "getrandom"), _RANDOM),
        (uuid, ("uuid1", "uuid4"), _RANDOM),
        (secrets, _SECRETS, _RANDOM),
        (os, _LOOKUPS, _FILE),
        (os, _OF_THE_MACHINE, "It differs from run to run: use what the test says."),
        (select, _SELECTORS, _NETWORK),
    ]
    if numpy_random is not None:
        families.append((numpy_random, _OF_NUMPY, _RANDOM))
    return families


def replacements(check: Check) -> list[Replacement]:
    """All replacements, asking `check`. Make them once: whoever imports one while it is in force keeps it."""
    found: list[Replacement] = []

    def add(owner: Any, name: str, called: str, instead: str, forbids: Forbids = _always) -> None:
        original: Any = owner.__dict__.get(name)
        if original is None:
            return  # another version of Python has it
        substitute: Any = _Substitute(check, original, called, instead, forbids)
        if isinstance(owner, type):
            substitute = _as_method(original, substitute)
        found.append(Replacement(owner, name, original, substitute))

    for name, position in _CALENDARS.items():
        add(time, name, f"time.{name}", _TIME, _without(position))
    add(random.Random, "__init__", "random.Random without a seed", _SEED, _without(1))
    add(random.Random, "seed", "random.Random.seed without a seed", _SEED, _without(1))
    add(random, "_urandom", "random.SystemRandom", _RANDOM)
    if numpy_random is not None:
        add(numpy_random, "default_rng", "numpy.random.default_rng without a seed", _SEED, _without(0))
    for owner, names, instead in _families():
        for name in names:
            add(owner, name, f"{owner.__name__}.{name}", instead)
    add(queue.Queue, "get", "queue.Queue.get", _THREAD)
    add(threading.Thread, "start", "threading.Thread.start", _THREAD)
    add(threading, "_start_new_thread", "_thread.start_new_thread", _THREAD)
    add(_thread, "start_new_thread", "_thread.start_new_thread", _THREAD)
    pool = concurrent.futures.thread.ThreadPoolExecutor
    add(pool, "submit", "concurrent.futures.ThreadPoolExecutor.submit", _THREAD)
    for module in (asyncio, asyncio.tasks):
        for name in _WAITS:
            add(module, name, f"asyncio.{name}", _ORDERED.format(name))
        add(module, "all_tasks", "asyncio.all_tasks", "It goes by memory addresses: keep a list of your own tasks.")
    add(asyncio.TaskGroup, "__init__", "asyncio.TaskGroup", _ORDERED.format("TaskGroup"))
    add(asyncio, "to_thread", "asyncio.to_thread", _THREAD)
    found.append(Replacement(datetime, "datetime", datetime.datetime, _timeless_datetime(check)))
    found.append(Replacement(datetime, "date", datetime.date, _timeless_date(check)))
    return found


class _Substitute:
    """Stands in for a function. No function itself: one would become a method where a class keeps it."""

    def __init__(self, check: Check, original: Any, called: str, instead: str, forbids: Forbids) -> None:
        functools.update_wrapper(self, original)
        self._check = check
        self._original = original
        self._called = called
        self._instead = instead
        self._forbids = forbids

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._forbids([*args, *kwargs.values()]):
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


def _timeless_datetime(check: Check) -> type:
    real = datetime.datetime

    class Timeless(real, metaclass=_Timeless):
        original = real

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return real(*args, **kwargs)

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            check("datetime.datetime.now", _TIME)
            return real.now(tz)

        @classmethod
        def utcnow(cls) -> Any:
            check("datetime.datetime.utcnow", _TIME)
            return real.utcnow()  # pyright: ignore[reportDeprecated] - it is what the caller asked for

        @classmethod
        def today(cls) -> Any:
            check("datetime.datetime.today", _TIME)
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
            check("datetime.date.today", _TIME)
            return real.today()

    return _in_the_name_of(real, Timeless)


def _in_the_name_of(real: type, substitute: type) -> type:
    substitute.__name__, substitute.__qualname__ = real.__name__, real.__qualname__
    substitute.__module__ = real.__module__
    return substitute
