"""The procedure of a test on a running system: faults, heal, final, quiet; it heals in any case.

    faults   the workload at the test's rate, beside the nemesis, for the test's time limit
    heal     the nemesis undoes everything; then a bounded wait until the system is usable again
    final    the workload's last ops, final reads for instance
    quiet    nothing at all: a bounded wait until the replicas of a system with elections have met

Each phase is announced in the history by an op of the harness (`f` "phase"); so is that no fault is in force any more
and all nodes were started ("healed"), how far the hosts' clocks are from the controller's ("clocks", see
`splitbrain.results.clocks`), the end of the recovery ("recovered") and of the quiet wait ("converged"), nodes that
stopped by themselves ("crash"), stalls of the controller ("stall"), requests to end early ("interrupted"), and the end
of all this ("ended"). A run whose nodes never were usable has two ops alone ("started" and "ended").
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from splitbrain.harness.contract import offsets
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import Deployment, Surroundings
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import ClockOffset, NodeId
from splitbrain.harness.contract.test import Test
from splitbrain.harness.generators import Generator, beside, clients, elsewhere, nemesis, rate, time_limit
from splitbrain.harness.running.blocked import BlockedError
from splitbrain.harness.running.crashes import Watched, must_not_end, watch_nodes
from splitbrain.harness.running.journal import Journal, Recorder
from splitbrain.harness.running.processes import describe
from splitbrain.harness.running.quiet import until_converged
from splitbrain.harness.running.recovery import in_words, until_usable
from splitbrain.harness.running.scheduler import Scheduler
from splitbrain.harness.running.watch import tick_ns, watch
from splitbrain.results.errors import HarnessError, ProtocolError, SplitbrainError, SystemUnderTestError
from splitbrain.results.history import Op
from splitbrain.results.reasons import ADVICE_FOR_BLOCKED

FINAL_LIMIT_S = 60.0
"""The timeout of the final phase: after it no more ops begin."""

LATE_WAITS = 12
"""So many times as long as something may arrive late (`Test.late_s`) is added to that: each answer that does not come
may have a workload wait so long, and ask again, of queues first and then of their dead letters.
"""

STOPPED_RECOVERY_S = 3.0
"""How long an interrupted run waits for recovery."""

STOPPED_FINAL_S = 2.0
"""How long the final phase of an interrupted run lasts."""

STOPPED_QUIET_S = 1.0
"""How long the quiet phase of an interrupted run lasts at most."""

END_NOW = 3
"""After this number of requests a run is cancelled at once."""

ENDED_HEAL_S = 5.0
"""How long the nemesis of a run that is ended may take to heal; what it leaves, the end of the deployment removes."""

STOPPED_OP_NS = 500_000_000
"""Timeout of the ops in progress when a run is interrupted."""


class Stop:
    """Asks a run to end early: once for a short, clean end; twice to skip the final phase as well; three times to be
    ended at once, without waiting (see `splitbrain.harness.running.lifecycle.run`).
    """

    def __init__(self) -> None:
        self.requests = 0
        self.why = ""
        self._listeners: list[Callable[[], None]] = []

    def request(self, why: str = "") -> None:
        """Ask (again). Safe to call from a signal handler of the event loop, and before the run began.

        Args:
            why: what was wrong, if the harness itself asks; "" for a person.
        """
        self.requests += 1
        self.why = self.why or why
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` at each request from now on."""
        self._listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Call `listener` no more."""
        self._listeners = [known for known in self._listeners if known != listener]


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How a run went; what clients saw is in the history.

    Attributes:
        started_ns: what the runtime's clock showed at time 0 of the history.
        ops: how many ops clients invoked.
        ok, fail, info: how many of them ended in each way.
        rows: how many rows the history has: invocations and completions, those of the nemesis and the harness too.
        recovered_s: how long the healed system took until every node answered; None if it did not, or was not asked.
        interrupted: whether the run was asked to end early.
        failure: what ended the run before its time, an error of the harness or of a plug-in; its history is kept.
    """

    started_ns: int
    ops: int
    ok: int
    fail: int
    info: int
    rows: int
    recovered_s: float | None
    interrupted: bool
    failure: SplitbrainError | None


async def run_test(
    test: Test,
    deployment: Deployment,
    runtime: Runtime,
    recorder: Recorder,
    *,
    observe: Callable[[Op], None] | None = None,
    began: Callable[[int], None] | None = None,
    stop: Stop | None = None,
) -> RunSummary:
    """Run a test on a deployment whose nodes are up.

    Errors of the harness and of plug-ins end the run early and are returned in the summary: what was recorded until
    then stays and can be judged. Faults are healed in any case, also when the calling task is cancelled.

    Args:
        test: what to do.
        deployment: the nodes; they are left running.
        runtime: time and randomness.
        recorder: keeps the history.
        observe: called with every op right after it was recorded, for live progress.
        began: called with what the clock shows at time 0 of the history, before the first op.
        stop: asks the run to end early.
    """
    journal = Journal(runtime.clock, recorder, observe)
    if began is not None:
        began(journal.started_ns)
    run = _Run(test, deployment, runtime, journal, stop or Stop())
    failure = await run.carry_out()
    return RunSummary(
        started_ns=journal.started_ns,
        ops=journal.invoked,
        **journal.completed,
        rows=journal.recorded,
        recovered_s=run.recovered_s,
        interrupted=run.stop.requests > 0,
        failure=failure,
    )


