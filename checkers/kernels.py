"""Numba, typed: the decorators of hot kernels, and their compilation ahead of use.

A kernel is compiled once per machine and cached on disk. `warm_up` does that at set-up, so that no compilation falls
into a demo, a test's time limit or the seconds of a verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba  # pyright: ignore[reportMissingTypeStubs]

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` with Numba on its first call: without the GIL, cached on disk, without reference counts.

    The function keeps its type. It must stay within what Numba compiles: numbers, tuples and NumPy arrays. It cannot
    allocate: with Numba's run-time left out no array is counted, which made the search eight times as fast, and a
    kernel that allocates does not compile.
    """
    return _compiled(function, forceinline=False)


def inlined(function: F) -> F:
    """As `kernel`, and always inlined into the kernels that call it.

    A tuple of arrays is passed to a function that is not inlined as dozens of arguments.
    """
    return _compiled(function, forceinline=True)


def _compiled(function: F, *, forceinline: bool) -> F:
    njit: Any = numba.njit  # pyright: ignore[reportUnknownMemberType]
    return cast(F, njit(nogil=True, cache=True, _nrt=False, forceinline=forceinline)(function))


def warm_up() -> None:
    """Compile every kernel, or load it from the cache. Costs seconds the first time, a fraction of one afterwards."""
    from checkers.linearizable import search

    search.warm_up()
