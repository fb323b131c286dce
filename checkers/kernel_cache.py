"""Where compiled kernels are kept, and when they may be used again: as long as nothing that went into them has changed.

Numba looks at the file of the kernel alone. What is inlined into it and the constants that it uses come from other
files as well, and an upgrade that touches only those would leave old code running. Here the stamp of a kernel is a hash
of its own byte code and of all that it refers to.

A kernel is looked for in two places: beside the code, where `splitbrain prepare` puts it at installation, and, where
this user cannot write there, in a folder of the user's own. So an installation that is read-only serves all its users
if it was prepared by its owner, and each of them compiles once if it was not. NUMBA_CACHE_DIR overrides both.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import numba  # pyright: ignore[reportMissingTypeStubs]
from llvmlite import binding  # pyright: ignore[reportMissingTypeStubs]
from numba.core import caching  # pyright: ignore[reportMissingTypeStubs]

from splitbrain.results.cachefolder import kept_for_user
from splitbrain.results.errors import EngineError

_log: Final = logging.getLogger(__name__)
_caching: Final[Any] = caching
_binding: Final[Any] = binding


def dispatcher(function: Callable[..., Any], *, forceinline: bool) -> Any:
    """Numba's dispatcher of a kernel, which is compiled for the types with which it is called.

    Numba has no public way to say where compiled code is kept and by what stamp: this sets the dispatcher's cache.
    """
    njit: Any = numba.njit  # pyright: ignore[reportUnknownMemberType]
    made = njit(nogil=True, _nrt=False, forceinline=forceinline)(function)
    made._cache = _Cache(function)
    return made


def fingerprint(function: Callable[..., Any]) -> str:
    """A hash of a function's byte code and, through every name that it uses, of functions, constants and fields."""
    digest = hashlib.sha256()
    for part in sorted(set(_parts(function, set()))):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def is_kept(function: Callable[..., Any]) -> bool:
    """Whether a kernel, as it is now, has been compiled before, so that loading it takes no time to compile it.

    Args:
        function: the function as it was written (`Kernel.py_func`).
    """
    return _Cache(function).is_filled()


def users_folder() -> Path:
    """The user's folder for compiled kernels of this version of splitbrain, of Numba, and of the processor.

    Raises:
        EngineError: there is no folder that this user alone can write.
    """
    kind = f"{version('splitbrain')}-numba{numba.__version__}-{_binding.get_host_cpu_name()}"
    return kept_for_user("kernels", kind) or _private_folder() / kind


def _private_folder() -> Path:
    """A folder of this user alone, for one who has no home: what is in it will be run.

    Raises:
        EngineError: another user has taken its name.
    """
    folder = Path(tempfile.gettempdir()) / f"splitbrain-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise EngineError(
            f"{folder} does not belong to this user alone: remove it, or set NUMBA_CACHE_DIR to a folder "
            f"for compiled kernels."
        )
    return folder


@cache
def _announce_once() -> None:
    """Say once in a process that kernels are compiled, and where they are kept.

    A kernel is compiled when it is first called, so that several commands may compile, each its own kernels. Python
    prints a warning on standard error where no logging is set up.
    """
    _log.warning(
        "splitbrain: compiling those kernels of the checkers that this command is the first to need; they are kept in "
        "%s. `splitbrain prepare` compiles all of them at once: about a minute",
        os.environ.get("NUMBA_CACHE_DIR") or _kept_in(),
    )


def _kept_in() -> str:
    """The folder of compiled kernels in words: that of the code if this user can write there, else the user's own."""
    beside = Path(__file__).parent
    return f"__pycache__ below {beside}" if os.access(beside, os.W_OK) else str(users_folder())


class _UsersLocator(_caching.InTreeCacheLocator):
    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        self._cache_path = str(users_folder() / function.__module__)


class _Place(_caching.CompileResultCacheImpl):
    _locator_classes = (_caching.UserProvidedCacheLocator, _caching.InTreeCacheLocator, _UsersLocator)


class _Index(_caching.IndexDataCacheFile):
    """The files of one kernel in one folder. The stamp is asked for when the kernel is first called.

    By then it may refer to what is defined below it.
    """

    def __init__(self, path: str, base: str, function: Callable[..., Any]) -> None:
        self._function = function
        super().__init__(path, base, "")

    @property
    def _source_stamp(self) -> str:
        return fingerprint(self._function)

    @_source_stamp.setter
    def _source_stamp(self, stamp: str) -> None:
        """The base class's stamp is of the file alone."""


class _Cache(_caching.FunctionCache):
    """Compiled code of one kernel: written where this user can write, and read beside the code as well."""

    _impl_class = _Place

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        base = self._impl.filename_base
        self._cache_file = _Index(self._cache_path, base, function)
        beside = Path(function.__code__.co_filename).parent / "__pycache__"
        self._beside_the_code = _Index(str(beside), base, function)

    def is_filled(self) -> bool:
        """Whether there is compiled code of the kernel, for any types."""
        return any(place._load_index() for place in (self._cache_file, self._beside_the_code))

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        key = self._index_key(sig, target_context.codegen())
        for place in (self._cache_file, self._beside_the_code):
            data = place.load(key)
            if data is not None:
                return self._impl.rebuild(target_context, data)
        _announce_once()
        return None


def _parts(function: Any, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    code: CodeType = function.__code__
    name = f"{function.__module__}.{function.__qualname__}"
    yield f"{name} {code.co_code.hex()} {code.co_consts!r} {code.co_names!r} {code.co_varnames!r}"
    for used in code.co_names:
        value = function.__globals__.get(used)
        yield from _value(f"{name}.{used}", value, code, seen)


def _value(name: str, value: Any, code: CodeType, seen: set[int]) -> Iterator[str]:
    of_kernel = getattr(value, "py_func", None)
    if of_kernel is not None:
        yield from _parts(of_kernel, seen)
    elif isinstance(value, FunctionType):
        yield from _parts(value, seen)
    elif isinstance(value, ModuleType):
        for used in code.co_names:
            if value.__name__.partition(".")[0] not in ("numpy", "numba", "math"):
                yield from _value(f"{name}.{used}", getattr(value, used, None), code, seen)
    elif hasattr(value, "_fields"):
        yield f"{name} {value._fields}"
    elif isinstance(value, int | float | str) or hasattr(value, "dtype"):
        yield f"{name} {value!r}"
