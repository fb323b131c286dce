"""Shares of the processor: a node gets its share only, also after it was started again, until the limit is lifted."""

from __future__ import annotations

import pytest

from splitbrain.harness.contract.nodes import NodeId
from tests.backends.conformance.adapters import REAL
from tests.backends.conformance.measures import took_s, until
from tests.backends.conformance.nodes import Nodes
from tests.backends.conformance.rows import Row

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
real = pytest.mark.parametrize("row", REAL, indirect=True)


async def cpu(nodes: Nodes) -> None:
    async def works(node: NodeId) -> bool:
        return await took_s(lambda: nodes.ask(node, "work")) < 3.0

    await until("work that is done at once", lambda: works("n1"))
    await nodes.deployment.throttle("n1", 0.05)
    assert not await works("n1")
    await until("work of another node", lambda: works("n2"))
    assert (await nodes.deployment.throttle("n1", None))["throttled"] > 0
    await until("work that is done at once", lambda: works("n1"))


def test_a_node_gets_its_share_of_the_processor_until_the_limit_is_lifted(row: Row) -> None:
    row.measure_fault("cpu", cpu)


@real
def test_a_limit_outlives_the_process_for_which_it_was_set(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        assert await nodes.deployment.throttle("n1", 0.1) == {}
        await nodes.deployment.kill("n1")
        await nodes.deployment.start("n1")
        await nodes.ask("n1", "time")
        assert await took_s(lambda: nodes.ask("n1", "work")) >= 1.0, "0.2 s of work, at a tenth of a processor"
        assert (await nodes.deployment.throttle("n1", None))["throttled"] >= 4
        assert await nodes.deployment.throttle("n1", None) == {}, "without a limit it never waits"

    row.needs("cpu")
    row.measure(measure)
