"""Places in the code for error messages: the same on every machine."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import sysconfig
import traceback
from collections.abc import Coroutine, Generator
from types import CodeType, FrameType
from typing import Any, cast

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_ROOT = _HERE.removesuffix(os.path.join("splitbrain", "harness", "simulation", ""))
_LIBRARIES = f"{os.sep}site-packages{os.sep}"
_STANDARD = (
    os.path.dirname(os.path.abspath(asyncio.__file__)) + os.sep,
    os.path.dirname(os.path.abspath(os.__file__)) + os.sep,
    sysconfig.get_path("stdlib") + os.sep,
    "<frozen ",
)


def caller(depth: int = 1) -> str:
    """The place, `file:line`, of the nearest calling frame that is neither the standard library nor this package.

    If that is in an installed library, the place from which the library was called is added.

    Args:
        depth: how many frames to leave out beforehand; 1 begins with the caller of this function.
    """
    nearest = _outside(sys._getframe(depth), library=True)  # pyright: ignore[reportPrivateUsage]
    if nearest is None:
        return "an unknown place"
    described = place(nearest.f_code, nearest.f_lineno)
    if _LIBRARIES in nearest.f_code.co_filename:
        user = _outside(nearest, library=False)
        if user is not None:
            described += f" (called from {place(user.f_code, user.f_lineno)})"
    return described


def waits_at(work: Coroutine[Any, Any, Any] | Generator[Any, Any, Any] | None) -> str:
    """The place, `file:line`, at which a suspended coroutine waits: the innermost one that is not machinery."""
    found = "an unknown place"
    inner: Any = work
    while inner is not None:
        frame: FrameType | None = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None)
        if frame is None:
            break
        if not is_machinery(frame.f_code.co_filename):
            found = place(frame.f_code, frame.f_lineno)
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)
    return found


def place(code: CodeType, line: int | None) -> str:
    """A line of code: its file, relative to this distribution or to the installed libraries if it is there."""
    path = code.co_filename
    if _LIBRARIES in path:
        path = path.rpartition(_LIBRARIES)[2]
    elif path.startswith(_ROOT):
        path = path[len(_ROOT) :]
    return f"{path}:{line}"


def raised_at(failure: BaseException) -> str:
    """Where code that is not of Python's own library raised, or called what raised; "" if no such code did.

    It goes into histories. So it is the same on every machine: Python's library is in other folders there, and its
    lines are others in other versions; code of a system's author is named as it is imported.
    """
    frames = list(traceback.walk_tb(failure.__traceback__))
    for frame, line in reversed(frames):
        code = frame.f_code
        if _LIBRARIES not in code.co_filename and code.co_filename.startswith(_STANDARD):
            continue
        described = place(code, line)
        if not os.path.isabs(described):
            return described
        package = str(frame.f_globals.get("__package__") or "").replace(".", "/")
        return f"{package}/{os.path.basename(described)}".lstrip("/")
    return ""


def is_machinery(path: str) -> bool:
    """Whether a file is of the standard library, or of this package."""
    return _LIBRARIES not in path and (path.startswith(_HERE) or path.startswith(_STANDARD))


def name_of(callback: object) -> str:
    """What a callback is called: the same in every process, unlike its repr."""
    if isinstance(callback, functools.partial):
        return name_of(cast("functools.partial[Any]", callback).func)
    name = getattr(callback, "__qualname__", None)
    return name if isinstance(name, str) else type(callback).__qualname__


def _outside(frame: FrameType | None, *, library: bool) -> FrameType | None:
    while frame is not None:
        path = frame.f_code.co_filename
        if not is_machinery(path) and (library or _LIBRARIES not in path):
            return frame
        frame = frame.f_back
    return None
