"""The agent's entry point: it binds itself to the controller, lays out the fabric and serves requests until the end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, NoReturn

from . import packets, syscalls
from .bridge import Bridge, enter_namespaces, mount_proc
from .freezer import Freezer
from .node_faults import NodeFaults
from .processes import Processes
from .proxies import Proxies
from .receivers import Receivers
from .tools import AgentError

MESSAGE_BYTES = 1 << 20
STOP_GRACE_S = 1.0
TRIALS = 10
"""On a busy machine a packet can come later than one measurement waits for it."""

Handler = Callable[..., Awaitable[Any]]


def main(argv: Sequence[str]) -> NoReturn:
    """Run an agent: `MARKER LINKS DESCRIPTOR`; or try something out, and exit with 1 if it does not work.

    `MARKER probe` is to see whether namespaces work here, and `MARKER "probe packets"` whether faults of packets do.

    MARKER names the controller (`ownership`); DESCRIPTOR is the agent's end of the socket pair. LINKS says how links
    are carried: "namespaces" or "proxy" by this agent, beside the nodes that it runs; "containers" by existing
    networks, whose nodes the agent does not run.
    """
    marker, links = argv[0], argv[1]
    controller = int(marker.split(":")[2])
    # Without namespaces the agent must live to end its nodes' descendants; with them the kernel does.
    syscalls.signal_on_parent_death(signal.SIGTERM if links == "proxy" else signal.SIGKILL)
    if os.getppid() != controller:
        sys.exit("the controller is gone")
    if links in ("probe", "probe packets"):
        _probe(_try_cuts if links == "probe" else _try_packets)
    freezer = Freezer() if os.geteuid() == 0 else None  # before the namespaces that end with this process
    with socket.socket(fileno=int(argv[2])) as channel:
        try:
            if links == "namespaces":
                _enter(channel, freezer)
            elif links == "proxy":
                syscalls.adopt_orphans()
        except AgentError as error:
            channel.send(json.dumps({"id": 0, "error": str(error)}).encode())
            sys.exit(1)
        asyncio.run(_Agent(channel, links, marker, freezer).serve())
    # At once: what the interpreter would do at its end is of no use here, and the controller waits.
    os._exit(0)


def _enter(*held: socket.socket | Freezer | None) -> None:
    """Move into namespaces; the process that stays outside lets go of what is `held`."""
    enter_namespaces()
    first = os.fork()
    if first != 0:
        for end in held:
            if end is not None:
                end.close()
        _, status = os.waitpid(first, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    syscalls.signal_on_parent_death(signal.SIGKILL)
    mount_proc()


async def _try_cuts() -> None:
    bridge = Bridge(["a", "b"])
    bridge.lay_out()
    await bridge.cut([("a", "b")])
    for _ in range(TRIALS):
        seen = await bridge.passes([("a", "b"), ("b", "a")])
        if seen[("a", "b")]:
            raise AgentError("a cut on the bridge did not cut what it should here")
        if seen[("b", "a")]:
            return
    raise AgentError("a cut on the bridge cut more than it should here")


async def _try_packets() -> None:
    problem = await packets.problem()
    if problem is not None:
        raise AgentError(problem)


def _probe(try_out: Callable[[], Coroutine[Any, Any, None]]) -> NoReturn:
    try:
        _enter()
        asyncio.run(try_out())
    except AgentError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"a system call failed: {error}")
    sys.exit(0)


class _Agent:
    """Serves one controller."""

    def __init__(self, channel: socket.socket, links: str, marker: str, freezer: Freezer | None) -> None:
        self._channel = channel
        self._links = links
        self._faults = NodeFaults(marker, self._members, freezer)
        self._fabric: Bridge | Proxies | Receivers | None = None
        self._processes: Processes | None = None
        self._over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def serve(self) -> None:
        """Answer requests until the controller closes its end, asks for the stop, or dies."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._over.set)
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        loop.add_reader(self._channel, self._receive)
        await self._over.wait()
        if self._processes is not None:
            self._processes.kill_all()
        self._faults.close()

    def _members(self, node: str) -> Iterable[int]:
        return () if self._processes is None else self._processes.members(node)

    def _reap(self) -> None:
        if self._processes is not None:
            self._processes.reap()

    def _receive(self) -> None:
        try:
            packet = self._channel.recv(MESSAGE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._over.set()
            return
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(asyncio.get_running_loop().create_task(self._answer(json.loads(packet))))

    async def _answer(self, request: dict[str, Any]) -> None:
        number, name = request.pop("id"), request.pop("op")
        attached: list[socket.socket] = []
        try:
            result = await self._handler(name)(**request)
            if isinstance(result, socket.socket):
                attached.append(result)
                result = None
            reply = {"id": number, "ok": result}
        except AgentError as error:
            reply = {"id": number, "error": str(error)}
        except Exception as error:
            traceback.print_exc()
            reply = {"id": number, "error": f"{name}: {type(error).__name__}: {error}"}
        try:
            socket.send_fds(self._channel, [json.dumps(reply).encode()], [found.fileno() for found in attached])
        except OSError:
            self._over.set()
        finally:
            for found in attached:
                found.close()
        if name == "stop":
            self._over.set()

    def _handler(self, name: str) -> Handler:
        handlers: dict[str, Handler] = {"lay_out": self._lay_out, "join": self._join}
        if self._fabric is not None:
            handlers |= {
                "cut": self._cut,
                "passes": self._passes,
                "dropped": self._dropped,
                "alive": self._fabric.refresh,
                "disturb": self._disturb,
                "disturbed": self._disturbed,
                "stop": self._stop,
                **self._faults.handlers(),
            }
        if self._processes is not None:
            processes = self._processes
            handlers |= {
                "start": processes.start,
                "kill": processes.kill,
                "stop_node": processes.stop,
                "pause": processes.pause,
                "resume": processes.resume,
                "status": self._status,
                "socket": self._socket,
            }
        if name not in handlers:
            raise AgentError(f"the agent cannot {name!r} now")
        return handlers[name]

    async def _lay_out(self, nodes: list[str]) -> dict[str, Any]:
        if self._links == "namespaces":
            fabric = Bridge(nodes)
            fabric.lay_out()
        else:
            fabric = Proxies(nodes)
            await fabric.lay_out()
        listen = fabric.listen_addresses()
        self._fabric = fabric

        def enter(node: str) -> None:
            fabric.enter(node)
            self._faults.enter(node)

        self._processes = Processes({node: port for node, (_, port) in listen.items()}, enter)
        return {"listen": listen, "peers": fabric.peer_addresses()}

    async def _join(self, nodes: dict[str, list[Any]]) -> None:
        """Take over the links between networks that exist: for every node the pid of a process in it, its address."""
        places: dict[str, tuple[int, str]] = {}
        for node, (pid, address) in nodes.items():
            try:
                places[node] = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY), address
            except OSError as error:
                raise AgentError(f"the network of {node} (process {pid}) cannot be entered: {error.strerror}") from None
        fabric = Receivers(places)
        await fabric.lay_out()
        self._fabric = fabric

    async def _status(self, name: str) -> dict[str, Any]:
        assert self._processes is not None
        return self._processes.status(name)

    async def _cut(self, links: list[list[str]]) -> None:
        assert self._fabric is not None
        await self._fabric.cut(_pairs(links))

    async def _passes(self, links: list[list[str]]) -> list[bool]:
        assert self._fabric is not None
        pairs = _pairs(links)
        passed = await self._fabric.passes(pairs)
        return [passed[pair] for pair in pairs]

    async def _dropped(self) -> list[list[Any]]:
        assert self._fabric is not None
        return [[source, destination, count] for (source, destination), count in (await self._fabric.dropped()).items()]

    async def _disturb(self, faults: list[tuple[str, str, dict[str, Any]]]) -> None:
        assert self._fabric is not None
        await self._fabric.disturb({(source, destination): fault for source, destination, fault in faults})

    async def _disturbed(self) -> list[list[Any]]:
        assert self._fabric is not None
        counts = await self._fabric.disturbed()
        return [[source, destination, counted] for (source, destination), counted in counts.items()]

    async def _socket(self) -> socket.socket:
        assert isinstance(self._fabric, Bridge | Proxies)
        return self._fabric.open_socket()

    async def _stop(self) -> None:
        if self._processes is not None:
            await self._processes.stop_all(STOP_GRACE_S)
        self._faults.close()


def _pairs(links: list[list[str]]) -> list[tuple[str, str]]:
    return [(source, destination) for source, destination in links]
