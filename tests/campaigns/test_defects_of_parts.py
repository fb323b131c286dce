"""A defect of a user's part is a harness error that says so, with a report; it neither blames the system nor passes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from examples.own_nemesis import EXILE, Exile
from splitbrain import Client, Effect, Metadata, NemesisContext, Op, Test, Workload, carry_out, run_and_judge
from splitbrain.checkers.models import CasRegister
from splitbrain.checkers.verdict import CheckerSpec, Outcome
from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.campaigns.judging import Conclusion
from splitbrain.nemesis import catalogue as nemeses
from splitbrain.nemesis.kinds import Kind
from splitbrain.results.errors import ProtocolError
from tests.campaigns.test_library_runs import SECONDS, made


class Broken(CasRegister):
    """A model with a defect in its code."""

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        return cast("dict[str, Any]", state)["missing"]


class NeverHeals(Exile):
    """It reports that its links are whole, and leaves them cut."""

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        if op.f != "return":
            return await super().invoke(context, op)

        async def nothing(effect: Effect) -> None:
            effect.target = "all links"

        return await carry_out(context, op, nothing, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        return


class Fails(Exile):
    """Its code is wrong."""

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        raise ValueError("nodes are counted from one")


def with_nemesis(nemesis: type[Exile], monkeypatch: pytest.MonkeyPatch) -> Test:
    kind: Kind[Any] = dataclasses.replace(EXILE, nemesis=nemesis)
    monkeypatch.setattr("examples.own_nemesis.EXILE", kind)
    package = nemeses.build(["examples.own_nemesis:EXILE"], interval_s=2, time_limit_s=SECONDS)
    return made(nemesis=package)


class _Wrapped:
    """A client that does something else before each op."""

    def __init__(self, inner: Client, before: Callable[[Op], None]) -> None:
        self._inner, self._before = inner, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def open(self, *arguments: Any) -> _Wrapped:
        return _Wrapped(await self._inner.open(*arguments), self._before)

    async def invoke(self, test: Test, op: Op) -> Op:
        self._before(op)
        return await self._inner.invoke(test, op)


def looks_at_the_clock_and_hides_it(_: Op) -> None:
    try:
        time.time()
    except Exception:
        return


def judged(test: Test, folder: Path) -> Conclusion:
    found = run_and_judge(test, SimBackend(), folder)
    assert found.outcome is Outcome.HARNESS_ERROR
    assert found.report.exists()
    assert found.harness_error is not None
    return found


def test_a_nemesis_that_leaves_a_fault_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(with_nemesis(NeverHeals, monkeypatch), tmp_path)
    assert "the nemesis healed, but the deployment still shows cut: n" in str(found.harness_error)
    assert not [verdict for verdict in found.verdicts if verdict.valid == "false"]


def test_a_nemesis_that_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(with_nemesis(Fails, monkeypatch), tmp_path)
    assert "ValueError: nodes are counted from one" in str(found.harness_error)


@pytest.mark.slow
def test_a_client_that_looks_at_the_clock_inside_a_simulation(tmp_path: Path) -> None:
    workload: Workload = made().workload
    client = cast("Client", _Wrapped(workload.client, looks_at_the_clock_and_hides_it))
    found = judged(made(workload=dataclasses.replace(workload, client=client)), tmp_path)
    assert "time.time was called inside a simulation" in str(found.harness_error)


@pytest.mark.slow
def test_a_model_that_raises(tmp_path: Path) -> None:
    spec = CheckerSpec("linearizable", {"model": f"{__name__}:Broken"})
    found = judged(made(workload=dataclasses.replace(made().workload, checkers=(spec,))), tmp_path)
    assert "model 'cas-register' failed on read" in str(found.harness_error)
    assert {verdict.checker: verdict.valid for verdict in found.verdicts}["coverage"] == "true"


class WithoutTelemetry(Metadata):
    """The code that says where its telemetry is has a defect."""

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        raise KeyError(node_dir.name)


def test_a_system_whose_telemetry_raises(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="system 'metadata': telemetry for node raised KeyError: 'node'"):
        run_and_judge(made(system=WithoutTelemetry()), SimBackend(), tmp_path)
