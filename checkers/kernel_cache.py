"""When compiled code may be used again: as long as nothing that went into it has changed.

Numba looks at the file of the kernel alone. What is inlined into it and the constants that it uses come from other
files as well, and an upgrade that touches only those would leave old code running. Here the stamp of a kernel is a hash
of its own byte code and of all that it refers to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from numba.core.caching import IndexDataCacheFile  # pyright: ignore[reportMissingTypeStubs]


def stamp_with_all_it_uses(dispatcher: Any) -> None:
    """Let a kernel's cache go by `fingerprint`.

    Numba has no public way to say so: this replaces the index of the dispatcher's cache, whose stamp is asked for when
    the kernel is first called, so that it may refer to what is defined below it.
    """
    cache = dispatcher._cache
    cache._cache_file = _Index(cache._cache_path, cache._impl.filename_base, dispatcher.py_func)


def fingerprint(function: Callable[..., Any]) -> str:
    """A hash of a function's byte code and, through every name that it uses, of functions, constants and fields."""
    digest = hashlib.sha256()
    for part in sorted(set(_parts(function, set()))):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


class _Index(IndexDataCacheFile):
    def __init__(self, path: str, base: str, function: Callable[..., Any]) -> None:
        self._function = function
        super().__init__(path, base, "")

    @property
    def _source_stamp(self) -> str:
        return fingerprint(self._function)

    @_source_stamp.setter
    def _source_stamp(self, stamp: str) -> None:
        """The base class's stamp is of the file alone."""


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
