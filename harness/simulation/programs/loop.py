"""The event loop of one simulated process that runs a program in plain asyncio.

Each process has its own loop, on top of the simulation's, like a real process. While a callback of the process runs,
its loop is the running one, so that `asyncio.sleep`, `open_connection`, `time.time` and `open` use its time, network
and disk. A killed process is a loop that never runs again: no task is cancelled and no `finally` runs. Its objects are
kept until the simulation ends: otherwise Python would finalize them.

A call that blocks (`os.fsync`, `time.sleep`) cannot wait for virtual time. It returns at once, and the process is held
up instead: its clock shows the time at which the call would have returned, nothing else of it runs before, and what it
sends in between leaves then.
"""

from __future__ import annotations

import asyncio
import contextvars
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeAlias, TypeVar

from splitbrain.harness.contract.nodes import Address
from splitbrain.harness.simulation.ahead import Ahead
from splitbrain.harness.simulation.answers import Answering
from splitbrain.harness.simulation.guard import offence
from splitbrain.harness.simulation.handles import Ready
from splitbrain.harness.simulation.host import DATA_DIR, ProcessWorld
from splitbrain.harness.simulation.places import caller, name_of
from splitbrain.harness.simulation.process import resolve
from splitbrain.harness.simulation.programs.files import ProgramFiles
from splitbrain.harness.simulation.programs.handles import NumberedFuture, NumberedTask, ProgramTimer
from splitbrain.harness.simulation.programs.library import ADVICE, Host, answers
from splitbrain.harness.simulation.programs.output import LogLines
from splitbrain.harness.simulation.programs.transports import StreamServer, StreamTransport
from splitbrain.harness.simulation.refusals import Unreal
from splitbrain.harness.simulation.streams import StreamEnd

if TYPE_CHECKING:
    from splitbrain.harness.simulation.loop import SimLoop

T = TypeVar("T")

CLOSING_ROUNDS: Final = 3
"""How often the close of a coroutine is repeated, if it awaits again."""

EPHEMERAL_PORT: Final = 32768
"""The ports of connections that a process opens begin here."""

Outside: TypeAlias = tuple[asyncio.AbstractEventLoop | None, TextIO, TextIO]
"""The loop, standard output and standard error that were there before."""

_ANY: Final = (None, "", "0.0.0.0", "::")
"""Hosts that stand for every address of a machine."""


