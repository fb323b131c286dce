"""Numba, typed: the decorator of every hot kernel, and their compilation ahead of use.

A kernel is compiled once per machine and cached on disk. `warm_up` does that at set-up, so that no compilation falls
into a demo, a test's time limit or the seconds of a verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba  # pyright: ignore[reportMissingTypeStubs]

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` with Numba on its first call: without the GIL, cached on disk.

    The function keeps its type. It must stay within what Numba compiles: numbers, tuples and NumPy arrays.
    """
    compile_lazily = cast("Callable[[F], F]", numba.njit(nogil=True, cache=True))  # pyright: ignore
    return compile_lazily(function)


def warm_up() -> None:
    """Compile every kernel, or load it from the cache. Costs seconds the first time, a fraction of one afterwards."""
    from checkers.linearizable import search

    search.warm_up()
