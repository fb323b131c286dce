"""A run from nothing to nothing: what is refused, what is closed, what is said."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from worlds import (
    FakeClient,
    FakeNemesis,
    MemoryBackend,
    MemoryDeployment,
    MemoryRecorder,
    MemorySession,
    MemorySystem,
    make_test,
)

from splitbrain import Stop, real_runtime, run
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import Support
from splitbrain.harness.contract.nodes import NodeStatus
from splitbrain.harness.generators import invoke, once
from splitbrain.harness.running import lifecycle
from splitbrain.results.errors import (
    BackendError,
    FaultNotSupportedError,
    NodeStartError,
    RunEndedError,
    RunNotBegunError,
)


class Folder:
    """A run's folder in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.history = MemoryRecorder()
        self.made = 0

    def __call__(self) -> Folder:
        self.made += 1
        return self

    def history_writer(self) -> MemoryRecorder:
        return self.history


def go(test: Any, backend: Any, folder: Folder, **options: Any) -> Any:
    return asyncio.run(run(test, backend=backend, folder=folder, runtime=real_runtime(1), **options))


def test_a_run_starts_every_node_and_closes_everything(tmp_path: Path) -> None:
    deployment = MemoryDeployment()
    for node in deployment.nodes:
        deployment.states[node] = NodeStatus("stopped", 0)
    backend, folder = MemoryBackend(deployment), Folder(tmp_path)
    test = make_test(FakeClient(), nemesis=FakeNemesis(), faults=once(invoke("kill")))
    summary = go(test, backend, folder)
    assert summary.failure is None
    assert summary.ok
    assert backend.swept == 1
    assert [deployment.states[node].life >= 1 for node in deployment.nodes] == [True] * 3
    assert (deployment.closed, folder.made, folder.history.closed) == (1, 1, True)


class NobodyLeft:
    """A membership that notes whether the nodes were up when it was to forget who had left."""

    def __init__(self, deployment: MemoryDeployment) -> None:
        self._deployment = deployment
        self.states: list[set[str]] = []

    def begin(self) -> None:
        self.states.append({status.state for status in self._deployment.states.values()})

    def unsettled(self, node: str) -> bool:
        return False

    def settle(self, node: str) -> None:
        raise NotImplementedError

    async def members(self, deployment: Deployment, node: str) -> dict[str, str]:
        raise NotImplementedError

    async def remove(self, deployment: Deployment, asked: str, node: str, member: str) -> None:
        raise NotImplementedError

    async def add(self, deployment: Deployment, asked: str, node: str) -> str:
        raise NotImplementedError


def test_every_run_of_a_system_begins_with_nobody_having_left(tmp_path: Path) -> None:
    deployment = MemoryDeployment()
    system, members = MemorySystem(), NobodyLeft(deployment)
    system.capabilities = dataclasses.replace(system.capabilities, membership=members)
    test = dataclasses.replace(make_test(FakeClient()), system=system)
    for runs in (1, 2):
        for node in deployment.nodes:
            deployment.states[node] = NodeStatus("stopped", 0)
        assert go(test, MemoryBackend(deployment), Folder(tmp_path)).failure is None
        assert members.states == [{"stopped"}] * runs


def test_a_fault_that_the_backend_cannot_inject_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    deployment, folder = MemoryDeployment(), Folder(tmp_path)
    test = make_test(FakeClient(), nemesis=FakeNemesis(), faults=once(invoke("kill")))
    with pytest.raises(FaultNotSupportedError) as caught:
        go(test, MemoryBackend(deployment, works=False), folder)
    assert "memory backend cannot inject 'kill' here: memory has no network. Leave what needs" in str(caught.value)
    assert (folder.made, deployment.closed) == (0, 0)


def test_without_faults_an_unable_backend_will_do(tmp_path: Path) -> None:
    assert go(make_test(FakeClient()), MemoryBackend(MemoryDeployment(), works=False), Folder(tmp_path)).ok > 10


def test_a_node_that_does_not_start_ends_the_run_with_everything_closed(tmp_path: Path) -> None:
    class Broken(MemoryDeployment):
        async def start(self, node: str) -> NodeStatus:
            if node == "n2":
                raise NodeStartError("n2 ended at once: port in use")
            return await super().start(node)

    deployment, folder = Broken(), Folder(tmp_path)
    with pytest.raises(NodeStartError, match="n2 ended at once"):
        go(make_test(FakeClient()), MemoryBackend(deployment), folder)
    assert (deployment.closed, folder.history.closed) == (1, True)