def note_no_start(
    problems: Mapping[NodeId, str],
    waited_s: float,
    runtime: Runtime,
    recorder: Recorder,
    *,
    observe: Callable[[Op], None] | None = None,
    began: Callable[[int], None] | None = None,
) -> RunSummary:
    """Record, instead of a test, that nodes were not usable within `waited_s` of their start, and what was wrong."""
    reached("no start")
    journal = Journal(runtime.clock, recorder, observe)
    if began is not None:
        began(journal.started_ns)
    value = {"seconds": None, "waited_s": waited_s, "missing": list(problems), "problems": in_words(problems)}
    journal.note("started", value)
    journal.note("ended", {})
    journal.flush()
    return RunSummary(
        started_ns=journal.started_ns,
        ops=0,
        **journal.completed,
        rows=journal.recorded,
        recovered_s=None,
        interrupted=False,
        failure=None,
    )


class _Run:
    def __init__(self, test: Test, deployment: Deployment, runtime: Runtime, journal: Journal, stop: Stop) -> None:
        self._test = test
        members = test.system.capabilities.membership
        may_end = members.unsettled if members is not None else must_not_end
        self._deployment = Watched(deployment, journal, may_end, test.system.capabilities.gives_up)
        self._clock = runtime.clock
        self._journal = journal
        self._scheduler = Scheduler(test, self._deployment, runtime, journal)
        self._healed = False
        self._clock_offsets: Mapping[NodeId, ClockOffset] | None = None
        self.stop = stop
        self.recovered_s: float | None = None

    async def carry_out(self) -> SplitbrainError | None:
        """The whole procedure; the error that cut it short, if any."""
        scheduler = self._scheduler
        pulse = asyncio.ensure_future(
            watch(
                self._clock,
                self._journal,
                tick_ns(self._test.op_timeout_s),
                scheduler.processes.expire,
                scheduler.broken,
            )
        )
        look_out = asyncio.ensure_future(watch_nodes(self._clock, self._deployment, scheduler.broken))
        failure: SplitbrainError | None = None
        try:
            await self._compare_clocks()
            await self._set_up()
            if self.stop.requests:
                self._stop_requested()
            self.stop.listen(self._stop_requested)
            await self._faults()
            await self._heal()
            await self._final()
            await self._quiet()
            await self._compare_clocks()
        except BlockedError as error:
            failure = ProtocolError(f"{error}. {ADVICE_FOR_BLOCKED}")
        except Exception as error:
            failure = as_harness_error(error)
        finally:
            self.stop.forget(self._stop_requested)
            look_out.cancel()
            failure = await self._leave(failure)
            pulse.cancel()
        return failure

    async def _compare_clocks(self) -> None:
        """Note how far the hosts' clocks are from the controller's; the second time, how far they were meanwhile."""
        before, now = self._clock_offsets, await self._deployment.offsets()
        self._clock_offsets = now if before is None else offsets.all_between(before, now)
        if self._clock_offsets and self._clock_offsets != before:
            self._journal.note("clocks", offsets.noted(self._clock_offsets))

    async def _set_up(self) -> None:
        package = self._test.nemesis
        if package.nemesis is None and (package.generator or package.final_generator) is not None:
            raise ProtocolError(f"nemesis package {package.name!r} has a generator, but no nemesis to carry it out.")
        try:
            await self._scheduler.processes.set_up()
        except ProtocolError:
            raise
        except Exception as error:
            raise SystemUnderTestError(
                f"workload {self._test.workload.name!r} could not prepare {self._test.nodes[0]}: {describe(error)}"
            ) from error

    async def _faults(self) -> None:
        test = self._test
        self._phase("faults")
        ops = test.workload.generator
        load = ops if test.is_timed else rate(test.rate, ops, burst=test.burst)
        generator: Generator = clients(time_limit(test.time_limit_s, load))
        if test.nemesis.generator is not None:
            generator = beside(generator, nemesis(time_limit(test.time_limit_s, test.nemesis.generator)))
        await self._scheduler.drive(generator, lambda: 0 if self.stop.requests else None)

    async def _heal(self) -> None:
        self._phase("heal")
        # The nemesis's own last ops come first: they are recorded with what the faults did. `_undo` removes the rest.
        if self._test.nemesis.final_generator is not None:
            await self._scheduler.drive(nemesis(self._test.nemesis.final_generator))
        await self._undo()
        # After the faults are gone: on a bad disk a node could stop again at once.
        await self._deployment.restart()
        # Checkers take all links for open and all nodes for running from here on (`checkers.quorum.windows`).
        self._journal.note("healed", {})
        began_ns = self._clock.now_ns()

        def go_on() -> bool:
            waited_ns = self._clock.now_ns() - began_ns
            return not self.stop.requests or (self.stop.requests == 1 and waited_ns < STOPPED_RECOVERY_S * 1e9)

        usable = await until_usable(
            self._test,
            self._deployment,
            self._clock,
            recovery_limit_s(self._test, self._deployment.surroundings),
            go_on=go_on,
            lists_members="membership" in self._test.nemesis.faults,
        )
        self.recovered_s = usable.seconds
        if usable.seconds is None:
            reached("no recovery")
            missing = [node for node in self._test.nodes if node in usable.problems]
            self._journal.note(
                "recovered", {"seconds": None, "missing": missing, "problems": in_words(usable.problems)}
            )
        else:
            if usable.seconds > self._test.system.election_timeout_s:
                reached("recovery took an election")
            self._journal.note("recovered", {"seconds": round(usable.seconds, 3)})

    async def _final(self) -> None:
        generator = self._test.workload.final_generator
        if generator is None or self.stop.requests > 1:
            return
        if self._test.system.capabilities.standbys:
            generator = elsewhere(generator)
        self._phase("final")
        reached("final phase")
        began_ns = self._journal.time_ns()
        limit_s = FINAL_LIMIT_S + LATE_WAITS * self._test.late_s

        def end_ns() -> int:
            if self.stop.requests > 1:
                return 0
            return began_ns + round((STOPPED_FINAL_S if self.stop.requests else limit_s) * 1e9)

        await self._scheduler.drive(clients(generator), end_ns)

    async def _quiet(self) -> None:
        elections = self._test.system.capabilities.elections
        if elections is None or self.stop.requests > 1:
            return
        self._phase("quiet")
        began_ns = self._clock.now_ns()

        def go_on() -> bool:
            waited_ns = self._clock.now_ns() - began_ns
            return not self.stop.requests or (self.stop.requests == 1 and waited_ns < STOPPED_QUIET_S * 1e9)

        bound_s = elections.under(self._test.settings).bound_s
        limit_s = bound_s if self._test.quiet_s is None else self._test.quiet_s
        quiet = await until_converged(self._test, self._deployment, self._clock, limit_s, go_on=go_on)
        if quiet.seconds is None:
            reached("replicas did not meet")
            self._journal.note("converged", {"seconds": None, "applied": quiet.applied})
        else:
            reached("replicas met")
            self._journal.note("converged", {"seconds": round(quiet.seconds, 3), "applied": quiet.applied})

    async def _undo(self) -> None:
        if self._scheduler.injector is not None and not self._healed:
            await self._scheduler.injector.heal(ENDED_HEAL_S if self.stop.requests >= END_NOW else None)
        self._healed = True

    async def _leave(self, failure: SplitbrainError | None) -> SplitbrainError | None:
        """Heal what is not yet healed, close clients, flush; the first error is the one that counts."""
        # Healing first, as a fault that stays outlives the run; flushing last, as the others may still record
        # something.
        for step in (self._heal_after_failure, self._end, self._scheduler.close, self._flush):
            try:
                await step()
            except BlockedError as error:
                failure = failure or ProtocolError(f"{error}. {ADVICE_FOR_BLOCKED}")
            except Exception as error:
                failure = failure or as_harness_error(error)
        return failure

    async def _heal_after_failure(self) -> None:
        if not self._healed:
            await self._undo()

    async def _end(self) -> None:
        # A history without this has lost its end (`checkers.coverage.controller`). Noted before clients are closed,
        # which may take seconds: the last phase lasts until here.
        self._journal.note("ended", {})

    async def _flush(self) -> None:
        self._journal.flush()

    def _phase(self, name: str) -> None:
        self._journal.note("phase", {"phase": name})

    def _stop_requested(self) -> None:
        try:
            why = {"why": self.stop.why} if self.stop.why else {}
            self._journal.note("interrupted", {"requests": self.stop.requests, **why})
        except Exception as error:
            self._scheduler.broken(error)
        self._scheduler.processes.hasten(self._clock.now_ns() + STOPPED_OP_NS)
        self._scheduler.wake()


def recovery_limit_s(test: Test, surroundings: Surroundings) -> float:
    """How long the cluster may take once all is healed, in seconds.

    Only a simulated start returns before its node is up, so that its time counts.
    """
    return test.recovery_s if surroundings.links is not None else test.recovers_within_s


def as_harness_error(error: Exception) -> SplitbrainError:
    """The error itself if it is a SplitbrainError; else a HarnessError with it as the cause."""
    if isinstance(error, SplitbrainError):
        return error
    wrapped = HarnessError(f"the run ended early: {describe(error)}. This is a defect: --debug shows where.")
    wrapped.__cause__ = error
    return wrapped
