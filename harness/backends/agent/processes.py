"""Nodes as processes: started, killed, paused, resumed and reaped, always with the evidence that the kernel gives.

A node leads its own session. A signal goes to every process of that session and to their descendants, so that a node
that is a wrapper script around the real server, or whose processes lead sessions of their own, is killed and paused
whole.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

from . import syscalls
from .tools import AgentError

POLL_S = 0.005
SIGNAL_TAKES_AT_MOST_S = 5.0
LISTENS_WITHIN_S = 2.0
"""How long a start waits for the node to listen. A node that needs longer has started all the same."""


class Node:
    """What is known of one node's process."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.life = 0
        self.pid: int | None = None
        self.exit: str | None = None
        self.signalled = False
        self.left_others = False

    def begin(self, pid: int) -> None:
        """Take note of a new process."""
        self.pid = pid
        self.life += 1
        self.exit = None
        self.signalled = False
        self.left_others = False

    def lives(self, life: int) -> bool:
        """Whether the process of that life is still there."""
        return self.pid is not None and self.life == life


class Processes:
    """The processes of all nodes. `enter` runs in a new process before it becomes the node."""

    def __init__(self, ports: dict[str, int], enter: Callable[[str], None]) -> None:
        self._nodes = {name: Node(name, port) for name, port in ports.items()}
        self._enter = enter

    # --- what happens to a node -----------------------------------------------------------------------------------

    async def start(self, name: str, argv: list[str], env: dict[str, str], cwd: str, log: str) -> dict[str, Any]:
        """Start a node; wait until it listens, ends, or has had LISTENS_WITHIN_S. A running one is left alone."""
        node = self._nodes[name]
        if node.pid is not None:
            return self.status(name)
        pid = self._spawn(node, argv, {**os.environ, **env}, cwd, log)
        node.begin(pid)
        life = node.life
        deadline = _now() + LISTENS_WITHIN_S
        listening = False
        while node.lives(life) and not listening and _now() < deadline:
            await asyncio.sleep(POLL_S)
            listening = syscalls.listens(pid, node.port)
        status = self.status(name)
        status["evidence"]["listening"] = listening
        if node.life == life and not node.lives(life) and not node.signalled:
            status["failed"] = node.exit
        return status

    async def kill(self, name: str) -> dict[str, Any]:
        """SIGKILL, and wait until the process is reaped and all its descendants have ended."""
        node = self._nodes[name]
        life = node.life
        node.signalled = True
        killed = set[int]() if node.pid is None else _end_family(node.pid)
        await _until(
            lambda: not node.lives(life) and all(map(_has_ended, killed)), f"{name} is still there after SIGKILL"
        )
        return self.status(name)

    async def stop(self, name: str, grace_s: float) -> dict[str, Any]:
        """SIGTERM, and SIGKILL to what is still there after `grace_s`; wait until all of it is gone.

        What is left of a node when its first process ends is killed at once, as in a container. Evidence: "killed" if
        that first process did not end in time, or left others when the signal ended it: a wrapper that does not wait
        for its server has it killed in the middle of its stop.
        """
        node = self._nodes[name]
        if self.status(name)["state"] == "stopped" or node.pid is None:
            return self.status(name)
        life = node.life
        node.signalled = True
        family = {pid: syscalls.began(pid) for pid in syscalls.family(node.pid)}
        # In this order: a paused process takes SIGTERM only once it runs again, and then at once.
        _signal_family(node.pid, signal.SIGTERM)
        _signal_family(node.pid, signal.SIGCONT)
        deadline = _now() + grace_s
        while node.lives(life) and _now() < deadline:
            await asyncio.sleep(POLL_S)
        if node.lives(life):
            status = await self.kill(name)
            status["evidence"]["killed"] = True
            return status
        # Those that led sessions of their own, and have lost their parent, are known here only.
        left = [pid for pid, began in family.items() if began == syscalls.began(pid) and not _has_ended(pid)]
        _send(left, signal.SIGKILL)
        await _until(lambda: all(map(_has_ended, left)), f"what {name} left is still there after SIGKILL")
        status = self.status(name)
        if (left or node.left_others) and node.exit != "exit code 0":
            status["evidence"]["killed"] = True
        return status

    async def pause(self, name: str) -> dict[str, Any]:
        """SIGSTOP, and wait until the kernel shows every process of the node as stopped."""
        node = self._nodes[name]
        life = node.life
        if node.pid is not None:
            _signal_family(node.pid, signal.SIGSTOP)

        def stopped() -> bool:
            if node.pid is None or not node.lives(life):
                return True
            awake = [pid for pid, letter in syscalls.family(node.pid).items() if letter not in "Tt"]
            _send(awake, signal.SIGSTOP)  # one that was forked between the look and the signal
            return not awake

        await _until(stopped, f"{name} still runs after SIGSTOP")
        return self.status(name)

    async def resume(self, name: str) -> dict[str, Any]:
        """SIGCONT, and wait until the kernel shows that the node runs."""
        node = self._nodes[name]
        if node.pid is not None:
            _signal_family(node.pid, signal.SIGCONT)
        await _until(lambda: self.status(name)["state"] != "paused", f"{name} is still stopped after SIGCONT")
        return self.status(name)

    def status(self, name: str) -> dict[str, Any]:
        """What the kernel says of the node's process now."""
        node = self._nodes[name]
        found = None if node.pid is None else syscalls.process_state(node.pid)
        if found is None or found[0] in "ZX":
            self.reap()  # so that its exit status is known at the same time as its end
            ended: dict[str, Any] = {"exit": node.exit} if node.exit else {}
            if node.exit and not node.signalled:
                ended["by_itself"] = True
            return {"state": "stopped", "life": node.life, "evidence": ended}
        paused = found[0] in "Tt"
        evidence: dict[str, Any] = {"pid": node.pid, "stat": found[0]}
        return {"state": "paused" if paused else "running", "life": node.life, "evidence": evidence}

    def members(self, name: str) -> list[int]:
        """The pids of the node's processes, none if it does not run."""
        pid = self._nodes[name].pid
        return [] if pid is None else list(syscalls.family(pid))

    # --- the end ----------------------------------------------------------------------------------------------------

    def reap(self) -> None:
        """Take note of every child that has ended (called on SIGCHLD)."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            node = next((node for node in self._nodes.values() if node.pid == ended.si_pid), None)
            if node is not None:
                # Before the leader is reaped: until then its pid, which is the session's id, cannot be reused.
                node.left_others = bool(_end_family(ended.si_pid))
                node.pid = None
                killed = ended.si_code != os.CLD_EXITED
                node.exit = signal.Signals(ended.si_status).name if killed else f"exit code {ended.si_status}"
            os.waitpid(ended.si_pid, 0)

    async def stop_all(self, grace_s: float) -> None:
        """SIGTERM to every node, SIGKILL to those that are still there after `grace_s`."""
        await asyncio.gather(*(self.stop(name, grace_s) for name in self._nodes), return_exceptions=True)
        for name in self._nodes:
            await self.kill(name)

    def kill_all(self) -> None:
        """SIGKILL to every node, at once and without waiting for it."""
        for node in self._nodes.values():
            if node.pid is not None:
                _end_family(node.pid)

    # --- fork and exec ------------------------------------------------------------------------------------------------

    def _spawn(self, node: Node, argv: list[str], env: dict[str, str], cwd: str, log: str) -> int:
        failure, report = os.pipe()  # both close on exec: end of file means that the node's program runs
        agent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become(node, argv, env, cwd, log, agent)
            except BaseException as error:
                os.write(report, str(error).encode()[:1000])
            finally:
                os._exit(127)
        os.close(report)
        with open(failure, "rb") as file:
            problem = file.read().decode()
        if problem:
            os.waitpid(pid, 0)
            raise AgentError(f"{node.name} cannot be started with {argv[0]!r}: {problem}")
        return pid

    def _become(self, node: Node, argv: list[str], env: dict[str, str], cwd: str, log: str, agent: int) -> None:
        os.setsid()
        syscalls.signal_on_parent_death(signal.SIGKILL)
        if os.getppid() != agent:  # it ended before the request above was in force
            os._exit(127)
        self._enter(node.name)
        nothing = os.open(os.devnull, os.O_RDONLY)
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(cwd)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python's own settings, which exec would pass on
            signal.signal(ignored, signal.SIG_DFL)
        os.execvpe(argv[0], argv, env)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = _now() + SIGNAL_TAKES_AT_MOST_S
    while not condition():
        if _now() > deadline:
            raise AgentError(f"{otherwise} and {SIGNAL_TAKES_AT_MOST_S:g} s")
        await asyncio.sleep(POLL_S)


def _send(pids: Iterable[int], signal_number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal_number)
        except ProcessLookupError:
            continue


def _signal_family(session: int, signal_number: int) -> None:
    _send(syscalls.family(session), signal_number)


def _end_family(session: int) -> set[int]:
    """Kill every process of a node, also those that are forked while this goes on; all that were killed.

    They are stopped first: who loses its parent and leads a session of its own is not found any more.
    """
    found: set[int] = set()
    while new := syscalls.family(session).keys() - found:
        _send(new, signal.SIGSTOP)
        found |= new
    _send(found, signal.SIGKILL)
    return found


def _has_ended(pid: int) -> bool:
    state = syscalls.process_state(pid)
    return state is None or state[0] in "ZX"
