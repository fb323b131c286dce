"""The one scheduler of a run: asks the generator for ops, passes them to idle threads, and updates the generator with
their completions.

Everything happens in one task and in a fixed order. The scheduler never waits for a client or a node; it waits for its
alarm, which completions ring, and which goes off by itself when the generator wants to be asked again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from splitbrain.harness import validate
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.generator import idle_until
from splitbrain.harness.contract.test import NemesisContext, Test
from splitbrain.harness.generators import Context, Generator, Pending
from splitbrain.harness.running.deadlines import Alarm
from splitbrain.harness.running.injector import Injector
from splitbrain.harness.running.journal import Journal
from splitbrain.harness.running.processes import Processes
from splitbrain.results.history import NEMESIS, Op


class Scheduler:
    """Drives generators over the threads of a test, one generator after the other.

    Attributes:
        processes: who carries out client ops.
        injector: who carries out nemesis ops; None in a test without a nemesis.
        failure: the error that must end the run, once there is one.
    """

    def __init__(self, test: Test, deployment: Deployment, runtime: Runtime, journal: Journal) -> None:
        self._processes_of_threads = [*range(test.concurrency), NEMESIS]
        injects = test.nemesis.nemesis is not None
        threads = ((2 if injects else 1) << test.concurrency) - 1
        self._context = Context(
            time_ns=0,
            free=threads,
            threads=threads,
            processes=self._processes_of_threads,
            concurrency=test.concurrency,
            nodes=test.nodes,
            rng=runtime.streams["workload"],
            nemesis_rng=runtime.streams["nemesis"],
            placement=test.placement,
        )
        self._nodes = [self._context.node_of(thread) for thread in range(test.concurrency + 1)]
        self._journal = journal
        self._alarm = Alarm(runtime.clock)
        self._events: deque[tuple[int, Op, int]] = deque()  # thread, event, and time of the test
        self._idle_until_ns = 0  # the generator has nothing to do before, whatever ops of clients end
        self.failure: Exception | None = None
        self.processes = Processes(
            test, deployment, runtime.clock, journal, completed=self._completed, broken=self.broken
        )
        self.injector: Injector | None = None
        if test.nemesis.nemesis is not None:
            self.injector = Injector(
                validate.nemesis(test.nemesis.nemesis),
                NemesisContext(test, deployment, runtime),
                journal,
                completed=self._injected,
                broken=self.broken,
            )

    def broken(self, error: Exception) -> None:
        """Take note of an error that must end the run; the first one counts."""
        if self.failure is None:
            self.failure = error
        self._alarm.ring()

    def wake(self) -> None:
        """Let `drive` look again when it shall end."""
        self._alarm.ring()

    async def drive(self, generator: Generator, end_ns: Callable[[], int | None] = lambda: None) -> None:
        """Carry out everything that the generator emits, then wait until the last op has ended.

        Args:
            generator: what to do.
            end_ns: the time of the test from which on nothing more is emitted, None for no such time; asked whenever
                the scheduler wakes (see `wake`), so that it may change.

        Raises:
            ProtocolError: the generator, a client or the nemesis broke its contract.
        """
        context = self._context
        remaining: Generator | None = generator
        self._idle_until_ns = 0
        while True:
            remaining = self._take_events(remaining)
            until_ns, wake_ns = end_ns(), None
            if until_ns is not None and context.time_ns >= until_ns:
                remaining, self._idle_until_ns = None, 0
            if remaining is not None and context.time_ns < self._idle_until_ns:
                wake_ns = self._idle_until_ns if until_ns is None else min(self._idle_until_ns, until_ns)
            elif remaining is not None:
                remaining, wake_ns = self._emit(remaining, until_ns)
            if self.failure is not None:
                raise self.failure
            if remaining is None and context.free == context.threads:
                return
            await self._alarm.wait(None if wake_ns is None else wake_ns + self._journal.started_ns)

    async def close(self) -> None:
        """Close every client; forget what has not ended."""
        await self.processes.close()
        self._alarm.close()

    def _emit(self, generator: Generator, until_ns: int | None) -> tuple[Generator | None, int | None]:
        """Start ops until the generator waits or ends; what remains of it, and when it wants to be asked again."""
        context, journal = self._context, self._journal
        while True:
            context.time_ns = journal.time_ns()
            result = validate.emitted(generator, context)
            if result is None:
                self._idle_until_ns = 0
                return None, None
            op, generator = result
            if type(op) is Pending:
                self._idle_until_ns = idle_until(generator)
                return generator, _earlier(op.until_ns, until_ns)
            thread = context.thread_of(op.process)
            context.free &= ~(1 << thread)
            # Recorded before it is sent: the interval of an op must contain the moment at which it takes effect.
            invocation = journal.invoke(op, self._nodes[thread])
            generator = validate.updated(generator, context, invocation)
            if thread < context.concurrency:
                self.processes.start(thread, invocation)
            else:
                assert self.injector is not None, "without a nemesis its thread is never free"
                self.injector.start(invocation)
            # Asked for an op, it would say the same, in many more words.
            self._idle_until_ns = idle_until(generator)
            if self._idle_until_ns > context.time_ns:
                return generator, _earlier(self._idle_until_ns, until_ns)

    def _take_events(self, generator: Generator | None) -> Generator | None:
        """Show the generator every completion since the last time, as of its own time."""
        context = self._context
        while self._events:
            thread, event, context.time_ns = self._events.popleft()
            # Freed here and not at the completion: a generator must see that before it is asked for the thread's next
            # op.
            context.free |= 1 << thread
            if event.type == "info" and thread < context.concurrency:
                # The op may still take effect: a process invokes nothing after an op without a known end (Jepsen).
                self._processes_of_threads[thread] += context.concurrency
            if thread == context.concurrency:
                self._idle_until_ns = 0
            if generator is not None:
                generator = validate.updated(generator, context, event)
        context.time_ns = self._journal.time_ns()
        return generator

    def _completed(self, thread: int, completion: Op) -> None:
        time_ns = self._journal.time_ns()
        self._events.append((thread, completion, time_ns))
        # Nothing comes of it before the alarm goes off by itself.
        if time_ns >= self._idle_until_ns:
            self._alarm.ring()

    def _injected(self, completion: Op) -> None:
        self._events.append((self._context.concurrency, completion, self._journal.time_ns()))
        self._alarm.ring()


def _earlier(a_ns: int | None, b_ns: int | None) -> int | None:
    """The earlier one of two times; None is never."""
    if a_ns is None or b_ns is None:
        return b_ns if a_ns is None else a_ns
    return min(a_ns, b_ns)
