"""The lifecycle of one test: deploy, start, run, close. Judging comes later, from the history."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from splitbrain.harness import validate
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faultkinds import supported
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.test import Backend, Test
from splitbrain.harness.running.deadlines import together
from splitbrain.harness.running.journal import Recorder
from splitbrain.harness.running.recovery import Ended, OwnProblem, until_usable
from splitbrain.harness.running.runner import (
    END_NOW,
    RunSummary,
    Stop,
    as_harness_error,
    note_no_start,
    run_test,
)
from splitbrain.results.errors import (
    FaultNotSupportedError,
    NodeStartError,
    RunEndedError,
    RunNotBegunError,
)
from splitbrain.results.history import Op

if TYPE_CHECKING:
    from pathlib import Path  # noqa: TID251 - for types; the store does the work

_ENDED = "the run was ended at once; what was recorded until then is kept."

START_LIMIT_S = math.inf
"""For all systems how long nodes may take until they are usable; each has its own limit (`Capabilities.start_s`)."""


class HistoryFile(Recorder, Protocol):
    """A recorder that comes to an end. `splitbrain.results.wal.HistoryWriter` is one."""

    def close(self) -> None:
        """Mark the history as complete."""
        ...


class RunFolder(Protocol):
    """Where a run leaves what it leaves. `splitbrain.results.rundir.RunDir` is one."""

    path: Path

    def history_writer(self) -> HistoryFile:
        """Begin the history."""
        ...


def check_support(test: Test, backend: Backend) -> None:
    """Whether the backend can inject every fault that the test asks for.

    Raises:
        FaultNotSupportedError: it cannot.
        BackendError: it does not work here at all.
    """
    support = supported(backend, test.system)
    for kind in sorted(test.nemesis.faults):
        if not support[kind].works:
            raise FaultNotSupportedError(
                f"the {backend.name} backend cannot inject {kind!r} here: {support[kind].how.rstrip('.')}. Leave what "
                f"needs {kind!r} out of --nemesis {test.nemesis.name}. (splitbrain doctor lists what works here)"
            )


async def run(
    test: Test,
    *,
    backend: Backend,
    folder: Callable[[], RunFolder],
    runtime: Runtime,
    observe: Callable[[Op], None] | None = None,
    began: Callable[[int], None] | None = None,
    beside: Callable[[Deployment], Coroutine[Any, Any, None]] | None = None,
    stop: Stop | None = None,
    blames_system: bool = False,
) -> RunSummary:
    """Run a test on a backend. In any case every node is stopped and every fault is healed afterwards.

    Args:
        test: what to do.
        backend: where the nodes live. Leftovers of earlier controllers that were killed are swept first.
        folder: makes the folder of the run; called only after everything that can be refused was checked.
        runtime: time and randomness.
        observe: called with every op right after it was recorded.
        began: called with what the clock shows at time 0 of the history, before the first op.
        beside: runs while the test does, and is cancelled at its end: for who only looks at the nodes. What it raises
            ends it, and not the run.
        stop: asks the run to end early. A third request ends it at once: nodes are killed and faults healed, nothing
            more is recorded.
        blames_system: whether nodes that do not become usable can only be the fault of their own code: then the run
            ends without a test, and its history says so, for a checker to judge.

    Raises:
        RunEndedError: it was asked to end a third time.
        FaultNotSupportedError: the backend cannot do what the nemesis needs; nothing was started or written.
        BackendError: the nodes could not be deployed or (NodeStartError) did not come up.
        ProtocolError: the backend or the system broke its contract before the test began.
    """
    stop = stop or Stop()
    test = dataclasses.replace(test, system=validate.system(test.system))
    members = test.system.capabilities.membership
    if members is not None:
        members.begin()
    upgrades = test.system.capabilities.upgrades
    if upgrades is not None:
        upgrades.begin(old="upgrade" in test.nemesis.faults)
    backend = validate.backend(backend)
    backend.sweep()
    check_support(test, backend)
    run_folder = folder()
    history = run_folder.history_writer()
    cancel = _cancelling(stop)
    stop.listen(cancel)
    try:
        deployment = await backend.deploy(test, run_folder.path, runtime)
        try:
            problems = await _bring_up(test, deployment, runtime, stop, waits_for_ended=blames_system)
            is_ours = not blames_system or any(isinstance(each, OwnProblem) for each in problems.values())
            if problems and is_ours:
                raise _not_usable(problems, None if _has_ended(problems) else _start_limit_s(test))
            if problems:
                summary = note_no_start(problems, _start_limit_s(test), runtime, history, observe=observe, began=began)
            else:
                async with _beside(beside, deployment):
                    summary = await run_test(
                        test, deployment, runtime, history, observe=observe, began=began, stop=stop
                    )
        except BaseException as error:
            stop.forget(cancel)  # what follows must complete, also after more requests
            await _close_after(error, deployment)
            raise
        stop.forget(cancel)
        closed = await _close(deployment, summary)
        if stop.requests >= END_NOW:
            raise RunEndedError(_ENDED)
        return closed
    except asyncio.CancelledError:
        if stop.requests < END_NOW:
            raise
        raise RunEndedError(_ENDED) from None
    finally:
        stop.forget(cancel)
        history.close()


def _cancelling(stop: Stop) -> Callable[[], None]:
    """Cancels the task in which this is called, at the third request."""
    task = asyncio.current_task()

    def cancel() -> None:
        if stop.requests == END_NOW and task is not None:
            task.cancel()

    return cancel


async def _bring_up(
    test: Test, deployment: Deployment, runtime: Runtime, stop: Stop, *, waits_for_ended: bool
) -> Mapping[NodeId, str]:
    """Start all nodes and wait until the system is usable; who is no member yet need not be.

    With `waits_for_ended` the wait is as long if a node has ended, which is in vain, but shows what others do then.

    Returns what was wrong at the end of the wait, by node.
    """
    for started in await together([deployment.start(node) for node in test.nodes]):
        if isinstance(started, Exception):
            raise started
    members = test.system.capabilities.membership
    nodes = [node for node in test.nodes if members is None or not members.unsettled(node)]
    usable = await until_usable(
        test,
        deployment,
        runtime.clock,
        _start_limit_s(test),
        nodes=nodes,
        go_on=lambda: not stop.requests,
        starts_again=waits_for_ended,
    )
    if usable.seconds is None and stop.requests:
        raise RunNotBegunError("the run was interrupted before its nodes were up; nothing was tested.")
    return usable.problems


def _start_limit_s(test: Test) -> float:
    return min(START_LIMIT_S, test.system.capabilities.start_s)


def _has_ended(problems: Mapping[NodeId, str]) -> bool:
    return any(isinstance(problem, Ended) for problem in problems.values())


def _not_usable(problems: Mapping[NodeId, str], limit_s: float | None) -> NodeStartError:
    """The error of nodes that were waited for so long; None if the wait ended because a node has."""
    ended = {node: problem for node, problem in problems.items() if isinstance(problem, Ended)}
    listed = "; ".join(f"{node} {problem.rstrip('.')}" for node, problem in (ended or problems).items())
    within = "" if limit_s is None else f" within {limit_s:g} s"
    return NodeStartError(
        f"the nodes did not become usable{within}: {listed}. Their logs are in the folder of the run, under nodes."
    )


@asynccontextmanager
async def _beside(
    look: Callable[[Deployment], Coroutine[Any, Any, None]] | None, deployment: Deployment
) -> AsyncGenerator[None]:
    """Let `look` run while the context lasts."""
    if look is None:
        yield
        return
    task = asyncio.create_task(look(deployment))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _close(deployment: Deployment, summary: RunSummary) -> RunSummary:
    """Close the deployment; the summary takes on an error of closing, unless it has one already."""
    try:
        await deployment.close()
    except Exception as error:
        return msgspec.structs.replace(summary, failure=summary.failure or as_harness_error(error))
    return summary


async def _close_after(error: BaseException, deployment: Deployment) -> None:
    """Close the deployment after an error; that error is the one that is raised."""
    try:
        await deployment.close()
    except Exception as closing:
        error.add_note(f"Closing the deployment failed as well: {closing}")