class ProgramLoop(Unreal, Answering):
    """The loop of one process.

    Attributes:
        serving: done when the process serves an address, for the first time. It belongs to the simulation's loop.
    """

    def __init__(self, sim: SimLoop, world: ProcessWorld) -> None:
        self._sim = sim
        self._world = world
        self._process = world.process
        self._network = world.network
        self._ready: deque[Ready] = deque()
        self._scheduled = False
        self._disposed = False
        self._held_until_ns = 0
        self._held: list[Callable[[], None]] = []
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._made = 0
        self._ports = EPHEMERAL_PORT
        self._servers: dict[int, StreamServer] = {}
        self._context = contextvars.Context()
        self._context_of_ends = contextvars.Context()  # within the other, and none can be entered twice
        self._handler: Any = None
        self._debug = False
        self._at_sigterm: Callable[[], object] | None = None
        self._stopping = False
        self._output = LogLines(self._say)
        world.disk.follow(Ahead(lambda: sim.now_ns, self._still_held_ns))
        files = ProgramFiles(world.disk, DATA_DIR, self.hold_up)
        self.answers: Mapping[str, Callable[..., Any]] = {**answers(self._host()), **files.answers()}
        self.advice = ADVICE
        self.serving: asyncio.Future[None] = asyncio.Future(loop=sim)
        sim.adopt(self)

    def _host(self) -> Host:
        return Host(
            monotonic_ns=self._monotonic_ns,
            wall_ns=lambda: self._world.clock.wall_ns() + self._still_held_ns(),
            rng=self._world.rng,
            hold_up=self.hold_up,
            end=self._exit,
            tasks=lambda: [task for task in self._tasks if not task.done()],
        )

    # --- running ----------------------------------------------------------------------------------------------------

    def begin(self, main: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run a program in this process: `main` makes its coroutine."""
        self.call_soon(self._begin, main)

    def _begin(self, main: Callable[[], Coroutine[Any, Any, object]]) -> None:
        try:
            self.create_task(main(), name="main").add_done_callback(self._main_ended)
        except Exception as error:
            self._process.end(error)

    def _main_ended(self, task: asyncio.Task[object]) -> None:
        if self._stopping and (task.cancelled() or task.exception() is None):
            self._process.end()
        elif task.cancelled():
            self._process.end(ProgramEndError("main() was cancelled"))
        else:
            self._process.end(task.exception() or ProgramEndError("main() returned"))

    def _exit(self, error: BaseException) -> None:
        """End by an exit of the program's own, which is no failure if it was asked to stop and says 0."""
        well = self._stopping and isinstance(error, SystemExit) and error.code in (None, 0)
        self._process.end(None if well else error)

    def _schedule(self) -> None:
        if not self._scheduled and not self._disposed:
            self._scheduled = True
            self._sim.call_soon(self._run, context=self._context)

    def _run(self) -> None:
        """Run what is ready, as far as the process may run now."""
        self._scheduled = False
        process = self._process
        if process.state == "paused":
            self._scheduled = True
            process.post(self._run)
        elif process.state == "running" and self._still_held_ns():
            self._scheduled = True
            self._sim.at(self._held_until_ns, lambda: process.post(self._run))
        elif process.state == "running":
            self._let_go()
            outside = self._enter()
            try:
                self._run_batch()
            finally:
                _leave(outside)
            if self._ready or self._held:
                self._schedule()

    def _run_batch(self) -> None:
        ready, process = self._ready, self._process
        for _ in range(len(ready)):
            handle = ready.popleft()
            try:
                handle.context.run(*handle.call)
            except (SystemExit, KeyboardInterrupt) as error:
                self._exit(error)
            except Exception as error:
                self.call_exception_handler({"message": f"{name_of(handle.callback)} failed", "exception": error})
            if process.state != "running" or self._held_until_ns > self._sim.now_ns:
                break

    def _enter(self) -> Outside:
        """Be the loop that runs, and the process that prints; what was before."""
        outside = asyncio._get_running_loop(), sys.stdout, sys.stderr  # pyright: ignore[reportPrivateUsage]
        asyncio._set_running_loop(self)  # pyright: ignore[reportPrivateUsage] - what every loop does
        sys.stdout = sys.stderr = self._output
        return outside

    # --- being held up ----------------------------------------------------------------------------------------------

    def hold_up(self, delay_ns: int) -> None:
        """Let the process do nothing for so long: what it called blocks."""
        self._held_until_ns = max(self._held_until_ns, self._sim.now_ns) + delay_ns

    def _still_held_ns(self) -> int:
        return max(0, self._held_until_ns - self._sim.now_ns)

    def _act(self, action: Callable[[], None]) -> None:
        """Act on the world when the process is no longer blocked, and never if it has ended by then."""
        if self._over():
            return
        if self._held or self._still_held_ns():
            self._held.append(action)
            self._schedule()
        else:
            action()

    def _over(self) -> bool:
        return self._disposed or not self._process.alive()

    def _let_go(self) -> None:
        held, self._held = self._held, []
        for action in held:
            action()

    # --- callbacks, timers, tasks -----------------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds of the host's monotonic clock."""
        return self._monotonic_ns() / 1e9

    def _monotonic_ns(self) -> int:
        return self._world.clock.monotonic_ns() + self._still_held_ns()

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Run `callback` after what is ready already."""
        handle = Ready((callback, *args), contextvars.copy_context() if context is None else context)
        self._ready.append(handle)
        self._schedule()
        return handle  # pyright: ignore[reportReturnType] - it is one in all but its base class

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """`call_soon`: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Run `callback` after `delay` seconds of the host's clock."""
        return self._call_after(max(0, round(delay * 1e9)), callback, args, context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Run `callback` when `time()` is `when`."""
        return self._call_after(max(0, round(when * 1e9) - self._monotonic_ns()), callback, args, context)

    def _call_after(
        self, delay_ns: int, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.TimerHandle:
        context = contextvars.copy_context() if context is None else context
        timer = ProgramTimer((self._monotonic_ns() + delay_ns) / 1e9, callback, args, context)
        delay_ns += self._still_held_ns()
        timer.timer = self._world.clock.call_later(delay_ns, lambda: self._ring(timer))
        return timer

    def _ring(self, timer: ProgramTimer) -> None:
        self.call_soon(timer.run, context=timer.context)

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        self._made += 1
        return NumberedFuture(self._made, self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
        **kwargs: Any,
    ) -> asyncio.Task[T]:
        """A task of this loop. One without a name is called after its number."""
        self._made += 1
        called = f"task-{self._made}" if name is None else str(name)
        task: NumberedTask[T] = NumberedTask(self._made, coro, loop=self, name=called, context=context, **kwargs)
        if not task.done():
            self._tasks[task] = None
            task.add_done_callback(self._forget, context=self._context_of_ends)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    # --- connections ------------------------------------------------------------------------------------------------

    async def create_connection(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """A connection to a port of a node, by the node's name.

        Raises:
            ConnectionRefusedError: the connection was refused.
            TimeoutError: nothing came back within a second.
            OSError: there is no such node.
        """
        _refuse_options("create_connection", options)
        if not host or port is None:
            raise ValueError("host and port was not specified and no sock specified")
        self._ports += 1
        mine = (self._network.node, self._ports)
        end = await self._connect((host, int(port)))
        protocol = protocol_factory()
        waiter = self.create_future()
        transport = StreamTransport(
            self, end, protocol, {"sockname": mine, "peername": (host, port)}, self._act, self._over
        )
        transport.begin(lambda: resolve(waiter, None))
        await waiter
        return transport, protocol

    async def _connect(self, address: Address) -> StreamEnd:
        """Let the simulation connect, and wait for it on this loop."""
        outcome = self.create_future()

        async def connect() -> None:
            try:
                found = await self._network.connect(address)
            except ConnectionError as error:
                if not outcome.done():
                    outcome.set_exception(_as_of_the_system(error))
            else:
                if outcome.done():
                    found.close()  # the caller gave up
                else:
                    outcome.set_result(found)

        self._act(lambda: self._process.spawn(connect(), "connect"))
        return await outcome

    async def create_server(  # pyright: ignore[reportIncompatibleMethodOverride] - Server is for real sockets
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: int | None = None,
        *,
        start_serving: bool = True,
        **options: Any,
    ) -> StreamServer:
        """Serve a port of the node.

        Raises:
            OSError: the port is in use, or the host is not this node.
        """
        _refuse_options("create_server", options)
        if host not in (*_ANY, self._network.node):
            raise OSError(f"{host!r} is no address of {self._network.node}")
        if not port:
            raise offence(f"create_server was called without a port inside a simulation, at {caller()}. Name one.")
        server = StreamServer(self, self, int(port), protocol_factory)
        if start_serving:
            await server.start_serving()
        return server

    def begin_serving(self, server: StreamServer) -> None:
        """Take connections for a server."""

        async def accept(end: StreamEnd) -> None:
            self._accept(server, end)

        self._network.serve(server.port, accept)
        resolve(self.serving, None)

    def end_serving(self, server: StreamServer) -> None:
        """Take no more."""
        if self._process.alive() and not self._disposed:
            self._network.stop(server.port)

    def _accept(self, server: StreamServer, end: StreamEnd) -> None:
        self._ports += 1
        peer = (end.other.link.link[0], self._ports)
        mine = (self._network.node, server.port)

        def begin() -> None:
            protocol = server.factory()
            StreamTransport(self, end, protocol, {"sockname": mine, "peername": peer}, self._act, self._over).begin()

        self.call_soon(begin)

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:
        """What the process does at a stop in good order, for SIGTERM; of other signals there are none."""
        if sig == signal.SIGTERM:
            self._at_sigterm = lambda: callback(*args)
            self._world.stops(self._terminated)

    def remove_signal_handler(self, sig: int) -> bool:
        """The process ends at once again, for SIGTERM; else without effect."""
        if sig == signal.SIGTERM:
            self._at_sigterm = None
        return True

    async def _terminated(self) -> None:
        """Be asked to stop in good order: the process ends when the program does."""
        if self._at_sigterm is not None:
            self._stopping = True
            self.call_soon(self._at_sigterm)
            await asyncio.Future[None](loop=self._sim)

    # --- asyncio's own face -----------------------------------------------------------------------------------------

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Write an error that nothing handled into the node's log, or hand it to the program's own handler."""
        if self._handler is not None and self._process.alive() and not self._disposed:
            self._handler(self, context)
        else:
            self.default_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Write it into the node's log."""
        error = context.get("exception")
        cause = "" if error is None else f": {type(error).__name__}: {error}"
        self._say(f"{context.get('message', 'unhandled error')}{cause}")

    def set_exception_handler(self, handler: Any) -> None:
        """Let `handler(loop, context)` deal with errors that nothing handles; None for the node's log."""
        self._handler = handler

    def get_exception_handler(self) -> Any:
        """What deals with such errors, None for the node's log."""
        return self._handler

    def get_debug(self) -> bool:
        """Whether futures keep the stack of their creation."""
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        """Let futures keep the stack of their creation."""
        self._debug = enabled

    def is_running(self) -> bool:
        """While a callback of the process runs."""
        return asyncio._get_running_loop() is self  # pyright: ignore[reportPrivateUsage]

    def is_closed(self) -> bool:
        """Never: a process is killed, or ends, and its loop with it."""
        return False

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    def _say(self, line: str) -> None:
        if not self._disposed:
            self._world.log(line)

    # --- the end ----------------------------------------------------------------------------------------------------

    def close_later(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Nothing refers any more to an asynchronous generator of this process: close it, if the process lives."""
        if self._process.alive() and not self._disposed:
            self.create_task(_close(generator), name="closing of an asynchronous generator")

    def dispose(self) -> None:
        """Close the rest of the program, without effects on the world."""
        self._disposed = True
        self._ready.clear()
        self._held.clear()
        outside = self._enter()
        try:
            for task in list(self._tasks):
                task._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue] - or it warns, later
                _closed(task.get_coro())
        finally:
            _leave(outside)
        self._tasks.clear()


class ProgramEndError(Exception):
    """The program's `main()` came to its end, and the process with it."""


def _leave(outside: Outside) -> None:
    loop, sys.stdout, sys.stderr = outside
    asyncio._set_running_loop(loop)  # pyright: ignore[reportPrivateUsage] - what every loop does


def _closed(coroutine: Any) -> None:
    """Close a coroutine, also one that awaits in a `finally`."""
    for _ in range(CLOSING_ROUNDS):
        try:
            coroutine.close()
        except BaseException:
            continue
        return


async def _close(generator: AsyncGenerator[Any, Any]) -> None:
    await generator.aclose()


_HARMLESS: Final = frozenset(
    {"family", "proto", "flags", "backlog", "reuse_address", "reuse_port", "keep_alive", "happy_eyeballs_delay"}
    | {"interleave", "all_errors"}
)
"""Options of connections that mean nothing here."""


def _refuse_options(call: str, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in _HARMLESS and value is not None:
            raise offence(
                f"{call} was called with {name} inside a simulation, at {caller()}. Simulated connections are plain "
                "TCP by the names of nodes: remove it."
            )


def _as_of_the_system(error: ConnectionError) -> OSError:
    """As the operating system would say it."""
    text = str(error)
    kinds: tuple[tuple[str, Callable[[str], OSError]], ...] = (
        ("refused", ConnectionRefusedError),
        ("no answer", TimeoutError),
        ("no route", OSError),
    )
    return next((kind(text) for words, kind in kinds if words in text), error)