def test_nodes_that_never_agree_are_named_within_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "START_LIMIT_S", 0.3)
    system = MemorySystem()
    system.leaders = {"n3": None}
    deployment = MemoryDeployment()
    with pytest.raises(NodeStartError, match=r"did not become usable within 0\.3 s: n3 knows no leader\. Their logs"):
        go(make_test(FakeClient(), system=system), MemoryBackend(deployment), Folder(tmp_path))
    assert deployment.closed == 1


def test_a_node_that_ended_is_not_waited_for_because_nobody_starts_it_again(tmp_path: Path) -> None:
    class Ends(MemoryDeployment):
        async def status(self, node: str) -> NodeStatus:
            ended = NodeStatus("stopped", 1, {"exit": "exit code 1", "log": "no space left", "by_itself": True})
            return ended if node == "n2" else self.states[node]

    deployment = Ends()
    with pytest.raises(NodeStartError) as caught:
        go(make_test(FakeClient()), MemoryBackend(deployment), Folder(tmp_path))
    assert str(caught.value) == (
        "the nodes did not become usable: n2 is stopped (exit code 1: no space left). Their logs are in the folder of "
        "the run, under nodes."
    )
    assert deployment.closed == 1


def test_an_interruption_before_the_test_began_is_said_and_cleaned_up(tmp_path: Path) -> None:
    system = MemorySystem()
    system.leaders = {"n3": None}
    stop, deployment = Stop(), MemoryDeployment()
    stop.request()
    with pytest.raises(RunNotBegunError, match="interrupted before its nodes were up"):
        go(make_test(FakeClient(), system=system), MemoryBackend(deployment), Folder(tmp_path), stop=stop)
    assert deployment.closed == 1


def test_closing_that_fails_does_not_hide_the_summary(tmp_path: Path) -> None:
    class Stuck(MemoryDeployment):
        async def close(self) -> None:
            raise BackendError("n2 cannot be stopped")

    folder = Folder(tmp_path)
    summary = go(make_test(FakeClient()), MemoryBackend(Stuck()), folder)
    assert isinstance(summary.failure, BackendError)
    assert summary.ok
    assert folder.history.closed


def test_an_error_before_the_test_wins_over_one_of_closing(tmp_path: Path) -> None:
    class Broken(MemoryDeployment):
        async def start(self, node: str) -> NodeStatus:
            raise NodeStartError("n1 ended at once")

        async def close(self) -> None:
            raise BackendError("cannot be stopped")

    with pytest.raises(NodeStartError, match="n1 ended at once") as caught:
        go(make_test(FakeClient()), MemoryBackend(Broken()), Folder(tmp_path))
    assert caught.value.__notes__ == ["Closing the deployment failed as well: cannot be stopped"]


def test_who_looks_at_the_nodes_does_so_while_the_test_runs_and_no_longer(tmp_path: Path) -> None:
    deployment, seen = MemoryDeployment(), []

    async def look(nodes: Deployment) -> None:
        seen.append(nodes.nodes)
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(deployment.closed)

    assert go(make_test(FakeClient()), MemoryBackend(deployment), Folder(tmp_path), beside=look).failure is None
    assert seen == [deployment.nodes, 0], "it ended before the deployment was closed"


def test_an_error_of_who_looks_at_the_nodes_is_none_of_the_run(tmp_path: Path) -> None:
    async def look(nodes: Deployment) -> None:
        raise RuntimeError("blind")

    summary = go(make_test(FakeClient()), MemoryBackend(MemoryDeployment()), Folder(tmp_path), beside=look)
    assert (summary.failure, summary.ok > 10) == (None, True)


def test_a_backend_that_does_not_work_at_all_is_no_fault_that_could_be_left_out(tmp_path: Path) -> None:
    class Absent(MemoryBackend):
        def support(self) -> dict[str, Support]:
            raise BackendError("the memory backend does not work here: there is none. Install some.")

    deployment, folder = MemoryDeployment(), Folder(tmp_path)
    with pytest.raises(BackendError, match=r"^the memory backend does not work here: there is none\. Install some\.$"):
        go(make_test(FakeClient(), nemesis=FakeNemesis()), Absent(deployment), folder)
    assert (folder.made, deployment.closed) == (0, 0)


