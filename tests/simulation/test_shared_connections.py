"""Clients of the metadata cluster that share a connection (`--sharing`): it goes on, and a broken one is replaced."""

from __future__ import annotations

from typing import Final

import pytest

from splitbrain.checkers import engine
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import Session
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.systems.metadata import Metadata
from tests.cli.test_arguments import OPTIONS

GIVEN: Final = {
    **OPTIONS,
    "backend": "sim",
    "workload": "register",
    "nemesis": "kill-all",
    "concurrency": "4n",
    "time_limit": 8.0,
    "interval": 2.0,
    "rate": 100.0,
}


def test_a_shared_connection_outlives_unknown_outcomes_and_not_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    connect, made = Metadata.connect, list[NodeId]()

    async def counted(self: Metadata, deployment: Deployment, node: NodeId) -> Session:
        session = await connect(self, deployment, node)
        made.append(node)
        return session

    monkeypatch.setattr(Metadata, "connect", counted)
    connections: dict[int, int] = {}
    for sharing in (0, 4):
        made.clear()
        test = compose(RunOptions.of(**{**GIVEN, "sharing": sharing}))
        left = simulate(test)
        verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
        assert [verdict.checker for verdict in verdicts if verdict.valid == "false"] == []
        answering = {op.node for op in left.ops[-len(left.ops) // 4 :] if op.process >= 0 and op.type == "ok"}
        assert answering == {*test.nodes}, "a connection that died with its node is replaced"
        assert any(op.type == "info" for op in left.ops if op.process >= 0)
        connections[sharing] = len(made)
    assert connections[4] < connections[0] / 2
