"""Makes calls that would break a simulation's determinism raise an error that names the caller.

    with forbidden() as guard:
        loop.run(main())
    if guard.offence is not None:
        raise guard.offence

The error is raised where the call is made, and its first occurrence is kept: a client's error would else pass for the
answer of a system that did not answer. Only the thread that entered is guarded. What Python itself does while it
imports, logs, warns, collects garbage or prints a traceback is let through, since it changes nothing that a simulation
computes.

What gets past it: functions that were stored elsewhere than in a module's globals before (a default argument, an
attribute of an object), generators of random numbers made before, reading and writing on sockets and files that were
opened before, and C code that asks the operating system itself (a database driver, say).
"""

from __future__ import annotations

import gc
import sys
import weakref
from _thread import allocate_lock, get_ident
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, Final

from splitbrain.harness.simulation.answers import advised
from splitbrain.harness.simulation.bans import AUDITED, PERMITTED, Replacement, replacements
from splitbrain.harness.simulation.places import caller
from splitbrain.results.errors import SimulationError

_LENIENT: Final = frozenset(
    {
        *("importlib._bootstrap", "importlib._bootstrap_external", "_frozen_importlib", "_frozen_importlib_external"),
        *("zipimport", "linecache", "traceback", "warnings", "logging", "logging.handlers", "logging.config"),
        "gettext",
    }
)
"""Modules that may do what they like, and so may what they call."""


_DEPRECATED: Final = "wrapper"
"""What a function that `warnings.deprecated` decorates is called from, without being Python's own doing."""


_FINALIZER: Final = weakref.finalize.__call__.__code__
"""What calls the finalizer of an object that is gone."""


class Guard:
    """Watches one thread.

    Attributes:
        offence: the first forbidden call, None if there was none.
    """

    def __init__(self, entered_by: FrameType | None) -> None:
        self.offence: SimulationError | None = None
        self._entered_by = entered_by

    def lets_pass(self, frame: FrameType | None) -> bool:
        """Whether the call from that frame is by Python itself, callbacks of garbage collection included."""
        # Objects from before the simulation, such as a pool of connections, may be collected during it.
        watchers = [_FINALIZER, *(getattr(callback, "__code__", None) for callback in gc.callbacks)]
        while frame is not None and frame is not self._entered_by:
            if frame.f_code in watchers or (
                frame.f_globals.get("__name__") in _LENIENT and frame.f_code.co_name != _DEPRECATED
            ):
                return True
            frame = frame.f_back
        return False

    def remember(self, offence: SimulationError) -> None:
        """Keep the first offence."""
        if self.offence is None:
            self.offence = offence

    def leave(self) -> None:
        """Keep no frame alive."""
        self._entered_by = None


_guards: dict[int, Guard] = {}
"""The guards in force, by thread."""


@contextmanager
def forbidden() -> Generator[Guard]:
    """Forbid this thread everything that the real world could answer differently next time.

    Raises:
        SimulationError: inside, at a forbidden call. The message says which, where, and what to use instead.
    """
    guard = Guard(sys._getframe(2))  # pyright: ignore[reportPrivateUsage] - past contextlib
    thread = get_ident()
    _patches.install()
    before = _guards.get(thread)
    _guards[thread] = guard
    try:
        yield guard
    finally:
        if before is None:
            _guards.pop(thread, None)
        else:
            _guards[thread] = before
        _patches.remove()
        guard.leave()


@contextmanager
def outside() -> Generator[None]:
    """Lift the ban for this thread: what happens inside belongs to the harness, not to the simulation."""
    thread = get_ident()
    guard = _guards.pop(thread, None)
    try:
        yield
    finally:
        if guard is not None:
            _guards[thread] = guard


def offence(message: str) -> SimulationError:
    """An error that fails the whole run, also if it is caught: for code that refuses a call by other means."""
    error = SimulationError(message)
    guard = _guards.get(get_ident())
    if guard is not None:
        guard.remember(error)
    return error


def _check(call: str, instead: str) -> None:
    """Refuse a call if it is forbidden now."""
    guard = _guards.get(get_ident())
    if guard is None or guard.lets_pass(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
        return
    raise offence(f"{call} was called inside a simulation, at {caller()}. {advised(instead)}")


def _audit(event: str, args: tuple[Any, ...]) -> None:
    """The audit hook: the interpreter calls it for every use of the outside world, by every thread, until it exits."""
    if not _guards or get_ident() not in _guards:
        return
    instead = AUDITED.get(event) or AUDITED.get(event[: event.find(".") + 1])
    if instead is None or event in PERMITTED:
        return
    what = f" of {args[0]!r}" if event == "open" and isinstance(args[0], str | bytes | int) else ""
    _check(event.removesuffix(".__new__") + what, instead)


class _Patches:
    """The replaced functions, in the modules that own them and in those that imported them by name."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._users = 0
        self._audited = False
        self._replacements: list[Replacement] = []
        self._by_original: dict[int, Replacement] = {}
        self._by_substitute: dict[int, Replacement] = {}
        self._imported: list[tuple[dict[str, Any], str, Replacement]] = []
        self._modules_seen: list[object] = []

    def install(self) -> None:
        """Put the substitutes in place, unless another thread did."""
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            try:
                self._prepare()
            except BaseException:
                self._users -= 1  # else every later guard would take the substitutes for being in place
                raise
            for each in self._replacements:
                setattr(each.owner, each.name, each.substitute)
            for names, name, each in self._imported:
                # Something else may have been put there meanwhile.
                if names.get(name) is each.original:
                    names[name] = each.substitute

    def remove(self) -> None:
        """Put the originals back, once no thread needs the substitutes."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            for each in self._replacements:
                setattr(each.owner, each.name, each.original)
            for names, name, each in self._imported:
                if names.get(name) is each.substitute:
                    names[name] = each.original
            if self._imported_since():  # and with them our substitutes
                for names, name, each in _imports_of(self._by_substitute):
                    names[name] = each.original

    def _prepare(self) -> None:
        if not self._audited:
            # Once for the life of the process: Python cannot remove an audit hook.
            sys.addaudithook(_audit)
            self._audited = True
            self._replacements = replacements(_check)
            self._by_original = {id(each.original): each for each in self._replacements}
            self._by_substitute = {id(each.substitute): each for each in self._replacements}
        if self._imported_since():
            self._imported = _imports_of(self._by_original)
            # Held, not only numbered: the id of a module that is gone may be given to another one.
            self._modules_seen = list(sys.modules.values())

    def _imported_since(self) -> bool:
        """Whether other modules are there than at the last look; as many can be others."""
        return list(map(id, sys.modules.values())) != list(map(id, self._modules_seen))


def _imports_of(wanted: dict[int, Replacement]) -> list[tuple[dict[str, Any], str, Replacement]]:
    """Where modules hold one of these objects in their globals; the standard library's own are left alone."""
    found: list[tuple[dict[str, Any], str, Replacement]] = []
    modules: list[tuple[str, object]] = list(sys.modules.items())
    for module_name, module in modules:
        if module_name.partition(".")[0] in sys.stdlib_module_names or not isinstance(module, ModuleType):
            continue
        try:
            names: dict[str, Any] = object.__getattribute__(module, "__dict__")  # a lazy module must not load for this
        except AttributeError:  # a compiled library that cffi shows as a module: it has no globals
            continue
        found += [(names, name, wanted[id(value)]) for name, value in list(names.items()) if id(value) in wanted]
    return found


_patches = _Patches()
