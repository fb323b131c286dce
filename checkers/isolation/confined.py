"""A process that does tasks, and may die of any of them: forked from this one, limited, watched, and forked again.

It is forked, not started anew: a fork takes milliseconds, and knows every module and part that this process knows. One
process does task after task as long as it lives, so that a small task costs two messages.

The limits are the kernel's where it has them (`setrlimit`: CPU time, and private memory), so that they hold even if
this process is gone; this process looks as well, for what waits for ever and for memory that the kernel does not count.
"""

from __future__ import annotations

import contextlib
import gc
import io
import math
import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from splitbrain.checkers.isolation.limits import DEFAULT, Limits
from splitbrain.checkers.isolation.watched import Watched, signal_name
from splitbrain.checkers.isolation.wire import Wire, pair
from splitbrain.results.errors import EngineError

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_PATIENCE_S: Final = 0.5
"""How long a process may take to end whose pipe is at its end."""
_SPARE_S: Final = 2.0
"""The kernel counts whole seconds and ends the process without a word: this process should be first."""

_LONG_S: Final = 0.3
"""CPU seconds of a task that may have left much memory behind; to look for it takes a sixth of that."""

_LIKELY_VICTIM: Final = "500"
"""The kernel's score: if memory runs out, it kills a confined process rather than the one that looks after it."""


class Done(msgspec.Struct, Generic[Answer], frozen=True):
    """The answer to a task."""

    answer: Answer


class Stopped(msgspec.Struct, frozen=True):
    """A task that came to no answer.

    Attributes:
        step: what it was doing, as its work named it.
        why: what ended it, in words that can follow the name of what ended.
        details: the traceback, if it was an exception.
    """

    step: str
    why: str
    details: str = ""


class Say:
    """How work in a confined process says what it does, and what it has found so far."""

    def __init__(self, send: Callable[[Any], None], limits: Limits) -> None:
        self._send = send
        self._limits = limits

    def step(self, name: str) -> None:
        """Begin a step. Its time begins anew: what earlier steps used does not count."""
        soft = math.ceil(time.process_time() + self._limits.cpu_s + _SPARE_S)
        _limit(resource.RLIMIT_CPU, soft)
        self._send(_Step(name))

    def found(self, value: Any) -> None:
        """Pass on what was found: it is kept, even if the task comes to no answer."""
        self._send(_Found(value))


Work: TypeAlias = Callable[[Task, Say], Answer]


