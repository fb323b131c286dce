"""Hot functions in two forms: as the Python that they are written in, and compiled with Numba.

To import Numba and load what it has compiled takes most of a CPU second, in which plain Python judges a history of
thousands of ops. So each kernel runs as plain Python until about as much has been spent on plain runs, or until one
call would take as much by itself; from then on all kernels of the process run compiled. However long the work turns
out to be, this costs at most about twice what the better choice would have cost (the ski rental problem: Karlin,
Manasse, Rudolph and Sleator 1988). Both forms do the same to the same arrays, so that a search may change over in the
middle.

What Numba compiles it compiles once per installation and keeps on disk (`splitbrain.checkers.kernel_cache`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Any, Final, ParamSpec, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")

PLAIN_S: Final = 0.5
"""CPU seconds of a process for plain runs: a little less than it takes to load the compiled kernels."""

PLAIN_S_PER_ELEMENT: Final = 3e-6
"""What a plain run takes for each element of its largest array, about: kernels are linear, or stop after a budget."""

PLAIN_BUDGET: Final = 300
"""Steps of a plain search between two looks at the clock, and at whether it should go on compiled."""


def kernel(function: F) -> F:
    """Let `function` run as plain Python or compiled: without the GIL, cached on disk, without reference counts.

    The function keeps its type. It must stay within what Numba compiles: numbers, tuples and NumPy arrays. It cannot
    allocate: with Numba's run-time left out no array is counted, which made the search eight times as fast, and a
    kernel that allocates does not compile. It must mean the same in both forms: 64-bit numbers wrap around in both, and
    narrower ones only in Python, so that they are widened (`np.int64(...)`) before they are multiplied or shifted.
    """
    return cast(F, Kernel(function, forceinline=False))


def inlined(function: F) -> F:
    """As `kernel`, and always inlined into the kernels that call it.

    A tuple of arrays is passed to a function that is not inlined as dozens of arguments.
    """
    return cast(F, Kernel(function, forceinline=True))


def plainly(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Run a kernel as plain Python, also in a process that runs compiled ones: for small calls."""
    # Products of hashes wrap around on purpose; only NumPy's scalars warn of it.
    with np.errstate(over="ignore"):
        return cast(Any, function).plain(*args, **named)


def use_compiled() -> None:
    """Run all kernels compiled from now on in this process: for one that has a lot to judge."""
    _process.compiled = True


def budget(steps: int) -> int:
    """How many steps a kernel that stops and goes on should be given: `steps`, or fewer while it runs as Python."""
    return steps if _process.compiled else min(steps, PLAIN_BUDGET)


def cpu_s() -> float:
    """CPU seconds of this thread, without those in which kernels were compiled or loaded.

    How long a history takes, and whether its time is up, does not depend on who is the first to need a kernel.
    """
    return time.thread_time() - getattr(_loading, "seconds", 0.0)


class Kernel:
    """A kernel: called, it chooses its form.

    Attributes:
        py_func: the function as it was written. The kernels that it calls choose for themselves: see `plain`.
    """

    def __init__(self, function: Callable[..., Any], *, forceinline: bool) -> None:
        self.py_func = cast(FunctionType, function)
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        self._forceinline = forceinline
        self._loaded = False

    def __call__(self, *args: Any) -> Any:
        """Run the kernel in the form that this process uses by now."""
        if not _process.compiled and _process.can_afford(args):
            began = time.thread_time()
            try:
                with np.errstate(over="ignore"):
                    return self.plain(*args)
            finally:
                _process.spent_s += time.thread_time() - began
        _process.compiled = True
        if not self._loaded:
            self._load(args)
        return self.compiled(*args)

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The function with the plain forms of the kernels that it calls."""
        own = self.py_func
        names = {
            name: value.plain
            for name in own.__code__.co_names
            if isinstance(value := own.__globals__.get(name), Kernel)
        }
        return FunctionType(own.__code__, {**own.__globals__, **names}, own.__name__, own.__defaults__, own.__closure__)

    @cached_property
    def compiled(self) -> Any:
        """Numba's dispatcher of the function, which compiles it on its first call or finds it on disk."""
        from splitbrain.checkers.kernel_cache import dispatcher

        return dispatcher(self.py_func, forceinline=self._forceinline)

    @property
    def _numba_type_(self) -> Any:
        """What Numba takes this object for where a kernel calls another one."""
        return self.compiled._numba_type_

    def _load(self, args: tuple[Any, ...]) -> None:
        began = time.thread_time()
        import numba  # pyright: ignore[reportMissingTypeStubs]

        typed: Any = numba
        self.compiled.compile(tuple(typed.typeof(each) for each in args))
        self._loaded = True
        _loading.seconds = getattr(_loading, "seconds", 0.0) + time.thread_time() - began


class _Process:
    """Which form the kernels of this process have, and the CPU seconds that plain runs took."""

    def __init__(self) -> None:
        self.compiled = False
        self.spent_s = 0.0

    def can_afford(self, args: tuple[Any, ...]) -> bool:
        """Whether a plain run on these arguments is expected to end within the allowance."""
        return self.spent_s + PLAIN_S_PER_ELEMENT * _largest(args) < PLAIN_S


def _largest(args: tuple[Any, ...]) -> int:
    """Elements of the largest array among the arguments and in their tuples."""
    found = 0
    for each in args:
        if isinstance(each, np.ndarray):
            found = max(found, each.size)
        elif isinstance(each, tuple):
            found = max(found, _largest(cast("tuple[Any, ...]", each)))
    return found


_process: Final = _Process()
_loading: Final = threading.local()
