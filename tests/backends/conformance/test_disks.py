"""Faults of disks and of power: nodes get the errors, and files are as they should be afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest

from splitbrain.harness.contract.faults import DiskFault, FaultKind
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.results.errors import FaultNotSupportedError, NodeStartError
from tests.backends.conformance.adapters import REAL
from tests.backends.conformance.measures import stores, took_s, until
from tests.backends.conformance.nodes import Nodes
from tests.backends.conformance.rows import Measurement, Row

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
real = pytest.mark.parametrize("row", REAL, indirect=True)


async def healed_disk(nodes: Nodes) -> Mapping[str, Any]:
    """Heal the disk of n1, which may cost its node; it runs and writes afterwards."""
    did = await nodes.deployment.spoil("n1", None)
    if (await nodes.deployment.status("n1")).state == "stopped":
        await nodes.deployment.start("n1")
    await stores(nodes)
    return did


async def met(nodes: Nodes) -> bool | None:
    """Heal the disk of n1; whether the node met its fault, None where the backend says that it could not count."""
    did = await healed_disk(nodes)
    if did.get("uncounted"):
        return None
    counts = [did[name] for name in ("failed_calls", "refused_writes", "failed_syncs", "failed_writes") if name in did]
    assert counts
    return any(counts)


def refuses(fault: DiskFault, wrote: str | None, synced: str | None = None) -> Callable[[Nodes], Awaitable[None]]:
    async def measure(nodes: Nodes) -> None:
        await stores(nodes)
        await nodes.deployment.spoil("n1", fault)
        assert not await met(nodes), "the node does nothing"
        await nodes.deployment.spoil("n1", fault)
        said = await nodes.ask("n1", "write")
        assert said["wrote"] == wrote
        assert wrote is not None or said["synced"] == synced
        await stores(nodes, "n2")
        assert await met(nodes) is not False

    return measure


async def disk_slow(nodes: Nodes) -> None:
    async def is_slow() -> bool:
        return await took_s(lambda: stores(nodes)) >= 0.5

    async def is_quick(node: NodeId = "n1") -> bool:
        return await took_s(lambda: stores(nodes, node)) < 0.5

    await until("a sync that does not wait", is_quick)
    await nodes.deployment.spoil("n1", DiskFault(slow_ms=1000))
    await until("a sync that waits", is_slow)
    await until("a sync of another node", lambda: is_quick("n2"))
    did = await healed_disk(nodes)
    assert did["slowed_syncs"] >= 1
    for _ in range(3):
        await until("a sync that does not wait", is_quick)


async def disk_rot(nodes: Nodes) -> None:
    await stores(nodes)
    before = await nodes.ask("n1", "read")
    await nodes.deployment.kill("n1")
    assert (await nodes.deployment.spoil("n1", DiskFault(rot=1)))["rotten"]
    await nodes.deployment.start("n1")
    rotten = await nodes.ask("n1", "read")
    assert rotten["size"] == before["size"]
    assert rotten["checksum"] != before["checksum"]
    await nodes.deployment.kill("n1")
    await nodes.deployment.spoil("n1", None)
    await nodes.deployment.start("n1")
    assert await nodes.ask("n1", "read") == before


async def disk_truncate(nodes: Nodes) -> None:
    size = await stores(nodes)
    await nodes.deployment.kill("n1")
    assert (await nodes.deployment.spoil("n1", DiskFault(truncate=1)))["truncated"]
    await nodes.deployment.start("n1")
    left = (await nodes.ask("n1", "read"))["size"]
    assert size - 512 <= left < size
    await nodes.deployment.spoil("n1", None)
    assert await stores(nodes) == left + 5000, "what was cut off is gone, what is written stays"


async def membership(nodes: Nodes) -> None:
    """What backends do of it: a node that is stopped loses all that it wrote, and no loss of power brings it back."""
    await stores(nodes)
    await nodes.deployment.kill("n1")
    assert (await nodes.deployment.spoil("n1", DiskFault(wipe=True)))["wiped"] >= 1
    await nodes.deployment.power_off("n1")
    await nodes.deployment.spoil("n1", None)
    await nodes.deployment.start("n1")
    assert (await nodes.ask("n1", "read"))["size"] == 0
    assert await stores(nodes) == 5000
    assert await stores(nodes, "n2") > 0


async def power(nodes: Nodes) -> None:
    async def loses() -> bool:
        size = await stores(nodes)
        assert (await nodes.ask("n1", "append"))["size"] == size + 100
        assert (await nodes.deployment.power_off("n1")).state == "stopped"
        await nodes.deployment.start("n1")
        left = (await nodes.ask("n1", "read"))["size"]
        assert size <= left <= size + 100, "what was synced stays"
        return left < size + 100

    size = await stores(nodes)
    assert (await nodes.ask("n1", "append"))["size"] == size + 100
    await nodes.deployment.kill("n1")
    await nodes.deployment.start("n1")
    assert (await nodes.ask("n1", "read"))["size"] == size + 100, "a kill alone loses nothing"
    await until("a loss of what was not synced", loses)
    await stores(nodes)


MEASUREMENTS: Final[dict[FaultKind, Measurement]] = {
    "disk-full": refuses(DiskFault(full=True), "ENOSPC"),
    "disk-read-only": refuses(DiskFault(read_only=True), "EROFS"),
    "disk-fails": refuses(DiskFault(fails=True), "EIO"),
    "disk-sync": refuses(DiskFault(sync_fails=True), None, "EIO"),
    "disk-slow": disk_slow,
    "disk-rot": disk_rot,
    "disk-truncate": disk_truncate,
    "power": power,
    "membership": membership,
}


@pytest.mark.parametrize("kind", MEASUREMENTS)
def test_a_disk_has_its_fault_until_it_is_healed_and_no_other_disk_has_it(row: Row, kind: FaultKind) -> None:
    row.measure_fault(kind, MEASUREMENTS[kind])


@real
@pytest.mark.parametrize(
    ("kind", "fault", "error", "survives"),
    [
        ("disk-full", DiskFault(full=True), "ENOSPC", True),
        ("disk-sync", DiskFault(sync_fails=True), "EIO", True),
        ("disk-read-only", DiskFault(read_only=True), "EROFS", False),
        ("disk-fails", DiskFault(fails=True), "EIO", False),
    ],
    ids=["full", "sync fails", "read-only", "fails"],
)
def test_the_evidence_of_a_disk_that_fails_has_the_error_and_how_many_calls_met_it(
    row: Row, kind: FaultKind, fault: DiskFault, error: str, survives: bool
) -> None:
    async def measure(nodes: Nodes) -> None:
        await stores(nodes)
        assert (await nodes.deployment.spoil("n1", fault))["errno"] == error
        await nodes.ask("n1", "write")
        did = await nodes.deployment.spoil("n1", None)
        assert did["errno"] == error
        assert did["failed_calls"] >= 1
        assert bool(did.get("killed")) is not survives, "a failed file system is mounted again without its node"
        assert ((await nodes.deployment.status("n1")).state == "running") is survives
        await nodes.deployment.start("n1")
        await stores(nodes)
        assert await nodes.deployment.spoil("n1", None) == {}

    row.needs(kind)
    row.measure(measure)


@real
def test_a_node_that_is_started_on_a_disk_that_fails_says_why(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        await nodes.deployment.kill("n2")
        await nodes.deployment.spoil("n2", DiskFault(fails=True))
        with pytest.raises(NodeStartError, match=r"^n2 (cannot be started|ended at once)"):
            await nodes.deployment.start("n2")
        await nodes.deployment.spoil("n2", None)
        await nodes.deployment.start("n2")
        await stores(nodes, "n2")

    row.needs("disk-fails")
    row.measure(measure)


@real
def test_a_node_that_waits_for_a_slow_disk_can_be_killed(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        await stores(nodes)
        await nodes.deployment.spoil("n1", DiskFault(slow_ms=200))
        for _ in range(5):
            await stores(nodes)
        assert (await nodes.deployment.kill("n1")).state == "stopped"
        did = await nodes.deployment.spoil("n1", None)
        assert did["freezes"] >= 1
        assert did["slowed_syncs"] >= 1
        await nodes.deployment.start("n1")

    row.needs("disk-slow")
    row.measure(measure)


@real
def test_the_evidence_of_a_loss_of_power_has_how_much_was_lost(row: Row) -> None:
    async def is_lost(nodes: Nodes) -> bool:
        size = await stores(nodes)
        await nodes.ask("n1", "append")
        status = await nodes.deployment.power_off("n1")
        assert (status.state, status.evidence["exit"]) == ("stopped", "SIGKILL")
        await nodes.deployment.start("n1")
        left = (await nodes.ask("n1", "read"))["size"]
        # Of other files, and of what an earlier fault kept from the disk, something may be gone, too.
        assert status.evidence["bytes_lost"] >= size + 100 - left
        assert status.evidence["names_lost"] == 0
        return left == size  # what the node did not sync, the machine may have

    async def measure(nodes: Nodes) -> None:
        await until("a loss of what was not synced", lambda: is_lost(nodes))

    row.needs("power")
    row.measure(measure)


@real
def test_files_are_damaged_only_while_their_node_is_stopped_and_the_evidence_says_where(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        size = await stores(nodes)
        with pytest.raises(FaultNotSupportedError, match="only while it is stopped"):
            await nodes.deployment.spoil("n1", DiskFault(rot=1))
        await nodes.deployment.kill("n1")
        ((name, offset, mask),) = (await nodes.deployment.spoil("n1", DiskFault(rot=1)))["rotten"]
        assert (name, offset < size, mask.bit_count()) == ("written", True, 1)
        assert await nodes.deployment.spoil("n1", None) == {"mended": 1}
        ((name, before, left),) = (await nodes.deployment.spoil("n1", DiskFault(truncate=1)))["truncated"]
        assert (name, before) == ("written", size)
        await nodes.deployment.start("n1")
        assert (await nodes.ask("n1", "read"))["size"] == left < size

    row.needs("disk-rot")
    row.measure(measure)