class Confined(Generic[Task, Answer]):
    """Does tasks in a process of their own, one after the other. A context manager: the process ends with it.

    Args:
        work: what is done with a task. It is called in the other process, as are the functions that it calls; tasks,
            answers and what it has found travel as pickles.
        limits: what each step of a task may take.
    """

    def __init__(self, work: Work[Task, Answer], limits: Limits = DEFAULT) -> None:
        self._work = work
        self._limits = limits
        self._child: _Child | None = None

    def __enter__(self) -> Confined[Task, Answer]:
        """Nothing is started before the first task."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.close()

    def close(self) -> None:
        """End the process, if there is one; the next task gets another."""
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def do(
        self,
        task: Task,
        found: Callable[[Any], None] = lambda _: None,
        stepped: Callable[[str], None] = lambda _: None,
    ) -> Done[Answer] | Stopped:
        """Have a task done.

        Args:
            task: what to do.
            found: called with everything that the work has found, as soon as it says so.
            stepped: called with the name of every step.

        Raises:
            EngineError: no process can be forked.
        """
        used = self._child is not None
        ended = self._done(task, found, stepped)
        if used and isinstance(ended, Stopped) and not ended.step:  # it had died, or was dying, before it began
            self.close()
            return self._done(task, found, stepped)
        return ended

    def _done(self, task: Task, found: Callable[[Any], None], stepped: Callable[[str], None]) -> Done[Answer] | Stopped:
        if self._child is None:
            self._child = _Child(self._work, self._limits)
        finished = False
        try:
            try:
                self._child.wire.send(task)
                ended = self._followed(self._child, found, stepped)
            except BrokenPipeError:
                self.close()
                ended = Stopped("", "died before it began")
            finished = True
            return ended
        finally:
            if not finished:  # an interrupt: what the process says next is not read
                self.close()

    def _followed(
        self, child: _Child, found: Callable[[Any], None], stepped: Callable[[str], None]
    ) -> Done[Answer] | Stopped:
        step = ""
        child.begins()
        while True:
            message = child.heard()
            if isinstance(message, str):
                self.close()
                return Stopped(step, message)
            if isinstance(message, _Step):
                step = message.name
                child.begins()
                stepped(step)
            elif isinstance(message, _Found):
                found(message.value)
            elif isinstance(message, _Printed):
                sys.stderr.write(message.text)
            else:
                if message.spent:
                    self.close()
                end = message.end
                return msgspec.structs.replace(end, step=step) if isinstance(end, Stopped) else end


class _Step(msgspec.Struct, frozen=True):
    name: str


class _Found(msgspec.Struct, frozen=True):
    value: Any


class _Printed(msgspec.Struct, frozen=True):
    text: str


class _End(msgspec.Struct, frozen=True):
    """The end of a task; `spent`: the process holds so much memory that the next task would have too little."""

    end: Any
    spent: bool


class _OverError(Exception):
    """A process is given up."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class _Child:
    """The process, seen from the one that forked it."""

    def __init__(self, work: Work[Any, Any], limits: Limits) -> None:
        self._limits = limits
        self.wire, theirs = pair()
        life, self._life = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # a stream that is closed, or that is no file
                stream.flush()
        everything = signal.valid_signals()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, everything)  # no handler of ours runs in the other process
        try:
            with warnings.catch_warnings():
                # From 3.12 on Python warns of every fork beside threads. What those threads held is not used in there.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                _live(work, limits, theirs, life)
        except OSError as error:
            self.wire.close()
            os.close(self._life)
            raise EngineError(f"no process can be started to judge in: {error.strerror}.") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
            os.close(life)
        self._watched = Watched(pid)
        self._base_bytes = self._watched.resident_bytes()
        self._began_cpu_s = 0.0
        self._ended = False
        self._code: int | None = None

    def begins(self) -> None:
        """A step begins."""
        watched = self._watched
        self._watched = Watched(watched.pid)
        self._began_cpu_s = self._watched.cpu_s()

    def heard(self) -> _Step | _Found | _Printed | _End | str:
        """The next message; or what ended the process, in words that can follow the name of what it did."""
        try:
            return self.wire.receive(self._look)
        except _OverError as over:
            return over.why
        except Exception:  # the end of the pipe, or half a message
            return self._how_it_ended(_PATIENCE_S)

    def _look(self) -> None:
        """Look after a process that says nothing.

        Raises:
            _OverError: it is not to be waited for any longer.
        """
        limits, watched = self._limits, self._watched
        if self._waited(0):
            if not self.wire.waits(0):  # what it has started holds the pipe
                raise _OverError(self._how_it_ended(0))
        elif watched.cpu_s() - self._began_cpu_s > limits.cpu_s:
            raise _OverError(_out_of_time(limits))
        elif watched.resident_bytes() - self._base_bytes > limits.memory_bytes:
            raise _OverError(f"needed more memory than its limit of {limits.memory_bytes >> 20} MB and was stopped")
        elif watched.still_s() > limits.stuck_s:
            raise _OverError(f"used no processor for {limits.stuck_s:g} s and was stopped")

    def _how_it_ended(self, patience_s: float) -> str:
        """What ended the process; one whose pipe is at its end is about to say so."""
        if not self._waited(patience_s):
            return "closed its connection and was stopped"
        code = self._code
        if code is None:
            return "ended"
        if code == -signal.SIGXCPU:
            return _out_of_time(self._limits)
        return f"was ended by {signal_name(-code)}" if code < 0 else f"ended its process with exit code {code}"

    def _waited(self, patience_s: float) -> bool:
        """Wait for the end of the process, so long at most; whether it has ended."""
        ends_s = time.monotonic() + patience_s
        while not self._ended:
            try:
                pid, status = os.waitpid(self._watched.pid, os.WNOHANG)
            except ChildProcessError:  # another has waited for it
                self._ended = True
                break
            if pid:
                self._ended, self._code = True, os.waitstatus_to_exitcode(status)
            elif time.monotonic() >= ends_s:
                break
            else:
                time.sleep(0.001)
        return self._ended

    def end(self) -> None:
        """Kill the process if it is there still, and wait for it."""
        self.wire.close()
        os.close(self._life)
        if not self._waited(0):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._watched.pid, signal.SIGKILL)
            self._waited(math.inf)


