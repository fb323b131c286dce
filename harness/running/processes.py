"""Client processes: which process carries out an op, on which node, and its completion.

A process is single-threaded. If the outcome of its op is unknown (`info`) it has crashed: its client is closed, and its
thread continues with a new process and a new client on the same node, as in Jepsen. With `Test.sharing` the client may
survive that, and several threads of a node may use one (`splitbrain.harness.running.clients`). Clients are opened
inside the op that first needs them, so that a node that does not answer delays only its own processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from splitbrain.harness import validate
from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import Client, Test
from splitbrain.harness.running.blocked import BlockedError
from splitbrain.harness.running.clients import Opened, Place, places, survives
from splitbrain.harness.running.deadlines import finished, within
from splitbrain.harness.running.journal import Journal
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.results.nonsense import CLIENT_FAILED

REOPEN_PAUSE_NS = 100_000_000
"""How long an op that could not get a connection waits before it is recorded as `fail`: a dead node does not spin."""

CLOSE_LIMIT_S = 2.0
"""How long a client may take to close."""


class Thread:
    """One client thread: where its current process finds its client, and the op in progress."""

    __slots__ = ("deadline_ns", "node", "number", "op", "place", "sent", "task", "used")

    def __init__(self, number: int, node: NodeId, place: Place) -> None:
        self.number = number
        self.node = node
        self.place = place
        self.used: Opened | None = None  # by the op in progress
        self.op: Op | None = None
        self.sent = False  # whether the op was passed to a client: before that it certainly did not happen
        self.deadline_ns = 0
        self.task: asyncio.Task[None] | None = None


class Processes:
    """All client threads of a test.

    Args:
        completed: called with every completion right after it was recorded; the thread is idle again by then, and
            carries a new process if the old one crashed.
        broken: called with an error that must end the run.
    """

    def __init__(
        self,
        test: Test,
        deployment: Deployment,
        clock: Clock,
        journal: Journal,
        *,
        completed: Callable[[int, Op], None],
        broken: Callable[[Exception], None],
    ) -> None:
        self._test = test
        self._deployment = deployment
        self._clock = clock
        self._journal = journal
        self._completed = completed
        self._broken = broken
        self._prototype = validate.client(test.workload.client)
        self._in_sight: list[asyncio.Task[None]] = []
        self.threads = [Thread(i, test.node_of(i), place) for i, place in enumerate(places(test))]

    async def set_up(self) -> None:
        """Let one client prepare what the workload needs.

        Raises:
            DefiniteError: its node could not be reached.
            TimeoutError: a step took longer than allowed.
        """
        limit_s = max(10.0, self._test.op_timeout_s) + self._test.late_s
        client = await within(
            self._clock, limit_s, self._prototype.open(self._test, self._deployment, self._test.nodes[0])
        )
        try:
            await within(self._clock, limit_s, client.setup(self._test))
        finally:
            await self._close(client)

    def start(self, number: int, op: Op) -> None:
        """Let an idle thread carry out an invocation that was just recorded."""
        thread = self.threads[number]
        assert thread.op is None, f"thread {number} is busy"
        thread.op = op
        thread.sent = False
        thread.deadline_ns = self._clock.now_ns() + round(self._test.timeout_s(op.f) * 1e9)
        thread.task = asyncio.get_running_loop().create_task(self._perform(thread, op))

    def expire(self, now_ns: int) -> None:
        """End every op that timed out: `info`, or `fail` if it was never sent. Its task is cancelled."""
        for thread in self.threads:
            op = thread.op
            if op is None or now_ns < thread.deadline_ns:
                continue
            limit = f"within {self._test.timeout_s(op.f):g} s"
            reached("op timed out" if thread.sent else "op failed before it was sent")
            if thread.sent:
                done = op.complete("info", error=f"timeout: no answer {limit}")
                if thread.used is not None and not self._survives(thread.used, op):
                    thread.place.end(thread.used)  # the last task that uses it closes it
            else:
                done = op.complete("fail", error=f"no connection to {thread.node} {limit}")
                thread.place.give_up_opening()
            task = thread.task
            assert task is not None, "a busy thread has a task"
            self._keep_in_sight(task)
            task.cancel()
            self._end(thread, op, done)

    def hasten(self, deadline_ns: int) -> None:
        """Set the latest deadline of all ops in progress."""
        for thread in self.threads:
            thread.deadline_ns = min(thread.deadline_ns, deadline_ns)

    async def close(self) -> None:
        """Close every client and wait, for a bounded time, for every started task."""
        closing: list[asyncio.Task[None]] = []
        for thread in self.threads:
            used = thread.place.current
            if used is not None:
                thread.place.end(used)
            if thread.op is not None and thread.task is not None:
                thread.op = None
                thread.task.cancel()
                closing.append(thread.task)
            elif used is not None and not used.users:
                closing.append(asyncio.ensure_future(self._close(used.client)))
        await finished(self._clock, 2 * CLOSE_LIMIT_S, [*self._in_sight, *closing])

    async def _perform(self, thread: Thread, op: Op) -> None:
        used, keep = thread.place.current, False
        try:
            if used is None:
                used = await self._open(thread, op)
            used.users += 1
            if thread.op is op:
                thread.used, thread.sent = used, True
                done = await used.client.invoke(self._test, op)
                keep = done.type != "info" or self._survives(used, op)
            else:  # opening took no notice of its cancellation
                done = op
        except asyncio.CancelledError:
            done = op.complete("info", error="the client was cancelled from within")
        except ProtocolError as error:
            done = op.complete("info", error=str(error))
            self._broken(error)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise  # of this process, and of a task that is thrown away
        except BaseException as error:  # also one that is no Exception, such as the outcomes of pytest
            keep = used is not None and self._survives(used, op, error)
            done = await self._failure(thread, op, error, opened=used is not None)
        task = thread.task
        if thread.op is op:
            thread.used = None
            if used is not None and not keep:
                thread.place.end(used)
            self._end(thread, op, done)
        if used is not None:
            used.users -= 1
            if used.is_over and not used.users:
                if task is not None:
                    self._keep_in_sight(task)
                await self._close(used.client)

    async def _open(self, thread: Thread, op: Op) -> Opened:
        """The client for an op whose thread had none; if the op was given up meanwhile, one that only it uses."""
        place = thread.place
        async with place.opening:
            if place.current is not None:
                return place.current
            opened = Opened(await self._prototype.open(self._test, self._deployment, thread.node))
            place.begin(opened, is_late=thread.op is not op)
            return opened

    def _survives(self, used: Opened, op: Op, error: BaseException | None = None) -> bool:
        if not self._test.sharing:
            return False
        try:
            return survives(used.client, op, error)
        except Exception as mistake:
            self._broken(mistake)
            return False

    async def _failure(self, thread: Thread, op: Op, error: BaseException, *, opened: bool) -> Op:
        """How an op ended that raised.

        After a DefiniteError the process lives on, but with a fresh client, unless clients survive in this test: one
        whose connection broke while it was idle would refuse every op from then on.
        """
        if not opened:
            reached("op failed before it was sent")
            await self._clock.sleep_ns(REOPEN_PAUSE_NS)
            return op.complete("fail", error=f"{_blame(error)}no connection to {thread.node}: {describe(error)}")
        if isinstance(error, DefiniteError):
            reached("op refused")
            return op.complete("fail", error=describe(error))
        return op.complete("info", error=f"{_blame(error)}{describe(error)}")

    def _end(self, thread: Thread, op: Op, done: Op) -> None:
        thread.op = None
        if done.type == "info":
            reached("process crashed")
        try:
            completion = self._journal.complete(
                op, done.type, done.value, mops=done.mops, term=done.term, error=done.error
            )
        except Exception as error:
            self._broken(error)
        else:
            self._completed(thread.number, completion)

    def _keep_in_sight(self, task: asyncio.Task[None]) -> None:
        """Remember a task that its thread no longer knows, until it has ended."""
        self._in_sight = [known for known in self._in_sight if not known.done()]
        self._in_sight.append(task)

    async def _close(self, client: Client) -> None:
        try:
            await within(self._clock, CLOSE_LIMIT_S, client.close())
        except ProtocolError as error:
            self._broken(error)
        except (Exception, BlockedError):
            pass  # the op was answered, and a connection that fails to close is gone as well


def _blame(error: BaseException) -> str:
    """How the error of an op begins that ended because of a mistake in its client's code; else nothing.

    Python itself raises its own errors where code is wrong (`TypeError`, `KeyError`); libraries raise errors of theirs.
    Those of operating systems and of streams that end are of the network.
    """
    of_python = type(error).__module__ == "builtins" and not isinstance(error, (OSError, EOFError, BaseExceptionGroup))
    return CLIENT_FAILED if of_python or not isinstance(error, Exception) else ""


def describe(error: BaseException) -> str:
    """An exception in one line, as histories carry it: its type, unless it is one of the two that clients speak in."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # an error of a plug-in that cannot even say what it is
        text = "(its __str__ failed)"
    if isinstance(error, (DefiniteError, IndefiniteError, BlockedError)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
