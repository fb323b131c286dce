"""Ops of several requests have more time, and what judges progress knows of it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.judges import with_judges
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodePlace
from splitbrain.harness.systems import tables
from splitbrain.harness.systems.etcd import system as etcd
from splitbrain.harness.systems.etcd.system import Etcd
from splitbrain.harness.systems.tables import TableStore

OPTIONS: dict[str, Any] = {
    "nemesis": "none",
    "system": "metadata",
    "backend": "sim",
    "bug": "",
    "nodes": "3",
    "concurrency": "2n",
    "rate": 100.0,
    "time_limit": 8.0,
    "interval": None,
    "op_timeout": 1.5,
    "recovery": 10.0,
    "seed": 1,
}


@pytest.mark.parametrize(("workload", "longest_s"), [("register", 1.5), ("projections", 6.0)])
def test_progress_is_judged_by_the_longest_timeout_of_the_ops(workload: str, longest_s: float) -> None:
    test = with_judges(compose(RunOptions.of(**OPTIONS, workload=workload)), SimBackend())
    [spec] = [spec for spec in test.workload.checkers if spec.name == "quorum-progress"]
    assert spec.options["op_timeout_s"] == longest_s
    assert test.timeout_s("write") == 1.5


@pytest.mark.parametrize(("op_timeout_s", "request_ms"), [(0.5, 1500), (2.0, 1500), (5.0, 3750)])
def test_requests_have_more_time_where_ops_have_more(op_timeout_s: float, request_ms: int) -> None:
    test = compose(RunOptions.of(**{**OPTIONS, "op_timeout": op_timeout_s}, workload="register"))
    assert test.request_timeout_ms == request_ms


@pytest.mark.parametrize(("given_ms", "asked_ms"), [(None, 3750), (100, 100)])
@pytest.mark.parametrize("kind", [TableStore, Etcd])
def test_sessions_are_given_the_time_of_the_test_unless_the_system_was_given_one(
    kind: type[TableStore] | type[Etcd], given_ms: int | None, asked_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    async def opened(*_: object) -> None: ...

    def session(*arguments: Any, **named: Any) -> None:
        seen.append(named.get("timeout_ms", arguments[-1]))

    monkeypatch.setattr(f"{tables.__name__}._client", opened)
    monkeypatch.setattr(f"{tables.__name__}.TablesSession", session)
    monkeypatch.setattr(kind, "_gateway", opened, raising=False)
    monkeypatch.setattr(f"{etcd.__name__}.EtcdSession", session)
    test = compose(RunOptions.of(**{**OPTIONS, "op_timeout": 5.0}, workload="register"))
    system = kind(request_timeout_ms=given_ms)
    system.command(test, NodePlace("n1", "data", ("10.0.0.1", 1), {}, home="image"))
    asyncio.run(system.connect(cast(Deployment, None), "n1"))
    assert seen == [asked_ms]
