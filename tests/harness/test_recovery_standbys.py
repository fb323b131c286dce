"""A standby may refuse reads of a system that is usable; the node that leads may not, and nothing else is excused."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
from virtual import in_virtual_time
from worlds import FakeClient, MemoryDeployment, MemorySession, MemorySystem, make_test

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import Answer, DefiniteError, Session, StandbyError
from splitbrain.harness.running.recovery import until_usable


class Refusing(MemorySession):
    def __init__(self, system: MemorySystem, refusal: Exception) -> None:
        super().__init__(system)
        self._refusal = refusal

    async def read(self, key: str) -> Answer:
        raise self._refusal


class WithStandbys(MemorySystem):
    """Some nodes refuse reads."""

    def __init__(self, refusals: Mapping[NodeId, Exception], standbys: bool) -> None:
        super().__init__()
        self.capabilities = dataclasses.replace(self.capabilities, standbys=standbys)
        self._refusals = refusals

    async def connect(self, deployment: Deployment, node: NodeId) -> Session:
        return Refusing(self, self._refusals[node]) if node in self._refusals else MemorySession(self)


NONE: set[NodeId] = set()
STANDBY, OTHER = StandbyError("it follows n1"), DefiniteError("it is deaf")


@pytest.mark.parametrize(
    ("refusals", "standbys", "problems"),
    [
        ({"n2": STANDBY, "n3": STANDBY}, True, NONE),
        ({"n1": STANDBY}, True, {"n1"}),
        ({"n2": OTHER}, True, {"n2"}),
        ({"n2": STANDBY}, False, {"n2"}),
    ],
    ids=["standbys", "the leader refuses", "another error", "a system without standbys"],
)
def test_only_standbys_may_refuse_reads(
    refusals: Mapping[NodeId, Exception], standbys: bool, problems: set[NodeId]
) -> None:
    test = dataclasses.replace(make_test(FakeClient()), system=WithStandbys(refusals, standbys))
    found = in_virtual_time(lambda clock: until_usable(test, MemoryDeployment(), clock, 0.3))
    assert set(found.problems) == problems
