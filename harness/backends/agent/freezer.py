"""Slow disks: file systems that are frozen and thawed in turns, by a process that outlives its creator.

A frozen file system (FIFREEZE) lets every write and sync wait until it is thawed. Processes that wait cannot even be
killed, so a file system must never stay frozen: the process that freezes is outside the PID namespace that ends with
the agent, and thaws everything when the agent's end of a socket pair is closed, however the agent ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from . import loops
from .tools import AgentError

THAWED_S = 0.005
"""How long everything that waited has, before the next freeze."""
ANSWERS_WITHIN_S = 20.0

_FIFREEZE = 0xC0045877
_FITHAW = 0xC0045878
_MESSAGE_BYTES = 1 << 16


class Freezer:
    """The asking end. Make it before any thread, and before namespaces are entered."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(ANSWERS_WITHIN_S)
        self._one_at_a_time = threading.Lock()
        if os.fork() == 0:
            self._socket.close()
            _serve(theirs)
        theirs.close()

    def learn(self, name: str, directory: int, device: str) -> None:
        """Measure freezing and thawing alone, while the file system of an open directory is not used."""
        self._ask({"op": "learn", "name": name, "device": device}, directory)

    def slow(self, name: str, directory: int, device: str, frozen_ms: float) -> None:
        """Freeze the file system of an open directory for so long, again and again."""
        self._ask({"op": "slow", "name": name, "device": device, "frozen_ms": frozen_ms}, directory)

    def counts(self, name: str) -> dict[str, int]:
        """How often it was frozen ("freezes"), and after how many of these a flush came ("slowed_syncs").

        Many syncs may come through between two freezes, and hardly more than the first have waited: one is counted.
        """
        return self._ask({"op": "counts", "name": name})

    def stop(self, name: str) -> dict[str, int]:
        """Thaw it for good; the counts."""
        return self._ask({"op": "stop", "name": name})

    def close(self) -> None:
        """Release the process; after the last release it thaws everything and ends."""
        self._socket.close()

    def _ask(self, request: dict[str, Any], descriptor: int | None = None) -> dict[str, int]:
        with self._one_at_a_time:
            try:
                message = json.dumps(request).encode()
                socket.send_fds(self._socket, [message], [] if descriptor is None else [descriptor])
                packet = self._socket.recv(_MESSAGE_BYTES)
            except OSError as error:
                raise AgentError(f"the process that freezes file systems does not answer: {error}") from None
        if not packet:
            raise AgentError("the process that freezes file systems is gone")
        answer: dict[str, Any] = json.loads(packet)
        if "error" in answer:
            raise AgentError(answer["error"])
        return answer["ok"]


@dataclass(frozen=True)
class _Own:
    """The flushes that a file system makes because it is thawed, and because it is frozen, with nothing to write."""

    thaw: int
    freeze: int

    @staticmethod
    def of(directory: int, device: str) -> _Own:
        seen: list[int] = []
        for _ in range(2):
            seen.append(loops.flushes(device))
            fcntl.ioctl(directory, _FIFREEZE, 0)
            try:
                seen.append(loops.flushes(device))
            finally:
                fcntl.ioctl(directory, _FITHAW, 0)
        _, frozen, thawed, frozen_again = seen  # the first freeze also writes what was there to write
        return _Own(thaw=thawed - frozen, freeze=frozen_again - thawed)


class _Slow:
    """A file system that is slow."""

    def __init__(self, directory: int, device: str, frozen_s: float, own: _Own) -> None:
        self.directory = directory
        self.device = device
        self.frozen_s = frozen_s
        self.own = own
        self.frozen = False
        self.next = 0.0
        self.freezes = 0
        self.slowed = 0
        self.flushed = 0

    def turn(self) -> None:
        """Freeze it if it is thawed, thaw it if it is frozen."""
        if self.frozen:
            self.flushed = loops.flushes(self.device)
            self.thaw()
            self.next = time.monotonic() + THAWED_S
            return
        fcntl.ioctl(self.directory, _FIFREEZE, 0)
        if self.freezes:
            # A sync that waited may be overtaken by the next freeze, which then makes durable what it has written.
            self.slowed += loops.flushes(self.device) - self.flushed > self.own.thaw + self.own.freeze
        self.frozen = True
        self.freezes += 1
        self.next = time.monotonic() + self.frozen_s

    def thaw(self) -> None:
        """Let everything through."""
        if self.frozen:
            fcntl.ioctl(self.directory, _FITHAW, 0)
            self.frozen = False

    def counts(self) -> dict[str, int]:
        """What was done so far, to what came through since the last freeze as well."""
        passed = not self.frozen and self.freezes > 0 and loops.flushes(self.device) - self.flushed > self.own.thaw
        return {"freezes": self.freezes, "slowed_syncs": self.slowed + passed}


def _serve(channel: socket.socket) -> NoReturn:
    try:
        for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        os.setsid()
        _let_go_of_everything_else(channel.fileno())
        _Server(channel).run()
    finally:
        os._exit(0)


def _let_go_of_everything_else(kept: int) -> None:
    """Close inherited descriptors: this process must not keep a pipe open."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


class _Server:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._slow: dict[str, _Slow] = {}
        self._own: dict[str, _Own] = {}

    def run(self) -> None:
        """Freeze and thaw until the other end is closed."""
        try:
            while True:
                now = time.monotonic()
                wait = min((max(0.0, slow.next - now) for slow in self._slow.values()), default=None)
                if select.select([self._channel], [], [], wait)[0]:
                    message, descriptors, _, _ = socket.recv_fds(self._channel, _MESSAGE_BYTES, 4)
                    if not message:
                        return
                    self._channel.send(json.dumps(self._answer(json.loads(message), descriptors)).encode())
                for slow in self._slow.values():
                    if slow.next <= time.monotonic():
                        slow.turn()
        finally:
            for slow in self._slow.values():
                with contextlib.suppress(OSError):
                    slow.thaw()

    def _answer(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        name = request["name"]
        try:
            if request["op"] == "learn":
                self._learn(name, descriptors.pop(), request["device"])
                return {"ok": {}}
            if request["op"] == "slow":
                self._stop(name)
                if name not in self._own:
                    self._learn(name, os.dup(descriptors[0]), request["device"])
                slow = _Slow(descriptors[0], request["device"], request["frozen_ms"] / 1000, self._own[name])
                slow.turn()
                self._slow[name] = slow
                return {"ok": slow.counts()}
            if request["op"] == "stop":
                return {"ok": self._stop(name)}
            return {"ok": self._slow[name].counts() if name in self._slow else {}}
        except OSError as error:
            return {"error": f"the file system of {name} cannot be frozen or thawed: {error.strerror}"}

    def _learn(self, name: str, directory: int, device: str) -> None:
        try:
            self._own[name] = _Own.of(directory, device)
        finally:
            os.close(directory)

    def _stop(self, name: str) -> dict[str, int]:
        slow = self._slow.pop(name, None)
        if slow is None:
            return {}
        if slow.frozen:
            slow.turn()
            time.sleep(THAWED_S)
        os.close(slow.directory)
        return slow.counts()
