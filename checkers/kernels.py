"""Numba, typed: the decorators of hot kernels, and where their compiled code is kept.

A kernel is compiled once per machine and cached on disk. Set-up does that (`splitbrain prepare`): no compilation falls
into a demo, a test's time limit or the seconds of a verdict.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba  # pyright: ignore[reportMissingTypeStubs]

from checkers.kernel_cache import stamp_with_all_it_uses
from results.errors import EngineError

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
    compile_lazily = njit(nogil=True, cache=True, _nrt=False, forceinline=forceinline)
    try:
        compiled = compile_lazily(function)
    except RuntimeError as error:
        # Numba caches beside the source or in the user's home. A plain user of somebody else's installation who has no
        # home has neither.
        if "no locator available" not in str(error):
            raise
        settings: Any = vars(numba)["config"]
        settings.CACHE_DIR = _private_cache()
        compiled = compile_lazily(function)
    stamp_with_all_it_uses(compiled)
    return cast(F, compiled)


def _private_cache() -> str:
    """A folder for compiled code that nobody else can write: what is in it will be run.

    Raises:
        EngineError: somebody else has taken its name.
    """
    folder = Path(tempfile.gettempdir()) / f"splitbrain-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise EngineError(
            f"{folder} does not belong to this user alone: remove it, or set NUMBA_CACHE_DIR to a folder "
            f"for compiled kernels."
        )
    return str(folder)