@pytest.mark.parametrize("stuck", ["client", "nemesis", "heal", "deploy"])
def test_a_third_request_ends_a_run_at_once_whatever_it_waits_for(tmp_path: Path, stuck: str) -> None:
    stop, waits = Stop(), asyncio.Event()

    async def wait_for_ever() -> Any:
        waits.set()
        await asyncio.get_running_loop().create_future()

    class Client(FakeClient):
        async def open(self, test: Any, deployment: Deployment, node: str) -> FakeClient:
            return await wait_for_ever() if stuck == "client" else await super().open(test, deployment, node)

    class Nemesis(FakeNemesis):
        async def invoke(self, context: Any, op: Any) -> Any:
            return await wait_for_ever() if stuck == "nemesis" else await super().invoke(context, op)

        async def heal(self, context: Any) -> Any:
            return await wait_for_ever() if stuck == "heal" and not waits.is_set() else await super().heal(context)

    class Backend(MemoryBackend):
        async def deploy(self, test: Any, run_dir: Path, runtime: Any) -> Any:
            return await wait_for_ever() if stuck == "deploy" else await super().deploy(test, run_dir, runtime)

    async def go_and_ask() -> None:
        test = make_test(Client(), nemesis=Nemesis(), faults=once(invoke("kill")), time_limit_s=0.2)
        running = asyncio.create_task(
            run(test, backend=Backend(deployment), folder=folder, runtime=real_runtime(1), stop=stop)
        )
        await waits.wait()
        for _ in range(4):
            stop.request()
        await running

    deployment, folder = MemoryDeployment(), Folder(tmp_path)
    with pytest.raises(RunEndedError, match="ended at once"):
        asyncio.run(asyncio.wait_for(go_and_ask(), 60))
    assert deployment.closed == (0 if stuck == "deploy" else 1)
    assert folder.history.closed


def test_a_third_request_while_the_nodes_are_being_stopped_lets_them_be_stopped(tmp_path: Path) -> None:
    stop, stopped = Stop(), list[str]()

    class Slow(MemoryDeployment):
        async def close(self) -> None:
            for _ in range(4):
                stop.request()
                await asyncio.sleep(0)
            stopped.append("all")

    with pytest.raises(RunEndedError, match="ended at once"):
        go(make_test(FakeClient(), time_limit_s=0.1), MemoryBackend(Slow()), Folder(tmp_path), stop=stop)
    assert stopped == ["all"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("call", ["view", "read"])
@pytest.mark.parametrize(
    ("error", "is_ours"),
    [(KeyError("role"), True), (TypeError("no"), True), (ValueError("KeyError: of the system"), False)],
)
def test_no_system_is_blamed_where_the_code_that_asks_it_fails(
    call: str, error: Exception, is_ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "START_LIMIT_S", 0.3)

    async def fails(*_: object) -> None:
        raise error

    system = MemorySystem()
    monkeypatch.setattr(*((system, "view") if call == "view" else (MemorySession, "read")), fails)
    test = make_test(FakeClient(), system=system)
    if is_ours:
        with pytest.raises(NodeStartError, match=type(error).__name__):
            go(test, MemoryBackend(MemoryDeployment()), Folder(tmp_path), blames_system=True)
    else:
        summary = go(test, MemoryBackend(MemoryDeployment()), Folder(tmp_path), blames_system=True)
        assert (summary.failure, summary.ops) == (None, 0)


def test_where_only_the_system_can_be_at_fault_nodes_that_never_agree_are_a_finding_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "START_LIMIT_S", 0.3)
    system, deployment, folder = MemorySystem(), MemoryDeployment(), Folder(tmp_path)
    system.leaders = {"n3": None}
    summary = go(make_test(FakeClient(), system=system), MemoryBackend(deployment), folder, blames_system=True)
    assert (summary.failure, summary.ops, summary.rows, deployment.closed) == (None, 0, 2, 1)
    problems = {"n3": "knows no leader"}
    assert folder.history.notes("started") == [
        {"seconds": None, "waited_s": 0.3, "missing": ["n3"], "problems": problems}
    ]