def _out_of_time(limits: Limits) -> str:
    return f"did not come to an end within its limit of {limits.cpu_s:g} CPU seconds and was stopped"


# --- in the other process -------------------------------------------------------------------------------------------


def _live(work: Work[Any, Any], limits: Limits, wire: Wire, life: int) -> None:
    """Do tasks until the process that forked this one is gone. Does not return."""
    try:
        _settle(wire, life)
        send = _Sender(wire)
        sys.stdout = sys.stderr = _Voice(send)  # standard output is for the answer of the command
        _serve(work, limits, wire, send)
    except BaseException:  # nothing may reach the code that forked
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(0)


def _settle(wire: Wire, life: int) -> None:
    """Let go of what belongs to the other process: its signals, files and sockets, and what it was about to print."""
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to all; the process that forked decides
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    gc.freeze()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    keep = {0, 1, 2, null, life, *wire.descriptors}
    for name in os.listdir("/dev/fd"):
        # Replaced, not closed: an object that still has the number must not close a file that gets it later.
        if int(name) not in keep:
            with contextlib.suppress(OSError):  # the one that lists the folder
                os.fstat(int(name))
                os.dup2(null, int(name), inheritable=False)
    os.dup2(2, 1)
    _limit(resource.RLIMIT_CORE, 0)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_LIKELY_VICTIM)
    threading.Thread(target=_end_with, args=(life,), name="life", daemon=True).start()


class _Sender:
    """Sends messages, also from several threads of the work."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._lock = threading.Lock()

    def __call__(self, message: Any) -> None:
        content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        with self._lock:
            self._wire.send_pickle(content)


class _Voice(io.TextIOBase):
    """What the work prints, line by line: the process that forked this one prints it where it prints its own."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        super().__init__()
        self._send = send
        self._begun = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        lines, newline, self._begun = (self._begun + text).rpartition("\n")
        if newline:
            self._send(_Printed(lines + newline))
        return len(text)

    def flush(self) -> None:
        text, self._begun = self._begun, ""
        if text:
            self._send(_Printed(text))


def _serve(work: Work[Any, Any], limits: Limits, wire: Wire, send: Callable[[Any], None]) -> None:
    base_bytes = _private_bytes()
    if base_bytes is not None:
        _limit(resource.RLIMIT_DATA, base_bytes + limits.memory_bytes)
    say = Say(send, limits)
    while True:
        try:
            task = wire.receive()
        except EOFError:
            return
        began_s = time.process_time()
        try:
            end: Done[Any] | Stopped = Done(work(task, say))
            spent = False
        except BaseException as error:
            end, spent = _raised(error, limits), True
        if time.process_time() - began_s > _LONG_S:
            # Few objects hold large tables: Python sees no reason to look for cycles among them for many tasks.
            gc.collect()
        held = _private_bytes()
        if base_bytes is not None and held is not None:
            spent = spent or held - base_bytes > limits.memory_bytes // 2
        sys.stderr.flush()
        send(_End(end, spent))


def _raised(error: BaseException, limits: Limits) -> Stopped:
    what = "".join(traceback.format_exception_only(error)).strip().partition("\n")[0]
    if isinstance(error, MemoryError):
        what = f"needed more memory than its limit of {limits.memory_bytes >> 20} MB ({what})"
    elif isinstance(error, SystemExit):
        what = f"tried to end the process ({what})"
    else:
        what = f"raised {what}"
    return Stopped("", what, "".join(traceback.format_exception(error)))


def _private_bytes() -> int | None:
    """The private memory of this process, as the kernel counts it against the limit; None where it does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:")), None)


def _limit(kind: int, soft: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (soft, hard))


def _end_with(life: int) -> None:
    """End when the process that forked this one is gone: a checker may be busy for long."""
    with contextlib.suppress(OSError):
        os.read(life, 1)
    os._exit(0)
